"""Why an event happened: the rule's boxes, and where the object was before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.watching.rules_in_force import Box, LiveRule


@dataclass(frozen=True)
class ReasonBox:
    """One box of the rule, and whether the values of the event are within its ranges.

    Keys are shown but not compared.
    """

    keys: dict[str, str]
    ranges: dict[str, tuple[Any, Any]]
    """The smallest and the largest value inside; None where unbounded."""
    held_before: bool
    holds_after: bool

    def __str__(self) -> str:
        parts = [f"{name} = '{text}'" for name, text in self.keys.items()]
        for name, (low, high) in self.ranges.items():
            parts.append(f"{'' if low is None else f'{low} <= '}{name}{'' if high is None else f' <= {high}'}")
        states = {(True, True): "before and after", (True, False): "before, not after", (False, True): "after"}
        return f"{' and '.join(parts) or 'always'}: {states.get((self.held_before, self.holds_after), 'neither')}"


@dataclass(frozen=True)
class Reason:
    """The rule behind an event, box by box; prints as a short report."""

    rule_id: int
    rule_version: int
    object: Any
    detect: str
    reason: str | None
    before: dict[str, Any]
    after: dict[str, Any]
    boxes: tuple[ReasonBox, ...]

    def __str__(self) -> str:
        cause = "" if self.reason is None else f", {self.reason}"
        lines = [f"{self.object}: {self.detect} of rule {self.rule_id} (version {self.rule_version}{cause})"]
        lines += [f"  {name}: {self.before[name]} -> {self.after[name]}" for name in self.after]
        lines += [f"  {box}" for box in self.boxes]
        return "\n".join(lines)


def as_mapping(event: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """An event as a mapping of column to value."""
    if isinstance(event, (pa.Table, pa.RecordBatch)) and event.num_rows == 1:
        event = event.to_pylist()[0]
    elif isinstance(event, tuple) and len(event) == len(names):
        event = dict(zip(names, event, strict=True))
    if not isinstance(event, Mapping) or "rule_id" not in event or "detect" not in event:
        shown = f"a table of {event.num_rows} rows" if hasattr(event, "num_rows") else f"a {type(event).__name__}"
        raise FencepostError(
            f"{shown} as an event",
            "a dict or tuple with the columns of an event table, or a table of one row",
            "Pass for example events.to_pylist()[0].",
        )
    return event


def check_version(event: Mapping[str, Any], id: int, version: int) -> None:
    """Refuse an event of another version of its rule."""
    if event["rule_version"] != version:
        raise FencepostError(
            f"an event of version {event['rule_version']} of rule {id}",
            f"version {version}, the one in force",
            "Ask a Monitor that has the rule as it was.",
        )


def explain(rule: LiveRule, boxes: list[Box], event: Mapping[str, Any], types: Mapping[str, AttributeType]) -> Reason:
    """Compare the boxes of a rule in force with the values of one of its events."""
    check_version(event, rule.id, rule.version)
    before = {name: event.get(f"{name}_before") for name in types}
    after = {name: event.get(name) for name in types}
    compared = tuple(_compare(box, before, after, types) for box in boxes)
    return Reason(
        rule.id, rule.version, event.get("object"), event["detect"], event.get("reason"), before, after, compared
    )


def _compare(
    box: Box, before: Mapping[str, Any], after: Mapping[str, Any], types: Mapping[str, AttributeType]
) -> ReasonBox:
    keys, ranges = box

    def within(values: Mapping[str, Any]) -> bool:
        ordinals = {name: types[name].encode_one(values[name], name) for name in ranges}
        return all(
            ordinal is not None and ranges[name][0] <= ordinal <= ranges[name][1] for name, ordinal in ordinals.items()
        )

    shown = {}
    for name, (first, last) in ranges.items():
        smallest, largest = types[name].limits
        shown[name] = (
            None if first == smallest else types[name].decode(np.array([first]))[0].as_py(),
            None if last == largest else types[name].decode(np.array([last]))[0].as_py(),
        )
    return ReasonBox(keys, shown, within(before), within(after))
