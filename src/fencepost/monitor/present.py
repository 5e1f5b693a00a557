"""All objects of one moment, for questions that are about rules rather than rows."""

from collections.abc import Mapping

import numpy as np

from fencepost.indexes.arrays import Bools, Int64s
from fencepost.monitor.layers import matched
from fencepost.monitor.positions import KeyStrings, Pairs, Positions
from fencepost.snapshot import Snapshot

__all__ = ["Present"]


class Present:
    """All objects of one moment: where they are, and, once asked, the compiled rules that they are inside."""

    def __init__(self, slots: Int64s, positions: Positions, times: Int64s) -> None:
        self.slots, self.positions, self.times = slots, positions, times
        self.nowhere: Bools = np.zeros(len(slots), np.bool_)
        self._held: tuple[Snapshot, Pairs] | None = None

    def inside_compiled(self, row: int, snapshot: Snapshot, strings: Mapping[str, KeyStrings]) -> Bools:
        """Which objects are inside a compiled rule; one match serves all changes until an object moves."""
        if self._held is None or self._held[0] is not snapshot:
            held = matched(snapshot, self.positions, strings)
            order = np.argsort(held.rules)
            self._held = snapshot, Pairs(held.moves[order], held.rules[order])
        pairs = self._held[1]
        first, last = np.searchsorted(pairs.rules, [row, row + 1])
        inside = self.nowhere.copy()
        inside[pairs.moves[first:last]] = True
        return inside
