"""A call that fails half way has not happened: the same call again gives the events of a monitor that never failed."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.watching.state import State

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
WRITER = "fencepost.emitting.emitter.event_table"


def short_of_memory(*_: Any, **__: Any) -> Any:
    raise MemoryError


def rules_of_both() -> Rules:
    rules = Rules()
    for id in range(12):
        rules.add(id, f"x >= {id} AND x < {id + 3}", detect="inside,enter,exit,cross", initial=True)
    rules.add(20, "k = 'u' AND x < 5", detect="enter,exit")
    rules.add(30, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit,cross")
    rules.add(31, "left.price - right.price BETWEEN 2 AND 3 AND left.venue = right.venue", detect="enter,exit")
    return rules


def ticks(seed: int, start: int, rows: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "id": rng.integers(0, 15, rows),
        "ts": start + rng.integers(0, 20, rows),
        "x": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(-2, 16, rows) / 1.0),
        "k": [("u", "v", None)[at] for at in rng.integers(0, 3, rows)],
    }


def quotes(seed: int, start: int, rows: int = 30) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "id": rng.integers(0, 6, rows),
        "ts": start + rng.integers(0, 20, rows),
        "price": rng.integers(0, 40, rows) / 4,
        "venue": rng.choice(["X", "Y"], rows).tolist(),
    }


Step = Callable[[Monitor], Any]
STEPS: list[tuple[str, Step]] = [
    ("the first rows", lambda m: m.update(ticks(1, 0))),
    ("more rows, some late", lambda m: m.update(ticks(2, 15))),
    ("rows of bands", lambda m: m.update(left=quotes(3, 0), right=quotes(4, 0))),
    ("more rows of bands, some late", lambda m: m.update(left=quotes(5, 12), right=quotes(6, 12))),
    ("a rule added", lambda m: m.add(40, "x < 8", detect="enter,exit", initial=True)),
    ("a rule edited", lambda m: m.replace(3, "x < 4", detect="enter,exit", initial=True)),
    ("a rule with a new column", lambda m: m.replace(40, "k = 'u' AND y > 3", detect="enter,exit")),
    ("a rule removed", lambda m: m.remove(5)),
    ("many changes", lambda m: m.change(Rules.from_dicts([_edited(2), _edited(50)]), remove=[4, 31])),
    ("A band of new columns", lambda m: m.change(Rules.from_dicts([_new_band()]))),
    ("time", lambda m: m.advance(35)),
    ("a longer time", lambda m: m.advance(60)),
]


def _edited(id: int) -> dict[str, Any]:
    return {"id": id, "condition": f"x < {id % 9}", "detect": "enter,exit", "initial": True}


def _new_band() -> dict[str, Any]:
    return {"id": 32, "condition": "left.price - right.ask BETWEEN 0 AND 1", "detect": "enter,exit"}


def monitor_and_late() -> tuple[Monitor, list[Any]]:
    late: list[Any] = []
    return Monitor(rules_of_both(), object="id", time="ts", timeout=25, late=late.append), late


def known(monitor: Monitor) -> Any:
    """All that a monitor can be asked about."""
    inside = {}
    for id in (*range(12), 20, 30, 31, 32, 40, 50):
        if id in monitor._watch.rules:
            inside[id] = sorted(monitor.inside(id))
    return inside, monitor.counters, monitor._watch.state.count, [state.count for state in monitor._pairs.states]


@pytest.mark.filterwarnings("ignore:Nothing is known yet about the column:UserWarning")
def test_every_call_that_runs_out_of_memory_may_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (monitor, late), (twin, twins_late) = monitor_and_late(), monitor_and_late()
    failed = 0
    for what, step in STEPS:
        before = known(twin)
        with monkeypatch.context() as patched:
            patched.setattr(WRITER, short_of_memory)
            try:
                step(monitor)
            except MemoryError:
                failed += 1
            else:  # there was nothing to write
                assert step(twin).num_rows == 0, what
                continue
        assert known(monitor) == before, what
        assert len(late) == len(twins_late), what
        assert step(monitor).equals(step(twin)), what
        assert known(monitor) == known(twin), what
        assert [each.to_pylist() for each in late] == [each.to_pylist() for each in twins_late], what
    assert failed >= 9


@pytest.mark.parametrize("place", ["fencepost.pairing.batch.detections_of", "fencepost.indexes.ssi.index.take_steps"])
def test_bands_are_found_anew_after_an_update_that_failed_among_its_rows(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (monitor, _), (twin, _) = monitor_and_late(), monitor_and_late()
    for seed in range(3):
        rows = {"left": quotes(10 + seed, 10 * seed), "right": quotes(20 + seed, 10 * seed)}
        with monkeypatch.context() as patched:
            patched.setattr(place, short_of_memory)
            with pytest.raises(MemoryError):
                monitor.update(**rows)
        assert known(monitor) == known(twin)
        assert monitor.update(**rows).equals(twin.update(**rows))
    assert known(monitor) == known(twin)


def test_rules_of_bands_are_as_before_if_the_index_cannot_take_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    (monitor, _), (twin, _) = monitor_and_late(), monitor_and_late()
    for each in (monitor, twin):
        each.update(left=quotes(3, 0), right=quotes(4, 0))
    change = Rules.from_dicts([{**_new_band(), "condition": "left.price - right.price BETWEEN 0 AND 1"}])
    with monkeypatch.context() as patched:
        patched.setattr("fencepost.pairing.indexes.BandRules.put", short_of_memory)
        with pytest.raises(MemoryError):
            monitor.change(change, remove=[30])
    assert known(monitor) == known(twin)
    assert monitor.update(left=quotes(5, 9)).equals(twin.update(left=quotes(5, 9)))
    assert monitor.change(change, remove=[30]).equals(twin.change(change, remove=[30]))
    assert known(monitor) == known(twin)


def test_a_batch_whose_late_rows_cannot_be_told_is_not_taken() -> None:
    def broken(_: Any) -> None:
        raise OSError("no disk")

    monitor, twin = (Monitor(rules_of_both(), object="id", time="ts") for _ in range(2))
    for each in (monitor, twin):
        each.update(ticks(1, 10))
        each.update(left=quotes(3, 10), right=quotes(4, 10))
    monitor._watch._late = broken
    monitor._pairs.sides.late = lambda _side, table: broken(table)
    before = known(twin)
    calls: list[Step] = [
        lambda m: m.update(ticks(2, 0)),
        lambda m: m.update(left=quotes(5, 0), right=quotes(6, 0)),
        lambda m: m.update_one(int(ticks(1, 10)["id"][0]), -5, x=1.0),
    ]
    for call in calls:
        with pytest.raises(OSError, match="no disk"):
            call(monitor)
        assert known(monitor) == before


def late_that_fails(times: int) -> tuple[list[Any], Callable[[Any], None]]:
    """Late rows that were reported, by a callback that raises so many times first."""
    reported: list[Any] = []
    left = [times]

    def report(rows: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError("no disk")
        reported.append(rows.to_pylist())

    return reported, report


def test_a_batch_whose_late_rows_cannot_be_reported_may_be_given_again() -> None:
    calls: list[Step] = [
        lambda m: m.update(ticks(2, 0)),
        lambda m: m.update(left=quotes(5, 0), right=quotes(6, 0)),
        lambda m: m.update_one(int(ticks(1, 10)["id"][0]), -5, x=1.0),
        lambda m: m.update({**ticks(7, 0), "id": ticks(7, 0)["id"] + 7}),  # half of the objects are new
    ]
    for call in calls:
        monitors = []
        for times in (0, 2):
            reported, report = late_that_fails(times)
            monitor = Monitor(rules_of_both(), object="id", time="ts", late=report)
            monitor.update(ticks(1, 10))
            monitor.update(left=quotes(3, 10), right=quotes(4, 10))
            monitors.append((monitor, reported))
        (twin, twins), (monitor, own) = monitors
        before = known(twin)
        for _ in range(2):
            with pytest.raises(OSError, match="no disk"):
                call(monitor)
            assert known(monitor) == before
        got, expected = call(monitor), call(twin)
        assert got == expected if isinstance(got, list) else got.equals(expected)
        assert own == twins
        assert own
        assert known(monitor) == known(twin)


FIRST_BATCHES: list[tuple[Step, Step]] = [
    (
        lambda m: m.update({"id": ["a"], "ts": [1.5], "x": [1.0], "k": ["u"]}),
        lambda m: m.update({"id": [1], "ts": [EPOCH], "x": [1.0], "k": ["u"]}),
    ),
    (
        lambda m: m.update_one("a", 1.5, x=1.0),
        lambda m: m.update_one(1, EPOCH, x=1.0),
    ),
    (
        lambda m: m.update(
            left={"id": ["a"], "ts": [1.5], "price": [1.0], "venue": [1]},
            right={"id": ["a"], "ts": [1.5], "price": [1.0], "venue": [1]},
        ),
        lambda m: m.update(
            left={"id": [1], "ts": [EPOCH], "price": [1.0], "venue": ["X"]},
            right={"id": [2], "ts": [EPOCH], "price": [1.0], "venue": ["X"]},
        ),
    ),
]


@pytest.mark.parametrize(("wrong", "right"), FIRST_BATCHES)
@pytest.mark.parametrize("key", [(), "venue"])
def test_a_first_batch_that_fails_decides_no_types(
    wrong: Step, right: Step, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor, twin = (Monitor(rules_of_both(), object="id", time="ts", key=key) for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(WRITER, short_of_memory)
        with pytest.raises(MemoryError):
            wrong(monitor)
    with pytest.raises(FencepostError, match="before any row"):
        monitor.advance(5)
    assert known(monitor) == known(twin)
    got, expected = right(monitor), right(twin)
    assert got == expected if isinstance(got, list) else got.equals(expected)
    assert len(got) > 0
    for _, other in FIRST_BATCHES:
        if other is not right:
            got, expected = other(monitor), other(twin)
            assert got == expected if isinstance(got, list) else got.equals(expected)
    assert known(monitor) == known(twin)


def test_a_rule_that_failed_with_a_new_column_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    (monitor, _), (twin, _) = monitor_and_late(), monitor_and_late()
    for each in (monitor, twin):
        each.update(ticks(1, 0))
    with monkeypatch.context() as patched:
        patched.setattr(WRITER, short_of_memory)
        with pytest.warns(UserWarning, match="Nothing is known yet"), pytest.raises(MemoryError):
            monitor.replace(3, "y > 3", detect="enter,exit")
    assert monitor.remove(5).equals(twin.remove(5))
    assert monitor.update(ticks(2, 15)).equals(twin.update(ticks(2, 15)))
    assert known(monitor) == known(twin)


def test_one_row_that_fails_may_be_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.add(1, "x < 5 AND k = 'u'", detect="enter,exit,inside")
    rules.add(2, "y > 1", detect="enter,exit")
    monitor, twin = (Monitor(rules, object="id", time="ts") for _ in range(2))
    for each in (monitor, twin):
        each.update({"id": [7], "ts": [1], "x": [9.0], "y": [None], "k": ["u"]})
    rows: list[dict[str, Any]] = [
        {"x": 1.0},
        {"x": 2.0, "k": "v"},
        {"y": 3.0},
        {"x": 8.0, "y": 0.0},
        {"x": 1.0, "k": "u"},
    ]
    for place in (
        "fencepost.monitor.one_row.gather_moves",
        "fencepost.snapshot.few_moves.find_changes",
        "fencepost.emitting.emitter.event_id",
    ):
        for values in rows:
            time = twin.counters["rows"] + 1
            before = twin.counters, twin.inside(1), twin.inside(2), twin._watch.state.times[0]
            with monkeypatch.context() as patched:
                patched.setattr(place, short_of_memory)
                try:
                    monitor.update_one(7, time, **values)
                except MemoryError:
                    after = monitor.counters, monitor.inside(1), monitor.inside(2), monitor._watch.state.times[0]
                    assert after == before
                else:
                    assert twin.update_one(7, time, **values) == []
                    continue
            assert monitor.update_one(7, time, **values) == twin.update_one(7, time, **values)


# -- the number of objects ---------------------------------------------------------------------------------


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["store", "forget", "tidy", "room"]), st.sets(st.integers(0, 3000), max_size=6)),
        max_size=25,
    ),
    many=st.booleans(),
)
@settings(max_examples=60)
def test_present_objects_are_counted(steps: list[tuple[str, set[int]]], many: bool) -> None:
    state, present = State(), set[int]()
    state.track({"x": None}, ("k",))

    def store(objects: set[int]) -> None:
        array = pa.array(sorted(objects), pa.int64())
        slots = state.objects.slots(array, add=True)
        state.make_room()
        state.store(slots, np.array(sorted(objects)), state.positions(slots))
        present.update(objects)

    store(set(range(1500)) if many else {1})  # so many that tidying gives slots anew once most have gone
    for what, objects in steps:
        if what == "store" and objects:
            store(objects)
        elif what == "forget":
            chosen = sorted((objects | ({o for o in present if o % 7} if many else set())) & present)
            state.forget(state.objects.slots(pa.array(chosen, pa.int64()), add=False))
            present -= set(chosen)
        elif what == "tidy":
            state.tidy()
        else:
            state.make_room()
        assert state.count == len(state.here()) == len(present)
        assert sorted(state.objects.values(state.here()).to_pylist()) == sorted(present)
        assert sorted(state.times[state.here()].tolist()) == sorted(present)
    assert state.count == int(state.present.sum())


class Counted(np.ndarray[Any, Any]):
    """Counts the items that anything reads of it."""

    looked_at = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        Counted.looked_at += sum(each.size for each in inputs if isinstance(each, Counted))
        return getattr(ufunc, method)(*(np.asarray(each) for each in inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        Counted.looked_at += sum(each.size for each in args if isinstance(each, Counted))
        plain = [np.asarray(each) if isinstance(each, Counted) else each for each in args]
        return function(*plain, **kwargs)

    def __getitem__(self, item: Any) -> Any:
        found = np.asarray(self)[item]
        Counted.looked_at += np.size(found)
        return found


@pytest.mark.parametrize(("detect", "is_short"), [("enter,exit", True), ("enter,exit,cross", False)])
def test_an_update_of_one_row_does_not_look_at_all_objects(detect: str, is_short: bool) -> None:
    rules = Rules()
    rules.add(1, "x < 5", detect=detect)
    monitor = Monitor(rules, object="id", time="ts")
    objects = np.arange(5000)
    monitor.update({"id": objects, "ts": objects * 0, "x": objects * 1.0})
    monitor._watch.state.present = monitor._watch.state.present.view(Counted)
    Counted.looked_at = 0
    assert monitor.update({"id": [17], "ts": [1], "x": [2.0]}).num_rows == 1
    assert Counted.looked_at < 100
    assert is_short or Counted.looked_at > 0, "compiled code looks by address, which is not counted; the long way is"
