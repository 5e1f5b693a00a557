"""Rules that are added, edited, paused and removed while objects move."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.published import VersionDirectory
from fencepost.rules import Rules
from tests.monitor.examples import monitor_of, summarize


def test_a_rule_added_later_knows_keys_that_no_rule_had_mentioned() -> None:
    monitor = monitor_of("k = 'u'")
    monitor.update({"vehicle": [7, 8], "ts": [1, 1], "k": ["v", "u"]})
    assert summarize(monitor.add(2, "k = 'v'", detect="enter", initial=True)) == [(7, 2, "enter", 1, "initial")]
    assert monitor.inside(2) == [7]
    assert monitor.rules_at(k="v") == [2]


def test_single_rows_need_no_table_once_the_last_rule_that_detects_cross_is_gone() -> None:
    rules = Rules()
    for id in range(50):
        rules.add(id, f"x >= {id} AND x < {id + 1}", detect="cross" if id == 7 else "enter,exit")
    monitor = Monitor(rules, object="vehicle")
    assert [event[1] for x in (6.5, 8.5) for event in monitor.update_one(1, x=x)] == [6, 6, 7, 8]
    assert not monitor._watch.is_plain()
    monitor.remove(7)
    assert [event[1] for event in monitor.update_one(1, x=6.5)] == [8, 6]
    assert monitor._watch.is_plain()
    monitor.add(7, "x >= 7 AND x < 8", detect="cross")
    assert [event[1] for event in monitor.update_one(1, x=8.5)] == [6, 7, 8]
    assert not monitor._watch.is_plain()


def test_a_rule_may_bring_a_new_column() -> None:
    monitor = monitor_of("x >= 1")
    monitor.update({"vehicle": [7], "ts": [1], "x": [1.0]})
    with pytest.warns(UserWarning, match="Nothing is known yet about the column day of the objects that are here"):
        monitor.add(2, "day >= DATE '2026-01-01' AND X < 9", detect="enter")
    assert monitor.inside(2) == []
    later = {"vehicle": [7], "ts": [2], "x": [1.0], "day": [date(2026, 1, 2)]}
    events = monitor.update(later)
    assert ("enter", 2) in [(kind, id) for _, id, kind, _, _ in summarize(events)]
    assert events.schema.field("day").type == pa.date32()


def test_changes_tell_reasons_and_versions() -> None:
    monitor = monitor_of("x >= 1")
    monitor.update({"vehicle": [7, 8], "ts": [1, 2], "x": [1.0, 5.0]})
    edited = monitor.replace(1, "x >= 2", detect="enter,exit")
    assert summarize(edited) == [(7, 1, "exit", 1, "edited")]
    assert edited["rule_version"].to_pylist() == [1]
    paused = monitor.replace(1, "x >= 2", detect="enter,exit", enabled=False)
    assert summarize(paused) == [(8, 1, "exit", 2, "paused")]
    assert paused["rule_version"].to_pylist() == [2]
    assert summarize(monitor.replace(1, "x >= 0", detect="enter,exit")) == []  # newly inside, silently
    assert sorted(monitor.inside(1)) == [7, 8]
    removed = monitor.remove(1)
    assert summarize(removed) == [(7, 1, "exit", 1, "removed"), (8, 1, "exit", 2, "removed")]
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
    assert summarize(monitor.update({"object": ["b"], "x": [-1.0]}))[0][:3] == ("b", 20, "exit")
    monitor.add(4, "x > 0")
    assert monitor.update({"object": ["a"], "x": [5.6]})["rule_version"].to_pylist() == [2], "ids go on counting"
    other = Rules()
    other.add(1, "x > DATE '2020-01-01'")
    with pytest.raises(FencepostError, match=r"rules that have x as date; expected double, as the rules until now"):
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
