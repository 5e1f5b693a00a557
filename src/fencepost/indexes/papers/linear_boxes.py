"""LinearBoxes: every box is compared with every point. The reference that nothing can be simpler than."""

from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Float64s, Int64s
from fencepost.indexes.contracts.boxes import TableBoxes
from fencepost.indexes.contracts.registry import Queries, holds
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened


class LinearBoxes(TableBoxes):
    """A scan over all boxes for each point.

    Args:
        dimensions: coordinates of a point.
        closed: boxes are ``[lo, hi]`` in every dimension.

    Costs: search O(n d); insert and remove O(d); space 8 + 16 d bytes per box and the table of ids.

    >>> index = LinearBoxes(dimensions=2)
    >>> index.insert(7, (3, 3), (14, 9))
    >>> index.stab([(3, 3), (13.5, 8.5), (14, 5)]).sets()
    [{7}, {7}, set()]
    """

    lists_per_search = 1

    def __init__(self, dimensions: int = 2, closed: bool = False) -> None:
        super().__init__(dimensions, closed)

    def _attach(self, slots: Int64s) -> None:
        pass

    def _detach(self, slots: Int64s) -> None:
        pass

    def _stab(self, points: Float64s, out: Matches | None) -> Matches:
        slots = self._live_slots()
        offsets, ids = answer_buffers(len(points), 0, np.int64, out)
        offsets[0] = 0
        done = 0
        while True:
            done = scan(self._queries, slots, self.closed, points, offsets, ids, done)
            if done == len(points):
                return Matches(offsets, ids[: offsets[-1]])
            filled = int(offsets[done])
            ids = widened(ids, filled, filled + len(slots), out)

    def storage(self) -> Storage:
        """One list with every box in it."""
        return Storage(1, len(self), 4 + 8 * len(self), self._table_bytes())

    def _check(self) -> None:
        pass


@kernel
def scan(
    queries: Queries,
    slots: Int64s,
    closed: bool,
    points: Float64s,
    offsets: Int64s,
    out: Int64s,
    first: int,
) -> Any:
    """Write the ids of all boxes that hold each point; the row it stopped at for want of room."""
    ids, bounds = queries.ids, queries.bounds
    dimensions = points.shape[1]
    at = offsets[first]
    for i in range(first, len(points)):
        if at + len(slots) > len(out) - PADDING:
            return i
        for j in range(len(slots)):
            slot = slots[j]
            inside = True
            for axis in range(dimensions):
                inside &= holds(bounds[slot, axis], bounds[slot, dimensions + axis], closed, points[i, axis])
            out[at] = ids[slot]
            at += inside
        offsets[i + 1] = at
    return len(points)
