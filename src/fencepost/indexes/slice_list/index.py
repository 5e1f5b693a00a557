"""SliceList: the production interval index, whose answers are contiguous runs of a shared array."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
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
from fencepost.indexes.ordinal import LARGEST, SMALLEST, ValueType, bounds_of, plain_range, values_to_ordinals
from fencepost.indexes.runs import Runs, join_intervals
from fencepost.indexes.slice_list.changes import built_window, measure_copy, slot_bounds, trace
from fencepost.indexes.slice_list.edits import (
    EDGES_NEEDED,
    MARKS,
    READ,
    SLOTS_NEEDED,
    USED,
    insert_rows,
    remove_rows,
    unshare_rows,
)
from fencepost.indexes.slice_list.search import Translation, find_runs
from fencepost.indexes.slice_list.slot_table import SlotTable
from fencepost.indexes.slice_list.view import Slices, View, answer_values, count_values, locate_values, write_runs
from fencepost.indexes.slice_list.window_kernels import PACKED, Intervals, Part
from fencepost.indexes.slice_list.windows import (
    build_part,
    check_part,
    check_touched,
    copy_part,
    edge_count,
    has_pieces,
    part_bytes,
    sort_intervals,
    split_layers,
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
_FEW, _SHARE_TO_EDIT = 64, 64
"""So many changes, and that part of all intervals, are edited in place; for more it is faster to copy or to build."""
_WORTH_SORTING = 16
"""Changes from which on it is faster to go from window to window in their order."""
_SHARE_TO_REBUILD, _NEVER_MANY = 8, 128
"""All is built anew when changes exceed that part of the intervals: windows were cut for others."""
_SHARE_IN_RESERVE, _LEAST_RESERVE = 16, 64
"""Room behind loose windows, for those that move."""
_WORTH_THREADS = 8192
"""Values from which on threads gain more than it costs to start them."""
_NO_GROUPS = np.zeros(0, np.int64)
_NO_SLOTS = np.zeros(0, np.uint32)
_NONE_MISSING = np.zeros(0, np.bool_)


class _Run(NamedTuple):
    """The parts that one build made, by their numbers."""

    numbers: tuple[int, ...]
    keyed: bool
    size: int


class SliceList(OrdinalIndex, IntervalIndex):
    """The fastest way to find the intervals that contain a value, with groups and live changes.

    How it works: see `fencepost.indexes.slice_list.windows`. An index is a few *parts*, each a set of windows
    over one shared array of 32-bit slots: layers of different length, intervals without a group, and recent
    changes that fit into no window, which are merged into larger parts as they accumulate (a logarithmic merge).

    Readers work on a view. A writer takes it away first, so that nobody can begin to read, and looks whether somebody
    still holds it. If not, windows are edited in place. If so, what can be reached from that view stays as it is:
    windows that change move, and the table of windows is copied. So a change is seen whole or not at all.

    Slots are ``id - origin`` where ids are dense, and positions in a list of ids for those that are not.

    Args:
        values: ``"int64"`` or ``"float64"``; if not given, the first insert decides.
        budget: bytes per interval that the index may take, at least 48; layers are split until it holds. Windows that
            were edited take an eighth more.

    Costs: search one bucket, one window and one copy per part; insert and remove as many windows as the interval lies
    in, and amortised O(log n) rebuilds.

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
        self._view: View | None = None
        self._held: list[Callable[[], object]] = []
        self._one, self._one_keyed = _one_row(keyed=False), _one_row(keyed=True)
        self._one_slot = np.zeros(1, np.int64)
        self._clear()
        self._publish()

    def _clear(self) -> None:
        self._ids = _slot_array(0)
        self._borrowed = False
        """Whether `ids` belongs to somebody else, too."""
        self._marks = np.zeros(MARKS, np.int64)
        self._slots = SlotTable()
        self._runs = Runs[_Run]()
        self._parts: dict[int, Part] = {}
        self._rooms: dict[int, UInt32s] = {}
        """Of parts that are loose: where the room of each window ends, for slots and for edges, and of all edges."""
        self._layers: dict[int, int] = {}
        """Bits of the longest interval that the layer below holds."""
        self._read: set[int] = set()
        """Parts whose tables somebody may read."""
        self._edits = 0
        self._live = 0
        self._asked = 0

    # -- readers and writers ------------------------------------------------------------------------------

    def _current(self) -> View:
        """What to read; whoever holds it keeps it from changing."""
        view = self._view
        if view is None:
            with self._lock:  # a writer has taken it
                view = self._view
                assert view is not None, "a writer publishes before it leaves"
        return view

    def _open(self) -> None:
        """Take the view away, so that nobody can begin to read, and see what others may still read.

        Everything that changes an index comes between this and `_publish`.
        """
        self._slots.own()  # nothing has changed where there is no memory for that
        still_held, self._view = self._watch, None
        if still_held() is not None:
            self._held.append(still_held)
            self._read = set(self._parts)
            self._marks[READ] = self._marks[USED]
        elif self._held:
            self._held = [holds for holds in self._held if holds() is not None]
            if not self._held:
                self._release()

    def _release(self) -> None:
        """Nobody reads what is there."""
        self._held = []
        self._read = set()
        self._marks[READ] = 0

    def _publish(self) -> None:
        """Let readers see the changes, all at once."""
        parts = tuple([self._parts[number] for run in self._runs for number in run.numbers])
        view = View(parts, self._ids, self._slots.translation)
        self._watch = weakref.ref(view)
        self._view = view

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
        if type(id) is int and bounds in (None, "[)") and (group is None or type(group) is int):
            found = plain_range(lo, hi, self.values)
            if found is not None:
                with self._lock:
                    if self._insert_one(id, *found, group):
                        return
        self.insert_many([whole_id(id)], [lo], [hi], bounds, None if group is None else [group])

    def _insert_one(self, id: int, first: int, last: int, group: int | None) -> bool:
        """Insert one interval, unless its id is for `insert_many` to refuse or to make room for."""
        numbers = (id,) if group is None else (id, group)
        if self._slots.borrowed or not self._live or not all(SMALLEST <= each <= LARGEST for each in numbers):
            return False
        slot = self._slots.vacant(id)
        if slot < 0:
            return False
        self._open()
        try:
            rows = self._one if group is None else self._one_keyed
            self._slots.take(slot, id)
            rows.slots[0], rows.firsts[0], rows.lasts[0] = slot, first, last
            if group is not None:
                rows.groups[0] = group
            self._live += 1
            self._insert_rows(rows)
            if self._slots.owners[slot]:
                self._edits += 1
            else:
                self._add_run(rows)
            self._asked = 0
            self._balance()
        except BaseException:
            self._forget(np.array([id]))
            raise
        finally:
            self._publish()
        return True

    def remove(self, id: int) -> None:
        """Take one out."""
        with self._lock:
            slot = self._slots.slot_of(id) if type(id) is int and SMALLEST <= id <= LARGEST else -1
            if slot < 0:
                self.remove_many([whole_id(id)])
            else:
                self._one_slot[0] = slot
                self._remove(self._one_slot)

    def _find(self, id: int) -> int:
        with self._lock:
            return self._slots.slot_of(id)

    def _slots_of(self, ids: Int64s) -> Int64s:
        """The slot of each id, or -1."""
        return self._slots.find(ids)

    def _prepare_slots(self, ids: Int64s) -> None:
        """Choose how ids map to slots, or see that these can have slots, too: ids that are far are listed."""
        low, high = int(ids.min()), int(ids.max())
        if not self._live:
            self._clear()
            self._slots.map(low, high, len(ids))
        elif not self._slots.reaches(low, high, self._live + len(ids)):
            self._slots.mix()

    def _add(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        self._open()
        try:
            self._prepare_slots(ids)
            left = []
            for chosen, keyed in ((in_all, False), (~in_all, True)):
                if chosen.any():
                    some = slice(None) if chosen.all() else chosen
                    rows = Intervals(
                        self._slots.new(ids[some]), firsts[some], lasts[some], groups[some] if keyed else _NO_GROUPS
                    )
                    self._live += len(rows.slots)
                    left.append(self._insert_few(rows))
            left = [rows for rows in left if len(rows.slots)]
            with self._all_or_none() if len(left) > 1 else nullcontext():
                for rows in left:
                    self._add_run(rows)
            self._asked = 0
        except BaseException:
            self._forget(ids)
            raise
        else:
            self._balance()  # the change is made, whether or not this is interrupted
        finally:
            self._publish()

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """Parts are as they were if the block is left by an exception; it builds parts, and edits none."""
        before = self.__dict__ | {
            "_marks": self._marks.copy(),
            "_runs": self._runs.copy(),
            "_parts": dict(self._parts),
            "_rooms": dict(self._rooms),
            "_layers": dict(self._layers),
            "_read": set(self._read),
        }
        slots, where = self._slots, (self._slots.owners.copy(), self._slots.first_windows.copy())
        try:
            yield
        except BaseException:
            self.__dict__.update(before)
            slots.owners, slots.first_windows = where
            raise

    def _forget(self, ids: Int64s) -> None:
        """Take out what there is of new ids whose change failed: there was no memory for it, or it was interrupted.

        What it takes out lies in windows that nobody else may read, so it needs no memory worth mentioning itself.
        """
        slots = self._slots.find(ids)
        owners = self._slots.owners
        for number in self._rooms:
            remove_rows(self._parts[number], self._ids, number, owners, self._slots.first_windows, slots)
        self._live = int(np.count_nonzero(owners))

    def _insert_few(self, rows: Intervals) -> Intervals:
        """Insert rows where they fit, if they are few; those that do not."""
        if not self._is_few(len(rows.slots)):
            return rows
        self._insert_rows(rows)
        left = self._slots.owners[rows.slots] == 0
        self._edits += len(left) - int(np.count_nonzero(left))
        return Intervals(*(column[left] if len(column) else column for column in rows))

    def _insert_rows(self, rows: Intervals) -> None:
        """Insert what fits into the layers of the largest run, the longest intervals first."""
        keyed = len(rows.groups) > 0
        if len(rows.slots) > _WORTH_SORTING:
            order = np.argsort(rows.firsts)
            rows = Intervals(*(column[order] if len(column) else column for column in rows))
        bulk = next((run for run in self._runs if run.keyed is keyed), None)
        slots = self._slots
        numbers = bulk.numbers if bulk else ()
        for number in reversed(numbers):
            if number != numbers[-1] and slots.owners[rows.slots].all():
                break
            at, least = 0, self._layers.get(number, -1)
            while at < len(rows.slots):
                part, room = self._editable(number)
                at = insert_rows(
                    part, self._ids, room, self._marks, number, least, slots.owners, slots.first_windows, *rows, at
                )
                if at < len(rows.slots):
                    self._spread()

    def _remove(self, slots: Int64s) -> None:
        self._open()
        try:
            if self._is_few(len(slots)):
                self._remove_rows(slots)
            else:
                self._sweep(slots)
            self._edits += len(slots)
            self._live -= len(slots)
            self._balance()
        finally:
            self._publish()

    def _remove_rows(self, slots: Int64s) -> None:
        """Remove intervals from the windows they lie in: first all that needs memory, then what changes the set."""
        table = self._slots
        if len(slots) > _WORTH_SORTING:
            slots = slots[np.argsort(table.first_windows[slots])]
        numbers = set(table.owners[slots].tolist())
        for number in numbers:
            self._editable(number)
        for number in numbers:
            at = 0
            while self._marks[READ] > 0 and at < len(slots):
                part, room = self._editable(number)
                at = unshare_rows(
                    part, self._ids, room, self._marks, number, table.owners, table.first_windows, slots, at
                )
                if at < len(slots):
                    self._spread()
        for number in numbers:
            remove_rows(self._parts[number], self._ids, number, table.owners, table.first_windows, slots)

    def _sweep(self, slots: Int64s) -> None:
        """Remove intervals by copying all others."""
        owners = self._slots.owners
        before = owners[slots]
        owners[slots] = 0
        try:
            self._copy_parts(loose=len(self._rooms) > 0, sweep=True)
        except BaseException:
            owners[slots] = before
            raise

    def _is_few(self, changes: int) -> bool:
        """Whether so many changes are better made one by one."""
        return changes <= _FEW + self._live // _SHARE_TO_EDIT

    def compact(self) -> None:
        """Merge all changes into a freshly built index: nothing spare, as few parts as possible."""
        with self._lock:
            if self._live:
                self._open()
                try:
                    self._rebuild()
                finally:
                    self._publish()

    # -- parts ------------------------------------------------------------------------------------------

    def _add_run(self, rows: Intervals) -> None:
        """Build parts for these rows, together with every smaller run of recent changes.

        A run is small, too, if the lookups since the last change cost more for it than building it again does.
        """
        worth_merging = max(_SMALL_RUN, self._asked // _LOOKUPS_PER_ROW)
        keyed = len(rows.groups) > 0
        taken = self._runs.take_smaller(len(rows.slots), worth_merging, lambda run: run.keyed is keyed)
        try:
            merged = [each for run in taken for each in self._take_apart(run) if len(each.slots)]
            self._build(join_intervals([rows, *merged]))
        except BaseException:
            for run in reversed(taken):
                self._runs.add(run)
            raise
        for number in [number for run in taken for number in run.numbers]:
            del self._parts[number]
            self._rooms.pop(number, None)

    def _take_apart(self, run: _Run) -> list[Intervals]:
        return [unpack(self._parts[number], self._ids, self._slots.first_windows) for number in run.numbers]

    def _build(self, rows: Intervals) -> None:
        """Lay rows out in as few parts as the budget allows; nothing changes before all of them are there."""
        found = list(split_layers(sort_intervals(rows), self._copies_allowed(rows)))
        self._make_room(sum(copies for _, _, copies in found))
        used, made, longest = int(self._marks[USED]), [], -1
        for layer, windows, copies in found:
            part = build_part(layer, windows, copies, self.values == "float64", self._ids, used)
            made.append((part, longest, layer.rows.slots.astype(np.int64), windows.starts_in))
            used += copies
            if len(found) > 1:
                longest = int((layer.rows.lasts.view(np.uint64) - layer.rows.firsts.view(np.uint64)).max()).bit_length()
        numbers = [number for number in range(1, _MOST_PARTS) if number not in self._parts][: len(made)]
        run = _Run(tuple(numbers), len(rows.groups) > 0, len(rows.slots))
        self._marks[USED] = used
        for number, (part, least, slots, starts_in) in zip(numbers, made, strict=True):
            self._parts[number], self._layers[number] = part, least
            self._slots.owners[slots] = number
            self._slots.first_windows[slots] = starts_in
        self._runs.add(run)
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
        used = int(self._marks[USED])
        if used + needed + PADDING <= len(self._ids) and not self._borrowed:
            return
        if self._rooms:  # much of the array may be where windows and runs have been
            self._copy_parts(loose=True, slots=needed)
        else:
            larger = _slot_array(used + needed + (used + needed) // 64)
            larger[:used] = self._ids[:used]
            larger[used + needed :] = 0
            self._ids, self._borrowed = larger, False

    def _editable(self, number: int) -> tuple[Part, UInt32s]:
        """A part whose windows can be edited without anybody's noticing, and the room of its windows."""
        if number not in self._rooms:
            self._loosen(number)
        elif number in self._read:
            part = self._parts[number]
            copied = {name: getattr(part, name).copy() for name in ("windows", "touched", "meta")}
            self._parts[number] = part._replace(**copied)
            self._read.discard(number)
        return self._parts[number], self._rooms[number]

    def _loosen(self, number: int) -> None:
        """Give the windows of one part room to grow, at the end of the shared array or all in a new one."""
        slots, edges = measure_copy(self._parts[number], True)
        used = int(self._marks[USED])
        if self._borrowed or used + slots + PADDING > len(self._ids):
            self._copy_parts(loose=True)
            return
        part, room, end = copy_part(
            self._parts[number], self._ids, None, self._ids, used, with_reserve(edges), loose=True
        )
        self._parts[number], self._rooms[number], self._marks[USED] = part, room, end
        self._read.discard(number)

    def _spread(self) -> None:
        """Give all windows room again, and the arrays as much as was lacking."""
        self._copy_parts(loose=True, slots=int(self._marks[SLOTS_NEEDED]), edges=int(self._marks[EDGES_NEEDED]))

    def _copy_parts(self, loose: bool, slots: int = 0, edges: int = 0, sweep: bool = False) -> None:
        """Copy all windows into new arrays, which have a reserve if windows are loose.

        Args:
            loose: whether windows have room to grow.
            slots: the reserve that is needed for slots.
            edges: and for the edges of each part.
            sweep: whether to leave out what has no owner any more.
        """
        sizes = {number: measure_copy(part, loose) for number, part in self._parts.items()}
        total = sum(each for each, _ in sizes.values())
        ids = _slot_array(with_reserve(total, slots) if loose else total)
        at, parts, rooms = 0, dict[int, Part](), dict[int, UInt32s]()
        for number, (_, own) in sizes.items():
            reserved = with_reserve(own, edges) if loose else own
            owned = (self._slots.owners, number) if sweep else None
            parts[number], room, at = copy_part(self._parts[number], self._ids, owned, ids, at, reserved, loose)
            if loose:
                rooms[number] = room
        if not loose:
            ids[at:] = 0
        self._parts, self._rooms, self._ids, self._borrowed = parts, rooms, ids, False
        self._release()
        self._marks[USED] = at

    def _balance(self) -> None:
        """Rebuild once changes have grown to a share of the index that readers would notice, if there is memory."""
        if self._live == 0:
            self._clear()
        elif (
            self._edits > self._live // _SHARE_TO_REBUILD + _NEVER_MANY
            or self._runs.outgrown
            or 2 * self._live < self._runs.rows
            or len(self._runs) > _MOST_RUNS
        ):
            with suppress(MemoryError):  # the change is made; the next one tries again
                self._rebuild()

    def _rebuild(self) -> None:
        """Build everything anew from what is live."""
        with self._all_or_none():
            rows = [each for run in self._runs for each in self._take_apart(run) if len(each.slots)]
            by_kind = [[each for each in rows if (len(each.groups) > 0) is keyed] for keyed in (False, True)]
            joined = [join_intervals(each) for each in by_kind if each]
            ids = [self._slots.ids(each.slots) for each in joined]
            live = self._live
            self._clear()
            self._live = live
            self._slots.map(min(int(each.min()) for each in ids), max(int(each.max()) for each in ids), live)
            for own, own_ids in zip(joined, ids, strict=True):
                self._build(own._replace(slots=self._slots.new(own_ids)))

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
        view = self._current()
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
        view = held = self._current()
        if names is not None:
            view = View(held.parts, held.ids, Translation(names, 0))
        absent = _NONE_MISSING if missing is None else missing
        if groups is None:
            return self._stab(view, ordinals, absent, self._asked_groups(view, len(ordinals), None), slots, None, 1)
        return self._stab(view, ordinals, absent, groups, slots, None, 1)

    def view(self) -> View:
        """What readers work on: whoever holds it keeps it from changing."""
        return self._current()

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
        from concurrent.futures import ThreadPoolExecutor  # few answers need threads

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
        view = self._current()
        ordinals, missing = values_to_ordinals(values, self.values or "float64")
        self._asked += len(ordinals)
        keys = self._asked_groups(view, len(ordinals), groups)
        counts = np.empty(len(ordinals), np.int64)
        count_values(view, ordinals, missing, keys, counts)
        return counts

    def slices(self, values: Column, groups: Column | None = None) -> Slices:
        """The answer as runs of the shared array, nothing copied: it stays as it is for as long as anyone holds it."""
        view = self._current()
        ordinals, missing = values_to_ordinals(values, self.values or "float64")
        keys = self._asked_groups(view, len(ordinals), groups)
        runs = np.empty((len(ordinals), max(1, len(view.parts)), 2), np.uint32)
        runs[:, len(view.parts) :] = 0
        for column, part in enumerate(view.parts):
            find_runs(part, ordinals, missing, keys, runs, column)
        return Slices(runs, view)

    def _asked_groups(self, view: View, values: int, groups: Column | None) -> Int64s:
        if not any(part.meta[1] for part in view.parts):
            return _NO_GROUPS
        return require_groups(groups, values, "value", "intervals")

    # -- saving -----------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything the index is, as flat arrays to save; changes are merged in first."""
        with self._lock:
            self._settle()
            arrays: dict[str, npt.NDArray[Any]] = {
                "ids": self._ids,
                "slot_ids": self._slots.translation.slot_ids,
                "owners": self._slots.owners,
                "first_windows": self._slots.first_windows,
                "state": np.array([_FORMAT, self.values == "float64", self.budget, *self._counters()]),
                "runs": np.array(
                    [[at.start, at.stop, run.size, number] for at, run in self._saved_runs() for number in run.numbers]
                ).reshape(-1, 4),
            }
            for number, part in self._parts.items():
                rows = {"windows": part.windows.reshape(-1, PACKED), "meta": part.meta[:3]}
                arrays |= {f"part{number}.{name}": array for name, array in (part._asdict() | rows).items()}
            return arrays

    def _settle(self) -> None:
        """Have windows packed and ids listed in stretches that ascend, in arrays that a later change leaves alone."""
        to_rebuild = len(self._runs) > 2 or any(has_pieces(part) for part in self._parts.values())
        to_rebuild = to_rebuild or not self._slots.ascend([bounds for bounds, _ in self._saved_runs()])
        if to_rebuild or self._rooms:
            self._open()
            try:
                if to_rebuild:
                    self._rebuild()
                else:
                    self._copy_parts(loose=False)
            finally:
                self._publish()
        self._borrowed = self._slots.borrowed = True

    def _saved_runs(self) -> list[tuple[range, _Run]]:
        """Runs, and where their slots are."""
        saved = []
        for run in self._runs:
            bounds = [slot_bounds(self._parts[number], self._ids) for number in run.numbers]
            saved.append((range(min(low for low, _ in bounds), max(high for _, high in bounds) + 1), run))
        return saved

    def _counters(self) -> list[int]:
        translation, used = self._slots.translation, int(self._marks[USED])
        return [translation.origin, used, self._live, self._slots.next, self._slots.listed]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The index that `to_arrays` described; arrays may be memory-mapped and read-only, nothing is copied."""
        ready = {name: kernel_ready(array) for name, array in arrays.items()}
        version, is_float, budget, origin, used, live, next_slot, listed = ready["state"].tolist()
        check_format(version, _FORMAT)
        index = cls("float64" if is_float else "int64", budget)
        index._ids, index._live, index._borrowed = ready["ids"], live, True
        index._marks[USED] = used
        numbers: dict[tuple[int, int, int], list[int]] = {}
        for start, stop, size, number in ready["runs"].tolist():
            numbers.setdefault((start, stop, size), []).append(number)
            rows = {
                "windows": ready[f"part{number}.windows"].reshape(-1),
                "meta": np.append(ready[f"part{number}.meta"], [PACKED, len(ready[f"part{number}.windows"]) - 1]),
            }
            index._parts[number] = Part(**{name: ready[f"part{number}.{name}"] for name in Part._fields} | rows)
        for (_, _, size), parts in numbers.items():
            index._runs.add(_Run(tuple(parts), bool(index._parts[parts[0]].meta[1]), size))
        index._slots.borrow(
            ready["owners"],
            ready["first_windows"],
            Translation(ready["slot_ids"], origin),
            next_slot if listed else 0,
            [range(start, stop) for start, stop, _ in numbers],
        )
        index._publish()
        return index

    # -- reporting --------------------------------------------------------------------------------------

    @property
    def slot_ids(self) -> Int64s:
        """The id of every slot."""
        return self._current().translation.table(len(self._slots.owners))

    def interval(self, id: int) -> tuple[float, float]:
        """The bounds of one interval ``[lo, hi)``, infinite where it is unbounded."""
        return bounds_of(*self.ordinals(id), self.values or "float64")

    def ordinals(self, id: int) -> tuple[int, int]:
        """The first and last ordinal of one interval."""
        with self._lock:
            slot, part, window = self._home(id)
            built = built_window(part, window)
            group_end = int(part.groups_first[np.searchsorted(part.groups_first, built, "right")])
            first, last = trace(part, self._ids, group_end, slot, window)
            return int(first), int(last)

    def group_of(self, id: int) -> int | None:
        """The group of one interval; None if it holds in every group."""
        with self._lock:
            _, part, window = self._home(id)
            if not part.meta[1]:
                return None
            return int(part.group_keys[np.searchsorted(part.groups_first, built_window(part, window), "right") - 1])

    def contents(self) -> Contents:
        """Every interval of the index, by ascending id."""
        with self._lock:
            parts = [(rows, run.keyed) for run in self._runs for rows in self._take_apart(run)]
            ids = np.concatenate([_NO_GROUPS, *(self._slots.ids(rows.slots) for rows, _ in parts)])
        counts = [len(rows.slots) for rows, _ in parts]
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
        view = self._current()
        windows = sum(int(part.meta[4]) for part in view.parts)
        edges = sum(edge_count(part) for part in view.parts)
        entries = sum(int(part.meta[2]) for part in view.parts)
        real = sum(part_bytes(part) for part in view.parts) + view.ids.nbytes + self._slots.nbytes
        real += sum(room.nbytes for room in list(self._rooms.values()))
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
            check_part(part, self._ids, self._rooms.get(number))
            check_touched(part, rows)
            assert len(np.unique(rows.slots)) == len(rows.slots), "no interval is stored twice"
            assert (self._slots.owners[rows.slots] == number).all(), "the owner of a slot is the part that holds it"
            assert (rows.firsts <= rows.lasts).all(), "no interval is empty"
            live += len(rows.slots)
        assert live == self._live, "the parts hold every live interval"
        assert self._marks[USED] <= len(self._ids) - PADDING, "the shared array has its slack"
        assert self._rooms.keys() <= self._parts.keys(), "only parts have room"


def _one_row(keyed: bool) -> Intervals:
    """Room for one interval, so that single changes make no arrays."""
    return Intervals(np.zeros(1, np.uint32), *(np.zeros(size, np.int64) for size in (1, 1, int(keyed))))


def with_reserve(size: int, needed: int = 0) -> int:
    """So much, and a reserve for windows that move."""
    return size + max(size // _SHARE_IN_RESERVE + _LEAST_RESERVE, needed)


def _slot_array(size: int) -> UInt32s:
    array: UInt32s = aligned_empty(size, np.uint32)
    return array
