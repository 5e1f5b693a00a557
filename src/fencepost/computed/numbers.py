"""Arithmetic on columns: exact where types are, the doubles of IEEE 754 where one of them is double.

Bigints and decimals are int64 counts of their unit. What does not fit their type, and a division by zero, has no value.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.ordinals import DOUBLE, AttributeType
from fencepost.ordinals.scalars import nearest_double

_EXACT_IN_DOUBLE = 2**53
_SURELY_FITS = 2.0**62


class Values(NamedTuple):
    """A column, or a constant as an array of one item that counts for all rows."""

    data: Any
    """Doubles, counts in the unit of the type, booleans, or Arrow strings."""
    valid: Bools | None
    """Which rows have a value; None where all do."""


def both(one: Bools | None, other: Bools | None) -> Bools | None:
    """The rows that have both values."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def as_doubles(values: Values, type_: AttributeType) -> Float64s:
    """Numbers of any type as doubles, each the nearest."""
    data: Any = values.data
    doubles: Float64s = data if type_ == DOUBLE else data.astype(np.float64)
    if type_ == DOUBLE or not type_.scale:
        return doubles
    doubles /= 10.0**type_.scale  # of two exact doubles the quotient is the nearest
    wide = np.flatnonzero(np.abs(data) > _EXACT_IN_DOUBLE)
    for place in wide.tolist():
        doubles[place] = nearest_double(Fraction(int(data[place]), 10**type_.scale))
    return doubles


def as_scale(values: Values, type_: AttributeType, scale: int) -> Values:
    """Exact numbers counted in another unit, which is as fine or finer."""
    if type_.scale == scale:
        return values
    return multiply(values, Values(np.array([10 ** (scale - type_.scale)]), None))


def at_scale(values: Values, type_: AttributeType, scale: int) -> Values:
    """Like `as_scale`, for comparing: what int64 does not hold is its largest or smallest number, in order beyond all.

    A count of -(2**63) or 2**63 - 1 in the finer unit is never exact, but of the same unit.
    """
    if type_.scale == scale:
        return values
    unit = 10 ** (scale - type_.scale)
    most = (2**63 - 1) // unit
    data = values.data
    scaled = np.where(data > most, 2**63 - 1, np.where(data < -most, -(2**63), np.clip(data, -most, most) * unit))
    return Values(scaled, values.valid)


def add(left: Values, right: Values) -> Values:
    """The sums of counts; none where int64 does not hold it."""
    a, b = left.data, right.data
    total = a + b
    return Values(total, _where_fits(((a ^ total) & (b ^ total)) >= 0, left, right))


def subtract(left: Values, right: Values) -> Values:
    """The differences of counts; none where int64 does not hold it."""
    a, b = left.data, right.data
    difference = a - b
    return Values(difference, _where_fits(((a ^ b) & (a ^ difference)) >= 0, left, right))


def multiply(left: Values, right: Values) -> Values:
    """The products of counts; none where int64 does not hold it."""
    a, b = left.data, right.data
    product = a * b
    unsure = np.abs(a.astype(np.float64) * b.astype(np.float64)) >= _SURELY_FITS
    if not unsure.any():
        return Values(product, both(left.valid, right.valid))
    fits = ~unsure
    wide_a, wide_b = np.broadcast_arrays(a, b)
    for place in np.flatnonzero(unsure).tolist():
        fits[place] = -(2**63) <= int(wide_a[place]) * int(wide_b[place]) < 2**63
    return Values(product, _where_fits(fits, left, right))


def remainder(left: Values, right: Values) -> Values:
    """What a division of counts leaves, with the sign of the first; none for a division by zero."""
    is_zero = right.data == 0
    rest = np.fmod(left.data, np.where(is_zero | (right.data == -1), 1, right.data))
    return Values(rest, _where_fits(~is_zero, left, right))


def _where_fits(fits: Bools, *values: Values) -> Bools | None:
    valid = None if fits.all() else fits
    for each in values:
        valid = both(valid, each.valid)
    return valid


def within(values: Values, type_: AttributeType) -> Values:
    """Counts without those beyond the digits of a decimal."""
    if type_.kind != "decimal":
        return values
    smallest, largest = type_.limits
    data = values.data
    return Values(data, _where_fits((data >= smallest) & (data <= largest), values))


def on_doubles(compute: Callable[..., Any], *values: Values) -> Values:
    """What an operation makes of doubles; NaN is no value."""
    with np.errstate(all="ignore"):
        data = compute(*(each.data for each in values))
    valid = None
    for each in values:
        valid = both(valid, each.valid)
    is_number = data == data
    return Values(data, valid if is_number.all() else both(valid, is_number))


def divide(left: Values, right: Values) -> Values:
    """The quotients of doubles; none for a division by zero."""
    found = on_doubles(np.divide, left, right)
    is_zero = right.data == 0
    return Values(found.data, both(found.valid, ~is_zero)) if is_zero.any() else found


def round_half_up(data: Float64s) -> Float64s:
    """Doubles rounded to whole ones, halves away from zero."""
    whole = np.trunc(data)
    rounded: Float64s = np.where(np.abs(data - whole) >= 0.5, whole + np.copysign(1.0, data), whole)
    return rounded


def whole_counts(name: str, counts: Int64s, scale: int) -> Int64s:
    """Decimals as whole numbers: `floor`, `ceil`, or `round` with halves away from zero."""
    unit = 10**scale
    if name == "floor":
        whole: Int64s = counts // unit
    elif name == "ceil":
        whole = -(-counts // unit)
    else:
        whole = np.sign(counts) * ((np.abs(counts) + unit // 2) // unit)
    return whole
