"""All objects of one moment, for questions that are about rules rather than rows."""

from collections.abc import Mapping

import numpy as np

from fencepost.indexes.arrays import Bools, Int64s
from fencepost.monitor.layers import Layers, matched
from fencepost.monitor.positions import KeyStrings, Pairs, Positions

__all__ = ["Present"]


class Present:
    """All objects of one moment: where they are, and, once asked, the rules of the base that they are inside."""

    def __init__(self, slots: Int64s, positions: Positions, times: Int64s) -> None:
        self.slots, self.positions, self.times = slots, positions, times
        self.nowhere: Bools = np.zeros(len(slots), np.bool_)
        self._held: Pairs | None = None

    def inside_base(self, row: int, layers: Layers, strings: Mapping[str, KeyStrings]) -> Bools:
        """Which objects are inside a rule of the base; one match serves all changes until an object moves."""
        if self._held is None:
            held = matched(layers.base, self.positions, strings)
            order = np.argsort(held.rules)
            self._held = Pairs(held.moves[order], held.rules[order])
        first, last = np.searchsorted(self._held.rules, [row, row + 1])
        inside = self.nowhere.copy()
        inside[self._held.moves[first:last]] = True
        return inside
