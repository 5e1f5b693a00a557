"""Which slot an id has in a slice list, and where the interval in a slot is stored."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, UInt8s, UInt32s, u64
from fencepost.indexes.kernels.id_map import IdMap, empty_map, grown, place_in, set_place
from fencepost.indexes.slice_list.search import Translation, count_below

_WORTH_SEARCHING = 8
"""Ids that are this part of all listed ones are found by halving; the map of fewer ones takes more room each."""

_LEAST_LISTED = 1024
"""Room for ids that are listed behind others."""


class SlotTable:
    """Slots for ids: the distance from an origin where ids are dense, positions in a list of ids where they are not.

    `owners` has the number of the part that holds a slot's interval, or 0, and `first_windows` its first window there.
    Only writers use them. The list of ids only grows, so that readers can go on translating with an older one. An id
    that comes again may have a new position; where an older one is found, nothing owns it.
    """

    def __init__(self) -> None:
        self.translation = Translation(np.zeros(0, np.int64), 0)
        self.listed = False
        self.next = 0
        """How many ids are listed."""
        self.owners: UInt8s = np.zeros(0, np.uint8)
        self.first_windows: UInt32s = np.zeros(0, np.uint32)
        self.borrowed = False
        self._stretches: Int64s = np.zeros((0, 2), np.int64)
        """From where to where listed ids ascend; others are in a map."""
        self._few: IdMap = empty_map()
        self._one = np.zeros(1, np.int64)

    @property
    def mixed(self) -> bool:
        """Whether the ids that are dense have their distance as slot, and others are listed behind them."""
        return self.translation.counted > 0

    def map(self, low: int, high: int, count: int) -> None:
        """Make slots for so many ids between `low` and `high`, of none so far."""
        self.listed = not is_dense(low, high, count)
        self.translation = Translation(np.zeros(0, np.int64), 0 if self.listed else low)
        if not self.listed:
            self.reach(high - low + 1)

    def borrow(
        self, owners: UInt8s, first_windows: UInt32s, translation: Translation, listed: int, stretches: list[range]
    ) -> None:
        """Take what somebody else has, until a change; so many ids are listed, and ascend in these stretches."""
        self.owners, self.first_windows, self.translation = owners, first_windows, translation
        self.listed, self.next = listed > 0, listed
        if self.listed:
            self._stretches = np.array([[each.start, each.stop] for each in stretches], np.int64).reshape(-1, 2)
        self.borrowed = True

    def reaches(self, low: int, high: int, count: int) -> bool:
        """Whether so many ids, some of them between `low` and `high`, can have slots as they have them now."""
        if self.listed or self.mixed:
            return True
        origin = self.translation.origin
        if low < origin or not is_dense(origin, max(high, origin + len(self.owners) - 1), count):
            return False
        self.reach(high - origin + 1)
        return True

    def mix(self) -> None:
        """List the ids that are too far away from the others to be counted."""
        self.translation = Translation(np.zeros(_LEAST_LISTED, np.int64), self.translation.origin, len(self.owners))

    def reach(self, size: int) -> None:
        """Have at least `size` slots."""
        self.owners = grow(self.owners, size)
        self.first_windows = grow(self.first_windows, size)

    def new(self, ids: Int64s) -> UInt32s:
        """Slots for new ids: their distance from the origin, or the end of the list, ascending with the ids."""
        slot_ids, origin, counted = self.translation
        if not self.listed and not self.mixed:
            return (ids - origin).astype(np.uint32)
        slots = np.empty(len(ids), np.uint32)
        near = (ids >= origin) & (ids < origin + counted)
        slots[near] = ids[near] - origin
        far = ids[~near]
        start, stop = self.next, self.next + len(far)
        slot_ids = grow(slot_ids, stop)
        self.reach(counted + stop)
        order = np.argsort(far, kind="stable")
        slot_ids[start:stop] = far[order]
        self.translation = Translation(slot_ids, origin, counted)
        self.next = stop
        places = np.empty(len(far), np.int64)
        places[order] = np.arange(start, stop)
        slots[~near] = counted + places
        if _WORTH_SEARCHING * len(far) >= stop:
            self._stretches = np.append(self._stretches, [[start, stop]], axis=0)
        else:
            self._few = grown(self._few, len(far))
            set_places(self._few, far, places)
        return slots

    def find(self, ids: Int64s) -> Int64s:
        """The slot of each id that is held, or -1."""
        if not len(self.owners):
            return np.full(len(ids), -1)
        slots = np.empty(len(ids), np.int64)
        slot_ids, origin, counted = self.translation
        near = 0 if self.listed else counted or len(self.owners)
        find_slots(ids, origin, near, self.owners, slot_ids, self._stretches, self._few.slots, slots)
        return slots

    def slot_of(self, id: int) -> int:
        """The slot of one id that is held, or -1."""
        slot = id - self.translation.origin
        if not self.listed and 0 <= slot < (self.translation.counted or len(self.owners)):
            return slot if self.owners[slot] else -1
        if self.next:
            self._one[0] = id
            return int(self.find(self._one)[0])
        return -1

    def vacant(self, id: int) -> int:
        """The slot that a new id would have; -1 for an id that is held, or that has no slot without more room."""
        slot = id - self.translation.origin
        if not self.listed and 0 <= slot < (self.translation.counted or len(self.owners)):
            return -1 if self.owners[slot] else slot
        slot = self.translation.counted + self.next
        has_room = self.next < len(self.translation.slot_ids) and slot < len(self.owners)
        has_room = has_room and 2 * (int(self._few.size[0]) + 1) <= len(self._few.slots)
        return slot if has_room and self.slot_of(id) < 0 else -1

    def take(self, slot: int, id: int) -> None:
        """Let a new id have its vacant slot."""
        place = slot - self.translation.counted
        if self.next and place == self.next:
            self.translation.slot_ids[place] = id
            set_place(self._few, id, place)
            self.next += 1

    def ids(self, slots: UInt32s) -> Int64s:
        """The ids of slots."""
        return self.translation.ids(slots)

    def own(self) -> None:
        """Copy what a change writes to in place, once, so that arrays we were given stay untouched."""
        if self.borrowed:
            self.owners, self.first_windows = self.owners.copy(), self.first_windows.copy()
            slot_ids, origin, counted = self.translation
            self.translation = Translation(slot_ids[: self.next].copy(), origin, counted)
            self.borrowed = False

    def ascend(self, stretches: list[range]) -> bool:
        """Whether ids that are listed can be found by halving in these stretches alone."""
        listed = [self.translation.slot_ids[each.start : each.stop] for each in stretches] if self.listed else []
        return not self.mixed and all((each[1:] > each[:-1]).all() for each in listed)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.owners, self.first_windows, self.translation.slot_ids, self._stretches)
        return sum(array.nbytes for array in arrays) + (self._few.slots.nbytes if self._few.size[0] else 0)


@kernel
def find_slots(
    ids: Int64s,
    origin: int,
    near: int,
    owners: UInt8s,
    slot_ids: Int64s,
    stretches: Int64s,
    few: Int64s,
    slots: Int64s,
) -> None:
    """The slot of each id that is owned, else -1: of the first so many by distance, then listed ones."""
    for i in range(len(ids)):
        slots[i] = -1
        if ids[i] >= origin and u64(ids[i]) - u64(origin) < u64(near):
            if owners[ids[i] - origin] > 0:
                slots[i] = ids[i] - origin
        elif len(slot_ids) > 0:
            slots[i] = listed_slot(ids[i], near, owners, slot_ids, stretches, few)


@kernel
def listed_slot(id: int, near: int, owners: UInt8s, slot_ids: Int64s, stretches: Int64s, few: Int64s) -> Any:
    """The slot of a listed id that is owned, or -1; the list is behind so many slots."""
    for stretch in range(len(stretches)):
        begin, end = stretches[stretch, 0], stretches[stretch, 1]
        at = begin + count_below(slot_ids, begin, end - begin, id, False)
        if at < end and slot_ids[at] == id and owners[near + at] > 0:
            return near + at
    place = place_in(few, id)
    return near + place if place >= 0 and owners[near + place] > 0 else -1


@kernel
def set_places(table: IdMap, ids: Int64s, places: Int64s) -> None:
    """Let these ids have these places, new ids and old ones; there is room."""
    for i in range(len(ids)):
        set_place(table, ids[i], places[i])


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
