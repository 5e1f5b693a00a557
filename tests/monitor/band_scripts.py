"""What happens to a monitor of bands, drawn by hypothesis or at random, and played to it and to the naive replay."""

import math
import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.band_replay import ATTRIBUTES, COLUMNS, BandEvent, BandReplay, ReplayBand
from tests.band_sides import EQUALS, OF_RIGHT, TESTS, VALUES
from tests.monitor.played import EPOCH, Played, Row, scripts_of

NOWHERE = [
    ReplayBand(number, right, 1e300, None, (True, True), True, "none", "none", frozenset(["exit"]))
    for number, right in ((-1, "x"), (-2, "y"))
]
"""Makes both monitors know all columns from the start."""

coordinates = st.sampled_from(
    [0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 0.1, 0.2, 0.3, 2.5, 1e16, math.nextafter(2.0, 3.0), math.inf]
)
bounds = st.sampled_from([-2.0, -1.0, 0.0, 0.1, 0.2, 1.0, 2.0, 2.5, 1e16])


sides = st.tuples(
    st.sampled_from([None, None, *VALUES]),
    st.sampled_from([None, None, None, *VALUES, *OF_RIGHT]),
    st.sampled_from([None, *TESTS]),
    st.sampled_from([None, None, *TESTS]),
    st.sampled_from([None, None, None, None, *range(len(EQUALS))]),
)


@st.composite
def bands(draw: st.DrawFn) -> ReplayBand:
    low, high = sorted([draw(bounds), draw(bounds)])
    closed = (draw(st.booleans()), draw(st.booleans())) if low < high else (True, True)
    shape = draw(st.sampled_from(["both", "both", "both", "low", "high"]))
    return ReplayBand(
        draw(st.integers(1, 4)),
        draw(st.sampled_from("xxy")),
        None if shape == "high" else low,
        None if shape == "low" else high,
        closed,
        draw(st.booleans()),
        draw(st.sampled_from([None, None, "a", "b"])),
        draw(st.sampled_from([None, None, "a"])),
        frozenset(draw(st.lists(st.sampled_from(["inside", "enter", "exit", "cross"]), min_size=1, max_size=4))),
        draw(st.booleans()),
        draw(st.one_of(st.none(), st.none(), st.integers(0, 30))),
        draw(st.sampled_from([True, True, True, False])),
        *draw(st.one_of(st.just([None] * 5), sides, sides)),
    )


maybe = st.one_of(st.none(), coordinates, coordinates, coordinates)
rows = st.fixed_dictionaries(
    {
        "object": st.sampled_from([0, 1, 1, 2, None]),
        "time": st.sampled_from([0, 0, 0, 1, 1, 2, 5, -1, -4, None]),  # after the latest so far
        "sequence": st.one_of(st.none(), st.integers(0, 2)),
        "deleted": st.sampled_from([None, False, False, False, True]),
        "x": maybe,
        "y": maybe,
        "k": st.sampled_from(["p", "p", "q", None]),
        "c": st.sampled_from(["a", "a", "b", None]),
    }
)
batches = st.tuples(st.lists(rows, max_size=6), st.lists(rows, max_size=6))
scripts = scripts_of(batches, bands(), at_once=3, steps=12)


def random_band(rng: random.Random, ids: int) -> ReplayBand:
    low, high = sorted(rng.sample([-3.0, -1.5, -1.0, -0.5, 0.0, 0.1, 0.5, 1.0, 2.0], 2))
    shape = rng.choice(["both"] * 6 + ["low", "high"])
    return ReplayBand(
        rng.randint(1, ids),
        rng.choice("xxy"),
        None if shape == "high" else low,
        None if shape == "low" else high,
        (rng.random() < 0.5, rng.random() < 0.5),
        rng.random() < 0.6,
        rng.choice([None, None, "a", "b"]),
        rng.choice([None, None, "a"]),
        frozenset(rng.sample(["inside", "enter", "exit", "cross"], rng.randint(1, 4))),
        rng.random() < 0.5,
        rng.choice([None] * 5 + [rng.randint(0, 400)]),
        rng.random() < 0.9,
        *(random_sides(rng) if rng.random() < 0.6 else [None] * 5),
    )


def random_sides(rng: random.Random) -> list[Any]:
    """What of a band is computed, what rows of either side must meet, and what must be equal."""
    chosen = [(VALUES, 0.4), ([*VALUES, *OF_RIGHT], 0.4), (TESTS, 0.6), (TESTS, 0.4), (range(len(EQUALS)), 0.25)]
    return [rng.choice(several) if rng.random() < chance else None for several, chance in chosen]  # type: ignore[arg-type]


def random_rows(rng: random.Random, objects: int) -> list[Row]:
    return [
        {
            "object": rng.choice([None, *list(range(objects)) * 3]),
            "time": rng.choice([0, 1, 2, 3, 3, 4, -3, None]),
            "sequence": rng.choice([None, 0, 1]),
            "deleted": rng.random() < 0.05,
            "x": rng.choice([None, round(rng.uniform(0, 6), 1), round(rng.uniform(0, 6), 1)]),
            "y": rng.choice([None, round(rng.uniform(0, 6), 1)]),
            "k": rng.choice("pppqr"),
            "c": rng.choice(["a", "a", "a", "b", None]),
        }
        for _ in range(rng.randint(0, 25))
    ]


def venue_of(row: Row) -> str | None:
    """What events carry of a left row; rows without an order between them have the same."""
    return None if row["x"] is None else f"{row['x']}, {row['k']}, {row['c']}, {row['sequence']}"


def table_of(side: str, given: list[Row], strings: bool) -> Any:
    objects = [None if row["object"] is None else f"row {row['object']}" for row in given]
    columns = {
        "object": pa.array(objects) if strings else pa.array([row["object"] for row in given], pa.int64()),
        "time": pa.array([row["time"] for row in given], pa.timestamp("us", tz="UTC")),
        "sequence": pa.array([row["sequence"] for row in given], pa.int64()),
        "deleted": pa.array([row["deleted"] for row in given], pa.bool_()),
    }
    for name in COLUMNS[side]:
        type_ = pa.float64() if name in ATTRIBUTES else pa.string()
        columns[name] = pa.array([row[name] for row in given], type_)
    if side == "left":  # the right one has nothing to carry
        columns["venue"] = pa.array([venue_of(row) for row in given], pa.string())
    return pa.table(columns)


class Twins(Played):
    """A monitor of bands and its replay."""

    def __init__(
        self, first: str = "enter", timeout: int | None = None, sequenced: bool = False, strings: bool = False
    ) -> None:
        self.strings = strings
        further = {"labels": True, "condition": True, "carry": ["venue"]}
        replay = BandReplay(first=first, timeout=timeout, sequenced=sequenced)
        super().__init__(replay, NOWHERE, first, timeout, sequenced, deleted="deleted", **further)

    def _put(self, rule: ReplayBand) -> list[BandEvent]:
        events: list[BandEvent] = self.replay.put(rule)
        return events

    def _rows(self, drawn: tuple[list[Row], list[Row]]) -> tuple[list[BandEvent], Any]:
        timed: list[list[Row]] = []
        start = self.now
        for side in drawn:
            timed.append([])
            for row in side:
                time = None if row["time"] is None else start + row["time"]
                self.now = self.now if time is None else max(self.now, time)
                timed[-1].append({**row, "time": time})
        named = [[{**row, "object": self._name(row["object"])} for row in own] for own in timed]
        for row in named[0]:
            row["venue"] = venue_of(row)
        expected = self.replay.update(*named)
        got = self.monitor.update(
            left=table_of("left", timed[0], self.strings), right=table_of("right", timed[1], self.strings)
        )
        times = [event.time for event in self._events(got) if event.reason is None]
        assert times == sorted(times)
        return expected, got

    def _name(self, object: int | None) -> Any:
        return f"row {object}" if self.strings and object is not None else object

    def _events(self, table: Any) -> list[BandEvent]:
        found = []
        for event in table.to_pylist():
            before, after = {n: event[f"{n}_before"] for n in ATTRIBUTES}, {n: event[n] for n in ATTRIBUTES}
            time = (event["time"] - EPOCH) // timedelta(microseconds=1)
            event["labels"] = event["labels"] and dict(event["labels"])
            named = {name: event[name] for name in BandEvent._fields if name not in ("time", "before", "after")}
            found.append(BandEvent(**named, time=time, before=before, after=after))
        return found

    def _grouped(self, events: list[BandEvent]) -> dict[Any, list[BandEvent]]:
        """The events of every pair and rule, in their order."""
        grouped: dict[Any, list[BandEvent]] = {}
        for event in events:
            grouped.setdefault((event.object, event.other, event.rule_id), []).append(event)
        return grouped
