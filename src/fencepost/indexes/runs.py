"""The run manager: how production indexes take changes that have no place in what is there.

An index is a few runs, each built once: the bulk, then recent changes that have no place in it. A change is built
together with the runs that are not much larger, so that nothing is built more than O(log n) times (a logarithmic
merge). What is removed is only marked, as a bit, where a structure cannot take it out. Once recent changes, or what is
gone, are so many that readers would notice, all is built anew.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.slice_list.window_kernels import Intervals

_MERGED_FACTOR = 4
"""A run up to so many times as large as a change is built again with it: more builds runs too often."""
_BULK_FACTOR, _ALWAYS_RECENT = 8, 128
"""All is built anew when recent changes exceed this part of the bulk; so many of them are never too many."""


class SizedRun(Protocol):
    """One build, of so many rows."""

    @property
    def size(self) -> int:
        """How many rows it was built from."""


R = TypeVar("R", bound=SizedRun)


class Runs(Generic[R]):
    """The runs of one index: the bulk, then recent changes, each much smaller than the one before."""

    def __init__(self) -> None:
        self._runs: list[R] = []
        self.rows = 0
        """Rows that all runs were built from."""

    def __iter__(self) -> Iterator[R]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: R) -> None:
        """Add a build of recent changes, or the bulk if there is none."""
        self._runs.append(run)
        self.rows += run.size

    def copy(self) -> "Runs[R]":
        """The same runs, which come and go apart from these."""
        other: Runs[R] = Runs()
        other._runs, other.rows = list(self._runs), self.rows
        return other

    def replace_first(self, run: R) -> None:
        """Put a run in the place of the first, for the same rows."""
        self._runs[0] = run

    def take_smaller(self, size: int, least: int = 0, alike: Callable[[R], bool] | None = None) -> list[R]:
        """Take out the recent runs to build again with a change of so many rows, the last one first.

        Runs of fewer than `least` rows are taken whatever the size of the change; only those that are `alike`.
        """
        taken: list[R] = []
        for at in range(len(self._runs) - 1, 0, -1):
            run = self._runs[at]
            rows = run.size
            if rows < max(_MERGED_FACTOR * size, least) and (alike is None or alike(run)):
                del self._runs[at]
                taken.append(run)
                size += rows
                self.rows -= rows
        return taken

    def put_largest_first(self) -> None:
        """Let the largest run be the bulk, where runs need no other order."""
        self._runs.sort(key=lambda run: -run.size)

    @property
    def outgrown(self) -> bool:
        """Whether recent changes are so many that all is to be built anew."""
        bulk = self._runs[0].size
        return self.rows - bulk > bulk / _BULK_FACTOR + _ALWAYS_RECENT


def join_intervals(rows: list[Intervals]) -> Intervals:
    """All of them as one set; they have all groups, or none has."""
    if len(rows) == 1:
        return rows[0]
    return Intervals(*(np.concatenate(columns) for columns in zip(*rows, strict=True)))


def mark_bits(words: Any, positions: Int64s) -> None:
    """Set a bit for each position, in words of 32 or 64 bits."""
    at, bits = _bits_of(words, positions)
    np.bitwise_or.at(words, at, words.dtype.type(1) << bits)


def read_bits(words: Any, positions: Int64s) -> Bools:
    """Whether the bit of each position is set; words that are not there have none."""
    if not len(words):
        return np.zeros(len(positions), np.bool_)
    at, bits = _bits_of(words, positions)
    is_set: Bools = (words[at] >> bits) & words.dtype.type(1) != 0
    return is_set


def _bits_of(words: Any, positions: Int64s) -> tuple[Int64s, Any]:
    """The word of each position, and its bit there."""
    shift, last = (5, 31) if words.itemsize == 4 else (6, 63)
    return positions >> shift, (positions & last).astype(words.dtype)
