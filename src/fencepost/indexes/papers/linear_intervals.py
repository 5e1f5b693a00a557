"""Linear: every interval is compared with every value. The reference that nothing can be simpler than."""

from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Float64s, Int64s
from fencepost.indexes.contracts.intervals import TableIndex
from fencepost.indexes.contracts.registry import Queries, holds
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened


class Linear(TableIndex):
    """A scan over all intervals for each value.

    Costs: search O(n); insert and remove O(1); space 24 bytes per interval and the table of ids.

    >>> index = Linear()
    >>> index.insert(7, 10, 13)
    >>> index.stab([9.5, 10, 13]).sets()
    [set(), {7}, set()]
    """

    lists_per_search = 1

    def _attach(self, slots: Int64s) -> None:
        pass

    def _detach(self, slots: Int64s) -> None:
        pass

    def _stab(self, values: Float64s, out: Matches | None) -> Matches:
        slots = self._live_slots()
        offsets, ids = answer_buffers(len(values), 0, np.int64, out)
        offsets[0] = 0
        done = 0
        while True:
            done = scan(self._queries, slots, self.closed, values, offsets, ids, done)
            if done == len(values):
                return Matches(offsets, ids[: offsets[-1]])
            filled = int(offsets[done])
            ids = widened(ids, filled, filled + len(slots), out)

    def storage(self) -> Storage:
        """One list with every interval in it."""
        return Storage(1, len(self), 4 + 8 * len(self), self._table_bytes())

    def _check(self) -> None:
        pass


@kernel
def scan(
    queries: Queries,
    slots: Int64s,
    closed: bool,
    values: Float64s,
    offsets: Int64s,
    out: Int64s,
    first: int,
) -> Any:
    """Write the ids of all intervals that hold each value; the row it stopped at for want of room."""
    at = offsets[first]
    for i in range(first, len(values)):
        if at + len(slots) > len(out) - PADDING:
            return i
        for j in range(len(slots)):
            slot = slots[j]
            if holds(queries.bounds[slot, 0], queries.bounds[slot, 1], closed, values[i]):
                out[at] = queries.ids[slot]
                at += 1
        offsets[i + 1] = at
    return len(values)
