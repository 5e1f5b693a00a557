"""What every index of boxes does: the part that no structure has to repeat."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import (
    Column,
    Owners,
    bound_rows,
    coordinates,
    id_column,
    point_rows,
    same_length,
    whole_id,
)
from fencepost.indexes.arrays import Float64s
from fencepost.indexes.contracts.registry import Bounds, RangeIndex, Registry
from fencepost.indexes.matches import Matches

Corner = Sequence[float | None]
"""One bound per dimension; None or an infinity where the box has none."""

Box = tuple[tuple[float, ...], tuple[float, ...]]

MOST_DIMENSIONS = 16


class BoxesIndex(RangeIndex):
    """A dynamic set of boxes that is asked which of them contain a point: the contract.

    A box has an int64 id and one range per dimension: ``[lo, hi)``, or ``[lo, hi]`` in an index made with
    ``closed=True``. A bound of None or infinity leaves that side unbounded. A refused call changes nothing.
    """

    dimensions: int
    """Coordinates of a point; dimensions are numbered from 0, also in refusals."""
    _noun, _names_dimensions = "box", True

    @abstractmethod
    def insert(self, id: int, lo: Corner, hi: Corner, bounds: Bounds | None = None) -> None:
        """Add one box.

        Args:
            id: a number of your own that is not in the index yet.
            lo: where it starts in each dimension, or None.
            hi: where it ends in each dimension, or None.
            bounds: which ends belong to it in every dimension, if not those the index was made for.
        """

    @abstractmethod
    def stab(self, points: Column, out: Matches | None = None) -> Matches:
        """The ids of all boxes that contain each point, each id once.

        Args:
            points: a row per point and a column per dimension, or one point; a point with NaN or None in
                any dimension lies in no box.
            out: buffers to write into instead of new ones; the answer is a view of them.
        """

    @abstractmethod
    def box(self, id: int) -> Box:
        """The lows and the highs of one box, infinite where it is unbounded."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} boxes in {self.dimensions} dimensions)"


class TableBoxes(Registry, BoxesIndex):
    """An index that keeps its boxes in a table of float64 bounds; what the papers' structures share."""

    def __init__(self, dimensions: int, closed: bool = False) -> None:
        self.dimensions = check_dimensions(dimensions)
        super().__init__(self.dimensions, closed)

    @override
    def insert(self, id: int, lo: Corner, hi: Corner, bounds: Bounds | None = None) -> None:
        self._single_id[0] = whole_id(id)
        self._single_low[0] = coordinates(lo, self.dimensions, -np.inf, f"box {id} with", "lower bound")
        self._single_high[0] = coordinates(hi, self.dimensions, np.inf, f"box {id} with", "upper bound")
        self._insert(self._single_id, self._single_low, self._single_high, bounds)

    @override
    def insert_many(self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None) -> None:
        id_array = id_column(ids)
        owners = Owners("box", id_array)
        lows = bound_rows(los, self.dimensions, -np.inf, "lower bound", owners)
        highs = bound_rows(his, self.dimensions, np.inf, "upper bound", owners)
        same_length(id_array, los=lows, his=highs)
        self._insert(id_array, lows, highs, bounds)

    @override
    def stab(self, points: Column, out: Matches | None = None) -> Matches:
        return self._stab(point_rows(points, self.dimensions), out)

    @override
    def box(self, id: int) -> Box:
        row = self._queries.bounds[self._slot(id)].tolist()
        return tuple(row[: self.dimensions]), tuple(row[self.dimensions :])

    @abstractmethod
    def _stab(self, points: Float64s, out: Matches | None) -> Matches:
        """The answer for checked points, a row each."""


def check_dimensions(dimensions: int) -> int:
    """A number of dimensions that box indexes accept."""
    whole = isinstance(dimensions, int | np.integer) and not isinstance(dimensions, bool)
    if not whole or not 1 <= dimensions <= MOST_DIMENSIONS:
        raise FencepostError(
            f"dimensions={dimensions!r}",
            f"a whole number from 1 to {MOST_DIMENSIONS}",
            "Pass for example dimensions=2.",
        )
    return int(dimensions)
