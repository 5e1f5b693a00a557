"""Batch frames on Spark, and the events of both operators with state."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fencepost as fp
from tests.corpus.boxes import EVERY, PLANE
from tests.corpus.drawing import Dice, Stream, Times, Traffic, band, condition, options
from tests.corpus.playing import Record

TIMES = Times("timestamp")
IN_ORDER = (0, 0, 0, 1, 1, 2)


def watched(spark: Any) -> Record:
    """The events of `watch` on a frame."""
    from fencepost.spark import watch

    dice = Dice(300)
    traffic = Traffic(dice, Stream("string", 9, TIMES, ("seq",), PLANE, ("k",), spread=IN_ORDER))
    rules = fp.Rules()
    for id in range(14):
        rules.add(id, condition(dice, PLANE, ("k",), 2, 3), **options(dice, EVERY, TIMES, 0.3, 150))
    frame = spark.createDataFrame(traffic.batch(220).to_pandas())
    events = watch(
        frame, rules, object="vehicle", time="ts", sequence="seq", timeout=TIMES.span(15), buckets=3, first="silent"
    )
    return _collected(events)


def banded(spark: Any) -> Record:
    """The events of `bands` on two frames."""
    from fencepost.spark import bands

    dice = Dice(301)
    stream = Stream("string", 4, TIMES, ("seq",), {"x": "double"}, ("k", "c"), "gone", ("a", "b"), spread=IN_ORDER)
    left, right = (spark.createDataFrame(Traffic(dice, stream).batch(90).to_pandas()) for _ in range(2))
    rules = fp.Rules()
    for id in range(9):
        rules.add(id, band(dice, "double", ("x", "x"), ("k",), ("c",)), **options(dice, EVERY, TIMES, 0.3, 80))
    events = bands(
        left,
        right,
        rules,
        object="vehicle",
        time="ts",
        sequence="seq",
        key="k",
        deleted="gone",
        timeout=TIMES.span(9),
        buckets=3,
    )
    return _collected(events)


RUNS: dict[str, Callable[[Any], Record]] = {"watch": watched, "bands": banded}


def _collected(events: Any) -> Record:
    table = events.toArrow()
    ids = table["event_id"].to_pylist()
    return Record("0 batch: events", table.take(sorted(range(len(ids)), key=ids.__getitem__)))


@contextmanager
def session(scratch: Path) -> Iterator[Any]:
    """A local Spark to record with; tests have one of their own."""
    from pyspark.sql import SparkSession

    from fencepost.spark import tune

    # Workers import fencepost from where this does.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(fp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("record the corpus")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    tune(made)
    yield made
    made.stop()
