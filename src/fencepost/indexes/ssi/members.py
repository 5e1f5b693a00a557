"""Ids of one kind and the slots of their columns: a hash table of 32-bit slots, so that an id takes few bytes."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, i64
from fencepost.indexes.kernels.id_map import ABSENT, home

Int8s = npt.NDArray[Any]
Int32s = npt.NDArray[Any]

_USED, _VACANT, _CHAIN, _LIVE = 0, 1, 2, 3


class Members(NamedTuple):
    """The id in each slot, and a hash table of 1 + slot.

    Invariants: (1) `table` has a power of two of items, at most three quarters of them taken; (2) between the home
    of an id and its item no item is 0; (3) `state` is [slots handed out, vacant slots among them, 1 + first vacant
    slot or 0, ids]; vacant slots are chained through `ids`.
    """

    ids: Int64s
    table: Int32s
    state: Int64s


class Table:
    """A growing table of columns whose rows are found by id.

    Args:
        columns: the type of each column; they are attributes of `columns`, in that order.
    """

    def __init__(self, *columns: npt.DTypeLike) -> None:
        self.members = Members(np.zeros(8, np.int64), np.zeros(16, np.int32), np.zeros(4, np.int64))
        self.columns: list[npt.NDArray[Any]] = [np.zeros(8, dtype) for dtype in columns]

    def __len__(self) -> int:
        return int(self.members.state[_LIVE])

    def make_room(self, additional: int) -> None:
        """Room for more ids, a fifth more than needed, so that growing costs little time and space."""
        state = self.members.state
        needed = len(self) + additional
        ids, table = self.members.ids, self.members.table
        if needed > len(ids):
            ids = enlarged(ids, needed + needed // 5)
            self.columns = [enlarged(column, len(ids)) for column in self.columns]
        if 4 * needed > 3 * len(table):
            table = np.zeros(1 << (4 * needed // 3).bit_length(), np.int32)
            rehash(self.members, table)
        if ids is not self.members.ids or table is not self.members.table:
            self.members = Members(ids, table, state)

    def find(self, ids: Int64s) -> Int64s:
        """The slot of each id, or `ABSENT`."""
        slots = np.empty(len(ids), np.int64)
        find_slots(self.members, ids, slots)
        return slots

    def admit(self, ids: Int64s) -> tuple[Int64s, int]:
        """Slots for all ids, or for none: then the row of one that is there already, else -1."""
        self.make_room(len(ids))
        slots = np.empty(len(ids), np.int64)
        return slots, int(admit(self.members, ids, slots))

    def evict(self, ids: Int64s) -> None:
        """Forget ids that are there, each once."""
        evict(self.members, ids)

    def clear(self) -> None:
        """Forget all ids; the room stays."""
        self.members.table[:] = 0
        self.members.state[:] = 0

    def live(self) -> Bools:
        """Which slots are in use."""
        used = np.zeros(int(self.members.state[_USED]), np.bool_)
        taken = np.compress(self.members.table > 0, self.members.table)
        used[taken - 1] = True
        return used

    def slots(self) -> Int64s:
        """The slots in use, ascending."""
        return np.flatnonzero(self.live())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.members, *self.columns))

    def check(self) -> None:
        """Assert the invariants."""
        used, vacant, chain, live = self.members.state.tolist()
        slots = self.slots()
        assert len(slots) == live == used - vacant, "every slot is in use or vacant"
        assert 4 * live <= 3 * len(self.members.table), "the table has free items"
        assert np.array_equal(self.find(self.members.ids[slots]), slots), "each id finds its slot"
        in_use = set(slots.tolist())
        for _ in range(vacant):
            assert chain - 1 not in in_use, "no vacant slot is in use"
            chain = int(self.members.ids[chain - 1])
        assert chain == 0, "the chain of vacant slots ends"


def enlarged(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """A copy of `size` items, zeros behind the old ones."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def find_slot(members: Members, id: int) -> Any:
    """The slot of an id, or `ABSENT`."""
    mask = len(members.table) - 1
    at = home(id, len(members.table))
    while members.table[at] != 0:
        slot = i64(members.table[at]) - 1
        if members.ids[slot] == id:
            return slot
        at = (at + 1) & mask
    return i64(ABSENT)


@kernel
def find_slots(members: Members, ids: Int64s, slots: Int64s) -> None:
    """The slots of many ids."""
    for row in range(len(ids)):
        slots[row] = find_slot(members, ids[row])


@kernel
def enter(table: Int32s, id: int, slot: int) -> None:
    """Put a slot into the hash table."""
    at = home(id, len(table))
    while table[at] != 0:
        at = (at + 1) & (len(table) - 1)
    table[at] = slot + 1


@kernel
def rehash(members: Members, table: Int32s) -> None:
    """Put every slot into a larger hash table."""
    for at in range(len(members.table)):
        if members.table[at] != 0:
            slot = i64(members.table[at]) - 1
            enter(table, members.ids[slot], slot)


@kernel
def admit_one(members: Members, id: int) -> Any:
    """Give an id a slot, or `ABSENT` if it has one already; the caller has made room."""
    if find_slot(members, id) != ABSENT:
        return i64(ABSENT)
    state = members.state
    slot = state[_USED]
    if state[_VACANT] > 0:
        slot = state[_CHAIN] - 1
        state[_VACANT] -= 1
        state[_CHAIN] = members.ids[slot]
    else:
        state[_USED] += 1
    state[_LIVE] += 1
    members.ids[slot] = id
    enter(members.table, id, slot)
    return slot


@kernel
def admit(members: Members, ids: Int64s, slots: Int64s) -> Any:
    """Give every id a slot and return -1, or none: then the row of the id that has one."""
    for row in range(len(ids)):
        slots[row] = admit_one(members, ids[row])
        if slots[row] == ABSENT:
            evict(members, ids[:row])
            return row
    return -1


@kernel
def evict_one(members: Members, id: int) -> None:
    """Forget an id, closing the gap in the hash table; its slot becomes vacant."""
    state, table = members.state, members.table
    mask = len(table) - 1
    gap = home(id, len(table))
    while members.ids[i64(table[gap]) - 1] != id:
        gap = (gap + 1) & mask
    slot = i64(table[gap]) - 1
    at = gap
    while True:
        at = (at + 1) & mask
        if table[at] == 0:
            break
        from_home = (at - home(members.ids[i64(table[at]) - 1], len(table))) & mask
        if from_home >= ((at - gap) & mask):
            table[gap] = table[at]
            gap = at
    table[gap] = 0
    members.ids[slot] = state[_CHAIN]
    state[_CHAIN] = slot + 1
    state[_VACANT] += 1
    state[_LIVE] -= 1


@kernel
def evict(members: Members, ids: Int64s) -> None:
    """Forget ids, the last one first."""
    for row in range(len(ids) - 1, -1, -1):
        evict_one(members, ids[row])


@kernel
def evict_known(members: Members, ids: Int64s) -> None:
    """Forget those of these ids that are there."""
    for row in range(len(ids) - 1, -1, -1):
        if find_slot(members, ids[row]) != ABSENT:
            evict_one(members, ids[row])


@kernel
def evict_absent(members: Members, slots: Int64s, sides: Int64s, side: int, there: Bools) -> None:
    """Forget the ids of slots of one side whose rows are not there; in the end all count as there."""
    for i in range(len(slots)):
        if sides[i] == side and not there[slots[i]]:
            there[slots[i]] = True
            evict_one(members, members.ids[slots[i]])
