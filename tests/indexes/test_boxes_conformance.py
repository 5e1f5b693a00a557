"""One suite for every box index in the catalogue; a new one is tested as soon as it is listed."""

import inspect
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import fencepost.indexes
from fencepost.errors import FencepostError
from fencepost.indexes import Matches
from fencepost.indexes.contracts.boxes import BoxesIndex
from fencepost.indexes.kernels.vectors import aligned_empty
from tests.effort import examples
from tests.oracle import BoxOracle
from tests.strategies import DOMAIN, boxes, places

CATALOGUE = [
    entry
    for entry in (getattr(fencepost.indexes, name) for name in fencepost.indexes.__all__)
    if inspect.isclass(entry) and issubclass(entry, BoxesIndex)
]

CHOICES: dict[str, list[Any]] = {
    "domain": [(DOMAIN, (-3, 20))],
    "length": [1, (8, 4)],
    "overlap": [False, True],
    "most_pieces": [30],
    "dimensions": [2, 3, 5],
    "packed": [False, True],
    "values": ["float64"],
    "closed": [False, True],
}
"""What every parameter that a class declares is tried with."""

Subject = tuple[type[BoxesIndex], dict[str, Any]]


def subjects() -> list[Any]:
    """Every class with every combination of the parameters it declares."""
    found = []
    for entry in CATALOGUE:
        declared = [name for name in CHOICES if name in inspect.signature(entry).parameters]
        for chosen in itertools.product(*(CHOICES[name] for name in declared)):
            variant = dict(zip(declared, chosen, strict=True))
            shown = ", ".join(f"{key}={value}" for key, value in variant.items() if key != "domain")
            found.append(pytest.param((entry, variant), id=f"{entry.__name__}({shown})"))
    return found


def made(subject: Subject) -> BoxesIndex:
    entry, parameters = subject
    return entry(**parameters)


def is_closed(subject: Subject) -> bool:
    return bool(subject[1].get("closed", False))


def dimensions_of(subject: Subject) -> int:
    return int(subject[1].get("dimensions", 2))


def natural_bounds(subject: Subject) -> str:
    return "[]" if is_closed(subject) else "[)"


def everywhere(value: float | None, index: BoxesIndex) -> tuple[Any, ...]:
    return (value,) * index.dimensions


def assert_same(index: BoxesIndex, oracle: BoxOracle, asked: list[tuple[float, ...]]) -> None:
    answer = index.stab(np.array(asked, np.float64).reshape(-1, index.dimensions))
    assert len(answer) == len(asked)
    for point, row in zip(asked, answer, strict=True):
        assert sorted(row.tolist()) == oracle.stab(point), f"at {point!r}"


def corners_and_beside(oracle: BoxOracle, most: int = 60) -> list[tuple[float, ...]]:
    """The corners of boxes, opposite ones mixed, with neighbours of some coordinates."""
    asked: list[tuple[float, ...]] = []
    for number, (lows, highs, _) in enumerate(oracle.boxes.values()):
        middle = [
            low if math.isinf(high) else high if math.isinf(low) else (low + high) / 2
            for low, high in zip(lows, highs, strict=True)
        ]
        mixed = [ends[(number + axis) % 2] for axis, ends in enumerate(zip(lows, highs, strict=True))]
        asked += [lows, highs, tuple(middle), tuple(mixed), (*highs[:1], *middle[1:]), (*middle[:-1], *highs[-1:])]
        asked.append(tuple(math.nextafter(end, -math.inf) for end in highs))
        asked.append(tuple(math.nextafter(end, math.inf) for end in mixed))
    return asked[:most]


@pytest.mark.parametrize("subject", subjects())
@given(data=st.data())
@examples(12)
def test_bulk_inserts_answer_like_the_oracle(subject: Subject, data: st.DataObject) -> None:
    index, oracle = made(subject), BoxOracle()
    drawn = data.draw(st.lists(boxes(index.dimensions, points=is_closed(subject)), max_size=20))
    ids = [7 * i - 50 for i in range(len(drawn))]
    for id, (lows, highs) in zip(ids, drawn, strict=True):
        oracle.insert(id, lows, highs, natural_bounds(subject))
    index.insert_many(ids, [lows for lows, _ in drawn], [highs for _, highs in drawn])
    index.check()
    assert len(index) == len(drawn)
    assert_same(index, oracle, corners_and_beside(oracle) + data.draw(st.lists(places(index.dimensions), max_size=10)))
    assert all(index.box(id) == corners for id, corners in zip(ids, drawn, strict=True))
    index.remove_many(ids)
    index.check()
    assert len(index) == 0
    assert index.stab([everywhere(0.0, index)])[0].tolist() == []


@pytest.mark.parametrize("bounds", ["[)", "[]", "(]", "()"])
@pytest.mark.parametrize("subject", subjects())
@given(data=st.data())
@examples(3)
def test_every_kind_of_ends_answers_like_the_oracle(subject: Subject, bounds: Any, data: st.DataObject) -> None:
    index, oracle = made(subject), BoxOracle()
    for id, (lows, highs) in enumerate(data.draw(st.lists(boxes(index.dimensions, points=False), max_size=6))):
        if any(math.nextafter(low, math.inf) >= high for low, high in zip(lows, highs, strict=True)):
            continue
        index.insert(id, lows, highs, bounds=bounds)
        oracle.insert(id, lows, highs, bounds)
    index.check()
    assert_same(index, oracle, corners_and_beside(oracle))


class Churn(RuleBasedStateMachine):
    """Random inserts, removes and searches; the structure's own check after every step."""

    subject: Subject

    def __init__(self) -> None:
        super().__init__()
        self.index = made(self.subject)
        self.oracle = BoxOracle()

    def drawn_box(self, data: st.DataObject) -> Any:
        return data.draw(boxes(self.index.dimensions, points=is_closed(self.subject)))

    @rule(id=st.integers(-5, 40), data=st.data())
    def insert(self, id: int, data: st.DataObject) -> None:
        lows, highs = self.drawn_box(data)
        if id in self.oracle.boxes:
            with pytest.raises(FencepostError, match=f"Id {id} is in the index already"):
                self.index.insert(id, lows, highs)
        else:
            self.index.insert(id, lows, highs)
            self.oracle.insert(id, lows, highs, natural_bounds(self.subject))

    @rule(data=st.data(), first=st.integers(100, 100_000), copies=st.sampled_from([1, 1, 14]))
    def insert_many(self, data: st.DataObject, first: int, copies: int) -> None:
        drawn = [self.drawn_box(data) for _ in range(data.draw(st.integers(0, 4)))] * copies
        ids = [first + i for i in range(len(drawn))]
        if any(id in self.oracle.boxes for id in ids):
            return
        self.index.insert_many(ids, [lows for lows, _ in drawn], [highs for _, highs in drawn])
        for id, (lows, highs) in zip(ids, drawn, strict=True):
            self.oracle.insert(id, lows, highs, natural_bounds(self.subject))

    @precondition(lambda self: self.oracle.boxes)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.oracle.boxes)))
        self.index.remove(id)
        self.oracle.remove(id)

    @precondition(lambda self: self.oracle.boxes)
    @rule(data=st.data(), share=st.integers(1, 3))
    def remove_many(self, data: st.DataObject, share: int) -> None:
        ids = sorted(self.oracle.boxes)[data.draw(st.integers(0, 2)) :: share]
        self.index.remove_many(ids)
        for id in ids:
            self.oracle.remove(id)

    @rule(data=st.data())
    def stab(self, data: st.DataObject) -> None:
        assert_same(self.index, self.oracle, data.draw(st.lists(places(self.index.dimensions), max_size=8)))

    @invariant()
    def agrees(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.oracle.boxes)
        assert all(id in self.index for id in self.oracle.boxes)
        assert_same(self.index, self.oracle, corners_and_beside(self.oracle, most=16))


@pytest.mark.parametrize("subject", subjects())
def test_churn_answers_like_the_oracle(subject: Subject) -> None:
    machine = type("ChurnOf", (Churn,), {"subject": subject})
    machine.TestCase.settings = examples(5, stateful_step_count=15)  # type: ignore[attr-defined]
    machine.TestCase().runTest()  # type: ignore[attr-defined]


@pytest.mark.parametrize("subject", subjects())
def test_a_larger_set_answers_like_a_scan(subject: Subject) -> None:
    rng = np.random.default_rng(11)
    n = 3000
    index = made(subject)
    shape = (n, index.dimensions)
    lows = rng.integers(DOMAIN[0] - 5, DOMAIN[1], shape) + rng.choice([0.0, 0.5], shape, p=[0.9, 0.1])
    highs = lows + rng.integers(1, 40, shape)
    lows[rng.random(shape) < 0.1] = -np.inf
    highs[rng.random(shape) < 0.1] = np.inf
    index.insert_many(np.arange(n), lows, highs)
    index.check()
    asked = rng.integers(2 * DOMAIN[0] - 10, 2 * DOMAIN[1] + 10, (200, index.dimensions)) / 2
    gone = rng.permutation(n)[: n - 100]
    for removed in (gone[:0], gone):
        index.remove_many(removed)
        here = np.ones(n, np.bool_)
        here[removed] = False
        for point, row in zip(asked, index.stab(asked), strict=True):
            below = (point <= highs) if is_closed(subject) else (point < highs)
            inside = here & ((lows <= point) & below).all(axis=1)
            assert np.array_equal(np.sort(row), np.flatnonzero(inside))
    index.check()


@pytest.mark.parametrize("subject", subjects())
def test_memory_of_removed_boxes_is_used_again(subject: Subject) -> None:
    index = made(subject)
    rng = np.random.default_rng(5)
    sizes = []
    for round_number in range(6):
        lows = rng.integers(DOMAIN[0], DOMAIN[1] - 1, (300, index.dimensions)).astype(float)
        ids = np.arange(300) + 1000 * round_number
        index.insert_many(ids, lows, lows + rng.integers(1, 12, lows.shape))
        index.stab(lows[:1])
        sizes.append(index.storage().nbytes)
        index.remove_many(ids)
        index.check()
    assert sizes[-1] <= 2 * sizes[1]


FAULTS: list[tuple[Any, str]] = [
    (([1, 2], [0, 5], [3, 5]), "Box 2 with lo=5, hi=5 in dimension 0; expected lo < hi in every dimension"),
    (([1, 2], [0, 9], [3, 5]), "Box 2 with lo=9, hi=5 in dimension 0; expected lo <"),
    (([1, 2], [0, math.nan], [3, 5]), "Box 2 with lo=nan, hi=5 in dimension 0; expected bounds that are numbers"),
    (([1, 2, 1], [0, 1, 2], [3, 4, 5]), "Id 1 twice in one call; expected each id once"),
    (([1, 99], [0, 1], [3, 4]), "Id 99 is in the index already; expected a new id"),
    (([1, 2], [0], [3, 4]), "2 ids and 1 los, none for id 2; expected columns of the same length"),
    (([1, "x"], [0, 1], [3, 4]), "Id 'x' .str.; expected a whole number that fits int64"),
    (([1, 2**63], [0, 1], [3, 4]), f"Id {2**63} .int.; expected a whole number"),
    (
        ([1, 2], [0, 2**53 + 1], [3, 2**60]),
        f"Box 2 with lower bound {2**53 + 1} .int.; expected a number that float64",
    ),
]
"""Calls with the same bound in every dimension, and their refusals."""


def faulty_calls() -> list[Any]:
    """Every fault for every subject; lo == hi is one only where a point is a box."""
    return [
        pytest.param(*subject.values, call, message, id=f"{subject.id}-{number}")
        for subject in subjects()
        for number, (call, message) in enumerate(FAULTS)
        if not (is_closed(subject.values[0]) and "lo=5, hi=5" in message)
    ]


def assert_unchanged(index: BoxesIndex) -> None:
    index.check()
    assert len(index) == 1
    assert 1 not in index
    assert index.stab([everywhere(2, index)]).sets() == [{99}]


def with_one_box(subject: Subject) -> BoxesIndex:
    index = made(subject)
    index.insert(99, everywhere(1, index), everywhere(4, index))
    return index


@pytest.mark.parametrize(("subject", "call", "message"), faulty_calls())
def test_a_faulty_call_is_refused_whole(subject: Subject, call: Any, message: str) -> None:
    index = with_one_box(subject)
    ids, los, his = call
    with pytest.raises(FencepostError, match=message):
        index.insert_many(ids, [everywhere(lo, index) for lo in los], [everywhere(hi, index) for hi in his])
    assert_unchanged(index)


@pytest.mark.parametrize("subject", subjects())
def test_an_empty_range_names_its_dimension(subject: Subject) -> None:
    index = with_one_box(subject)
    last = index.dimensions - 1
    lo = everywhere(0, index)
    hi = (*lo[:0], *everywhere(5, index)[:last], -1)
    with pytest.raises(FencepostError, match=f"Box 1 with lo=0, hi=-1 in dimension {last}; expected lo <"):
        index.insert(1, lo, hi)
    with pytest.raises(FencepostError, match=f"Box 3 with lo=0, hi=-1 in dimension {last}; expected lo <"):
        index.insert_many([1, 3], [lo, lo], [everywhere(5, index), hi])
    assert_unchanged(index)


@pytest.mark.parametrize("subject", subjects())
def test_a_wrong_number_of_coordinates_says_got_and_expected(subject: Subject) -> None:
    index = with_one_box(subject)
    d = index.dimensions
    right, wrong = everywhere(0, index), (0,) * (d + 1)
    expected = f"expected {d}, one per dimension"
    with pytest.raises(FencepostError, match=f"Box 1 with {d + 1} lower bounds; {expected}"):
        index.insert(1, wrong, right)
    with pytest.raises(FencepostError, match=f"Box 1 with 1 upper bound; {expected}"):
        index.insert(1, right, 5)  # type: ignore[arg-type]
    with pytest.raises(FencepostError, match=f"Box 1 with {d + 1} lower bounds; {expected}"):
        index.insert_many([1], [wrong], [right])
    with pytest.raises(FencepostError, match=f"Box 2 with {d + 1} upper bounds; {expected}"):
        index.insert_many([1, 2], [right, right], [right, wrong])
    with pytest.raises(FencepostError, match=f"upper bounds with 1 dimensions; expected a row each, with {d} col"):
        index.insert_many([1], [right], right)
    with pytest.raises(FencepostError, match=f"points with {d + 1} coordinates each; {expected}"):
        index.stab([wrong])
    assert_unchanged(index)


FAULTY_ENTRIES: list[tuple[Any, Any, str]] = [
    (math.nan, 5, "with lo=nan, hi=5 in dimension {axis}; expected bounds that are numbers"),
    (1234567.25, 5, "with lo=1234567.25, hi=5 in dimension {axis}; expected lo <"),
    ("x", 5, "with lower bound 'x' .str.; expected a number"),
    (0, 2**53 + 1, f"with upper bound {2**53 + 1} .int.; expected a number that float64"),
]
FAULTY_WHOLE_ENTRIES: list[tuple[Any, Any, str]] = [
    (math.nan, 5, "with lower bound nan .float. in an index of int64 values; expected a whole number"),
    (0, 2.5, "with upper bound 2.5 .float. in an index of int64 values"),
    (2**60 + 1, 2**60, f"with lo={2**60 + 1}, hi={2**60} in dimension {{axis}}; expected lo <"),
]


def assert_an_entry_among_many_is_named(index: BoxesIndex, low: Any, high: Any, message: str) -> None:
    """The faulty bounds are those of the last dimension."""
    index.insert(99, everywhere(1, index), everywhere(4, index))
    ids = 1000 + 3 * np.arange(4_000)
    rest = index.dimensions - 1
    for row in (2, 2_000):
        los, his = [everywhere(1, index)] * len(ids), [everywhere(9, index)] * len(ids)
        los[row], his[row] = (*los[0][:rest], low), (*his[0][:rest], high)
        named = f"Box {ids[row]} {message.format(axis=rest)}"
        with pytest.raises(FencepostError, match=named):
            index.insert_many(ids, los, his)
        with pytest.raises(FencepostError, match=named):
            index.insert(int(ids[row]), los[row], his[row])
    assert_unchanged(index)


@pytest.mark.parametrize(("low", "high", "message"), FAULTY_ENTRIES)
@pytest.mark.parametrize("subject", subjects())
def test_a_refusal_names_the_entry_among_many(subject: Subject, low: Any, high: Any, message: str) -> None:
    assert_an_entry_among_many_is_named(made(subject), low, high, message)


@pytest.mark.parametrize(("low", "high", "message"), FAULTY_WHOLE_ENTRIES)
@pytest.mark.parametrize("entry", [each for each in CATALOGUE if "values" in inspect.signature(each).parameters])
def test_a_refusal_of_whole_numbers_names_the_entry(entry: Any, low: Any, high: Any, message: str) -> None:
    assert_an_entry_among_many_is_named(entry(2, values="int64"), low, high, message)


@pytest.mark.parametrize(
    "entry", [each for each in CATALOGUE if "groups" in inspect.signature(each.insert_many).parameters]
)
def test_a_refusal_of_a_group_names_the_entry(entry: Any) -> None:
    index = entry(2)
    with pytest.raises(FencepostError, match="Box 12 with group 'x' "):
        index.insert_many([10, 11, 12], [(0, 0)] * 3, [(5, 5)] * 3, groups=[1, None, "x"])
    with pytest.raises(FencepostError, match="Box 12 with group 'x'"):
        index.insert(12, (0, 0), (5, 5), group="x")
    with pytest.raises(FencepostError, match="3 ids and 2 groups, none for id 12"):
        index.insert_many([10, 11, 12], [(0, 0)] * 3, [(5, 5)] * 3, groups=[1, 2])
    assert len(index) == 0


@pytest.mark.parametrize("subject", subjects())
def test_a_refusal_of_an_id_names_it_among_many(subject: Subject) -> None:
    index = made(subject)
    lo, hi = everywhere(0, index), everywhere(5, index)
    index.insert(7, lo, hi)
    ids = 1000 + np.arange(300)
    for again, message in ((7, "Id 7 is in the index already"), (1001, "Id 1001 twice in one call")):
        given = ids.copy()
        given[150] = again
        with pytest.raises(FencepostError, match=message):
            index.insert_many(given, [lo] * 300, [hi] * 300)
    index.insert_many(ids, [lo] * 300, [hi] * 300)
    given = ids.copy()
    given[150] = 31
    with pytest.raises(FencepostError, match="Id 31 to remove; expected the id of a box in the index"):
        index.remove_many(given)
    index.check()
    assert len(index) == 301


@pytest.mark.parametrize("subject", subjects())
def test_a_burst_at_the_start_asks_for_no_more_room_than_it_needs(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms: list[int] = []

    def recorded(size: int, dtype: Any) -> Any:
        rooms.append(size)
        return aligned_empty(size, dtype)

    monkeypatch.setattr("fencepost.indexes.matches.aligned_empty", recorded)
    index = made(subject)
    index.insert_many(np.arange(700), [everywhere(0, index)] * 700, [everywhere(1, index)] * 700)
    asked = np.full((40_000, index.dimensions), 9.0)
    asked[:100] = 0.5
    answer = index.stab(asked)
    assert answer.counts[:100].tolist() == [700] * 100
    assert len(answer.ids) == 100 * 700
    assert max(rooms) <= 2 * len(answer.ids) + 4096


@pytest.mark.parametrize("subject", subjects())
def test_removing_the_unknown_is_refused_whole(subject: Subject) -> None:
    index = made(subject)
    index.insert_many([1, 2], [everywhere(0, index)] * 2, [everywhere(5, index), everywhere(6, index)])
    with pytest.raises(FencepostError, match="Id 3 to remove; expected the id of a box in the index"):
        index.remove_many([1, 3])
    with pytest.raises(FencepostError, match="Id 2 to remove twice"):
        index.remove_many([2, 2])
    with pytest.raises(FencepostError, match="Id 7 to remove"):
        index.remove(7)
    with pytest.raises(FencepostError, match="Id 7; expected the id of a box"):
        index.box(7)
    index.check()
    assert index.stab([everywhere(1, index)]).sets() == [{1, 2}]


@pytest.mark.parametrize("subject", subjects())
def test_unknown_bounds_are_refused(subject: Subject) -> None:
    index = with_one_box(subject)
    with pytest.raises(FencepostError, match=r"Bounds '<>'; expected '\[\)', '\[\]', '\(\]' or '\(\)'"):
        index.insert(1, everywhere(0, index), everywhere(5, index), bounds="<>")  # type: ignore[arg-type]
    assert_unchanged(index)


@pytest.mark.parametrize("subject", subjects())
def test_missing_bounds_and_coordinates(subject: Subject) -> None:
    index = made(subject)
    index.insert(1, everywhere(None, index), everywhere(5, index))
    index.insert_many(
        [2, 3], [everywhere(3, index), everywhere(None, index)], [everywhere(None, index), everywhere(None, index)]
    )
    asked = [everywhere(value, index) for value in (-1e9, 4, 1e9, None, math.nan, math.inf)]
    asked += [(math.nan, *everywhere(4, index)[1:]), (*everywhere(4, index)[1:], math.nan)]
    assert index.stab(asked).sets() == [{1, 3}, {1, 2, 3}, {2, 3}, set(), set(), {2, 3}, set(), set()]
    assert index.stab(everywhere(4, index)).sets() == [{1, 2, 3}], "one point may be given flat"
    assert index.box(1) == (everywhere(-math.inf, index), everywhere(5.0, index))
    assert len(index.stab([])) == 0
    assert math.nan not in index
    assert "x" not in index


@pytest.mark.parametrize("subject", subjects())
def test_answers_go_into_the_callers_buffers(subject: Subject) -> None:
    index = made(subject)
    index.insert_many(range(20), [everywhere(0, index)] * 20, [everywhere(5, index)] * 20)
    asked = [everywhere(value, index) for value in (1, 2, 9)]
    buffers = Matches(np.empty(4, np.int64), np.empty(200, np.int64))
    answer = index.stab(asked, out=buffers)
    assert answer.counts.tolist() == [20, 20, 0]
    assert np.shares_memory(answer.ids, buffers.ids)
    with pytest.raises(FencepostError, match="An `out` with room for 10 ids; expected room for at least"):
        index.stab(asked, out=Matches(np.empty(4, np.int64), np.empty(10, np.int64)))
    with pytest.raises(FencepostError, match="An `out` with 2 offsets"):
        index.stab(asked, out=Matches(np.empty(2, np.int64), np.empty(200, np.int64)))
    with pytest.raises(FencepostError, match="An `out` whose ids are float64"):
        index.stab(asked[:1], out=Matches(np.empty(4, np.int64), np.empty(200)))


@pytest.mark.parametrize("subject", subjects())
def test_read_only_and_strided_points_are_answered(subject: Subject) -> None:
    index = with_one_box(subject)
    points = np.zeros((4, 2 * index.dimensions)) + 2.0
    points.flags.writeable = False
    assert index.stab(points[::2, ::2]).sets() == [{99}, {99}]
    assert index.stab(np.asfortranarray(points[:, : index.dimensions])).sets() == [{99}] * 4


@pytest.mark.parametrize("dimensions", [0, 17, 2.5, True])
@pytest.mark.parametrize("entry", [e for e in CATALOGUE if "dimensions" in inspect.signature(e).parameters])
def test_impossible_dimensions_are_refused(entry: Any, dimensions: Any) -> None:
    with pytest.raises(FencepostError, match=f"dimensions={dimensions}; expected a whole number from 1 to 16"):
        entry(dimensions=dimensions)
