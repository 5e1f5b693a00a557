"""What happens to a monitor, drawn by hypothesis or at random, and played to it and to the naive replay."""

import math
import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.monitor.played import EPOCH, Played, Row, scripts_of
from tests.replay import Replay, ReplayBox, ReplayEvent, ReplayRule

ATTRIBUTES, KEYS = ("x", "y"), ("k",)
NOWHERE = ReplayRule(0, (ReplayBox({"k": "none"}, {"x": (98.0, 99.0), "y": (98.0, 99.0)}),), frozenset(["exit"]))
"""Makes both monitors know all columns from the start."""

coordinates = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 2.5, math.nextafter(2.0, 3.0), math.nextafter(2.0, 1.0)])


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float | None, float | None]:
    low, high = draw(coordinates), draw(coordinates)
    low, high = min(low, high), max(low, high)
    high = math.nextafter(high, math.inf) if low == high else high
    shape = draw(st.sampled_from(["both", "both", "both", "low", "high"]))
    return (None if shape == "high" else low, None if shape == "low" else high)


@st.composite
def boxes(draw: st.DrawFn) -> ReplayBox:
    keys = {"k": draw(st.sampled_from("ab"))} if draw(st.booleans()) else {}
    columns = draw(st.sampled_from([("x",), ("x",), ("y",), ("x", "y")] + ([()] if keys else [])))
    return ReplayBox(keys, {name: draw(ranges()) for name in columns})


@st.composite
def rules(draw: st.DrawFn) -> ReplayRule:
    return ReplayRule(
        draw(st.integers(1, 4)),
        tuple(draw(st.lists(boxes(), min_size=1, max_size=3))),
        frozenset(draw(st.lists(st.sampled_from(["inside", "enter", "exit", "cross"]), min_size=1, max_size=4))),
        draw(st.booleans()),
        draw(st.one_of(st.none(), st.integers(0, 30))),
        draw(st.sampled_from([True, True, True, False])),
    )


maybe = st.one_of(st.none(), coordinates, coordinates, coordinates)
rows = st.fixed_dictionaries(
    {
        "object": st.sampled_from([0, 1, 2, 2, None]),
        "time": st.sampled_from([0, 0, 1, 1, 2, 3, 5, -1, -4, None]),  # after the latest so far
        "sequence": st.one_of(st.none(), st.integers(0, 3)),
        "x": maybe,
        "y": maybe,
        "k": st.sampled_from(["a", "b", "c", None]),
    }
)
batches = st.lists(rows, max_size=8)
scripts = scripts_of(batches, rules(), at_once=4, steps=14)
kinds_of_objects = st.sampled_from(["integers", "far integers", "strings"])


def random_rule(rng: random.Random) -> ReplayRule:
    def some_range() -> tuple[float | None, float | None]:
        low, high = sorted(rng.sample([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0], 2))
        return (None if rng.random() < 0.1 else low, None if rng.random() < 0.1 else high)

    made = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        columns = rng.choice([("x",), ("y",), ("x", "y"), ("x", "y")])
        own = {name: some_range() for name in columns}
        if all(bounds == (None, None) for bounds in own.values()):
            own = {"x": (1.0, 2.0)}
        own = {name: bounds for name, bounds in own.items() if bounds != (None, None)}
        made.append(ReplayBox({"k": rng.choice("ab")} if rng.random() < 0.3 else {}, own))
    detect = frozenset(rng.sample(["inside", "enter", "exit", "cross"], rng.choice([1, 2, 3, 4, 4])))
    expires = rng.randrange(150) if rng.random() < 0.4 else None
    return ReplayRule(rng.randrange(1, 7), tuple(made), detect, rng.random() < 0.5, expires, rng.random() < 0.9)


def random_row(rng: random.Random) -> Row:
    def value() -> float | None:
        return None if rng.random() < 0.2 else rng.choice([0.0, 0.5, 1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 5.0])

    return {
        "object": rng.choice([0, 1, 2, 3, 3]),
        "time": rng.choice([0, 0, 0, 1, 1, 2, 4, -1, -3]),
        "sequence": rng.choice([None, 0, 0, 1]),
        "x": value(),
        "y": value(),
        "k": rng.choice(["a", "a", "b", "c", None]),
    }


def named(kind: str, number: int | None) -> Any:
    if number is None:
        return None
    return {"integers": number, "far integers": number * 2**50 - 2**60, "strings": f"vehicle {number}"}[kind]


def timed(rows: list[Row], now: int) -> tuple[list[Row], int]:
    """The rows with times for the steps they were drawn with."""
    given = []
    for row in rows:
        time = None if row["time"] is None else now + row["time"]
        now = now if time is None else max(now, time)
        given.append({**row, "time": time})
    return given, now


def venue_of(row: Row) -> str | None:
    """What events carry of a row; rows without an order between them have the same."""
    return None if row["y"] is None else f"{row['x']}, {row['y']}, {row['k']}, {row['sequence']}"


def table_of(rows: list[Row], kind: str) -> Any:
    objects = pa.string() if kind == "strings" else pa.int64()
    return pa.table(
        {
            "object": pa.array([named(kind, row["object"]) for row in rows], objects),
            "time": pa.array([row["time"] for row in rows], pa.timestamp("us", tz="UTC")),
            "sequence": pa.array([row["sequence"] for row in rows], pa.int64()),
            "x": pa.array([row["x"] for row in rows], pa.float64()),
            "y": pa.array([row["y"] for row in rows], pa.float64()),
            "k": pa.array([row["k"] for row in rows], pa.string()),
            "venue": pa.array([venue_of(row) for row in rows], pa.string()),
        }
    )


class Pair(Played):
    """A monitor of rules about one stream and its replay."""

    def __init__(self, kind: str, first: str, timeout: int | None, sequenced: bool, start: list[ReplayRule]) -> None:
        self.kind = kind
        replay = Replay(ATTRIBUTES, KEYS, first=first, timeout=timeout, sequenced=sequenced)
        settings = {"labels": True, "carry": "venue", "condition": True}
        super().__init__(replay, [NOWHERE, *start], first, timeout, sequenced, **settings)

    def _put(self, rule: ReplayRule) -> list[ReplayEvent]:
        put = self.replay.replace if rule.id in self.replay.rules else self.replay.add
        events: list[ReplayEvent] = put(rule)
        return events

    def _rows(self, drawn: list[Row]) -> tuple[list[ReplayEvent], Any]:
        given, self.now = timed(drawn, self.now)
        taken = [{**row, "object": named(self.kind, row["object"]), "venue": venue_of(row)} for row in given]
        expected = self.replay.update(taken)
        return expected, self.monitor.update(table_of(given, self.kind))

    def _events(self, table: Any) -> list[ReplayEvent]:
        found = []
        for event in table.to_pylist():
            time = (event["time"] - EPOCH) // timedelta(microseconds=1)
            before = {name: event[f"{name}_before"] for name in ATTRIBUTES}
            after = {name: event[name] for name in ATTRIBUTES}
            found.append(
                ReplayEvent(
                    event["rule_id"],
                    event["rule_version"],
                    event["object"],
                    event["detect"],
                    time,
                    event["reason"],
                    before,
                    after,
                    None,
                    event["event_id"],
                    {name: (event[f"{name}_before"], event[name]) for name in KEYS},
                    (event["name"], event["labels"] and dict(event["labels"]), event["condition"]),
                    event["venue"],
                )
            )
        return found

    def _grouped(self, events: list[ReplayEvent]) -> dict[Any, list[ReplayEvent]]:
        """Every object's events in their order; the sequence is only seen through the id."""
        grouped: dict[Any, list[ReplayEvent]] = {}
        for event in events:
            grouped.setdefault(event.object, []).append(event._replace(sequence=None))
        for own in grouped.values():
            # A change of a rule, and a clock marker, tell each object in no set order.
            if all(event.reason for event in own):
                own.sort(key=lambda event: (event.time, event.rule_id))
        return grouped
