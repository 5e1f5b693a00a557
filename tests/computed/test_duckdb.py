"""Random conditions on random rows: the same answers as DuckDB, but for the differences that docs/rules.md names."""

from pathlib import Path

import duckdb
import numpy as np
import pytest

import fencepost as fp
from tests.computed.compared import DIFFERENCES, compare, open_database
from tests.computed.expressions import SCHEMA, condition, random_rows
from tests.effort import seeds

ROOT = Path(__file__).parents[2]
CONDITIONS, ROWS = 40, 60


def differences(seed: int, conditions: int = CONDITIONS, rows: int = ROWS) -> tuple[int, list[str]]:
    """How many conditions were compared, and those whose answers differ."""
    rng = np.random.default_rng(seed)
    table = random_rows(rng, rows)
    database = open_database(table)
    rules, texts = fp.Rules(), {}
    for id in range(conditions):
        text = condition(rng)
        try:
            rules.add(id, text)
            rules.compile(SCHEMA)
        except fp.FencepostError:  # it can never hold, or is too many boxes
            if id in rules:
                rules.remove(id)
            continue
        texts[id] = text
    found = rules.compile(SCHEMA).match(table).sets()
    wrong = []
    for id, text in texts.items():
        try:
            answers = database.execute(f"SELECT ({text}) FROM given").fetchall()  # noqa: S608 (of our own making)
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            continue  # the table of differences: what overflows is an error there, and no value here
        for row, (holds,) in enumerate(answers):
            if bool(holds) != (id in found[row]):
                wrong.append(f"{text} for {table.slice(row, 1).to_pylist()[0]}: {holds}")
                break
    return len(texts), wrong


@pytest.mark.parametrize("seed", seeds(6))
def test_all_that_conditions_take_is_as_in_duckdb(seed: int) -> None:
    found = compare(seed, 50, 40)
    assert not found.wrong, "\n".join(found.wrong)


def test_the_page_names_the_differences() -> None:
    table = {line.split("|")[1].strip() for line in (ROOT / "docs/rules.md").read_text().splitlines() if "|" in line}
    assert table.issuperset(DIFFERENCES)


@pytest.mark.parametrize("seed", seeds(8))
def test_conditions_hold_where_they_do_in_duckdb(seed: int) -> None:
    compared, wrong = differences(seed)
    assert compared > CONDITIONS // 2
    assert not wrong, "\n".join(wrong)
