"""Columns that are added to a directory while streams run: who lacks one leaves rules out, who has it uses them."""

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.spark import bands, match, watch
from tests.spark.files import put_file

pytestmark = pytest.mark.oldest

NARROW = "vehicle string, symbol string, ts bigint, price double"
WIDE = NARROW + ", gate string, delay bigint"
COLUMNS = pa.schema(
    [
        *(("vehicle", pa.string()), ("symbol", pa.string()), ("ts", pa.int64()), ("price", pa.float64())),
        *(("gate", pa.string()), ("delay", pa.int64())),
    ]
)


def rows_of(start: int) -> pa.Table:
    rows = [
        {
            "vehicle": f"v{number % 5}",
            "symbol": "IBM",
            "ts": start + number,
            "price": float((start + 7 * number) % 20),
            "gate": "AB"[(start + number) % 2],
            "delay": (start + 3 * number) % 30,
        }
        for number in range(20)
    ]
    return pa.Table.from_pylist(rows, COLUMNS)


class Query:
    """A stream over files that is started anew for every part, with more columns or less."""

    def __init__(self, spark: Any, path: Path, operator: str, published: Path) -> None:
        self.spark, self.path, self.operator, self.published = spark, path, operator, published
        for side in ("left", "right"):
            (path / side).mkdir(parents=True)
        self.files = 0

    def take(self, rows: pa.Table, schema: str, fail: bool = False) -> Any:
        """Take rows; where it should `fail`, the driver dies after the events were made, before they are committed."""
        for side in ("left", "right"):
            put_file(rows, self.path / side, self.files)
        self.files += 1
        left, right = (
            self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{self.path}/{side}")
            for side in ("left", "right")
        )
        named: dict[str, Any] = {"object": "vehicle", "time": "ts", "buckets": 2, "observe": "observed"}
        if self.operator == "watch":
            events = watch(left, self.published, **named)
        elif self.operator == "bands":
            events = bands(left, right, self.published, key="symbol", **named)
        else:
            events = match(left, self.published, observe="observed")
        writer = events.writeStream.option("checkpointLocation", f"{self.path}/checkpoint").trigger(availableNow=True)

        def write(frame: Any, number: int) -> None:
            frame.write.mode("overwrite").parquet(f"{self.path}/out/{number}")
            if fail:
                raise RuntimeError("the driver dies here")

        query = writer.foreachBatch(write).start()
        query.awaitTermination()
        return query

    def told(self) -> list[dict[str, Any]]:
        folders = sorted((self.path / "out").iterdir(), key=lambda folder: int(folder.name))
        return [row.asDict() for folder in folders for row in self.spark.read.parquet(str(folder)).collect()]


def skipped(query: Any) -> tuple[int, int]:
    observed = [report["observedMetrics"]["observed"] for report in query.recentProgress if report["numInputRows"]]
    return observed[-1]["version"], observed[-1]["skipped"]


def started_quietly(action: Any) -> Any:
    """What an action gives, and the warnings of rules that are left out."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        given = action()
    return given, [str(each.message) for each in found if "left out" in str(each.message)]


def test_watch_and_match(spark: Any, tmp_path: Path) -> None:
    published = tmp_path / "published"
    rules, paused = fp.Rules(), fp.Rules()
    for target in (rules, paused):
        target.add(1, "price > 10", detect="enter,exit")
        target.add(2, "price > 3", detect="enter,exit")
    rules.publish(published)
    directory = VersionDirectory(published)
    one, two = (Query(spark, tmp_path / name, name, published) for name in ("watch", "match"))
    monitor = fp.Monitor(paused.compile(), object="vehicle", time="ts")
    parts = [rows_of(20 * number) for number in range(4)]
    expected = [monitor.update(parts[0])]
    for query in (one, two):
        assert skipped(query.take(parts[0], NARROW)) == (1, 0)

    # Rule 2 goes over to a column that the streams lack: objects leave it. Rule 3 comes with another one.
    rules.replace(2, "price > 3 OR gate = 'B'", detect="enter,exit")
    rules.add(3, "gate = 'B' AND delay < 20", detect="enter,exit")
    paused.replace(2, "price > 3", detect="enter,exit", enabled=False)
    rules.publish(published, {"gate": "string", "delay": "bigint"})
    assert directory.schema() == {"price": "double", "gate": "key", "delay": "bigint"}
    expected += [monitor.follow(paused.compile(version=2)), monitor.update(parts[1])]
    for query in (one, two):
        with pytest.raises(Exception, match="the driver dies here"):
            started_quietly(lambda query=query: query.take(parts[1], NARROW, fail=True))
        run, warned = started_quietly(lambda query=query: query.take(parts[2], NARROW))
        assert skipped(run) == (2, 2)
        assert any("2 rules of version 2 of" in text and "(2, 3)" in text and "delay, gate" in text for text in warned)
    expected.append(monitor.update(parts[2]))
    told = one.told()
    assert sorted(row["event_id"] for row in told) == sorted(pa.concat_tables(expected)["event_id"].to_pylist())
    assert {"paused"} <= {row["reason"] for row in told if row["rule_id"] == 2}
    assert not {"gate", "delay"} & set(told[0]), "events have the columns of the stream"
    found = {(row["vehicle"], row["ts"]): row["rule_ids"] for row in two.told()}
    for row in pa.concat_tables(parts[1:3]).to_pylist():
        assert found[row["vehicle"], row["ts"]] == ([1] if row["price"] > 10 else [])

    # Started anew with frames that have the columns, the same checkpoints use all rules.
    for query in (one, two):
        assert skipped(query.take(parts[3], WIDE)) == (2, 0)
    late = [row for row in one.told() if row["ts" if "ts" in row else "time"] >= 60]
    assert {2, 3} <= {row["rule_id"] for row in late}
    assert {"delay_before", "delay"} <= set(late[0])
    found = {(row["vehicle"], row["ts"]): set(row["rule_ids"]) for row in two.told() if row["ts"] >= 60}
    snapshot = rules.compile(directory.schema())
    whole = parts[3].to_pylist()
    assert [found[row["vehicle"], row["ts"]] for row in whole] == snapshot.match(parts[3]).sets()

    # A type that does not convert counts as a column that is not there; columns of the first version are needed.
    _, warned = started_quietly(lambda: match(spark.createDataFrame([], "price double, gate bigint"), published))
    assert len(warned) == 1
    with pytest.raises(FencepostError, match="A frame without the column price"):
        match(spark.createDataFrame([], "gate string, delay bigint"), published)


def test_bands(spark: Any, tmp_path: Path) -> None:
    published = tmp_path / "published"
    rules, paused = fp.Rules(), fp.Rules()
    for target in (rules, paused):
        target.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
        target.add(2, "left.price - right.price > 5", detect="enter,exit")
    schema = {"price": "double", "symbol": "string"}
    rules.publish(published, schema)
    query = Query(spark, tmp_path / "bands", "bands", published)
    named: dict[str, Any] = {"object": "vehicle", "time": "ts", "key": "symbol"}
    monitor = fp.Monitor(paused.compile(schema), **named, schema=schema)
    parts = [rows_of(20 * number) for number in range(3)]
    expected = [monitor.update(left=parts[0], right=parts[0])]
    assert skipped(query.take(parts[0], NARROW)) == (1, 0)
    rules.replace(2, "left.delay - right.delay > 5", detect="enter,exit")
    rules.add(3, "left.price - right.price < 1 AND left.gate = 'B'", detect="enter,exit")
    paused.replace(2, "left.price - right.price > 5", detect="enter,exit", enabled=False)
    rules.publish(published, {"gate": "string", "delay": "bigint"})
    expected += [monitor.follow(paused.compile(schema, 2)), monitor.update(left=parts[1], right=parts[1])]
    with pytest.raises(Exception, match="the driver dies here"):
        started_quietly(lambda: query.take(parts[1], NARROW, fail=True))
    run, warned = started_quietly(lambda: query.take(parts[2], WIDE.replace("delay bigint", "late bigint")))
    assert skipped(run) == (2, 1), "rule 2 alone: these frames have the gate"
    assert any("1 rule of version 2" in text and "(2)" in text for text in warned)
    told = [row for row in query.told() if row["rule_id"] != 3]
    ids = sorted(row["event_id"] for row in told if row["time"] < 40)
    assert ids == sorted(pa.concat_tables(expected)["event_id"].to_pylist())
    assert "paused" in {row["reason"] for row in told if row["rule_id"] == 2}
    assert 3 in {row["rule_id"] for row in query.told() if row["time"] >= 40}
