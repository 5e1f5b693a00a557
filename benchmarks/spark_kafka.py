"""Kafka to Kafka: match against the same pipeline without an operator, in CPU seconds; the broker's own are left out.

Everything but the broker runs on one core. The fixed cost of a query, which is that of the same pipeline on a topic
of a single message, is taken off every figure before ratios are formed.
"""

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from tools.kafka import Broker

from benchmarks.harness import Report, interleaved, show_missed
from benchmarks.spark import ROWS, keyed, session
from fencepost.lab.reproduce.spark_plans import frames
from fencepost.lab.reproduce.timing import cpu_of
from fencepost.pipeline.connector import fetch_connector
from fencepost.pipeline.file.document import PipelineFile, read_pipeline
from fencepost.pipeline.runtime.operators import operate
from fencepost.pipeline.runtime.sinks import sink_writer
from fencepost.pipeline.runtime.sources import source_frames
from fencepost.rules import Rules

RULES = 100_000
SCHEMA = {"symbol": "string", "price": "double"}


class Contest:
    """Topics and pipelines that are compared."""

    def __init__(self, spark: Any, scratch: Path, broker: Broker) -> None:
        self._spark, self._scratch, self._broker = spark, scratch, broker
        self._runs = itertools.count()
        ranges, ticks = keyed(RULES)
        rules = Rules.from_table(ranges, equal=["symbol"], ranges={"price": ("lower", "upper")})
        rules.publish(scratch / "published", SCHEMA)
        self.mean = len(rules.compile(SCHEMA).match(ticks).ids) / ROWS
        for topic, frame in zip(("ticks", "one"), frames(spark, ticks, scratch / "ticks"), strict=True):
            messages = frame.select(F.to_json(F.struct("symbol", "price")).alias("value"), F.lit(0).alias("partition"))
            writer = messages.write.format("kafka").option("kafka.bootstrap.servers", broker.servers)
            writer.option("topic", topic).save()

    def run(self, topic: str, operator: Callable[[PipelineFile, Any], Any]) -> None:
        """Take all of a topic through a pipeline, from its beginning."""
        number = next(self._runs)
        file, faults = read_pipeline(self._write(topic, number))
        assert not faults, faults
        rows = source_frames(self._spark, file, "source", SCHEMA, []).rows
        writer = sink_writer(operator(file, rows), file, {})
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert sum(report["numInputRows"] for report in query.recentProgress) == (ROWS if topic == "ticks" else 1)

    def matched(self, file: PipelineFile, rows: Any) -> Any:
        """The operator of the pipeline."""
        return operate(file, {"source": rows}, str(self._scratch / "published"))

    def _write(self, topic: str, number: int) -> Path:
        target = self._scratch / f"{number}.toml"
        target.write_text(f"""
[source]
format = "kafka"
servers = "{self._broker.servers}"
topic = "{topic}"
schema = {{ symbol = "string", price = "double" }}
[rules]
directory = "published"
[operator]
kind = "match"
[sink]
format = "kafka"
servers = "{self._broker.servers}"
topic = "out"
checkpoint = "checkpoint{number}"
[trigger]
once = true
""")
        return target


def identity(_: PipelineFile, rows: Any) -> Any:
    """An operator that does nothing."""
    return rows


def run(rounds: int) -> Report:
    """The report."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, fetch_connector()))} pyspark-shell"
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        broker = Broker(scratch / "broker")
        broker.start()
        spark = session(scratch)
        try:
            return measured(Contest(spark, scratch, broker), broker, rounds)
        finally:
            spark.stop()
            broker.stop()


def measured(contest: Contest, broker: Broker, rounds: int) -> Report:
    """Both pipelines in turn, on all rows and on one."""
    pipelines = {"match": contest.matched, "nothing": identity}
    plans = {
        (name, topic): partial(contest.run, topic, operator)
        for name, operator in pipelines.items()
        for topic in ("ticks", "one")
    }

    def cpu_without_broker(plan: Callable[[], object]) -> float:
        before = broker.cpu_seconds()
        return cpu_of(plan) - (broker.cpu_seconds() - before)

    taken = interleaved({f"{name}, {topic}": plan for (name, topic), plan in plans.items()}, rounds, cpu_without_broker)
    rates = {name: ROWS / (taken[f"{name}, ticks"] - taken[f"{name}, one"]) for name in pipelines}
    report = Report(f"Kafka to Kafka: match, {RULES:,} keyed rules, {contest.mean:.1f} matches per row, {ROWS:,} rows")
    report.at_least("rows per CPU second against no operator", 100 * rates["match"] / rates["nothing"], 60, "%")
    for name, rate in rates.items():
        report.note(f"  {name}", f"{rate / 1e3:,.0f} k rows per CPU s, fixed {taken[f'{name}, one']:.2f} CPU s")
    return report


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_kafka", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more rounds")
    report = run(7 if parser.parse_args().full else 3)
    report.show()
    show_missed([report])


if __name__ == "__main__":
    main()
