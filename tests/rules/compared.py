"""What tests of rules have in common: their boxes to compare, and their ways through files."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from fencepost.rules import CompiledColumns, Rules

PRICE = {"price": ("lower", "upper")}
COLUMNS = {
    "rule_id": [1, 2, 3, 4],
    "symbol": ["IBM", None, "O'Neil", None],
    "lower": [1.5, None, -0.0, None],
    "upper": [2.5, 7.0, None, None],
}


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


def through_json(rules: Rules) -> Rules:
    """The rules, written as JSON lines and read again."""
    with TemporaryDirectory() as scratch:
        rules.to_jsonl(Path(scratch, "rules.jsonl"))
        return Rules.from_jsonl(Path(scratch, "rules.jsonl"))


def through_parquet(rules: Rules) -> Rules:
    """The rules, written as Parquet and read again."""
    with TemporaryDirectory() as scratch:
        rules.to_parquet(Path(scratch, "rules.parquet"))
        return Rules.from_parquet(Path(scratch, "rules.parquet"))
