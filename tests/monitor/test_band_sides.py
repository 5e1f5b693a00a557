"""Expressions and conditions of one side in bands, by example: bounds, nulls, live changes, limits, what is shown."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.computed.attributes import MOST_EXPRESSIONS
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot
from tests.monitor.band_examples import summarize

TYPES = {"price": "double", "size": "bigint", "fee": "decimal(9,2)", "venue": "string", "note": "string"}
ARROW = {
    "price": pa.float64(),
    "size": pa.int64(),
    "fee": pa.decimal128(9, 2),
    "venue": pa.string(),
    "note": pa.string(),
}
NAN, INF = math.nan, math.inf
MORE = "left.size > right.size"


def row(id: int, ts: int, gone: bool = False, **values: Any) -> pa.Table:
    columns = {name: pa.array([values.get(name)], type_) for name, type_ in ARROW.items()}
    return pa.table({"id": [id], "ts": [ts], "gone": [gone], **columns})


def monitor_of(*conditions: str, detect: str = "enter,exit", **settings: Any) -> Monitor:
    rules = Rules()
    for id, condition in enumerate(conditions, 1):
        rules.add(id, condition, detect=detect)
    return Monitor(rules, **{"object": "id", "time": "ts", "deleted": "gone", "schema": TYPES, **settings})


def is_inside(condition: str, left: dict[str, Any], right: dict[str, Any]) -> bool:
    monitor = monitor_of(condition)
    monitor.update(left=row(1, 1, **left), right=row(2, 1, **right))
    return monitor.inside(1) == [(1, 2)]


@pytest.mark.parametrize(
    ("condition", "left", "right", "expected"),
    [
        # The product is SQL's: rounded. What is subtracted of it is not.
        ("left.price * 1.1 - right.price <= 0", {"price": 3.0}, {"price": 3.3000000000000003}, True),
        ("left.price * 1.1 - right.price <= 0", {"price": 3.0}, {"price": 3.3}, False),
        ("left.price > right.price * 1.05", {"price": 1.05}, {"price": 1.0}, False),
        ("left.price > right.price * 1.05", {"price": math.nextafter(1.05, 2)}, {"price": 1.0}, True),
        ("left.price * 1e300 - right.price > 0", {"price": 1e300}, {"price": 1.0}, False),
        ("left.price * 0 - right.price < 5", {"price": INF}, {"price": 1.0}, False),
        ("left.price / left.size - right.price < 5", {"price": 1.0, "size": 0}, {"price": 1.0}, False),
        ("left.price + left.size - right.price = 3", {"price": 1.5, "size": 2}, {"price": 0.5}, True),
        ("left.price + right.price > 3", {"price": 1.5}, {"price": 1.5}, False),
        ("left.price + right.price >= 3", {"price": 1.5}, {"price": 1.5}, True),
        ("-(left.price * 2) + right.price >= -3", {"price": 1.5}, {"price": 0.0}, True),
        # Decimals and whole numbers stay exact, in the unit of the finer side; beside doubles they are doubles.
        ("left.fee * 1.5 - right.fee = 0.005", {"fee": 1}, {"fee": 1}, False),
        ("left.fee * 0.5 - right.fee = 0.005", {"fee": 2.01}, {"fee": 1}, True),
        ("left.size * 2 - right.fee BETWEEN 0.01 AND 0.01", {"size": 1}, {"fee": 1.99}, True),
        ("left.size * 2 - right.price = 0.5", {"size": 1}, {"price": 1.5}, True),
        # A condition of one side: on the bound, beyond every number, and where nothing is known.
        ("left.price > right.price AND left.size >= 3", {"price": 2.0, "size": 3}, {"price": 1.0}, True),
        ("left.price > right.price AND left.size > 3", {"price": 2.0, "size": 3}, {"price": 1.0}, False),
        ("left.price > right.price AND right.price < 'Infinity'", {"price": 2.0}, {"price": 1.0}, None),
        ("left.size - right.size > 0 AND left.price > 3", {"size": 2, "price": INF}, {"size": 1}, True),
        ("left.size - right.size > 0 AND left.price > 3", {"size": 2, "price": NAN}, {"size": 1}, False),
        ("left.size - right.size > 0 AND left.price IS NULL", {"size": 2, "price": NAN}, {"size": 1}, True),
        ("left.size - right.size > 0 AND NOT (left.price > 3)", {"size": 2}, {"size": 1}, False),
        (f"{MORE} AND (left.price > 3 OR left.price IS NULL)", {"size": 2}, {"size": 1}, True),
        (f"{MORE} AND right.note NOT LIKE 'a%'", {"size": 2}, {"size": 1}, False),
        (f"{MORE} AND right.note NOT LIKE 'a%'", {"size": 2}, {"size": 1, "note": "b"}, True),
        (f"{MORE} AND left.venue = 'x' AND left.note > 'a'", {"size": 2, "venue": "x"}, {"size": 1}, False),
        # Computed keys: a null equals nothing, and infinities equal each other.
        (f"{MORE} AND LOWER(left.note) = right.note", {"size": 2, "note": "A"}, {"size": 1, "note": "a"}, True),
        (f"{MORE} AND LOWER(left.note) = right.note", {"size": 2}, {"size": 1}, False),
        (f"{MORE} AND left.price * 2 = right.price", {"size": 2, "price": INF}, {"size": 1, "price": INF}, True),
        (f"{MORE} AND left.price * 0 = right.price", {"size": 2, "price": -1.0}, {"size": 1, "price": 0.0}, True),
    ],
)  # fmt: skip
def test_edges(condition: str, left: dict[str, Any], right: dict[str, Any], expected: bool | None) -> None:
    from decimal import Decimal

    if expected is None:
        with pytest.raises(FencepostError, match="does not fit price, which is double"):
            monitor_of(condition)
        return
    given = [
        {name: Decimal(str(value)) if name == "fee" else value for name, value in side.items()}
        for side in (left, right)
    ]
    assert is_inside(condition, *given) is expected


def test_rows_that_come_to_meet_a_condition_enter_and_those_that_no_longer_do_leave() -> None:
    monitor = monitor_of("left.price - right.price BETWEEN -1 AND 1 AND left.size > 3 AND right.note IS NULL")
    told = []
    told += summarize(monitor.update(left=row(1, 1, price=5.0, size=1), right=row(2, 1, price=5.0)))
    told += summarize(monitor.update(left=row(1, 2, size=4)))
    told += summarize(monitor.update(right=row(2, 3, note="halted")))
    told += summarize(monitor.update(right=row(2, 4, gone=True)))
    told += summarize(monitor.update(right=row(2, 5, price=5.0)))  # nothing is known of it but that
    told += summarize(monitor.update(left=row(1, 6, gone=True)))
    assert told == [
        ("enter", 1, 2, 2, None),
        ("exit", 1, 2, 3, None),
        ("enter", 1, 2, 5, None),
        ("exit", 1, 2, 6, None),
    ]


def test_a_pair_crosses_only_where_the_conditions_hold_before_and_after() -> None:
    monitor = monitor_of("left.price - right.price BETWEEN -1 AND 1 AND left.size > 3", detect="cross")
    monitor.update(left=row(1, 1, price=0.0, size=4), right=row(2, 1, price=5.0))
    assert summarize(monitor.update(left=row(1, 2, price=9.0))) == [("cross", 1, 2, 2, None)]
    assert summarize(monitor.update(left=row(1, 3, price=0.0, size=3))) == []
    assert summarize(monitor.update(left=row(1, 4, price=9.0))) == []
    assert summarize(monitor.update(left=row(1, 5, price=0.0, size=4))) == []
    assert summarize(monitor.update(left=row(1, 6, price=9.0))) == [("cross", 1, 2, 6, None)]


def test_a_live_rule_brings_expressions_over_columns_that_are_remembered(tmp_path: Path) -> None:
    monitor = monitor_of("left.price - right.price BETWEEN -1 AND 1")
    monitor.update(left=row(1, 1, price=5.0, size=7, note="Ab"), right=row(2, 1, price=5.0, note="ab"))
    monitor.save(tmp_path / "state")
    monitor = monitor_of("left.price - right.price BETWEEN -1 AND 1")
    monitor.restore(tmp_path / "state")
    condition = "left.price * 2 - right.price BETWEEN 4 AND 6 AND LOWER(left.note) = right.note AND left.size > 6"
    assert summarize(monitor.add(2, condition, detect="enter,exit", initial=True)) == [("enter", 1, 2, 1, "initial")]
    edited = condition.replace("> 6", "> 7")
    assert summarize(monitor.replace(2, edited, detect="enter,exit")) == [("exit", 1, 2, 1, "edited")]
    assert summarize(monitor.replace(2, condition, detect="enter,exit", initial=True)) == [
        ("enter", 1, 2, 1, "initial")
    ]
    assert summarize(monitor.remove(2)) == [("exit", 1, 2, 1, "removed")]


def test_equal_conditions_are_one_however_they_are_written() -> None:
    rules = Rules()
    for id in range(2 * MOST_EXPRESSIONS):
        spelled = "left.size > 3 AND left.price < 9" if id % 2 else "(LEFT.price) < 9.0 AND NOT left.SIZE <= 3"
        rules.add(id, f"left.price - right.price < {id} AND {spelled}")
    assert len(rules.compile(TYPES)) == 2 * MOST_EXPRESSIONS


def test_one_condition_too_many_is_refused() -> None:
    rules = Rules()
    for id in range(MOST_EXPRESSIONS + 1):
        rules.add(id, f"left.price - right.price < 1 AND left.size > {id}")
    refusal = f"rule {MOST_EXPRESSIONS}: `left.price - right.price < 1 AND left.size > 256` with one more"
    with pytest.raises(FencepostError, match=refusal):
        rules.compile(TYPES)
    rules.remove(MOST_EXPRESSIONS)
    monitor = Monitor(rules, object="id", time="ts", schema=TYPES)
    with pytest.raises(FencepostError, match="at most 256 conditions of sides and expressions in all rules together"):
        monitor.add(1000, "left.price - right.price < 1 AND right.size > 1")
    monitor.remove(0)
    monitor.add(1000, "left.price - right.price < 1 AND right.size > 1")


def test_snapshots_with_sides_are_of_a_format_of_their_own(tmp_path: Path) -> None:
    rules = Rules()
    rules.add(1, "left.price - right.price < 1")
    rules.compile(TYPES).save(tmp_path / "plain")
    rules.add(2, "left.price - right.price < 1 AND left.size > 3")
    snapshot = rules.compile(TYPES)
    snapshot.save(tmp_path / "sided")
    assert '"format": 2' in (tmp_path / "plain" / "header.json").read_text()
    assert '"format": 4' in (tmp_path / "sided" / "header.json").read_text()
    loaded = Snapshot.load(tmp_path / "sided")
    assert loaded.columns == snapshot.columns == {"price": "double", "size": "bigint"}
    assert Snapshot.load(tmp_path / "plain").bands.sides.null_count == 1  # type: ignore[union-attr]
    assert loaded.without(loaded.rows_of(pa.array([2]).to_numpy())).columns == {"price": "double"}


def test_a_column_is_of_one_kind() -> None:
    rules = Rules()
    rules.add(1, "left.price - right.price < 1 AND left.note IS NULL")
    rules.add(2, "left.price - right.price < 2 AND left.note LIKE 'a%'")  # which tells that of the other
    monitor = Monitor(rules, object="id", time="ts")
    monitor.update(left=row(1, 1, price=1.0), right=row(2, 1, price=1.0))
    assert (monitor.inside(1), monitor.inside(2)) == ([(1, 2)], [])
    with pytest.raises(FencepostError, match="note"):
        monitor.add(3, "left.note - right.price < 1")


def test_why_and_explain_show_expressions_and_their_values() -> None:
    rules = Rules()
    rules.add(
        1, "left.price * 2 - right.price < 9 AND (left.size > 3 OR left.note = 'a') AND LOWER(left.venue) = right.venue"
    )
    snapshot = rules.compile(TYPES)
    assert [str(each) for each in snapshot.explain().computed] == [
        "LOWER(left.venue), string: computed for 1 rule (1)",
        "left.price * 2, double: computed for 1 rule (1)",
    ]
    monitor = monitor_of(*[rule.condition for rule in rules if rule.condition])
    events = monitor.update(left=row(1, 1, price=4.0, size=4, venue="X"), right=row(2, 1, price=1.0, venue="x"))
    shown = str(monitor.why(events))
    assert "left.price * 2 - right.price < 9" in shown
    assert "4 <= left.size or left.note = 'a'" in shown
    assert "LOWER(left.venue) = right.venue" in shown
    standing = monitor.update(left=row(1, 2, price=6.0, size=2))
    assert summarize(standing) == [("exit", 1, 2, 2, None)]
    told = str(monitor.why_not(1, 1, 2))
    assert "left.price * 2: 12.0" in told
    assert "LOWER(left.venue): x" in told
    assert "the left row is not 4 <= left.size or left.note = 'a'" in told
    assert "left.price * 2 - right.price is 11.0, not < 9.0" in told


def test_why_not_tells_that_infinite_values_make_no_pairs() -> None:
    monitor = monitor_of("left.price - right.price > 0", "left.price * 2 - right.price > 0")
    monitor.update(left=row(1, 1, price=INF), right=row(2, 1, price=1.0))
    assert monitor.inside(1) == monitor.inside(2) == []
    assert "is outside rule 1: left.price is infinite, which makes no pairs" in str(monitor.why_not(1, 1, 2))
    monitor.update(left=row(1, 2, price=1e308))
    assert monitor.inside(1) == [(1, 2)]
    assert "is inside rule 1" in str(monitor.why_not(1, 1, 2))
    assert "left.price * 2 is infinite" in str(monitor.why_not(2, 1, 2))
