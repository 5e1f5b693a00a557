"""What the Monitor must report, one row at a time in plain Python, written from the semantics in the design alone.

Nothing here is shared with the product or with the other oracles of the tests: no arrays, no index, no parsing. A rule
is a list of boxes of Python values.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

Event = dict[str, Any]
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Range:
    """From `low` to `high`; None is unbounded."""

    low: Any = None
    high: Any = None
    with_low: bool = True
    with_high: bool = True

    def holds(self, value: Any) -> bool:
        above = self.low is None or value > self.low or (self.with_low and value == self.low)
        below = self.high is None or value < self.high or (self.with_high and value == self.high)
        return above and below

    def half_open(self) -> tuple[Fraction | None, Fraction | None]:
        """The same on the line of numbers, from an end that belongs to it to one that does not."""
        low = None if self.low is None else number(self.low if self.with_low else successor(self.low))
        high = None if self.high is None else number(successor(self.high) if self.with_high else self.high)
        return low, high


@dataclass(frozen=True)
class Box:
    """A range for each of some attributes, and the strings that each of some keys may be."""

    ranges: Mapping[str, Range]
    keys: Mapping[str, tuple[str, ...]]

    def holds(self, values: Mapping[str, Any]) -> bool:
        return self.keys_hold(values) and all(
            values.get(name) is not None and each.holds(values[name]) for name, each in self.ranges.items()
        )

    def keys_hold(self, values: Mapping[str, Any]) -> bool:
        return all(values.get(name) in allowed for name, allowed in self.keys.items())

    def same_key(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Each string that a key may be makes a box of its own."""
        return self.keys_hold(after) and all(before.get(name) == after[name] for name in self.keys)

    def is_crossed(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether the straight line from one place to the other meets the box."""
        if not self.ranges or not self.same_key(before, after):
            return False
        ends = [(before.get(name), after.get(name)) for name in self.ranges]
        if any(start is None or end is None for start, end in ends):
            return False
        if len(ends) == 1:
            [(start, end)], [only] = ends, self.ranges.values()
            return jumps_over(only, start, end)
        if any(math.isinf(value) for pair in ends for value in pair if isinstance(value, float)):
            return False  # no straight line leads to infinity
        return line_meets(list(self.ranges.values()), [(number(start), number(end)) for start, end in ends])


def jumps_over(range_: Range, start: Any, end: Any) -> bool:
    """Whether two values lie on different sides of a range."""
    if range_.holds(start) or range_.holds(end) or range_.low is None or range_.high is None:
        return False
    low, high = sorted((start, end))
    return bool(low <= range_.low and high >= range_.high)


def line_meets(ranges: list[Range], ends: list[tuple[Fraction, Fraction]]) -> bool:
    """Whether a segment meets a half-open box: each axis allows some share of the way, all together must leave one."""
    first, first_in, last, last_in = Fraction(0), True, Fraction(1), True
    for range_, (start, end) in zip(ranges, ends, strict=True):
        low, high = range_.half_open()
        if start == end:
            if (low is not None and start < low) or (high is not None and start >= high):
                return False
            continue
        entry, entry_in = (low, True) if end > start else (high, False)
        leave, leave_in = (high, False) if end > start else (low, True)
        if entry is not None:
            first, first_in = max((first, not first_in), ((entry - start) / (end - start), not entry_in))
            first_in = not first_in
        if leave is not None:
            last, last_in = min((last, last_in), ((leave - start) / (end - start), leave_in))
    return first < last or (first == last and first_in and last_in)


def is_nan(value: Any) -> bool:
    """NaN is no observation."""
    return isinstance(value, float) and math.isnan(value)


def number(value: Any) -> Fraction:
    """A value as a place on the line."""
    if isinstance(value, datetime):
        return Fraction((value - EPOCH) // timedelta(microseconds=1))
    return Fraction(value.toordinal() if isinstance(value, date) else value)


def successor(value: Any) -> Any:
    """The next larger value of its type."""
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    if isinstance(value, datetime):
        return value + timedelta(microseconds=1)
    if isinstance(value, date):
        return value + timedelta(days=1)
    return value + Decimal("0.01") if isinstance(value, Decimal) else value + 1


@dataclass
class Rule:
    """A rule in one edition."""

    id: int
    version: int
    boxes: list[Box]
    detect: frozenset[str]
    initial: bool = False
    expires: Any = None
    enabled: bool = True

    def holds(self, values: Mapping[str, Any]) -> bool:
        return any(box.holds(values) for box in self.boxes)

    def in_force_at(self, time: Any) -> bool:
        return self.enabled and (self.expires is None or time is None or time < self.expires)


@dataclass
class Object:
    """What is remembered of one object."""

    time: Any
    values: dict[str, Any] = field(default_factory=dict)


class Oracle:
    """The rules, the objects, and what one row, one change or one instant causes."""

    def __init__(self, attributes: list[str], keys: list[str], *, silent: bool = False, timeout: Any = None) -> None:
        self.attributes, self.keys, self.silent, self.timeout = attributes, keys, silent, timeout
        self.rules: dict[int, Rule] = {}
        self.versions: dict[int, int] = {}
        """The last version of every id that ever was."""
        self.objects: dict[Any, Object] = {}
        self.now: Any = None
        """The time that all clocks were moved to."""
        self.rows = self.late = self.null = 0
        self.late_rows: list[tuple[Any, Any]] = []

    # -- rows ------------------------------------------------------------------------------------------------

    def row(self, object: Any, time: Any, values: Mapping[str, Any], timed: bool = True) -> list[Event]:
        """What one row causes; rows of one call come here in the order of their time and sequence."""
        self.rows += 1
        seen = {
            name: value
            for name in (*self.attributes, *self.keys)
            if (value := values.get(name)) is not None and not is_nan(value)
        }
        if object is None or (timed and time is None) or not seen:
            self.null += 1
            return []
        known = self.objects.get(object)
        if not timed:
            time = 1 if known is None else known.time + 1
        if known is not None and time < known.time:
            self.late += 1
            self.late_rows.append((object, time))
            return []
        events = [] if known is None else self.end_by(object, time)
        known = self.objects.get(object)
        before = {} if known is None else known.values
        after = {**before, **seen}
        self.objects[object] = Object(time, after)
        return events + self.move(object, time, before, after, first=known is None)

    def move(self, object: Any, time: Any, before: Any, after: Any, first: bool) -> list[Event]:
        """Exits, crosses, enters, insides; of each by the id of the rule."""
        found: dict[str, list[Event]] = {kind: [] for kind in ("exit", "cross", "enter", "inside")}
        for _, rule in sorted(self.rules.items()):
            if not rule.in_force_at(self.clock(time)):
                continue
            was, now = not first and rule.holds(before), rule.holds(after)
            crossed = not first and not was and not now and any(box.is_crossed(before, after) for box in rule.boxes)
            happened = {
                "exit": was and not now,
                "cross": crossed,
                "enter": now and not was and not (first and self.silent),
                "inside": now,
            }
            for kind in found:
                if happened[kind] and kind in rule.detect:
                    found[kind].append(self.event(rule, object, kind, time, None, before, after))
        return [event for events in found.values() for event in events]

    def clock(self, time: Any) -> Any:
        """The time of an object, which others may have moved on."""
        return time if self.now is None else max(time, self.now)

    # -- time ------------------------------------------------------------------------------------------------

    def advance(self, time: Any) -> list[Event]:
        """All clocks move to a time."""
        if self.now is not None and time <= self.now:
            return []
        events = [event for object in list(self.objects) for event in self.end_by(object, time)]
        self.now = time
        return events

    def end_by(self, object: Any, time: Any) -> list[Event]:
        """What time ends for one object until it is `time`, each at its instant, at one instant by rule."""
        known = self.objects[object]
        gone = None if self.timeout is None else known.time + self.timeout
        due = gone if gone is not None and gone <= time else time
        events = []
        for _, rule in sorted(self.rules.items(), key=lambda item: (item[1].expires is None, item[1].expires, item[0])):
            ends = rule.expires is not None and rule.in_force_at(self.clock(known.time)) and rule.expires <= due
            if ends and rule.holds(known.values) and "exit" in rule.detect:
                events.append(self.event(rule, object, "exit", rule.expires, "expired", known.values, known.values))
        if gone is not None and gone <= time:
            for _, rule in sorted(self.rules.items()):
                left = rule.in_force_at(max(gone, self.clock(known.time))) and rule.holds(known.values)
                if left and "exit" in rule.detect:
                    events.append(self.event(rule, object, "exit", gone, "timeout", known.values, known.values))
            del self.objects[object]
        return sorted(events, key=lambda event: (event["time"], event["rule_id"]))

    # -- rules -----------------------------------------------------------------------------------------------

    def put(self, rule: Rule) -> list[Event]:
        """Add or edit a rule: its version is the next one of its id."""
        rule.version = self.versions[rule.id] = self.versions.get(rule.id, 0) + 1
        return self.swap(rule.id, rule, "edited" if rule.enabled else "paused")

    def remove(self, id: int) -> list[Event]:
        return self.swap(id, None, "removed")

    def swap(self, id: int, new: Rule | None, reason: str) -> list[Event]:
        """Put one edition in the place of another: who no longer is inside leaves the old one."""
        old = self.rules.pop(id, None)
        if new is not None:
            self.rules[id] = new
        events = []
        for object, known in self.objects.items():
            was, now = (
                rule is not None and rule.in_force_at(self.clock(known.time)) and rule.holds(known.values)
                for rule in (old, new)
            )
            if old is not None and was and not now and "exit" in old.detect:
                events.append(self.event(old, object, "exit", known.time, reason, known.values, known.values))
            if new is not None and now and not was and new.initial and "enter" in new.detect:
                events.append(self.event(new, object, "enter", known.time, "initial", known.values, known.values))
        return events

    def inside(self, id: int) -> set[Any]:
        """The objects that are inside a rule."""
        rule = self.rules[id]
        return {
            object
            for object, known in self.objects.items()
            if rule.in_force_at(self.clock(known.time)) and rule.holds(known.values)
        }

    def event(self, rule: Rule, object: Any, kind: str, time: Any, reason: Any, before: Any, after: Any) -> Event:
        event = {
            "rule_id": rule.id, "rule_version": rule.version, "object": object, "other": None, "detect": kind,
            "time": time, "reason": reason,
        }  # fmt: skip
        for name in self.attributes:
            event |= {name: after.get(name), f"{name}_before": before.get(name)}
        return event


def by_object(events: Iterable[Event]) -> dict[Any, list[Event]]:
    """The events of each object, in their order."""
    found: dict[Any, list[Event]] = {}
    for event in events:
        found.setdefault(event["object"], []).append(event)
    return found
