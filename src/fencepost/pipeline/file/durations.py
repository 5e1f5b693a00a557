"""Lengths of time as people write them."""

import re
from datetime import timedelta

from fencepost.errors import FencepostError

_DURATION = re.compile(r"(\d+(?:\.\d+)?) *(millisecond|second|minute|hour|day)s?")


def parse_duration(text: str) -> timedelta:
    """A number and a unit.

    >>> parse_duration("1.5 minutes")
    datetime.timedelta(seconds=90)
    """
    found = _DURATION.fullmatch(text.strip())
    length = timedelta(**{f"{found[2]}s": float(found[1])}) if found else timedelta(0)
    if not length:
        raise FencepostError(
            repr(text), "a number and milliseconds, seconds, minutes, hours or days", 'Write for example "1 second".'
        )
    return length
