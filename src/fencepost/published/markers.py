"""Markers beside the versions of a directory: files whose names say to streams what has come.

    00000001.version        version 1 is there
    1700000000000000.clock  this time has come, in microseconds or numbers

At a path engines take every file as a row of a stream. At a URL streams list the markers at every trigger, so only the
newest of each kind stays: a version and a time stand for all before them.
"""

from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fencepost._files.storage import Place, delete, exists, make_directory, modified, names, put

_DIGITS = {"version": 8, "clock": 20}


def number_of(time: datetime | int) -> int:
    """The number of a time in the name of its marker: microseconds since 1970, without a zone in UTC, or the number."""
    if isinstance(time, int):
        return time
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Markers:
    """The markers of one directory of versions."""

    def __init__(self, path: Place) -> None:
        self.path = path

    def mark_versions(self, announced: Sequence[int]) -> None:
        """Mark the versions that have no marker yet."""
        make_directory(self.path)
        marked = set(self._marked("version"))
        if isinstance(self.path, Path):
            unmarked = [number for number in announced if number not in marked]
        else:
            unmarked = [number for number in announced[-1:] if number > max(marked, default=0)]
        for number in unmarked:
            self._put(number, "version")

    def mark_next(self, number: int, announced: Callable[[], Sequence[int]]) -> None:
        """Mark a version that is new, and any before it that whoever published it could not mark."""
        if number > 1 and not exists(self._file(number - 1, "version")):
            self.mark_versions(announced())
        else:
            make_directory(self.path)
            self._put(number, "version")

    def collect(self, announced: Container[int], oldest: float) -> None:
        """Delete the markers of versions that are gone, and of times, which were written before; the last ones stay."""
        for kind in _DIGITS:
            for number in sorted(self._marked(kind))[:-1]:
                file = self._file(number, kind)
                if (kind == "clock" or number not in announced) and (modified(file) or oldest) < oldest:
                    delete(file)

    def mark_time(self, time: datetime | int) -> None:
        """Mark that a time has come: an instant, without a zone in UTC, or a number."""
        make_directory(self.path)
        self._put(number_of(time), "clock")

    def forget_times(self, kept: int) -> None:
        """Delete all times but the latest: only where the one stream that hears them has taken them."""
        for older in sorted(self._marked("clock"))[:-kept]:
            delete(self._file(older, "clock"))

    def newest(self) -> tuple[int, int | None]:
        """The newest version and the latest time that were marked; 0 and None before the first."""
        return max(self._marked("version"), default=0), max(self._marked("clock"), default=None)

    def _marked(self, kind: str) -> list[int]:
        return [int(name.partition(".")[0]) for name in names(self.path, f"[-0-9]*.{kind}")]

    def _put(self, number: int, kind: str) -> None:
        """The name says it all, but engines skip files without a byte, so it appears with one."""
        put(self._file(number, kind), "\n")
        if not isinstance(self.path, Path):
            for older in self._marked(kind):
                if older < number:
                    delete(self._file(older, kind))

    def _file(self, number: int, kind: str) -> Place:
        return self.path / f"{number:0{_DIGITS[kind]}}.{kind}"
