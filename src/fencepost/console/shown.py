"""Numbers, times and sizes as people read them."""

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_DIGITS = 6


def show_number(number: Any) -> str:
    """A number with separators, and no more digits than one reads.

    >>> show_number(1234567), show_number(41.5), show_number(0.000123456789), show_number(50.00000000000001)
    ('1,234,567', '41.5', '0.000123457', '50')
    """
    if not isinstance(number, float):
        return f"{number:,}" if isinstance(number, int) else str(number)
    if not math.isfinite(number):
        return str(number)
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    if abs(number) >= 1000:
        return f"{number:,.2f}".rstrip("0").rstrip(".")
    return f"{number:.{_DIGITS}g}"


def show_rough(number: float) -> str:
    """A number as an axis has it.

    >>> show_rough(49.5472), show_rough(1002.94), show_rough(0.00012)
    ('49.55', '1,003', '0.00012')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def show_time(time: Any) -> str:
    """An instant, without its date where that is today's.

    >>> show_time(datetime(2026, 1, 5, 9, 31, tzinfo=UTC))
    '2026-01-05 09:31:00'
    """
    if not isinstance(time, datetime):
        return time.isoformat() if isinstance(time, date) else ("" if time is None else show_value(time))
    here = time if time.tzinfo is None else time.astimezone(UTC)
    clock = here.strftime("%H:%M:%S")
    if here.microsecond:
        clock += f".{here.microsecond // 1000:03}"
    return clock if here.date() == datetime.now(UTC).date() else f"{here.date().isoformat()} {clock}"


def show_second(time: Any) -> str:
    """The same to the second."""
    return show_time(time.replace(microsecond=0) if isinstance(time, datetime) else time)


def show_value(value: Any) -> str:
    """A value of an attribute; a dash where there is none."""
    if value is None:
        return "\u2013"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return show_time(value)
    if isinstance(value, (int, float)):
        return show_number(value)
    return str(value)


def show_object(object: Any) -> str:
    """An object as it is named: numbers without separators, pairs with a stroke."""
    if isinstance(object, (tuple, list)):
        return " / ".join(map(show_object, object))
    return str(object)


def show_size(nbytes: int) -> str:
    """A size.

    >>> show_size(512), show_size(1_234_567)
    ('512 bytes', '1.2 MB')
    """
    size, unit = float(nbytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{nbytes:,} bytes" if not unit else f"{size:,.1f} {_UNITS[unit]}"


def show_ago(time: datetime | None) -> str:
    """How long ago something was."""
    if time is None:
        return "\u2013"
    seconds = (datetime.now(UTC) - (time if time.tzinfo else time.replace(tzinfo=UTC))).total_seconds()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number = int(seconds // length)
        if number:
            return f"{number} {unit}{'s' * (number > 1)} ago"
    return "just now"


def event_values(event: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """The attributes of an event that are known: name, value before, value after."""
    found = []
    for name, value in event.items():
        before = f"{name}_before"
        # A key that is the object itself says nothing new.
        if before in event and (value is not None or event[before] is not None) and value != event.get("object"):
            found.append((name, event[before], value))
    return found
