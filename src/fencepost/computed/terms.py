"""Expressions: an operation, its parts, and the text that is the same for all spellings of one expression."""

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any, NamedTuple

from fencepost.ordinals import DOUBLE, KEY, AttributeType, ColumnType
from fencepost.ordinals.zones import Moment

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INFIX = {"<": 1, "=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "%": 3}
_ATOM = 6
_CONSTANTS = ("constant", "truth")
_NAMED_CONSTANTS = frozenset(["TRUE", "FALSE", "NULL"])


class Term(NamedTuple):
    """An expression.

    >>> Term("-", (Term("column", value="bid"), Term("column", value="ask"))).text
    'bid - ask'
    """

    name: str
    """Of the operation: `column`, `constant`, an infix operator or the name of a function."""
    parts: tuple["Term", ...] = ()
    value: Any = None
    """Of a column its name, of a constant its value, of a function what is fixed about it."""
    type: ColumnType | None = None
    """Known once columns are; then names of columns are those of the schema."""

    @property
    def text(self) -> str:
        """The canonical form: equal for expressions that are one attribute."""
        return _written(self)[0]

    @property
    def attribute(self) -> AttributeType:
        """The type of an expression that has one, and is no string."""
        assert isinstance(self.type, AttributeType), "strings and unbound expressions have no attribute type"
        return self.type

    def columns(self) -> dict[str, ColumnType]:
        """The columns of a bound expression with their types."""
        return {each.value: each.type for each in self.walk() if each.name == "column" and each.type is not None}

    def walk(self) -> Iterator["Term"]:
        """Every expression in it, itself first."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def to_json(self) -> list[Any]:
        """As a header keeps it."""
        value = _packed(self.value) if self.name in _CONSTANTS else self.value
        return [
            self.name,
            value,
            None if self.type is None else str(self.type),
            [each.to_json() for each in self.parts],
        ]

    @classmethod
    def from_json(cls, data: list[Any]) -> "Term":
        """What `to_json` gave."""
        name, value, kind, parts = data
        type_: ColumnType | None = None if kind is None else KEY if kind == KEY else AttributeType.parse(kind)
        if name in _CONSTANTS:
            value = _unpacked(value)
        elif isinstance(value, list):
            value = tuple(value)
        return cls(name, tuple(cls.from_json(each) for each in parts), value, type_)


def column(name: str) -> Term:
    """A column, as conditions know it."""
    return Term("column", value=name)


def with_side(term: Term, side: str) -> Term:
    """An expression whose columns have the name of a side of a band in front, to be shown."""
    if term.name == "column":
        return Term("column", (), f"{side}.{term.text}")
    return term._replace(parts=tuple(with_side(part, side) for part in term.parts))


def constant(value: Any) -> Term:
    """A constant; TRUE is none that equals 1, and the double 3 none that equals the number 3."""
    return Term("truth" if isinstance(value, bool) else "constant", (), value, DOUBLE if type(value) is float else None)


def _written(term: Term) -> tuple[str, int]:
    """The text of an expression, and how tightly its parts hold together."""
    name, parts, value, type_ = term
    if name == "column":
        is_plain = type_ is None or (_PLAIN.fullmatch(value) and value.upper() not in _NAMED_CONSTANTS)
        return (value if is_plain else '"' + value.replace('"', '""') + '"'), _ATOM
    if name in ("constant", "truth"):
        text = constant_text(value)
        return text, _INFIX["/"] if "/" in text else 4 if text.startswith("-") else _ATOM
    if name in _INFIX:
        own = _INFIX[name]
        (left, holds), (right, holds_right) = map(_written, parts)
        return f"{_wrapped(left, holds < own)} {name} {_wrapped(right, holds_right <= own)}", own
    texts = [_written(part)[0] for part in parts]
    if name == "negate":
        text, holds = _written(parts[0])
        return f"-{_wrapped(text, holds < _ATOM)}", 4
    if name == "is null":
        text, holds = _written(parts[0])
        return f"{_wrapped(text, holds < 2)} IS NULL", 1
    if name == "at zone":
        text, holds = _written(parts[0])
        return f"{_wrapped(text, holds < 5)} AT TIME ZONE '{value}'", 5
    if name == "later":
        return f"{texts[0]} + INTERVAL '{value}' MICROSECOND", 2
    if name == "field":
        unit, zone = value
        inner = texts[0] if zone is None else f"{texts[0]} AT TIME ZONE '{zone}'"
        return f"EXTRACT({unit} FROM {inner})", _ATOM
    if name == "double":
        return f"CAST({texts[0]} AS DOUBLE)", _ATOM
    if name == "decimal":
        return f"CAST({texts[0]} AS DECIMAL(18, {value}))", _ATOM
    if name == "substr":
        start, length = value
        texts += [str(start)] + ([] if length is None else [str(length)])
    return f"{name.upper()}({', '.join(texts)})", _ATOM


def _wrapped(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def constant_text(value: Any) -> str:
    """A constant as SQL writes it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Fraction):
        return decimal_text(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(UTC).isoformat(' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return f"CAST({_double_text(value)} AS DOUBLE)" if isinstance(value, float) else str(value)


def _double_text(value: float) -> str:
    return f"'{value}'" if value in (math.inf, -math.inf) else repr(value)


def decimal_digits_of(value: Fraction) -> int | None:
    """How many digits a number has behind the point; None where they never end."""
    rest, digits = value.denominator, 0
    while rest % 10 == 0:
        rest, digits = rest // 10, digits + 1
    twos = fives = 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return digits + max(twos, fives) if rest == 1 else None


def decimal_text(value: Fraction) -> str:
    """A number in digits where they end, else as a quotient."""
    digits = decimal_digits_of(value)
    if digits is None:
        return f"{value.numerator} / {value.denominator}"
    whole = abs(value.numerator) * 10**digits // value.denominator
    text = str(whole).rjust(digits + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-digits]}.{text[-digits:]}" if digits else str(value.numerator)


def _packed(value: Any) -> list[str]:
    if isinstance(value, datetime):
        wall = value.wall.isoformat() if isinstance(value, Moment) else ""
        return ["moment", value.astimezone(UTC).isoformat(), wall]
    if isinstance(value, date):
        return ["date", value.isoformat()]
    return [type(value).__name__, str(value)]


def _unpacked(packed: list[str]) -> Any:
    kind, text = packed[:2]
    if kind == "moment":
        instant = datetime.fromisoformat(text)
        return instant if not packed[2] else Moment.of(instant, UTC, datetime.fromisoformat(packed[2]))
    if kind == "date":
        return date.fromisoformat(text)
    made: dict[str, Callable[[str], Any]] = {"int": int, "Fraction": Fraction, "float": float, "str": str}
    return text == "True" if kind == "bool" else made[kind](text)
