"""What every interval index does, and how it refuses: the part that no structure has to repeat."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from typing_extensions import override

from fencepost.compiled import kernel
from fencepost.errors import FencepostError
from fencepost.indexes import idmap
from fencepost.indexes.arguments import (
    Column,
    bound_column,
    exact_float,
    id_column,
    same_length,
    value_column,
    whole_id,
)
from fencepost.indexes.arrays import Float64s, Int64s
from fencepost.indexes.idmap import ABSENT, IdMap
from fencepost.indexes.matches import Matches, Storage

__all__ = [
    "EMPTY",
    "KNOWN",
    "NAN_BOUND",
    "Bounds",
    "IntervalIndex",
    "Queries",
    "TableIndex",
    "holds",
    "refusal",
    "unknown",
]

Bounds = Literal["[)", "[]", "(]", "()"]


class Queries(NamedTuple):
    """The registered intervals, one slot each: id and (low, high).

    `state` is [slots handed out, vacant slots among them, 1 + first vacant slot or 0]; vacant slots are
    chained through `ids` and used again.
    """

    ids: Int64s
    bounds: Float64s
    state: Int64s


class IntervalIndex(ABC):
    """A dynamic set of intervals that is asked which of them contain a value: the contract.

    An interval has an int64 id and two bounds; it is ``[lo, hi)``, or ``[lo, hi]`` in an index made with
    ``closed=True``. A bound of None or infinity leaves that side unbounded. A refused call changes nothing.
    """

    @abstractmethod
    def insert(self, id: int, lo: float | None, hi: float | None, bounds: Bounds | None = None) -> None:
        """Add one interval.

        Args:
            id: a number of your own that is not in the index yet.
            lo: where it starts, or None.
            hi: where it ends, or None.
            bounds: which ends belong to it, if not those the index was made for.
        """

    @abstractmethod
    def insert_many(self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None) -> None:
        """Add many intervals at once: all of them or, if one is at fault, none."""

    @abstractmethod
    def remove(self, id: int) -> None:
        """Take one interval out."""

    @abstractmethod
    def remove_many(self, ids: Column) -> None:
        """Take many intervals out: all of them or, if one is unknown, none."""

    @abstractmethod
    def stab(self, values: Column, out: Matches | None = None) -> Matches:
        """The ids of all intervals that contain each value.

        Args:
            values: numbers; NaN or None lies in no interval.
            out: buffers to write into instead of new ones; the answer is a view of them.
        """

    @abstractmethod
    def interval(self, id: int) -> tuple[float, float]:
        """The bounds of one interval, infinite where it is unbounded."""

    @abstractmethod
    def storage(self) -> Storage:
        """What the index holds, by the paper's model and in real bytes."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} intervals)"


class TableIndex(IntervalIndex):
    """An index that keeps its intervals in a table of float64 bounds; what the papers' structures share."""

    def __init__(self, closed: bool = False) -> None:
        self.closed = closed
        self._map = idmap.empty_map()
        self._queries = _empty_queries(8)
        self._single_id = np.empty(1, np.int64)
        self._single_low = np.empty(1)
        self._single_high = np.empty(1)

    # -- changing the set -------------------------------------------------------------------------------

    @override
    def insert(self, id: int, lo: float | None, hi: float | None, bounds: Bounds | None = None) -> None:
        self._single_id[0] = whole_id(id)
        self._single_low[0] = -np.inf if lo is None else exact_float(lo, "lower bound")
        self._single_high[0] = np.inf if hi is None else exact_float(hi, "upper bound")
        self._insert(self._single_id, self._single_low, self._single_high, bounds)

    @override
    def insert_many(self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None) -> None:
        id_array = id_column(ids)
        lows, highs = bound_column(los, -np.inf, "lower bound"), bound_column(his, np.inf, "upper bound")
        same_length(id_array, los=lows, his=highs)
        self._insert(id_array, lows, highs, bounds)

    @override
    def remove(self, id: int) -> None:
        self._single_id[0] = whole_id(id)
        self._remove(self._single_id)

    @override
    def remove_many(self, ids: Column) -> None:
        self._remove(id_column(ids))

    def _insert(
        self,
        ids: Int64s,
        lows: Float64s,
        highs: Float64s,
        bounds: Bounds | None,
    ) -> None:
        if bounds is not None:
            lows, highs = self._effective(lows, highs, bounds)
        self._map = idmap.grown(self._map, len(ids))
        self._queries = _grown_queries(self._queries, len(ids))
        slots = np.empty(len(ids), np.int64)
        fault, row = admit(self._map, self._queries, ids, lows, highs, self._closed_ends(bounds), slots)
        if fault:
            raise refusal(
                fault, int(ids[row]), float(lows[row]), float(highs[row]), ids[:row], self._closed_ends(bounds)
            )
        self._attach(slots)

    def _remove(self, ids: Int64s) -> None:
        slots = np.empty(len(ids), np.int64)
        row = evict(self._map, ids, slots)
        if row >= 0:
            raise unknown(int(ids[row]), " to remove" + (" twice" if (ids[:row] == ids[row]).any() else ""))
        self._detach(slots)
        vacate(self._queries, slots)

    def _closed_ends(self, bounds: Bounds | None) -> bool:  # noqa: ARG002
        """Whether lo == hi is a valid interval (a point) in this call."""
        return self.closed

    def _effective(self, lows: Float64s, highs: Float64s, bounds: Bounds) -> tuple[Float64s, Float64s]:
        """Other ends than the index's own, moved to the neighbouring float64: exact, since values are float64."""
        natural = "[]" if self.closed else "[)"
        if bounds not in ("[)", "[]", "(]", "()"):
            raise FencepostError(f"bounds {bounds!r}", "'[)', '[]', '(]' or '()'", "Use one of those.")
        if bounds[0] == "(":
            lows = _neighbour(lows, np.inf)
        if bounds[1] != natural[1]:
            highs = _neighbour(highs, -np.inf if self.closed else np.inf)
        return lows, highs

    # -- asking -----------------------------------------------------------------------------------------

    @override
    def stab(self, values: Column, out: Matches | None = None) -> Matches:
        return self._stab(value_column(values), out)

    @override
    def interval(self, id: int) -> tuple[float, float]:
        slot = self._slot(id)
        low, high = self._queries.bounds[slot].tolist()
        return low, high

    def __len__(self) -> int:
        return int(self._map.size[0])

    def __contains__(self, id: object) -> bool:
        try:
            return bool(idmap.find(self._map, whole_id(id)) != ABSENT)
        except FencepostError:
            return False

    def _slot(self, id: int) -> int:
        slot = idmap.find(self._map, whole_id(id))
        if slot == ABSENT:
            raise unknown(id)
        return int(slot)

    def _live_slots(self) -> Int64s:
        """The slots in use, in no set order."""
        return self._map.places()

    @override
    def check(self) -> None:
        slots = self._live_slots()
        assert len(slots) == len(self), "the map's size is the number of its places"
        assert len(np.unique(slots)) == len(slots), "each interval has a slot of its own"
        used, vacant, chain = self._queries.state.tolist()
        assert used == len(slots) + vacant, "every slot is in use or vacant"
        in_use = set(slots.tolist())
        for _ in range(vacant):
            assert chain - 1 not in in_use, "no vacant slot is in use"
            chain = int(self._queries.ids[chain - 1])
        assert chain == 0, "the chain of vacant slots ends"
        for slot in slots[:64].tolist():
            assert idmap.find(self._map, int(self._queries.ids[slot])) == slot, "each id finds its slot"
        self._check()

    # -- what a structure supplies ----------------------------------------------------------------------

    @abstractmethod
    def _attach(self, slots: Int64s) -> None:
        """Index the intervals in these slots of the query table."""

    @abstractmethod
    def _detach(self, slots: Int64s) -> None:
        """Undo `_attach`; the slots still hold their bounds."""

    @abstractmethod
    def _stab(self, values: Float64s, out: Matches | None) -> Matches: ...

    @abstractmethod
    def _check(self) -> None: ...

    def _table_bytes(self) -> int:
        return array_bytes(self._map) + array_bytes(self._queries)


def array_bytes(arrays: Sequence[Any]) -> int:
    """Bytes of all arrays in a tuple of them."""
    return sum(array.nbytes for array in arrays)


def _neighbour(column: Float64s, towards: float) -> Float64s:
    return np.where(np.isfinite(column), np.nextafter(column, towards), column)


def _empty_queries(capacity: int) -> Queries:
    return Queries(np.zeros(capacity, np.int64), np.zeros((capacity, 2)), np.zeros(3, np.int64))


def _grown_queries(queries: Queries, additional: int) -> Queries:
    needed = int(queries.state[0] - queries.state[1]) + additional
    if needed <= len(queries.ids):
        return queries
    larger = _empty_queries(max(needed, 2 * len(queries.ids)))
    for old, new in zip(queries, larger, strict=True):
        new[: len(old)] = old
    return larger


NAN_BOUND, EMPTY, KNOWN = 1, 2, 3


def refusal(
    fault: int,
    id: int,
    low: float,
    high: float,
    earlier: Int64s,
    closed: bool,
) -> FencepostError:
    """The refusal of one interval of a batch, with the ids before it."""
    interval = f"interval {id} with lo={low:g}, hi={high:g}"
    if fault == NAN_BOUND:
        return FencepostError(interval, "bounds that are numbers", "Use None for a side without a bound.")
    if fault == EMPTY:
        expected = "lo <= hi" if closed else "lo < hi"
        return FencepostError(interval, expected, "Swap the bounds, or leave the interval out: it is empty.")
    if (earlier == id).any():
        return FencepostError(f"id {id} twice in one call", "each id once", "Drop one of the two.")
    return FencepostError(
        f"id {id}, which is in the index already",
        "a new id",
        "Remove the old interval first, or use another id.",
    )


def unknown(id: int, doing: str = "") -> FencepostError:
    """The refusal of an id that is not there."""
    return FencepostError(f"id {id}{doing}", "the id of an interval in the index", "Check it with `id in index` first.")


@kernel
def holds(low: float, high: float, closed: bool, value: float) -> bool:
    """Whether an interval contains a value; what is unbounded above contains +inf."""
    return value >= low and (value < high or (value == high and (closed or high == np.inf)))


@kernel
def vacate(queries: Queries, slots: Int64s) -> None:
    """Make the slots available again."""
    for row in range(len(slots)):
        queries.ids[slots[row]] = queries.state[2]
        queries.state[2] = slots[row] + 1
        queries.state[1] += 1


@kernel
def admit(
    table: IdMap,
    queries: Queries,
    ids: Int64s,
    lows: Float64s,
    highs: Float64s,
    closed: bool,
    slots: Int64s,
) -> tuple[int, int]:
    """Register all intervals and fill `slots`, or none: then the fault and its row."""
    fault = 0
    row = 0
    while row < len(ids):
        low, high = lows[row], highs[row]
        if np.isnan(low) or np.isnan(high):
            fault = NAN_BOUND
        elif low > high or (low == high and not (closed and np.isfinite(low))):
            fault = EMPTY
        elif idmap.find(table, ids[row]) != ABSENT:
            fault = KNOWN
        if fault:
            break
        slot = queries.state[0]
        if queries.state[1] > 0:
            slot = queries.state[2] - 1
            queries.state[1] -= 1
            queries.state[2] = queries.ids[slot]
        else:
            queries.state[0] += 1
        idmap.put(table, ids[row], slot)
        queries.ids[slot] = ids[row]
        queries.bounds[slot, 0] = low
        queries.bounds[slot, 1] = high
        slots[row] = slot
        row += 1
    if fault:
        for undo in range(row - 1, -1, -1):
            idmap.drop(table, ids[undo])
        vacate(queries, slots[:row])
    return fault, row


@kernel
def evict(table: IdMap, ids: Int64s, slots: Int64s) -> int:
    """Forget all ids and fill `slots`, or none: then the row of the unknown id; -1 if all went well."""
    for row in range(len(ids)):
        slot = idmap.find(table, ids[row])
        if slot == ABSENT:
            for undo in range(row):
                idmap.put(table, ids[undo], slots[undo])
            return row
        slots[row] = slot
        idmap.drop(table, ids[row])
    return -1
