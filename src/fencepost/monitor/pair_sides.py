"""Expressions of bands and conditions of their sides, in words."""

from collections.abc import Mapping
from typing import Any

from fencepost.computed.terms import with_side
from fencepost.monitor.expressions import show_range, shown_values
from fencepost.monitor.reasons import show_box
from fencepost.ordinals import AttributeType
from fencepost.pairing.rules import LEFT, RIGHT, SIDES, BandRule
from fencepost.rules.band_columns import read_where
from fencepost.rules.box_groups import ranked_boxes


def plain_name(rule: BandRule, name: str) -> str:
    """A column, or the text of an expression."""
    return rule.sides.computed[name].text if name in rule.sides.computed else name


def show_value(rule: BandRule, side: int, name: str) -> str:
    """A column or an expression of one side, as the rule has it."""
    if name in rule.sides.computed:
        return with_side(rule.sides.computed[name].term, SIDES[side]).text
    return f"{SIDES[side]}.{name}"


def show_difference(rule: BandRule) -> str:
    """What the rule subtracts."""
    own, others = rule.shape.columns
    return f"{show_value(rule, LEFT, own)} - {show_value(rule, RIGHT, others)}"


def show_condition(rule: BandRule, side: int) -> list[str]:
    """What rows of one side must meet, a text for each of the boxes of which one must hold."""
    boxes, ordered = ranked_boxes(read_where(rule.shape.where[side]))
    computed, types = {**rule.sides.computed, **ordered}, rule.sides.uses[side]
    found = []
    for keys, ranges in boxes:
        shown = {}
        for name, ends in ranges.items():
            if name in computed:
                each = computed[name]
                shown[with_side(each.term, SIDES[side]).text] = show_range(each.type, *ends, each.bounds)
            else:
                type_ = types[name]
                assert isinstance(type_, AttributeType), "it has ranges"
                shown[f"{SIDES[side]}.{name}"] = show_range(type_, *ends)
        found.append(show_box({f"{SIDES[side]}.{name}": text for name, text in keys.items()}, shown))
    return found


def shown_expressions(
    rule: BandRule, event: Mapping[str, Any], types: Mapping[str, AttributeType], suffix: str
) -> dict[str, Any]:
    """The values that expressions have for the row that moved, by their texts."""
    if not rule.sides.computed:
        return {}
    values: dict[str, Any] = {}
    for name in rule.sides.columns:
        value = event.get(f"{name}{suffix}")
        values[name] = types[name].encode_one(value, name) if name in types else value
    return shown_values(rule.sides.computed, values)
