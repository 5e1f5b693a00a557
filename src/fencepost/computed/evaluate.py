"""Expressions and rows to values. There is no other evaluator."""

from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.computed import numbers, times
from fencepost.computed.numbers import Values, as_doubles, as_scale, at_scale, both
from fencepost.computed.terms import Term
from fencepost.computed.typing import common_type
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import BOOLEAN, DOUBLE, KEY, AttributeType, ColumnType
from fencepost.ordinals.scalars import nearest_double, position
from fencepost.ordinals.zones import bound_as


class Given:
    """Rows that expressions are evaluated for: ordinals of attributes, and strings of keys.

    Args:
        rows: how many.
        ordinals: by column.
        valid: by column, which rows have a value; None where all do.
        strings: gives the Arrow array, perhaps a dictionary, of a key column.
    """

    def __init__(
        self,
        rows: int,
        ordinals: "dict[str, Int64s]",
        valid: "dict[str, Any]",
        strings: Callable[[str], Any],
    ) -> None:
        self.rows, self._ordinals, self._valid, self._strings = rows, ordinals, valid, strings
        self._values: dict[Term, Values] = {}

    def values(self, term: Term) -> Values:
        """The values of a bound expression; those of its parts are kept for other expressions."""
        found = self._values.get(term)
        if found is None:
            found = _evaluate(term, self)
            if term.parts or term.name == "column":
                self._values[term] = found
        return found

    def column(self, name: str, type_: ColumnType) -> Values:
        """The values of a column."""
        if type_ == KEY:
            return Values(self._strings(name), None)
        assert isinstance(type_, AttributeType)
        ordinals, valid = self._ordinals[name], self._valid.get(name)
        if type_ == DOUBLE:
            return Values(np.where(ordinals < 0, (-ordinals) | -(2**63), ordinals).view(np.float64), valid)
        return Values(ordinals != 0 if type_ == BOOLEAN else ordinals, valid)

    def ordinals(self, term: Term) -> tuple[Int64s, Bools | None]:
        """The ordinals of an expression that is no string, and which rows have one."""
        data, valid = self.values(term)
        if term.type == DOUBLE:
            ordinals, is_number = DOUBLE.encode(np.ascontiguousarray(data))
            valid = both(valid, is_number)
        else:
            ordinals = data.astype(np.int64)
        if len(ordinals) != self.rows:
            ordinals = np.repeat(ordinals, self.rows)
        if valid is not None:
            valid = np.array(np.broadcast_to(valid, self.rows))
            if valid.all():
                return ordinals, None
            ordinals = np.where(valid, ordinals, 0)
        return ordinals, valid

    def strings(self, term: Term) -> Any:
        """The strings of an expression that is one."""
        found = self.values(term).data
        return pa.repeat(found[0], self.rows) if term.name in ("constant", "truth") else found


def _evaluate(term: Term, given: Given) -> Values:
    name = term.name
    if name == "column":
        assert term.type is not None
        return given.column(term.value, term.type)
    if name in ("constant", "truth"):
        return _constant(term)
    parts = [given.values(part) for part in term.parts]
    if name == "is null":
        return _is_null(term.parts[0], parts[0], given.rows)
    if name in ("=", "<"):
        return _compare(name, term, parts, given.rows)
    if name in ("greatest", "least", "coalesce"):
        return _choose(name, term, parts, given.rows)
    if name == "nullif":
        same = _compare("=", term, parts, given.rows)
        is_same = same.data if same.valid is None else same.data & same.valid
        if term.type == KEY:
            own = _plain(parts[0].data, given.rows)
            return Values(pc.if_else(pa.array(is_same), pa.scalar(None, own.type), own), None)
        return Values(parts[0].data, both(parts[0].valid, ~is_same))
    if name == "length":
        return _from_strings(parts[0].data, pc.utf8_length)
    if name in _STRINGS:
        return Values(_on_strings(parts[0].data, lambda strings: _STRINGS[name](strings, term.value)), None)
    if name == "field":
        return times.field(parts[0], term.parts[0].attribute, *term.value)
    if name == "at zone":
        return times.at_zone(parts[0], term.parts[0].attribute, term.value)
    return _arithmetic(term, parts)


def _constant(term: Term) -> Values:
    value, type_ = term.value, term.type
    if type_ == KEY:
        return Values(pa.array([value], pa.large_string()), None)
    assert isinstance(type_, AttributeType)
    if type_ == DOUBLE:
        return Values(np.array([nearest_double(value)]), None)
    if type_ == BOOLEAN:
        return Values(np.array([value]), None)
    if isinstance(value, Fraction):
        return Values(np.array([int(value * 10**type_.scale)], np.int64), None)
    if isinstance(value, (datetime, date)):
        return Values(np.array([position(type_, bound_as(value, type_.kind))[0]], np.int64), None)
    return Values(np.array([value], np.int64), None)


def _arithmetic(term: Term, parts: list[Values]) -> Values:
    name, types = term.name, [part.attribute for part in term.parts]
    if term.type == DOUBLE:
        doubles = [Values(as_doubles(*each), each[0].valid) for each in zip(parts, types, strict=True)]
        if name == "/":
            return numbers.divide(*doubles)
        if name == "%":
            found = numbers.on_doubles(np.fmod, *doubles)
            return Values(found.data, both(found.valid, doubles[1].data != 0))
        if name == "sqrt":
            return numbers.on_doubles(np.sqrt, *doubles)
        return numbers.on_doubles(_DOUBLES[name], *doubles)
    own = term.attribute
    if name in ("floor", "ceil", "round"):
        return Values(numbers.whole_counts(name, parts[0].data, types[0].scale), parts[0].valid)
    if name == "decimal":
        return numbers.within(as_scale(parts[0], types[0], own.scale), own)
    if name == "sign":
        return Values(np.sign(parts[0].data), parts[0].valid)
    if name in ("negate", "abs"):
        nothing = numbers.subtract(Values(np.zeros(1, np.int64), None), parts[0])
        if name == "negate":
            return nothing
        is_below = parts[0].data < 0
        return Values(
            np.abs(parts[0].data), both(parts[0].valid, None if nothing.valid is None else ~is_below | nothing.valid)
        )
    if name == "*":
        return numbers.within(numbers.multiply(*parts), own)
    one, other = (as_scale(each, type_, own.scale) for each, type_ in zip(parts, types, strict=True))
    compute = {"+": numbers.add, "-": numbers.subtract, "%": numbers.remainder}[name]
    return numbers.within(compute(one, other), own)


_DOUBLES: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "negate": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": numbers.round_half_up,
    "sign": np.sign,
    "double": lambda doubles: doubles,
}


def _is_null(part: Term, values: Values, rows: int) -> Values:
    if part.type == KEY:
        missing = np.asarray(_plain(values.data, rows).is_null())
    else:
        missing = np.zeros(rows, np.bool_) if values.valid is None else np.array(np.broadcast_to(~values.valid, rows))
    return Values(missing, None)


def _in_common(term: Term, parts: list[Values]) -> tuple[ColumnType, list[Values]]:
    """The parts of an expression in the type in which they compare.

    A count that int64 does not hold in the unit of that type is the largest or the smallest: it lies beyond all others.
    """
    common, found = common_type(term.parts), []
    for part, values in zip(term.parts, parts, strict=True):
        if common == KEY or part.type == common:
            found.append(values)
        elif common == DOUBLE:
            found.append(Values(as_doubles(values, part.attribute), values.valid))
        elif isinstance(common, AttributeType) and common.dimension == "number":
            found.append(at_scale(values, part.attribute, common.scale))
        elif part.name in ("constant", "truth"):
            found.append(_constant(part._replace(type=common)))
        else:  # a date as what a clock shows at its midnight
            found.append(
                Values(values.data * times.DAY if part.attribute.kind == "date" else values.data, values.valid)
            )
    return common, found


def _compare(name: str, term: Term, parts: list[Values], rows: int) -> Values:
    common, (left, right) = _in_common(term, parts)
    if common == KEY:
        one, other = _plain(left.data, rows), _plain(right.data, rows)
        found = (pc.equal if name == "=" else pc.less)(one, other)
        valid = None if found.null_count == 0 else np.asarray(found.is_valid())
        return Values(np.asarray(pc.fill_null(found, False)), valid)
    data = left.data == right.data if name == "=" else left.data < right.data
    return Values(data, both(left.valid, right.valid))


def _choose(name: str, term: Term, parts: list[Values], rows: int) -> Values:
    """The largest, the smallest or the first of the values that are there."""
    common, given = _in_common(term, parts)
    if common == KEY:
        arrays = [_plain(each.data, rows) for each in given]
        if name == "coalesce":
            return Values(pc.coalesce(*arrays), None)
        best = arrays[0]
        for other in arrays[1:]:
            is_better = (pc.greater if name == "greatest" else pc.less)(other, best)
            is_better = pc.fill_null(is_better, False)
            best = pc.coalesce(pc.if_else(is_better, other, best), other)
        return Values(best, None)
    best_values, there = np.broadcast_to(given[0].data, rows), given[0].valid
    for other in given[1:]:
        if there is None and name == "coalesce":
            break
        takes = np.zeros(rows, np.bool_) if there is None else np.broadcast_to(~there, rows)
        if name != "coalesce":
            is_better = other.data > best_values if name == "greatest" else other.data < best_values
            takes = takes | is_better
        if other.valid is not None:
            takes = takes & other.valid
        best_values = np.where(takes, other.data, best_values)
        there = None if there is None or other.valid is None else np.broadcast_to(there, rows) | other.valid
    return numbers.within(Values(best_values, there), term.attribute)


def _substr(strings: Any, fixed: tuple[int, int | None]) -> Any:
    start, length = fixed
    return pc.utf8_slice_codeunits(strings, start - 1, None if length is None else start - 1 + length)


_STRINGS: dict[str, Callable[[Any, Any], Any]] = {
    "lower": lambda strings, _: pc.utf8_lower(strings),
    "upper": lambda strings, _: pc.utf8_upper(strings),
    "trim": lambda strings, _: pc.utf8_trim(strings, " "),
    "substr": _substr,
}


def _on_strings(strings: Any, compute: Callable[[Any], Any]) -> Any:
    """What is computed of strings, of each of a dictionary once."""
    if pa.types.is_dictionary(strings.type):
        return pa.DictionaryArray.from_arrays(strings.indices, compute(strings.dictionary.cast(pa.large_string())))
    return compute(strings.cast(pa.large_string()))


def _from_strings(strings: Any, compute: Callable[[Any], Any]) -> Values:
    found = _plain(_on_strings(strings, lambda each: compute(each).cast(pa.int64())), len(strings))
    valid = None if found.null_count == 0 else np.asarray(found.is_valid())
    return Values(np.asarray(pc.fill_null(found, 0)), valid)


def _plain(array: Any, rows: int) -> Any:
    """An Arrow array without a dictionary, a row each."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return pa.repeat(array[0], rows) if len(array) == 1 and rows != 1 else array
