"""The semantics of damping for one object and one rule, one item at a time.

Items: ("row", time, value), where the value may be None; ("tick", time), which promises that no older row will come;
("edit", changes of the policy); ("remove", reason). It knows nothing of arrays, batches and indexes.
"""

from dataclasses import dataclass, field, replace
from typing import Any

INF = float("inf")


@dataclass
class Policy:
    """A rule `x BETWEEN lo AND hi` and how it is damped."""

    lo: float = 10
    hi: float = 20
    stay: tuple[float, float] | None = None
    for_: float = 0
    for_rows: int = 1
    keep: float = 0
    keep_rows: int = 1
    cooldown: float = 0
    limit: float = INF
    expires: float = INF
    timeout: float = INF
    first: str = "enter"
    crosses: bool = False
    initial: bool = False

    def holds(self, x: float | None) -> bool:
        return x is not None and self.lo <= x <= self.hi

    def stays(self, x: float | None) -> bool:
        return x is not None and self.stay is not None and self.stay[0] <= x <= self.stay[1]

    def jumps(self, before: float | None, after: float) -> bool:
        return before is not None and min(before, after) < self.lo and max(before, after) > self.hi


@dataclass
class Pair:
    """One object and one rule."""

    p: Policy
    raw: bool = False
    reported: bool = False
    since: float = 0
    rows: int = 0
    quiet: float = -INF
    last: float = -INF
    x: float | None = None
    clock: float = -INF
    seen: bool = False
    ended: bool = False
    late: int = 0
    dropped: int = 0
    enters: int = 0
    out: list[tuple[str, float, str | None]] = field(default_factory=list)
    since_of: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    """Times of rows on which it is inside, and reported so."""

    def due(self) -> float:
        if self.raw == self.reported:
            return INF
        if self.reported:
            return self.since + self.p.keep if self.rows >= self.p.keep_rows else INF
        if self.rows < self.p.for_rows or self.enters >= self.p.limit:
            return INF
        return max(self.since + self.p.for_, self.quiet)

    def report(self, at: float, reason: str | None, kind: str | None = None) -> None:
        at = max(at, self.last)
        if kind is None:
            self.reported = not self.reported
            kind = "enter" if self.reported else "exit"
            self.enters += self.reported and self.p.limit != INF
        waited = reason in ("held", "kept", "cooldown")
        self.out.append((kind, at, reason))
        self.since_of.append(self.since if waited else at)
        self.last, self.quiet = at, at + self.p.cooldown

    def why(self) -> str | None:
        if self.reported:
            return "kept" if self.p.keep or self.p.keep_rows > 1 else None
        if self.quiet > self.since + self.p.for_:
            return "cooldown"
        return "held" if self.p.for_ or self.p.for_rows > 1 else None

    def why_without_row(self) -> str:
        """An edit may take the option away that made it wait: there is a reason all the same, since no row did it."""
        return self.why() or ("kept" if self.reported else "held")

    def settle(self, now: float) -> None:
        """Report what is due before now, and what time ends by it."""
        end = min(self.p.expires, self.clock + self.p.timeout if self.seen else INF)
        if self.due() < min(now, end):
            self.report(self.due(), self.why_without_row())
        if end <= now and self.seen and not self.ended:
            if self.reported:
                self.report(end, "expired" if self.p.expires <= end else "timeout")
            self.dropped += self.raw and not self.reported
            self.raw = False
            if self.p.expires > end:
                self.seen, self.x, self.enters = False, None, 0
        self.ended |= self.p.expires <= now

    def observe(self, t: float) -> None:
        now = not self.ended and (self.p.holds(self.x) or (self.raw and self.p.stays(self.x)))
        if now != self.raw:
            self.dropped += self.raw and not self.reported
            self.raw, self.since, self.rows = now, t, 0

    def row(self, t: float, x: float | None) -> None:
        if self.seen and t < self.clock:
            self.late += 1
            return
        if x is None:
            return
        self.settle(t)
        before, was_reported = self.x if self.seen else None, self.reported
        new, self.seen, self.clock, self.x, was_raw = not self.seen, True, t, x, self.raw
        self.observe(t)
        if new and self.p.first == "silent":
            self.reported = self.raw
        self.rows += self.raw != self.reported
        if self.due() <= t:
            self.report(t, self.why() if self.raw != was_raw else self.why_without_row())
        if self.p.crosses and self.p.jumps(before, x) and not was_reported and not self.reported and not self.ended:
            self.report(t, None, "cross")
        if self.raw and self.reported:
            self.inside.append(t)

    def edit(self, changes: dict[str, Any]) -> None:
        was = self.raw
        self.p = replace(self.p, **changes)
        self.enters = 0 if self.p.limit == INF else self.enters
        if not self.seen:
            return
        self.observe(self.clock)
        if was and not self.raw and self.reported:
            self.report(self.clock, "edited")
        elif self.raw and not was:
            if self.p.initial and not self.reported:
                self.rows = 1
                if self.due() <= self.clock:
                    self.report(self.clock, "initial")
            else:
                self.reported = True
        elif self.due() < self.clock:
            self.report(self.clock, self.why_without_row())

    def remove(self, reason: str) -> None:
        if self.reported:
            self.report(self.clock, reason)
        self.raw, self.ended = False, True

    def take(self, item: tuple[Any, ...]) -> "Pair":
        kind, *rest = item
        takes: dict[str, Any] = {"row": self.row, "tick": self.settle, "edit": self.edit, "remove": self.remove}
        takes[kind](*rest)
        return self


def play(policy: Policy, items: list[tuple[Any, ...]]) -> Pair:
    """The pair after all items."""
    pair = Pair(policy)
    for item in items:
        pair.take(item)
    return pair
