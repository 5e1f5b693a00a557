"""What the papers' band structures share: they are built for one side's rows, and rebuilt when those change."""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, i64
from fencepost.indexes.contracts.bands import (
    HIGH,
    LOW,
    MARK,
    ROW_KEY,
    BandIndex,
    Moves,
    PairLists,
    Pairs,
    Probes,
)
from fencepost.indexes.matches import Matches, answer_buffers, widened
from fencepost.indexes.ordinal import ValueType
from fencepost.indexes.ssi.distance import LEFT, RIGHT, between

STRIDE = 1 << 32
"""A pair of a point and a query has the number point * STRIDE + slot. It is a constant: a half that was built stays
right when the table of queries grows, as it does even for a query that is refused in the end."""


class Bands(NamedTuple):
    """The queries by their lower bounds: slots, and each bound as a pair (see `fencepost.indexes.ssi.distance`)."""

    slots: Int64s
    lows: Int64s
    low_signs: Int64s
    highs: Int64s
    high_signs: Int64s

    def taken(self, chosen: Any) -> "Bands":
        """Some of the queries."""
        return Bands(*(column[chosen] for column in self))


class StaticBands(BandIndex):
    """A band index that is built from the distinct keys of a side's rows and the queries, for each side on demand.

    A structure answers for a key of the other side: which (point, query) pairs, which queries. A point stands for
    all rows of its key, so multisets cost nothing extra; pairs are expanded on output. Changes (U1, U2) only mark the
    two built halves as outdated; the next question builds one anew, which is all that the paper offers.
    """

    def __init__(self, values: ValueType = "float64") -> None:
        super().__init__(values)
        self._halves: list[Any] = [None, None]
        self._points: list[Any] = [None, None]

    @override
    def _queries_added(self, slots: Int64s, groups: Int64s) -> None:
        self._halves = [None, None]

    @override
    def _queries_leave(self, slots: Int64s) -> None:
        self._halves = [None, None]

    @override
    def _rows_added(self, side: int, slots: Int64s) -> None:
        self._halves[side] = None

    @override
    def _rows_leave(self, side: int, slots: Int64s) -> None:
        self._halves[side] = None

    @override
    def _move(self, side: int, slots: Int64s, keys: Int64s) -> Moves:
        """Two Q1 queries and a set difference for each move."""
        column = self._rows[side].columns[ROW_KEY]
        before = np.empty(len(slots), np.int64)
        for i, (slot, key) in enumerate(zip(slots.tolist(), keys.tolist(), strict=True)):
            before[i] = column[slot]
            column[slot] = key
        self._rows_leave(side, slots)
        nothing = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.bool_)
        was, now = (self._pairs(side, Probes(each, *nothing)) for each in (before, keys))
        return Moves(_difference(now, was), _difference(was, now))

    def _half(self, side: int) -> Any:
        """The structure over the rows of a side, built if need be."""
        if self._halves[side] is None:
            slots = self._rows[side].slots()
            keys = self._rows[side].columns[ROW_KEY][slots]
            order = np.argsort(keys, kind="stable")
            points, starts = np.unique(keys[order], return_index=True)
            starts = np.append(starts, len(keys)).astype(np.int64)
            self._points[side] = (starts, self._rows[side].members.ids[slots][order])
            self._halves[side] = self._build(side, points, self._bands())
        return self._halves[side]

    def _bands(self) -> Bands:
        slots, columns = self._queries.slots(), self._queries.columns
        marks = columns[MARK][slots].astype(np.int64)
        bands = Bands(slots, columns[LOW][slots], (marks & 3) - 1, ~columns[HIGH][slots], (marks >> 2 & 3) - 1)
        return bands.taken(np.lexsort((bands.low_signs, bands.lows)))

    @override
    def _pairs(self, side: int, probes: Probes, out: PairLists | None = None) -> PairLists:
        half = self._half(1 - side)
        starts, row_ids = self._points[1 - side]
        found = self._found(half, side, probes, distinct=False, out=None)
        points, slots = np.divmod(found.ids, STRIDE)
        counts = np.diff(starts)[points] if len(points) else np.zeros(0, np.int64)
        total = int(counts.sum())
        given = None if out is None else Matches(out.offsets, out.rows)
        offsets, rows = answer_buffers(len(probes.keys), total, np.int64, given)
        if total > len(rows):
            rows = widened(rows, 0, total, given)
        queries = np.empty(len(rows), np.int64) if out is None else out.queries
        expand(found.offsets, points, self._queries.members.ids[slots], starts, row_ids, offsets, rows, queries)
        return PairLists(offsets, rows[:total], queries[:total])

    @override
    def _affected(self, side: int, probes: Probes, out: Matches | None = None) -> Matches:
        found = self._found(self._half(1 - side), side, probes, distinct=True, out=out)
        found.ids[:] = self._queries.members.ids[found.ids]
        return found

    def _found(self, half: Any, side: int, probes: Probes, distinct: bool, out: Matches | None) -> Matches:
        """Pair numbers, or slots of queries if `distinct`, for each key."""
        offsets, ids = answer_buffers(len(probes.keys), 16 * len(probes.keys), np.int64, out)
        needed = self._ask(half, side, probes, distinct, offsets, ids)
        if needed > len(ids):
            ids = widened(ids, 0, needed, out)
            self._ask(half, side, probes, distinct, offsets, ids)
        return Matches(offsets, ids[:needed])

    @override
    def _check(self) -> None:
        for side in (LEFT, RIGHT):
            self._check_half(self._half(side))

    # -- what a structure supplies ----------------------------------------------------------------------

    @abstractmethod
    def _build(self, side: int, points: Int64s, bands: Bands) -> Any:
        """The structure over a side's distinct keys, ascending, and the queries."""

    @abstractmethod
    def _ask(self, half: Any, side: int, probes: Probes, distinct: bool, offsets: Int64s, out: Int64s) -> int:
        """Fill an answer; the room it needs."""

    @abstractmethod
    def _check_half(self, half: Any) -> None: ...


def _difference(these: PairLists, those: PairLists) -> PairLists:
    """The pairs of each row of one answer that the other does not have there."""
    count = len(these.offsets) - 1
    pairs = [sorted(_as_set(these.of(i)) - _as_set(those.of(i))) for i in range(count)]
    columns = np.array([pair for row in pairs for pair in row], np.int64).reshape(-1, 2)
    return PairLists(np.cumsum([0, *map(len, pairs)]), columns[:, 0].copy(), columns[:, 1].copy())


def _as_set(pairs: Pairs) -> set[tuple[int, int]]:
    return set(zip(pairs.rows.tolist(), pairs.queries.tolist(), strict=True))


@kernel
def ranges_around(kind: int, side: int, points: Int64s, bands: Bands, firsts: Int64s, lasts: Int64s) -> None:
    """The other side's keys that make a pair, for each point (of `side`) and band, in that order."""
    at = 0
    for point in points:
        for i in range(len(bands.lows)):
            firsts[at], lasts[at] = between(
                kind, side, point, bands.lows[i], bands.low_signs[i], bands.highs[i], bands.high_signs[i]
            )
            at += 1


@kernel
def expand(
    found: Int64s,
    points: Int64s,
    query_ids: Int64s,
    starts: Int64s,
    row_ids: Int64s,
    offsets: Int64s,
    rows: Int64s,
    queries: Int64s,
) -> None:
    """Every row of a point in the place of the point."""
    at = i64(0)
    for probe in range(len(found) - 1):
        offsets[probe] = at
        for i in range(found[probe], found[probe + 1]):
            for row in range(starts[points[i]], starts[points[i] + 1]):
                rows[at] = row_ids[row]
                queries[at] = query_ids[i]
                at += 1
    offsets[len(found) - 1] = at
