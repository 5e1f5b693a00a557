"""Constants that are doubles in SQL: casts, and numbers with an exponent."""

import pyarrow as pa
import pytest

import fencepost as fp


def holds(condition: str, schema: dict[str, str], **columns: object) -> list[bool]:
    rules = fp.Rules()
    rules.add(1, condition)
    return [bool(found) for found in rules.compile(schema).match(columns).sets()]


@pytest.mark.parametrize(
    ("condition", "n", "expected"),
    [
        ("n * CAST(0.5 AS DOUBLE) > 1e17", 10**18, True),
        ("n * CAST(3 AS DOUBLE) > 1e18", 9 * 10**18, True),
        ("n * CAST(3 AS DOUBLE) = 3", 1, True),
        ("n * 3 > 5", 9 * 10**18, False),  # a bigint that overflows has no value
        ("n * 1e-1 > 0.3", 3, True),  # 0.30000000000000004, as in every SQL
        ("n * 0.1 > 0.3", 3, False),
        ("n * 3e0 > 1e18", 9 * 10**18, True),
        ("n + -CAST(0.5 AS DOUBLE) < 1", 1, True),
        ("n * (1e0 + 2) > 1e18", 9 * 10**18, True),
        ("GREATEST(n, m, 1e0) > 3", 10**18, True),
        ("n > 1e3", 1001, True),
        ("n - m * 2.5E-1 = 0", 0, True),
    ],
)
def test_doubles_make_doubles(condition: str, n: int, expected: bool) -> None:
    assert holds(condition, {"n": "bigint", "m": "bigint"}, n=[n], m=[0]) == [expected]


def test_infinite_doubles_are_no_column_of_that_name() -> None:
    rules = fp.Rules()
    rules.add(1, "LEAST(x, CAST('inf' AS DOUBLE)) > y")
    rules.add(2, "LEAST(x, inf) > y")
    schema = {"x": "double", "y": "double", "inf": "double"}
    row = {"x": [5.0], "y": [1.0], "inf": [0.0]}
    assert rules.compile(schema).match(row).sets() == [{1}]


def test_truth_is_no_column_of_that_name() -> None:
    rules = fp.Rules()
    rules.add(1, "COALESCE(f, TRUE)")
    rules.add(2, "COALESCE(f, `TRUE`)")
    schema = {"f": "boolean", "TRUE": "boolean"}
    row = {"f": pa.array([None], pa.bool_()), "TRUE": [False]}
    snapshot = rules.compile(schema)
    assert snapshot.match(row).sets() == [{1}]
    assert [each.text for each in snapshot.explain().computed] == ['COALESCE(f, "TRUE")', "COALESCE(f, TRUE)"]


def test_many_of_one_form() -> None:
    rules = fp.Rules()
    for number in range(40):
        rules.add(number, f"x * CAST({number}.5 AS DOUBLE) > 1")
    assert rules.compile({"x": "double"}).match({"x": [1.0]}).sets() == [set(range(1, 40))]
    assert rules.compile({"x": "bigint"}).match({"x": [1]}).sets() == [set(range(1, 40))]


def test_snapshots_keep_them(tmp_path: object) -> None:
    rules = fp.Rules()
    rules.add(1, "n * CAST(0.5 AS DOUBLE) > m + 1e-1")
    rules.compile({"n": "bigint", "m": "bigint"}).save(f"{tmp_path}/s")
    assert fp.Snapshot.load(f"{tmp_path}/s").match({"n": [1], "m": [0]}).sets() == [{1}]


def test_a_double_is_told_apart_from_an_equal_number() -> None:
    rules = fp.Rules()
    rules.add(1, "n * 3 > 5")
    rules.add(2, "n * CAST(3 AS DOUBLE) > 5")
    rules.add(3, "n * 3 + m > 5")
    rules.add(4, "n * 3e0 + m > 5")
    assert rules.compile({"n": "bigint", "m": "bigint"}).match({"n": [9 * 10**18], "m": [0]}).sets() == [{2, 4}]
