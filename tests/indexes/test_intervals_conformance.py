"""One suite for every interval index in the catalogue; a new one is tested as soon as it is listed."""

import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import fencepost.indexes
from fencepost.errors import FencepostError
from fencepost.indexes import Matches
from fencepost.indexes.contracts.intervals import IntervalIndex
from fencepost.indexes.kernels.vectors import aligned_empty
from tests.effort import examples
from tests.oracle import IntervalOracle
from tests.strategies import DOMAIN, intervals, values

CATALOGUE = [
    entry
    for entry in (getattr(fencepost.indexes, name) for name in fencepost.indexes.__all__)
    if inspect.isclass(entry) and issubclass(entry, IntervalIndex)
]

Subject = tuple[type[IntervalIndex], dict[str, Any]]


def subjects() -> list[Any]:
    """Every class with every combination of the parameters it declares."""
    found = []
    for entry in CATALOGUE:
        declared = inspect.signature(entry).parameters
        variants: list[dict[str, Any]] = [{}]
        if "domain" in declared:
            variants = [{**v, "domain": DOMAIN} for v in variants]
        if "length" in declared:
            variants = [{**v, "length": length} for v in variants for length in (1, 8)]
        if "blocks" in declared:
            variants = [{**v, "blocks": blocks} for v in variants for blocks in (1, 4, 8) if blocks <= v["length"]]
        if "values" in declared:
            variants = [{**v, "values": "float64"} for v in variants]
        if "closed" in declared:
            variants = [{**v, "closed": closed} for v in variants for closed in (False, True)]
        for variant in variants:
            shown = ", ".join(f"{key}={value}" for key, value in variant.items() if key != "domain")
            found.append(pytest.param((entry, variant), id=f"{entry.__name__}({shown})"))
    return found


def made(subject: Subject) -> IntervalIndex:
    entry, parameters = subject
    return entry(**parameters)


def is_closed(subject: Subject) -> bool:
    return bool(subject[1].get("closed", False))


def natural_bounds(subject: Subject) -> str:
    return "[]" if is_closed(subject) else "[)"


def assert_same(index: IntervalIndex, oracle: IntervalOracle, asked: list[float]) -> None:
    answer = index.stab(np.array(asked, np.float64))
    assert len(answer) == len(asked)
    for value, row in zip(asked, answer, strict=True):
        assert sorted(row.tolist()) == oracle.stab(value), f"at {value!r}"


def every_interesting_value(oracle: IntervalOracle) -> list[float]:
    asked = [math.nan, math.inf, -math.inf, *DOMAIN]
    for low, high, _ in oracle.intervals.values():
        for end in (low, high):
            asked += [
                end,
                math.nextafter(end, math.inf),
                math.nextafter(end, -math.inf),
                math.floor(end) if math.isfinite(end) else end,
            ]
        if math.isfinite(low) and math.isfinite(high):
            asked.append((low + high) / 2)
    return asked


@pytest.mark.parametrize("subject", subjects())
@given(data=st.data())
@examples(25)
def test_bulk_inserts_answer_like_the_oracle(subject: Subject, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(intervals(points=is_closed(subject)), max_size=30))
    index, oracle = made(subject), IntervalOracle()
    ids = [7 * i - 50 for i in range(len(drawn))]
    for id, (low, high) in zip(ids, drawn, strict=True):
        oracle.insert(id, low, high, natural_bounds(subject))
    index.insert_many(ids, [low for low, _ in drawn], [high for _, high in drawn])
    index.check()
    assert len(index) == len(drawn)
    assert_same(index, oracle, every_interesting_value(oracle) + data.draw(st.lists(values(), max_size=20)))
    index.remove_many(ids)
    index.check()
    assert len(index) == 0
    assert index.stab([0.0, 3.5])[0].tolist() == []


@pytest.mark.parametrize("bounds", ["[)", "[]", "(]", "()"])
@pytest.mark.parametrize("subject", subjects())
@given(data=st.data())
@examples(6)
def test_every_kind_of_ends_answers_like_the_oracle(subject: Subject, bounds: Any, data: st.DataObject) -> None:
    index, oracle = made(subject), IntervalOracle()
    for id, (low, high) in enumerate(data.draw(st.lists(intervals(points=False), max_size=10))):
        if math.nextafter(low, math.inf) >= high:
            continue
        index.insert(id, low, high, bounds=bounds)
        oracle.insert(id, low, high, bounds)
    index.check()
    assert_same(index, oracle, every_interesting_value(oracle))


class Churn(RuleBasedStateMachine):
    """Random inserts, removes and searches; the structure's own check after every step."""

    subject: Subject

    def __init__(self) -> None:
        super().__init__()
        self.index = made(self.subject)
        self.oracle = IntervalOracle()

    @rule(id=st.integers(-5, 40), data=st.data())
    def insert(self, id: int, data: st.DataObject) -> None:
        low, high = data.draw(intervals(points=is_closed(self.subject)))
        if id in self.oracle.intervals:
            with pytest.raises(FencepostError, match=f"Id {id} is in the index already"):
                self.index.insert(id, low, high)
        else:
            self.index.insert(id, low, high)
            self.oracle.insert(id, low, high, natural_bounds(self.subject))

    @rule(data=st.data(), first=st.integers(100, 100_000))
    def insert_many(self, data: st.DataObject, first: int) -> None:
        drawn = data.draw(st.lists(intervals(points=is_closed(self.subject)), max_size=8))
        ids = [first + i for i in range(len(drawn))]
        if any(id in self.oracle.intervals for id in ids):
            return
        self.index.insert_many(ids, [low for low, _ in drawn], [high for _, high in drawn])
        for id, (low, high) in zip(ids, drawn, strict=True):
            self.oracle.insert(id, low, high, natural_bounds(self.subject))

    @precondition(lambda self: self.oracle.intervals)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.oracle.intervals)))
        self.index.remove(id)
        self.oracle.remove(id)

    @precondition(lambda self: self.oracle.intervals)
    @rule(data=st.data())
    def remove_many(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.oracle.intervals)), unique=True, max_size=5))
        self.index.remove_many(ids)
        for id in ids:
            self.oracle.remove(id)

    @rule(asked=st.lists(values(), max_size=10))
    def stab(self, asked: list[float]) -> None:
        assert_same(self.index, self.oracle, asked)

    @invariant()
    def agrees(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.oracle.intervals)
        assert all(id in self.index for id in self.oracle.intervals)
        assert_same(self.index, self.oracle, every_interesting_value(self.oracle)[:24])


@pytest.mark.parametrize("subject", subjects())
def test_churn_answers_like_the_oracle(subject: Subject) -> None:
    machine = type("ChurnOf", (Churn,), {"subject": subject})
    machine.TestCase.settings = examples(12, stateful_step_count=25)  # type: ignore[attr-defined]
    machine.TestCase().runTest()  # type: ignore[attr-defined]


@pytest.mark.parametrize("subject", subjects())
def test_a_larger_set_answers_like_a_scan(subject: Subject) -> None:
    rng = np.random.default_rng(11)
    n = 6000
    lows = rng.integers(DOMAIN[0] - 5, DOMAIN[1], n) + rng.choice([0.0, 0.5], n, p=[0.9, 0.1])
    highs = lows + rng.integers(1, 20, n)
    index = made(subject)
    index.insert_many(np.arange(n), lows, highs)
    asked = rng.integers(2 * DOMAIN[0] - 10, 2 * DOMAIN[1] + 10, 300) / 2
    for value, row in zip(asked, index.stab(asked), strict=True):
        inside = (lows <= value) & ((value <= highs) if is_closed(subject) else (value < highs))
        assert np.array_equal(np.sort(row), np.flatnonzero(inside))
    index.check()


@pytest.mark.parametrize("subject", subjects())
def test_memory_of_removed_intervals_is_used_again(subject: Subject) -> None:
    index = made(subject)
    rng = np.random.default_rng(5)
    sizes = []
    for round_number in range(6):
        lows = rng.integers(DOMAIN[0], DOMAIN[1] - 1, 500).astype(float)
        ids = np.arange(500) + 1000 * round_number
        index.insert_many(ids, lows, lows + rng.integers(1, 12, 500))
        index.stab([0.0])
        sizes.append(index.storage().nbytes)
        index.remove_many(ids)
        index.check()
    assert sizes[-1] <= 2 * sizes[1]


FAULTS = [
    (([1, 2], [0, 5], [3, 5]), "Interval 2 with lo=5, hi=5; expected lo < hi"),
    (([1, 2], [0, 9], [3, 5]), "Interval 2 with lo=9, hi=5; expected lo <"),
    (([1, 2], [0, math.nan], [3, 5]), "Interval 2 with lo=nan, hi=5; expected bounds that are numbers"),
    (([1, 2, 1], [0, 1, 2], [3, 4, 5]), "Id 1 twice in one call; expected each id once"),
    (([1, 99], [0, 1], [3, 4]), "Id 99 is in the index already; expected a new id"),
    (([1, 2], [0], [3, 4]), "2 ids and 1 los, none for id 2; expected columns of the same length"),
    (([1, "x"], [0, 1], [3, 4]), "Id 'x' .str.; expected a whole number that fits int64"),
    (([1, 2**63], [0, 1], [3, 4]), f"Id {2**63} .int.; expected a whole number"),
    (([1, 2.5], [0, 1], [3, 4]), "Id 2.5 .float.; expected a whole number"),
    (
        ([1, 2], [0, 2**53 + 1], [3, 2**60]),
        f"Interval 2 with lower bound {2**53 + 1} .int.; expected a number that float64",
    ),
]


def faulty_calls() -> list[Any]:
    """Every fault for every subject; lo == hi is one only where a point is no interval."""
    return [
        pytest.param(*subject.values, call, message, id=f"{subject.id}-{number}")
        for subject in subjects()
        for number, (call, message) in enumerate(FAULTS)
        if not (is_closed(subject.values[0]) and "lo=5, hi=5" in message)
    ]


@pytest.mark.parametrize(("subject", "call", "message"), faulty_calls())
def test_a_faulty_call_is_refused_whole(subject: Subject, call: Any, message: str) -> None:
    index = made(subject)
    index.insert(99, 1, 4)
    with pytest.raises(FencepostError, match=message):
        index.insert_many(*call)
    index.check()
    assert len(index) == 1
    assert 1 not in index
    assert index.stab([2.0]).sets() == [{99}]


FAULTY_ENTRIES: list[tuple[Any, Any, str]] = [
    (math.nan, 5, "with lo=nan, hi=5; expected bounds that are numbers"),
    (1234567.25, 5, "with lo=1234567.25, hi=5; expected lo <"),
    ("x", 5, "with lower bound 'x' .str.; expected a number"),
    (0, 2**53 + 1, f"with upper bound {2**53 + 1} .int.; expected a number that float64"),
]
FAULTY_WHOLE_ENTRIES: list[tuple[Any, Any, str]] = [
    (math.nan, 5, "with lower bound nan .float. in an index of int64 values; expected a whole number"),
    (0, 2.5, "with upper bound 2.5 .float. in an index of int64 values"),
    (math.inf, None, "with lower bound inf .float. in an index of int64 values"),
    (2**60 + 1, 2**60, f"with lo={2**60 + 1}, hi={2**60}; expected lo <"),
    (0, 2**63, f"with upper bound {2**63} .int. in an index of int64 values"),
]


def assert_an_entry_among_many_is_named(index: IntervalIndex, low: Any, high: Any, message: str) -> None:
    index.insert(99, 1, 4)
    ids = 1000 + 3 * np.arange(10_000)
    for row in (2, 5_000):
        los, his = [1] * len(ids), [9] * len(ids)
        los[row], his[row] = low, high
        with pytest.raises(FencepostError, match=f"Interval {ids[row]} {message}"):
            index.insert_many(ids, los, his)
        with pytest.raises(FencepostError, match=f"Interval {ids[row]} {message}"):
            index.insert(int(ids[row]), low, high)
    index.check()
    assert len(index) == 1
    assert index.stab([2]).sets() == [{99}]


@pytest.mark.parametrize(("low", "high", "message"), FAULTY_ENTRIES)
@pytest.mark.parametrize("subject", subjects())
def test_a_refusal_names_the_entry_among_many(subject: Subject, low: Any, high: Any, message: str) -> None:
    assert_an_entry_among_many_is_named(made(subject), low, high, message)


@pytest.mark.parametrize(("low", "high", "message"), FAULTY_WHOLE_ENTRIES)
@pytest.mark.parametrize("entry", [each for each in CATALOGUE if "values" in inspect.signature(each).parameters])
def test_a_refusal_of_whole_numbers_names_the_entry(entry: Any, low: Any, high: Any, message: str) -> None:
    assert_an_entry_among_many_is_named(entry(values="int64"), low, high, message)


@pytest.mark.parametrize(
    "entry", [each for each in CATALOGUE if "groups" in inspect.signature(each.insert_many).parameters]
)
def test_a_refusal_of_a_group_names_the_entry(entry: Any) -> None:
    index = entry()
    for groups in ([1, None, "x", 4], [1, None, 2.5, 4]):
        with pytest.raises(FencepostError, match=f"Interval 12 with group {groups[2]!r} .*; expected a whole number"):
            index.insert_many([10, 11, 12, 13], [0] * 4, [5] * 4, groups=groups)
    with pytest.raises(FencepostError, match="Interval 12 with group 'x'"):
        index.insert(12, 0, 5, group="x")
    with pytest.raises(FencepostError, match="3 ids and 2 groups, none for id 12"):
        index.insert_many([10, 11, 12], [0] * 3, [5] * 3, groups=[1, 2])
    assert len(index) == 0


@pytest.mark.parametrize("subject", subjects())
def test_a_refusal_of_an_id_names_it_among_many(subject: Subject) -> None:
    index = made(subject)
    index.insert(7, 0, 5)
    ids = 1000 + np.arange(500)
    for again, message in ((7, "Id 7 is in the index already"), (1001, "Id 1001 twice in one call")):
        given = ids.copy()
        given[250] = again
        with pytest.raises(FencepostError, match=message):
            index.insert_many(given, [0] * 500, [5] * 500)
    index.insert_many(ids, [0] * 500, [5] * 500)
    given = ids.copy()
    given[250] = 31
    with pytest.raises(FencepostError, match="Id 31 to remove; expected the id of an interval in the index"):
        index.remove_many(given)
    index.check()
    assert len(index) == 501


@pytest.mark.parametrize("subject", subjects())
def test_a_burst_at_the_start_asks_for_no_more_room_than_it_needs(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms: list[int] = []

    def recorded(size: int, dtype: Any) -> Any:
        rooms.append(size * np.dtype(dtype).itemsize)
        return aligned_empty(size, dtype)

    monkeypatch.setattr("fencepost.indexes.matches.aligned_empty", recorded)
    monkeypatch.setattr("fencepost.indexes.slice_list.view.ROUND", 1024)
    index = made(subject)
    index.insert_many(np.arange(500), np.zeros(500), np.ones(500))
    asked = np.full(40_000, DOMAIN[1] - 0.5)
    asked[:60] = 0.5
    answer = index.stab(asked)
    assert len(answer.ids) == 60 * 500
    assert answer.counts[:60].tolist() == [500] * 60
    assert max(rooms) <= 2 * answer.ids.nbytes + 32_768


@pytest.mark.parametrize("subject", subjects())
def test_removing_the_unknown_is_refused_whole(subject: Subject) -> None:
    index = made(subject)
    index.insert_many([1, 2], [0, 0], [5, 6])
    with pytest.raises(FencepostError, match="Id 3 to remove; expected the id of an interval in the index"):
        index.remove_many([1, 3])
    with pytest.raises(FencepostError, match="Id 2 to remove twice"):
        index.remove_many([2, 2])
    with pytest.raises(FencepostError, match="Id 7 to remove"):
        index.remove(7)
    index.check()
    assert index.stab([1]).sets() == [{1, 2}]


@pytest.mark.parametrize("subject", subjects())
def test_unknown_bounds_are_refused(subject: Subject) -> None:
    with pytest.raises(FencepostError, match=r"Bounds '<>'; expected '\[\)', '\[\]', '\(\]' or '\(\)'"):
        made(subject).insert(1, 0, 5, bounds="<>")  # type: ignore[arg-type]


@pytest.mark.parametrize("subject", subjects())
def test_missing_bounds_and_values(subject: Subject) -> None:
    index = made(subject)
    index.insert(1, None, 5)
    index.insert_many([2, 3], [3, None], [None, None])
    assert index.stab([-1e9, 4, 1e9, None, math.nan, math.inf]).sets() == [
        {1, 3},
        {1, 2, 3},
        {2, 3},
        set(),
        set(),
        {2, 3},
    ]
    assert index.interval(1) == (-math.inf, 5.0)
    assert math.nan not in index
    assert "x" not in index


@pytest.mark.parametrize("subject", subjects())
def test_answers_go_into_the_callers_buffers(subject: Subject) -> None:
    index = made(subject)
    index.insert_many(range(20), [0] * 20, [5] * 20)
    buffers = Matches(np.empty(4, np.int64), np.empty(200, np.int64))
    answer = index.stab([1, 2, 9], out=buffers)
    assert answer.counts.tolist() == [20, 20, 0]
    assert np.shares_memory(answer.ids, buffers.ids)
    with pytest.raises(FencepostError, match="An `out` with room for 10 ids; expected room for at least"):
        index.stab([1, 2, 9], out=Matches(np.empty(4, np.int64), np.empty(10, np.int64)))
    with pytest.raises(FencepostError, match="An `out` with 2 offsets"):
        index.stab([1, 2, 9], out=Matches(np.empty(2, np.int64), np.empty(200, np.int64)))
    with pytest.raises(FencepostError, match="An `out` whose ids are float64"):
        index.stab([1], out=Matches(np.empty(4, np.int64), np.empty(200)))


@pytest.mark.parametrize("subject", subjects())
def test_integers_that_float64_cannot_hold_are_refused(subject: Subject) -> None:
    index = made(subject)
    index.insert(1, 0, 2**60)
    assert index.stab(np.array([2**60 - 2**10], np.int64)).sets() == [{1}]
    with pytest.raises(FencepostError, match=f"Value {2**60 - 1} .int.; expected a number that float64"):
        index.stab([2**60 - 1])


def test_an_error_survives_the_journey_between_processes() -> None:
    error = FencepostError("interval 7", "lo < hi", "Swap them.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
