"""Why an event of a band happened: the band, and where the row that moved was before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost._html import html_text
from fencepost.monitor.pair_sides import (
    plain_name,
    show_condition,
    show_difference,
    show_value,
    shown_expressions,
)
from fencepost.monitor.reasons import check_version, headline
from fencepost.ordinals import AttributeType
from fencepost.pairing.rules import LEFT, RIGHT, SIDES, BandRule


@dataclass(frozen=True)
class BandReason:
    """The band rule behind an event; prints as a short report."""

    rule_id: int
    rule_version: int
    object: Any
    other: Any
    detect: str
    reason: str | None
    before: dict[str, Any]
    after: dict[str, Any]
    left: str
    """What is subtracted of the left row: a column, or an expression."""
    right: str
    lower: float | None
    """The least difference, None where there is none: a number, or of times and dates a count of their units."""
    upper: float | None
    closed: tuple[bool, bool]
    """Whether either bound itself is inside."""
    same: tuple[tuple[str, str], ...]
    left_keys: dict[str, str]
    right_keys: dict[str, str]
    time: Any = None
    name: str | None = None
    """Of the rule."""
    parts: tuple[str, ...] = ()
    """What the rule asks of a pair, in words: the difference, what must be equal, and the conditions of sides."""

    def __str__(self) -> str:
        lines = [f"{self.object} and {self.other}: {headline(self)}"]
        lines += [f"  {name}: {self.before[name]} -> {self.after[name]}" for name in self.after]
        return "\n".join([*lines, *(f"  {part}" for part in self.parts)])

    def _repr_html_(self) -> str:
        return html_text(self)


def write_band(difference: str, lower: float | None, upper: float | None, closed: tuple[bool, bool]) -> str:
    """A band as a condition."""
    low = "" if lower is None else f"{lower} {'<=' if closed[0] else '<'} "
    return f"{low}{difference}" + ("" if upper is None else f" {'<=' if closed[1] else '<'} {upper}")


def explain_band(rule: BandRule, event: Mapping[str, Any], types: Mapping[str, AttributeType]) -> BandReason:
    """Say why an event of a band rule in force happened; `types` are those of the attributes of bands."""
    check_version(event, rule.id, rule.version)
    lower, upper, _ = rule.shown_bounds(types)
    before, after = (
        {name: event.get(f"{name}{suffix}") for name in types} | shown_expressions(rule, event, types, suffix)
        for suffix in ("_before", "")
    )
    parts = [write_band(show_difference(rule), lower, upper, rule.closed)]
    parts += [f"{show_value(rule, LEFT, one)} = {show_value(rule, RIGHT, other)}" for one, other in rule.shape.same]
    for side, keys in zip(SIDES, rule.keys, strict=True):
        parts += [f"{side}.{name} = '{text}'" for name, text in keys]
    parts += [" or ".join(show_condition(rule, side)) for side in (LEFT, RIGHT) if rule.shape.where[side]]
    return BandReason(
        rule.id,
        rule.version,
        event.get("object"),
        event.get("other"),
        event["detect"],
        event.get("reason"),
        before,
        after,
        plain_name(rule, rule.shape.columns[LEFT]),
        plain_name(rule, rule.shape.columns[RIGHT]),
        lower,
        upper,
        rule.closed,
        tuple((plain_name(rule, one), plain_name(rule, other)) for one, other in rule.shape.same),
        dict(rule.keys[0]),
        dict(rule.keys[1]),
        event.get("time"),
        parts=tuple(parts),
    )
