"""Monitor against the naive replay, and every promise of its semantics by example."""

import math
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor, Reason
from fencepost.rules import Rules
from fencepost.snapshot import VersionDirectory
from tests.replay import Range, Replay, ReplayBox, ReplayEvent, ReplayRule

ATTRIBUTES, KEYS = ("x", "y"), ("k",)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOWHERE = ReplayRule(0, (ReplayBox({"k": "none"}, {"x": (98.0, 99.0), "y": (98.0, 99.0)}),), frozenset(["exit"]))
"""Makes both monitors know all columns from the start."""

Row = dict[str, Any]


# -- scripts: what happens to a monitor, drawn by hypothesis -----------------------------------------------

coordinates = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 2.5, math.nextafter(2.0, 3.0), math.nextafter(2.0, 1.0)])


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float | None, float | None]:
    low, high = draw(coordinates), draw(coordinates)
    low, high = min(low, high), max(low, high)
    high = math.nextafter(high, math.inf) if low == high else high
    shape = draw(st.sampled_from(["both", "both", "both", "low", "high"]))
    return (None if shape == "high" else low, None if shape == "low" else high)


@st.composite
def boxes(draw: st.DrawFn) -> ReplayBox:
    keys = {"k": draw(st.sampled_from("ab"))} if draw(st.booleans()) else {}
    columns = draw(st.sampled_from([("x",), ("x",), ("y",), ("x", "y")] + ([()] if keys else [])))
    return ReplayBox(keys, {name: draw(ranges()) for name in columns})


@st.composite
def rules(draw: st.DrawFn) -> ReplayRule:
    return ReplayRule(
        draw(st.integers(1, 4)),
        tuple(draw(st.lists(boxes(), min_size=1, max_size=3))),
        frozenset(draw(st.lists(st.sampled_from(["inside", "enter", "exit", "cross"]), min_size=1, max_size=4))),
        draw(st.booleans()),
        draw(st.one_of(st.none(), st.integers(0, 30))),
        draw(st.sampled_from([True, True, True, False])),
    )


maybe = st.one_of(st.none(), coordinates, coordinates, coordinates)
rows = st.fixed_dictionaries(
    {
        "object": st.sampled_from([0, 1, 2, 2, None]),
        "time": st.sampled_from([0, 0, 1, 1, 2, 3, 5, -1, -4, None]),  # after the latest so far
        "sequence": st.one_of(st.none(), st.integers(0, 3)),
        "x": maybe,
        "y": maybe,
        "k": st.sampled_from(["a", "b", "c", None]),
    }
)
batches = st.lists(rows, max_size=8)
changes = st.one_of(
    st.tuples(st.just("put"), rules()),
    st.tuples(st.just("put"), rules()),
    st.tuples(st.just("remove"), st.integers(1, 4)),
    st.tuples(st.just("many"), st.tuples(st.lists(rules(), max_size=4), st.sets(st.integers(1, 4), max_size=2))),
    st.tuples(st.just("advance"), st.integers(-2, 8)),  # after the latest so far
)
scripts = st.lists(
    st.one_of(st.tuples(st.just("rows"), batches), st.tuples(st.just("rows"), batches), changes), max_size=14
)
kinds_of_objects = st.sampled_from(["integers", "far integers", "strings"])


def named(kind: str, number: int | None) -> Any:
    if number is None:
        return None
    return {"integers": number, "far integers": number * 2**50 - 2**60, "strings": f"vehicle {number}"}[kind]


class Pair:
    """A monitor and the replay, given the same and compared."""

    def __init__(self, kind: str, first: str, timeout: int | None, sequenced: bool, start: list[ReplayRule]) -> None:
        self.kind, self.first, self.timeout, self.sequenced = kind, first, timeout, sequenced
        self.replay = Replay(ATTRIBUTES, KEYS, first=first, timeout=timeout, sequenced=sequenced)
        given = Rules()
        for rule in [NOWHERE, *start]:
            if rule.id not in self.replay.rules:
                self.replay.add(rule)
                given.add(rule.id, rule.condition(), **options(rule))
        self.monitor = self.build(given)
        self.all: list[ReplayEvent] = []
        self.now = 0

    def build(self, rules: Rules) -> Monitor:
        return Monitor(
            rules,
            object="object",
            time="time",
            sequence="sequence" if self.sequenced else None,
            first=self.first,  # type: ignore[arg-type]
            timeout=None if self.timeout is None else timedelta(microseconds=self.timeout),
        )

    def play(self, action: str, argument: Any) -> None:
        if action == "rows":
            argument, self.now = timed(argument, self.now)
            expected = self.replay.update({**row, "object": named(self.kind, row["object"])} for row in argument)
            got = self.monitor.update(table_of(argument, self.kind))
        elif action == "advance":
            if not self.monitor._clock.type:
                return
            expected = self.replay.advance(self.now + argument)
            got = self.monitor.advance(EPOCH + timedelta(microseconds=self.now + argument))
            self.now = max(self.now, self.now + argument)
        elif action == "remove":
            if argument not in self.replay.rules:
                return
            expected, got = self.replay.remove(argument), self.monitor.remove(argument)
        elif action == "many":
            put = {rule.id: rule for rule in argument[0]}
            remove = [id for id in argument[1] if id in self.replay.rules and id not in put]
            expected = [event for id in remove for event in self.replay.remove(id)]
            given = Rules()
            for rule in put.values():
                expected += getattr(self.replay, "replace" if rule.id in self.replay.rules else "add")(rule)
                given.add(rule.id, rule.condition(), **options(rule))
            got = self.monitor.change(given, remove)
        else:
            verb = "replace" if argument.id in self.replay.rules else "add"
            expected = getattr(self.replay, verb)(argument)
            got = getattr(self.monitor, verb)(argument.id, argument.condition(), **options(argument))
        self.compare(events_of(got), expected)
        self.all += expected

    def compare(self, got: list[ReplayEvent], expected: list[ReplayEvent]) -> None:
        assert by_object(got) == by_object(expected)
        for id, rule in self.replay.rules.items():
            if rule.enabled:
                inside = self.monitor.inside(id)
                assert set(inside) == self.replay.inside(id)
                assert len(inside) == len(set(inside))
        counters = self.monitor.counters
        assert [counters[name] for name in ("rows", "late", "null")] == [
            self.replay.rows,
            self.replay.late,
            self.replay.null,
        ]


def timed(rows: list[Row], now: int) -> tuple[list[Row], int]:
    """The rows with times for the steps they were drawn with."""
    given = []
    for row in rows:
        time = None if row["time"] is None else now + row["time"]
        now = now if time is None else max(now, time)
        given.append({**row, "time": time})
    return given, now


def options(rule: ReplayRule) -> dict[str, Any]:
    expires = None if rule.expires is None else EPOCH + timedelta(microseconds=rule.expires)
    detect = ",".join(rule.detect)
    return {"detect": detect, "initial": rule.initial, "expires": expires, "enabled": rule.enabled}


def table_of(rows: list[Row], kind: str) -> Any:
    objects = pa.string() if kind == "strings" else pa.int64()
    return pa.table(
        {
            "object": pa.array([named(kind, row["object"]) for row in rows], objects),
            "time": pa.array([row["time"] for row in rows], pa.timestamp("us", tz="UTC")),
            "sequence": pa.array([row["sequence"] for row in rows], pa.int64()),
            "x": pa.array([row["x"] for row in rows], pa.float64()),
            "y": pa.array([row["y"] for row in rows], pa.float64()),
            "k": pa.array([row["k"] for row in rows], pa.string()),
        }
    )


def events_of(table: Any) -> list[ReplayEvent]:
    found = []
    for event in table.to_pylist():
        time = (event["time"] - EPOCH) // timedelta(microseconds=1)
        before = {name: event[f"{name}_before"] for name in ATTRIBUTES}
        after = {name: event[name] for name in ATTRIBUTES}
        found.append(
            ReplayEvent(
                event["rule_id"],
                event["rule_version"],
                event["object"],
                event["detect"],
                time,
                event["reason"],
                before,
                after,
                None,
                event["event_id"],
            )
        )
    return found


def by_object(events: list[ReplayEvent]) -> dict[Any, list[ReplayEvent]]:
    """Every object's events in their order; the sequence is only seen through the id."""
    grouped: dict[Any, list[ReplayEvent]] = {}
    for event in events:
        grouped.setdefault(event.object, []).append(event._replace(sequence=None))
    for own in grouped.values():
        # A change of a rule, and a clock marker, tell each object in no set order.
        if all(event.reason for event in own):
            own.sort(key=lambda event: (event.time, event.rule_id))
    return grouped


@settings(max_examples=250)
@given(
    scripts,
    kinds_of_objects,
    st.sampled_from(["enter", "silent"]),
    st.one_of(st.none(), st.integers(1, 12)),
    st.booleans(),
    st.lists(rules(), max_size=3),
)
def test_every_script_gives_the_events_of_the_replay(
    script: list[tuple[str, Any]], kind: str, first: str, timeout: int | None, sequenced: bool, start: list[ReplayRule]
) -> None:
    pair = Pair(kind, first, timeout, sequenced, start)
    for action, argument in script:
        pair.play(action, argument)
    assert sum(pair.monitor.counters["events"].values()) == len(pair.all)


def random_rule(rng: random.Random) -> ReplayRule:
    def some_range() -> tuple[float | None, float | None]:
        low, high = sorted(rng.sample([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0], 2))
        return (None if rng.random() < 0.1 else low, None if rng.random() < 0.1 else high)

    made = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        columns = rng.choice([("x",), ("y",), ("x", "y"), ("x", "y")])
        own = {name: some_range() for name in columns}
        if all(bounds == (None, None) for bounds in own.values()):
            own = {"x": (1.0, 2.0)}
        own = {name: bounds for name, bounds in own.items() if bounds != (None, None)}
        made.append(ReplayBox({"k": rng.choice("ab")} if rng.random() < 0.3 else {}, own))
    detect = frozenset(rng.sample(["inside", "enter", "exit", "cross"], rng.choice([1, 2, 3, 4, 4])))
    expires = rng.randrange(150) if rng.random() < 0.4 else None
    return ReplayRule(rng.randrange(1, 7), tuple(made), detect, rng.random() < 0.5, expires, rng.random() < 0.9)


def random_row(rng: random.Random) -> Row:
    def value() -> float | None:
        return None if rng.random() < 0.2 else rng.choice([0.0, 0.5, 1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 5.0])

    return {
        "object": rng.choice([0, 1, 2, 3, 3]),
        "time": rng.choice([0, 0, 0, 1, 1, 2, 4, -1, -3]),
        "sequence": rng.choice([None, 0, 0, 1]),
        "x": value(),
        "y": value(),
        "k": rng.choice(["a", "a", "b", "c", None]),
    }


@pytest.mark.parametrize("seed", range(60))
def test_long_runs_give_the_events_of_the_replay(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    start = [random_rule(rng) for _ in range(4)]
    kind = rng.choice(["integers", "far integers", "strings"])
    timeout = rng.choice([None, None, 3, 8])
    pair = Pair(kind, rng.choice(["enter", "silent"]), timeout, rng.random() < 0.3, start)
    for _ in range(50):
        action = rng.choice(["rows"] * 7 + ["put", "put", "remove", "many", "advance"])
        if action == "rows":
            pair.play(action, [random_row(rng) for _ in range(rng.randrange(1, 12))])
        else:
            several = [random_rule(rng) for _ in range(rng.randrange(6))], {rng.randrange(1, 7)}
            argument = {"put": random_rule(rng), "remove": rng.randrange(1, 7), "advance": rng.randrange(-2, 6)}
            pair.play(action, several if action == "many" else argument[action])


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_long_runs_of_simple_rules_give_the_events_of_the_replay(
    seed: int, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One box each that detects no inside: transitions come from the borders that moves pass."""
    rng = random.Random(seed)  # noqa: S311
    monkeypatch.setattr("fencepost.snapshot.structures._FEW", 0)
    monkeypatch.setattr("fencepost.snapshot.structures._SEARCH", 1e9)

    def simple() -> ReplayRule:
        boxes = iter(lambda: random_rule(rng).boxes[0], None)
        box = next(box for box in boxes if (len(box.ranges) > 1) == several)
        detect = frozenset(rng.sample(["enter", "exit", "cross"], rng.choice([1, 2, 3])))
        expires = rng.randrange(150) if rng.random() < 0.2 else None
        return ReplayRule(rng.randrange(1, 9), (box,), detect, rng.random() < 0.5, expires, rng.random() < 0.9)

    pair = Pair("integers", rng.choice(["enter", "silent"]), rng.choice([None, 6]), False, [simple() for _ in range(6)])
    for _ in range(40):
        action = rng.choice(["rows"] * 6 + ["put", "remove", "many"])
        changes = [simple() for _ in range(rng.randrange(4))], {rng.randrange(1, 9)}
        rows = [random_row(rng) for _ in range(rng.randrange(1, 12))]
        pair.play(action, {"rows": rows, "put": simple(), "remove": rng.randrange(1, 9), "many": changes}[action])
    assert pair.monitor._layers.snapshot().has_borders


def test_long_runs_meet_every_kind_and_reason() -> None:
    seen = set()
    for seed in range(12):
        rng = random.Random(seed)  # noqa: S311
        pair = Pair("integers", "enter", 6, False, [random_rule(rng) for _ in range(5)])
        for _ in range(60):
            action = rng.choice(["rows"] * 5 + ["put", "put", "remove"])
            rows = [random_row(rng) for _ in range(8)]
            argument = {"put": random_rule(rng), "remove": rng.randrange(1, 7), "rows": rows}
            pair.play(action, argument[action])
        seen |= {(event.detect, event.reason) for event in pair.all}
    assert {reason for kind, reason in seen if kind == "exit"} == {
        None, "removed", "paused", "expired", "edited", "timeout",
    }  # fmt: skip
    assert {("enter", None), ("enter", "initial"), ("inside", None), ("cross", None)} <= seen


@settings(max_examples=300)
@given(
    st.integers(2, 3).flatmap(lambda d: st.tuples(*[st.tuples(st.integers(0, 3), st.integers(1, 3))] * d)),
    st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1 / 3, 1e-310])] * 3), min_size=8),
)
def test_a_straight_line_crosses_what_it_meets(box: tuple[tuple[int, int], ...], path: list[tuple[float, ...]]) -> None:
    names = ("x", "y", "z")[: len(box)]
    ranges: dict[str, Range] = {
        name: (float(low), float(low + size)) for name, (low, size) in zip(names, box, strict=True)
    }
    rule = ReplayRule(1, (ReplayBox({}, ranges),), frozenset(["enter", "exit", "cross"]))
    replay = Replay(names, (), time_tag="i")
    replay.add(rule)
    given = Rules()
    given.add(1, rule.condition(), detect="enter,exit,cross")
    rows = [{"object": 1, "time": t, **dict(zip(names, p, strict=False))} for t, p in enumerate(path, start=1)]
    events = Monitor(given, object="object").update(pa.Table.from_pylist(rows))
    expected = [(e.detect, e.time, e.event_id) for e in replay.update(rows)]
    assert [(e["detect"], e["time"], e["event_id"]) for e in events.to_pylist()] == expected


@settings(max_examples=150)
@given(
    st.lists(rows, max_size=24),
    st.lists(rules(), max_size=4),
    kinds_of_objects,
    st.one_of(st.none(), st.integers(1, 20)),
    st.sampled_from(["enter", "silent"]),
    st.data(),
)
def test_cutting_a_stream_in_order_changes_nothing(
    stream: list[Row],
    start: list[ReplayRule],
    kind: str,
    timeout: int | None,
    first: str,
    data: st.DataObject,
) -> None:
    stream = [dict(row, time=2 * place) for place, row in enumerate(stream)]  # no ties: values would order them
    whole, cut = Pair(kind, first, timeout, True, start), Pair(kind, first, timeout, True, start)
    together = whole.monitor.update(table_of(stream, kind)).to_pylist()
    pieces, at = [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, 4))
        pieces += cut.monitor.update(table_of(stream[at : at + size], kind)).to_pylist()
        at += size
    assert pieces == together
    assert cut.monitor.counters == whole.monitor.counters


@given(st.lists(rows, max_size=24), st.lists(rules(), max_size=4), st.data())
def test_cutting_a_stream_without_time_changes_nothing(
    stream: list[Row], start: list[ReplayRule], data: st.DataObject
) -> None:
    given = Rules()
    for rule in {rule.id: rule for rule in start}.values():
        given.add(rule.id, rule.condition(), **{**options(rule), "expires": None})
    whole, cut = Monitor(given, object="object"), Monitor(given, object="object")
    together = whole.update(table_of(stream, "integers")).to_pylist()
    pieces, at = [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, 4))
        pieces += cut.update(table_of(stream[at : at + size], "integers")).to_pylist()
        at += size
    assert pieces == together


@settings(max_examples=120)
@given(st.lists(rows, max_size=12), st.lists(rules(), max_size=4), kinds_of_objects, st.booleans(), st.booleans())
def test_update_one_gives_the_events_of_the_replay(
    stream: list[Row], start: list[ReplayRule], kind: str, sequenced: bool, plain: bool
) -> None:
    if plain:  # the rules that the short path is for
        start = [
            ReplayRule(r.id, r.boxes, r.detect - {"cross"} or frozenset(["exit"]), r.initial, None, r.enabled)
            for r in start
        ]
    pair = Pair(kind, "enter", None, sequenced, start)
    for row in timed(stream, 0)[0]:
        object, time = named(kind, row["object"]), row["time"]
        values = {name: row[name] for name in ("x", "y", "k") if row[name] is not None or row["sequence"] != 2}
        if sequenced:
            values["sequence"] = row["sequence"]
        at = None if time is None else EPOCH + timedelta(microseconds=time)
        expected = pair.replay.update([{**row, "object": object}])
        got = pair.monitor.update_one(object, at, **values)
        table = pa.Table.from_pylist([dict(zip(pair.monitor._schema().names, event, strict=True)) for event in got])
        pair.compare(events_of(table), expected)


@settings(max_examples=80)
@given(scripts, kinds_of_objects, st.one_of(st.none(), st.integers(1, 12)), st.lists(rules(), max_size=3), st.data())
def test_saving_and_restoring_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[str, Any]],
    kind: str,
    timeout: int | None,
    start: list[ReplayRule],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("state") / "monitor.arrow"
    pair = Pair(kind, "enter", timeout, False, start)
    stop = data.draw(st.integers(0, len(script)))
    for action, argument in script[:stop]:
        pair.play(action, argument)
    pair.monitor.save(path)
    same = Rules.from_dicts(
        {"id": rule.id, "condition": rule.condition(), "version": rule.version, **options(rule)}
        for rule in pair.replay.rules.values()
    )
    pair.monitor = pair.build(same)
    pair.monitor.restore(path)
    for action, argument in script[stop:]:
        pair.play(action, argument)


def test_every_enter_has_its_exit_over_a_long_run() -> None:
    rng = np.random.default_rng(4)
    start = [
        ReplayRule(i, (ReplayBox({}, {"x": (lo, lo + 3.0)}),), frozenset(["enter", "exit"]), True)
        for i, lo in enumerate(rng.uniform(0, 20, 30).tolist(), start=1)
    ]
    pair = Pair("integers", "enter", None, False, start)
    inside: dict[tuple[Any, int], int] = {}
    for step in range(60):
        count = int(rng.integers(1, 20))
        batch = [
            {"object": int(o), "time": 1, "sequence": None, "x": float(x), "y": None, "k": None}
            for o, x in zip(rng.integers(0, 8, count), rng.uniform(0, 23, count), strict=True)
        ]
        pair.play("rows", batch)
        moved = ReplayRule(
            step % 30 + 1, (ReplayBox({}, {"x": (step % 20, step % 20 + 4.0)}),), frozenset(["enter", "exit"]), True
        )
        pair.play("put", moved)
    for id in list(pair.replay.rules):
        pair.play("remove", id)
    for event in pair.all:
        change = {"enter": 1, "exit": -1}[event.detect]
        inside[event.object, event.rule_id] = inside.get((event.object, event.rule_id), 0) + change
        assert inside[event.object, event.rule_id] in (0, 1)
    assert not any(inside.values())
    assert len(pair.all) > 500


# -- by example ---------------------------------------------------------------------------------------------


def monitor_of(*conditions: str, **settings: Any) -> Monitor:
    given = Rules()
    for id, condition in enumerate(conditions, start=1):
        given.add(id, condition, detect="inside,enter,exit,cross")
    return Monitor(given, **{"object": "vehicle", "time": "ts", **settings})


def told(events: Any) -> list[tuple[Any, ...]]:
    return [(e["object"], e["rule_id"], e["detect"], e["time"], e["reason"]) for e in events.to_pylist()]


def test_one_row_tells_exits_then_crosses_then_enters_then_insides() -> None:
    monitor = monitor_of("x >= 5", "x >= 0 AND x < 1", "x >= 2 AND x < 3", "x >= 4")
    monitor.update({"vehicle": [7], "ts": [1], "x": [0.5]})
    events = told(monitor.update({"vehicle": [7], "ts": [2], "x": [6.0]}))
    assert [(kind, id) for _, id, kind, _, _ in events] == [
        ("exit", 2),
        ("cross", 3),
        ("enter", 1),
        ("enter", 4),
        ("inside", 1),
        ("inside", 4),
    ]


def test_the_event_table_has_the_schema_of_the_design() -> None:
    monitor = monitor_of("symbol = 'IBM' AND price >= 40 AND volume > 5", object="symbol")
    ticks = {"symbol": ["IBM"], "ts": [datetime(2026, 1, 1, tzinfo=UTC)], "price": [41], "volume": [None]}
    assert monitor.update(ticks).schema == pa.schema(
        [
            ("event_id", pa.string()),
            ("rule_id", pa.int64()),
            ("rule_version", pa.int64()),
            ("snapshot_version", pa.int64()),
            ("object", pa.string()),
            ("other", pa.null()),
            ("detect", pa.string()),
            ("time", pa.timestamp("us", tz="UTC")),
            ("reason", pa.string()),
            ("price", pa.float64()),
            ("price_before", pa.float64()),
            ("volume", pa.float64()),
            ("volume_before", pa.float64()),
        ]
    )


@pytest.mark.parametrize("kind", ["arrow", "batch", "pandas", "polars", "dict", "arrays", "chunked", "categorical"])
def test_every_kind_of_table_is_taken(kind: str) -> None:
    data = {"vehicle": ["a", "b"], "ts": [1, 2], "x": [1.5, 0.0], "k": ["u", "u"]}
    table = pa.table(data)
    given: Any = {
        "arrow": table,
        "batch": table.to_batches()[0],
        "pandas": pd.DataFrame(data),
        "polars": pl.DataFrame(data),
        "dict": data,
        "arrays": {name: np.array(values) for name, values in data.items()},
        "chunked": pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        "categorical": pd.DataFrame(data).astype({"vehicle": "category", "k": "category"}),
    }[kind]
    monitor = monitor_of("x >= 1 AND k = 'u'")
    assert told(monitor.update(given))[0] == ("a", 1, "enter", 1, None)


def test_without_time_rows_are_counted_per_object() -> None:
    monitor = monitor_of("x >= 1", time=None)
    events = monitor.update({"vehicle": [7, 8, 7, 7], "x": [0.0, 1.0, None, 1.0]})
    assert [event for event in told(events) if event[2] == "enter"] == [
        (8, 1, "enter", 1, None),
        (7, 1, "enter", 2, None),
    ]
    assert told(monitor.update({"vehicle": [7], "x": [0.0]})) == [(7, 1, "exit", 3, None)]


def test_nan_null_and_absent_keys_keep_the_last_known_value() -> None:
    monitor = monitor_of("x >= 1 AND y >= 1 AND k = 'u'")
    monitor.update({"vehicle": [7], "ts": [1], "x": [2.0], "y": [math.nan], "k": ["u"]})
    assert monitor.inside(1) == []
    entered = monitor.update({"vehicle": [7], "ts": [2], "x": [math.nan], "y": [3.0], "k": [None]})
    assert told(entered)[0] == (7, 1, "enter", 2, None)
    event = entered.to_pylist()[0]
    assert [event[name] for name in ("x_before", "x", "y_before", "y")] == [2.0, 2.0, None, 3.0]
    ignored = monitor.update({"vehicle": [7], "ts": [9], "x": [None], "y": [None], "k": [None]})
    assert len(ignored) == 0
    assert monitor.counters == {
        "rows": 3,
        "late": 0,
        "null": 1,
        "events": {"inside": 1, "enter": 1, "exit": 0, "cross": 0},
    }
    assert told(monitor.update({"vehicle": [7], "ts": [3], "x": [0.0], "y": [3.0], "k": ["u"]})) == [
        (7, 1, "exit", 3, None)  # the ignored row did not move the clock
    ]


def test_late_rows_are_counted_and_offered() -> None:
    late: list[Any] = []
    monitor = monitor_of("x >= 1", late=late.append)
    monitor.update({"vehicle": [7, 7], "ts": [5, 4], "x": [1.0, 0.0]})
    assert monitor.inside(1) == [7]
    assert len(monitor.update({"vehicle": [7, 7], "ts": [4, 5], "x": [0.0, 2.0]})) == 1  # an equal time is not late
    assert monitor.update_one(7, 3, x=0.0) == []
    assert [table.to_pylist() for table in late] == [
        [{"vehicle": 7, "ts": 4, "x": 0.0}],
        [{"vehicle": 7, "ts": 3, "x": 0.0}],
    ]
    assert monitor.counters["late"] == 2


def test_a_first_row_can_be_silent_but_its_exit_is_not() -> None:
    monitor = monitor_of("x >= 1", first="silent")
    assert [kind for _, _, kind, _, _ in told(monitor.update({"vehicle": [7], "ts": [1], "x": [1.0]}))] == ["inside"]
    assert told(monitor.update({"vehicle": [7], "ts": [2], "x": [0.0]})) == [(7, 1, "exit", 2, None)]


def test_ties_go_by_sequence_then_by_values_whatever_order_rows_come_in() -> None:
    rows = [
        {"vehicle": 7, "ts": 1, "part": 0, "offset": 2, "x": 2.0, "k": "b"},
        {"vehicle": 7, "ts": 1, "part": 0, "offset": 1, "x": 0.0, "k": "a"},
        {"vehicle": 7, "ts": 1, "part": 0, "offset": 2, "x": 0.0, "k": "c"},
        {"vehicle": 7, "ts": 1, "part": 0, "offset": 2, "x": 0.0, "k": "a"},
    ]
    answers = []
    for order in (rows, rows[::-1], rows[1:] + rows[:1]):
        monitor = monitor_of("x >= 1", "k = 'c'", sequence=["part", "offset"])
        answers.append(monitor.update(pa.Table.from_pylist(order)).to_pylist())
    assert answers[0] == answers[1] == answers[2]
    assert [(e["rule_id"], e["detect"]) for e in answers[0]] == [
        (2, "enter"),
        (2, "inside"),
        (2, "exit"),
        (1, "enter"),
        (1, "inside"),
    ]


def test_single_rows_give_back_the_room_of_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.monitor.single._TIDY_EVERY", 100)
    monitor = monitor_of("k = 'u'", time=None)
    for step in range(3000):
        monitor.update_one(7, k=f"{step}")
    assert len(monitor._state.strings["k"]) < 1200
    assert [event[6] for event in monitor.update_one(7, k="u")] == ["enter", "inside"]


def test_a_restored_monitor_forgets_what_it_held(tmp_path: Path) -> None:
    monitor, other = monitor_of("x >= 1", time=None), monitor_of("x >= 1", time=None)
    monitor.update({"vehicle": ["a"], "x": [1.0]})
    monitor.save(tmp_path / "state")
    other.update({"vehicle": ["b"], "x": [1.0]})
    assert other.inside(1) == ["b"]
    other.restore(tmp_path / "state")
    assert other.inside(1) == ["a"]
    assert other.counters == monitor.counters


def test_nothing_comes_of_nothing() -> None:
    monitor = monitor_of("x >= 1 AND k = 'u'")
    nothing = pa.table({"vehicle": pa.nulls(0), "ts": pa.nulls(0), "x": pa.nulls(0), "k": pa.nulls(0)})
    absent = {"vehicle": [7, None], "ts": [None, 1], "x": [1.0, 1.0], "k": ["u", "u"]}
    for batch in (nothing, {name: [None] for name in ("vehicle", "ts", "x", "k")}, absent):
        assert monitor.update(batch).num_rows == 0
    assert monitor.counters["null"] == monitor.counters["rows"] == 3
    assert monitor.inside(1) == []
    assert Monitor(Rules(), object="vehicle").update({"vehicle": [7]}).num_rows == 0


def test_a_rule_that_always_holds_and_one_on_keys_alone() -> None:
    monitor = monitor_of("x >= 1 OR x < 1", "k = 'u'", time=None)
    monitor.update({"vehicle": [7, 8], "x": [0.0, None], "k": [None, "u"]})
    assert (monitor.inside(1), monitor.inside(2)) == ([7], [8])
    assert monitor.rules_at() == []
    assert monitor.rules_at(X=5, k="u") == [1, 2]


def test_bands_are_left_to_the_band_join() -> None:
    given = Rules()
    given.add(1, "left.price - right.price BETWEEN -1 AND 1")
    given.add(2, "x >= 1", detect="enter")
    monitor = Monitor(given, object="vehicle")
    assert monitor.update({"vehicle": [7], "x": [1.0]})["rule_id"].to_pylist() == [2]


def test_the_key_of_an_object_may_change() -> None:
    monitor = monitor_of("k = 'u' AND x >= 1", "k = 'v' AND x >= 1")
    monitor.update({"vehicle": [7], "ts": [1], "x": [1.0], "k": ["u"]})
    moved = told(monitor.update({"vehicle": [7], "ts": [2], "x": [1.0], "k": ["v"]}))
    assert [(id, kind) for _, id, kind, _, _ in moved] == [(1, "exit"), (2, "enter"), (2, "inside")]


def test_a_rule_added_later_knows_keys_that_no_rule_had_mentioned() -> None:
    monitor = monitor_of("k = 'u'")
    monitor.update({"vehicle": [7, 8], "ts": [1, 1], "k": ["v", "u"]})
    assert told(monitor.add(2, "k = 'v'", detect="enter", initial=True)) == [(7, 2, "enter", 1, "initial")]
    assert monitor.inside(2) == [7]
    assert monitor.rules_at(k="v") == [2]


def test_a_rule_may_bring_a_new_column() -> None:
    monitor = monitor_of("x >= 1")
    monitor.update({"vehicle": [7], "ts": [1], "x": [1.0]})
    monitor.add(2, "day >= DATE '2026-01-01' AND X < 9", detect="enter")
    assert monitor.inside(2) == []
    later = {"vehicle": [7], "ts": [2], "x": [1.0], "day": [date(2026, 1, 2)]}
    assert ("enter", 2) in [(kind, id) for _, id, kind, _, _ in told(monitor.update(later))]
    assert monitor._schema().field("day").type == pa.date32()


def test_changes_tell_reasons_and_versions() -> None:
    monitor = monitor_of("x >= 1")
    monitor.update({"vehicle": [7, 8], "ts": [1, 2], "x": [1.0, 5.0]})
    edited = monitor.replace(1, "x >= 2", detect="enter,exit")
    assert told(edited) == [(7, 1, "exit", 1, "edited")]
    assert edited["rule_version"].to_pylist() == [1]
    paused = monitor.replace(1, "x >= 2", detect="enter,exit", enabled=False)
    assert told(paused) == [(8, 1, "exit", 2, "paused")]
    assert paused["rule_version"].to_pylist() == [2]
    assert told(monitor.replace(1, "x >= 0", detect="enter,exit")) == []  # newly inside, silently
    assert sorted(monitor.inside(1)) == [7, 8]
    removed = monitor.remove(1)
    assert told(removed) == [(7, 1, "exit", 1, "removed"), (8, 1, "exit", 2, "removed")]
    assert removed["rule_version"].to_pylist() == [4, 4]
    back = monitor.add(1, "x >= 0", detect="enter", initial=True)
    assert back["rule_version"].to_pylist() == [5, 5]


def test_following_published_versions_tells_what_changed(tmp_path: Path) -> None:
    rules = Rules()
    for id in range(40):
        rules.add(id, f"x >= {id} AND x < {id + 2}", detect="enter,exit", initial=id == 5)
    directory = VersionDirectory(tmp_path)
    rules.publish(tmp_path)
    monitor = Monitor(directory.load(), object="object")
    monitor.update({"object": ["a", "b"], "x": [5.5, 20.5]})
    rules.remove(4)
    rules.replace(5, "x >= 5 AND x < 6.5", detect="enter,exit")
    rules.replace(19, "x > 100", detect="enter,exit")
    rules.replace(20, "x > 0", detect="enter,exit", enabled=False)
    rules.add(50, "x < 6", detect="enter,exit", initial=True)
    rules.publish(tmp_path)
    events = monitor.follow(directory.load())
    assert [(e["rule_id"], e["object"], e["detect"], e["reason"], e["rule_version"]) for e in events.to_pylist()] == [
        (4, "a", "exit", "removed", 1),
        (19, "b", "exit", "edited", 1),
        (20, "b", "exit", "paused", 1),
        (50, "a", "enter", "initial", 1),
    ]
    assert set(events["snapshot_version"].to_pylist()) == {2}
    assert monitor.follow(directory.load()).num_rows == 0
    assert monitor.inside(5) == ["a"]
    monitor.replace(20, "x > 0", detect="enter,exit")
    assert told(monitor.update({"object": ["b"], "x": [-1.0]}))[0][:3] == ("b", 20, "exit")
    monitor.add(4, "x > 0")
    assert monitor.update({"object": ["a"], "x": [5.6]})["rule_version"].to_pylist() == [2], "ids go on counting"
    other = Rules()
    other.add(1, "x > DATE '2020-01-01'")
    with pytest.raises(FencepostError, match=r"got rules that have x as date; expected double, as the rules until now"):
        monitor.follow(other.compile())


def test_rules_paused_from_the_start_can_be_enabled() -> None:
    given = Rules()
    given.add(1, "x >= 1", detect="enter", enabled=False)
    monitor = Monitor(given, object="vehicle")
    monitor.replace(1, "x >= 1", detect="enter")
    assert [e["rule_version"] for e in monitor.update({"vehicle": [7], "x": [1.0]}).to_pylist()] == [2]


def test_the_rules_given_stay_as_they_are() -> None:
    given = Rules()
    given.add(1, "x >= 1")
    for rules in (given, given.compile()):
        monitor = Monitor(rules, object="vehicle")
        monitor.add(2, "x >= 2")
        monitor.remove(1)
        assert monitor.rules_at(x=3) == [2]
    assert [rule.id for rule in given] == [1]


def test_a_rule_expires_on_the_clock_of_each_object() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    given = Rules()
    given.add(1, "x >= 1", detect="enter,exit", expires=noon)
    monitor = Monitor(given, object="vehicle", time="ts")
    early, late = noon - timedelta(hours=1), noon + timedelta(hours=1)
    monitor.update({"vehicle": [7, 8, 9], "ts": [early] * 3, "x": [1.0, 1.0, 1.0]})
    assert told(monitor.update({"vehicle": [7, 6], "ts": [late, late], "x": [1.0, 1.0]})) == [
        (7, 1, "exit", noon, "expired")
    ]
    assert monitor.inside(1) == [8, 9]
    assert told(monitor.advance(noon)) != []
    assert monitor.inside(1) == []
    assert told(monitor.update({"vehicle": [8], "ts": [early], "x": [1.0]})) == []


def test_a_silent_object_times_out_and_begins_anew() -> None:
    monitor = monitor_of("x >= 1", timeout=10)
    monitor.update({"vehicle": [7, 8], "ts": [1, 5], "x": [1.0, 1.0]})
    assert told(monitor.update({"vehicle": [7], "ts": [11], "x": [2.0]}))[:2] == [
        (7, 1, "exit", 11, "timeout"),
        (7, 1, "enter", 11, None),
    ]
    assert told(monitor.advance(15)) == [(8, 1, "exit", 15, "timeout")]
    assert monitor.inside(1) == [7]
    assert told(monitor.advance(14)) == []


def test_objects_and_strings_that_went_give_back_their_room() -> None:
    monitor = monitor_of("k = 'u'", timeout=1)
    for step in range(6):
        names = [f"{step} {i}" for i in range(1000)]
        monitor.update({"vehicle": names, "ts": [step] * 1000, "k": names})
        monitor.advance(step + 1)
    assert len(monitor._state.objects) < 3000
    assert len(monitor._state.strings["k"]) < 3000
    assert told(monitor.update({"vehicle": ["last"], "ts": [9], "k": ["u"]}))[0] == ("last", 1, "enter", 9, None)


@pytest.mark.parametrize(
    ("condition", "path"),
    [
        ("n >= 10 AND n <= 12", [9, 13, 11, 9]),
        ("d >= DATE '2026-01-02' AND d < DATE '2026-01-04'", [date(2026, 1, 1), date(2026, 1, 4)]),
        ("c >= 1.25 AND c <= 1.30", [1.0, 2.0]),
        ("b = TRUE", [False, True]),
    ],
)
def test_attributes_of_other_types(condition: str, path: list[Any]) -> None:
    given = Rules()
    given.add(1, condition, detect="enter,exit,cross")
    schema = {"n": "bigint", "d": "date", "c": "decimal(9,2)", "b": "boolean"}
    name = condition[0]
    monitor = Monitor(given, object="vehicle", schema=schema)
    events = monitor.update({"vehicle": [7] * len(path), name: path}).to_pylist()
    expected = {"n": ["cross", "enter", "exit"], "d": ["cross"], "c": ["cross"], "b": ["enter"]}[name]
    assert [event["detect"] for event in events] == expected
    one_by_one = Monitor(given, object="vehicle", schema=schema)
    tuples = [event for value in path for event in one_by_one.update_one(7, **{name: value})]
    assert tuples == [tuple(event.values()) for event in events]


def test_an_infinite_coordinate_has_no_straight_line() -> None:
    monitor = monitor_of("x >= 1 AND x < 2 AND y >= 1 AND y < 2", "x >= 1 AND x < 2", time=None)
    path = {"vehicle": [7, 7], "x": [-math.inf, math.inf], "y": [1.5, 1.5]}
    assert told(monitor.update(path)) == [(7, 2, "cross", 2, None)]


def test_lines_far_from_zero_are_decided_exactly() -> None:
    monitor = monitor_of("x >= 1e308 AND x < 1.5e308 AND y >= 0 AND y < 1", time=None)
    path = {"vehicle": [7, 7], "x": [-1.7e308, 1.7e308], "y": [-3.25, 1.0]}
    assert told(monitor.update(path)) == [(7, 1, "cross", 2, None)]


def test_why_shows_the_boxes_and_the_values() -> None:
    monitor = monitor_of("symbol = 'IBM' AND price BETWEEN 40 AND 50 OR price > 100", object="symbol")
    monitor.update({"symbol": ["IBM"], "ts": [1], "price": [39.0]})
    event = monitor.update_one("IBM", 2, price=41.5)[0]
    reason = monitor.why(event)
    assert str(reason) == (
        "IBM: enter of rule 1 (version 1)\n"
        "  price: 39.0 -> 41.5\n"
        "  100.00000000000001 <= price: neither\n"
        "  symbol = 'IBM' and 40.0 <= price <= 50.0: after"
    )
    events = monitor.update({"symbol": ["IBM"], "ts": [3], "price": [55.0]})
    assert monitor.why(events).detect == "exit"
    told = monitor.why(events.to_pylist()[0])
    assert isinstance(told, Reason)
    assert told.boxes[1].held_before


def test_saved_state_is_refused_where_it_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "state.arrow"
    monitor = monitor_of("x >= 1")
    monitor.update({"vehicle": [7], "ts": [1], "x": [1.0]})
    monitor.save(path)
    assert refusal(lambda: monitor_of("x >= 1", time="other").restore(path)) == (
        f"got a Monitor with time='other'; expected time='ts', as in {path}. "
        "Build the Monitor with the settings of the one that saved."
    )
    assert refusal(lambda: monitor_of("x >= 1", "x >= 2").restore(path)) == (
        f"got a Monitor whose 2 rules, or their versions, differ from those of {path}; "
        "expected the same 1 rules in the same versions. Build the Monitor from the rules of that time, restore, "
        "then change them with add, replace and remove."
    )
    assert refusal(lambda: monitor_of("x >= 1", schema={"x": "bigint"}).restore(path)) == (
        f"got x as bigint; expected double, as in {path}. Pass schema= to the Monitor with that type."
    )
    path.write_bytes(path.read_bytes()[:-9])
    assert "which is no saved state" in refusal(lambda: monitor_of("x >= 1").restore(path))
    table = pa.table({"x": [1]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert "which is no saved state" in refusal(lambda: monitor_of("x >= 1").restore(path))
    assert list(tmp_path.iterdir()) == [path]


def refusal(call: Any) -> str:
    with pytest.raises(FencepostError) as caught:
        call()
    return str(caught.value)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE = {"vehicle": [7], "ts": [1], "x": [1.0]}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: monitor_of("x >= 1", first="loud"),
            "got first='loud'; expected 'enter' or 'silent'. Use 'silent' to start on traffic that already runs.",
        ),
        (
            lambda: Monitor({}, object="vehicle"),  # type: ignore[arg-type]
            "got dict as rules; expected Rules or a Snapshot. Build them with Rules() and add().",
        ),
        (
            lambda: monitor_of("x >= 1", time=None, timeout=5),
            "got timeout=5 without time; expected a time column. Pass time=, the column to measure silence on.",
        ),
        (
            lambda: monitor_of("x >= 1", timeout=timedelta(0)),
            "got timeout=datetime.timedelta(0); expected more than zero. Pass None for no timeout.",
        ),
        (
            lambda: monitor_of("x >= 1", timeout="5 s"),
            "got timeout='5 s'; expected a timedelta or a whole number. Pass timedelta(minutes=5).",
        ),
        (
            lambda: monitor_of("x >= 1", timeout=timedelta(seconds=1)).update(ONE),
            "got timeout=datetime.timedelta(seconds=1) and ts as bigint; expected a timedelta for timestamps and "
            "dates, a whole number for integers. Pass the timeout in the unit of the time column.",
        ),
        (
            lambda: monitor_of("x >= 1", time=None).add(2, "x >= 2", expires=NOON),
            "got rule 2, which expires, without time; expected a time column. "
            "Pass time= to the Monitor: rules expire by event time.",
        ),
        (
            lambda: [m := monitor_of("x >= 1"), m.add(2, "x >= 2", expires=NOON), m.update(ONE)],
            "got rule 2, which expires, and ts as bigint; expected a time column of timestamps or dates. "
            "Convert the column to timestamps, or leave out the expiry.",
        ),
        (
            lambda: monitor_of("x >= 1", time=None).advance(5),
            "got a clock marker without time; expected a time column. Pass time= to the Monitor.",
        ),
        (
            lambda: monitor_of("x >= 1").advance(5),
            "got a clock marker 5 before any row; expected rows first, which decide the type of time. Update first.",
        ),
        (
            lambda: [m := monitor_of("x >= 1"), m.update(ONE), m.advance(None)],
            "got None as the time to advance to; expected a bigint. Pass an instant.",
        ),
        (
            lambda: monitor_of("x >= 1").add(1, "x >= 2"),
            "got rule 1 a second time; expected an id of its own. Use replace to edit a rule.",
        ),
        (
            lambda: monitor_of("x >= 1").replace(2, "x >= 2"),
            "got rule 2; expected the id of a rule that is here. Use add for a new rule.",
        ),
        (
            lambda: monitor_of("x >= 1").remove(2),
            "got rule 2; expected the id of a rule that is here. Use add for a new rule.",
        ),
        (
            lambda: monitor_of("x >= 1").remove("one"),  # type: ignore[arg-type]
            "got 'one' as the id of a rule; expected an integer of 64 bits. Number the rules.",
        ),
        (
            lambda: monitor_of("x >= 1").inside(2),
            "got rule 2; expected a rule that is in force. Add it, or enable it with replace.",
        ),
        (
            lambda: monitor_of("x >= 1").rules_at(z=2),
            "got a value for z; expected a column that the rules use: x. Leave it out.",
        ),
        (
            lambda: monitor_of("k = 'u'").rules_at(k=2),
            "got 2 for k; expected a string, since rules compare it with quoted strings. "
            "Convert it to a string in the same form that the rules use.",
        ),
        (
            lambda: monitor_of("x >= 1").update({"ts": [1], "x": [1.0]}),
            "got a table without the column vehicle; expected that column beside ts, x. "
            "Add the column, or rename the one that is meant.",
        ),
        (
            lambda: monitor_of("k = 'u'").update({"vehicle": [7], "ts": [1], "k": [1.0]}),
            "got column k of type double; expected strings, since rules compare it with quoted strings. "
            "Cast the column to a string in the same form that the rules use.",
        ),
        (
            lambda: monitor_of("x >= 1").update({**ONE, "vehicle": [[7]]}),
            "got objects of type list<item: int64>; expected strings, binary, integers, or any other type an "
            "attribute can have. Cast the object column, for example to string.",
        ),
        (
            lambda: monitor_of("x >= 1").update({**ONE, "ts": ["noon"]}),
            "got ts of type string as time; expected double, bigint, decimal(p,s) with p <= 18, timestamp, "
            "timestamp_ntz, date or boolean. Cast the column, for example to timestamp.",
        ),
        (
            lambda: monitor_of("x >= 1", sequence="s").update({**ONE, "s": ["first"]}),
            "got s of type string as a sequence; expected double, bigint, decimal(p,s) with p <= 18, timestamp, "
            "timestamp_ntz, date or boolean. Number the rows by an integer.",
        ),
        (
            lambda: [m := monitor_of("x >= 1"), m.update(ONE), m.update({**ONE, "vehicle": ["seven"]})],
            "got objects in vehicle of type string (Failed to parse string: 'seven' as a scalar of type int64); "
            "expected int64, as in the first batch. Cast the column.",
        ),
        (
            lambda: monitor_of("time >= 1"),
            "got an attribute 'time', which needs the event column 'time'; expected a column name that no other event "
            "column has. Rename time in the stream and in the rules.",
        ),
        (
            lambda: monitor_of("x >= 1").why({"x": 1}),
            "got a dict as an event; expected a dict or tuple with the columns of an event table, or a table of one "
            "row. Pass for example events.to_pylist()[0].",
        ),
        (
            lambda: monitor_of("x >= 1").why(pa.table({"rule_id": [1, 2]})),
            "got a table of 2 rows as an event; expected a dict or tuple with the columns of an event table, or a "
            "table of one row. Pass for example events.to_pylist()[0].",
        ),
        (
            lambda: [
                m := monitor_of("x >= 1"),
                e := m.update(ONE).to_pylist()[0],
                m.replace(1, "x >= 2"),
                m.why(e),
            ],
            "got an event of version 1 of rule 1; expected version 2, the one in force. "
            "Ask a Monitor that has the rule as it was.",
        ),
    ],
)
def test_every_refusal_says_what_to_do(call: Any, message: str) -> None:
    assert refusal(call) == message


def test_a_refused_batch_or_change_leaves_no_trace() -> None:
    monitor = monitor_of("x >= 1")
    monitor.update(ONE)
    before = monitor.counters
    for call in (
        lambda: monitor.update({**ONE, "x": ["one"]}),
        lambda: monitor.update({"vehicle": [8], "ts": ["noon"], "x": [1.0]}),
        lambda: monitor.add(2, "x >= "),
        lambda: monitor.add(2, "x = 'one'"),
        lambda: monitor.add(2, "detect > 5"),
        lambda: monitor.replace(1, "x < y"),
    ):
        refusal(call)
    assert monitor.counters == before
    assert monitor.inside(1) == [7]
    assert monitor.rules_at(x=3.0) == [1]
    assert told(monitor.update({"vehicle": [7], "ts": [2], "x": [0.0]})) == [(7, 1, "exit", 2, None)]
