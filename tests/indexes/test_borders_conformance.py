"""One suite for every border structure: equal to a naive replay, in one to four dimensions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencepost.errors import FencepostError
from fencepost.indexes import (
    ACEI,
    BMQ,
    CEI,
    LCI,
    SCI,
    UI,
    Borders,
    Crossings,
    DiffRMQ,
    ISList,
    Linear,
    Matches,
    SliceList,
)
from fencepost.indexes.arguments import shown
from fencepost.indexes.borders.moves import find_moves
from fencepost.indexes.contracts.borders import BorderIndex
from fencepost.indexes.kernels.vectors import aligned_empty
from fencepost.indexes.matches import Storage
from tests.effort import examples
from tests.oracle import BorderOracle, Point
from tests.strategies import DOMAIN, coordinates, intervals

Make = Callable[[], BorderIndex]


class LinearBoxes:
    """A box index as small as can be: every box is compared with every point."""

    def __init__(self, dimensions: int) -> None:
        self.boxes: dict[int, tuple[Any, Any]] = {}
        self.dimensions = dimensions

    def insert_many(self, ids: Any, los: Any, his: Any, bounds: Any = None) -> None:
        assert bounds in (None, "[)")
        for position, (id, low, high) in enumerate(zip(ids.tolist(), los, his, strict=True)):
            entry = f"interval {id} with lo={shown(float(low[0]))}, hi={shown(float(high[0]))}"
            if np.isnan([*low, *high]).any():
                raise FencepostError(entry, "bounds that are numbers", "Use None.")
            if not (low < high).all():
                raise FencepostError(entry, "lo < hi", "Swap them.")
            if id in self.boxes:
                raise FencepostError(f"id {id} is in the index already", "a new id", "Remove it.")
            if id in ids[:position]:
                raise FencepostError(f"id {id} twice in one call", "each id once", "Drop one.")
        self.boxes |= {int(id): (low, high) for id, low, high in zip(ids, los, his, strict=True)}

    def remove_many(self, ids: Any) -> None:
        for position, id in enumerate(ids.tolist()):
            if id not in self.boxes or id in ids[:position]:
                twice = " twice" if id in self.boxes else ""
                raise FencepostError(f"id {id} to remove{twice}", "the id of an interval in the index", "Check it.")
        for id in ids.tolist():
            del self.boxes[id]

    def stab(self, points: Any) -> Matches:
        rows = [
            [id for id, (low, high) in self.boxes.items() if ((low <= p) & ((p < high) | np.isposinf(high))).all()]
            for p in points
        ]
        return Matches(np.cumsum([0, *map(len, rows)]), np.array([id for row in rows for id in row], np.int64))

    def check(self) -> None:
        pass

    def storage(self) -> Storage:
        return Storage(1, len(self.boxes), 0, 0)

    def __len__(self) -> int:
        return len(self.boxes)

    def __contains__(self, id: object) -> bool:
        return id in self.boxes


class BordersWithoutCross(Borders):
    """Borders that are never asked for what is jumped over."""

    def crossings(self, *args: Any, **options: Any) -> Crossings:
        return super().crossings(*args, **{"cross": False, **options})

    def update(self, *args: Any, **options: Any) -> Crossings:
        return super().update(*args, **{"cross": False, **options})


def subjects() -> list[Any]:
    """Every structure in every number of dimensions."""
    found: dict[str, tuple[int, Make]] = {}
    stabbing: dict[str, Callable[[], Any]] = {
        "Linear": Linear,
        "UI": lambda: UI(DOMAIN),
        "SCI": lambda: SCI(DOMAIN, 8),
        "LCI": lambda: LCI(DOMAIN, 8),
        "CEI": lambda: CEI(DOMAIN, 8),
        "ACEI": lambda: ACEI(DOMAIN, 8, 4),
        "ISList": ISList,
        "SliceList": SliceList,
    }
    for name, make in stabbing.items():
        found[f"DiffRMQ({name})"] = (1, lambda make=make: DiffRMQ(make()))  # type: ignore[misc]
    found["DiffRMQ(CEI, keep)"] = (1, lambda: DiffRMQ(CEI(DOMAIN, 8), keep=True))
    for d in (1, 2, 3, 4):
        found[f"BMQ({d})"] = (d, lambda d=d: BMQ(d))  # type: ignore[misc]
        found[f"Borders({d})"] = (d, lambda d=d: Borders(d, values="float64"))  # type: ignore[misc]
        if d > 1:
            found[f"Borders({d}), no cross"] = (d, lambda d=d: BordersWithoutCross(d, values="float64"))  # type: ignore[misc]
            found[f"DiffRMQ(LinearBoxes({d}))"] = (d, lambda d=d: DiffRMQ(LinearBoxes(d), d))  # type: ignore[misc]
    found["DiffRMQ(LinearBoxes(2), keep)"] = (2, lambda: DiffRMQ(LinearBoxes(2), 2, keep=True))
    return [pytest.param(d, make, id=name) for name, (d, make) in found.items()]


def flat(point: Any, d: int) -> Any:
    """A position as the contract takes it: a number on one axis."""
    return point[0] if d == 1 else point


def points(d: int, missing: bool = True) -> st.SearchStrategy[Point]:
    special = st.sampled_from([math.inf, -math.inf, math.nan] if missing else [math.inf, -math.inf])
    one = st.one_of(coordinates(), coordinates(), coordinates(), coordinates(), special)
    return st.tuples(*[one] * d)


@st.composite
def boxes(draw: st.DrawFn, d: int) -> tuple[Point, Point]:
    sides = [draw(intervals(points=False)) for _ in range(d)]
    return tuple(low for low, _ in sides), tuple(high for _, high in sides)


def assert_rows(found: Crossings, expected: list[tuple[set[int], set[int], set[int]]], rows: list[Any]) -> None:
    for kind, (name, answer) in enumerate(found._asdict().items()):
        if answer is None:
            continue
        assert len(answer) == len(expected)
        for row, (ids, wanted) in enumerate(zip(answer, expected, strict=True)):
            assert sorted(ids.tolist()) == sorted(wanted[kind]), f"{name} of {rows[row]}"


class Traffic(RuleBasedStateMachine):
    """Rules come and go, objects move and leave; everything is compared with a replay row by row."""

    d: int
    make: Make

    def __init__(self) -> None:
        super().__init__()
        self.index = type(self).make()
        self.oracle = BorderOracle()

    @rule(id=st.integers(-3, 12), data=st.data())
    def insert(self, id: int, data: st.DataObject) -> None:
        low, high = data.draw(boxes(self.d))
        if id in self.oracle.rules:
            with pytest.raises(FencepostError, match=f"Id {id} is in the index already"):
                self.index.insert(id, flat(low, self.d), flat(high, self.d))
        else:
            self.index.insert(id, flat(low, self.d), flat(high, self.d))
            self.oracle.rules[id] = (low, high, "[)")

    @rule(data=st.data(), first=st.sampled_from([100, 200, 10**9]))
    def insert_many(self, data: st.DataObject, first: int) -> None:
        drawn = data.draw(st.lists(boxes(self.d), max_size=12))
        ids = list(range(first, first + len(drawn)))
        if set(ids) & set(self.oracle.rules):
            return
        self.index.insert_many(ids, [flat(low, self.d) for low, _ in drawn], [flat(high, self.d) for _, high in drawn])
        self.oracle.rules |= {id: (*box, "[)") for id, box in zip(ids, drawn, strict=True)}

    @precondition(lambda self: self.oracle.rules)
    @rule(data=st.data())
    def remove_many(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.oracle.rules)), unique=True, min_size=1, max_size=6))
        self.index.remove_many(ids)
        for id in ids:
            del self.oracle.rules[id]

    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.tuples(st.sampled_from([1, 2, 10**12, "van"]), points(self.d)), max_size=8))
        found = self.index.update([name for name, _ in rows], [flat(point, self.d) for _, point in rows])
        assert_rows(found, [self.oracle.update(name, point) for name, point in rows], rows)

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.tuples(points(self.d), points(self.d), st.booleans()), max_size=6))
        first = np.array([mask for _, _, mask in rows], np.bool_)
        before, after = ([flat(row[side], self.d) for row in rows] for side in (0, 1))
        found = self.index.crossings(before, after, first)
        assert_rows(found, [self.oracle.move(None if mask else a, b) for a, b, mask in rows], rows)

    @precondition(lambda self: self.oracle.objects)
    @rule(data=st.data())
    def remove_object(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.oracle.objects, key=str)))
        self.index.remove_object(name)
        del self.oracle.objects[name]

    @precondition(lambda self: self.oracle.rules)
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.oracle.rules)))
        low, high = data.draw(boxes(self.d))
        now = self.oracle.inside(id)
        assert set(self.index.inside(id)) == now
        affected = self.index.affected(id, flat(low, self.d), flat(high, self.d))
        self.oracle.rules[id] = (low, high, "[)")
        then = self.oracle.inside(id)
        assert (set(affected.leave), set(affected.enter)) == (now - then, then - now)
        self.index.remove(id)
        self.index.insert(id, flat(low, self.d), flat(high, self.d))

    @invariant()
    def agrees(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.oracle.rules)
        assert all(id in self.index for id in self.oracle.rules)


@pytest.mark.parametrize(("d", "make"), subjects())
def test_traffic_is_reported_as_by_a_replay(d: int, make: Make) -> None:
    machine = type("TrafficOf", (Traffic,), {"d": d, "make": staticmethod(make)})
    machine.TestCase.settings = examples(12, stateful_step_count=20)  # type: ignore[attr-defined]
    machine.TestCase().runTest()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("d", "make"), subjects())
@given(data=st.data())
@examples(15)
def test_a_bulk_of_moves_is_reported_as_by_a_replay(d: int, make: Make, data: st.DataObject) -> None:
    index, oracle = make(), BorderOracle()
    drawn = data.draw(st.lists(boxes(d), max_size=40))
    ids = [3 * i - 20 for i in range(len(drawn))]
    index.insert_many(ids, [flat(low, d) for low, _ in drawn], [flat(high, d) for _, high in drawn])
    oracle.rules = {id: (*box, "[)") for id, box in zip(ids, drawn, strict=True)}
    rows = data.draw(st.lists(st.tuples(st.integers(0, 3), points(d)), max_size=20))
    found = index.update(np.array([o for o, _ in rows], np.int64), [flat(p, d) for _, p in rows])
    assert_rows(found, [oracle.update(o, p) for o, p in rows], rows)
    index.check()


@pytest.mark.parametrize(("d", "make"), subjects())
def test_a_larger_set_is_reported_as_by_a_scan(d: int, make: Make) -> None:
    """As DiffRMQ over a linear scan, on enough rules for every table to be used."""
    rng = np.random.default_rng(17)
    n, rows = (3000, 400) if d == 1 else (300, 120)
    lows = rng.integers(DOMAIN[0] * 4, DOMAIN[1] * 4, (n, d)) / 4
    highs = lows + rng.integers(1, 30, (n, d)) / 4
    index = make()
    reference = DiffRMQ(Linear()) if d == 1 else DiffRMQ(LinearBoxes(d), d)
    before, after = (rng.integers(DOMAIN[0] * 8, DOMAIN[1] * 8, (rows, d)) / 8 for _ in range(2))
    after[::2] = before[::2] + rng.integers(-4, 5, (len(before[::2]), d)) / 8
    answers = []
    for each in (index, reference):
        each.insert_many(np.arange(n), lows[:, 0] if d == 1 else lows, highs[:, 0] if d == 1 else highs)
        each.remove_many(np.arange(0, n, 7))
        answers.append(each.crossings(before[:, 0] if d == 1 else before, after[:, 0] if d == 1 else after))
    index.check()
    for kind in ("enter", "exit"):
        ours, theirs = (getattr(answer, kind).sets() for answer in answers)
        assert ours == theirs


FAULTS = [
    (([1, 2], [0, 5], [3, 5]), "Interval 2 with lo=5, hi=5; expected lo < hi"),
    (([1, 2], [0, math.nan], [3, 5]), "Interval 2 with lo=nan, hi=5; expected bounds that are numbers"),
    (([1, 2, 1], [0, 1, 2], [3, 4, 5]), "Id 1 twice in one call; expected each id once"),
    (([1, 99], [0, 1], [3, 4]), "Id 99 is in the index already; expected a new id"),
    (([1, "x"], [0, 1], [3, 4]), "Id 'x' .str.; expected a whole number that fits int64"),
]


@pytest.mark.parametrize(("call", "message"), FAULTS)
@pytest.mark.parametrize(("d", "make"), subjects())
def test_a_faulty_rule_is_refused_with_all_others(d: int, make: Make, call: Any, message: str) -> None:
    index = make()
    index.insert(99, flat((1,) * d, d), flat((4,) * d, d))
    index.update([5], [flat((2,) * d, d)])
    ids, los, his = call
    with pytest.raises(FencepostError, match=message):
        index.insert_many(ids, [flat((low,) * d, d) for low in los], [flat((high,) * d, d) for high in his])
    with pytest.raises(FencepostError, match="Id 3 to remove; expected the id of an interval in the index"):
        index.remove_many([99, 3])
    with pytest.raises(FencepostError, match="Id 99 to remove twice"):
        index.remove_many([99, 99])
    index.check()
    assert len(index) == 1
    assert index.inside(99) == [5]


FAULTY_ENTRIES: list[tuple[Any, Any, str]] = [
    (math.nan, 5, "with lo=nan, hi=5; expected bounds that are numbers"),
    (1234567.25, 5, "with lo=1234567.25, hi=5; expected lo <"),
    ("x", 5, "with lower bound 'x' .str.; expected a number"),
    (0, 2**53 + 1, f"with upper bound {2**53 + 1} .int.; expected a number that float64"),
]


@pytest.mark.parametrize(("low", "high", "message"), FAULTY_ENTRIES)
@pytest.mark.parametrize(("d", "make"), subjects())
def test_a_refusal_names_the_entry_among_many(d: int, make: Make, low: Any, high: Any, message: str) -> None:
    index = make()
    index.insert(99, flat((1.5,) * d, d), flat((4,) * d, d))
    index.update([5], [flat((2,) * d, d)])
    ids = 1000 + 3 * np.arange(2_000)
    for row in (2, 1_000):
        los, his = [flat((1,) * d, d)] * len(ids), [flat((9,) * d, d)] * len(ids)
        los[row], his[row] = flat((low,) * d, d), flat((high,) * d, d)
        with pytest.raises(FencepostError, match=f"Interval {ids[row]} {message}"):
            index.insert_many(ids, los, his)
        with pytest.raises(FencepostError, match=f"Interval {ids[row]} {message}"):
            index.insert(int(ids[row]), los[row], his[row])
        with pytest.raises(FencepostError, match=f"Id {ids[row]} to remove"):
            index.remove_many([99, ids[row]])
    index.check()
    assert len(index) == 1
    assert index.inside(99) == [5]


def test_a_refusal_of_whole_numbers_or_groups_names_the_entry() -> None:
    index = Borders(values="int64")
    for low, high, message in (
        (math.nan, 5, "with lower bound nan .float. in an index of int64 values"),
        (0, 2.5, "with upper bound 2.5 .float. in an index of int64 values"),
        (2**60 + 1, 2**60, f"with lo={2**60 + 1}, hi={2**60}; expected lo <"),
    ):
        with pytest.raises(FencepostError, match=f"Interval 12 {message}"):
            index.insert_many([10, 11, 12, 13], [0, 0, low, 0], [5, 5, high, 5])
    with pytest.raises(FencepostError, match="Interval 12 with group 'x'"):
        index.insert_many([10, 11, 12], [0, 0, 0], [5, 5, 5], groups=[1, 2, "x"])
    assert len(index) == 0


MODULES = ("borders.axis", "borders.box_rules", "papers.bmq", "papers.diff")


def short_of_memory(*_: Any, **__: Any) -> Any:
    raise MemoryError


@pytest.mark.parametrize(("d", "make"), subjects())
def test_an_update_without_an_answer_moves_nothing(d: int, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    lows = rng.integers(DOMAIN[0] * 4, DOMAIN[1] * 4, (60, d)) / 4
    highs = lows + rng.integers(1, 30, (60, d)) / 4
    batches = []
    for objects in ([1, 2, "van", 3, 1], [2, "bus", 4, "van", 4, 2, 1, "bus", 7], [1, 2, 3, 4, "van", "bus", 7]):
        places = rng.integers(DOMAIN[0] * 4, DOMAIN[1] * 4, (len(objects), d)) / 4
        places[-1] = math.nan
        batches.append((objects, [flat(tuple(row), d) for row in places.tolist()]))
    index, twin = make(), make()
    for each in (index, twin):
        each.insert_many(np.arange(60), lows[:, 0] if d == 1 else lows, highs[:, 0] if d == 1 else highs)
    for objects, values in batches:
        with monkeypatch.context() as patched:
            for module in MODULES:
                patched.setattr(f"fencepost.indexes.{module}.Crossings", short_of_memory)
            with pytest.raises(MemoryError):
                index.update(objects, values)
        index.check()
        assert index.objects == twin.objects
        assert [index.inside(id) for id in range(60)] == [twin.inside(id) for id in range(60)]
        ours, theirs = index.update(objects, values), twin.update(objects, values)
        for kind in ("enter", "exit", "cross"):
            mine, other = getattr(ours, kind), getattr(theirs, kind)
            assert (mine is None) == (other is None)
            assert mine is None or mine.sets() == other.sets()
        index.check()
        assert index.objects == twin.objects


def test_an_update_that_fails_in_a_later_round_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    lows = rng.integers(0, 1000, 300)
    objects, values = rng.integers(0, 50, 40_000), rng.integers(0, 1000, 40_000)
    groups = rng.integers(0, 3, 40_000)
    index, twin = Borders(), Borders()
    for each in (index, twin):
        each.insert_many(np.arange(300), lows, lows + 20, groups=np.arange(300) % 3)
        each.update(objects[:100], values[:100], groups=groups[:100])
    calls: list[None] = []

    def short_in_the_third(*given: Any) -> Any:
        calls.append(None)
        return short_of_memory() if len(calls) == 3 else find_moves(*given)

    with monkeypatch.context() as patched:
        patched.setattr("fencepost.indexes.borders.axis.find_moves", short_in_the_third)
        with pytest.raises(MemoryError):
            index.update(objects, values, groups=groups)
    index.check()
    ours, theirs = (each.update(objects, values, groups=groups) for each in (index, twin))
    for mine, other in zip(ours, theirs, strict=True):
        assert np.array_equal(mine.offsets, other.offsets)  # type: ignore[union-attr]
        assert np.array_equal(mine.ids, other.ids)  # type: ignore[union-attr]


def test_a_refused_update_does_not_decide_the_type_of_values() -> None:
    index = Borders()
    with pytest.raises(FencepostError, match="1 objects and 2 values"):
        index.update([1], [3, 4])
    index.insert(1, 0.5, 2.5)
    assert index.update([1], [1.5]).enter.sets() == [{1}]


def test_a_burst_of_jumps_at_the_start_asks_for_no_more_room_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []

    def recorded(size: int, dtype: Any) -> Any:
        rooms.append(size)
        return aligned_empty(size, dtype)

    monkeypatch.setattr("fencepost.indexes.matches.aligned_empty", recorded)
    index = Borders()
    index.insert_many(np.arange(1000), np.arange(1000), np.arange(1000) + 900)
    objects, values = np.zeros(100_000, np.int64), np.full(100_000, 5000)
    values[:100:2] = 950  # in and out, then far away
    found = index.update(objects, values)
    assert len(found.enter.ids) == len(found.exit.ids) == 50 * 900
    assert max(rooms) <= 2 * 50 * 900 + 4096


@pytest.mark.parametrize(("d", "make"), subjects())
def test_faulty_rows_are_refused_and_nothing_moves(d: int, make: Make) -> None:
    index = make()
    index.insert(99, flat((1,) * d, d), flat((4,) * d, d))
    index.update([5], [flat((2,) * d, d)])
    there = flat((9.0,) * d, d)
    for objects, values, message in (
        ([5, None], [there, there], "Object None in row 1; expected something hashable"),
        ([5, math.nan], [there, there], "Object nan in row 1"),
        ([5, [1]], [there, there], r"Object \[1\] in row 1"),
        ([5], [there, there], "1 objects and 2 values; expected one of each per row"),
        (5, [there], "Objects 5; expected a sequence"),
        ("van", [there], "Objects 'van'; expected a sequence"),
    ):
        with pytest.raises(FencepostError, match=message):
            index.update(objects, values)
    with pytest.raises(FencepostError, match="Object 6 to remove; expected objects that were observed"):
        index.remove_objects([5, 6])
    with pytest.raises(FencepostError, match="Object 5 to remove twice"):
        index.remove_objects([5, 5])
    with pytest.raises(FencepostError, match="2 before and 1 after"):
        index.crossings([there, there], [there])
    with pytest.raises(FencepostError, match="`first` with 1 items of int64 for 2 rows"):
        index.crossings([there, there], [there, there], [1])
    with pytest.raises(FencepostError, match="Id 7; expected the id of an interval"):
        index.inside(7)
    with pytest.raises(FencepostError, match="Id 7; expected the id of an interval"):
        index.affected(7, flat((1,) * d, d), flat((4,) * d, d))
    index.check()
    assert index.inside(99) == [5]
    assert index.objects == 1


@pytest.mark.parametrize(("d", "make"), [each for each in subjects() if each.values[0] > 1])
def test_another_number_of_axes_is_refused(d: int, make: Make) -> None:
    index = make()
    with pytest.raises(
        FencepostError, match=f"Interval 1 with lower bound .* in an index of {d} dimensions; expected {d} numbers"
    ):
        index.insert(1, (0,) * (d + 1), (1,) * d)
    with pytest.raises(FencepostError, match=f"Value .* in an index of {d} dimensions"):
        index.update([1], [(0,) * (d - 1)])
    with pytest.raises(FencepostError, match=f"Value .* in an index of {d} dimensions"):
        index.update([1], np.zeros((1, d + 1)))
    assert len(index) == index.objects == 0


def test_dimensions_start_at_one() -> None:
    for make in (BMQ, Borders):
        with pytest.raises(FencepostError, match="dimensions=0; expected at least 1"):
            make(0)
