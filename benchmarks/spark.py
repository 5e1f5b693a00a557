"""match, watch and bands on Spark, against plans that do nothing and joins: CPU seconds of the whole process tree.

Everything runs on one core, driver, JVM and Python worker together. The fixed cost of a query, which is that of the
same plan on a single row, is shown apart and taken off every figure before ratios are formed.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness import Report, interleaved, show_missed
from benchmarks.spark_bands import joining, small_band_triggers
from fencepost.lab.reproduce.spark_plans import Moving, binned, frames, one_core, ready_answer, sums, write
from fencepost.lab.reproduce.timing import cpu_of
from fencepost.rules import Rules
from fencepost.spark import match, watch
from fencepost.spark.watch import prepare_watch, step_watch
from fencepost.spark.work.packing import METERS, unpack
from fencepost.spark.work.store import BucketStore

ROWS = 1_000_000
SAMPLED = 2_000
ANSWER = "symbol string, price double, rule_ids array<bigint>"
CARRIED = ("flight", "gate")
"""Columns of rows that readable events have, too."""
BIN_WIDTHS = (6.25e-6, 1.25e-5, 2.5e-5, 5e-5, 1e-4)
BOX_BIN_WIDTHS = {False: (2e-3, 4e-3, 8e-3), True: (4e-3, 8e-3, 1.6e-2)}
"""For small boxes, and for those with long sides."""


def session(scratch: Path) -> Any:
    """A session on one core whose workers import what this process imports."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return one_core(scratch)


def net(plans: Mapping[str, tuple[Any, Any]], rounds: int, warm: int = 3) -> tuple[dict[str, float], dict[str, float]]:
    """CPU seconds of plans without their fixed cost, and the fixed cost; each plan is given on all rows and on one."""
    whole = {name: partial(write, full) for name, (full, _) in plans.items()}
    fixed = {f"{name}, one row": partial(write, one) for name, (_, one) in plans.items()}
    for warm_up in [*whole.values()] * warm:
        warm_up()
    taken = interleaved(whole | fixed, rounds, cpu_of)
    shares = {name: taken[f"{name}, one row"] for name in plans}
    return {name: taken[name] - shares[name] for name in plans}, shares


def keyed(n: int, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Price ranges, a hundred on every symbol, and ticks that are in about five of them."""
    rng = np.random.default_rng(seed)
    names = np.array([f"SYM{number:05d}" for number in range(n // 100)])
    base = rng.lognormal(4, 1, len(names))
    of_rule, of_tick = rng.integers(0, len(names), n), rng.integers(0, len(names), ROWS)
    lower = base[of_rule] * (1 + rng.random(n))
    upper = lower + base[of_rule] * rng.exponential(0.0526, n)
    ranges = {"rule_id": np.arange(n), "symbol": names[of_rule], "lower": lower, "upper": upper}
    return pa.table(ranges), pa.table({"symbol": names[of_tick], "price": base[of_tick] * (1 + rng.random(ROWS))})


def against_nothing(spark: Any, scratch: Path, n: int, rounds: int) -> Report:
    """Keyed rules on (symbol, price), array output."""
    ranges, ticks = keyed(n)
    rules = Rules.from_table(ranges, equal=["symbol"], ranges={"price": ("lower", "upper")})
    full, one = frames(spark, ticks, scratch / f"ticks{n}")
    snapshot = rules.compile(full.schema)
    mean = len(snapshot.match(ticks).ids) / ROWS
    found = match(full, snapshot).agg(F.sum(F.size("rule_ids"))).first()[0]
    assert found == round(mean * ROWS), "another answer"
    nothing = partial(ready_answer, mean=mean)
    plans = {
        "nothing": (full.mapInArrow(nothing, ANSWER), one.mapInArrow(nothing, ANSWER)),
        "match": (match(full, snapshot), match(one, snapshot)),
    }
    taken, fixed = net(plans, rounds)
    report = Report(f"match: {n:,} keyed rules, {mean:.1f} matches per row, array output, {ROWS:,} rows")
    report.at_most("CPU against a kernel that does nothing", taken["match"] / taken["nothing"], 1.25)
    for name in plans:
        report.note(f"  {name}", f"{taken[name]:.2f} CPU s, fixed {fixed[name]:.2f}")
    return report


def against_joins(spark: Any, scratch: Path, rounds: int, n: int = 100_000) -> Report:
    """Ranges of one column, a mean of five matches, against joins on bins and on ranges."""
    rng = np.random.default_rng(2)
    width = rng.exponential(5e-5, n)
    lower = rng.random(n) * (1 - width.max())
    table = pa.table({"rule_id": np.arange(n), "lower": lower, "upper": lower + width})
    rules = Rules.from_table(table, ranges={"value": ("lower", "upper")})
    events, one = frames(spark, pa.table({"id": np.arange(ROWS), "value": rng.random(ROWS)}), scratch / "values")
    sample = frames(spark, pa.table({"id": np.arange(SAMPLED), "value": rng.random(SAMPLED)}), scratch / "sample")[0]
    pq.write_table(table, scratch / "ranges")
    ranges = spark.read.parquet(str(scratch / "ranges")).coalesce(1).cache()
    ranges.count()
    snapshot = rules.compile(events.schema)

    widths = {
        w: interleaved({"bins": partial(write, binned(events, ranges, w))}, 1, cpu_of)["bins"] for w in BIN_WIDTHS
    }
    best = min(widths, key=lambda w: widths[w])
    assert sums(binned(events, ranges, best)) == sums(match(events, snapshot, explode=True)), "another answer"
    assert sums(plain(sample, ranges)) == sums(match(sample, snapshot, explode=True)), "another answer"
    plans = {
        "match, array": (match(events, snapshot), match(one, snapshot)),
        "match, exploded": (match(events, snapshot, explode=True), match(one, snapshot, explode=True)),
        "binned join, array": tuple(collected(frame, binned(frame, ranges, best)) for frame in (events, one)),
        "binned join, exploded": (binned(events, ranges, best), binned(one, ranges, best)),
    }
    taken, fixed = net(plans, rounds)
    slow = {"range join": (collected(sample, plain(sample, ranges)), collected(one, plain(one, ranges)))}
    taken_sample, fixed_slow = net(slow, 1)
    whole = taken_sample["range join"] * ROWS / SAMPLED
    report = Report(f"match against joins: {n:,} ranges of one column, {ROWS:,} rows, best bin width {best:g}")
    for shape, goal in (("array", 3), ("exploded", 3)):
        report.at_least(f"binned join, {shape}", taken[f"binned join, {shape}"] / taken[f"match, {shape}"], goal)
    report.at_least(f"plain range join, array, from {SAMPLED:,} rows extrapolated", whole / taken["match, array"], 1000)
    for name, seconds in taken.items():
        report.note(f"  {name}", f"{seconds:.2f} CPU s, fixed {fixed[name]:.2f}")
    report.note("  plain range join, extrapolated", f"{whole:,.0f} CPU s, fixed {fixed_slow['range join']:.2f}")
    tried = ", ".join(f"{w:g}: {seconds:.2f}" for w, seconds in widths.items())
    report.note("  bin widths tried, exploded, fixed cost included", tried)
    return report


def against_joins_of_boxes(spark: Any, scratch: Path, rounds: int, long_sides: bool, n: int = 100_000) -> Report:
    """Boxes of two columns, a mean of five matches, against a join on bins of both."""
    rng = np.random.default_rng(4)
    sides = rng.exponential(np.sqrt(5 / n), (n, 2))
    if long_sides:
        long = rng.random(n) < 0.1
        sides[long, 0] = rng.uniform(0.1, 0.5, long.sum())
        sides[long, 1] = rng.exponential(3 / n / 0.3 / 0.1, long.sum())
        sides[~long] *= np.sqrt(0.4)
    lows = rng.random((n, 2)) * (1 - sides)
    columns: dict[str, Any] = {"rule_id": np.arange(n)}
    for axis, name in enumerate("xy"):
        columns |= {f"{name}_from": lows[:, axis], f"{name}_to": lows[:, axis] + sides[:, axis]}
    name = "long" if long_sides else "small"
    points = {"id": np.arange(ROWS), "x": rng.random(ROWS), "y": rng.random(ROWS)}
    events, one = frames(spark, pa.table(points), scratch / f"points {name}")
    pq.write_table(pa.table(columns), scratch / f"boxes {name}")
    boxes = spark.read.parquet(str(scratch / f"boxes {name}")).coalesce(1).cache()
    boxes.count()
    ranges = {axis: (f"{axis}_from", f"{axis}_to") for axis in "xy"}
    snapshot = Rules.from_table(columns, ranges=ranges).compile(events.schema)
    widths = {w: cpu_of(partial(write, binned_boxes(events, boxes, w))) for w in BOX_BIN_WIDTHS[long_sides]}
    best = min(widths, key=lambda w: widths[w])
    assert sums(binned_boxes(events, boxes, best)) == sums(match(events, snapshot, explode=True)), "another answer"
    plans = {
        "match, array": (match(events, snapshot), match(one, snapshot)),
        "match, exploded": (match(events, snapshot, explode=True), match(one, snapshot, explode=True)),
        "binned join, array": tuple(collected(frame, binned_boxes(frame, boxes, best)) for frame in (events, one)),
        "binned join, exploded": (binned_boxes(events, boxes, best), binned_boxes(one, boxes, best)),
    }
    taken, fixed = net(plans, rounds, warm=1)
    kind = "of mixed size with long sides" if long_sides else "that are small"
    report = Report(f"match against a binned join in 2-D: {n:,} boxes {kind}, {ROWS:,} rows, best bin width {best:g}")
    for shape in ("array", "exploded"):
        ratio = taken[f"binned join, {shape}"] / taken[f"match, {shape}"]
        report.at_least(f"binned join, {shape}", ratio, 20 if long_sides else 4)
    for plan, seconds in taken.items():
        report.note(f"  {plan}", f"{seconds:.2f} CPU s, fixed {fixed[plan]:.2f}")
    tried = ", ".join(f"{w:g}: {seconds:.2f}" for w, seconds in widths.items())
    report.note("  bin widths tried, fixed cost included", tried)
    return report


def binned_boxes(events: Any, boxes: Any, width: float) -> Any:
    """Pairs by an equality join on bins of both columns."""
    spread = boxes
    for axis in "xy":
        first, last = (f"cast(floor({axis}_{end} / {width!r}) AS int)" for end in ("from", "to"))
        spread = spread.selectExpr("*", f"explode(sequence({first}, {last})) AS bin_{axis}")
    left = events.selectExpr("*", *(f"cast(floor({axis} / {width!r}) AS int) AS bin_{axis}" for axis in "xy"))
    inside = " AND ".join(f"{axis} >= {axis}_from AND {axis} < {axis}_to" for axis in "xy")
    return left.join(spread, ["bin_x", "bin_y"]).where(inside).select("id", "x", "y", "rule_id")


def plain(events: Any, ranges: Any) -> Any:
    """Pairs by the join on the ranges themselves, a nested loop."""
    pairs = events.join(F.broadcast(ranges), on=F.expr("value >= lower AND value < upper"))
    return pairs.select("id", "value", "rule_id")


def collected(events: Any, pairs: Any) -> Any:
    """Every event with the array of its rules."""
    lists = pairs.groupBy("id").agg(F.collect_list("rule_id").alias("rule_ids"))
    return events.join(lists, "id", "left").withColumn(
        "rule_ids", F.coalesce("rule_ids", F.array().cast("array<bigint>"))
    )


class Watched(Moving):
    """A stream of moves that a query watches."""

    def __init__(
        self, spark: Any, path: Path, rules: Any, objects: int, texts: tuple[str, ...] = (), **options: Any
    ) -> None:
        super().__init__(path, objects)
        columns = {name: F.concat(F.lit(name[0]), F.col("object") % 50) for name in texts}
        source = self.stream(spark).withColumns(columns) if texts else self.stream(spark)
        self.frame = watch(source, rules, object="object", time="at", **options)
        self._prepared = prepare_watch(source, rules, "object", "at", None, 32, "enter")

    def start(self, frame: Any) -> Any:
        """Run a query on the files, which keeps nothing of what comes out."""
        writer = frame.writeStream.option("checkpointLocation", str(self.path / "checkpoint"))
        return writer.format("noop").start()

    def idle(self) -> Any:
        """The same plan with a kernel that does nothing."""
        stepped = step_watch(self._prepared, idle_step).observe("idle", F.sum("late").alias("idle"))
        return stepped.where("payload IS NOT NULL").select("payload").mapInArrow(unpack, self._prepared.declared)

    def state_bytes(self) -> int:
        """Bytes below the state store's directory."""
        files = (self.path / "checkpoint" / "state").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())


def moving_rules(n: int, hold: int | None = None) -> Rules:
    """Ranges of one column such that a step of half a distance between their ends crosses one.

    Every tenth is damped where it must `hold`, and must have ceased, for so long.
    """
    rng = np.random.default_rng(3)
    lower = rng.random(n)
    table = {"rule_id": np.arange(n), "lower": lower, "upper": lower + rng.exponential(5 / n, n)}
    options = {}
    if hold is not None:
        table["hold"] = pa.array(np.full(n, hold), mask=np.arange(n) % 10 != 0)
        options = {"for": "hold", "keep_firing_for": "hold"}
    return Rules.from_table(table, ranges={"value": ("lower", "upper")}, detect="enter,exit", options=options)


def watching(spark: Any, scratch: Path, n: int = 1_000_000, objects: int = 100_000) -> Report:
    """Large triggers: rows per second of one core, the fixed cost of a trigger taken off.

    A stream runs for days. Before anything is timed there are triggers until the JVM has compiled most of what it will.
    """
    stream = Watched(spark, scratch / "large", moving_rules(n).compile({"value": "double"}), objects)
    stream.put(ROWS, 0.5 / n)
    query = stream.start(stream.frame)
    query.processAllAvailable()

    def trigger(rows: int) -> float:
        stream.put(rows, 0.5 / n)
        return cpu_of(query.processAllAvailable)

    for rows in [ROWS] * 4 + [200] * 60:
        trigger(rows)
    taken = [(trigger(200), trigger(ROWS)) for _ in range(7)]
    progress = [report for report in query.recentProgress if report["numInputRows"] >= ROWS]
    query.stop()
    fixed, whole = np.median(taken, axis=0).tolist()
    rate = ROWS / (whole - fixed)
    report = Report(f"watch: {n:,} rules, {objects:,} objects, {ROWS:,} rows per trigger, state store on")
    report.at_least("rows per CPU second", rate / 1e3, 700, " k")
    report.note("  a trigger of 200 rows", f"{fixed:.2f} CPU s")
    report.note("  events per row", f"{events_per_row(spark, stream, n):.2f}")
    report.note(
        "  the state operator's share", f"{progress[-1]['durationMs'].get('addBatch', 0) / 1e3:.2f} s of a trigger"
    )
    return report


def damping(spark: Any, scratch: Path, n: int = 1_000_000, objects: int = 100_000) -> Report:
    """Large triggers where a tenth of the rules is damped, in turns with the same where none is."""
    trigger_time = 10**9  # of a file, in the unit of `at`
    types = {"value": "double"}
    rules = {name: moving_rules(n, hold).compile(types) for name, hold in (("plain", None), ("damped", trigger_time))}
    streams = {name: Watched(spark, scratch / name, each, objects) for name, each in rules.items()}
    report = Report(f"watch: {n:,} rules, one in ten with for and keep_firing_for, {ROWS:,} rows per trigger")
    ratio = triggers_in_turns(report, streams, 0.5 / n)
    report.at_most("watch, 10% of a million rules damped, over none damped", ratio, 1.15)
    return report


def readable_events(spark: Any, scratch: Path, n: int = 1_000_000, objects: int = 100_000) -> Report:
    """Large triggers where events have labels, names, keys and two columns of the row, in turns with plain events."""
    rules = readable_rules(n).compile({"value": "double", "symbol": "string"})
    texts = ("symbol", *CARRIED)
    streams = {
        "plain": Watched(spark, scratch / "plain", rules, objects, texts),
        "readable": Watched(spark, scratch / "readable", rules, objects, texts, labels=True, carry=CARRIED),
    }
    report = Report(f"watch: events with labels, name, keys and two columns, {n:,} rules, {ROWS:,} rows per trigger")
    ratio = triggers_in_turns(report, streams, 25 / n)
    report.at_most("watch, readable events over plain ones", ratio, 1.1)
    return report


def readable_rules(n: int) -> Rules:
    """Ranges of one column with a key, each with a name and labels: fifty times fewer of a key than of all."""
    rng = np.random.default_rng(3)
    lower = rng.random(n)
    table = {
        "rule_id": np.arange(n),
        "symbol": [f"s{id % 50}" for id in range(n)],
        "lower": lower,
        "upper": lower + rng.exponential(250 / n, n),
        "name": [f"rule {id}" for id in range(n)],
        "desk": [str(id % 40) for id in range(n)],
        "owner": [f"o{id % 1000}" for id in range(n)],
    }
    shape: dict[str, Any] = {"equal": ["symbol"], "ranges": {"value": ("lower", "upper")}}
    return Rules.from_table(table, **shape, detect="enter,exit", options={"name": "name"}, labels=["desk", "owner"])


def triggers_in_turns(report: Report, streams: Mapping[str, Watched], step: float, rounds: int = 7) -> float:
    """CPU seconds of large triggers of the second stream over those of the first, the fixed cost taken off."""
    queries = {name: stream.start(stream.frame) for name, stream in streams.items()}

    def trigger(name: str, rows: int) -> float:
        streams[name].put(rows, step)
        return cpu_of(queries[name].processAllAvailable)

    for rows in [ROWS] * 3 + [200] * 40:
        for name in queries:
            trigger(name, rows)
    taken = [{name: (trigger(name, 200), trigger(name, ROWS)) for name in queries} for _ in range(rounds)]
    for query in queries.values():
        query.stop()
    fixed, whole = (
        {name: float(np.median([each[name][place] for each in taken])) for name in queries} for place in (0, 1)
    )
    seconds = {name: whole[name] - fixed[name] for name in queries}
    for name in queries:
        report.note(f"  {name}", f"{seconds[name]:.2f} CPU s, fixed {fixed[name]:.2f}")
    first, second = seconds.values()
    return second / first


def events_per_row(spark: Any, stream: Watched, n: int) -> float:
    """How much the last file tells."""
    frame = spark.read.parquet(*map(str, stream.files()[-3::2]))
    told = watch(frame, moving_rules(n).compile({"value": "double"}), object="object", time="at", first="silent")
    return float(told.count() / frame.count())


def small_triggers(spark: Any, scratch: Path, objects: int = 100_000, triggers: int = 30) -> Report:
    """200 rows per trigger, in turns with the same plan whose kernel leaves its state as it is."""
    rules = moving_rules(100_000).compile({"value": "double"})
    streams = {name: Watched(spark, scratch / name, rules, objects) for name in ("watch", "nothing")}
    queries = {}
    for name, stream in streams.items():
        stream.put(objects, 1e-5)
        queries[name] = stream.start(stream.frame)
        queries[name].processAllAvailable()
    held = streams["watch"].state_bytes()
    queries["nothing"].stop()
    queries["nothing"] = streams["nothing"].start(streams["nothing"].idle())
    written: dict[str, list[int]] = {name: [] for name in streams}
    for _ in range(triggers):
        for name, stream in streams.items():
            before = stream.state_bytes()
            stream.put(200, 1e-5)
            queries[name].processAllAvailable()
            written[name].append(stream.state_bytes() - before)
    report = Report(f"watch: 200 rows per trigger, {objects:,} objects")
    medians = {}
    for name, query in queries.items():
        reports = [each for each in query.recentProgress if each["numInputRows"]][-triggers:]
        if name == "nothing":
            assert all(each["observedMetrics"]["idle"]["idle"] for each in reports), "the idle kernel has run"
        medians[name] = float(np.median([each["durationMs"]["triggerExecution"] for each in reports[triggers // 3 :]]))
        query.stop()
    report.at_most("trigger time against a kernel that does nothing", medians["watch"] / medians["nothing"], 1.2)
    report.note("  state of all objects", f"{held / objects:.1f} bytes per object")
    for name, median in medians.items():
        report.note(f"  {name}", f"{median:,.0f} ms, {np.median(written[name]) / 1024:,.0f} KB of state written")
    return report


def idle_step(bucket: int, packed: Any, store: BucketStore, task: Any) -> list[dict[str, Any]]:
    """A kernel that does nothing: reads its rows, keeps its state, has no event."""
    del bucket, task
    list(packed)
    head = store.head()
    assert head is not None, "the state was made by watch"
    if store.appends:
        store.append(head, 0, b"")
    else:
        store.rewrite(head, store.base())
    return [{"payload": None, **{name: int(name == "late") for name in METERS}}]


def run(full: bool) -> list[Report]:
    """All reports; `full` takes more rounds."""
    rounds = 9 if full else 5
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        spark = session(scratch)
        reports = [watching(spark, scratch), damping(spark, scratch / "damping"), small_triggers(spark, scratch)]
        reports.append(readable_events(spark, scratch / "readable"))
        reports += joining(spark, scratch, cpu_of)
        reports.append(small_band_triggers(spark, scratch))
        reports += [against_nothing(spark, scratch, n, rounds) for n in (100_000, 1_000_000)]
        reports.append(against_joins(spark, scratch, rounds))
        reports += [against_joins_of_boxes(spark, scratch, 2 + full, long_sides) for long_sides in (False, True)]
        spark.stop()
    return reports


def main() -> None:
    """Print the reports."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more rounds")
    reports = run(parser.parse_args().full)
    for report in reports:
        report.show()
    show_missed(reports)


if __name__ == "__main__":
    main()
