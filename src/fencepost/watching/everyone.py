"""All objects of one moment, for questions that are about rules rather than rows."""

from collections.abc import Mapping

import numpy as np

from fencepost.emitting.detections import Pairs
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.snapshot import Snapshot
from fencepost.watching.positions import KeyStrings, Positions
from fencepost.watching.rules_in_force import match_positions


class Everyone:
    """All objects of one moment: where they are, and, once asked, the compiled rules that they are inside."""

    def __init__(self, slots: Int64s, positions: Positions, times: Int64s) -> None:
        self.slots, self.positions, self.times = slots, positions, times
        self.nobody: Bools = np.zeros(len(slots), np.bool_)
        self._held: tuple[Snapshot, Pairs] | None = None

    def inside_compiled(self, row: int, snapshot: Snapshot, strings: Mapping[str, KeyStrings]) -> Bools:
        """Which objects are inside a compiled rule; one match serves all changes until an object moves."""
        if self._held is None or self._held[0] is not snapshot:
            held = match_positions(snapshot, self.positions, strings)
            order = np.argsort(held.rules)
            self._held = snapshot, Pairs(held.moves[order], held.rules[order])
        pairs = self._held[1]
        first, last = np.searchsorted(pairs.rules, [row, row + 1])
        inside = self.nobody.copy()
        inside[pairs.moves[first:last]] = True
        return inside
