"""The settings of a service, and those of them that its data is bound to."""

import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from fencepost._files.whole import PRIVATE_FOLDER, make_folder, read_note, write_note
from fencepost.errors import FencepostError
from fencepost.rules.durations import parse_duration

DEFAULT_DATA = "fencepost-data"
_FORMAT = 2
"""Of the directory. In 1 the log has tables of rows only: it is read, and goes on as 2."""
_RESTORE = "Restore the file, or name a new directory with --data."


@dataclass(frozen=True)
class Limits:
    """How much one call, one reader and the disk may take."""

    body: int = 64 << 20
    """Bytes of a body."""
    rows: int = 1_000_000
    """Rows of a call."""
    rules: int = 100_000
    """Rules of a call."""
    matches: int = 2_000_000
    """Ids of rules in the answer to a match."""
    page: int = 1_000
    """Things on a page."""
    waiting: int = 2_000_000
    """Rows that wait for the engine."""
    behind: int = 100_000
    """Events that a reader of the stream may be behind."""
    stalled: float = 30.0
    """Seconds that it may leave unread what is sent."""
    readers: int = 1_000
    """Readers of the stream at once."""
    rows_age: float = 7 * 86_400.0
    """Seconds that rows are kept; those that a restart needs are kept in any case."""
    rows_bytes: int = 20 << 30
    events_age: float = 30 * 86_400.0
    events_bytes: int = 20 << 30
    save_rows: int = 2_000_000
    """Rows after which the state is saved."""
    save_seconds: float = 300.0
    """Seconds after which it is, where there were any rows."""


@dataclass(frozen=True)
class Settings:
    """Where a service keeps its data, and how it reads rows."""

    data: Path = Path(DEFAULT_DATA)
    book: str | None = None
    """The URL of the rule book; None for one beside the data."""
    object: str = "object"
    time: str = "time"
    timeout: str | None = None
    types: dict[str, str] = field(default_factory=dict)
    """Types of columns that are remembered from the first row on, whether rules use them or not."""
    publish: str = "auto"
    """`auto` lets rules be in force as soon as they are changed, `manual` when somebody publishes."""
    tick: float | None = 60.0
    """Seconds between moves of the clock, and how late rows may come; None where it only moves with rows."""
    limits: Limits = field(default_factory=Limits)

    @property
    def book_url(self) -> str:
        """The URL of the rule book."""
        return self.book or f"sqlite:///{self.data / 'book.db'}"

    @property
    def silence(self) -> timedelta | int | None:
        """How long an object may be silent, as `timeout` says."""
        if self.timeout is None:
            return None
        return int(self.timeout) if self.timeout.isdigit() else parse_duration(self.timeout)

    def bind(self) -> None:
        """Keep what the data is bound to with the data, or refuse settings that differ from it.

        A directory that is begun is this user's alone: all that comes is in there. Later its owner may open it.
        """
        make_folder(self.data, PRIVATE_FOLDER)
        path = self.data / "service.json"
        bound: dict[str, Any] = {"format": _FORMAT, "object": self.object, "time": self.time, "timeout": self.timeout}
        found = read_note(path, {"format": int}, _RESTORE)
        if found is None:
            if not any(self.data.iterdir()):
                with contextlib.suppress(PermissionError):  # a directory of somebody else's, who decides
                    self.data.chmod(PRIVATE_FOLDER)
            write_note(path, bound)
            return
        if found["format"] not in (1, _FORMAT):
            raise FencepostError(f"{path} is of another version", f"version {_FORMAT}", _RESTORE)
        for name, value in bound.items():
            if name != "format" and found.get(name) != value:
                raise FencepostError(
                    f"--{name} {value}",
                    f"{found.get(name)}, with which {self.data} was begun",
                    "Leave it as it was, or name a new directory with --data.",
                )
        if found["format"] != _FORMAT:
            write_note(path, bound)
