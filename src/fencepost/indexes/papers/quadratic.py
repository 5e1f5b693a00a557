"""QuadraticBands: every pair of a row and a query has a range of values that complete it (Lemma 1)."""

from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, i64
from fencepost.indexes.contracts.bands import Probes
from fencepost.indexes.matches import Storage
from fencepost.indexes.papers.interval_tree import IntervalTree, built_tree, check_tree, stab_tree
from fencepost.indexes.papers.static_bands import STRIDE, Bands, StaticBands, ranges_around
from fencepost.indexes.ssi.distance import LEFT, RIGHT


class _Trees(NamedTuple):
    pairs: IntervalTree
    queries: IntervalTree


class QuadraticBands(StaticBands):
    """An interval tree over the ranges of all m * n pairs of a point and a query.

    Arrays: per side, an interval tree over the ranges of keys of the other side that complete each pair (Q1), and one
    over their union per query, as disjoint ranges (Q2).

    Invariants: (1) no range is empty; (2) the ranges of one query in the second tree are disjoint and do not touch.

    Costs: O(mn) space, O(mn log mn) to build, O(log mn + k) to ask; every change is followed by a build.

    Agarwal, Xie, Yang, Yu 2005, Lemma 1. Deviation: ranges are of ordinals, hence exact; U1 and U2 by rebuild.

    >>> index = QuadraticBands()
    >>> index.insert_query(7, -1, 1)
    >>> index.insert("left", 1, 4.5)
    >>> index.affected("right", 5.0).tolist(), index.affected("right", 5.75).tolist()
    ([7], [])
    """

    @override
    def _build(self, side: int, points: Int64s, bands: Bands) -> _Trees:
        m, n = len(points), len(bands.slots)
        firsts, lasts = np.empty(m * n, np.int64), np.empty(m * n, np.int64)
        ranges_around(self._kind, side, points, bands, firsts, lasts)
        numbers = (np.arange(m)[:, None] * STRIDE + bands.slots).reshape(m * n)
        pairs = built_tree(firsts, lasts, numbers)
        slots = np.tile(bands.slots, m)
        order = np.lexsort((firsts, slots))
        kept = merge_ranges(slots, firsts, lasts, order)
        return _Trees(pairs, built_tree(firsts[order[:kept]], lasts[order[:kept]], slots[order[:kept]]))

    @override
    def _ask(self, half: Any, side: int, probes: Probes, distinct: bool, offsets: Int64s, out: Int64s) -> int:
        return int(ask_tree(half.queries if distinct else half.pairs, probes.keys, probes.missing, offsets, out))

    @override
    def storage(self) -> Storage:
        halves = [self._half(side) for side in (LEFT, RIGHT)]
        entries = sum(len(tree.by_first) for half in halves for tree in half)
        real = self._table_bytes() + sum(tree.nbytes for half in halves for tree in half)
        return Storage(sum(len(tree.centres) for half in halves for tree in half), entries, 8 * entries, real)

    @override
    def _check_half(self, half: Any) -> None:
        for tree in half:
            check_tree(tree)
        ends: dict[int, list[tuple[int, int]]] = {}
        lasts = dict(zip(map(tuple, half.queries.by_last.tolist()), range(len(half.queries.by_last)), strict=True))
        assert len(lasts) == len(half.queries.by_last), "no range is stored twice"
        for first, slot in half.queries.by_first.tolist():
            ends.setdefault(slot, []).append((first, 0))
        for last, slot in half.queries.by_last.tolist():
            ends[slot].append((last, 1))
        for marks in ends.values():
            kinds = [kind for _, kind in sorted(marks)]
            assert kinds == [0, 1] * (len(kinds) // 2), "the ranges of a query are disjoint"


@kernel
def merge_ranges(slots: Int64s, firsts: Int64s, lasts: Int64s, order: Int64s) -> Any:
    """Unite ranges of one query that overlap or touch; `order` goes by (query, first), and keeps those that remain."""
    kept = 0
    for i in range(len(order)):
        row = order[i]
        if firsts[row] > lasts[row]:
            continue
        if kept > 0:
            last = order[kept - 1]
            if slots[last] == slots[row] and (firsts[row] <= lasts[last] or firsts[row] - 1 == lasts[last]):
                lasts[last] = max(lasts[last], lasts[row])
                continue
        order[kept] = row
        kept += 1
    return kept


@kernel
def ask_tree(tree: IntervalTree, keys: Int64s, missing: Bools, offsets: Int64s, out: Int64s) -> Any:
    """The payloads for each key; the room they need."""
    count = i64(0)
    for probe in range(len(keys)):
        offsets[probe] = count
        if not missing[probe]:
            count = stab_tree(tree, keys[probe], out, count)
    offsets[len(keys)] = count
    return count
