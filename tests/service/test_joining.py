"""Calls that are applied together have the events that they have one by one, in the same order."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.service.joining import join_calls
from fencepost.service.monitoring import Watcher
from tests.effort import seeds

START = datetime(2026, 1, 5, tzinfo=UTC)


def rules_of(generator: random.Random, *, plain: bool) -> Rules:
    rules = Rules()
    for id in range(12):
        low = generator.uniform(0, 8)
        extra = (
            {} if plain or id % 4 else {"for_": "3 seconds"} if id % 8 else {"expires": START + timedelta(seconds=40)}
        )
        rules.add(
            id,
            f"x BETWEEN {low} AND {low + 3}",
            detect="enter,exit" if "for_" in extra else "enter,exit,cross,inside",
            **extra,
        )
    return rules


def calls_of(generator: random.Random) -> list[pa.Table]:
    tables, second = [], 0
    for _ in range(generator.randrange(1, 60)):
        count = generator.choice([1, 1, 2, 30])
        times = [START + timedelta(seconds=second + generator.randrange(3)) for _ in range(count)]
        second += generator.choice([0, 1, 3, 3, 4])
        values = [None if generator.random() < 0.1 else generator.uniform(0, 10) for _ in range(count)]
        columns = {"object": [f"o{generator.randrange(4)}" for _ in range(count)]}
        columns |= {"time": pa.array(times, pa.timestamp("us", "UTC")), "x": pa.array(values, pa.float64())}
        tables.append(pa.table(columns))
    return tables


@pytest.mark.parametrize("seed", seeds(30))
def test_together_is_as_one_by_one(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311
    snapshot, tables = rules_of(generator, plain=seed % 3 > 0).compile(), calls_of(generator)
    about = {"columns": dict(snapshot.columns)}
    one, joined = (Watcher(Monitor(snapshot, object="object", time="time", labels=True), about) for _ in range(2))
    expected = [one.take(table) for table in tables]
    found = joined.take_calls(tables)
    assert [_shown(each) for each in found] == [_shown(each) for each in expected]
    assert joined.monitor.counters == one.monitor.counters


def _shown(events: object) -> list[tuple[object, ...]]:
    if events is None:
        return []
    assert isinstance(events, pa.Table), events
    return [(row["event_id"], row["detect"], row["time"]) for row in events.to_pylist()]


def test_calls_are_joined_only_where_times_follow() -> None:
    def call(*seconds: int | None) -> pa.Table:
        times = [None if each is None else START + timedelta(seconds=each) for each in seconds]
        return pa.table({"time": pa.array(times, pa.timestamp("us", "UTC"))})

    many = list(range(100))
    assert join_calls([call(*many), call(100), call(101, 102)], "time") == [range(3)]
    assert join_calls([call(*many), call(99), call(101)], "time") == [range(1), range(1, 2), range(2, 3)]
    assert join_calls([call(*many), call(None, 200), call(201)], "time") == [range(1), range(1, 2), range(2, 3)]
    assert join_calls([call(1), call(2), call(3)], "time") == [range(1), range(1, 2), range(2, 3)]
    assert join_calls([], "time") == []
