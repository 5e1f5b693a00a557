"""The objects that move and where each was last: a compact table, integers found by compiled code."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.compiled import allocating_kernel, kernel
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import kernel_ready
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, UInt32s, i64
from fencepost.indexes.kernels.id_map import spread
from fencepost.indexes.kernels.vectors import prefetch

UNKNOWN, PLACED, GROUPED = 0, 1, 2
_BLOCK = 128
_AHEAD = 16
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class ObjectColumn(NamedTuple):
    """Objects in rows: those that are whole numbers, and by row all others (whose number means nothing)."""

    numbers: Int64s
    names: dict[int, Hashable]


class _Journal(NamedTuple):
    """What an update has done to the table so far."""

    moves: list[tuple[Int64s, Int64s, UInt8s]]
    """Slots of rows, with the position and the state before each."""
    numbers: list[Int64s]
    """New slots of whole numbers."""
    names: list[int]
    """New slots of others."""


class ObjectTable:
    """A slot per object, with its last position as int64 words.

    Objects are told apart as Python does (1, 1.0 and True are one). Whole numbers that fit int64 are in `_numbers`,
    by slot, and found through `_table` (open addressing, 1 + slot, 0 is free); all others are in a dict.

    Invariants: (1) a slot is vacant, a number's or a name's, never two of them; (2) `_table` has at least two
    thirds more places than there are numbers, and no free place between a number's home and its own; (3) `states` is
    `UNKNOWN` in vacant slots, `GROUPED` where the last column of `positions` is the group of the object.

    Costs: about 28 bytes per integer object with one coordinate; a lookup is two reads, asked for ahead.

    >>> table = ObjectTable(1)
    >>> table.slots(object_column([7, "van", 7])).tolist()
    [0, 1, 0]
    >>> table.at(np.array([1, 0]))
    ['van', 7]
    """

    def __init__(self, columns: int) -> None:
        self.positions: Int64s = np.zeros((0, columns), np.int64)
        self.states: UInt8s = np.zeros(0, np.uint8)
        self._numbers: Int64s = np.zeros(0, np.int64)
        self._table: UInt32s = np.zeros(8, np.uint32)
        self._names: dict[Hashable, int] = {}
        self._named: dict[int, Hashable] = {}
        self._vacant: list[int] = []
        self._used = 0
        self._journal = _Journal([], [], [])

    def __len__(self) -> int:
        return self._used - len(self._vacant)

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Objects that come and move within are as they were before if it is left by an exception."""
        self._journal = journal = _Journal([], [], [])
        try:
            yield
        except BaseException:
            for slots, before, states in reversed(journal.moves):
                # the last row first: of an object with several, the earliest position is what stays
                self.positions[slots[::-1], : before.shape[1]] = before[::-1]
                self.states[slots[::-1]] = states[::-1]
            for slot in journal.names:
                del self._names[self._named.pop(slot)]
            self._vacant += journal.names
            for slots in journal.numbers:
                leave_table(self._table, self._numbers, slots)
                self._vacant += slots.tolist()
            raise
        finally:
            self._journal = _Journal([], [], [])

    def move(self, slots: Int64s, after: Int64s, missing: Bools, state: int) -> tuple[Int64s, UInt8s]:
        """Store the words of rows' positions, within `all_or_none`; those before each row, and the object's state."""
        before, states = np.empty_like(after), np.empty(len(slots), np.uint8)
        self._journal.moves.append((slots, before, states))
        follow(slots, after, missing, state, self.positions, self.states, before, states)
        return before, states

    def slots(self, objects: ObjectColumn) -> Int64s:
        """The slot of each object; those not seen before get one."""
        numbers, names = objects
        found = self.find(objects)
        found[list(names)] = 0
        self._enter_numbers(numbers, found)
        for row, name in names.items():
            if name not in self._names:
                slot = self._new_slot()
                self._names[name], self._named[slot] = slot, name
                self._journal.names.append(slot)
            found[row] = self._names[name]
        return found

    def find(self, objects: ObjectColumn) -> Int64s:
        """The slot of each object, or -1."""
        found = np.empty(len(objects.numbers), np.int64)
        find_numbers(self._table, self._numbers, objects.numbers, found)
        for row, name in objects.names.items():
            found[row] = self._names.get(name, -1)
        return found

    def at(self, slots: Int64s) -> list[Any]:
        """The objects in these slots."""
        numbers: list[Any] = self._numbers[slots].tolist()
        if not self._named:
            return numbers
        return [self._named.get(slot, number) for slot, number in zip(slots.tolist(), numbers, strict=True)]

    def placed(self) -> Int64s:
        """The slots of all objects that have a position."""
        return np.flatnonzero(self.states[: self._used])

    def remove(self, objects: ObjectColumn) -> None:
        """Forget objects: all of them or, if one is unknown, none."""
        numbers, names = objects
        slots = self.find(objects)
        order = np.argsort(slots, kind="stable")
        again = order[1:][np.diff(slots[order]) == 0]
        faults = np.concatenate([np.flatnonzero(slots < 0), again])
        if len(faults):
            row = int(faults.min())
            raise FencepostError(
                f"object {names.get(row, int(numbers[row]))!r} to remove" + (" twice" if slots[row] >= 0 else ""),
                "objects that were observed, each once",
                "Leave it out.",
            )
        for row, name in names.items():
            del self._names[name], self._named[int(slots[row])]
        is_number = np.ones(len(slots), np.bool_)
        is_number[list(names)] = False
        leave_table(self._table, self._numbers, slots[is_number])
        self.states[slots] = UNKNOWN
        self._vacant += slots.tolist()

    def add_column(self) -> None:
        """Make room for one more word per object."""
        self.positions = np.column_stack([self.positions, np.zeros(len(self.positions), np.int64)])

    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.positions.nbytes + self.states.nbytes + self._numbers.nbytes + self._table.nbytes

    def check(self) -> None:
        """Assert every invariant."""
        taken = np.zeros(self._used, np.bool_)
        in_table = self._table[self._table > 0].astype(np.int64) - 1
        for slots in (in_table, np.array(sorted(self._named), np.int64), np.array(self._vacant, np.int64)):
            assert not taken[slots].any(), "a slot is one object's"
            assert len(np.unique(slots)) == len(slots), "an object has one slot"
            taken[slots] = True
        assert taken.all(), "every slot is in use or vacant"
        assert 3 * len(self._table) >= 5 * len(in_table), "the table has free places"
        assert (self.find(ObjectColumn(self._numbers[in_table], {})) == in_table).all(), "every number is found"
        assert {slot: name for name, slot in self._names.items()} == self._named, "every name is found"
        assert not self.states[self._vacant].any(), "nothing is at a vacant slot"

    def _enter_numbers(self, numbers: Int64s, found: Int64s) -> None:
        """Give every number that was not found (-1) a slot."""
        if not len(found) or found.min() >= 0:
            return
        row = 0
        while True:
            live = len(self) - len(self._named)
            room = min(len(self._numbers) - self._used + len(self._vacant), len(self._table) * 3 // 5 - live)
            fresh = np.concatenate([self._vacant[::-1], np.arange(self._used, len(self._numbers))])[:room]
            fresh = fresh.astype(np.int64)
            row, taken = enter_numbers(self._table, self._numbers, numbers, found, fresh, row)
            self._journal.numbers.append(fresh[:taken])
            again = min(taken, len(self._vacant))
            del self._vacant[len(self._vacant) - again :]
            self._used += taken - again
            if row == len(numbers):
                return
            self._grow()

    def _new_slot(self) -> int:
        if self._vacant:
            return self._vacant.pop()
        if self._used == len(self._numbers):
            self._grow()
        self._used += 1
        return self._used - 1

    def _grow(self) -> None:
        size = len(self)
        if self._used == len(self._numbers) and not self._vacant:
            more = 16 + size // 8
            larger = (
                np.append(self._numbers, np.zeros(more, np.int64)),
                np.append(self.states, np.zeros(more, np.uint8)),
                np.concatenate([self.positions, np.zeros((more, self.positions.shape[1]), np.int64)]),
            )
            self._numbers, self.states, self.positions = larger  # all of them, or none if memory runs out
        numbers = size - len(self._named)
        if 5 * (numbers + 1) > 3 * len(self._table):
            slots = self._table[self._table > 0]
            self._table = np.zeros(16 + len(self._table) + len(self._table) // 3, np.uint32)
            fill_table(self._table, self._numbers, slots)


def object_column(objects: Any) -> ObjectColumn:
    """What the caller passed as objects, refused by row if one cannot be told apart."""
    if isinstance(objects, str | bytes) or not np.iterable(objects):
        raise FencepostError(f"objects {objects!r}", "a sequence of them", "Wrap a single one in a list.")
    if hasattr(objects, "__array__"):
        column: npt.NDArray[Any] = np.asarray(objects)
        if column.ndim == 1 and column.dtype.kind in "iu" and column.dtype != np.uint64:
            return ObjectColumn(kernel_ready(column.astype(np.int64, copy=False)), {})
        objects = column.tolist()
    items = list(objects)
    numbers, names = np.zeros(len(items), np.int64), dict[int, Hashable]()
    for row, item in enumerate(items):
        whole = isinstance(item, int | np.integer) or (isinstance(item, float) and item.is_integer())
        if whole and _SMALLEST <= item <= _LARGEST:
            numbers[row] = int(item)
            continue
        try:
            hash(item)
            nothing = item is None or bool(item != item)
        except (TypeError, ValueError):
            nothing = True
        if nothing:
            raise FencepostError(
                f"object {item!r} in row {row}",
                "something hashable that equals itself",
                "Leave rows without an object out; pass tuples instead of lists.",
            )
        names[row] = item
    return ObjectColumn(numbers, names)


@allocating_kernel
def find_numbers(table: UInt32s, numbers: Int64s, wanted: Int64s, found: Int64s) -> None:
    """The slot of each number, or -1."""
    size = len(table)
    places = np.empty(_BLOCK, np.int64)
    pending = np.empty(_BLOCK, np.int64)
    for block in range(0, len(wanted), _BLOCK):
        count = min(_BLOCK, len(wanted) - block)
        for i in range(count):
            places[i] = spread(wanted[block + i], size)
            pending[i] = i
            prefetch(table, places[i])
        # All that are still looked for take one step at a time, so that their reads overlap.
        while count > 0:
            for j in range(count):
                prefetch(numbers, max(i64(table[places[pending[j]]]) - 1, 0))
            left = 0
            for j in range(count):
                i = pending[j]
                at = places[i]
                slot = i64(table[at]) - 1
                is_other = slot >= 0 and numbers[slot] != wanted[block + i]
                found[block + i] = slot
                places[i] = at + 1 if at + 1 < size else 0
                pending[left] = i
                left += is_other
            count = left


@kernel
def enter_numbers(
    table: UInt32s, numbers: Int64s, wanted: Int64s, found: Int64s, fresh: Int64s, first: int
) -> tuple[int, int]:
    """Give the numbers that have no slot (-1) a fresh one; the row it stopped at, and how many were taken."""
    size = len(table)
    taken = 0
    for row in range(first, len(wanted)):
        if found[row] >= 0:
            continue
        at = spread(wanted[row], size)
        while table[at] != 0 and numbers[i64(table[at]) - 1] != wanted[row]:
            at = at + 1 if at + 1 < size else 0
        if table[at] == 0:
            if taken == len(fresh):
                return row, taken
            numbers[fresh[taken]] = wanted[row]
            table[at] = fresh[taken] + 1
            taken += 1
        found[row] = i64(table[at]) - 1
    return len(wanted), taken


@kernel
def fill_table(table: UInt32s, numbers: Int64s, entries: UInt32s) -> None:
    """Put entries (1 + slot) into an empty table."""
    size = len(table)
    for i in range(len(entries)):
        at = spread(numbers[i64(entries[i]) - 1], size)
        while table[at] != 0:
            at = at + 1 if at + 1 < size else 0
        table[at] = entries[i]


@kernel
def leave_table(table: UInt32s, numbers: Int64s, slots: Int64s) -> None:
    """Take slots out of the table, closing every gap."""
    size = len(table)
    for row in range(len(slots)):
        at = spread(numbers[slots[row]], size)
        while i64(table[at]) - 1 != slots[row]:
            at = at + 1 if at + 1 < size else 0
        gap = at
        while True:
            at = at + 1 if at + 1 < size else 0
            if table[at] == 0:
                break
            home = spread(numbers[i64(table[at]) - 1], size)
            from_home = at - home if at >= home else at - home + size
            from_gap = at - gap if at >= gap else at - gap + size
            if from_home >= from_gap:
                table[gap] = table[at]
                gap = at
        table[gap] = 0


@kernel
def follow(
    slots: Int64s,
    after: Int64s,
    missing: Bools,
    state: int,
    positions: Int64s,
    states: UInt8s,
    before: Int64s,
    states_before: UInt8s,
) -> None:
    """Write each row's position before it and store the one after it, row by row.

    `missing` marks rows that observe nothing (empty if none does); `state` is that of an observed object.
    """
    columns = after.shape[1]
    for row in range(len(slots)):
        ahead = row + _AHEAD
        if ahead < len(slots):
            prefetch(positions, slots[ahead] * positions.shape[1])
            prefetch(states, slots[ahead])
        slot = slots[row]
        states_before[row] = states[slot]
        for column in range(columns):
            before[row, column] = positions[slot, column]
        if len(missing) == 0 or not missing[row]:
            for column in range(columns):
                positions[slot, column] = after[row, column]
            states[slot] = state
