"""The options of a rule: what `add` and `replace` take beside id and condition.

A new option is declared here, in `RuleOptions`, `Options` and `_CHECKS`, and as a field of `Rule`. Whatever takes
options has it then: Rules, RuleBook, files and changes on a topic. Tables, snapshots and the book need a column for it.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypedDict, TypeVar, get_args

from fencepost.rules.rule import Rule, checked_detect, checked_expires, checked_flag, checked_labels

F = TypeVar("F", bound=Callable[..., Any])


class RuleOptions(TypedDict, total=False):
    """The options as callers give them."""

    detect: str | Iterable[str]
    initial: bool
    labels: Mapping[str, str] | None
    expires: datetime | None
    enabled: bool


class TableOptions(RuleOptions, total=False):
    """Those of a table of rules: for all its rows, or from a column."""

    detect_column: str | None
    initial_column: str | None
    labels_column: str | None
    expires_column: str | None
    enabled_column: str | None


class Options(NamedTuple):
    """The options of one rule, checked."""

    detect: str = "inside"
    initial: bool = False
    labels: dict[str, str] | None = None
    expires: datetime | None = None
    enabled: bool = True


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "detect": checked_detect,
    "initial": partial(checked_flag, name="initial"),
    "labels": checked_labels,
    "expires": checked_expires,
    "enabled": partial(checked_flag, name="enabled"),
}

FIELDS = ("id", "condition", *Options._fields, "version")
"""What a rule in a file or a mapping may have; the first two are needed."""


def read_options(given: Mapping[str, Any]) -> Options:
    """The options that a caller gave, checked, and the others by default.

    >>> read_options({"detect": "exit, enter"}).detect
    'enter,exit'
    """
    for name in given:
        if name not in _CHECKS:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    return Options(**{name: check(given[name]) for name, check in _CHECKS.items() if name in given})


def read_table_options(given: Mapping[str, Any]) -> tuple[Options, dict[str, str]]:
    """The options of a table of rules for all rows, and the columns that say them row by row."""
    option_of = {f"{name}_column": name for name in Options._fields}
    for_all = {name: value for name, value in given.items() if name not in option_of}
    columns = {option_of[name]: column for name, column in given.items() if name in option_of and column is not None}
    return read_options(for_all), columns


def options_of(rule: Rule) -> Options:
    """The options that a rule has."""
    return Options(*(getattr(rule, name) for name in Options._fields))


def fields_of(rule: Rule) -> dict[str, Any]:
    """All that a rule is, by name."""
    return {name: getattr(rule, name) for name in FIELDS}


def takes_options(method: F) -> F:
    """Let `help` show the options of a method one by one, with their defaults, instead of `**options`."""
    signature = inspect.signature(method)
    shown = dict(signature.parameters)
    (options,) = get_args(shown.pop("options").annotation)
    for name, type_ in options.__annotations__.items():
        default = getattr(Options(), name, None)
        shown[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_)
    method.__signature__ = signature.replace(parameters=list(shown.values()))  # type: ignore[attr-defined]
    return method
