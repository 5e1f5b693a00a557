"""Bands in the Monitor against the naive replay, and every promise of their semantics by example."""

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.monitor import BandReason, Monitor
from fencepost.monitor.layers import Layers
from fencepost.rules import Rules
from tests.band_replay import ATTRIBUTES, COLUMNS, BandEvent, BandReplay, ReplayBand

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOWHERE = [
    ReplayBand(number, right, 1e300, None, (True, True), True, "none", "none", frozenset(["exit"]))
    for number, right in ((-1, "x"), (-2, "y"))
]
"""Makes both monitors know all columns from the start."""

Row = dict[str, Any]
coordinates = st.sampled_from(
    [0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 0.1, 0.2, 0.3, 2.5, 1e16, math.nextafter(2.0, 3.0), math.inf]
)
bounds = st.sampled_from([-2.0, -1.0, 0.0, 0.1, 0.2, 1.0, 2.0, 2.5, 1e16])


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
changes = st.one_of(
    st.tuples(st.just("put"), bands()),
    st.tuples(st.just("put"), bands()),
    st.tuples(st.just("remove"), st.integers(1, 4)),
    st.tuples(st.just("many"), st.tuples(st.lists(bands(), max_size=3), st.sets(st.integers(1, 4), max_size=2))),
    st.tuples(st.just("advance"), st.integers(-2, 8)),  # after the latest so far
)
scripts = st.lists(
    st.one_of(st.tuples(st.just("rows"), batches), st.tuples(st.just("rows"), batches), changes), max_size=12
)


def options(rule: ReplayBand) -> dict[str, Any]:
    expires = None if rule.expires is None else EPOCH + timedelta(microseconds=rule.expires)
    detect = ",".join(sorted(rule.detect))
    return {"detect": detect, "initial": rule.initial, "expires": expires, "enabled": rule.enabled}


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
    return pa.table(columns)


def events_of(table: Any) -> list[BandEvent]:
    found = []
    for event in table.to_pylist():
        before, after = {n: event[f"{n}_before"] for n in ATTRIBUTES}, {n: event[n] for n in ATTRIBUTES}
        time = (event["time"] - EPOCH) // timedelta(microseconds=1)
        named = {name: event[name] for name in BandEvent._fields if name not in ("time", "before", "after")}
        found.append(BandEvent(**named, time=time, before=before, after=after))
    return found


def by_pair(events: list[BandEvent]) -> dict[Any, list[BandEvent]]:
    """The events of every pair and rule, in their order."""
    grouped: dict[Any, list[BandEvent]] = {}
    for event in events:
        grouped.setdefault((event.object, event.other, event.rule_id), []).append(event)
    return grouped


class Twins:
    """A monitor and the replay, given the same and compared."""

    def __init__(
        self, first: str = "enter", timeout: int | None = None, sequenced: bool = False, strings: bool = False
    ) -> None:
        self.settings = {
            "object": "object",
            "time": "time",
            "sequence": "sequence" if sequenced else None,
            "first": first,
            "timeout": None if timeout is None else timedelta(microseconds=timeout),
            "deleted": "deleted",
        }
        self.strings = strings
        self.replay = BandReplay(first=first, timeout=timeout, sequenced=sequenced)
        self.rules = Rules()
        for rule in NOWHERE:
            self.replay.put(rule)
            self.rules.add(rule.id, rule.condition(), **options(rule))
        self.monitor = Monitor(self.rules, **self.settings)  # type: ignore[arg-type]
        self.now = self.total = 0

    def play(self, action: str, argument: Any) -> None:
        if action == "rows":
            expected, got = self._rows(*argument)
        elif action == "advance":
            if not self.monitor._clock.type:
                return
            expected = self.replay.advance(self.now + argument)
            got = self.monitor.advance(EPOCH + timedelta(microseconds=self.now + argument))
            self.now = max(self.now, self.now + argument)
        elif action == "remove":
            if argument not in self.replay.rules:
                return
            expected, got = self.replay.remove(argument), self.monitor.remove(argument)
        elif action == "many":
            put = {rule.id: rule for rule in argument[0]}
            remove = [id for id in argument[1] if id in self.replay.rules and id not in put]
            expected = [event for id in remove for event in self.replay.remove(id)]
            many = Rules()
            for rule in put.values():
                expected += self.replay.put(rule)
                many.add(rule.id, rule.condition(), **options(rule))
            got = self.monitor.change(many, remove)
        else:
            verb = self.monitor.replace if argument.id in self.replay.rules else self.monitor.add
            expected = self.replay.put(argument)
            got = verb(argument.id, argument.condition(), **options(argument))
        assert by_pair(events_of(got)) == by_pair(expected)
        self.total += len(expected)
        self._compare()

    def _rows(self, left: list[Row], right: list[Row]) -> tuple[list[BandEvent], Any]:
        timed: list[list[Row]] = []
        start = self.now
        for drawn in (left, right):
            timed.append([])
            for row in drawn:
                time = None if row["time"] is None else start + row["time"]
                self.now = self.now if time is None else max(self.now, time)
                timed[-1].append({**row, "time": time})
        named = [[{**row, "object": self._name(row["object"])} for row in own] for own in timed]
        expected = self.replay.update(*named)
        got = self.monitor.update(
            left=table_of("left", timed[0], self.strings), right=table_of("right", timed[1], self.strings)
        )
        times = [event.time for event in events_of(got) if event.reason is None]
        assert times == sorted(times)
        return expected, got

    def _name(self, object: int | None) -> Any:
        return f"row {object}" if self.strings and object is not None else object

    def _compare(self) -> None:
        for id, rule in self.replay.rules.items():
            if rule.enabled:
                inside = self.monitor.inside(id)
                assert set(inside) == self.replay.inside(id)
                assert len(inside) == len(set(inside))
        counters = self.monitor.counters
        assert [counters[n] for n in ("rows", "late", "null")] == [
            self.replay.rows,
            self.replay.late,
            self.replay.null,
        ]
        assert sum(counters["events"].values()) == self.total


@settings(max_examples=150)
@given(
    scripts,
    st.sampled_from(["enter", "silent"]),
    st.one_of(st.none(), st.none(), st.integers(1, 12)),
    st.booleans(),
    st.booleans(),
)
def test_every_script_gives_the_events_of_the_replay(
    script: list[tuple[str, Any]], first: str, timeout: int | None, sequenced: bool, strings: bool
) -> None:
    twins = Twins(first, timeout, sequenced, strings)
    for action, argument in script:
        twins.play(action, argument)


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
    )


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


@pytest.mark.parametrize(
    ("seed", "first", "timeout", "strings"),
    [(1, "enter", None, False), (2, "silent", None, True), (3, "enter", 40, False), (4, "enter", 10, True)],
)
def test_long_runs_with_live_changes_equal_the_replay(
    seed: int, first: str, timeout: int | None, strings: bool
) -> None:
    rng = random.Random(seed)  # noqa: S311
    twins = Twins(first, timeout, seed % 2 == 0, strings)
    for _ in range(12):
        twins.play("put", random_band(rng, 12))
    for _ in range(45):
        twins.play("rows", (random_rows(rng, 8), random_rows(rng, 8)))
        chance = rng.random()
        if chance < 0.5:
            twins.play("put", random_band(rng, 12))
        elif chance < 0.6:
            twins.play("remove", rng.randint(1, 12))
        elif chance < 0.7:
            twins.play("many", ([random_band(rng, 12) for _ in range(4)], {rng.randint(1, 12)}))
        elif chance < 0.8:
            twins.play("advance", rng.randint(-2, 6))
    assert twins.total > 500


def test_a_state_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    rng = random.Random(9)  # noqa: S311
    twins = Twins(timeout=60)
    same = Rules()
    for rule in NOWHERE:
        same.add(rule.id, rule.condition(), **options(rule))
    for id in range(1, 8):
        rule = random_band(rng, 1)
        rule = ReplayBand(*(id, *list(rule.__dict__.values())[1:-1]))
        twins.play("put", rule)
        same.add(rule.id, rule.condition(), **options(rule))
    for round_ in range(12):
        twins.play("rows", (random_rows(rng, 6), random_rows(rng, 6)))
        twins.monitor.save(tmp_path / f"{round_}")
        restored = Monitor(same, **twins.settings)  # type: ignore[arg-type]
        restored.restore(tmp_path / f"{round_}")
        twins.monitor = restored
        twins._compare()


# -- by example --------------------------------------------------------------------------------------------


def monitor_of(condition: str, detect: str = "enter,exit", **settings: Any) -> Monitor:
    rules = Rules()
    rules.add(1, condition, detect=detect)
    return Monitor(rules, **{"object": "id", "time": "ts", **settings})


def told(table: Any) -> list[tuple[Any, ...]]:
    return [(e["detect"], e["object"], e["other"], e["time"], e["reason"]) for e in table.to_pylist()]


CLOSE = "left.price - right.price BETWEEN -1 AND 1"


def test_left_rows_come_first_at_one_time_and_nothing_is_netted() -> None:
    monitor = monitor_of(CLOSE)
    events = monitor.update(
        left={"id": [1, 1], "ts": [1, 2], "price": [10.0, 20.0]},
        right={"id": [7, 7], "ts": [1, 2], "price": [10.5, 20.5]},
    )
    assert told(events) == [("enter", 1, 7, 1, None), ("exit", 1, 7, 2, None), ("enter", 1, 7, 2, None)]
    assert events["price"].to_pylist() == [10.5, 20.0, 20.5]
    assert events["price_before"].to_pylist() == [None, 10.0, 10.5]


def test_either_side_may_come_alone() -> None:
    monitor = monitor_of(CLOSE)
    assert told(monitor.update(left={"id": [1], "ts": [1], "price": [10.0]})) == []
    assert told(monitor.update(right={"id": [7], "ts": [0], "price": [10.0]})) == [("enter", 1, 7, 0, None)]
    assert monitor.inside(1) == [(1, 7)]


def test_a_deleted_row_leaves_and_comes_back_as_new() -> None:
    monitor = monitor_of(CLOSE, deleted="gone")
    monitor.update(left={"id": [1], "ts": [1], "price": [10.0], "gone": [False]})
    monitor.update(right={"id": [7], "ts": [1], "price": [10.0], "gone": [None]})
    events = monitor.update(left={"id": [1], "ts": [2], "price": [None], "gone": [True]})
    assert told(events) == [("exit", 1, 7, 2, None)]
    assert events["price"].to_pylist() == [None]
    assert events["price_before"].to_pylist() == [10.0]
    assert monitor.inside(1) == []
    assert told(monitor.update(left={"id": [1], "ts": [3], "price": [None], "gone": [False]})) == []
    assert monitor.counters["null"] == 1  # nothing is known of it any more, and nothing was told
    again = monitor.update(left={"id": [1], "ts": [3], "price": [10.0], "gone": [False]})
    assert told(again) == [("enter", 1, 7, 3, None)]


def test_without_time_rows_are_counted_also_after_a_deletion() -> None:
    rows: dict[str, list[Any]] = {
        "id": [1, 1, 1, 1],
        "price": [10.0, 10.0, 10.0, 11.0],
        "gone": [False, True, False, False],
    }
    whole, single = (monitor_of(CLOSE, "enter,exit,inside", time=None, deleted="gone") for _ in range(2))
    for monitor in (whole, single):
        monitor.update(right={"id": [7], "price": [10.0], "gone": [False]})
    at_once = told(whole.update(left=rows))
    one_by_one = []
    for at in range(4):
        one_by_one += told(single.update(left={name: column[at : at + 1] for name, column in rows.items()}))
    assert at_once == one_by_one
    assert [event[3] for event in at_once if event[0] == "enter"] == [1, 1]


def test_the_events_are_the_same_whatever_the_batching() -> None:
    rng = random.Random(5)  # noqa: S311
    rows = [(side, t, rng.randrange(6), round(rng.uniform(0, 5), 1)) for t in range(200) for side in ("left", "right")]
    found = []
    for size in (1, 7, 400):
        monitor = monitor_of(CLOSE, "enter,exit,cross,inside")
        ids: list[str] = []
        for start in range(0, len(rows), size):
            batch = {
                side: {
                    "id": [row[2] for row in rows[start : start + size] if row[0] == side],
                    "ts": pa.array([row[1] for row in rows[start : start + size] if row[0] == side], pa.int64()),
                    "price": pa.array([row[3] for row in rows[start : start + size] if row[0] == side], pa.float64()),
                }
                for side in ("left", "right")
            }
            ids += monitor.update(**batch)["event_id"].to_pylist()
        found.append(ids)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 500


@pytest.mark.parametrize(
    ("condition", "schema", "left", "right", "expected"),
    [
        ("left.x - right.x <= 1", {"x": "bigint"}, 2**63 - 1, 2**63 - 2, True),
        ("left.x - right.x <= 1", {"x": "bigint"}, 2**63 - 1, -(2**63), False),
        ("left.x - right.x > 9007199254740993", {"x": "bigint"}, 2**53 + 1, 0, False),
        ("left.x - right.x BETWEEN 0.01 AND 0.02", {"x": "decimal(10,2)"}, Decimal("1.01"), Decimal("1.00"), True),
        ("left.x - right.x < 0.01", {"x": "decimal(10,2)"}, Decimal("1.01"), Decimal("1.00"), False),
        ("left.x - right.x <= 1", {"x": "date"}, date(2024, 3, 1), date(2024, 2, 29), True),
        ("left.x - right.x < INTERVAL '5' SECOND", {"x": "timestamp"}, EPOCH + timedelta(seconds=5), EPOCH, False),
        ("left.x - right.x <= 0.2", None, 0.3, 0.1, True),
        ("left.x - right.x >= 0.2", None, 0.3, 0.1, False),
        ("left.x - right.x < 1e308", None, 1e308, -1e308, False),
        ("left.x - right.x > 0", None, math.inf, 1.0, False),
    ],
)
def test_differences_are_exact_in_every_type(
    condition: str, schema: Any, left: Any, right: Any, expected: bool
) -> None:
    monitor = monitor_of(condition, time=None, schema=schema)
    events = monitor.update(left={"id": ["a"], "x": [left]}, right={"id": ["b"], "x": [right]})
    assert events.num_rows == expected


def test_keys_may_be_numbers_and_must_have_one_type() -> None:
    monitor = monitor_of(f"{CLOSE} AND left.lot = right.lot", time=None)
    events = monitor.update(
        left={"id": ["a", "b"], "price": [1.0, 1.0], "lot": pa.array([5, 6], pa.int32())},
        right={"id": ["c"], "price": [1.0], "lot": pa.array([5], pa.int64())},
    )
    assert [(e["object"], e["other"]) for e in events.to_pylist()] == [("a", "c")]
    with pytest.raises(FencepostError, match=r"right.lot as string; expected bigint, as in the rows before"):
        monitor.update(right={"id": ["c"], "price": [1.0], "lot": ["5"]})
    fresh = monitor_of(f"{CLOSE} AND left.lot = right.lot", time=None)
    with pytest.raises(FencepostError, match=r"left.lot as bigint and right.lot as string; expected one type"):
        fresh.update(left={"id": ["a"], "price": [1.0], "lot": [5]}, right={"id": ["c"], "price": [1.0], "lot": ["5"]})
    assert fresh.counters["rows"] == 0


def test_boxes_and_bands_live_in_one_monitor() -> None:
    rules = Rules()
    rules.add(1, CLOSE, detect="enter,exit")
    rules.add(2, "price > 100", detect="enter,exit")
    monitor = Monitor(rules, object="id", time="ts")
    assert told(monitor.update({"id": ["a"], "ts": [1], "price": [101.0]})) == [("enter", "a", None, 1, None)]
    monitor.update(left={"id": ["a"], "ts": [1], "price": [5.0]}, right={"id": ["b"], "ts": [1], "price": [5.0]})
    both = monitor.change(remove=[1, 2])
    assert sorted(told(both), key=str) == [("exit", "a", "b", 1, "removed"), ("exit", "a", None, 1, "removed")]
    assert monitor.counters["events"]["exit"] == 2
    assert monitor.counters["rows"] == 3
    monitor.add(3, "price > 0", detect="exit")
    monitor.add(4, CLOSE, detect="exit")
    turned = monitor.replace(3, CLOSE, detect="exit")
    assert told(turned) == [("exit", "a", None, 1, "edited")]
    assert monitor.inside(3) == monitor.inside(4) == [("a", "b")]
    assert told(monitor.replace(4, "price > 0", detect="exit")) == [("exit", "a", "b", 1, "edited")]


def test_objects_of_boxes_and_left_rows_have_one_type() -> None:
    rules = Rules()
    rules.add(1, CLOSE)
    rules.add(2, "price > 100")
    one, other = (Monitor(rules, object="id") for _ in range(2))
    one.update({"id": ["a"], "price": [1.0]})
    with pytest.raises(FencepostError, match="left rows named by int64 beside objects of type string"):
        one.update(left={"id": [5], "price": [5.0]})
    other.update(left={"id": [5], "price": [5.0]}, right={"id": ["b"], "price": [5.0]})
    with pytest.raises(FencepostError, match="objects of type string beside left rows named by int64"):
        other.update({"id": ["a"], "price": [1.0]})
    assert (one.counters["rows"], other.counters["rows"]) == (1, 2)


def test_an_operator_for_one_stream_leaves_bands_out() -> None:
    rules = Rules()
    rules.add(1, "left.volume - right.volume > 1")
    rules.add(2, "price > 100", detect="enter,exit")
    monitor = Monitor.__new__(Monitor)
    monitor._begin(Layers(rules.compile(), None), "id", None, None, "enter", None, None)
    names = monitor.update({"id": [1], "price": [101.0]}).schema.names
    assert monitor._follow(monitor._layers.following(rules.compile())).schema.names == names
    assert "volume" not in names


def test_both_kinds_end_by_one_marker() -> None:
    rules = Rules()
    rules.add(1, CLOSE, detect="exit", expires=EPOCH + timedelta(seconds=5))
    rules.add(2, "price > 0", detect="exit", expires=EPOCH + timedelta(seconds=5))
    monitor = Monitor(rules, object="id", time="ts")
    row = {"id": [1], "ts": [EPOCH], "price": [5.0]}
    monitor.update(row)
    monitor.update(left=row, right=row)
    events = monitor.advance(EPOCH + timedelta(seconds=6))
    assert [(e["rule_id"], e["other"], e["reason"]) for e in events.to_pylist()] == [
        (2, None, "expired"),
        (1, 1, "expired"),
    ]
    assert set(events["time"].to_pylist()) == {EPOCH + timedelta(seconds=5)}
    assert monitor.inside(1) == []


def test_follow_takes_the_bands_of_another_snapshot() -> None:
    monitor = monitor_of(CLOSE)
    monitor.update(left={"id": [1], "ts": [1], "price": [5.0]}, right={"id": [2], "ts": [3], "price": [5.0]})
    rules = Rules()
    rules.add(2, "left.price - right.price > -10", detect="enter", initial=True)
    assert told(monitor.follow(rules.compile())) == [("exit", 1, 2, 3, "removed"), ("enter", 1, 2, 3, "initial")]
    other = Rules()
    other.add(2, "left.price - right.price > -10")
    with pytest.raises(FencepostError, match="rules that have price as bigint; expected double, as the rules until"):
        monitor.follow(other.compile({"price": "bigint"}))
    assert monitor.inside(2) == [(1, 2)]


def test_why_tells_the_band() -> None:
    monitor = monitor_of(f"{CLOSE} AND left.symbol = right.symbol AND left.side = 'bid'")
    events = monitor.update(
        left={"id": [1], "ts": [1], "price": [5.0], "symbol": ["x"], "side": ["bid"]},
        right={"id": [2], "ts": [3], "price": [5.5], "symbol": ["x"]},
    )
    reason = monitor.why(events.to_pylist()[0])
    assert isinstance(reason, BandReason)
    assert (reason.lower, reason.upper, reason.before, reason.after) == (-1.0, 1.0, {"price": None}, {"price": 5.5})
    assert str(reason).splitlines() == [
        "1 and 2: enter of rule 1 (version 1)",
        "  price: None -> 5.5",
        "  -1.0 <= left.price - right.price <= 1.0",
        "  left.symbol = right.symbol",
        "  left.side = 'bid'",
    ]


def test_late_rows_of_each_side_are_offered() -> None:
    late: list[Any] = []
    monitor = monitor_of(CLOSE, late=late.append)
    row = {"id": [1], "ts": [5], "price": [5.0]}
    monitor.update(left=row, right=row)
    monitor.update(left={"id": [1], "ts": [4], "price": [9.0]}, right={"id": [1, 2], "ts": [3, 3], "price": [9.0, 5.0]})
    assert [table.num_rows for table in late] == [1, 1]
    assert monitor.counters["late"] == 2
    assert sorted(monitor.inside(1)) == [(1, 1), (1, 2)]


def test_many_objects_that_go_leave_no_trace() -> None:
    monitor = monitor_of(f"{CLOSE} AND left.k = right.k", timeout=5)
    for start in range(0, 4000, 1000):
        ids = list(range(start, start + 1000))
        rows = {"id": ids, "ts": [start] * 1000, "price": [float(id) for id in ids], "k": [str(id) for id in ids]}
        events = monitor.update(left=rows, right=rows)
        assert events.num_rows == 1000
        assert monitor.advance(start + 5).num_rows == 1000
    assert len(monitor._bands.states[0].objects) < 3000
    assert len(monitor._bands.states[0].strings["k"]) < 3000


ROW = {"id": [1], "ts": [1], "price": [5.0]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "got no rows; expected a table, or left= or right="),
        ({"data": ROW, "left": ROW}, "got a table beside left or right; expected the one or the other"),
        ({"left": {"id": [1], "ts": [1]}}, "a table without the column price"),
        ({"right": {"id": [1], "price": [1.0]}}, "a table without the column ts"),
        ({"left": ROW, "right": {"ts": [1], "price": [1.0]}}, "a table without the column id"),
        ({"left": {**ROW, "price": ["x"]}}, "price"),
        ({"left": ROW, "right": {**ROW, "ts": [EPOCH]}}, "ts"),
        ({"left": {**ROW, "gone": [1]}}, "gone of type int64; expected booleans"),
        ({"left": {**ROW, "gone": [True], "id": [[1]]}}, "objects of type list"),
        ({"left": 5}, "got a int; expected an Arrow table"),
    ],
)
def test_rows_that_are_refused_change_nothing(given: dict[str, Any], message: str) -> None:
    monitor = monitor_of(CLOSE, deleted="gone")
    for side in ("left", "right", "data"):
        if isinstance(given.get(side), dict):
            given = {**given, side: {"gone": [False], **given[side]}}
    with pytest.raises(FencepostError, match=message.replace("[", r"\[")):
        monitor.update(**given)
    assert monitor.counters["rows"] == 0
    row = {**ROW, "gone": [False]}
    assert monitor.update(left=row, right=row).num_rows == 1


@pytest.mark.parametrize(
    ("condition", "options", "message"),
    [
        ("left.price - right.price BETWEEN 2 AND 1", {}, "never"),
        ("left.price - right.volume > 1 OR left.price - right.price > 3", {}, "rule 5|single range"),
        (CLOSE, {"expires": EPOCH}, "rule 5, which expires"),
        (CLOSE, {"detect": "leave"}, "detect='leave'"),
        ("left.x - right.x >= 18446744073709551616", {}, "rule 5 with a bound of 18446744073709551616 units"),
        ("left.reason - right.reason > 1", {}, "an attribute 'reason'"),
        (f"{CLOSE} AND left.price = 'x'", {}, "price"),
    ],
)
def test_bands_that_are_refused_change_nothing(condition: str, options: dict[str, Any], message: str) -> None:
    monitor = monitor_of(CLOSE, schema={"price": "double", "x": "bigint", "volume": "double", "reason": "double"})
    monitor.update(left=ROW, right=ROW)
    with pytest.raises(FencepostError, match=message):
        monitor.add(5, condition, **options)
    with pytest.raises(FencepostError, match="rule 5"):
        monitor.inside(5)
    with pytest.raises(FencepostError, match="rule 1 a second time"):
        monitor.add(1, CLOSE)
    assert monitor.inside(1) == [(1, 1)]
    assert told(monitor.remove(1)) == [("exit", 1, 1, 1, "removed")]
    with pytest.raises(FencepostError, match="rule 1"):
        monitor.remove(1)


def test_a_state_of_other_columns_is_refused(tmp_path: Path) -> None:
    monitor = monitor_of(CLOSE)
    monitor.update(left=ROW, right=ROW)
    monitor.save(tmp_path / "state")
    with pytest.raises(FencepostError, match="price as bigint; expected double"):
        monitor_of(CLOSE, schema={"price": "bigint"}).restore(tmp_path / "state")


def quotes(rng: random.Random, start: int) -> pa.Table:
    count = 40
    return pa.table(
        {
            "venue": pa.array([rng.randrange(4) for _ in range(count)], pa.int32()),
            "symbol": pa.array([rng.choice(["SAP", "BMW", None]) for _ in range(count)]),
            "desk": pa.array([rng.randrange(2) for _ in range(count)]),
            "ts": pa.array([start + n // 3 for n in range(count)]),
            "seq": pa.array([100 * start + n for n in range(count)]),
            "price": pa.array([rng.choice([None, rng.randrange(8) / 2]) for _ in range(count)], pa.float64()),
            "gone": pa.array([rng.random() < 0.1 for _ in range(count)]),
        }
    )


@pytest.mark.parametrize("key", ["symbol", ["symbol", "desk"]])
def test_a_key_is_a_monitor_for_each_of_its_values(key: Any, tmp_path: Path) -> None:
    rng = random.Random(11)  # noqa: S311
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit,inside")
    rules.add(2, "left.price - right.price > 0 AND left.symbol = 'SAP'", detect="enter,exit,cross")
    rules.add(3, "left.price - right.price < 2 AND left.symbol = right.symbol AND right.symbol = 'BMW'", detect="enter")
    settings: dict[str, Any] = {"object": "venue", "time": "ts", "deleted": "gone"}
    keyed = Monitor(rules, **settings, key=key)
    columns = [key] if isinstance(key, str) else key
    apart: dict[Any, Monitor] = {}
    for start in range(0, 120, 14):
        left, right = quotes(rng, start), quotes(rng, start)
        expected = []
        for values in sorted({tuple(row[c] for c in columns) for t in (left, right) for row in t.to_pylist()}, key=str):
            if None in values:
                continue
            monitor = apart.setdefault(values, Monitor(rules, **settings))

            def own(table: pa.Table, values: Any = values) -> pa.Table:
                return table.filter(pa.array([tuple(row[c] for c in columns) == values for row in table.to_pylist()]))

            for row in monitor.update(left=own(left), right=own(right)).to_pylist():
                expected.append({**row, **dict(zip(columns, values, strict=True))})
        told = keyed.update(left=left, right=right)
        assert told.schema.names[-len(columns) :] == columns
        assert sorted(map(str, told.to_pylist())) == sorted(map(str, expected))
        if start == 42:
            keyed.save(tmp_path / "state")
            keyed = Monitor(rules, **settings, key=key)
            keyed.restore(tmp_path / "state")
    removed = keyed.remove(1)
    assert removed.num_rows == sum(monitor.remove(1).num_rows for monitor in apart.values()) > 0
    with pytest.raises(FencepostError, match="got a Monitor with key=None; expected key="):
        Monitor(rules, **settings).restore(tmp_path / "state")
    with pytest.raises(FencepostError, match="got key='price', which events have as a column already"):
        Monitor(rules, **settings, key="price")


def test_rules_alone_name_the_row_that_moved_once() -> None:
    rng = random.Random(12)  # noqa: S311
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit,inside")
    rules.add(2, "left.price - right.price > 1", detect="enter,exit")
    settings: dict[str, Any] = {"object": "venue", "time": "ts", "deleted": "gone", "key": "symbol", "sequence": "seq"}
    pairs, alone = Monitor(rules, **settings), Monitor(rules, **settings, report="rules")
    said = ("rule_id", "detect", "time", "symbol", "price_before", "price")

    def compare(every: pa.Table, once: pa.Table) -> None:
        assert {tuple(row[c] for c in said) for row in every.to_pylist()} == {
            tuple(row[c] for c in said) for row in once.to_pylist()
        }
        assert all((row["object"] is None) != (row["other"] is None) for row in once.to_pylist())
        assert len(set(once["event_id"].to_pylist())) == once.num_rows

    for start in range(0, 60, 14):
        tables = {"left": quotes(rng, start), "right": quotes(rng, start)}
        compare(pairs.update(**tables), alone.update(**tables))
    compare(pairs.remove(2), alone.remove(2))
    assert alone.counters["events"]["inside"] < pairs.counters["events"]["inside"]
    with pytest.raises(FencepostError, match="got report='all'; expected 'pairs' or 'rules'"):
        Monitor(rules, **settings, report="all")  # type: ignore[arg-type]
