"""Rules written as text, checked: every refusal names the rule."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, SupportsIndex

from fencepost.errors import FencepostError, shorten
from fencepost.language import Band, ColumnType, Condition, ConditionError, bind, bind_band, parse
from fencepost.ordinals.schema import read_schema
from fencepost.rules.options import FIELDS, options_of, read_options
from fencepost.rules.rule import Rule, checked_id
from fencepost.rules.stays import check_outer, parse_stay

LARGEST_VERSION = 2**62
"""Edits go on from it, and the versions that they make must fit int64, too."""


class NameTakenError(FencepostError):
    """A rule has a name that another rule has already."""


def name_taken(id: int, name: str, owner: int) -> NameTakenError:
    """The refusal of a name that another rule has."""
    return NameTakenError(
        f"rule {id} has the name {shorten(name)!r} of rule {owner}",
        "a name that no other rule has",
        "Choose another name, or leave it out.",
    )


def no_such_name(name: object) -> FencepostError:
    """The refusal of a name that no rule has."""
    shown = shorten(name) if isinstance(name, str) else name
    return FencepostError(f"no rule has the name {shown!r}", "the name of a rule", "Correct the name.")


class TextRule(NamedTuple):
    """A rule written as text, and what it was parsed to."""

    rule: Rule
    parsed: Condition | Band


def check_rule(
    id: SupportsIndex,
    condition: str,
    options: Mapping[str, Any],
    version: int = 1,
    zone: str = "UTC",
    called: str | None = None,
) -> TextRule:
    """A rule with its parsed condition; refusals say `called` in place of an id that is yet to be given.

    >>> check_rule(7, "price > 40", {"detect": "exit, enter"}).rule.detect
    'enter,exit'
    """
    number = checked_id(id)
    try:
        parsed = parse(condition, zone)
        rule = Rule(number, condition, **read_options(options)._asdict(), version=version)
        if isinstance(parsed, Band):
            _check_band_options(rule)
        elif rule.stay is not None or rule.margin is not None:
            assert rule.damping is not None
            check_outer(parsed, rule.damping, zone)
    except ConditionError as error:
        got = f"rule {_call(number, called)}: {error.got}"
        raise ConditionError(got, error.expected, error.remedy, error.text, error.spans) from None
    except FencepostError as error:
        got = f"rule {_call(number, called)}: {error.got}"
        raise FencepostError(got, error.expected, error.remedy) from None
    return TextRule(rule, parsed)


def _call(id: int, name: str | None) -> str:
    """What a rule is called in a message: by its name while that is all it has."""
    return str(id) if name is None else repr(shorten(name))


def _check_band_options(rule: Rule) -> None:
    """Refuse options that are for rules about one stream."""
    if rule.stay is not None or rule.margin is not None:
        name = "stay" if rule.margin is None else "margin"
        raise FencepostError(
            f"{name} of a band",
            "a condition of one stream, since a band cannot yet be left by other bounds than it is entered by",
            f"Leave {name} out, or use for, keep_firing_for or cooldown.",
        )
    if "silent" in rule.detect:
        raise FencepostError(
            "detect silent of a band",
            "a condition of one stream, since silence is of one object",
            "Detect exit, which timeout reports of a pair, or add a rule about one of the streams.",
        )


def read_in_zone(text: TextRule, zone: str) -> TextRule:
    """The rule with its condition read in another zone."""
    parsed = text.parsed
    if isinstance(parsed, Band) or not {"date", "timestamp"} & set(parsed.columns.values()):
        return text  # times of stay alone are read with the types of all rules
    return check_rule(text.rule.id, parsed.text, options_of(text.rule)._asdict(), text.rule.version, zone)


class UnknownColumnWarning(UserWarning):
    """A rule that does not fit the columns that its book was published with."""


def warn_unknown_columns(
    made: TextRule, columns: Mapping[str, str], zone: str = "UTC", called: str | None = None
) -> None:
    """Warn where a rule could not be published with these columns, and say how it could; `called` as in check_rule."""
    types = read_schema(columns).types
    try:
        if isinstance(made.parsed, Band):
            bind_band(made.parsed, types, types)
        else:
            bind(made.parsed, types)
        if made.rule.stay is not None:
            bind(parse_stay(made.rule.stay, zone), types)
    except FencepostError as error:
        text = f"rule {_call(made.rule.id, called)} is stored, but not published as it is: {error.one_line}"
        stay = [] if made.rule.stay is None else [parse_stay(made.rule.stay, zone)]
        new = [name for parsed in (made.parsed, *stay) for name in _new_columns(parsed, types)]
        if new:
            text += f" To add the column, publish with --type {new[0]}=TYPE (schema={{{new[0]!r}: TYPE}})."
        warnings.warn(UnknownColumnWarning(text), stacklevel=4)


def _new_columns(parsed: Condition | Band, types: Mapping[str, ColumnType]) -> list[str]:
    """The columns of a condition that nobody knows yet."""
    used = parsed.columns if isinstance(parsed, Condition) else [*parsed.left_columns, *parsed.right_columns]
    known = {name.lower() for name in types}
    names = [column.strip('"') for column in used]
    return [name for name in names if name.lower() not in known]


def rule_of_mapping(mapping: Any, zone: str = "UTC") -> TextRule:
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
    return check_rule(id, condition, given, version, zone)
