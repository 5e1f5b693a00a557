"""A table of few rows goes a short way: its events are those of the long one, column by column."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.watching.engine import Watch
from tests.effort import examples
from tests.monitor.scripts import rows, rules, table_of
from tests.replay import ReplayRule


def simple(start: list[ReplayRule], *, damped: bool) -> Rules:
    """The rules without what asks for the long way; one of them is damped where asked."""
    given = Rules()
    for rule in {rule.id: rule for rule in start}.values():
        detect = ",".join(sorted(rule.detect - {"cross"})) or "exit"
        given.add(rule.id, rule.condition(), detect=detect, for_="2 rows" if damped and rule.id == 1 else None)
    given.add(90, "x >= 0 AND y < 3 AND k = 'a'", detect="enter,exit", name="all three", labels={"desk": "4"})
    return given


@examples(200)
@given(
    st.lists(rows, max_size=24),
    st.lists(rules(), max_size=4),
    st.sampled_from(["integers", "far integers", "strings"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_few_rows_at_once_give_the_events_of_a_batch(
    stream: list[Any],
    start: list[ReplayRule],
    kind: str,
    labels: bool,
    sequenced: bool,
    damped: bool,
    data: st.DataObject,
) -> None:
    stream = [dict(row, time=None if row["time"] is None else 2 * place) for place, row in enumerate(stream)]
    given = simple(start, damped=damped)
    whole, cut = (
        Monitor(
            given,
            object="object",
            time="time",
            sequence="sequence" if sequenced else None,
            labels=labels,
            condition=labels,
            schema={"x": "double", "y": "double", "k": "string", "venue": "string"},
        )
        for _ in range(2)
    )
    table = table_of(stream, kind)
    together = whole.update(table)
    pieces, at = [], 0
    while at < len(stream):
        size = data.draw(st.sampled_from([1, 1, 2, 3]))
        pieces.append(cut.update(table.slice(at, size)))
        at += size
    assert [piece for piece in pieces if piece.num_rows and piece.schema != together.schema] == []
    assert [event for piece in pieces for event in piece.to_pylist()] == together.to_pylist()
    assert cut.counters == whole.counters
    assert cut.state().equals(whole.state())


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("vehicle", pa.array([7], pa.int32())),
        ("vehicle", pa.array([8])),
        ("ts", pa.array([datetime(2026, 1, 5, tzinfo=UTC)], pa.timestamp("ns", tz="UTC"))),
        ("ts", pa.array([None], pa.timestamp("us", tz="UTC"))),
        ("ts", pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))),  # late
        ("price", pa.array([5])),
        ("price", pa.array([None], pa.float64())),
        ("price", pa.array([float("nan")])),
        ("n", pa.array([5.0])),
        ("symbol", pa.array(["IBM"]).dictionary_encode()),
    ],
)
def test_a_row_of_other_types_goes_the_long_way_to_the_same_events(column: str, array: Any) -> None:
    given = Rules()
    given.add(1, "price >= 4 AND n < 7", detect="enter,exit,inside")
    given.add(2, "symbol = 'IBM' AND n > 0", detect="enter,exit")
    short, long = (Monitor(given, object="vehicle", time="ts", timeout=each) for each in (None, timedelta(days=900)))
    start = datetime(2026, 1, 2, tzinfo=UTC)
    first = pa.table({"vehicle": [7], "ts": [start], "price": [1.0], "n": [1], "symbol": ["IBM"]})
    row = pa.table({"vehicle": [7], "ts": [start + timedelta(1)], "price": [9.0], "n": [1], "symbol": ["HP"]})
    row = row.set_column(row.schema.names.index(column), column, array)
    for table in (first, row):
        assert short.update(table).equals(long.update(table))
    assert short.counters == long.counters
    assert short.state().equals(long.state())


def test_rows_of_one_time_come_in_the_order_of_the_table() -> None:
    given = Rules()
    given.add(1, "price >= 40", detect="enter,exit,inside")
    short, long = (Monitor(given, object="symbol", time="ts", timeout=each) for each in (None, 900))
    for ts, prices in enumerate([[39.0, 41.0, 42.0], [41.0, 39.0, 43.0], [42.0, 41.0, 1.0]]):
        table = pa.table({"symbol": ["C", "A", "B"], "ts": [ts // 2] * 3, "price": prices})
        assert short.update(table).equals(long.update(table))


def count_short(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows go the short way from now on, call by call."""
    taken: list[int] = []
    settle = Watch.settle_few

    def note(watch: Watch, store: Any, slots: Any) -> None:
        taken.append(len(slots))
        settle(watch, store, slots)

    monkeypatch.setattr(Watch, "settle_few", note)
    return taken


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = count_short(monkeypatch)
    given = Rules()
    given.add(1, "price >= 40", detect="enter,exit")
    monitor = Monitor(given, object="symbol")
    for price in (39.0, 41.0, 42.0):
        monitor.update(pa.table({"symbol": ["IBM"], "price": [price]}))
    monitor.update_one("IBM", price=30.0)
    assert taken == [1, 1, 1]


def test_a_row_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Rules()
    given.add(1, "price >= 40", detect="enter,exit")
    monitor = Monitor(given, object="symbol")
    monitor.update(pa.table({"symbol": ["IBM"], "price": [39.0]}))
    before = monitor.counters, monitor.state()

    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "settle_few", fail)
        with pytest.raises(MemoryError):
            monitor.update(pa.table({"symbol": ["IBM"], "price": [41.0]}))
    assert monitor.counters == before[0]
    assert monitor.state().equals(before[1])
