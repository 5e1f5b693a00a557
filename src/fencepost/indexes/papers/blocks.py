"""BlockBands: small blocks of rows and queries whose answers depend on an ordering alone (Lemma 2, Theorem 1)."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fencepost.compiled import allocating_kernel, kernel
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, i64
from fencepost.indexes.contracts.bands import Probes
from fencepost.indexes.matches import Storage
from fencepost.indexes.ordinal import ValueType
from fencepost.indexes.papers.stabbing import (
    StabbingHalf,
    affected_stabbing,
    check_stabbing,
    pairs_stabbing,
    stabbing_half,
)
from fencepost.indexes.papers.static_bands import STRIDE, Bands, StaticBands
from fencepost.indexes.ssi.distance import LEFT, RIGHT, between, gap, reaches
from fencepost.indexes.ssi.members import Int32s

_UNUSED = 255


class BlockHalf(NamedTuple):
    """The structure over the points of one side.

    Arrays: `crossing`, the structure of Lemma 5 for the queries that contain a picked endpoint. The others are
    `bands`, those of gap j at ``starts[j]:starts[j + 1]``; `reach` has each gap's least lower and greatest upper
    bound, as two pairs. `shared` has the description of each block of points and gap; a description is a row of
    `labels`, the order of the bounds, and of `offsets`, where the answer for each place in that order begins in
    `answers`, (pairs, queries) apart: Q1 answers are point * size + query, both counted in their block.

    A label is 2 * (point * size + query), plus 1 for where a pair ends. Points are counted from 1; 0 is the last point
    of the block before, the inhibitor: what it has in a band was reported there.
    """

    crossing: StabbingHalf
    points: Int64s
    bands: Bands
    starts: Int64s
    reach: Int64s
    shared: Int32s
    labels: UInt8s
    offsets: Int64s
    answers: UInt8s


class BlockBands(StaticBands):
    """The paper's main result: less than mn space and less than m + n time.

    Every 2r-th endpoint is picked. Queries that contain a picked endpoint have a stabbing set of n / r points: they go
    to the structure of Lemma 5. The others lie in gaps, fewer than r in each; points are cut into blocks of r. What a
    block and a gap answer depends only on the order of the bounds of their pairs, so blocks with the same order (the
    signature) share one description.

    Args:
        values: as for every band index.
        size: the paper's r; orders are shared by many blocks only if it is at most 3.

    Arrays: see `BlockHalf`, one per side.

    Invariants: (1) a gap has fewer than r queries, a block at most r points; (2) gaps do not overlap; (3) no two
    descriptions have the same signature.

    Costs: O(mn / r) space, O((m + n) / r log r + log(mn / r) + k) to ask; every change is followed by a build.

    Agarwal, Xie, Yang, Yu 2005, section 2. Deviations: only orders that occur are described; an inhibitor keeps a
    query from being reported by several blocks, as the printed construction would for Q2.

    >>> index = BlockBands(size=2)
    >>> index.insert_queries([1, 2, 3], [0, 2, 4], [1, 3, 5])
    >>> index.insert_many("left", [10, 11], [0.0, 1.0])
    >>> index.affected("right", 0.0).tolist()
    [1]
    """

    def __init__(self, values: ValueType = "float64", size: int = 3) -> None:
        super().__init__(values)
        if not 1 <= size <= 7:
            raise FencepostError(f"size={size}", "1 to 7", "Orders are shared by many blocks up to 3.")
        self.size = size

    @override
    def _build(self, side: int, points: Int64s, bands: Bands) -> BlockHalf:
        crosses, gaps = self._gaps(bands)
        crossing = stabbing_half(self._kind, side, points, bands.taken(crosses))
        rest, gap_numbers = bands.taken(~crosses), gaps[~crosses]
        rest = rest.taken(np.argsort(gap_numbers, kind="stable"))
        starts = np.append(np.unique(np.sort(gap_numbers), return_index=True)[1], len(gap_numbers)).astype(np.int64)
        reach = np.empty((len(starts) - 1, 4), np.int64)
        reach_of(rest, starts, reach)
        size = self.size
        count = -(-len(points) // size)
        signatures = np.full((count * len(reach), 2 * (size + 1) * size + 1), _UNUSED, np.uint8)
        sign(self._kind, side, points, rest, starts, size, signatures)
        rows = np.ascontiguousarray(signatures).view(f"V{signatures.shape[1]}").ravel()
        _, chosen, shared = np.unique(rows, return_index=True, return_inverse=True)
        labels = signatures[chosen]
        offsets = np.zeros((len(labels), 2, labels.shape[1] + 1), np.int64)
        room = describe(labels, size, offsets, np.empty(0, np.uint8))
        answers = np.empty(room, np.uint8)
        describe(labels, size, offsets, answers)
        sharing = shared.reshape(count, len(reach)).astype(np.int32)
        return BlockHalf(crossing, points, rest, starts, reach, sharing, labels, offsets, answers)

    def _gaps(self, bands: Bands) -> tuple[Bools, Int64s]:
        """Which queries contain a picked endpoint, and how many picked ones are below each."""
        n = len(bands.slots)
        keys = np.append(bands.lows, bands.highs)
        signs = np.append(bands.low_signs, bands.high_signs)
        order = np.lexsort((signs, keys))
        new = (np.diff(keys[order]) != 0) | (np.diff(signs[order]) != 0) if n else np.zeros(0, np.bool_)
        ranks = np.empty(2 * n, np.int64)
        ranks[order] = np.append(0, np.cumsum(new)) if n else ranks[order]
        picked = ranks[order][2 * self.size - 1 :: 2 * self.size]
        below = np.searchsorted(picked, ranks[:n])
        return below < np.searchsorted(picked, ranks[n:], "right"), below

    @override
    def _ask(self, half: Any, side: int, probes: Probes, distinct: bool, offsets: Int64s, out: Int64s) -> int:
        hits = np.empty(len(half.points) * len(half.crossing.stabs) + 1, np.int64)
        stride = 0 if distinct else STRIDE
        return int(ask_half(self._kind, side, probes.keys, probes.missing, half, self.size, stride, hits, offsets, out))

    @property
    def descriptions(self) -> int:
        """How many different orders the blocks have."""
        return sum(len(self._half(side).labels) for side in (LEFT, RIGHT))

    @override
    def storage(self) -> Storage:
        halves = [self._half(side) for side in (LEFT, RIGHT)]
        entries, real = 0, self._table_bytes()
        for half in halves:
            crossing = half.crossing
            entries += len(crossing.covers.by_first) + len(crossing.sections.by_first) + 2 * len(crossing.lows.slots)
            entries += half.shared.size + half.labels.size + len(half.answers)
            own = (half.starts, half.reach, half.shared, half.labels, half.offsets, half.answers, *half.bands)
            real += crossing.nbytes + sum(array.nbytes for array in own)
        return Storage(self.descriptions, entries, 8 * entries, real)

    @override
    def _check_half(self, half: Any) -> None:
        check_stabbing(half.crossing)
        assert (np.diff(half.starts) < max(2, self.size)).all(), "a gap has fewer than r queries"
        reach = half.reach.tolist()
        for one, other in pairwise(reach):
            assert (one[2], one[3]) < (other[0], other[1]), "gaps do not overlap"
        assert len({row.tobytes() for row in half.labels}) == len(half.labels), "signatures are shared"


@kernel
def reach_of(bands: Bands, starts: Int64s, reach: Int64s) -> None:
    """The least lower and greatest upper bound of each gap."""
    for j in range(len(reach)):
        begin = starts[j]
        reach[j, 0], reach[j, 1] = bands.lows[begin], bands.low_signs[begin]
        reach[j, 2], reach[j, 3] = bands.highs[begin], bands.high_signs[begin]
        for i in range(begin + 1, starts[j + 1]):
            if reaches(reach[j, 2], reach[j, 3], bands.highs[i], bands.high_signs[i]):
                reach[j, 2], reach[j, 3] = bands.highs[i], bands.high_signs[i]


@kernel
def end_of_pair(
    kind: int, side: int, points: Int64s, bands: Bands, size: int, block: int, begin: int, label: int
) -> Any:
    """The key at which the pair of a label begins, or ends."""
    point = points[block * size + label // 2 // size - 1]
    query = begin + label // 2 % size
    first, last = between(
        kind, side, point, bands.lows[query], bands.low_signs[query], bands.highs[query], bands.high_signs[query]
    )
    return last if label & 1 else first


@allocating_kernel
def sign(kind: int, side: int, points: Int64s, bands: Bands, starts: Int64s, size: int, signatures: UInt8s) -> None:
    """The signature of each block and gap: its labels in the order of (key, begin before end)."""
    blocks, gaps = -(-len(points) // size), len(starts) - 1
    values = np.empty(signatures.shape[1], np.int64)
    for block in range(blocks):
        for j in range(gaps):
            row = signatures[block * gaps + j]
            row[0] = block > 0
            filled = 1
            for point in range(0 if block > 0 else 1, min(size, len(points) - block * size) + 1):
                for query in range(starts[j + 1] - starts[j]):
                    for end in range(2):
                        label = 2 * (point * size + query) + end
                        value = end_of_pair(kind, side, points, bands, size, block, starts[j], label)
                        at = filled
                        while at > 1 and (
                            values[at - 1] > value or (values[at - 1] == value and (row[at - 1] & 1) > end)
                        ):
                            values[at] = values[at - 1]
                            row[at] = row[at - 1]
                            at -= 1
                        values[at] = value
                        row[at] = label
                        filled += 1


@allocating_kernel
def describe(labels: UInt8s, size: int, offsets: Int64s, answers: UInt8s) -> Any:
    """What is active at each place of each order: pairs, and queries that the inhibitor has not; the room it takes."""
    used = i64(0)
    active = np.zeros((size + 1, size), np.bool_)
    begun, ended = active.copy(), active.copy()
    for row in range(len(labels)):
        for distinct in range(2):
            begun[:], ended[:] = False, False
            for place in range(labels.shape[1]):
                if place > 0 and labels[row, place] != _UNUSED:
                    pair = i64(labels[row, place]) // 2
                    if labels[row, place] & 1:
                        ended[pair // size, pair % size] = True
                    else:
                        begun[pair // size, pair % size] = True
                offsets[row, distinct, place] = used
                for query in range(size):
                    fresh = not (begun[0, query] and not ended[0, query])
                    for point in range(1, size + 1):
                        if begun[point, query] and not ended[point, query] and (not distinct or fresh):
                            if used < len(answers):
                                answers[used] = query if distinct else point * size + query
                            used += 1
                            fresh = False
            offsets[row, distinct, labels.shape[1]] = used
    return used


@kernel
def ask_blocks(
    kind: int, side: int, key: int, half: BlockHalf, size: int, distinct: int, stride: int, out: Int64s, count: int
) -> Any:
    """Append what the blocks and gaps answer for a key: one pass over both, since both are in order."""
    points, bands, reach = half.points, half.bands, half.reach
    blocks, gaps = half.shared.shape
    block = j = i64(0)
    while block < blocks and j < gaps:
        last = min((block + 1) * size, len(points)) - 1
        low, low_rest = gap(kind, side, key, points[block * size])
        high, high_rest = gap(kind, side, key, points[last])
        ends_before = reaches(high, high_rest, reach[j, 2], reach[j, 3])
        if reaches(low, low_rest, reach[j, 2], reach[j, 3]) and reaches(reach[j, 0], reach[j, 1], high, high_rest):
            description = half.shared[block, j]
            labels = half.labels[description]
            begin, end = 1, 1
            while end < len(labels) and labels[end] != _UNUSED:
                end += 1
            while begin < end:
                middle = (begin + end) >> 1
                label = i64(labels[middle])
                value = end_of_pair(kind, 1 - side, points, bands, size, block, half.starts[j], label)
                if value < key or (value == key and not label & 1):
                    begin = middle + 1
                else:
                    end = middle
            place = begin - 1
            for i in range(half.offsets[description, distinct, place], half.offsets[description, distinct, place + 1]):
                answer = i64(half.answers[i])
                if count < len(out):
                    slot = bands.slots[half.starts[j] + answer % size]
                    out[count] = slot if distinct else (block * size + answer // size - 1) * stride + slot
                count += 1
        if ends_before:
            block += 1
        else:
            j += 1
    return count


@kernel
def ask_half(
    kind: int,
    side: int,
    keys: Int64s,
    missing: Bools,
    half: BlockHalf,
    size: int,
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
                count = pairs_stabbing(kind, side, keys[probe], half.crossing, stride, hits, out, count)
            else:
                count = affected_stabbing(kind, side, keys[probe], half.crossing, hits, out, count)
            count = ask_blocks(kind, side, keys[probe], half, size, i64(stride == 0), stride, out, count)
    offsets[len(keys)] = count
    return count
