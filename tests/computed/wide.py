"""Random conditions of everything that conditions take, over columns of all types, for comparisons with DuckDB."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

COLUMNS = {
    "a": pa.float64(),
    "b": pa.float64(),
    "m": pa.int64(),
    "n": pa.int64(),
    "p": pa.decimal128(9, 2),
    "q": pa.decimal128(12, 4),
    "s": pa.string(),
    "t": pa.string(),
    "ts": pa.timestamp("us", tz="UTC"),
    "tn": pa.timestamp("us"),
    "d": pa.date32(),
    "f": pa.bool_(),
    "g": pa.bool_(),
}
SCHEMA = pa.schema(list(COLUMNS.items()))
_DOUBLES = [0.0, -0.0, -1.0, 1.0, 0.1, 2.5, 0.5, -0.5, 1.5, -1.5, 40.0, 1e300, 5e-324, 1e15, 123.456, -2.5]
_DOUBLES += [2**53 + 2.0, 0.49999999999999994]
_INTEGERS = [0, 1, -1, 2, 7, 40, -13, 10**6, 2**40, -2, 3, 2**62, 2**63 - 1, -(2**63) + 1, 2**53 + 1]
_DECIMALS = ["0.00", "1.00", "-1.00", "0.10", "2.55", "40.00", "-13.37", "9999999.99", "2.50", "-2.50"]
_FINE = [*_DECIMALS, "0.0001", "12345678.9999"]
_STRINGS = ["", "A", "a", "AB", "ab", "Acme", "Acme Ltd", " B ", "é", "É", "\U0001f600", "ABC", "\ud7ff", "\ue000"]
_STRINGS += ["\uffff", "\U0010ffff", "Aß", "straße", "AB\u0301", " \t x", "aéb", "日本語", "ABCDEFGH", "ABCDEFGHI"]
_START = datetime(2024, 1, 1, tzinfo=UTC)
_CHANGES = [datetime(2024, 3, 31, 0, 59), datetime(2024, 3, 31, 1), datetime(2024, 10, 27, 0, 30)]
_CHANGES += [datetime(2024, 10, 27, 1, 30), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2045, 7, 1, 12)]
_ZONED = ["ts AT TIME ZONE 'Europe/Berlin'", "ts AT TIME ZONE 'America/New_York'"]
_ZONED += ["ts AT TIME ZONE 'Australia/Lord_Howe'", "(tn AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'America/New_York'"]
_TRUTHS = [
    "f",
    "NOT g",
    "f = g",
    "f <> g",
    "f = TRUE",
    "COALESCE(f, g)",
    "COALESCE(f, FALSE) = g",
    "d < DATE '2024-06-01'",
    "tn >= d",
    "ts > TIMESTAMPTZ '2024-05-01 00:00:00+00'",
    "COALESCE(d, DATE '2024-01-01') = DATE '2024-01-01'",
    "ts AT TIME ZONE 'Europe/Berlin' >= TIMESTAMP '2024-05-01 00:00:00'",
    "tn < ts AT TIME ZONE 'Europe/Berlin'",
    "d = DATE '2024-05-01' OR d > tn",
    "GREATEST(d, DATE '2024-04-04') > DATE '2024-08-08'",
]


def random_rows(rng: Random, count: int) -> pa.Table:
    """Rows with nulls, and with values that hurt."""
    instants = [_START + timedelta(minutes=rng.randrange(525_600)) for _ in range(30)]
    instants += [each.replace(tzinfo=UTC) for each in _CHANGES]
    walls = [*(each.replace(tzinfo=None) for each in instants), datetime(2024, 3, 31, 2, 30), datetime(2024, 3, 10, 2)]
    walls += [datetime(2024, 10, 27, 2, 30), datetime(2024, 11, 3, 1, 30), datetime(2024, 4, 7, 1, 45)]
    days = [*(date(2024, 1, 1) + timedelta(days=rng.randrange(800)) for _ in range(30)), date(1969, 12, 31)]
    decimals, fine = ([Decimal(text) for text in texts] for texts in (_DECIMALS, _FINE))
    truths = [True, False]
    pools: list[list[Any]] = [_DOUBLES, _DOUBLES, _INTEGERS, _INTEGERS, decimals, fine, _STRINGS, _STRINGS]
    pools += [instants, walls, days, truths, truths]
    arrays = []
    for pool, type_ in zip(pools, COLUMNS.values(), strict=True):
        arrays.append(pa.array([None if rng.random() < 0.12 else rng.choice(pool) for _ in range(count)], type_))
    return pa.table(arrays, SCHEMA)


def _constant(rng: Random) -> str:
    return rng.choice(
        ["1", "2", "3", "10", "40", "0", "2.5", "0.1", "2.55", "-1", "-0.5", "7", "CAST(0.5 AS DOUBLE)", "1e1"]
    )


def _number(rng: Random, depth: int) -> str:
    """An expression of numbers of any types."""
    if depth <= 0 or rng.random() < 0.15:
        return rng.choice(["a", "b", "m", "n", "p", "q"])
    inner = _number(rng, depth - 1)
    other = _number(rng, depth - 1) if rng.random() < 0.5 else _constant(rng)
    unit = rng.choice(["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "ISODOW"])
    shapes = [
        f"-({inner})",
        f"ABS({inner})",
        f"{rng.choice(['GREATEST', 'LEAST'])}({inner}, {_number(rng, depth - 1)})",
        f"COALESCE({inner}, {other})",
        f"NULLIF({inner}, {other})",
        f"{rng.choice(['FLOOR', 'CEIL', 'ROUND'])}({inner})",
        f"SIGN({inner})",
        f"({inner} % {rng.choice(['7', '2', '3', _number(rng, depth - 1)])})",
        f"CAST({inner} AS DOUBLE)",
        f"({inner} / {other})",
        f"LENGTH({_text(rng, 1)})",
        f"EXTRACT({unit} FROM {rng.choice(['ts', 'tn', 'd'])})",
        f"SQRT(ABS({inner}))",
        f"({inner} {rng.choice('+-*')} {other})",
        f"({other} {rng.choice('+-*')} {inner})",
        f"({inner} {rng.choice('+-')} {other})",
    ]
    return rng.choice(shapes)


_OF_STRINGS = ["LOWER({})", "UPPER({})", "SUBSTR({}, 1, 2)", "SUBSTR({}, 2, 3)", "SUBSTR({}, 2)", "LEFT({}, 2)"]
_OF_STRINGS += ["TRIM({})", "COALESCE({}, 'zz')", "GREATEST({}, t)", "LEAST(s, {})", "NULLIF({}, 'A')"]


def _text(rng: Random, depth: int) -> str:
    inner = rng.choice(["s", "t"])
    for _ in range(depth):
        inner = rng.choice(_OF_STRINGS).format(inner)
    return inner


def _quoted(rng: Random) -> str:
    return f"'{rng.choice(_STRINGS)}'"


def _comparison(rng: Random) -> str:
    symbol, negation = rng.choice(["<", "<=", ">", ">=", "=", "<>"]), rng.choice(["", "NOT "])
    number, text, prefix = _number(rng, 2), _text(rng, 1), rng.choice(["A", "a", "Ac", "", "é", "ABCDEFGH", "\ud7ff"])
    field = rng.choice(["HOUR", "MINUTE", "DAY", "ISODOW", "DOY", "WEEK", "YEAR"])
    other = _number(rng, rng.randrange(3)) if rng.random() < 0.4 else _constant(rng)
    compared = f"{_number(rng, rng.randrange(1, 4))} {symbol} {other}"
    shapes = [
        compared,
        compared,
        compared,
        f"{_text(rng, rng.randrange(3))} {symbol} {_quoted(rng) if rng.random() < 0.7 else text}",
        f"{text} {negation}LIKE '{prefix}%'",
        f"{text} ILIKE '{rng.choice(['A', 'aC', 'É'])}%'",
        f"STARTS_WITH({text}, {_quoted(rng)})",
        f"EXTRACT({field} FROM {rng.choice(['ts', 'tn', *_ZONED])}) {symbol} {rng.choice([0, 1, 5, 9, 12, 16])}",
        f"{rng.choice([*COLUMNS, number, text])} IS {negation}NULL",
        rng.choice(_TRUTHS),
        f"{number} {negation}BETWEEN {_constant(rng)} AND {other}",
        f"{number} {negation}IN ({_constant(rng)}, {_constant(rng)}, {_number(rng, 0)})",
        f"{text} {negation}IN ({_quoted(rng)}, {_quoted(rng)})",
        f"{text} {negation}BETWEEN {_quoted(rng)} AND {_quoted(rng)}",
    ]
    return rng.choice(shapes)


def condition(rng: Random) -> str:
    """A condition of one to three comparisons."""
    text = _comparison(rng)
    for _ in range(rng.randrange(3)):
        text = f"{text} {rng.choice(['AND', 'OR', 'AND NOT', 'OR NOT'])} ({_comparison(rng)})"
    return f"NOT ({text})" if rng.random() < 0.2 else text
