"""Random scripts of many objects and rules, with edits, ticks and restarts: the Monitor against the oracle."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from tests.damping.oracle import INF, Pair, Policy
from tests.damping.played import condition_of, facts_of, instant, monitor_of, options_of, table_of
from tests.effort import seeds

VALUES = [None, 5, 9, 10, 15, 15, 20, 21, 25]


def draw_policy(rng: random.Random, timeout: float, first: str) -> Policy:
    """A rule, damped in any way."""
    crosses = rng.random() < 0.3
    rows = 1 if crosses else rng.choice([1, 1, 1, 2, 3])
    return Policy(
        lo=rng.choice([10, 10, 14]),
        hi=rng.choice([20, 20, 16]),
        stay=rng.choice([None, None, (8, 22)]),
        for_=0 if crosses or rows > 1 else rng.choice([0, 0, 1, 3]),
        for_rows=rows,
        keep=rng.choice([0, 0, 2, 4]),
        cooldown=rng.choice([0, 0, 5]),
        limit=rng.choice([INF, INF, INF, 1, 2]),
        expires=rng.choice([INF, INF, 15]),
        timeout=timeout,
        first=first,
        crosses=crosses,
        initial=rng.random() < 0.3,
    )


class Script:
    """Rows, ticks and changes of rules, drawn and played to the Monitor and to a pair of the oracle each."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311
        self.folder = folder
        timeout, first = rng.choice([INF, INF, 6]), rng.choice(["enter", "enter", "silent"])
        self.settings = timeout, first
        self.policies = {id: draw_policy(rng, timeout, first) for id in range(rng.randrange(1, 5))}
        self.detect = rng.choice(["enter,exit", "enter,exit,inside", "enter", "exit", "inside"])
        self.monitor = monitor_of(self.policies, self.detect)
        self.objects = ["a", "b", "c"][: rng.randrange(1, 4)]
        self.pairs = {(id, object): Pair(policy) for id, policy in self.policies.items() for object in self.objects}
        self.gone: list[tuple[int, str, Pair]] = []
        self.found: list[tuple[Any, ...]] = []
        self.clocks = dict.fromkeys(self.objects, 0)
        self.marker = 0
        self.cut = rng.random()

    def run(self) -> None:
        rows: list[tuple[str, int, float | None]] = [(object, 0, 5) for object in self.objects]
        self.update(rows)  # times have a type from now on
        for _ in range(self.rng.randrange(4, 30)):
            if self.rng.random() < 0.75:
                rows.append(self.draw_row({row[0] for row in rows}))
                if self.rng.random() < self.cut:
                    self.update(rows)
            else:
                self.update(rows)
                self.rng.choice([self.tick, self.tick, self.edit, self.remove, self.save])()
                self.check_counters()
        self.update(rows)
        self.check_counters()
        self.marker = 10**6
        self.take(self.monitor.advance(instant(self.marker)))
        self.all(("tick", self.marker))

    def draw_row(self, here: set[str]) -> tuple[str, int, float | None]:
        object = self.rng.choice(self.objects)
        # Rows of one time are taken by their values within a batch, and as they come otherwise.
        steps = [1, 1, 2, 7] if object in here else [0, 1, 1, 2, 7]
        self.clocks[object] = max(self.clocks[object], self.marker) + self.rng.choice(steps)
        return object, self.clocks[object], self.rng.choice(VALUES)

    def update(self, rows: list[tuple[str, int, float | None]]) -> None:
        if not rows:
            return
        if len(rows) == 1 and self.rng.random() < 0.5:
            [(object, time, x)] = rows
            events = self.monitor.update_one(object, instant(time), x=x)
            if events:
                assert self.monitor.update([]).schema.names == list(events[0].columns)
                self.take([event.asdict() for event in events])
        else:
            self.take(self.monitor.update(table_of(rows)))
        for object, time, x in rows:
            for (_, other), pair in self.pairs.items():
                if other == object:
                    pair.take(("row", time, x))
        rows.clear()

    def check_counters(self) -> None:
        waiting = [pair for pair in self.pairs.values() if pair.raw != pair.reported]
        ending = sum(pair.reported for pair in waiting)
        found = self.monitor.counters
        assert (found["pending"], found["ending"]) == (len(waiting) - ending, ending)

    def tick(self) -> None:
        self.marker = max(self.marker, max(self.clocks.values()) + self.rng.choice([0, 1, 2, 5]))
        self.take(self.monitor.advance(instant(self.marker)))
        self.all(("tick", self.marker))

    def edit(self) -> None:
        if not self.policies:
            return
        id = self.rng.choice(list(self.policies))
        new = draw_policy(self.rng, *self.settings)
        new.expires = self.policies[id].expires  # an expired rule stays so
        if new.expires <= self.marker or any(clock >= new.expires for clock in self.clocks.values()):
            return
        self.policies[id] = new
        self.take(self.monitor.replace(id, condition_of(new), **options_of(new, self.detect)))
        for object in self.objects:
            self.pairs[id, object].take(("edit", new.__dict__))

    def remove(self) -> None:
        if len(self.policies) < 2:
            return
        id = self.rng.choice(list(self.policies))
        del self.policies[id]
        self.take(self.monitor.remove(id))
        for object in self.objects:
            pair = self.pairs.pop((id, object))
            pair.take(("remove", "removed"))
            self.gone.append((id, object, pair))

    def save(self) -> None:
        file = self.folder / "state"
        self.monitor.save(file, rules=True)
        self.monitor = fp.Monitor.load(file)

    def all(self, item: tuple[Any, ...]) -> None:
        for pair in self.pairs.values():
            pair.take(item)

    def take(self, events: Any) -> None:
        self.found += facts_of(events)

    def expected(self) -> list[tuple[Any, ...]]:
        facts = []
        for id, object, pair in [*((*key, pair) for key, pair in self.pairs.items()), *self.gone]:
            kinds = {*self.detect.split(","), *(["cross"] if pair.p.crosses else [])}
            for (detect, time, reason), since in zip(pair.out, pair.since_of, strict=True):
                if detect in kinds or detect == "cross":
                    facts.append((id, object, detect, int(time), reason, int(since)))
            if "inside" in kinds:
                facts += [(id, object, "inside", int(time), None, int(time)) for time in pair.inside]
        return facts


def by_pair(facts: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Enters and exits of each pair in their order; the others sorted."""
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for rule, object, detect, *rest in facts:
        found[rule, object, detect == "inside"].append((detect, *rest))
    return {key: sorted(events) if key[2] else events for key, events in found.items()}


@pytest.mark.parametrize("seed", seeds(400))
def test_the_monitor_agrees_with_the_oracle(seed: int, tmp_path: Path) -> None:
    script = Script(seed, tmp_path)
    script.run()
    assert by_pair(script.found) == by_pair(script.expected())
    if script.settings[0] == INF and not script.gone and all(each.expires == INF for each in script.policies.values()):
        assert script.monitor.counters["damped"] == sum(pair.dropped for pair in script.pairs.values())
