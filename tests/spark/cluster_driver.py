"""The driver of the cluster tests: python -m tests.spark.cluster_driver MASTER DIRECTORY.

Runs match and watch in parts on batch frames and notes what each worker has mapped, then every operator on streams.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import fencepost
from fencepost.spark import bands, match, tune, watch
from fencepost.spark.work.caches import Published, held_sources
from tests.spark import test_bands, test_watch

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # How executors find the interpreter and the package: both are installed on these workers, which share a disk.
    "spark.pyspark.python": sys.executable,
    "spark.executorEnv.PYTHONPATH": str(Path(fencepost.__file__).parents[1]),
}
OPERATORS = ("match", "watch", "bands")
SHARDS = 2


def parts_here(_: Any) -> Iterator[Any]:
    """For mapInArrow: the parts that this process has mapped; a null is the whole."""
    time.sleep(2)  # long enough that each worker is asked
    parts = [source.shard for source, _ in held_sources() if isinstance(source, Published)]
    yield pa.RecordBatch.from_pydict({"parts": pa.array([parts], pa.list_(pa.int32()))})


def in_parts(spark: SparkSession, directory: str) -> None:
    """match and watch in as many parts as there are workers, and what the Python processes have mapped after each."""
    traffic = spark.read.schema(test_watch.SCHEMA).parquet(f"{directory}/traffic")
    parted = f"{directory}/parted"
    found = {
        "match": match(traffic, parted, explode=True, shards=SHARDS),
        "watch": watch(traffic, parted, object="vehicle", time="ts", sequence="seq", buckets=4, shards=SHARDS),
    }
    mapped = {}
    for name, told in found.items():
        told.write.parquet(f"{directory}/{name}-parts")
        asked = spark.range(0, SHARDS, 1, SHARDS).mapInArrow(parts_here, "parts array<int>").collect()
        mapped[name] = [row["parts"] for row in asked]
    Path(directory, "mapped.json").write_text(json.dumps(mapped))


def main(master: str, directory: str) -> None:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("cluster tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    tune(spark)
    in_parts(spark, directory)

    def stream(folder: str, schema: str) -> Any:
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return source.parquet(f"{directory}/{folder}")

    traffic, quotes = test_watch.SCHEMA, test_bands.SCHEMA
    operators = {
        "match": match(stream("traffic", traffic), test_watch.rules_of(1), explode=True),
        "watch": watch(
            stream("traffic", traffic),
            f"{directory}/published",
            object="vehicle",
            time="ts",
            sequence="seq",
            buckets=4,
        ),
        "bands": bands(
            stream("left", quotes), stream("right", quotes), test_bands.rules_of(1), buckets=4, **test_bands.NAMED
        ),
    }
    assert tuple(operators) == OPERATORS
    queries = []
    for name, told in operators.items():
        writer = told.writeStream.option("checkpointLocation", f"{directory}/{name}/checkpoint").format("parquet")
        # match, which keeps no state, would be at its end before the others have begun in earnest.
        pause = "3 seconds" if name == "match" else "1 second"
        queries.append(writer.trigger(processingTime=pause).start(f"{directory}/{name}/out"))
    for query in queries:
        query.processAllAvailable()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
