"""match on Spark against the same plan without matching and against joins: CPU seconds of the whole process tree.

Everything runs on one core, driver, JVM and Python worker together. The fixed cost of a query, which is that of the
same plan on a single row, is shown apart and taken off every figure before ratios are formed.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness import Report, console, interleaved
from fencepost.rules import Rules
from fencepost.spark import match, tune

ROWS = 1_000_000
SAMPLED = 2_000
ANSWER = "symbol string, price double, rule_ids array<bigint>"
BIN_WIDTHS = (6.25e-6, 1.25e-5, 2.5e-5, 5e-5, 1e-4)


def cpu_seconds() -> float:
    """CPU seconds that this process and all its descendants have used so far."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", process, "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks[int(process)] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(int(process))
    total, open_ends = 0, [os.getpid()]
    while open_ends:
        process_id = open_ends.pop()
        total += ticks.get(process_id, 0)
        open_ends += children.get(process_id, [])
    return total / os.sysconf("SC_CLK_TCK")


def cpu_of(contestant: Callable[[], object]) -> float:
    begin = cpu_seconds()
    contestant()
    return cpu_seconds() - begin


def session(scratch: Path) -> Any:
    """A session on one core whose workers import what this process imports."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "512m",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    builder = SparkSession.builder.master("local[1]").appName("fencepost benchmarks")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    tune(spark)
    return spark


def write(frame: Any) -> None:
    """Compute every row and column, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def ready_answer(batches: Iterator[Any], mean: float) -> Iterator[Any]:
    """A kernel that does nothing: every batch with an answer of the usual size that lies ready."""
    rows = -1
    for batch in batches:
        if batch.num_rows != rows:
            rows = batch.num_rows
            offsets = (np.arange(rows + 1) * mean).astype(np.int32)
            lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.arange(offsets[-1], dtype=np.int64)))
        yield pa.RecordBatch.from_arrays([*batch.columns, lists], names=[*batch.schema.names, "rule_ids"])


def frames(spark: Any, table: pa.Table, file: Path) -> tuple[Any, Any]:
    """A table as a frame of one partition, and its first row likewise."""
    pq.write_table(table, file)
    pq.write_table(table.slice(0, 1), file.with_suffix(".one"))
    read = spark.read.parquet
    return read(str(file)).coalesce(1), read(str(file.with_suffix(".one"))).coalesce(1)


def net(plans: Mapping[str, tuple[Any, Any]], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """CPU seconds of plans without their fixed cost, and the fixed cost; each plan is given on all rows and on one."""
    whole = {name: partial(write, full) for name, (full, _) in plans.items()}
    fixed = {f"{name}, one row": partial(write, one) for name, (_, one) in plans.items()}
    for warm_up in [*whole.values()] * 3:
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
    report.at_most("CPU against a kernel that does nothing", taken["match"] / taken["nothing"], 1.3)
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
    assert figures(binned(events, ranges, best)) == figures(match(events, snapshot, explode=True)), "another answer"
    assert figures(plain(sample, ranges)) == figures(match(sample, snapshot, explode=True)), "another answer"
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
    for shape, goal in (("array", 3), ("exploded", 2)):
        report.at_least(f"binned join, {shape}", taken[f"binned join, {shape}"] / taken[f"match, {shape}"], goal)
    report.at_least(f"plain range join, array, from {SAMPLED:,} rows extrapolated", whole / taken["match, array"], 1000)
    for name, seconds in taken.items():
        report.note(f"  {name}", f"{seconds:.2f} CPU s, fixed {fixed[name]:.2f}")
    report.note("  plain range join, extrapolated", f"{whole:,.0f} CPU s, fixed {fixed_slow['range join']:.2f}")
    tried = ", ".join(f"{w:g}: {seconds:.2f}" for w, seconds in widths.items())
    report.note("  bin widths tried, exploded, fixed cost included", tried)
    return report


def binned(events: Any, ranges: Any, width: float) -> Any:
    """Pairs by an equality join on bins, what one would write by hand."""
    spread = f"explode(sequence(cast(floor(lower / {width!r}) AS int), cast(floor(upper / {width!r}) AS int))) AS bin"
    left = events.selectExpr("*", f"cast(floor(value / {width!r}) AS int) AS bin")
    pairs = left.join(F.broadcast(ranges.selectExpr("*", spread)), "bin").where("value >= lower AND value < upper")
    return pairs.select("id", "value", "rule_id")


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


def figures(pairs: Any) -> tuple[int, int, int]:
    """Count and sums that tell two sets of pairs apart."""
    count, rules, products = pairs.selectExpr("count(*)", "sum(rule_id)", "sum(rule_id * id)").first()
    return count, rules, products


def run(full: bool) -> list[Report]:
    """All reports; `full` takes more rounds."""
    rounds = 9 if full else 5
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        spark = session(scratch)
        reports = [against_nothing(spark, scratch, n, rounds) for n in (100_000, 1_000_000)]
        reports.append(against_joins(spark, scratch, rounds))
        spark.stop()
    return reports


def main() -> None:
    """Print the reports."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more rounds")
    missed = 0
    for report in run(parser.parse_args().full):
        report.show()
        missed += report.missed
    console.print(f"{missed} goals missed. Ratios decide; absolute times only inform.")


if __name__ == "__main__":
    main()
