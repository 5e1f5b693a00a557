"""Pipelines whose rules are in a book, and pipelines of bands."""

import importlib
import importlib.util
import json
import threading
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fencepost as fp
import fencepost.spark
from fencepost.pipeline import check, run
from fencepost.rules.checked import UnknownColumnWarning

WATCH = """
[source]
format = "json"
path = "in"
schema = { symbol = "string", price = "double", at = "bigint" }
[rules]
book = "sqlite:///rules.db"
[operator]
kind = "watch"
object = "symbol"
time = "at"
buckets = 2
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[trigger]
every = "200 milliseconds"
"""


def put(path: Path, *rows: dict[str, Any]) -> None:
    """A file that appears whole."""
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    draft.rename(path)


def a_book(home: Path) -> Any:
    return importlib.import_module("fencepost.book").RuleBook(f"sqlite:///{home}/rules.db")


def test_faults_of_a_book(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.toml").write_text(WATCH)

    def fault() -> str:
        (found,) = check(tmp_path / "pipeline.toml")
        assert found.place == "rules.book"
        return str(found)

    assert "rules.db" in fault(), "there is no book"
    assert not (tmp_path / "rules.db").exists(), "looking for a book makes none"
    with a_book(tmp_path) as book:
        assert "without a rule; expected at least one. Add rules: fencepost rules add" in fault()
        book.add(1, "volume > 4")
        assert "volume" in fault(), "the source has no such column"
        book.replace(1, "price > 4")
        assert check(tmp_path / "pipeline.toml") == []
        (tmp_path / "pipeline.toml").write_text(WATCH.replace("[rules]", '[rules]\ncolumns = ["symbol"]'))
        assert "price" in fault(), "rules may be about symbols alone"
    (tmp_path / "pipeline.toml").write_text(WATCH.replace("sqlite:///rules.db", "rules.db"))
    assert "rules.db" in fault()


def test_a_running_pipeline_follows_its_book(spark: Any, tmp_path: Path) -> None:
    with a_book(tmp_path) as book:
        book.add(1, "price BETWEEN 40 AND 50", detect="enter,exit")
        put(tmp_path / "in" / "1.json", {"symbol": "IBM", "price": 45.0, "at": 1})
        (tmp_path / "pipeline.toml").write_text(WATCH.replace("buckets = 2", "buckets = 2\nshards = 2"))
        stop, out, summaries = threading.Event(), StringIO(), list[Any]()
        thread = threading.Thread(
            target=lambda: summaries.append(run(tmp_path / "pipeline.toml", spark, out=out, stop=stop))
        )
        thread.start()
        try:
            until(lambda: "1 event," in out.getvalue(), out)
            with pytest.warns(UnknownColumnWarning):
                book.add(2, "volume > 4")  # the source has no such column: the other rules are published
            until(lambda: "1 faulty rule not published" in out.getvalue(), out)
            assert "rule 2: `volume > 4` uses the column volume" in out.getvalue()
            book.remove(1)
            until(lambda: "2 events" in out.getvalue(), out)
        finally:
            stop.set()
            thread.join()
    events = sorted(pq.read_table(tmp_path / "out").to_pylist(), key=lambda event: event["snapshot_version"])
    assert [(event["detect"], event["reason"]) for event in events] == [("enter", None), ("exit", "removed")]
    assert summaries[0].events == 2


def until(holds: Any, out: StringIO) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline, out.getvalue()
        time.sleep(0.1)


BANDS = """
[source.left]
format = "json"
path = "left"
schema = { id = "bigint", symbol = "string", price = "double", at = "bigint" }
dead_letters = "dead"
[source.right]
format = "json"
path = "right"
schema = { id = "bigint", symbol = "string", price = "double", at = "bigint" }
[rules]
directory = "published"
[operator]
kind = "bands"
object = "id"
time = "at"
key = "symbol"
buckets = 2
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[trigger]
once = true
"""


@pytest.mark.oldest
def test_bands_of_two_sources(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(tmp_path / "published", {"price": "double"})
    columns = ("id", "symbol", "price", "at")
    left = [(1, "IBM", 40.0, 1), (2, "AAPL", 40.0, 1), (1, "IBM", 47.0, 3)]
    right = [(7, "IBM", 40.5, 2), (8, "IBM", 47.5, 2)]
    sides = {"left": left, "right": right}
    for side, rows in sides.items():
        put(tmp_path / side / "1.json", *(dict(zip(columns, row, strict=True)) for row in rows))
    put(tmp_path / "left" / "2.json", {"symbol": "IBM", "price": 1.0, "at": 9})
    (tmp_path / "pipeline.toml").write_text(BANDS)
    assert check(tmp_path / "pipeline.toml") == []
    summary = run(tmp_path / "pipeline.toml", spark, out=StringIO())
    found = pq.read_table(tmp_path / "out").to_pylist()
    told = sorted((event["time"], event["detect"], event["object"], event["other"]) for event in found)
    assert told == [(2, "enter", 1, 7), (3, "enter", 1, 8), (3, "exit", 1, 7)]
    assert (summary.rows, summary.dead_letters) == (6, 1)
    tables = {side: pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True))) for side, rows in sides.items()}
    monitor = importlib.import_module("fencepost").Monitor(rules, object="id", time="at", key="symbol")
    expected = monitor.update(**tables)
    assert sorted(event["event_id"] for event in found) == sorted(expected["event_id"].to_pylist())
