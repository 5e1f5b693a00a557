"""What every border structure does: rules that stand, objects that move, and what a move enters, leaves or jumps."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import Column, Owners, value_column
from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.indexes.borders.objects import PLACED, UNKNOWN, ObjectTable, object_column
from fencepost.indexes.contracts.registry import Bounds, RangeIndex
from fencepost.indexes.matches import Matches

Bound = float | Sequence[float | None] | None
"""One bound of a rule: a number, or one per axis; None is unbounded."""


class Crossings(NamedTuple):
    """What each row's move did, as rule ids per row."""

    enter: Matches
    """Rules that hold after the move and did not before."""
    exit: Matches
    """Rules that held before the move and do not after."""
    cross: Matches | None
    """Rules that were jumped over: neither end inside, the way between through it. None where it was not asked for."""


class Affected(NamedTuple):
    """Objects whose side of a rule changes when the rule does."""

    leave: list[Any]
    enter: list[Any]


class BorderIndex(RangeIndex):
    """Standing rules and the last position of every object: the contract.

    A rule has an int64 id and is ``[lo, hi)`` on every axis; None or an infinity leaves a side unbounded. On one axis
    bounds and values are numbers, on several sequences of numbers, one per axis. A refused call changes nothing.

    Args:
        dimensions: the number of axes.
    """

    def __init__(self, dimensions: int = 1) -> None:
        if dimensions < 1:
            raise FencepostError(f"dimensions={dimensions}", "at least 1", "Count the axes that rules have ranges on.")
        self.dimensions = dimensions
        self._objects = ObjectTable(dimensions)

    # -- rules ------------------------------------------------------------------------------------------

    def insert(self, id: int, lo: Bound, hi: Bound, bounds: Bounds | None = None) -> None:
        """Add one rule; objects inside it now are inside silently.

        Args:
            id: a number of your own that is not in the index yet.
            lo: where it starts.
            hi: where it ends.
            bounds: which ends belong to it, ``"[)"`` if not given.
        """
        self.insert_many([id], [lo], [hi], bounds)

    def remove(self, id: int) -> None:
        """Take one rule out; ask `inside` first for the objects that this ends."""
        super().remove(id)

    # -- moves ------------------------------------------------------------------------------------------

    @abstractmethod
    def crossings(self, before: Column, after: Column, first: Column | None = None) -> Crossings:
        """What the moves from `before` to `after` enter, leave and jump over; nothing is stored.

        Args:
            before: where each move starts; NaN (or None) on any axis for a first observation, which only enters.
            after: where it ends; NaN is no observation: no events.
            first: a mask of first observations, for integers.
        """

    @abstractmethod
    def update(self, objects: Column, values: Column) -> Crossings:
        """Move objects, row by row: from where each was last to its new value, which is stored.

        Args:
            objects: anything hashable; whole numbers are fast.
            values: the new position in each row; NaN is no observation, the object stays where it was.
        """

    # -- objects ----------------------------------------------------------------------------------------

    @property
    def objects(self) -> int:
        """How many objects have been seen and not removed."""
        return len(self._objects)

    def remove_object(self, object: Hashable) -> None:
        """Forget one object; its next row is a first observation."""
        self.remove_objects([object])

    def remove_objects(self, objects: Column) -> None:
        """Forget many objects: all of them or, if one is unknown, none."""
        self._objects.remove(object_column(objects))

    def inside(self, id: int) -> list[Any]:
        """The objects inside a rule now: those that removing it ends."""
        slots = self._objects.placed()
        return self._objects.at(slots[self._inside(id, slots)])

    def affected(self, id: int, lo: Bound, hi: Bound, bounds: Bounds | None = None) -> Affected:
        """The objects that leave and enter a rule if its range becomes this one."""
        slots = self._objects.placed()
        now, then = self._inside(id, slots), self._inside_range(id, lo, hi, bounds, slots)
        return Affected(self._objects.at(slots[now & ~then]), self._objects.at(slots[then & ~now]))

    @abstractmethod
    def _inside(self, id: int, slots: Int64s) -> Bools:
        """Which of these objects are inside a rule."""

    @abstractmethod
    def _inside_range(self, id: int, lo: Bound, hi: Bound, bounds: Bounds | None, slots: Int64s) -> Bools:
        """Which of these objects would be inside the rule if it had this range."""

    # -- reporting --------------------------------------------------------------------------------------

    @property
    def object_bytes(self) -> int:
        """Bytes of the arrays that the objects take; `storage` has those of the rules."""
        return self._objects.nbytes()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rules, {self.objects} objects)"


class FloatBorders(BorderIndex):
    """What the structures of the papers share: float64 positions, compared as they are."""

    def crossings(self, before: Column, after: Column, first: Column | None = None) -> Crossings:
        """What the moves enter, leave and jump over; see `BorderIndex.crossings`."""
        starts, unplaced = positions(before, self.dimensions)
        ends, missing = positions(after, self.dimensions)
        same_rows(before=starts, after=ends)
        unplaced |= first_rows(first, len(starts))
        return self._crossings(starts, ends, unplaced, missing)

    def update(self, objects: Column, values: Column) -> Crossings:
        """Move objects; see `BorderIndex.update`."""
        after, missing = positions(values, self.dimensions)
        column = object_column(objects)
        same_rows(objects=column.numbers, values=after)
        with self._objects.all_or_none():
            return self._update(self._objects.slots(column), after, missing)

    def _update(self, slots: Int64s, after: Float64s, missing: Bools) -> Crossings:
        before, states = self._objects.move(slots, after.view(np.int64), missing, PLACED)
        return self._crossings(before.view(np.float64), after, states == UNKNOWN, missing)

    @abstractmethod
    def _crossings(self, before: Float64s, after: Float64s, unplaced: Bools, missing: Bools) -> Crossings: ...

    def _last(self, slots: Int64s) -> Float64s:
        """The last positions of objects."""
        return self._objects.positions[slots].view(np.float64)


def axis_columns(rows: Any, dimensions: int, what: str, owners: Owners | None = None) -> list[Any]:
    """One column per axis of values or bounds: callers write them flat on one axis, a sequence per row on several."""
    if dimensions == 1:
        return [[rows] if np.ndim(rows) == 0 else rows]
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != dimensions:
            raise _not_so_many_axes(rows[0] if len(rows) else rows, 0, dimensions, what, owners)
        return [np.ascontiguousarray(rows[:, axis]) for axis in range(dimensions)]
    items: list[Any] = [(None,) * dimensions if row is None else row for row in rows]
    for number, row in enumerate(items):
        if np.ndim(row) != 1 or len(row) != dimensions:
            raise _not_so_many_axes(row, number, dimensions, what, owners)
    return [[row[axis] for row in items] for axis in range(dimensions)]


def _not_so_many_axes(row: Any, number: int, dimensions: int, what: str, owners: Owners | None) -> FencepostError:
    shown = row.tolist() if isinstance(row, np.ndarray) else row
    return FencepostError(
        f"{'' if owners is None else owners.of(number)}{what} {shown!r} in an index of {dimensions} dimensions",
        f"{dimensions} numbers",
        "Pass one number per axis, the same number of axes in every row.",
    )


def positions(values: Any, dimensions: int) -> tuple[Float64s, Bools]:
    """Positions as float64, one row each, and which of them are not known on every axis."""
    found = np.column_stack([value_column(column) for column in axis_columns(values, dimensions, "value")])
    return found, np.isnan(found).any(axis=1)


def same_rows(**columns: npt.NDArray[Any]) -> None:
    """Refuse columns of different length."""
    (name, column), *others = columns.items()
    for other, items in others:
        if len(items) != len(column):
            raise FencepostError(
                f"{len(column)} {name} and {len(items)} {other}", "one of each per row", "Pass columns of one length."
            )


def first_rows(first: Any, rows: int) -> Bools:
    """The mask of first observations; none if it is not given."""
    if first is None:
        return np.zeros(rows, np.bool_)
    mask = np.asarray(first)
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        raise FencepostError(
            f"`first` with {mask.size} items of {mask.dtype} for {rows} rows",
            "one boolean per row",
            "Pass a boolean array, or NaN as the position before.",
        )
    return mask
