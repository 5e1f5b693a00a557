"""Damping: what keeps a rule from flapping, as one value that can be compared, hashed and written."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from operator import index
from typing import Any, NamedTuple

from fencepost.errors import FencepostError, shorten
from fencepost.rules.durations import read_length, write_length
from fencepost.snapshot.columns import DETECTS, MICROSECONDS, NO_UNIT, ROWS, UNITS, detect_flags

LONGEST = 2**62
"""In microseconds or units: an instant and a length after it must fit int64 together."""

_ROWS = re.compile("([0-9]+) *rows?")
_PLAIN = re.compile("[0-9]{1,20}")
_MICROSECOND = timedelta(microseconds=1)
_TIME = "a timedelta, a whole number in the unit of the time column, or a text such as '5 minutes'"

Span = int | str
"""A length: a plain number is in the unit of the time column, a text has a unit or counts rows."""


class Damping(NamedTuple):
    """The options of a rule that decide when what it detects is reported; None is none."""

    for_: Span | None = None
    keep_firing_for: Span | None = None
    stay: str | None = None
    margin: tuple[tuple[str, int | float], ...] | None = None
    """By column, sorted."""
    cooldown: Span | None = None
    limit: int | None = None
    every: Span | None = None

    @classmethod
    def of(cls, options: Any) -> "Damping | None":
        """The damping among checked options, or of a rule; None where there is none."""
        found = cls(*(getattr(options, name) for name in cls._fields))
        margin: Any = found.margin
        found = found if margin is None else found._replace(margin=tuple(sorted(margin.items())))
        return None if found == _NONE else found

    def as_options(self) -> dict[str, Any]:
        """By name, as `Rule` has them."""
        return {**self._asdict(), "margin": None if self.margin is None else dict(self.margin)}

    def as_fields(self) -> dict[str, Any]:
        """Those that are there, as files spell them."""
        return {spelled(name): value for name, value in self.as_options().items() if value is not None}

    @property
    def text(self) -> str:
        """As a JSON object."""
        return json.dumps(self.as_fields(), ensure_ascii=False)

    def __str__(self) -> str:
        shown = []
        for name, value in self.as_fields().items():
            moved = ", ".join(f"{column} {number}" for column, number in (self.margin or ()))
            shown.append(f"{name} {moved if name == 'margin' else value}")
        return "; ".join(shown)


_NONE = Damping()

_SPELLINGS = {"for_": "for"}
_NAMES = {spelling: name for name, spelling in _SPELLINGS.items()}


def spelled(name: str) -> str:
    """An option as files, messages and the command line spell it; `for` is a word of Python's own."""
    return _SPELLINGS.get(name, name)


def python_name(spelling: str) -> str:
    """An option as Python spells it."""
    return _NAMES.get(spelling, spelling)


FIELDS = tuple(map(spelled, Damping._fields))
"""The options of damping, as files spell them."""


def checked_span(value: Any, name: str, *, rows: bool = False) -> Span | None:
    """A length of time, or where that makes sense a number of rows; None for none, and for a length of zero.

    >>> checked_span("300 s", "cooldown"), checked_span(timedelta(hours=1), "cooldown")
    ('5 minutes', '1 hour')
    >>> checked_span("3rows", "for", rows=True)
    '3 rows'
    """
    if value is None:
        return None
    expected = f"{_TIME}{', or 3 rows' if rows else ''}"
    wrong = FencepostError(f"{name}={_shown(value)}", expected, f'Write for example "5 minutes", or leave {name} out.')
    if isinstance(value, str):
        text = value.strip()
        counted = _ROWS.fullmatch(text)
        if counted and rows:
            return _checked_rows(counted[1], name)
        if counted:
            raise FencepostError(
                f"{name}={_shown(value)}", f"a length of time, since {name} cannot count rows", "Write it as a time."
            )
        if _PLAIN.fullmatch(text):
            value = int(text)
        else:
            try:
                value = read_length(text)
            except FencepostError:
                raise wrong from None
    try:
        if isinstance(value, bool):
            raise TypeError
        number = value // _MICROSECOND if isinstance(value, timedelta) else index(value)
    except TypeError:
        raise wrong from None
    if number < 0:
        raise FencepostError(f"{name}={_shown(value)}", "no less than nothing", f"Leave {name} out for none.")
    if number > LONGEST:
        raise FencepostError(f"{name}={_shown(value)}", "at most 2**62", "Write a shorter one.")
    if not number:
        return None
    return write_length(number * _MICROSECOND) if isinstance(value, timedelta) else number


def _checked_rows(digits: str, name: str) -> str:
    number = int(digits) if len(digits) < 20 else LONGEST + 1
    if not 1 <= number <= LONGEST:
        raise FencepostError(
            f"{name}='{shorten(digits, 40)} rows'", "1 row or more, and at most 2**62", f"Leave {name} out for none."
        )
    return f"{number} row{'' if number == 1 else 's'}"


def checked_limit(value: Any) -> int | None:
    """A whole number of enters; None for no limit."""
    if value is None:
        return None
    given = int(value) if isinstance(value, str) and _PLAIN.fullmatch(value.strip()) else value
    try:
        if isinstance(given, bool):
            raise TypeError
        number = index(given)
    except TypeError:
        number = 0
    if not 1 <= number <= LONGEST:
        raise FencepostError(f"limit={_shown(value)}", "a whole number, 1 or more", "Leave limit out for none.")
    return number


def checked_stay(value: Any) -> str | None:
    """A text that is some condition; it is parsed with the rule."""
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise FencepostError(
            f"stay={_shown(value)}", "a condition, wider than that of the rule", "Write for example 'price > 38'."
        )
    return value


def checked_margin(value: Any) -> dict[str, int | float] | None:
    """Numbers by column, also as a JSON object; None for none.

    >>> checked_margin({"price": 2.0}), checked_margin('{"price": 0.5}'), checked_margin({})
    ({'price': 2}, {'price': 0.5}, None)
    """
    if value is None:
        return None
    wrong = FencepostError(
        f"margin={_shown(value)}", "a number above zero for every column", "Write for example {'price': 2}."
    )
    given = value
    if isinstance(value, str):
        try:
            given = json.loads(value)
        except (ValueError, RecursionError):
            raise wrong from None
    if not isinstance(given, Mapping):
        raise wrong
    found = {}
    for column, number in given.items():
        exact = _exact(number)
        if not isinstance(column, str) or not column or exact is None or not exact > 0:
            raise wrong
        found[column] = exact
    return dict(sorted(found.items())) or None


def _exact(number: Any) -> int | float | None:
    """A finite number as JSON has it, whole ones as integers; None for anything else."""
    try:
        if isinstance(number, Decimal):
            near = float(number)
            number = near if Decimal(repr(near)) == number else int(number) if number == int(number) else None
        if isinstance(number, bool) or not math.isfinite(float(number)):
            return None
        if isinstance(number, float):
            return int(number) if number.is_integer() and number < 2**53 else float(number)
        return index(number)
    except (TypeError, ValueError, ArithmeticError):
        return None


def check_together(damping: Damping | None, detect: str | int) -> None:
    """Refuse options that make no sense together, or with what the rule detects."""
    if damping is None:
        return
    flags = detect_flags(detect) if isinstance(detect, str) else detect
    if damping.for_ is not None and flags & DETECTS["cross"]:
        raise FencepostError(
            f"for={damping.for_!r} with detect cross",
            "one of the two, since a jump lasts no time",
            "Leave out for, or detect enter and exit.",
        )
    if damping.stay is not None and damping.margin is not None:
        raise FencepostError(
            "stay beside margin", "one of the two, since a margin is short for stay", "Leave one of them out."
        )
    if damping.every is not None and not flags & DETECTS["inside"]:
        raise FencepostError(
            f"every={damping.every!r} without detect inside",
            "detect inside, which is reported every so often",
            "Leave out every, or detect inside, too.",
        )


def read_damping(given: Mapping[str, Any]) -> Damping | None:
    """The damping among options as files spell them, checked one by one; None where there is none."""
    checked: dict[str, Any] = {python_name(name): CHECKS[python_name(name)](value) for name, value in given.items()}
    margin = checked.get("margin")
    if margin is not None:
        checked["margin"] = tuple(margin.items())
    found = Damping(**checked)
    return None if found == _NONE else found


@lru_cache(10_000)
def damping_of(text: str) -> Damping:
    """The damping that `text` says."""
    try:
        found = read_damping(json.loads(text))
    except (ValueError, KeyError, AttributeError, RecursionError, FencepostError):
        found = None
    if found is None:
        raise FencepostError(
            f"damping {shorten(text)!r}", f"a JSON object with any of {', '.join(FIELDS)}", "Write it again."
        )
    return found


def span_numbers(span: Span | None) -> tuple[int, int]:
    """A checked length as a number and its unit, as `DampingColumns` has them."""
    if span is None:
        return 0, NO_UNIT
    if isinstance(span, int):
        return span, UNITS
    counted = _ROWS.fullmatch(span)
    return (int(counted[1]), ROWS) if counted else (read_length(span) // _MICROSECOND, MICROSECONDS)


def _shown(value: Any) -> str:
    return shorten(repr(value), 100)


CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "for_": lambda value: checked_span(value, "for", rows=True),
    "keep_firing_for": lambda value: checked_span(value, "keep_firing_for", rows=True),
    "stay": checked_stay,
    "margin": checked_margin,
    "cooldown": lambda value: checked_span(value, "cooldown"),
    "limit": checked_limit,
    "every": lambda value: checked_span(value, "every"),
}
"""Of every option, what reads it."""
