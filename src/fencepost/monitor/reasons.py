"""Why an event happened: the rule's boxes, and where the object was before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from fencepost._html import html_text
from fencepost._text import name_kind
from fencepost.computed import Computed
from fencepost.errors import FencepostError, shorten
from fencepost.monitor.expressions import columns_used, compute, show_part, show_range, shown_values
from fencepost.ordinals import AttributeType
from fencepost.rules.damping import Damping, span_numbers, spelled
from fencepost.snapshot.columns import MICROSECONDS, UNITS
from fencepost.watching.rules_in_force import Box, LiveRule


@dataclass(frozen=True)
class ReasonBox:
    """One box of the rule, and whether the values of the event are in it.

    Keys are compared where the event has their values, and else only shown.
    """

    keys: dict[str, str]
    ranges: dict[str, tuple[Any, Any]]
    """The smallest and the largest value inside; None where unbounded."""
    held_before: bool
    holds_after: bool
    decisive: tuple[str, ...] = ()
    """The columns that let it begin or end to hold: those of its parts that did not hold before, or do not now."""

    def __str__(self) -> str:
        parts = {name: f"{name} = '{text}'" for name, text in self.keys.items()}
        for name, (low, high) in self.ranges.items():
            parts[name] = show_part(name, low, high)
        states = {(True, True): "before and after", (True, False): "before, not after", (False, True): "after"}
        state = states.get((self.held_before, self.holds_after), "neither")
        if 0 < len(self.decisive) < len(parts):  # else it goes without saying which
            state += f", because of {' and '.join(parts[name] for name in self.decisive)}"
        return f"{' and '.join(parts.values()) or 'always'}: {state}"


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
    """The values of attributes, and of the rule's keys where the event has them."""
    after: dict[str, Any]
    boxes: tuple[ReasonBox, ...]
    time: Any = None
    waited: "Waited | None" = None
    """What damping had to do with it, where it had."""
    stay: tuple[ReasonBox, ...] = ()
    """The wider boxes, of `stay` or `margin`, that who is inside leaves; none where they are the same."""
    name: str | None = None
    """Of the rule."""

    def __str__(self) -> str:
        lines = [f"{self.object}: {headline(self)}"]
        lines += [] if self.waited is None else [f"  {self.waited}"]
        lines += [f"  {name}: {self.before[name]} -> {self.after[name]}" for name in self.after]
        lines += [f"  {box}" for box in self.boxes]
        lines += [f"  stay: {box}" for box in self.stay]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_text(self)


def headline(reason: Any) -> str:
    """What happened, of which rule, and when."""
    cause = "" if reason.reason is None else f", {reason.reason}"
    when = "" if reason.time is None else f" at {reason.time}"
    name = "" if reason.name is None else f"{shorten(reason.name)}, "
    return f"{reason.detect} of rule {reason.rule_id} ({name}version {reason.rule_version}{cause}){when}"


def show_box(keys: Mapping[str, str], ranges: Mapping[str, tuple[Any, Any]]) -> str:
    """A box in words: what keys equal, and the smallest and largest values inside, None where unbounded."""
    parts = [f"{name} = '{text}'" for name, text in keys.items()]
    for name, (low, high) in ranges.items():
        parts.append(show_part(name, low, high))
    return " and ".join(parts) or "always"


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
        shown = f"a table of {event.num_rows} rows" if hasattr(event, "num_rows") else name_kind(event)
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


def explain(
    rule: LiveRule,
    boxes: list[Box],
    event: Mapping[str, Any],
    types: Mapping[str, AttributeType],
    computed: Mapping[str, Computed] = MappingProxyType({}),
    terms: Mapping[str, Computed] = MappingProxyType({}),
    stay: Sequence[Box] = (),
) -> Reason:
    """Compare the boxes of a rule in force, and the wider ones that it is left by, with the values of an event.

    `terms` are expressions that became ranges of their column: only their values are shown.
    """
    check_version(event, rule.id, rule.version)
    used = {name: computed[name] for _, ranges in (*boxes, *stay) for name in ranges if name in computed}
    columns = [name for name in columns_used(list(used), used) if name not in types]
    keys = dict.fromkeys([*(name for keys, _ in (*boxes, *stay) for name in keys), *columns])
    names = [*types, *(name for name in keys if name in event and f"{name}_before" in event)]
    before = {name: event.get(f"{name}_before") for name in names}
    after = {name: event.get(name) for name in names}
    compared, left = (
        tuple(_compare(box, before, after, types, used) for box in some_boxes) for some_boxes in (boxes, stay)
    )
    if shown_terms := {**used, **terms}:
        before |= shown_values(shown_terms, _ordinals(before, types))
        after |= shown_values(shown_terms, _ordinals(after, types))
    shown = (event.get("object"), event["detect"], event.get("reason"), before, after, compared, event.get("time"))
    return Reason(rule.id, rule.version, *shown, explain_wait(rule.damping, event), left)


def _ordinals(values: Mapping[str, Any], types: Mapping[str, AttributeType]) -> dict[str, int | str | None]:
    return {name: types[name].encode_one(value, name) if name in types else value for name, value in values.items()}


def _compare(
    box: Box,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    types: Mapping[str, AttributeType],
    computed: Mapping[str, Computed],
) -> ReasonBox:
    keys, ranges = box

    def failing(values: Mapping[str, Any]) -> tuple[str, ...]:
        """The columns whose parts do not hold."""
        failed = [name for name, text in keys.items() if name in values and values[name] != text]
        ordinals: dict[str, Any] = _ordinals({name: each for name, each in values.items() if name in types}, types)
        if computed:
            ordinals |= compute(computed, _ordinals(values, types))
        for name, (first, last) in ranges.items():
            ordinal = ordinals.get(name)
            if ordinal is None or not first <= ordinal <= last:
                failed.append(computed[name].text if name in computed else name)
        return tuple(failed)

    shown = {}
    for name, ends in ranges.items():
        each = computed.get(name)
        if each is None:
            shown[name] = show_range(types[name], *ends)
        else:
            shown[each.text] = show_range(each.type, *ends, each.bounds)
    begun, ended = failing(before), failing(after)
    # An object of which nothing was known before was outside, whatever its nulls would say.
    held_before = not begun and any(value is not None for value in before.values())
    is_always = not keys and not ranges
    return ReasonBox(keys, shown, held_before or is_always, not ended, () if begun and ended else begun or ended)
