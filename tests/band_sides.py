"""Expressions over one side of a band and conditions on its rows: as SQL, and what they are in plain Python."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Value(NamedTuple):
    """A number, or None where there is none; `{}` stands for the side."""

    sql: str
    of: Callable[[Row], float | None]


class Test(NamedTuple):
    """Whether a row meets a condition; what is null meets none but IS NULL."""

    sql: str
    holds: Callable[[Row], bool]


def _with(columns: str, compute: Callable[..., float]) -> Callable[[Row], float | None]:
    """What is computed of columns that have values, all of them; NaN is none."""

    def of(row: Row) -> float | None:
        given = [row.get(name) for name in columns]
        if None in given:
            return None
        found = compute(*given)
        return None if math.isnan(found) else found

    return of


def _holds(columns: str, compare: Callable[..., bool]) -> Callable[[Row], bool]:
    def holds(row: Row) -> bool:
        given = [row.get(name) for name in columns]
        return None not in given and compare(*given)

    return holds


def _floor(x: float) -> float:
    return x if math.isinf(x) else float(math.floor(x))


VALUES = [
    Value("{}.x * 1.1", _with("x", lambda x: x * 1.1)),
    Value("({}.x + 1) * 2", _with("x", lambda x: (x + 1) * 2)),
    Value("ABS({}.x) / 3", _with("x", lambda x: abs(x) / 3)),
    Value("FLOOR({}.x)", _with("x", _floor)),
    Value("COALESCE({}.x, 2.5)", lambda row: 2.5 if row.get("x") is None else row["x"]),
    Value("CAST(LENGTH({}.k) AS DOUBLE)", _with("k", lambda k: float(len(k)))),
]
OF_RIGHT = [
    Value("({}.x + {}.y) / 2", _with("xy", lambda x, y: (x + y) / 2)),
    Value("{}.x * {}.y", _with("xy", lambda x, y: x * y)),
    Value("{}.x / {}.y", _with("xy", lambda x, y: math.nan if y == 0 else x / y)),
    Value(
        "GREATEST({}.x, {}.y)",
        lambda row: max((v for v in (row.get("x"), row.get("y")) if v is not None), default=None),
    ),
]
TESTS = [
    Test("{}.x > 1", _holds("x", lambda x: x > 1)),
    Test("{}.x BETWEEN 1 AND 2.5", _holds("x", lambda x: 1 <= x <= 2.5)),
    Test("{}.x NOT IN (1, 2)", _holds("x", lambda x: x not in (1, 2))),
    Test("{}.x IS NULL", lambda row: row.get("x") is None),
    Test("{}.c IS NULL", lambda row: row.get("c") is None),
    Test("{}.c IS NOT NULL AND {}.x <> 2", _holds("cx", lambda _, x: x != 2)),
    Test("{}.c LIKE 'a%'", _holds("c", lambda c: c.startswith("a"))),
    Test("{}.c NOT LIKE 'a%'", _holds("c", lambda c: not c.startswith("a"))),
    Test("{}.c >= 'b'", _holds("c", lambda c: c >= "b")),
    Test("{}.c <> 'a' AND {}.k <> 'q'", _holds("ck", lambda c, k: c != "a" and k != "q")),
    Test("{}.k IN ('q', 'r')", _holds("k", lambda k: k in ("q", "r"))),
    Test("({}.x > 2 OR {}.c = 'a')", lambda row: (row.get("x") or 0) > 2 or row.get("c") == "a"),
    Test(
        "NOT ({}.x > 2 AND {}.k = 'p')",
        lambda row: (row.get("x") is not None and row["x"] <= 2) or row.get("k") not in (None, "p"),
    ),
    Test("{}.x * 1.1 > 2.2", _holds("x", lambda x: x * 1.1 > 2.2)),
    Test("UPPER({}.k) = 'P'", _holds("k", lambda k: k.upper() == "P")),
    Test("{}.x > LENGTH({}.k)", _holds("xk", lambda x, k: x > len(k))),
]
EQUALS: list[tuple[str, Callable[[Row], Any], Callable[[Row], Any]]] = [
    ("UPPER(left.c) = UPPER(right.c)", lambda row: row.get("c"), lambda row: row.get("c")),
    ("FLOOR(left.x) = FLOOR(right.x)", _with("x", _floor), _with("x", _floor)),
    ("SUBSTR(left.k, 1, 1) = right.k", lambda row: row.get("k"), lambda row: row.get("k")),
    ("LENGTH(left.k) + LENGTH(left.c) = LENGTH(right.c) * 2", _with("kc", lambda *_: 2.0), _with("c", lambda _: 2.0)),
]
