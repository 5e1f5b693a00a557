"""Markers beside the versions of a directory: files whose names tell streams what has come.

    00000001.version        version 1 is there
    1700000000000000.clock  this time has come, in microseconds or numbers

At a path engines take every file as a row of a stream. At a URL streams list the markers at every trigger, so only the
newest of each kind stays: a version and a time stand for all before them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fencepost._files.storage import Place, delete, make_directory, names, put

_DIGITS = {"version": 8, "clock": 20}


def number_of(time: datetime | int) -> int:
    """The number under which a marker tells a time: microseconds since 1970, without a zone in UTC, or the number."""
    if isinstance(time, int):
        return time
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Markers:
    """The markers of one directory of versions."""

    def __init__(self, path: Place) -> None:
        self.path = path

    def tell_versions(self, announced: Sequence[int]) -> None:
        """Tell of the versions that have not been told."""
        make_directory(self.path)
        told = self._told("version")
        if isinstance(self.path, Path):
            untold = [number for number in announced if number not in told]
        else:
            untold = [number for number in announced[-1:] if number > max(told, default=0)]
        for number in untold:
            self._put(number, "version")

    def tell_time(self, time: datetime | int) -> None:
        """Tell that a time has come: an instant, without a zone in UTC, or a number."""
        make_directory(self.path)
        self._put(number_of(time), "clock")

    def forget_times(self, kept: int) -> None:
        """Delete all times but the latest: only where the one stream that hears them has taken them."""
        for older in sorted(self._told("clock"))[:-kept]:
            delete(self._file(older, "clock"))

    def newest(self) -> tuple[int, int | None]:
        """The newest version and the latest time that were told; 0 and None before the first."""
        return max(self._told("version"), default=0), max(self._told("clock"), default=None)

    def _told(self, kind: str) -> list[int]:
        return [int(name.partition(".")[0]) for name in names(self.path, f"[-0-9]*.{kind}")]

    def _put(self, number: int, kind: str) -> None:
        """The name is all that a marker tells, but engines skip files without a byte, so it appears with one."""
        put(self._file(number, kind), "\n")
        if not isinstance(self.path, Path):
            for older in self._told(kind):
                if older < number:
                    delete(self._file(older, kind))

    def _file(self, number: int, kind: str) -> Place:
        return self.path / f"{number:0{_DIGITS[kind]}}.{kind}"
