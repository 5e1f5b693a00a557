"""Rows, bands and states that are refused, and that nothing is left of them."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import FencepostError
from tests.monitor.band_examples import CLOSE, ROW, monitor_of, summarize
from tests.monitor.played import EPOCH


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "No rows; expected a table, or left= or right="),
        ({"data": ROW, "left": ROW}, "A table beside left= or right=; expected one of the two"),
        ({"left": {"id": [1], "ts": [1]}}, "A table without the column price"),
        ({"right": {"id": [1], "price": [1.0]}}, "A table without the column ts"),
        ({"left": ROW, "right": {"ts": [1], "price": [1.0]}}, "A table without the column id"),
        ({"left": {**ROW, "price": ["x"]}}, "price"),
        ({"left": ROW, "right": {**ROW, "ts": [EPOCH]}}, "ts"),
        ({"left": {**ROW, "gone": [1]}}, "gone of type int64; expected booleans"),
        ({"left": {**ROW, "gone": [True], "id": [[1]]}}, "Objects of type list"),
        ({"left": 5}, "An int; expected an Arrow table"),
    ],
)
def test_rows_that_are_refused_change_nothing(given: dict[str, Any], message: str) -> None:
    monitor = monitor_of(CLOSE, deleted="gone")
    for side in ("left", "right", "data"):
        if isinstance(given.get(side), dict):
            given = {**given, side: {"gone": [False], **given[side]}}
    with pytest.raises(FencepostError, match=message.replace("[", r"\[")):
        monitor.update(**given)
    assert monitor.counters["rows"] == 0
    row = {**ROW, "gone": [False]}
    assert monitor.update(left=row, right=row).num_rows == 1


@pytest.mark.parametrize(
    ("condition", "options", "message"),
    [
        ("left.price - right.price BETWEEN 2 AND 1", {}, "never"),
        ("left.price - right.volume > 1 OR left.price - right.price > 3", {}, "Rule 5|single range"),
        (CLOSE, {"expires": EPOCH}, "Rule 5, which expires"),
        (CLOSE, {"detect": "leave"}, "detect='leave'"),
        ("left.x - right.x >= 18446744073709551616", {}, "Rule 5 with a bound of 18446744073709551616 units"),
        ("left.reason - right.reason > 1", {}, "An attribute 'reason'"),
        (f"{CLOSE} AND left.price = 'x'", {}, "price"),
        (CLOSE, {"for_": "5 minutes"}, "Rule 5 has a length of 0:05:00, and ts as bigint"),
    ],
)
def test_bands_that_are_refused_change_nothing(condition: str, options: dict[str, Any], message: str) -> None:
    monitor = monitor_of(CLOSE, schema={"price": "double", "x": "bigint", "volume": "double", "reason": "double"})
    monitor.update(left=ROW, right=ROW)
    with pytest.raises(FencepostError, match=message):
        monitor.add(5, condition, **options)
    with pytest.raises(FencepostError, match="Rule 5"):
        monitor.inside(5)
    with pytest.raises(FencepostError, match="Rule 1 already exists"):
        monitor.add(1, CLOSE)
    assert monitor.inside(1) == [(1, 1)]
    assert summarize(monitor.remove(1)) == [("exit", 1, 1, 1, "removed")]
    with pytest.raises(FencepostError, match="Rule 1"):
        monitor.remove(1)


def test_a_state_of_other_columns_is_refused(tmp_path: Path) -> None:
    monitor = monitor_of(CLOSE)
    monitor.update(left=ROW, right=ROW)
    monitor.save(tmp_path / "state")
    with pytest.raises(FencepostError, match="price as bigint; expected double"):
        monitor_of(CLOSE, schema={"price": "bigint"}).restore(tmp_path / "state")
