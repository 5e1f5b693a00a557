"""Why not: where an object stands with a rule, and what the rule waits for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import fencepost as fp
from fencepost.monitor import Monitor, Reason, Standing
from tests.monitor.examples import refusal

START = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def watched(rows: list[tuple[float, float | None]], timeout: timedelta | None = None, **options: Any) -> Monitor:
    """A monitor with rule 7 that has seen IBM at these minutes and prices."""
    rules = fp.Rules()
    rules.add(7, "symbol = 'IBM' AND price < 40", name="floor", **{"detect": "enter,exit", **options})
    monitor = Monitor(rules, object="id", time="ts", timeout=timeout)
    for minute, price in rows:
        monitor.update([{"id": "IBM", "symbol": "IBM", "ts": at(minute), "price": price}])
    return monitor


def test_what_for_waits_for() -> None:
    found = watched([(0, 41.0), (1, 39.5), (2, 39.0)], for_="5 minutes").why_not(7, "IBM")
    assert isinstance(found, Standing)
    assert (found.raw, found.reported, found.waits_for) == (True, False, "for")
    assert (found.since, found.due, found.quiet, found.clock) == (at(1), at(6), None, at(2))
    assert str(found).splitlines() == [
        "IBM has been inside rule 7 since 09:31; `for` 5 minutes is not over before 09:36.",
        f"  inside, reported as outside at {at(2)}",
        "  price: 39.0",
        "  symbol: IBM",
        "  symbol = 'IBM' and price < 40.0: holds",
    ]


@pytest.mark.parametrize(
    ("rows", "options", "waits_for", "text"),
    [
        ([(0, 41)], {}, "condition", "IBM is outside rule 7: price is 41.0, not below 40.0."),
        ([(0, 39)], {}, None, "IBM is inside rule 7, and counts as such."),
        ([(0, 39)], {"detect": "exit"}, "detect", "IBM is inside rule 7, which detects only exit."),
        (
            [(1, 39)],
            {"for_": "3 rows"},
            "for",
            "IBM has been inside rule 7 since 09:31; `for` 3 rows needs 2 more rows.",
        ),
        (
            [(0, 39), (1, 41)],
            {"keep_firing_for": "90 seconds"},
            "keep_firing_for",
            "IBM has been outside rule 7 since 09:31, and still counts as inside; "
            "`keep_firing_for` 90 seconds is not over before 09:32:30.",
        ),
        (
            [(0, 39), (1, 41)],
            {"keep_firing_for": "2 rows"},
            "keep_firing_for",
            "IBM has been outside rule 7 since 09:31, and still counts as inside; "
            "`keep_firing_for` 2 rows needs 1 more row.",
        ),
        (
            [(0, 39), (1, 41), (2, 39)],
            {"cooldown": "10 minutes"},
            "cooldown",
            "IBM has been inside rule 7 since 09:32; `cooldown` 10 minutes is not over before 09:41.",
        ),
        (
            [(0, 39), (1, 41)],
            {"cooldown": "1 day"},
            "condition",
            "IBM is outside rule 7: price is 41.0, not below 40.0. "
            "`cooldown` 1 day lets no enter be reported before 2026-01-06 09:31.",
        ),
        (
            [(0, 39), (1, 41), (2, 39)],
            {"limit": 1},
            "limit",
            "IBM has been inside rule 7 since 09:32; `limit` 1 is reached: no further enter is reported.",
        ),
        (
            [(0, 39), (1, 41)],
            {"margin": {"price": 2}},
            None,
            "IBM is inside rule 7 by `stay` alone, and counts as such.",
        ),
        ([(0, 39)], {"expires": at(0)}, "expires", "Rule 7 expired at 09:30."),
    ],
)
def test_every_option_says_what_is_missing(
    rows: list[tuple[float, float]], options: dict[str, Any], waits_for: str | None, text: str
) -> None:
    found = watched([(minute, float(price)) for minute, price in rows], **options).why_not("floor", "IBM")
    assert (found.text, found.waits_for) == (text, waits_for)
    assert (found.since is None) == (found.raw == found.reported)
    assert (found.due is None) == (waits_for not in ("for", "cooldown", "keep_firing_for") or "row" in text)


def test_an_object_that_is_not_known_and_one_that_timed_out() -> None:
    monitor = watched([(0, 39.0)], timedelta(minutes=5), limit=1)
    assert monitor.why_not(7, "SAP").text == (
        "SAP is not known: no row of it has come, or it was silent for longer than `timeout` 0:05:00."
    )
    assert monitor.why_not(7, "IBM").is_known
    monitor.advance(at(10))
    found = monitor.why_not(7, "IBM")
    assert (found.is_known, found.raw, found.reported, found.waits_for) == (False, False, False, "object")
    assert found.boxes == ()


def test_values_that_are_not_known_rules_of_several_parts_and_rules_that_are_new() -> None:
    monitor = watched([(0, None)])
    assert monitor.why_not(7, "IBM").text == "IBM is outside rule 7: price is not known."
    monitor.add(8, "price < 10 OR symbol = 'SAP' AND price > 50", detect="enter")
    found = monitor.why_not(8, "IBM")
    assert found.text == "IBM is outside rule 8: none of its 2 parts holds."
    assert "symbol is 'IBM', not 'SAP', price is not known" in str(found)


def test_a_monitor_without_time_counts_rows() -> None:
    rules = fp.Rules()
    rules.add(7, "price < 40", detect="enter", for_="2 rows")
    monitor = Monitor(rules, object="id")
    monitor.update({"id": [1], "price": [39.0]})
    found = monitor.why_not(7, 1)
    assert found.text.endswith("`for` 2 rows needs 1 more row.")
    assert found.since is None
    assert found.clock is None


def test_what_cannot_be_asked_is_refused() -> None:
    monitor = watched([(0, 39.0)])
    monitor.add(9, "left.price - right.price > 3")
    assert "rule 8 is not in force" in refusal(lambda: monitor.why_not(8, "IBM")).lower()
    assert "two streams" in refusal(lambda: monitor.why_not(9, "IBM"))
    assert "'roof'" in refusal(lambda: monitor.why_not("roof", "IBM"))


def test_why_says_how_an_event_waited() -> None:
    monitor = watched([(0, 39.0)], for_="5 minutes", keep_firing_for="2 rows")
    [event] = monitor.advance(at(6)).to_pylist()
    reason = monitor.why(event)
    assert isinstance(reason, Reason)
    assert str(reason).splitlines()[:2] == [
        f"IBM: enter of rule 7 (floor, version 1, held) at {at(5)}",
        f"  since {at(0)}, due {at(5)}: `for` 5 minutes",
    ]
    monitor.update_one("IBM", at(7), price=41.0)
    [event] = monitor.update_one("IBM", at(8), price=41.0)
    assert str(monitor.why(event)).splitlines()[1] == f"  since {at(7)}, due {at(8)}: `keep_firing_for` 2 rows"


def test_why_says_that_an_edit_made_an_event_overdue() -> None:
    monitor = watched([(0, 39.0), (3, 39.0)], for_="5 minutes")
    [event] = monitor.replace(7, "symbol = 'IBM' AND price < 40", detect="enter", for_="2 minutes").to_pylist()
    assert str(monitor.why(event)).splitlines()[1] == (
        f"  since {at(0)}, due {at(2)}, reported {at(3)}: `for` 2 minutes"
    )


def test_why_shows_the_borders_of_stay_that_an_exit_crossed() -> None:
    monitor = watched([(0, 39.0), (1, 41.0)], margin={"price": 2})
    [event] = monitor.update([{"id": "IBM", "ts": at(2), "price": 43.0}]).to_pylist()
    reason = monitor.why(event)
    assert isinstance(reason, Reason)
    assert str(reason).splitlines()[1:] == [
        "  price: 41.0 -> 43.0",
        "  symbol: IBM -> IBM",
        "  symbol = 'IBM' and price < 40.0: neither",
        "  stay: symbol = 'IBM' and price < 42.0: before, not after, because of price < 42.0",
    ]
    [box] = reason.stay
    assert (box.held_before, box.holds_after, box.decisive) == (True, False, ("price",))


@pytest.mark.parametrize("stay", ["x < 12 OR y > 5 AND venue = 'X'", "x < 12 OR x + y > 60 AND LENGTH(venue) = 1"])
def test_why_shows_stay_over_columns_of_its_own(stay: str) -> None:
    rules = fp.Rules()
    rules.add(1, "x < 10", detect="exit", stay=stay)
    monitor = Monitor(rules, object="id", time="t", schema={"x": "double", "y": "double", "venue": "string"})
    rows = {"id": ["a"] * 3, "t": [1, 2, 3], "x": [9.0, 50.0, 50.0], "y": [0.0, 20.0, 1.0], "venue": ["X"] * 3}
    [event] = monitor.update(rows).to_pylist()
    found = monitor.why(event)
    assert isinstance(found, Reason)
    assert sorted((box.held_before, box.holds_after) for box in found.stay) == [(False, False), (True, False)]
