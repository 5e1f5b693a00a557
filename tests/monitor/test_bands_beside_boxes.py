"""Bands and rules about one stream in one monitor."""

from datetime import timedelta

import pytest

from fencepost.emitting.emitter import Emitter
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.snapshot import Table
from fencepost.watching.clock import Clock
from fencepost.watching.engine import Watch, WatchColumns
from fencepost.watching.rules_in_force import RulesInForce
from tests.monitor.band_examples import CLOSE, summarize
from tests.monitor.played import EPOCH


def test_boxes_and_bands_live_in_one_monitor() -> None:
    rules = Rules()
    rules.add(1, CLOSE, detect="enter,exit")
    rules.add(2, "price > 100", detect="enter,exit")
    monitor = Monitor(rules, object="id", time="ts")
    assert summarize(monitor.update({"id": ["a"], "ts": [1], "price": [101.0]})) == [("enter", "a", None, 1, None)]
    monitor.update(left={"id": ["a"], "ts": [1], "price": [5.0]}, right={"id": ["b"], "ts": [1], "price": [5.0]})
    both = monitor.change(remove=[1, 2])
    assert sorted(summarize(both), key=str) == [("exit", "a", "b", 1, "removed"), ("exit", "a", None, 1, "removed")]
    assert monitor.counters["events"]["exit"] == 2
    assert monitor.counters["rows"] == 3
    monitor.add(3, "price > 0", detect="exit")
    monitor.add(4, CLOSE, detect="exit")
    turned = monitor.replace(3, CLOSE, detect="exit")
    assert summarize(turned) == [("exit", "a", None, 1, "edited")]
    assert monitor.inside(3) == monitor.inside(4) == [("a", "b")]
    assert summarize(monitor.replace(4, "price > 0", detect="exit")) == [("exit", "a", "b", 1, "edited")]


def test_objects_of_boxes_and_left_rows_have_one_type() -> None:
    rules = Rules()
    rules.add(1, CLOSE)
    rules.add(2, "price > 100")
    one, other = (Monitor(rules, object="id") for _ in range(2))
    one.update({"id": ["a"], "price": [1.0]})
    with pytest.raises(FencepostError, match="left rows named by int64 beside objects of type string"):
        one.update(left={"id": [5], "price": [5.0]})
    other.update(left={"id": [5], "price": [5.0]}, right={"id": ["b"], "price": [5.0]})
    with pytest.raises(FencepostError, match="Objects of type string beside left rows named by int64"):
        other.update({"id": ["a"], "price": [1.0]})
    assert (one.counters["rows"], other.counters["rows"]) == (1, 2)


def test_an_operator_for_one_stream_leaves_bands_out() -> None:
    rules = Rules()
    rules.add(1, "left.volume - right.volume > 1")
    rules.add(2, "price > 100", detect="enter,exit")
    watch = Watch(RulesInForce(rules.compile(), None), WatchColumns("id", None, ()), Clock(None, None), silent=False)
    emitter = Emitter()
    step = watch.update([Table({"id": [1], "price": [101.0]})])
    names = emitter.emit(step).schema.names
    step.settle()
    step = watch.follow(watch.rules.follow(rules.compile()))
    assert emitter.emit(step).schema.names == names
    assert "volume" not in names


def test_both_kinds_end_by_one_marker() -> None:
    rules = Rules()
    rules.add(1, CLOSE, detect="exit", expires=EPOCH + timedelta(seconds=5))
    rules.add(2, "price > 0", detect="exit", expires=EPOCH + timedelta(seconds=5))
    monitor = Monitor(rules, object="id", time="ts")
    row = {"id": [1], "ts": [EPOCH], "price": [5.0]}
    monitor.update(row)
    monitor.update(left=row, right=row)
    events = monitor.advance(EPOCH + timedelta(seconds=6))
    assert [(e["rule_id"], e["other"], e["reason"]) for e in events.to_pylist()] == [
        (2, None, "expired"),
        (1, 1, "expired"),
    ]
    assert set(events["time"].to_pylist()) == {EPOCH + timedelta(seconds=5)}
    assert monitor.inside(1) == []
