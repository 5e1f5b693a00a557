"""Bands that are damped: what a step says, in whatever pieces it comes."""

import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost._memory import SETTING
from fencepost.errors import FencepostError
from fencepost.indexes import matches
from fencepost.pairing import damping
from fencepost.pairing.damping import BandRound

CLOSE = "left.x - right.x BETWEEN 0 AND 5"
DAMPINGS: list[dict[str, Any]] = [{}, {"for_": 2}, {"keep_firing_for": 3}, {"cooldown": 4}, {"for_": "3 rows"}]


def monitor_of(settings: dict[str, Any] | None = None, **options: Any) -> fp.Monitor:
    rules = fp.Rules()
    rules.add(1, CLOSE, **{"detect": "enter,exit", **options})
    return fp.Monitor(rules, object="o", **{"time": "t", **(settings or {})})


def rows(*given: tuple[str, int, float]) -> dict[str, list[Any]]:
    return {"o": [row[0] for row in given], "t": [row[1] for row in given], "x": [row[2] for row in given]}


def told(events: Any) -> list[tuple[Any, ...]]:
    names = ("object", "other", "detect", "time", "reason")
    facts = [tuple(event[name] for name in names) for event in events.to_pylist()]
    return sorted(facts, key=lambda fact: (fact[3], fact[:2]))


def play_pairs(seed: int) -> list[Any]:
    rng = random.Random(seed)  # noqa: S311
    rules, found = fp.Rules(), []
    for id in range(40):
        low, damped = rng.randrange(-9, 6), rng.choice(DAMPINGS)
        detect = rng.choice(["enter,exit", "enter,exit,inside"])
        rules.add(id, f"left.x - right.x BETWEEN {low} AND {low + rng.randrange(9)}", detect=detect, **damped)
    settings: dict[str, Any] = {"timeout": 7, "first": rng.choice(["enter", "silent"])}
    monitor = fp.Monitor(rules, object="o", time="t", report=rng.choice(["pairs", "rules"]), **settings)
    for at in range(6):
        sides = []
        for _ in range(2):
            count = rng.choice([1, 60])
            columns = {
                "o": pa.array([rng.randrange(25) for _ in range(count)]),
                "t": pa.array([at * 3 + rng.randrange(3) for _ in range(count)]),
                "x": pa.array([rng.choice([None, rng.randrange(12) / 1.0]) for _ in range(count)], pa.float64()),
            }
            sides.append(pa.table(columns))
        found += monitor.update(left=sides[0], right=sides[1]).to_pylist()
    return [*found, monitor.counters]


@pytest.mark.parametrize("seed", range(4))
def test_pieces_report_the_same_as_a_batch_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces = play_pairs(seed), []
    damp = BandRound.damp

    def counted(self: BandRound, found: Any, begin: int, end: int) -> Any:
        pieces.append(end - begin)
        return damp(self, found, begin, end)

    monkeypatch.setattr(BandRound, "damp", counted)
    monkeypatch.setattr(matches, "_SMALL", 0)
    monkeypatch.setattr(damping, "_MOST_ROWS", 100)
    monkeypatch.setattr("fencepost.emitting.emitter._BYTES", 0)
    monkeypatch.setenv(SETTING, "200 KB")
    assert play_pairs(seed) == whole
    assert len(pieces) > 12


def test_a_deleted_row_ends_its_pairs_without_waiting() -> None:
    monitor = monitor_of({"deleted": "gone"}, keep_firing_for=10)
    two = rows(("a", 0, 5.0), ("b", 0, 5.0))
    monitor.update(left={**two, "gone": [False, False]}, right={**rows(("p", 0, 3.0)), "gone": [False]})
    assert told(monitor.update(left={**rows(("b", 2, 50.0)), "gone": [False]})) == []
    events = monitor.update(right={**rows(("p", 4, 0.0)), "gone": [True]})
    assert told(events) == [("a", "p", "exit", 4, None), ("b", "p", "exit", 4, None)]
    assert events["x_before"].to_pylist() == [3.0, 3.0]
    assert events["x"].to_pylist() == [None, None]
    assert told(monitor.advance(100)) == []


def test_a_pair_is_held_as_long_as_neither_row_ends_it() -> None:
    monitor = monitor_of(for_=5)
    assert told(monitor.update(left=rows(("a", 0, 5.0)), right=rows(("p", 2, 3.0)))) == []
    assert told(monitor.update(left=rows(("a", 4, 6.0)))) == []
    events = monitor.update(right=rows(("p", 9, 30.0)))
    assert told(events) == [("a", "p", "enter", 7, "held"), ("a", "p", "exit", 9, None)]
    assert events["since"].to_pylist() == [2, None]
    assert events["x"].to_pylist() == [6.0, 30.0]


def test_rules_alone_name_the_left_row_of_what_no_row_did() -> None:
    for by_tick in (True, False):
        monitor = monitor_of({"report": "rules"}, for_=5)
        monitor.update(left=rows(("a", 0, 5.0), ("b", 0, 5.0)), right=rows(("p", 0, 3.0), ("q", 0, 3.0)))
        events = monitor.advance(8) if by_tick else monitor.update(right=rows(("p", 8, 4.0), ("q", 8, 4.0)))
        assert told(events) == [("a", None, "enter", 5, "held"), ("b", None, "enter", 5, "held")]


def test_insides_of_a_pair_come_once_in_a_while() -> None:
    monitor = monitor_of(detect="inside", every=5)
    left = rows(*(("a", time, 5.0) for time in (0, 1, 6, 7, 8)))
    right = rows(("p", 3, 3.0), ("p", 4, 3.0), ("p", 11, 3.0), ("p", 12, 50.0), ("p", 13, 3.0))
    assert [fact[2:4] for fact in told(monitor.update(left=left, right=right))] == [
        ("inside", 3),
        ("inside", 6),
        ("inside", 11),
        ("inside", 13),
    ]


def test_insides_of_one_stream_come_once_in_a_while_and_alone() -> None:
    rules = fp.Rules()
    rules.add(1, "x > 3", detect="inside", every=5)
    events = fp.Monitor(rules, object="o", time="t").update(rows(*(("a", time, 5.0) for time in (0, 1, 6))))
    assert [fact[2:4] for fact in told(events)] == [("inside", 0), ("inside", 6)]


def test_without_time_rows_are_counted() -> None:
    monitor = monitor_of({"time": None}, for_="3 rows", limit=1)
    found = []
    for _ in range(2):
        found += told(monitor.update(left={"o": ["a"], "x": [5.0]}))
        found += told(monitor.update(right={"o": ["p"], "x": [3.0]}))
    assert found == [("a", "p", "enter", 2, "held")]
    monitor.update(right={"o": ["p"], "x": [50.0]})
    assert told(monitor.update(right={"o": ["p"] * 9, "x": [3.0] * 9})) == []
    with pytest.raises(FencepostError, match=r"Rule 2, a band with .*cooldown.*, without time"):
        monitor.add(2, CLOSE, cooldown=5)


def test_lengths_that_times_cannot_do_with_are_refused_with_the_rows() -> None:
    monitor = monitor_of(for_=timedelta(minutes=5))
    with pytest.raises(FencepostError, match="Rule 1 has a length of 0:05:00, and t as bigint"):
        monitor.update(left=rows(("a", 0, 5.0)))
    assert monitor.counters["rows"] == 0


def test_what_is_remembered_of_rules_that_are_not_there_is_left_out() -> None:
    monitor, other = monitor_of(for_=5), monitor_of()
    monitor.update(left=rows(("a", 0, 5.0)), right=rows(("p", 0, 3.0)))
    other.update(left=rows(("b", 0, 50.0)))
    assert monitor._pairs.states[0].damped.count == 1
    other._pairs.restore([monitor._pairs.tables()])
    assert other._pairs.states[0].damped.count == 0
    assert told(other.update(left=rows(("a", 3, 50.0)))) == [("a", "p", "exit", 3, None)]


def test_engines_share_the_snapshot_of_their_rules() -> None:
    engine = monitor_of(for_=5)._pairs
    assert engine.copy()._snapshot is engine._snapshot is not None
