"""Bands with expressions and conditions of sides against plain bands over columns that were computed beforehand.

Rows observe all columns, so that nothing is carried; a row that does not meet a condition has an infinite value, which
makes no pairs. All that happens to pairs must be the same: damping, expiry, silence, deletions and changes of rules.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from tests.effort import seeds

INF = float("inf")
Row = dict[str, Any]

SIDED = [
    ("left.x * 1.1 - right.x", "left.n > 2", "right.s LIKE 'a%'"),
    ("left.x - right.x", "(left.n > 3 OR left.s = 'a')", None),
    ("(left.x + left.n) / 2 - right.x", None, "right.n BETWEEN 1 AND 4 AND right.s <> 'b'"),
    ("left.x - ABS(right.x - 3)", "left.s >= 'ab'", "right.n % 2 = 0"),
]
"""A difference, and the conditions on left and right rows."""
OF_LEFT: list[tuple[Callable[[Row], float], Callable[[Row], bool]]] = [
    (lambda r: r["x"] * 1.1, lambda r: r["n"] > 2),
    (lambda r: r["x"], lambda r: r["n"] > 3 or r["s"] == "a"),
    (lambda r: (r["x"] + r["n"]) / 2, lambda _: True),
    (lambda r: r["x"], lambda r: r["s"] >= "ab"),
]
OF_RIGHT: list[tuple[Callable[[Row], float], Callable[[Row], bool]]] = [
    (lambda r: r["x"], lambda r: r["s"].startswith("a")),
    (lambda r: r["x"], lambda _: True),
    (lambda r: r["x"], lambda r: 1 <= r["n"] <= 4 and r["s"] != "b"),
    (lambda r: abs(r["x"] - 3), lambda r: r["n"] % 2 == 0),
]
DAMPINGS: list[dict[str, Any]] = [
    {},
    {},
    {"for_": 3},
    {"keep_firing_for": 4},
    {"for_": 2, "keep_firing_for": 3, "cooldown": 5},
    {"for_": "2 rows", "limit": 2},
    {"every": 6, "detect": "inside"},
]


def table_of(rows: list[Row], side: str) -> pa.Table:
    computed = OF_LEFT if side == "left" else OF_RIGHT
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in ("o", "t", "q", "n", "s", "x", "gone")}
    for number, (value, holds) in enumerate(computed):
        columns[f"v{number}"] = [value(row) if holds(row) else INF for row in rows]
    columns["u"] = [row["s"].upper() for row in rows]
    return pa.table(columns)


class Both:
    """Two monitors to which the same happens."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        sided, plain = fp.Rules(), fp.Rules()
        for id in range(1, rng.randrange(3, 9)):
            one, other, options = self.draw()
            sided.add(id, one, **options)
            plain.add(id, other, **options)
        timeout: Any = rng.choice([None, None, 9])
        self.settings: dict[str, Any] = {
            "object": "o",
            "time": "t",
            "sequence": "q",  # else rows of one time are in the order of the columns that rules use
            "deleted": "gone",
            "timeout": timeout,
            "first": rng.choice(["enter", "enter", "silent"]),
            "report": rng.choice(["pairs", "pairs", "rules"]),
            "schema": {"x": "double", "n": "bigint", "s": "string", "u": "string"}
            | {f"v{number}": "double" for number in range(len(SIDED))},
        }
        self.monitors = [fp.Monitor(sided, **self.settings), fp.Monitor(plain, **self.settings)]
        self.time = self.row = 0
        self.events = 0

    def draw(self) -> tuple[str, str, dict[str, Any]]:
        """A band with expressions and conditions, the plain one over computed columns, and options of both."""
        rng = self.rng
        number, low = rng.randrange(len(SIDED)), rng.randrange(-3, 3)
        difference, *conditions = SIDED[number]
        keys = rng.random() < 0.4
        sided = [f"{difference} BETWEEN {low} AND {low + 2}", *(each for each in conditions if each)]
        plain = [f"left.v{number} - right.v{number} BETWEEN {low} AND {low + 2}"]
        if keys:
            sided.append("UPPER(left.s) = UPPER(right.s)")
            plain.append("left.u = right.u")
        rng.shuffle(sided)
        options = {"detect": rng.choice(["enter,exit", "enter,exit,inside"]), **rng.choice(DAMPINGS)}
        if "for_" not in options and "every" not in options and rng.random() < 0.3:
            options["detect"] = "enter,exit,cross"
        return " AND ".join(sided), " AND ".join(plain), {**options, "initial": rng.random() < 0.5}

    def tell(self, events: list[pa.Table]) -> None:
        names = ("rule_id", "rule_version", "object", "other", "detect", "time", "reason", "since")
        one, other = ([tuple(row.get(name) for name in names) for row in table.to_pylist()] for table in events)
        assert sorted(one, key=str) == sorted(other, key=str)
        self.events += len(one)

    def step(self, folder: Path) -> None:
        rng, monitors = self.rng, self.monitors
        chance = rng.random()
        if chance < 0.7:
            tables = [self.rows(rng.randrange(7)) for _ in range(2)]
            given = {side: table_of(rows, side) for side, rows in zip(("left", "right"), tables, strict=True) if rows}
            if given:
                self.tell([monitor.update(**given) for monitor in monitors])
        elif chance < 0.78 and self.time:
            self.time += rng.randrange(8)
            self.tell([monitor.advance(self.time) for monitor in monitors])
        elif chance < 0.92:
            id, (one, other, options) = rng.randrange(1, 9), self.draw()
            known = id in [rule.id for rule in monitors[0].rules]
            self.tell(
                [
                    (monitor.replace if known else monitor.add)(id, condition, **options)
                    for monitor, condition in zip(monitors, (one, other), strict=True)
                ]
            )
        else:
            path = folder / f"{rng.random()}"
            path.mkdir()
            for number, monitor in enumerate(monitors):
                monitor.save(path / str(number))
                monitors[number].restore(path / str(number))

    def rows(self, count: int) -> list[Row]:
        rng, rows = self.rng, []
        for _ in range(count):
            self.time += rng.choice([0, 0, 1, 1, 2])
            self.row += 1
            rows.append(
                {
                    "o": rng.randrange(3),
                    "t": self.time - rng.choice([0, 0, 0, 3]),
                    "q": self.row,
                    "n": rng.randrange(6),
                    "s": rng.choice(["a", "ab", "AB", "b"]),
                    "x": rng.choice([0.0, 1.0, 1.5, 2.0, 3.0, 4.5, INF]),
                    "gone": rng.random() < 0.07,
                }
            )
        return rows


@pytest.mark.parametrize("seed", seeds(60))
def test_sides_are_as_columns_that_were_computed_beforehand(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311
    both = Both(rng)
    for _ in range(25):
        both.step(tmp_path)
    for rule in both.monitors[0].rules:
        assert set(both.monitors[0].inside(rule.id)) == set(both.monitors[1].inside(rule.id))
