"""Borders: the production index of rules and moving objects, which reports only what changes."""

from collections.abc import Mapping
from itertools import chain
from types import NoneType
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from fencepost.indexes.arguments import Column, Owners, group_column, require_groups, whole_id
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.borders.axis import AxisRules
from fencepost.indexes.borders.box_rules import BoxRules
from fencepost.indexes.borders.moves import CHEAPER, COMPARE, WALK, Asked
from fencepost.indexes.borders.objects import GROUPED, PLACED, UNKNOWN, ObjectColumn, object_column
from fencepost.indexes.contracts.borders import BorderIndex, Bound, Crossings, axis_columns, first_rows, same_rows
from fencepost.indexes.contracts.production import OrdinalIndex
from fencepost.indexes.contracts.registry import Bounds
from fencepost.indexes.matches import Matches, Storage
from fencepost.indexes.ordinal import (
    LARGEST,
    SMALLEST,
    VALUE_TYPES,
    ValueType,
    infer_type,
    plain_range,
    ranges,
    values_to_ordinals,
)

_NO_MASK = np.zeros(0, np.bool_)
_NO_GROUPS = np.zeros(0, np.int64)
_STRATEGIES = {"cheaper": CHEAPER, "walk": WALK, "compare": COMPARE}

Strategy = Literal["cheaper", "walk", "compare"]


class Borders(OrdinalIndex, BorderIndex):
    """Which rules moving objects enter, leave and jump over, on one axis, with groups and live changes.

    How it works: see `fencepost.indexes.borders.lists` and `AxisRules`. A move finds both its ends among the
    sorted starts and ends of rules and reports what is between; where many borders lie between, it compares the rules
    that hold at both ends instead, whichever is cheaper. The rules that it jumped over are found by walking, so asking
    for them costs what there is of them.

    An object's group may change between two rows: a move that leaves what held in the one and enters what holds in the
    other, except for rules of all groups. A call at a time: a lock sees to it.

    Args:
        dimensions: the number of axes.
        values: ``"int64"`` or ``"float64"``; if not given, the first insert or update decides.

    Costs: a move is two lookups and what it reports; insert and remove move what lies between a border and the nearest
    hole; about 40 bytes per rule, 44 once rules have come or gone, and 28 per object.

    >>> borders = Borders()
    >>> borders.insert_many([1, 2, 5], [10.0, 10.0, 70.0], [20.0, 50.0, 80.0])
    >>> moves = borders.update(["a", "a", "a"], [15.0, 45.0, 95.0])
    >>> moves.enter.sets(), moves.exit.sets(), moves.cross.sets()
    ([{1, 2}, set(), set()], [set(), {1}, {2}], [set(), set(), {5}])
    """

    def __init__(self, dimensions: int = 1, values: ValueType | None = None) -> None:
        OrdinalIndex.__init__(self, values)
        BorderIndex.__init__(self, dimensions)
        self._rules: AxisRules | BoxRules = AxisRules() if dimensions == 1 else BoxRules(dimensions)

    # -- rules ------------------------------------------------------------------------------------------

    def insert(self, id: int, lo: Bound, hi: Bound, bounds: Bounds | None = None, group: int | None = None) -> None:
        """Add one rule; see `insert_many`."""
        rules = self._rules
        if (
            isinstance(rules, AxisRules)
            and type(id) is int
            and bounds in (None, "[)")
            and type(group) in (NoneType, int)
        ):
            found = plain_range(lo, hi, self.values)
            if found is not None:
                with self._lock:
                    if rules.insert_one(id, *found, group):
                        return
        self.insert_many([whole_id(id)], [lo], [hi], bounds, None if group is None else [group])

    def remove(self, id: int) -> None:
        """Take one out; ask `inside` first for the objects that this ends."""
        with self._lock:
            rules = self._rules
            is_plain = type(id) is int and SMALLEST <= id <= LARGEST
            slot = rules.slot_of(id) if isinstance(rules, AxisRules) and is_plain else -1
            if slot < 0:
                self.remove_many([whole_id(id)])
            else:
                rules.remove(np.array([slot]))

    def _flat_bounds(self, bounds: Column, what: str, owners: Owners | None) -> Any:
        columns = axis_columns(bounds, self.dimensions, what, owners)
        if self.dimensions == 1:
            return columns[0]
        return bounds.reshape(-1) if isinstance(bounds, np.ndarray) else list(chain(*zip(*columns, strict=True)))

    def _infer_type(self, lows: Any, highs: Any) -> ValueType:
        """int64 if on every axis the bounds that are given are whole numbers."""
        each = self.dimensions
        if each == 1:
            return infer_type(lows, highs)
        kinds = {infer_type(lows[axis::each], highs[axis::each]) for axis in range(each)}
        return "int64" if kinds == {"int64"} else "float64"

    def _add(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        assert self.values is not None, "settled with the first ranges"
        self._settle(self.values)
        shape = (len(ids),) if self.dimensions == 1 else (len(ids), self.dimensions)
        keys = groups if len(groups) else np.zeros(len(ids), np.int64)
        self._rules.insert(ids, firsts.reshape(shape), lasts.reshape(shape), keys, in_all)

    def _remove(self, slots: Int64s) -> None:
        self._rules.remove(slots)

    def _slots_of(self, ids: Int64s) -> Int64s:
        return self._rules.slots_of(ids)

    def _settle(self, kind: ValueType) -> None:
        self.values = kind
        self._rules.is_float = kind == "float64"

    def compact(self) -> None:
        """Merge all changes into freshly built lists."""
        with self._lock:
            self._rules.compact()

    # -- moves ------------------------------------------------------------------------------------------

    def crossings(
        self,
        before: Column,
        after: Column,
        first: Column | None = None,
        before_groups: Column | None = None,
        after_groups: Column | None = None,
        cross: bool = True,
        slots: bool = False,
        out: Crossings | None = None,
        strategy: Strategy = "cheaper",
    ) -> Crossings:
        """What the moves from `before` to `after` enter, leave and jump over; nothing is stored.

        Args:
            before: where each move starts; NaN (or None) on any axis for a first observation, which only enters.
            after: where it ends; NaN is no observation: no events.
            first: a mask of first observations, for integers.
            before_groups: the group of each row before, if not the same as after.
            after_groups: the group of each row after.
            cross: whether to report what was jumped over.
            slots: return the index's own 32-bit slots (translate with `slot_ids`).
            out: buffers to write into instead of new ones; the answers are views of them.
            strategy: how to find what changed, if not what is cheaper for each move; the answer is the same.
        """
        with self._lock:
            starts, unplaced = self._ordinals(before)
            ends, missing = self._ordinals(after)
            same_rows(before=starts, after=ends)
            if first is not None:
                mask = first_rows(first, len(starts))
                unplaced = unplaced | mask if len(unplaced) else mask
            later = self._asked_groups(len(ends), after_groups)
            earlier = later if before_groups is None else self._asked_groups(len(ends), before_groups)
            asked = Asked(starts, ends, unplaced, missing, _NO_MASK, earlier, later)
            return self._rules.crossings(len(ends), asked.rows, cross, slots, out, _STRATEGIES[strategy])

    def crossings_ordinals(
        self,
        before: Int64s,
        after: Int64s,
        first: Bools | None = None,
        before_groups: Int64s | None = None,
        after_groups: Int64s | None = None,
        missing: Bools | None = None,
        cross: bool = True,
        slots: bool = False,
    ) -> Crossings:
        """Like `crossings`, for ordinals and groups that are int64 arrays already.

        `first` marks rows whose position before is not known, `missing` those that observe nothing.
        """
        with self._lock:
            later = self._asked_groups(len(after), after_groups)
            earlier = later if before_groups is None else self._asked_groups(len(after), before_groups)
            unplaced, absent = (_NO_MASK if mask is None else mask for mask in (first, missing))
            asked = Asked(before, after, unplaced, absent, _NO_MASK, earlier, later)
            return self._rules.crossings(len(after), asked.rows, cross, slots)

    def update(
        self,
        objects: Column,
        values: Column,
        groups: Column | None = None,
        cross: bool = True,
        slots: bool = False,
        out: Crossings | None = None,
    ) -> Crossings:
        """Move objects, row by row: from where each was last to its new value, which is stored.

        Args:
            objects: anything hashable; whole numbers are fast.
            values: the new position in each row; NaN is no observation, the object stays where it was.
            groups: the group of the object in each row.
            cross: whether to report what was jumped over.
            slots: return the index's own 32-bit slots (translate with `slot_ids`).
            out: buffers to write into; an answer that outgrows its buffer is in a new one, since rows are stored.
        """
        with self._lock:
            kind = self.values
            if kind is None and len(values):  # type: ignore[arg-type]
                flat = self._flat_bounds(values, "value", None)
                kind = self._infer_type(flat, flat)
            after, missing = self._ordinals(values, kind)
            column = object_column(objects)
            same_rows(objects=column.numbers, values=after)
            asked_groups = self._asked_groups(len(after), groups)
            keys = asked_groups if groups is None or len(asked_groups) else group_column(groups, len(after))[0]
            if len(keys) and self._objects.positions.shape[1] == self.dimensions:
                self._objects.add_column()
            state = GROUPED if len(keys) else PLACED
            named = np.fromiter(column.names, np.int64, len(column.names))

            def move_rows(start: int, stop: int) -> Asked:
                numbers = column.numbers[start:stop]
                own = named[np.searchsorted(named, start) : np.searchsorted(named, stop)].tolist()
                names = {row - start: column.names[row] for row in own}
                found = self._objects.slots(ObjectColumn(numbers, names))
                words = after[start:stop].reshape(stop - start, -1)
                if len(keys):
                    words = np.column_stack([words, keys[start:stop]])
                before, states = self._objects.move(found, words, missing[start:stop], state)
                unplaced = states == UNKNOWN
                groupless = (states != GROUPED) if len(asked_groups) else _NO_MASK
                places = before[:, : self.dimensions]
                return Asked(
                    np.ascontiguousarray(places[:, 0] if self.dimensions == 1 else places),
                    after[start:stop],
                    unplaced if unplaced.any() else _NO_MASK,
                    missing[start:stop],
                    groupless if groupless.any() else _NO_MASK,
                    np.ascontiguousarray(before[:, -1]) if len(asked_groups) else _NO_GROUPS,
                    asked_groups[start:stop],
                )

            with self._objects.all_or_none():
                answer = self._rules.crossings(len(after), move_rows, cross, slots, out, outgrow=True)
            if kind is not None:
                self._settle(kind)
            return answer

    def stab(self, values: Column, groups: Column | None = None, slots: bool = False) -> Matches:
        """The ids of the rules that hold at each value."""
        with self._lock:
            after, missing = self._ordinals(values)
            keys = self._asked_groups(len(after), groups)
            asked = Asked(after, after, np.ones(len(after), np.bool_), missing, _NO_MASK, keys, keys)
            return self._rules.crossings(len(after), asked.rows, False, slots).enter

    def _ordinals(self, values: Column, kind: ValueType | None = None) -> tuple[Int64s, Bools]:
        """Ordinals of positions, a column per axis if there are several, and which are not known on every axis."""
        kind = kind or self.values or "float64"
        columns = [values_to_ordinals(column, kind) for column in axis_columns(values, self.dimensions, "value")]
        if self.dimensions == 1:
            return columns[0]
        same_rows(**{f"values on axis {axis}": ordinals for axis, (ordinals, _) in enumerate(columns)})
        missing = np.zeros(len(columns[0][0]), np.bool_)
        for _, absent in columns:
            if len(absent):
                missing |= absent
        return np.column_stack([ordinals for ordinals, _ in columns]), missing if missing.any() else _NO_MASK

    def _asked_groups(self, rows: int, groups: Column | None) -> Int64s:
        if not self._rules.keyed:
            return _NO_GROUPS
        return require_groups(groups, rows, "row", "rules")

    # -- objects ----------------------------------------------------------------------------------------

    def _inside(self, id: int, slots: Int64s) -> Bools:
        firsts, lasts, group = self._rules.rule(self._slot(id))
        return self._holds(firsts, lasts, group, slots)

    def _inside_range(self, id: int, lo: Bound, hi: Bound, bounds: Bounds | None, slots: Int64s) -> Bools:
        lows, highs = (axis_columns([c], self.dimensions, w) for c, w in ((lo, "lower bound"), (hi, "upper bound")))
        found = [ranges(a, b, bounds or "[)", self.values or "float64") for a, b in zip(lows, highs, strict=True)]
        _, _, group = self._rules.rule(self._slot(id))
        firsts, lasts = (np.array([each[side][0] for each in found]) for side in (0, 1))
        return self._holds(firsts, lasts, group, slots)

    def _holds(self, firsts: Any, lasts: Any, group: int | None, slots: Int64s) -> Bools:
        positions = self._objects.positions[slots]
        here = positions[:, : self.dimensions]
        held: Bools = ((here >= firsts) & (here <= lasts)).all(axis=1)
        if group is not None:
            held &= (self._objects.states[slots] == GROUPED) & (positions[:, -1] == group)
        return held

    # -- saving and reporting ---------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The rules as flat arrays to save, changes merged in; objects are not part of them."""
        with self._lock:
            kind = np.array([self.dimensions, VALUE_TYPES.index(self.values)])
            return {**self._rules.to_arrays(), "borders": kind}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The index that `to_arrays` described, without objects; arrays may be memory-mapped, nothing is copied."""
        dimensions, kind = arrays["borders"].tolist()
        index = cls(dimensions, VALUE_TYPES[kind])
        index._rules = (AxisRules if dimensions == 1 else BoxRules).from_arrays(arrays)
        return index

    @property
    def slot_ids(self) -> Int64s:
        """The id of every slot."""
        return self._rules.slot_ids()

    def storage(self) -> Storage:
        """Borders and the slots at them; the model is 12 bytes per border."""
        n = len(self)
        return Storage(2 * n, 2 * n, 24 * n, self._rules.nbytes())

    def __len__(self) -> int:
        return self._rules.live

    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""
        self._rules.check()
        self._objects.check()
