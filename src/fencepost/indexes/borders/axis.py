"""The rules on one axis, in groups, live: the engine of `Borders`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from fencepost.indexes.arguments import check_format, kernel_ready
from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.indexes.borders.lists import ALIGNED, Lists, Part, add_part, check_lists, empty_lists, rows_of
from fencepost.indexes.borders.moves import (
    CHEAPER,
    CROSS,
    ENTER,
    EXIT,
    Asked,
    Gone,
    Moves,
    find_moves,
    translate,
    write_met,
    write_moves,
)
from fencepost.indexes.contracts.borders import Crossings
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty
from fencepost.indexes.matches import Matches, answer_buffers, fitted, widened
from fencepost.indexes.runs import Runs, SlottedRuns, join_intervals, mark_bits, read_bits
from fencepost.indexes.slice_list.search import Translation
from fencepost.indexes.slice_list.slot_table import SlotTable
from fencepost.indexes.slice_list.window_kernels import Intervals

_FORMAT = 1
ROUND = 1 << 14
_STAGE = 1 << 16
_MOST_PARTS = 8
"""Parts that are kept: every one of them is searched for both ends of every move."""
_SHARE_TO_REBUILD, _NEVER_MANY_GONE = 8, 128
"""All is built anew when what is gone exceeds this part of the live rules; so many are never too many."""
_NO_MASK = np.zeros(0, np.bool_)
_NO_GROUPS = np.zeros(0, np.int64)
_NO_BITS = np.zeros(0, np.uint64)


Rounds = Callable[[int, int], Asked]
"""Gives the moves of the rows from one on to before another; called once for each, in order."""


class _Run(NamedTuple):
    """The parts that one change built, for the slots in a range (if those are listed)."""

    parts: tuple[Part, ...]
    slots: range
    size: int


class AxisRules(SlottedRuns[_Run]):
    """Inclusive ordinal ranges with ids and groups, asked what moves enter, leave and cross.

    How it works: see `fencepost.indexes.borders.lists`. The lists are a stack of *runs*: the bulk, then recent
    changes, each smaller than the one before; a change merges the runs at the end that are not much larger than
    itself. A run has a part for rules with a group and one for those without. A removed rule is only marked, until an
    eighth of all are.

    Slots are as in `SliceList`; `first_windows` of the slot table is the position of a slot's start.

    Invariants: (1) runs are in order of position and begin at multiples of `ALIGNED`; (2) a slot's owner is 1
    exactly if its rule is live, and its start is where the table says; (3) bits of `gone` are set exactly for
    positions of rules that were removed.
    """

    def __init__(self) -> None:
        self.is_float = False
        self._stage: UInt32s = aligned_empty(0, np.uint32)
        self._places: UInt32s = np.empty((0, 0, 4), np.uint32)
        self._where: Int64s = np.empty(ROUND, np.int64)
        self._per_move, self._per_met = [0.0, 0.0, 0.0], 0.0
        """Ids per row of the last answers: of each kind, and of rules that are met."""
        self._clear()

    def _clear(self) -> None:
        self.lists = empty_lists()
        self._slots = SlotTable()
        self._runs = Runs()
        self._gone = Gone(_NO_BITS, _NO_BITS)
        self._borrowed = False
        self._removed = 0
        self._live = 0

    @property
    def live(self) -> int:
        """How many rules there are."""
        return self._live

    # -- changing ---------------------------------------------------------------------------------------

    def insert(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        """Add rules whose ids are new and whose ranges are not empty."""
        self._own()
        self._prepare_slots(ids)
        slots = self._slots.new(ids)
        rows = [
            Intervals(slots[chosen], firsts[chosen], lasts[chosen], groups[chosen] if keyed else _NO_GROUPS)
            for keyed, chosen in ((False, in_all), (True, ~in_all))
            if chosen.any()
        ]
        self._live += len(ids)
        for run in self._runs.take_smaller(len(ids)):
            rows += self._take_apart(run)
        self._push(rows)
        if len(self.parts()) > _MOST_PARTS or self._runs.outgrown:
            self._rebuild()

    def remove(self, slots: Int64s) -> None:
        """Take out the rules in these slots."""
        self._own()
        starts = self._slots.first_windows[slots].astype(np.int64)
        self._gone = self._gone_with_room()
        for bits, positions in zip(self._gone, (starts, self.lists.start_ends[starts].astype(np.int64)), strict=True):
            mark_bits(bits, positions)
        self._slots.owners[slots] = 0
        self._live -= len(slots)
        self._removed += len(slots)
        if not self._live:
            self._clear()
        elif self._removed > self._live / _SHARE_TO_REBUILD + _NEVER_MANY_GONE:
            self._rebuild()

    def _own(self) -> None:
        """Copy what a change writes to in place, once, so that arrays we were given stay untouched."""
        self._slots.own()
        if self._borrowed:
            self.lists = Lists(*(column.copy() for column in self.lists))
            self._borrowed = False

    def _end(self) -> int:
        """The position behind the last run."""
        parts = self.parts()
        if not parts:
            return 0
        last = parts[-1].meta
        return -(-int(last[2] + last[3]) // ALIGNED) * ALIGNED

    def _gone_with_room(self) -> Gone:
        """The bits of what is gone, for all positions."""
        more = self._end() // 64 + 1 - len(self._gone.starts)
        return Gone(*(np.append(bits, np.zeros(max(0, more), np.uint64)) for bits in self._gone))

    def _is_gone(self) -> Bools:
        if not len(self._gone.starts):
            return _NO_MASK
        return np.unpackbits(self._gone.starts.view(np.uint8), bitorder="little").view(np.bool_)

    def _take_apart(self, run: _Run) -> list[Intervals]:
        gone = self._is_gone()
        rows = [rows_of(part, self.lists, gone) for part in run.parts]
        return [each for each in rows if len(each.slots)]

    def _renumber(self, rows: list[Intervals], ids: Int64s) -> list[Intervals]:
        """The rows of these ids with new slots at the end of the list, so that a run's slots are together."""
        sizes = np.cumsum([len(each.slots) for each in rows])[:-1]
        slots = np.split(self._slots.new(ids), sizes)
        return [each._replace(slots=new) for each, new in zip(rows, slots, strict=True)]

    def _push(self, rows: list[Intervals]) -> None:
        """Build a run of these rows behind the others."""
        first = self._end()
        self._truncate_gone(first)
        parts: list[Part] = []
        marks, entries = self._marks_end()
        for keyed in (False, True):
            own = [each for each in rows if (len(each.groups) > 0) is keyed]
            if own:
                joined = join_intervals(own)
                at = first if not parts else -(-int(parts[-1].meta[2:4].sum()) // ALIGNED) * ALIGNED
                self.lists, part = add_part(self.lists, at, marks, entries, joined, self.is_float)
                marks = len(self.lists.marks) - 1
                entries = int(self.lists.marks[-1, 1])
                parts.append(part)
                here = slice(at, at + len(joined.slots))
                slots = self.lists.start_slots[here]
                self._slots.owners[slots] = 1
                self._slots.first_windows[slots] = np.arange(here.start, here.stop)
        every = np.concatenate([each.slots for each in rows])
        slots_range = range(int(every.min()), int(every.max()) + 1)
        self._runs.add(_Run(tuple(parts), slots_range, len(every)))
        if len(self._gone.starts):
            self._gone = self._gone_with_room()

    def _marks_end(self) -> tuple[int, int]:
        """How many marks and mark entries the runs have."""
        end = self._end()
        if not end:
            return 0, 0
        marks = int(np.searchsorted(self.lists.marks[:-1, 0], end, "left"))
        return marks, int(self.lists.marks[marks, 1])

    def _truncate_gone(self, end: int) -> None:
        """Clear what was gone behind a position, where new rules will be."""
        if len(self._gone.starts):
            for bits in self._gone:
                bits[end >> 6 :] = 0
            if not any(bits.any() for bits in self._gone):
                self._gone = Gone(_NO_BITS, _NO_BITS)
            self._removed = int(np.bitwise_count(self._gone.starts).sum()) if len(self._gone.starts) else 0

    def _build_bulk(self, rows: list[Intervals], ids: list[Int64s]) -> None:
        self._push(self._renumber(rows, np.concatenate(ids)))

    def compact(self) -> None:
        """Merge all changes into freshly built lists."""
        if self._live and (len(self._runs) > 1 or self._removed):
            self._rebuild()

    def slots_of(self, ids: Int64s) -> Int64s:
        """The slot of each id, or -1."""
        return self._slots_of(ids)

    def slot_ids(self) -> Int64s:
        """The id of every slot."""
        return self._slots.translation.table(len(self._slots.owners))

    # -- asking -----------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether any rule has a group."""
        return any(part.meta[1] for run in self._runs for part in run.parts)

    def rule(self, slot: int) -> tuple[int, int, int | None]:
        """The first and last ordinal and the group of the rule in a slot."""
        start = int(self._slots.first_windows[slot])
        part = next(part for run in self._runs for part in run.parts if start < part.meta[2] + part.meta[3])
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
                write_moves(self.lists, slot_starts, self._gone, moves, cross, strategy, row, offsets, self._stage)
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
            return int(write_met(self.lists, self._gone, moves, row, offsets, self._stage))

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
        parts = self.parts()
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
        run = next(iter(self._runs), _Run((), range(0), 0))
        translation = self._slots.translation
        slot_state = (translation.origin, self._slots.next, self._slots.listed, run.slots.start, run.slots.stop)
        arrays: dict[str, npt.NDArray[Any]] = {
            **self.lists._asdict(),
            "slot_ids": translation.slot_ids,
            "owners": self._slots.owners,
            "slot_starts": self._slots.first_windows,
            "axis": np.array([_FORMAT, self.is_float, self._live, *slot_state, len(run.parts)]),
        }
        for number, part in enumerate(run.parts):
            arrays |= {f"part{number}.{name}": array for name, array in part._asdict().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The rules that `to_arrays` described; nothing is copied until a change."""
        ready = {name: kernel_ready(array) for name, array in arrays.items()}
        version, is_float, live, origin, next_slot, listed, start, stop, parts = ready["axis"].tolist()
        check_format(version, _FORMAT)
        rules = cls()
        rules.is_float, rules._live = bool(is_float), live
        rules.lists = Lists(*(ready[name] for name in Lists._fields))
        rules._borrowed = True
        translation = Translation(ready["slot_ids"], origin)
        listed_ids = next_slot if listed else 0
        rules._slots.borrow(ready["owners"], ready["slot_starts"], translation, listed_ids, [range(start, stop)])
        if parts:
            made = tuple(Part(*(ready[f"part{number}.{name}"] for name in Part._fields)) for number in range(parts))
            rules._runs.add(_Run(made, range(start, stop), live))
        return rules

    def parts(self) -> list[Part]:
        """The parts of all runs."""
        return [part for run in self._runs for part in run.parts]

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        own = [
            *self.lists,
            *self._gone,
            self._slots.owners,
            self._slots.first_windows,
            self._slots.translation.slot_ids,
        ]
        return sum(array.nbytes for array in own) + sum(array.nbytes for part in self.parts() for array in part)

    def check(self) -> None:
        """Assert every invariant."""
        assert self._live == np.count_nonzero(self._slots.owners), "every live rule has an owner"
        gone = self._is_gone()
        live = 0
        end = 0
        for part in self.parts():
            assert part.meta[2] == -(-end // ALIGNED) * ALIGNED, "parts follow each other, aligned"
            end = int(part.meta[2] + part.meta[3])
            check_lists(part, self.lists)
            rows = rows_of(part, self.lists, gone)
            live += len(rows.slots)
            assert (self._slots.owners[rows.slots] == 1).all(), "what is not gone is live"
            starts = self._slots.first_windows[rows.slots]
            assert (self.lists.start_slots[starts] == rows.slots).all(), "a slot knows its start"
            if len(gone):
                own = np.arange(part.meta[2], end)
                ends = self.lists.start_ends[own[gone[own]]].astype(np.int64)
                assert read_bits(self._gone.ends, ends).all(), "what is gone is gone in both lists"
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
