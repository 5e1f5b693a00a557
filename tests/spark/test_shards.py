"""match and watch with shards against the same without, event by event: batch, stream, live rules, skew."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.emitting.further import EventColumns
from fencepost.errors import FencepostError
from fencepost.events import event_schema
from fencepost.ordinals import AttributeType
from fencepost.published import ShardPlan, VersionDirectory, routing
from fencepost.published.shards.plan import Lane
from fencepost.snapshot.labels import LABELS
from fencepost.spark import match, read_state, save_state, watch
from fencepost.spark.plan.routing import shard_column
from fencepost.spark.session import PROVIDER, SETTINGS, STATE_SETTINGS
from fencepost.spark.work import store as bucket_state
from fencepost.spark.work.bucket import step
from fencepost.spark.work.caches import Published, Shards, held_sources
from fencepost.spark.work.packing import CLOCK, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.work.shards import detect_moves, moved_batch
from fencepost.spark.work.task import OBJECT, TIME, Side
from fencepost.spark.work.watch_task import WatchTask
from tests.spark.test_bucket_state import Kept
from tests.spark.test_match import SCHEMA, conditions_of, pairs, rows_of
from tests.spark.test_watch import EPOCH, Stream, facts, ids, of_monitor, traffic
from tests.spark.test_watch import SCHEMA as TRAFFIC
from tests.spark.test_watch import rules_of as watch_rules

pytestmark = pytest.mark.oldest

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
    parted = frame.select("*", *(shard_column(plan, columns, types).alias(f"part {n}") for n, plan in enumerate(plans)))
    table = parted.toArrow()
    for number, plan in enumerate(plans):
        assert plan.attribute is not None
        ordinals, known = AttributeType.parse(types[plan.attribute]).encode(table[plan.attribute])
        route = routing(plan)
        lanes = route.lanes([None] * len(table) if plan.key is None else table["symbol"].to_pylist())
        expected = route.shard[route.cells(lanes, ordinals, known)]
        assert table[f"part {number}"].to_pylist() == expected.tolist(), plan
        assert len(set(expected.tolist())) > 1


def mixed_rules() -> fp.Rules:
    return fp.Rules.from_dicts({"id": id - 30, "condition": text} for id, text in enumerate(conditions_of(60, 2)))


def test_match_in_parts_is_match(spark: Any, tmp_path: Path) -> None:
    events, rules = spark.createDataFrame(rows_of(400, 1), SCHEMA).cache(), mixed_rules()
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


def test_match_refuses_parts_that_the_directory_does_not_have(spark: Any, tmp_path: Path) -> None:
    events, rules = spark.createDataFrame([], SCHEMA), mixed_rules()
    rules.publish(tmp_path / "plain", events.schema)
    with pytest.raises(FencepostError, match=r"shards=2 for .*plain, which was published without; "):
        match(events, tmp_path / "plain", shards=2)
    rules.publish(tmp_path / "parted", events.schema, shards=3)
    with pytest.raises(FencepostError, match=r"shards=2 for .*parted; expected shards=3, with which it was"):
        match(events, tmp_path / "parted", shards=2)
    with pytest.raises(FencepostError, match=r"shards=65; expected a whole number from 1 to 64"):
        match(events, rules, shards=65)


# -- watch: one bucket and its parts, in this process, against one monitor -----------------------------------

TYPES = {"x": AttributeType.parse("double"), "y": AttributeType.parse("double")}
TIMES = pa.timestamp("us", tz="UTC")
FURTHER = [(name, pa.string()) for name in ("zone", "zone_before", "name")] + [
    ("labels", LABELS),
    ("venue", pa.string()),
]


def watch_task(directory: Path, shards: int, **chosen: Any) -> WatchTask:
    plan = VersionDirectory(directory).shards()
    assert plan is not None
    sources = tuple(Published(str(directory), shard) for shard in range(shards))
    task = WatchTask(
        source=Published(str(directory)),
        planned=1,
        follow=True,
        sides=(Side((), ("x", "y"), ("zone",), frozenset({"x", "y", "zone"}), "string"),),
        attributes=(("x", "double"), ("y", "double")),
        sequence=("sequence",),
        time_type="timestamp",
        buckets=1,
        first="enter",
        timeout=timedelta(seconds=40),
        late=None,
        event_schema=event_schema(pa.string(), TIMES, TYPES, further=FURTHER),
        columns=EventColumns(labels=True, carry=("venue",)),
        shards=Shards(plan, sources),
    )
    return replace(task, **chosen)


def a_rule(rng: random.Random, keyed: float) -> dict[str, Any]:
    """Any condition over two attributes and a key, of which one is in most rules."""
    low, width = rng.randrange(-2, 20), rng.randrange(1, 6)
    ranges = rng.choice(
        [
            f"x >= {low} AND x < {low + width}",
            f"x > {low}",
            f"x <= {low}",
            f"x BETWEEN {low} AND {low + width} AND y BETWEEN {low / 2} AND {low / 2 + width}",
            f"(x = {low} OR y BETWEEN {low} AND {low + 1})",
            f"y < {low}",
        ]
    )
    zone = rng.choice(["a", "a", "a", "b", "c", "d"])
    condition = f"zone = '{zone}' AND {ranges}" if rng.random() < keyed else ranges
    if rng.random() < 0.1:
        condition += f" OR zone = '{rng.choice('abc')}' AND x < 2"
    return {
        "condition": condition,
        "detect": rng.choice(["enter,exit", "enter,exit,cross", "enter,exit,cross,inside", "cross"]),
        "initial": rng.random() < 0.5,
        "expires": EPOCH + timedelta(seconds=rng.randrange(400)) if rng.random() < 0.15 else None,
        "enabled": rng.random() < 0.7,
        "labels": rng.choice([None, {"zone": zone}, {"low": str(low)}]),
    }


def some_rows(rng: random.Random, second: int) -> pa.Table:
    count = rng.choice([1, 20, 200])

    def some(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    columns = {
        OBJECT: pa.array([some(f"o{rng.randrange(40)}") for _ in range(count)], pa.string()),
        TIME: pa.array([EPOCH + timedelta(seconds=second + rng.randrange(-8, 12)) for _ in range(count)], TIMES),
        "sequence": pa.array([some(number) for number in range(count)], pa.int64()),
        "x": pa.array([some(rng.randrange(-3, 24) / 1.0) for _ in range(count)], pa.float64()),
        "y": pa.array([some(rng.choice([rng.randrange(24) / 2, float("nan")])) for _ in range(count)], pa.float64()),
        "zone": pa.array([some(rng.choice("aaabcde")) for _ in range(count)], pa.string()),
        "venue": pa.array([some(f"row {number} of {second}") for number in range(count)], pa.string()),
    }
    return pa.table(columns)


@pytest.mark.parametrize(
    ("shards", "keyed", "first", "late_timeout"),
    [(4, 0.9, "enter", 40), (3, 0.0, "silent", 40), (7, 0.5, "enter", None), (1, 0.9, "enter", 40)],
)
def test_parts_tell_what_one_monitor_tells(
    tmp_path: Path, shards: int, keyed: float, first: Any, late_timeout: int | None
) -> None:
    """Rules are added, edited, paused, removed and expire; keys change, rows are late, objects go silent."""
    rng = random.Random(f"{shards} {keyed}")  # noqa: S311
    rules = fp.Rules()
    for id in range(60):
        rules.add(id, **{**a_rule(rng, keyed), "enabled": True})
    rules.publish(tmp_path, {"x": "double", "y": "double", "zone": "string"}, shards=shards)
    directory = VersionDirectory(tmp_path)
    timeout = None if late_timeout is None else timedelta(seconds=late_timeout)
    named: Any = {"object": OBJECT, "time": TIME, "sequence": "sequence", "labels": True, "carry": "venue"}
    monitor = fp.Monitor(directory.load(), first=first, timeout=timeout, **named)
    task, store = watch_task(tmp_path, shards, first=first, timeout=timeout), Kept(appends=True)
    whole: list[pa.Table] = []
    for second in range(0, 400, 10):
        packed: list[tuple[int, int, bytes]] = [] if second else [(VERSION, 1, b"")]
        expected: list[pa.Table] = []
        if rng.random() < 0.4 and second:
            for _ in range(rng.choice([1, 1, 10])):
                id = rng.randrange(80)
                if id in rules and rng.random() < 0.3:
                    rules.remove(id)
                elif id in rules:
                    rules.replace(id, **a_rule(rng, keyed))
                else:
                    rules.add(id, **a_rule(rng, keyed))
            packed.append((VERSION, rules.publish(tmp_path), b""))
            expected.append(monitor.follow(directory.load()))
        if rng.random() < 0.3 and second:
            now = EPOCH + timedelta(seconds=second)
            packed.append((CLOCK, AttributeType.parse("timestamp").encode_one(now) or 0, b""))
            expected.append(monitor.advance(now))
        if rng.random() < 0.9:
            rows = some_rows(rng, second)
            packed.append((ROWS, 0, packed_bytes(rows)))
            expected.append(monitor.update(rows))
        if rng.random() < 0.3:
            bucket_state.warm_engines.clear()
        moved = step(0, packed, store, task)
        stepped = [row["payload"] for batch in detect_moves([moved_batch(moved)], task) for row in batch.to_pylist()]
        # A monitor shows the key from the first rule on that uses it, a directory whatever its schema has.
        unknown = [name for name in ("zone", "zone_before") if any(name not in e.schema.names for e in expected)]
        found = map(packed_table, filter(None, stepped))
        assert _facts(found, unknown) == _facts(expected, unknown), second
        whole += expected
    events = pa.concat_tables((table for table in whole if len(table)), promote_options="default")
    assert len(events) > 1000
    assert {"expired", "edited", "removed", "paused", "initial"} <= set(events["reason"].to_pylist())
    assert set(events["detect"].to_pylist()) == {"enter", "exit", "cross", "inside"}
    mapped = [source for source, _ in held_sources() if source == Published(str(tmp_path))]
    assert not mapped, "nobody has loaded the whole"


def _facts(tables: Iterable[pa.Table], without: Sequence[str] = ()) -> Counter[str]:
    known = [table.drop_columns([name for name in without if name in table.schema.names]) for table in tables]
    return Counter(str(row) for table in known for row in table.to_pylist())


# -- watch on Spark ------------------------------------------------------------------------------------------

NAMED: Any = {"object": "vehicle", "time": "ts", "sequence": "seq"}
CARRIED: Any = {"labels": True, "carry": ["note", "vehicle"]}


def test_a_batch_frame_in_parts_tells_what_a_monitor_tells(spark: Any) -> None:
    table, rules = traffic(1500, 1), watch_rules(2)
    patience = timedelta(seconds=20)
    expected = fp.Monitor(rules, timeout=patience, **NAMED, **CARRIED).update(table)
    frame = spark.createDataFrame(table.to_pandas(), TRAFFIC).repartition(3)
    events = watch(frame, rules, timeout=patience, buckets=5, shards=4, **NAMED, **CARRIED)
    assert facts(events) == of_monitor(expected)
    assert expected.num_rows > 1000
    assert events.schema == watch(frame, rules, **NAMED, **CARRIED).schema
    silent = watch(frame, rules, first="silent", shards=2, **NAMED)
    assert ids(silent) == sorted(fp.Monitor(rules, first="silent", **NAMED).update(table)["event_id"].to_pylist())


@pytest.mark.slow
def test_a_stream_in_parts_goes_on_after_a_restart_and_follows_rules(spark: Any, tmp_path: Path) -> None:
    """Every turn is a new query on the same checkpoint; rules change and time comes between them."""
    rules, published, patience = watch_rules(5, count=40), tmp_path / "published", timedelta(seconds=30)
    rules.publish(published, shards=3)
    stream = Stream(
        spark, tmp_path / "stream", published, buckets=3, shards=3, timeout=patience, observe="watch",
        late=tmp_path / "late",
    )  # fmt: skip
    directory = VersionDirectory(published)
    monitor = fp.Monitor(directory.load(), timeout=patience, **NAMED)
    expected, figures = [], []
    for turn in range(3):
        part = traffic(200, turn, start=turn * 50)
        if turn:
            rules.remove(turn)
            rules.replace(turn + 10, "x < 4 AND zone = 'a'", detect="enter,exit", initial=True)
            rules.replace(turn + 15, "x < 4", detect="enter,exit", enabled=False)
            rules.add(100 + turn, f"x > {turn}", detect="enter,exit,cross", initial=True)
            rules.publish(published)
            expected.append(monitor.follow(directory.load()))
            directory.tick(EPOCH + timedelta(seconds=turn * 60))
            expected.append(monitor.advance(EPOCH + timedelta(seconds=turn * 60)))
        stream.put(part)
        expected.append(monitor.update(part))
        figures += [report["observedMetrics"]["watch"] for report in stream.run().recentProgress]
    told = pa.concat_tables(expected)
    assert facts(stream.told()) == of_monitor(told)
    versions = Counter(row["snapshot_version"] for row in stream.told().collect())
    assert versions == Counter(told["snapshot_version"].to_pylist())
    assert {"removed", "edited", "paused", "initial", "expired"} <= set(told["reason"].to_pylist())
    counters = monitor.counters
    for name, figure in {"rows": 600, "late": counters["late"], "null_rows": counters["null"]}.items():
        assert sum(each[name] or 0 for each in figures) == figure > 0
    for kind, count in counters["events"].items():
        assert sum(each[kind] or 0 for each in figures) == count
        assert count > 0 or kind == "silent"
    assert (figures[-1]["version"], figures[-1]["rules"]) == (3, len(directory.load()))

    state = read_state(spark, tmp_path / "stream" / "checkpoint")
    seed = tmp_path / "seed"
    save_state(state, seed, published, object="object", time="time", buckets=4, shards=3)
    plain = spark.newSession()  # with the store that cannot append
    for key, value in {**SETTINGS, PROVIDER: STATE_SETTINGS[PROVIDER].replace("RocksDB", "HDFSBacked")}.items():
        plain.conf.set(key, value)
    plain.conf.set("spark.sql.shuffle.partitions", "2")
    seeded = Stream(plain, tmp_path / "seeded", published, buckets=4, shards=3, seed=seed, timeout=patience)
    last = traffic(100, 9, start=200)
    seeded.put(last)
    seeded.run()
    assert ids(seeded.told()) == sorted(monitor.update(last)["event_id"].to_pylist())
    assert directory.leased() >= {3}


def test_watch_refuses_parts_that_the_directory_does_not_have(spark: Any, tmp_path: Path) -> None:
    watch_rules(1).publish(tmp_path)
    frame = spark.createDataFrame(traffic(10, 1).to_pandas(), TRAFFIC)
    with pytest.raises(FencepostError, match=r"shards=2 for .*, which was published without; "):
        watch(frame, tmp_path, shards=2, **NAMED)
