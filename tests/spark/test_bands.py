"""bands against the Monitor, batch against stream, live rules, restarts and kills."""

import os
import random
import signal
import subprocess
import sys
import time
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
from fencepost.spark import bands, prometheus_text, read_state
from fencepost.spark.session import PROVIDER, SETTINGS, STATE_SETTINGS
from tests.spark.files import put_file
from tests.spark.record import recorded_batches

pytestmark = pytest.mark.oldest

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "venue string, ts timestamp, seq bigint, symbol string, price double, kind string, gone boolean"
ARROW = pa.schema(
    [
        ("venue", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("seq", pa.int64()),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("kind", pa.string()),
        ("gone", pa.bool_()),
    ]
)
NAMED: dict[str, Any] = {"object": "venue", "time": "ts", "sequence": "seq", "deleted": "gone", "key": "symbol"}
DETECT = "enter,exit,cross,inside"
FURTHER: Any = {"labels": True, "carry": ["seq"]}


def quotes(n: int, seed: int, start: int = 0) -> pa.Table:
    """Rows in the order of time; venues quote all symbols, go and come back; times tie, and a few rows are useless."""
    rng = random.Random(seed)  # noqa: S311
    rows = []
    for i in range(n):
        rows.append(
            {
                "venue": None if rng.random() < 0.03 else f"v{rng.randrange(4)}",
                "ts": EPOCH + timedelta(seconds=start + i // 3),
                "seq": start * 3 + i,
                "symbol": rng.choice(["SAP", "BMW", "BMW", "VOW", None]) if rng.random() < 0.3 else "SAP",
                "price": None if rng.random() < 0.1 else rng.randrange(40) / 4,
                "kind": rng.choice(["bid", "ask", None]),
                "gone": rng.random() < 0.05,
            }
        )
    return pa.Table.from_pylist(rows, ARROW)


def rules_of(seed: int, count: int = 14, detect: str = DETECT) -> fp.Rules:
    """Narrow, wide and infinite bands; some about one symbol, or one kind of quote."""
    rng = random.Random(seed)  # noqa: S311
    rules = fp.Rules()
    for id in range(count):
        low, width = rng.randrange(-12, 10) / 4, rng.randrange(1, 9) / 4
        condition = rng.choice(
            [
                f"left.price - right.price BETWEEN {low} AND {low + width}",
                f"left.price - right.price > {low} AND left.price - right.price < {low + width}",
                f"left.price - right.price >= {3 + width}",
                f"left.price - right.price < {-3 - width}",
            ]
        )
        condition += rng.choice(
            ["", " AND left.symbol = right.symbol AND left.symbol = 'SAP'", " AND left.kind = 'bid'"]
        )
        expires = EPOCH + timedelta(seconds=rng.randrange(150)) if rng.random() < 0.15 else None
        told: Any = {"name": f"band {id}", "labels": {"id": str(id)}} if id % 3 else {}
        rules.add(id, condition, detect=detect, expires=expires, **told)
    return rules


def facts(events: Any) -> Counter[str]:
    """Every event with all it says, but for the version of the snapshot."""
    if isinstance(events, pa.Table):
        rows = events.drop_columns("snapshot_version").to_pylist()
        for row in rows:
            if row.get("labels"):
                row["labels"] = dict(row["labels"])
        return Counter(str({**row, "time": row["time"].replace(tzinfo=None)}) for row in rows)
    return Counter(str(row.asDict()) for row in events.drop("snapshot_version").collect())


class Streams:
    """Two directories of files, joined by one query at a time."""

    def __init__(self, spark: Any, path: Path, rules: Any, **options: Any) -> None:
        self.spark, self.path, self.rules, self.options = spark, path, rules, {**NAMED, "buckets": 3, **options}
        self._files = 0
        for side in ("left", "right"):
            (path / side).mkdir(parents=True)

    def put(self, left: pa.Table | None, right: pa.Table | None) -> None:
        for side, table in (("left", left), ("right", right)):
            if table is not None:
                put_file(table, self.path / side, self._files)
        self._files += 1

    def run(self) -> Any:
        """Take all there is, and stop."""
        query = started(self.spark, self.path, self.rules, self.options, once=True)
        query.awaitTermination()
        return query

    def told(self) -> Any:
        return self.spark.read.parquet(f"{self.path}/out")


def started(spark: Any, path: Path, rules: Any, options: dict[str, Any], once: bool) -> Any:
    """The query over what is in a directory."""
    left, right = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{path}/{side}")
        for side in ("left", "right")
    )
    events = bands(left, right, rules, **options)
    writer = events.writeStream.option("checkpointLocation", f"{path}/checkpoint").format("parquet")
    return (writer.trigger(availableNow=True) if once else writer).start(f"{path}/out")


def monitor_of(rules: Any, **options: Any) -> fp.Monitor:
    return fp.Monitor(rules, **{**NAMED, **options})


def test_batch_stream_and_monitor_tell_the_same(spark: Any, tmp_path: Path) -> None:
    rules, timeout = rules_of(1), timedelta(seconds=40)
    parts = [(quotes(120, 2 * n, start=60 * n), quotes(110, 2 * n + 1, start=60 * n)) for n in range(3)]
    stale = quotes(20, 99, start=0)
    streams = Streams(spark, tmp_path, rules, timeout=timeout, late=tmp_path / "late", observe="bands", **FURTHER)
    monitor = monitor_of(rules, timeout=timeout, **FURTHER)
    expected = []
    for number, (left, right) in enumerate(parts):
        streams.put(left, right)
        expected.append(monitor.update(left=left, right=right))
        if number == 1:
            progress = list(streams.run().recentProgress)  # the third comes after a restart
    streams.put(stale, None)
    expected.append(monitor.update(left=stale))
    progress += streams.run().recentProgress
    told = pa.concat_tables(expected)
    assert facts(streams.told()) == facts(told)
    assert {"enter", "exit", "cross", "inside"} == set(told["detect"].to_pylist())
    assert {"expired", "timeout", None} <= set(told["reason"].to_pylist())
    assert {"SAP", "BMW", "VOW"} == set(told["symbol"].to_pylist())
    assert streams.told().schema.names == told.schema.names
    counts = [report["observedMetrics"]["bands"] for report in progress if report["observedMetrics"]]
    counters = monitor.counters
    for name, counter in (("rows", "rows"), ("late", "late"), ("null_rows", "null")):
        assert sum(each[name] or 0 for each in counts) == counters[counter] > 0
    assert sum(each["cross"] or 0 for each in counts) == counters["events"]["cross"]
    assert 'operator="bands",detect="enter"} ' in prometheus_text(progress)
    late = pq.read_table(tmp_path / "late" / "left").to_pylist()
    assert len(late) == counters["late"]
    assert not (tmp_path / "late" / "right").exists()

    in_order = [pa.concat_tables(side) for side in zip(*parts, strict=True)]
    one, two = (spark.createDataFrame(side.to_pandas(), SCHEMA).repartition(3) for side in in_order)
    batch = bands(one, two, rules, timeout=timeout, buckets=5, **NAMED, **FURTHER)
    assert facts(batch) == facts(pa.concat_tables(expected[:-1]))


def test_damped_bands_tell_the_same_everywhere(spark: Any, tmp_path: Path) -> None:
    rules, timeout = fp.Rules(), timedelta(seconds=40)
    dampings: list[dict[str, Any]] = [
        {"for_": "3 seconds"},
        {"keep_firing_for": "4 seconds", "cooldown": "9 seconds"},
        {"for_": "2 rows", "limit": 2},
        {"every": "10 seconds", "detect": "inside"},
    ]
    for id in range(12):
        options = {"detect": "enter,exit", **dampings[id % 4]}
        rules.add(id, f"left.price - right.price BETWEEN {id - 6} AND {id - 4}", **options)
    parts = [(quotes(120, 2 * n, start=60 * n), quotes(110, 2 * n + 1, start=60 * n)) for n in range(3)]
    streams, monitor = Streams(spark, tmp_path, rules, timeout=timeout), monitor_of(rules, timeout=timeout)
    expected = []
    for number, (left, right) in enumerate(parts):
        streams.put(left, right)
        expected.append(monitor.update(left=left, right=right))
        if number != 1:
            streams.run()  # started anew with what it remembers
    told = pa.concat_tables(expected)
    assert {"held", "kept", "cooldown", "timeout", None} <= set(told["reason"].to_pylist())

    def ids(events: Any) -> Counter[Any]:
        rows = events.to_pylist() if isinstance(events, pa.Table) else [row.asDict() for row in events.collect()]
        return Counter((row["event_id"], row["since"] and row["since"].replace(tzinfo=None)) for row in rows)

    assert ids(streams.told()) == ids(told)
    assert streams.told().schema.names == told.schema.names
    in_order = [pa.concat_tables(side) for side in zip(*parts, strict=True)]
    one, two = (spark.createDataFrame(side.to_pandas(), SCHEMA).repartition(3) for side in in_order)
    assert ids(bands(one, two, rules, timeout=timeout, buckets=5, **NAMED)) == ids(told)


@pytest.mark.parametrize("store", ["RocksDB", pytest.param("HDFSBacked", marks=pytest.mark.slow)])
def test_state_can_be_read(spark: Any, tmp_path: Path, store: str) -> None:
    spark = spark.newSession()
    provider = STATE_SETTINGS[PROVIDER].replace("RocksDB", store)
    for key, value in {**SETTINGS, **STATE_SETTINGS, PROVIDER: provider}.items():
        spark.conf.set(key, value)
    streams = Streams(spark, tmp_path, rules_of(5))
    last: dict[tuple[str, str, str], Any] = {}
    for number in range(3):
        tables = quotes(60, 2 * number, start=60 * number), quotes(50, 2 * number + 1, start=60 * number)
        streams.put(*tables)
        for side, table in zip(("left", "right"), tables, strict=True):
            for row in sorted(table.to_pylist(), key=lambda row: (row["ts"], row["seq"], row["gone"])):
                place = (side, row["venue"], row["symbol"])
                if None in place:
                    continue
                if row["gone"]:
                    last.pop(place, None)
                else:
                    last[place] = row["ts"].replace(tzinfo=None)
    streams.run()
    rows = read_state(spark, tmp_path / "checkpoint").collect()
    assert {(row["side"], row["object"], row["symbol"]): row["time"] for row in rows} == last
    assert any(row["price"] is not None for row in rows)
    assert len(rows) == len(last) > 10


def test_rules_alone(spark: Any, tmp_path: Path) -> None:
    rules = rules_of(4)
    left, right = quotes(150, 1), quotes(150, 2)
    pairs = monitor_of(rules).update(left=left, right=right)
    alone = monitor_of(rules, report="rules").update(left=left, right=right)
    one, two = (spark.createDataFrame(side.to_pandas(), SCHEMA) for side in (left, right))
    assert facts(bands(one, two, rules, report="rules", **NAMED)) == facts(alone)
    streams = Streams(spark, tmp_path, rules, report="rules")
    streams.put(left, right)
    streams.run()
    assert facts(streams.told()) == facts(alone)
    said = ("rule_id", "detect", "time", "symbol", "price_before", "price", "reason")
    assert {tuple(row[name] for name in said) for row in pairs.to_pylist()} == {
        tuple(row[name] for name in said) for row in alone.to_pylist()
    }
    assert len(set(alone["event_id"].to_pylist())) == alone.num_rows < pairs.num_rows
    assert all((row["object"] is None) != (row["other"] is None) for row in alone.to_pylist())


def test_without_a_key_all_rows_meet(spark: Any) -> None:
    rules = rules_of(5, detect="enter,exit")
    options = {name: value for name, value in NAMED.items() if name != "key"}
    left, right = quotes(100, 1), quotes(100, 2)
    expected = fp.Monitor(rules, **options).update(left=left, right=right)
    one, two = (spark.createDataFrame(side.to_pandas(), SCHEMA) for side in (left, right))
    assert facts(bands(one, two, rules, **options)) == facts(expected)


def test_rules_change_while_the_streams_run(spark: Any, tmp_path: Path) -> None:
    rules = rules_of(7, detect="enter,exit")
    published = tmp_path / "published"
    rules.publish(published)
    directory = VersionDirectory(published)
    streams = Streams(spark, tmp_path / "streams", published, observe="bands", labels=True)
    # Of both sides every column of the schema is remembered there.
    monitor, expected = monitor_of(directory.load(), labels=True, schema=directory.schema()), []
    for number in range(4):
        left, right = quotes(80, number, start=30 * number), quotes(80, number + 9, start=30 * number)
        if number in (1, 2):
            rules.remove(number)
            rules.replace(number + 5, "left.price - right.price < 1", detect="enter,exit", initial=True)
            rules.replace(number + 9, "left.price - right.price < 1", detect="enter,exit", enabled=False)
            rules.add(100 + number, "left.price - right.price > 2", detect="enter,exit", initial=number == 2)
            rules.publish(published)
            expected.append(monitor.follow(directory.load()))
        if number == 3:
            now = EPOCH + timedelta(hours=1)
            directory.tick(now)
            expected.append(monitor.advance(now))
        streams.put(left, right)
        expected.append(monitor.update(left=left, right=right))
        streams.run()
    told = pa.concat_tables(expected)
    assert facts(streams.told()) == facts(told)
    versions = Counter(row["snapshot_version"] for row in streams.told().collect())
    assert versions == Counter(told["snapshot_version"].to_pylist())
    assert {"removed", "edited", "paused", "initial"} <= set(told["reason"].to_pylist())
    rules.add(200, "left.price - right.volume > 0", detect="enter,exit")
    with pytest.raises(FencepostError, match="volume"):
        rules.publish(published, strict=True)


@pytest.mark.slow
def test_killed_again_and_again_each_fact_is_told_once(spark: Any, tmp_path: Path) -> None:
    """SIGKILL at random moments, the rest by a query that goes on from the checkpoint."""
    rules = rules_of(8)
    rules.publish(tmp_path / "published")
    streams = Streams(spark, tmp_path, tmp_path / "published")
    parts = [(quotes(60, 2 * n, start=20 * n), quotes(60, 2 * n + 1, start=20 * n)) for n in range(8)]
    empty = parts[0][0].slice(0, 0)
    for part in parts[:6]:
        streams.put(*part)
    rng = random.Random(9)  # noqa: S311
    for attempt in range(2):
        with (tmp_path / f"log{attempt}").open("w") as log:
            joiner = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "tests.spark.joiner", str(tmp_path)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=Path(__file__).parents[2],
            )
        commits = tmp_path / "checkpoint" / "commits"
        wanted = len(list(commits.glob("[0-9]*"))) + rng.randrange(1, 3)
        deadline = time.monotonic() + 240
        try:
            while len(list(commits.glob("[0-9]*"))) < wanted and time.monotonic() < deadline:
                assert joiner.poll() is None, (tmp_path / f"log{attempt}").read_text()[-2000:]
                time.sleep(0.05)
            time.sleep(rng.random() * 0.5)
        finally:
            os.killpg(joiner.pid, signal.SIGKILL)
            joiner.wait()
    for part in parts[6:]:
        streams.put(*part)
    streams.run()
    # A kill between the two sources leaves one of them a file ahead, so what each micro-batch took decides.
    schema = VersionDirectory(tmp_path / "published").schema()
    monitor, told = monitor_of(rules, schema=schema), []
    for *taken, _ in recorded_batches(tmp_path / "checkpoint", 3):
        tables = [pa.concat_tables([parts[int(name[:4])][side] for name in taken[side]] or [empty]) for side in (0, 1)]
        told.append(monitor.update(left=tables[0], right=tables[1]))
    assert facts(streams.told()) == facts(pa.concat_tables(told))


def test_refusals(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(quotes(5, 1).to_pandas(), SCHEMA)
    rules = rules_of(1)
    boxes = fp.Rules()
    boxes.add(1, "price > 4")
    for options, message in (
        ({"left": frame.drop("gone")}, "On the left side a frame without the column gone; expected that column"),
        ({"right": frame.drop("price")}, "On the right side a frame without the column price"),
        ({"right": frame.drop("symbol")}, "On the right side a frame without the column symbol"),
        (
            {"right": frame.selectExpr("* except (symbol)", "1 AS symbol"), "rules": plain()},
            "left.symbol as string and right.symbol as bigint; expected one type, since they must be equal",
        ),
        (
            {"right": frame.selectExpr("* except (price)", "'a' AS price")},
            "On the right side a frame whose column price is string",
        ),
        ({"right": frame.selectExpr("* except (ts)", "current_date() AS ts")}, "left.ts as timestamp and right.ts"),
        ({"deleted": "kind"}, "On the left side kind of type string; expected booleans"),
        ({"key": "price", "rules": plain()}, "On the left side price of type double as a key"),
        ({"report": "all"}, "report='all'; expected 'pairs' or 'rules'"),
        ({"rules": boxes}, "1 rule without a band"),
        ({"buckets": 0}, "buckets=0"),
        ({"carry": "kind"}, "carry='kind', which events have as a column already"),
        ({"carry": ["volume"]}, "No column volume, which carry= names; expected one type on the sides that have it"),
        (
            {"right": frame.selectExpr("* except (seq)", "'a' AS seq"), "carry": "seq", "sequence": None},
            "seq as bigint on one side and string on the other",
        ),
        ({"time": "kind"}, "kind of type string as time"),
        ({"right": spark.readStream.schema(SCHEMA).parquet(str(tmp_path))}, "A streaming frame beside a batch"),
    ):
        given = {"left": frame, "right": frame, "rules": rules, **NAMED, **options}
        with pytest.raises(FencepostError, match=message.replace("(", r"\(")):
            bands(**given)
    streams = Streams(spark, tmp_path / "streams", plain())
    streams.put(quotes(20, 1), quotes(20, 2))
    streams.run()
    streams.put(quotes(20, 3, start=20), None)
    for name, value, message in (
        ("buckets", 4, "bands with buckets=4; expected buckets=3, with which the checkpoint was made"),
        ("rules", rules, "Other rules than those that the checkpoint was made with"),
    ):
        changed = Streams.__new__(Streams)
        changed.__dict__.update(streams.__dict__, options=dict(streams.options))
        if name == "rules":
            changed.rules = value
        else:
            changed.options[name] = value
        with pytest.raises(Exception, match=message):
            changed.run()
    streams.run()


def plain() -> fp.Rules:
    rules = fp.Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    return rules
