"""Ordinals keep order, come back exactly, and turn any bound into the tightest range."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.ordinals import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ, AttributeType
from fencepost.ordinals.spellings import TYPES, spark_name
from tests.effort import examples

INT64 = (-(2**63), 2**63 - 1)
SMALLEST_DENORMAL = math.ulp(0.0)
LARGEST_DOUBLE = math.nextafter(math.inf, 0.0)
DECIMAL = AttributeType("decimal", 18, 4)

DOUBLES = st.one_of(
    st.floats(allow_nan=False),
    st.integers(-5, 5).map(float),
    st.sampled_from(
        [0.0, -0.0, math.inf, -math.inf, SMALLEST_DENORMAL, -SMALLEST_DENORMAL, LARGEST_DOUBLE, 2.0**53, 2.0**63]
    ),
)
INTEGERS = st.one_of(st.integers(*INT64), st.integers(-5, 5), st.sampled_from([*INT64, 2**53, 2**53 + 1, -(2**53) - 1]))
DECIMALS = st.one_of(st.integers(1 - 10**18, 10**18 - 1), st.integers(-20_000, 20_000)).map(
    lambda n: Decimal(n).scaleb(-4)
)
INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
DATES = st.dates()
VALUES: list[tuple[AttributeType, st.SearchStrategy[Any]]] = [
    (DOUBLE, DOUBLES),
    (BIGINT, INTEGERS),
    (DECIMAL, DECIMALS),
    (TIMESTAMP, INSTANTS),
    (TIMESTAMP_NTZ, INSTANTS.map(lambda t: t.replace(tzinfo=None))),
    (DATE, DATES),
    (BOOLEAN, st.booleans()),
]
EACH_TYPE = pytest.mark.parametrize(("attribute", "values"), VALUES, ids=[str(attribute) for attribute, _ in VALUES])


def ordinals_of(attribute: AttributeType, values: Any) -> list[int]:
    ordinals, valid = attribute.encode(values)
    assert valid is None
    assert ordinals.dtype == np.int64
    return [int(ordinal) for ordinal in ordinals]


@EACH_TYPE
def test_order_is_kept(attribute: AttributeType, values: st.SearchStrategy[Any]) -> None:
    @examples(150)
    @given(values, values)
    def check(one: Any, other: Any) -> None:
        first, second = ordinals_of(attribute, pa.array([one, other], attribute.arrow))
        assert (first < second, first == second) == (one < other, one == other)

    check()


@EACH_TYPE
def test_values_come_back(attribute: AttributeType, values: st.SearchStrategy[Any]) -> None:
    @examples(150)
    @given(st.lists(st.none() | values))
    def check(column: list[Any]) -> None:
        array = pa.array(column, attribute.arrow)
        ordinals, valid = attribute.encode(array)
        assert (valid is None) == (None not in column)
        decoded = attribute.decode(ordinals, valid)
        assert decoded.type == attribute.arrow
        assert decoded.to_pylist() == column
        assert [attribute.encode_one(value) for value in column] == [
            int(ordinal) if valid is None or valid[row] else None for row, ordinal in enumerate(ordinals)
        ]

    check()


@EACH_TYPE
def test_ranges_hold_exactly_the_values_between(attribute: AttributeType, values: st.SearchStrategy[Any]) -> None:
    bound = st.none() | values

    @examples(150)
    @given(bound, bound, st.booleans(), st.booleans(), values)
    def check(lower: Any, upper: Any, lower_closed: bool, upper_closed: bool, value: Any) -> None:
        found = attribute.range(lower, upper, lower_closed=lower_closed, upper_closed=upper_closed)
        ordinal = attribute.encode_one(value)
        assert ordinal is not None
        inside = (lower is None or value > lower or (lower_closed and value == lower)) and (
            upper is None or value < upper or (upper_closed and value == upper)
        )
        assert (found is not None and found[0] <= ordinal <= found[1]) == inside

    check()


@examples(150)
@given(DOUBLES)
def test_neighbouring_doubles_have_neighbouring_ordinals(value: float) -> None:
    ordinal = DOUBLE.encode_one(value)
    assert ordinal is not None
    if value < math.inf:
        assert DOUBLE.encode_one(math.nextafter(value, math.inf)) == ordinal + 1
    decoded = DOUBLE.decode(np.array([ordinal]))[0].as_py()
    assert decoded == value
    assert math.copysign(1, decoded) == (math.copysign(1, value) if value else 1)


EXACT_NUMBERS = st.one_of(
    st.fractions(-50, 50, max_denominator=64),
    st.fractions(),
    INTEGERS,
    DOUBLES.filter(math.isfinite),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
    st.integers(-(10**25), 10**25),
)
COUNTING: list[AttributeType] = [BIGINT, DECIMAL, AttributeType("decimal", 18, 0), AttributeType("decimal", 18, 18)]


@pytest.mark.parametrize("attribute", COUNTING, ids=str)
def test_inexact_bounds_are_minimal_and_maximal(attribute: AttributeType) -> None:
    def value_of(ordinal: int) -> Fraction:
        return ordinal * attribute.unit

    @examples(150)
    @given(EXACT_NUMBERS, st.booleans())
    def check(bound: Any, closed: bool) -> None:
        exact = Fraction(bound)
        smallest, largest = attribute.limits

        above = attribute.range(lower=bound, lower_closed=closed)
        first = largest + 1 if above is None else above[0]
        holds: Callable[[int], bool] = lambda n: value_of(n) > exact or (closed and value_of(n) == exact)  # noqa: E731
        assert above is None or holds(first)
        assert first == smallest or not holds(first - 1)

        below = attribute.range(upper=bound, upper_closed=closed)
        last = smallest - 1 if below is None else below[1]
        holds = lambda n: value_of(n) < exact or (closed and value_of(n) == exact)  # noqa: E731
        assert below is None or holds(last)
        assert last == largest or not holds(last + 1)

    check()


@examples(150)
@given(EXACT_NUMBERS)
def test_a_number_against_doubles_is_the_nearest_double(bound: Any) -> None:
    nearest = float(bound)
    ordinal = DOUBLE.encode_one(nearest)
    assert ordinal is not None
    assert DOUBLE.range(bound, bound) == (ordinal, ordinal)
    assert DOUBLE.range(lower=bound) == (ordinal, DOUBLE.encode_one(math.inf))
    assert DOUBLE.range(upper=bound, upper_closed=False) == (DOUBLE.encode_one(-math.inf), ordinal - 1)


def test_numbers_beyond_every_double_are_not_rounded() -> None:
    infinity = DOUBLE.encode_one(math.inf)
    largest = DOUBLE.encode_one(LARGEST_DOUBLE)
    for beyond in (10**400, Decimal("1e400"), Fraction(10**400)):
        assert DOUBLE.range(lower=beyond) == (infinity, infinity)
        assert DOUBLE.range(upper=beyond) == (DOUBLE.encode_one(-math.inf), largest)
        assert DOUBLE.range(beyond, beyond) is None
        assert DOUBLE.range(upper=-beyond) == (DOUBLE.encode_one(-math.inf), DOUBLE.encode_one(-math.inf))
        assert DOUBLE.range(lower=-beyond) == (DOUBLE.encode_one(-LARGEST_DOUBLE), infinity)
    assert DOUBLE.range(lower=math.inf) == (infinity, infinity)
    assert DOUBLE.range(lower=math.inf, lower_closed=False) is None


def test_unbounded_ranges_reach_every_value() -> None:
    assert DOUBLE.range() == (DOUBLE.encode_one(-math.inf), DOUBLE.encode_one(math.inf))
    assert BIGINT.range() == TIMESTAMP.range() == INT64
    assert BIGINT.range(lower=INT64[1]) == (INT64[1], INT64[1])
    assert BIGINT.range(lower=INT64[1], lower_closed=False) is None
    assert BIGINT.range(lower=-math.inf, upper=math.inf) == INT64
    assert AttributeType("decimal", 18, 2).range() == (1 - 10**18, 10**18 - 1)
    assert DATE.range() == (-(2**31), 2**31 - 1)
    assert BOOLEAN.range() == (0, 1)
    assert BOOLEAN.range(upper=True, upper_closed=False) == (0, 0)


def test_dates_and_timestamps_bound_each_other() -> None:
    midnight = 1_704_067_200_000_000
    assert TIMESTAMP.range(lower=date(2024, 1, 1), upper=date(2024, 1, 1)) == (midnight, midnight)
    assert TIMESTAMP.range(upper=date(2024, 1, 1), upper_closed=False) == (INT64[0], midnight - 1)
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    assert DATE.range(lower=noon) == (19724, 2**31 - 1)
    assert DATE.range(upper=noon, upper_closed=False) == (-(2**31), 19723)
    assert DATE.range(upper=datetime(2024, 1, 1), upper_closed=False) == (-(2**31), 19722)
    east = datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert TIMESTAMP.range(east, east) == (midnight, midnight)
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 999_999)
    assert TIMESTAMP_NTZ.range(before_1970, before_1970) == (-1, -1)


@pytest.mark.parametrize(
    ("column", "attribute", "ordinals"),
    [
        (np.array([1.5, np.nan]), DOUBLE, [4609434218613702656, None]),
        (np.array([1.5], dtype=np.float32), DOUBLE, [4609434218613702656]),
        (np.array([1.5], dtype=np.float16), DOUBLE, [4609434218613702656]),
        (pa.array([0.1], pa.float32()), DOUBLE, [DOUBLE.encode_one(float(np.float32(0.1)))]),
        (np.array([2**53, -3]), DOUBLE, [DOUBLE.encode_one(2.0**53), DOUBLE.encode_one(-3.0)]),
        (np.array([2**62, -(2**63)]), DOUBLE, [DOUBLE.encode_one(2.0**62), DOUBLE.encode_one(-(2.0**63))]),
        (pa.array([Decimal("0.75")]), DOUBLE, [DOUBLE.encode_one(0.75)]),
        (pa.array([Decimal("1e30")], pa.decimal128(38, -20)), DOUBLE, None),
        (pa.array([Decimal("7e3")], pa.decimal128(5, -2)), DOUBLE, [DOUBLE.encode_one(7000.0)]),
        (np.arange(3, dtype=np.uint8), BIGINT, [0, 1, 2]),
        (np.array([3], dtype=">i4"), BIGINT, [3]),
        (np.arange(6)[::2], BIGINT, [0, 2, 4]),
        (np.array([INT64[1]], dtype=np.uint64), BIGINT, [INT64[1]]),
        (np.array([-(2.0**63), 7.0, np.nan]), BIGINT, [-(2**63), 7, None]),
        (pa.array([Decimal("7.00")]), BIGINT, [7]),
        (np.ma.masked_array([1, 2, 3], [False, True, False]), BIGINT, [1, None, 3]),
        (pa.array([1, 2, 1]).dictionary_encode(), BIGINT, [1, 2, 1]),
        (pa.chunked_array([[1], [], [2, None]]), BIGINT, [1, 2, None]),
        (pa.array([9, 1, None, 2])[1:], BIGINT, [1, None, 2]),
        (pa.nulls(2), BIGINT, [None, None]),
        ([], BIGINT, []),
        ([1, None, 3], BIGINT, [1, None, 3]),
        ((1, 2.0), BIGINT, [1, 2]),
        (pd.Series([1.0, None, 3.0]), BIGINT, [1, None, 3]),
        (pd.Series([1, None, 3], dtype="Int64"), BIGINT, [1, None, 3]),
        (pl.Series([1, None, 3]), BIGINT, [1, None, 3]),
        (pa.array([Decimal("12.5")]), DECIMAL, [125_000]),
        (pa.array([Decimal("12.50000")]), DECIMAL, [125_000]),
        (pa.array([Decimal("12.5")], pa.decimal256(60, 30)), DECIMAL, [125_000]),
        (
            pa.array([Decimal("-10.5"), None, Decimal(2), Decimal("10.5")], pa.decimal128(38, 18)),
            DECIMAL,
            [-105_000, None, 20_000, 105_000],
        ),
        (pa.array([Decimal("10.00001")], pa.decimal128(38, 18)), DECIMAL, None),
        (pa.array([Decimal("10.5"), Decimal(2)], pa.decimal128(38, 18))[:1], DOUBLE, [DOUBLE.encode_one(10.5)]),
        (pa.array([Decimal("10.1")], pa.decimal128(38, 18)), DOUBLE, None),
        (pa.array([Decimal(2**63 - 1)], pa.decimal128(38, 18)), BIGINT, [2**63 - 1]),
        (pa.array([Decimal(2**63)], pa.decimal128(38, 18)), BIGINT, None),
        (pa.array([Decimal("12.5")], pa.decimal256(60, 10)), DECIMAL, [125_000]),
        (pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)), DECIMAL, [15_000, None]),
        (pa.array([Decimal("1.5"), None], pa.decimal64(12, 2)), DECIMAL, [15_000, None]),
        (np.array([12, -12]), DECIMAL, [120_000, -120_000]),
        (np.array([0.5, -0.0, 3.0625]), DECIMAL, [5_000, 0, 30_625]),
        (np.array(["1969-12-31T23:59:59"], dtype="M8[s]"), TIMESTAMP_NTZ, [-1_000_000]),
        (np.array(["2024-01-01T00", "NaT"], dtype="M8[h]"), TIMESTAMP, [1_704_067_200_000_000, None]),
        (np.array(["1970-02"], dtype="M8[M]"), DATE, [31]),
        (pa.array([1_000], pa.timestamp("ns")), TIMESTAMP, [1]),
        (pa.array([5], pa.timestamp("ms", tz="Europe/Berlin")), TIMESTAMP, [5_000]),
        (pa.array([1], pa.date32()), TIMESTAMP, [86_400_000_000]),
        (pa.array([86_400_000], pa.date64()), DATE, [1]),
        (pa.array([172_800], pa.timestamp("s")), DATE, [2]),
        (pd.Series(pd.to_datetime(["2024-01-01", None])), TIMESTAMP, [1_704_067_200_000_000, None]),
        (pl.Series([date(1970, 1, 2)]), DATE, [1]),
        (pd.Series([True, None]), BOOLEAN, [1, None]),
        (np.array([True, False]), BOOLEAN, [1, 0]),
    ],
)
def test_columns_of_every_library(column: Any, attribute: AttributeType, ordinals: list[int | None] | None) -> None:
    if ordinals is None:
        with pytest.raises(FencepostError, match="holds exactly"):
            attribute.encode(column)
        return
    found, valid = attribute.encode(column)
    assert [n if valid is None or valid[row] else None for row, n in enumerate(found.tolist())] == ordinals
    assert found.flags.writeable
    assert found.flags.c_contiguous
    assert found.flags.owndata or found.base is not None


@pytest.mark.parametrize(
    ("column", "attribute", "message"),
    [
        (
            np.array([1, 2**53 + 1]),
            DOUBLE,
            "9007199254740993 in row 1 of price, a column of int64; expected values that double holds exactly. "
            "Cast the column to double yourself, or bind price to the type of the column.",
        ),
        (np.array([INT64[1]]), DOUBLE, "9223372036854775807 in row 0 of price, a column of int64; "),
        (pa.array([Decimal("0.1")]), DOUBLE, "0.1 in row 0 of price, a column of decimal128(1, 1); "),
        (np.array([2**63], dtype=np.uint64), BIGINT, "9223372036854775808 in row 0 of price, a column of uint64; "),
        (np.array([1.0, 2.5]), BIGINT, "2.5 in row 1 of price, a column of double; expected values that bigint "),
        (np.array([2.0**63]), BIGINT, "9.223372036854776e+18 in row 0 of price"),
        (np.array([math.inf]), BIGINT, "inf in row 0 of price"),
        (
            np.array([0.1]),
            DECIMAL,
            "0.1 in row 0 of price, a column of double; expected values that decimal(18,4) ",
        ),
        (np.array([1e308]), DECIMAL, "1e+308 in row 0 of price"),
        (np.array([10**14]), DECIMAL, "100000000000000 in row 0 of price"),
        (pa.array([Decimal("0.00001")]), DECIMAL, "0.00001 in row 0 of price"),
        (pa.array([1_001], pa.timestamp("ns")), TIMESTAMP, "1970-01-01 00:00:00.000001001 in row 0 of price"),
        (
            pa.array([10**14], pa.timestamp("s")),
            TIMESTAMP,
            "<value out of range: 100000000000000> in row 0 of price",
        ),
        (pa.array([1], pa.timestamp("s")), DATE, "1970-01-01 00:00:01 in row 0 of price"),
        (
            pa.array(["x"]),
            DOUBLE,
            "price, a column of string; expected a column that converts to double. "
            "Cast the column to double, or bind price to a type of its own: compile({'price': 'string'}), "
            "--type price=string.",
        ),
        (np.array([1.5]), TIMESTAMP, "price, a column of double; expected a column that converts to timestamp. "),
        (np.array([1]), BOOLEAN, "price, a column of int64; expected a column that converts to boolean. "),
        (np.array([True]), BIGINT, "price, a column of bool; expected a column that converts to bigint. "),
        (pa.array([1], pa.date32()), BIGINT, "price, a column of date32[day]; "),
        ([1, "x"], BIGINT, "price as list, which Arrow refuses ("),
        (np.zeros((2, 2)), DOUBLE, "price as ndarray, which Arrow refuses ("),
    ],
)
def test_what_a_type_cannot_hold_is_refused(column: Any, attribute: AttributeType, message: str) -> None:
    with pytest.raises(FencepostError) as refused:
        attribute.encode(column, "price")
    assert str(refused.value).startswith(message)


def test_values_under_a_null_are_not_judged() -> None:
    column = pa.Array.from_buffers(
        pa.float64(), 2, [pa.array([True, False]).buffers()[1], pa.py_buffer(np.array([2.0, 2.5]))]
    )
    ordinals, valid = BIGINT.encode(column)
    assert ordinals.tolist() == [2, 0]
    assert valid is not None
    assert valid.tolist() == [True, False]


@pytest.mark.parametrize(
    ("value", "attribute", "ordinal"),
    [
        (np.float64(1.5), DOUBLE, 4609434218613702656),
        (np.int32(7), BIGINT, 7),
        (np.bool_(True), BOOLEAN, 1),
        (np.datetime64("1970-01-02"), DATE, 1),
        (pd.Timestamp("1970-01-01 00:00:01", tz="UTC"), TIMESTAMP, 1_000_000),
        (pd.NaT, TIMESTAMP, None),
        (pd.NA, BIGINT, None),
        (Decimal("NaN"), DOUBLE, None),
        (math.nan, BIGINT, None),
        (None, DATE, None),
        (Fraction(1, 2), DOUBLE, 4602678819172646912),
        (Decimal("0.5"), DECIMAL, 5_000),
    ],
)
def test_single_values(value: Any, attribute: AttributeType, ordinal: int | None) -> None:
    assert attribute.encode_one(value) == ordinal


@pytest.mark.parametrize(
    ("value", "attribute", "message"),
    [
        (
            2**53 + 1,
            DOUBLE,
            "9007199254740993 for price; expected a value that double holds exactly. "
            "Convert the value, or bind price to another type.",
        ),
        (Decimal("0.1"), DOUBLE, "Decimal('0.1') for price; expected a value that double holds exactly. "),
        (2**63, BIGINT, "9223372036854775808 for price; expected a value that bigint holds exactly. "),
        (2.5, BIGINT, "2.5 for price; expected a value that bigint holds exactly. "),
        (math.inf, DECIMAL, "inf for price; expected a value that decimal(18,4) holds exactly. "),
        (datetime(2024, 1, 1, 12), DATE, "datetime.datetime(2024, 1, 1, 12, 0) for price; expected "),
        (True, BIGINT, "True as a value of type bigint for price; expected a number. "),
        (1, BOOLEAN, "1 as a value of type boolean for price; expected TRUE or FALSE. "),
        (5, DATE, "5 as a value of type date for price; expected a date or timestamp. "),
        ("x", DOUBLE, "price, a column of string; expected a column that converts to double. "),
    ],
)
def test_single_values_that_are_refused(value: Any, attribute: AttributeType, message: str) -> None:
    with pytest.raises(FencepostError) as refused:
        attribute.encode_one(value, "price")
    assert str(refused.value).startswith(message)


def test_bounds_of_another_dimension_are_refused() -> None:
    with pytest.raises(FencepostError, match=r"^5 as a value of type timestamp; expected a date or timestamp. Comp"):
        TIMESTAMP.range(lower=5)
    with pytest.raises(FencepostError, match=r"^nan as a value of type double; expected a number. "):
        DOUBLE.range(lower=math.nan)


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("double", "double"),
        ("FLOAT64", "double"),
        ("Double Precision", "double"),
        (pa.float32(), "double"),
        (pa.float16(), "double"),
        (np.dtype("float32"), "double"),
        (float, "double"),
        ("bigint", "bigint"),
        ("LONG", "bigint"),
        ("int", "bigint"),
        (pa.uint64(), "bigint"),
        (np.int16, "bigint"),
        (int, "bigint"),
        ("decimal(12,4)", "decimal(12,4)"),
        ("NUMERIC( 12 , 4 )", "decimal(12,4)"),
        ("decimal(5)", "decimal(5,0)"),
        (pa.decimal128(18, 2), "decimal(18,2)"),
        (pa.decimal64(18, 2), "decimal(18,2)"),
        ("timestamp", "timestamp"),
        ("timestamptz", "timestamp"),
        ("timestamp with time zone", "timestamp"),
        (pa.timestamp("ns", tz="Europe/Berlin"), "timestamp"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        ("timestamp_ntz", "timestamp_ntz"),
        (np.dtype("M8[ns]"), "timestamp_ntz"),
        ("date", "date"),
        (pa.date64(), "date"),
        (np.dtype("M8[D]"), "date"),
        ("boolean", "boolean"),
        (pa.bool_(), "boolean"),
        (bool, "boolean"),
        (DATE, "date"),
    ],
)
def test_names_of_types(description: Any, name: str) -> None:
    attribute = AttributeType.parse(description)
    assert str(attribute) == name
    assert AttributeType.parse(name) == attribute
    assert AttributeType.parse(attribute.arrow) == attribute


@pytest.mark.parametrize("description", ["varchar", pa.string(), "decimal", str, 7, None, np.dtype("complex128")])
def test_types_that_no_attribute_has(description: Any) -> None:
    with pytest.raises(FencepostError) as refused:
        AttributeType.parse(description)
    assert str(refused.value) == (
        f"{refused.value.got}; expected double, bigint, decimal(p,s) with p <= 18, timestamp, timestamp_ntz, date "
        "or boolean. Cast the column to one of these; a string column is a key, to be compared with = or IN."
    )


@pytest.mark.parametrize("name", ["decimal(19,2)", "decimal(38,10)", "decimal(4,5)", "decimal(4,-1)", "decimal(0,0)"])
def test_decimals_beyond_int64(name: str) -> None:
    with pytest.raises(FencepostError) as refused:
        AttributeType.parse(name)
    assert str(refused.value) == (
        f"{name}; expected decimal(p,s) with 1 <= p <= 18 and 0 <= s <= p. "
        "Cast the column to a narrower decimal where its values fit, or to double."
    )


def test_every_spelling_is_of_one_type() -> None:
    spelled = [name for type_, each in TYPES.items() for name in (type_, *each.others)]
    assert len(spelled) == len(set(spelled))
    for name, each in TYPES.items():
        assert {spark_name(other) for other in (name, *each.others, str(each.arrow))} == {name}
        if each.kind not in (None, "key"):
            assert AttributeType.parse(name).kind == AttributeType.parse(each.arrow).kind == each.kind
    assert [spark_name(text) for text in ("Decimal ( 9 )", "varchar(3)", "timestamp[ns, tz=UTC]", "money")] == [
        "decimal(9,0)",
        "string",
        "timestamp",
        None,
    ]
