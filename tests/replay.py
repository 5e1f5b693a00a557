"""The truth for monitors: one row at a time, plain dicts, conditions evaluated box by box.

Written from the semantics alone; it shares nothing with the library. Event ids are computed here a second time, from
the layout that `fencepost.events` documents.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

DETECTS = {"inside": 1, "enter": 2, "exit": 4, "cross": 8}
REASONS = ["", "initial", "removed", "paused", "expired", "edited", "timeout"]

Range = tuple[float | None, float | None]
"""Half-open, [low, high); None is unbounded."""


@dataclass(frozen=True)
class ReplayBox:
    keys: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)

    def holds(self, values: Mapping[str, Any]) -> bool:
        for name, text in self.keys.items():
            if values.get(name) != text:
                return False
        for name, (low, high) in self.ranges.items():
            value = values.get(name)
            if value is None or (low is not None and value < low) or (high is not None and value >= high):
                return False
        return True

    def text(self) -> str:
        parts = [f"{name} = '{text}'" for name, text in self.keys.items()]
        for name, (low, high) in self.ranges.items():
            parts += [] if low is None else [f"{name} >= {low!r}"]
            parts += [] if high is None else [f"{name} < {high!r}"]
        return " AND ".join(parts)

    def meets_line(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether the straight line between two positions meets the box, by trying every place where that changes."""
        if not self.ranges or any(before.get(k) != text or after.get(k) != text for k, text in self.keys.items()):
            return False
        line, shares = {}, {Fraction(0), Fraction(1)}
        for name, bounds in self.ranges.items():
            if before.get(name) is None or after.get(name) is None:
                return False
            start, step = Fraction(before[name]), Fraction(after[name]) - Fraction(before[name])
            line[name] = (start, step)
            shares |= {(Fraction(bound) - start) / step for bound in bounds if bound is not None and step}
        ordered = sorted(share for share in shares if 0 <= share <= 1)
        ordered += [(one + other) / 2 for one, other in pairwise(ordered)]
        for share in ordered:
            place = {name: start + share * step for name, (start, step) in line.items()}
            if ReplayBox({}, self.ranges).holds(place):
                return True
        return False


@dataclass(frozen=True)
class ReplayRule:
    id: int
    boxes: tuple[ReplayBox, ...]
    detect: frozenset[str]
    initial: bool = False
    expires: int | None = None
    enabled: bool = True
    version: int = 1

    def holds(self, values: Mapping[str, Any], clock: int) -> bool:
        return self.enabled and not self.expired(clock) and any(box.holds(values) for box in self.boxes)

    def expired(self, clock: int) -> bool:
        return self.expires is not None and self.expires <= clock

    @property
    def name(self) -> str | None:
        return None if self.id % 3 == 0 else f"rule {self.id}, {len(self.boxes)} boxes"

    @property
    def labels(self) -> dict[str, str] | None:
        return {"detect": "+".join(sorted(self.detect)), "ü": ""} if self.initial else None

    def condition(self) -> str:
        return " OR ".join(f"({box.text()})" for box in self.boxes)


class ReplayEvent(NamedTuple):
    rule_id: int
    rule_version: int
    object: Any
    detect: str
    time: int
    reason: str | None
    before: dict[str, float | None]
    after: dict[str, float | None]
    sequence: int | None
    event_id: str
    keys: dict[str, tuple[str | None, str | None]]
    """Before and after."""
    told: tuple[str | None, dict[str, str] | None, str]
    """Name, labels and condition of the rule version that the event names."""
    carried: Any
    """What the row that caused it had in the column `venue`."""


@dataclass
class Known:
    time: int
    values: dict[str, Any]


class Replay:
    """Monitor, done naively. Times are integers; attributes are floats, keys are strings."""

    def __init__(
        self,
        attributes: Sequence[str],
        keys: Sequence[str],
        *,
        first: str = "enter",
        timeout: int | None = None,
        sequenced: bool = False,
        time_tag: str = "t",
    ) -> None:
        self.attributes, self.keys = sorted(attributes), sorted(keys)
        self.first, self.timeout, self.sequenced, self.time_tag = first, timeout, sequenced, time_tag
        self.rules: dict[int, ReplayRule] = {}
        self.removed: dict[int, int] = {}
        self.objects: dict[Any, Known] = {}
        self.marker = -(2**63)
        self.rows = self.late = self.null = 0

    # rows

    def update(self, rows: Iterable[Mapping[str, Any]]) -> list[ReplayEvent]:
        """Rows have object, time, sequence (where there is one), and values by column; None is no observation."""
        by_object: dict[Any, list[Mapping[str, Any]]] = {}
        for row in rows:
            self.rows += 1
            seen = any(row.get(name) is not None for name in (*self.attributes, *self.keys))
            if row["object"] is None or row["time"] is None or not seen:
                self.null += 1
            elif row["object"] in self.objects and row["time"] < self.objects[row["object"]].time:
                self.late += 1
            else:
                by_object.setdefault(row["object"], []).append(row)
        events = []
        for object, own in by_object.items():
            for row in sorted(own, key=self._place):
                events += self._step(object, row)
        return events

    def _place(self, row: Mapping[str, Any]) -> Any:
        def absent_first(value: Any) -> Any:
            return (value is not None, value if value is not None else 0)

        sequence = absent_first(row["sequence"]) if self.sequenced else ()
        return (row["time"], sequence, *(absent_first(row.get(name)) for name in (*self.attributes, *self.keys)))

    def _step(self, object: Any, row: Mapping[str, Any]) -> list[ReplayEvent]:
        time = row["time"]
        sequence = row["sequence"] if self.sequenced else None
        events, ended = [], []
        known = self.objects.get(object)
        if known is not None:
            clock = max(known.time, self.marker)
            gone = None if self.timeout is None else known.time + self.timeout
            is_gone = gone is not None and gone <= time
            for rule in self._rules():
                if not rule.holds(known.values, clock):
                    continue
                if rule.expires is not None and rule.expires <= (gone if is_gone and gone is not None else time):
                    ended.append((rule.expires, rule, "expired"))
                elif is_gone and gone is not None:
                    ended.append((gone, rule, "timeout"))
            for instant, rule, reason in sorted(ended, key=lambda end: (end[0], end[1].id)):
                events += self._event(rule, object, "exit", instant, reason, known.values, known.values, None)
            if is_gone:
                known = None
        before = {} if known is None else known.values
        after = {**before, **{n: row[n] for n in (*self.attributes, *self.keys) if row.get(n) is not None}}
        now = max(time, self.marker)
        held = [rule for rule in self._rules() if known is not None and rule.holds(before, now)]
        holds = [rule for rule in self._rules() if rule.holds(after, now)]
        crossed = [
            rule
            for rule in self._rules()
            if known is not None and rule.enabled and not rule.expired(now) and rule not in held and rule not in holds
            if any(box.meets_line(before, after) for box in rule.boxes)
        ]
        entered = [rule for rule in holds if rule not in held]
        if known is None and self.first == "silent":
            entered = []
        for detect, rules in (
            ("exit", [rule for rule in held if rule not in holds]),
            ("cross", crossed),
            ("enter", entered),
            ("inside", holds),
        ):
            for rule in rules:
                events += self._event(rule, object, detect, time, None, before, after, sequence, row.get("venue"))
        self.objects[object] = Known(time, after)
        return events

    def advance(self, now: int) -> list[ReplayEvent]:
        events = []
        for object, known in list(self.objects.items()):
            gone = None if self.timeout is None else known.time + self.timeout
            for rule in self._rules():
                if not rule.holds(known.values, max(known.time, self.marker)):
                    continue
                ends = [(rule.expires, 0, "expired")] if rule.expires is not None else []
                ends += [(gone, 1, "timeout")] if gone is not None else []
                ends = sorted(end for end in ends if end[0] <= now)
                if ends:
                    instant, _, reason = ends[0]
                    events += self._event(rule, object, "exit", instant, reason, known.values, known.values, None)
            if gone is not None and gone <= now:
                del self.objects[object]
        self.marker = max(self.marker, now)
        return events

    # rules

    def add(self, rule: ReplayRule) -> list[ReplayEvent]:
        assert rule.id not in self.rules
        return self._change(None, rule, self.removed.get(rule.id, 0) + 1, "")

    def replace(self, rule: ReplayRule) -> list[ReplayEvent]:
        old = self.rules[rule.id]
        return self._change(old, rule, old.version + 1, "edited" if rule.enabled else "paused")

    def remove(self, id: int) -> list[ReplayEvent]:
        old = self.rules.pop(id)
        self.removed[id] = old.version
        return self._change(old, None, 0, "removed")

    def _change(self, old: ReplayRule | None, new: ReplayRule | None, version: int, reason: str) -> list[ReplayEvent]:
        if new is not None:
            new = ReplayRule(new.id, new.boxes, new.detect, new.initial, new.expires, new.enabled, version)
            self.rules[new.id] = new
        events = []
        for object, known in self.objects.items():
            clock = max(known.time, self.marker)
            was = old is not None and old.holds(known.values, clock)
            is_now = new is not None and new.holds(known.values, clock)
            if old is not None and was and not is_now:
                events += self._event(old, object, "exit", known.time, reason, known.values, known.values, None)
            if new is not None and is_now and not was and new.initial:
                events += self._event(new, object, "enter", known.time, "initial", known.values, known.values, None)
        return events

    def inside(self, id: int) -> set[Any]:
        rule = self.rules[id]
        return {o for o, known in self.objects.items() if rule.holds(known.values, max(known.time, self.marker))}

    def _rules(self) -> list[ReplayRule]:
        return [self.rules[id] for id in sorted(self.rules)]

    # events

    def _event(
        self,
        rule: ReplayRule,
        object: Any,
        detect: str,
        time: int,
        reason: str | None,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        sequence: int | None,
        carried: Any = None,
    ) -> list[ReplayEvent]:
        if detect not in rule.detect:
            return []
        was = {name: before.get(name) for name in self.attributes}
        now = {name: after.get(name) for name in self.attributes}
        record = struct.pack("<Bqq", 1, rule.id, rule.version) + identity(object) + bytes(17)
        record += struct.pack("<BcqB", DETECTS[detect], self.time_tag.encode(), time, REASONS.index(reason or ""))
        record += b"\1" + packed(sequence) if self.sequenced else b"\0"
        record += struct.pack("<H", len(self.attributes))
        for name in self.attributes:
            record += packed(double_ordinal(was[name])) + packed(double_ordinal(now[name]))
        digest = blake2b(record, digest_size=16).hexdigest()
        keys = {name: (before.get(name), after.get(name)) for name in self.keys}
        told = rule.name, rule.labels, rule.condition()
        facts = rule.id, rule.version, object, detect, time, reason, was, now, sequence, digest
        return [ReplayEvent(*facts, keys, told, carried)]


def identity(object: Any) -> bytes:
    """An object in the record of an event."""
    if isinstance(object, str):
        return b"s" + blake2b(object.encode(), digest_size=16).digest()
    return b"i" + struct.pack("<qq", object, 0)


def packed(ordinal: int | None) -> bytes:
    return bytes(9) if ordinal is None else struct.pack("<Bq", 1, ordinal)


def double_ordinal(value: float | None) -> int | None:
    if value is None:
        return None
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits if bits < 2**63 else -(bits - 2**63)
