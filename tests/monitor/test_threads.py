"""A monitor that several threads share."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.examples import ONE, monitor_of, refusal

OBJECTS, ROUNDS, WRITERS = 50, 30, 3


def rules_of_intervals() -> Rules:
    rules = Rules()
    for id in range(40):
        rules.add(id, f"x >= {id} AND x < {id + 3}", detect="enter,exit")
    rules.add(100, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    return rules


def rows_of(writer: int, number: int) -> dict[str, Any]:
    """Rows of objects that no other thread moves."""
    rng = np.random.default_rng([writer, number])
    objects = writer * OBJECTS + np.arange(OBJECTS)
    return {"id": objects, "ts": np.full(OBJECTS, number), "x": rng.integers(0, 45, OBJECTS) * 1.0}


def quotes_of(writer: int, number: int) -> dict[str, Any]:
    rows = rows_of(writer, number)
    return {"id": rows["id"], "ts": rows["ts"], "price": rows["x"]}


def run_together(calls: list[Callable[[], None]]) -> None:
    failed: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def test_threads_that_change_and_ask_one_monitor_get_what_each_would_alone() -> None:
    monitor = Monitor(rules_of_intervals(), object="id", time="ts")
    monitor.update(rows_of(0, 0))  # types are decided
    found: dict[int, list[str]] = {writer: [] for writer in range(WRITERS)}
    done = threading.Event()

    def write(writer: int) -> None:
        for number in range(1, ROUNDS):
            rows = rows_of(writer, number)
            events = monitor.update(rows).filter(pc.field("rule_id") < 1000)
            monitor.update(left=quotes_of(writer, number))
            single = monitor.update_one(rows["id"][0].item(), number, x=7.5)
            found[writer] += events["event_id"].to_pylist() + [event[0] for event in single if event[1] < 1000]

    def change() -> None:
        for number in range(ROUNDS):
            monitor.add(1000 + number, f"x < {number}", detect="inside")
            monitor.replace(1000 + number, f"x < {number + 1}", detect="enter")
            monitor.remove(1000 + number)

    def ask() -> None:
        while not done.is_set():
            assert len(monitor.inside(5)) <= WRITERS * OBJECTS
            assert set(monitor.rules_at(x=5.5)) >= {3, 4, 5}
            assert monitor.inside(100) == []
            assert sum(monitor.counters["events"].values()) >= 0

    def work() -> None:
        try:
            run_together([*(lambda writer=writer: write(writer) for writer in range(WRITERS)), change])
        finally:
            done.set()

    run_together([work, ask, ask])

    alone = Monitor(rules_of_intervals(), object="id", time="ts")
    alone.update(rows_of(0, 0))
    for writer in range(WRITERS):
        expected: list[str] = []
        for number in range(1, ROUNDS):
            rows = rows_of(writer, number)
            expected += alone.update(rows)["event_id"].to_pylist()
            alone.update(left=quotes_of(writer, number))
            expected += [event[0] for event in alone.update_one(rows["id"][0].item(), number, x=7.5)]
        assert found[writer] == expected
    for name in ("rows", "late", "null"):
        assert monitor.counters[name] == alone.counters[name]
    assert all(sorted(monitor.inside(id)) == sorted(alone.inside(id)) for id in range(40))


def test_one_of_many_threads_adds_a_rule() -> None:
    monitor, refused = monitor_of("x >= 1"), list[str]()

    def add() -> None:
        for id in range(2, 30):
            try:
                monitor.add(id, "x >= 2")
            except Exception as error:
                refused.append(str(error))

    run_together([add] * 4)
    assert len(refused) == 3 * 28
    assert monitor.rules_at(x=3) == list(range(1, 30))


def test_a_question_beside_an_update_waits_for_it() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def late(_: Any) -> None:
        inside.set()
        assert go_on.wait(10)

    monitor, answers = monitor_of("x >= 1", late=late), list[Any]()
    monitor.update(ONE)
    writer = threading.Thread(target=lambda: monitor.update({"vehicle": [7, 8], "ts": [0, 0], "x": [1.0, 1.0]}))
    reader = threading.Thread(target=lambda: answers.append((monitor.inside(1), monitor.counters["rows"])))
    writer.start()
    assert inside.wait(10)
    reader.start()
    reader.join(0.05)
    assert not answers
    go_on.set()
    writer.join()
    reader.join()
    assert answers == [([7, 8], 3)]


def test_the_callback_for_late_rows_may_ask_but_not_change() -> None:
    asked: list[Any] = []
    changes: list[Callable[[], Any]] = [
        lambda: monitor.update(ONE),
        lambda: monitor.update_one(7, 2, x=1.0),
        lambda: monitor.add(2, "x >= 1"),
        lambda: monitor.advance(5),
    ]

    def late(rows: pa.Table) -> None:
        asked.append((rows.num_rows, monitor.inside(1), monitor.rules_at(x=1.0), monitor.counters["rows"]))
        for change in changes:
            assert "inside its late= callback" in refusal(change)

    monitor = monitor_of("x >= 1", late=late)
    monitor.update(ONE)
    monitor.update({"vehicle": [7, 8], "ts": [0, 2], "x": [1.0, 1.0]})
    assert asked == [(1, [7], [1], 1)]
    assert monitor.inside(1) == [7, 8]
    assert monitor.counters["rows"] == 3
