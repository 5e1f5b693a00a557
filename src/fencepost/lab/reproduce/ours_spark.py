"""Spark end to end against the number of rules: match and watch, a plan that does nothing, and a join on bins."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.errors import FencepostError
from fencepost.lab.reproduce.figure import Check, Curve, Figure, Finding, Kind, Outcome, Panel
from fencepost.lab.reproduce.timing import cpu_of, cpu_tick, interleaved
from fencepost.monitor import Monitor
from fencepost.pipeline.runtime.requirements import missing_for_spark
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot

if TYPE_CHECKING:
    from fencepost.lab.reproduce.spark_plans import Moving

MATCHES = 5
NOTHING, MATCH, BINS, WATCH = "does nothing", "match", "join on bins", "watch"
SMALL_TRIGGER = 200
WARM_UP = 3
"""Rounds before the first measured one: the JVM compiles what it runs often."""

Measured = dict[str, dict[int, float]]
"""CPU seconds by plan and number of rules."""


class Plan(NamedTuple):
    """What runs a plan and tells its CPU seconds."""

    whole: Callable[[], float]
    """On all rows."""
    fixed: Callable[[], float]
    """On one row, or in a small trigger."""


def end_to_end(counts: Sequence[int], rows: int, moves: int, objects: int, rounds: int, most_binned: int) -> Outcome:
    """CPU seconds of the whole process tree per million rows, without and beside the fixed cost of a query."""
    checks: list[Check] = []
    net: Measured = {}
    fixed: Measured = {}
    with tempfile.TemporaryDirectory(prefix="fencepost-") as name, _session(Path(name)) as spark:
        for n in counts:
            ranges = _ranges(n)
            rules = Rules.from_table(ranges, ranges={"value": ("lower", "upper")}, detect="enter,exit")
            snapshot = rules.compile({"value": "double"})
            plans = _asked(spark, Path(name), ranges, snapshot, rows, n <= most_binned, checks)
            with _watching(spark, Path(name, f"moves{n}"), snapshot, objects, 0.5 / n) as watched:
                plans[WATCH] = Plan(partial(watched.take, moves), partial(watched.take, SMALL_TRIGGER))
                for _ in range(WARM_UP if n == counts[0] else 0):
                    for plan in plans.values():
                        plan.whole()
                taken = interleaved(
                    {f"{each}, {part}": run for each, plan in plans.items() for part, run in plan._asdict().items()},
                    rounds,
                    lambda run: cast(float, run()),
                )
                checks += watched.checks(f"{n:,} rules")
            for each in plans:
                fixed.setdefault(each, {})[n] = taken[f"{each}, fixed"]
                more = beyond(taken[f"{each}, fixed"], taken[f"{each}, whole"])
                net.setdefault(each, {})[n] = more / (moves if each == WATCH else rows) * 1e6
    return Outcome(
        [
            _panel(f"a row among rules, {MATCHES} of which match", "CPU seconds per million rows", net),
            _panel("before the first row: a query, a trigger of watch", "CPU seconds", fixed),
        ],
        _findings(counts, net, fixed),
        checks,
        notes=[
            f"pyspark {version('pyspark')} on one core; driver, JVM and Python worker count, {rows:,} rows a "
            f"round, {moves:,} of watch. "
            "The join gives pairs, its cheapest answer; the others give arrays, and watch events. Its bins are half as "
            "wide as the mean range.",
        ],
    )


def _ranges(n: int) -> pa.Table:
    """Ranges of one column such that a value is in five of them."""
    rng = np.random.default_rng(2)
    width = rng.exponential(MATCHES / n, n)
    lower = rng.random(n) * (1 - width.max())
    return pa.table({"rule_id": np.arange(n), "lower": lower, "upper": lower + width})


def _asked(
    spark: Any, scratch: Path, ranges: pa.Table, snapshot: Snapshot, rows: int, with_bins: bool, checks: list[Check]
) -> dict[str, Plan]:
    """Plans over the same rows, each on all of them and on a single one; their answers are compared."""
    from fencepost.lab.reproduce.spark_plans import binned, frames, ready_answer, sums, write
    from fencepost.spark import match

    n = ranges.num_rows
    values = pa.table({"id": np.arange(rows), "value": np.random.default_rng(3).random(rows)})
    nothing = partial(ready_answer, mean=MATCHES)
    plans: dict[str, Callable[[Any], Any]] = {
        NOTHING: lambda events: events.mapInArrow(nothing, "id bigint, value double, rule_ids array<bigint>"),
        MATCH: lambda events: match(events, snapshot),
    }
    given = frames(spark, values, scratch / f"values{n}")
    answer = snapshot.match(values)
    of_rows = np.repeat(np.arange(rows), np.diff(answer.offsets))
    expected = (len(answer.ids), int(answer.ids.sum()), int((answer.ids * of_rows).sum()))
    compared = {MATCH: match(given[0], snapshot, explode=True)}
    if with_bins:
        pq.write_table(ranges, scratch / f"ranges{n}")
        table = spark.read.parquet(str(scratch / f"ranges{n}")).coalesce(1)
        plans[BINS] = lambda events: binned(events, table, MATCHES / n / 2)
        compared[BINS] = plans[BINS](given[0])
    for name, pairs in compared.items():
        for what, got, wanted in zip(("pairs", "sum of rules", "sum of products"), sums(pairs), expected, strict=True):
            checks.append(Check(f"{name}, {n:,} rules: {what}", got, wanted))
    return {
        name: Plan(*(partial(cpu_of, partial(write, plan(events))) for events in given)) for name, plan in plans.items()
    }


class _Watched:
    """A stream that a query watches, a file per trigger."""

    def __init__(self, query: Any, moving: "Moving", snapshot: Snapshot, step: float) -> None:
        self._query, self._moving, self._snapshot, self._step = query, moving, snapshot, step
        self._told = dict.fromkeys(("enter", "exit"), 0)
        self._last_batch = -1

    def take(self, rows: int) -> float:
        """CPU seconds of a trigger of so many rows."""
        self._moving.put(rows, self._step)
        seconds = cpu_of(self._query.processAllAvailable)
        for progress in self._query.recentProgress:
            if progress["batchId"] > self._last_batch and progress["numInputRows"]:
                self._last_batch = progress["batchId"]
                for kind in self._told:
                    self._told[kind] += progress["observedMetrics"]["watch"][kind] or 0
        return seconds

    def checks(self, where: str) -> list[Check]:
        """What it has told of all its moves, against a Monitor in this process."""
        monitor = Monitor(self._snapshot, object="object", time="at")
        for file in self._moving.files():
            monitor.update(pq.read_table(file))
        counted = monitor.counters["events"]
        return [Check(f"watch, {where}: {kind}", count, counted[kind]) for kind, count in self._told.items()]


@contextmanager
def _watching(spark: Any, path: Path, snapshot: Snapshot, objects: int, step: float) -> Iterator[_Watched]:
    from fencepost.lab.reproduce.spark_plans import Moving
    from fencepost.spark import watch

    moving = Moving(path, objects)
    told = watch(moving.stream(spark), snapshot, object="object", time="at", observe="watch")
    writer = told.writeStream.option("checkpointLocation", str(path / "checkpoint")).format("noop")
    # Without a pause the query would look for files all the time, at the cost of the other plans.
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        watched = _Watched(query, moving, snapshot, step)
        watched.take(objects)
        yield watched
    finally:
        query.stop()


def _panel(title: str, y: str, curves: Measured) -> Panel:
    kinds: dict[str, Kind] = {NOTHING: "model", BINS: "paper"}
    return Panel(
        title,
        "rules",
        y,
        [Curve(name, list(points), list(points.values()), kinds.get(name, "ours")) for name, points in curves.items()],
        log_y=False,
        ratio_to=MATCH,
    )


def beyond(fixed: float, whole: float) -> float:
    """CPU seconds that rows cost beyond what a query costs by itself: a tick of the clock at least, as for few rows."""
    return max(cpu_tick(), whole - fixed)


def _findings(counts: Sequence[int], net: Measured, fixed: Measured) -> list[Finding]:
    first, last = counts[0], counts[-1]
    over = {n: net[MATCH][n] / net[NOTHING][n] for n in counts}
    joined = {n: seconds / net[MATCH][n] for n, seconds in net[BINS].items()}
    largest = max(joined)
    findings = [
        Finding(
            "match costs at most 1.5x the plan that does nothing",
            f"{min(over.values()):.2f} to {max(over.values()):.2f}x, {net[MATCH][last]:.2f} CPU s per million rows at "
            f"{last:,} rules",
            max(over.values()) <= 1.5,
        )
    ]
    for name in (MATCH, WATCH):
        growth = net[name][last] / net[name][first]
        findings.append(
            Finding(
                f"{name}: {last // first:,}x the rules cost less than 2x the time",
                f"{growth:.2f}x: {net[name][first]:.2f} to {net[name][last]:.2f} CPU s per million rows",
                growth < 2,
            )
        )
    findings.append(
        Finding(
            "A join on bins costs more at every number of rules",
            f"{min(joined.values()):.1f} to {max(joined.values()):.1f}x match; at {largest:,} rules another "
            f"{fixed[BINS][largest]:.1f} CPU s before the first row, match {fixed[MATCH][largest]:.1f}",
            min(joined.values()) > 1,
            "among few rules a join that never leaves the JVM is as cheap" if min(joined.values()) <= 1 else "",
        )
    )
    return findings


@contextmanager
def _session(scratch: Path) -> Iterator[Any]:
    """The session of this process if it has one, else one that ends with the figure."""
    from pyspark.sql import SparkSession

    from fencepost.lab.reproduce.spark_plans import one_core

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    spark = one_core(scratch)
    try:
        yield spark
    finally:
        spark.stop()


def _missing() -> Iterator[FencepostError]:
    """What this machine lacks for the figure."""
    yield from missing_for_spark()
    if not Path("/proc/self/stat").exists():
        yield FencepostError("a system without /proc", "Linux, where it tells the CPU time of processes", "Use Linux.")


FIGURES = (
    Figure(
        "ours-spark",
        "fencepost",
        "",
        "Spark end to end",
        "On Spark a row costs little more than its way through Python and back, however many rules there are.",
        end_to_end,
        {
            "counts": (1000, 100_000, 1_000_000),
            "rows": 600_000,
            "moves": 200_000,
            "objects": 50_000,
            "rounds": 3,
            "most_binned": 100_000,
        },
        {
            "counts": (1000, 10_000, 100_000, 1_000_000),
            "rows": 1_000_000,
            "moves": 1_000_000,
            "objects": 100_000,
            "rounds": 7,
            "most_binned": 1_000_000,
        },
        _missing,
    ),
)
