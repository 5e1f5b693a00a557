"""Conditions of every kind on rows that hurt, against DuckDB: every difference is one that docs/rules.md names."""

import re
from collections import Counter
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa

import fencepost as fp
from fencepost.computed import Term
from fencepost.language import Binder, Condition, parse
from fencepost.ordinals import BIGINT, DOUBLE
from fencepost.ordinals.schema import read_schema
from tests.computed import wide

OVERFLOW = "overflow of a bigint"
DIGITS = "decimals beyond 18 digits"
NAN = "NaN, also what arithmetic makes of infinities"
FLOORS = "`FLOOR`, `CEIL` of a bigint"
TWICE = "a time that the clock of a zone shows twice"
SIGNS = "`SIGN` of a double"
LISTS = "bigints beyond 2^53 beside double constants, and in an `IN` or `BETWEEN` with a double in it"
DIFFERENCES = (OVERFLOW, DIGITS, NAN, FLOORS, TWICE, SIGNS, LISTS)
"""Rows of the table in docs/rules.md that such conditions run into; DuckDB is set to be the same in the others."""

_DOUBLE_AMONG = re.compile(r"\b(?:IN|BETWEEN)\b[^)]*(?:1e1|AS DOUBLE|\b[ab]\b)")
_ERROR = object()
"""What an overflow is in DuckDB, in the row that it happens in."""


class Compared(NamedTuple):
    """What came of a comparison."""

    conditions: int
    """How many were compared, on every row."""
    answers: int
    documented: Counter[str]
    """How many answers differ, by the row of the table that names the difference."""
    wrong: list[str]
    """Conditions with any other difference, with the first row that shows it."""


def open_database(table: pa.Table) -> Any:
    """DuckDB with a table called `given`."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'; SET ieee_floating_point_ops = false")
    with suppress(duckdb.Error):  # older ones give null anyway
        database.execute("SET error_on_division_by_zero = false")
    database.register("given", table)
    return database


def compare(seed: int, conditions: int, rows: int) -> Compared:
    """Draw conditions and rows, and compare all answers."""
    rng = Random(seed)  # noqa: S311 (draws conditions)
    table = wide.random_rows(rng, rows)
    database = open_database(table)
    binder = Binder(read_schema(wide.SCHEMA).types)
    compared, documented, wrong = 0, Counter[str](), []
    while compared < conditions:
        text, rules = wide.condition(rng), fp.Rules()
        try:
            rules.add(1, text)
            found = [bool(each) for each in rules.compile(wide.SCHEMA).match(table).sets()]
        except fp.FencepostError as error:
            if "boxes" in str(error):  # more than a condition may have
                continue
            if not any(word in str(error) for word in ("never hold", "exclude")):
                wrong.append(f"{text}: {error}")
            found = [False] * rows
        compared += 1
        for row, answer in enumerate(_ask(database, text)):
            if answer is not _ERROR and bool(answer) == found[row]:
                continue
            difference = OVERFLOW if answer is _ERROR else _difference(database, binder, text, row)
            if difference is None:
                wrong.append(f"{text} for {table.slice(row, 1).to_pylist()[0]}: {answer}")
                break
            documented[difference] += 1
    return Compared(compared, compared * rows, documented, wrong)


def _ask(database: Any, text: str) -> list[Any]:
    """What an expression is in DuckDB, row by row."""
    try:
        return [value for (value,) in database.execute(f"SELECT ({text}) FROM given").fetchall()]  # noqa: S608
    except duckdb.OutOfRangeException:
        (rows,) = database.execute("SELECT COUNT(*) FROM given").fetchone()
        return [_ask_row(database, text, row) for row in range(rows)]


def _ask_row(database: Any, text: str, row: int) -> Any:
    with suppress(duckdb.OutOfRangeException):
        given = f"(SELECT * FROM given LIMIT 1 OFFSET {row})"  # noqa: S608
        return database.execute(f"SELECT ({text}) FROM {given} AS given").fetchone()[0]  # noqa: S608
    return _ERROR


def _difference(database: Any, binder: Binder, text: str, row: int) -> str | None:
    """Which of the documented differences a part of a condition has in a row."""
    parsed = parse(text)
    assert isinstance(parsed, Condition)
    terms = {binder.typed(part.term, part.place) for box in parsed.boxes for part in box if part.term is not None}

    def value_of(term: Term) -> Any:
        return _ask(database, term.text.replace("DAYOFWEEK_ISO", "ISODOW"))[row]

    for each in {inner for term in terms for inner in term.walk() if inner.parts}:
        value, parts = value_of(each), [value_of(part) for part in each.parts]
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return NAN
        if each.type == BIGINT and isinstance(value, float) and abs(value) >= 2**53:
            return FLOORS
        if isinstance(value, Decimal):  # a bigint beside one is one, too
            most = 10 ** (18 + int(value.as_tuple().exponent))
            if any(abs(part) >= most for part in (value, *parts) if isinstance(part, int | Decimal)):
                return DIGITS
        if each.name == "at zone" and _is_twice(parts[0], each.value):
            return TWICE
        if value is _ERROR:  # of a part that DuckDB takes no notice of in the whole
            return OVERFLOW
    if _DOUBLE_AMONG.search(text) and any(abs(_ask(database, name)[row] or 0) > 2**53 for name in ("m", "n")):
        return LISTS
    return SIGNS if any(map(_is_of_sign, terms)) else None


def _is_of_sign(term: Term) -> bool:
    """Whether it computes with the sign of a double and with decimals, which are doubles beside a double alone."""
    inner = list(term.walk())
    has_decimal = any(getattr(each.type, "kind", "") == "decimal" for each in inner)
    return has_decimal and any(each.name == "sign" and each.type == DOUBLE for each in inner)


def _is_twice(wall: Any, zone: str) -> bool:
    """Whether it is a time without a zone, and the clock of a zone shows it twice."""
    if not isinstance(wall, datetime) or wall.tzinfo is not None:
        return False
    first, second = (wall.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second
