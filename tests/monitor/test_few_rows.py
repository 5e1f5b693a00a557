"""Rows one by one, few at once and many: those that go the short way have the events of those that never do."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.emitting.emitter import Emitter
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.watching.state import Journal
from tests.effort import examples
from tests.monitor.test_short_updates import count_short

SCHEMA = {"x": "double", "y": "double", "n": "bigint", "k": "string", "l": "string", "at": "timestamp"}
CONDITIONS = [
    "x BETWEEN 2 AND 5",
    "x > 3 AND n <= 4",
    "x >= 1 AND y < 4 AND n > 2",
    "k = 'a'",
    "k = 'a' AND x < 6",
    "k IN ('a', 'b') AND l = 'c' AND y >= 2",
    "k = 'b' AND l = 'd'",
    "x < 2 OR x > 6 OR n = 3",
    "x < 5 OR k = 'a' AND y > 1",
    "n = 2",
    "x = 0",
]
COMPUTED = ["x + y > 7", "x / n > 1 AND k = 'a'", "k < 'b'"]
DAMPED: list[dict[str, Any]] = [{"for_": "2 rows"}, {"keep_firing_for": "2 rows"}, {"limit": 1}]
Call = tuple[str, Any]


def rules_of(rng: np.random.Generator, *, many: bool, damped: bool, computed: bool) -> Rules:
    """Some of the conditions; `many` brings enough boxes over two columns for an index of them."""
    given = Rules()
    kinds = ["enter,exit", "enter", "exit", "inside", "enter,exit,inside"]
    chosen = rng.permutation(len(CONDITIONS))[: int(rng.integers(1, len(CONDITIONS)))].tolist()
    ids = rng.permutation(50).tolist()  # in no order
    conditions = [CONDITIONS[place] for place in chosen] + (COMPUTED if computed else [])
    for condition in conditions:
        options = DAMPED[int(rng.integers(0, 3))] if damped and rng.random() < 0.3 else {}
        detect = "enter,exit" if options else kinds[int(rng.integers(0, 5))]
        given.add(ids.pop(), condition, detect=detect, name=f"rule {len(ids)}", labels={"desk": "4"}, **options)
    for number in range(100, 240 if many else 100):
        x, y = rng.integers(0, 7, 2).tolist()
        key = f" AND k = '{'abz'[number % 3]}'" if number % 2 else ""
        given.add(number, f"x BETWEEN {x} AND {x + 6} AND y BETWEEN {y} AND {y + 6}{key}", detect="enter,exit")
    return given


def values_of(rng: np.random.Generator, rows: int, *, nulls: bool) -> dict[str, Any]:
    """Values that lie on the ends of ranges, with doubles that have several bits for one value or none."""
    x = rng.choice([-0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 5.5, 6.0, 7.0, np.nan if nulls else 4.0, np.inf], rows)
    columns: dict[str, Any] = {
        "x": x.tolist(),
        "y": rng.choice([0.0, 1.0, 2.0, 4.0, 6.0], rows).tolist(),
        "n": rng.integers(0, 6, rows).tolist(),
        "k": rng.choice(["a", "b", "z", "new " + str(rng.integers(0, 99))], rows).tolist(),
        "l": rng.choice(["c", "d"], rows).tolist(),
        "venue": rng.choice(["X", "Y"], rows).tolist(),
    }
    if nulls:
        for name, values in columns.items():
            columns[name] = [None if rng.random() < 0.3 else value for value in values]
    return columns


TYPES = {
    "x": pa.float64(),
    "y": pa.float64(),
    "n": pa.int64(),
    "k": pa.string(),
    "l": pa.string(),
    "venue": pa.string(),
}


def calls_of(rng: np.random.Generator, objects: Any, *, timed: bool) -> list[Call]:
    """What happens to a monitor, one thing after the other."""
    calls: list[Call] = []
    now = 0
    for _ in range(14):
        kind = str(rng.choice(["one", "few", "few", "many", "change", "advance", "nothing"]))
        if kind in ("few", "many"):
            count = min(len(objects), int(rng.integers(1, 20 if kind == "few" else 300)))
            alone = rng.random() < 0.8  # each row of another object
            columns = values_of(rng, count, nulls=rng.random() < 0.3)
            columns["o"] = [objects[place] for place in rng.choice(len(objects), count, replace=not alone).tolist()]
            if timed:
                steps = rng.integers(0, 3, count) if rng.random() < 0.8 else rng.integers(-4, 4, count)
                columns["t"] = (now + np.cumsum(steps)).tolist()
                now = max(now, *columns["t"])
            types = TYPES | {"o": pa.array(objects).type, "t": pa.int64()}
            calls.append(("update", pa.table({name: pa.array(each, types[name]) for name, each in columns.items()})))
        elif kind == "one":
            for _ in range(int(rng.integers(1, 5))):
                columns = values_of(rng, 1, nulls=rng.random() < 0.3)
                left = {name: each[0] for name, each in columns.items() if rng.random() < 0.8}
                now += int(rng.integers(-1, 3))
                place = int(rng.integers(0, len(objects)))
                calls.append(("update_one", (objects[place], now if timed else None, left)))
        elif kind == "change":
            id = int(rng.integers(0, 60))
            calls.append(("change", (id, CONDITIONS[int(rng.integers(0, len(CONDITIONS)))])))
        elif kind == "advance" and timed:
            now += int(rng.integers(0, 5))
            calls.append(("advance", now))
    return calls


def make(monitor: Monitor, call: Call) -> Any:
    """The events of one call, or why it is refused."""
    try:
        return events_of(monitor, call)
    except FencepostError as error:
        return str(error)


def events_of(monitor: Monitor, call: Call) -> Any:
    what, given = call
    if what == "update":
        return monitor.update(given)
    if what == "update_one":
        object, time, values = given
        return monitor.update_one(object, time, **values)
    if what == "advance":
        return monitor.advance(given)
    id, condition = given
    changed = Rules()
    changed.add(id, condition, detect="enter,exit", enabled=id % 7 != 0)
    return monitor.change(changed, remove=[id + 1] if id % 3 == 0 else [])


@examples(300)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["integers", "far integers", "strings"]),
    st.fixed_dictionaries({name: st.booleans() for name in ("many", "damped", "computed")}),
    st.booleans(),
    st.sampled_from(
        [{}, {"labels": True}, {"carry": ["venue"]}, {"labels": True, "condition": True, "carry": "venue"}]
    ),
    st.sampled_from([None, None, None, 6]),
    st.sampled_from(["enter", "silent"]),
)
def test_the_short_way_finds_what_the_long_one_finds(
    seed: int,
    kind: str,
    which: dict[str, bool],
    timed: bool,
    columns: dict[str, Any],
    timeout: int | None,
    first: Any,
) -> None:
    rng = np.random.default_rng(seed)
    numbers = np.arange(40) * (10**12 if kind == "far integers" else 1)
    objects = [f"o{number}" for number in numbers] if kind == "strings" else numbers.tolist()
    rules = rules_of(rng, **which)
    settings: dict[str, Any] = {"object": "o", "first": first, "schema": SCHEMA, **columns}
    if timed:
        settings |= {"time": "t", "timeout": timeout}
    short, long = (Monitor(rules, **settings) for _ in range(2))
    long._watch.short_way = lambda: None  # type: ignore[method-assign]
    for call in calls_of(rng, objects, timed=timed):
        found, expected = make(short, call), make(long, call)
        if isinstance(found, str) or isinstance(expected, str):
            assert found == expected
        elif call[0] == "update_one":
            assert [event.asdict() for event in found] == [event.asdict() for event in expected]
        else:
            assert found.schema == expected.schema
            assert found.to_pylist() == expected.to_pylist()
        assert short.counters == long.counters
    assert short.state().equals(long.state())


@pytest.mark.parametrize(
    ("options", "short"),
    [
        ({"detect": "enter,exit"}, True),
        ({"detect": "inside,enter,exit"}, True),
        ({"detect": "enter,exit", "for_": "2 rows"}, False),
        ({"detect": "inside", "every": "1 second"}, False),
        ({"detect": "enter,exit,cross"}, False),
        ({"detect": "enter,exit", "expires": "2999-01-01"}, False),
    ],
)
def test_what_the_short_way_cannot_do_goes_the_long_one(
    options: dict[str, Any], short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules()
    rules.add(1, "x > 3", **options)
    monitor = Monitor(rules, object="o", time="t")
    instants = pa.array([10**15 + step for step in range(3)], pa.timestamp("us", "UTC"))
    tables = [pa.table({"o": [7], "t": instants[at : at + 1], "x": [x]}) for at, x in enumerate([1.0, 5.0, 2.0])]
    monitor.update(tables[0])
    taken = count_short(monkeypatch)
    monitor.update(tables[1])
    monitor.update_one(7, tables[2]["t"][0].as_py(), x=2.0)
    assert taken == ([1, 1] if short else [])


def test_columns_may_be_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.add(1, "x > 3 AND k = 'a'", detect="enter,exit")
    short, long = (Monitor(rules, object="o") for _ in range(2))
    long._watch.short_way = lambda: None  # type: ignore[method-assign]
    taken = count_short(monkeypatch)
    columns: list[dict[str, Any]] = [
        {"o": [1, 2], "x": [1.0, 2.0], "k": ["a", "a"]},
        {"o": [1, 2], "x": [5.0, 2.0], "k": ["a", "b"]},
        {"o": [1, 2], "x": [float("nan"), 9.0], "k": ["b", "a"]},
        {"o": [1, None], "x": [7, 8], "k": ["a", None]},
        {"o": [1], "x": [True], "k": ["a"]},
        {"o": [1], "x": [{}], "k": ["a"]},
        {"o": [1], "x": [1.0], "k": [3]},
    ]
    for each in columns:
        found, expected = make(short, ("update", each)), make(long, ("update", each))
        assert found == expected if isinstance(found, str) else found.equals(expected)
    assert short.state().equals(long.state())
    assert taken == [2]


def test_a_change_of_rules_that_failed_leaves_no_column_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    rules = Rules()
    rules.add(1, "x > 3", detect="enter,exit")
    monitor = Monitor(rules, object="o")
    monitor.update(pa.table({"o": [1], "x": [5.0]}))
    with monkeypatch.context() as patched:
        patched.setattr(Emitter, "emit", fail)
        with pytest.raises(MemoryError), pytest.warns(UserWarning, match="Nothing is known yet"):
            monitor.add(2, "k = 'a' AND y > 1", detect="enter,exit")
    assert monitor.update_one(1, x=4.0) == []
    assert monitor.update(pa.table({"o": [1], "x": [2.0]})).num_rows == 1
    assert [event.detect for event in monitor.update_one(1, x=4.0, k="a", y=2.0)] == ["enter"]


def test_more_changes_than_there_is_room_for_are_found_all_the_same() -> None:
    table = {"id": np.arange(5000), "low": np.zeros(5000), "high": np.ones(5000)}
    rules = Rules.from_table(table, id="id", ranges={"x": ("low", "high")}, detect="enter,exit")
    monitor = Monitor(rules, object="o")
    monitor.update(pa.table({"o": [1, 2], "x": [5.0, 5.0]}))
    assert monitor.update(pa.table({"o": [1, 2], "x": [0.5, 0.5]}))["rule_id"].to_pylist() == [*range(5000)] * 2
    assert [event.rule_id for event in monitor.update_one(1, x=7.0)] == [*range(5000)]


def test_more_rules_than_the_short_way_looks_through_go_the_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    for number in range(40):
        rules.add(number, f"x > {number}", detect="enter,exit")
    monitor = Monitor(rules, object="o")
    monitor.update(pa.table({"o": [1], "x": [50.0]}))
    monkeypatch.setattr("fencepost.snapshot.few_moves.find_changes", lambda *_: -2)
    assert monitor.update_one(1, x=60.0) == []
    assert monitor.update(pa.table({"o": [1], "x": [-1.0]})).num_rows == 40


def test_a_short_way_goes_on_where_a_change_of_rules_was_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, more = Rules(), Rules()
    rules.add(1, "x > 3", detect="enter,exit")
    more.add(2, "other = 'a'", detect="enter,exit")
    monitor = Monitor(rules, object="o")
    rows = [pa.table({"o": [1], "x": [x]}) for x in (1.0, 2.0)]
    monitor.update(rows[0])

    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as short_of_memory:
        short_of_memory.setattr(monitor._emitter, "emit", fail)
        with pytest.warns(UserWarning, match="Nothing is known yet"), pytest.raises(MemoryError):
            monitor.change(more)
    assert [event.detect for event in monitor.update_one(1, x=5.0)] == ["enter"]
    assert monitor.update(rows[1])["detect"].to_pylist() == ["exit"]
    assert [event.detect for event in monitor.update_one(1, x=6.0)] == ["enter"]


@pytest.mark.parametrize("options", [{}, {"labels": True}])
def test_objects_that_get_other_numbers_before_few_rows_keep_their_names(options: dict[str, Any]) -> None:
    def refuse(_: Any) -> None:
        raise ZeroDivisionError

    def rows_of(objects: list[int], times: list[int], x: float) -> Any:
        return pa.table({"o": objects, "t": times, "x": [x] * len(objects)})

    rules = Rules()
    rules.add(1, "x > 3", detect="enter,exit")
    monitor = Monitor(rules, object="o", time="t", late=refuse, **options)
    monitor.update(rows_of([0], [100], 1.0))
    for first, is_first in ((1000, True), (3000, False)):
        with pytest.raises(ZeroDivisionError):  # what is refused leaves numbers that no object has
            monitor.update(rows_of([*range(first, first + 900), 0], [200] * 900 + [1], 1.0))
        if is_first:
            monitor.update(rows_of([7], [100], 1.0))
            monitor.update(rows_of([7], [101], 1.0))
    monitor._watch._until_tidy = 0
    events = monitor.update(rows_of([7, 0], [300, 300], 5.0))
    assert len(monitor._watch.state.objects) == 2
    assert events["object"].to_pylist() == [7, 0]


def test_times_that_python_has_no_values_for_are_written_by_the_short_way() -> None:
    rules, instants = Rules(), pa.timestamp("us", "UTC")
    rules.add(1, "x > 3 OR at < TIMESTAMP '2020-01-01 00:00:00Z'", detect="enter,exit")
    short, long = (Monitor(rules, object="o", time="t") for _ in range(2))
    long._watch.short_way = lambda: None  # type: ignore[method-assign]
    for number, x in enumerate([1.0, 5.0, 2.0]):
        times = pa.array([4 * 10**17 + number], instants)
        row = pa.table({"o": [1], "t": times, "x": [x], "at": times})
        assert short.update(row).equals(long.update(row))
    assert short.counters == long.counters


def test_the_rows_of_one_row_after_the_other_are_all_touched() -> None:
    journal, slots = Journal(), np.zeros(1, np.int64)
    for slot in (3, 5):
        slots[0] = slot
        journal.touch(slots)
    touched = journal.take_touched()
    assert touched is not None
    assert touched.tolist() == [3, 5]
