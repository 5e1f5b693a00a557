"""Ranges of an expression over one column, as ranges of that column.

Where every operation is monotone, the values for which an expression is in a range are a range themselves. Its ends are
found by bisection over ordinals, with the arithmetic of the evaluator: the answer is bit for bit the one that it gives.
Operations that turn round (ABS, a constant divided by x) are monotone on pieces of their domain.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from fencepost.computed.terms import Term
from fencepost.ordinals import BIGINT, DOUBLE, AttributeType
from fencepost.ordinals.scalars import double_of, float_ordinal, nearest_double

Range = tuple[int, int]
Number = int | float
_INFINITY = float_ordinal(math.inf)
_LARGEST = _INFINITY - 1
_AROUND = 4
"""So many ordinals on both sides of where the end of a range should be are tried first."""


class _Step:
    """One operation on the way from the column to the whole expression: a function of one number, by pieces."""

    def __init__(
        self,
        inner: AttributeType,
        outer: AttributeType,
        compute: Callable[[Any], Number | None],
        pieces: Sequence[Range],
        inverse: Callable[[Any], Any] | None = None,
    ) -> None:
        self.inner, self.outer, self.pieces = inner, outer, pieces
        self._compute, self._inverse = compute, inverse

    def at(self, ordinal: int) -> int | None:
        """The ordinal of the result; None where there is none. Of exact types it may be beyond their limits."""
        value = self._compute(double_of(ordinal) if self.inner == DOUBLE else ordinal)
        if self.outer != DOUBLE:
            assert value is None or isinstance(value, int), "exact types have counts"
            return value
        return None if value is None or value != value else float_ordinal(value)

    def before(self, wanted: Range) -> list[Range]:
        """The ordinals whose results are in a range."""
        found: list[Range] = []
        near = self._near(wanted[0]), self._near(wanted[1])
        for first, last in self.pieces:
            low, high = self.at(first), self.at(last)
            if low is None or high is None:
                continue
            least, most = min(low, high), max(low, high)
            if least > wanted[1] or most < wanted[0]:
                continue
            begin, end = first, last
            if low <= high:
                if low < wanted[0]:
                    begin = _bisect(first, last, near[0], lambda at: self._order(at) >= wanted[0])
                if high > wanted[1]:
                    end = _bisect(first, last, near[1], lambda at: self._order(at) > wanted[1]) - 1
            else:
                if low > wanted[1]:
                    begin = _bisect(first, last, near[1], lambda at: self._order(at) <= wanted[1])
                if high < wanted[0]:
                    end = _bisect(first, last, near[0], lambda at: self._order(at) < wanted[0]) - 1
            if begin <= end:
                found.append((begin, end))
        return _joined(found)

    def _near(self, wanted: int) -> int | None:
        """About where a result is to be looked for; None where that is not known."""
        if self._inverse is None:
            return None
        try:
            value = self._inverse(double_of(wanted) if self.outer == DOUBLE else wanted)
            if self.inner != DOUBLE:
                return int(value)
            return None if value != value else float_ordinal(value)
        except (ArithmeticError, ValueError):
            return None

    def _order(self, ordinal: int) -> int:
        found = self.at(ordinal)
        assert found is not None, "within a piece every number has a result"
        return found


def _bisect(first: int, last: int, near: int | None, holds: Callable[[int], bool]) -> int:
    """The first place from `first` up to `last` from which on it holds; one more than `last` where it nowhere does."""
    low, high = first, last + 1
    if near is not None:
        below, above = near - _AROUND, near + _AROUND
        if first <= below and above <= last and holds(above) and not holds(below):
            low, high = below + 1, above
    while low < high:
        middle = (low + high) >> 1
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _joined(ranges: Sequence[Range]) -> list[Range]:
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def preimage(term: Term, wanted: Range | None) -> tuple[str, AttributeType, list[Range]] | None:
    """The column of a bound expression, its type, and the ranges of it for which the expression is in a range.

    None where the expression is none of one column with operations that are monotone by pieces.
    """
    steps = _steps(term)
    if steps is None:
        return None
    column, chain = steps
    assert isinstance(column.type, AttributeType), "strings have no steps"
    ranges = [] if wanted is None else [wanted]
    for step in chain:
        ranges = _joined([each for range_ in ranges for each in step.before(_clipped(range_, step.outer))])
    return column.value, column.type, ranges


def _clipped(wanted: Range, type_: AttributeType) -> Range:
    smallest, largest = type_.limits
    return max(wanted[0], smallest), min(wanted[1], largest)


def _steps(term: Term) -> tuple[Term, list[_Step]] | None:
    """The column, and the operations from the outermost inwards."""
    chain: list[_Step] = []
    while term.name != "column":
        found = _step(term)
        if found is None:
            return None
        term, step = found
        chain.append(step)
    return (term, chain) if term.type in (DOUBLE, BIGINT) or getattr(term.type, "kind", "") == "decimal" else None


def _step(term: Term) -> tuple[Term, _Step] | None:
    name, parts = term.name, term.parts
    if not isinstance(term.type, AttributeType) or not all(isinstance(part.type, AttributeType) for part in parts):
        return None
    if len(parts) == 1 and name in _FUNCTIONS:
        inner = parts[0].attribute
        compute = _function(name, inner, term.attribute)
        pieces = _halves(inner) if name == "abs" else _whole(inner)
        if name == "sqrt":
            pieces = [piece for piece in _halves(inner) if piece[0] >= 0] + _infinite(inner, (1,))
        elif name == "abs":
            pieces = [*pieces, *_infinite(inner, (-1, 1))]
        return parts[0], _Step(inner, term.attribute, compute, pieces, _INVERSES.get(name))
    if len(parts) == 2 and name in ("+", "-", "*", "/"):
        for place, (part, other) in enumerate((parts, parts[::-1])):
            if other.name == "constant" and part.name != "constant":
                return _arithmetic(term, part, other, constant_is_left=place == 1)
    return None


_INVERSES: dict[str, Callable[[Any], Any]] = {
    "negate": lambda y: -y,
    "floor": lambda y: y,
    "ceil": lambda y: y,
    "double": lambda y: y,
}
_FUNCTIONS = frozenset(["negate", "abs", "floor", "ceil", "round", "sqrt", "sign", "double"])


def _whole(type_: AttributeType) -> list[Range]:
    """All numbers of a type; of doubles the infinite ones are pieces of their own."""
    if type_ == DOUBLE:
        return [(-_INFINITY, -_INFINITY), (-_LARGEST, _LARGEST), (_INFINITY, _INFINITY)]
    return [type_.limits]


def _halves(type_: AttributeType) -> list[Range]:
    """The finite numbers below zero, and those from zero on."""
    smallest, largest = (-_LARGEST, _LARGEST) if type_ == DOUBLE else type_.limits
    return [(smallest, -1), (0, largest)]


def _infinite(type_: AttributeType, signs: Sequence[int]) -> list[Range]:
    return [(sign * _INFINITY, sign * _INFINITY) for sign in signs] if type_ == DOUBLE else []


def _as_double(count: Number, type_: AttributeType) -> float:
    """A number, of a type, as the evaluator makes a double of it."""
    if type_ == DOUBLE:
        return float(count)
    if type_.scale == 0:
        return float(count)
    return nearest_double(Fraction(int(count), 10**type_.scale))


def _function(name: str, inner: AttributeType, outer: AttributeType) -> Callable[[Any], Number | None]:
    if name == "sqrt":
        return lambda x: math.sqrt(_as_double(x, inner))
    if name == "double":
        return lambda x: _as_double(x, inner)
    if name == "negate":
        return lambda x: -x
    if name == "abs":
        return abs
    if name == "sign":
        return lambda x: float((x > 0) - (x < 0)) if outer == DOUBLE else int((x > 0) - (x < 0))
    if outer == DOUBLE:
        return lambda x: _rounded(name, x)
    unit = 10**inner.scale
    if name == "floor":
        return lambda x: x // unit
    if name == "ceil":
        return lambda x: -(-x // unit)
    return lambda x: (1 if x > 0 else -1) * ((abs(x) + unit // 2) // unit)


def _rounded(name: str, x: float) -> float:
    if math.isinf(x):
        return x
    if name == "round":
        whole = float(math.trunc(x))
        return whole + math.copysign(1.0, x) if abs(x - whole) >= 0.5 else whole
    return float(math.floor(x) if name == "floor" else math.ceil(x))


def _arithmetic(term: Term, part: Term, other: Term, *, constant_is_left: bool) -> tuple[Term, _Step] | None:
    inner, outer, name = part.attribute, term.attribute, term.name
    if outer == DOUBLE:
        c = nearest_double(other.value)
        if math.isinf(c):
            return None
        return _double_arithmetic(part, inner, name, c, constant_is_left=constant_is_left)
    constant = Fraction(other.value)
    if name == "*":
        factor = int(constant * 10 ** (outer.scale - inner.scale))
        return (part, _Step(inner, outer, lambda x: x * factor, _whole(inner), lambda y: y // factor))
    scale, own = 10 ** (outer.scale - inner.scale), int(constant * 10**outer.scale)
    room = _exact_room(inner, scale)
    if name == "+":
        return part, _Step(inner, outer, lambda x: x * scale + own, room, lambda y: (y - own) // scale)
    if constant_is_left:
        return part, _Step(inner, outer, lambda x: own - x * scale, room, lambda y: (own - y) // scale)
    return part, _Step(inner, outer, lambda x: x * scale - own, room, lambda y: (y + own) // scale)


def _exact_room(inner: AttributeType, scale: int) -> list[Range]:
    """The counts that int64 holds in the finer unit of a result."""
    smallest, largest = inner.limits
    if scale == 1:
        return [(smallest, largest)]
    most = (2**63 - 1) // scale
    return [(max(smallest, -most), min(largest, most))]


def _double_arithmetic(
    part: Term, inner: AttributeType, name: str, c: float, *, constant_is_left: bool
) -> tuple[Term, _Step] | None:
    pieces, unit = _whole(inner), 10**inner.scale if inner != DOUBLE else 1

    def step(compute: Callable[[float], float], inverse: Callable[[float], float]) -> tuple[Term, _Step]:
        if inner == DOUBLE:
            return part, _Step(inner, DOUBLE, compute, pieces, inverse)
        return part, _Step(
            inner, DOUBLE, lambda x: compute(_as_double(x, inner)), pieces, lambda y: math.floor(inverse(y) * unit)
        )

    if name == "+":
        return step(lambda x: x + c, lambda y: y - c)
    if name == "-" and constant_is_left:
        return step(lambda x: c - x, lambda y: c - y)
    if name == "-":
        return step(lambda x: x - c, lambda y: y + c)
    if name == "*":
        return step(lambda x: x * c, lambda y: y / c)
    if not constant_is_left:
        return step(lambda x: x / c, lambda y: y * c) if c else None
    (below, above) = _halves(inner)
    pieces = [below, (1, above[1]), *_infinite(inner, (-1, 1))]
    return step(lambda x: c / x, lambda y: c / y)
