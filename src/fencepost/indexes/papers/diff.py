"""DiffRMQ: two searches in any stabbing index and the difference of their answers. The baseline."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from fencepost.compiled import kernel
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import Column, Owners, bound_column, id_column
from fencepost.indexes.arrays import Bools, Float64s, Int64s, i64
from fencepost.indexes.borders.objects import PLACED, UNKNOWN
from fencepost.indexes.contracts.borders import Bound, Crossings, FloatBorders, axis_columns
from fencepost.indexes.contracts.intervals import IntervalIndex
from fencepost.indexes.contracts.registry import Bounds
from fencepost.indexes.kernels import id_map
from fencepost.indexes.kernels.id_map import ABSENT, IdMap
from fencepost.indexes.matches import Matches, Storage
from fencepost.indexes.slice_list.slot_table import is_dense

_ROUND = 4096


class StabbingIndex(Protocol):
    """What DiffRMQ needs of an index: intervals, or boxes with a bound and a value per axis."""

    def insert_many(self, ids: Any, los: Any, his: Any, bounds: Any = None) -> None:
        """Add rules: all or none."""

    def remove_many(self, ids: Any) -> None:
        """Take rules out: all or none."""

    def stab(self, values: Any) -> Matches:
        """The rules that contain each value."""

    def check(self) -> None:
        """Assert the invariants."""

    def storage(self) -> Storage:
        """What it holds."""

    def __len__(self) -> int: ...
    def __contains__(self, id: object) -> bool: ...


class DiffRMQ(FloatBorders):
    """Entered are the rules found now but not before, left those found before but not now (DiffRMQ in the BMQ paper).

    The positions before are searched again or, with `keep`, the answer of each object's last row is kept. It does not
    see what is jumped over between two rows: `cross` is None.

    Args:
        index: any interval index of the catalogue, or a box index on several axes; empty, and used by nobody else.
        dimensions: the number of axes of its values.
        keep: whether to keep the answers instead of searching twice.

    Kept answers are runs of `_pool`, a (start, length) per object in `_runs`; runs that are no longer used are swept
    out when they are half of it. They are found anew after a change of rules, so that a new rule is silent.

    Costs: two searches (one with `keep`) and a pass over both answers; with `keep`, 8 bytes per rule and object inside.

    `intermediate` and `reported` count the ids found and those reported: their ratio is the paper's search efficiency.

    >>> from fencepost.indexes import CEI
    >>> diff = DiffRMQ(CEI(domain=(0, 100), length=8))
    >>> diff.insert(7, 40, 50)
    >>> moves = diff.update([1, 1], [45, 60])
    >>> moves.enter.sets(), moves.exit.sets()
    ([{7}, set()], [set(), {7}])
    """

    def __init__(self, index: StabbingIndex, dimensions: int = 1, keep: bool = False) -> None:
        super().__init__(dimensions)
        if len(index):
            raise FencepostError(
                f"an index with {len(index)} rules", "an empty one", "Insert the rules through DiffRMQ."
            )
        self.index = index
        self.keep = keep
        self.intermediate = 0
        self.reported = 0
        self._places = id_map.empty_map()
        self._ticks = np.zeros(0, np.int64)
        self._clock = 0
        self._tick_place = (0, False, 0)
        self._buffers: list[Matches | None] = [None, None]
        self._pool = np.zeros(0, np.int64)
        self._runs = np.zeros((0, 2), np.int64)
        self._stale = True

    def insert_many(self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None) -> None:
        """Add many rules at once: all of them or, if one is at fault, none."""
        id_array = id_column(ids)
        owners = Owners("interval", id_array)
        lows, highs = (
            [bound_column(column, side, what, owners) for column in axis_columns(given, self.dimensions, what, owners)]
            for given, side, what in ((los, -np.inf, "lower bound"), (his, np.inf, "upper bound"))
        )
        if self.dimensions == 1:
            self.index.insert_many(id_array, lows[0], highs[0], bounds)
        else:
            self.index.insert_many(id_array, np.column_stack(lows), np.column_stack(highs), bounds)
        self._places = id_map.grown(self._places, len(id_array))
        give_places(self._places, id_array)
        self._rules_changed()

    def remove_many(self, ids: Column) -> None:
        """Take many rules out: all of them or, if one is unknown, none."""
        id_array = id_column(ids)
        self.index.remove_many(id_array)
        remaining = id_map.empty_map(len(self._places.slots) // 2)
        keep_places(self._places, id_array, remaining)
        self._places = remaining
        self._rules_changed()

    def _rules_changed(self) -> None:
        """Choose where ticks are: at the distance from the lowest id where ids are dense, else at their places."""
        self._stale = True
        ids = np.compress(self._places.slots[:, 1] != ABSENT, self._places.slots[:, 0])
        self._tick_place = (0, False, len(ids))
        if len(ids) and is_dense(int(ids.min()), int(ids.max()), len(ids)):
            self._tick_place = (int(ids.min()), True, int(ids.max() - ids.min()) + 1)

    # -- moves ------------------------------------------------------------------------------------------

    def _stab(self, values: Float64s, buffer: int) -> Matches:
        """Search a round of values, in buffers that are used again where the index takes them."""
        asked = values[:, 0] if self.dimensions == 1 else values
        if not isinstance(self.index, IntervalIndex):
            return self.index.stab(asked)
        out = self._buffers[buffer]
        if out is not None:
            try:
                return self.index.stab(asked, out)
            except FencepostError:
                out = None  # too small, most likely; if not, the next search says so again
        found = self.index.stab(asked)
        self._buffers[buffer] = Matches(np.empty(_ROUND + 1, np.int64), np.empty(2 * len(found.ids) + 4096, np.int64))
        return found

    def _crossings(self, before: Float64s, after: Float64s, unplaced: Bools, missing: Bools) -> Crossings:
        before = np.where((unplaced | missing)[:, np.newaxis], np.nan, before)
        answers = _Answers(len(after))
        for start in range(0, len(after), _ROUND):
            rows = slice(start, start + _ROUND)
            held = self._stab(np.ascontiguousarray(before[rows]), 0)
            now = self._stab(after[rows], 1)
            earlier = np.column_stack([held.offsets[:-1], np.diff(held.offsets)])
            self._differences(held.ids, earlier, now, start, answers)
        return answers.crossings()

    def _update(self, slots: Int64s, after: Float64s, missing: Bools) -> Crossings:
        counted = self.intermediate, self.reported
        try:
            return self._compared(slots, after, missing) if self.keep else super()._update(slots, after, missing)
        except BaseException:
            self._stale = True  # the objects go back to where they were: what they are inside of is found anew
            self.intermediate, self.reported = counted
            raise

    def _compared(self, slots: Int64s, after: Float64s, missing: Bools) -> Crossings:
        """Compare what holds now with the answers that were kept."""
        self._refresh()
        if len(self._runs) < len(self._objects.states):
            more = len(self._objects.states) - len(self._runs)
            self._runs = np.concatenate([self._runs, np.zeros((more, 2), np.int64)])
        self._objects.move(slots, after.view(np.int64), missing, PLACED)
        answers = _Answers(len(after))
        for start in range(0, len(after), _ROUND):
            rows = slice(start, start + _ROUND)
            now = self._stab(after[rows], 1)
            base = len(self._pool)
            self._pool = np.concatenate([self._pool, now.ids])
            earlier = np.empty((len(now), 2), np.int64)
            hand_over(slots[rows], missing[rows], now.offsets, base, self._runs, earlier)
            unobserved = missing[rows]
            earlier[unobserved, 1] = 0
            self._differences(self._pool, earlier, now, start, answers)
            if len(self._pool) > 2 * int(self._runs[:, 1].sum()) + 65536:
                self._sweep()
        return answers.crossings()

    def _refresh(self) -> None:
        """Find what every object is inside, after rules have changed."""
        if not self._stale:
            return
        placed = self._objects.placed()
        values = self._last(placed)
        held = self.index.stab(values[:, 0] if self.dimensions == 1 else values)
        self._runs = np.zeros((len(self._objects.states), 2), np.int64)
        self._runs[placed] = np.column_stack([held.offsets[:-1], np.diff(held.offsets)])
        self._pool = held.ids
        self._stale = False

    def _sweep(self) -> None:
        """Leave out of the pool what no object has."""
        starts, counts = self._runs[:, 0], self._runs[:, 1]
        firsts = np.cumsum(counts) - counts
        self._pool = self._pool[np.repeat(starts - firsts, counts) + np.arange(int(counts.sum()))]
        self._runs = np.column_stack([firsts, counts])

    def _differences(self, pool: Int64s, earlier: Int64s, now: Matches, row: int, answers: "_Answers") -> None:
        origin, direct, needed = self._tick_place
        if len(self._ticks) < needed:
            self._ticks = np.zeros(2 * needed, np.int64)
        entered, left = np.empty(len(now.ids) + 1, np.int64), np.empty(int(earlier[:, 1].sum()) + 1, np.int64)
        offsets = np.zeros((2, len(now) + 1), np.int64)
        marks = Ticks(self._places, self._ticks, origin, direct)
        differ(marks, self._clock, pool, earlier, now.offsets, now.ids, offsets, entered, left)
        self._clock += 2 * len(now)
        self.intermediate += len(now.ids) + len(left) - 1
        self.reported += int(offsets[:, -1].sum())
        answers.append(row, offsets, entered, left)

    # -- objects and reporting --------------------------------------------------------------------------

    def remove_objects(self, objects: Column) -> None:
        """Forget many objects: all of them or, if one is unknown, none."""
        super().remove_objects(objects)
        self._runs[self._objects.states[: len(self._runs)] == UNKNOWN] = 0

    def _inside(self, id: int, slots: Int64s) -> Bools:
        self._slot(id)
        values = self._last(slots)
        found = self.index.stab(values[:, 0] if self.dimensions == 1 else values)
        inside = np.zeros(len(slots), np.bool_)
        inside[np.repeat(np.arange(len(slots)), found.counts)[found.ids == id]] = True
        return inside

    def _inside_range(self, id: int, lo: Bound, hi: Bound, bounds: Bounds | None, slots: Int64s) -> Bools:
        self._slot(id)
        ends = bounds or ("[]" if getattr(self.index, "closed", False) else "[)")
        values, inside = self._last(slots), np.ones(len(slots), np.bool_)
        corners = (axis_columns([c], self.dimensions, w) for c, w in ((lo, "lower bound"), (hi, "upper bound")))
        for axis, (low, high) in enumerate(zip(*corners, strict=True)):
            here = values[:, axis]
            below, above = bound_column(low, -np.inf, "lower bound")[0], bound_column(high, np.inf, "upper bound")[0]
            inside &= (here >= below) if ends[0] == "[" or np.isneginf(below) else (here > below)
            inside &= (here <= above) if ends[1] == "]" or np.isposinf(above) else (here < above)
        return inside

    def storage(self) -> Storage:
        """What the index takes, and the kept answers."""
        held = self.index.storage()
        kept = self._pool.nbytes + self._runs.nbytes if self.keep else 0
        return held._replace(model_bytes=held.model_bytes + kept, nbytes=held.nbytes + kept)

    def __len__(self) -> int:
        return len(self.index)

    def _find(self, id: int) -> int:
        return int(id_map.find(self._places, id))

    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""
        self.index.check()
        self._objects.check()
        places = np.sort(self._places.places())
        assert len(places) == len(self), "every rule has a place"
        assert (np.diff(places) > 0).all(), "and one of its own"
        assert not len(places) or places[-1] < len(places), "places are dense"
        if self.keep and not self._stale:
            for slot in self._objects.placed().tolist():
                start, count = self._runs[slot].tolist()
                values = self._last(np.array([slot]))
                held = self.index.stab(values[:, 0] if self.dimensions == 1 else values)[0]
                assert sorted(self._pool[start : start + count].tolist()) == sorted(held.tolist()), "kept is what holds"


class _Answers:
    """Two answers that grow round by round."""

    def __init__(self, rows: int) -> None:
        self._offsets = np.zeros((2, rows + 1), np.int64)
        self._ids: tuple[list[Int64s], list[Int64s]] = ([], [])

    def append(self, row: int, offsets: Int64s, entered: Int64s, left: Int64s) -> None:
        """Append the answers of the rows from `row` on."""
        rows = slice(row + 1, row + offsets.shape[1])
        self._offsets[:, rows] = offsets[:, 1:] + self._offsets[:, row : row + 1]
        for side, ids in enumerate((entered, left)):
            self._ids[side].append(ids[: int(offsets[side, -1])])

    def crossings(self) -> Crossings:
        """The whole answer."""
        none = np.zeros(0, np.int64)
        ids = [np.concatenate(parts) if parts else none for parts in self._ids]
        return Crossings(Matches(self._offsets[0], ids[0]), Matches(self._offsets[1], ids[1]), None)


class Ticks(NamedTuple):
    """Where the tick of an id is: at ``id - origin`` if `direct`, else at its place."""

    places: IdMap
    ticks: Int64s
    origin: int
    direct: bool


@kernel
def give_places(places: IdMap, ids: Int64s) -> None:
    """Number new ids on from those that are there."""
    for i in range(len(ids)):
        id_map.put(places, ids[i], places.size[0])


@kernel
def keep_places(places: IdMap, gone: Int64s, remaining: IdMap) -> None:
    """Number anew the ids that are not gone."""
    for i in range(len(gone)):
        id_map.drop(places, gone[i])
    for at in range(len(places.slots)):
        if places.slots[at, 1] != ABSENT:
            id_map.put(remaining, places.slots[at, 0], remaining.size[0])


@kernel
def hand_over(slots: Int64s, missing: Bools, offsets: Int64s, base: int, runs: Int64s, earlier: Int64s) -> None:
    """Each row's run before it, and the object's run from it on; rows that observe nothing change nothing."""
    for row in range(len(slots)):
        slot = slots[row]
        earlier[row, 0] = runs[slot, 0]
        earlier[row, 1] = runs[slot, 1]
        if not missing[row]:
            runs[slot, 0] = base + offsets[row]
            runs[slot, 1] = offsets[row + 1] - offsets[row]


@kernel
def differ(
    marks: Ticks,
    clock: int,
    pool: Int64s,
    earlier: Int64s,
    offsets: Int64s,
    now: Int64s,
    out: Int64s,
    entered: Int64s,
    left: Int64s,
) -> None:
    """The ids of each row that are only now, and those that were only earlier, told apart by tick marks."""
    places, ticks, origin, direct = marks
    a = i64(0)
    b = i64(0)
    for row in range(len(earlier)):
        was, both = clock + 2 * row + 1, clock + 2 * row + 2
        start, stop = earlier[row, 0], earlier[row, 0] + earlier[row, 1]
        for i in range(start, stop):
            ticks[pool[i] - origin if direct else id_map.find(places, pool[i])] = was
        for i in range(offsets[row], offsets[row + 1]):
            place = now[i] - origin if direct else id_map.find(places, now[i])
            entered[a] = now[i]
            a += ticks[place] != was
            ticks[place] = both
        for i in range(start, stop):
            left[b] = pool[i]
            b += ticks[pool[i] - origin if direct else id_map.find(places, pool[i])] != both
        out[0, row + 1] = a
        out[1, row + 1] = b
