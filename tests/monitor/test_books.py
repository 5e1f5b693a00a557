"""A monitor over the rules of a book, and the rules that a monitor shows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.book import RuleBook
from fencepost.monitor import Monitor
from fencepost.rules import Rule, Rules
from fencepost.rules.rule import checked_id
from tests.effort import examples
from tests.monitor.examples import monitor_of, refusal

ROWS = {"vehicle": [7, 8], "ts": [1, 1], "x": [1.5, 5.0], "k": ["u", "v"]}


@pytest.fixture
def book(tmp_path: Path) -> Iterator[RuleBook]:
    with RuleBook(f"sqlite:///{tmp_path}/rules.db", author="ann") as book:
        yield book


def monitor_over(rules: Any) -> Monitor:
    return Monitor(rules, object="vehicle", time="ts", schema={"x": "double", "k": "string"})


def test_a_monitor_follows_its_book(book: RuleBook) -> None:
    book.add(1, "x >= 1", detect="enter,exit", labels={"desk": "4"})
    book.add(2, "k = 'u'", detect="enter,exit")
    monitor = monitor_over(book)
    assert list(monitor.rules) == list(book)
    assert monitor.update(ROWS)["rule_id"].to_pylist() == [1, 2, 1]
    assert monitor.refresh().num_rows == 0

    book.replace(1, "x >= 2", detect="enter,exit")
    book.replace(1, "x >= 3", detect="enter,exit", name="third")
    book.pause(2)
    book.add(3, "x > 0", detect="enter,exit", initial=True)
    told = monitor.refresh().select(["rule_id", "rule_version", "object", "detect", "reason"]).to_pylist()
    assert sorted(tuple(row.values()) for row in told) == [
        (1, 1, 7, "exit", "edited"),
        (2, 1, 7, "exit", "paused"),
        (3, 1, 7, "enter", "initial"),
        (3, 1, 8, "enter", "initial"),
    ]
    assert list(monitor.rules) == [rule for rule in book if rule.enabled]
    assert monitor.rules[1].version == 3

    book.resume(2)
    book.remove(3)
    monitor.refresh()
    book.add(3, "x > 100", detect="enter")
    assert monitor.refresh().num_rows == 0
    assert list(monitor.rules) == list(book)
    assert monitor.rules[3].version == book[3].version == 2


def test_events_are_those_of_a_monitor_that_begins_with_the_book_as_it_is(book: RuleBook) -> None:
    book.add(1, "x >= 1", detect="enter,exit")
    follower = monitor_over(book)
    for _ in range(3):
        book.replace(1, "x >= 3", detect="enter,exit")
    follower.refresh()
    assert follower.update(ROWS).to_pylist() == monitor_over(book).update(ROWS).to_pylist()


def test_a_refresh_that_fails_is_made_again(book: RuleBook) -> None:
    book.add(1, "x >= 1", detect="enter,exit")
    monitor = monitor_over(book)
    monitor.update(ROWS)
    book.add(2, "z > 1")
    book.remove(1)
    assert "z" in refusal(monitor.refresh)
    assert [rule.id for rule in monitor.rules] == [1]
    book.remove(2)
    assert monitor.refresh()["reason"].to_pylist() == ["removed", "removed"]


def test_changes_of_the_monitor_itself_never_share_a_version_with_those_of_the_book(book: RuleBook) -> None:
    book.add(1, "x >= 1", detect="enter,exit")
    monitor = monitor_over(book)
    monitor.replace(1, "x >= 4", detect="enter")
    monitor.replace(1, "x >= 5", detect="enter")
    book.replace(1, "x >= 6", detect="enter")
    monitor.refresh()
    assert monitor.rules[1] == Rule(1, "x >= 6", "enter", version=4)


def test_without_a_book_there_is_nothing_to_refresh() -> None:
    assert "a monitor without a rule book" in refusal(monitor_of("x >= 1").refresh).lower()


def test_rules_of_a_monitor_are_those_it_was_given_and_what_changed_since() -> None:
    given_rules = Rules()
    given_rules.add(
        1, "x >= 1", detect="enter,exit", labels={"a": "b"}, expires=datetime(2030, 1, 1, tzinfo=UTC), name="one"
    )
    given_rules.add(2, "k = 'u'", initial=True)
    given_rules.add(3, "x < 0", enabled=False)
    given_rules.add(4, "left.x - right.x BETWEEN -1 AND 1", detect="enter")
    monitor = monitor_over(given_rules)
    view = monitor.rules
    assert list(view) == [given_rules[1], given_rules[2], given_rules[4]]
    assert len(view) == 3
    assert 1 in view
    assert 3 not in view
    assert "one" in view
    assert "two" not in view
    assert view["one"] == given_rules["one"] == given_rules[1]
    assert repr(view) == "RulesView(3 rules in force)"
    assert "not in force" in refusal(lambda: view[3])
    assert "x &gt;= 1" in view._repr_html_()
    monitor.add(5, "x > 9", detect="cross", labels={"c": "d"}, name="five")
    monitor.replace(2, "k = 'v'")
    monitor.remove(1)
    change = Rules()
    change.add(6, "x > 10", labels={"e": "f"})
    monitor.change(change)
    assert [rule.id for rule in view] == [1, 2, 4], "a view is of the moment it was asked for"
    assert {rule.id: rule for rule in monitor.rules} == {
        2: Rule(2, "k = 'v'", version=2),
        4: given_rules[4],
        5: Rule(5, "x > 9", "cross", labels={"c": "d"}, name="five"),
        6: Rule(6, "x > 10", labels={"e": "f"}),
    }


BOUNDS = st.one_of(st.none(), st.integers(-3, 3), st.floats(-3, 3))


@examples(100)
@given(
    st.lists(st.tuples(BOUNDS, BOUNDS, st.sampled_from([None, "u", "it's"])), min_size=1, max_size=5),
    st.sampled_from(["[)", "[]", "()", "(]"]),
    st.sampled_from(["double", "bigint", "decimal(9,2)"]),
)
def test_conditions_of_rules_from_tables_say_the_same(rows: list[tuple[Any, ...]], bounds: str, type_: str) -> None:
    rows = [(low, high, k) for low, high, k in rows if low is None or high is None or low < high - 1]
    table = {
        "rule_id": list(range(len(rows))),
        "k": [k for *_, k in rows],
        "low": [None if low is None else float(low) for low, *_ in rows],
        "high": [None if high is None else float(high) for _, high, _ in rows],
    }
    given_rules = Rules.from_table(
        table, equal={"k": "k", '"The K"': "k"}, ranges={"x": ("low", "high")}, bounds=bounds
    )
    schema = {"x": type_, "k": "string", "The K": "string"}
    monitor = Monitor(given_rules, object="vehicle", schema=schema)
    again = Rules()
    for rule in monitor.rules:
        again.add(checked_id(rule.id), str(rule.condition))
    points = [value for row in rows for value in row[:2] if value is not None]
    points = sorted({float(round(value + shift)) for value in points for shift in (-1, 0, 1)} | {0.0})
    if type_ == "double":
        points += [float(value) for row in rows for value in row[:2] if value is not None]
    data = {
        "x": [*points, *points],
        "k": ["u"] * len(points) + ["it's"] * len(points),
        "The K": ["u"] * len(points) + ["it's"] * len(points),
    }
    expected = given_rules.compile(schema).match(data).sets()
    assert again.compile(schema).match(data).sets() == expected
    as_text = Rules.from_dicts({"id": rule.id, "condition": rule.condition} for rule in given_rules)
    assert as_text.compile(schema).match(data).sets() == expected
