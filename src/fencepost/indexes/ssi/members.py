"""Ids of one kind and the slots of their columns: a hash table of 32-bit slots, so that an id takes few bytes."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int32s, Int64s, i64
from fencepost.indexes.kernels.id_map import ABSENT, enter_slot, find_slot, leave_slot

_USED, _VACANT, _CHAIN = 0, 1, 2


class Members(NamedTuple):
    """The id in each slot, and a slot table (`fencepost.indexes.kernels.id_map`) of them.

    Invariants: (1) at most three quarters of `table` are taken; (2) `state` is [slots handed out, vacant slots among
    them, 1 + first vacant slot or 0]; vacant slots are chained through `ids`.
    """

    ids: Int64s
    table: Int32s
    state: Int64s


class Table:
    """A growing table of columns, of the types given, whose rows are found by id."""

    def __init__(self, *columns: npt.DTypeLike) -> None:
        self.members = Members(np.zeros(8, np.int64), np.zeros(16, np.int32), np.zeros(3, np.int64))
        self.columns: list[npt.NDArray[Any]] = [np.zeros(8, dtype) for dtype in columns]

    def __len__(self) -> int:
        return int(self.members.state[_USED] - self.members.state[_VACANT])

    def make_room(self, additional: int) -> None:
        """Room for more ids, a fifth more than needed, so that growing costs little time and space."""
        ids, table, state = self.members
        needed = len(self) + additional
        if needed > len(ids):
            ids = enlarge(ids, needed + needed // 5)
            self.columns = [enlarge(column, len(ids)) for column in self.columns]
        if 4 * needed > 3 * len(table):
            table = np.zeros(2 * needed, np.int32)
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
        used, vacant, chain = self.members.state.tolist()
        slots = self.slots()
        assert len(slots) == len(self) == used - vacant, "every slot is in use or vacant"
        assert 4 * len(slots) <= 3 * len(self.members.table), "the table has free items"
        assert np.array_equal(self.find(self.members.ids[slots]), slots), "each id finds its slot"
        in_use = set(slots.tolist())
        for _ in range(vacant):
            assert chain - 1 not in in_use, "no vacant slot is in use"
            chain = int(self.members.ids[chain - 1])
        assert chain == 0, "the chain of vacant slots ends"


def enlarge(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """A copy of `size` items, zeros behind the old ones."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def find_slots(members: Members, ids: Int64s, slots: Int64s) -> None:
    """The slots of many ids."""
    for row in range(len(ids)):
        slots[row] = find_slot(members.table, members.ids, ids[row])


@kernel
def rehash(members: Members, table: Int32s) -> None:
    """Put every slot into a larger table."""
    for item in members.table:
        if item != 0:
            enter_slot(table, members.ids[i64(item) - 1], i64(item) - 1)


@kernel
def admit_one(members: Members, id: int) -> Any:
    """Give an id a slot, or `ABSENT` if it has one already; the caller has made room."""
    if find_slot(members.table, members.ids, id) != ABSENT:
        return i64(ABSENT)
    state = members.state
    slot = state[_USED]
    if state[_VACANT] > 0:
        slot = state[_CHAIN] - 1
        state[_VACANT] -= 1
        state[_CHAIN] = members.ids[slot]
    else:
        state[_USED] += 1
    members.ids[slot] = id
    enter_slot(members.table, id, slot)
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
    """Forget an id; its slot becomes vacant."""
    state = members.state
    slot = leave_slot(members.table, members.ids, id)
    members.ids[slot] = state[_CHAIN]
    state[_CHAIN] = slot + 1
    state[_VACANT] += 1


@kernel
def evict(members: Members, ids: Int64s) -> None:
    """Forget ids, the last one first."""
    for row in range(len(ids) - 1, -1, -1):
        evict_one(members, ids[row])
