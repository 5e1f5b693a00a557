"""Bounds in tables mean what the same bounds mean as text, in every type."""

import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.language import KEY, Binder, Condition, ConditionError, parse
from fencepost.ordinals import AttributeType
from fencepost.rules import RuleFaultsError, Rules
from tests.effort import examples
from tests.rules.compared import PRICE, boxes_by_rule, through_json, through_parquet

DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 0.5, 2.5, 5e-324, -5e-324, 1.7976931348623157e308, math.inf, -math.inf]),
    st.sampled_from([2.0**52, 2.0**53, 2.0**63, -(2.0**63), 9.2e18, 1e18, 0.01, 4.35, 1.005, 1e16 + 2]),
    st.floats(allow_nan=False),
    st.floats(-100, 100),
)
INTEGERS = st.one_of(
    st.sampled_from([0, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 10**16, 10**18]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-20, 20),
)
MOMENTS = st.one_of(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.dates(date(1960, 1, 1), date(1980, 1, 1)).map(lambda day: datetime(day.year, day.month, day.day)),
)
DECIMALS = st.one_of(
    st.decimals(-1000, 1000, places=3),
    st.decimals(Decimal("-1e30"), Decimal("1e30"), places=3),
    st.sampled_from([Decimal("0.100"), Decimal("-0.005"), Decimal("9007199254740.993"), Decimal("99999999.999")]),
)
NUMBERS = ["double", "bigint", "decimal(9,2)", "decimal(18,6)", "decimal(18,0)", "decimal(18,18)"]
TIMES = ["timestamp", "timestamp_ntz", "date"]
SOURCES: list[tuple[Any, st.SearchStrategy[Any], list[str]]] = [
    (pa.float64(), DOUBLES, NUMBERS),
    (pa.float32(), st.floats(allow_nan=False, width=32), NUMBERS),
    (pa.int64(), INTEGERS, NUMBERS),
    (pa.uint64(), st.integers(0, 2**64 - 1), NUMBERS),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1), NUMBERS),
    (pa.decimal128(38, 3), DECIMALS, NUMBERS),
    (pa.decimal256(76, 3), DECIMALS, NUMBERS),
    (pa.decimal128(38, 30), st.decimals(-5, 5, places=30), NUMBERS),
    (pa.timestamp("us"), MOMENTS, TIMES),
    (pa.timestamp("us", tz="Europe/Berlin"), MOMENTS, TIMES),
    (pa.timestamp("ms"), MOMENTS.map(lambda at: at.replace(microsecond=0)), TIMES),
    (pa.date32(), st.dates(), TIMES),
    (pa.bool_(), st.booleans(), ["boolean"]),
]
KEYS = st.sampled_from([None, "A", "O'Neil", "", "b c"])


def constant(value: Any) -> str:
    """A constant in SQL, written independently of the library: exact also for doubles."""
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%m-%d %H:%M:%S.%f}'".replace("'", f"'{value.year:04}-", 1)
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


@st.composite
def table_rows(draw: st.DrawFn) -> tuple[Any, list[Any], list[Any], list[Any], str, str]:
    type_, values, targets = draw(st.sampled_from(SOURCES))
    bounds = draw(st.sampled_from(["[)", "[]", "()", "(]"]))
    low, high, keys = [], [], []
    for _ in range(draw(st.integers(1, 8))):
        ends = sorted([draw(values), draw(values)])
        if ends[0] == ends[1] and bounds != "[]":
            ends = [None, ends[1]]
        low.append(None if draw(st.integers(0, 5)) == 0 else ends[0])
        high.append(None if draw(st.integers(0, 5)) == 0 else ends[1])
        keys.append(draw(KEYS))
    return type_, low, high, keys, bounds, draw(st.sampled_from(targets))


@given(table_rows())
@examples(400)
@example((pa.float64(), [0.1, 1.005, -0.29, 1e17], [0.29, 4.35, 1.13, None], [None] * 4, "[]", "decimal(9,2)"))
@example((pa.float64(), [-math.inf, math.inf], [math.inf, math.inf], [None] * 2, "[]", "double"))
@example((pa.float64(), [-math.inf, 1.0], [1.0, math.inf], [None] * 2, "()", "bigint"))
@example((pa.int64(), [-(2**63), 2**63 - 2], [2**63 - 1, 2**63 - 1], [None] * 2, "()", "bigint"))
def test_rules_of_a_table_are_the_same_rules_as_text(
    case: tuple[Any, list[Any], list[Any], list[Any], str, str],
) -> None:
    type_, low, high, keys, bounds, target = case
    ids = list(range(10, 10 + len(low)))
    zoned = pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(type_) else type_
    table = {
        "rule_id": ids,
        "lower": pa.array(low, zoned).cast(type_),
        "upper": pa.array(high, zoned).cast(type_),
        "k": pa.array(keys, pa.string()),
    }
    schema = {"x": target, "k": "string"}
    binder = Binder({"x": AttributeType.parse(target), "k": KEY})
    expected: dict[int, Counter[Any]] = {}
    for id, lower, upper, key in zip(ids, low, high, keys, strict=True):
        parts = [] if key is None else ["k = '{}'".format(key.replace("'", "''"))]
        parts += [] if lower is None else [f"x {'>=' if bounds[0] == '[' else '>'} {constant(lower)}"]
        parts += [] if upper is None else [f"x {'<=' if bounds[1] == ']' else '<'} {constant(upper)}"]
        if lower is None and upper is None:
            some = constant({"date": date(2000, 1, 1), "boolean": True}.get(target, datetime(2000, 1, 1)))
            parts.append(f"(x < {0 if target in NUMBERS else some} OR x >= {0 if target in NUMBERS else some})")
        try:
            condition = parse(" AND ".join(parts))
            assert isinstance(condition, Condition)
            boxes = binder.bind(condition).boxes
            expected[id] = Counter((box.keys, box.ranges) for box in boxes)
        except ConditionError as refusal:
            if not any(words in refusal.got for words in ("never hold", "exclude each other")):
                raise
    rules = Rules.from_table(table, equal="k", ranges={"x": ("lower", "upper")}, bounds=bounds)
    empty = set(ids) - set(expected)
    if empty:
        with pytest.raises(RuleFaultsError) as error:
            rules.columns(schema)
        assert {int(line.split()[1][:-1]) for line in error.value.shown} == empty
        for id in empty:
            rules.remove(id)
    assert boxes_by_rule(rules.columns(schema)) == expected
    for copy in (through_json(rules), through_parquet(rules)):
        assert boxes_by_rule(copy.columns(schema)) == expected


def test_nanoseconds_bound_microseconds() -> None:
    at = np.array(["2024-01-01T00:00:00.000001500", "2024-01-01T00:00:00.000007500"], "M8[ns]")
    base = 1704067200000000
    for bounds, first, last in (("[)", 2, 7), ("[]", 2, 7), ("()", 2, 7), ("(]", 2, 7)):
        table = {"rule_id": [1], "lower": at[:1], "upper": at[1:]}
        columns = Rules.from_table(table, ranges={"t": ("lower", "upper")}, bounds=bounds).columns()
        assert str(columns.types["t"]) == "timestamp"
        assert boxes_by_rule(columns) == {1: Counter([((), (("t", base + first, base + last),))])}


def test_bounds_of_two_types_that_have_a_common_one() -> None:
    def box(lower: Any, upper: Any, type_: str) -> Any:
        rules = Rules.from_table({"rule_id": [1], "lower": lower, "upper": upper}, ranges=PRICE)
        [((_, [(_, first, last)]), _)] = boxes_by_rule(rules.columns({"price": type_}))[1].items()
        return first, last

    assert box([1], [2.5], "decimal(9,1)") == (10, 24)
    assert box([1], pa.array([Decimal("2.55")]), "decimal(9,2)") == (100, 254)
    assert box(pa.array([Decimal("1.5")]), pa.array([Decimal("2.55")]), "decimal(9,2)") == (150, 254)
    assert box([date(1970, 1, 2)], [datetime(1970, 1, 2, 12)], "timestamp") == (86_400_000_000, 129_599_999_999)
    assert box([None], [2.5], "bigint") == (-(2**63), 2)


def test_the_ordinal_of_a_half_open_end_is_the_one_before() -> None:
    table = {"rule_id": [1], "lower": [40.0], "upper": [50.0]}
    boxes = Rules.from_table(table, ranges=PRICE).columns().boxes[0]
    double = AttributeType("double")
    assert boxes.firsts.tolist() == [[double.encode_one(40.0)]]
    assert boxes.lasts.tolist() == [[double.encode_one(math.nextafter(50.0, 0.0))]]
