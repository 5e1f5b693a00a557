"""ACEI: CEI with fewer levels, and unit intervals only where they are needed (Yao et al. 2009)."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.errors import FencepostError
from fencepost.indexes.analysis import acei_parameters
from fencepost.indexes.arrays import Float64s, Int64s, UInt32s, i64
from fencepost.indexes.papers.cei import best_partition
from fencepost.indexes.papers.construct_lists import MOST_EXTRA_CODES, finish_codes, plan
from fencepost.indexes.papers.constructs import ConstructIndex, Piece
from fencepost.indexes.papers.listed import power_of_two


class Shape(NamedTuple):
    """What ACEI's kernels need to know."""

    closed: bool
    bits: int
    """H, the log2 of the segment length L."""
    levels: int
    """h, the log2 of the number of blocks B per segment."""


@kernel
def units_between(start: int, end: int, dense: int, codes: Int64s, n: int) -> Any:
    """One code per unit cell; the new number of codes."""
    for cell in range(start, end):
        codes[n] = dense + cell
        n += 1
    return n


@kernel
def decompose(
    shape: Shape,
    layout: Int64s,
    bounds: Float64s,
    slots: Int64s,
    offsets: Int64s,
    codes: Int64s,
) -> Any:
    """Segment by segment: whole ones by their root, else blocks by `best_partition` and units at either end."""
    rows = min(len(slots), len(offsets) - 1)
    dense = layout[0]
    bits, blocks = shape.bits, 1 << shape.levels
    grain_bits = shape.bits - shape.levels
    nodes = 2 * blocks - 1
    n = 0
    offsets[0] = 0
    for row in range(rows):
        cut = plan(layout, shape.closed, bounds, slots[row])
        whole = max(0, cut.last - cut.first) >> bits
        if n + whole + 4 * shape.levels + (2 << grain_bits) + 8 + MOST_EXTRA_CODES > len(codes):
            return row
        at = cut.first
        while at < cut.last:
            segment = at >> bits
            end = min(cut.last, (segment + 1) << bits)
            if end - at == 1 << bits:
                codes[n] = segment * nodes
                n += 1
            else:
                first_block = (at + (1 << grain_bits) - 1) >> grain_bits
                last_block = end >> grain_bits
                if first_block >= last_block:
                    n = units_between(at, end, dense, codes, n)
                else:
                    n = units_between(at, first_block << grain_bits, dense, codes, n)
                    leaf = first_block - segment * blocks + blocks
                    n = best_partition(first_block, last_block, leaf, segment * nodes - 1, codes, n)
                    n = units_between(last_block << grain_bits, end, dense, codes, n)
            at = end
        n = finish_codes(codes, n, cut, True)
        offsets[row + 1] = n
    return rows


@kernel
def cover(
    shape: Shape,
    heads: UInt32s,
    units: UInt32s,
    values: Float64s,
    cells: Int64s,
    run_offsets: Int64s,
    runs: UInt32s,
) -> None:
    """The path from the value's block to the root, then its unit cell if the segment has units."""
    bits, blocks = shape.bits, 1 << shape.levels
    nodes = 2 * blocks - 1
    within = (1 << bits) - 1
    n = 0
    run_offsets[0] = 0
    for i in range(len(values)):
        if cells[i] >= 0:
            segment = cells[i] >> bits
            node = blocks + ((cells[i] & within) >> (bits - shape.levels))
            while node:
                place = segment * nodes + node - 1
                count = heads[place, 1]
                runs[n, 0] = heads[place, 0]
                runs[n, 1] = count
                n += count > 0
                node >>= 1
            array = i64(units[segment, 0])
            if array:
                place = array - 1 + (cells[i] & within)
                count = heads[place, 1]
                runs[n, 0] = heads[place, 0]
                runs[n, 1] = count
                n += count > 0
        run_offsets[i + 1] = n


class ACEI(ConstructIndex):
    """Adaptive containment-encoded intervals (Yao, Wang, Liu, Guo 2009).

    Of the tree over a segment of length L only the upper levels are kept, down to B blocks of length L/B. What
    no block covers goes to unit intervals, in an array that a segment has only while it needs one: the domain
    may be far larger than memory.

    Args:
        domain: the integer range (start, end); its size is raised to a multiple of `length`.
        length: L, a power of two.
        blocks: B, a power of two up to L. B = L is CEI, without units.
        closed: intervals are ``[lo, hi]``.

    Costs: search log2 B + 2 lists; insert and remove O(width / L + log2 B + L / B).

    >>> index = ACEI(domain=(0, 64), length=8, blocks=2)
    >>> index.insert(1, 2, 12)
    >>> index.pieces(1)
    [('unit', 2), ('unit', 3), (0, 3), (1, 2)]
    >>> index.stab([1.5, 2, 11.5]).sets()
    [set(), {1}, {1}]

    """

    _decompose = staticmethod(decompose)
    _cover = staticmethod(cover)

    def __init__(self, domain: tuple[int, int], length: int, blocks: int = 1, closed: bool = False) -> None:
        super().__init__(domain, closed)
        bits, levels = power_of_two(length), power_of_two(blocks, "blocks")
        if levels > bits:
            raise FencepostError(
                f"blocks={blocks} for length={length}",
                "blocks <= length",
                "Raise the length or take fewer blocks.",
            )
        self.length, self.blocks = int(length), int(blocks)
        self._segments = -(-(self.domain[1] - self.domain[0]) // self.length)
        self.lists_per_search = levels + (1 if levels == bits else 2) + (1 if closed else 0)
        self._shape = Shape(closed, bits, levels)
        self._lay_out(self._segments * (2 * self.blocks - 1), self._segments, bits)

    @classmethod
    def tuned(cls, domain: tuple[int, int], n: int, mean_width: float, closed: bool = False) -> "ACEI":
        """The index whose length and blocks the paper's cost model finds best.

        Args:
            domain: the integer range (start, end).
            n: how many intervals to expect.
            mean_width: their mean width.
            closed: intervals are ``[lo, hi]``.

        >>> index = ACEI.tuned((0, 2**32), n=1000, mean_width=1024)
        >>> index.length, index.blocks
        (2048, 1)

        """
        length, blocks = acei_parameters(n, domain[1] - domain[0], mean_width)
        return cls(domain, length, blocks, closed)

    @property
    def constructs(self) -> int:
        """Nodes of all trees, and the units of the arrays that exist."""
        arrays = int(np.count_nonzero(self._lists.units[:, 0]))
        return self._segments * (2 * self.blocks - 1) + arrays * self.length

    def _pointers(self) -> int:
        return self._segments

    def _piece(self, code: int) -> Piece:
        dense = int(self._lists.layout[0])
        if code >= dense:
            return "unit", code - dense + self.domain[0]
        segment, node = divmod(code, 2 * self.blocks - 1)
        return segment, node + 1

    def _unit_piece(self, cell: int) -> Piece:
        return "unit", cell + self.domain[0]
