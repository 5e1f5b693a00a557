"""SliceList: the production interval index, whose answers are contiguous runs of a shared array."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import Column, check_format, kernel_ready, require_groups, whole_id
from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.indexes.contracts.intervals import IntervalIndex
from fencepost.indexes.contracts.production import OrdinalIndex
from fencepost.indexes.contracts.registry import Bounds, Contents
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty
from fencepost.indexes.matches import Matches, Storage, answer_buffers, split_rows, widened
from fencepost.indexes.ordinal import ValueType, bounds_of, values_to_ordinals
from fencepost.indexes.runs import Runs, SlottedRuns, join_intervals
from fencepost.indexes.slice_list.changes import mark_gone, trace
from fencepost.indexes.slice_list.search import Translation, find_runs
from fencepost.indexes.slice_list.slot_table import SlotTable
from fencepost.indexes.slice_list.view import Slices, View, answer_values, count_values, locate_values, write_runs
from fencepost.indexes.slice_list.window_kernels import Intervals, Part
from fencepost.indexes.slice_list.windows import (
    build_part,
    check_part,
    check_touched,
    part_bytes,
    sort_intervals,
    split_layers,
    sweep_part,
    unpack,
)

_FORMAT = 3
_MOST_PARTS = 250
_MOST_RUNS = 8
"""Runs that are kept: every one of them is searched for every value."""
_SMALL_RUN = 256
"""Intervals that take about as long to lay out as one does."""
_LOOKUPS_PER_ROW = 8
"""Lookups that a part more costs as much as laying one interval out again."""
_GONE_TO_SWEEP, _SHARE_TO_SWEEP, _SHARE_TO_REBUILD = 4096, 32, 16
"""Entries that are gone cost every search that meets them: that many, and that part of all, are swept out by copying;
a larger part asks for a rebuild, since windows were cut for what is gone."""
_WORTH_THREADS = 8192
"""Values from which on threads gain more than it costs to start them."""
_NO_GROUPS = np.zeros(0, np.int64)
_NO_SLOTS = np.zeros(0, np.uint32)
_NONE_MISSING = np.zeros(0, np.bool_)


class _Run(NamedTuple):
    """The parts that one build made, by their numbers, with the slots they were given (if those are listed)."""

    numbers: tuple[int, ...]
    slots: range
    size: int


class SliceList(SlottedRuns[_Run], OrdinalIndex, IntervalIndex):
    """The fastest way to find the intervals that contain a value, with groups and live changes.

    How it works: see `fencepost.indexes.slice_list.windows`. An index is a few *parts*, each a set of windows
    over one shared array of 32-bit slots: layers of different length, intervals without a group, and recent
    changes, which are merged into larger parts as they accumulate (a logarithmic merge). Readers work on an
    immutable view, so a change is seen whole or not at all.

    Slots are ``id - origin`` where ids are dense, and positions in `slot_ids` where they are not.

    Args:
        values: ``"int64"`` or ``"float64"``; if not given, the first insert decides.
        budget: bytes per interval that the index may take, at least 48; layers are split until it holds.

    Costs: search one bucket, one window and one copy per part; insert and remove amortised O(log n) rebuilds.

    >>> index = SliceList()
    >>> index.insert_many([1, 2, 3], [10.0, 10.0, 12.5], [13.0, 11.0, None], groups=[7, 8, None])
    >>> index.stab([10.5, 10.5, 99.0], groups=[7, 8, 7]).sets()
    [{1}, {2}, {3}]
    >>> index.count([12.75], groups=[7]).tolist()
    [2]
    """

    def __init__(self, values: ValueType | None = None, budget: int = 64) -> None:
        super().__init__(values)
        if budget < 48:
            raise FencepostError(f"budget={budget}", "at least 48 bytes per interval", "Raise it.")
        self.budget = budget
        self._clear()
        self._publish()

    def _clear(self) -> None:
        self._ids = _slot_array(0)
        self._gone = np.zeros(0, np.uint64)
        self._slots = SlotTable()
        self._runs = Runs()
        self._parts: dict[int, Part] = {}
        self._used = 0
        self._gone_entries = 0
        self._live = 0
        self._asked = 0

    def _publish(self) -> None:
        """Let readers see the changes, all at once."""
        parts = tuple(self._parts[number] for run in self._runs for number in run.numbers)
        self._view = View(parts, self._ids, self._gone, self._slots.translation)

    # -- changing the set -------------------------------------------------------------------------------

    def insert(
        self,
        id: int,
        lo: float | None,
        hi: float | None,
        bounds: Bounds | None = None,
        group: int | None = None,
    ) -> None:
        """Add one interval; see `insert_many`."""
        self.insert_many([whole_id(id)], [lo], [hi], bounds, None if group is None else [group])

    def _add(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        self._slots.own()
        self._prepare_slots(ids)
        for chosen, keyed in ((in_all, False), (~in_all, True)):
            if chosen.any():
                some = slice(None) if chosen.all() else chosen
                slots = self._slots.new(ids[some])
                self._add_run(Intervals(slots, firsts[some], lasts[some], groups[some] if keyed else _NO_GROUPS))
        self._live += len(ids)
        self._asked = 0
        self._balance()
        self._publish()

    def _remove(self, slots: Int64s) -> None:
        self._gone = self._gone.copy() if len(self._gone) else np.zeros(len(self._ids) // 64 + 1, np.uint64)
        self._slots.own()
        owners = self._slots.owners[slots]
        for number in np.unique(owners).tolist():
            own = slots[owners == number]
            self._gone_entries += mark_gone(
                self._parts[number], self._ids, own, self._slots.first_windows[own], self._gone
            )
        self._slots.owners[slots] = 0
        self._live -= len(slots)
        if self._gone_entries > _GONE_TO_SWEEP and _SHARE_TO_SWEEP * self._gone_entries > self._used:
            self._sweep()
        self._balance()
        self._publish()

    def compact(self) -> None:
        """Merge all changes into a freshly built index: nothing gone, as few parts as possible."""
        with self._lock:
            if self._live:
                self._rebuild()
                self._publish()

    # -- parts ------------------------------------------------------------------------------------------

    def _add_run(self, rows: Intervals) -> None:
        """Build parts for these rows, together with every smaller run of recent changes.

        A run is small, too, if the lookups since the last change cost more for it than building it again does.
        """
        worth_merging = max(_SMALL_RUN, self._asked // _LOOKUPS_PER_ROW)
        keyed = len(rows.groups) > 0
        merged = [rows]
        for run in self._runs.take_smaller(len(rows.slots), worth_merging, lambda run: self._keyed(run) is keyed):
            merged += self._take_apart(run)
            self._drop(run)
        everything = join_intervals(merged)
        if self._slots.listed and len(merged) > 1:
            everything = everything._replace(slots=self._slots.new(self._slots.ids(everything.slots)))
        self._build(everything)

    def _take_apart(self, run: _Run) -> list[Intervals]:
        first_windows = self._slots.first_windows
        return [unpack(self._parts[n], self._ids, self._gone, first_windows, run.slots) for n in run.numbers]

    def _keyed(self, run: _Run) -> bool:
        return bool(self._parts[run.numbers[0]].meta[1])

    def _drop(self, run: _Run) -> None:
        """Let go of what a run was built into."""
        if self._slots.listed:
            self._slots.owners[run.slots.start : run.slots.stop] = 0
        for number in run.numbers:
            del self._parts[number]

    def _build(self, rows: Intervals) -> None:
        """Lay rows out in as few parts as the budget allows."""
        numbers = []
        found = list(split_layers(sort_intervals(rows), self._copies_allowed(rows)))
        self._make_room(sum(copies for _, _, copies in found))
        for layer, windows, copies in found:
            number = next(n for n in range(1, _MOST_PARTS) if n not in self._parts)
            self._parts[number] = build_part(layer, windows, copies, self.values == "float64", self._ids, self._used)
            self._slots.owners[layer.rows.slots] = number
            self._slots.first_windows[layer.rows.slots] = windows.starts_in
            self._used += copies
            numbers.append(number)
        slots = range(int(rows.slots.min()), int(rows.slots.max()) + 1)
        self._runs.add(_Run(tuple(numbers), slots, len(rows.slots)))
        self._runs.put_largest_first()

    def _copies_allowed(self, rows: Intervals) -> float:
        """How many windows an interval may lie in on average, within the budget."""
        groups = len(np.unique(rows.groups[:65536])) / min(len(rows.groups), 65536) if len(rows.groups) else 0.0
        fixed = 20 + 5 * max(1.0, len(self._slots.owners) / max(1, len(rows.slots) + self._live))
        fixed += 8 if self._slots.listed else 0
        fixed += 4 + 36 * groups
        return max(4.0, (self.budget - fixed) / 4)

    def _make_room(self, needed: int) -> None:
        """Room for more slots in the shared array; readers keep the array they have."""
        if self._used + needed + PADDING > len(self._ids):
            larger = _slot_array(self._used + needed + (self._used + needed) // 64)
            larger[: self._used] = self._ids[: self._used]
            larger[self._used + needed :] = 0
            self._ids = larger
            if len(self._gone):
                self._gone = np.append(self._gone, np.zeros(len(larger) // 64 + 1 - len(self._gone), np.uint64))

    def _sweep(self) -> None:
        """Leave out what is gone, window by window: copies without searching or sorting anything."""
        ids = _slot_array(self._used - self._gone_entries)
        at = 0
        for number, part in self._parts.items():
            self._parts[number] = sweep_part(part, self._ids, self._gone, ids, at)
            at += int(self._parts[number].meta[2])
        self._ids, self._gone = ids, np.zeros(0, np.uint64)
        self._used, self._gone_entries = at, 0

    def _balance(self) -> None:
        """Rebuild once changes have grown to a share of the index that readers would notice."""
        if self._live == 0:
            self._clear()
        elif (
            _SHARE_TO_REBUILD * self._gone_entries > self._used
            or self._runs.outgrown
            or 2 * self._live < self._runs.rows
            or len(self._runs) > _MOST_RUNS
        ):
            self._rebuild()

    def _build_bulk(self, rows: list[Intervals], ids: list[Int64s]) -> None:
        for each, own_ids in zip(rows, ids, strict=True):
            self._build(each._replace(slots=self._slots.new(own_ids)))

    # -- asking -----------------------------------------------------------------------------------------

    def stab(
        self,
        values: Column,
        out: Matches | None = None,
        groups: Column | None = None,
        slots: bool = False,
        threads: int = 1,
    ) -> Matches:
        """The ids of all intervals that contain each value.

        Args:
            values: numbers; NaN or None lies in no interval.
            out: buffers to write into instead of new ones; the answer is a view of them.
            groups: the group of each value.
            slots: return the index's own 32-bit slots (translate with `slot_ids`), which is faster.
            threads: cores to split a large batch over.
        """
        view = self._view
        ordinals, missing = values_to_ordinals(values, self.values or "float64")
        self._asked += len(ordinals)
        return self._stab(view, ordinals, missing, self._asked_groups(view, len(ordinals), groups), slots, out, threads)

    def stab_ordinals(
        self,
        ordinals: Int64s,
        missing: Bools | None = None,
        groups: Int64s | None = None,
        slots: bool = False,
        names: Int64s | None = None,
    ) -> Matches:
        """Like `stab`, for values and groups that are int64 arrays already.

        Args:
            ordinals: of the values.
            missing: marks values in no interval.
            groups: of the values.
            slots: return slots.
            names: return these in place of ids, by slot.
        """
        view = self._view if names is None else self._view._replace(translation=Translation(names, 0))
        absent = _NONE_MISSING if missing is None else missing
        if groups is None:
            return self._stab(view, ordinals, absent, self._asked_groups(view, len(ordinals), None), slots, None, 1)
        return self._stab(view, ordinals, absent, groups, slots, None, 1)

    def slots_at(self, ordinal: int, group: int = 0) -> UInt32s:
        """The slots of the intervals that contain one value: `stab_ordinals` for a caller who waits for one row."""
        view, values, groups = self._view, np.array([ordinal]), np.array([group])
        if len(view.gone):
            return self.stab_ordinals(values, None, groups, slots=True).ids
        runs = np.empty((1, len(view.parts), 2), np.uint32)
        for column, part in enumerate(view.parts):
            find_runs(part, values, _NONE_MISSING, groups, runs, column)
        found = [view.ids[start : start + length] for start, length in runs[0].tolist() if length]
        return found[0] if len(found) == 1 else np.concatenate([_NO_SLOTS, *found])

    def _stab(
        self,
        view: View,
        ordinals: Int64s,
        missing: Bools,
        keys: Int64s,
        slots: bool,
        out: Matches | None,
        threads: int,
    ) -> Matches:
        dtype = np.uint32 if slots else np.int64
        if threads > 1 and len(ordinals) >= _WORTH_THREADS:
            return self._stab_threaded(view, ordinals, missing, keys, dtype, out, threads)
        return answer_values(view, ordinals, missing, keys, dtype, out)

    def _stab_threaded(
        self,
        view: View,
        ordinals: Int64s,
        missing: Bools,
        groups: Int64s,
        dtype: npt.DTypeLike,
        out: Matches | None,
        threads: int,
    ) -> Matches:
        shares = split_rows(len(ordinals), threads)
        with ThreadPoolExecutor(threads) as pool:
            found = list(
                pool.map(lambda share: locate_values(view, ordinals[share], missing[share], groups[share]), shares)
            )
            ends = np.cumsum([size for _, size in found]).tolist()
            offsets, ids = answer_buffers(len(ordinals), ends[-1], dtype, out)
            if len(ids) < ends[-1]:
                ids = widened(ids, 0, ends[-1], out)

            def write(share: slice, runs: UInt32s, start: int, end: int) -> None:
                own = np.empty(len(runs) + 1, np.int64)
                own[0] = start
                write_runs(view, runs, own, ids, end)
                offsets[share.start + 1 : share.stop + 1] = own[1:]

            list(pool.map(write, shares, [runs for runs, _ in found], [0, *ends[:-1]], ends))
        offsets[0] = 0
        return Matches(offsets, ids[: offsets[-1]])

    def count(self, values: Column, groups: Column | None = None) -> Int64s:
        """How many intervals contain each value."""
        view = self._view
        ordinals, missing = values_to_ordinals(values, self.values or "float64")
        self._asked += len(ordinals)
        keys = self._asked_groups(view, len(ordinals), groups)
        counts = np.empty(len(ordinals), np.int64)
        count_values(view, ordinals, missing, keys, counts)
        return counts

    def slices(self, values: Column, groups: Column | None = None) -> Slices:
        """The answer as runs of the shared array, nothing copied; removed intervals are swept out first."""
        if len(self._view.gone):
            with self._lock:
                if len(self._gone):  # another reader may have swept meanwhile
                    self._sweep()
                    self._publish()
        view = self._view
        ordinals, missing = values_to_ordinals(values, self.values or "float64")
        keys = self._asked_groups(view, len(ordinals), groups)
        runs = np.empty((len(ordinals), max(1, len(view.parts)), 2), np.uint32)
        runs[:, len(view.parts) :] = 0
        for column, part in enumerate(view.parts):
            find_runs(part, ordinals, missing, keys, runs, column)
        return Slices(runs, view.ids, view.translation)

    def _asked_groups(self, view: View, values: int, groups: Column | None) -> Int64s:
        if not any(part.meta[1] for part in view.parts):
            return _NO_GROUPS
        return require_groups(groups, values, "value", "intervals")

    # -- saving -----------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything the index is, as flat arrays to save; changes are merged in first."""
        with self._lock:
            if len(self._gone) or len(self._runs) > 2:
                self._rebuild()
                self._publish()
            arrays: dict[str, npt.NDArray[Any]] = {
                "ids": self._ids,
                "slot_ids": self._slots.translation.slot_ids,
                "owners": self._slots.owners,
                "first_windows": self._slots.first_windows,
                "state": np.array([_FORMAT, self.values == "float64", self.budget, *self._counters()]),
                "runs": np.array(
                    [[r.slots.start, r.slots.stop, r.size, number] for r in self._runs for number in r.numbers]
                ).reshape(-1, 4),
            }
            for number, part in self._parts.items():
                arrays |= {f"part{number}.{name}": array for name, array in part._asdict().items()}
            return arrays

    def _counters(self) -> list[int]:
        return [self._slots.translation.origin, self._used, self._live, self._slots.next, self._slots.listed]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The index that `to_arrays` described; arrays may be memory-mapped and read-only, nothing is copied."""
        ready = {name: kernel_ready(array) for name, array in arrays.items()}
        version, is_float, budget, origin, used, live, next_slot, listed = ready["state"].tolist()
        check_format(version, _FORMAT)
        index = cls("float64" if is_float else "int64", budget)
        index._ids, index._used, index._live = ready["ids"], used, live
        slots = index._slots
        slots.owners, slots.first_windows, slots.borrowed = ready["owners"], ready["first_windows"], True
        slots.translation = Translation(ready["slot_ids"], origin)
        slots.next, slots.listed = next_slot, bool(listed)
        numbers: dict[tuple[int, int, int], list[int]] = {}
        for start, stop, size, number in ready["runs"].tolist():
            numbers.setdefault((start, stop, size), []).append(number)
            index._parts[number] = Part(*(ready[f"part{number}.{name}"] for name in Part._fields))
        for (start, stop, size), parts in numbers.items():
            index._runs.add(_Run(tuple(parts), range(start, stop), size))
        index._publish()
        return index

    # -- reporting --------------------------------------------------------------------------------------

    @property
    def slot_ids(self) -> Int64s:
        """The id of every slot."""
        return self._view.translation.table(len(self._slots.owners))

    def interval(self, id: int) -> tuple[float, float]:
        """The bounds of one interval ``[lo, hi)``, infinite where it is unbounded."""
        return bounds_of(*self.ordinals(id), self.values or "float64")

    def ordinals(self, id: int) -> tuple[int, int]:
        """The first and last ordinal of one interval."""
        with self._lock:
            slot, part, window = self._home(id)
            group_end = int(part.groups_first[np.searchsorted(part.groups_first, window, "right")])
            first, last = trace(part, self._ids, group_end, slot, window)
            return int(first), int(last)

    def group_of(self, id: int) -> int | None:
        """The group of one interval; None if it holds in every group."""
        with self._lock:
            _, part, window = self._home(id)
            if not part.meta[1]:
                return None
            return int(part.group_keys[np.searchsorted(part.groups_first, window, "right") - 1])

    def contents(self) -> Contents:
        """Every interval of the index, by ascending id."""
        with self._lock:
            parts = [(rows, self._keyed(run)) for run in self._runs for rows in self._take_apart(run)]
        counts = [len(rows.slots) for rows, _ in parts]
        ids = np.concatenate([_NO_GROUPS, *(self._slots.ids(rows.slots) for rows, _ in parts)])
        order = sorted_positions(ids)
        groups = [rows.groups if keyed else np.zeros(len(rows.slots), np.int64) for rows, keyed in parts]
        return Contents(
            ids[order],
            np.concatenate([_NO_GROUPS, *(rows.firsts for rows, _ in parts)])[order],
            np.concatenate([_NO_GROUPS, *(rows.lasts for rows, _ in parts)])[order],
            np.concatenate([_NO_GROUPS, *groups])[order],
            np.repeat(np.array([keyed for _, keyed in parts], np.bool_), counts)[order],
        )

    def _home(self, id: int) -> tuple[int, Part, int]:
        """The slot of an interval, its part and its first window there."""
        slot = self._slot(id)
        return slot, self._parts[int(self._slots.owners[slot])], int(self._slots.first_windows[slot])

    def storage(self) -> Storage:
        """Windows and the slots in them; the model is 4 bytes per slot and 8 per window and edge."""
        view = self._view
        windows = sum(len(part.windows) - 1 for part in view.parts)
        edges = sum(len(part.edges) - PADDING for part in view.parts)
        entries = sum(int(part.meta[2]) for part in view.parts)
        real = sum(part_bytes(part) for part in view.parts) + view.ids.nbytes + view.gone.nbytes
        real += self._slots.owners.nbytes + self._slots.first_windows.nbytes + view.translation.slot_ids.nbytes
        return Storage(windows, entries, 8 * (windows + edges) + 4 * entries, real)

    def __len__(self) -> int:
        return self._live

    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""
        assert self._live == np.count_nonzero(self._slots.owners), "every live interval has an owner"
        live = 0
        parts = [held for run in self._runs for held in zip(run.numbers, self._take_apart(run), strict=True)]
        for number, rows in parts:
            part = self._parts[number]
            check_part(part, self._ids)
            check_touched(part, rows)
            assert len(np.unique(rows.slots)) == len(rows.slots), "no interval is stored twice"
            assert (self._slots.owners[rows.slots] == number).all(), "the owner of a slot is the part that holds it"
            assert (rows.firsts <= rows.lasts).all(), "no interval is empty"
            live += len(rows.slots)
        assert live == self._live, "the parts hold every live interval"
        assert self._used <= len(self._ids) - PADDING, "the shared array has its slack"


def _slot_array(size: int) -> UInt32s:
    array: UInt32s = aligned_empty(size, np.uint32)
    return array
