"""Band conditions: a range for the difference of a column of each of two streams, and equal keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from sqlglot import exp

from fencepost.language import refusals
from fencepost.language.computing import COMPUTED_NODES
from fencepost.language.condition import ColumnKind, Part, clash_of, never_holds
from fencepost.language.expression import Constant, Duration, Evaluate, combine, negated
from fencepost.language.operands import ARITHMETIC, COMPARISONS, FLIPPED, NEGATED, ColumnUse, Operands, parse_tree
from fencepost.language.shape import Values
from fencepost.language.source import Place, RefusalError, Source

Side = Literal["left", "right"]
_OF_ONE_SIDE = (*COMPUTED_NODES, exp.Cast, exp.AtTimeZone)
_EXPECTED = "one difference of a left and a right column compared with constants, and keys joined by AND"


@dataclass(frozen=True, slots=True)
class Band:
    """A parsed band condition, not yet bound to types: it holds for pairs of rows whose difference is in the ranges."""

    text: str
    left: str
    """The column of the left stream."""
    right: str
    ranges: tuple[Part, ...]
    """What left - right must lie in, all of them; the bounds are numbers or, between times, timedeltas."""
    same: tuple[tuple[str, str], ...]
    """Pairs of a left and a right column that must be equal."""
    left_keys: tuple[tuple[str, str], ...]
    """Columns of the left stream and the strings they must equal."""
    right_keys: tuple[tuple[str, str], ...]
    left_columns: Mapping[str, ColumnKind]
    """Every column of the left stream with its kind."""
    right_columns: Mapping[str, ColumnKind]


class _Linear(NamedTuple):
    """A sum of columns, each plus or minus, and a constant."""

    terms: tuple[tuple[int, ColumnUse], ...]
    constant: Constant | None
    place: Place


class _Difference(NamedTuple):
    """A range for left - right; the kind is None where only the order of the two is compared."""

    left: str
    right: str
    kind: ColumnKind | None
    lower: Evaluate | None
    upper: Evaluate | None
    closed: bool
    place: Place


class _SideKey(NamedTuple):
    side: Side
    column: str
    value: Evaluate
    place: Place


def names_sides(source: Source) -> bool:
    """Whether a condition mentions `left.` or `right.` and so is a band."""
    return "." in source.text and any(
        after.text == "." and token.text.lower() in ("left", "right") for token, after in pairwise(source.tokens)
    )


@dataclass(frozen=True, slots=True)
class BandShape:
    """A band without its constants, compiled."""

    left: str
    right: str
    kind: ColumnKind
    ranges: tuple[_Difference, ...]
    same: tuple[tuple[str, str], ...]
    keys: tuple[_SideKey, ...]
    is_reusable: bool

    def fill(self, text: str, values: Values) -> Band:
        """The band that these constants make."""
        ranges: tuple[Part, ...] = ()
        for difference in self.ranges:
            part = self._range(difference, values)
            if clash := clash_of((part,), (*ranges, part)):
                raise never_holds(clash)
            ranges += (part,)
        keys = self._keys(values)
        left: dict[str, ColumnKind] = {self.left: self.kind, **dict.fromkeys(keys["left"], "key")}
        right: dict[str, ColumnKind] = {self.right: self.kind, **dict.fromkeys(keys["right"], "key")}
        for one, other in self.same:
            left.setdefault(one, "key")
            right.setdefault(other, "key")
        left_keys, right_keys = tuple(keys["left"].items()), tuple(keys["right"].items())
        return Band(text, self.left, self.right, ranges, self.same, left_keys, right_keys, left, right)

    def _range(self, difference: _Difference, values: Values) -> Part:
        left, right, _, lower, upper, closed, place = difference
        low = None if lower is None else _distance(lower(values), self.kind, place)
        high = None if upper is None else _distance(upper(values), self.kind, place)
        column = f"left.{left} - right.{right}"
        return Part(column, low, high, closed and low is not None, closed and high is not None, place)

    def _keys(self, values: Values) -> dict[Side, dict[str, str]]:
        found: dict[Side, dict[str, str]] = {"left": {}, "right": {}}
        places: dict[tuple[Side, str], Place] = {}
        for key in self.keys:
            value = key.value(values)
            if found[key.side].setdefault(key.column, value) != value:
                raise never_holds((places[key.side, key.column], key.place))
            places.setdefault((key.side, key.column), key.place)
        return found


def compile_band(source: Source) -> BandShape:
    """The shape of a band condition."""
    builder = _BandBuilder(source)
    builder.add(parse_tree(source), negate=False)
    if not builder.differences:
        raise RefusalError(
            [source.everything],
            "has no difference",
            _EXPECTED,
            "Write left.x - right.x = 0 where two numbers are to be equal.",
        )
    first = builder.differences[0]
    kind: ColumnKind | None = None
    for each in builder.differences:
        if (each.left, each.right) != (first.left, first.right):
            raise RefusalError(
                [first.place, each.place],
                "are two differences",
                _EXPECTED,
                "Compute one of the two into a key, or filter the pairs afterwards.",
            )
        if each.kind and kind and each.kind != kind:
            raise refusals.mixed_kinds("the difference", each.place, kind, each.kind)
        kind = kind or each.kind
    return BandShape(
        first.left,
        first.right,
        kind or "number",
        tuple(builder.differences),
        tuple(dict.fromkeys(builder.same)),
        tuple(builder.keys),
        builder.operands.all_names_are_filled(),
    )


class _BandBuilder:
    """Collects the differences and keys that a band condition joins by AND."""

    def __init__(self, source: Source) -> None:
        self.operands = Operands(source)
        self.differences: list[_Difference] = []
        self.same: list[tuple[str, str]] = []
        self.keys: list[_SideKey] = []

    def add(self, node: exp.Expression, *, negate: bool) -> None:
        """Takes over one condition, or the conditions that it joins."""
        while isinstance(node, (exp.Paren, exp.Not)):
            negate ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.Or if negate else exp.And):
            self.add(node.this, negate=negate)
            self.add(node.expression, negate=negate)
        elif isinstance(node, (exp.And, exp.Or)):
            raise self._several_ranges(node)
        elif symbol := COMPARISONS.get(type(node)):
            self._compare(NEGATED[symbol] if negate else symbol, node.this, node.expression, node)
        elif isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise refusals.symmetric(self.operands.place_of(node))
            if negate:
                raise self._several_ranges(node)
            self._compare(">=", node.this, node.args["low"], node)
            self._compare("<=", node.this, node.args["high"], node)
        elif isinstance(node, exp.In) and len(node.expressions) == 1:
            self._compare("<>" if negate else "=", node.this, node.expressions[0], node)
        elif isinstance(node, (exp.In, exp.Column)):
            raise self._several_ranges(node)
        elif isinstance(node, (exp.Like, exp.ILike, exp.StartsWith)):
            raise RefusalError(
                [self.operands.place_of(node)],
                "is a pattern on one side of a band",
                _EXPECTED,
                "Filter that stream before it reaches the band, or compute whether it matches into a key: "
                "left.matches = 'yes'.",
            )
        else:
            raise refusals.predicate(node, self.operands.place_of(node))

    def _compare(self, symbol: str, left: exp.Expression, right: exp.Expression, node: exp.Expression) -> None:
        place = self.operands.place_of(node)
        if isinstance(right, exp.Abs):
            left, right, symbol = right, left, FLIPPED[symbol]
        if isinstance(left, exp.Abs):
            return self._add_distance(symbol, self._linear(left.this), self._linear(right), place)
        one, other = self._linear(left), self._linear(right)
        tables = [(sign, column.table) for sign, column in (*one.terms, *other.terms)]
        if len(tables) == 1:
            return self._add_key(symbol, one, other, place)
        if symbol == "=" and not one.constant and not other.constant and sorted(tables) == [(1, "left"), (1, "right")]:
            (_, first), (_, second) = (*one.terms, *other.terms)
            self.same.append((first.name, second.name) if first.table == "left" else (second.name, first.name))
            return None
        if symbol == "<>":
            raise self._several_ranges(node)
        return self._add_difference(symbol, one, other, place)

    def _add_difference(self, symbol: str, one: _Linear, other: _Linear, place: Place) -> None:
        terms = (*one.terms, *((-sign, column) for sign, column in other.terms))
        left, right, sign = self._sides(terms, place)
        bound = _minus(other.constant, one.constant)
        if bound is not None and sign < 0:
            bound = negated(bound)
        if sign < 0:
            symbol = FLIPPED[symbol]
        kind = None if bound is None else self._kind(bound, place)
        evaluate: Evaluate = _nothing if bound is None else bound.evaluate
        lower = evaluate if symbol in (">", ">=", "=") else None
        upper = evaluate if symbol in ("<", "<=", "=") else None
        closed = symbol in (">=", "<=", "=")
        self.differences.append(_Difference(left, right, kind, lower, upper, closed, place))

    def _add_distance(self, symbol: str, inner: _Linear, outer: _Linear, place: Place) -> None:
        """ABS(left.x - right.x + c) <= d is the range from -d - c to d - c, whichever side comes first."""
        left, right, sign = self._sides(inner.terms, place)
        if outer.terms or outer.constant is None or symbol not in ("<", "<="):
            raise RefusalError(
                [place],
                "is no single range of the difference",
                _EXPECTED,
                "Write ABS(left.x - right.x) <= 5, or for what lies outside a rule on each side of it.",
            )
        lower, upper = _minus(negated(outer.constant), inner.constant), _minus(outer.constant, inner.constant)
        assert lower is not None
        assert upper is not None
        if sign < 0:
            lower, upper = negated(upper), negated(lower)
        kind = self._kind(outer.constant, place)
        closed = symbol == "<="
        self.differences.append(_Difference(left, right, kind, lower.evaluate, upper.evaluate, closed, place))

    def _add_key(self, symbol: str, one: _Linear, other: _Linear, place: Place) -> None:
        constant = one.constant or other.constant
        ((sign, column),) = (*one.terms, *other.terms)
        if constant is None or constant.kind != "key" or sign < 0 or symbol != "=":
            if constant is not None and constant.kind == "key" and symbol == "<>":
                raise refusals.negated_key(place)
            raise RefusalError(
                [place],
                "is a range on one side of a band",
                _EXPECTED,
                f"Filter the {column.table} stream before it reaches the band.",
            )
        side: Side = "left" if column.table == "left" else "right"
        self.keys.append(_SideKey(side, column.name, constant.evaluate, place))

    def _linear(self, node: exp.Expression) -> _Linear:
        while isinstance(node, exp.Paren):
            node = node.this
        place = self.operands.place_of(node)
        if isinstance(node, exp.Neg):
            inner = self._linear(node.this)
            constant = inner.constant and negated(inner.constant)
            return _Linear(tuple((-sign, column) for sign, column in inner.terms), constant, place)
        symbol = ARITHMETIC.get(type(node))
        if symbol is None:
            if isinstance(node, _OF_ONE_SIDE) and node.find(exp.Column):
                raise RefusalError(
                    [place],
                    "is computed of a column",
                    _EXPECTED,
                    "Compute it into a column of its stream, and name that column here.",
                )
            operand = self.operands.read(node)
            if isinstance(operand, Constant):
                return _Linear((), operand, operand.place)
            if operand.table not in ("left", "right"):
                raise RefusalError(
                    [operand.place],
                    "names no side",
                    _EXPECTED,
                    f"Write left.{operand.name} or right.{operand.name}.",
                )
            return _Linear(((1, operand),), None, operand.place)
        one, other = self._linear(node.this), self._linear(node.expression)
        if not one.terms and not other.terms and one.constant and other.constant:
            return _Linear((), combine(symbol, one.constant, other.constant), place)
        if symbol not in "+-":
            raise RefusalError(
                [place],
                "is a multiple of a column",
                _EXPECTED,
                "Compute it into a column of the data and compare that column.",
            )
        sign = 1 if symbol == "+" else -1
        terms = (*one.terms, *((sign * each, column) for each, column in other.terms))
        if one.constant and other.constant:
            return _Linear(terms, combine(symbol, one.constant, other.constant), place)
        second = other.constant and (negated(other.constant) if sign < 0 else other.constant)
        return _Linear(terms, one.constant or second, place)

    def _sides(self, terms: Sequence[tuple[int, ColumnUse]], place: Place) -> tuple[str, str, int]:
        """The left and the right column, and the sign of the left one."""
        by_side = {column.table: (sign, column.name) for sign, column in terms}
        if len(terms) != 2 or len(by_side) != 2 or by_side["left"][0] != -by_side["right"][0]:
            raise RefusalError(
                [place],
                "is no difference of a left and a right column",
                _EXPECTED,
                "Write for example left.price - right.price BETWEEN -1 AND 1.",
            )
        return by_side["left"][1], by_side["right"][1], by_side["left"][0]

    def _kind(self, bound: Constant, place: Place) -> ColumnKind:
        """What the columns must be for this bound to be their difference."""
        if bound.kind == "number":
            return "number"
        if bound.kind == "interval":
            return "timestamp"
        raise refusals.different_kinds(place, "column", bound.kind)

    def _several_ranges(self, node: exp.Expression) -> RefusalError:
        return RefusalError(
            [self.operands.place_of(node)],
            "is no single range of a difference",
            _EXPECTED,
            "Write one rule for each range.",
        )


def _nothing(values: Values) -> int:  # noqa: ARG001 (as every Evaluate)
    return 0


def _minus(one: Constant | None, other: Constant | None) -> Constant | None:
    """The difference of two constants, where None is nothing."""
    if other is None:
        return one
    return negated(other) if one is None else combine("-", one, other)


def _distance(bound: Any, kind: ColumnKind, place: Place) -> Any:
    if not isinstance(bound, Duration):
        return timedelta(0) if kind == "timestamp" else bound  # the nothing of left.ts <= right.ts
    if bound.months:
        raise RefusalError(
            [place],
            "is a distance in months, which differ in length",
            "a distance in weeks, days or shorter units",
            "Write INTERVAL '30' DAY for a month.",
        )
    try:
        return timedelta(microseconds=bound.microseconds)
    except OverflowError:
        raise RefusalError(
            [place], "is a distance beyond every timestamp", "at most some thousand years", "Leave the bound out."
        ) from None
