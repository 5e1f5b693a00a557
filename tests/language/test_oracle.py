"""Bound boxes find the rows that DuckDB finds."""

import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from numpy.typing import NDArray

from fencepost.language import (
    KEY,
    Band,
    Binder,
    BoundBand,
    BoundCondition,
    ColumnType,
    Condition,
    ConditionError,
    bind_band,
    infer_types,
    parse,
)
from fencepost.monitor import Monitor
from fencepost.ordinals import BIGINT, DATE, DOUBLE, TIMESTAMP_NTZ, AttributeType
from fencepost.rules import Rules
from tests.conditions import TYPES, band_conditions, conditions, sided_bands
from tests.effort import examples

ROWS = 400
SCHEMA: dict[str, ColumnType] = {
    name: KEY if type_ == "string" else AttributeType.parse(type_) for name, type_ in TYPES.items()
}


def _table() -> pa.Table:
    rng = np.random.default_rng(11)

    def column(values: list[Any], type_: Any) -> pa.Array:
        return pa.array([values[k] for k in rng.integers(0, len(values), ROWS)], type_)

    doubles = [None, math.nan, -0.0, 0.0, 0.1, 0.30000000000000004, 2.5, -1.5, 1.0, 2.0, 3.0, math.inf, -math.inf]
    return pa.table(
        {
            "i": column([None, *range(-3, 5), 2**53 + 1], pa.int64()),
            "d": column([*doubles, 2.0**53], pa.float64()),
            "n": column([None, *map(Decimal, ["-1.5", "0", "0.1", "0.25", "1", "2.5", "3", "4"])], pa.decimal128(9, 2)),
            "day": column([None, *(date(2024, 1, day) for day in range(1, 6))], pa.date32()),
            "ts": column(
                [None, *(datetime(2024, 1, day, hour) for day in range(1, 5) for hour in (0, 12))], pa.timestamp("us")
            ),
            "b": column([None, True, False], pa.bool_()),
            "s": column([None, "A", "B", "b", "O'Neil", ""], pa.string()),
        }
    )


TABLE = _table()


@pytest.fixture(scope="module")
def oracle() -> Any:
    """A connection whose table has null for NaN, as the data of fencepost is read."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow_rows", TABLE)
    connection.execute(
        "CREATE TABLE facts AS SELECT row_number() OVER () - 1 AS row, * REPLACE "
        "(CASE WHEN isnan(d) THEN NULL ELSE d END AS d) FROM arrow_rows"
    )
    return connection


def bound_or_refused(text: str, types: Mapping[str, ColumnType]) -> BoundCondition | ConditionError:
    try:
        condition = parse(text)
        assert isinstance(condition, Condition)
        return Binder(types).bind(condition)
    except ConditionError as refused:
        return refused


def rows_inside(bound: BoundCondition, types: Mapping[str, ColumnType]) -> list[int]:
    """The rows inside any box, attribute by attribute."""
    found: NDArray[np.bool_] = np.zeros(ROWS, dtype=np.bool_)
    for box in bound.boxes:
        inside = np.ones(ROWS, dtype=np.bool_)
        for name, first, last in box.ranges:
            attribute = types[name]
            assert isinstance(attribute, AttributeType)
            ordinals, valid = attribute.encode(TABLE[name])
            inside &= (ordinals >= first) & (ordinals <= last)
            if valid is not None:
                inside &= valid
        for name, key in box.keys:
            inside &= np.array([value == key for value in TABLE[name].to_pylist()])
        found |= inside
    return [int(row) for row in np.flatnonzero(found)]


def rows_of_oracle(oracle: Any, text: str) -> list[int]:
    return [row for (row,) in oracle.execute(f"SELECT row FROM facts WHERE {text} ORDER BY row").fetchall()]  # noqa: S608


@examples(1200)
@given(text=conditions())
def test_boxes_find_what_duckdb_finds(oracle: Any, text: str) -> None:
    bound = bound_or_refused(text, SCHEMA)
    if isinstance(bound, ConditionError):
        assert "never hold" in bound.got or "exclude each other" in bound.got
        assert rows_of_oracle(oracle, text) == []
    else:
        assert rows_inside(bound, SCHEMA) == rows_of_oracle(oracle, text)


@examples(600)
@given(text=conditions())
def test_types_inferred_from_constants_find_what_duckdb_finds(oracle: Any, text: str) -> None:
    bound = bound_or_refused(text, SCHEMA)
    if isinstance(bound, ConditionError):
        return
    condition = parse(text)
    assert isinstance(condition, Condition)
    types = infer_types([condition.columns])
    # Doubles hold neither 2**53 + 1 nor 0.1, and dates no noon: data of columns i, n and ts would be refused.
    if not {"i", "n"} & types.keys() and types.get("ts") != DATE:
        assert rows_inside(Binder(types).bind(condition), types) == rows_of_oracle(oracle, text)


@pytest.mark.parametrize(
    "text",
    [
        "i < 3 OR i >= 3",
        "NOT (i < 3 AND d > 1)",
        "i <> 2 AND i <> 2",
        "NOT (i IN (1, 2) OR day = DATE '2024-01-02')",
        "i BETWEEN 3 AND 1 OR b",
        "NOT i BETWEEN 3 AND 1",
        "d > 1e300",
        "d < -1e300 OR d = -0.0",
        "d = 0.1 + 0.2 OR d = 0.1",
        "ts >= DATE '2024-01-02' AND day < TIMESTAMP '2024-01-03 00:00:01'",
        "ts = TIMESTAMPTZ '2024-01-02 14:00:00+02:00'",
        "NOT b OR NOT (NOT b)",
        "b > FALSE AND b <= TRUE",
        "s IN ('A', 'B') AND (s = 'B' OR s = 'b')",
        "TRUE",
        "TRUE AND NOT FALSE OR i > 3",
        "i > -7 % 4 AND i < 7 % 4",
        "2 BETWEEN i AND 3",
        "NOT 2 BETWEEN i AND 3",
        "2 IN (i, d)",
        "2 NOT IN (i, d)",
    ],
)
def test_corners(oracle: Any, text: str) -> None:
    condition = parse(text)
    assert isinstance(condition, Condition)
    assert rows_inside(Binder(SCHEMA).bind(condition), SCHEMA) == rows_of_oracle(oracle, text)


BAND_ROWS = 40
BAND_SCHEMA: dict[str, ColumnType] = {"x": DOUBLE, "n": BIGINT, "day": DATE, "ts": TIMESTAMP_NTZ, "s": KEY}


def _side(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    halves, days, hours = (rng.integers(0, 9, BAND_ROWS).tolist() for _ in range(3))
    return [
        {
            "x": half / 2 if half else None,
            "n": day - 4,
            "day": date(2024, 1, 1 + day),
            "ts": datetime(2024, 1, 1 + hour // 2, 12 * (hour % 2)),
            "s": ["A", "B", None][hour % 3],
        }
        for half, day, hour in zip(halves, days, hours, strict=True)
    ]


LEFT, RIGHT = _side(5), _side(6)


def in_units(attribute: AttributeType, value: Any) -> Fraction | None:
    """What a difference counts: the double itself, or the ordinal."""
    counted = value if attribute == DOUBLE else attribute.encode_one(value)
    return None if counted is None else Fraction(counted)


def is_inside(bound: BoundBand, left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether a pair is in the band, by exact arithmetic."""
    one, other = in_units(bound.left_type, left[bound.left]), in_units(bound.right_type, right[bound.right])
    if one is None or other is None:
        return False
    above = bound.lower is None or one - other > bound.lower or (bound.lower_closed and one - other == bound.lower)
    below = bound.upper is None or one - other < bound.upper or (bound.upper_closed and one - other == bound.upper)
    return (
        above
        and below
        and all(left[key] is not None and left[key] == right[other_key] for key, other_key in bound.same)
        and all(left[column] == key for column, key in bound.left_keys)
        and all(right[column] == key for column, key in bound.right_keys)
    )


@pytest.fixture(scope="module")
def band_oracle() -> Any:
    connection = duckdb.connect(config={"threads": 1})
    for name, rows in (("lefts", LEFT), ("rights", RIGHT)):
        connection.register(f"{name}_arrow", pa.Table.from_pylist(rows))
        connection.execute(f"CREATE TABLE {name} AS SELECT row_number() OVER () - 1 AS row, * FROM {name}_arrow")  # noqa: S608
    return connection


@examples(150)
@given(text=sided_bands())
def test_sides_of_bands_find_the_pairs_that_duckdb_finds(band_oracle: Any, text: str) -> None:
    where = text.replace("left.", "l.").replace("right.", "r.")
    query = f"SELECT l.row, r.row FROM lefts l, rights r WHERE {where} ORDER BY ALL"  # noqa: S608
    expected = band_oracle.execute(query).fetchall()
    rules = Rules()
    try:
        rules.add(1, text, detect="enter")
    except ConditionError:
        assert expected == []  # its parts exclude each other
        return
    monitor = Monitor(rules, object="row", time="at", schema={name: str(kind) for name, kind in BAND_SCHEMA.items()})
    tables = (
        pa.Table.from_pylist([{"row": row, **values} for row, values in enumerate(side)]) for side in (LEFT, RIGHT)
    )
    left, right = (table.append_column("at", pa.array([0] * BAND_ROWS)) for table in tables)
    monitor.update(left=left, right=right)
    assert sorted(monitor.inside(1)) == expected


@examples(300)
@given(text=band_conditions())
def test_bands_find_the_pairs_that_duckdb_finds(band_oracle: Any, text: str) -> None:
    where = text.replace("left.", "l.").replace("right.", "r.")
    query = f"SELECT l.row, r.row FROM lefts l, rights r WHERE {where} ORDER BY ALL"  # noqa: S608
    expected = band_oracle.execute(query).fetchall()
    try:
        band = parse(text)
        assert isinstance(band, Band)
        bound = bind_band(band, BAND_SCHEMA, BAND_SCHEMA)
    except ConditionError:
        found = []
    else:
        found = [
            (i, j) for i, left in enumerate(LEFT) for j, right in enumerate(RIGHT) if is_inside(bound, left, right)
        ]
    assert found == expected
