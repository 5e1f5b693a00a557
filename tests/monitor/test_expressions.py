"""Rules with expressions and ordered strings that come and go while objects move, against plain Python."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fencepost as fp
from fencepost.monitor.reasons import Reason
from tests.effort import seeds

Row = dict[str, Any]
Holds = Callable[[Row], bool]
SCHEMA = {"x": "double", "y": "double", "n": "bigint", "name": "string"}
NAMES = ["", "A", "AB", "Acme", "Acme Ltd", "B", "b", "\U0001f600"]


def known(row: Row, *names: str) -> bool:
    return all(row[name] is not None for name in names)


def random_rule(rng: np.random.Generator) -> tuple[str, Holds]:
    """A condition, and what Python says of it."""
    c, text = float(rng.integers(-4, 5)) / 2, NAMES[int(rng.integers(1, len(NAMES)))]
    rules: list[tuple[str, Holds]] = [
        (f"x - y < {c}", lambda r: known(r, "x", "y") and r["x"] - r["y"] < c),
        (f"x > y OR n = {int(c)}", lambda r: (known(r, "x", "y") and r["x"] > r["y"]) or r["n"] == int(c)),
        ("y IS NULL", lambda r: r["y"] is None),
        ("name IS NOT NULL AND x IS NULL", lambda r: r["name"] is not None and r["x"] is None),
        (f"name >= '{text}'", lambda r: known(r, "name") and r["name"] >= text),
        (f"name <> '{text}'", lambda r: known(r, "name") and r["name"] != text),
        (f"name = '{text}' AND x < {c}", lambda r: known(r, "x") and r["name"] == text and r["x"] < c),
        (f"name LIKE '{text}%'", lambda r: known(r, "name") and r["name"].startswith(text)),
        (
            f"LOWER(name) NOT LIKE 'a%' AND x * 2 + 1 >= {c}",
            lambda r: known(r, "name", "x") and not r["name"].lower().startswith("a") and r["x"] * 2 + 1 >= c,
        ),
        (f"x / y >= {c}", lambda r: known(r, "x", "y") and r["y"] != 0 and r["x"] / r["y"] >= c),
        (f"COALESCE(y, {c}) > x", lambda r: known(r, "x") and (c if r["y"] is None else r["y"]) > r["x"]),
        (f"ABS(x) <= {abs(c)}", lambda r: known(r, "x") and abs(r["x"]) <= abs(c)),
        (f"LENGTH(name) + n > {int(c)}", lambda r: known(r, "name", "n") and len(r["name"]) + r["n"] > int(c)),
    ]
    return rules[int(rng.integers(len(rules)))]


class Walk:
    """A monitor, and where its objects should be."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.monitor = fp.Monitor(fp.Rules(), object="o", time="ts", schema=SCHEMA)
        self.rules: dict[int, Holds] = {}
        self.objects: dict[str, Row] = {}
        self.inside: set[tuple[int, str]] = set()
        self.now = 0

    def should(self) -> set[tuple[int, str]]:
        return {(id, o) for id, holds in self.rules.items() for o, row in self.objects.items() if holds(row)}

    def row(self) -> tuple[str, Row]:
        values = {
            "x": float(self.rng.integers(-4, 5)) / 2,
            "y": float(self.rng.integers(-4, 5)) / 2,
            "n": int(self.rng.integers(-3, 4)),
            "name": NAMES[int(self.rng.integers(len(NAMES)))],
        }
        given = {name: None if self.rng.random() < 0.3 else value for name, value in values.items()}
        return f"o{self.rng.integers(5)}", given

    def move(self) -> None:
        self.now += 1
        if self.rng.random() < 0.5:
            object, given = self.row()
            events = self.monitor.update_one(object, self.now, **given)
            told = [(event.rule_id, event.object, event.detect) for event in events]
            rows = [(object, given)]
        else:
            rows = list({object: (object, given) for object, given in (self.row() for _ in range(4))}.values())
            table = [{"o": object, "ts": self.now, **given} for object, given in rows]
            told = [(e["rule_id"], e["object"], e["detect"]) for e in self.monitor.update(table).to_pylist()]
        for object, given in rows:
            if any(value is not None for value in given.values()):
                own = self.objects.setdefault(object, dict.fromkeys(SCHEMA))
                own.update({name: value for name, value in given.items() if value is not None})
        before, self.inside = self.inside, self.should()
        expected = {(*pair, "enter") for pair in self.inside - before} | {(*p, "exit") for p in before - self.inside}
        assert set(told) == expected
        assert len(told) == len(expected)

    def change(self) -> None:
        id = int(self.rng.integers(12))
        if id in self.rules and self.rng.random() < 0.4:
            self.monitor.remove(id)
            del self.rules[id]
        else:
            text, holds = random_rule(self.rng)
            put = self.monitor.replace if id in self.rules else self.monitor.add
            put(id, text, detect="enter,exit")
            self.rules[id] = holds
        self.inside = self.should()


@pytest.mark.filterwarnings("ignore:Nothing is known yet")
@pytest.mark.parametrize("seed", seeds(24))
def test_rules_come_and_go_while_objects_move(seed: int, tmp_path: Path) -> None:
    walk = Walk(seed)
    for step in range(60):
        (walk.change if walk.rng.random() < 0.4 else walk.move)()
        if step % 20 == 19:
            walk.monitor.save(tmp_path / f"{step}", rules=True)
            walk.monitor = fp.Monitor.load(tmp_path / f"{step}")
        if step % 5 == 0:
            for id in walk.rules:
                assert set(walk.monitor.inside(id)) == {o for own, o in walk.inside if own == id}


def test_why_shows_the_expression_and_its_value() -> None:
    rules = fp.Rules()
    rules.add(1, "bid - ask < 0.5 AND LOWER(name) LIKE 'ac%'", detect="enter,exit")
    monitor = fp.Monitor(rules, object="o", time="ts")
    monitor.update([{"o": "a", "ts": 1, "bid": 3.0, "ask": 1.0, "name": "Acme"}])
    assert (
        str(monitor.why_not(1, "a")).split("\n")[0]
        == "a is outside rule 1: bid - ask is 2.0, above 0.49999999999999994."
    )
    (event,) = monitor.update([{"o": "a", "ts": 2, "bid": 1.25}]).to_pylist()
    reason = monitor.why(event)
    assert isinstance(reason, Reason)
    assert (reason.before["bid - ask"], reason.after["bid - ask"]) == (2.0, 0.25)
    assert reason.after["LOWER(name)"] == "acme"
    assert str(reason.boxes[0]) == (
        "'ac' <= LOWER(name) < 'ad' and bid - ask <= 0.49999999999999994: after, "
        "because of bid - ask <= 0.49999999999999994"
    )


def test_one_expression_too_many_is_refused() -> None:
    rules = fp.Rules()
    for number in range(257):
        rules.add(number, f"a + {number} > b")
    with np.testing.assert_raises_regex(fp.FencepostError, r"256.+ is one more distinct expression.+at most 256"):
        rules.compile()
    rules.remove(256)
    monitor = fp.Monitor(rules, object="o", time="ts")
    with np.testing.assert_raises_regex(fp.FencepostError, "one more distinct expression"):
        monitor.add(300, "a + 300 > b")
    monitor.add(301, "A + 7 > B")
    assert len(monitor.rules) == 257


def test_why_shows_expressions_over_one_column() -> None:
    rules = fp.Rules()
    rules.add(1, "price * 1.1 > 50 AND ABS(d - 3) < 2", detect="enter,exit")
    monitor = fp.Monitor(rules, object="o", time="ts")
    monitor.update([{"o": "a", "ts": 1, "price": 10.0, "d": 3.0}])
    standing = monitor.why_not(1, "a")
    assert standing.values == {"d": 3.0, "price": 10.0, "ABS(d - 3)": 0.0, "price * 1.1": 11.0}
    (event,) = monitor.update([{"o": "a", "ts": 2, "price": 50.0}]).to_pylist()
    reason = monitor.why(event)
    assert "price * 1.1: 11.0 -> 55.00000000000001" in str(reason)
    monitor.add(2, "price * 2 > 10", detect="enter")  # waits, and is not compiled
    assert monitor.why_not(2, "a").values["price * 2"] == 100.0


def test_booleans_read_like_conditions() -> None:
    rules = fp.Rules()
    rules.add(1, "price > vwap AND x IS NOT NULL AND f = FALSE AND NOT s = t", detect="enter,exit")
    schema = {"price": "double", "vwap": "double", "x": "double", "f": "boolean", "s": "string", "t": "string"}
    monitor = fp.Monitor(rules, object="o", time="ts", schema=schema | {"o": "string", "ts": "bigint"})
    monitor.update([{"o": "a", "ts": 1, "price": 1.0, "vwap": 2.0, "x": None, "f": True, "s": "A", "t": "A"}])
    standing = monitor.why_not(1, "a")
    (box,) = standing.boxes
    assert str(box).startswith("s <> t and vwap < price and x IS NOT NULL and f = FALSE: ")
    assert set(box.missed) == {
        "s <> t does not hold",
        "vwap < price does not hold",
        "x IS NOT NULL does not hold",
        "f = FALSE does not hold",
    }


def test_nothing_was_inside_before_its_first_row() -> None:
    rules = fp.Rules()
    rules.add(1, "x IS NULL", detect="enter")
    schema = {"x": "double", "y": "double", "o": "string", "ts": "bigint"}
    monitor = fp.Monitor(rules, object="o", time="ts", schema=schema)
    (event,) = monitor.update([{"o": "a", "ts": 1, "x": None, "y": 3.0}]).to_pylist()
    (box,) = monitor.why(event).boxes  # type: ignore[union-attr]
    assert (box.held_before, box.holds_after) == (False, True)
    assert str(box) == "x IS NULL: after"
