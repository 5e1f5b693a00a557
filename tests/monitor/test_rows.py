"""What single rows and batches do to a monitor, by example."""

import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.examples import monitor_of, summarize


def test_one_row_tells_exits_then_crosses_then_enters_then_insides() -> None:
    monitor = monitor_of("x >= 5", "x >= 0 AND x < 1", "x >= 2 AND x < 3", "x >= 4")
    monitor.update({"vehicle": [7], "ts": [1], "x": [0.5]})
    events = summarize(monitor.update({"vehicle": [7], "ts": [2], "x": [6.0]}))
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
            ("symbol", pa.string()),
            ("symbol_before", pa.string()),
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
    assert summarize(monitor.update(given))[0] == ("a", 1, "enter", 1, None)


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


def test_without_time_rows_are_counted_per_object() -> None:
    monitor = monitor_of("x >= 1", time=None)
    events = monitor.update({"vehicle": [7, 8, 7, 7], "x": [0.0, 1.0, None, 1.0]})
    assert [event for event in summarize(events) if event[2] == "enter"] == [
        (8, 1, "enter", 1, None),
        (7, 1, "enter", 2, None),
    ]
    assert summarize(monitor.update({"vehicle": [7], "x": [0.0]})) == [(7, 1, "exit", 3, None)]


def test_nan_null_and_absent_keys_keep_the_last_known_value() -> None:
    monitor = monitor_of("x >= 1 AND y >= 1 AND k = 'u'")
    monitor.update({"vehicle": [7], "ts": [1], "x": [2.0], "y": [math.nan], "k": ["u"]})
    assert monitor.inside(1) == []
    entered = monitor.update({"vehicle": [7], "ts": [2], "x": [math.nan], "y": [3.0], "k": [None]})
    assert summarize(entered)[0] == (7, 1, "enter", 2, None)
    event = entered.to_pylist()[0]
    assert [event[name] for name in ("x_before", "x", "y_before", "y")] == [2.0, 2.0, None, 3.0]
    ignored = monitor.update({"vehicle": [7], "ts": [9], "x": [None], "y": [None], "k": [None]})
    assert len(ignored) == 0
    assert monitor.counters == {
        "rows": 3,
        "late": 0,
        "null": 1,
        "damped": 0,
        "pending": 0,
        "ending": 0,
        "events": {"inside": 1, "enter": 1, "exit": 0, "cross": 0, "silent": 0},
    }
    assert summarize(monitor.update({"vehicle": [7], "ts": [3], "x": [0.0], "y": [3.0], "k": ["u"]})) == [
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
    assert [kind for _, _, kind, _, _ in summarize(monitor.update({"vehicle": [7], "ts": [1], "x": [1.0]}))] == [
        "inside"
    ]
    assert summarize(monitor.update({"vehicle": [7], "ts": [2], "x": [0.0]})) == [(7, 1, "exit", 2, None)]


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
    moved = summarize(monitor.update({"vehicle": [7], "ts": [2], "x": [1.0], "k": ["v"]}))
    assert [(id, kind) for _, id, kind, _, _ in moved] == [(1, "exit"), (2, "enter"), (2, "inside")]


def test_an_infinite_coordinate_has_no_straight_line() -> None:
    monitor = monitor_of("x >= 1 AND x < 2 AND y >= 1 AND y < 2", "x >= 1 AND x < 2", time=None)
    path = {"vehicle": [7, 7], "x": [-math.inf, math.inf], "y": [1.5, 1.5]}
    assert summarize(monitor.update(path)) == [(7, 2, "cross", 2, None)]


def test_lines_far_from_zero_are_decided_exactly() -> None:
    monitor = monitor_of("x >= 1e308 AND x < 1.5e308 AND y >= 0 AND y < 1", time=None)
    path = {"vehicle": [7, 7], "x": [-1.7e308, 1.7e308], "y": [-3.25, 1.0]}
    assert summarize(monitor.update(path)) == [(7, 1, "cross", 2, None)]


def test_single_rows_give_back_the_room_of_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.watching.engine._TIDY_EVERY", 100)
    monitor = monitor_of("k = 'u'", time=None)
    for step in range(3000):
        monitor.update_one(7, k=f"{step}")
    assert len(monitor._watch.state.strings["k"]) < 1200
    assert [event[6] for event in monitor.update_one(7, k="u")] == ["enter", "inside"]


def test_a_single_row_observes_its_object_and_its_time() -> None:
    rules = Rules()
    rules.add(1, "x > 1 AND ts >= 10 AND seq < 9", detect="enter,exit")  # no cross: single rows need no table
    schema = {"x": "double", "ts": "bigint", "seq": "bigint", "vehicle": "string"}
    batch, single = (Monitor(rules, object="vehicle", time="ts", sequence="seq", schema=schema) for _ in range(2))
    for monitor in (batch, single):
        monitor.update({"vehicle": ["a"], "ts": [1], "seq": [1], "x": [2.0]})
        monitor.add(2, "vehicle = 'a' AND x > 1", detect="enter,exit")
    for ts, x, rules_of_row in ((10, 3.0, [1]), (11, 0.0, [1, 2])):  # it was inside rule 2 when that came
        expected = batch.update({"vehicle": ["a"], "ts": [ts], "seq": [2], "x": [x]})
        told_singly = [event[0] for event in single.update_one("a", ts, seq=2, x=x)]
        assert told_singly == expected["event_id"].to_pylist()
        assert expected["rule_id"].to_pylist() == rules_of_row


def test_an_object_that_is_no_number_is_none() -> None:
    monitor = monitor_of("x > 1")
    rows = {"vehicle": pa.array([1.0, math.nan]), "ts": [1, 1], "x": [2.0, 2.0]}
    assert {event[0] for event in summarize(monitor.update(rows))} == {1.0}
    assert monitor.inside(1) == [1.0]
    assert monitor.counters["null"] == 1


def test_objects_may_be_views_of_strings() -> None:
    rows = {"vehicle": pa.array(["a"], pa.string_view()), "ts": [1], "x": [2.0]}
    assert {event[0] for event in summarize(monitor_of("x > 1").update(rows))} == {"a"}


def test_late_rows_may_have_columns_of_any_kind_of_string() -> None:
    late: list[pa.Table] = []
    monitor = monitor_of("x > 1", late=late.append)
    for ts in (2, 1):
        monitor.update({"vehicle": [7], "ts": [ts], "x": [2.0], "note": pa.array(["n"], pa.string_view())})
    assert [table["note"].to_pylist() for table in late] == [["n"]]


@pytest.mark.parametrize(
    ("kind", "condition", "crossed"),
    [
        ("bigint", "n BETWEEN 2 AND 4", True),
        ("bigint", "n >= 2 AND n < 5", True),
        ("bigint", "n BETWEEN 2 AND 3 OR n BETWEEN 5 AND 6", False),
        ("bigint", "n BETWEEN 2 AND 3 OR n BETWEEN 4 AND 6", True),
        ("double", "n BETWEEN 2 AND 4", False),
        ("double", "n >= 2 AND n < 5", True),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_whole_number_reaches_up_to_the_next_one_on_a_line(
    kind: str, condition: str, crossed: bool, turned: bool
) -> None:
    """The line is where m is right only between 4 and 5, and comes to 5 outside."""
    rules = Rules()
    rules.add(1, f"({condition}) AND m BETWEEN 0 AND 10", detect="cross")
    monitor = Monitor(rules, object="o", time="t", schema={"n": kind, "m": "bigint"})
    ends = [(4, 21), (5, -21)]
    for time, (n, m) in enumerate(reversed(ends) if turned else ends):
        events = monitor.update({"o": [1], "t": [time], "n": [n], "m": [m]})
    assert events["detect"].to_pylist() == ["cross"] * crossed


def test_a_line_along_the_next_whole_number_is_outside() -> None:
    rules = Rules()
    rules.add(1, "n BETWEEN 2 AND 4 AND m BETWEEN 0 AND 10", detect="cross")
    monitor = Monitor(rules, object="o", time="t", schema={"n": "bigint", "m": "bigint"})
    for time, (n, m) in enumerate([(5, -5), (5, 15), (4, 15), (4, -5)]):
        events = monitor.update({"o": [1], "t": [time], "n": [n], "m": [m]})
        assert events["detect"].to_pylist() == (["cross"] if time == 3 else [])
