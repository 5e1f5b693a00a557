"""Rules that come while objects are there and use columns that no rule used before."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from fencepost import Monitor, Rules

SCHEMA = {"x": "double", "y": "double", "zone": "string", "kind": "string"}
CONDITIONS: dict[str, Any] = {
    "x > 1": lambda v: v["x"] is not None and v["x"] > 1,
    "y > 1": lambda v: v["y"] is not None and v["y"] > 1,
    "zone = 'a'": lambda v: v["zone"] == "a",
    "kind = 'a' AND x > 1": lambda v: v["kind"] == "a" and v["x"] is not None and v["x"] > 1,
    "zone = 'b' OR y <= 1": lambda v: v["zone"] == "b" or (v["y"] is not None and v["y"] <= 1),
}
NUMBERS = st.sampled_from([None, 0.0, 1.0, 2.0])
TEXTS = st.sampled_from([None, "a", "b"])


class Model:
    """Objects and rules in plain Python: every value of the schema is remembered from the first row on."""

    def __init__(self) -> None:
        self.objects: dict[int, dict[str, Any]] = {}
        self.rules: dict[int, str] = {}

    def holds(self, id: int, values: dict[str, Any] | None) -> bool:
        return values is not None and bool(CONDITIONS[self.rules[id]](values))

    def move(self, object: int, row: dict[str, Any]) -> list[tuple[int, int, str]]:
        if all(value is None for value in row.values()):
            return []
        before = self.objects.get(object)
        known = before or dict.fromkeys(SCHEMA)
        after = {**known, **{name: value for name, value in row.items() if value is not None}}
        self.objects[object] = after
        changed = [(id, self.holds(id, before), self.holds(id, after)) for id in sorted(self.rules)]
        exits = [(object, id, "exit") for id, was, now in changed if was and not now]
        return exits + [(object, id, "enter") for id, was, now in changed if now and not was]

    def inside(self, id: int) -> list[int]:
        return sorted(object for object, values in self.objects.items() if self.holds(id, values))


def events_of(table: Any) -> list[tuple[int, int, str]]:
    return [(event["object"], event["rule_id"], event["detect"]) for event in table.to_pylist()]


class NewColumns(RuleBasedStateMachine):
    """A monitor with a declared schema whose first rule uses one column of it."""

    @initialize(by_kind=st.booleans())
    def start(self, by_kind: bool) -> None:
        self.model, self.time = Model(), 0
        self.model.rules[0] = "kind = 'a' AND x > 1" if by_kind else "x > 1"
        rules = Rules()
        rules.add(0, self.model.rules[0], detect="enter,exit")
        self.monitor = Monitor(rules, object="vehicle", time="ts", schema=SCHEMA)

    @rule(object=st.integers(0, 3), x=NUMBERS, y=NUMBERS, zone=TEXTS, kind=TEXTS, singly=st.booleans())
    def move(self, object: int, x: Any, y: Any, zone: Any, kind: Any, singly: bool) -> None:
        row = {"x": x, "y": y, "zone": zone, "kind": kind}
        expected = self.model.move(object, row)
        self.time += 1
        if singly:
            got = [(event[4], event[1], event[6]) for event in self.monitor.update_one(object, self.time, **row)]
        else:
            types = {"x": pa.float64(), "y": pa.float64(), "zone": pa.string(), "kind": pa.string()}
            columns = {name: pa.array([value], types[name]) for name, value in row.items()}
            got = events_of(self.monitor.update({"vehicle": [object], "ts": [self.time], **columns}))
        assert got == expected

    @rule(id=st.integers(0, 4), condition=st.sampled_from(sorted(CONDITIONS)), at_once=st.booleans())
    def put(self, id: int, condition: str, at_once: bool) -> None:
        was = self.model.inside(id) if id in self.model.rules else []
        known = id in self.model.rules
        self.model.rules[id] = condition
        left = sorted(set(was) - set(self.model.inside(id)))
        if at_once:
            rule_ = {"id": id, "condition": condition, "detect": "enter,exit"}
            events = self.monitor.change(Rules.from_dicts([rule_]))
        else:
            put = self.monitor.replace if known else self.monitor.add
            events = put(id, condition, detect="enter,exit")
        assert sorted(events_of(events)) == [(object, id, "exit") for object in left]
        assert sorted(self.monitor.inside(id)) == self.model.inside(id)


TestNewColumns = NewColumns.TestCase


def test_a_declared_key_column_is_known_to_a_rule_that_comes_later() -> None:
    rules = Rules()
    rules.add(1, "x > 1", detect="enter,exit")
    monitor = Monitor(rules, object="vehicle", time="ts", schema={"x": "double", "zone": "string"})
    monitor.update({"vehicle": [7], "ts": [1], "x": [2.0], "zone": ["a"]})
    assert monitor.add(2, "zone = 'a'", detect="enter,exit").num_rows == 0
    assert monitor.inside(2) == [7]
    events = monitor.update({"vehicle": [7], "ts": [2], "x": [2.0], "zone": ["b"]})
    assert events_of(events) == [(7, 2, "exit")]


def test_a_declared_column_may_be_missing_until_a_rule_uses_it() -> None:
    rules = Rules()
    rules.add(1, "x > 1", detect="enter,exit")
    monitor = Monitor(rules, object="vehicle", time="ts", schema={"x": "double", "zone": "string", "y": "double"})
    assert events_of(monitor.update({"vehicle": [7], "ts": [1], "x": [2.0]})) == [(7, 1, "enter")]
    assert events_of(monitor.update({"vehicle": [7], "ts": [2], "x": [0.0], "y": [3.0]})) == [(7, 1, "exit")]
    monitor.add(2, "y > 1", detect="enter,exit")
    assert monitor.inside(2) == [7]


def test_without_a_schema_a_new_column_is_said_to_be_unknown() -> None:
    rules = Rules()
    rules.add(1, "x > 1", detect="enter,exit")
    monitor = Monitor(rules, object="vehicle", time="ts")
    monitor.add(2, "zone = 'a'", detect="enter,exit")  # nobody is here yet, so nothing is unknown
    monitor.update({"vehicle": [7], "ts": [1], "x": [2.0], "zone": ["a"]})
    with pytest.warns(UserWarning, match="Nothing is known yet about the column kind of the objects that are here"):
        monitor.add(3, "kind = 'a'", detect="enter,exit")


def test_the_warning_points_at_the_caller() -> None:
    def monitor() -> Monitor:
        rules = Rules()
        rules.add(1, "x > 1")
        made = Monitor(rules, object="vehicle", time="ts")
        made.update({"vehicle": [7], "ts": [1], "x": [2.0]})
        return made

    changed, other = Rules(), Rules()
    changed.add(3, "kind = 'a'")
    other.add(3, "kind = 'a'", for_=5)
    calls: list[Callable[[Monitor], Any]] = [
        lambda monitor: monitor.add(3, "kind = 'a'"),
        lambda monitor: monitor.add(3, "kind = 'a'", detect="enter", for_=5),
        lambda monitor: monitor.change(changed),
        lambda monitor: monitor.follow(other.compile()),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match="Nothing is known yet") as caught:
            call(monitor())
        assert caught[0].filename == __file__


def test_columns_of_both_sides_of_bands_are_remembered() -> None:
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    schema = {"price": "double", "kind": "string"}
    monitor = Monitor(rules, object="venue", time="ts", schema=schema)
    rows = {"venue": [1], "ts": [1], "price": [5.0], "kind": ["bid"]}
    monitor.update(left=rows, right={**rows, "venue": [2]})
    monitor.add(2, "left.price - right.price BETWEEN -1 AND 1 AND left.kind = 'bid'", detect="enter,exit")
    assert monitor.inside(2) == [(1, 2)]
