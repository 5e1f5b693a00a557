"""Monitor against the naive replay, whatever happens to it."""

import random
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.effort import examples, seeds
from tests.monitor.played import EPOCH, Row, options
from tests.monitor.scripts import (
    Pair,
    kinds_of_objects,
    named,
    random_row,
    random_rule,
    rows,
    rules,
    scripts,
    table_of,
    timed,
    venue_of,
)
from tests.replay import Range, Replay, ReplayBox, ReplayRule


@examples(250)
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


@pytest.mark.parametrize("seed", seeds(60))
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
@pytest.mark.parametrize("seed", seeds(20))
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
    assert pair.monitor._watch.rules.snapshot().has_borders


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


@examples(300)
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


def names_of(monitor: Monitor) -> list[str]:
    """The columns of events."""
    names: list[str] = monitor._emitter.schema(monitor._watch.subjects()).names
    return names


@examples(120)
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
        values["venue"] = venue = venue_of(row)
        if sequenced:
            values["sequence"] = row["sequence"]
        at = None if time is None else EPOCH + timedelta(microseconds=time)
        expected = pair.replay.update([{**row, "object": object, "venue": venue}])
        got = pair.monitor.update_one(object, at, **values)
        table = pa.Table.from_pylist([dict(zip(names_of(pair.monitor), event, strict=True)) for event in got])
        pair.check(table, expected)


@examples(150)
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
