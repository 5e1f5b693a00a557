"""One object and one damped rule, row after row in plain Python: docs/damping.md once more, to check runs against."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.rules.damping import Damping, Span, span_numbers
from fencepost.snapshot.columns import MICROSECONDS, ROWS


class Lengths(NamedTuple):
    """The options of a rule; lengths of time are in the unit of the time column, limit is None for none."""

    hold: int = 0
    hold_rows: int = 1
    keep: int = 0
    keep_rows: int = 1
    cooldown: int = 0
    limit: int | None = None
    every: int = 0


def lengths_of(damping: Damping, time: Any) -> Lengths:
    """The lengths of a rule, given the Arrow type of times."""
    hold, hold_rows = _length(damping.for_, time)
    keep, keep_rows = _length(damping.keep_firing_for, time)
    (cooldown, _), (every, _) = _length(damping.cooldown, time), _length(damping.every, time)
    return Lengths(hold, hold_rows, keep, keep_rows, cooldown, damping.limit, every)


def _length(span: Span | None, time: Any) -> tuple[int, int]:
    """A length of time, and a number of rows."""
    number, unit = span_numbers(span)
    if unit == ROWS:
        return 0, number
    return in_units(timedelta(microseconds=number), time) if unit == MICROSECONDS else number, 1


def in_units(length: timedelta | int, time: Any) -> int:
    """A length of time in the unit of the time column, given its Arrow type."""
    if isinstance(length, int):
        return length
    return -(-length // (timedelta(days=1) if pa.types.is_date(time) else timedelta(microseconds=1)))


class _Walk:
    """Where a pair stands; `found` has the kind and the time of each of its events."""

    def __init__(self, lengths: Lengths) -> None:
        self.lengths, self.found = lengths, list[tuple[str, int]]()
        self.is_raw = self.is_reported = False
        self.since = self.rows = self.enters = 0
        self.quiet: int | None = None

    def report(self, kind: str, time: int) -> None:
        self.found.append((kind, time))
        self.is_reported = kind == "enter"
        self.enters += kind == "enter"
        self.quiet = time + self.lengths.cooldown

    def due(self) -> int | None:
        """When the difference between raw and reported becomes an event; None while time alone does not tell."""
        own = self.lengths
        if self.is_raw == self.is_reported:
            return None
        if self.is_reported:
            return self.since + own.keep if self.rows >= own.keep_rows else None
        if self.rows < own.hold_rows or (own.limit is not None and self.enters >= own.limit):
            return None
        held = self.since + own.hold
        return held if self.quiet is None else max(held, self.quiet)

    def settle(self, until: int, at: int | None = None) -> None:
        """Report what is due by a time: at its own instant, or as a row at that time shows it."""
        due = self.due()
        if due is not None and due <= until:
            self.report("exit" if self.is_reported else "enter", due if at is None else at)

    def end(self, time: int) -> None:
        """Silence ends it."""
        self.settle(time - 1)
        if self.is_reported:
            self.report("exit", time)
        self.is_raw, self.enters = False, 0

    def row(self, time: int, *, holds: bool, stays: bool) -> None:
        self.settle(time - 1)
        is_raw = holds or (stays and self.is_raw)
        if is_raw != self.is_raw:
            self.is_raw, self.since, self.rows = is_raw, time, 0
        self.rows += self.is_raw != self.is_reported
        self.settle(time, time)


def walk(lengths: Lengths, rows: Iterable[tuple[int, bool, bool]], timeout: int | None) -> list[tuple[str, int]]:
    """The kind and time of each event up to the last row.

    Args:
        lengths: of the rule.
        rows: of the object in order: the time, whether the condition holds, and whether `stay` does.
        timeout: how long the object may be silent.
    """
    pair, last, was_inside = _Walk(lengths), None, False
    for time, holds, stays in rows:
        if timeout is not None and last is not None and time - last >= timeout:
            pair.end(last + timeout)
            last, was_inside = None, False
        pair.row(time, holds=holds, stays=stays)
        is_inside = pair.is_raw and pair.is_reported
        every = lengths.every
        begins = not (was_inside and every) or last is None or last // every != time // every
        if is_inside and begins:
            pair.found.append(("inside", time))
        last, was_inside = time, is_inside
    return pair.found
