"""Steps of one bucket with damped rules, warm or read from the store, against one monitor that never stops."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.published import VersionDirectory
from fencepost.spark.work import store as bucket_state
from fencepost.spark.work.bucket import step
from fencepost.spark.work.packing import CLOCK, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.work.task import OBJECT, TIME
from tests.spark.test_bucket_state import Kept, rows_of, task_of

SCHEMA = {"x": "double", "zone": "string"}
NOBODY = 10**9


def draw_options(rng: random.Random) -> dict[str, Any]:
    """How a rule is damped, if it is."""
    options = {
        "for_": rng.choice([None, 3, 12, "2 rows"]),
        "keep_firing_for": rng.choice([None, 4, 15]),
        "cooldown": rng.choice([None, 20]),
        "limit": rng.choice([None, None, 2]),
    }
    return {name: value for name, value in options.items() if value is not None and rng.random() < 0.6}


def add_rules(rules: fp.Rules, rng: random.Random) -> None:
    for id in range(20):
        low = rng.randrange(10)
        high = low + rng.randrange(1, 5)
        options = draw_options(rng)
        if rng.random() < 0.3:
            options["stay"] = f"x >= {low - 1} AND x < {high + 2}"
        rules.add(id, f"x >= {low} AND x < {high}", detect=rng.choice(["enter,exit", "enter,exit,inside"]), **options)


@pytest.mark.parametrize("appends", [True, False])
def test_a_bucket_goes_on_with_what_waits(tmp_path: Path, appends: bool) -> None:
    rng = random.Random(f"damped {appends}")  # noqa: S311
    rules = fp.Rules()
    add_rules(rules, rng)
    rules.publish(tmp_path, SCHEMA)
    directory = VersionDirectory(tmp_path)
    task, store = task_of(tmp_path, pa.int64()), Kept(appends)
    never_stops = fp.Monitor(directory.load(), object=OBJECT, time=TIME, timeout=50, schema=SCHEMA)
    reasons: list[str | None] = []
    marker = 1
    for at in range(0, 900, 10):
        packed: list[tuple[int, int, bytes]] = [(VERSION, marker, b"")] if marker else []
        tables = []
        if rng.random() < 0.2 and at:
            id = rng.randrange(20)
            rules.replace(
                id, f"x > {rng.randrange(12)}", detect="enter,exit", enabled=rng.random() < 0.7, **draw_options(rng)
            )
            packed.append((VERSION, rules.publish(tmp_path), b""))
            tables.append(never_stops.follow(directory.load()))
        if rng.random() < 0.5 and at:
            packed.append((CLOCK, at, b""))
            tables.append(never_stops.advance(at))
        if rng.random() < 0.7 or not at:
            rows = rows_of(rng, pa.int64(), at)
            packed.append((ROWS, 0, packed_bytes(rows)))
            tables.append(never_stops.update(rows))
        if not packed:
            continue
        if rng.random() < 0.4:
            bucket_state.warm_engines.clear()
        if rng.random() < 0.2:
            before = copy.copy(store.parts)
            step(0, packed, store, task)  # a task whose commit is lost
            store.parts = before
        (reported,) = step(0, packed, store, task)
        events = [] if reported["payload"] is None else packed_table(reported["payload"])["event_id"].to_pylist()
        assert sorted(events) == sorted(id for table in tables for id in table["event_id"].to_pylist())
        reasons += [reason for table in tables for reason in table["reason"].to_pylist()]
        marker = 0
    for reason in ("held", "kept", "cooldown", "timeout", "edited", None):
        assert reasons.count(reason) > 5, reason
    assert never_stops.counters["rows"] > 1000


@pytest.mark.parametrize("warm", [True, False])
def test_a_tick_that_ends_nothing_reads_the_head_alone(tmp_path: Path, warm: bool) -> None:
    rules = fp.Rules()
    rules.add(1, "x > 5", detect="enter,exit", for_=10)
    rules.publish(tmp_path, SCHEMA)
    task, store = task_of(tmp_path, pa.int64()), Kept(appends=True)
    rows = pa.table({OBJECT: pa.array([1]), TIME: pa.array([100]), "x": [7.0], "zone": pa.array(["a"])})
    step(0, [(VERSION, 1, b""), (ROWS, 0, packed_bytes(rows))], store, task)
    base, store.parts["base"] = store.parts["base"], b"nobody reads this"
    for now in (105, 110):
        if not warm:
            bucket_state.warm_engines.clear()
        (reported,) = step(0, [(CLOCK, now, b"")], store, task)
        assert reported["payload"] is None
        assert json.loads(store.parts["head"])["clock"]["marker"] == now
    assert store.heads == 2
    store.parts["base"] = base
    (reported,) = step(0, [(CLOCK, 111, b"")], store, task)
    [event] = packed_table(reported["payload"]).to_pylist()
    assert (event["time"], event["reason"]) == (110, "held")


def test_what_waits_for_a_rule_that_is_left_out_is_forgotten() -> None:
    rules = fp.Rules()
    for id in (1, 2):
        rules.add(id, f"x > {id}", detect="enter,exit", for_=10)
    monitor = fp.Monitor(rules, object="o", time="t")
    monitor.update({"o": ["a"], "t": [0], "x": [5.0]})
    [table] = monitor._watch.tables()
    rules.remove(2)
    fewer = fp.Monitor(rules, object="o", time="t")
    fewer._watch.restore([[table]])
    assert fewer._watch.state.damped.all().rules.tolist() == [1]
