"""Why not, of bands: where the two rows of a pair stand with a rule, and what it waits for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import fencepost as fp
from fencepost.monitor import Monitor
from tests.monitor.examples import refusal

START = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
Row = tuple[float, str, str, float]


def watched(rows: list[Row], condition: str = "left.x - right.x BETWEEN -1 AND 1", **options: Any) -> Monitor:
    """A monitor with rule 7 that has seen these rows: minute, side, object, x."""
    rules = fp.Rules()
    rules.add(7, condition, name="near", **{"detect": "enter,exit", **options})
    monitor = Monitor(rules, object="id", time="ts", timeout=options.pop("timeout", None))
    for minute, side, object, x in rows:
        row = {"id": object, "ts": START + timedelta(minutes=minute), "x": x, "zone": "n"}
        monitor.update(**{side: [row]})
    return monitor


@pytest.mark.parametrize(
    ("rows", "options", "waits_for", "text"),
    [
        (
            [(0, "left", "a", 5), (1, "right", "b", 7)],
            {},
            "condition",
            "The pair of a and b is outside rule 7: left.x - right.x is -2.0, not >= -1.0.",
        ),
        ([(0, "left", "a", 5), (1, "right", "b", 5.5)], {}, None, "The pair of a and b is inside rule 7, and counts"),
        (
            [(0, "left", "a", 5), (1, "right", "b", 5.5)],
            {"for_": "5 minutes"},
            "for",
            "has been inside rule 7 since 09:31; `for` 5 minutes is not over before 09:36.",
        ),
        (
            [(0, "left", "a", 5), (1, "right", "b", 5.5), (2, "left", "a", 9)],
            {"keep_firing_for": "2 minutes"},
            "keep_firing_for",
            "and still counts as inside; `keep_firing_for` 2 minutes is not over before 09:34.",
        ),
        ([(0, "left", "a", 5)], {}, "object", "is not known: no row of b has come on the right side."),
        ([(0, "right", "b", 5)], {}, "object", "is not known: no row of a has come on the left side."),
    ],
)
def test_what_a_pair_waits_for(rows: list[Row], options: dict[str, Any], waits_for: str | None, text: str) -> None:
    found = watched(rows, **options).why_not("near", "a", "b")
    assert (found.waits_for, found.object, found.other) == (waits_for, "a", "b")
    assert text in found.text


def test_the_report_has_the_values_and_the_band() -> None:
    condition = "left.x - right.x < 3 AND left.zone = right.zone AND left.zone = 'n'"
    found = watched([(0, "left", "a", 9), (1, "right", "b", 5)], condition).why_not(7, "a", "b")
    assert str(found).splitlines() == [
        "The pair of a and b is outside rule 7: left.x - right.x is 4.0, not < 3.0.",
        f"  outside, reported as outside at {START + timedelta(minutes=1)}",
        "  left.x: 9.0",
        "  left.zone: n",
        "  right.x: 5.0",
        "  right.zone: n",
        "  left.x - right.x < 3.0: left.x - right.x is 4.0, not < 3.0",
    ]


def test_keys_are_named_with_the_rows() -> None:
    rules = fp.Rules()
    rules.add(7, "left.x - right.x BETWEEN -1 AND 1", detect="enter,exit", for_=5)
    monitor = Monitor(rules, object="id", time="ts", key="symbol")
    monitor.update(left=[{"id": 1, "ts": 0, "x": 5, "symbol": "S"}])
    monitor.update(right=[{"id": 2, "ts": 1, "x": 5, "symbol": "S"}, {"id": 2, "ts": 1, "x": 5, "symbol": "T"}])
    found = monitor.why_not(7, {"symbol": "S", "id": 1}, {"symbol": "S", "id": 2})
    assert (found.raw, found.reported, found.since, found.due) == (True, False, 1, 6)
    apart = monitor.why_not(7, {"symbol": "S", "id": 1}, {"symbol": "T", "id": 2})
    assert "left.symbol is 'S', right.symbol 'T'" in apart.text
    assert not monitor.why_not(7, 1, 2).is_known


def test_a_band_has_two_rows_and_other_rules_have_one_object() -> None:
    monitor = watched([(0, "left", "a", 5)])
    assert "joins two streams" in refusal(lambda: monitor.why_not(7, "a"))
    monitor.add(8, "x > 3")
    assert "is about one object" in refusal(lambda: monitor.why_not(8, "a", "b"))
