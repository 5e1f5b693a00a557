"""Rules from tables of every origin, and the faults of their rows."""

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fencepost import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.rules import Rule, RuleFaultsError, Rules
from fencepost.snapshot import NEVER
from tests.rules.compared import COLUMNS, PRICE, boxes_by_rule, message

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
    assert [rule.id for rule in rules] == [1, 2, 3, 4]


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
    assert rules[1] == Rule(1, "price >= 1", "enter,exit", True, {"a": "2", "b": "1"}, expires, False, 1)
    assert rules[2] == Rule(2, "price >= 2", "cross", False, {"team": "4"}, None, True, 1)
    columns = rules.columns()
    assert columns.rules.ids.tolist() == [2]
    assert columns.rules.labels.to_pylist() == ['{"team": "4"}']
    assert columns.rules.expires.tolist() == [NEVER]
    assert columns.rules.conditions.to_pylist() == [None]
    constant = Rules.from_table(table, id="id", ranges={"price": ("lower", None)}, initial=True, expires=expires)
    assert constant[2] == Rule(2, "price >= 2", "inside", True, None, expires)


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
    with pytest.raises(RuleFaultsError, match='uses the column "Volume", which the schema does not have'):
        Rules.from_table(table, ranges={'"Volume"': PRICE["price"]}).columns(schema)
    with pytest.raises(RuleFaultsError, match='uses the column "last price", which the schema does not have'):
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
            "8 faults in 8 rows; expected none. Correct the rows and pass the table again; no rule was added.",
            "  row 1: the id is null; expected an integer",
            "  row 2: id 1 is in an earlier row, too; ids must be unique",
            "  row 3: NaN in lower; expected a number, or null where the range is unbounded",
            "  row 4: lower and upper are 5.0 and 4.0, an empty range; expected lower below upper with bounds [)",
            "  row 5: lower and upper are 2.0 and 2.0, an empty range; expected lower below upper with bounds [)",
            "  row 6: rule 99 already exists; ids must be unique",
            "  row 7: detect='often'; expected any of inside, enter, exit, cross, silent, separated by commas. "
            "Write for example 'enter,exit'.",
            "  row 7: labels=[1]; expected names and values that are strings. Write {'team': 'desk 4'}.",
        ]
    )
    assert len(rules) == 1


def test_many_faults_are_counted_and_the_first_shown() -> None:
    table = {"rule_id": np.arange(1000), "lower": np.full(1000, np.nan), "upper": np.ones(1000)}
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_table(table, ranges=PRICE)
    lines = message(error).splitlines()
    assert error.value.total == 1000
    assert lines[0].startswith("1,000 faults in 1,000 rows; expected none.")
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
    assert first_fault(rule_id=[None, None], **one) == "  row 0: the id is null; expected an integer"
    assert first_fault(k=["a", 7], **one) == "  row 1: 7 in k; expected a string, or null for every key"
    assert first_fault(lower=[1, 3], upper=[1, 2]) == (
        "  row 1: lower and upper are 3 and 2, an empty range; expected lower at most upper with bounds []"
    )
    assert first_fault(lower=[True, True], upper=[True, False]) == (
        "  row 1: lower and upper are 1 and 0, an empty range; expected lower at most upper with bounds []"
    )
    late = np.array(["2024-01-01", "12024-01-01"], "M8[s]")
    assert first_fault(lower=late, upper=[None, None]) == (
        "  row 1: lower has a time outside the years 1 to 9999; expected null where the range is unbounded"
    )
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_table({"rule_id": [1, 2], "k": ["a", "b"], "end": late}, equal="k", expires_column="end")
    assert message(error).splitlines()[1] == (
        "  row 1: end has a time outside the years 1 to 9999; expected null for a rule that stays"
    )
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_table({"rule_id": [1], "k": ["a"], "l": ["{"]}, equal="k", labels_column="l")
    assert message(error).splitlines()[1] == (
        '  row 0: labels \'{\'; expected a JSON object of strings. Write {"team": "desk 4"}.'
    )


ONE = {"rule_id": [1], "symbol": ["A"], "lower": [1.0], "upper": [2.0], "word": ["w"]}
WRONG_TABLES: list[tuple[Any, dict[str, Any], str]] = [
    (ONE, {}, "Neither equal= nor ranges= is given; expected columns that make a condition. "
     "Name the key and the bound columns."),
    (ONE, {"equal": "symbl"}, "The table has no column symbl; expected one of rule_id, symbol, lower, upper, "
     "word. Correct the name."),
    (ONE, {"id": "word", "equal": "symbol"}, "Column word is of type string; expected integers. Number the rules."),
    (ONE, {"equal": "lower"}, "Column lower is of type double; expected strings in a column of keys. "
     "Cast it to strings, or put it into ranges=."),
    (ONE, {"ranges": {"x": ("word", None)}}, "Column word of type string cannot hold the bounds of a range; "
     "expected numbers, dates, timestamps or booleans. Cast the column; a column of strings belongs into equal=."),
    (ONE, {"ranges": {"x": "lower"}}, "'lower' cannot be the bounds of x; expected two columns, None for a side "
     'without bounds. Write ranges={"x": ("lower", "upper")}.'),
    (ONE, {"ranges": PRICE, "bounds": "<>"}, "bounds='<>'; expected one of [) [] () (]. "
     "Write [ where the bound is inside."),
    (ONE, {"equal": ["symbol"], "ranges": {"Symbol": ("lower", None)}}, "Column symbol is twice in equal= and ranges=; "
     "expected every column once. Leave one out, or quote names with case."),
    (ONE, {"equal": "symbol", "detect_column": "lower"}, "Column lower is of type double; expected strings such as "
     "'enter,exit'. Cast it to strings."),
    (ONE, {"equal": "symbol", "enabled_column": "lower"}, "Column lower is of type double; expected booleans. "
     "Cast it to booleans."),
    (ONE, {"equal": "symbol", "labels_column": "lower"}, "Column lower is of type double; expected JSON objects as "
     "strings, or a map or struct of strings. Write the labels as JSON."),
    (ONE, {"equal": "symbol", "expires_column": "lower"}, "lower, a column of double; expected a column that "
     "converts to timestamp. Cast the column to timestamp, or bind lower to a type of its own."),
    (ONE | {"upper": [1, 2]}, {"ranges": PRICE}, "Column upper has 2 rows and rule_id has 1; expected columns of one "
     "length. Pass whole columns."),
    (ONE | {"upper": [Decimal("1.5")]}, {"ranges": PRICE}, "Columns lower and upper are of types double and "
     "decimal128(2, 1); expected two columns of one type. Cast one of the two to the type of the other."),
    ({"rule_id": [1], "lower": [2**53 + 1], "upper": [1e300]}, {"ranges": PRICE}, "Columns lower and upper are of "
     "types int64 and double; expected two columns of one type. Cast one of the two to the type of the other."),
    (pa.table([[1], [2], [3]], ["rule_id", "lower", "lower"]), {"ranges": {"x": ("lower", None)}},
     "The table has two columns named lower; expected one column of each name. Rename one of the two."),
    ([1], {"equal": "symbol"}, "A list is no table of rules; expected an Arrow, pandas or polars table, or a dict of "
     "columns. Convert it to Arrow."),
]  # fmt: skip


@pytest.mark.parametrize(("table", "arguments", "expected"), WRONG_TABLES)
def test_what_is_wrong_with_a_whole_table(table: Any, arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(FencepostError) as error:
        Rules.from_table(table, **arguments)
    assert message(error) == expected


def test_a_column_that_arrow_refuses() -> None:
    with pytest.raises(FencepostError, match=r"Column lower cannot be converted to Arrow .*; expected values of"):
        Rules.from_table({"rule_id": [1, 2], "lower": [1, "a"]}, ranges={"x": ("lower", None)})


def test_one_table_may_not_name_a_column_twice() -> None:
    table = {"rule_id": [1], "a": [1], "b": [2]}
    rules = Rules.from_table(table, ranges={"price": ("a", None), '"Price"': (None, "b")})
    with pytest.raises(RuleFaultsError, match="rule 1: two columns of the table name one column of the schema"):
        rules.columns({"Price": "double"})


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


def test_faults_quote_a_few_hundred_characters() -> None:
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_table({"rule_id": [1, 2], "k": ["a", {"x": "y" * 10**6}]}, equal=["k"])
    assert len(str(error.value)) < 1_500
    with pytest.raises(FencepostError) as refused:
        Rules().add(1, "price > 4", labels={"team": ["y" * 10**6]})  # type: ignore[dict-item]
    assert len(str(refused.value)) < 1_000
