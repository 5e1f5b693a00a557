"""Lengths of time as people write them."""

import re
from datetime import timedelta

from fencepost.errors import FencepostError

_LENGTH = re.compile(
    r"([0-9]{1,20}(?:\.[0-9]{1,20})?) *(?:(microsecond|millisecond|second|minute|hour|day)s?|(us|ms|s|m|h|d))"
)
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day"}
_UNITS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_MICROSECOND = timedelta(microseconds=1)


def read_length(text: str) -> timedelta:
    """A number and a unit; the number may be zero.

    >>> read_length("1.5 minutes") == read_length("90s")
    True
    """
    found = _LENGTH.fullmatch(text.strip())
    try:
        if found:
            number = float(found[1]) if "." in found[1] else int(found[1])
            return timedelta(**{f"{found[2] or _SHORT[found[3]]}s": number})
    except OverflowError:
        pass  # longer than the calendar
    raise _no_length(text)


def parse_duration(text: str) -> timedelta:
    """A number and a unit, more than nothing.

    >>> parse_duration("1.5 minutes") == parse_duration("90s")
    True
    """
    length = read_length(text)
    if not length:
        raise _no_length(text)
    return length


def write_length(length: timedelta) -> str:
    """A length in the largest unit that it is a whole number of.

    >>> write_length(timedelta(seconds=90)), write_length(timedelta(hours=1))
    ('90 seconds', '1 hour')
    """
    microseconds = length // _MICROSECOND
    unit, size = next((unit, size) for unit, size in _UNITS.items() if microseconds % size == 0)
    number = microseconds // size
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _no_length(text: str) -> FencepostError:
    return FencepostError(
        repr(text), "a number and milliseconds, seconds, minutes, hours or days", 'Write for example "1 second".'
    )
