"""A compiled hash map from int64 keys to small non-negative integers, open addressing with linear probing."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, i64, u64

ABSENT = -1
_KEY, _PLACE = 0, 1


class IdMap(NamedTuple):
    """The map's arrays: a (key, place) pair per slot, and the number of keys.

    Invariants: (1) the number of slots is a power of two and at least twice `size[0]`; (2) a place is
    `ABSENT` exactly where a slot is free; (3) between a key's home slot and its slot no slot is free.
    """

    slots: Int64s
    size: Int64s

    def places(self) -> Int64s:
        """The places of all keys, in no set order."""
        column: Int64s = self.slots[:, _PLACE]
        return np.compress(column != ABSENT, column)


def empty_map(capacity: int = 8) -> IdMap:
    """A map with room for `capacity` keys."""
    count = 8
    while count < 2 * capacity:
        count *= 2
    return IdMap(np.full((count, 2), ABSENT, np.int64), np.zeros(1, np.int64))


def grown(table: IdMap, additional: int) -> IdMap:
    """The same map with room for `additional` more keys; itself if it has the room already."""
    needed = int(table.size[0]) + additional
    if 2 * needed <= len(table.slots):
        return table
    larger = empty_map(max(needed, len(table.slots)))
    rehash(table, larger)
    return larger


@kernel
def scrambled(key: int) -> Any:
    """64 well-mixed bits of a key."""
    h = u64(key) * u64(0x9E3779B97F4A7C15)
    h ^= h >> u64(29)
    h *= u64(0xBF58476D1CE4E5B9)
    return h ^ (h >> u64(32))


@kernel
def home(key: int, count: int) -> Any:
    """Where the search for a key starts in a table of `count` slots, a power of two."""
    return i64(scrambled(key) & u64(count - 1))


@kernel
def spread(key: int, count: int) -> Any:
    """Where the search for a key starts in a table of any size below 2**32."""
    return i64(((scrambled(key) >> u64(32)) * u64(count)) >> u64(32))


@kernel
def find(table: IdMap, key: int) -> Any:
    """The place of `key`, or `ABSENT`."""
    return place_in(table.slots, key)


@kernel
def place_in(slots: Int64s, key: int) -> Any:
    """Like `find`, for loops that hold the map's slots alone."""
    count = len(slots)
    at = home(key, count)
    while slots[at, _PLACE] != ABSENT:
        if slots[at, _KEY] == key:
            return slots[at, _PLACE]
        at = (at + 1) & (count - 1)
    return ABSENT


@kernel
def put(table: IdMap, key: int, place: int) -> None:
    """Add a key that is not there; the caller has made room with `grown`."""
    count = len(table.slots)
    at = home(key, count)
    while table.slots[at, _PLACE] != ABSENT:
        at = (at + 1) & (count - 1)
    table.slots[at, _KEY] = key
    table.slots[at, _PLACE] = place
    table.size[0] += 1


@kernel
def set_place(table: IdMap, key: int, place: int) -> None:
    """Let a key have a place, whether it is there or not; the caller has made room with `grown`."""
    count = len(table.slots)
    at = home(key, count)
    while table.slots[at, _PLACE] != ABSENT and table.slots[at, _KEY] != key:
        at = (at + 1) & (count - 1)
    table.size[0] += table.slots[at, _PLACE] == ABSENT
    table.slots[at, _KEY] = key
    table.slots[at, _PLACE] = place


@kernel
def drop(table: IdMap, key: int) -> None:
    """Remove a key that is there, closing the gap so that no tombstones are left."""
    count = len(table.slots)
    at = home(key, count)
    while table.slots[at, _KEY] != key or table.slots[at, _PLACE] == ABSENT:
        at = (at + 1) & (count - 1)
    gap = at
    while True:
        at = (at + 1) & (count - 1)
        if table.slots[at, _PLACE] == ABSENT:
            break
        from_home = (at - home(table.slots[at, _KEY], count)) & (count - 1)
        if from_home >= ((at - gap) & (count - 1)):
            table.slots[gap, _KEY] = table.slots[at, _KEY]
            table.slots[gap, _PLACE] = table.slots[at, _PLACE]
            gap = at
    table.slots[gap, _PLACE] = ABSENT
    table.size[0] -= 1


@kernel
def rehash(old: IdMap, new: IdMap) -> None:
    """Put every key of one map into another."""
    for at in range(len(old.slots)):
        if old.slots[at, _PLACE] != ABSENT:
            put(new, old.slots[at, _KEY], old.slots[at, _PLACE])
