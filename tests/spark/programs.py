"""Programs that tests run in an interpreter of their own, because a process has one kind of Spark session."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import fencepost as fp
from fencepost.spark import match, read_state, register, tune, watch

ROWS = [("IBM", 41.5, 1), ("AAPL", 130.0, 2), ("IBM", None, 3), (None, 45.0, 4)]
SCHEMA = "symbol string, price double, id int"


def rules() -> fp.Rules:
    made = fp.Rules()
    made.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50")
    made.add(2, "price >= 45")
    return made


def answers(spark: Any) -> dict[str, Any]:
    """Every way of matching, on any session."""
    tune(spark)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    narrow = spark.createDataFrame(ROWS, SCHEMA)
    wide = narrow.selectExpr("*", "array(id) AS a", "1 AS b", "2 AS c")
    narrow.createOrReplaceTempView("ticks")
    register(spark, rules().compile(narrow.schema))
    in_sql = spark.sql("SELECT id, fencepost_match(price, symbol) AS rule_ids FROM ticks")
    exploded = match(wide, rules(), explode=True).collect()
    return {
        "narrow": _by_id(match(narrow, rules())),
        "wide": _by_id(match(wide, rules())),
        "parts": _by_id(match(narrow, rules(), shards=2)),
        "exploded": sorted([row["id"], row["rule_id"]] for row in exploded),
        "sql": _by_id(in_sql),
    }


def followed(spark: Any) -> dict[str, Any]:
    """A stream that follows a directory over a change."""
    with tempfile.TemporaryDirectory() as scratch:
        frame = spark.createDataFrame(ROWS, SCHEMA)
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{scratch}/in")
        for version, id in enumerate((10, 20), start=1):
            changing = fp.Rules()
            changing.add(id, "price > 0")
            changing.publish(f"{scratch}/published")
            frame.selectExpr("symbol", "price", f"id + 10 * {version} AS id").coalesce(1).write.mode("append").json(
                f"{scratch}/in"
            )
            matched = match(stream, f"{scratch}/published")
            writer = matched.writeStream.option("checkpointLocation", f"{scratch}/checkpoint").format("parquet")
            writer.trigger(availableNow=True).start(f"{scratch}/out").awaitTermination()
        return {"stream": _by_id(spark.read.parquet(f"{scratch}/out"))}


def watched(spark: Any, url: str = "") -> dict[str, Any]:
    """Batch and stream of the same moves, and who is inside in the end; also with rules at a URL, if there is one."""
    rules = fp.Rules()
    rules.add(1, "price BETWEEN 40 AND 50", detect="enter,exit")
    moves = [("IBM", 1, 39.0), ("IBM", 2, 41.5), ("AAPL", 2, 45.0), ("IBM", 3, 52.0)]
    schema = "symbol string, at bigint, price double"
    frame = spark.createDataFrame(moves, schema)
    with tempfile.TemporaryDirectory() as scratch:
        frame.coalesce(1).write.json(f"{scratch}/in")
        streams: list[list[list[Any]]] = []
        for directory in filter(None, (f"{scratch}/published", url)):
            rules.publish(directory)
            stream = spark.readStream.schema(schema).json(f"{scratch}/in")
            events = watch(stream, directory, object="symbol", time="at", buckets=2)
            place = f"{scratch}/{len(streams)}"
            writer = events.writeStream.option("checkpointLocation", f"{place}/checkpoint").format("parquet")
            writer.trigger(availableNow=True).start(f"{place}/out").awaitTermination()
            streams.append(_told(spark.read.parquet(f"{place}/out")))
        batch = watch(frame, rules, object="symbol", time="at")
        state = read_state(spark, f"{scratch}/0/checkpoint").select("object", "price")
        inside = match(state, rules, explode=True).collect()
        return {
            "watched": streams,
            "batch": _told(batch),
            "parts of batch": _told(watch(frame, rules, object="symbol", time="at", shards=2)),
            "inside": [[row["object"], row["rule_id"]] for row in inside],
        }


def _told(events: Any) -> list[list[Any]]:
    return sorted([row["object"], row["time"], row["detect"], row["event_id"]] for row in events.collect())


def _by_id(matched: Any) -> list[list[Any]]:
    return sorted([row["id"], sorted(row["rule_ids"])] for row in matched.select("id", "rule_ids").collect())


def main(kind: str, given: str) -> None:
    if kind == "connect":
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        found = answers(spark) | followed(spark) | watched(spark, url=given)
    else:
        builder = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false")
        # Executors must not find the package on their own.
        spark = builder.config("spark.executorEnv.PYTHONPATH", "").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        spark.addArtifacts(given, pyfile=True)
        found = answers(spark) | watched(spark)
        where = spark.range(1).mapInArrow(_location, "path string").first()["path"]
        found["in_zip"] = f"{Path(given).name}/fencepost" in where
    print(json.dumps(found))
    spark.stop()


def _location(batches: Any) -> Any:
    import pyarrow

    import fencepost

    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"path": [fencepost.__file__]})


if __name__ == "__main__":
    main(*sys.argv[1:])
