"""Expressions over columns, compiled: functions of a condition's constants and names that make terms."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from fencepost.computed.terms import Term, column, constant
from fencepost.computed.times import UNITS
from fencepost.errors import FencepostError
from fencepost.language import refusals
from fencepost.language.condition import ColumnKind, Use
from fencepost.language.expression import AnyConstant, Constant, ConstantKind, Evaluate
from fencepost.language.operands import ARITHMETIC, FLIPPED, ColumnUse, Operands
from fencepost.language.shape import Values
from fencepost.language.source import Place, Source
from fencepost.ordinals.scalars import nearest_double
from fencepost.ordinals.zones import check_zone, zone_name


class Expression(NamedTuple):
    """An expression with a column in it: the term that it is, and the kind of its values."""

    kind: ColumnKind
    """`any` where that is up to its columns, which are `open`."""
    evaluate: Evaluate
    place: Place
    open: tuple[ColumnUse, ...] = ()


Operand = Constant | ColumnUse | Expression

_OF_NUMBERS: dict[type[exp.Expression], str] = {
    exp.Abs: "abs",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Round: "round",
    exp.Sqrt: "sqrt",
    exp.Sign: "sign",
}
_OF_STRINGS: dict[type[exp.Expression], str] = {
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Trim: "trim",
    exp.Length: "length",
}
_CHOICES: dict[type[exp.Expression], str] = {
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Coalesce: "coalesce",
    exp.Nullif: "nullif",
}
_FIELDS: dict[type[exp.Expression], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfWeek: "DAYOFWEEK",
    exp.DayOfWeekIso: "DAYOFWEEK_ISO",
    exp.DayOfYear: "DAYOFYEAR",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
    exp.Second: "SECOND",
}


COMPUTED_NODES = (*_OF_NUMBERS, *_OF_STRINGS, *_CHOICES, *_FIELDS, exp.Extract, exp.Substring, exp.Left)
"""The functions that conditions on one stream take."""
_LONGEST_STRING = 2**31
"""Characters that a part of a string begins and ends within: no string is longer."""


class Expressions(Operands):
    """Reads what stands left and right of a comparison: constants, columns, and expressions over columns."""

    takes_tests = True

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.uses: list[Use] = []
        self.alike: list[tuple[Evaluate, ...]] = []
        """Columns that are compared with each other, whose kind nothing tells."""
        self._known: dict[int, tuple[exp.Expression, Operand]] = {}
        """What nodes were read as, by identity: an operation reads its parts more than once, and so would theirs."""

    def demand(self, operand: Operand, kind: ConstantKind, place: Place) -> None:
        """Note what kind of values an operand must have; refuse one that has another kind."""
        if isinstance(operand, ColumnUse):
            if operand.table:
                raise refusals.qualified(operand.name, place)
            if kind == "interval":
                raise refusals.different_kinds(place, "column", "interval")
            self.uses.append(Use(operand.evaluate, kind, place))
        elif operand.kind == "any":
            assert isinstance(operand, Expression), "constants have a kind"
            for each in operand.open:
                self.demand(each, kind, place)
        elif kind != operand.kind and {kind, operand.kind} != {"date", "timestamp"}:
            raise refusals.different_kinds(place, operand.kind, kind)

    def call(self, name: str, operand: ColumnUse | Expression, place: Place, value: Any = None) -> Expression:
        """A function of one expression, whose kind is demanded already."""
        read = self._term(operand)
        kind: ColumnKind = "boolean" if name == "is null" else "key"
        if name == "is null" and _kind_of(operand) == "any":
            for each in [operand] if isinstance(operand, ColumnUse) else operand.open:
                self.uses.append(Use(each.evaluate, "any", place))
        return Expression(kind, lambda values: Term(name, (read(values),), value), place)

    def compared(self, name: str, left: Operand, right: Operand, place: Place) -> Expression:
        """`=` or `<` between two expressions."""
        self._agree([left, right], place)
        return self.computed(name, [left, right], "boolean", place)

    def refuse_double_quotes(self, symbol: str, left: Operand, right: Operand, place: Place) -> None:
        """Refuse what most likely is a string in double quotes: it is compared with a string, or is equal to a column.

        The order of two columns is left alone: there a name in double quotes is as likely a column.
        """
        for one, other, seen in ((left, right, symbol), (right, left, FLIPPED[symbol])):
            kind = _kind_of(one)
            is_asked = kind == "key" or (kind == "any" and symbol in ("=", "<>"))
            if is_asked and self.is_double_quoted(other):
                assert isinstance(other, ColumnUse), "only columns are in double quotes"
                raise refusals.two_columns(self.source.quote(one.place), seen, other.name, place)

    def is_double_quoted(self, operand: Operand) -> bool:
        """Whether it is a column in double quotes, which other SQL takes for a string; not one in backticks."""
        return isinstance(operand, ColumnUse) and self.source.tokens[operand.place[1]].text.startswith('"')

    def read(self, node: exp.Expression) -> Operand:  # type: ignore[override]
        """The constant, column or expression that it is; refuses everything else."""
        if id(node) not in self._known:
            self._known[id(node)] = node, self._read(node)
        return self._known[id(node)][1]

    def _read(self, node: exp.Expression) -> Operand:
        kind = type(node)
        if kind is exp.Paren:
            return self.read(node.this)
        if kind is exp.Neg or kind in ARITHMETIC:
            return self._arithmetic(node)
        if kind in _OF_NUMBERS:
            return self._of_number(node)
        if kind in _OF_STRINGS or kind in (exp.Substring, exp.Left):
            return self._of_string(node)
        if kind in _CHOICES:
            return self._choice(node)
        if kind in _FIELDS or kind is exp.Extract:
            return self._field(node)
        if kind is exp.AtTimeZone:
            return self._at_zone(node)
        if kind is exp.Cast:
            return self._cast_any(node)
        return super().read(node)

    # -- operations ---------------------------------------------------------------------------------------

    def _arithmetic(self, node: exp.Expression) -> Operand:
        parts = [self.read(node.this)]
        if type(node) is not exp.Neg:
            parts.append(self.read(node.expression))
        if all(isinstance(part, Constant) for part in parts):
            return super().read(node)
        place = self.place_of(node)
        for part in parts:
            if part.__class__ is Constant and part.kind in ("interval", "date", "timestamp"):
                raise refusals.time_arithmetic(place)
            self.demand(part, "number", place)
        return self.computed(ARITHMETIC.get(type(node), "negate"), parts, "number", place)

    def _of_number(self, node: exp.Expression) -> Operand:
        name, place = _OF_NUMBERS[type(node)], self.place_of(node)
        if any(node.args.get(each) is not None for each in ("decimals", "to", "truncate")):
            raise refusals.digits(name.upper(), place)
        part = self.read(node.this)
        self.demand(part, "number", place)
        return self.computed(name, [part], "number", place)

    def _of_string(self, node: exp.Expression) -> Operand:
        place = self.place_of(node)
        part = self.read(node.this)
        self.demand(part, "key", place)
        if isinstance(part, Constant):
            raise refusals.constants(place)
        if type(node) in _OF_STRINGS:
            if (
                type(node) is exp.Trim
                and set(node.args) - {"this"}
                and any(each is not None and name != "this" for name, each in node.args.items())
            ):
                raise refusals.operand(node, place)
            name = _OF_STRINGS[type(node)]
            return self.call(name, part, place)._replace(kind="number" if name == "length" else "key")
        read, given = self._term(part), (node.args.get("start"), node.args.get("length"))
        if type(node) is exp.Left:
            given = (None, node.expression)
        if any(each is not None and isinstance(self.read(each), (ColumnUse, Expression)) for each in given):
            raise refusals.substring(place)
        numbers = [None if each is None else self._constant(each, node) for each in given]
        for each in numbers:
            if each is not None and each.kind != "number":
                raise refusals.substring(place)

        def evaluate(values: Values) -> Term:
            start, length = (None if each is None else each.evaluate(values) for each in numbers)
            start = 1 if start is None else start
            if not isinstance(start, int) or not (length is None or (isinstance(length, int) and length >= 0)):
                raise refusals.substring(place)
            if not 1 <= start <= _LONGEST_STRING:
                raise refusals.substring(place)
            return Term("substr", (read(values),), (start, None if length is None else min(length, _LONGEST_STRING)))

        return Expression("key", evaluate, place)

    def _choice(self, node: exp.Expression) -> Operand:
        place, name = self.place_of(node), _CHOICES[type(node)]
        others = [node.expression] if name == "nullif" else node.expressions
        parts = [self.read(each) for each in (node.this, *others)]
        if all(isinstance(part, Constant) for part in parts):
            raise refusals.constants(place)
        kind = self._agree(parts, place)
        left_open = tuple(use for part in parts for use in _open_of(part)) if kind == "any" else ()
        return self.computed(name, parts, kind, place)._replace(open=left_open)

    def _field(self, node: exp.Expression) -> Operand:
        place = self.place_of(node)
        if type(node) is exp.Extract:
            unit, inner = UNITS.get(node.this.name.upper()), node.expression
        else:
            unit, inner = _FIELDS[type(node)], node.this
        if unit is None:
            raise refusals.field(place, sorted(UNITS))
        part = self.read(inner)
        self.demand(part, "timestamp", place)
        if isinstance(part, Constant):
            raise refusals.constants(place)
        read = self._term(part)
        return Expression("number", lambda values: Term("field", (read(values),), (unit, _own_zone(values))), place)

    def _at_zone(self, node: exp.Expression) -> Operand:
        place = self.place_of(node)
        part, zone = self.read(node.this), self.read(node.args["zone"])
        self.demand(part, "timestamp", place)
        if isinstance(part, Constant) or not isinstance(zone, Constant) or zone.kind != "key":
            raise refusals.operand(node, place)
        read, name = self._term(part), zone.evaluate

        def evaluate(values: Values) -> Term:
            try:
                return Term("at zone", (read(values),), check_zone(name(values)))
            except FencepostError as error:
                raise refusals.zone(zone.place, error) from None

        return Expression("timestamp", evaluate, place)

    def _cast_any(self, node: exp.Expression) -> Operand:
        part = self.read(node.this)
        if isinstance(part, Constant):
            return super().read(node)
        place = self.place_of(node)
        if getattr(node.args["to"].this, "name", "") != "DOUBLE":
            raise refusals.operand(node, place)
        self.demand(part, "number", place)
        return self.computed("double", [part], "number", place)

    # -- terms --------------------------------------------------------------------------------------------

    def computed(self, name: str, parts: Sequence[Operand], kind: ColumnKind, place: Place) -> Expression:
        """An operation on operands, whose kinds are demanded already."""
        reads = tuple(self._term(part) for part in parts)
        return Expression(kind, lambda values: Term(name, tuple(read(values) for read in reads)), place)

    def _term(self, operand: Operand) -> Evaluate:
        evaluate = operand.evaluate
        if isinstance(operand, Expression):
            return evaluate
        if isinstance(operand, ColumnUse):
            if operand.table:
                raise refusals.qualified(operand.name, operand.place)
            return lambda values: column(evaluate(values))
        if operand.is_double:
            return lambda values: constant(_as_double(evaluate(values)))
        return lambda values: constant(evaluate(values))

    def _agree(self, parts: list[Operand], place: Place) -> ColumnKind:
        """The kind that several operands have together; it is noted of those that it is up to."""
        kinds = [kind for kind in map(_kind_of, parts) if kind != "any"]
        if not kinds:
            left_open = [each for part in parts for each in _open_of(part)]
            self.uses += [Use(each.evaluate, "any", place) for each in left_open]
            self.alike.append(tuple(each.evaluate for each in left_open))
            return "any"
        for part in parts:
            self.demand(part, kinds[0], place)
        return kinds[0]


def _own_zone(values: Values) -> str:
    zone: Any = values[-1]
    return zone_name(zone)


def _as_double(value: Any) -> Any:
    """A number as a double, which types what is computed with it; one that stands for many stays it."""
    return value if isinstance(value, AnyConstant) else nearest_double(value)


def _kind_of(operand: Operand) -> ColumnKind:
    return "any" if isinstance(operand, ColumnUse) else operand.kind  # type: ignore[return-value]


def _open_of(operand: Operand) -> tuple[ColumnUse, ...]:
    if isinstance(operand, ColumnUse):
        return (operand,)
    return operand.open if isinstance(operand, Expression) else ()
