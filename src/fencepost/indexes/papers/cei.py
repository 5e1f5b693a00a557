"""CEI: containment-encoded intervals, a small binary tree over every segment of the domain (Wu, Chen, Yu 2006)."""

from typing import Any, NamedTuple

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Float64s, Int64s, UInt32s
from fencepost.indexes.kernels.vectors import prefetch
from fencepost.indexes.papers.construct_lists import MOST_EXTRA_CODES, finish_codes, plan
from fencepost.indexes.papers.constructs import ConstructIndex, Piece
from fencepost.indexes.papers.listed import power_of_two


class Shape(NamedTuple):
    """What CEI's kernels need to know."""

    closed: bool
    bits: int
    """k, the log2 of the segment length."""


@kernel
def best_partition(start: int, end: int, leaf: int, base: int, codes: Int64s, n: int) -> Any:
    """Cover ``[start, end)`` inside one tree with the fewest nodes; the new number of codes.

    `leaf` is the heap number of `start`, `base` is added to every heap number. From the left, climb while the
    node is a left child and its parent still fits; the root (1) is odd and stops the climb.
    """
    while start < end:
        node = leaf
        width = 1
        while node & 1 == 0 and start + 2 * width <= end:
            node >>= 1
            width *= 2
        codes[n] = base + node
        n += 1
        start += width
        leaf += width
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
    """Remnants at either end by `best_partition`, the roots of all segments between two guiding posts."""
    rows = min(len(slots), len(offsets) - 1)
    bits = shape.bits
    length = 1 << bits
    n = 0
    offsets[0] = 0
    for row in range(rows):
        cut = plan(layout, shape.closed, bounds, slots[row])
        if n + max(0, cut.last - cut.first) // length + 2 * bits + 3 + MOST_EXTRA_CODES > len(codes):
            return row
        a, b = cut.first, cut.last
        if a < b:
            left_post = ((a + length - 1) >> bits) << bits
            right_post = (b >> bits) << bits
            if left_post > right_post:
                segment = a >> bits
                n = best_partition(a, b, a - (segment << bits) + length, 2 * segment * length, codes, n)
            else:
                if a < left_post:
                    segment = a >> bits
                    leaf = a - (segment << bits) + length
                    n = best_partition(a, left_post, leaf, 2 * segment * length, codes, n)
                for post in range(left_post, right_post, length):
                    codes[n] = 2 * post + 1
                    n += 1
                n = best_partition(right_post, b, length, 2 * right_post, codes, n)
        n = finish_codes(codes, n, cut, True)
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
    """The path from the value's leaf to the root of its segment."""
    length = 1 << shape.bits
    ahead = 8
    n = 0
    run_offsets[0] = 0
    for i in range(len(values)):
        if i + ahead < len(values) and cells[i + ahead] >= 0:
            base = (cells[i + ahead] >> shape.bits) << (shape.bits + 1)
            node = (cells[i + ahead] & (length - 1)) + length
            for _ in range(min(4, shape.bits)):
                prefetch(heads, 2 * (base + node))
                node >>= 1
        if cells[i] >= 0:
            base = (cells[i] >> shape.bits) << (shape.bits + 1)
            node = (cells[i] & (length - 1)) + length
            while node:
                count = heads[base + node, 1]
                runs[n, 0] = heads[base + node, 0]
                runs[n, 1] = count
                n += count > 0
                node >>= 1
        run_offsets[i + 1] = n


class CEI(ConstructIndex):
    """Containment-encoded intervals (Wu, Chen, Yu 2006, section 3).

    The domain is cut into segments of length L = 2**k, and each is split in halves k times. The nodes of that
    tree are numbered as a heap: node l of segment i has the id ``l + 2 * i * L``, so parents, children and the
    leaf of a value are shifts and additions. The decomposition is minimal and unique (Theorem 1).

    With ``closed=True`` an interval that ends on an integer is also in the list of that point.

    Args:
        domain: the integer range (start, end); its size is raised to a multiple of `length`.
        length: L, a power of two. ``length=end - start`` (a power of two) makes a single tree, best for long or
            one-sided intervals.
        closed: intervals are ``[lo, hi]``.

    Costs: search k+1 lists; insert and remove O(width / L + k); space 2r - r/L lists, about k entries each.

    >>> index = CEI(domain=(0, 64), length=8)
    >>> index.insert(1, 8, 14)
    >>> index.insert(2, 11, 15)
    >>> index.pieces(1), index.pieces(2)
    ([18, 22], [27, 22, 30])
    >>> index.stab([11, 14.5]).sets()
    [{1, 2}, {2}]

    """

    _decompose = staticmethod(decompose)
    _cover = staticmethod(cover)

    def __init__(self, domain: tuple[int, int], length: int, closed: bool = False) -> None:
        super().__init__(domain, closed)
        bits = power_of_two(length)
        self.length = int(length)
        size = self.domain[1] - self.domain[0]
        segments = -(-size // self.length)
        self._constructs = segments * (2 * self.length - 1) + (size if closed else 0)
        self.lists_per_search = bits + 1 + (1 if closed else 0)
        self._shape = Shape(closed, bits)
        self._lay_out(dense=segments * 2 * self.length)

    def _unit_piece(self, cell: int) -> Piece:
        return cell + self.length + (cell // self.length) * self.length
