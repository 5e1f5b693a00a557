"""The truth, written without a look at the code under test: plain Python, one comparison at a time."""

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction


def contains(low: float, high: float, bounds: str, value: float) -> bool:
    if math.isnan(value):
        return False
    above_low = low == -math.inf or low < value or (bounds[0] == "[" and low == value)
    below_high = high == math.inf or value < high or (bounds[1] == "]" and high == value)
    return above_low and below_high


@dataclass
class IntervalOracle:
    """A dictionary of intervals."""

    intervals: dict[int, tuple[float, float, str]] = field(default_factory=dict)

    def insert(self, id: int, low: float, high: float, bounds: str) -> None:
        assert id not in self.intervals
        self.intervals[id] = (low, high, bounds)

    def remove(self, id: int) -> None:
        del self.intervals[id]

    def stab(self, value: float) -> list[int]:
        return sorted(id for id, (low, high, bounds) in self.intervals.items() if contains(low, high, bounds, value))


@dataclass
class BoxOracle:
    """A dictionary of boxes."""

    boxes: dict[int, tuple[tuple[float, ...], tuple[float, ...], str]] = field(default_factory=dict)

    def insert(self, id: int, lows: tuple[float, ...], highs: tuple[float, ...], bounds: str) -> None:
        assert id not in self.boxes
        self.boxes[id] = (lows, highs, bounds)

    def remove(self, id: int) -> None:
        del self.boxes[id]

    def stab(self, point: tuple[float, ...]) -> list[int]:
        return sorted(
            id
            for id, (lows, highs, bounds) in self.boxes.items()
            if all(contains(low, high, bounds, value) for low, high, value in zip(lows, highs, point, strict=True))
        )


Point = tuple[float, ...]


def line_meets(before: Point, after: Point, lows: Point, highs: Point) -> bool:
    """Whether the straight line between two points meets the half-open box, tried at every share that could matter."""
    if not all(map(math.isfinite, before + after)):
        return False
    starts, steps = (
        [Fraction(v) for v in before],
        [Fraction(b) - Fraction(a) for a, b in zip(before, after, strict=True)],
    )
    shares = {Fraction(0), Fraction(1)}
    for start, step, *ends in zip(starts, steps, lows, highs, strict=True):
        shares |= {(Fraction(end) - start) / step for end in ends if math.isfinite(end) and step}
    ordered = sorted(share for share in shares if 0 <= share <= 1)
    tried = ordered + [(a + b) / 2 for a, b in itertools.pairwise(ordered)]
    return any(
        all(
            low <= start + share * step and (high == math.inf or start + share * step < high)
            for start, step, low, high in zip(starts, steps, lows, highs, strict=True)
        )
        for share in tried
    )


@dataclass
class BorderOracle:
    """Rules in a dictionary, objects in another; a row at a time, every rule compared."""

    rules: dict[int, tuple[Point, Point, str]] = field(default_factory=dict)
    objects: dict[object, Point] = field(default_factory=dict)

    def holds(self, id: int, point: Point) -> bool:
        lows, highs, bounds = self.rules[id]
        return all(contains(low, high, bounds, value) for low, high, value in zip(lows, highs, point, strict=True))

    def move(self, before: Point | None, after: Point) -> tuple[set[int], set[int], set[int]]:
        if any(map(math.isnan, after)):
            return set(), set(), set()
        if before is not None and any(map(math.isnan, before)):
            before = None
        was = {id for id in self.rules if before is not None and self.holds(id, before)}
        now = {id for id in self.rules if self.holds(id, after)}
        crossed = {id for id in self.rules if before is not None and self.crosses(id, before, after)}
        return now - was, was - now, crossed - now - was

    def crosses(self, id: int, before: Point, after: Point) -> bool:
        lows, highs, _ = self.rules[id]
        if len(before) == 1:
            low, high = min(before[0], after[0]), max(before[0], after[0])
            return not self.holds(id, (low,)) and not self.holds(id, (high,)) and low <= lows[0] and highs[0] <= high
        return line_meets(before, after, lows, highs)

    def update(self, object: object, after: Point) -> tuple[set[int], set[int], set[int]]:
        found = self.move(self.objects.get(object), after)
        if not any(map(math.isnan, after)):
            self.objects[object] = after
        return found

    def inside(self, id: int) -> set[object]:
        return {name for name, point in self.objects.items() if self.holds(id, point)}
