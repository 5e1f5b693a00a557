"""The invariants of a stabbing partition, asserted."""

import numpy as np

from fencepost.indexes.arrays import Int64s
from fencepost.indexes.contracts.bands import low_sign
from fencepost.indexes.ssi.changes import WITNESS, Partitions
from fencepost.indexes.ssi.search import SSIView

EXCESS, SLACK = 0.5, 2
"""How many stabbing groups there may be beyond the least possible number: so large a share of it, and so many."""


def check_partitions(view: SSIView, partitions: Partitions, by_lower_bound: Int64s, numbers: Int64s) -> None:
    """Assert invariants 1 to 4 of SSI for queries in these slots, which have groups of these numbers."""
    queries, stabs = view.queries, view.stabs
    counts = np.bincount(numbers, minlength=len(partitions.queries))
    assert np.array_equal(counts, partitions.queries), "every query is counted in its partition"
    reach: dict[int, list[tuple[int, int]]] = {}
    last_end: dict[int, tuple[int, int]] = {}
    witnesses = np.zeros(len(partitions.witnesses), np.int64)
    for slot in by_lower_bound.tolist():
        mark, group = int(queries.marks[slot]), int(queries.groups[slot])
        low, high = (int(queries.lows[slot]), low_sign(mark)), (~int(queries.highs[slot]), (mark >> 2 & 3) - 1)
        point = (int(stabs.points[group]), int(stabs.signs[group]))
        assert low <= point <= high, "the stabbing point lies in the query"
        reach.setdefault(group, []).append((low[0], ~high[0]))
        if mark & WITNESS:
            partition = int(stabs.partitions[group])
            assert partition not in last_end or last_end[partition] < low, "witnesses are disjoint"
            last_end[partition] = high
            witnesses[partition] += 1
    assert np.array_equal(witnesses, partitions.witnesses), "witnesses are counted"
    for group, ends in reach.items():
        assert stabs.counts[group] == len(ends), "the queries of a stabbing group are counted"
        assert (stabs.lowest[group], stabs.highest[group]) == tuple(map(min, zip(*ends, strict=True))), "its reach"
    groups = np.bincount(stabs.partitions[list(reach)], minlength=len(partitions.groups))
    assert np.array_equal(groups, partitions.groups), "stabbing groups are counted"
    assert (groups <= (1 + EXCESS) * np.maximum(1, witnesses) + SLACK).all(), "there are not too many of them"
