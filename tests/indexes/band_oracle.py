"""The truth about bands: exact fractions, every pair and every query, one at a time."""

import math
from dataclasses import dataclass, field
from fractions import Fraction


def in_band(low: float, high: float, bounds: str, left: float, right: float) -> bool:
    difference = Fraction(left) - Fraction(right)
    above = low == -math.inf or difference > Fraction(low) or (bounds[0] == "[" and difference == Fraction(low))
    below = high == math.inf or difference < Fraction(high) or (bounds[1] == "]" and difference == Fraction(high))
    return above and below


@dataclass
class BandOracle:
    """Two dictionaries of rows and one of queries."""

    left: dict[int, tuple[float, int | None]] = field(default_factory=dict)
    right: dict[int, tuple[float, int | None]] = field(default_factory=dict)
    queries: dict[int, tuple[float, float, str, int | None]] = field(default_factory=dict)

    def rows(self, side: str) -> dict[int, tuple[float, int | None]]:
        return self.left if side == "left" else self.right

    def pairs(self, side: str, value: float, group: int | None = None) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        if not math.isfinite(value):
            return found
        for row, (other, key) in self.rows("right" if side == "left" else "left").items():
            for id, (low, high, bounds, about) in self.queries.items():
                left, right = (value, other) if side == "left" else (other, value)
                if key == group and about in (None, group) and in_band(low, high, bounds, left, right):
                    found.add((row, id))
        return found

    def move(self, side: str, row: int, value: float) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """The pairs that enter and that leave."""
        before, group = self.rows(side)[row]
        self.rows(side)[row] = (value, group)
        was, now = self.pairs(side, before, group), self.pairs(side, value, group)
        return now - was, was - now
