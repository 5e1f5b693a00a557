"""One local Spark session for all tests here, with its own scratch directory."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Workers import fencepost and these tests from where this process does, wherever it was when its JVM started.
HOMES = [str(Path(fencepost.__file__).parents[1]), str(Path(__file__).parents[2])]
os.environ["PYTHONPATH"] = os.pathsep.join([*HOMES, os.environ.get("PYTHONPATH", "")])
ENVIRONMENT = dict(os.environ)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from fencepost.spark import tune

    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]").appName("fencepost tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    tune(session)
    yield session
    session.stop()
