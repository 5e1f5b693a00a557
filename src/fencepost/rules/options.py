"""The options of a rule: what `add` and `replace` take beside id and condition.

A new option is declared here, in `RuleOptions`, `Options` and `_CHECKS`, and as a field of `Rule`. Whatever takes
options has it then: Rules, RuleBook, files and changes on a topic. Tables, snapshots and the book need a column for it.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypedDict, TypeVar, get_args, get_type_hints

from fencepost.errors import FencepostError
from fencepost.rules import damping
from fencepost.rules.damping import Damping, Span, check_together, python_name, spelled
from fencepost.rules.rule import (
    Rule,
    RuleKey,
    checked_detect,
    checked_expires,
    checked_flag,
    checked_labels,
    checked_name,
)

F = TypeVar("F", bound=Callable[..., Any])


class RuleOptions(TypedDict, total=False):
    """The options as callers give them."""

    detect: str | Iterable[str]
    initial: bool
    labels: Mapping[str, str] | None
    expires: datetime | None
    enabled: bool
    name: str | None
    for_: timedelta | Span | None
    keep_firing_for: timedelta | Span | None
    stay: str | None
    margin: Mapping[str, float] | None
    cooldown: timedelta | Span | None
    limit: int | None
    every: timedelta | Span | None


class TableOptions(TypedDict, total=False):
    """Those of a table of rules: for all its rows, or from columns."""

    detect: str | Iterable[str]
    initial: bool
    labels: Mapping[str, str] | Sequence[str] | None
    expires: datetime | None
    enabled: bool
    for_: timedelta | Span | None
    keep_firing_for: timedelta | Span | None
    stay: str | None
    margin: Mapping[str, float] | None
    cooldown: timedelta | Span | None
    limit: int | None
    every: timedelta | Span | None
    options: Mapping[str, str] | None
    detect_column: str | None
    initial_column: str | None
    labels_column: str | None
    expires_column: str | None
    enabled_column: str | None
    name_column: str | None
    for_column: str | None
    keep_firing_for_column: str | None
    stay_column: str | None
    margin_column: str | None
    cooldown_column: str | None
    limit_column: str | None
    every_column: str | None


class Options(NamedTuple):
    """The options of one rule, checked."""

    detect: str = "inside"
    initial: bool = False
    labels: dict[str, str] | None = None
    expires: datetime | None = None
    enabled: bool = True
    name: str | None = None
    for_: Span | None = None
    keep_firing_for: Span | None = None
    stay: str | None = None
    margin: dict[str, int | float] | None = None
    cooldown: Span | None = None
    limit: int | None = None
    every: Span | None = None


class OptionColumns(NamedTuple):
    """The columns of a table that say options row by row."""

    by_option: Mapping[str, str]
    labels: tuple[str, ...] = ()
    """Columns each of which is a label, under its own name."""


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "detect": checked_detect,
    "initial": partial(checked_flag, name="initial"),
    "labels": checked_labels,
    "expires": checked_expires,
    "enabled": partial(checked_flag, name="enabled"),
    "name": checked_name,
    **damping.CHECKS,
}

OPTION_NAMES = tuple(map(spelled, Options._fields))
"""The options as files, tables and messages spell them."""
FIELDS = ("id", "condition", *OPTION_NAMES, "version")
"""What a rule in a file or a mapping may have; the first two are needed."""


def read_options(given: Mapping[str, Any]) -> Options:
    """The options that a caller gave, checked, and the others by default.

    >>> read_options({"detect": "exit, enter"}).detect
    'enter,exit'
    """
    options = _checked(given)
    check_together(Damping.of(options), options.detect)
    return options


def _checked(given: Mapping[str, Any]) -> Options:
    """Every option by itself."""
    for name in given:
        if python_name(name) not in _CHECKS:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    if len({python_name(name) for name in given}) < len(given):
        raise TypeError("got both for and for_, which are the same")
    named = {python_name(name): value for name, value in given.items()}
    return Options(**{name: check(named[name]) for name, check in _CHECKS.items() if name in named})


def with_name(options: RuleOptions, key: RuleKey) -> RuleOptions:
    """The options of a rule; one that is called by its name has that, unless they say another."""
    return {**options, "name": key} if isinstance(key, str) and options.get("name") is None else options


def read_table_options(given: Mapping[str, Any]) -> tuple[Options, OptionColumns]:
    """The options of a table of rules for all rows, and the columns that say them row by row.

    >>> read_table_options({"options": {"detect": "kind"}, "labels": ["owner"]})[1]
    OptionColumns(by_option={'detect': 'kind'}, labels=('owner',))
    """
    option_of = {f"{spelled(name)}_column": name for name in Options._fields}
    for_all = {name: value for name, value in given.items() if name not in option_of and name != "options"}
    columns = {option_of[name]: column for name, column in given.items() if name in option_of and column is not None}
    for name, column in dict(given.get("options") or {}).items():
        own = python_name(name)
        if own not in Options._fields:
            raise FencepostError(
                f"options={{{name!r}: {column!r}}}", f"any of {', '.join(OPTION_NAMES)}", "Correct the name."
            )
        if columns.setdefault(own, column) != column:
            raise FencepostError(
                f"two columns for {name}: {columns[own]} and {column}", "one", f"Leave {name}_column out."
            )
    labels: tuple[str, ...] = ()
    if isinstance(for_all.get("labels"), (str, list, tuple)):
        named = for_all.pop("labels")
        labels = (named,) if isinstance(named, str) else tuple(named)
        if "labels" in columns:
            raise FencepostError(
                f"labels={list(labels)} beside the column {columns['labels']} of labels",
                "one of the two",
                "Put all labels into that column, or each into a column of its own.",
            )
    return _checked(for_all), OptionColumns(columns, labels)  # together they are checked row by row


def options_of(rule: Rule) -> Options:
    """The options that a rule has."""
    return Options(*(getattr(rule, name) for name in Options._fields))


def fields_of(rule: Rule) -> dict[str, Any]:
    """All that a rule is, by name as files spell it."""
    return {name: getattr(rule, python_name(name)) for name in FIELDS}


def takes_options(method: F, **defaults: Any) -> F:
    """Let `help` show the options of a method one by one, with their defaults, instead of `**options`."""
    signature = inspect.signature(method)
    shown = dict(signature.parameters)
    [gathered] = [name for name, each in shown.items() if each.kind is inspect.Parameter.VAR_KEYWORD]
    (options,) = get_args(shown.pop(gathered).annotation)
    for name, type_ in get_type_hints(options).items():
        default = defaults.get(name, getattr(Options(), name, None))
        shown[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_)
    method.__signature__ = signature.replace(parameters=list(shown.values()))  # type: ignore[attr-defined]
    return method
