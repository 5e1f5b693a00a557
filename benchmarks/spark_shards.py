"""Rules in two parts on two workers of one core each, against the whole on one such worker: rows per second.

Both clusters run all the time, each with a driver of its own, and are asked in turn, so that noise hits both alike.
What two workers gain depends on whether two cores are free: the same without shards, on two workers, says what there
was to gain. Beside it stands what the Python processes of each worker have mapped.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.harness import Report, interleaved, show_missed
from benchmarks.spark import ROWS, keyed, moving_rules
from fencepost.lab.reproduce.spark_plans import write
from fencepost.rules import Rules
from fencepost.spark import match, tune, watch
from fencepost.spark.work.caches import Published, held_sources

RULES = 1_000_000
OBJECTS = 100_000
SHARDS = 2
FILES = 8
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": str(2 * SHARDS),
    "spark.sql.adaptive.enabled": "false",
}


# -- a driver with its workers -----------------------------------------------------------------------------


def serve(workers: int, scratch: Path) -> None:
    """Run the operators that are asked for on standard input, and answer on standard output."""
    builder = SparkSession.builder.master(f"local-cluster[{workers},1,1024]").appName("fencepost benchmarks")
    settings = SETTINGS | {
        "spark.pyspark.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "spark.local.dir": str(scratch / f"local{workers}"),
        "spark.sql.warehouse.dir": str(scratch / f"warehouse{workers}"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    tune(spark)
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked == "mapped":
            held = spark.range(0, workers, 1, workers).mapInArrow(mapped_bytes, "process bigint, bytes bigint")
            print(json.dumps(dict(held.collect())), flush=True)
            continue
        operator, shards = asked
        frame, rules = spark.read.parquet(f"{scratch}/{operator}/rows"), f"{scratch}/{operator}/rules"
        if operator == "match":
            write(match(frame, rules, shards=shards))
        else:
            write(watch(frame, rules, object="object", time="at", shards=shards))
        print("null", flush=True)
    spark.stop()


def mapped_bytes(_: Any) -> Iterator[Any]:
    """For mapInArrow: the bytes of all rules that this process has mapped."""
    time.sleep(2)  # long enough that every worker is asked
    total = 0
    for source, version in held_sources():
        assert isinstance(source, Published), "rules were published"
        part = "" if source.shard is None else f"parts/{source.shard:02}"
        total += (Path(source.directory, part) / f"{version:08}" / "arrays.bin").stat().st_size
    yield pa.RecordBatch.from_pydict({"process": pa.array([os.getpid()]), "bytes": pa.array([total])})


class Workers:
    """Workers behind a driver in a process of its own."""

    def __init__(self, count: int, scratch: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.spark_shards", "--serve", str(count), str(scratch)]
        with (scratch / f"driver{count}.log").open("wb") as log:
            self._driver = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._answer("ready")

    def ask(self, what: Any) -> Any:
        """Have something done, and wait for it."""
        assert self._driver.stdin is not None, "it was opened as a pipe"
        self._driver.stdin.write(json.dumps(what) + "\n")
        self._driver.stdin.flush()
        return json.loads(self._answer())

    def _answer(self, wanted: str | None = None) -> str:
        assert self._driver.stdout is not None, "it was opened as a pipe"
        for line in self._driver.stdout:
            if wanted is None or line.strip() == wanted:
                return line
        raise RuntimeError(f"the driver ended with {self._driver.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.communicate()


# -- what they are asked -----------------------------------------------------------------------------------


def prepare(scratch: Path) -> None:
    """Rules, published in parts, and rows for both operators."""
    ranges, ticks = keyed(RULES)
    rules = Rules.from_table(ranges, equal=["symbol"], ranges={"price": ("lower", "upper")})
    rules.publish(scratch / "match" / "rules", ticks.schema, shards=SHARDS)
    rng = np.random.default_rng(7)
    objects = np.resize(rng.permutation(OBJECTS), ROWS)
    at = np.arange(ROWS)
    start = rng.random(OBJECTS)
    moved = np.clip(start[objects] + rng.uniform(-1, 1, ROWS) / RULES, 0, 1)
    moves = pa.table({"object": objects, "at": at, "value": moved})
    moving_rules(RULES).publish(scratch / "watch" / "rules", {"value": "double"}, shards=SHARDS)
    for name, table in (("match", ticks), ("watch", moves)):
        (scratch / name / "rows").mkdir()
        for number in range(FILES):
            part = table.slice(number * ROWS // FILES, ROWS // FILES)
            pq.write_table(part, scratch / name / "rows" / f"{number}.parquet")


def run(rounds: int) -> Report:
    """The report."""
    report = Report(f"shards: {RULES:,} rules, {ROWS:,} rows, workers of one core")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        prepare(scratch)
        with Workers(1, scratch) as one, Workers(2, scratch) as two:
            for operator in ("match", "watch"):
                compare(report, operator, one, two, rounds)
        for what, shards in (("the whole", None), (f"shards={SHARDS}", SHARDS)):
            with Workers(2, scratch) as fresh:
                fresh.ask(["match", shards])
                mapped = sorted(fresh.ask("mapped").values())
                report.note(f"mapped by each worker, {what}", ", ".join(f"{size / 1e6:,.0f} MB" for size in mapped))
    return report


def compare(report: Report, operator: str, one: Workers, two: Workers, rounds: int) -> None:
    """One worker and two, with the whole and in parts, in turn."""
    taken = interleaved(
        {
            "one worker": partial(one.ask, [operator, None]),
            f"one worker, shards={SHARDS}": partial(one.ask, [operator, SHARDS]),
            "two workers": partial(two.ask, [operator, None]),
            f"two workers, shards={SHARDS}": partial(two.ask, [operator, SHARDS]),
        },
        rounds,
    )
    gained = {what: taken["one worker"] / seconds for what, seconds in taken.items()}
    in_parts = gained[f"two workers, shards={SHARDS}"]
    report.at_least(f"{operator}, two workers with shards={SHARDS} against one worker", in_parts, 1.0)
    for what, seconds in taken.items():
        report.note(f"  {what}", f"{ROWS / seconds / 1e3:,.0f} k rows/s, {gained[what]:.2f}x")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_shards", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more rounds")
    parser.add_argument("--serve", nargs=2, metavar=("WORKERS", "DIRECTORY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(int(given.serve[0]), Path(given.serve[1]))
        return
    report = run(7 if given.full else 3)
    report.show()
    show_missed([report])


if __name__ == "__main__":
    main()
