"""The preimages of many ranges at once: expressions of one shape over a column of doubles, with other constants each.

The same bisection as in `preimages`, for all rows together. Rows that are not plain (an infinite number counts, or a
product with zero) are left to it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fencepost.computed.terms import Term
from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.ordinals import DOUBLE
from fencepost.ordinals.scalars import float_ordinal

_INFINITY = float_ordinal(float("inf"))
_LARGEST = _INFINITY - 1
_AROUND = 4

Read = Callable[[Any], Float64s]
"""The constants that stand at one place, a row each."""


class Ranges(NamedTuple):
    """Inclusive ordinals, and which rows have them."""

    firsts: Int64s
    lasts: Int64s
    usable: Bools


class _Step(NamedTuple):
    compute: Callable[[Float64s, Any], Float64s]
    """Of some numbers, in some rows."""
    inverse: Callable[[Float64s, Any], Float64s]
    usable: Bools


def column_of(term: Term) -> str | None:
    """The one column of an expression that this module takes, as conditions know it."""
    while term.name != "column":
        if term.name == "negate":
            (term,) = term.parts
        elif term.name in ("+", "-", "*", "/"):
            left, right = term.parts
            if "constant" not in (left.name, right.name) or (term.name == "/" and left.name == "constant"):
                return None
            term = right if left.name == "constant" else left
        else:
            return None
    name: str = term.value
    return name


def many_preimages(term: Term, read: Read, firsts: Int64s, lasts: Int64s) -> Ranges:
    """The ranges of a column of doubles for which an expression is in these ranges."""
    usable = firsts <= lasts
    while term.name != "column":
        term, step = _step(term, read, len(firsts))
        usable = usable & step.usable
        with np.errstate(all="ignore"):
            firsts, lasts, fits = _before(step, firsts, lasts, usable)
        usable = usable & fits
    return Ranges(firsts, lasts, usable)


def _step(term: Term, read: Read, count: int) -> tuple[Term, _Step]:
    everywhere = np.ones(count, np.bool_)
    if term.name == "negate":
        return term.parts[0], _Step(lambda x, _: -x, lambda y, _: -y, everywhere)
    left, right = term.parts
    is_left = left.name == "constant"
    c = read((left if is_left else right).value)
    usable = np.isfinite(c)
    if term.name == "+":
        step = _Step(lambda x, rows: x + c[rows], lambda y, rows: y - c[rows], usable)
    elif term.name == "-" and is_left:
        step = _Step(lambda x, rows: c[rows] - x, lambda y, rows: c[rows] - y, usable)
    elif term.name == "-":
        step = _Step(lambda x, rows: x - c[rows], lambda y, rows: y + c[rows], usable)
    elif term.name == "*":
        step = _Step(lambda x, rows: x * c[rows], lambda y, rows: y / c[rows], usable & (c != 0))
    else:
        step = _Step(lambda x, rows: x / c[rows], lambda y, rows: y * c[rows], usable & (c != 0))
    return (right if is_left else left), step


def _doubles(ordinals: Int64s) -> Float64s:
    found: Float64s = np.where(ordinals < 0, (-ordinals) | -(2**63), ordinals).view(np.float64)
    return found


def _ordinals(doubles: Float64s) -> Int64s:
    return DOUBLE.encode(np.ascontiguousarray(doubles))[0]


def _before(step: _Step, firsts: Int64s, lasts: Int64s, usable: Bools) -> tuple[Int64s, Int64s, Bools]:
    rows = np.arange(len(firsts))

    def at(ordinals: Int64s, rows: Int64s) -> Int64s:
        return _ordinals(step.compute(_doubles(ordinals), rows))

    low, high = (at(np.full(len(rows), end, np.int64), rows) for end in (-_LARGEST, _LARGEST))
    rises = low <= high
    least, most = np.minimum(low, high), np.maximum(low, high)
    usable = usable & (least <= lasts) & (most >= firsts)
    begin, end = np.full(len(rows), -_LARGEST, np.int64), np.full(len(rows), _LARGEST, np.int64)
    # Where it rises, a range begins with its first ordinal; where it falls, with its last one.
    for is_begin in (True, False):
        wanted = np.where(rises == is_begin, firsts, lasts)
        own = low if is_begin else high
        outside = np.where(rises == is_begin, own < wanted, own > wanted)
        asked = np.flatnonzero(usable & outside)
        found = _bisect(step, at, asked, wanted[asked], rises[asked], is_begin=is_begin)
        (begin if is_begin else end)[asked] = found
    usable = usable & (begin <= end)
    for edge, is_touched in ((_INFINITY, end == _LARGEST), (-_INFINITY, begin == -_LARGEST)):
        result = at(np.full(len(rows), edge, np.int64), rows)
        holds = (result >= firsts) & (result <= lasts)
        usable = usable & (is_touched | ~holds)
        if edge > 0:
            end[holds & is_touched] = edge
        else:
            begin[holds & is_touched] = edge
    return begin, end, usable


def _bisect(
    step: _Step, at: Callable[[Int64s, Int64s], Int64s], rows: Int64s, wanted: Int64s, rises: Bools, *, is_begin: bool
) -> Int64s:
    """The first ordinal that is inside, or the last one."""

    def is_reached(ordinals: Int64s, chosen: Any) -> Bools:
        """Whether an ordinal lies at or beyond the end that is looked for, counted upwards."""
        found = at(ordinals, rows[chosen])
        if is_begin:
            reached: Bools = np.where(rises[chosen], found >= wanted[chosen], found <= wanted[chosen])
        else:
            reached = np.where(rises[chosen], found > wanted[chosen], found < wanted[chosen])
        return reached

    everywhere = np.arange(len(rows))
    near = _ordinals(np.nan_to_num(step.inverse(_doubles(wanted), rows), nan=0.0))
    near = np.clip(near, -_LARGEST + _AROUND, _LARGEST - _AROUND)
    is_near = is_reached(near + _AROUND, everywhere) & ~is_reached(near - _AROUND, everywhere)
    low = np.where(is_near, near - _AROUND + 1, -_LARGEST)
    high = np.where(is_near, near + _AROUND, _LARGEST + (0 if is_begin else 1))
    open_ = everywhere
    while len(open_):
        open_ = open_[low[open_] < high[open_]]
        a, b = low[open_], high[open_]
        middle = (a >> 1) + (b >> 1) + (a & b & 1)  # their sum may be beyond int64
        reached = is_reached(middle, open_)
        high[open_[reached]] = middle[reached]
        low[open_[~reached]] = middle[~reached] + 1
    return low if is_begin else low - 1
