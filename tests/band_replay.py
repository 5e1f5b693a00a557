"""The truth for bands in a monitor: one row at a time against every row of the other side, exact fractions.

Written from the semantics alone, like `tests.replay`, of which it takes the layout of event ids.
"""

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any, NamedTuple

from tests.band_sides import EQUALS, Test, Value
from tests.replay import DETECTS, REASONS, Known, double_ordinal, identity, packed

COLUMNS = {"left": ("x", "c", "k"), "right": ("x", "y", "c", "k")}
"""What each side has, attributes first."""
ATTRIBUTES = ("x", "y")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReplayBand:
    id: int
    right: str
    """left.x minus this column of the right row."""
    lower: float | None
    upper: float | None
    closed: tuple[bool, bool]
    same: bool
    """Whether k must be equal."""
    left_key: str | None
    """What left.c must equal, if anything."""
    right_key: str | None
    detect: frozenset[str]
    initial: bool = False
    expires: int | None = None
    enabled: bool = True
    left_value: Value | None = None
    """What of the left row is subtracted in place of x; likewise of the right one."""
    right_value: Value | None = None
    left_test: Test | None = None
    """What the left row must meet, if anything."""
    right_test: Test | None = None
    equal: int | None = None
    """Which of `EQUALS` the two must have in common, if any."""
    version: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        for side in ("left", "right"):  # a condition that excludes the key would be refused
            test = getattr(self, f"{side}_test")
            if test is not None and "{}.c" in test.sql:
                object.__setattr__(self, f"{side}_key", None)

    @property
    def name(self) -> str | None:
        return None if self.id % 3 == 0 else f"band {self.id} over {self.right}"

    @property
    def labels(self) -> dict[str, str] | None:
        return {"detect": "+".join(sorted(self.detect))} if self.initial else None

    def condition(self) -> str:
        left = "left.x" if self.left_value is None else self.left_value.sql.replace("{}", "left")
        right = f"right.{self.right}" if self.right_value is None else self.right_value.sql.replace("{}", "right")
        difference = f"{left} - {right}"
        parts = [] if self.lower is None else [f"{difference} {'>=' if self.closed[0] else '>'} {self.lower!r}"]
        parts += [] if self.upper is None else [f"{difference} {'<=' if self.closed[1] else '<'} {self.upper!r}"]
        parts += ["left.k = right.k"] if self.same else []
        parts += [] if self.left_key is None else [f"left.c = '{self.left_key}'"]
        parts += [] if self.right_key is None else [f"right.c = '{self.right_key}'"]
        parts += [] if self.left_test is None else [self.left_test.sql.replace("{}", "left")]
        parts += [] if self.right_test is None else [self.right_test.sql.replace("{}", "right")]
        parts += [] if self.equal is None else [EQUALS[self.equal][0]]
        return " AND ".join(parts)

    def keys_hold(self, left: Row, right: Row) -> bool:
        """Whether the two may be a pair: their keys, and what each of them must meet."""
        if self.left_test is not None and not self.left_test.holds(left):
            return False
        if self.right_test is not None and not self.right_test.holds(right):
            return False
        if self.equal is not None:
            _, of_left, of_right = EQUALS[self.equal]
            if of_left(left) is None or of_left(left) != of_right(right):
                return False
        if self.same and (left.get("k") is None or left.get("k") != right.get("k")):
            return False
        return (self.left_key is None or left.get("c") == self.left_key) and (
            self.right_key is None or right.get("c") == self.right_key
        )

    def side_of(self, left: Row, right: Row) -> int | None:
        """-1 below the band, 0 in it, 1 above it; None where there is no difference."""
        one = left.get("x") if self.left_value is None else self.left_value.of(left)
        other = right.get(self.right) if self.right_value is None else self.right_value.of(right)
        if one is None or other is None or math.isinf(one) or math.isinf(other):
            return None
        difference = Fraction(one) - Fraction(other)
        if self.lower is not None and (
            difference < Fraction(self.lower) or (difference == Fraction(self.lower) and not self.closed[0])
        ):
            return -1
        if self.upper is not None and (
            difference > Fraction(self.upper) or (difference == Fraction(self.upper) and not self.closed[1])
        ):
            return 1
        return 0

    def expired(self, clock: int) -> bool:
        return self.expires is not None and self.expires <= clock

    def holds(self, left: Row, right: Row, clock: int) -> bool:
        alive = self.enabled and not self.expired(clock)
        return alive and self.keys_hold(left, right) and self.side_of(left, right) == 0


class BandEvent(NamedTuple):
    rule_id: int
    rule_version: int
    object: Any
    other: Any
    detect: str
    time: int
    reason: str | None
    before: dict[str, float | None]
    after: dict[str, float | None]
    event_id: str
    c: str | None
    """The key that rules compare with strings, of the row that moved, or else of the left one."""
    c_before: str | None
    name: str | None
    labels: dict[str, str] | None
    condition: str
    venue: str | None
    """What the row that moved carries."""


class BandReplay:
    """Bands of a monitor, done naively. Times are integers."""

    def __init__(self, *, first: str = "enter", timeout: int | None = None, sequenced: bool = False) -> None:
        self.first, self.timeout, self.sequenced = first, timeout, sequenced
        self.rules: dict[int, ReplayBand] = {}
        self.removed: dict[int, int] = {}
        self.sides: dict[str, dict[Any, Known]] = {"left": {}, "right": {}}
        self.marker = -(2**63)
        self.rows = self.late = self.null = 0

    # rows

    def update(self, left: Iterable[Row], right: Iterable[Row]) -> list[BandEvent]:
        taken = []
        for side, rows in (("left", left), ("right", right)):
            for row in rows:
                self.rows += 1
                seen = row["deleted"] or any(row.get(name) is not None for name in COLUMNS[side])
                known = self.sides[side].get(row["object"])
                if row["object"] is None or row["time"] is None or not seen:
                    self.null += 1
                elif known is not None and row["time"] < known.time:
                    self.late += 1
                else:
                    taken.append((self._place(side, row), side, row))
        events = []
        for _, side, row in sorted(taken, key=lambda each: each[0]):
            events += self._step(side, row)
        return events

    def _place(self, side: str, row: Row) -> Any:
        def absent_first(value: Any) -> Any:
            return (value is not None, value if value is not None else 0)

        sequence = absent_first(row["sequence"]) if self.sequenced else ()
        values = [absent_first(row.get(name)) for name in COLUMNS[side]]
        return (row["time"], side, sequence, bool(row["deleted"]), values)

    def _step(self, side: str, row: Row) -> list[BandEvent]:
        object, time = row["object"], row["time"]
        sequence = row["sequence"] if self.sequenced else None
        known = self.sides[side].get(object)
        gone = None if self.timeout is None or known is None else known.time + self.timeout
        is_gone = gone is not None and gone <= time
        continued = known if not is_gone else None
        before = {} if continued is None else continued.values
        after = {**before, **{name: row[name] for name in COLUMNS[side] if row.get(name) is not None}}
        after = {} if row["deleted"] else after
        events: list[BandEvent] = []
        for other, partner in self.sides["right" if side == "left" else "left"].items():

            def oriented(own: Row, theirs: Row = partner.values) -> tuple[Row, Row]:
                return (own, theirs) if side == "left" else (theirs, own)

            pair = (object, other) if side == "left" else (other, object)
            for rule in self.rules.values():
                was = known is not None and rule.holds(
                    *oriented(known.values), max(known.time, partner.time, self.marker)
                )
                if was and known is not None:
                    ends = [] if rule.expires is None else [(rule.expires, 0, "expired")]
                    ends += [(gone, 1, "timeout")] if gone is not None else []
                    ends = sorted(end for end in ends if end[0] <= time)
                    if ends:
                        instant, _, reason = ends[0]
                        events += self._event(rule, pair, "exit", instant, reason, known.values, known.values, None)
                        was = False
                clock = max(time, partner.time, self.marker)
                now = rule.holds(*oriented(after), clock)
                happened = []
                if was and not now:
                    happened.append("exit")
                if continued is not None and rule.enabled and not rule.expired(clock):
                    sides = {rule.side_of(*oriented(before)), rule.side_of(*oriented(after))}
                    keys = rule.keys_hold(*oriented(before)) and rule.keys_hold(*oriented(after))
                    if keys and sides == {-1, 1}:
                        happened.append("cross")
                if now and not was and (continued is not None or self.first == "enter"):
                    happened.append("enter")
                if now:
                    happened.append("inside")
                for detect in happened:
                    events += self._event(rule, pair, detect, time, None, before, after, sequence, row.get("venue"))
        if row["deleted"]:
            self.sides[side].pop(object, None)
        else:
            self.sides[side][object] = Known(time, after)
        return events

    def advance(self, now: int) -> list[BandEvent]:
        events = []
        for pair, left, right in self._pairs():
            for rule in self.rules.values():
                if not rule.holds(left.values, right.values, max(left.time, right.time, self.marker)):
                    continue
                ends = [] if rule.expires is None else [(rule.expires, 0, "expired")]
                if self.timeout is not None:
                    ends += [(row.time + self.timeout, 1, "timeout") for row in (left, right)]
                ends = sorted(end for end in ends if end[0] <= now)
                if ends:
                    instant, _, reason = ends[0]
                    events += self._event(rule, pair, "exit", instant, reason, left.values, left.values, None)
        if self.timeout is not None:
            for side in self.sides.values():
                for object in [object for object, known in side.items() if known.time + self.timeout <= now]:
                    del side[object]
        self.marker = max(self.marker, now)
        return events

    def _pairs(self) -> list[tuple[tuple[Any, Any], Known, Known]]:
        left, right = self.sides["left"], self.sides["right"]
        return [((one, other), left[one], right[other]) for one in left for other in right]

    # rules

    def put(self, rule: ReplayBand) -> list[BandEvent]:
        old = self.rules.get(rule.id)
        version = (self.removed.pop(rule.id, 0) if old is None else old.version) + 1
        self.rules[rule.id] = replace(rule, version=version)
        return self._change(old, self.rules[rule.id], "edited" if rule.enabled else "paused")

    def remove(self, id: int) -> list[BandEvent]:
        old = self.rules.pop(id)
        self.removed[id] = old.version
        return self._change(old, None, "removed")

    def _change(self, old: ReplayBand | None, new: ReplayBand | None, reason: str) -> list[BandEvent]:
        events = []
        for pair, left, right in self._pairs():
            clock, time = max(left.time, right.time, self.marker), max(left.time, right.time)
            was = old is not None and old.holds(left.values, right.values, clock)
            now = new is not None and new.holds(left.values, right.values, clock)
            if old is not None and was and not now:
                events += self._event(old, pair, "exit", time, reason, left.values, left.values, None)
            if new is not None and now and not was and new.initial:
                events += self._event(new, pair, "enter", time, "initial", left.values, left.values, None)
        return events

    def inside(self, id: int) -> set[tuple[Any, Any]]:
        return {
            pair
            for pair, left, right in self._pairs()
            if self.rules[id].holds(left.values, right.values, max(left.time, right.time, self.marker))
        }

    # events

    def _event(
        self,
        rule: ReplayBand,
        pair: tuple[Any, Any],
        detect: str,
        time: int,
        reason: str | None,
        before: Row,
        after: Row,
        sequence: int | None,
        venue: str | None = None,
    ) -> list[BandEvent]:
        if detect not in rule.detect:
            return []
        was = {name: before.get(name) for name in ATTRIBUTES}
        now = {name: after.get(name) for name in ATTRIBUTES}
        record = struct.pack("<Bqq", 1, rule.id, rule.version) + identity(pair[0]) + identity(pair[1])
        record += struct.pack("<BcqB", DETECTS[detect], b"t", time, REASONS.index(reason or ""))
        record += b"\1" + packed(sequence) if self.sequenced else b"\0"
        record += struct.pack("<H", len(ATTRIBUTES))
        for name in ATTRIBUTES:
            record += packed(double_ordinal(was[name])) + packed(double_ordinal(now[name]))
        digest = blake2b(record, digest_size=16).hexdigest()
        told: Any = after.get("c"), before.get("c"), rule.name, rule.labels, rule.condition(), venue
        return [BandEvent(rule.id, rule.version, *pair, detect, time, reason, was, now, digest, *told)]
