"""What time alone ends: rules that expire, objects that go silent."""

from datetime import UTC, datetime, timedelta

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.examples import monitor_of, told


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
