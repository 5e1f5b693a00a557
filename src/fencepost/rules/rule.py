"""One rule, and the checks of what it is made of."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any

from fencepost.errors import FencepostError
from fencepost.snapshot.columns import NEVER, detect_flags, detect_names

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it stands.

    Args:
        id: unique among the rules, an int64.
        condition: the SQL condition; None for a rule that came from a table.
        detect: what it reports: inside, enter, exit and cross, joined by commas in this order.
        initial: whether objects already inside when the rule is added are reported.
        labels: free text by name, carried along.
        expires: when it ends, in UTC.
        enabled: whether it takes part at all.
        version: 1, then one more for every edit.
    """

    id: int
    condition: str | None
    detect: str = "inside"
    initial: bool = False
    labels: dict[str, str] | None = None
    expires: datetime | None = None
    enabled: bool = True
    version: int = 1


def checked_id(id: Any) -> int:
    """The id as an int that fits int64."""
    try:
        if isinstance(id, bool):
            raise TypeError
        number = index(id)
    except TypeError:
        number = 2**63
    if not -(2**63) <= number < 2**63:
        raise FencepostError(f"{id!r} cannot be the id of a rule", "an integer of 64 bits", "Number the rules.")
    return number


def checked_detect(detect: str | Iterable[str]) -> str:
    """The detections in their fixed order, each once.

    >>> checked_detect("exit, enter")
    'enter,exit'
    """
    if not isinstance(detect, (str, list, tuple, set, frozenset)):
        raise FencepostError(f"detect={detect!r}", "a string or a list of strings", "Write for example 'enter,exit'.")
    return detect_names(detect_flags(detect))


def checked_flag(value: Any, name: str) -> bool:
    """True or False, nothing else."""
    if not isinstance(value, bool):
        raise FencepostError(f"{name}={value!r}", "True or False", f"Pass {name} as a boolean.")
    return value


def checked_labels(labels: Any) -> dict[str, str] | None:
    """A copy of the labels; None where there are none."""
    if labels is None:
        return None
    if not isinstance(labels, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str) for name, value in labels.items()
    ):
        raise FencepostError(f"labels={labels!r}", "names and values that are strings", "Write {'team': 'desk 4'}.")
    return dict(labels) or None


def checked_expires(expires: Any) -> datetime | None:
    """The instant in UTC; without a zone it is read as UTC."""
    if isinstance(expires, str):
        try:
            expires = datetime.fromisoformat(expires)
        except ValueError:
            raise _no_instant(expires) from None
    if expires is None:
        return None
    if not isinstance(expires, datetime):
        raise _no_instant(expires)
    # Not astimezone alone: a subclass such as a pandas Timestamp becomes a plain datetime.
    try:
        return _EPOCH + microseconds_of(expires) * _MICROSECOND
    except OverflowError:  # its zone takes it out of the calendar
        raise FencepostError(
            f"expires={expires.isoformat()}",
            "a time of the years 1 to 9999 in UTC",
            "Leave it out for a rule that stays.",
        ) from None


def _no_instant(expires: Any) -> FencepostError:
    return FencepostError(
        f"expires={expires!r}", "a datetime, or its ISO text", "Write datetime(2030, 1, 1, tzinfo=UTC)."
    )


def microseconds_of(instant: datetime | None) -> int:
    """Microseconds since 1970, or NEVER."""
    if instant is None:
        return NEVER
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def instant_of(microseconds: int) -> datetime | None:
    """The instant so many microseconds after 1970; None for NEVER."""
    return None if microseconds == NEVER else _EPOCH + timedelta(microseconds=microseconds)


def labels_text(labels: dict[str, str] | None) -> str | None:
    """Labels as a JSON object, names sorted."""
    return None if labels is None else json.dumps(labels, sort_keys=True, ensure_ascii=False)


def labels_of(text: str | None) -> dict[str, str] | None:
    """Labels from their JSON object."""
    try:
        return None if text is None else checked_labels(json.loads(text))
    except ValueError:
        raise FencepostError(f"labels {text!r}", "a JSON object of strings", 'Write {"team": "desk 4"}.') from None
