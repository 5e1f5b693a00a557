"""Columns of bounds, exact in the table's own type, and the ordinals they stand for in an attribute's type.

What `AttributeType.range` does for one bound is done here for a column at once. Where that is not possible
(decimals beyond int64, products beyond 2**52) it is done by `range`, once per distinct value.
"""

from datetime import date
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.language import ColumnKind
from fencepost.ordinals import DOUBLE, AttributeType
from fencepost.rules.faults import Faults

_MICROSECONDS_PER_DAY = 86_400_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH_DAY, date.max.toordinal() - _EPOCH_DAY
_EXACT_IN_DOUBLE = 2**53
_EXACT_POWERS = 22  # 10**22 is the largest power of ten that is a double
_INT64 = np.iinfo(np.int64)
_SPLIT = 2.0**27 + 1


def plain_bounds(array: Any, name: str, faults: Faults, *, round_up: bool) -> Any | None:
    """The bounds as float64, int64, decimal, timestamp[us], date32 or bool; None where all are null.

    Rows with NaN, or with a time that has no date, are faults. `round_up` says how nanoseconds become the microseconds
    that all times here are counted in: no value lies between, so rounding the right way changes no range.
    """
    type_ = array.type
    if pa.types.is_null(type_):
        return None
    if pa.types.is_floating(type_):
        array = array.cast(pa.float64())
        is_nan = np.asarray(pc.fill_null(pc.is_nan(array), False))
        faults.add_rows(is_nan, lambda _: f"NaN in {name}; expected a number, or null where the range is unbounded")
        return array
    if pa.types.is_uint64(type_):
        return array.cast(pa.decimal128(20, 0)) if (pc.max(array).as_py() or 0) > _INT64.max else array.cast(pa.int64())
    if pa.types.is_integer(type_):
        return array.cast(pa.int64())
    if pa.types.is_boolean(type_):
        return array
    if pa.types.is_decimal(type_):
        return array.cast(pa.decimal128(38, type_.scale)) if type_.bit_width < 128 else array
    if pa.types.is_date(type_):
        return _with_calendar(array.cast(pa.date32()), name, faults, 1)
    if pa.types.is_timestamp(type_):
        array = array.cast(pa.timestamp(type_.unit, tz="UTC"))
        array = _with_calendar(array, name, faults, 86_400 * _PER_SECOND[type_.unit])
        if type_.unit != "ns":
            return array.cast(pa.timestamp("us", tz="UTC"))
        counts = np.asarray(pc.fill_null(array.view(pa.int64()), 0))
        counts = -(-counts // 1_000) if round_up else counts // 1_000
        return pa.array(counts, mask=np.asarray(pc.is_null(array))).view(pa.timestamp("us", tz="UTC"))
    raise FencepostError(
        f"column {name} of type {type_} cannot hold the bounds of a range",
        "numbers, dates, timestamps or booleans",
        "Cast the column; a column of strings belongs into equal=.",
    )


def _with_calendar(array: Any, name: str, faults: Faults, per_day: int) -> Any:
    """The times, null where they lie outside the years 1 to 9999; those are faults."""
    counts = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    days = np.asarray(pc.fill_null(counts, 0)).astype(np.int64) // per_day
    outside = (days < _FIRST_DAY) | (days > _LAST_DAY)
    if not outside.any():
        return array
    faults.add_rows(
        outside,
        lambda _: f"{name} has a time outside the years 1 to 9999; expected null where the range is unbounded",
    )
    return pc.if_else(pa.array(outside), pa.nulls(1, array.type)[0], array)


def same_type(lower: Any | None, upper: Any | None, names: str) -> tuple[Any | None, Any | None]:
    """Both columns of bounds in one type that holds every value exactly."""
    if lower is None or upper is None or lower.type == upper.type:
        return lower, upper
    try:
        common = _common_type(lower.type, upper.type)
        return lower.cast(common), upper.cast(common)  # casts of Arrow refuse to change a value
    except pa.ArrowInvalid:
        raise FencepostError(
            f"columns {names} are of types {lower.type} and {upper.type}",
            "two columns of one type",
            "Cast one of the two to the type of the other.",
        ) from None


def _common_type(one: Any, other: Any) -> Any:
    types = pa.types
    both = (one, other)
    if all(types.is_temporal(each) for each in both):
        return pa.timestamp("us", tz="UTC")
    if all(types.is_floating(each) or types.is_integer(each) for each in both):
        return pa.float64()
    if all(types.is_decimal(each) or types.is_integer(each) for each in both):
        return pa.decimal256(76, max(each.scale for each in both if types.is_decimal(each)))
    raise pa.ArrowInvalid("no common type")


def kind_of(type_: Any) -> ColumnKind:
    """What kind of constant bounds of this type are."""
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_date(type_):
        return "date"
    return "timestamp" if pa.types.is_timestamp(type_) else "number"


class Edges(NamedTuple):
    """The outermost ordinal within each bound, and the rows where no value of the type is."""

    ordinals: Int64s
    is_empty: Bools


class _Places(NamedTuple):
    """Where bounds lie among the values of a type, row by row."""

    below: Int64s
    """The ordinal of the largest value at most the bound."""
    is_exact: Any
    """Whether that value equals the bound."""
    is_under: Any
    """Whether the bound lies below all values; `below` then means nothing."""
    is_over: Any
    """Whether it lies above all values; likewise."""
    is_hard: Any
    """Whether only `AttributeType.range` can tell; all others then mean nothing."""


def edges_of(
    attribute: AttributeType, bounds: Any | None, count: int, *, is_lower: bool, is_closed: bool, column: str
) -> Edges:
    """The first ordinal at or above each lower bound, or the last at or below each upper one.

    Bounds that are None or null are unbounded.
    """
    smallest, largest = attribute.limits
    unbounded = smallest if is_lower else largest
    if bounds is None:
        return Edges(np.full(count, unbounded, np.int64), np.zeros(count, np.bool_))
    if (kind_of(bounds.type), attribute.dimension) not in _DIMENSIONS:
        raise FencepostError(
            f"column {column} is {attribute}, but its bounds are {bounds.type}",
            f"bounds that compare with {attribute}",
            "Cast the bounds in the table, or correct the schema.",
        )
    is_null = np.asarray(pc.is_null(bounds))
    places = _places(attribute, bounds)
    below = places.below
    if is_lower:
        steps = ~np.broadcast_to(places.is_exact, count) if is_closed else np.ones(count, np.bool_)
        is_empty = places.is_over | (steps & ~places.is_under & (below == largest))
        ordinals = below + (steps & ~is_empty)
        is_beyond = places.is_under
    else:
        steps = np.zeros(count, np.bool_) if is_closed else np.broadcast_to(places.is_exact, count)
        is_empty = places.is_under | (steps & ~places.is_over & (below == smallest))
        ordinals = below - (steps & ~is_empty)
        is_beyond = places.is_over
    ordinals[is_beyond | is_null] = unbounded
    is_empty = is_empty & ~is_null
    edges = Edges(ordinals, np.array(np.broadcast_to(is_empty, count)))
    hard = np.broadcast_to(places.is_hard, count) & ~is_null
    if hard.any():
        _fill_hard(attribute, bounds, hard, edges, is_lower=is_lower, is_closed=is_closed)
    return edges


_DIMENSIONS = {("number", "number"), ("date", "time"), ("timestamp", "time"), ("boolean", "truth")}


def _fill_hard(
    attribute: AttributeType, bounds: Any, hard: Bools, edges: Edges, *, is_lower: bool, is_closed: bool
) -> None:
    """Sets the edges of the marked rows by AttributeType.range."""
    encoded = bounds.filter(pa.array(hard)).dictionary_encode()
    found = np.zeros(len(encoded.dictionary), np.int64)
    is_empty = np.zeros(len(encoded.dictionary), np.bool_)
    for place, bound in enumerate(encoded.dictionary.to_pylist()):
        if is_lower:
            range_ = attribute.range(lower=bound, lower_closed=is_closed)
        else:
            range_ = attribute.range(upper=bound, upper_closed=is_closed)
        if range_ is None:
            is_empty[place] = True
        else:
            found[place] = range_[0] if is_lower else range_[1]
    indices = np.asarray(encoded.indices)
    edges.ordinals[hard], edges.is_empty[hard] = found[indices], is_empty[indices]


def _places(attribute: AttributeType, bounds: Any) -> _Places:
    if pa.types.is_floating(bounds.type):
        doubles = np.asarray(pc.fill_null(bounds, 0.0))
        if attribute == DOUBLE:
            return _Places(DOUBLE.encode(doubles)[0], True, False, False, False)
        return _places_of_doubles(attribute, doubles)
    counts, unit, is_hard = _counts(bounds)
    if attribute == DOUBLE:
        if unit.denominator > 10**_EXACT_POWERS or unit.numerator != 1:
            is_hard = np.ones(len(counts), np.bool_)
        elif unit != 1:
            # The quotient of two exact doubles is correctly rounded.
            is_hard = is_hard | (np.abs(counts) > _EXACT_IN_DOUBLE)
        doubles = counts.astype(np.float64) / float(min(unit.denominator, 10**_EXACT_POWERS))
        return _Places(DOUBLE.encode(doubles)[0], True, False, False, is_hard)
    smallest, largest = attribute.limits
    ratio = unit / attribute.unit  # of powers of ten, or of days and microseconds: one of the two numbers is 1
    if max(ratio.numerator, ratio.denominator) > _INT64.max:
        return _Places(np.zeros_like(counts), True, False, False, np.ones(len(counts), np.bool_))
    if ratio.denominator > 1:
        below, remainders = np.divmod(counts, ratio.denominator)
        return _Places(below, remainders == 0, below < smallest, below > largest, is_hard)
    is_under = counts < -(-smallest // ratio.numerator)
    is_over = counts > largest // ratio.numerator
    below = np.where(is_under | is_over, 0, counts) * ratio.numerator
    return _Places(below, True, is_under, is_over, is_hard)


def _counts(bounds: Any) -> tuple[Int64s, Fraction, Any]:
    """The bounds as whole numbers of a unit, in ones or microseconds, and where int64 cannot count them."""
    type_ = bounds.type
    if pa.types.is_decimal(type_):
        unit = Fraction(10) ** -type_.scale
        words = np.frombuffer(bounds.buffers()[1] or b"", np.int64).reshape(-1, type_.bit_width // 64)
        words = words[bounds.offset : bounds.offset + len(bounds)]
        counts = words[:, 0].copy()
        return counts, unit, (words[:, 1:] != (counts >> 63)[:, None]).any(axis=1)
    if pa.types.is_boolean(type_):
        return np.asarray(pc.fill_null(bounds, False)).astype(np.int64), Fraction(1), False
    if pa.types.is_date32(type_):
        days = np.asarray(pc.fill_null(bounds.view(pa.int32()), 0)).astype(np.int64)
        return days, Fraction(_MICROSECONDS_PER_DAY), False
    if pa.types.is_timestamp(type_):
        bounds = bounds.view(pa.int64())
    return np.array(pc.fill_null(bounds, 0)), Fraction(1), False


def _places_of_doubles(attribute: AttributeType, doubles: Float64s) -> _Places:
    """Doubles among whole multiples of 10**-scale: the product is computed with its rounding error."""
    smallest, largest = attribute.limits
    factor = 10.0**attribute.scale
    with np.errstate(over="ignore", invalid="ignore"):
        products = doubles * factor
        floors = np.floor(products)
        is_exact = floors == products
        is_hard = np.zeros(len(doubles), np.bool_)
        if attribute.scale:
            errors = _product_errors(doubles, factor, products)
            is_hard = ~(np.abs(products) < 2.0**52)
            # A product that was rounded up to a whole number lies just below it.
            floors -= is_exact & (errors < 0)
            is_exact &= errors == 0
    is_under, is_over = floors < -(2.0**63), floors >= 2.0**63
    below = np.where(is_under | is_over | is_hard, 0.0, floors).astype(np.int64)
    # The limits of decimals are no doubles: they are compared as integers.
    return _Places(below, is_exact, is_under | (below < smallest), is_over | (below > largest), is_hard)


def _product_errors(one: Float64s, other: float, products: Float64s) -> Float64s:
    """What `one * other` lost in rounding (Dekker's product)."""

    def halves(value: Any) -> tuple[Any, Any]:
        spread = value * _SPLIT
        high = spread - (spread - value)
        return high, value - high

    high, low = halves(one)
    other_high, other_low = halves(np.float64(other))
    errors: Float64s = ((high * other_high - products) + high * other_low + low * other_high) + low * other_low
    return errors
