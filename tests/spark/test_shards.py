"""match and watch with shards against the same without, event by event: batch, stream, live rules, skew."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.snapshot import ShardPlan, VersionDirectory, routing
from fencepost.snapshot.shards import Lane
from fencepost.spark import match
from fencepost.spark.routing import part_column
from tests.spark.test_match import SCHEMA, conditions_of, pairs, rows_of

CUTS = {
    "price": ("double", [-3.0, 0.0, 2.25, float("inf")]),
    "amount": ("decimal(12,2)", ["-1.00", "0.00", "5.25"]),
    "at": ("timestamp", ["2024-01-01T00:00:07Z", "2024-01-01T00:00:20.000001Z"]),
    "local": ("timestamp_ntz", ["2024-01-01T00:00:07", "2024-03-31T02:30:00"]),
    "day": ("date", ["2024-01-03", "2024-01-20"]),
    "volume": ("bigint", [3, 17]),
    "flag": ("boolean", [True]),
}
"""By column: the type that rules have it as, and values to cut at."""


def test_spark_routes_rows_as_python_does(spark: Any) -> None:
    frame = spark.createDataFrame(rows_of(300, 1), SCHEMA).selectExpr(
        *("id", "symbol", "IF(id % 9 = 0, -0.0D, price) AS price", "amount", "at", "day", "volume"),
        "IF(id % 7 = 0, NULL, cast(at AS timestamp_ntz)) AS local",
        "IF(id % 5 = 0, NULL, id % 2 = 0) AS flag",
    )
    types = {name: kind for name, (kind, _) in CUTS.items()} | {"symbol": "key"}
    columns = {name: frame[name] for name in types}
    plans = []
    for name, (kind, values) in CUTS.items():
        type_ = AttributeType.parse(kind)
        cuts = tuple(type_.encode(pa.array(values).cast(type_.arrow))[0].tolist())
        lane = Lane(None, cuts, tuple(range(len(cuts) + 1)))
        plans.append(ShardPlan(5, None, name, (lane,)))
        plans.append(ShardPlan(5, "symbol", name, (lane._replace(text="S1"), Lane("S3", (), (4,)))))
    parted = frame.select("*", *(part_column(plan, columns, types).alias(f"part {n}") for n, plan in enumerate(plans)))
    table = parted.toArrow()
    for number, plan in enumerate(plans):
        assert plan.attribute is not None
        ordinals, known = AttributeType.parse(types[plan.attribute]).encode(table[plan.attribute])
        route = routing(plan)
        lanes = route.lanes([None] * len(table) if plan.key is None else table["symbol"].to_pylist())
        expected = route.part[route.cells(lanes, ordinals, known)]
        assert table[f"part {number}"].to_pylist() == expected.tolist(), plan
        assert len(set(expected.tolist())) > 1


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    return spark.createDataFrame(rows_of(400, 1), SCHEMA).repartition(3).cache()


@pytest.fixture(scope="module")
def rules() -> fp.Rules:
    return fp.Rules.from_dicts({"id": id * 7, "condition": text} for id, text in enumerate(conditions_of(60, 2)))


def test_match_in_parts_is_match(spark: Any, events: Any, rules: fp.Rules, tmp_path: Path) -> None:
    whole = pairs(match(events, rules))
    assert len(whole) > 500
    wide = match(events, rules, shards=3)
    assert pairs(wide) == whole
    assert wide.schema == match(events, rules).schema
    assert match(events, rules, explode=True, shards=3).count() == len(whole)
    rules.publish(tmp_path, events.schema, shards=4)
    assert pairs(match(events, tmp_path, shards=4)) == whole
    assert pairs(match(events, tmp_path)) == whole, "the whole is there as well"

    narrow = events.select("id", "symbol", "price")
    few = fp.Rules.from_dicts(
        {"id": id, "condition": f"symbol = 'S{id % 5}' AND price >= {id / 9} AND price < {id / 9 + 1}"}
        for id in range(90)
    )
    assert pairs(match(narrow, few, shards=4)) == pairs(match(narrow, few))
    plan = match(narrow, few, shards=4)._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" in plan


def test_a_stream_in_parts_takes_up_versions_and_reports_the_whole(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    for id in range(40):
        rules.add(id, f"symbol = 'S{id % 5}' AND price >= {id / 5} AND price < {id / 5 + 2}")
    rules.publish(tmp_path / "rules", {"symbol": "string", "price": "double"}, shards=3)
    frame = spark.createDataFrame(rows_of(200, 5), SCHEMA).select("id", "symbol", "price")
    expected: set[tuple[int, int]] = set()
    progress = []
    for turn in range(2):
        part = frame.where(f"id % 2 = {turn}")
        part.write.mode("append").parquet(f"{tmp_path}/in")
        expected |= pairs(match(part, VersionDirectory(tmp_path / "rules").load()))
        source = spark.readStream.schema(part.schema).parquet(f"{tmp_path}/in")
        matched = match(source, tmp_path / "rules", shards=3, observe="match")
        writer = matched.writeStream.option("checkpointLocation", f"{tmp_path}/checkpoint").format("parquet")
        query = writer.trigger(availableNow=True).start(f"{tmp_path}/out")
        query.awaitTermination()
        progress += [report["observedMetrics"]["match"] for report in query.recentProgress if report["numInputRows"]]
        rules.replace(3, "price > 7")
        rules.remove(4 + turn)
        rules.publish(tmp_path / "rules")
    assert pairs(spark.read.parquet(f"{tmp_path}/out")) == expected
    nothing = frame.where("symbol IS NULL AND (price IS NULL OR isnan(price))").count()
    assert [(told["version"], told["rules"], told["rejected"]) for told in progress] == [(1, 40, 0), (2, 39, 0)]
    assert sum(told["rows"] for told in progress) == 200
    assert sum(told["null_rows"] for told in progress) == nothing > 0
    assert sum(told["inside"] for told in progress) == len(expected)


def test_a_heavy_key_is_the_work_of_several_parts_and_tasks(spark: Any) -> None:
    """One key has half of all rules and half of all rows; another has half of all rows and few rules."""
    rng = np.random.default_rng(1)
    symbols = np.where(rng.random(2000) < 0.5, "HOT", rng.integers(0, 50, 2000).astype("U2"))
    lower = rng.random(2000) * 100
    table = {"rule_id": np.arange(2000), "symbol": symbols.tolist(), "lower": lower, "upper": lower + 1}
    rules = fp.Rules.from_table(table, equal=["symbol"], ranges={"price": ("lower", "upper")})
    for busy in ("HOT", "7"):
        keys = np.where(rng.random(1000) < 0.5, busy, rng.integers(0, 50, 1000).astype("U2")).tolist()
        rows = list(zip(range(1000), keys, (rng.random(1000) * 100).tolist(), strict=True))
        frame = spark.createDataFrame(rows, "id bigint, symbol string, price double")
        spark.conf.set("spark.sql.shuffle.partitions", "8")
        try:
            matched = match(frame, rules, shards=2)
            placed = matched.selectExpr("*", "spark_partition_id() AS task").collect()
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", "2")
        found = {(row["id"], rule) for row in placed for rule in row["rule_ids"]}
        assert found == pairs(match(frame, rules))
        per_task = Counter(row["task"] for row in placed)
        assert len(per_task) == 8
        assert max(per_task.values()) < 350, "no task has most of the rows"


def test_match_refuses_parts_that_the_directory_does_not_have(events: Any, rules: fp.Rules, tmp_path: Path) -> None:
    rules.publish(tmp_path / "plain", events.schema)
    with pytest.raises(FencepostError, match=r"got shards=2 and .*plain, which was published without; "):
        match(events, tmp_path / "plain", shards=2)
    rules.publish(tmp_path / "parted", events.schema, shards=3)
    with pytest.raises(FencepostError, match=r"got shards=2 and .*parted; expected shards=3, with which it was"):
        match(events, tmp_path / "parted", shards=2)
    with pytest.raises(FencepostError, match=r"got shards=65; expected a whole number from 1 to 64"):
        match(events, rules, shards=65)
