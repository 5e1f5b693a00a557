"""UI: one list per unit interval (Wu, Chen, Yu 2006; with closed ends the Dlist of their IBM report)."""

from typing import Any, NamedTuple

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Float64s, Int64s, UInt32s
from fencepost.indexes.papers.construct_lists import MOST_EXTRA_CODES, finish_codes, plan
from fencepost.indexes.papers.constructs import ConstructIndex, Piece


class Shape(NamedTuple):
    """What UI's kernels need to know."""

    closed: bool


@kernel
def decompose(
    shape: Shape,
    layout: Int64s,
    bounds: Float64s,
    slots: Int64s,
    offsets: Int64s,
    codes: Int64s,
) -> Any:
    """One code per unit cell."""
    rows = min(len(slots), len(offsets) - 1)
    n = 0
    offsets[0] = 0
    for row in range(rows):
        cut = plan(layout, shape.closed, bounds, slots[row])
        if n + cut.last - cut.first + MOST_EXTRA_CODES > len(codes):
            return row
        for cell in range(cut.first, cut.last):
            codes[n] = cell
            n += 1
        n = finish_codes(codes, n, cut, True)
        offsets[row + 1] = n
    return rows


@kernel
def cover(
    shape: Shape,  # noqa: ARG001
    heads: UInt32s,
    units: UInt32s,  # noqa: ARG001
    values: Float64s,
    cells: Int64s,
    run_offsets: Int64s,
    runs: UInt32s,
) -> None:
    """The list of the value's cell."""
    n = 0
    run_offsets[0] = 0
    for i in range(len(values)):
        cell = cells[i]
        if cell >= 0 and heads[cell, 1]:
            runs[n, 0] = heads[cell, 0]
            runs[n, 1] = heads[cell, 1]
            n += 1
        run_offsets[i + 1] = n


class UI(ConstructIndex):
    """Unit intervals: an interval is in the list of every unit cell it fills.

    The fastest search (one list) for the most memory (an entry per unit of width). With ``closed=True`` it is
    the Dlist of the IBM report, and integer points that intervals end on have lists of their own.

    Costs: search 1 list; insert and remove O(width); space r lists + n * mean width entries.

    >>> index = UI(domain=(0, 100))
    >>> index.insert(7, 10, 13)
    >>> index.stab([9.5, 10, 12.9, 13]).sets()
    [set(), {7}, {7}, set()]
    >>> index.pieces(7)
    [10, 11, 12]
    """

    _decompose = staticmethod(decompose)
    _cover = staticmethod(cover)

    def __init__(self, domain: tuple[int, int], closed: bool = False) -> None:
        super().__init__(domain, closed)
        size = self.domain[1] - self.domain[0]
        self._constructs = 2 * size if closed else size
        self.lists_per_search = 2 if closed else 1
        self._shape = Shape(closed)
        self._lay_out(dense=size)

    def _unit_piece(self, cell: int) -> Piece:
        return cell
