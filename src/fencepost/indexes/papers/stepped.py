"""What SCI and LCI share: the same few construct lengths at every integer start of the domain.

A construct with the i-th length at start a has the id ``a * len(lengths) + i``, so the ids of all constructs
that contain a value lie at fixed distances from the value's cell: a *difference table*, computed once.

With closed ends (Wu, Chen, Yu, IBM report) neighbouring pieces of an interval share a point. Each construct then
has two lists, one for intervals that end with it and one for all others; a value on a construct's right end is
answered from the first alone, so that every interval is reported once (the last-piece rule). Two tables follow:
constructs that contain the cell, and constructs that end on an integer value.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Float64s, Int64s, UInt32s
from fencepost.indexes.papers.construct_lists import MOST_EXTRA_CODES, finish_codes, plan
from fencepost.indexes.papers.constructs import ConstructIndex, Piece


class Shape(NamedTuple):
    """What the kernels need to know."""

    closed: bool
    lengths: Int64s
    largest_fit: Int64s
    """For a rest of w < L the index of the largest length that fits it."""
    around: Int64s
    """Distances from the value's cell (times the number of lengths) to the constructs that contain the cell."""
    ending: Int64s
    """Likewise to the constructs that end exactly where the cell starts."""
    constructs: int


@kernel
def decompose(
    shape: Shape,
    layout: Int64s,
    bounds: Float64s,
    slots: Int64s,
    offsets: Int64s,
    codes: Int64s,
) -> Any:
    """From the left, always the largest length that still fits."""
    rows = min(len(slots), len(offsets) - 1)
    stride = len(shape.lengths)
    longest = shape.lengths[stride - 1]
    n = 0
    offsets[0] = 0
    for row in range(rows):
        cut = plan(layout, shape.closed, bounds, slots[row])
        if n + max(0, cut.last - cut.first) // longest + stride + MOST_EXTRA_CODES > len(codes):
            return row
        at = cut.first
        while at < cut.last:
            rest = cut.last - at
            step = stride - 1 if rest >= longest else shape.largest_fit[rest]
            codes[n] = at * stride + step
            at += shape.lengths[step]
            n += 1
        ends_on_piece = cut.point >= 0 and cut.first < cut.last
        if ends_on_piece:
            codes[n - 1] += shape.constructs
        n = finish_codes(codes, n, cut, not ends_on_piece)
        offsets[row + 1] = n
    return rows


@kernel
def cover(
    shape: Shape,
    heads: UInt32s,
    units: UInt32s,  # noqa: ARG001
    values: Float64s,
    cells: Int64s,
    run_offsets: Int64s,
    runs: UInt32s,
) -> None:
    """The lists at the distances of the tables; a negative id is a start before the domain."""
    n = 0
    run_offsets[0] = 0
    for i in range(len(values)):
        if cells[i] >= 0:
            base = cells[i] * len(shape.lengths)
            for j in range(len(shape.around)):
                place = base + shape.around[j]
                if place >= 0 and heads[place, 1]:
                    runs[n, 0] = heads[place, 0]
                    runs[n, 1] = heads[place, 1]
                    n += 1
            if shape.closed:
                last = base + shape.constructs
                for j in range(len(shape.around)):
                    place = last + shape.around[j]
                    if place >= shape.constructs and heads[place, 1]:
                        runs[n, 0] = heads[place, 0]
                        runs[n, 1] = heads[place, 1]
                        n += 1
                if np.floor(values[i]) == values[i]:
                    for j in range(len(shape.ending)):
                        place = last + shape.ending[j]
                        if place >= shape.constructs and heads[place, 1]:
                            runs[n, 0] = heads[place, 0]
                            runs[n, 1] = heads[place, 1]
                            n += 1
        run_offsets[i + 1] = n


class SteppedIndex(ConstructIndex):
    """Constructs of the given lengths at every integer start."""

    _decompose = staticmethod(decompose)
    _cover = staticmethod(cover)

    def __init__(self, domain: tuple[int, int], lengths: Sequence[int], closed: bool) -> None:
        super().__init__(domain, closed)
        size = self.domain[1] - self.domain[0]
        stride = len(lengths)
        longest = lengths[-1]
        around = [step - back * stride for back in range(longest) for step in range(stride) if lengths[step] > back]
        ending = [step - lengths[step] * stride for step in range(stride)]
        self._constructs = size * stride
        self.lists_per_search = len(around) + (len(ending) if closed else 0)
        self._shape = Shape(
            closed,
            np.array(lengths),
            np.searchsorted(np.array(lengths), np.arange(longest), "right") - 1,
            np.array(sorted(around)),
            np.array(sorted(ending)),
            self.constructs,
        )
        self._lay_out(dense=2 * self.constructs if closed else self.constructs)

    def _piece(self, code: int) -> Piece:
        return code % self.constructs

    def _unit_piece(self, cell: int) -> Piece:
        return cell * len(self._shape.lengths)
