"""The truth, written without a look at the code under test: plain Python, one comparison at a time."""

import math
from dataclasses import dataclass, field


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
