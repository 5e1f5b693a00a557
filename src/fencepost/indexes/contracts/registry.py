"""How ids and their ranges come and go, and how that is refused: for all indexes, and for those with float64 bounds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import Column, check_ends, id_column, shown, whole_id
from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.indexes.kernels import id_map
from fencepost.indexes.kernels.id_map import ABSENT, IdMap
from fencepost.indexes.matches import Storage

Bounds = Literal["[)", "[]", "(]", "()"]

NAN_BOUND, EMPTY, KNOWN = 1, 2, 3


class Contents(NamedTuple):
    """Intervals or boxes as columns, inclusive ordinals."""

    ids: Int64s
    firsts: Int64s
    lasts: Int64s
    groups: Int64s
    grouped: Bools
    """Whether `groups` says anything; what has no group holds in every one."""


class Queries(NamedTuple):
    """The registered ranges, one slot each: id, and the lows of all dimensions followed by the highs.

    `state` is [slots handed out, vacant slots among them, 1 + first vacant slot or 0]; vacant slots are
    chained through `ids` and used again.
    """

    ids: Int64s
    bounds: Float64s
    state: Int64s


class RangeIndex(ABC):
    """Ranges with int64 ids that come and go: what intervals, boxes and borders have in common.

    A refused call changes nothing.
    """

    _noun = "interval"
    """What an id stands for, in refusals."""
    _names_dimensions = False
    """Whether the refusal of a range says in which dimension it is."""

    @abstractmethod
    def insert_many(self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None) -> None:
        """Add many at once: all of them or, if one is at fault, none.

        Args:
            ids: numbers of your own, each new.
            los: where they start, a row per id and a column per dimension if there are several; None or -inf for no
                bound.
            his: where they end, likewise; None or inf for no bound.
            bounds: which ends belong to them, if not those the index was made for.
        """

    def remove(self, id: int) -> None:
        """Take one out."""
        self.remove_many([whole_id(id)])

    @abstractmethod
    def remove_many(self, ids: Column) -> None:
        """Take many out: all of them or, if one is unknown, none."""

    @abstractmethod
    def storage(self) -> Storage:
        """What the index holds, by the paper's model and in real bytes."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __contains__(self, id: object) -> bool:
        try:
            return self._find(whole_id(id)) >= 0
        except FencepostError:
            return False

    @abstractmethod
    def _find(self, id: int) -> int:
        """The slot of an id, or -1."""

    def _slot(self, id: int) -> int:
        """The slot of an id, which is refused if it is not there."""
        slot = self._find(whole_id(id))
        if slot < 0:
            raise self._unknown(id)
        return slot

    def _unknown(self, id: int, doing: str = "") -> FencepostError:
        """The refusal of an id that is not there."""
        article = "an" if self._noun[0] in "aeiou" else "a"
        return FencepostError(
            f"id {id}{doing}", f"the id of {article} {self._noun} in the index", "Check it with `id in index` first."
        )

    def _unknown_row(self, ids: Int64s, row: int) -> FencepostError:
        """The refusal to remove the id in a row, which is not there or comes a second time."""
        return self._unknown(int(ids[row]), " to remove" + (" twice" if (ids[:row] == ids[row]).any() else ""))

    def _refusal(
        self, fault: int, id: int, low: float, high: float, axis: int, earlier: Int64s, closed: bool
    ) -> FencepostError:
        """The refusal of one range of a call, with the ids before it."""
        noun = self._noun
        here, everywhere = (f" in dimension {axis}", " in every dimension") if self._names_dimensions else ("", "")
        got = f"{noun} {id} with lo={shown(low)}, hi={shown(high)}{here}"
        if fault == NAN_BOUND:
            return FencepostError(got, "bounds that are numbers", "Use None for a side without a bound.")
        if fault == EMPTY:
            expected = ("lo <= hi" if closed else "lo < hi") + everywhere
            return FencepostError(got, expected, f"Swap the bounds, or leave the {noun} out: it is empty.")
        if (earlier == id).any():
            return FencepostError(f"id {id} twice in one call", "each id once", "Drop one of the two.")
        return FencepostError(
            f"id {id} is in the index already", "a new id", f"Remove the old {noun} first, or use another id."
        )


class Registry(RangeIndex):
    """Ids, each with a slot of a table of float64 bounds: what the papers' structures share.

    Args:
        dimensions: how many ranges an id has.
        closed: ranges are ``[lo, hi]`` instead of ``[lo, hi)``.
    """

    def __init__(self, dimensions: int, closed: bool) -> None:
        self.closed = closed
        self._map = id_map.empty_map()
        self._queries = _empty_queries(8, dimensions)
        self._single_id = np.empty(1, np.int64)
        self._single_low = np.empty((1, dimensions))
        self._single_high = np.empty((1, dimensions))

    # -- changing the set -------------------------------------------------------------------------------

    def remove(self, id: int) -> None:
        """Take one out."""
        self._single_id[0] = whole_id(id)
        self._remove(self._single_id)

    def remove_many(self, ids: Column) -> None:
        """Take many out: all of them or, if one is unknown, none."""
        self._remove(id_column(ids))

    def _insert(self, ids: Int64s, lows: Float64s, highs: Float64s, bounds: Bounds | None) -> None:
        """Register rows of bounds, a column per dimension, and index them."""
        given = lows, highs
        if bounds is not None:
            lows, highs = self._effective(lows, highs, bounds)
        closed = self._closed_ends(bounds)
        self._map = id_map.grown(self._map, len(ids))
        self._queries = _grown_queries(self._queries, len(ids))
        slots = np.empty(len(ids), np.int64)
        fault, row, axis = admit(self._map, self._queries, ids, lows, highs, closed, slots)
        if fault:
            low, high = (float(column[row, axis]) for column in given)
            raise self._refusal(fault, int(ids[row]), low, high, axis, ids[:row], closed)
        self._attach(slots)

    def _remove(self, ids: Int64s) -> None:
        slots = np.empty(len(ids), np.int64)
        row = evict(self._map, ids, slots)
        if row >= 0:
            raise self._unknown_row(ids, row)
        self._detach(slots)
        vacate(self._queries, slots)

    def _closed_ends(self, bounds: Bounds | None) -> bool:  # noqa: ARG002
        """Whether lo == hi is a valid range (a point) in this call."""
        return self.closed

    def _effective(self, lows: Float64s, highs: Float64s, bounds: Bounds) -> tuple[Float64s, Float64s]:
        """Other ends than the index's own, moved to the neighbouring float64: exact, since values are float64."""
        natural = "[]" if self.closed else "[)"
        if check_ends(bounds)[0] == "(":
            lows = _neighbour(lows, np.inf)
        if bounds[1] != natural[1]:
            highs = _neighbour(highs, -np.inf if self.closed else np.inf)
        return lows, highs

    # -- asking -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._map.size[0])

    def _find(self, id: int) -> int:
        return int(id_map.find(self._map, id))

    def _live_slots(self) -> Int64s:
        """The slots in use, in no set order."""
        return self._map.places()

    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""
        slots = self._live_slots()
        assert len(slots) == len(self), "the map's size is the number of its places"
        assert len(np.unique(slots)) == len(slots), "each id has a slot of its own"
        used, vacant, chain = self._queries.state.tolist()
        assert used == len(slots) + vacant, "every slot is in use or vacant"
        in_use = set(slots.tolist())
        for _ in range(vacant):
            assert chain - 1 not in in_use, "no vacant slot is in use"
            chain = int(self._queries.ids[chain - 1])
        assert chain == 0, "the chain of vacant slots ends"
        for slot in slots[:64].tolist():
            assert id_map.find(self._map, int(self._queries.ids[slot])) == slot, "each id finds its slot"
        self._check()

    # -- what a structure supplies ----------------------------------------------------------------------

    @abstractmethod
    def _attach(self, slots: Int64s) -> None:
        """Index what is in these slots of the query table."""

    @abstractmethod
    def _detach(self, slots: Int64s) -> None:
        """Undo `_attach`; the slots still hold their bounds."""

    @abstractmethod
    def _check(self) -> None: ...

    def _table_bytes(self) -> int:
        return array_bytes(self._map) + array_bytes(self._queries)


def array_bytes(arrays: Sequence[Any]) -> int:
    """Bytes of all arrays in a tuple of them."""
    return sum(array.nbytes for array in arrays)


def _neighbour(column: Float64s, towards: float) -> Float64s:
    return np.where(np.isfinite(column), np.nextafter(column, towards), column)


def _empty_queries(capacity: int, dimensions: int) -> Queries:
    return Queries(np.zeros(capacity, np.int64), np.zeros((capacity, 2 * dimensions)), np.zeros(3, np.int64))


def _grown_queries(queries: Queries, additional: int) -> Queries:
    needed = int(queries.state[0] - queries.state[1]) + additional
    if needed <= len(queries.ids):
        return queries
    larger = _empty_queries(max(needed, 2 * len(queries.ids)), queries.bounds.shape[1] // 2)
    for old, new in zip(queries, larger, strict=True):
        new[: len(old)] = old
    return larger


@kernel
def holds(low: float, high: float, closed: bool, value: float) -> bool:
    """Whether a range contains a value; what is unbounded above contains +inf."""
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
) -> tuple[int, int, int]:
    """Register all rows and fill `slots`, or none: then the fault, its row and its dimension."""
    dimensions = lows.shape[1]
    fault = 0
    axis = 0
    row = 0
    while row < len(ids):
        # Is the row at fault on an axis, or is its id known?
        axis = 0
        while axis < dimensions:
            low, high = lows[row, axis], highs[row, axis]
            if np.isnan(low) or np.isnan(high):
                fault = NAN_BOUND
            elif low > high or (low == high and not (closed and np.isfinite(low))):
                fault = EMPTY
            if fault:
                break
            axis += 1
        if not fault and id_map.find(table, ids[row]) != ABSENT:
            fault = KNOWN
            axis = 0
        if fault:
            break
        # If not, it gets a vacant slot, or the next one.
        slot = queries.state[0]
        if queries.state[1] > 0:
            slot = queries.state[2] - 1
            queries.state[1] -= 1
            queries.state[2] = queries.ids[slot]
        else:
            queries.state[0] += 1
        id_map.put(table, ids[row], slot)
        queries.ids[slot] = ids[row]
        for k in range(dimensions):
            queries.bounds[slot, k] = lows[row, k]
            queries.bounds[slot, dimensions + k] = highs[row, k]
        slots[row] = slot
        row += 1
    if fault:
        for undo in range(row - 1, -1, -1):
            id_map.drop(table, ids[undo])
        vacate(queries, slots[:row])
    return fault, row, axis


@kernel
def evict(table: IdMap, ids: Int64s, slots: Int64s) -> int:
    """Forget all ids and fill `slots`, or none: then the row of the unknown id; -1 if all went well."""
    for row in range(len(ids)):
        slot = id_map.find(table, ids[row])
        if slot == ABSENT:
            for undo in range(row):
                id_map.put(table, ids[undo], slots[undo])
            return row
        slots[row] = slot
        id_map.drop(table, ids[row])
    return -1
