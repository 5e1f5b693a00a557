"""Random scripts of rows of two streams: bands of the Monitor against the oracle of pairs."""

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.pairing import damping
from fencepost.watching import state
from tests.damping.band_oracle import BandPair
from tests.damping.oracle import INF, Policy
from tests.damping.played import facts_of, instant, options_of
from tests.damping.test_scripts import draw_policy
from tests.effort import seeds

LEFTS, RIGHTS = ["a", "b"], ["p", "q", "r"]
VALUES = [None, 0, 5, 10, 15, 15, 20, 30]

Row = tuple[str, str, int, float | None, bool]
"""Side, object, time, value, and whether it is deleted."""


def condition_of(policy: Policy) -> str:
    return f"left.x - right.x BETWEEN {policy.lo} AND {policy.hi}"


def table_of(rows: list[Row], side: str) -> pa.Table | None:
    own = [row for row in rows if row[0] == side]
    return pa.table(
        {
            "o": pa.array([row[1] for row in own], pa.string()),
            "t": pa.array([instant(row[2]) for row in own], pa.timestamp("us", "UTC")),
            "x": pa.array([row[3] for row in own], pa.float64()),
            "gone": pa.array([row[4] for row in own], pa.bool_()),
        }
    )


class BandScript:
    """Rows of both sides, ticks and changes of rules, played to the Monitor and to a pair of the oracle each."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311
        self.folder = folder
        self.settings = rng.choice([INF, INF, 6]), rng.choice(["enter", "enter", "silent"])
        self.policies = {id: self.draw_policy() for id in range(rng.randrange(1, 5))}
        self.detect = rng.choice(["enter,exit", "enter,exit,inside", "enter", "exit", "inside"])
        rules = fp.Rules()
        for id, policy in self.policies.items():
            rules.add(id, condition_of(policy), **options_of(policy, self.detect))
        timeout, first = self.settings
        self.monitor = fp.Monitor(
            rules,
            object="o",
            time="t",
            timeout=None if timeout == INF else instant(timeout) - instant(0),
            first=first,  # type: ignore[arg-type]
            deleted="gone",
            schema={"x": "double"},
        )
        self.objects = [("left", name) for name in LEFTS] + [("right", name) for name in RIGHTS[: rng.randrange(1, 4)]]
        rights = [name for side, name in self.objects if side == "right"]
        self.pairs = {
            (id, left, right): BandPair(policy)
            for id, policy in self.policies.items()
            for left in LEFTS
            for right in rights
        }
        self.gone: list[tuple[int, str, str, BandPair]] = []
        self.found: list[Any] = []
        self.clocks = dict.fromkeys(self.objects, 0)
        self.marker = 0
        self.cut, self.apart = rng.random(), rng.random() < 0.3

    def draw_policy(self) -> Policy:
        """A rule that is damped: without damping, a row that comes late for its partner keeps its own time."""
        drawn = replace(draw_policy(self.rng, *self.settings), stay=None)
        is_damped = drawn.for_ or drawn.for_rows > 1 or drawn.keep or drawn.cooldown or drawn.limit != INF
        return drawn if is_damped else self.draw_policy()

    def run(self) -> None:
        rows: list[Row] = [("left", "a", 0, 5, False)]
        self.update(rows)  # times have a type from now on
        for _ in range(self.rng.randrange(4, 40)):
            if self.rng.random() < 0.8:
                rows.append(self.draw_row({row[:2] for row in rows}))
                if self.rng.random() < self.cut:
                    self.update(rows)
            else:
                self.update(rows)
                self.rng.choice([self.tick, self.tick, self.edit, self.remove, self.save])()
        self.update(rows)
        self.marker = 10**6
        self.take(self.monitor.advance(instant(self.marker)))
        self.all(lambda pair: pair.tick(self.marker))

    def draw_row(self, here: set[Any]) -> Row:
        place = self.rng.choice(self.objects)
        steps = [1, 1, 2, 7] if place in here else [0, 1, 1, 2, 7]
        latest = self.clocks[place] if self.apart else max(self.clocks[place], max(self.clocks.values()) - 2)
        self.clocks[place] = max(latest, self.marker) + self.rng.choice(steps)
        return *place, self.clocks[place], self.rng.choice(VALUES), self.rng.random() < 0.06

    def update(self, rows: list[Row]) -> None:
        if not rows:
            return
        self.take(self.monitor.update(left=table_of(rows, "left"), right=table_of(rows, "right")))
        for side, name, time, x, deleted in sorted(rows, key=lambda row: (row[2], row[0])):
            for (_, left, right), pair in self.pairs.items():
                if name == (left if side == "left" else right):
                    pair.take_row(side, time, x, deleted)
        rows.clear()

    def tick(self) -> None:
        self.marker = max(self.marker, max(self.clocks.values()) + self.rng.choice([0, 1, 2, 5]))
        self.take(self.monitor.advance(instant(self.marker)))
        self.all(lambda pair: pair.tick(self.marker))

    def edit(self) -> None:
        id = self.rng.choice(list(self.policies))
        new = self.draw_policy()
        new.expires = self.policies[id].expires  # an expired rule stays so
        if new.expires <= self.marker or any(clock >= new.expires for clock in self.clocks.values()):
            return
        self.policies[id] = new
        self.take(self.monitor.replace(id, condition_of(new), **options_of(new, self.detect)))
        for (other, _, _), pair in self.pairs.items():
            if other == id:
                pair.edit(new.__dict__)

    def remove(self) -> None:
        if len(self.policies) < 2:
            return
        id = self.rng.choice(list(self.policies))
        del self.policies[id]
        self.take(self.monitor.remove(id))
        for key in [key for key in self.pairs if key[0] == id]:
            self.pairs[key].remove("removed")
            self.gone.append((*key, self.pairs.pop(key)))

    def save(self) -> None:
        self.monitor.save(self.folder / "state", rules=True)
        self.monitor = fp.Monitor.load(self.folder / "state")

    def all(self, do: Any) -> None:
        for pair in self.pairs.values():
            do(pair)

    def take(self, events: Any) -> None:
        rows = events.to_pylist()
        for fact, event in zip(facts_of(events), rows, strict=True):
            rule, left, *rest = fact
            self.found.append((rule, left, event["other"], *rest, event["x_before"], event["x"]))

    def expected(self) -> list[tuple[Any, ...]]:
        facts = []
        for id, left, right, pair in [*((*key, pair) for key, pair in self.pairs.items()), *self.gone]:
            kinds = {*self.detect.split(","), "cross"}
            told = zip(pair.out, pair.since_of, pair.values, strict=True)
            for (detect, time, reason), since, values in told:
                if detect in kinds:
                    facts.append((id, left, right, detect, int(time), reason, int(since), *values))
            if "inside" in kinds:
                facts += [
                    (id, left, right, "inside", int(time), None, int(time), *values) for time, values in pair.insides
                ]
        return facts


def by_pair(facts: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Any]]:
    """Enters, exits and crosses of each pair in their order; insides likewise."""
    found = defaultdict(list)
    for fact in facts:
        found[*fact[:3], fact[3] == "inside"].append(fact[3:])
    return dict(found)


@pytest.mark.parametrize("seed", seeds(100))
def test_neither_numbers_nor_portions_matter(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_FEW", 0)  # objects are numbered anew as soon as half of them are gone
    monkeypatch.setattr(damping, "_MOST_ROWS", 3)
    script = BandScript(seed, tmp_path)
    script.run()
    assert by_pair(script.found) == by_pair(script.expected())


@pytest.mark.parametrize("seed", seeds(400))
def test_bands_agree_with_the_oracle(seed: int, tmp_path: Path) -> None:
    script = BandScript(seed, tmp_path)
    script.run()
    assert by_pair(script.found) == by_pair(script.expected())
