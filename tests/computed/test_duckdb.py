"""Random conditions on random rows: the same answers as DuckDB, but for the differences that docs/rules.md names."""

from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.language import Condition, parse
from tests.computed import wide
from tests.computed.expressions import SCHEMA, condition, random_rows
from tests.effort import seeds

CONDITIONS, ROWS = 40, 60


def differences(seed: int, conditions: int = CONDITIONS, rows: int = ROWS) -> tuple[int, list[str]]:
    """How many conditions were compared, and those whose answers differ."""
    rng = np.random.default_rng(seed)
    table = random_rows(rng, rows)
    database = _database(table)
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


def _database(table: pa.Table) -> Any:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'; SET ieee_floating_point_ops = false")
    with suppress(duckdb.Error):  # older ones give null anyway
        database.execute("SET error_on_division_by_zero = false")
    database.register("given", table)
    return database


def _asked(database: Any, text: str) -> list[Any] | None:
    """What an expression is in DuckDB, row by row; None where it refuses to say."""
    try:
        return [value for (value,) in database.execute(f"SELECT ({text}) FROM given").fetchall()]  # noqa: S608
    except duckdb.Error:
        return None


def is_documented(database: Any, text: str, row: int) -> bool:
    """Whether a part of a condition is, in a row, what the table in docs/rules.md says is no value, or a double."""
    parsed = parse(text)
    assert isinstance(parsed, Condition)
    terms = {part.term for box in parsed.boxes for part in box if part.term is not None}
    for each in {inner for term in terms for inner in term.walk() if inner.parts}:
        values = _asked(database, each.text)
        if values is None:  # an error of DuckDB by itself, such as an overflow, where it takes no notice of it here
            return True
        value = values[row]
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return True  # NaN, and what becomes one of infinities
        if isinstance(value, Decimal):  # decimals beyond 18 digits; a bigint beside one is one
            parts = [(_asked(database, part.text) or [None] * (row + 1))[row] for part in each.parts]
            digits = 18 + int(value.as_tuple().exponent)
            if any(part is not None and abs(part) >= 10**digits for part in [value, *parts] if part is not None):
                return True
        if each.name in ("floor", "ceil") and isinstance(value, float) and abs(value) >= 2**53:
            return True  # of a bigint it is a double there
    return False


def wide_differences(seed: int, conditions: int, rows: int) -> tuple[int, list[str]]:
    """The same of all that conditions take, on values that overflow, but for documented differences."""
    rng = Random(seed)  # noqa: S311 (draws conditions)
    table = wide.random_rows(rng, rows)
    database, compared, wrong = _database(table), 0, []
    for _ in range(conditions):
        text, rules = wide.condition(rng), fp.Rules()
        answers = _asked(database, text)
        try:
            rules.add(1, text)
            found = [bool(each) for each in rules.compile(wide.SCHEMA).match(table).sets()]
        except fp.FencepostError as error:
            if "boxes" in str(error):
                continue
            if not any(word in str(error) for word in ("never hold", "exclude")):
                wrong.append(f"{text}: {error}")
            found = [False] * rows
        if answers is None:
            continue  # the table of differences: what overflows is an error there, and no value here
        compared += 1
        for row in range(rows):
            if bool(answers[row]) != found[row] and not is_documented(database, text, row):
                wrong.append(f"{text} for {table.slice(row, 1).to_pylist()[0]}: {answers[row]}")
                break
    return compared, wrong


@pytest.mark.parametrize("seed", seeds(6))
def test_all_that_conditions_take_is_as_in_duckdb(seed: int) -> None:
    compared, wrong = wide_differences(seed, 50, 40)
    assert compared > 25
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", seeds(8))
def test_conditions_hold_where_they_do_in_duckdb(seed: int) -> None:
    compared, wrong = differences(seed)
    assert compared > CONDITIONS // 2
    assert not wrong, "\n".join(wrong)
