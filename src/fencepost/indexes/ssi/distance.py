"""The one predicate of bands, exact: where the difference of two values lies between two bounds.

``left - right`` is taken as a real number, never rounded. Values are ordinals (see `fencepost.indexes.ordinal`).
A difference is the pair (nearest ordinal, sign of what rounding left over); a bound is such a pair as well, with
sign +1 for just above and -1 for just below, which is what open ends are. Pairs compare in the order of real
numbers: rounding is monotone, so two unequal ordinals decide, and the sign decides where they are equal.

Each side has *keys*: the ordinal of a left value, the complement of the ordinal of a right value. The difference
then grows with both keys, and one algorithm serves both sides.
"""

from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, i64
from fencepost.indexes.ordinal import LARGEST, SMALLEST

LEFT, RIGHT = 0, 1
WHOLE, FLOAT = 0, 1


def side_keys(side: int, ordinals: Int64s) -> Int64s:
    """Ordinals as keys of a side, and back."""
    return ~ordinals if side == RIGHT else ordinals


def bound_pairs(ordinals: Int64s, unbounded: Bools, inside: bool, upper: bool) -> tuple[Int64s, Int64s]:
    """Bounds as pairs: a sign towards the inside where the bound itself is outside, an extreme where there is none."""
    outwards = 1 if upper else -1
    signs = np.where(unbounded, outwards, 0 if inside else -outwards).astype(np.int64)
    return np.where(unbounded, LARGEST if upper else SMALLEST, ordinals), signs


@kernel
def decoded(ordinal: int) -> Any:
    """The float64 with this ordinal."""
    bits = i64(ordinal)
    if bits < 0:
        bits = i64(SMALLEST) - bits
    return i64(bits).view(np.float64)


@kernel
def encoded(value: float) -> Any:
    """The ordinal of a float64."""
    bits = np.float64(value).view(np.int64)
    if bits < 0:
        return i64(SMALLEST) - bits
    return bits


@kernel
def exact_sum(kind: int, one: int, other: int, minus: bool) -> Any:
    """The sum of two ordinals' values, or their difference: nearest ordinal, sign of the remainder."""
    if kind == WHOLE:
        if minus:
            total = i64(one) - i64(other)
            overflows = (one ^ other) & (one ^ total)
        else:
            total = i64(one) + i64(other)
            overflows = (one ^ total) & (other ^ total)
        if overflows < 0:
            return (i64(LARGEST), i64(1)) if one >= 0 else (i64(SMALLEST), i64(-1))
        return total, i64(0)
    x = decoded(one)
    y = -decoded(other) if minus else decoded(other)
    if abs(x) < abs(y):
        x, y = y, x
    rounded = x + y
    if np.isinf(rounded):
        return (encoded(rounded), i64(-1)) if rounded > 0 else (encoded(rounded), i64(1))
    rest = y - (rounded - x)
    return encoded(rounded), i64(rest > 0) - i64(rest < 0)


@kernel
def gap(kind: int, side: int, key: int, other_key: int) -> Any:
    """The difference left - right, where `key` is of `side` and `other_key` of the other, as a pair."""
    if side == LEFT:
        return exact_sum(kind, key, ~i64(other_key), True)
    return exact_sum(kind, other_key, ~i64(key), True)


@kernel
def limit(kind: int, side: int, key: int, bound: int, sign: int) -> Any:
    """The other side's keys whose difference to `key` is at most the bound: up to the key given, or just below it.

    Exact, since x - y <= p is x <= y + p for real numbers: the sum is rounded, but its sign tells which way.
    """
    if bound == LARGEST and sign > 0:
        return i64(LARGEST), False
    if sign < -1:
        return i64(SMALLEST), True
    if side == RIGHT:
        end, rest = exact_sum(kind, ~i64(key), bound, False)
        return end, (rest < 0 if rest != 0 else sign < 0)
    end, rest = exact_sum(kind, key, bound, True)
    return ~end, (rest > 0 if rest != 0 else sign < 0)


@kernel
def reaches(bound: int, sign: int, difference: int, rest: int) -> Any:
    """Whether one pair is at most another."""
    return bound < difference or (bound == difference and sign <= rest)


@kernel
def between(kind: int, side: int, key: int, low: int, low_sign: int, high: int, high_sign: int) -> Any:
    """The other side's keys, first and last, whose difference to `key` is between two bounds; first > last for none."""
    below, strictly = limit(kind, side, key, low, low_sign - 1)
    last, strict = limit(kind, side, key, high, high_sign)
    if (strict and last == SMALLEST) or (not strictly and below == LARGEST):
        return i64(LARGEST), i64(SMALLEST)
    return below + (not strictly), last - strict
