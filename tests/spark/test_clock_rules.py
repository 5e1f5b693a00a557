"""Rules that the clock of a stream cannot do with: a stream that follows a directory leaves them out and goes on."""

import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.events import event_schema
from fencepost.ordinals import DOUBLE, AttributeType
from fencepost.published import VersionDirectory
from fencepost.snapshot import Snapshot
from fencepost.spark import bands, save_state, watch
from fencepost.spark.work.bucket import step
from fencepost.spark.work.caches import Published, Shards
from fencepost.spark.work.packing import CLOCK, OTHER_ROWS, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.work.store import warm_engines
from fencepost.spark.work.task import OBJECT, TIME, Side
from fencepost.spark.work.watch_task import WatchTask
from fencepost.watching.clock import Clock, rules_beyond_clock
from tests.spark import test_band_bucket, test_new_columns
from tests.spark.test_bucket_state import Kept

pytestmark = pytest.mark.oldest

LATER = datetime(2030, 1, 1, tzinfo=UTC)
TIMES = pa.timestamp("us", tz="UTC")
BEYOND: dict[str, tuple[str, int | timedelta | None, dict[str, Any], str]] = {
    "silence": ("bigint", None, {"detect": "silent"}, "detects silent, but there is no timeout"),
    "duration": ("bigint", 50, {"for_": "5 minutes"}, "length of 0:05:00, and the time column as bigint"),
    "kept": ("bigint", 50, {"keep_firing_for": "5 minutes"}, "length of 0:05:00, and the time column as bigint"),
    "cooldown": ("bigint", 50, {"cooldown": "5 minutes"}, "length of 0:05:00, and the time column as bigint"),
    "every": ("bigint", 50, {"detect": "inside", "every": "5 minutes"}, "length of 0:05:00"),
    "number": ("timestamp", timedelta(hours=1), {"for_": 5}, "length of 5, and the time column as timestamp"),
    "expiry": ("bigint", 50, {"expires": LATER}, "which expires, and the time column as bigint"),
}
KINDS = pytest.mark.parametrize("kind", BEYOND)


def option(kind: str) -> dict[str, Any]:
    return {"detect": "enter,exit", **BEYOND[kind][2]}


def task_of(directory: Path, kind: str) -> WatchTask:
    time_type, timeout, *_ = BEYOND[kind]
    times = pa.int64() if time_type == "bigint" else TIMES
    return WatchTask(
        source=Published(str(directory)),
        planned=1,
        follow=True,
        sides=(Side((), ("x",), (), frozenset({"x"}), "string"),),
        attributes=(("x", "double"),),
        sequence=(),
        time_type=time_type,
        buckets=4,
        first="enter",
        timeout=timeout,
        late=None,
        event_schema=event_schema(pa.string(), times, {"x": DOUBLE}),
    )


def row(kind: str, at: int, x: float) -> tuple[int, int, bytes]:
    if BEYOND[kind][0] == "bigint":
        time = pa.array([at], pa.int64())
    else:
        time = pa.array([datetime(2026, 1, 5, tzinfo=UTC) + timedelta(seconds=at)], TIMES)
    return ROWS, 0, packed_bytes(pa.table({OBJECT: ["o"], TIME: time, "x": [x]}))


def told(given_back: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    tables = [packed_table(each["payload"]) for each in given_back if each["payload"] is not None]
    events = [event for table in tables for event in table.to_pylist()]
    return sorted((event["detect"], event["rule_id"], event["reason"] or "") for event in events)


@KINDS
@pytest.mark.parametrize("warm", [True, False])
def test_a_bucket_leaves_them_out_and_takes_up_what_is_published_later(tmp_path: Path, kind: str, warm: bool) -> None:
    rules = fp.Rules()
    for id in (1, 2):
        rules.add(id, f"x > {id}", detect="enter,exit")
    rules.publish(tmp_path)
    task, store = task_of(tmp_path, kind), Kept(appends=True)

    def take(*packed: tuple[int, int, bytes]) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
        if not warm:
            warm_engines.clear()
        given_back = step(0, packed, store, task)
        return told(given_back), given_back[0]

    assert take((VERSION, 1, b""), row(kind, 1, 5))[0] == [("enter", 1, ""), ("enter", 2, "")]
    rules.replace(2, "x > 2", **option(kind))
    rules.add(3, "x > 3", **option(kind))
    rules.add(4, "x > 4", detect="enter,exit", initial=True)
    with pytest.warns(UserWarning, match="left out") as warned:
        events, meter = take((VERSION, rules.publish(tmp_path), b""), row(kind, 2, 5.5))
    assert events == [("enter", 4, "initial"), ("exit", 2, "paused")]
    assert (meter["version"], meter["rules"], meter["rejected"], meter["skipped"]) == (2, 2, 0, 2)
    [said] = [str(each.message) for each in warned]
    assert "2 rules of version 2 of" in said
    assert "(2, 3): the clock of the stream cannot do with them. Rule 2" in said
    assert BEYOND[kind][3] in said

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert take(row(kind, 3, 0.0))[0] == [("exit", 1, ""), ("exit", 4, "")]
        assert take((CLOCK, 4, b""))[0] == []
    for id in (2, 3):
        rules.replace(id, f"x > {id}", detect="enter,exit")
    events, meter = take((VERSION, rules.publish(tmp_path), b""), row(kind, 5, 3.5))
    assert events == [("enter", id, "") for id in (1, 2, 3)]
    assert (meter["version"], meter["rules"], meter["skipped"]) == (3, 4, 0)


@KINDS
def test_a_stream_begins_where_the_first_version_has_them(tmp_path: Path, kind: str) -> None:
    rules = fp.Rules()
    rules.add(1, "x > 1", detect="enter,exit")
    rules.add(2, "x > 2", **option(kind))
    rules.publish(tmp_path)
    with pytest.warns(UserWarning, match="1 rule of version 1 of"):
        given_back = step(0, [(VERSION, 1, b""), row(kind, 1, 5)], Kept(appends=True), task_of(tmp_path, kind))
    assert told(given_back) == [("enter", 1, "")]


def test_shards_leave_them_out(tmp_path: Path) -> None:
    rules = fp.Rules()
    for id in range(8):
        rules.add(id, f"x > {id}", detect="enter,exit")
    rules.publish(tmp_path, shards=2)
    rules.replace(3, "x > 3", detect="enter,silent")
    rules.replace(4, "x > 4", detect="enter,exit", expires=LATER)
    rules.publish(tmp_path)
    plan = VersionDirectory(tmp_path).shards()
    assert plan is not None
    shards = Shards(plan, tuple(Published(str(tmp_path), number) for number in range(2)))
    task = replace(task_of(tmp_path, "silence"), shards=shards)
    with pytest.warns(UserWarning, match="left out"):
        snapshots = [task.make_engine(2, 0, number).rules.snapshot() for number in range(2)]
    assert {id for each in snapshots for id in each.rules.ids[each.in_force].tolist()} == {0, 1, 2, 5, 6, 7}


@pytest.mark.parametrize(
    "options", [{"for_": "5 minutes"}, {"cooldown": "5 minutes"}, {"expires": LATER}], ids=lambda each: next(iter(each))
)
def test_a_bucket_of_bands_leaves_them_out(tmp_path: Path, options: dict[str, Any]) -> None:
    rules = fp.Rules()
    for id in (1, 2):
        rules.add(id, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(tmp_path, test_band_bucket.SCHEMA)
    task, store = test_band_bucket.task_of(tmp_path, damped=True), Kept(appends=True)

    def rows(at: int, price: float) -> bytes:
        columns = {"symbol": ["SAP"], "price": [price], "kind": ["bid"], "fencepost deleted": [False]}
        return packed_bytes(pa.table({OBJECT: pa.array([7]), TIME: pa.array([at]), **columns}))

    first = [(VERSION, 1, b""), (ROWS, 0, rows(1, 5.0)), (OTHER_ROWS, 0, rows(1, 5.0))]
    assert told(step(0, first, store, task)) == [("enter", 1, ""), ("enter", 2, "")]
    rules.replace(2, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit", **options)
    rules.add(3, "left.price - right.price BETWEEN -2 AND 2", detect="enter,exit", **options)
    with pytest.warns(UserWarning, match=r"2 rules of version 2 of .* left out \(2, 3\)"):
        given_back = step(0, [(VERSION, rules.publish(tmp_path), b"")], store, task)
    assert told(given_back) == [("exit", 2, "paused")]
    assert (given_back[0]["version"], given_back[0]["skipped"]) == (2, 2)
    assert told(step(0, [(ROWS, 0, rows(2, 50.0))], store, task)) == [("exit", 1, "")]


def test_a_hidden_rule_is_not_asked_for_its_length() -> None:
    rules = fp.Rules()
    for id in range(1000):
        rules.add(id, f"x > {id}", detect="enter,exit", for_="1 minute")
    rules.add(1000, "x > 3", detect="enter,exit", for_=5)
    monitor = fp.Monitor(rules, object="o", time="t")
    monitor.replace(1000, "x > 3", detect="enter,exit", for_="5 minutes")
    assert monitor.update({"o": ["a"], "t": [LATER], "x": [5.0]}).num_rows == 0


def test_every_kind_is_found_with_its_first_reason() -> None:
    rules = fp.Rules()
    rules.add(1, "x > 1")
    rules.add(9, "x > 1", detect="silent", for_="5 minutes", expires=LATER)
    rules.add(5, "x > 1", for_="3 rows", detect="enter")
    rules.add(7, "x > 1", detect="silent", enabled=False)
    for id, kind in enumerate(BEYOND, 10):
        rules.add(id, "x > 1", **option(kind))

    def found(type: str, timeout: Any) -> dict[int, str]:
        snapshot: Snapshot = rules.compile()
        beyond = rules_beyond_clock(snapshot, Clock("ts", timeout), AttributeType.parse(type))
        return {id: why.split(";")[0] for id, why in beyond.faults().items()}

    of_numbers = found("bigint", None)
    assert set(of_numbers) == {9, *range(10, 17)} - {15}
    assert of_numbers[9] == "rule 9, which expires, and ts as bigint"
    assert of_numbers[10] == "rule 10 detects silent, but there is no timeout"
    assert of_numbers[11] == "rule 11 has a length of 0:05:00, and ts as bigint"
    assert found("date", timedelta(days=1)) == {15: "rule 15 has a length of 5, and ts as date"}
    assert set(found("double", None)) == {9, *range(10, 17)}
    assert list(rules_beyond_clock(rules.compile(), Clock("ts", None)).ids) == [9, 10]


# -- plans -------------------------------------------------------------------------------------------------


@KINDS
def test_fixed_rules_are_refused_before_the_query_starts(spark: Any, tmp_path: Path, kind: str) -> None:
    time_type, timeout, _, message = BEYOND[kind]
    frame = spark.createDataFrame([], f"o string, ts {time_type}, x double")
    rules = fp.Rules()
    rules.add(1, "x > 1")
    rules.add(2, "x > 2", **option(kind))
    message = message.replace("the time column", "ts")
    named: dict[str, Any] = {"object": "o", "time": "ts", "timeout": timeout}
    rules.publish(tmp_path / "published")
    for given in (rules, tmp_path / "published"):
        with pytest.raises(FencepostError, match=f"Rule 2.* {message}"):
            watch(frame, given, **named)
    if kind in {"silence", "every"}:
        return
    paired = fp.Rules()
    paired.add(2, "left.x - right.x > 2", **option(kind))
    with pytest.raises(FencepostError, match=f"Rule 2.* {message}"):
        bands(frame, frame, paired, **named)


def test_a_running_stream_goes_on_and_counts_them(spark: Any, tmp_path: Path) -> None:
    published, rules = tmp_path / "published", fp.Rules()
    rules.add(1, "price > 10", detect="enter,exit")
    rules.publish(published)
    query = test_new_columns.Query(spark, tmp_path / "stream", "watch", published)
    assert test_new_columns.skipped(query.take(test_new_columns.rows_of(0), test_new_columns.NARROW)) == (1, 0)
    before = len(query.told())
    rules.add(2, "price > 3", detect="enter,silent")
    rules.add(3, "price > 3", detect="enter,exit", for_="5 minutes")
    rules.publish(published)
    run, warned = test_new_columns.started_quietly(
        lambda: query.take(test_new_columns.rows_of(20), test_new_columns.NARROW)
    )
    assert test_new_columns.skipped(run) == (2, 2)
    assert any("2 rules of version 2 of" in text and "(2, 3)" in text for text in warned)
    assert len(query.told()) > before
    rules.replace(2, "price > 3", detect="enter,exit")
    rules.publish(published)
    run, _ = test_new_columns.started_quietly(lambda: query.take(test_new_columns.rows_of(40), test_new_columns.NARROW))
    assert test_new_columns.skipped(run) == (3, 1)
    assert {event["rule_id"] for event in query.told()} == {1, 2}


def test_a_state_is_saved_for_rules_that_need_a_timeout(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "x > 1", detect="enter,silent")
    frame = spark.createDataFrame([("a", 1, 5.0)], "o string, ts bigint, x double")
    save_state(frame, tmp_path / "state", rules, object="o", time="ts", buckets=2)
    assert list((tmp_path / "state").iterdir())
