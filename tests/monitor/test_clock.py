"""What time alone ends: rules that expire, objects that go silent."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.examples import monitor_of, summarize


def test_a_rule_expires_on_the_clock_of_each_object() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    given = Rules()
    given.add(1, "x >= 1", detect="enter,exit", expires=noon)
    monitor = Monitor(given, object="vehicle", time="ts")
    early, late = noon - timedelta(hours=1), noon + timedelta(hours=1)
    monitor.update({"vehicle": [7, 8, 9], "ts": [early] * 3, "x": [1.0, 1.0, 1.0]})
    assert summarize(monitor.update({"vehicle": [7, 6], "ts": [late, late], "x": [1.0, 1.0]})) == [
        (7, 1, "exit", noon, "expired")
    ]
    assert monitor.inside(1) == [8, 9]
    assert summarize(monitor.advance(noon)) != []
    assert monitor.inside(1) == []
    assert summarize(monitor.update({"vehicle": [8], "ts": [early], "x": [1.0]})) == []


def test_a_silent_object_times_out_and_begins_anew() -> None:
    monitor = monitor_of("x >= 1", timeout=10)
    monitor.update({"vehicle": [7, 8], "ts": [1, 5], "x": [1.0, 1.0]})
    assert summarize(monitor.update({"vehicle": [7], "ts": [11], "x": [2.0]}))[:2] == [
        (7, 1, "exit", 11, "timeout"),
        (7, 1, "enter", 11, None),
    ]
    assert summarize(monitor.advance(15)) == [(8, 1, "exit", 15, "timeout")]
    assert monitor.inside(1) == [7]
    assert summarize(monitor.advance(14)) == []


def test_objects_and_strings_that_went_give_back_their_room() -> None:
    monitor = monitor_of("k = 'u'", timeout=1)
    for step in range(6):
        names = [f"{step} {i}" for i in range(1000)]
        monitor.update({"vehicle": names, "ts": [step] * 1000, "k": names})
        monitor.advance(step + 1)
    assert len(monitor._watch.state.objects) < 3000
    assert len(monitor._watch.state.strings["k"]) < 3000
    assert summarize(monitor.update({"vehicle": ["last"], "ts": [9], "k": ["u"]}))[0] == ("last", 1, "enter", 9, None)


def test_the_longest_timeout_never_ends_anything() -> None:
    monitor = monitor_of("x > 1", timeout=timedelta.max)
    monitor.update({"vehicle": [7, 7], "ts": [datetime(2026, 1, 1), datetime(2027, 1, 1)], "x": [2.0, 3.0]})
    assert summarize(monitor.advance(datetime(2028, 1, 1))) == []
    monitor = monitor_of("x > 1", timeout=10)
    monitor.update({"vehicle": [7], "ts": [2**63 - 5], "x": [2.0]})
    assert summarize(monitor.advance(2**63 - 4)) == []
    monitor = monitor_of("x > 1", timeout=10)
    events = summarize(monitor.update({"vehicle": [7, 7], "ts": [-(2**63), 2**63 - 5], "x": [2.0, 0.0]}))
    assert events[2:] == [(7, 1, "exit", -(2**63) + 10, "timeout")]


def test_rules_that_expire_before_1970_are_told_of_many_moves() -> None:
    rules = Rules()
    for id in range(100):
        rules.add(id, f"x >= {id} AND x < {id + 1}", detect="enter,exit", expires=datetime(1965, 1, 1, tzinfo=UTC))
    monitor = Monitor(rules, object="vehicle", time="ts")
    begin = int(datetime(1960, 1, 1, tzinfo=UTC).timestamp()) * 10**6
    steps = np.arange(20_000)
    rows = {"vehicle": steps % 50, "ts": pa.array(begin + steps, pa.timestamp("us", "UTC")), "x": steps % 101 + 0.5}
    inside, count = np.asarray(rows["x"]) < 100, 0
    for vehicle in range(50):
        own = inside[vehicle::50]
        count += int(own[0]) + int(own[1:].sum()) + int(own[:-1].sum())  # every step changes the range
    assert monitor.update(rows).num_rows == count
