"""StabbingBands: one range per row and stabbing group instead of one per row and query (Lemmas 3 to 5)."""

from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, i64
from fencepost.indexes.contracts.bands import Probes
from fencepost.indexes.matches import Storage
from fencepost.indexes.ordinal import LARGEST, SMALLEST
from fencepost.indexes.papers.interval_tree import IntervalTree, built_tree, check_tree, stab_tree
from fencepost.indexes.papers.static_bands import STRIDE, Bands, StaticBands, ranges_around
from fencepost.indexes.ssi.distance import LEFT, RIGHT, between, gap, limit, reaches


class StabbingHalf(NamedTuple):
    """The structure over the points of one side.

    Arrays: `points`, the side's keys, ascending; `lows`, the queries by (stabbing group, lower bound ascending), and
    `highs`, by (stabbing group, upper bound descending); the queries of group i are ``starts[i]:starts[i + 1]`` of
    both; `stabs` and `signs` are the groups' stabbing points. `covers` has the range of keys that bring a point into
    the reach of a group, payload point * groups + group; `sections` the (i, j)-intervals, payload
    group * (points + 1) + j, where j points are left of the stabbing point.
    """

    points: Int64s
    lows: Bands
    highs: Bands
    starts: Int64s
    stabs: Int64s
    signs: Int64s
    covers: IntervalTree
    sections: IntervalTree

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (
            self.points,
            self.starts,
            self.stabs,
            self.signs,
            *self.lows,
            *self.highs,
            *self.covers,
            *self.sections,
        )
        return sum(array.nbytes for array in arrays)


class StabbingBands(StaticBands):
    """Interval trees over what each point has to do with each stabbing group, m * tau ranges in all.

    Arrays: see `StabbingHalf`, one per side.

    Invariants: (1) a stabbing group's point lies in all its queries; (2) the (i, j)-intervals of one group are
    disjoint, so that a group is found at most once and no query twice.

    Costs: O(m tau + n) space, O(log(m tau) + k) to ask; every change is followed by a build.

    Agarwal, Xie, Yang, Yu 2005, Lemmas 3 to 5. Deviations: (i, j)-intervals are half-open, where the paper's closed
    ones report queries twice; x_0 and x_(m+1) are absent points, not infinities, so that infinite bands work.

    >>> index = StabbingBands()
    >>> index.insert_queries([1, 2], [None, 4], [3, None])
    >>> index.insert("left", 1, 5.0)
    >>> index.affected("right", 1.0).tolist(), index.affected("right", 2.0).tolist()
    ([2], [1])
    """

    @override
    def _build(self, side: int, points: Int64s, bands: Bands) -> StabbingHalf:
        return stabbing_half(self._kind, side, points, bands)

    @override
    def _ask(self, half: Any, side: int, probes: Probes, distinct: bool, offsets: Int64s, out: Int64s) -> int:
        hits = np.empty(len(half.points) * len(half.stabs) + 1, np.int64)
        stride = 0 if distinct else STRIDE
        return int(ask_half(self._kind, side, probes.keys, probes.missing, half, stride, hits, offsets, out))

    @override
    def storage(self) -> Storage:
        halves = [self._half(side) for side in (LEFT, RIGHT)]
        entries = sum(len(half.covers.by_first) + len(half.sections.by_first) + 2 * len(self) for half in halves)
        real = self._table_bytes() + sum(half.nbytes for half in halves)
        return Storage(sum(len(half.stabs) for half in halves), entries, 8 * entries, real)

    @override
    def _check_half(self, half: Any) -> None:
        check_stabbing(half)


def stabbing_half(kind: int, side: int, points: Int64s, bands: Bands) -> StabbingHalf:
    """The structure over a side's keys, ascending, and queries by lower bound."""
    n = len(bands.slots)
    labels, witnesses = np.empty(n, np.int64), np.empty(n, np.int64)
    count = greedy_labels(bands, labels, witnesses)
    starts = np.searchsorted(labels, np.arange(count + 1)).astype(np.int64)
    highs = bands.taken(np.lexsort((-bands.high_signs, ~bands.highs, labels)))
    stabs, signs = bands.highs[witnesses[:count]], bands.high_signs[witnesses[:count]]
    begins, ends = bands.taken(starts[:-1]), highs.taken(starts[:-1])
    cover = Bands(np.arange(count), begins.lows, begins.low_signs, ends.highs, ends.high_signs)
    size = len(points) * count
    firsts, lasts = np.empty(size, np.int64), np.empty(size, np.int64)
    ranges_around(kind, side, points, cover, firsts, lasts)
    covers = built_tree(firsts, lasts, np.arange(size))
    size = 2 * count * (len(points) + 1)
    firsts, lasts, payloads = (np.empty(size, np.int64) for _ in range(3))
    filled = sections_of(kind, side, points, cover, stabs, signs, firsts, lasts, payloads)
    sections = built_tree(firsts[:filled], lasts[:filled], payloads[:filled])
    return StabbingHalf(points, bands, highs, starts, stabs, signs, covers, sections)


def check_stabbing(half: StabbingHalf) -> None:
    """Assert the invariants."""
    check_tree(half.covers)
    check_tree(half.sections)
    for i in range(len(half.stabs)):
        point = (half.stabs[i], half.signs[i])
        for bands in (half.lows, half.highs):
            own = bands.taken(slice(half.starts[i], half.starts[i + 1]))
            assert all(each <= point for each in zip(own.lows, own.low_signs, strict=True)), "no query begins later"
            assert all(each >= point for each in zip(own.highs, own.high_signs, strict=True)), "no query ends earlier"
    begins, ends = (
        listed[np.argsort(listed[:, 1], kind="stable")] for listed in (half.sections.by_first, half.sections.by_last)
    )
    groups = begins[:, 1] // (len(half.points) + 1)
    for i in range(len(half.stabs)):
        marks = sorted(
            [(v, 0) for v in begins[groups == i, 0].tolist()] + [(v, 1) for v in ends[groups == i, 0].tolist()]
        )
        assert [kind for _, kind in marks] == [0, 1] * (len(marks) // 2), "sections of a group are disjoint"


@kernel
def greedy_labels(bands: Bands, labels: Int64s, witnesses: Int64s) -> Any:
    """The smallest stabbing set of queries by lower bound: a group each, the query with the least end per group."""
    count = 0
    for i in range(len(bands.lows)):
        if count > 0:
            last = witnesses[count - 1]
            within = reaches(bands.lows[i], bands.low_signs[i], bands.highs[last], bands.high_signs[last])
        if count == 0 or not within:
            witnesses[count] = i
            count += 1
        elif not reaches(bands.highs[last], bands.high_signs[last], bands.highs[i], bands.high_signs[i]):
            witnesses[count - 1] = i
        labels[i] = count - 1
    return count


@kernel
def sections_of(
    kind: int,
    side: int,
    points: Int64s,
    cover: Bands,
    stabs: Int64s,
    signs: Int64s,
    firsts: Int64s,
    lasts: Int64s,
    payloads: Int64s,
) -> Any:
    """The (i, j)-intervals, at most two for a group i and j points left of its stabbing point; how many."""
    m, filled = len(points), 0
    for i in range(len(stabs)):
        for j in range(m + 1):
            first, last = i64(LARGEST), i64(SMALLEST)
            if j < m:
                first, last = between(
                    kind, side, points[j], stabs[i], signs[i] + 1, cover.highs[i], cover.high_signs[i]
                )
                if j > 0:
                    end, below = limit(kind, side, points[j - 1], stabs[i], signs[i])
                    if below and end == SMALLEST:
                        first, last = i64(LARGEST), i64(SMALLEST)
                    else:
                        last = min(last, end - below)
            begin, until = i64(LARGEST), i64(SMALLEST)
            if j > 0:
                begin, until = between(kind, side, points[j - 1], cover.lows[i], cover.low_signs[i], stabs[i], signs[i])
                if j < m:
                    end, below = limit(kind, side, points[j], stabs[i], signs[i])
                    if not below and end == LARGEST:
                        begin, until = i64(LARGEST), i64(SMALLEST)
                    else:
                        begin = max(begin, end + (not below))
            has_one, has_other = first <= last, begin <= until
            if has_one and has_other and begin <= last:
                first, last = min(first, begin), max(last, until)
                has_other = False
            if has_one:
                firsts[filled], lasts[filled], payloads[filled] = first, last, i * (m + 1) + j
                filled += 1
            if has_other:
                firsts[filled], lasts[filled], payloads[filled] = begin, until, i * (m + 1) + j
                filled += 1
    return filled


@kernel
def pairs_stabbing(
    kind: int, side: int, key: int, half: StabbingHalf, stride: int, hits: Int64s, out: Int64s, count: int
) -> Any:
    """Append the pairs of a key; the new count."""
    lows, highs, groups = half.lows, half.highs, len(half.stabs)
    for hit in hits[: stab_tree(half.covers, key, hits, 0)]:
        point, group = hit // groups, hit % groups
        d, rest = gap(kind, side, key, half.points[point])
        if reaches(d, rest, half.stabs[group], half.signs[group]):
            for i in range(half.starts[group], half.starts[group + 1]):
                if not reaches(lows.lows[i], lows.low_signs[i], d, rest):
                    break
                if count < len(out):
                    out[count] = point * stride + lows.slots[i]
                count += 1
        else:
            for i in range(half.starts[group], half.starts[group + 1]):
                if not reaches(d, rest, highs.highs[i], highs.high_signs[i]):
                    break
                if count < len(out):
                    out[count] = point * stride + highs.slots[i]
                count += 1
    return count


@kernel
def affected_stabbing(kind: int, side: int, key: int, half: StabbingHalf, hits: Int64s, out: Int64s, count: int) -> Any:
    """Append the slots of the queries that a key affects, each once; the new count."""
    lows, highs, m = half.lows, half.highs, len(half.points)
    for hit in hits[: stab_tree(half.sections, key, hits, 0)]:
        group, j = hit // (m + 1), hit % (m + 1)
        begin, end = half.starts[group], half.starts[group + 1]
        d, rest = i64(0), i64(0)
        if j > 0:
            d, rest = gap(kind, side, key, half.points[j - 1])
            for i in range(begin, end):
                if not reaches(lows.lows[i], lows.low_signs[i], d, rest):
                    break
                if count < len(out):
                    out[count] = lows.slots[i]
                count += 1
        if j < m:
            e, e_rest = gap(kind, side, key, half.points[j])
            for i in range(begin, end):
                if not reaches(e, e_rest, highs.highs[i], highs.high_signs[i]):
                    break
                if j > 0 and reaches(highs.lows[i], highs.low_signs[i], d, rest):
                    continue
                if count < len(out):
                    out[count] = highs.slots[i]
                count += 1
    return count


@kernel
def ask_half(
    kind: int,
    side: int,
    keys: Int64s,
    missing: Bools,
    half: StabbingHalf,
    stride: int,
    hits: Int64s,
    offsets: Int64s,
    out: Int64s,
) -> Any:
    """Q1 for each key, or Q2 if there is no stride; the room the answer needs."""
    count = i64(0)
    for probe in range(len(keys)):
        offsets[probe] = count
        if not missing[probe]:
            if stride:
                count = pairs_stabbing(kind, side, keys[probe], half, stride, hits, out, count)
            else:
                count = affected_stabbing(kind, side, keys[probe], half, hits, out, count)
    offsets[len(keys)] = count
    return count
