"""Damped rules on Spark: batch, stream and Monitor report the same events; what waits survives restarts and seeds."""

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.spark import read_state, save_state, watch
from tests.spark.test_watch import ARROW, EPOCH, SCHEMA, Stream, facts, ids, of_monitor, traffic

pytestmark = pytest.mark.oldest

NAMED: Any = {"object": "vehicle", "time": "ts", "sequence": "seq"}
COLUMNS = {"x": "double", "y": "double", "zone": "string"}


def damped_rules(seed: int, count: int = 25) -> fp.Rules:
    """Rules of one and two columns, most of them damped."""
    rng = random.Random(seed)  # noqa: S311
    rules = fp.Rules()
    for id in range(count):
        low, width = rng.randrange(14) / 2, rng.randrange(2, 9) / 2
        condition = f"x >= {low} AND x < {low + width}"
        options: dict[str, Any] = {
            "for_": rng.choice([None, "4 seconds", "2 rows", timedelta(seconds=15)]),
            "keep_firing_for": rng.choice([None, "5 seconds", "3 rows"]),
            "cooldown": rng.choice([None, "20 seconds"]),
            "limit": rng.choice([None, None, 3]),
            "stay": rng.choice([None, f"x >= {low - 1} AND x < {low + width + 1}"]),
        }
        options = {name: value for name, value in options.items() if value is not None}
        if rng.random() < 0.3 and "stay" not in options:
            condition += f" AND zone = '{rng.choice('abc')}'"
        detect = rng.choice(["enter,exit", "enter,exit,inside"])
        expires = EPOCH + timedelta(seconds=rng.randrange(400)) if rng.random() < 0.2 else None
        rules.add(id, condition, detect=detect, expires=expires, **options)
    return rules


def test_batch_stream_and_monitor_report_the_same(spark: Any, tmp_path: Path) -> None:
    rules, timeout = damped_rules(1), timedelta(seconds=30)
    parts = [traffic(400, seed, start=seed * 200) for seed in range(3)]
    stream = Stream(spark, tmp_path, rules, timeout=timeout, buckets=3)
    for part in parts[:2]:
        stream.put(part)
    stream.run()
    stream.put(parts[2])
    stream.run()
    expected = fp.Monitor(rules, **NAMED, timeout=timeout).update(pa.concat_tables(parts))
    wanted = of_monitor(
        expected.set_column(
            expected.schema.get_field_index("since"), "since", expected["since"].cast(pa.timestamp("us"))
        )
    )
    assert facts(stream.told()) == wanted
    frame = spark.createDataFrame(pa.concat_tables(parts).to_pandas(), SCHEMA)
    batch = watch(frame, rules, **NAMED, timeout=timeout)
    assert facts(batch) == wanted
    assert {"held", "kept", "cooldown", "expired", "timeout", None} <= set(expected["reason"].to_pylist())


def test_clock_markers_report_what_is_due(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "x >= 5", detect="enter,exit", for_="1 minute")
    rules.publish(tmp_path / "published", COLUMNS)
    stream = Stream(spark, tmp_path / "stream", tmp_path / "published")
    row = {"vehicle": "v1", "ts": EPOCH, "seq": 0, "x": 7.0, "y": None, "zone": None, "note": ""}
    stream.put(pa.Table.from_pylist([row], ARROW))
    stream.run()
    directory = VersionDirectory(tmp_path / "published")
    directory.tick(EPOCH + timedelta(minutes=1))
    stream.run()
    assert stream.told().count() == 0, "a row at that instant may still come"
    [waiting] = [json.loads(row["damped"]) for row in read_state(spark, tmp_path / "stream" / "checkpoint").collect()]
    assert [entry["rule"] for entry in waiting] == [1]
    directory.tick(EPOCH + timedelta(minutes=2))
    stream.run()
    [event] = stream.told().collect()
    at = EPOCH.replace(tzinfo=None)
    assert (event["detect"], event["reason"], event["time"]) == ("enter", "held", at + timedelta(minutes=1))
    assert event["since"] == at


def test_what_waits_goes_into_a_seed(spark: Any, tmp_path: Path) -> None:
    rules = damped_rules(5)
    snapshot = rules.compile(COLUMNS)
    first, second = traffic(300, 1), traffic(300, 2, start=100)
    stream = Stream(spark, tmp_path / "one", snapshot, buckets=3)
    stream.put(first)
    stream.run()
    monitor = fp.Monitor(snapshot, **NAMED)
    monitor.update(first)
    state = read_state(spark, tmp_path / "one" / "checkpoint")
    save_state(state, tmp_path / "seed", snapshot, object="object", time="time", buckets=5)
    seeded = Stream(spark, tmp_path / "two", snapshot, buckets=5, seed=tmp_path / "seed")
    seeded.put(second)
    seeded.run()
    assert ids(seeded.told()) == sorted(monitor.update(second)["event_id"].to_pylist())


def test_shards_refuse_damped_rules(spark: Any) -> None:
    frame = spark.createDataFrame(traffic(10, 1).to_pandas(), SCHEMA)
    with pytest.raises(FencepostError, match="shards"):
        watch(frame, damped_rules(1), **NAMED, shards=2)
