"""Band conditions: a range for the difference of expressions over two streams, equal keys, conditions of one side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from sqlglot import exp

from fencepost.language import refusals
from fencepost.language.computing import Expression
from fencepost.language.condition import ColumnKind, Condition, Part, clash_of, never_holds
from fencepost.language.expression import Constant, Duration, Evaluate, combine, negated
from fencepost.language.operands import ARITHMETIC, COMPARISONS, FLIPPED, NEGATED, ColumnUse, Operands, parse_tree
from fencepost.language.shape import Values
from fencepost.language.sides import (
    EXPECTED,
    SIDES,
    Columns,
    Side,
    SideBuilder,
    SideKey,
    SideShape,
    Value,
    shown,
    value_of,
)
from fencepost.language.source import Place, RefusalError, Source

_DISTANCES = ("number", "date", "timestamp", "any")
"""Kinds of values that have a difference."""


@dataclass(frozen=True, slots=True)
class Band:
    """A parsed band condition, not yet bound to types: it holds for pairs of rows whose difference is in the ranges."""

    text: str
    left: Value
    """The column of the left stream, or an expression over columns of it."""
    right: Value
    ranges: tuple[Part, ...]
    """What left - right must lie in, all of them; the bounds are numbers or, between times, timedeltas."""
    same: tuple[tuple[Value, Value], ...]
    """Pairs of a left and a right column, or expression, that must be equal."""
    left_keys: tuple[tuple[str, str], ...]
    """Columns of the left stream and the strings they must equal."""
    right_keys: tuple[tuple[str, str], ...]
    left_where: Condition
    """What else rows of the left stream must meet, without boxes where that is nothing; every column is among its
    columns, those of the difference and of keys too."""
    right_where: Condition

    def with_kinds(self, kinds: Mapping[str, ColumnKind]) -> "Band":
        """The band with these kinds of columns whose kind it does not tell itself."""
        left, right = (
            replace(where, columns={name: _told(name, kind, kinds) for name, kind in where.columns.items()})
            for where in (self.left_where, self.right_where)
        )
        return replace(self, left_where=left, right_where=right)

    @property
    def left_columns(self) -> Mapping[str, ColumnKind]:
        """Every column of the left stream with its kind."""
        return self.left_where.columns

    @property
    def right_columns(self) -> Mapping[str, ColumnKind]:
        """Likewise of the right one."""
        return self.right_where.columns


def _told(name: str, kind: ColumnKind, kinds: Mapping[str, ColumnKind]) -> ColumnKind:
    return kinds.get(name, kind) if kind == "any" else kind


class _Linear(NamedTuple):
    """A sum of columns and expressions, each of one side and plus or minus, and a constant."""

    terms: tuple[tuple[int, Side, ColumnUse | Expression], ...]
    constant: Constant | None
    place: Place


class _Difference(NamedTuple):
    """A range for left - right; the kind is None where only the order of the two is compared."""

    left: ColumnUse | Expression
    right: ColumnUse | Expression
    kind: ColumnKind | None
    lower: Evaluate | None
    upper: Evaluate | None
    closed: bool
    place: Place


def names_sides(source: Source) -> bool:
    """Whether a condition mentions `left.` or `right.` and so is a band."""
    return "." in source.text and any(
        after.text == "." and token.text.lower() in ("left", "right") for token, after in pairwise(source.tokens)
    )


@dataclass(frozen=True, slots=True)
class BandShape:
    """A band without its constants, compiled."""

    kind: ColumnKind
    differences: tuple[_Difference, ...]
    same: tuple[tuple[ColumnUse | Expression, ColumnUse | Expression], ...]
    same_kinds: tuple[ColumnKind, ...]
    keys: tuple[SideKey, ...]
    sides: tuple[SideShape, SideShape]
    is_reusable: bool

    def fill(self, text: str, values: Values) -> Band:
        """The band that these constants make."""
        first = self.differences[0]
        left, right = value_of(first.left, values), value_of(first.right, values)
        ranges: tuple[Part, ...] = ()
        for difference in self.differences:
            if (value_of(difference.left, values), value_of(difference.right, values)) != (left, right):
                raise RefusalError(
                    [first.place, difference.place],
                    "are two differences",
                    EXPECTED,
                    "Compute one of the two into a key, or filter the pairs afterwards.",
                )
            part = self._range(difference, f"{shown('left', left)} - {shown('right', right)}", values)
            if clash := clash_of((part,), (*ranges, part)):
                raise never_holds(clash)
            ranges += (part,)
        same = tuple((value_of(one, values), value_of(other, values)) for one, other in self.same)
        keys = self._keys(values)
        wheres = []
        for side, shape, value, place in zip(SIDES, self.sides, (left, right), (0, 1), strict=True):
            own = [key for key in self.keys if key.side == side]
            where = shape.fill(text, values, own)
            columns: dict[str, ColumnKind] = {value: self.kind} if isinstance(value, str) else {}
            columns |= dict.fromkeys(keys[side], "key")
            for name, kind in where.columns.items():
                known = columns.setdefault(name, kind)
                if known == "any":
                    columns[name] = kind
            for pair, kind in zip(same, self.same_kinds, strict=True):
                if isinstance(equal := pair[place], str):
                    columns.setdefault(equal, kind)
            wheres.append(Condition(text, where.boxes, columns, where.dropped, where.alike))
        left_keys, right_keys = tuple(keys["left"].items()), tuple(keys["right"].items())
        return Band(text, left, right, ranges, tuple(dict.fromkeys(same)), left_keys, right_keys, *wheres)

    def _range(self, difference: _Difference, column: str, values: Values) -> Part:
        _, _, _, lower, upper, closed, place = difference
        low = None if lower is None else _distance(lower(values), self.kind, place)
        high = None if upper is None else _distance(upper(values), self.kind, place)
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
            EXPECTED,
            "Write left.x - right.x = 0 where two numbers are to be equal.",
        )
    return builder.finished()


class _BandBuilder:
    """Collects the differences, keys and conditions of one side that a band condition joins by AND."""

    def __init__(self, source: Source) -> None:
        self.operands = Operands(source)
        self._columns = Columns(source)
        self._builders: dict[Side, SideBuilder] = {side: SideBuilder(source, side) for side in SIDES}
        self.differences: list[_Difference] = []
        self._same: list[tuple[ColumnUse | Expression, ColumnUse | Expression]] = []
        self._same_kinds: list[ColumnKind] = []
        self._keys: list[SideKey] = []

    def finished(self) -> BandShape:
        """All that was added."""
        kind: ColumnKind | None = None
        for each in self.differences:
            kinds = [each.kind, *(part.kind for part in (each.left, each.right) if isinstance(part, Expression))]
            for found in kinds:
                if found is None or found == "any":
                    continue
                found = "timestamp" if found == "date" else found
                if found not in _DISTANCES:
                    raise RefusalError(
                        [each.place],
                        "is no difference of numbers or times",
                        EXPECTED,
                        "Write LOWER(left.name) = LOWER(right.name) where strings are to be equal.",
                    )
                if kind and found != kind:
                    raise refusals.mixed_kinds("the difference", each.place, kind, found)
                kind = found
        for each in self.differences:
            for side, part in zip(SIDES, (each.left, each.right), strict=True):
                if isinstance(part, Expression):
                    self._demand(side, part, kind or "number", each.place)
        names = [builder.expressions for builder in self._builders.values()]
        left, right = (builder.finished() for builder in self._builders.values())
        return BandShape(
            kind or "number",
            tuple(self.differences),
            tuple(self._same),
            tuple(self._same_kinds),
            tuple(self._keys),
            (left, right),
            self.operands.all_names_are_filled(*names),
        )

    def add(self, node: exp.Expression, *, negate: bool) -> None:
        """Takes over one condition, or the conditions that it joins."""
        while isinstance(node, (exp.Paren, exp.Not)):
            negate ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.Or if negate else exp.And):
            self.add(node.this, negate=negate)
            self.add(node.expression, negate=negate)
            return
        sides = self._columns.sides(node)
        if len(sides) == 1:
            self._add_side(next(iter(sides)), node, negate)
        elif isinstance(node, (exp.And, exp.Or)):
            raise RefusalError(
                [self.operands.place_of(node)],
                "is an OR across both sides" if isinstance(node, exp.Or) else "is a negated AND across both sides",
                EXPECTED,
                "Write a band for each part.",
            )
        else:
            self._add_pair(node, negate)

    def _add_side(self, side: Side, node: exp.Expression, negate: bool) -> None:
        """A condition on rows of one side; a column that is one string is a key."""
        key = None if negate else self._key_of(side, node)
        if key is None:
            self._builders[side].add(node, negate=negate)
        else:
            self._keys.append(key)

    def _key_of(self, side: Side, node: exp.Expression) -> SideKey | None:
        one, other = node.this, None
        if isinstance(node, exp.EQ):
            other = node.expression
        elif isinstance(node, exp.In) and len(node.expressions) == 1:
            (other,) = node.expressions
        if other is None:
            return None
        one, other = _bare(one), _bare(other)
        if isinstance(other, exp.Column):
            one, other = other, one
        if not isinstance(one, exp.Column) or not isinstance(other, exp.Literal):
            return None
        constant, column = self.operands.read(other), self._builders[side].expressions.read(one)
        if not isinstance(constant, Constant) or constant.kind != "key":
            return None
        return SideKey(side, column.name, constant.evaluate, self.operands.place_of(node))

    def _add_pair(self, node: exp.Expression, negate: bool) -> None:
        """A condition that concerns both sides."""
        if symbol := COMPARISONS.get(type(node)):
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
        elif isinstance(node, exp.In):
            raise self._several_ranges(node)
        elif isinstance(node, exp.Column):
            raise RefusalError([self.operands.place_of(node)], "is no condition on a row", EXPECTED, "Leave it out.")
        elif isinstance(node, (exp.Like, exp.ILike, exp.StartsWith)):
            raise refusals.pattern(self.operands.place_of(node))
        else:
            raise refusals.predicate(node, self.operands.place_of(node), negate=negate)

    def _compare(self, symbol: str, left: exp.Expression, right: exp.Expression, node: exp.Expression) -> None:
        place = self.operands.place_of(node)
        left, right = _bare(left), _bare(right)
        if self._is_distance(right):
            left, right, symbol = right, left, FLIPPED[symbol]
        if self._is_distance(left):
            return self._add_distance(symbol, self._linear(left.this), self._linear(right), place)
        one, other = self._linear(left), self._linear(right)
        if symbol == "=" and not one.constant and not other.constant:
            sides = [frozenset(side for _, side, _ in each.terms) for each in (one, other)]
            if len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]:
                return self._add_same(one, other)
        if symbol == "<>":
            raise self._several_ranges(node)
        return self._add_difference(symbol, one, other, place)

    def _is_distance(self, node: exp.Expression) -> bool:
        """Whether it is ABS of a difference of both sides."""
        return isinstance(node, exp.Abs) and len(self._columns.sides(node)) == 2

    def _add_same(self, one: _Linear, other: _Linear) -> None:
        """Expressions of both sides that must be equal."""
        if one.terms[0][1] == "right":
            one, other = other, one
        pair = []
        for side, linear in zip(SIDES, (one, other), strict=True):
            terms = [(sign, part) for sign, _, part in linear.terms]
            pair.append(self._builders[side].expressions.total(terms, linear.place))
        kinds = [part.kind for part in pair if isinstance(part, Expression) and part.kind != "any"]
        kind: ColumnKind = kinds[0] if kinds else "key"
        for side, part in zip(SIDES, pair, strict=True):
            if isinstance(part, Expression):
                self._demand(side, part, kind, part.place)
        self._same.append((pair[0], pair[1]))
        self._same_kinds.append(kind)

    def _demand(self, side: Side, part: Expression, kind: ColumnKind, place: Place) -> None:
        self._builders[side].expressions.demand(part, kind, place)  # type: ignore[arg-type]

    def _add_difference(self, symbol: str, one: _Linear, other: _Linear, place: Place) -> None:
        terms = (*one.terms, *((-sign, side, part) for sign, side, part in other.terms))
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
                EXPECTED,
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

    def _linear(self, node: exp.Expression) -> _Linear:
        """A sum with its constant apart, which is computed with exactly."""
        node = _bare(node)
        place, sides = self.operands.place_of(node), self._columns.sides(node)
        if not sides:
            operand = self.operands.read(node)
            assert isinstance(operand, Constant), "a column names its side"
            return _Linear((), operand, operand.place)
        if isinstance(node, exp.Neg):
            inner = self._linear(node.this)
            constant = inner.constant and negated(inner.constant)
            return _Linear(tuple((-sign, side, part) for sign, side, part in inner.terms), constant, place)
        symbol = ARITHMETIC.get(type(node))
        if symbol is None or symbol not in "+-":
            if len(sides) > 1:
                remedy = "Write what concerns one side each, and subtract the two."
                if symbol == "/":
                    remedy = "Write left.price > right.price * 1.05 for left.price / right.price > 1.05."
                raise RefusalError([place], "computes with both sides", EXPECTED, remedy)
            (side,) = sides
            part = self._builders[side].expressions.read(node)
            return _Linear(((1, side, part),), None, part.place)
        one, other = self._linear(node.this), self._linear(node.expression)
        sign = 1 if symbol == "+" else -1
        terms = (*one.terms, *((sign * each, side, part) for each, side, part in other.terms))
        if one.constant and other.constant:
            return _Linear(terms, combine(symbol, one.constant, other.constant), place)
        second = other.constant and (negated(other.constant) if sign < 0 else other.constant)
        return _Linear(terms, one.constant or second, place)

    def _sides(
        self, terms: Sequence[tuple[int, Side, ColumnUse | Expression]], place: Place
    ) -> tuple[ColumnUse | Expression, ColumnUse | Expression, int]:
        """What is left and what is right in a difference, and the sign of the whole."""
        signs = [sign for sign, side, _ in terms if side == "left"]
        if not signs or len(signs) == len(terms):
            raise RefusalError(
                [place],
                "is no difference of a left and a right expression",
                EXPECTED,
                "Write for example left.price - right.price BETWEEN -1 AND 1.",
            )
        whole = signs[0]
        found = []
        for name, factor in zip(SIDES, (whole, -whole), strict=True):
            own = [(factor * sign, part) for sign, side, part in terms if side == name]
            found.append(self._builders[name].expressions.total(own, place))
        return found[0], found[1], whole

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
            EXPECTED,
            "Write one rule for each range.",
        )


def _bare(node: exp.Expression) -> exp.Expression:
    """What stands in parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


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
