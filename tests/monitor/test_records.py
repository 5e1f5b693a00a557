"""Records, a list of dicts, in place of tables."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.examples import monitor_of, refusal

FLOATS = st.one_of(st.none(), st.integers(-3, 3), st.floats(-3, 3))


@given(st.lists(st.tuples(st.integers(0, 3), FLOATS, st.sampled_from([None, "u", "v"]), st.booleans()), max_size=12))
def test_records_are_tables_in_which_a_missing_key_is_a_null(rows: list[tuple[Any, ...]]) -> None:
    full = {
        "vehicle": pa.array([row[0] for row in rows], pa.int64()),
        "ts": pa.array(range(len(rows)), pa.int64()),
        "x": pa.array([None if row[1] is None else float(row[1]) for row in rows], pa.float64()),
        "k": pa.array([row[2] for row in rows], pa.string()),
    }
    records = []
    for number, (vehicle, x, k, left_out) in enumerate(rows):
        record = {"vehicle": vehicle, "ts": number, "x": x, "k": k, "more": object()}
        records.append({name: value for name, value in record.items() if value is not None or not left_out})
    one, other = monitor_of("x >= 1", "x < 2 AND k = 'u'"), monitor_of("x >= 1", "x < 2 AND k = 'u'")
    assert one.update(records).to_pylist() == other.update(full).to_pylist()
    assert one.counters == other.counters
    rules = Rules()
    rules.add(1, "x >= 1")
    rules.add(2, "x < 2 AND k = 'u'")
    assert rules.compile().match(records).sets() == rules.compile().match(full).sets()


def test_a_column_that_no_record_has_is_null_but_the_object_and_the_time_must_be_there() -> None:
    monitor = monitor_of("x >= 1", "k = 'u'", sequence="seq")
    assert monitor.update([{"vehicle": 7, "ts": 1, "x": 2.0}]).num_rows == 2
    assert monitor.update([]).num_rows == 0
    assert "without the column vehicle" in refusal(lambda: monitor.update([{"ts": 1, "x": 2.0}]))
    assert "without the column ts" in refusal(lambda: monitor.update([{"vehicle": 1, "x": 2.0}]))
    rules = Rules()
    rules.add(1, "symbol = 'IBM'", detect="enter")
    by_symbol = Monitor(rules, object="symbol")
    assert "without the column symbol" in refusal(lambda: by_symbol.update([{"price": 2.0}]))


def test_a_carried_column_that_no_record_has_is_null() -> None:
    rules = Rules()
    rules.add(1, "x >= 1", detect="enter,exit")
    monitor = Monitor(rules, object="vehicle", time="ts", carry=["venue"])
    assert monitor.update([{"vehicle": 7, "ts": 1, "x": 2.0}])["venue"].to_pylist() == [None]
    assert monitor.update_one(7, 2, x=0.0)[0]["venue"] is None
    assert monitor.update([{"vehicle": 7, "ts": 3, "x": 2.0, "venue": "A"}])["venue"].to_pylist() == ["A"]
    assert "carry= names it" in refusal(lambda: monitor.update({"vehicle": [7], "ts": [4], "x": [0.0]}))


def test_bands_take_records() -> None:
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    monitor = Monitor(rules, object="id", time="ts", deleted="gone")
    monitor.update(left=[{"id": 1, "ts": 1, "price": 5.0}])
    assert monitor.update(right=[{"id": 2, "ts": 2, "price": 5.5}])["detect"].to_pylist() == ["enter"]
    assert monitor.update(right=[{"id": 2, "ts": 3, "gone": True}])["detect"].to_pylist() == ["exit"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, None, "a"], "'a' as x of record 2, a string; expected a number, as in record 0."),
        ([1, True], "True as x of record 1, a boolean; expected a number, as in record 0."),
        ([np.int64(1), np.bool_(True)], "a boolean; expected a number, as in record 0."),
        ([2**53 + 1, 0.5], "0.5 as x of record 1, which Arrow refuses"),
        ([1, 2, 2**70], "1180591620717411303424 as x of record 2, which Arrow refuses"),
        ([Decimal("0.1"), 0.5], "0.5 as x of record 1"),
        ([date(2024, 1, 1), datetime(2024, 1, 1)], "a time without a zone; expected a date, as in record 0."),
        (
            [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)],
            "a time with a zone; expected a time without a zone",
        ),
        ([[1.0], 2.0], "2.0 as x of record 1, a number; expected a list, as in record 0."),
    ],
)
def test_a_record_that_does_not_fit_the_others_is_named(values: list[Any], message: str) -> None:
    monitor = monitor_of("x >= 1")
    records = [{"vehicle": 7, "ts": number, "x": value} for number, value in enumerate(values)]
    assert message in refusal(lambda: monitor.update(records))
    assert monitor.counters["rows"] == 0


def test_what_is_no_record_is_refused() -> None:
    assert refusal(lambda: monitor_of("x >= 1").update([{"vehicle": 7, "ts": 1}, 5])) == (
        "record 1 is of type int; expected a dict of column to value. Pass records such as [{'price': 41.5}], "
        "or a dict of columns such as {'price': [41.5]}."
    )
    assert "the column 5 of a record" in refusal(lambda: monitor_of("x >= 1").update([{5: 7}])).lower()


def test_integers_among_doubles_and_nan() -> None:
    rules = Rules()
    rules.add(1, "x >= 1")
    records = [{"x": 1}, {"x": 0.5}, {"x": float("nan")}, {"x": np.float32(2)}, {}, {"x": None}]
    assert rules.compile().match(records).sets() == [{1}, set(), set(), {1}, set(), set()]


def test_records_need_not_have_the_columns_that_events_carry() -> None:
    rules = Rules()
    rules.add(8, "price < 40", detect="enter,exit")
    monitor = Monitor(rules, object="symbol", time="ts", carry=["venue"])
    events = [monitor.update([{"symbol": "IBM", "ts": 1, "price": 39.0}])]
    events.append(monitor.update([{"symbol": "IBM", "ts": 2, "price": 41.0, "venue": "X"}, {"symbol": "HP", "ts": 2}]))
    events.append(monitor.update([{"symbol": "IBM", "ts": 3, "price": 39.0}]))
    assert [told.column("venue").to_pylist() for told in events] == [[None], ["X"], [None]]
    assert events[2].schema == events[1].schema, "the type stays known, so that tables can be put together"
    table = {"symbol": ["IBM"], "ts": [4], "price": [41.0]}
    assert "without the column venue; expected that column, since carry= names it" in refusal(
        lambda: monitor.update(table)
    )
