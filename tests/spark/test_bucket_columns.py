"""A bucket of watch whose rules change over columns that no rule used before, against the replay of single rows."""

import copy
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.events import event_schema
from fencepost.ordinals import DOUBLE
from fencepost.spark.work import store as bucket_state
from fencepost.spark.work.bucket import step
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import CLOCK, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.work.task import OBJECT, TIME, Side
from fencepost.spark.work.watch_task import WatchTask
from tests.effort import seeds
from tests.replay import Replay, ReplayBox, ReplayEvent, ReplayRule
from tests.spark.test_bucket_state import Kept

NUMBERS, TEXTS = ("x", "y"), ("kind", "zone")
SCHEMA: dict[str, Any] = {**dict.fromkeys(NUMBERS, "double"), **dict.fromkeys(TEXTS, "string")}
TIMEOUT = 50


def task_of(directory: Path) -> WatchTask:
    return WatchTask(
        source=Published(str(directory)),
        planned=1,
        follow=True,
        sides=(Side((), NUMBERS, TEXTS, frozenset(SCHEMA), "bigint"),),
        attributes=tuple((name, "double") for name in NUMBERS),
        sequence=(),
        time_type="bigint",
        buckets=4,
        first="enter",
        timeout=TIMEOUT,
        late=None,
        event_schema=event_schema(pa.int64(), pa.int64(), dict.fromkeys(NUMBERS, DOUBLE)),
    )


class Script:
    """Versions, times and rows as a stream has them; the first rules use one column, later ones any."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng, self.path = random.Random(seed), path  # noqa: S311
        self.rules, self.replay = fp.Rules(), Replay(NUMBERS, TEXTS, timeout=TIMEOUT)
        only = self.rng.choice([*NUMBERS, *TEXTS])
        for id in range(3):
            self.put(id, [only])

    def put(self, id: int, columns: list[str]) -> list[ReplayEvent]:
        """Add a rule, or replace it."""
        rng, boxes = self.rng, []
        for _ in range(rng.choice([1, 1, 2])):
            chosen = rng.sample(columns, rng.randint(1, min(2, len(columns))))
            low = {name: rng.randrange(8) / 1.0 for name in chosen if name in NUMBERS}
            ranges = {name: (least, least + rng.choice([1.0, 3.0])) for name, least in low.items()}
            boxes.append(ReplayBox({name: rng.choice("ab") for name in chosen if name in TEXTS}, dict(ranges)))
        detect = frozenset(rng.sample(["inside", "enter", "exit", "cross"], rng.randint(2, 4)))
        rule = ReplayRule(id, tuple(boxes), detect, initial=rng.random() < 0.5, enabled=rng.random() < 0.85)
        options: dict[str, Any] = {"detect": ",".join(sorted(detect)), "initial": rule.initial, "enabled": rule.enabled}
        known = id in self.replay.rules
        (self.rules.replace if known else self.rules.add)(id, rule.condition(), **options)
        return self.replay.replace(rule) if known else self.replay.add(rule)

    def change(self) -> list[ReplayEvent]:
        """Some rules, each once, over any columns."""
        expected = []
        for id in self.rng.sample(range(8), self.rng.randint(1, 3)):
            if id in self.replay.rules and self.rng.random() < 0.25 and len(self.replay.rules) > 1:
                self.rules.remove(id)
                expected += self.replay.remove(id)
            else:
                expected += self.put(id, [*NUMBERS, *TEXTS])
        return expected

    def rows(self, at: int) -> list[dict[str, Any]]:
        rng, rows = self.rng, []
        for _ in range(rng.choice([1, 4, 40])):
            row: dict[str, Any] = {"object": rng.randrange(12), "time": at + rng.randrange(-4, 5), "sequence": None}
            row |= {name: rng.choice([None, rng.randrange(12) / 1.0]) for name in NUMBERS}
            row |= {name: rng.choice([None, "a", "b"]) for name in TEXTS}
            rows.append(row)
        return rows


def packed_rows(rows: list[dict[str, Any]]) -> bytes:
    types = {**dict.fromkeys(NUMBERS, pa.float64()), **dict.fromkeys(TEXTS, pa.string())}
    columns = {name: pa.array([row[name] for row in rows], type_) for name, type_ in types.items()}
    named = {OBJECT: "object", TIME: "time"}
    named_columns = {name: pa.array([row[same] for row in rows], pa.int64()) for name, same in named.items()}
    return packed_bytes(pa.table({**named_columns, **columns}))


def facts(event: Any) -> tuple[Any, ...]:
    """What an event says, however it is written."""
    if isinstance(event, ReplayEvent):
        values = [side[name] for name in NUMBERS for side in (event.before, event.after)]
        return (event.rule_id, event.rule_version, event.object, event.detect, event.time, event.reason, *values)
    values = [event[name] for column in NUMBERS for name in (f"{column}_before", column)]
    said = (event["rule_id"], event["rule_version"], event["object"], event["detect"], event["time"], event["reason"])
    return (*said, *values)


@pytest.mark.parametrize("appends", [True, False])
@pytest.mark.parametrize("seed", seeds(20))
def test_rules_over_columns_that_nobody_used_before(tmp_path: Path, seed: int, appends: bool) -> None:
    script = Script(tmp_path, seed)
    rng, task, store = script.rng, task_of(tmp_path), Kept(appends)
    packed = [(VERSION, script.rules.publish(tmp_path, SCHEMA), b"")]
    told = 0
    for at in range(10, 310, 10):
        expected: list[ReplayEvent] = []
        if rng.random() < 0.4:
            expected += script.change()
            packed.append((VERSION, script.rules.publish(tmp_path), b""))
        if rng.random() < 0.2:
            packed.append((CLOCK, at - 20, b""))
            expected += script.replay.advance(at - 20)
        rows = script.rows(at)
        packed.append((ROWS, 0, packed_rows(rows)))
        expected += script.replay.update(rows)
        if rng.random() < 0.4:
            bucket_state.warm_engines.clear()
        if rng.random() < 0.2:
            before = copy.copy(store.parts)
            step(0, packed, store, task)  # a task whose commit is lost
            store.parts = before
        given_back = step(0, packed, store, task)
        payloads = [row["payload"] for row in given_back if row["payload"] is not None]
        events = [event for payload in payloads for event in packed_table(payload).to_pylist()]
        assert sorted(map(str, map(facts, events))) == sorted(map(str, map(facts, expected)))
        told, packed = told + len(events), []
    assert told > 40
