"""Lengths of time as people write them."""

import re
from datetime import timedelta

from fencepost.errors import FencepostError

_DURATION = re.compile(r"(\d+(?:\.\d+)?) *(?:(millisecond|second|minute|hour|day)s?|(ms|s|m|h|d))")
_SHORT = {"ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day"}


def parse_duration(text: str) -> timedelta:
    """A number and a unit.

    >>> parse_duration("1.5 minutes") == parse_duration("90s")
    True
    """
    found = _DURATION.fullmatch(text.strip())
    length = timedelta(**{f"{found[2] or _SHORT[found[3]]}s": float(found[1])}) if found else timedelta(0)
    if not length:
        raise FencepostError(
            repr(text), "a number and milliseconds, seconds, minutes, hours or days", 'Write for example "1 second".'
        )
    return length
