"""The damping of many rules as columns, and the outer boxes of those that are left by other borders than entered."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._arrow import text_array
from fencepost.computed import Computed
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.language import KEY, Binder, BoundBox, Condition, ConditionError, StringRange, parse, types_suggested_by
from fencepost.ordinals import DOUBLE, AttributeType
from fencepost.rules.box_groups import BoxGroups, StringEnds, types_of
from fencepost.rules.damping import Damping, damping_of, span_numbers
from fencepost.rules.table_rules import canonical_name
from fencepost.rules.texts import range_text
from fencepost.snapshot.columns import BoxSet, CompiledColumns, DampingColumns, RuleColumns

_MARGINS = ("double", "bigint", "decimal")

Refuse = Callable[[Int64s, FencepostError], None]
"""Takes the rows of rules, and what is wrong with them."""


class Dampings:
    """The damping of rules, a row each: the distinct ones, and which a rule has."""

    def __init__(self, texts: Any) -> None:
        self.codes: Int64s = np.full(len(texts), -1, np.int64)
        """Which of the distinct ones; -1 for none."""
        self.texts: Any = text_array([])
        if texts.null_count < len(texts):
            whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
            encoded = whole.dictionary_encode()
            self.codes = np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), -1))
            self.texts = encoded.dictionary
        self.distinct: list[Damping] = [damping_of(text) for text in self.texts.to_pylist()]

    @classmethod
    def of(cls, dampings: Sequence[Damping | None]) -> "Dampings":
        """Those of a few rules."""
        texts = [None if damping is None else damping.text for damping in dampings]
        return cls(text_array(texts))

    def columns(self) -> DampingColumns | None:
        """As a snapshot has them; None where no rule is damped."""
        rows = np.flatnonzero(self.codes >= 0)
        if not len(rows):
            return None
        codes = self.codes[rows]
        spans = [
            np.array([span_numbers(getattr(each, name)) for each in self.distinct], np.int64)[codes]
            for name in ("for_", "keep_firing_for", "cooldown", "every")
        ]
        (hold, hold_unit), (keep, keep_unit), (cooldown, cooldown_unit), (every, every_unit) = (
            (np.ascontiguousarray(each[:, 0]), each[:, 1].astype(np.uint8)) for each in spans
        )
        limits = np.array([each.limit or 0 for each in self.distinct], np.int64)[codes]
        texts = self.texts.take(pa.array(codes))
        lengths = (hold, hold_unit, keep, keep_unit, cooldown, cooldown_unit)
        return DampingColumns(rows, *lengths, limits, every, every_unit, texts)

    def stays(self) -> dict[str, int]:
        """The distinct conditions of `stay`, each with the first row that has it."""
        if all(damping.stay is None for damping in self.distinct):
            return {}
        first = np.full(len(self.distinct), len(self.codes), np.int64)
        rows = np.flatnonzero(self.codes >= 0)
        np.minimum.at(first, self.codes[rows], rows)
        found: dict[str, int] = {}
        for damping, row in zip(self.distinct, first.tolist(), strict=True):
            if damping.stay is not None:
                found.setdefault(damping.stay, row)
        return found


class _Sliced(NamedTuple):
    """Boxes of one set whose rules have one damping."""

    damping: int
    boxes: Int64s


def outer_boxes(
    sets: Sequence[BoxSet],
    computed: Mapping[str, Computed],
    dampings: Dampings,
    binder: Binder,
    zone: str,
    refuse: Refuse,
) -> tuple[list[BoxSet], dict[str, Computed]]:
    """The outer boxes of rules with `stay` or `margin`, whose own boxes are given, and their computed attributes.

    Args:
        sets: the boxes of all rules.
        computed: their attributes that are no columns.
        dampings: of all rules.
        binder: knows the columns and their types.
        zone: that timestamps of `stay` are read in, if they have none of their own.
        refuse: takes the rules whose boxes do not lie within those of `stay`, and other faults.
    """
    outer = _Outer(computed, dampings, binder, zone, refuse)
    for boxes in sets:
        for damping, mine in _by_damping(boxes, dampings):
            outer.add(boxes, damping, mine)
    return outer.finished(), outer.computed


def _by_damping(boxes: BoxSet, dampings: Dampings) -> Iterator[_Sliced]:
    """The boxes whose rules have outer ones, by their damping."""
    has_outer = np.array([each.stay is not None or each.margin is not None for each in dampings.distinct], np.bool_)
    if not has_outer.any() or not len(boxes.rules):
        return
    codes = dampings.codes[boxes.rules]
    mine = np.flatnonzero((codes >= 0) & has_outer[codes])
    order = mine[np.argsort(codes[mine], kind="stable")]
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    for start, end in zip(starts.tolist(), ends[: len(starts)].tolist(), strict=True):
        yield _Sliced(int(codes[order[start]]), order[start:end])


class _Outer:
    """Collects outer boxes."""

    def __init__(
        self, computed: Mapping[str, Computed], dampings: Dampings, binder: Binder, zone: str, refuse: Refuse
    ) -> None:
        self._dampings, self._binder, self._zone, self._refuse = dampings, binder, zone, refuse
        self._inner = computed
        self._groups = BoxGroups()
        self._bound: dict[str, tuple[BoundBox, ...] | FencepostError] = {}
        self._stayed: dict[str, list[Int64s]] = {}
        """The rules of each `stay`."""
        self._margins: dict[int, _Margin] = {}

    def add(self, boxes: BoxSet, damping: int, mine: Int64s) -> None:
        """Takes the outer boxes of the rules that some boxes belong to, which have one damping."""
        stay = self._dampings.distinct[damping].stay
        if stay is None:
            self._move(boxes, damping, mine)
            return
        rows = np.unique(boxes.rules[mine])
        outer = self._bind(stay)
        if isinstance(outer, FencepostError):
            self._refuse(rows, outer)
            return
        self._stayed.setdefault(stay, []).append(rows)
        inside = np.zeros(len(mine), np.bool_)
        for box in outer:
            inside |= _lie_in(boxes, mine, box, self._inner)
        for place in np.flatnonzero(~inside).tolist():
            error = self._sticking_out(boxes, int(mine[place]), outer)
            self._refuse(boxes.rules[mine[place : place + 1]], error)

    def _bind(self, stay: str) -> "tuple[BoundBox, ...] | FencepostError":
        if stay not in self._bound:
            try:
                parsed = parse_stay(stay, self._zone)
            except FencepostError as error:
                self._bound[stay] = error
                return error
            try:
                bound = self._binder.bind(parsed)
                self._bound[stay] = bound.boxes
                self._groups.computed |= bound.computed
            except FencepostError as error:
                self._bound[stay] = FencepostError(f"stay: {error.got}", error.expected, error.remedy)
        return self._bound[stay]

    def _sticking_out(self, boxes: BoxSet, box: int, outer: Sequence[BoundBox]) -> FencepostError:
        """Names what of a box lies in none of the outer ones: of that which it comes closest to."""
        found = min((self._faults(boxes, box, each) for each in outer), key=len)
        return FencepostError(
            found[0], "stay to hold wherever the condition does, each box in one of its own", "Widen stay."
        )

    def _faults(self, boxes: BoxSet, box: int, outer: BoundBox) -> list[str]:
        keys = {name: values[box].as_py() for name, values in zip(boxes.keys, boxes.key_values, strict=True)}
        faults = []
        for name, text in outer.keys:
            if keys.get(name) != text:
                own = f"{name} = '{keys[name]}'" if name in keys else f"any {name}"
                faults.append(f"{own} of the condition sticks out of {name} = '{text}' of stay")
        places = {name: place for place, name in enumerate(boxes.attributes)}
        for each in outer.strings:
            if not _lie_in(boxes, np.array([box]), BoundBox((), (), (each,)), self._inner)[0]:
                faults.append(f"the condition sticks out of the range of {each.term.text} of stay")
        for name, first, last in outer.ranges:
            computed = self._groups.computed.get(name)
            type_ = _type_of(self._binder, name) if computed is None else computed.type
            smallest, largest = type_.limits
            if name not in places:
                asked = range_text(name, first, last, type_)
                faults.append(f"the condition does not ask for {name}, which sticks out of {asked} of stay")
                continue
            own_first, own_last = int(boxes.firsts[box, places[name]]), int(boxes.lasts[box, places[name]])
            for sticks_out, own_ends, ends in (
                (own_first < first, (own_first, largest), (first, largest)),
                (own_last > last, (smallest, own_last), (smallest, last)),
            ):
                if sticks_out:
                    own = f"any {name}" if own_ends == (smallest, largest) else range_text(name, *own_ends, type_)
                    faults.append(f"{own} of the condition sticks out of {range_text(name, *ends, type_)} of stay")
        return faults

    def _move(self, boxes: BoxSet, damping: int, mine: Int64s) -> None:
        rows = boxes.rules[mine]
        if damping not in self._margins:
            self._margins[damping] = _Margin(self._dampings.distinct[damping], self._binder)
        margin = self._margins[damping]
        margin.rules.append(rows)
        if margin.error is not None:
            return
        firsts, lasts = boxes.firsts[mine], boxes.lasts[mine]
        for place, name in enumerate(boxes.attributes):
            if name in margin.by_column:
                number, type_ = margin.by_column[name]
                smallest, largest = type_.limits
                is_bound = (firsts[:, place] > smallest) | (lasts[:, place] < largest)
                margin.bound[name].append(rows[is_bound])
                firsts[:, place] = move_bounds(type_, firsts[:, place], number, is_lower=True)
                lasts[:, place] = move_bounds(type_, lasts[:, place], number, is_lower=False)
        keys = tuple(values.take(pa.array(mine)) for values in boxes.key_values)
        self._groups.at(boxes.keys, boxes.attributes).arrays.append((rows, keys, firsts, lasts))

    def finished(self) -> list[BoxSet]:
        """All outer boxes."""
        for margin in self._margins.values():
            rows = np.unique(np.concatenate(margin.rules))
            if margin.error is not None:
                self._refuse(rows, margin.error)
                continue
            for name, bound in margin.bound.items():
                unbound = np.setdiff1d(rows, np.concatenate([rows[:0], *bound]))
                if len(unbound):
                    self._refuse(unbound, _unbound(name))
        for stay, parts in self._stayed.items():
            rows, outer = np.unique(np.concatenate(parts)), self._bound[stay]
            assert not isinstance(outer, FencepostError)
            for box in outer:
                keys = tuple(pa.array([text] * len(rows), pa.string()) for _, text in box.keys)
                ends = np.array([(first, last) for _, first, last in box.ranges], np.int64).reshape(-1, 2)
                terms = tuple(each.term for each in box.strings)
                names = tuple(name for name, _ in box.keys), tuple(name for name, _, _ in box.ranges)
                group = self._groups.at(*names, terms)
                firsts, lasts = (np.tile(ends[:, side], (len(rows), 1)) for side in (0, 1))
                group.arrays.append((rows, keys, firsts, lasts))
                if terms:
                    group.string_arrays.append(tuple(_repeated(each, len(rows)) for each in box.strings))
        return self._groups.finished()

    @property
    def computed(self) -> dict[str, Computed]:
        """The computed attributes of all outer boxes, once they are finished."""
        return self._groups.computed


def _type_of(binder: Binder, attribute: str) -> AttributeType:
    type_ = binder.find('"' + attribute.replace('"', '""') + '"')[1]
    assert type_ != KEY, "only attributes have ranges"
    return type_


def parse_stay(stay: str, zone: str) -> Condition:
    """A condition of `stay`, which is none of a band."""
    try:
        parsed = parse(stay, zone)
    except ConditionError as error:
        got = f"stay: {error.got}"
        raise ConditionError(got, error.expected, error.remedy, error.text, error.spans) from None
    if not isinstance(parsed, Condition):
        raise FencepostError("stay: a band", "a condition of one stream", "Write stay without left. and right.")
    return parsed


def _repeated(range_: StringRange, count: int) -> StringEnds:
    """A range of strings for several boxes."""
    text = pa.large_string()
    lower, upper = (pa.array([end] * count, text) for end in (range_.lower, range_.upper))
    return StringEnds(lower, upper, np.full(count, range_.lower_closed), np.full(count, range_.upper_closed))


def _lie_in(boxes: BoxSet, mine: Int64s, outer: BoundBox, computed: Mapping[str, Computed]) -> Bools:
    """Which of some boxes lie within another one."""
    inside = np.ones(len(mine), np.bool_)
    for each in outer.strings:
        inside &= _strings_lie_in(boxes, mine, each, computed)
    for name, text in outer.keys:
        if name not in boxes.keys:
            return np.zeros(len(mine), np.bool_)
        values = boxes.key_values[boxes.keys.index(name)].take(pa.array(mine))
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        inside &= np.asarray(pc.equal(plain, pa.scalar(text, plain.type)))
    for name, first, last in outer.ranges:
        if name not in boxes.attributes:
            return np.zeros(len(mine), np.bool_)
        place = boxes.attributes.index(name)
        inside &= (boxes.firsts[mine, place] >= first) & (boxes.lasts[mine, place] <= last)
    return inside


def _strings_lie_in(boxes: BoxSet, mine: Int64s, outer: StringRange, computed: Mapping[str, Computed]) -> Bools:
    """Which of some boxes ask for strings of a range alone: by a key, or by a range of their own."""
    if outer.term.name == "column" and outer.term.value in boxes.keys:
        values = boxes.key_values[boxes.keys.index(outer.term.value)].take(pa.array(mine)).to_pylist()
        return np.array([outer.holds(text) for text in values], np.bool_)
    for place, name in enumerate(boxes.attributes):
        each = computed.get(name)
        if each is not None and each.bounds is not None and each.term == outer.term:
            inside = np.ones(len(mine), np.bool_)
            if outer.lower is not None:
                at = int(each.bounds.ordinals(pa.array([outer.lower]))[0][0])
                inside &= boxes.firsts[mine, place] >= at + (at & 1 or not outer.lower_closed)
            if outer.upper is not None:
                at = int(each.bounds.ordinals(pa.array([outer.upper]))[0][0])
                inside &= boxes.lasts[mine, place] <= at - (at & 1 or not outer.upper_closed)
            return inside
    return np.zeros(len(mine), np.bool_)


class _Margin:
    """A margin whose columns were looked up, and the rules that have it."""

    def __init__(self, damping: Damping, binder: Binder) -> None:
        self.by_column: dict[str, tuple[int | float, AttributeType]] = {}
        self.error: FencepostError | None = None
        self.rules: list[Int64s] = []
        self.bound: dict[str, list[Int64s]] = {}
        """By column, the rules that bound it."""
        for column, number in damping.margin or ():
            try:
                name, type_ = binder.find(canonical_name(column))
            except FencepostError:
                self.error = _unbound(column)
                return
            if type_ == KEY or type_.kind not in _MARGINS:
                self.error = FencepostError(
                    f"a margin of {column}, which is {'a key' if type_ == KEY else type_}",
                    "columns of numbers",
                    "Write the wider condition as stay.",
                )
                return
            if name in self.by_column:
                self.error = FencepostError(f"two margins of {name}", "one", "Leave one of them out.")
                return
            self.by_column[name], self.bound[name] = (number, type_), []


def _unbound(column: str) -> FencepostError:
    return FencepostError(
        f"a margin of {column}, which the condition does not bound",
        "columns of numbers that it bounds",
        "Correct the name, or leave that column out.",
    )


def move_bounds(type_: AttributeType, ordinals: Int64s, margin: float, *, is_lower: bool) -> Int64s:
    """Bounds, as ordinals, moved outward by a number: never less than so far, and at most to the ends of the type.

    >>> double = AttributeType("double")
    >>> first, last = double.range(40, 50)
    >>> double.decode(move_bounds(double, np.array([first]), 2, is_lower=True)).to_pylist()
    [38.0]
    """
    smallest, largest = type_.limits
    if type_ == DOUBLE:
        return _move_doubles(ordinals, float(margin), is_lower=is_lower)
    steps = math.floor(Fraction(repr(margin)) / type_.unit)
    if is_lower:
        return np.where(ordinals <= min(smallest + steps, largest), smallest, ordinals - _within(steps))
    return np.where(ordinals >= max(largest - steps, smallest), largest, ordinals + _within(steps))


def _within(steps: int) -> np.int64:
    """A number of steps that int64 holds; where it does not, every bound is moved to the end of its type."""
    return np.int64(min(steps, 2**63 - 1))


def _move_doubles(ordinals: Int64s, margin: float, *, is_lower: bool) -> Int64s:
    values = DOUBLE.decode(ordinals).to_numpy(zero_copy_only=False)
    step = -margin if is_lower else margin
    with np.errstate(over="ignore", invalid="ignore"):
        moved = values + step
        # What the sum lost in rounding (Knuth): where it lies further out, so does the bound.
        virtual = moved - values
        error = (values - (moved - virtual)) + (step - virtual)
        outward = -np.inf if is_lower else np.inf
        falls_short = error < 0 if is_lower else error > 0
        moved = np.where(falls_short, np.nextafter(moved, outward), moved)
    moved = np.where(np.isinf(values), values, moved)
    found: Int64s = DOUBLE.encode(moved)[0]
    return found


def check_outer(parsed: Condition, damping: Damping, zone: str) -> None:
    """Refuse a rule whose condition does not lie within `stay`, as far as that can be told before its types are known.

    Numbers count as doubles here; a schema may yet find faults.
    """
    conditions = [parsed] if damping.stay is None else [parsed, parse_stay(damping.stay, zone)]
    try:
        binder = Binder(types_suggested_by(conditions))
        bound = binder.bind(parsed)
    except FencepostError:
        return  # which says nothing of damping, and is found where the types are known
    groups = BoxGroups()
    for box in bound.boxes:
        groups.add(0, box)

    def refuse(_: Int64s, error: FencepostError) -> None:
        raise error

    sets = groups.finished()
    outer_boxes(sets, {**groups.computed, **bound.computed}, Dampings.of([damping]), binder, zone, refuse)


def add_damping(
    made: CompiledColumns, dampings: Dampings, binder: Binder, zone: str, refuse: Refuse
) -> CompiledColumns:
    """Compiled rules with their damping, and with their outer boxes."""
    damping = dampings.columns()
    if damping is None:
        return made
    sets, computed = outer_boxes(made.boxes, made.computed, dampings, binder, zone, refuse)
    if not sets:
        return made._replace(damping=damping)
    rows = np.unique(np.concatenate([boxes.rules for boxes in sets]))
    numbers = np.full(len(made.rules.ids), -1, np.int64)
    numbers[rows] = np.arange(len(rows))
    used = {name for boxes in sets for name in boxes.attributes}
    computed = {name: each for name, each in {**made.computed, **computed}.items() if name in used}
    types = types_of(sets, computed, {name: _type_of(binder, name) for name in used - computed.keys()})
    stays = pa.array([damping.stay for damping in dampings.distinct], pa.large_string())
    nothing = pa.nulls(len(rows), pa.large_string())
    ids, versions, detects, initial, expires = (column[rows] for column in made.rules[:5])
    texts = stays.take(pa.array(dampings.codes[rows]))
    rules = RuleColumns(ids, versions, detects, initial, expires, texts, nothing, nothing)
    renumbered = [boxes._replace(rules=numbers[boxes.rules]) for boxes in sets]
    stay = CompiledColumns(rules, renumbered, dict(sorted(types.items())), None, {}, computed=computed)
    return made._replace(types=dict(sorted({**made.types, **types}.items())), damping=damping, stay=stay)
