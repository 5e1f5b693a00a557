"""The vectors of the documentation, by the oracle and by the Monitor."""

from typing import Any

import pytest

from tests.damping.oracle import play
from tests.damping.played import condition_of, facts_of, instant, monitor_of, options_of, table_of
from tests.damping.vectors import VECTORS, Vector, items_of, read_events, table_row
from tests.docs.blocks import ROOT


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_the_oracle(vector: Vector) -> None:
    assert play(vector.policy, items_of(vector)).out == read_events(vector.events)


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_the_monitor(vector: Vector, one_by_one: bool) -> None:
    monitor, policy, found = monitor_of({1: vector.policy}), vector.policy, list[Any]()
    waiting: list[tuple[Any, ...]] = []

    def flush() -> None:
        if waiting:
            found.append(monitor.update(table_of(waiting)))
            waiting.clear()

    for kind, *rest in items_of(vector):
        if kind == "row":
            waiting.append(("a", *rest))
        if kind != "row" or one_by_one or vector.name == "V14":  # which rows are late depends on the batch
            flush()
        if kind == "tick":
            found.append(monitor.advance(instant(rest[0])))
        elif kind == "remove":
            found.append(monitor.remove(1))
        elif kind == "edit":
            policy = type(policy)(**{**policy.__dict__, **rest[0]})
            found.append(monitor.replace(1, condition_of(policy), **options_of(policy)))
    flush()
    facts = [fact[2:5] for events in found for fact in facts_of(events)]
    assert facts == read_events(vector.events)
    assert monitor.counters["late"] == (vector.name == "V14")


def test_the_page_has_these_vectors_and_no_others() -> None:
    page = (ROOT / "docs" / "damping.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("| V")] == list(map(table_row, VECTORS))
