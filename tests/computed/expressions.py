"""Random conditions over columns of all types, and random rows, for comparisons with engines of SQL."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

Rng = np.random.Generator

COLUMNS = {
    "a": pa.float64(),
    "b": pa.float64(),
    "m": pa.int64(),
    "n": pa.int64(),
    "p": pa.decimal128(9, 2),
    "q": pa.decimal128(9, 2),
    "s": pa.string(),
    "t": pa.string(),
    "ts": pa.timestamp("us", tz="UTC"),
    "d": pa.date32(),
}
SCHEMA = pa.schema(list(COLUMNS.items()))
_DOUBLES = [0.0, -1.0, 1.0, 0.1, 2.5, -0.5, 40.0, 1e300, -1e300, 5e-324, 1e15, 123.456]
_INTEGERS = [0, 1, -1, 2, 7, 40, -13, 10**6, 2**40]
_DECIMALS = ["0.00", "1.00", "-1.00", "0.10", "2.55", "40.00", "-13.37", "9999999.99"]
_STRINGS = ["", "A", "a", "AB", "ab", "Acme", "Acme Ltd", " B ", "é", "\U0001f600", "ABC"]
_START = datetime(2024, 1, 1, tzinfo=UTC)


def random_rows(rng: Rng, count: int) -> pa.Table:
    """Rows with nulls, and with values that hurt."""

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.12 else values[int(rng.integers(len(values)))] for _ in range(count)]

    doubles = [*_DOUBLES, *rng.normal(0, 30, 20).round(2).tolist()]
    decimals = [Decimal(text) for text in _DECIMALS]
    times = [_START + timedelta(minutes=int(m)) for m in rng.integers(0, 525_600, 30)]
    days = [date(2024, 1, 1) + timedelta(days=int(each)) for each in rng.integers(0, 800, 30)]
    pools = [doubles, doubles, _INTEGERS, _INTEGERS, decimals, decimals, _STRINGS, _STRINGS, times, days]
    return pa.table([pa.array(some(pool), type_) for pool, type_ in zip(pools, COLUMNS.values(), strict=True)], SCHEMA)


def _pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def number(rng: Rng, kind: str, depth: int) -> str:
    """An expression of doubles, bigints or decimals."""
    columns = {"double": ["a", "b"], "bigint": ["m", "n"], "decimal": ["p", "q"]}[kind]
    if depth <= 0 or rng.random() < 0.2:
        return str(_pick(rng, columns))
    inner = number(rng, kind, depth - 1)
    shape = int(rng.integers(8))
    if shape == 0:
        return f"-({inner})" if kind != "decimal" else f"({inner} - 1)"
    if shape == 1:
        return f"ABS({inner})"
    if shape == 2:
        function = _pick(rng, ["GREATEST", "LEAST"])
        return f"{function}({inner}, {number(rng, kind, depth - 1)})"
    if shape == 3:
        return f"COALESCE({inner}, {_constant(rng, kind)})"
    if shape == 4 and kind == "double":
        return f"({inner} / {_pick(rng, ['2', '1.8', '-3', number(rng, kind, depth - 2)])})"
    if shape == 5 and kind == "double":
        return f"{_pick(rng, ['FLOOR', 'CEIL'])}({inner})"
    other = _constant(rng, kind) if rng.random() < 0.5 else number(rng, kind, depth - 1)
    symbols = ["+", "-"] if kind == "decimal" or depth > 1 else ["+", "-", "*"]
    return f"({inner} {_pick(rng, symbols)} {other})"


def _constant(rng: Rng, kind: str) -> str:
    if kind == "bigint":
        return str(_pick(rng, [1, 2, 3, 10, 40]))
    return str(_pick(rng, ["1", "2.5", "0.1", "40", "3"] if kind == "double" else ["1", "2.55", "0.1", "40"]))


def _text(rng: Rng, depth: int) -> str:
    inner = str(_pick(rng, ["s", "t"]))
    for _ in range(depth):
        inner = _pick(rng, ["LOWER({})", "UPPER({})", "SUBSTR({}, 1, 2)", "SUBSTR({}, 2, 3)", "TRIM({})"]).format(inner)
    return inner


def _quoted(rng: Rng) -> str:
    return "'" + str(_pick(rng, _STRINGS)) + "'"


def comparison(rng: Rng) -> str:
    """A condition of one comparison."""
    symbol = _pick(rng, ["<", "<=", ">", ">=", "=", "<>"])
    shape = int(rng.integers(10))
    if shape < 4:
        kind = _pick(rng, ["double", "double", "bigint", "decimal"])
        own = number(rng, kind, 2)
        other = number(rng, kind, 1) if rng.random() < 0.4 else _constant(rng, kind)
        return f"{own} {symbol} {other}"
    if shape == 4:
        return f"{_text(rng, int(rng.integers(3)))} {symbol} {_quoted(rng)}"
    if shape == 5:
        return (
            f"{_pick(rng, ['s', 't', 'LOWER(s)'])} {_pick(rng, ['', 'NOT '])}LIKE '{_pick(rng, ['A', 'a', 'Ac', ''])}%'"
        )
    if shape == 6:
        unit = _pick(rng, ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "ISODOW"])
        return f"EXTRACT({unit} FROM {_pick(rng, ['ts', 'd'])}) {symbol} {_pick(rng, [1, 2, 5, 12, 30, 2024])}"
    if shape == 7:
        field, low = _pick(rng, ["HOUR", "MINUTE"]), _pick(rng, [0, 9])
        return f"EXTRACT({field} FROM ts) BETWEEN {low} AND {_pick(rng, [9, 16, 40])}"
    if shape == 8:
        return f"{_pick(rng, [*COLUMNS, 'a + b', 'LOWER(s)'])} IS {_pick(rng, ['', 'NOT '])}NULL"
    texts = ["LENGTH(s) {} 2", "s {} t", "LENGTH(s) + m {} 3", "a {} m", "p {} m"]
    return str(_pick(rng, texts)).format(symbol)


def condition(rng: Rng) -> str:
    """A condition of one to three comparisons."""
    text = comparison(rng)
    for _ in range(int(rng.integers(3))):
        text = f"{text} {_pick(rng, ['AND', 'OR', 'AND NOT'])} ({comparison(rng)})"
    return text
