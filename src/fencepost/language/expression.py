"""Constant expressions: numbers, strings, dates, timestamps, truth, intervals, and arithmetic on them.

An expression is compiled once per shape into a function of the constants in the text. All arithmetic is exact:
7 / 2 is 3.5 and 0.1 + 0.2 is 0.3. A timestamp without a zone is read in the zone of the rules, which is the last of
the values.
"""

import operator
import re
import struct
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from fractions import Fraction
from math import trunc
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from fencepost.language.shape import Values
from fencepost.language.source import Place, RefusalError
from fencepost.ordinals.zones import Day, Moment, at_midnight, clock_of, days_after

ConstantKind = Literal["number", "key", "date", "timestamp", "boolean", "interval"]
Evaluate = Callable[[Values], Any]

# What CAST(... AS type) makes, by sqlglot's name of the type.
CASTS: dict[str, ConstantKind] = {
    **dict.fromkeys(["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"], "number"),
    **dict.fromkeys(["FLOAT", "DOUBLE", "DECIMAL"], "number"),
    **dict.fromkeys(["TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR"], "key"),
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"], "timestamp"),
    "DATE": "date",
    "BOOLEAN": "boolean",
}
_WHOLE_NUMBERS = frozenset(["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"])
_LARGEST_PRECISION = 76
_MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DATE = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"[ T]\s*(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?")
_OFFSET = re.compile(r"([+-])(\d{2})(?::?(\d{2}))?")
_NUMBER_TEXT = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?\s*")
_AMOUNT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class Duration:
    """An interval: months, whose length depends on where they are added, and microseconds."""

    months: int
    microseconds: int

    def __add__(self, other: "Duration") -> "Duration":
        return Duration(self.months + other.months, self.microseconds + other.microseconds)

    def __neg__(self) -> "Duration":
        return Duration(-self.months, -self.microseconds)

    def __sub__(self, other: "Duration") -> "Duration":
        return self + -other

    def times(self, factor: int | Fraction) -> "Duration":
        """The duration multiplied; ValueError where months or microseconds do not stay whole."""
        months, microseconds = self.months * factor, self.microseconds * factor
        if months != int(months) or microseconds != int(microseconds):
            raise ValueError("a part of a month or of a microsecond")
        return Duration(int(months), int(microseconds))

    def after(self, start: date) -> datetime:
        """The instant this long after a date or timestamp; a day that the month lacks becomes its last."""
        instant = at_midnight(start)
        if isinstance(instant, Moment):  # as Spark: months and days by the calendar of the zone
            days = int(Fraction(self.microseconds, _MICROSECONDS["DAY"]))
            rest = timedelta(microseconds=self.microseconds - days * _MICROSECONDS["DAY"])
            return instant.later(self.months, days, rest)
        month = instant.year * 12 + instant.month - 1 + self.months
        year, month = month // 12, month % 12 + 1
        day = min(instant.day, monthrange(year, month)[1]) if 1 <= year <= 9999 else instant.day
        return instant.replace(year=year, month=month, day=day) + timedelta(microseconds=self.microseconds)


class Constant(NamedTuple):
    """A constant expression: its kind, how to compute it from the constants in the text, and its place."""

    kind: ConstantKind
    evaluate: Evaluate
    place: Place
    is_double: bool = False
    """Whether it is a double where it is computed with: cast to one, or written with an exponent."""


def negated(constant: Constant) -> Constant:
    """Minus the constant."""
    if constant.kind not in ("number", "interval"):
        raise _no_arithmetic(constant.place)
    evaluate = constant.evaluate
    return constant._replace(evaluate=lambda values: -evaluate(values))


def combine(symbol: str, left: Constant, right: Constant) -> Constant:
    """`left symbol right`, where symbol is one of + - * / %."""
    place = (left.place[0], right.place[1])
    first, second = left.evaluate, right.evaluate
    kinds = (left.kind, right.kind)
    kind, compute = _arithmetic(symbol, kinds, place)

    def evaluate(values: Values) -> Any:
        try:
            return compute(first(values), second(values))
        except ZeroDivisionError:
            raise RefusalError([place], "divides by zero", "a number", "Write the number that is meant.") from None
        except (ValueError, OverflowError):
            raise RefusalError(
                [place],
                "has a result that no timestamp or interval can hold",
                "a result between the years 1 and 9999, in whole months and microseconds",
                "Write the timestamp that is meant.",
            ) from None

    return Constant(kind, evaluate, place, left.is_double or right.is_double)


def _arithmetic(
    symbol: str, kinds: tuple[ConstantKind, ConstantKind], place: Place
) -> tuple[ConstantKind, Callable[[Any, Any], Any]]:
    """The kind of the result and the computation."""
    if kinds == ("number", "number"):
        return "number", _NUMBERS[symbol]
    if symbol == "*" and kinds == ("interval", "number"):
        return "interval", lambda duration, factor: duration.times(factor)
    if symbol == "*" and kinds == ("number", "interval"):
        return "interval", lambda factor, duration: duration.times(factor)
    if symbol in "+-":
        if kinds == ("interval", "interval"):
            return "interval", operator.add if symbol == "+" else operator.sub
        if kinds[0] in ("date", "timestamp") and kinds[1] == "interval":
            sign = 1 if symbol == "+" else -1
            return "timestamp", lambda start, duration: duration.times(sign).after(start)
        if kinds[0] == "interval" and kinds[1] in ("date", "timestamp") and symbol == "+":
            return "timestamp", lambda duration, start: duration.after(start)
        if kinds == ("date", "number"):
            sign = 1 if symbol == "+" else -1
            return "date", lambda start, days: _days_after(start, sign * days)
    raise _no_arithmetic(place)


def _days_after(start: date, days: int | Fraction) -> date:
    if days.denominator != 1:
        raise ValueError("a part of a day")
    return days_after(start, int(days))


def _divide(numerator: int | Fraction, denominator: int | Fraction) -> int | Fraction:
    return _simplest(Fraction(numerator) / denominator)


def _remainder(numerator: int | Fraction, denominator: int | Fraction) -> int | Fraction:
    """SQL's: with the sign of the numerator."""
    return _simplest(numerator - denominator * trunc(Fraction(numerator) / denominator))


def _simplest(number: int | Fraction) -> int | Fraction:
    return int(number) if number.denominator == 1 else number


_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: _simplest(a + b),
    "-": lambda a, b: _simplest(a - b),
    "*": lambda a, b: _simplest(a * b),
    "/": _divide,
    "%": _remainder,
}


def interval(amount: Constant, unit: str | None) -> Constant:
    """`INTERVAL amount unit`, or `INTERVAL '1 day 2 hours'` without a unit of its own."""
    read, place = amount.evaluate, amount.place

    def evaluate(values: Values) -> Duration:
        try:
            return _read_interval(read(values), unit)
        except ValueError:
            raise RefusalError(
                [place],
                "is no interval",
                "whole microseconds to weeks, or whole months to years",
                "Write for example INTERVAL '90' SECOND or INTERVAL '1 day 2 hours'.",
            ) from None

    return Constant("interval", evaluate, place)


def _read_interval(amount: Any, unit: str | None) -> Duration:
    if not isinstance(amount, str):
        return _unit_duration(unit or "").times(amount)
    text, total, end = amount, Duration(0, 0), 0
    while end < len(text.rstrip()):
        match = _AMOUNT.match(text, end)
        if not match or (unit and (match[2] or end)):
            raise ValueError(text)
        total += _unit_duration(unit or match[2]).times(Fraction(match[1]))
        end = match.end()
    if end == 0:
        raise ValueError(text)
    return total


def _unit_duration(unit: str) -> Duration:
    name = unit.upper().removesuffix("S")
    if name in _MONTHS:
        return Duration(_MONTHS[name], 0)
    if name in _MICROSECONDS:
        return Duration(0, _MICROSECONDS[name])
    raise ValueError(unit)


class AnyConstant:
    """Stands for whatever constant is written at a place, where many conditions are read at once.

    Args:
        place: which constant it is.
        is_negative: whether its sign is changed.
        is_double: whether it is cast to a double.
    """

    def __init__(self, place: int, is_negative: bool = False, is_double: bool = False) -> None:
        self.place, self.is_negative, self.is_double = place, is_negative, is_double

    def __neg__(self) -> "AnyConstant":
        return AnyConstant(self.place, not self.is_negative, self.is_double)

    def as_double(self) -> "AnyConstant":
        """The constant, cast."""
        return AnyConstant(self.place, self.is_negative, True)


def cast(constant: Constant, type_name: str, parameters: Sequence[Constant]) -> Constant:
    """`CAST(constant AS type_name(parameters))`, which must not change the value."""
    read, place, kind = constant.evaluate, constant.place, CASTS[type_name]
    arguments = [parameter.evaluate for parameter in parameters]

    def evaluate(values: Values) -> Any:
        try:
            zone: Any = values[-1]
            return _convert(read(values), kind, type_name, [argument(values) for argument in arguments], zone)
        except (ValueError, OverflowError, KeyError, OSError):  # the last two: no such zone
            raise RefusalError(
                [place], f"is no {type_name.lower()}", _WRITTEN[kind], "Write the constant in that form."
            ) from None

    return Constant(kind, evaluate, place, type_name in ("DOUBLE", "FLOAT"))


_WRITTEN: dict[ConstantKind, str] = {
    "number": "a number that the type holds without rounding",
    "key": "a string in single quotes",
    "date": "a date such as '2024-12-31'",
    "timestamp": "a timestamp such as '2024-12-31 23:59:59.999999+01:00', one that its zone has exactly once",
    "boolean": "TRUE or FALSE",
}


def _convert(value: Any, kind: ConstantKind, type_name: str, parameters: list[Any], zone: tzinfo | None) -> Any:
    """The value as the type; ValueError or OverflowError where that would change it."""
    if isinstance(value, AnyConstant) and type_name == "DOUBLE":
        return value.as_double()
    if kind == "number" and isinstance(value, (int, Fraction, str)) and not isinstance(value, bool):
        return _convert_number(value, type_name, parameters)
    if kind == "key" and isinstance(value, str):
        return value
    if kind == "boolean" and isinstance(value, (bool, str)):
        return value if isinstance(value, bool) else {"true": True, "false": False}[value.strip().lower()]
    if kind in ("date", "timestamp") and isinstance(value, (date, str)):
        instant = _read_timestamp(value, zone) if isinstance(value, str) else at_midnight(value)
        if kind == "timestamp":
            return instant
        clock = clock_of(instant)
        if clock.time() == time():
            return clock.date() if zone is None else Day.of(clock.date(), zone)
    raise ValueError(value)


def _convert_number(value: int | Fraction | str, type_name: str, parameters: list[Any]) -> int | Fraction | float:
    if isinstance(value, str):
        infinite = value.strip().lower().removeprefix("-").removeprefix("+") in ("inf", "infinity")
        if infinite and type_name in ("DOUBLE", "FLOAT"):
            return float(value)
        if not _NUMBER_TEXT.fullmatch(value):
            raise ValueError(value)
        value = Fraction(value.strip())
    if type_name == "DOUBLE":
        value = Fraction(float(value))
    elif type_name == "FLOAT":
        value = Fraction(struct.unpack("f", struct.pack("f", float(value)))[0])
    elif type_name in _WHOLE_NUMBERS and value.denominator != 1:
        raise ValueError(value)
    elif type_name == "DECIMAL" and parameters:
        precision, scale = parameters[0], parameters[1] if len(parameters) > 1 else 0
        if not 0 <= scale <= precision <= _LARGEST_PRECISION:
            raise ValueError(precision)
        unscaled = value * 10**scale
        if unscaled.denominator != 1 or abs(unscaled) >= 10**precision:
            raise ValueError(value)
    return _simplest(value)


def _read_timestamp(text: str, own: tzinfo | None) -> datetime:
    """A timestamp in UTC from `2024-12-31[ 23:59[:59[.999999]]][zone]`, without a zone in that of the rules.

    ValueError for anything else.
    """
    day = _DATE.match(text)
    if not day:
        raise ValueError(text)
    rest, parts = text[day.end() :], (0, 0, 0, 0)
    if clock := _TIME.match(rest):
        rest = rest[clock.end() :]
        fraction = (clock[4] or "0").rstrip("0")
        if len(fraction) > 6:
            raise ValueError(text)
        parts = (int(clock[1]), int(clock[2]), int(clock[3] or 0), int(fraction.ljust(6, "0")))
    local = datetime(int(day[1]), int(day[2]), int(day[3]), *parts)
    rest = rest.strip()
    if own is None:
        return _in_zone(local, rest)
    return Moment.of(_in_zone(local, rest), own) if rest else Moment.shown(local, own)


def _in_zone(local: datetime, zone: str) -> datetime:
    if zone.upper() in ("", "Z", "UTC"):
        return local.replace(tzinfo=UTC)
    if offset := _OFFSET.fullmatch(zone):
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        east = timedelta(minutes=minutes if offset[1] == "+" else -minutes)
        return local.replace(tzinfo=timezone(east)).astimezone(UTC)
    instant = local.replace(tzinfo=ZoneInfo(zone))
    if instant.utcoffset() != instant.replace(fold=1).utcoffset():
        raise ValueError("the clock was changed at that time: it names two instants or none")
    return instant.astimezone(UTC)


def _no_arithmetic(place: Place) -> RefusalError:
    return RefusalError(
        [place],
        "cannot be computed",
        "arithmetic on numbers, or an interval added to a date or timestamp",
        "Write the constant that is meant.",
    )
