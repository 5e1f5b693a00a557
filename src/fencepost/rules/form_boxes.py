"""Binding many rules of one form at once: each comparison for all of them, then box by box."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.computed.bounds import after_prefix
from fencepost.computed.many_preimages import many_preimages
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.language import KEY, Binder
from fencepost.language.forms import Constants, Evaluated, Form, FormBound, FormBox, FormPart, Ordered
from fencepost.ordinals import DOUBLE, AttributeType
from fencepost.ordinals.scalars import nearest_double
from fencepost.ordinals.zones import bound_as
from fencepost.rules.bounds import edges_of
from fencepost.rules.box_groups import StringEnds

_MOST_COMPARED = 24
"""Boxes of one form that are compared two by two."""
_EXACT = Context(prec=38, traps=[Inexact])
_Ends = tuple[Int64s, Int64s]


class FormBoxes(NamedTuple):
    """Boxes over the same columns, a row each."""

    rules: Int64s
    """The rows of the rules they belong to."""
    keys: dict[str, Any]
    ranges: dict[str, _Ends]
    strings: dict[str, StringEnds]


class FormError(Exception):
    """The rules of a form are to be bound one by one."""


def bind_form(form: Form, binder: Binder, crosses: Bools) -> tuple[list[FormBoxes], Int64s]:
    """The boxes of the rules of one form; the rows of those to be bound one by one, perhaps to be refused.

    `crosses` says of each whether it detects cross, for which most ranges of strings are refused.
    """
    try:
        binding = _Binding(form, binder)
        boxes = [binding.bind(box) for box in form.boxes]
        usable = binding.usable
        # Rules with a box that holds nowhere, or that cross a range of strings, are bound alone: binding says why.
        for box in boxes:
            for first, last in box.ranges.values():
                usable &= first <= last
            if box.strings:
                usable &= ~crosses
        along = _only_difference(boxes)
        if along is None:
            usable &= ~_unites(boxes, len(form.rows))
            mine = np.flatnonzero(usable)
            found = [_take(box, form.rows[mine], mine) for box in boxes] if len(mine) else []
        else:
            found = list(_united(boxes, along, form.rows, np.flatnonzero(usable)))
    except (FencepostError, FormError, OverflowError, pa.ArrowException):
        return [], form.rows
    return found, form.rows[~usable]


class _Binding:
    """The comparisons of a form, bound to types; each once, however many boxes have it."""

    def __init__(self, form: Form, binder: Binder) -> None:
        self._binder, self._count = binder, len(form.rows)
        self.usable = np.ones(self._count, np.bool_)
        self._known: dict[tuple[int, ...], Any] = {}
        """By the identities of the parts that are about one column: what they say together."""

    def bind(self, box: FormBox) -> FormBoxes:
        """One box of all rules."""
        by_column: dict[str, list[FormPart]] = {}
        types = {}
        for part in box:
            name, types[name] = self._binder.find(part.column)
            by_column.setdefault(name, []).append(part)
        found = FormBoxes(np.zeros(0, np.int64), {}, {}, {})
        for name in sorted(by_column):
            parts, type_ = by_column[name], types[name]
            known = tuple(map(id, parts))
            if known not in self._known:
                self._known[known] = self._strings(parts) if type_ == KEY else self._ranges(parts, name, type_)
            said = self._known[known]
            if isinstance(said, StringEnds):
                found.strings[name] = said
            elif type_ == KEY:
                found.keys[name] = said
            else:
                found.ranges[name] = said
        return found

    def _strings(self, parts: Sequence[FormPart]) -> Any:
        """A key, or a range of strings."""
        if len(parts) > 1 or parts[0].term is not None:
            raise FormError
        [part] = parts
        if part.is_equality and isinstance(part.lower, Constants) and not part.lower.is_number:
            return part.lower.texts
        ends, fits = _string_ends(part, self._count)
        self.usable &= fits
        return ends

    def _ranges(self, parts: Sequence[FormPart], name: str, type_: AttributeType) -> _Ends:
        """What several comparisons of a column have in common."""
        found: _Ends | None = None
        for part in parts:
            first, last = self._range(part, name, type_)
            found = (first, last) if found is None else (np.maximum(found[0], first), np.minimum(found[1], last))
        assert found is not None, "a column has a comparison"
        return found

    def _range(self, part: FormPart, name: str, type_: AttributeType) -> _Ends:
        if part.is_prefix or (part.term is not None and type_ != DOUBLE):
            raise FormError
        first = self._end(part.lower, name, type_, is_lower=True, is_closed=part.lower_closed)
        last = self._end(part.upper, name, type_, is_lower=False, is_closed=part.upper_closed)
        if part.term is None:
            return first, last
        # Ranges of an expression over one column become ranges of that column.
        ranges = many_preimages(part.term, _doubles_of, first, last)
        self.usable &= ranges.usable
        return ranges.firsts, ranges.lasts

    def _end(
        self, bound: FormBound | None, name: str, type_: AttributeType, *, is_lower: bool, is_closed: bool
    ) -> Int64s:
        if isinstance(bound, Ordered):  # ordinals are in the order of the points, whatever those are
            ends = [self._end(each, name, type_, is_lower=is_lower, is_closed=is_closed) for each in bound.points]
            ordered: Int64s = np.sort(np.stack(ends, axis=1), axis=1)[:, bound.place]
            return ordered
        bounds = None
        if isinstance(bound, Constants):
            bounds = _numbers(bound, type_)
        elif bound is not None:
            values = _values(bound, type_)
            self.usable &= np.asarray(values.is_valid())[bound.codes]
            bounds = values.take(pa.array(bound.codes))
        found = edges_of(type_, bounds, self._count, is_lower=is_lower, is_closed=is_closed, column=name)
        self.usable &= found.is_empty == 0
        return found.ordinals


def _take(box: FormBoxes, rules: Int64s, mine: Int64s) -> FormBoxes:
    chosen = pa.array(mine)
    return FormBoxes(
        rules,
        {name: values.take(chosen) for name, values in box.keys.items()},
        {name: (first[mine], last[mine]) for name, (first, last) in box.ranges.items()},
        {name: ends.take(mine) for name, ends in box.strings.items()},
    )


# -- boxes that are one -------------------------------------------------------------------------------------


def _only_difference(boxes: Sequence[FormBoxes]) -> str | None:
    """The attribute whose ranges alone tell the boxes apart, if there is one and they are several."""
    one, *others = boxes
    if not others or not all(_columns(other) == _columns(one) for other in others):
        return None
    different = {
        name
        for other in others
        for mine, its in zip(_parts(one), _parts(other), strict=True)
        for name in mine
        if mine[name] is not its[name]
    }
    [name, *more] = different or [""]
    return name if name in one.ranges and not more else None


def _parts(box: FormBoxes) -> tuple[dict[str, Any], ...]:
    return box.keys, box.ranges, box.strings


def _columns(box: FormBoxes) -> tuple[frozenset[str], ...]:
    return tuple(map(frozenset, _parts(box)))


def _united(boxes: Sequence[FormBoxes], along: str, rules: Int64s, mine: Int64s) -> Iterator[FormBoxes]:
    """The boxes of some rules, those united that overlap or touch along the one attribute that tells them apart."""
    firsts, lasts = (np.stack([box.ranges[along][end][mine] for box in boxes], axis=1) for end in (0, 1))
    order = np.argsort(firsts, axis=1, kind="stable")
    firsts, lasts = np.take_along_axis(firsts, order, 1), np.take_along_axis(lasts, order, 1)
    reached = np.maximum.accumulate(lasts, axis=1)
    begins, ends = np.ones(firsts.shape, np.bool_), np.ones(firsts.shape, np.bool_)
    begins[:, 1:] = ~_touch(firsts[:, 1:], reached[:, :-1])
    ends[:, :-1] = begins[:, 1:]
    row = np.nonzero(begins)[0]
    taken = _take(boxes[0], rules[mine[row]], mine[row])
    taken.ranges[along] = firsts[begins], reached[ends]
    yield taken


def _touch(first: Int64s, last: Int64s) -> Bools:
    """Whether a range that begins at one ordinal overlaps or touches one that ends at the other."""
    touches: Bools = (first <= last) | (first - 1 <= last)  # where first is the least of all, it is at most last
    return touches


def _unites(boxes: Sequence[FormBoxes], count: int) -> Bools:
    """The rules of which two boxes are one, or touch so that they can be united."""
    found = np.zeros(count, np.bool_)
    if (key := _only_key(boxes)) is not None:
        codes = _codes([box.keys[key] for box in boxes])
        codes.sort(axis=0)
        found |= (codes[1:] == codes[:-1]).any(axis=0)
        return found
    pairs = [pair for pair in combinations(boxes, 2) if _columns(pair[0]) == _columns(pair[1])]
    if pairs and len(boxes) > _MOST_COMPARED:
        raise FormError
    for one, other in pairs:
        same = np.ones(count, np.bool_)
        for name, values in one.keys.items():
            if values is not other.keys[name]:
                same &= np.asarray(pc.equal(values, other.keys[name]))
        for name, ends in one.strings.items():
            if ends is not other.strings[name]:
                same &= _are_equal(ends, other.strings[name])
        different = np.zeros(count, np.int64)
        for name, (first, last) in one.ranges.items():
            its_first, its_last = other.ranges[name]
            differs = (first != its_first) | (last != its_last)
            different += differs
            same &= ~differs | _touch(np.maximum(first, its_first), np.minimum(last, its_last))
        found |= same & (different <= 1)
    return found


def _only_key(boxes: Sequence[FormBoxes]) -> str | None:
    """The key column that alone tells the boxes apart, if there is one."""
    one, *others = boxes
    if not others or not all(_columns(other) == _columns(one) for other in others):
        return None
    for other in others:
        if any(one.ranges[name] is not other.ranges[name] for name in one.ranges):
            return None
        if any(one.strings[name] is not other.strings[name] for name in one.strings):
            return None
    different = {name for other in others for name in one.keys if one.keys[name] is not other.keys[name]}
    return different.pop() if len(different) == 1 else None


def _codes(columns: Sequence[Any]) -> Int64s:
    """Numbers for strings, the same for the same; a line for each column."""
    encoded = pa.concat_arrays(columns).dictionary_encode()
    return np.array(encoded.indices).reshape(len(columns), -1)


def _are_equal(one: StringEnds, other: StringEnds) -> Bools:
    """Whether two ranges of strings are one."""
    same: Bools = (one.lower_closed == other.lower_closed) & (one.upper_closed == other.upper_closed)
    for mine, its in ((one.lower, other.lower), (one.upper, other.upper)):
        both_open = pc.and_(mine.is_null(), its.is_null())
        same &= np.asarray(pc.fill_null(pc.equal(mine, its), False)) | np.asarray(both_open)
    return same


# -- bounds -------------------------------------------------------------------------------------------------


def _numbers(constants: Constants, type_: AttributeType) -> Any:
    """The numbers of a form, exact where the type is."""
    if not constants.is_number:
        raise FormError
    texts = constants.texts
    points = pc.find_substring(texts, ".")
    if type_ == DOUBLE or constants.is_double:
        numbers = texts.cast(pa.float64())
    elif pc.max(points).as_py() < 0:
        numbers = texts.cast(pa.int64())
    else:  # with as many digits as some number has, since small counts are compared faster
        digits = np.asarray(pc.binary_length(texts)) - np.asarray(points) - 1
        numbers = texts.cast(pa.decimal128(38, int(digits[np.asarray(points) >= 0].max())))
    return pc.negate(numbers) if constants.is_negative else numbers


def _doubles_of(constants: Constants) -> Float64s:
    """The numbers at one place of an expression over doubles."""
    return np.asarray(_numbers(constants, DOUBLE))


def _values(evaluated: Evaluated, type_: AttributeType) -> Any:
    """An Arrow array of the distinct values of a bound; null where one is to be bound alone."""
    values = evaluated.distinct
    if type_.dimension == "time":
        times = [None if each is None else _time(bound_as(each, type_.kind)) for each in values]
        return pa.array(times, pa.timestamp("us", tz="UTC"))
    if type_.dimension == "truth":
        return pa.array(values, pa.bool_())
    if not all(each is None or (isinstance(each, int | Fraction) and not isinstance(each, bool)) for each in values):
        raise FormError
    if type_ == DOUBLE:
        doubles = [None if each is None else nearest_double(each) for each in values]
        return pa.array([None if each is None or math.isinf(each) else each for each in doubles], pa.float64())
    if all(each is None or isinstance(each, int) for each in values):
        return pa.array(values, pa.int64())
    return pa.array([None if each is None else _decimal(each) for each in values])


def _time(bound: Any) -> datetime:
    """A bound of columns of one kind as they count: dates from midnight, whatever their zone."""
    if not isinstance(bound, date):
        raise FormError
    return bound if isinstance(bound, datetime) else datetime(bound.year, bound.month, bound.day, tzinfo=UTC)


def _decimal(number: int | Fraction) -> Decimal | None:
    """The number as a decimal; None where it is none of 38 digits."""
    try:
        return _EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))
    except Inexact:
        return None


def _string_ends(part: FormPart, count: int) -> tuple[StringEnds, Bools]:
    """The ranges of strings that one comparison of a form asks for, and where they are such."""
    text = pa.large_string()
    lower, upper = (pa.nulls(count, text) if each is None else _texts(each) for each in (part.lower, part.upper))
    if part.is_prefix:
        prefixes = pc.utf8_rtrim(lower, characters="%")
        plain = pc.and_(pc.ends_with(lower, "%"), pc.invert(pc.match_substring_regex(prefixes, r"[%_\\]")))
        encoded = prefixes.dictionary_encode()
        after = pa.array([after_prefix(each) for each in encoded.dictionary.to_pylist()], text)
        lower, upper, fits = prefixes, after.take(encoded.indices), np.asarray(plain)
    else:
        both = pc.and_(lower.is_valid(), upper.is_valid())
        fits = ~np.asarray(pc.and_(both, pc.fill_null(pc.greater_equal(lower, upper), False)))
    return StringEnds(lower, upper, np.full(count, part.lower_closed), np.full(count, part.upper_closed)), fits


def _texts(bound: FormBound) -> Any:
    """The strings of a bound."""
    if isinstance(bound, Ordered):
        ordered = np.sort(np.stack([_texts(each).to_numpy(zero_copy_only=False) for each in bound.points]), axis=0)
        return pa.array(ordered[bound.place], pa.large_string())
    if not isinstance(bound, Constants) or bound.is_number:
        raise FormError
    return bound.texts.cast(pa.large_string())
