"""Rules: written, read from tables and files, and bound to the columns of a snapshot."""

import json
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost import FencepostError
from fencepost.language import KEY, Binder, Condition, ConditionError, parse
from fencepost.ordinals import AttributeType
from fencepost.rules import CompiledColumns, Rule, RuleFaultsError, Rules
from fencepost.snapshot import NEVER
from tests.conditions import TYPES, conditions

PRICE = {"price": ("lower", "upper")}


def boxes_by_rule(columns: CompiledColumns) -> dict[int, Counter[Any]]:
    """Every box of every rule, as keys and ranges."""
    found: dict[int, Counter[Any]] = {int(id): Counter() for id in columns.rules.ids}
    for boxes in columns.boxes:
        assert list(boxes.keys) == sorted(boxes.keys)
        assert list(boxes.attributes) == sorted(boxes.attributes)
        assert boxes.firsts.shape == boxes.lasts.shape == (len(boxes.rules), len(boxes.attributes))
        assert boxes.firsts.flags.c_contiguous
        assert boxes.firsts.dtype == boxes.lasts.dtype == boxes.rules.dtype == np.int64
        assert all(values.null_count == 0 for values in boxes.key_values)
        keys = [values.to_pylist() for values in boxes.key_values]
        for place, row in enumerate(boxes.rules.tolist()):
            found[int(columns.rules.ids[row])][
                tuple((name, values[place]) for name, values in zip(boxes.keys, keys, strict=True)),
                tuple(
                    (name, int(boxes.firsts[place, axis]), int(boxes.lasts[place, axis]))
                    for axis, name in enumerate(boxes.attributes)
                ),
            ] += 1
    return found


def message(error: pytest.ExceptionInfo[Any]) -> str:
    return str(error.value)


# -- one by one ------------------------------------------------------------------------------------------------


def test_add_and_look_up() -> None:
    rules = Rules()
    rules.add(1, "price > 40")
    rules.add(np.int64(-5), "x = 'A'", detect=" exit,enter", initial=True, labels={"a": "b"}, enabled=False)
    assert rules[1] == Rule(1, "price > 40")
    assert rules[-5] == Rule(-5, "x = 'A'", "enter,exit", True, {"a": "b"}, None, False, 1)
    assert list(rules) == [rules[1], rules[-5]]
    assert len(rules) == 2
    assert 1 in rules
    assert -5 in rules
    assert np.int64(1) in rules
    assert 2 not in rules
    assert "1" not in rules
    assert repr(rules) == "Rules(2: 2 as text, 0 of 0 tables)"


@pytest.mark.parametrize(
    "expires",
    [
        datetime(2030, 1, 1, 12),
        datetime(2030, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2030-01-01 12:00"),
        "2030-01-01T12:00:00Z",
    ],
)
def test_expiry_is_kept_in_utc(expires: Any) -> None:
    rules = Rules()
    rules.add(1, "x > 1", expires=expires)
    assert rules[1].expires == datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert type(rules[1].expires) is datetime
    assert rules.columns().rules.expires.tolist() == [1893499200000000]


def test_versions_grow_with_every_edit_also_across_removal() -> None:
    rules = Rules.from_table({"rule_id": [1, 2], "lower": [1, 2], "upper": [3, 4]}, ranges=PRICE)
    rules.replace(1, "price > 2")
    rules.replace(1, "price > 3")
    assert (rules[1].version, rules[2].version) == (3, 1)
    rules.remove(1)
    rules.remove(2)
    assert len(rules) == 0
    rules.add(1, "price > 4")
    rules.add_table({"rule_id": [2, 3], "lower": [2, 3], "upper": [3, 4]}, ranges=PRICE)
    assert {rule.id: rule.version for rule in rules} == {1: 4, 2: 2, 3: 1}
    assert dict(zip(*map(np.ndarray.tolist, rules.columns().rules[:2]), strict=True)) == {1: 4, 2: 2, 3: 1}


def test_replace_takes_nothing_over() -> None:
    rules = Rules()
    rules.add(1, "x > 1", detect="cross", labels={"a": "b"}, enabled=False)
    rules.replace(1, "x > 2")
    assert rules[1] == Rule(1, "x > 2", version=2)


def test_a_refused_edit_changes_nothing() -> None:
    rules = Rules.from_table({"rule_id": [1], "lower": [1], "upper": [3]}, ranges=PRICE)
    refused: list[dict[str, Any]] = [{"condition": "x >"}, {"condition": "x > 1", "detect": "never"}]
    for wrong in refused:
        with pytest.raises(FencepostError):
            rules.replace(1, **wrong)
        with pytest.raises(FencepostError):
            rules.add(2, **wrong)
    assert list(rules) == [Rule(1, None)]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"id": 1}, "got rule 1 a second time; expected an id of its own. Use replace to edit a rule."),
    ({"id": 2**63}, "got 9223372036854775808 as the id of a rule; expected an integer of 64 bits. Number the rules."),
    ({"id": "7"}, "got '7' as the id of a rule; expected an integer of 64 bits. Number the rules."),
    ({"id": True}, "got True as the id of a rule; expected an integer of 64 bits. Number the rules."),
    (
        {"condition": "x > 5 AND x < 3"},
        "got rule 2: `x > 5` and `x < 3`, which exclude each other; expected a condition that can hold. "
        "Remove one of the two parts, correct its constants, or join them with OR.\n"
        "  x > 5 AND x < 3\n  ^^^^^     ^^^^^",
    ),
    ({"condition": None}, "got rule 2: None; expected the text of a condition. Write for example 'price > 40'."),
    (
        {"detect": "enter,leave"},
        "got rule 2: detect='enter,leave'; expected any of inside, enter, exit, cross, separated by commas. "
        "Write for example 'enter,exit'.",
    ),
    (
        {"detect": None},
        "got rule 2: detect=None; expected a string or a list of strings. Write for example 'enter,exit'.",
    ),
    ({"initial": 1}, "got rule 2: initial=1; expected True or False. Pass initial as a boolean."),
    ({"enabled": "no"}, "got rule 2: enabled='no'; expected True or False. Pass enabled as a boolean."),
    (
        {"labels": {"a": 1}},
        "got rule 2: labels={'a': 1}; expected names and values that are strings. Write {'team': 'desk 4'}.",
    ),
    (
        {"expires": "soon"},
        "got rule 2: expires='soon'; expected a datetime, or its ISO text. Write datetime(2030, 1, 1, tzinfo=UTC).",
    ),
    (
        {"expires": 5},
        "got rule 2: expires=5; expected a datetime, or its ISO text. Write datetime(2030, 1, 1, tzinfo=UTC).",
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), REFUSED)
def test_what_add_refuses(arguments: dict[str, Any], expected: str) -> None:
    rules = Rules()
    rules.add(1, "x > 1")
    defaults: dict[str, Any] = {"id": 2, "condition": "x > 1"}
    with pytest.raises(FencepostError) as error:
        rules.add(**defaults | arguments)
    assert message(error) == expected
    assert isinstance(error.value, ConditionError) == ("condition" in arguments)
    assert len(rules) == 1


@pytest.mark.parametrize("call", [lambda r: r.remove(3), lambda r: r[3], lambda r: r.replace(3, "x > 1")])
def test_an_unknown_id_is_refused(call: Any) -> None:
    with pytest.raises(FencepostError) as error:
        call(Rules())
    assert message(error) == "got rule 3; expected the id of a rule that is here. Use add for a new rule."


def test_from_dicts() -> None:
    rows = [{"id": 1, "condition": "x > 1", "version": 3}, {"id": 2, "condition": "x < 1", "labels": None}]
    assert list(Rules.from_dicts(rows)) == [Rule(1, "x > 1", version=3), Rule(2, "x < 1")]


def test_faults_of_dicts_are_collected() -> None:
    rows: list[Any] = [
        {"id": 1, "condition": "x > 1"},
        {"id": 1, "condition": "x > 1"},
        {"id": 2, "condition": "x >> 1"},
        {"id": 3},
        {"id": 4, "condition": "x > 1", "colour": "red"},
        5,
        {"id": 6, "condition": "x > 1", "version": 0},
    ]
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_dicts(rows)
    lines = message(error).splitlines()
    fields = "expected the fields id, condition, detect, initial, labels, expires, enabled, version"
    assert lines[0] == "got 6 faults in 7 rows; expected none. Correct the rows and pass all of them again."
    assert lines[1].startswith("  row 1: got rule 1 a second time; expected an id of its own.")
    assert lines[2].startswith("  row 2: got rule 2: ")
    assert lines[3] == f"  row 3: got a rule without condition; {fields}. Id and condition are needed."
    assert lines[4] == f"  row 4: got the field 'colour'; {fields}. Id and condition are needed."
    assert lines[5] == "  row 5: got 5; expected an object with id and condition. Write one object per rule."
    assert lines[6] == "  row 6: got version=0; expected 1, 2, .... Leave it out for a new rule."
    assert len(lines) == 7


# -- tables ----------------------------------------------------------------------------------------------------

COLUMNS = {
    "rule_id": [1, 2, 3, 4],
    "symbol": ["IBM", None, "O'Neil", None],
    "lower": [1.5, None, -0.0, None],
    "upper": [2.5, 7.0, None, None],
}
AS_TABLES: list[Any] = [
    COLUMNS,
    {name: pa.array(values) for name, values in COLUMNS.items()},
    pa.table(COLUMNS),
    pa.concat_tables([pa.table(COLUMNS).slice(0, 2), pa.table(COLUMNS).slice(2)]),
    pa.RecordBatch.from_pydict(COLUMNS),
    pd.DataFrame(COLUMNS),
    pd.DataFrame(COLUMNS).astype({"symbol": "category"}),
    pl.DataFrame(COLUMNS),
    pl.DataFrame(COLUMNS).with_columns(pl.col("symbol").cast(pl.Categorical)),
    SimpleNamespace(toArrow=lambda: pa.table(COLUMNS)),
]


@pytest.mark.parametrize("table", AS_TABLES, ids=lambda table: type(table).__module__)
def test_tables_of_every_origin(table: Any) -> None:
    rules = Rules.from_table(table, id="rule_id", equal=["symbol"], ranges=PRICE)
    same = Rules()
    same.add(1, "symbol = 'IBM' AND price >= 1.5 AND price < 2.5")
    same.add(2, "price < 7")
    same.add(3, "symbol = 'O''Neil' AND price >= 0")
    same.add(4, "price < 0 OR price >= 0")  # a value is asked for, whichever
    assert boxes_by_rule(rules.columns()) == boxes_by_rule(same.columns())
    assert rules.columns().types == {"price": AttributeType("double")}
    assert rules.columns().keys == ["symbol"]
    assert list(rules) == [Rule(id, None) for id in (1, 2, 3, 4)]


def test_options_of_a_table() -> None:
    expires = datetime(2030, 1, 1, tzinfo=UTC)
    table = {
        "id": [1, 2],
        "lower": [1, 2],
        "d": ["exit,enter", None],
        "i": [True, None],
        "l": ['{"b": "1", "a": "2"}', None],
        "x": [date(2030, 1, 1), None],
        "e": [False, None],
    }
    rules = Rules.from_table(
        table,
        id="id",
        ranges={"price": ("lower", None)},
        detect="cross",
        labels={"team": "4"},
        detect_column="d",
        initial_column="i",
        labels_column="l",
        expires_column="x",
        enabled_column="e",
    )
    assert rules[1] == Rule(1, None, "enter,exit", True, {"a": "2", "b": "1"}, expires, False, 1)
    assert rules[2] == Rule(2, None, "cross", False, {"team": "4"}, None, True, 1)
    columns = rules.columns()
    assert columns.rules.ids.tolist() == [2]
    assert columns.rules.labels.to_pylist() == ['{"team": "4"}']
    assert columns.rules.expires.tolist() == [NEVER]
    assert columns.rules.conditions.to_pylist() == [None]
    constant = Rules.from_table(table, id="id", ranges={"price": ("lower", None)}, initial=True, expires=expires)
    assert constant[2] == Rule(2, None, "inside", True, None, expires)


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([{"a": "x", "b": None}, None]),
        pa.array([[("a", "x")], None], pa.map_(pa.string(), pa.string())),
        pl.Series(['{"a": "x"}', None]),
    ],
)
def test_labels_of_every_type(labels: Any) -> None:
    rules = Rules.from_table({"rule_id": [1, 2], "k": ["a", "b"], "l": labels}, equal="k", labels_column="l")
    assert [rule.labels for rule in rules] == [{"a": "x"}, None]


def test_names_match_without_case_unless_quoted() -> None:
    table = {"rule_id": [1], "symbol": ["A"], "lower": [1], "upper": [2]}
    schema = {"Symbol": "string", "Last Price": "double", "VOLUME": "bigint", "order": "bigint", "Day": "date"}
    names = {"volume": PRICE["price"], "Last Price": PRICE["price"], "ORDER": PRICE["price"]}
    columns = Rules.from_table(table, equal={"SYMBOL": "symbol"}, ranges=names).columns(schema)
    assert (columns.keys, list(columns.types)) == (["Symbol"], ["Last Price", "VOLUME", "order"])
    with pytest.raises(RuleFaultsError, match='where no column is named "Volume"'):
        Rules.from_table(table, ranges={'"Volume"': PRICE["price"]}).columns(schema)
    with pytest.raises(RuleFaultsError, match='where no column is named "last price"'):
        Rules.from_table(table, ranges={"last price": PRICE["price"]}).columns(schema)


def test_bounds_by_attribute() -> None:
    table = {"rule_id": [1], "a": [1], "b": [4]}
    ranges = {"x": ("a", "b"), "y": ("a", "b")}
    columns = Rules.from_table(table, ranges=ranges, bounds={"y": "(]"}).columns({"x": "int", "y": "int"})
    assert boxes_by_rule(columns) == {1: Counter([((), (("x", 1, 3), ("y", 2, 4)))])}


ROW_FAULTS = {
    "rule_id": [1, None, 1, 4, 5, 6, 99, 8],
    "symbol": ["A", "B", "C", "D", "E", "F", "G", "H"],
    "lower": [1.0, 1.0, 1.0, math.nan, 5.0, 2.0, 1.0, 1.0],
    "upper": [2.0, 2.0, 2.0, 2.0, 4.0, 2.0, 2.0, 2.0],
    "detect": ["enter"] * 7 + ["often"],
    "labels": ["{}"] * 7 + ["[1]"],
}


def test_faults_of_a_table_are_collected_with_their_rows() -> None:
    rules = Rules()
    rules.add(99, "x > 1")
    with pytest.raises(RuleFaultsError) as error:
        rules.add_table(ROW_FAULTS, equal=["symbol"], ranges=PRICE, detect_column="detect", labels_column="labels")
    assert message(error) == "\n".join(
        [
            "got 8 faults in 8 rows; expected none. Correct the rows and pass the table again; no rule was added.",
            "  row 1: a null id; expected an integer",
            "  row 2: id 1, which an earlier row has; expected every id once",
            "  row 3: NaN in lower; expected a number, or null where the range is unbounded",
            "  row 4: lower and upper are 5.0 and 4.0, an empty range; expected lower below upper with bounds [)",
            "  row 5: lower and upper are 2.0 and 2.0, an empty range; expected lower below upper with bounds [)",
            "  row 6: id 99, which another rule has; expected an id of its own",
            "  row 7: got detect='often'; expected any of inside, enter, exit, cross, separated by commas. "
            "Write for example 'enter,exit'.",
            "  row 7: got labels=[1]; expected names and values that are strings. Write {'team': 'desk 4'}.",
        ]
    )
    assert len(rules) == 1


def test_many_faults_are_counted_and_the_first_shown() -> None:
    table = {"rule_id": np.arange(1000), "lower": np.full(1000, np.nan), "upper": np.ones(1000)}
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_table(table, ranges=PRICE)
    lines = message(error).splitlines()
    assert error.value.total == 1000
    assert lines[0].startswith("got 1,000 faults in 1,000 rows; expected none.")
    assert [line.split(":")[0] for line in lines[1:21]] == [f"  row {row}" for row in range(20)]
    assert lines[21:] == ["  ... and 980 more"]


def test_other_faults_of_rows() -> None:
    def first_fault(**columns: Any) -> str:
        with pytest.raises(RuleFaultsError) as error:
            Rules.from_table(
                {"rule_id": [1, 2]} | columns, equal=["k"] if "k" in columns else [], ranges=PRICE, bounds="[]"
            )
        return message(error).splitlines()[1]

    one: dict[str, Any] = {"lower": [1, 1], "upper": [1, 1]}
    assert first_fault(rule_id=[1, 2.5], **one) == "  row 1: id 2.5; expected a whole number below 2**53"
    assert first_fault(rule_id=np.array([1, 2**63], np.uint64), **one) == (
        "  row 1: id 9223372036854775808; expected an integer of 64 bits"
    )
    assert first_fault(rule_id=[None, None], **one) == "  row 0: a null id; expected an integer"
    assert first_fault(k=["a", 7], **one) == "  row 1: 7 in k; expected a string, or null for every key"
    assert first_fault(lower=[1, 3], upper=[1, 2]) == (
        "  row 1: lower and upper are 3 and 2, an empty range; expected lower at most upper with bounds []"
    )
    assert first_fault(lower=[True, True], upper=[True, False]) == (
        "  row 1: lower and upper are 1 and 0, an empty range; expected lower at most upper with bounds []"
    )
    late = np.array(["2024-01-01", "12024-01-01"], "M8[s]")
    assert first_fault(lower=late, upper=[None, None]) == (
        "  row 1: a time in lower outside the years 1 to 9999; expected null where the range is unbounded"
    )
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_table({"rule_id": [1], "k": ["a"], "l": ["{"]}, equal="k", labels_column="l")
    assert message(error).splitlines()[1] == (
        '  row 0: got labels \'{\'; expected a JSON object of strings. Write {"team": "desk 4"}.'
    )


ONE = {"rule_id": [1], "symbol": ["A"], "lower": [1.0], "upper": [2.0], "word": ["w"]}
WRONG_TABLES: list[tuple[Any, dict[str, Any], str]] = [
    (ONE, {}, "got neither equal= nor ranges=; expected columns that make a condition. "
     "Name the key and the bound columns."),
    (ONE, {"equal": "symbl"}, "got a table without the column symbl; expected one of rule_id, symbol, lower, upper, "
     "word. Correct the name."),
    (ONE, {"id": "word", "equal": "symbol"}, "got word, a column of string; expected integers. Number the rules."),
    (ONE, {"equal": "lower"}, "got lower, a column of double; expected strings in a column of keys. "
     "Cast it to strings, or put it into ranges=."),
    (ONE, {"ranges": {"x": ("word", None)}}, "got word, a column of string, as the bounds of a range; "
     "expected numbers, dates, timestamps or booleans. Cast the column; a column of strings belongs into equal=."),
    (ONE, {"ranges": {"x": "lower"}}, "got 'lower' as the bounds of x; expected two columns, None for a side without "
     'bounds. Write ranges={"x": ("lower", "upper")}.'),
    (ONE, {"ranges": PRICE, "bounds": "<>"}, "got bounds='<>'; expected one of [) [] () (]. "
     "Write [ where the bound is inside."),
    (ONE, {"equal": ["symbol"], "ranges": {"Symbol": ("lower", None)}}, "got symbol twice in equal= and ranges=; "
     "expected every column once. Leave one out, or quote names with case."),
    (ONE, {"equal": "symbol", "detect_column": "lower"}, "got lower, a column of double; expected strings such as "
     "'enter,exit'. Cast it to strings."),
    (ONE, {"equal": "symbol", "enabled_column": "lower"}, "got lower, a column of double; expected booleans. "
     "Cast it to booleans."),
    (ONE, {"equal": "symbol", "labels_column": "lower"}, "got lower, a column of double; expected JSON objects as "
     "strings, or a map or struct of strings. Write the labels as JSON."),
    (ONE, {"equal": "symbol", "expires_column": "lower"}, "got lower, a column of double; expected a column that "
     "converts to timestamp. Cast the column to timestamp, or bind lower to a type of its own."),
    (ONE | {"upper": [1, 2]}, {"ranges": PRICE}, "got 2 rows in upper and 1 in rule_id; expected columns of one "
     "length. Pass whole columns."),
    (ONE | {"upper": [Decimal("1.5")]}, {"ranges": PRICE}, "got lower and upper, columns of double and "
     "decimal128(2, 1); expected two columns of one type. Cast one of the two to the type of the other."),
    ({"rule_id": [1], "lower": [2**53 + 1], "upper": [1e300]}, {"ranges": PRICE}, "got lower and upper, columns of "
     "int64 and double; expected two columns of one type. Cast one of the two to the type of the other."),
    (pa.table([[1], [2], [3]], ["rule_id", "lower", "lower"]), {"ranges": {"x": ("lower", None)}},
     "got a table with two columns named lower; expected one column of a name. Rename one of the two."),
    ([1], {"equal": "symbol"}, "got list as a table of rules; expected an Arrow, pandas or polars table, or a dict of "
     "columns. Convert it to Arrow."),
]  # fmt: skip


@pytest.mark.parametrize(("table", "arguments", "expected"), WRONG_TABLES)
def test_what_is_wrong_with_a_whole_table(table: Any, arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(FencepostError) as error:
        Rules.from_table(table, **arguments)
    assert message(error) == expected


def test_a_column_that_arrow_refuses() -> None:
    with pytest.raises(FencepostError, match=r"got the column lower, which Arrow refuses .*; expected values of"):
        Rules.from_table({"rule_id": [1, 2], "lower": [1, "a"]}, ranges={"x": ("lower", None)})


# -- tables equal text -----------------------------------------------------------------------------------------

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
@settings(max_examples=400)
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
    for copy in (_through_json(rules), _through_parquet(rules)):
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


# -- binding ---------------------------------------------------------------------------------------------------


@given(st.lists(conditions(), min_size=1, max_size=6))
def test_text_rules_are_bound_as_the_language_binds_them(texts: list[str]) -> None:
    schema = {name: KEY if type_ == "string" else AttributeType.parse(type_) for name, type_ in TYPES.items()}
    rules, expected = Rules(), {}
    for id, text in enumerate(texts):
        try:
            condition = parse(text)
            assert isinstance(condition, Condition)
            bound = Binder(schema).bind(condition)
        except ConditionError:
            continue
        rules.add(id, text)
        expected[id] = bound
    columns = rules.columns(TYPES)
    assert boxes_by_rule(columns) == {
        id: Counter((box.keys, box.ranges) for box in bound.boxes) for id, bound in expected.items()
    }
    assert columns.dropped == {id: bound.dropped for id, bound in expected.items() if bound.dropped}
    assert boxes_by_rule(_through_json(rules).columns(TYPES)) == boxes_by_rule(columns)


def test_text_and_table_rules_share_a_set_of_boxes() -> None:
    rules = Rules.from_table(
        {"rule_id": [1, 2, 3], "s": pa.array(["A", "B", None]).dictionary_encode(), "lower": [1.0, 2.0, 3.0]},
        equal={"symbol": "s"},
        ranges={"price": ("lower", None)},
    )
    rules.add_table(
        {"rule_id": [4], "symbol": ["D"], "lower": [4.0]}, equal="symbol", ranges={"price": ("lower", None)}
    )
    rules.add(5, "price >= 5 AND symbol IN ('E', 'F')", detect="enter", labels={"a": "ü"})
    rules.add(6, "TRUE")
    rules.add(7, "price > 1", enabled=False)
    rules.remove(2)
    columns = rules.columns()
    assert [(boxes.keys, boxes.attributes, boxes.rules.tolist()) for boxes in columns.boxes] == [
        ((), (), [4]),
        ((), ("price",), [1]),
        (("symbol",), ("price",), [0, 2, 3, 3]),
    ]
    assert columns.boxes[2].key_values[0].to_pylist() == ["A", "D", "E", "F"]
    decoded = columns.types["price"].decode(columns.boxes[2].firsts[:, 0]).to_pylist()
    assert decoded == [1.0, 4.0, 5.0, 5.0]
    assert columns.rules.ids.tolist() == [1, 3, 4, 5, 6]
    assert columns.rules.detects.tolist() == [1, 1, 1, 2, 1]
    assert columns.rules.conditions.to_pylist() == [None] * 3 + ["price >= 5 AND symbol IN ('E', 'F')", "TRUE"]
    assert columns.rules.labels.to_pylist() == [None] * 3 + ['{"a": "ü"}', None]
    assert columns.bands is None


def test_no_rules() -> None:
    columns = Rules().columns()
    assert (len(columns.rules.ids), columns.boxes, columns.types, columns.keys) == (0, [], {}, [])
    empty = Rules.from_table(pa.table({"rule_id": pa.array([], pa.int64()), "s": pa.array([], pa.string())}), equal="s")
    assert (len(empty), empty.columns().boxes) == (0, [])
    assert 1 not in empty


class Field:
    """A field of a Spark StructType, as far as a schema needs it."""

    def __init__(self, name: str, type_: str) -> None:
        self.name = name
        self.dataType = SimpleNamespace(simpleString=lambda: type_)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema({"Symbol": pa.string(), "Price": pa.decimal128(9, 2), "tags": pa.list_(pa.string())}),
        pa.schema({"Symbol": pa.dictionary(pa.int32(), pa.string()), "Price": pa.decimal128(9, 2)}),
        {"Symbol": "string", "Price": "decimal(9,2)"},
        {"Symbol": str, "Price": AttributeType("decimal", 9, 2)},
        {"Symbol": "varchar(10)", "Price": pa.decimal128(9, 2)},
        {"Symbol": np.dtype("U5"), "Price": "decimal(9,2)"},
        SimpleNamespace(fields=[Field("Symbol", "string"), Field("Price", "decimal(9,2)"), Field("m", "map<int,int>")]),
    ],
)
def test_schemas_of_every_origin(schema: Any) -> None:
    rules = Rules()
    rules.add(1, "price > 1.005 AND symbol = 'A'")
    columns = rules.columns(schema)
    assert columns.types == {"Price": AttributeType("decimal", 9, 2)}
    assert columns.keys == ["Symbol"]
    assert columns.boxes[0].firsts.tolist() == [[101]]


def test_faults_of_binding_are_collected_by_rule() -> None:
    rules = Rules.from_table(
        {"rule_id": [7, 8], "lower": [1.5, 1.0], "upper": [1.75, 3.0]}, ranges={"n": ("lower", "upper")}
    )
    rules.add_table({"rule_id": [9], "k": ["A"]}, equal="k")
    rules.add_table({"rule_id": [10], "lower": [1]}, ranges={"s": ("lower", None)})
    rules.add_table({"rule_id": [11], "lower": [date(2024, 1, 1)]}, ranges={"n": ("lower", None)})
    rules.add_table({"rule_id": [12], "k": ["A"]}, equal={"n": "k"})
    rules.add_table({"rule_id": [13], "lower": [1]}, ranges={"tags": ("lower", None)})
    rules.add(1, "n > 1")
    rules.add(2, "m > 1")
    rules.add(3, "n = 'A'")
    rules.add(4, "tags > 1")
    schema = pa.schema({"n": pa.int64(), "s": pa.string(), "tags": pa.list_(pa.int64())})
    with pytest.raises(RuleFaultsError) as error:
        rules.columns(schema)
    lines = message(error).splitlines()
    assert lines[0] == (
        "got 9 faults in 11 rules; expected none. Correct the rules, or bind their columns to other types."
    )
    tags = (
        "got the column tags, 'list<item: int64>' as the type of an attribute; expected double, bigint, decimal(p,s) "
        "with p <= 18, timestamp, timestamp_ntz, date or boolean. Cast the column to one of these; a string column is "
        "a key, to be compared with = or IN."
    )
    assert lines[1:] == [
        "  rule 2: got `m > 1`, where no column is named m; expected one of n, s. "
        "Correct the name, or add the column to the schema.",
        "  rule 3: got `n = 'A'`, where n is bigint; expected a constant of type bigint. Write a number without "
        "quotes, a time as DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:59:59'.",
        f"  rule 4: {tags}",
        "  rule 7: n from 1.5 to 1.75 with bounds [), where no bigint is; expected some value",
        "  rule 9: got a table of rules where no column is named k; expected one of n, s. "
        "Correct the name, or add the column to the schema. (rules of that table: 1)",
        "  rule 10: got ranges for s, which is a key; expected an attribute. "
        "Put it into equal=, or correct the schema. (rules of that table: 1)",
        "  rule 11: got bounds of type date32[day] for n, which is bigint; expected bounds that compare with bigint. "
        "Cast the bounds in the table, or correct the schema. (rules of that table: 1)",
        "  rule 12: got keys for n, which is bigint; expected a column of strings. "
        "Put it into ranges=, or correct the schema. (rules of that table: 1)",
        f"  rule 13: {tags} (rules of that table: 1)",
    ]


def test_rules_that_disagree_about_a_column_are_both_named() -> None:
    rules = Rules.from_table({"rule_id": [5], "lower": [1]}, ranges={"x": ("lower", None)})
    rules.add(6, "x = 'A' AND y > 1")
    rules.add(7, "y = DATE '2024-01-01'")
    with pytest.raises(RuleFaultsError) as error:
        rules.columns()
    remedy = "Name the column's type in a schema, and correct the rule that does not fit it."
    assert message(error).splitlines()[1:] == [
        "  rule 6: got the column x compared with a key here and a number there (rules 6 and 5); "
        f"expected one kind of constant for one column. {remedy}",
        "  rule 7: got the column y compared with a date here and a number there (rules 7 and 6); "
        f"expected one kind of constant for one column. {remedy}",
    ]


def test_dates_and_timestamps_agree_and_spellings_may_not() -> None:
    rules = Rules()
    rules.add(1, "t > DATE '2024-01-01'")
    rules.add(2, "T < TIMESTAMP '2024-01-01 12:00:00'")
    assert {name: str(type_) for name, type_ in rules.columns().types.items()} == {"t": "timestamp"}
    rules.add(3, '"Price" > 1')
    rules.add(4, '"PRICE" > 1 AND price > 2')
    with pytest.raises(RuleFaultsError) as error:
        rules.columns()
    assert message(error).splitlines()[1] == (
        "  rule 4: got the column price beside Price and PRICE (rules 4 and 3); expected one spelling for one column. "
        'Quote the name everywhere, "Price", or name the columns in a schema.'
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (5, 'got int as a schema; expected an Arrow schema, a dict of column to type, or a Spark StructType. '
         'Write for example {"price": "double", "symbol": "string"}.'),
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), "got a schema with two columns named a; "
         "expected one column of a name. Rename one of the two."),
    ],
)  # fmt: skip
def test_what_is_no_schema(schema: Any, expected: str) -> None:
    with pytest.raises(FencepostError) as error:
        Rules().columns(schema)
    assert message(error) == expected


def test_one_table_may_not_name_a_column_twice() -> None:
    table = {"rule_id": [1], "a": [1], "b": [2]}
    rules = Rules.from_table(table, ranges={"price": ("a", None), '"Price"': (None, "b")})
    with pytest.raises(RuleFaultsError, match="rule 1: two columns of the table that name one column of the schema"):
        rules.columns({"Price": "double"})


def test_bands() -> None:
    rules = Rules()
    rules.add(1, "price > 1")
    rules.add(2, "left.price - right.price BETWEEN -1 AND 1.5 AND left.symbol = right.symbol")
    rules.add(3, "left.price - right.price > 2")
    columns = rules.columns()
    bands = columns.bands
    assert bands is not None
    assert bands.rules.tolist() == [1, 2]
    assert (bands.left.to_pylist(), bands.right.to_pylist()) == (["price"] * 2, ["price"] * 2)
    assert [json.loads(text) for text in bands.same.to_pylist()] == [[["symbol", "symbol"]], []]
    assert (bands.lower.tolist(), bands.upper.tolist()) == ([-1.0, 2.0], [1.5, math.inf])
    assert (bands.lower_closed.tolist(), bands.upper_closed.tolist()) == ([True, False], [True, True])
    exact = rules.columns({"price": "decimal(9,2)", "symbol": "string"}).bands
    assert exact is not None
    assert (exact.lower.tolist(), exact.lower_closed.tolist()) == ([-100.0, 201.0], [True, True])
    rules.add(4, "ABS(left.price - right.price) < 2 AND left.symbol = 'A'")
    keyed = rules.columns().bands
    assert keyed is not None
    assert [json.loads(text) for text in keyed.left_keys.to_pylist()] == [[], [], [["symbol", "A"]]]
    assert [json.loads(text) for text in keyed.right_keys.to_pylist()] == [[], [], []]
    rules.add(5, "left.p - right.p >= 9007199254740993")
    with pytest.raises(RuleFaultsError) as error:
        rules.columns({"price": "double", "symbol": "string", "p": "bigint"})
    assert message(error).splitlines()[1:] == [
        "  rule 5: got a band bound of 9007199254740993 units; expected a number that a double holds. "
        "Round it, or use a coarser unit.",
    ]


def test_compiled_rules_answer() -> None:
    rules = Rules.from_table(COLUMNS, equal=["symbol"], ranges=PRICE)
    categories = pa.table({"rule_id": [7, 8], "symbol": pa.array(["X", "Y"]).dictionary_encode()})
    rules.add_table(categories, equal="symbol")
    rules.add(9, "price > 2", detect="enter")
    matches = rules.compile().match({"symbol": ["IBM", "X", None], "price": [2.4, 8.0, 1.0]})
    assert [sorted(matches[row].tolist()) for row in range(3)] == [[1, 2, 4, 9], [4, 7, 9], [2, 4]]
    assert rules.compile(version=5).version == 5


def test_publish_keeps_the_schema_of_the_directory(tmp_path: Path) -> None:
    rules = Rules()
    rules.add(1, "volume > 10")
    assert rules.publish(tmp_path / "live", {"volume": "bigint", "price": "double"}) == 1
    rules.add(2, "price > 10")
    assert rules.publish(tmp_path / "live") == 2
    rules.add(3, "spread > 10")
    with pytest.raises(RuleFaultsError, match="rule 3: got `spread > 10`, where no column is named spread"):
        rules.publish(tmp_path / "live")


# -- files -----------------------------------------------------------------------------------------------------


def _through_json(rules: Rules) -> Rules:
    path = Path(_SCRATCH) / "rules.jsonl"
    rules.to_jsonl(path)
    return Rules.from_jsonl(path)


def _through_parquet(rules: Rules) -> Rules:
    path = Path(_SCRATCH) / "rules.parquet"
    rules.to_parquet(path)
    return Rules.from_parquet(path)


@pytest.fixture(scope="module", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _SCRATCH
    _SCRATCH = str(tmp_path_factory.mktemp("rules"))


_SCRATCH = ""


def mixed_rules() -> Rules:
    """Rules of every kind, some removed, some replaced."""
    table = pa.table(
        {
            "rule_id": [10, 11, 12, 13, 14],
            "symbol": ["A", None, "O'Neil", "ü", None],
            "lower": [0.1, None, -math.inf, 2.5, None],
            "upper": [0.2, 5e-324, None, math.inf, None],
            "from": pa.array([1, 2, None, 4, None], pa.int32()),
            "d": ["enter", None, "exit,cross", None, None],
            "x": pa.array([None, 0, -1, 10**15, None], pa.timestamp("us")),
            "e": [True, True, False, None, None],
            "l": [None, '{"a": "1"}', None, None, None],
        }
    )
    rules = Rules.from_table(
        table,
        equal=["symbol"],
        ranges={"price": ("lower", "upper"), "day no": ("from", None)},
        bounds="(]",
        detect_column="d",
        expires_column="x",
        enabled_column="e",
        labels_column="l",
        initial=True,
    )
    dates = {"rule_id": [20, 21], "day": [date(2024, 2, 29), date(1, 1, 1)], "flag": [True, False]}
    rules.add_table(dates, ranges={"day": ("day", "day"), "flag": ("flag", None)}, bounds="[]")
    rules.add(1, "price > 0.1 OR \"Big\" = 'x'", detect="cross", labels={"ü": "'\n"}, expires=datetime(2030, 1, 1))
    rules.add(2, "left.x - right.x > 1", enabled=False)
    rules.add(3, "x > 1")
    rules.replace(3, "x > 2", initial=True)
    rules.replace(13, "price > 4")
    rules.remove(21)
    return rules


def test_parquet_keeps_everything() -> None:
    rules = mixed_rules()
    copy = _through_parquet(rules)
    assert list(copy) == list(rules)
    assert boxes_by_rule(copy.columns()) == boxes_by_rule(rules.columns())
    assert list(_through_parquet(copy)) == list(rules)
    assert list(_through_parquet(Rules())) == []


def test_json_lines_keep_everything_and_write_tables_as_conditions() -> None:
    rules = mixed_rules()
    copy = _through_json(rules)
    conditions = {rule.id: rule.condition for rule in copy}
    assert conditions[10] == (
        "symbol = 'A' AND price > CAST(0.1 AS DOUBLE) AND price <= CAST(0.2 AS DOUBLE) AND \"day no\" > 1"
    )
    assert conditions[11] == 'price <= CAST(5e-324 AS DOUBLE) AND "day no" > 2'
    assert conditions[12] == (
        "symbol = 'O''Neil' AND price > CAST('-inf' AS DOUBLE) AND (\"day no\" < 0 OR \"day no\" >= 0)"
    )
    assert conditions[14] == '(price < 0 OR price >= 0) AND ("day no" < 0 OR "day no" >= 0)'
    assert conditions[20] == "day >= DATE '2024-02-29' AND day <= DATE '2024-02-29' AND flag >= TRUE"
    assert conditions[3] == "x > 2"
    as_fields = [(r.id, r.detect, r.initial, r.labels, r.expires, r.enabled, r.version) for r in rules]
    assert [(r.id, r.detect, r.initial, r.labels, r.expires, r.enabled, r.version) for r in copy] == as_fields
    assert boxes_by_rule(copy.columns()) == boxes_by_rule(rules.columns())
    assert list(_through_json(copy)) == list(copy)


def test_bad_lines_are_collected(tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_bytes(b'{"id": 1, "condition": "x > 1"}\n\n{"id": 2\n[]\n{"id": 3, "condition": "x >"}\n\xff\n')
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_jsonl(path)
    lines = message(error).splitlines()
    assert lines[0] == f"got 4 faults in 6 lines; expected none. Correct these lines of {path}."
    assert lines[1].startswith('  line 3: got `{"id": 2`, which is no JSON (')
    assert lines[1].endswith("); expected one object. Write one rule per line.")
    assert lines[2] == "  line 4: got []; expected an object with id and condition. Write one object per rule."
    assert lines[3].startswith("  line 5: got rule 3: ")
    assert lines[4].startswith("  line 6: got `\ufffd`, which is no JSON (")


def test_parquet_files_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.parquet"
    path.write_bytes(b"nothing")
    with pytest.raises(FencepostError, match=r"which Parquet cannot read \(.*Rules.to_parquet wrote. Write it again."):
        Rules.from_parquet(path)
    pq.write_table(pa.table({"id": [1]}), path)
    with pytest.raises(FencepostError) as error:
        Rules.from_parquet(path)
    assert message(error) == (
        f"got {path} without rules of fencepost; expected a Parquet file that Rules.to_parquet wrote. "
        "Read it as a table, and use Rules.from_table."
    )
    pq.write_table(pa.table({"id": [1]}).replace_schema_metadata({"fencepost.rules": '{"format": 2}'}), path)
    with pytest.raises(FencepostError) as error:
        Rules.from_parquet(path)
    assert message(error) == f"got {path} in format 2; expected format 1. Install a newer fencepost."
    rules = mixed_rules()
    rules.to_parquet(path)
    table = pq.read_table(path)
    pq.write_table(table.drop_columns("detect"), path)
    with pytest.raises(FencepostError, match=r"without the column detect; expected a Parquet file that Rules.to_parqu"):
        Rules.from_parquet(path)
    wrong = table.set_column(
        table.schema.get_field_index("condition"),
        "condition",
        pa.array([None if text is None else "x >" for text in table["condition"].to_pylist()], pa.large_string()),
    )
    pq.write_table(wrong, path)
    with pytest.raises(RuleFaultsError, match=r"got 4 faults in 9 rows; .*\n  row 5: got rule 1: "):
        Rules.from_parquet(path)


# -- size ------------------------------------------------------------------------------------------------------


def test_a_million_rules() -> None:
    count = 1_000_000
    rng = np.random.default_rng(7)
    ids = rng.permutation(count)
    lower = np.round(rng.uniform(1, 500, count), 2)
    symbols = pa.array([f"S{number}" for number in range(1000)]).take(pa.array(ids % 1000))
    table = pa.table({"rule_id": ids, "symbol": symbols, "lower": lower, "upper": lower + 1})
    rules = Rules.from_table(table, equal=["symbol"], ranges=PRICE)
    rules.remove(0)
    rules.replace(1, "price > 3")
    columns = rules.columns()
    assert len(rules) == len(columns.rules.ids) == count - 1
    keyed = columns.boxes[-1]
    assert (keyed.keys, keyed.attributes, len(keyed.rules)) == (("symbol",), ("price",), count - 2)
    kept = ids > 1
    assert np.array_equal(columns.rules.ids[keyed.rules], ids[kept])
    assert np.array_equal(np.asarray(columns.types["price"].decode(keyed.firsts[:, 0])), lower[kept])
    assert keyed.key_values[0].equals(symbols.filter(pa.array(kept)))


def test_the_ordinal_of_a_half_open_end_is_the_one_before() -> None:
    table = {"rule_id": [1], "lower": [40.0], "upper": [50.0]}
    boxes = Rules.from_table(table, ranges=PRICE).columns().boxes[0]
    double = AttributeType("double")
    assert boxes.firsts.tolist() == [[double.encode_one(40.0)]]
    assert boxes.lasts.tolist() == [[double.encode_one(math.nextafter(50.0, 0.0))]]


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[str, Any]]:
    conditions = st.sampled_from(
        [
            "price > {}",
            "price < {} OR volume = {}",
            "symbol = 's{}' AND price > {}",
            "venue = 'v{}'",
            "day > DATE '20{}-01-01'",
        ]
    )
    texts = st.builds(lambda text, number: text.format(number, number), conditions, st.integers(10, 30))
    one = st.one_of(
        st.tuples(st.just("put"), st.tuples(st.integers(0, 60), texts, st.booleans())),
        st.tuples(st.just("remove"), st.integers(0, 60)),
        st.tuples(st.just("table"), st.integers(10, 30)),
        st.tuples(st.just("compile"), st.none()),
    )
    return draw(st.lists(one, max_size=25))


@settings(max_examples=40)
@given(edits(), st.booleans())
def test_compiling_again_and_again_gives_what_compiling_once_gives(script: list[tuple[str, Any]], typed: bool) -> None:
    schema = (
        {"price": "double", "volume": "double", "symbol": "string", "venue": "string", "day": "date"} if typed else None
    )
    rules = Rules()
    for id in range(40):
        rules.add(id, f"price > {id}")
    rules.compile(schema)
    next_id = 100
    for action, argument in [*script, ("compile", None)]:
        if action == "put":
            id, condition, enabled = argument
            (rules.replace if id in rules else rules.add)(id, condition, enabled=enabled)
        elif action == "remove" and argument in rules:
            rules.remove(argument)
        elif action == "table":
            columns = {
                "rule_id": [next_id, next_id + 1],
                "low": [argument, argument + 1],
                "high": [argument + 2.0, None],
            }
            rules.add_table(columns, ranges={"price": ("low", "high")})
            next_id += 2
        elif action == "compile":
            fresh = Rules.from_dicts(
                {"id": rule.id, "condition": text, "version": rule.version, "enabled": rule.enabled}
                for rule, text in rules.with_text()
            )
            again, once = rules.compile(schema), fresh.compile(schema)
            assert (again.types, again.keys, len(again), again.paused) == (
                once.types,
                once.keys,
                len(once),
                once.paused,
            )
            rows = {
                "price": [5.0, 20.5, 31.0, None], "volume": [10.0, 12.0, 30.0, 3.0],
                "symbol": ["s10", "s11", None, "s30"],
                "venue": ["v10", None, "v20", "v30"], "day": pa.array([0, 16000, 17000, 20000], pa.date32()),
            }  # fmt: skip
            assert again.match(rows).sets() == once.match(rows).sets()
            versions = dict(zip(once.rules.ids.tolist(), once.rules.versions.tolist(), strict=True))
            here = again.in_force
            assert (
                dict(zip(again.rules.ids[here].tolist(), again.rules.versions[here].tolist(), strict=True)) == versions
            )
