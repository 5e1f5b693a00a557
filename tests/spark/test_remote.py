"""Operators on rules at a URL: batch and stream, live and after a restart, whole and in parts, as on a path."""

import io
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.pipeline import check, run
from fencepost.published import VersionDirectory
from fencepost.spark import bands, match
from fencepost.spark.plan.remote_markers import LISTED_EVERY
from tests.spark.test_watch import SCHEMA, Stream, facts, of_monitor, rules_of, traffic

pytestmark = pytest.mark.slow


def test_match_of_a_batch(spark: Any, bucket: str) -> None:
    url, rules, table = f"{bucket}/batch", rules_of(1), traffic(300, 1)
    rules.publish(url, shards=2)
    frame = spark.createDataFrame(table.to_pandas(), SCHEMA)
    found = VersionDirectory(url).load().match(table).sets()
    expected = [(seq, sorted(ids)) for seq, ids in zip(table["seq"].to_pylist(), found, strict=True)]
    assert sum(len(ids) for _, ids in expected) > 500
    for shards in (None, 2):
        rows = match(frame, url, shards=shards).select("seq", "rule_ids").collect()
        assert sorted((row["seq"], sorted(row["rule_ids"])) for row in rows) == expected


@pytest.mark.parametrize("shards", [None, 2])
def test_rules_change_while_a_stream_runs_and_after_a_restart(
    spark: Any, bucket: str, tmp_path: Path, shards: int | None
) -> None:
    rules, url = rules_of(5, detect="enter,exit"), f"{bucket}/live-{shards}"
    rules.publish(url, shards=shards)
    versions = VersionDirectory(url)
    stream = Stream(spark, tmp_path, url, buckets=3, shards=shards)
    monitor = fp.Monitor(versions.load(), object="vehicle", time="ts", sequence="seq")
    expected = []
    query = None
    for number in range(3 if shards is None else 2):
        if number:
            rules.remove(number)
            rules.replace(number + 10, "x < 4 AND zone = 'a'", detect="enter,exit", initial=True)
            rules.publish(url)
            time.sleep(LISTED_EVERY)
            expected.append(monitor.follow(versions.load()))
        part = traffic(150, number, start=number * 75)
        stream.put(part)
        expected.append(monitor.update(part))
        if number < 2:  # the same query sees a version that comes between two of its micro-batches
            query = query or stream.start()
            query.processAllAvailable()
            if number == 1:
                query.stop()
        else:
            stream.run()
    told = pa.concat_tables(expected)
    assert facts(stream.told()) == of_monitor(told)
    assert {row["snapshot_version"] for row in stream.told().collect()} == set(versions.versions())
    assert versions.latest() in versions.leased(), "the version in force is kept"


def test_a_pipeline_of_match_takes_the_newest_version(spark: Any, bucket: str, tmp_path: Path) -> None:
    rules, url, file = fp.Rules(), f"{bucket}/match", tmp_path / "pipeline.toml"
    rules.add(1, "x >= 0")
    stream = Stream(spark, tmp_path, url)
    file.write_text(f"""
[source]
format = "parquet"
path = "in"
schema = {{ vehicle = "string", ts = "timestamp", seq = "bigint", x = "double" }}
[rules]
directory = "{url}"
[operator]
kind = "match"
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[trigger]
once = true
""")
    [fault] = check(file)
    assert str(fault).endswith(
        f"{url} does not exist; expected a directory with a published version. "
        f"Publish rules first: fencepost publish {url}"
    )
    expected = []
    for number in (1, 2):
        rules.publish(url)
        part = traffic(5, number, start=10 * number)
        stream.put(part)
        known = [seq for seq, x in zip(part["seq"].to_pylist(), part["x"].to_pylist(), strict=True) if x is not None]
        expected += [(seq, id) for seq in known for id in range(1, number + 1)]
        run(file, spark, out=io.StringIO())
        rules.add(number + 1, "x >= 0")
    rows = spark.read.parquet(f"{tmp_path}/out").collect()
    assert sorted((row["seq"], id) for row in rows for id in row["rule_ids"]) == expected


def test_bands_follow_a_url(spark: Any, bucket: str, tmp_path: Path) -> None:
    rules, url = fp.Rules(), f"{bucket}/bands"
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(url)
    for side, price in (("left", 10.0), ("right", 10.5)):
        row = spark.sql(f"SELECT '{side}' AS id, {price}D AS price, timestamp '2024-01-01' AS ts")
        row.write.parquet(f"{tmp_path}/{side}")

    def run() -> set[tuple[Any, ...]]:
        left, right = (spark.readStream.schema(row.schema).parquet(f"{tmp_path}/{side}") for side in ("left", "right"))
        writer = bands(left, right, url, object="id", time="ts").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True)
        writer.start(f"{tmp_path}/out").awaitTermination()
        told = spark.read.parquet(f"{tmp_path}/out").collect()
        return {(each["object"], each["other"], each["detect"], each["reason"]) for each in told}

    entered = ("left", "right", "enter", None)
    assert run() == {entered}
    rules.replace(1, "left.price - right.price > 90", detect="enter,exit")
    rules.publish(url)
    assert run() == {entered, ("left", "right", "exit", "edited")}
