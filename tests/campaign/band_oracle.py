"""What bands must report, one row of one side at a time in plain Python, written from docs/bands.md alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.campaign.oracle import Event, Range, number

SIDES = ("left", "right")


@dataclass
class Asked:
    """What a row of one side must meet beside the band."""

    name: str
    test: str
    """`>`, `<=`, `LIKE` with a prefix, `IS NULL` or `IS NOT NULL`."""
    constant: Any = None

    def holds(self, value: Any) -> bool:
        """Whether a value meets it; what is not known meets IS NULL alone."""
        if value is None or self.test.startswith("IS"):
            return (value is None) == (self.test == "IS NULL")
        if self.test == "LIKE":
            return bool(value.startswith(self.constant))
        is_above: bool = value > 0 if value in (math.inf, -math.inf) else number(value) > number(self.constant)
        return is_above == (self.test == ">")


@dataclass
class Band:
    """A range for the difference of a column, and what must be equal."""

    id: int
    version: int
    column: str
    range: Range
    """Of fractions."""
    equal: tuple[str, ...]
    """Columns that both rows must share."""
    fixed: Mapping[str, Mapping[str, str]]
    """By side: keys and their strings."""
    detect: frozenset[str]
    initial: bool = False
    enabled: bool = True
    asked: Mapping[str, tuple[Asked, ...]] = field(default_factory=dict)
    """By side."""

    def place(self, left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> int | None:
        """-1 below the band, 0 in it, 1 above; None where the two make no pair."""
        if not self.enabled or left is None or right is None:
            return None
        if any(left.get(name) is None or left[name] != right.get(name) for name in self.equal):
            return None
        for values, fixed in zip((left, right), (self.fixed[side] for side in SIDES), strict=True):
            if any(values.get(name) != text for name, text in fixed.items()):
                return None
        for values, side in zip((left, right), SIDES, strict=True):
            if not all(each.holds(values.get(each.name)) for each in self.asked.get(side, ())):
                return None
        ends = left.get(self.column), right.get(self.column)
        if any(end is None or end in (math.inf, -math.inf) for end in ends):
            return None
        difference = number(ends[0]) - number(ends[1])
        if self.range.holds(difference):
            return 0
        return -1 if self.range.low is not None and difference <= self.range.low else 1


@dataclass
class Row:
    """The last row of one object of one side."""

    time: Any
    values: dict[str, Any] = field(default_factory=dict)


class BandOracle:
    """The bands, the rows of both sides, and what one row or one change causes."""

    def __init__(self, columns: list[str], keys: list[str], silent: bool) -> None:
        self.columns, self.keys, self.silent = columns, keys, silent
        self.bands: dict[int, Band] = {}
        self.versions: dict[int, int] = {}
        self.rows: dict[str, dict[Any, Row]] = {side: {} for side in SIDES}

    def row(self, side: str, object: Any, time: Any, values: Mapping[str, Any], deleted: bool) -> list[Event]:
        """What one row causes; rows come in the order of time, side and sequence."""
        seen = {name: values[name] for name in (*self.columns, *self.keys) if values.get(name) is not None}
        known = self.rows[side].get(object)
        if object is None or time is None or (not seen and not deleted):
            return []
        if known is not None and time < known.time:
            return []
        if deleted and known is None:
            return []
        before = None if known is None else known.values
        after = None if deleted else {**(before or {}), **seen}
        if after is None:
            del self.rows[side][object]
        else:
            self.rows[side][object] = Row(time, after)
        others = self.rows["right" if side == "left" else "left"]
        events = []
        for band in self.bands.values():
            for other, row in others.items():
                if not self.same_key(object, other):
                    continue
                pair = (object, other) if side == "left" else (other, object)
                was, now = (
                    band.place(values, row.values) if side == "left" else band.place(row.values, values)
                    for values in (before, after)
                )
                happened = {
                    "exit": was == 0 and now != 0,
                    "cross": was is not None and now is not None and was * now == -1,
                    "enter": now == 0 and was != 0 and not (known is None and self.silent),
                    "inside": now == 0,
                }
                events += [
                    self.event(band, pair, kind, time, None, before, after)
                    for kind, does in happened.items()
                    if does and kind in band.detect
                ]
        return events

    def same_key(self, one: Any, other: Any) -> bool:
        """Rows that are named with a key are pairs of tuples; only those of one key make pairs."""
        return not isinstance(one, tuple) or bool(one[1] == other[1])

    def put(self, band: Band) -> list[Event]:
        """Add or edit a band."""
        band.version = self.versions[band.id] = self.versions.get(band.id, 0) + 1
        return self.swap(band.id, band, "edited" if band.enabled else "paused")

    def remove(self, id: int) -> list[Event]:
        return self.swap(id, None, "removed")

    def swap(self, id: int, new: Band | None, reason: str) -> list[Event]:
        """Put one edition in the place of another."""
        old = self.bands.pop(id, None)
        if new is not None:
            self.bands[id] = new
        events = []
        for left, one in self.rows["left"].items():
            for right, other in self.rows["right"].items():
                if not self.same_key(left, right):
                    continue
                was, now = (band is not None and band.place(one.values, other.values) == 0 for band in (old, new))
                time = max(one.time, other.time)
                if old is not None and was and not now and "exit" in old.detect:
                    events.append(self.event(old, (left, right), "exit", time, reason, one.values, one.values))
                if new is not None and now and not was and new.initial and "enter" in new.detect:
                    events.append(self.event(new, (left, right), "enter", time, "initial", one.values, one.values))
        return events

    def inside(self, id: int) -> set[tuple[Any, Any]]:
        """The pairs that are in a band."""
        return {
            (left, right)
            for left, one in self.rows["left"].items()
            for right, other in self.rows["right"].items()
            if self.bands[id].place(one.values, other.values) == 0
        }

    def event(self, band: Band, pair: Any, kind: str, time: Any, reason: Any, before: Any, after: Any) -> Event:
        event = {
            "rule_id": band.id, "rule_version": band.version, "object": pair[0], "other": pair[1], "detect": kind,
            "time": time, "reason": reason,
        }  # fmt: skip
        for name in self.columns:
            event |= {name: (after or {}).get(name), f"{name}_before": (before or {}).get(name)}
        return event


def fraction_range(low: Any, high: Any, with_low: bool = True, with_high: bool = True) -> Range:
    """A range of differences."""
    exact = [None if end is None else Fraction(end) for end in (low, high)]
    return Range(exact[0], exact[1], with_low, with_high)
