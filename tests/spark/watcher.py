"""A program that watches until it is killed: python -m tests.spark.watcher DIRECTORY CORES."""

import os
import sys

from pyspark.sql import SparkSession

from fencepost.spark import tune, watch
from tests.spark.test_watch import SCHEMA


def session(cores: str) -> SparkSession:
    """A local session of its own."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "1g"}
    settings |= {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(path: str, cores: str) -> None:
    spark = session(cores)
    tune(spark)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{path}/in")
    events = watch(source, f"{path}/published", object="vehicle", time="ts", sequence="seq", buckets=4)
    writer = events.writeStream.option("checkpointLocation", f"{path}/checkpoint").format("parquet")
    writer.start(f"{path}/out").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
