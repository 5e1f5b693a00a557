"""A directory of published snapshots: versions 1, 2, ..., each written whole, then announced.

    schema.json          the columns and types of all versions, fixed by the first publisher
    00000001.claim       someone is writing, or was killed while writing, version 1
    00000001/            the snapshot itself
    00000001.published   version 1 is complete; its content repeats the snapshot's digest

Numbers are claimed and versions announced by creating a file that must not exist yet, so that any number of
publishers can work at once on anything that has exclusive creation. A version that was claimed and never announced
is skipped by readers.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from fencepost.errors import FencepostError
from fencepost.snapshot.snapshot import Snapshot

__all__ = ["VersionDirectory"]

_DIGITS = 8


class VersionDirectory:
    """The versions that were published to one path.

    Args:
        path: a directory that every reader and writer can reach; made if it does not exist.

    >>> import tempfile
    >>> versions = VersionDirectory(tempfile.mkdtemp())
    >>> versions.latest() is None
    True
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def versions(self) -> list[int]:
        """The numbers of all complete versions, ascending."""
        return [number for number in self._announced() if self._complete(number)]

    def latest(self) -> int | None:
        """The newest complete version, or None."""
        return next((number for number in reversed(self._announced()) if self._complete(number)), None)

    def _announced(self) -> list[int]:
        return sorted(int(file.stem) for file in self.path.glob(f"{'[0-9]' * _DIGITS}.published"))

    def load(self, version: int | None = None, verify: bool = True) -> Snapshot:
        """One version, the newest if none is named."""
        number = self.latest() if version is None else version
        if number is None or not self._complete(number):
            there = ", ".join(str(v) for v in self.versions()[-5:]) or "none"
            raise FencepostError(
                f"version {number} of {self.path}" if number is not None else f"{self.path} without any version",
                f"a published version (the last are: {there})",
                "Publish rules to the directory, or name a version that is there.",
            )
        return Snapshot.load(self.path / f"{number:0{_DIGITS}}", verify)

    def schema(self) -> dict[str, str] | None:
        """Columns and types that every version has, "key" for a column of strings; None before the first."""
        try:
            found: dict[str, str] = json.loads((self.path / "schema.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def publish(self, compile_version: Callable[[int], Snapshot], schema: Mapping[str, str] | None = None) -> int:
        """Write the next version and announce it; its number.

        Args:
            compile_version: makes the snapshot, given its number.
            schema: columns and types to fix for the directory, if they are not only those that the rules use.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        number = self._claim()
        snapshot = compile_version(number)
        used = {name: str(kind) for name, kind in snapshot.types.items()} | dict.fromkeys(snapshot.keys, "key")
        self._fix_schema({**(schema or {}), **used})
        target = self.path / f"{number:0{_DIGITS}}"
        snapshot.save(target)
        _create(self.path / f"{number:0{_DIGITS}}.published", _digest_of(target) + "\n")
        return number

    def _claim(self) -> int:
        taken = (int(file.stem) for file in self.path.glob(f"{'[0-9]' * _DIGITS}.claim"))
        number = max(taken, default=0) + 1
        while True:
            try:
                _create(self.path / f"{number:0{_DIGITS}}.claim", f"{os.getpid()}\n")
            except FileExistsError:
                number += 1
                continue
            return number

    def _fix_schema(self, needed: Mapping[str, str]) -> None:
        """The first publisher's columns hold for all; a later version may use fewer of them."""
        try:
            _create(self.path / "schema.json", json.dumps(dict(sorted(needed.items()))))
        except FileExistsError:
            fixed = self.schema() or {}
            wrong = {name: kind for name, kind in needed.items() if fixed.get(name) != kind}
            if wrong:
                name, kind = next(iter(wrong.items()))
                has = f"{name} is {fixed[name]} there" if name in fixed else f"it has {', '.join(fixed)}"
                raise FencepostError(
                    f"rules that need {name} as {kind}",
                    f"the columns that {self.path} was first published with ({has})",
                    "Publish to a new directory, or first publish with schema= naming every column.",
                ) from None

    def _complete(self, number: int) -> bool:
        """Whether the announcement was written whole."""
        try:
            announced = (self.path / f"{number:0{_DIGITS}}.published").read_text()
            return announced == _digest_of(self.path / f"{number:0{_DIGITS}}") + "\n"
        except (FileNotFoundError, ValueError, KeyError):
            return False


def _create(file: Path, text: str) -> None:
    """Create a file that must not exist, durably."""
    with file.open("x") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _digest_of(snapshot: Path) -> str:
    digest: str = json.loads((snapshot / "header.json").read_text())["digest"]
    return digest
