"""A program that joins bands until it is killed: python -m tests.spark.joiner DIRECTORY."""

import sys
from pathlib import Path

from fencepost.spark import tune
from tests.spark.test_bands import NAMED, started
from tests.spark.watcher import session


def main(path: str) -> None:
    spark = session("1")
    tune(spark)
    started(spark, Path(path), f"{path}/published", {**NAMED, "buckets": 3}, once=False).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
