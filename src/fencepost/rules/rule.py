"""One rule, and the checks of what it is made of."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import index
from typing import Any, SupportsIndex

from fencepost.errors import FencepostError, check_whole
from fencepost.rules.damping import Damping, Span
from fencepost.snapshot.columns import NEVER, detect_flags, detect_names

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LONGEST_NAME = 500
"""Of characters: what every database can index."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it stands.

    Args:
        id: unique among the rules, an int64.
        condition: the SQL condition; of a rule that came from a table, one that says the same.
        detect: what it reports: inside, enter, exit, cross and silent, joined by commas in this order.
        initial: whether objects already inside when the rule is added are reported.
        labels: free text by name, carried along.
        expires: when it ends, in UTC.
        enabled: whether it takes part at all.
        version: 1, then one more for every edit.
        name: any text that no other rule has as its name, such as a UUID.
        for_: how long the condition must hold before enter is reported: a number in the unit of the time column, or a
            text such as "5 minutes" or "3 rows".
        keep_firing_for: how long it must have ceased before exit is reported; likewise.
        stay: a wider condition; who is inside stays inside while it holds.
        margin: in place of stay, how far the bounds of columns are moved outward.
        cooldown: how long after any event of an object no enter is reported.
        limit: how many enters are reported of an object at most.
        every: how often inside is reported, if not for every row.
    """

    id: int
    condition: str | None
    detect: str = "inside"
    initial: bool = False
    labels: dict[str, str] | None = None
    expires: datetime | None = None
    enabled: bool = True
    version: int = 1
    name: str | None = None
    for_: Span | None = None
    keep_firing_for: Span | None = None
    stay: str | None = None
    margin: dict[str, int | float] | None = None
    cooldown: Span | None = None
    limit: int | None = None
    every: Span | None = None

    @property
    def damping(self) -> Damping | None:
        """The options from `for_` to `every` as one value that can be compared and hashed; None where none is given."""
        lengths = self.for_ or self.keep_firing_for or self.cooldown or self.every
        return Damping.of(self) if lengths or self.stay or self.margin or self.limit else None

    def _repr_html_(self) -> str:
        from fencepost.rules.html import rules_html

        return rules_html(f"rule {self.id}", [self], 1)


RuleKey = SupportsIndex | str
"""What a rule is called by: its id, or its name."""


def checked_id(id: Any) -> int:
    """The id as an int that fits int64."""
    try:
        if isinstance(id, bool):
            raise TypeError
        number = index(id)
    except TypeError:
        number = 2**63
    if not -(2**63) <= number < 2**63:
        remedy = "Number the rules."
        if isinstance(id, str):
            remedy += " A text can be their name: name=; a RuleBook gives ids to names by itself."
        raise FencepostError(f"{id!r} cannot be the id of a rule", "an integer of 64 bits", remedy)
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
    for text in chain.from_iterable(labels.items()):
        check_whole(text, "the label")
    return dict(labels) or None


def checked_name(name: Any) -> str | None:
    """A text of some length that can be stored; None where there is none."""
    if name is None:
        return None
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        got = f"name of {len(name):,} characters" if isinstance(name, str) and name else f"name={name!r}"
        raise FencepostError(got, f"a text of 1 to {LONGEST_NAME} characters", "Write for example 'ibm floor'.")
    check_whole(name, "the name")
    return name


def checked_expires(expires: Any) -> datetime | None:
    """The instant in UTC; without a zone it is read as UTC."""
    return checked_instant(expires, "expires")


def checked_instant(instant: Any, name: str) -> datetime | None:
    """The same for another argument."""
    if isinstance(instant, str):
        try:
            instant = datetime.fromisoformat(instant)
        except ValueError:
            raise _no_instant(instant, name) from None
    if instant is None:
        return None
    if not isinstance(instant, datetime):
        raise _no_instant(instant, name)
    # Not astimezone alone: a subclass such as a pandas Timestamp becomes a plain datetime.
    try:
        return _EPOCH + microseconds_of(instant) * _MICROSECOND
    except OverflowError:  # its zone takes it out of the calendar
        raise FencepostError(
            f"{name}={instant.isoformat()}",
            "a time of the years 1 to 9999 in UTC",
            "Leave it out for a rule that stays.",
        ) from None


def _no_instant(instant: Any, name: str) -> FencepostError:
    return FencepostError(
        f"{name}={instant!r}", "a datetime, or its ISO text", "Write datetime(2030, 1, 1, tzinfo=UTC)."
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
