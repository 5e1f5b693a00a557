"""Which slot an id has in a slice list, and where the interval in a slot is stored."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, UInt8s, UInt32s, u64
from fencepost.indexes.slice_list.search import Translation


class SlotTable:
    """Slots for ids: the distance from an origin where ids are dense, else positions in a list of ids.

    `owners` has the number of the part that holds a slot's interval, or 0, and `first_windows` its first window there.
    Only writers use them. The list of ids only grows, so that readers can go on translating with an older one.
    """

    def __init__(self) -> None:
        self.translation = Translation(np.zeros(0, np.int64), 0)
        self.listed = False
        self.next = 0
        self.owners: UInt8s = np.zeros(0, np.uint8)
        self.first_windows: UInt32s = np.zeros(0, np.uint32)
        self.borrowed = False

    def map(self, low: int, high: int, count: int) -> None:
        """Make slots for so many ids between `low` and `high`."""
        self.listed = not is_dense(low, high, count)
        self.translation = Translation(np.zeros(0, np.int64), 0 if self.listed else low)
        if not self.listed:
            self.owners = np.zeros(high - low + 1, np.uint8)
            self.first_windows = np.zeros(high - low + 1, np.uint32)

    def reach(self, size: int) -> None:
        """Have at least `size` slots."""
        self.owners = grow(self.owners, size)
        self.first_windows = grow(self.first_windows, size)

    def new(self, ids: Int64s) -> UInt32s:
        """Slots for new ids: their distance from the origin, or the end of the list, ascending with the ids."""
        if not self.listed:
            return (ids - self.translation.origin).astype(np.uint32)
        start, stop = self.next, self.next + len(ids)
        slot_ids = grow(self.translation.slot_ids, stop)
        self.reach(stop)
        order = np.argsort(ids, kind="stable")
        slot_ids[start:stop] = ids[order]
        self.translation = Translation(slot_ids, 0)
        self.next = stop
        slots = np.empty(len(ids), np.uint32)
        slots[order] = np.arange(start, stop)
        return slots

    def find(self, ids: Int64s, runs: Iterable[range]) -> Int64s:
        """The slot of each id that is held, or -1; listed ids ascend within each of the runs."""
        slots = np.empty(len(ids), np.int64)
        slot_ids, origin = self.translation
        if not self.listed:
            find_by_distance(ids, origin, self.owners, slots)
            return slots
        slots[:] = -1
        for run in runs:
            listed = slot_ids[run.start : run.stop]
            at = np.minimum(np.searchsorted(listed, ids), len(listed) - 1)
            found = (listed[at] == ids) & (self.owners[run.start + at] > 0)
            slots[found] = run.start + at[found]
        return slots

    def ids(self, slots: UInt32s) -> Int64s:
        """The ids of slots."""
        return self.translation.ids(slots)

    def own(self) -> None:
        """Copy what a change writes to in place, once, so that arrays we were given stay untouched."""
        if self.borrowed:
            self.owners, self.first_windows = self.owners.copy(), self.first_windows.copy()
            self.borrowed = False


@kernel
def find_by_distance(ids: Int64s, origin: int, owners: UInt8s, slots: Int64s) -> None:
    """The distance of each id from the origin where something is owned, else -1."""
    for i in range(len(ids)):
        within = ids[i] >= origin and u64(ids[i]) - u64(origin) < u64(len(owners))
        slots[i] = ids[i] - origin if within and owners[ids[i] - origin] > 0 else -1


def is_dense(low: int, high: int, count: int) -> bool:
    """Whether ids leave so few gaps that their distance from the lowest can be the slot."""
    return high - low <= 2 * count + 1024


def grow(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array with at least `size` items, new ones 0; a copy with some room where it grows."""
    if size <= len(array):
        return array
    larger = np.zeros((max(size, len(array) + len(array) // 16), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
