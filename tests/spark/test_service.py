"""State moves from a service to Spark and back, and not one event changes."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.service.service import Service
from fencepost.service.settings import Settings
from fencepost.spark import read_state, save_state, watch

START = datetime(2026, 1, 5, tzinfo=UTC)
TYPES = {"x": "double", "zone": "string"}


def rows(number: int) -> pa.Table:
    """A part of the traffic."""
    rng = random.Random(number)  # noqa: S311
    return pa.table(
        {
            "object": [f"v{rng.randrange(20)}" for _ in range(300)],
            "time": pa.array(
                [START + timedelta(seconds=300 * number + i) for i in range(300)], pa.timestamp("us", "UTC")
            ),
            "x": [None if rng.random() < 0.1 else rng.uniform(0, 10) for _ in range(300)],
            "zone": [rng.choice(["a", "b", None]) for _ in range(300)],
        }
    )


def ids(events: Any) -> list[str]:
    return sorted(events["event_id"].to_pylist())


@pytest.mark.oldest
def test_state_moves_to_spark_and_back(spark: Any, tmp_path: Path) -> None:
    data, book = tmp_path / "data", f"sqlite:///{tmp_path / 'rules.db'}"
    with Service(Settings(data=data, book=book, types=TYPES)) as service:
        for low in range(0, 10, 2):
            service.rules.add({"condition": f"x BETWEEN {low} AND {low + 3}", "detect": "enter,exit"}, "ann")
            service.rules.add({"condition": f"zone = 'a' AND x > {low}", "detect": "enter,exit"}, "ann")
        service.settle()
        monitor = fp.Monitor(service.publishing.directory.load(), object="object", time="time", schema=TYPES)
        told = service.observe(rows(0)).events
        assert ids(told) == ids(monitor.update(rows(0)))
        pq.write_table(service.state(), tmp_path / "state.parquet")

    published, seed = data / "published", tmp_path / "seed"
    state = spark.read.parquet(str(tmp_path / "state.parquet"))
    save_state(state, seed, published, object="object", time="time", buckets=3)
    (tmp_path / "in").mkdir()
    pq.write_table(rows(1), tmp_path / "in" / "1.parquet")
    schema = spark.read.parquet(f"{tmp_path}/in").schema
    stream = spark.readStream.schema(schema).parquet(f"{tmp_path}/in")
    events = watch(stream, published, object="object", time="time", buckets=3, seed=seed)
    writer = events.writeStream.option("checkpointLocation", f"{tmp_path}/checkpoint").format("parquet")
    writer.trigger(availableNow=True).start(f"{tmp_path}/out").awaitTermination()
    found = spark.read.parquet(f"{tmp_path}/out").select("event_id").collect()
    assert sorted(row["event_id"] for row in found) == ids(monitor.update(rows(1)))

    frame = read_state(spark, tmp_path / "checkpoint").drop("snapshot_version", "damped")
    frame.coalesce(1).write.parquet(f"{tmp_path}/back")
    with Service(Settings(data=tmp_path / "again", book=book, types=TYPES, publish="manual")) as service:
        assert service.observe(pq.read_table(tmp_path / "back")).caused == 0
        assert service.publish().version == 1
        assert service.last_event == 0
        assert ids(service.observe(rows(2)).events) == ids(monitor.update(rows(2)))
