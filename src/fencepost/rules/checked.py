"""Rules written as text, checked: every refusal names the rule."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, SupportsIndex

from fencepost.errors import FencepostError
from fencepost.language import Band, Condition, ConditionError, parse
from fencepost.rules.rule import (
    Rule,
    checked_detect,
    checked_expires,
    checked_flag,
    checked_id,
    checked_labels,
)

__all__ = ["FIELDS", "TextRule", "checked_rule", "rule_of_mapping"]

FIELDS = ("id", "condition", "detect", "initial", "labels", "expires", "enabled", "version")
"""What a rule in a file or a mapping may have; the first two are needed."""


LARGEST_VERSION = 2**62
"""Edits go on from it, and the versions that they make must fit int64, too."""


class TextRule(NamedTuple):
    """A rule written as text, and what it was parsed to."""

    rule: Rule
    parsed: Condition | Band


def checked_rule(
    id: SupportsIndex,
    condition: str,
    *,
    detect: str | Iterable[str] = "inside",
    initial: bool = False,
    labels: Mapping[str, str] | None = None,
    expires: datetime | None = None,
    enabled: bool = True,
    version: int = 1,
) -> TextRule:
    """A rule with its parsed condition; takes the arguments of Rules.add.

    Args:
        id: see Rules.add, and likewise everything else.
        condition: what would stand after WHERE.
        detect: what is told.
        initial: whether objects already inside are told of.
        labels: free text by name.
        expires: when the rule ends.
        enabled: whether it takes part.
        version: of the rule.

    >>> checked_rule(7, "price > 40", detect="exit, enter").rule.detect
    'enter,exit'

    """
    number = checked_id(id)
    try:
        parsed = parse(condition)
        rule = Rule(
            number,
            condition,
            checked_detect(detect),
            checked_flag(initial, "initial"),
            checked_labels(labels),
            checked_expires(expires),
            checked_flag(enabled, "enabled"),
            version,
        )
    except ConditionError as error:
        got = f"rule {number}: {error.got}"
        raise ConditionError(got, error.expected, error.remedy, error.text, error.spans) from None
    except FencepostError as error:
        raise FencepostError(f"rule {number}: {error.got}", error.expected, error.remedy) from None
    return TextRule(rule, parsed)


def rule_of_mapping(mapping: Any) -> TextRule:
    """The rule of a mapping with the names that Rules.add takes, and perhaps a version.

    Args:
        mapping: id and condition are needed; None stands for what is left out.

    >>> rule_of_mapping({"id": 7, "condition": "price > 40", "version": 3}).rule.version
    3

    """
    if not isinstance(mapping, Mapping):
        raise FencepostError(f"{mapping!r}", "an object with id and condition", "Write one object per rule.")
    unknown = [name for name in mapping if name not in FIELDS]
    missing = [name for name in ("id", "condition") if mapping.get(name) is None]
    if unknown or missing:
        got = f"the field {unknown[0]!r}" if unknown else f"a rule without {missing[0]}"
        raise FencepostError(got, f"the fields {', '.join(FIELDS)}", "Id and condition are needed.")
    given = {name: value for name, value in mapping.items() if value is not None}
    version = given.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= LARGEST_VERSION:
        raise FencepostError(f"version={version!r}", "1, 2, ... up to 2**62", "Leave it out for a new rule.")
    return checked_rule(**given)
