"""Rules written as text, checked: every refusal names the rule."""

from collections.abc import Mapping
from typing import Any, NamedTuple, SupportsIndex

from fencepost.errors import FencepostError
from fencepost.language import Band, Condition, ConditionError, parse
from fencepost.rules.options import FIELDS, read_options
from fencepost.rules.rule import Rule, checked_id

LARGEST_VERSION = 2**62
"""Edits go on from it, and the versions that they make must fit int64, too."""


class TextRule(NamedTuple):
    """A rule written as text, and what it was parsed to."""

    rule: Rule
    parsed: Condition | Band


def check_rule(id: SupportsIndex, condition: str, options: Mapping[str, Any], version: int = 1) -> TextRule:
    """A rule with its parsed condition.

    >>> check_rule(7, "price > 40", {"detect": "exit, enter"}).rule.detect
    'enter,exit'
    """
    number = checked_id(id)
    try:
        parsed = parse(condition)
        rule = Rule(number, condition, *read_options(options), version)
    except ConditionError as error:
        got = f"rule {number}: {error.got}"
        raise ConditionError(got, error.expected, error.remedy, error.text, error.spans) from None
    except FencepostError as error:
        raise FencepostError(f"rule {number}: {error.got}", error.expected, error.remedy) from None
    return TextRule(rule, parsed)


def rule_of_mapping(mapping: Any) -> TextRule:
    """The rule of a mapping with the names that Rules.add takes, and perhaps a version; None is left out.

    >>> rule_of_mapping({"id": 7, "condition": "price > 40", "version": 3}).rule.version
    3
    """
    if not isinstance(mapping, Mapping):
        raise FencepostError(f"{mapping!r} is no rule", "an object with id and condition", "Write one object per rule.")
    unknown = [name for name in mapping if name not in FIELDS]
    missing = [name for name in ("id", "condition") if mapping.get(name) is None]
    if unknown or missing:
        got = f"the field {unknown[0]!r} is unknown" if unknown else f"the field {missing[0]!r} is missing"
        raise FencepostError(got, f"the fields {', '.join(FIELDS)}", "Id and condition are needed.")
    given = {name: value for name, value in mapping.items() if value is not None}
    id, condition, version = given.pop("id"), given.pop("condition"), given.pop("version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= LARGEST_VERSION:
        raise FencepostError(f"version={version!r}", "1, 2, ... up to 2**62", "Leave it out for a new rule.")
    return check_rule(id, condition, given, version)
