"""Every promise of the semantics of bands, by example."""

import math
import random
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.band_examples import CLOSE, monitor_of, summarize
from tests.monitor.played import EPOCH


def test_left_rows_come_first_at_one_time_and_nothing_is_netted() -> None:
    monitor = monitor_of(CLOSE)
    events = monitor.update(
        left={"id": [1, 1], "ts": [1, 2], "price": [10.0, 20.0]},
        right={"id": [7, 7], "ts": [1, 2], "price": [10.5, 20.5]},
    )
    assert summarize(events) == [("enter", 1, 7, 1, None), ("exit", 1, 7, 2, None), ("enter", 1, 7, 2, None)]
    assert events["price"].to_pylist() == [10.5, 20.0, 20.5]
    assert events["price_before"].to_pylist() == [None, 10.0, 10.5]


def test_either_side_may_come_alone() -> None:
    monitor = monitor_of(CLOSE)
    assert summarize(monitor.update(left={"id": [1], "ts": [1], "price": [10.0]})) == []
    assert summarize(monitor.update(right={"id": [7], "ts": [0], "price": [10.0]})) == [("enter", 1, 7, 0, None)]
    assert monitor.inside(1) == [(1, 7)]


def test_a_deleted_row_leaves_and_comes_back_as_new() -> None:
    monitor = monitor_of(CLOSE, deleted="gone")
    monitor.update(left={"id": [1], "ts": [1], "price": [10.0], "gone": [False]})
    monitor.update(right={"id": [7], "ts": [1], "price": [10.0], "gone": [None]})
    events = monitor.update(left={"id": [1], "ts": [2], "price": [None], "gone": [True]})
    assert summarize(events) == [("exit", 1, 7, 2, None)]
    assert events["price"].to_pylist() == [None]
    assert events["price_before"].to_pylist() == [10.0]
    assert monitor.inside(1) == []
    assert summarize(monitor.update(left={"id": [1], "ts": [3], "price": [None], "gone": [False]})) == []
    assert monitor.counters["null"] == 1  # nothing is known of it any more, and nothing was told
    again = monitor.update(left={"id": [1], "ts": [3], "price": [10.0], "gone": [False]})
    assert summarize(again) == [("enter", 1, 7, 3, None)]


def test_without_time_rows_are_counted_also_after_a_deletion() -> None:
    rows: dict[str, list[Any]] = {
        "id": [1, 1, 1, 1],
        "price": [10.0, 10.0, 10.0, 11.0],
        "gone": [False, True, False, False],
    }
    whole, single = (monitor_of(CLOSE, "enter,exit,inside", time=None, deleted="gone") for _ in range(2))
    for monitor in (whole, single):
        monitor.update(right={"id": [7], "price": [10.0], "gone": [False]})
    at_once = summarize(whole.update(left=rows))
    one_by_one = []
    for at in range(4):
        one_by_one += summarize(single.update(left={name: column[at : at + 1] for name, column in rows.items()}))
    assert at_once == one_by_one
    assert [event[3] for event in at_once if event[0] == "enter"] == [1, 1]


def test_the_events_are_the_same_whatever_the_batching() -> None:
    rng = random.Random(5)  # noqa: S311
    rows = [(side, t, rng.randrange(6), round(rng.uniform(0, 5), 1)) for t in range(200) for side in ("left", "right")]
    found = []
    for size in (1, 7, 400):
        monitor = monitor_of(CLOSE, "enter,exit,cross,inside")
        ids: list[str] = []
        for start in range(0, len(rows), size):
            batch = {
                side: {
                    "id": [row[2] for row in rows[start : start + size] if row[0] == side],
                    "ts": pa.array([row[1] for row in rows[start : start + size] if row[0] == side], pa.int64()),
                    "price": pa.array([row[3] for row in rows[start : start + size] if row[0] == side], pa.float64()),
                }
                for side in ("left", "right")
            }
            ids += monitor.update(**batch)["event_id"].to_pylist()
        found.append(ids)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 500


@pytest.mark.parametrize(
    ("condition", "schema", "left", "right", "expected"),
    [
        ("left.x - right.x <= 1", {"x": "bigint"}, 2**63 - 1, 2**63 - 2, True),
        ("left.x - right.x <= 1", {"x": "bigint"}, 2**63 - 1, -(2**63), False),
        ("left.x - right.x > 9007199254740993", {"x": "bigint"}, 2**53 + 1, 0, False),
        ("left.x - right.x BETWEEN 0.01 AND 0.02", {"x": "decimal(10,2)"}, Decimal("1.01"), Decimal("1.00"), True),
        ("left.x - right.x < 0.01", {"x": "decimal(10,2)"}, Decimal("1.01"), Decimal("1.00"), False),
        ("left.x - right.x <= 1", {"x": "date"}, date(2024, 3, 1), date(2024, 2, 29), True),
        ("left.x - right.x < INTERVAL '5' SECOND", {"x": "timestamp"}, EPOCH + timedelta(seconds=5), EPOCH, False),
        ("left.x - right.x <= 0.2", None, 0.3, 0.1, True),
        ("left.x - right.x >= 0.2", None, 0.3, 0.1, False),
        ("left.x - right.x < 1e308", None, 1e308, -1e308, False),
        ("left.x - right.x > 0", None, math.inf, 1.0, False),
    ],
)
def test_differences_are_exact_in_every_type(
    condition: str, schema: Any, left: Any, right: Any, expected: bool
) -> None:
    monitor = monitor_of(condition, time=None, schema=schema)
    events = monitor.update(left={"id": ["a"], "x": [left]}, right={"id": ["b"], "x": [right]})
    assert events.num_rows == expected


def test_keys_may_be_numbers_and_must_have_one_type() -> None:
    monitor = monitor_of(f"{CLOSE} AND left.lot = right.lot", time=None)
    events = monitor.update(
        left={"id": ["a", "b"], "price": [1.0, 1.0], "lot": pa.array([5, 6], pa.int32())},
        right={"id": ["c"], "price": [1.0], "lot": pa.array([5], pa.int64())},
    )
    assert [(e["object"], e["other"]) for e in events.to_pylist()] == [("a", "c")]
    with pytest.raises(FencepostError, match=r"right.lot as string; expected bigint, as in the rows before"):
        monitor.update(right={"id": ["c"], "price": [1.0], "lot": ["5"]})
    fresh = monitor_of(f"{CLOSE} AND left.lot = right.lot", time=None)
    with pytest.raises(FencepostError, match=r"left.lot as bigint and right.lot as string; expected one type"):
        fresh.update(left={"id": ["a"], "price": [1.0], "lot": [5]}, right={"id": ["c"], "price": [1.0], "lot": ["5"]})
    assert fresh.counters["rows"] == 0


def test_follow_takes_the_bands_of_another_snapshot() -> None:
    monitor = monitor_of(CLOSE)
    monitor.update(left={"id": [1], "ts": [1], "price": [5.0]}, right={"id": [2], "ts": [3], "price": [5.0]})
    rules = Rules()
    rules.add(2, "left.price - right.price > -10", detect="enter", initial=True)
    assert summarize(monitor.follow(rules.compile())) == [("exit", 1, 2, 3, "removed"), ("enter", 1, 2, 3, "initial")]
    other = Rules()
    other.add(2, "left.price - right.price > -10")
    with pytest.raises(FencepostError, match="rules that have price as bigint; expected double, as the rules until"):
        monitor.follow(other.compile({"price": "bigint"}))
    assert monitor.inside(2) == [(1, 2)]


def test_late_rows_of_each_side_are_offered() -> None:
    late: list[Any] = []
    monitor = monitor_of(CLOSE, late=late.append)
    row = {"id": [1], "ts": [5], "price": [5.0]}
    monitor.update(left=row, right=row)
    monitor.update(left={"id": [1], "ts": [4], "price": [9.0]}, right={"id": [1, 2], "ts": [3, 3], "price": [9.0, 5.0]})
    assert [table.num_rows for table in late] == [1, 1]
    assert monitor.counters["late"] == 2
    assert sorted(monitor.inside(1)) == [(1, 1), (1, 2)]


def test_many_objects_that_go_leave_no_trace() -> None:
    monitor = monitor_of(f"{CLOSE} AND left.k = right.k", timeout=5)
    for start in range(0, 4000, 1000):
        ids = list(range(start, start + 1000))
        rows = {"id": ids, "ts": [start] * 1000, "price": [float(id) for id in ids], "k": [str(id) for id in ids]}
        events = monitor.update(left=rows, right=rows)
        assert events.num_rows == 1000
        assert monitor.advance(start + 5).num_rows == 1000
    assert len(monitor._pairs.states[0].objects) < 3000
    assert len(monitor._pairs.states[0].strings["k"]) < 3000


def test_nothing_is_inside_a_band_with_a_key_before_the_first_row() -> None:
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1")
    assert Monitor(rules, object="id", key="venue").inside(1) == []
