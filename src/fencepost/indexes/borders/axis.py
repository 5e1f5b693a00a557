"""The rules on one axis, in groups, live: the engine of `Borders`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fencepost.indexes.arguments import check_format, kernel_ready
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, UInt32s
from fencepost.indexes.borders.edits import FULL_MARKS, insert_rules, number_groups, remove_rules
from fencepost.indexes.borders.lists import (
    ALIGNED,
    TABLE_STARTS,
    Holes,
    Lists,
    Part,
    Room,
    add_part,
    check_lists,
    empty_lists,
    rows_of,
    spread,
)
from fencepost.indexes.borders.moves import (
    CHEAPER,
    CROSS,
    ENTER,
    EXIT,
    Asked,
    Moves,
    find_moves,
    translate,
    write_met,
    write_moves,
)
from fencepost.indexes.contracts.borders import Crossings
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty
from fencepost.indexes.matches import Matches, answer_buffers, fitted, widened
from fencepost.indexes.ordinal import LARGEST, SMALLEST
from fencepost.indexes.runs import join_intervals
from fencepost.indexes.slice_list.search import Translation
from fencepost.indexes.slice_list.slot_table import SlotTable, grow
from fencepost.indexes.slice_list.window_kernels import Intervals, enter_groups

_FORMAT = 2
ROUND = 1 << 14
_STAGE = 1 << 16
_FEW, _SHARE_TO_EDIT = 64, 64
"""So many changes, and that part of all rules, are made one by one; for more it is faster to build all anew."""
_SHARE_TO_REBUILD, _NEVER_MANY = 8, 128
"""All is built anew when changes exceed that part of the rules: marks and holes were placed for others."""
_NO_MASK = np.zeros(0, np.bool_)
_NO_GROUPS = np.zeros(0, np.int64)
_NO_SLOTS = np.zeros(0, np.uint32)
_NO_HOLES = Holes(*(np.zeros(0, kind) for kind in (np.uint64, np.uint64, np.uint32, np.uint32)))
_NO_ROOM = Room(np.zeros(0, np.uint32), np.zeros(5, np.int64))
_SAVED = [name for name in Part._fields if name not in ("ends_first", "group_marks")]
"""What a part is saved as; the others say the same again where rules are packed."""


Rounds = Callable[[int, int], Asked]
"""Gives the moves of the rows from one on to before another; called once for each, in order."""


class AxisRules:
    """Inclusive ordinal ranges with ids and groups, asked what moves enter, leave and cross.

    How it works: see `fencepost.indexes.borders.lists`. Rules with a group and those without are a part each. The lists
    are built packed. The first change spreads them out, and from then on rules come and go where they are (see
    `edits`), until an eighth of all has changed: then all is built anew.

    Slots are as in `SliceList`; `first_windows` of the slot table is the position of a slot's start.

    Invariants: (1) a slot's owner is 1 exactly if its rule is live, and its start is where the table says; (2) bits of
    `holes` are set exactly for positions without a rule.
    """

    def __init__(self) -> None:
        self.is_float = False
        self._stage: UInt32s = aligned_empty(0, np.uint32)
        self._places: UInt32s = np.empty((0, 0, 4), np.uint32)
        self._where: Int64s = np.empty(ROUND, np.int64)
        self._per_move, self._per_met = [0.0, 0.0, 0.0], 0.0
        """Ids per row of the last answers: of each kind, and of rules that are met."""
        self._one = Intervals(np.zeros(1, np.uint32), *(np.zeros(1, np.int64) for _ in range(3)))
        self._one_number = np.zeros(1, np.int64)
        self._clear()

    def _clear(self) -> None:
        self.lists = empty_lists()
        self._parts: list[Part] = []
        self._slots = SlotTable()
        self._holes, self._room = _NO_HOLES, _NO_ROOM
        self._edits = 0
        self._live = 0

    @property
    def live(self) -> int:
        """How many rules there are."""
        return self._live

    # -- changing ---------------------------------------------------------------------------------------

    def insert(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        """Add rules whose ids are new and whose ranges are not empty."""
        rows = [
            (ids[chosen], Intervals(_NO_SLOTS, firsts[chosen], lasts[chosen], groups[chosen] if keyed else _NO_GROUPS))
            for keyed, chosen in ((False, in_all), (True, ~in_all))
            if chosen.any()
        ]
        if not self._is_few(len(ids)) or any(self._part(len(each.groups) > 0) is None for _, each in rows):
            self._rebuild(rows)
            return
        self._slots.own()
        if not len(self._holes.starts):
            self._spread()  # before ids have slots: packed lists are saved as they are, and only with ids that ascend
        if not self._slots.reaches(int(ids.min()), int(ids.max()), self._live + len(ids)):
            self._slots.mix()
        try:
            for own_ids, each in rows:
                self._insert_few(each._replace(slots=self._slots.new(own_ids)))
        except BaseException:
            slots = self._slots.find(ids)
            remove_rules(self.lists, self._holes, self._slots.owners, self._slots.first_windows, slots)
            raise
        self._live += len(ids)
        self._edits += len(ids)
        self._balance()

    def insert_one(self, id: int, first: int, last: int, group: int | None) -> bool:
        """Insert one rule where nothing has to be made for it; False if `insert` has to, or to refuse it."""
        part = self._part(group is not None)
        numbers = (id,) if group is None else (id, group)
        if part is None or self._slots.borrowed or not len(self._holes.starts):
            return False
        if not all(SMALLEST <= each <= LARGEST for each in numbers):
            return False
        slot = self._slots.vacant(id)
        if slot < 0:
            return False
        rows = self._one
        rows.slots[0], rows.firsts[0], rows.lasts[0] = slot, first, last
        if group is not None:
            rows.groups[0] = group
            number_groups(part, rows.groups, self._one_number)
            if self._one_number[0] < 0:
                return False
        self._slots.take(slot, id)
        table, groups = self._slots, rows.groups if group is not None else _NO_GROUPS
        done = insert_rules(
            part, self.lists, self._holes, self._room, *rows[:3], groups, table.owners, table.first_windows, 0
        )
        if done:
            self._live += 1
            self._edits += 1
            self._balance()
        return bool(done)

    def _insert_few(self, rows: Intervals) -> None:
        """Insert rows where they belong."""
        keyed, at = len(rows.groups) > 0, 0
        if keyed:
            self._add_groups(rows.groups)
        if len(rows.slots) > 1:
            order = np.argsort(rows.firsts, kind="stable")
            rows = Intervals(*(column[order] if len(column) else column for column in rows))
        while True:
            part = self._part(keyed)
            assert part is not None, "looked for before"
            table = self._slots
            at = insert_rules(part, self.lists, self._holes, self._room, *rows, table.owners, table.first_windows, at)
            if at == len(rows.slots):
                return
            if self._room.state[1] == FULL_MARKS:
                size = len(self.lists.mark_entries) + int(self._room.state[2])
                self.lists = self.lists._replace(mark_entries=grow(self.lists.mark_entries, size + size // 8))
            else:
                start, end = self._room.state[3:].tolist()
                self._spread((start, end))

    def remove(self, slots: Int64s) -> None:
        """Take out the rules in these slots."""
        if not self._is_few(len(slots)):
            kept = self._slots.owners.copy()
            kept[slots] = 0
            self._rebuild([], kept)
            return
        self._slots.own()
        if not len(self._holes.starts):
            self._spread()
        remove_rules(self.lists, self._holes, self._slots.owners, self._slots.first_windows, slots)
        self._live -= len(slots)
        self._edits += len(slots)
        self._balance()

    def _is_few(self, changes: int) -> bool:
        """Whether so many changes are better made one by one."""
        return changes <= _FEW + self._live // _SHARE_TO_EDIT

    def _balance(self) -> None:
        """Build all anew once so much has changed that readers would notice, if there is memory."""
        if not self._live:
            self._clear()
        elif self._edits > self._live // _SHARE_TO_REBUILD + _NEVER_MANY:
            with suppress(MemoryError):  # the change is made; the next one tries again
                self._rebuild()

    def _part(self, keyed: bool) -> Part | None:
        """The part of rules with a group, or of those without."""
        return next((part for part in self._parts if bool(part.meta[1]) is keyed), None)

    def _spread(self, crowded: tuple[int, int] | None = None) -> None:
        """Have holes between all rules, and many where it is crowded."""
        self.lists, self._holes, self._room, self._parts, self._slots.first_windows = spread(
            self.lists, self._holes, self._parts, len(self._slots.owners), crowded
        )

    def _add_groups(self, groups: Int64s) -> None:
        """Let the part of rules with groups have these groups, too: what is new comes last."""
        part = self._parts[-1]
        numbers = np.empty(len(groups), np.int64)
        number_groups(part, groups, numbers)
        new = np.unique(groups[numbers < 0])
        if not len(new):
            return
        count = len(part.group_keys)
        keys = np.append(part.group_keys, new)
        table = part.groups_table
        if 7 * len(keys) > 6 * len(table):
            table = np.zeros(len(keys) + len(keys) // 4 + 8, np.uint32)
            enter_groups(keys, 0, table)
        else:
            table = table.copy()
            enter_groups(keys, count, table)
        first, mark = int(part.meta[2] + part.groups_first[-1]), len(self.lists.marks) - 1
        used = int(self._room.state[0])
        begins = np.tile(np.array([[first, used, used]], np.uint32), (len(new), 1))
        marks = np.concatenate([self.lists.marks[:-1], begins, self.lists.marks[-1:]])
        rooms = np.concatenate([self._room.marks[:-1], np.full(len(new) + 1, used, np.uint32)])
        changed = part._replace(
            group_keys=keys,
            groups_table=table,
            groups_first=np.append(part.groups_first, np.repeat(part.groups_first[-1:], len(new))),
            ends_first=np.append(part.ends_first, np.repeat(part.ends_first[-1:], len(new))),
            group_marks=np.append(part.group_marks, np.arange(mark + 1, mark + 1 + len(new), dtype=np.uint32)),
        )
        self._parts = [*self._parts[:-1], changed]
        self._room = self._room._replace(marks=rooms)
        self.lists = self.lists._replace(marks=marks)
        self.lists.mark_table[first // TABLE_STARTS + 1 :] = mark + len(new) - 1

    def _rebuild(self, more: list[tuple[Int64s, Intervals]] | None = None, kept: UInt8s | None = None) -> None:
        """Build all anew: the rules that are live, or whose slots are kept, and more by their ids."""
        rows = list(more or [])
        for part in self._parts:
            own = rows_of(part, self.lists, self._holes)
            if kept is not None:
                chosen = kept[own.slots] > 0
                own = Intervals(*(column[chosen] if len(column) else column for column in own))
            if len(own.slots):
                rows.append((self._slots.ids(own.slots), own))
        table, holes = SlotTable(), (_NO_HOLES, _NO_ROOM)
        lists, parts, live = empty_lists(), list[Part](), sum(len(ids) for ids, _ in rows)
        if live:
            ids = np.concatenate([ids for ids, _ in rows])
            table.map(int(ids.min()), int(ids.max()), live)
            slots = np.split(table.new(ids), np.cumsum([len(own) for own, _ in rows])[:-1])
            at = marks = entries = 0
            for keyed in (False, True):
                own_rows = [
                    each._replace(slots=own)
                    for own, (_, each) in zip(slots, rows, strict=True)
                    if (len(each.groups) > 0) is keyed
                ]
                if own_rows:
                    joined = join_intervals(own_rows)
                    lists, part = add_part(lists, at, marks, entries, joined, self.is_float)
                    here = np.arange(at, at + len(joined.slots))
                    table.first_windows[lists.start_slots[here]] = here
                    parts.append(part)
                    at = -(-(at + len(here)) // ALIGNED) * ALIGNED
                    marks, entries = len(lists.marks) - 1, int(lists.marks[-1, 1])
            table.owners[np.concatenate(slots)] = 1
        self.lists, self._parts, self._slots, self._live, self._edits = lists, parts, table, live, 0
        self._holes, self._room = holes

    def compact(self) -> None:
        """Merge all changes into freshly built lists."""
        if len(self._holes.starts):
            self._rebuild()

    def slots_of(self, ids: Int64s) -> Int64s:
        """The slot of each id, or -1."""
        return self._slots.find(ids)

    def slot_of(self, id: int) -> int:
        """The slot of one id, or -1."""
        return self._slots.slot_of(id)

    def slot_ids(self) -> Int64s:
        """The id of every slot."""
        return self._slots.translation.table(len(self._slots.owners))

    # -- asking -----------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether any rule has a group."""
        return any(part.meta[1] for part in self._parts)

    def rule(self, slot: int) -> tuple[int, int, int | None]:
        """The first and last ordinal and the group of the rule in a slot."""
        start = int(self._slots.first_windows[slot])
        part = next(part for part in self._parts if start < part.meta[2] + part.meta[3])
        group = None
        if part.meta[1]:
            number = np.searchsorted(part.groups_first, start - int(part.meta[2]), "right") - 1
            group = int(part.group_keys[number])
        end = int(self.lists.start_ends[start])
        return int(self.lists.start_keys[start]), int(self.lists.end_keys[end]), group

    def crossings(
        self,
        rows: int,
        asked: Rounds,
        cross: bool,
        slots: bool = False,
        out: Crossings | None = None,
        strategy: int = CHEAPER,
        outgrow: bool = False,
    ) -> Crossings:
        """What so many moves enter, leave and (if asked for) cross; `outgrow` replaces an `out` that is too small."""
        kinds = (ENTER, EXIT, CROSS) if cross else (ENTER, EXIT)
        given: Any = out or (None, None, None)
        dtype = np.uint32 if slots else np.int64
        answers = [_Answer(rows, dtype, given[kind], outgrow, self._per_move[kind] * rows) for kind in kinds]
        offsets = np.empty((3, min(rows, ROUND) + 1), np.int64)
        translation = Translation(_NO_GROUPS, 0) if slots else self._slots.translation
        slot_starts = self._slots.first_windows

        def write(moves: Moves, row: int) -> int:
            return int(
                write_moves(self.lists, slot_starts, self._holes, moves, cross, strategy, row, offsets, self._stage)
            )

        for start, row, until in self._stages(rows, asked, write):
            for kind, answer in zip(kinds, answers, strict=True):
                own = offsets[kind, row + 1 : until + 1]
                answer.append(start + row, own, self._stage, kind * (len(self._stage) // 3), translation)
        if rows:
            for kind, answer in zip(kinds, answers, strict=True):
                self._per_move[kind] = answer.filled / rows
        return Crossings(answers[ENTER].matches(), answers[EXIT].matches(), answers[CROSS].matches() if cross else None)

    def met(self, rows: int, asked: Rounds) -> Matches:
        """The ids of the rules whose range meets that of each move; those that hold at an end where it has none."""
        answer = _Answer(rows, np.int64, likely=self._per_met * rows)
        offsets = np.zeros(min(rows, ROUND) + 1, np.int64)

        def write(moves: Moves, row: int) -> int:
            return int(write_met(self.lists, self._slots.first_windows, self._holes, moves, row, offsets, self._stage))

        for start, row, until in self._stages(rows, asked, write):
            answer.append(start + row, offsets[row + 1 : until + 1], self._stage, 0, self._slots.translation)
        if rows:
            self._per_met = answer.filled / rows
        return answer.matches()

    def _stages(self, rows: int, asked: Rounds, write: Callable[[Moves, int], int]) -> Iterator[tuple[int, int, int]]:
        """Let moves be written to the stage, as many at a time as it holds: the round's first row, from, until."""
        for start in range(0, rows, ROUND):
            moves = self.locate(asked(start, min(start + ROUND, rows)))
            row = 0
            while row < len(moves.places):
                self._reserve()
                until = write(moves, row)
                if until == row:
                    self._reserve(2 * len(self._stage))
                    continue
                yield start, row, until
                row = until

    def _reserve(self, size: int = 3 * _STAGE) -> None:
        if len(self._stage) < size:
            self._stage = aligned_empty(size, np.uint32)[:size]

    def locate(self, asked: Asked) -> Moves:
        """Where both ends of up to `ROUND` moves lie in every part, in a buffer that the next call uses again."""
        parts = self._parts
        if self._places.shape != (ROUND, len(parts), 4):
            self._places = np.empty((ROUND, len(parts), 4), np.uint32)
        places = self._places[: len(asked.after)]
        regrouped = _NO_MASK
        if len(asked.after_groups):
            regrouped = asked.before_groups != asked.after_groups
            if len(asked.groupless):
                regrouped |= asked.groupless
        for column, part in enumerate(parts):
            find_moves(part, self.lists, asked, self._where, places, column)
        keyed = np.array([part.meta[1] != 0 for part in parts], np.bool_)
        return Moves(places, keyed, asked.first, regrouped, asked.missing)

    # -- saving and reporting ---------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as flat arrays; changes are merged in first."""
        self.compact()
        translation = self._slots.translation
        slot_state = (translation.origin, self._slots.next, self._slots.listed)
        arrays: dict[str, npt.NDArray[Any]] = {
            **self.lists._asdict(),
            "slot_ids": translation.slot_ids,
            "owners": self._slots.owners,
            "slot_starts": self._slots.first_windows,
            "axis": np.array([_FORMAT, self.is_float, self._live, *slot_state, len(self._parts)]),
        }
        for number, part in enumerate(self._parts):
            arrays |= {f"part{number}.{name}": getattr(part, name) for name in _SAVED}
        self._slots.borrowed = True
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The rules that `to_arrays` described; nothing is copied until a change."""
        ready = {name: kernel_ready(array) for name, array in arrays.items()}
        check_format(int(ready["axis"][0]), _FORMAT)
        _, is_float, live, origin, next_slot, listed, parts = ready["axis"].tolist()
        rules = cls()
        rules.is_float, rules._live = bool(is_float), live
        rules.lists = Lists(*(ready[name] for name in Lists._fields))
        translation = Translation(ready["slot_ids"], origin)
        listed_ids = next_slot if listed else 0
        rules._slots.borrow(ready["owners"], ready["slot_starts"], translation, listed_ids, [range(next_slot)])
        for number in range(parts):
            saved = {name: ready[f"part{number}.{name}"] for name in _SAVED}
            rules._parts.append(Part(**saved, ends_first=saved["groups_first"], group_marks=np.zeros(0, np.uint32)))
        return rules

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        own = [*self.lists, *self._holes, *self._room]
        own += [self._slots.owners, self._slots.first_windows, self._slots.translation.slot_ids]
        own += [getattr(part, name) for part in self._parts for name in _SAVED]
        if len(self._holes.starts):
            own += [array for part in self._parts for array in (part.ends_first, part.group_marks)]
        return sum(array.nbytes for array in own)

    def check(self) -> None:
        """Assert every invariant."""
        assert self._live == np.count_nonzero(self._slots.owners), "every live rule has an owner"
        live = end = 0
        for part in self._parts:
            assert part.meta[2] == -(-end // ALIGNED) * ALIGNED, "parts follow each other, aligned"
            end = int(part.meta[2] + part.meta[3])
            check_lists(part, self.lists, self._holes, self._slots.first_windows)
            rows = rows_of(part, self.lists, self._holes)
            live += len(rows.slots)
            assert (self._slots.owners[rows.slots] == 1).all(), "what is there is live"
        assert live == self._live, "the parts hold every live rule"


class _Answer:
    """One answer that grows as stages are appended to it."""

    def __init__(
        self,
        rows: int,
        dtype: npt.DTypeLike,
        out: Matches | None = None,
        outgrow: bool = False,
        likely: float = 0,
    ) -> None:
        self._out = None if outgrow else out
        self._is_given = out is not None
        self._offsets, self._ids = answer_buffers(rows, 0, dtype, out, likely)
        self._offsets[0] = 0
        self.filled = 0

    def append(self, row: int, ends: Int64s, stage: UInt32s, start: int, translation: Translation) -> None:
        """Append the slots that a stage has for the rows from `row` on."""
        count = int(ends[-1])
        needed = self.filled + count
        if needed + PADDING > len(self._ids):
            self._ids = widened(self._ids, self.filled, needed, self._out)
        if self._ids.dtype == np.uint32:
            self._ids[self.filled : needed] = stage[start : start + count]
        else:
            translate(stage, start, count, translation, self._ids, self.filled)
        np.add(ends, self.filled, out=self._offsets[row + 1 : row + 1 + len(ends)])
        self.filled = needed

    def matches(self) -> Matches:
        """The whole answer."""
        ids = self._ids[: self.filled] if self._is_given else fitted(self._ids, self.filled)
        return Matches(self._offsets, ids)
