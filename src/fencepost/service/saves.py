"""Saves: the Monitor as it was after some position of the row log, so that a restart need not replay all of it.

    DIR/00000000000000831200.monitor   what Monitor.save(rules=True) writes, with a seal of its own
    DIR/00000000000000831200.save      where in the logs that was, and the keys of late, sealed; written last

The last two are kept. One that is damaged is refused, never passed over in silence.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fencepost._files.whole import delete_dead_drafts, make_folder, write_whole
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.watching.sealed import check_seal, make_seal

_MARK = b"fencepost save 1"
_DIGITS = 20
_KEPT = 2


class Save(NamedTuple):
    """A Monitor, and where it stands."""

    position: int
    """Of the last record of the row log that is in it."""
    monitor: Monitor
    about: dict[str, Any]


class Saves:
    """The saves of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._needs: dict[int, tuple[int, int]] = {}
        """Of the saves that this process wrote or loaded, the last event in each and the version in force."""
        make_folder(directory)
        delete_dead_drafts(directory, anew=True)

    def positions(self) -> list[int]:
        """Of all saves, ascending."""
        return sorted(int(path.stem) for path in self._directory.glob("[0-9]*.save"))

    def oldest(self) -> int:
        """The position behind which the row log is needed."""
        return next(iter(self.positions()), 0)

    def needs(self) -> tuple[int, int]:
        """The event behind which a restart from the oldest save needs them, and the first version that it needs."""
        return self._needs.get(self.oldest(), (0, 0))

    def _note(self, position: int, about: dict[str, Any]) -> None:
        kept = set(self.positions())
        self._needs = {each: needs for each, needs in self._needs.items() if each in kept}
        self._needs[position] = int(about["event"]), int(about["version"].get("version", 0))

    def write(self, position: int, monitor: Monitor, about: dict[str, Any]) -> None:
        """Keep a Monitor, then drop what is too old."""
        monitor.save(self._file(position, "monitor"), rules=True)
        content = json.dumps(about).encode()
        seal = make_seal(_MARK, np.frombuffer(content, np.uint8))
        write_whole(self._file(position, "save"), content + seal, ours=True)
        for old in self.positions()[:-_KEPT]:
            self._file(old, "save").unlink(missing_ok=True)
        kept = {*self.positions(), position}
        for path in self._directory.iterdir():
            if path.suffix == ".monitor" and int(path.stem) not in kept:
                path.unlink(missing_ok=True)
        self._note(position, about)

    def last_event(self) -> int:
        """The last event before the last save, up to which all events were synced; 0 where there is no save."""
        positions = self.positions()
        return int(self._about(positions[-1])["event"]) if positions else 0

    def load(self) -> Save | None:
        """The last save."""
        positions = self.positions()
        if not positions:
            return None
        about = self._about(positions[-1])
        self._note(positions[-1], about)
        return Save(positions[-1], Monitor.load(self._file(positions[-1], "monitor")), about)

    def _about(self, position: int) -> dict[str, Any]:
        """What is known of a save beside its Monitor."""
        path = self._file(position, "save")
        content, fault = check_seal(_MARK, np.fromfile(path, np.uint8))
        if fault is not None:
            raise FencepostError(
                f"{path}, which {fault}",
                "a save as the service wrote it",
                "Restore the file, or delete it to go on from the save before.",
            )
        about: dict[str, Any] = json.loads(content.tobytes())
        return about

    def _file(self, position: int, ending: str) -> Path:
        return self._directory / f"{position:0{_DIGITS}}.{ending}"
