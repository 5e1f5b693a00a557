"""What every index of intervals does: the part that no structure has to repeat."""

from abc import abstractmethod

import numpy as np
from typing_extensions import override

from fencepost.indexes.arguments import (
    Column,
    Owners,
    bound_column,
    exact_float,
    id_column,
    same_length,
    value_column,
    whole_id,
)
from fencepost.indexes.arrays import Float64s
from fencepost.indexes.contracts.registry import Bounds, RangeIndex, Registry
from fencepost.indexes.matches import Matches


class IntervalIndex(RangeIndex):
    """A dynamic set of intervals that is asked which of them contain a value: the contract.

    An interval has an int64 id and two bounds; it is ``[lo, hi)``, or ``[lo, hi]`` in an index made with
    ``closed=True``. A bound of None or infinity leaves that side unbounded. A refused call changes nothing.
    """

    @abstractmethod
    def insert(self, id: int, lo: float | None, hi: float | None, bounds: Bounds | None = None) -> None:
        """Add one interval.

        Args:
            id: a number of your own that is not in the index yet.
            lo: where it starts, or None.
            hi: where it ends, or None.
            bounds: which ends belong to it, if not those the index was made for.
        """

    @abstractmethod
    def stab(self, values: Column, out: Matches | None = None) -> Matches:
        """The ids of all intervals that contain each value.

        Args:
            values: numbers; NaN or None lies in no interval.
            out: buffers to write into instead of new ones; the answer is a view of them.
        """

    @abstractmethod
    def interval(self, id: int) -> tuple[float, float]:
        """The bounds of one interval, infinite where it is unbounded."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} intervals)"


class TableIndex(Registry, IntervalIndex):
    """An index that keeps its intervals in a table of float64 bounds; what the papers' structures share."""

    def __init__(self, closed: bool = False) -> None:
        super().__init__(1, closed)

    @override
    def insert(self, id: int, lo: float | None, hi: float | None, bounds: Bounds | None = None) -> None:
        self._single_id[0] = whole_id(id)
        self._single_low[0] = -np.inf if lo is None else exact_float(lo, f"interval {id} with lower bound")
        self._single_high[0] = np.inf if hi is None else exact_float(hi, f"interval {id} with upper bound")
        self._insert(self._single_id, self._single_low, self._single_high, bounds)

    @override
    def insert_many(self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None) -> None:
        id_array = id_column(ids)
        owners = Owners("interval", id_array)
        lows = bound_column(los, -np.inf, "lower bound", owners)
        highs = bound_column(his, np.inf, "upper bound", owners)
        same_length(id_array, los=lows, his=highs)
        self._insert(id_array, lows.reshape(-1, 1), highs.reshape(-1, 1), bounds)

    @override
    def stab(self, values: Column, out: Matches | None = None) -> Matches:
        return self._stab(value_column(values), out)

    @override
    def interval(self, id: int) -> tuple[float, float]:
        low, high = self._queries.bounds[self._slot(id)].tolist()
        return low, high

    @abstractmethod
    def _stab(self, values: Float64s, out: Matches | None) -> Matches:
        """The answer for checked values."""
