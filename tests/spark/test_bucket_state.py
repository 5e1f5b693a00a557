"""Steps of one bucket, with a monitor at hand or one read from the store, against one monitor that never stops."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost._files.recent import RecentlyUsed
from fencepost.errors import FencepostError
from fencepost.events import event_schema
from fencepost.ordinals import AttributeType
from fencepost.published import VersionDirectory
from fencepost.spark.work import store as bucket_state
from fencepost.spark.work.bucket import step
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import CLOCK, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.work.task import OBJECT, TIME, Side
from fencepost.spark.work.watch_task import WatchTask

DOUBLE = AttributeType.parse("double")


class Kept:
    """A store in memory, which counts what is written."""

    def __init__(self, appends: bool) -> None:
        self.appends = appends
        self.parts: dict[str, Any] = {"head": None, "base": b"", "log": []}
        self.appended = self.rewritten = self.heads = 0

    def head(self) -> str | None:
        return self.parts["head"]  # type: ignore[no-any-return]

    def base(self) -> bytes:
        return self.parts["base"]  # type: ignore[no-any-return]

    def log(self) -> list[bytes]:
        return [entry for _, entry in self.parts["log"]]

    def rewrite(self, head: str, base: bytes) -> None:
        self.parts = {"head": head, "base": base, "log": []}
        self.rewritten += 1

    def append(self, head: str, number: int, entry: bytes) -> None:
        assert self.appends
        assert number == len(self.parts["log"])
        self.parts = {**self.parts, "head": head, "log": [*self.parts["log"], (number, entry)]}
        self.appended += 1

    def replace_head(self, head: str) -> None:
        self.parts = {**self.parts, "head": head}
        self.heads += 1


def task_of(directory: Path, objects: Any) -> WatchTask:
    schema = event_schema(objects, pa.int64(), {"x": DOUBLE})
    spark_type = "bigint" if objects == pa.int64() else "string"
    return WatchTask(
        source=Published(str(directory)),
        planned=1,
        follow=True,
        sides=(Side((), ("x",), ("zone",), frozenset({"x", "zone"}), spark_type),),
        attributes=(("x", "double"),),
        sequence=(),
        time_type="bigint",
        buckets=4,
        first="enter",
        timeout=50,
        late=None,
        event_schema=schema,
    )


def rules_of(rng: random.Random) -> fp.Rules:
    rules = fp.Rules()
    for id in range(20):
        low = rng.randrange(10)
        condition = f"x >= {low} AND x < {low + rng.randrange(1, 5)}"
        rules.add(id, condition + rng.choice(["", " AND zone = 'a'"]), detect="enter,exit,cross")
    return rules


def rows_of(rng: random.Random, objects: Any, at: int) -> pa.Table:
    names = [rng.randrange(300) for _ in range(rng.choice([3, 300]))]
    given = names if objects == pa.int64() else [f"o{name}" for name in names]
    columns = {
        OBJECT: pa.array(given, objects),
        TIME: pa.array([at + i % 5 for i in range(len(names))], pa.int64()),
        "x": pa.array([rng.choice([None, rng.randrange(12) / 1.0]) for _ in names], pa.float64()),
        "zone": pa.array([rng.choice([None, "a", "b"]) for _ in names]),
    }
    return pa.table(columns)


@pytest.mark.parametrize("appends", [True, False])
@pytest.mark.parametrize("objects", [pa.int64(), pa.string()], ids=str)
def test_a_bucket_goes_on_as_if_it_had_never_been_put_away(tmp_path: Path, appends: bool, objects: Any) -> None:
    rng = random.Random(f"{appends} {objects}")  # noqa: S311
    rules = rules_of(rng)
    schema = {"x": "double", "zone": "string"}
    rules.publish(tmp_path, schema)
    directory = VersionDirectory(tmp_path)
    task, store = task_of(tmp_path, objects), Kept(appends)
    never_stops = fp.Monitor(directory.load(), object=OBJECT, time=TIME, timeout=50)
    told = expected = 0
    marker = 1
    for at in range(0, 600, 10):
        packed: list[tuple[int, int, bytes]] = [(VERSION, marker, b"")] if marker else []
        tables = []
        if rng.random() < 0.3 and at:
            id = rng.randrange(20)
            rules.replace(id, f"x > {rng.randrange(12)}", detect="enter,exit", enabled=rng.random() < 0.7)
            packed.append((VERSION, rules.publish(tmp_path), b""))
            tables.append(never_stops.follow(directory.load()))
        if rng.random() < 0.3 and at:
            packed.append((CLOCK, at, b""))
            tables.append(never_stops.advance(at))
        rows = rows_of(rng, objects, at)
        packed.append((ROWS, 0, packed_bytes(rows)))
        tables.append(never_stops.update(rows))
        if rng.random() < 0.4:
            bucket_state.warm_engines.clear()
        if rng.random() < 0.2:
            before = copy.copy(store.parts)
            step(0, packed, store, task)  # a task whose commit is lost
            store.parts = before
        (told_now,) = step(0, packed, store, task)
        events = [] if told_now["payload"] is None else packed_table(told_now["payload"])["event_id"].to_pylist()
        wanted = [id for table in tables for id in table["event_id"].to_pylist()]
        assert sorted(events) == sorted(wanted)
        assert told_now["rows"] == len(rows)
        told, expected, marker = told + len(events), expected + len(wanted), 0
    assert told == expected > 500
    assert (store.appended > 10) == appends
    assert store.rewritten > 1, "a log does not grow for ever"


def test_state_of_another_format_is_refused(tmp_path: Path) -> None:
    rules_of(random.Random(1)).publish(tmp_path, {"x": "double", "zone": "string"})  # noqa: S311
    task, store = task_of(tmp_path, pa.int64()), Kept(appends=True)
    step(0, [(VERSION, 1, b"")], store, task)
    store.parts["head"] = store.parts["head"].replace('"format": 2', '"format": 99')
    bucket_state.warm_engines.clear()
    with pytest.raises(FencepostError, match="state in format 99; expected format 2"):
        step(0, [(CLOCK, 5, b"")], store, task)


def test_a_process_keeps_only_so_many_objects(tmp_path: Path) -> None:
    rng = random.Random(2)  # noqa: S311
    rules_of(rng).publish(tmp_path, {"x": "double", "zone": "string"})
    task = task_of(tmp_path, pa.int64())
    kept: RecentlyUsed[int, Any] = RecentlyUsed(500, weigh=lambda engine: engine.weight)
    for bucket in (0, 1, 2, 0):
        store = Kept(appends=True)
        rows = pa.table({OBJECT: range(200), TIME: [1] * 200, "x": [1.0] * 200, "zone": ["a"] * 200})
        step(bucket, [(VERSION, 1, b""), (ROWS, 0, packed_bytes(rows))], store, task)
        held = bucket_state.warm_engines.take((task, bucket))
        assert held is not None
        kept.put(bucket, held[1])
    assert [kept.take(bucket) is not None for bucket in (0, 1, 2)] == [True, False, True]
    assert kept.take(0) is None, "whoever takes it has it alone"


@pytest.mark.parametrize("piece", ["head", "base", "log"])
def test_a_changed_byte_of_the_state_is_refused(tmp_path: Path, piece: str) -> None:
    rng = random.Random(piece)  # noqa: S311
    rules_of(rng).publish(tmp_path, {"x": "double", "zone": "string"})
    task, store = task_of(tmp_path, pa.int64()), Kept(appends=True)
    rows = pa.table({OBJECT: range(50), TIME: [1] * 50, "x": [1.0] * 50, "zone": ["a"] * 50})
    step(0, [(VERSION, 1, b""), (ROWS, 0, packed_bytes(rows))], store, task)
    for at in (2, 3):
        step(0, [(ROWS, 0, packed_bytes(rows.slice(0, 3).set_column(1, TIME, pa.array([at] * 3))))], store, task)
    whole = store.parts
    for _ in range(60):
        content = {"head": whole["head"].encode(), "base": whole["base"], "log": whole["log"][1][1]}[piece]
        at = rng.randrange(len(content))
        flipped = content[:at] + bytes([content[at] ^ 1 << rng.randrange(7)]) + content[at + 1 :]
        damaged = rng.choice([flipped, content[:at], content + b"x"])
        changed: Any = {"head": damaged.decode(errors="replace"), "base": damaged}.get(piece)
        if piece == "log":
            changed = [whole["log"][0], (1, damaged)] if rng.random() < 0.9 else whole["log"][:1]
        store.parts = {**whole, piece: changed}
        bucket_state.warm_engines.clear()
        with pytest.raises(FencepostError, match=r"The state of a bucket, which|State in format"):
            step(0, [(CLOCK, 60, b"")], store, task)  # which ends all objects, so more than the head is read


def test_a_state_of_an_older_version_goes_on_and_is_sealed(tmp_path: Path) -> None:
    rules_of(random.Random(1)).publish(tmp_path, {"x": "double", "zone": "string"})  # noqa: S311
    task, store = task_of(tmp_path, pa.int64()), Kept(appends=True)
    rows = pa.table({OBJECT: range(50), TIME: [1] * 50, "x": [1.0] * 50, "zone": ["a"] * 50})
    step(0, [(VERSION, 1, b""), (ROWS, 0, packed_bytes(rows))], store, task)
    head = json.loads(store.parts["head"])
    older = {name: value for name, value in head.items() if name not in ("sealed", "checksum")}
    store.parts = {"head": json.dumps(older), "base": store.parts["base"][:-32], "log": []}
    bucket_state.warm_engines.clear()
    (told,) = step(0, [(ROWS, 0, packed_bytes(rows.slice(0, 3).set_column(1, TIME, pa.array([2] * 3))))], store, task)
    assert (told["rows"], store.rewritten, store.appended) == (3, 2, 0)
    assert {"sealed", "checksum"} <= set(json.loads(store.parts["head"]))
    bucket_state.warm_engines.clear()
    step(0, [(ROWS, 0, packed_bytes(rows.slice(0, 3).set_column(1, TIME, pa.array([3] * 3))))], store, task)
    assert store.appended == 1
