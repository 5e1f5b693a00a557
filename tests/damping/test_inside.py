"""Who is inside: the condition holds, or `stay` for those that were inside, whatever waits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost as fp
from tests.damping.played import instant, monitor_of, table_of
from tests.damping.test_laws import ALL, Case, cases


def check_inside(monitor: fp.Monitor, rules: Any, objects: Any = "abc") -> None:
    """Compare what is inside by rule and by object with what each pair says of itself."""
    for rule in rules:
        by_pair = {object: monitor.why_not(rule, object).raw for object in objects}
        known = {object: monitor.object_state(object) for object in objects}
        expected = sorted(object for object, is_raw in by_pair.items() if is_raw)
        assert sorted(monitor.inside(rule)) == expected
        assert [object for object, state in known.items() if state and rule in state.inside] == expected


def test_stay_alone_is_inside() -> None:
    rules = fp.Rules()
    rules.add(7, "x BETWEEN 10 AND 20", detect="enter,exit", stay="x BETWEEN 8 AND 22")
    monitor = fp.Monitor(rules, object="o", time="t", schema={"x": "double"})
    monitor.update(table_of([("a", 0, 15.0), ("b", 0, 21.0)]))
    monitor.update(table_of([("a", 1, 21.0)]))
    assert monitor.inside(7) == ["a"]
    state = monitor.object_state("a")
    assert state is not None
    assert (state.inside, state.waiting) == ((7,), ())
    assert monitor.object_state("b").inside == ()  # type: ignore[union-attr]
    assert monitor.remove(7)["object"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("options", "values", "is_inside"),
    [
        ({"for_": "10 seconds"}, [15.0], True),
        ({"keep_firing_for": "10 seconds"}, [15.0, 25.0], False),
        ({"cooldown": "10 seconds"}, [15.0, 25.0, 15.0], True),
        ({"margin": {"x": 2}}, [15.0, 21.0], True),
        ({"margin": {"x": 2}}, [15.0, 25.0, 21.0], False),
    ],
)
def test_what_waits_does_not_matter(options: dict[str, Any], values: list[float], *, is_inside: bool) -> None:
    rules = fp.Rules()
    rules.add(7, "x BETWEEN 10 AND 20", detect="enter,exit", **options)
    monitor = fp.Monitor(rules, object="o", time="t", schema={"x": "double"})
    monitor.update(table_of([("a", time, x) for time, x in enumerate(values)]))
    assert monitor.inside(7) == ["a"] * is_inside
    check_inside(monitor, [7], ["a"])


def test_a_rule_that_time_ended_has_nobody_inside() -> None:
    rules = fp.Rules()
    rules.add(7, "x > 10", detect="enter,exit", expires=instant(5))
    monitor = fp.Monitor(rules, object="o", time="t", schema={"x": "double"})
    monitor.update(table_of([("a", 0, 15.0)]))
    assert monitor.object_state("a").inside == (7,)  # type: ignore[union-attr]
    monitor.advance(instant(5))
    assert monitor.inside(7) == []
    assert monitor.object_state("a").inside == ()  # type: ignore[union-attr]


@given(cases(), st.data())
def test_inside_is_what_each_pair_says(case: Case, data: st.DataObject) -> None:
    monitor = monitor_of(case.policies, ALL)
    for row in case.rows:
        monitor.update(table_of([row]))
        if data.draw(st.booleans()):
            monitor.advance(instant(row[1]))
        check_inside(monitor, case.policies)
