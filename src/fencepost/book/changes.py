"""Changes of rules as rows of the book: who, when, what, and the rule before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fencepost.book.tables import REMOVED
from fencepost.errors import FencepostError, check_whole
from fencepost.rules import damping as dampings
from fencepost.rules.damping import damping_of
from fencepost.rules.options import FIELDS, fields_of
from fencepost.rules.rule import Rule, instant_of, labels_of, labels_text, microseconds_of

_STORED = tuple(name for name in FIELDS if name not in dampings.FIELDS)
"""The fields of a rule that have a column of their own."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one rule.

    Args:
        revision: the number of the change in its book; rules changed together share it.
        id: of the rule.
        action: added, replaced, paused, resumed, removed or expired.
        author: who made it.
        at: when, in UTC.
        before: the rule until then; None where there was none.
        after: the rule from then on; None where there is none.
    """

    revision: int
    id: int
    action: str
    author: str
    at: datetime
    before: Rule | None
    after: Rule | None


class Stamp(NamedTuple):
    """Who changes something, when and how."""

    revision: int
    action: str
    author: str
    at: int


def stamp_now(revision: int, action: str, author: str) -> Stamp:
    """The stamp of a change that is made now."""
    return Stamp(revision, action, author, microseconds_of(datetime.now(UTC)))


def change_row(rule: Rule, stamp: Stamp, previous: int | None) -> dict[str, Any]:
    """The row of a rule as it is after a change, or was before its removal, with the revision of its change before."""
    damping = rule.damping
    return {
        **{name: value for name, value in fields_of(rule).items() if name in _STORED},
        "labels": labels_text(rule.labels),
        "expires": None if rule.expires is None else microseconds_of(rule.expires),
        "damping": None if damping is None else damping.text,
        "previous": previous,
        **stamp._asdict(),
    }


def rule_of(row: Mapping[Any, Any]) -> Rule | None:
    """The rule that a change left; None where it was removed."""
    if row["action"] in REMOVED:
        return None
    fields = {name: row[name] for name in _STORED}
    try:
        fields["labels"] = labels_of(row["labels"])
        fields["expires"] = None if row["expires"] is None else instant_of(row["expires"])
        if row["damping"] is not None:
            fields |= damping_of(row["damping"]).as_options()
    except (FencepostError, OverflowError, TypeError):
        raise _damaged(row) from None
    return Rule(**fields)


def time_of(row: Mapping[Any, Any]) -> datetime:
    """When a change was made."""
    try:
        at = instant_of(row["at"])
    except (OverflowError, TypeError):
        raise _damaged(row) from None
    assert at is not None
    return at


def _damaged(row: Mapping[Any, Any]) -> FencepostError:
    """The refusal of a row that no book writes."""
    return FencepostError(
        f"rule {row['id']} is damaged in revision {row['revision']} of the book",
        "a row as a rule book writes it",
        "Restore the book from its last export or backup.",
    )


def check_storable(rule: Rule) -> Rule:
    """Refuses text that not every database keeps as it is."""
    texts = [str(rule.condition), rule.name or "", rule.stay or "", *(rule.margin or {})]
    texts += [*(text for pair in (rule.labels or {}).items() for text in pair)]
    check_texts(f"rule {rule.id}", texts)
    return rule


def check_texts(owner: str, texts: list[str]) -> None:
    """Refuses the character zero and halves of surrogate pairs."""
    for text in texts:
        check_whole(text, f"{owner} has the text")
        if "\0" in text:
            raise FencepostError(
                f"{owner} has the text {text[:40]!a}", "characters that can be stored", "Leave out the character zero."
            )
