"""Values of every type that hurt: touching, neighbouring, extreme; and how each is written in SQL."""

import math
import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.campaign.oracle import Box, Range, successor

TYPES = {
    "d": "double",
    "i": "bigint",
    "n": "decimal(9,2)",
    "day": "date",
    "ts": "timestamp_ntz",
    "b": "boolean",
}
ARROW = {
    "d": pa.float64(),
    "i": pa.int64(),
    "n": pa.decimal128(9, 2),
    "day": pa.date32(),
    "ts": pa.timestamp("us"),
    "b": pa.bool_(),
}
NOON = datetime(2024, 2, 28, 12)
POOL: dict[str, list[Any]] = {
    "d": [-1e300, -2.5, -1.0, 0.0, 5e-324, 0.1, 1.0, math.nextafter(1.0, 2.0), 2.0, 3.0, 7.5, 1e300],
    "i": [-(2**63) + 1, -(2**53) - 1, -3, -1, 0, 1, 2, 3, 4, 9, 2**53, 2**53 + 1, 2**63 - 2],
    "n": [Decimal(text) for text in ("-9999999.99", "-1.50", "-0.01", "0.00", "0.01", "0.02", "1.00", "9999999.98")],
    "day": [date(1, 1, 2), date(1969, 12, 31), date(1970, 1, 1), *(date(2024, 2, day) for day in range(26, 30))],
    "ts": [datetime(1969, 12, 31, 23, 59, 59, 999999), *(NOON + timedelta(hours=6 * step) for step in range(6))],
    "b": [False, True],
}
DATA: dict[str, list[Any]] = {
    **POOL,
    "d": [*POOL["d"], -0.0, math.inf, -math.inf],
    "i": [*POOL["i"], -(2**63), 2**63 - 1],
}
KEYS = {"s": ["a", "b", "O'Neil", ""], "u": ["x", "é", "x "]}


def literal(value: Any) -> str:
    """A value as SQL writes it."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value) if isinstance(value, float) else str(value)


def draw_range(rng: random.Random, name: str) -> Range:
    """A range that holds something and leaves something out."""
    if name == "b":
        value = rng.random() < 0.5
        return Range(value, value)
    low, high = sorted(rng.choices(POOL[name], k=2))
    kind = rng.randrange(8)
    if kind == 0:
        return Range(low, None, with_low=rng.random() < 0.5)
    if kind == 1:
        return Range(None, high, with_high=rng.random() < 0.5)
    drawn = Range(low, high, rng.random() < 0.5, rng.random() < 0.5)
    first = low if drawn.with_low else successor(low)
    return drawn if drawn.holds(first) else Range(low, high)


def write_range(rng: random.Random, name: str, range_: Range) -> str:
    """A range in one of the ways that SQL has for it."""
    low, high = range_.low, range_.high
    if name == "b":
        plain = "b" if low else "NOT b"
        return rng.choice([plain, f"b = {literal(low)}", f"{literal(low)} = b"])
    if low is not None and low == high:
        return rng.choice([f"{name} = {literal(low)}", f"{name} IN ({literal(low)})"])
    if low is not None and high is not None and range_.with_low and range_.with_high and rng.random() < 0.5:
        return f"{name} BETWEEN {literal(low)} AND {literal(high)}"
    parts = []
    if low is not None:
        sign, turned, opposite = (">=", "<=", "<") if range_.with_low else (">", "<", "<=")
        parts.append(_compare(rng, name, sign, turned, opposite, literal(low)))
    if high is not None:
        sign, turned, opposite = ("<=", ">=", ">") if range_.with_high else ("<", ">", ">=")
        parts.append(_compare(rng, name, sign, turned, opposite, literal(high)))
    rng.shuffle(parts)
    return " AND ".join(parts)


def _compare(rng: random.Random, name: str, sign: str, turned: str, opposite: str, bound: str) -> str:
    return rng.choice([f"{name} {sign} {bound}", f"{bound} {turned} {name}", f"NOT ({name} {opposite} {bound})"])


def write_box(rng: random.Random, box: Box) -> str:
    """A box as a conjunction."""
    parts = [write_range(rng, name, range_) for name, range_ in box.ranges.items()]
    for name, allowed in box.keys.items():
        listed = ", ".join(map(literal, allowed))
        parts.append(f"{name} = {listed}" if len(allowed) == 1 else f"{name} IN ({listed})")
    rng.shuffle(parts)
    return " AND ".join(f"({part})" if " AND " in part else part for part in parts)


def write_condition(rng: random.Random, boxes: list[Box]) -> str:
    """Boxes as a disjunction."""
    return " OR ".join(f"({write_box(rng, box)})" if rng.random() < 0.5 else write_box(rng, box) for box in boxes)
