"""Damped rules: what they cost beside rules that are not, and what is remembered of pairs that wait."""

import numpy as np
import pyarrow as pa

from benchmarks.harness import Report, interleaved
from benchmarks.rules import BATCH, market, move_ticks
from fencepost.lab.reproduce.timing import computing
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.watching.entries import Entries, Pending

__all__ = ["run"]

EVERY = 10
"""One rule in so many is damped."""
ROUNDS = 9
HOLD = 2 * BATCH
"""How long it must hold, in the unit of time, which counts rows: two batches."""


def run(full: bool) -> list[Report]:
    """All reports; `full` takes a million rules instead of 300,000, and ten million pairs instead of one."""
    return [updates(1_000_000 if full else 300_000), waiting(10_000_000 if full else 1_000_000), ticks()]


def updates(n: int) -> Report:
    """Rows against rules of which some are damped, over the same rules without."""
    given = market(n)
    held = np.where(np.arange(n) % EVERY == 0, HOLD, 0)
    table = given.rules.append_column("hold", pa.array(held, mask=held == 0))
    ranges = {"price": ("lower", "upper")}
    plain, damped = (
        Monitor(
            Rules.from_table(table, equal=["symbol"], ranges=ranges, detect="enter,exit", options=options),
            object="symbol",
            time="ts",
        )
        for options in ({}, {"for": "hold", "keep_firing_for": "hold"})
    )
    seconds: dict[str, list[float]] = {"plain": [], "damped": []}
    events = dict.fromkeys(seconds, 0)
    for number in range(ROUNDS):
        batch = move_ticks(given.ticks, number)
        found: list[int] = []
        for name, monitor in (("plain", plain), ("damped", damped)):
            taken = computing(lambda: found.append(monitor.update(batch).num_rows))  # noqa: B023
            if number > 1:  # the first batches know no object yet
                seconds[name].append(taken)
                events[name] += found[-1]
    report = Report(f"Damping: {n:,} keyed price ranges, one in {EVERY} with for and keep_firing_for")
    ratio = float(np.median(seconds["damped"])) / float(np.median(seconds["plain"]))
    report.at_most("update / update without damping", ratio, 1.15)
    report.note("events that are reported", f"{events['damped']:,} of {events['plain']:,}")
    report.note("pairs that wait", f"{damped.counters['pending'] + damped.counters['ending']:,}")
    return report


def waiting(count: int) -> Report:
    """What pairs take that wait."""
    entries = Entries()
    report = Report(f"Damping: {count:,} pairs that wait")
    report.at_most("nothing waits", entries.nbytes, 0, " bytes")
    step = 100_000
    for begin in range(0, count, step):
        slots = np.arange(begin, begin + step) // 10
        states = np.zeros((step, 8), np.int64)
        states[:, 0] = 1
        entries.prepare(np.unique(slots), Pending(slots, np.zeros(step, np.int64), np.arange(step) % 10, states))()
    report.at_most("memory, for ten million", entries.nbytes * 10_000_000 / count / 1e6, 500, " MB")
    return report


def ticks(objects: int = 1_000_000, pending: int = 100_000) -> Report:
    """A clock marker that ends nothing."""
    rules = Rules()
    rules.add(1, f"x < {pending}", detect="enter,exit", for_=1_000_000)
    monitor = Monitor(rules, object="id", time="ts", timeout=10_000_000)
    numbers = np.arange(objects)
    monitor.update({"id": numbers, "x": numbers, "ts": np.zeros(objects, np.int64)})
    now = iter(range(1, 1_000_000))
    taken = interleaved({"tick": lambda: monitor.advance(next(now))})["tick"]
    report = Report(f"Damping: a tick that ends nothing, {objects:,} objects, {pending:,} pairs that wait")
    report.at_most("advance", taken * 1e3, 1, " ms")
    return report
