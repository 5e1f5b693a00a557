"""Rules through files, and files that are refused."""

import math
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost import FencepostError
from fencepost.rules import RuleFaultsError, Rules
from tests.rules.compared import boxes_by_rule, message, through_json, through_parquet


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
    copy = through_parquet(rules)
    assert list(copy) == list(rules)
    assert boxes_by_rule(copy.columns()) == boxes_by_rule(rules.columns())
    assert list(through_parquet(copy)) == list(rules)
    assert list(through_parquet(Rules())) == []


def test_json_lines_keep_everything_and_write_tables_as_conditions() -> None:
    rules = mixed_rules()
    copy = through_json(rules)
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
    assert list(through_json(copy)) == list(copy)


def test_bad_lines_are_collected(tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_bytes(b'{"id": 1, "condition": "x > 1"}\n\n{"id": 2\n[]\n{"id": 3, "condition": "x >"}\n\xff\n')
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_jsonl(path)
    lines = message(error).splitlines()
    assert lines[0] == f"4 faults in 6 lines; expected none. Correct these lines of {path}."
    assert lines[1].startswith('  line 3: `{"id": 2` is no JSON (')
    assert lines[1].endswith("); expected one object. Write one rule per line.")
    assert lines[2] == "  line 4: [] is no rule; expected an object with id and condition. Write one object per rule."
    assert lines[3].startswith("  line 5: rule 3: ")
    assert lines[4].startswith("  line 6: `\ufffd` is no JSON (")


def test_parquet_files_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.parquet"
    path.write_bytes(b"nothing")
    with pytest.raises(FencepostError, match=r"cannot be read as Parquet \(.*Rules.to_parquet wrote. Write it again."):
        Rules.from_parquet(path)
    pq.write_table(pa.table({"id": [1]}), path)
    with pytest.raises(FencepostError) as error:
        Rules.from_parquet(path)
    assert message(error) == (
        f"{path} has no rules of fencepost; expected a Parquet file that Rules.to_parquet wrote. "
        "Read it as a table, and use Rules.from_table."
    )
    pq.write_table(pa.table({"id": [1]}).replace_schema_metadata({"fencepost.rules": '{"format": 2}'}), path)
    with pytest.raises(FencepostError) as error:
        Rules.from_parquet(path)
    assert message(error) == f"{path} has format 2; expected format 1. Install a newer fencepost."
    rules = mixed_rules()
    rules.to_parquet(path)
    table = pq.read_table(path)
    pq.write_table(table.drop_columns("detect"), path)
    with pytest.raises(FencepostError, match=r"has no column detect; expected a Parquet file that Rules.to_parqu"):
        Rules.from_parquet(path)
    wrong = table.set_column(
        table.schema.get_field_index("condition"),
        "condition",
        pa.array([None if text is None else "x >" for text in table["condition"].to_pylist()], pa.large_string()),
    )
    pq.write_table(wrong, path)
    with pytest.raises(RuleFaultsError, match=r"4 faults in 9 rows; .*\n  row 5: rule 1: "):
        Rules.from_parquet(path)
