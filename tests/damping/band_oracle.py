"""The semantics of damping for two rows of a band and one rule, one item at a time: `Pair` with a clock of two sides.

Written from the semantics alone: it knows nothing of arrays, batches and indexes.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.damping.oracle import INF, Pair

OTHER = {"left": "right", "right": "left"}


@dataclass
class Row:
    """The last row of one side."""

    time: float
    x: float


@dataclass
class BandPair(Pair):
    """A left and a right row, whose difference is in the band or not."""

    sides: dict[str, Row | None] = field(default_factory=lambda: {"left": None, "right": None})
    moved: tuple[float | None, float | None] = (None, None)
    """What the row that is applied was and is."""
    values: list[tuple[float | None, float | None]] = field(default_factory=list)
    """Of each event: the row that did it before and after; where none did, the left one twice."""
    insides: list[tuple[float, tuple[float | None, float | None]]] = field(default_factory=list)

    def difference(self) -> float | None:
        left, right = self.sides["left"], self.sides["right"]
        return None if left is None or right is None else left.x - right.x

    def now(self) -> float:
        return max((row.time for row in self.sides.values() if row is not None), default=-INF)

    def report(self, at: float, reason: str | None, kind: str | None = None) -> None:
        super().report(at, reason, kind)
        left = self.sides["left"]
        stands = None if left is None else left.x
        self.values.append(self.moved if reason is None else (stands, stands))

    def settle_until(self, now: float, gone: float) -> None:
        """Report what is due before now, and what time ends by it; silence ends the pair at `gone`."""
        end = min(self.p.expires, gone)
        if self.due() < min(now, end):
            self.report(self.due(), self.why_without_row())
        if end <= now and not self.ended:
            if self.reported:  # silence may have ended it before a row of the other side
                self.report(max(end, self.now()), "expired" if self.p.expires <= end else "timeout")
            self.raw = False
            if self.p.expires > end:
                self.enters = 0
        self.ended |= self.p.expires <= now

    def take_row(self, side: str, t: float, x: float | None, deleted: bool) -> None:
        own, partner = self.sides[side], self.sides[OTHER[side]]
        if (x is None and not deleted) or (own is not None and t < own.time):
            return
        now = max(t, self.now())
        back = own is not None and own.time + self.p.timeout <= t
        gone = INF
        if back and own is not None:
            gone = min(own.time, INF if partner is None else partner.time) + self.p.timeout
        before, was_reported = self.difference(), self.reported
        self.settle_until(now, gone)
        was_reported = self.reported
        self.moved = (None if own is None or back else own.x, None if deleted else x)
        if deleted:
            if self.reported:
                self.report(now, None)
            self.raw, self.enters, self.sides[side] = False, 0, None
            return
        assert x is not None
        new, self.sides[side] = own is None or back, Row(t, x)
        self.x, was_raw = self.difference(), self.raw
        self.observe(now)
        if new and self.p.first == "silent":
            self.reported = self.raw
        self.rows += self.raw != self.reported
        if self.due() <= now:
            self.report(now, self.why() if self.raw != was_raw else self.why_without_row())
        jumps = not new and self.x is not None and self.p.jumps(before, self.x)
        if self.p.crosses and jumps and not was_reported and not self.reported and not self.ended:
            self.report(now, None, "cross")
        if self.raw and self.reported:
            self.insides.append((t, self.moved))

    def tick(self, now: float) -> None:
        left, right = self.sides["left"], self.sides["right"]
        gone = INF if left is None or right is None else min(left.time, right.time) + self.p.timeout
        self.settle_until(now, gone)
        for side, row in self.sides.items():
            if row is not None and row.time + self.p.timeout <= now:
                self.sides[side] = None

    def edit(self, changes: dict[str, Any]) -> None:
        self.seen, self.clock, self.x = None not in self.sides.values(), self.now(), self.difference()
        super().edit(changes)

    def remove(self, reason: str) -> None:
        self.clock = self.now()
        super().remove(reason)
