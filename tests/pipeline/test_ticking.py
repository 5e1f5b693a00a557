"""Pipelines in which silent objects and expired rules end although no row comes."""

import threading
import time
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any, Self

import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.pipeline import run
from fencepost.pipeline.file.ticks import Ticks
from fencepost.pipeline.runtime.log import Log
from fencepost.pipeline.runtime.progress import Progress
from fencepost.pipeline.runtime.ticker import Ticker
from fencepost.published.markers import Markers
from fencepost.snapshot import VersionDirectory
from tests.pipeline.test_book import put

PIPELINE = """
[source]
format = "json"
path = "in"
schema = { symbol = "string", price = "double", ts = "timestamp" }
[rules]
directory = "published"
[operator]
kind = "watch"
object = "symbol"
time = "ts"
buckets = 2
timeout = "2 seconds"
tick = "1 second"
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
"""
LEFT_AND_RIGHT = """
[source.left]
format = "json"
path = "left"
schema = { symbol = "string", price = "double", ts = "timestamp_ntz" }
[source.right]
format = "json"
path = "right"
schema = { symbol = "string", price = "double", ts = "timestamp_ntz" }
"""


class Running:
    """A pipeline that runs in a thread until it is stopped."""

    def __init__(self, home: Path, spark: Any) -> None:
        self._home, self.out, self._stop, self._raised = home, StringIO(), threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._run, args=[spark])

    def _run(self, spark: Any) -> None:
        try:
            run(self._home / "pipeline.toml", spark, out=self.out, stop=self._stop)
        except BaseException as error:  # the thread that waits tells it
            self._raised.append(error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert not self._raised, self._raised

    def wait_for(self, said: str) -> None:
        """Wait until progress says something."""
        deadline = time.monotonic() + 450  # compiling comes first
        while said not in self.out.getvalue():
            assert not self._raised, self._raised
            assert time.monotonic() < deadline, self.out.getvalue()
            time.sleep(0.1)


def told(spark: Any, home: Path) -> list[tuple[str, ...]]:
    """The events of all micro-batches that are done: files of one that was stopped may lie beside them."""
    events = spark.read.parquet(str(home / "out")).selectExpr("object", "detect", "cast(time AS string)", "reason")
    return sorted((tuple(row) for row in events.collect()), key=lambda event: event[2])


def row(symbol: str, price: float, second: int) -> dict[str, Any]:
    return {"symbol": symbol, "price": price, "ts": f"2024-01-01T00:00:{second:02}"}


@pytest.mark.oldest
def test_an_object_that_goes_silent_ends_with_no_further_row_also_after_a_restart(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "price > 4", detect="enter,exit")
    rules.publish(tmp_path / "published")
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    put(tmp_path / "in" / "1.json", row("IBM", 5.0, 0))
    with Running(tmp_path, spark) as running:
        running.wait_for("2 events")
    both = [("IBM", "enter", "2024-01-01 00:00:00", None), ("IBM", "exit", "2024-01-01 00:00:02", "timeout")]
    assert told(spark, tmp_path) == both
    assert VersionDirectory(tmp_path / "published").markers.newest() == (1, None), "other streams hear nothing of it"
    # A run that ends does not tick; the next one goes on where the clock stood.
    put(tmp_path / "in" / "2.json", {**row("AAPL", 6.0, 0), "ts": "2024-01-02T00:00:00"})
    (tmp_path / "pipeline.toml").write_text(PIPELINE.replace('tick = "1 second"', "") + "[trigger]\nonce = true")
    run(tmp_path / "pipeline.toml", spark, out=StringIO())
    entered = ("AAPL", "enter", "2024-01-02 00:00:00", None)
    assert told(spark, tmp_path) == [*both, entered]
    put(tmp_path / "in" / "3.json", row("IBM", 1.0, 59), {**row("AAPL", 6.0, 0), "ts": "2024-01-02T00:00:01"})
    (tmp_path / "pipeline.toml").write_text(PIPELINE + '[trigger]\nevery = "100 milliseconds"')
    with Running(tmp_path, spark) as running:
        running.wait_for("1 event,")
    assert told(spark, tmp_path) == [*both, entered, ("AAPL", "exit", "2024-01-02 00:00:03", "timeout")]


@pytest.mark.oldest
def test_pairs_of_which_a_row_goes_silent_end_with_no_further_row(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(tmp_path / "published", {"price": "double"})
    source = PIPELINE.partition("[rules]")[0]
    bands = PIPELINE.replace(source, LEFT_AND_RIGHT).replace('"watch"', '"bands"')
    (tmp_path / "pipeline.toml").write_text(bands)
    put(tmp_path / "left" / "1.json", row("IBM", 5.0, 3))
    put(tmp_path / "right" / "1.json", row("AAPL", 5.5, 4))
    with Running(tmp_path, spark) as running:
        running.wait_for("2 events")
    enter, exit = ("IBM", "enter", "2024-01-01 00:00:04", None), ("IBM", "exit", "2024-01-01 00:00:05", "timeout")
    assert told(spark, tmp_path) == [enter, exit]


def test_a_time_column_whose_type_only_spark_knows(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "price > 4", detect="enter,exit")
    rules.publish(tmp_path / "published")
    (tmp_path / "in").mkdir()
    columns = 'columns = { n = "unix_micros(ts)" }\n[rules]'
    text = PIPELINE.replace("[rules]", columns).replace('"ts"', '"n"').replace('"2 seconds"', "2")
    (tmp_path / "pipeline.toml").write_text(text)
    with pytest.raises(FencepostError, match="tick and n, which is bigint"):
        run(tmp_path / "pipeline.toml", spark, out=StringIO())


class Query:
    """A query that waits, and has taken a row of each source."""

    def __init__(self) -> None:
        self.status = {"isTriggerActive": False, "message": "Waiting for next trigger"}
        now = datetime.now(UTC) - timedelta(hours=1)
        micros = int(now.timestamp() * 1_000_000)
        self.recentProgress: list[dict[str, Any]] = [
            {
                "runId": "a",
                "batchId": 0,
                "numInputRows": 1,
                "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "durationMs": {"triggerExecution": 5},
                "sources": [],
                "observedMetrics": {"a": {"newest": micros}, "fencepost": {"version": 1}},
            }
        ]

    @property
    def lastProgress(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return self.recentProgress[-1]


def a_ticker(clock: Path, rules: Path, out: StringIO) -> Ticker:
    second, before = timedelta(milliseconds=1), int((time.time() - 7200) * 1_000_000)
    ticks = Ticks(Markers(clock), ["a"], second, timedelta(0), dates=False, now=before)
    return Ticker(ticks, VersionDirectory(rules), Log(out))


@pytest.mark.parametrize(
    "options",
    [
        {"expires": datetime(2030, 1, 1, tzinfo=UTC)},
        {"for_": "5 minutes"},
        {"keep_firing_for": "5 minutes"},
        {"cooldown": "5 minutes"},
    ],
)
def test_without_a_timeout_it_ticks_while_a_rule_expires_or_has_a_duration(
    options: dict[str, Any], tmp_path: Path
) -> None:
    rules = fp.Rules()
    rules.add(1, "price > 4", detect="enter,exit", for_="3 rows", keep_firing_for="2 rows", limit=3)
    rules.publish(tmp_path / "published")
    rules.add(2, "price > 5", detect="enter,exit", **options)
    rules.publish(tmp_path / "published")
    out, clock, progress, query = StringIO(), tmp_path / "clock", Progress(Log(StringIO())), Query()
    ticker = a_ticker(clock, tmp_path / "published", out)
    ticker.tick(query, progress)
    assert not clock.exists(), "nothing ends by time in version 1"
    query.recentProgress[0] |= {"batchId": 1}
    query.recentProgress[0]["observedMetrics"]["fencepost"]["version"] = 2
    time.sleep(0.01)
    ticker.tick(query, progress)
    assert len(list(clock.iterdir())) == 1
    assert out.getvalue() == ""


def test_a_marker_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "clock").write_text("a file")
    rules = fp.Rules()
    rules.add(1, "price > 4", expires=datetime(2030, 1, 1, tzinfo=UTC))
    rules.publish(tmp_path / "published")
    out, progress, query = StringIO(), Progress(Log(StringIO())), Query()
    ticker = a_ticker(tmp_path / "clock", tmp_path / "published", out)
    for _ in range(3):
        ticker.tick(query, progress)
        time.sleep(0.01)
    assert out.getvalue().count("durations wait, since no time could be announced: ") == 1
    assert "clock" in out.getvalue()
