"""A bucket of bands without Spark: it goes on as if it had never been put away, and writes what it touched."""

import copy
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.events import event_schema
from fencepost.ordinals import DOUBLE
from fencepost.pairing.sides import Pairing
from fencepost.published import VersionDirectory
from fencepost.snapshot import Table
from fencepost.spark.work.band_task import BandTask, cut_by_time
from fencepost.spark.work.bucket import step
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import CLOCK, OTHER_ROWS, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.work.store import state_rows, warm_engines
from fencepost.spark.work.task import DELETED, OBJECT, TIME, Side
from tests.spark.test_bucket_state import Kept

SCHEMA = {"price": "double", "kind": "string", "symbol": "string"}


DAMPINGS: list[dict[str, Any]] = [
    {"for_": 3},
    {"keep_firing_for": 7},
    {"cooldown": 12},
    {"limit": 2},
    {"for_": "3 rows", "cooldown": 5},
]


def task_of(directory: Path, *, damped: bool = False) -> BandTask:
    schema = event_schema(pa.int64(), pa.int64(), {"price": DOUBLE}, pa.int64())
    schema = schema.append(pa.field("since", pa.int64())) if damped else schema
    schema = schema.append(pa.field("symbol", pa.string()))
    side = Side((), ("price",), ("kind", "symbol"), frozenset(SCHEMA), "bigint")
    return BandTask(
        source=Published(str(directory)),
        planned=1,
        follow=True,
        sides=(side, side),
        attributes=(("price", "double"),),
        sequence=(),
        pairing=Pairing(DELETED, ("symbol",)),
        time_type="bigint",
        buckets=4,
        first="enter",
        timeout=60,
        late=None,
        event_schema=schema,
    )


def condition_of(rng: random.Random, *, kinds: bool) -> str:
    low = rng.randrange(-6, 6)
    by_kind = rng.choice(["", " AND left.kind = 'bid'"]) if kinds else ""
    return f"left.price - right.price BETWEEN {low} AND {low + rng.randrange(3)}{by_kind}"


def rows_of(rng: random.Random, at: int, count: int) -> pa.Table:
    return pa.table(
        {
            OBJECT: pa.array([rng.randrange(60) for _ in range(count)], pa.int64()),
            TIME: pa.array([at + i % 5 for i in range(count)], pa.int64()),
            "symbol": pa.array([rng.choice(["SAP", "BMW"]) for _ in range(count)]),
            "price": pa.array([rng.choice([None, rng.randrange(12) / 1.0]) for _ in range(count)], pa.float64()),
            "kind": pa.array([rng.choice([None, "bid", "ask"]) for _ in range(count)]),
            DELETED: pa.array([rng.random() < 0.05 for _ in range(count)]),
        }
    )


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("appends", [True, False])
def test_a_bucket_goes_on_as_if_it_had_never_been_put_away(tmp_path: Path, appends: bool, damped: bool) -> None:
    rng = random.Random(f"bands {appends}")  # noqa: S311
    rules, dampings = fp.Rules(), DAMPINGS if damped else [{}]
    detect = "enter,exit" if damped else "enter,exit,cross"
    for id in range(8):  # later versions use `kind`, too
        rules.add(id, condition_of(rng, kinds=False), detect=detect, **dampings[id % len(dampings)])
    rules.publish(tmp_path, SCHEMA)
    directory, task, store = VersionDirectory(tmp_path), task_of(tmp_path, damped=damped), Kept(appends)
    never_stops = fp.Monitor(
        directory.load(), object=OBJECT, time=TIME, timeout=60, deleted=DELETED, key="symbol", schema=SCHEMA
    )
    reported = 0
    for at in range(0, 400, 10):
        packed: list[tuple[int, int, bytes]] = [] if at else [(VERSION, 1, b"")]
        tables = []
        if rng.random() < 0.3 and at:
            edited, enabled = condition_of(rng, kinds=True), rng.random() < 0.8
            options: dict[str, Any] = {"detect": "enter,exit", "enabled": enabled, "initial": True}
            id = rng.randrange(8)
            rules.replace(id, edited, **options, **dampings[id % len(dampings)])
            packed.append((VERSION, rules.publish(tmp_path), b""))
            tables.append(never_stops.follow(directory.load()))
        if rng.random() < 0.3 and at:
            packed.append((CLOCK, at, b""))
            tables.append(never_stops.advance(at))
        left, right = (rows_of(rng, at, rng.choice([2, 60])) for _ in range(2))
        packed += [(ROWS, 0, packed_bytes(left)), (OTHER_ROWS, 0, packed_bytes(right))]
        tables.append(never_stops.update(left=left, right=right))
        if rng.random() < 0.4:
            warm_engines.clear()
        if rng.random() < 0.2:
            before = copy.copy(store.parts)
            step(0, packed, store, task)  # a task whose commit is lost
            store.parts = before
        given_back = step(0, packed, store, task)
        payloads = [row["payload"] for row in given_back if row["payload"] is not None]
        events = [id for payload in payloads for id in packed_table(payload)["event_id"].to_pylist()]
        assert sorted(events) == sorted(id for table in tables for id in table["event_id"].to_pylist())
        assert given_back[0]["rows"] == len(left) + len(right)
        reported += len(events)
    assert reported > 300
    assert (store.appended > 5) == appends


def test_a_trigger_of_few_rows_writes_bytes_in_proportion_to_them(tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(tmp_path, SCHEMA)
    task, store = task_of(tmp_path), Kept(appends=True)
    count = 20_000

    def rows(objects: range, at: int) -> bytes:
        return packed_bytes(
            pa.table(
                {
                    OBJECT: pa.array(objects, pa.int64()),
                    TIME: pa.array([at] * len(objects), pa.int64()),
                    "symbol": pa.array([f"s{object % 5000}" for object in objects]),
                    "price": pa.array([float(object) for object in objects]),
                    "kind": pa.array(["bid"] * len(objects)),
                    DELETED: pa.array([False] * len(objects)),
                }
            )
        )

    step(0, [(VERSION, 1, b""), (ROWS, 0, rows(range(count), 1)), (OTHER_ROWS, 0, rows(range(count), 1))], store, task)
    whole, written = len(store.parts["base"]), []
    for number, few in enumerate((20, 200)):
        step(0, [(ROWS, 0, rows(range(few), 2 + number))], store, task)
        written.append(len(store.parts["log"][-1][1]))
    assert store.rewritten == 1
    assert written[0] < written[1] < whole / 50


def test_the_state_of_a_bucket_can_be_read(tmp_path: Path) -> None:
    rng = random.Random(3)  # noqa: S311
    rules = fp.Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(tmp_path, SCHEMA)
    task, store = task_of(tmp_path), Kept(appends=True)
    last: dict[tuple[str, int, str], Any] = {}
    for at in range(0, 50, 5):
        tables = rows_of(rng, at, 80 if at == 0 else 5), rows_of(rng, at, 80 if at == 0 else 5)
        for side, table in zip(("left", "right"), tables, strict=True):
            for row in sorted(table.to_pylist(), key=lambda row: (row[TIME], row[DELETED])):
                place = (side, row[OBJECT], row["symbol"])
                if row[DELETED]:
                    last.pop(place, None)
                elif row["price"] is not None or row["kind"] is not None or row["symbol"] is not None:
                    last[place] = row[TIME]
        kinds = zip((ROWS, OTHER_ROWS), tables, strict=True)
        packed = [] if at else [(VERSION, 1, b"")]
        step(0, [*packed, *((kind, 0, packed_bytes(table)) for kind, table in kinds)], store, task)
    parts = [(-2, store.parts["head"].encode()), (-1, store.parts["base"]), *store.parts["log"]]
    numbers, payloads = zip(*parts, strict=True)
    schema = pa.schema(
        [("side", pa.string()), ("object", pa.int64()), ("time", pa.int64()), ("symbol", pa.string()),
         ("kind", pa.string()), ("price", pa.float64()), ("snapshot_version", pa.int64())]
    )  # fmt: skip
    read = state_rows(pa.table({"number": pa.array(numbers), "piece": pa.array(payloads, pa.binary())}), schema)
    found = {(row["side"], row["object"], row["symbol"]): row["time"] for row in read.to_pylist()}
    assert found == last


def test_buckets_share_the_rules_and_nothing_else(tmp_path: Path) -> None:
    rules = fp.Rules()
    for id in range(50):
        rules.add(id, f"left.price - right.price BETWEEN {id} AND {id + 1}", detect="enter,exit")
    rules.publish(tmp_path, SCHEMA)
    task = task_of(tmp_path)
    one, two = task.make_engine(1, 0), task.make_engine(1, 1)
    assert one.find(7) is two.find(7) is not None
    assert one.clock is not two.clock
    rows = rows_of(random.Random(4), 0, 30)  # noqa: S311
    one.update([Table(rows), Table(rows)]).settle()
    assert (len(one.tables()[0]) > 0, len(two.tables()[0])) == (True, 0)
    assert task.make_engine(1, 2).counts.rows == 0


def test_rows_are_cut_by_time_without_a_warning_those_without_one_first() -> None:
    table = pa.table({TIME: pa.array([3, None, 1, 2], pa.int64()), "n": [0, 1, 2, 3]})
    pieces = [left for left, _ in cut_by_time([table, None])]
    assert pa.concat_tables(pieces)["n"].to_pylist() == [1, 2, 3, 0]
