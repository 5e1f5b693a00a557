"""What `cross` costs a monitor that detects enter and exit anyway: on one axis, and on two."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.harness import Report, interleaved
from fencepost.lab.reproduce.timing import computing
from fencepost.monitor import Monitor
from fencepost.rules import Rules

__all__ = ["jumping"]

ROWS, UPDATES = 1000, 20
DOMAIN = 1000.0
JUMPING, FARTHER = 0.02, 40
"""The share of rows that are jumps, and how many times as far as the others they go."""


class Fences(NamedTuple):
    """Fences of one size in a square, or ranges on a line, and how far objects go in a row."""

    axes: tuple[str, ...]
    number: int
    size: float
    step: float

    def monitor(self, detect: str) -> Monitor:
        """A monitor of all fences."""
        rng = np.random.default_rng(1)
        table: dict[str, Any] = {"rule_id": np.arange(self.number)}
        for axis in self.axes:
            low = rng.uniform(0, DOMAIN, self.number)
            table |= {f"{axis}_low": low, f"{axis}_high": low + self.size}
        ranges = {axis: (f"{axis}_low", f"{axis}_high") for axis in self.axes}
        return Monitor(Rules.from_table(table, id="rule_id", ranges=ranges, detect=detect), object="object", time="ts")

    def updates(self, moves: str) -> list[pa.Table]:
        """Updates that move all objects by small steps, by some jumps among them, or each to anywhere."""
        rng = np.random.default_rng(2)
        at = rng.uniform(0, DOMAIN, (ROWS, len(self.axes)))
        found = []
        for number in range(UPDATES):
            if moves == "anywhere":
                at = rng.uniform(0, DOMAIN, at.shape)
            else:
                far = np.where(rng.random(ROWS) < JUMPING, FARTHER, 1) if moves == "jumps" else np.ones(ROWS)
                at = np.clip(at + rng.normal(0, self.step, at.shape) * far[:, np.newaxis], 0, DOMAIN)
            columns = {axis: at[:, place].copy() for place, axis in enumerate(self.axes)}
            found.append(pa.table({"object": np.arange(ROWS), "ts": np.full(ROWS, number), **columns}))
        return found


def jumping() -> Report:
    """The same moves, by a monitor that detects cross and by one that does not."""
    report = Report(f"Monitor, detecting cross as well as enter and exit: {ROWS:,} objects, {ROWS:,} rows per update")
    line = Fences(("price",), 100_000, 0.05, 0.02)
    square = Fences(("x", "y"), 10_000, 5.0, 0.5)
    for moves, what in (("steps", "small steps"), ("jumps", f"{JUMPING:.0%} of them jumps")):
        plain, crossing, told = _compare(line, moves)
        report.at_most(f"{line.number:,} ranges, {what}, {told} / enter, exit alone", crossing / plain, 2)
        plain, crossing, told = _compare(square, moves)
        report.at_least(
            f"{square.number:,} fences on two axes, {what}, {told} / enter, exit alone", plain / crossing, 0.5
        )
    _, crossing, told = _compare(square, "anywhere")
    each = crossing / (ROWS * UPDATES)
    report.note(f"  {square.number:,} fences on two axes, moves to anywhere, {told}", f"{each * 1e6:,.1f} µs per row")
    return report


def _compare(fences: Fences, moves: str) -> tuple[float, float, str]:
    """Seconds without and with cross, and how many crosses a row has."""
    updates = fences.updates(moves)
    crosses = 0
    contest: dict[str, Callable[[], object]] = {}
    for name, detect in (("plain", "enter,exit"), ("crossing", "enter,exit,cross")):
        monitor = fences.monitor(detect)
        for update in updates:
            crosses += monitor.update(update)["detect"].to_pylist().count("cross")
        contest[name] = partial(_play, monitor, updates, [0])
    taken = interleaved(contest, measure=computing)
    return taken["plain"], taken["crossing"], f"{crosses / (ROWS * UPDATES):.2f} crosses a row"


def _play(monitor: Monitor, updates: list[pa.Table], played: list[int]) -> None:
    """All updates once more, later; every other time from the last to the first, so that no step is a jump."""
    played[0] += 1
    for update in updates[:: -1 if played[0] % 2 else 1]:
        monitor.update(update.set_column(1, "ts", pa.array(np.full(ROWS, played[0] * UPDATES))))
