"""`detect="silent"`: random scripts against an oracle that goes through rows one by one."""

import random
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from tests.damping.played import facts_of, instant, seconds, table_of
from tests.effort import seeds
from tests.monitor.examples import refusal

TIMEOUT = 6
RULES: dict[int, tuple[float, float, dict[str, Any]]] = {
    1: (10, 20, {}),
    2: (10, 20, {"expires": instant(15)}),
    3: (15, 30, {"for_": "3 seconds"}),
    4: (5, 12, {"margin": {"x": 4}, "cooldown": "4 seconds"}),
}


class Silence:
    """An object that goes silent is told once, at its last time and the timeout, for every condition that held."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[int, float]] = {}
        self.told: list[tuple[int, str, int]] = []

    def row(self, object: str, time: int, x: float | None) -> None:
        if x is not None:  # else it observes nothing
            self.tick(time, object)
            self.last[object] = time, x

    def tick(self, time: int, *objects: str) -> None:
        for object in objects or tuple(self.last):
            if object in self.last and self.last[object][0] + TIMEOUT <= time:
                at, x = self.last.pop(object)
                for id, (low, high, options) in RULES.items():
                    expires = seconds(options["expires"]) if "expires" in options else 10**9
                    if low <= x <= high and at + TIMEOUT < expires:
                        self.told.append((id, object, at + TIMEOUT))


def monitor_of(detect: str = "silent") -> fp.Monitor:
    rules = fp.Rules()
    for id, (low, high, options) in RULES.items():
        rules.add(id, f"x BETWEEN {low} AND {high}", detect=detect, **options)
    return fp.Monitor(rules, object="o", time="t", timeout=instant(TIMEOUT) - instant(0))


def draw_rows(rng: random.Random, clocks: dict[str, int], count: int) -> list[tuple[str, int, float | None]]:
    rows: list[tuple[str, int, float | None]] = []
    for _ in range(count):
        object = rng.choice(["a", "b", "c"])
        clocks[object] += rng.choice([1, 1, 2, 5, 6, 7, 15])
        rows.append((object, clocks[object], rng.choice([None, 4, 8, 11, 13, 16, 25, 40])))
    return rows


@pytest.mark.parametrize("seed", seeds(100))
@pytest.mark.parametrize("detect", ["silent", "enter,exit,silent"])
def test_the_monitor_agrees_with_the_oracle(seed: int, detect: str, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311
    monitor, oracle = monitor_of(detect), Silence()
    found: list[tuple[Any, ...]] = []
    clocks, marker = dict.fromkeys("abc", 0), 0
    for _ in range(rng.randrange(1, 12)):
        rows = draw_rows(rng, clocks, rng.randrange(1, 8))
        for row in rows:
            oracle.row(*row)
        while rows:  # in batches of any size
            cut = rng.randrange(1, len(rows) + 1)
            found += facts_of(monitor.update(table_of(rows[:cut])))
            rows = rows[cut:]
        if monitor.counters["rows"] > monitor.counters["null"] and rng.random() < 0.5:
            marker = max(marker, max(clocks.values()) - rng.choice([0, 3, 9]), 1)
            found += facts_of(monitor.advance(instant(marker)))
            oracle.tick(marker)
            clocks = {object: max(clock, marker) for object, clock in clocks.items()}
        if rng.random() < 0.3:
            monitor.save(tmp_path / "state", rules=True)
            monitor = fp.Monitor.load(tmp_path / "state")
    silent = [fact for fact in found if fact[2] == "silent"]
    assert sorted((rule, object, time) for rule, object, _, time, *_ in silent) == sorted(oracle.told)
    assert {reason for _, _, _, _, reason, _ in silent} <= {"timeout"}


def test_silence_is_told_beside_the_exit_that_it_causes() -> None:
    monitor = monitor_of("enter,exit,silent")
    monitor.update(table_of([("a", 0, 16.0)]))
    told = [fact[:5] for fact in facts_of(monitor.advance(instant(20)))]
    assert sorted(told) == [
        (1, "a", "exit", 6, "timeout"),
        (1, "a", "silent", 6, "timeout"),
        (2, "a", "exit", 6, "timeout"),
        (2, "a", "silent", 6, "timeout"),
        (3, "a", "enter", 3, "held"),
        (3, "a", "exit", 6, "timeout"),
        (3, "a", "silent", 6, "timeout"),
    ]
    assert monitor.advance(instant(40)).num_rows == 0


def test_nothing_is_silent_without_a_timeout() -> None:
    rules = fp.Rules()
    rules.add(1, "x > 3", detect="silent")
    assert "Rule 1 detects silent, but there is no timeout" in refusal(lambda: fp.Monitor(rules, object="o", time="t"))
