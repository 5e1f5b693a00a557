"""Rules bound to the columns of a snapshot."""

import json
import math
from collections import Counter
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import FencepostError
from fencepost.language import KEY, Binder, Condition, ConditionError, parse
from fencepost.ordinals import AttributeType
from fencepost.rules import RuleFaultsError, Rules
from tests.conditions import TYPES, conditions
from tests.effort import examples
from tests.rules.compared import COLUMNS, PRICE, boxes_by_rule, message, through_json


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
    assert boxes_by_rule(through_json(rules).columns(TYPES)) == boxes_by_rule(columns)


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
    assert lines[0] == ("9 faults in 11 rules; expected none. Correct the rules, or bind their columns to other types.")
    tags = (
        "the column tags, 'list<item: int64>' as the type of an attribute; expected double, bigint, decimal(p,s) "
        "with p <= 18, timestamp, timestamp_ntz, date or boolean. Cast the column to one of these; a string column is "
        "a key, to be compared with = or IN."
    )
    assert lines[1:] == [
        "  rule 2: `m > 1` uses the column m, which the schema does not have; expected one of n, s. "
        "Correct the name, or add the column to the schema.",
        "  rule 3: `n = 'A'` does not fit n, which is bigint; expected a constant of type bigint. Write a number "
        "without "
        "quotes, a time as DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:59:59'.",
        f"  rule 4: {tags}",
        "  rule 7: n from 1.5 to 1.75 with bounds [) holds no bigint; expected some value",
        "  rule 9: the table uses the column k, which the schema does not have; expected one of n, s. "
        "Correct the name, or add the column to the schema. (rules of that table: 1)",
        "  rule 10: column s is a key and cannot have ranges; expected an attribute. "
        "Put it into equal=, or correct the schema. (rules of that table: 1)",
        "  rule 11: column n is bigint, but its bounds are date32[day]; expected bounds that compare with bigint. "
        "Cast the bounds in the table, or correct the schema. (rules of that table: 1)",
        "  rule 12: column n is bigint and cannot be a key; expected a column of strings. "
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
        "  rule 6: column x is compared with a key here and a number there (rules 6 and 5); "
        f"expected one kind of constant for one column. {remedy}",
        "  rule 7: column y is compared with a date here and a number there (rules 7 and 6); "
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
        "  rule 4: column price is also written Price and PRICE (rules 4 and 3); expected one spelling for one column. "
        'Quote the name everywhere, "Price", or name the columns in a schema.'
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (5, 'int as a schema; expected an Arrow schema, a dict of column to type, or a Spark StructType. '
         'Write for example {"price": "double", "symbol": "string"}.'),
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), "A schema with two columns named a; "
         "expected one column of a name. Rename one of the two."),
    ],
)  # fmt: skip
def test_what_is_no_schema(schema: Any, expected: str) -> None:
    with pytest.raises(FencepostError) as error:
        Rules().columns(schema)
    assert message(error) == expected


def test_a_small_change_does_not_choose_between_two_spellings() -> None:
    rules = Rules()
    rules.add(1, '"X" > 4')
    rules.add(2, '"x" > 2')
    for id in range(10, 30):
        rules.add(id, "y > 1")
    rules.compile()
    rules.add(3, "x < -3")
    with pytest.raises(RuleFaultsError, match="column x is also written X and x"):
        rules.compile()


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
        "  rule 5: the band has a bound of 9007199254740993 units; expected a number that a double holds exactly. "
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
    with pytest.raises(RuleFaultsError, match="rule 3: `spread > 10` uses the column spread, which the schema"):
        rules.publish(tmp_path / "live", strict=True)


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


@examples(40)
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
