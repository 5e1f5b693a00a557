"""What the production indexes share: ranges of int64 or float64 values as ordinals, in groups, changed under a lock."""

import threading
from abc import abstractmethod
from typing import Any

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import (
    Column,
    Owners,
    group_column,
    id_column,
    repeated_rows,
    same_length,
    shown_bound,
)
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.contracts.registry import EMPTY, KNOWN, NAN_BOUND, Bounds, RangeIndex
from fencepost.indexes.ordinal import VALUE_TYPES, Ranges, ValueType, infer_type, ranges


class OrdinalIndex(RangeIndex):
    """Ranges in groups whose values are int64 or float64: the type is given, or the first insert decides."""

    dimensions = 1

    def __init__(self, values: ValueType | None) -> None:
        if values not in VALUE_TYPES:
            raise FencepostError(f"values={values!r}", "'int64' or 'float64'", "Leave it out to let the data decide.")
        self.values = values
        self._lock = threading.RLock()

    def insert_many(
        self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None, groups: Column | None = None
    ) -> None:
        """Add many at once: all of them or, if one is at fault, none.

        Args:
            ids: numbers of your own, each new.
            los: where they start, a row per id if there are several dimensions; None or -inf for no bound.
            his: where they end, likewise; None or inf for no bound.
            bounds: which ends belong to them in every dimension, ``"[)"`` if not given.
            groups: the group each belongs to; None for what holds in every group.
        """
        with self._lock:
            id_array = id_column(ids)
            each = self.dimensions
            owners = Owners(self._noun, id_array)
            lows = self._flat_bounds(los, "lower bound", owners)
            highs = self._flat_bounds(his, "upper bound", owners)
            kind = self.values or self._infer_type(lows, highs)
            found = ranges(lows, highs, bounds or "[)", kind, Owners(self._noun, id_array, each))
            same_length(id_array, los=found.firsts[::each], his=found.lasts[::each])
            self._insert_ranges(id_array, found, groups, kind, (lows, highs), closed=bounds == "[]")

    def insert_ordinals(self, ids: Column, firsts: Int64s, lasts: Int64s, groups: Column | None = None) -> None:
        """Add inclusive ranges of ordinals (see `fencepost.indexes.ordinal`), a column per dimension if several."""
        with self._lock:
            id_array = id_column(ids)
            flat = self._flat_ordinals(firsts, "firsts"), self._flat_ordinals(lasts, "lasts")
            same_length(id_array, firsts=flat[0][:: self.dimensions], lasts=flat[1][:: self.dimensions])
            found = Ranges(*flat, np.zeros(len(flat[0]), np.bool_), flat[0] > flat[1])
            self._insert_ranges(id_array, found, groups, self.values or "int64", flat, closed=True)

    def _insert_ranges(
        self, ids: Int64s, found: Ranges, groups: Column | None, kind: ValueType, written: tuple[Any, Any], closed: bool
    ) -> None:
        keys, in_all = group_column(groups, len(ids), Owners(self._noun, ids))
        same_length(ids, groups=keys if groups is not None else None)
        self._refuse_faults(ids, found, written, closed)
        if len(ids):
            before, self.values = self.values, kind
            try:
                self._add(ids, found.firsts, found.lasts, keys, in_all)
            except BaseException:
                self.values = before
                raise

    def _refuse_faults(self, ids: Int64s, found: Ranges, written: tuple[Any, Any], closed: bool) -> None:
        known = self._slots_of(ids) >= 0
        known[repeated_rows(ids)] = True
        each = self.dimensions
        faulty = found.not_a_number | found.empty
        faulty_rows = known | (faulty if each == 1 else faulty.reshape(-1, each).any(1))
        if not faulty_rows.any():
            return
        row = int(np.argmax(faulty_rows))
        axis = int(np.argmax(faulty[row * each : (row + 1) * each]))
        at = row * each + axis
        fault = NAN_BOUND if found.not_a_number[at] else EMPTY if found.empty[at] else KNOWN
        low, high = (shown_bound(column, at, side) for column, side in zip(written, (-np.inf, np.inf), strict=True))
        raise self._refusal(fault, int(ids[row]), low, high, axis, ids[:row], closed)

    def remove_many(self, ids: Column) -> None:
        """Take many out: all of them or, if one is unknown, none."""
        with self._lock:
            id_array = id_column(ids)
            slots = self._slots_of(id_array)
            again = repeated_rows(id_array)
            if len(again) or (slots < 0).any():
                raise self._unknown_row(id_array, int(np.append(np.flatnonzero(slots < 0), again).min()))
            if len(slots):
                self._remove(slots)

    def _find(self, id: int) -> int:
        return int(self._slots_of(np.array([id]))[0])

    # -- what a structure supplies ----------------------------------------------------------------------

    def _flat_bounds(self, bounds: Column, what: str, owners: Owners) -> Any:  # noqa: ARG002
        """The bounds as the caller wrote them, id by id."""
        return bounds

    def _flat_ordinals(self, ordinals: Int64s, what: str) -> Int64s:  # noqa: ARG002
        """The ordinals id by id."""
        return ordinals.reshape(-1)

    def _infer_type(self, lows: Any, highs: Any) -> ValueType:
        """The type of values that bounds ask for."""
        return infer_type(lows, highs)

    @abstractmethod
    def _slots_of(self, ids: Int64s) -> Int64s:
        """The slot of each id, or -1."""

    @abstractmethod
    def _add(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        """Add at least one range that is not empty, whose id is new; ordinals id by id.

        What is not `in_all` groups has one of `groups`, which may be empty if all are.
        """

    @abstractmethod
    def _remove(self, slots: Int64s) -> None:
        """Take out what is in at least one slot."""
