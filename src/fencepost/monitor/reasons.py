"""Why an event happened: the rule's boxes, and where the object was before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.rules.damping import Damping, span_numbers, spelled
from fencepost.snapshot.columns import MICROSECONDS, UNITS
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
        states = {(True, True): "before and after", (True, False): "before, not after", (False, True): "after"}
        held = states.get((self.held_before, self.holds_after), "neither")
        return f"{show_box(self.keys, self.ranges)}: {held}"


@dataclass(frozen=True)
class Waited:
    """How an event waited that damping held back."""

    since: Any
    """When it began to be so."""
    due: Any
    time: Any
    """When it was reported: at `due`, unless an edit of the rule made it overdue."""
    option: str
    """Which option decided: for, keep_firing_for or cooldown."""
    length: int | str | None
    """Of the option; None where the rule no longer has it."""

    def __str__(self) -> str:
        late = "" if self.due == self.time else f", reported {self.time}"
        return f"since {self.since}, due {self.due}{late}: `{self.option}` {_or_none(self.length)}"


_OPTIONS = {"held": "for_", "kept": "keep_firing_for", "cooldown": "cooldown"}
"""By reason, the option of a rule that decided."""


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
    waited: "Waited | None" = None
    """What damping had to do with it, where it had."""

    def __str__(self) -> str:
        cause = "" if self.reason is None else f", {self.reason}"
        lines = [f"{self.object}: {self.detect} of rule {self.rule_id} (version {self.rule_version}{cause})"]
        lines += [] if self.waited is None else [f"  {self.waited}"]
        lines += [f"  {name}: {self.before[name]} -> {self.after[name]}" for name in self.after]
        lines += [f"  {box}" for box in self.boxes]
        return "\n".join(lines)


def show_box(keys: Mapping[str, str], ranges: Mapping[str, tuple[Any, Any]]) -> str:
    """A box in words: what keys equal, and the smallest and largest values inside, None where unbounded."""
    parts = [f"{name} = '{text}'" for name, text in keys.items()]
    for name, (low, high) in ranges.items():
        parts.append(f"{'' if low is None else f'{low} <= '}{name}{'' if high is None else f' <= {high}'}")
    return " and ".join(parts) or "always"


def show_range(type: AttributeType, first: int, last: int) -> tuple[Any, Any]:
    """The values of the ends of a range; None where unbounded."""
    low, high = (
        None if end == limit else type.decode(np.array([end]))[0].as_py()
        for end, limit in zip((first, last), type.limits, strict=True)
    )
    return low, high


def explain_wait(damping: Damping | None, event: Mapping[str, Any]) -> Waited | None:
    """How an event of a rule waited; None for one that did not."""
    name = _OPTIONS.get(str(event.get("reason")))
    if name is None:
        return None
    length, time = getattr(damping or Damping(), name), event.get("time")
    since = time if event.get("since") is None else event["since"]
    due = time if name == "cooldown" else _end_of(since, length, time)
    return Waited(since, due, time, spelled(name), length)


def _end_of(since: Any, length: int | str | None, time: Any) -> Any:
    """When a length of time after an instant is over; `time` where rows are counted."""
    number, unit = span_numbers(length)
    if unit not in (UNITS, MICROSECONDS) or isinstance(since, str) or since is None:
        return time
    if unit == UNITS:
        return since + number
    whole = timedelta(microseconds=number)
    if isinstance(since, date) and not isinstance(since, datetime):
        whole = timedelta(days=-(-whole // timedelta(days=1)))
    return since + whole


def _or_none(length: int | str | None) -> str:
    return "of an earlier version" if length is None else str(length)


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
        rule.id,
        rule.version,
        event.get("object"),
        event["detect"],
        event.get("reason"),
        before,
        after,
        compared,
        explain_wait(rule.damping, event),
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

    shown = {name: show_range(types[name], first, last) for name, (first, last) in ranges.items()}
    return ReasonBox(keys, shown, within(before), within(after))
