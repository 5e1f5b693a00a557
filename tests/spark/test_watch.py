"""watch against the Monitor, batch against stream, live rules, restarts and kills."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.spark import match, prometheus_text, read_state, save_state, watch
from fencepost.spark.session import PROVIDER, SETTINGS, STATE_SETTINGS
from tests.spark.files import put_file

pytestmark = pytest.mark.oldest

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "vehicle string, ts timestamp, seq bigint, x double, y double, zone string, note string"
ARROW = pa.schema(
    [
        ("vehicle", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("seq", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("zone", pa.string()),
        ("note", pa.string()),
    ]
)
DETECT = "enter,exit,cross,inside"
FURTHER: Any = {"labels": True, "condition": True, "carry": ["note", "seq"]}


def traffic(n: int, seed: int, start: int = 0) -> pa.Table:
    """Rows in the order of time; a tenth of all values are missing, times tie, and a few rows are useless."""
    rng = random.Random(seed)  # noqa: S311

    def some(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    rows = []
    for i in range(n):
        rows.append(
            {
                "vehicle": some(f"v{rng.randrange(12)}"),
                "ts": EPOCH + timedelta(seconds=start + i // 3),
                "seq": start * 3 + i,
                "x": some(rng.randrange(20) / 2),
                "y": some(rng.randrange(20) / 2),
                "zone": some(rng.choice(["a", "b", "c"])),
                "note": f"row {start + i}",
            }
        )
    return pa.Table.from_pylist(rows, ARROW)


def rules_of(seed: int, count: int = 25, detect: str = DETECT) -> fp.Rules:
    """One-dimensional, two-dimensional, keyed and mixed rules."""
    rng = random.Random(seed)  # noqa: S311
    rules = fp.Rules()
    for id in range(count):
        low, width, other = rng.randrange(18) / 2, rng.randrange(1, 5) / 2, rng.randrange(16) / 2
        zone = rng.choice("abc")
        condition = rng.choice(
            [
                f"x >= {low} AND x < {low + width}",
                f"x BETWEEN {low} AND {low + width} AND y BETWEEN {other} AND {other + 3}",
                f"zone = '{zone}' AND y >= {low}",
                f"zone = '{zone}' AND x < {low} OR y BETWEEN {other} AND {other + 1}",
            ]
        )
        expires = EPOCH + timedelta(seconds=rng.randrange(200)) if rng.random() < 0.2 else None
        told: Any = {"name": f"rule {id}", "labels": {"zone": zone, "ü": ""}} if id % 3 else {}
        rules.add(id, condition, detect=detect, expires=expires, **told)
    return rules


def facts(events: Any) -> Counter[str]:
    """Every event with all it says, but for the version of the snapshot."""
    rows = events.drop("snapshot_version").collect() if hasattr(events, "collect") else events
    return Counter(str(in_order(row.asDict() if hasattr(row, "asDict") else row)) for row in rows)


def in_order(row: dict[str, Any]) -> dict[str, Any]:
    """An event with its labels in one order, which maps of the JVM have not."""
    return {**row, "labels": dict(sorted(dict(row["labels"]).items()))} if row.get("labels") else row


def of_monitor(events: pa.Table) -> Counter[str]:
    columns = events.drop_columns("snapshot_version").to_pylist()
    for row in columns:
        row["time"] = row["time"].replace(tzinfo=None)
    return Counter(str(in_order(row)) for row in columns)


def ids(events: Any) -> list[str]:
    return sorted(row["event_id"] for row in events.select("event_id").collect())


def test_a_batch_frame_tells_what_a_monitor_tells(spark: Any) -> None:
    table, rules = traffic(1500, 1), rules_of(2)
    named: Any = {"object": "vehicle", "time": "ts", "sequence": "seq", "timeout": timedelta(seconds=20)}
    expected = fp.Monitor(rules, **named, **FURTHER).update(table)
    frame = spark.createDataFrame(table.to_pandas(), SCHEMA).repartition(3)
    events = watch(frame, rules, **named, buckets=5, **FURTHER)
    assert facts(events) == of_monitor(expected)
    assert expected.num_rows > 1000
    assert {"enter", "exit", "cross", "inside"} == set(expected["detect"].to_pylist())
    assert {"expired", "timeout", None} <= set(expected["reason"].to_pylist())
    assert events.schema.names == expected.schema.names
    assert [field.dataType.simpleString() for field in events.schema.fields] == [
        "string", "bigint", "bigint", "bigint", "string", "string", "string", "timestamp", "string",
        "double", "double", "double", "double", "string", "string",
        "string", "map<string,string>", "string", "string", "bigint",
    ]  # fmt: skip
    assert watch(frame, rules, **named).schema.names == expected.schema.names[:-5], "what nobody asked for"


class Stream:
    """A directory of files, watched by one query at a time."""

    def __init__(self, spark: Any, path: Path, rules: Any, **options: Any) -> None:
        self.spark, self.path, self.rules, self.options = spark, path, rules, options
        (path / "in").mkdir(parents=True)
        self._files = 0

    def put(self, table: pa.Table) -> None:
        put_file(table, self.path / "in", self._files)
        self._files += 1

    def events(self) -> Any:
        source = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{self.path}/in")
        return watch(source, self.rules, object="vehicle", time="ts", sequence="seq", **self.options)

    def run(self) -> Any:
        """Take all there is, and stop."""
        writer = self.events().writeStream.option("checkpointLocation", f"{self.path}/checkpoint").format("parquet")
        query = writer.trigger(availableNow=True).start(f"{self.path}/out")
        query.awaitTermination()
        return query

    def start(self) -> Any:
        """A query that goes on until it is stopped."""
        writer = self.events().writeStream.option("checkpointLocation", f"{self.path}/checkpoint").format("parquet")
        return writer.start(f"{self.path}/out")

    def told(self) -> Any:
        return self.spark.read.parquet(f"{self.path}/out")


@pytest.mark.parametrize("store", ["RocksDB", pytest.param("HDFSBacked", marks=pytest.mark.slow)])
def test_a_stream_tells_what_a_batch_tells_also_after_a_restart(spark: Any, tmp_path: Path, store: str) -> None:
    spark = spark.newSession()
    for key, value in {
        **SETTINGS,
        **STATE_SETTINGS,
        PROVIDER: STATE_SETTINGS[PROVIDER].replace("RocksDB", store),
    }.items():
        spark.conf.set(key, value)
    rules = rules_of(3)
    stream = Stream(spark, tmp_path, rules, timeout=timedelta(seconds=30), buckets=4, observe="watch")
    parts = [traffic(400, seed, start=seed * 200) for seed in range(3)]
    for part in parts[:2]:
        stream.put(part)
    stream.run()
    stream.put(parts[2])
    progress = stream.run().recentProgress
    whole = pa.concat_tables(parts)
    monitor = fp.Monitor(rules, object="vehicle", time="ts", sequence="seq", timeout=timedelta(seconds=30))
    expected = monitor.update(whole)
    assert facts(stream.told()) == of_monitor(expected)
    frame = spark.createDataFrame(whole.to_pandas(), SCHEMA)
    batch = watch(frame, rules, object="vehicle", time="ts", sequence="seq", timeout=timedelta(seconds=30))
    assert ids(batch) == sorted(expected["event_id"].to_pylist())

    # What events say is no part of the state: a checkpoint goes on with more of it.
    stream.options |= FURTHER
    last = traffic(200, 3, start=600)
    stream.put(last)
    stream.run()
    fuller = fp.Monitor(rules, object="vehicle", time="ts", sequence="seq", timeout=timedelta(seconds=30), **FURTHER)
    fuller.update(whole)
    more = fuller.update(last)
    told = spark.read.option("mergeSchema", "true").parquet(f"{tmp_path}/out")
    assert facts(told.where(told["event_id"].isin(more["event_id"].to_pylist()))) == of_monitor(more)
    text = prometheus_text(progress)
    assert 'fencepost_rows_total{query="' in text
    assert "fencepost_rules{" in text
    assert 'detect="enter"} ' in text
    assert read_state(spark, tmp_path / "checkpoint").count() == 12


def test_late_rows_are_counted_and_kept(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "x > 5", detect="enter,exit")
    stream = Stream(spark, tmp_path, rules, late=tmp_path / "late", observe="watch")
    early, late = traffic(60, 1, start=100), traffic(30, 2, start=0)
    stream.put(early)
    stream.run()
    stream.put(late)
    progress = [report for report in stream.run().recentProgress if report["numInputRows"]]
    seen = {v for v, x in zip(early["vehicle"].to_pylist(), early["x"].to_pylist(), strict=True) if x is not None}
    wanted = [r for r in late.to_pylist() if r["vehicle"] in seen and r["vehicle"] and r["x"] is not None]
    kept = pq.read_table(tmp_path / "late").to_pylist()
    assert Counter(r["fencepost sequence 0"] for r in kept) == Counter(r["seq"] for r in wanted)
    assert progress[-1]["observedMetrics"]["watch"]["late"] == len(wanted) > 0


def test_rules_change_while_the_stream_runs(spark: Any, tmp_path: Path) -> None:
    rules = rules_of(5, detect="enter,exit")
    published = tmp_path / "published"
    rules.publish(published)
    stream = Stream(spark, tmp_path / "stream", published, buckets=3, **FURTHER)
    directory = VersionDirectory(published)
    monitor = fp.Monitor(directory.load(), object="vehicle", time="ts", sequence="seq", **FURTHER)
    expected = []
    for number in range(4):
        part = traffic(200, number, start=number * 100)
        if number:
            rules.remove(number)
            edition: Any = {"name": f"edited {number}", "labels": {"turn": str(number)}}
            rules.replace(number + 10, "x < 4 AND zone = 'a'", detect="enter,exit", initial=True, **edition)
            rules.replace(number + 15, "x < 4", detect="enter,exit", enabled=False)
            rules.add(100 + number, f"x > {number}", detect="enter,exit", initial=number == 2)
            rules.publish(published)
            expected.append(monitor.follow(directory.load()))
        stream.put(part)
        expected.append(monitor.update(part))
        stream.run()
    all_events = pa.concat_tables(expected)
    assert facts(stream.told()) == of_monitor(all_events)
    versions = Counter(row["snapshot_version"] for row in stream.told().collect())
    assert versions == Counter(all_events["snapshot_version"].to_pylist())
    assert {"removed", "edited", "paused", "initial"} <= set(all_events["reason"].to_pylist())
    assert 4 in directory.leased(), "the version in force is kept"


@pytest.mark.slow
def test_clock_markers_end_what_is_silent_or_expired(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "x >= 0", detect="enter,exit")
    rules.add(2, "x >= 0", detect="enter,exit", expires=EPOCH + timedelta(minutes=1))
    rules.publish(tmp_path / "published", {"x": "double", "y": "double", "zone": "string"})
    stream = Stream(spark, tmp_path / "stream", tmp_path / "published", timeout=timedelta(minutes=5))
    row = {"vehicle": "v1", "ts": EPOCH, "seq": 0, "x": 1.0, "y": None, "zone": None, "note": ""}
    stream.put(pa.Table.from_pylist([row], ARROW))
    stream.run()
    directory = VersionDirectory(tmp_path / "published")
    directory.tick(EPOCH + timedelta(minutes=2))
    stream.run()
    directory.tick(EPOCH + timedelta(minutes=6))
    stream.run()
    stream.put(pa.Table.from_pylist([{**row, "ts": EPOCH + timedelta(minutes=7)}], ARROW))
    stream.run()
    told = sorted((r["time"], r["rule_id"], r["detect"], r["reason"]) for r in stream.told().collect())
    at = EPOCH.replace(tzinfo=None)
    assert told == [
        (at, 1, "enter", None),
        (at, 2, "enter", None),
        (at + timedelta(minutes=1), 2, "exit", "expired"),
        (at + timedelta(minutes=5), 1, "exit", "timeout"),
        (at + timedelta(minutes=7), 1, "enter", None),
    ]
    assert {"y", "y_before"} <= set(stream.told().columns), "every attribute of the schema, used or not"


@pytest.mark.slow
def test_another_number_of_buckets_stops_the_query_and_names_the_right_one(spark: Any, tmp_path: Path) -> None:
    rules = rules_of(1)
    stream = Stream(spark, tmp_path, rules, buckets=4)
    stream.put(traffic(50, 1))
    stream.run()
    stream.put(traffic(50, 2, start=50))
    stream.options["buckets"] = 5
    with pytest.raises(
        Exception, match=r"watch with buckets=5; expected buckets=4, with which the checkpoint was made"
    ):
        stream.run()
    stream.options["buckets"] = 4
    stream.run()


def test_state_can_be_read_and_starts_another_stream(spark: Any, tmp_path: Path) -> None:
    rules = rules_of(6, detect="enter,exit")
    first, second = traffic(300, 1), traffic(300, 2, start=150)
    stream = Stream(spark, tmp_path / "one", rules, buckets=3)
    stream.put(first)
    stream.run()
    state = read_state(spark, tmp_path / "one" / "checkpoint")
    monitor = fp.Monitor(rules, object="vehicle", time="ts", sequence="seq")
    monitor.update(first)
    inside = match(state.drop("snapshot_version", "time"), rules.compile(), explode=True).collect()
    in_force = {rule.id for rule in rules if rule.expires is None}
    expected = {(object, id) for id in in_force for object in monitor.inside(id)}
    assert {(row["object"], row["rule_id"]) for row in inside if row["rule_id"] in in_force} == expected
    assert len(expected) > 10
    columns = {"x": "double", "y": "double", "zone": "string"}
    snapshot = rules.compile(columns)
    save_state(state, tmp_path / "seed", snapshot, object="object", time="time", buckets=5)
    seeded = Stream(spark, tmp_path / "two", snapshot, buckets=5, seed=tmp_path / "seed")
    seeded.put(second)
    seeded.run()
    assert ids(seeded.told()) == sorted(monitor.update(second)["event_id"].to_pylist())
    with pytest.raises(FencepostError, match="which exists; expected a new directory"):
        save_state(state, tmp_path / "seed", rules.compile(), object="object", time="time")


def test_other_fixed_rules_on_an_old_checkpoint_are_refused(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, rules_of(1))
    stream.put(traffic(30, 1))
    stream.run()
    stream.put(traffic(30, 2, start=30))
    stream.rules = rules_of(2)
    with pytest.raises(Exception, match=r"Other rules than those that the checkpoint was made with; expected the same"):
        stream.run()


def test_the_last_good_version_stays_in_force(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "x >= 0", detect="enter,exit")
    rules.publish(tmp_path / "published", {"x": "double"})
    stream = Stream(spark, tmp_path / "stream", tmp_path / "published", observe="watch", buckets=2)
    stream.put(traffic(30, 1))
    query = stream.start()
    query.processAllAvailable()
    rules.remove(1)
    rules.add(2, "x >= 0", detect="enter,exit", initial=True)
    broken = tmp_path / "published" / "00000002"
    VersionDirectory(tmp_path / "published").publish(lambda version: _breaking(rules.compile(version=version), broken))
    stream.put(traffic(30, 2, start=30))
    query.processAllAvailable()
    watched = [r["observedMetrics"]["watch"] for r in query.recentProgress if r["numInputRows"]]
    assert (watched[-1]["version"], max(each["rejected"] for each in watched)) == (1, 1)
    for name in ("00000003/header.json", "00000004.published"):
        DamagedOnceAnnounced(tmp_path / "published", name).publish(lambda version: rules.compile(version=version))
    stream.put(traffic(30, 3, start=60))
    query.processAllAvailable()
    watched = [r["observedMetrics"]["watch"] for r in query.recentProgress if r["numInputRows"]]
    assert (watched[-1]["version"], max(each["rejected"] for each in watched)) == (1, 3)
    with pytest.raises(FencepostError, match=r"Version 4 of .*damaged"):
        VersionDirectory(tmp_path / "published").latest()
    rules.publish(tmp_path / "published")
    stream.put(traffic(30, 4, start=90))
    query.processAllAvailable()
    query.stop()
    told = stream.told().collect()
    assert {row["snapshot_version"] for row in told} == {1, 5}
    assert {row["reason"] for row in told if row["snapshot_version"] == 5} >= {"removed", "initial"}


class DamagedOnceAnnounced(VersionDirectory):
    """Cuts a file of a version short, before streams are told of it."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path)
        self.file = path / name

    def _announce(self, number: int) -> None:
        super()._announce(number)
        self.file.write_bytes(self.file.read_bytes()[:7])


def _breaking(snapshot: fp.Snapshot, path: Path) -> fp.Snapshot:
    """A snapshot that is damaged once it is saved, before anybody is told."""
    save = snapshot.save

    def save_broken(target: Any, shared: bool = False) -> None:
        save(target, shared)
        with (path / "arrays.bin").open("r+b") as file:
            file.write(b"broken")

    snapshot.save = save_broken  # type: ignore[method-assign,assignment]
    return snapshot


def test_refusals_come_before_the_query_starts(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(traffic(5, 1).to_pandas(), SCHEMA)
    rules = rules_of(1)
    for options, message in (
        ({"object": "car"}, "A frame without the column car; expected that column, which was named as object"),
        ({"time": "note"}, "note of type string as time"),
        ({"buckets": 0}, "buckets=0; expected 1 to 65536"),
        ({"first": "loud"}, "first='loud'; expected 'enter' or 'silent'"),
        ({"timeout": 5}, r"timeout=5 and ts as timestamp; expected a timedelta"),
        ({"carry": ["road"]}, "A frame without the column road; expected that column, which carry= names"),
        ({"carry": ["X"]}, "carry='X', which events have as a column already; expected a column name that no other"),
        ({"carry": ["zone_before"]}, "A frame without the column zone_before"),
        ({"carry": ["zone"]}, "carry='zone', which events have as a column already"),
        ({"carry": ["note", "Note"]}, "carry='Note', which events have as a column already"),
        ({"labels": 1}, "labels=1; expected True or False"),
        ({"time": "seq"}, r"Rule \d+, which expires, and seq as bigint"),
    ):
        with pytest.raises(FencepostError, match=message):
            watch(frame, rules, **{"object": "vehicle", "time": "ts", **options})  # type: ignore[arg-type]
    with pytest.raises(FencepostError, match=r"A frame without the column y; expected that column, since rule"):
        watch(frame.drop("y"), rules.compile(), object="vehicle", time="ts")
    with pytest.raises(FencepostError, match="without any version"):
        watch(frame, tmp_path / "nothing", object="vehicle", time="ts")
