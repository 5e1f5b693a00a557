"""`every`: random scripts against an oracle that goes through rows one by one."""

import random
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from tests.damping.played import EPOCH, facts_of, instant, table_of
from tests.effort import seeds

EVERYS = {1: 0, 2: 1, 3: 7, 4: 60}
"""By rule; 0 is every row."""
VALUES = [None, 5, 12, 15, 15, 18, 25]


class Windows:
    """`inside` of one object on the first row inside, and then on the first row of each window of the clock.

    With `stay`, who is inside 10 to 20 stays so up to 26.
    """

    def __init__(self, every: int, *, stays: bool, timeout: int | None) -> None:
        self.every, self.stays, self.timeout = every, stays, timeout
        self.last: int | None = None
        self.is_inside = False
        self.told: list[int] = []

    def row(self, time: int, x: float | None) -> None:
        if x is None:
            return
        self.tick(time)
        was, before = self.is_inside, self.last
        self.is_inside = 10 <= x <= (26 if self.stays and was else 20)
        self.last = time
        if self.is_inside and (not self.every or not was or before is None or self.window(before) != self.window(time)):
            self.told.append(time)

    def tick(self, time: int) -> None:
        if self.timeout is not None and self.last is not None and self.last + self.timeout <= time:
            self.last, self.is_inside = None, False

    def window(self, time: int) -> int:
        return (int(EPOCH.timestamp()) + time) // self.every


def monitor_of(*, stays: bool, timeout: int | None) -> fp.Monitor:
    rules = fp.Rules()
    for id, every in EVERYS.items():
        options: dict[str, Any] = {"every": f"{every} s"} if every else {}
        if stays:
            options["stay"] = "x BETWEEN 10 AND 26"
        rules.add(id, "x BETWEEN 10 AND 20", detect="inside", **options)
    length = None if timeout is None else instant(timeout) - instant(0)
    return fp.Monitor(rules, object="o", time="t", timeout=length, schema={"x": "double"})


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("seed", seeds(100))
def test_the_monitor_agrees_with_the_oracle(seed: int, stays: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311
    timeout = rng.choice([None, 9])
    monitor, found = monitor_of(stays=stays, timeout=timeout), []
    oracle = {
        (id, object): Windows(every, stays=stays, timeout=timeout) for id, every in EVERYS.items() for object in "ab"
    }
    clocks, marker = dict.fromkeys("ab", 0), 0
    for _ in range(rng.randrange(1, 12)):
        rows: list[tuple[str, int, float | None]] = []
        for _ in range(rng.randrange(1, 8)):
            object = rng.choice("ab")
            clocks[object] += rng.choice([1, 1, 2, 3, 7, 8, 9, 30])
            rows.append((object, clocks[object], rng.choice(VALUES)))
        for object, time, x in rows:
            for (_, other), windows in oracle.items():
                if other == object:
                    windows.row(time, x)
        while rows:  # in batches of any size, or one by one
            cut = rng.randrange(1, len(rows) + 1)
            if cut == 1:
                events = monitor.update_one(rows[0][0], instant(rows[0][1]), x=rows[0][2])
                found += facts_of([event.asdict() for event in events])
            else:
                found += facts_of(monitor.update(table_of(rows[:cut])))
            rows = rows[cut:]
        if monitor.counters["rows"] > monitor.counters["null"] and rng.random() < 0.4:
            marker = max(clocks.values())
            found += facts_of(monitor.advance(instant(marker)))
            for windows in oracle.values():
                windows.tick(marker)
            clocks = dict.fromkeys("ab", marker)
        if rng.random() < 0.3:
            monitor.save(tmp_path / "state", rules=True)
            monitor = fp.Monitor.load(tmp_path / "state")
    expected = [(id, object, "inside", time) for (id, object), windows in oracle.items() for time in windows.told]
    assert sorted(fact[:4] for fact in found) == sorted(expected)


def test_a_rule_that_only_says_how_often_tells_nothing_else() -> None:
    monitor = monitor_of(stays=False, timeout=None)
    rows = [("a", 0, 30.0), ("a", 1, 15.0), ("a", 2, 15.0), ("a", 3, 30.0), ("a", 4, 15.0)]
    found = [fact[2:4] for fact in facts_of(monitor.update(table_of(rows))) if fact[0] == 4]
    assert found == [("inside", 1), ("inside", 4)]
