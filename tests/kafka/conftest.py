"""A broker on loopback, and a session that can reach it; without their jars these tests skip and say why."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tools.kafka import Broker

from fencepost.errors import FencepostError
from fencepost.pipeline.connector import connector_jars, fetch_connector
from tests.spark.conftest import spark as any_session

__all__ = ["any_session"]


def _name_jars() -> None:
    """The connector must be on the class path when the JVM starts, which may be for a test elsewhere."""
    jars = ",".join(map(str, [*connector_jars(), *connector_jars("avro")]))
    if jars and "PYSPARK_SUBMIT_ARGS" not in os.environ:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} pyspark-shell"


_name_jars()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        fetch_connector()
        fetch_connector("avro")
        started = Broker(tmp_path_factory.mktemp("kafka"))
    except FencepostError as error:
        pytest.skip(f"no Kafka here: {error}")
    _name_jars()
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def spark(broker: Broker, request: pytest.FixtureRequest) -> Any:
    del broker
    session = request.getfixturevalue("any_session")
    loaded = str(session.sparkContext._jsc.sc().listJars())
    if "spark-sql-kafka" not in loaded:
        pytest.skip("the JVM was started before the connector was here; run these tests once more")
    return session
