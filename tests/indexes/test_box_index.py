"""BoxIndex beyond the conformance suite: groups, whole numbers, live changes, budgets, saving and threads."""

import math
import os
import subprocess
import sys
import threading
from typing import Any

import llvmlite.binding
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencepost.errors import FencepostError
from fencepost.indexes import BoxIndex, Matches
from tests.effort import examples

LEAST, MOST = -(2**63), 2**63 - 1

Rows = npt.NDArray[Any]


def boxes_of(kind: str, n: int, dimensions: int, seed: int = 3) -> tuple[Rows, Rows, Rows]:
    """Lows, highs and points of one shape."""
    rng = np.random.default_rng(seed)
    centers = rng.random((n, dimensions)) * 1000
    points = rng.random((300, dimensions)) * 1000
    sides = rng.random((n, dimensions)) * 300
    if kind == "whole":
        lows = np.floor(centers)
        return lows, lows + 1 + np.floor(sides), np.floor(points)
    if kind == "lognormal":
        sides = rng.lognormal(0, 3, (n, dimensions))
    if kind == "clusters":
        homes = rng.random((20, dimensions)) * 1000
        centers = homes[rng.integers(0, 20, n)] + rng.normal(0, 1e-3, (n, dimensions))
        points = homes[rng.integers(0, 20, 300)] + rng.normal(0, 1e-3, (300, dimensions))
        sides = rng.random((n, dimensions)) * 1e-3
    if kind == "one far away":
        centers[0] = 1e300
        centers[1] = 1e-300
    lows, highs = centers - sides / 2, centers + sides / 2
    if kind == "equal":
        lows, highs = np.zeros((n, dimensions)), np.ones((n, dimensions))
        points = rng.choice([0.0, 0.5, np.nextafter(1, 0), 1.0, -1e-300], (300, dimensions))
    if kind == "unbounded":
        lows[rng.random((n, dimensions)) < 0.4] = -np.inf
        highs[rng.random((n, dimensions)) < 0.4] = np.inf
    if kind == "grid":
        lows, highs = np.floor(centers / 50), np.floor(centers / 50) + 2
        points = np.floor(points / 50)
    return lows, np.maximum(highs, np.nextafter(lows, np.inf)), points


SHAPES = ["even", "whole", "lognormal", "clusters", "one far away", "equal", "unbounded", "grid"]


def scan(lows: Rows, highs: Rows, point: Rows) -> list[int]:
    inside = ((lows <= point) & ((point < highs) | np.isposinf(highs))).all(1)
    return np.flatnonzero(inside).tolist()


@pytest.mark.parametrize("spread", [1, 1_000_003], ids=["dense ids", "listed ids"])
@pytest.mark.parametrize("dimensions", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("kind", SHAPES)
def test_every_shape_is_answered_within_its_budget(kind: str, dimensions: int, spread: int) -> None:
    n = 5000
    lows, highs, points = boxes_of(kind, n, dimensions)
    index = BoxIndex(dimensions, values="float64")
    index.insert_many(np.arange(n) * spread, lows, highs)
    index.check()
    points[7, 0] = np.nan
    answer = index.stab(points)
    for point, row in zip(points, answer, strict=True):
        assert (np.sort(row) // spread).tolist() == scan(lows, highs, point)
    assert np.array_equal(index.count(points), answer.counts)
    slots = index.stab(points, slots=True)
    assert np.array_equal(index.slot_ids[slots.ids], answer.ids)
    assert index.storage().nbytes <= index.budget * n + 8192
    assert sum(each.boxes for each in index.structures[1:]) == n


@pytest.mark.parametrize("dimensions", [2, 3])
def test_whole_numbers_are_answered_like_floats(dimensions: int) -> None:
    lows, highs, points = boxes_of("whole", 3000, dimensions)
    real, whole = BoxIndex(dimensions), BoxIndex(dimensions)
    real.insert_many(np.arange(3000), lows, highs)
    whole.insert_many(np.arange(3000), lows.astype(np.int64), highs.astype(np.int64))
    assert (real.values, whole.values) == ("float64", "int64")
    whole.check()
    assert whole.stab(points.astype(np.int64)).sets() == real.stab(points).sets()


def test_whole_numbers_are_exact_at_the_edges_of_int64() -> None:
    index = BoxIndex(2, values="int64")
    index.insert(1, (LEAST, 0), (LEAST + 1, 1))
    index.insert(2, (MOST - 1, None), (None, None))
    index.insert(3, (MOST - 1, 0), (MOST, 1))
    index.insert(4, (None, None), (None, None))
    index.insert(5, (2**53 + 1, 2**53 + 1), (2**53 + 2, 2**53 + 2))
    index.insert(6, (MOST, LEAST), (MOST, LEAST), bounds="[]")
    index.check()
    asked = [[LEAST, 0], [MOST - 1, 0], [MOST, LEAST], [2**53 + 1, 2**53 + 1], [2**53 + 1, 2**53], [MOST, 1]]
    assert index.stab(np.array(asked)).sets() == [{1, 4}, {2, 3, 4}, {2, 4, 6}, {4, 5}, {4}, {2, 4}]
    assert index.stab([[0, None], [0, math.nan]]).sets() == [set(), set()]
    assert index.box(2) == ((MOST - 1, -math.inf), (math.inf, math.inf))
    assert index.box(5) == ((2**53 + 1, 2**53 + 1), (2**53 + 2, 2**53 + 2))
    assert index.ordinals(6) == ((MOST, LEAST), (MOST, LEAST))


def test_floats_are_exact_at_their_edges() -> None:
    index = BoxIndex(2, values="float64")
    tiny = math.nextafter(0.0, 1.0)
    index.insert(1, (-0.0, -math.inf), (tiny, math.inf))
    index.insert(2, (0.0, 1e308), (1.0, None), bounds="[]")
    index.insert(3, (-1.7e308, -1.7e308), (1.7e308, 1.7e308))
    index.check()
    asked = [(0.0, 5.0), (-0.0, math.inf), (tiny, 1e308), (tiny, 0.0), (math.nan, 0.0), (-math.inf, 0.0)]
    assert index.stab(asked).sets() == [{1, 3}, {1, 2}, {2, 3}, {3}, set(), set()]


def test_the_first_insert_decides_the_type_of_the_values() -> None:
    whole, real = BoxIndex(2), BoxIndex(2)
    whole.insert(1, (0, 0), (None, 5))
    real.insert(1, (0.5, 0), (None, 5))
    assert (whole.values, real.values) == ("int64", "float64")
    real.insert(2, (0, 0), (3, 3))
    with pytest.raises(FencepostError, match=r"Box 2 with lower bound 0.5 \(float\) in an index of int64 values"):
        whole.insert(2, (0.5, 0), (3, 3))
    with pytest.raises(FencepostError, match="9007199254740993"):
        real.insert_many([3], [[2**53 + 1, 0.5]], [[None, None]])
    assert len(whole) == 1
    assert len(real) == 2


@pytest.mark.parametrize("groups", [1, 7, 300, 3000])
@pytest.mark.parametrize("skewed", [False, True])
def test_groups_are_answered_like_a_scan(groups: int, skewed: bool) -> None:
    rng = np.random.default_rng(groups)
    n = 3000
    keys = rng.integers(0, groups, n) * 10**12 - 5
    if skewed:
        keys[: n // 2] = keys[0]
    lows, highs, points = boxes_of("even", n, 2)
    index = BoxIndex(2)
    index.insert_many(np.arange(n), lows, highs, groups=keys)
    index.insert_many([n, n + 1], [(100.0, 0.0), (None, None)], [(200.0, 500.0), (50.0, None)])
    index.check()
    of = np.append(rng.choice(keys, 290), np.full(10, 77))
    every = [(100, 0, 200, 500), (-np.inf, -np.inf, 50, np.inf)]
    for point, key, row in zip(points, of, index.stab(points, groups=of), strict=True):
        expected = [i for i in scan(lows, highs, point) if keys[i] == key]
        expected += [n + i for i, (a, b, c, d) in enumerate(every) if a <= point[0] < c and b <= point[1] < d]
        assert sorted(row.tolist()) == expected
    assert index.group_of(5) == keys[5]
    assert index.group_of(n) is None
    again = BoxIndex.from_arrays(index.to_arrays())
    again.check()
    assert again.stab(points, groups=of).sets() == index.stab(points, groups=of).sets()


def test_groups_must_be_given_where_there_are_any() -> None:
    index = BoxIndex(2)
    index.insert(1, (0, 0), (9, 9), group=4)
    for groups, message in (
        (None, "1 points without groups; expected the group of each point"),
        ([1, 2], "1 points and 2 groups; expected one group per point"),
        ([None], "point 0 without a group; expected the group of each point"),
    ):
        with pytest.raises(FencepostError, match=message):
            index.stab([(1, 1)], groups=groups)
    assert index.stab([(1, 1)], groups=[4]).sets() == [{1}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ix: ix.insert(9, (0, 5), (1, 5)), r"Box 9 with lo=5, hi=5 in dimension 1; expected lo < hi"),
        (lambda ix: ix.insert(9, (0, 5), (1, 4), bounds="[]"), r"Box 9 with lo=5, hi=4 in dimension 1"),
        (lambda ix: ix.insert(9, (0, 5, 6), (1, 9)), r"Box 9 with 3 lower bounds; expected 2, one per dimension"),
        (lambda ix: ix.insert(9, 0, 1), r"Box 9 with 1 lower bound; expected 2"),
        (lambda ix: ix.insert(1, (0, 0), (1, 1)), r"Id 1 is in the index already; expected a new id"),
        (lambda ix: ix.insert_many([8, 8], [(0, 0)] * 2, [(1, 1)] * 2), r"Id 8 twice in one call"),
        (lambda ix: ix.insert_many([8], [(0, 0)] * 2, [(1, 1)] * 2), r"1 ids and 2 los"),
        (lambda ix: ix.insert_many([8], [(0, 0)], [(1, 1)], groups=[1, 2]), r"1 ids and 2 groups"),
        (lambda ix: ix.insert_many([8], [(0, 0)], [(1, 1)], bounds="[["), r"Bounds '\[\['"),
        (lambda ix: ix.insert_ordinals([8], [[0, 0]], [[1, -1]]), r"Box 8 with lo=0, hi=-1 in dimension 1"),
        (lambda ix: ix.remove(5), r"Id 5 to remove; expected the id of a box"),
        (lambda ix: ix.remove_many([1, 1]), r"Id 1 to remove twice"),
        (lambda ix: ix.box(5), r"Id 5; expected the id of a box"),
        (lambda ix: ix.stab([(1, 2, 3)]), r"points with 3 coordinates each; expected 2"),
        (lambda ix: ix.insert("x", (0, 0), (1, 1)), r"Id 'x' \(str\)"),
    ],
)
def test_refusals_name_the_fault_and_change_nothing(call: Any, message: str) -> None:
    index = BoxIndex(2, values="int64")
    index.insert(1, (0, 0), (5, 5))
    with pytest.raises(FencepostError, match=message):
        call(index)
    index.check()
    assert len(index) == 1
    assert index.stab([(1, 1)]).sets() == [{1}]


def test_nan_bounds_and_wrong_parameters_are_refused() -> None:
    with pytest.raises(FencepostError, match="Box 3 with lo=nan, hi=1 in dimension 0; expected bounds that are"):
        BoxIndex(2).insert(3, (math.nan, 0), (1.0, 1.0))
    wrongs: list[dict[str, Any]] = [{"dimensions": 17}, {"dimensions": 0}, {"dimensions": 2, "values": "text"}]
    for wrong in wrongs:
        with pytest.raises(FencepostError, match="expected"):
            BoxIndex(**wrong)
    with pytest.raises(FencepostError, match="budget=10; expected at least 64 bytes per box in 2 dimensions"):
        BoxIndex(2, budget=10)


@pytest.mark.parametrize(("dimensions", "spread"), [(2, 1), (3, 1), (3, 5)])
def test_slots_buffers_and_threads_give_the_same_answer(dimensions: int, spread: int) -> None:
    lows, highs, points = boxes_of("even", 4000, dimensions)
    points = np.tile(points, (60, 1))
    index = BoxIndex(dimensions)
    index.insert_many(np.arange(4000)[::-1] * spread, lows, highs)
    plain = index.stab(points)
    out = Matches(np.empty(len(points) + 1, np.int64), np.empty(len(plain.ids) + 64, np.int64))
    for answer in (index.stab(points, threads=3), index.stab(points, out=out), index.stab(points, threads=2, out=out)):
        assert np.array_equal(answer.offsets, plain.offsets)
        assert np.array_equal(answer.ids, plain.ids)
    slots = index.stab(points, slots=True)
    assert slots.ids.dtype == np.uint32
    assert np.array_equal(index.slot_ids[slots.ids], plain.ids)
    with pytest.raises(FencepostError, match="An `out` with room for 3 ids"):
        index.stab(points, out=Matches(out.offsets, np.empty(3, np.int64)))


def test_saved_arrays_are_mapped_read_only_and_stay_untouched(tmp_path: Any) -> None:
    lows, highs, points = boxes_of("unbounded", 3000, 3)
    index = BoxIndex(3)
    index.insert_many(np.arange(3000) * 3, lows, highs, groups=np.arange(3000) % 7)
    index.remove_many(np.arange(0, 300, 3))
    saved = index.to_arrays()
    mapped = {}
    for name, array in saved.items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r" if array.size else None)
    again = BoxIndex.from_arrays(mapped)
    again.check()
    of = np.arange(len(points)) % 8
    assert again.stab(points, groups=of).sets() == index.stab(points, groups=of).sets()
    again.insert_many([1, 2], lows[:2], highs[:2], groups=[3, 99])
    again.remove(300)
    again.check()
    assert again.group_of(2) == 99
    for name, array in saved.items():
        assert np.array_equal(mapped[name], array, equal_nan=array.dtype.kind == "f"), name
    with pytest.raises(FencepostError, match="Arrays of format 0; expected format 1"):
        BoxIndex.from_arrays({**saved, "state": np.zeros(6, np.int64)})
    assert len(BoxIndex.from_arrays(BoxIndex(2).to_arrays())) == 0


def test_readers_see_a_change_whole_or_not_at_all() -> None:
    index = BoxIndex(2)
    n = 2000
    index.insert_many(np.arange(n), np.zeros((n, 2)), np.ones((n, 2)))
    seen: set[int] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.update(index.stab([(0.5, 0.5)] * 50).counts.tolist())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(30):
        ids = np.arange(n + 100 * turn, n + 100 * turn + 100)
        index.insert_many(ids, np.zeros((100, 2)), np.ones((100, 2)))
        index.remove_many(ids)
    stop.set()
    reader.join()
    assert seen <= {n, n + 100}


def test_many_changes_are_swept_into_one_run() -> None:
    lows, highs, points = boxes_of("lognormal", 6000, 2)
    index = BoxIndex(2)
    index.insert_many(np.arange(3000), lows[:3000], highs[:3000])
    for begin in range(3000, 6000, 50):
        index.insert_many(np.arange(begin, begin + 50), lows[begin : begin + 50], highs[begin : begin + 50])
        index.remove_many(np.arange(begin - 3000, begin - 2950))
        index.check()
    assert index.stab(points).sets() == [{i for i in scan(lows, highs, point) if i >= 3000} for point in points]
    index.compact()
    index.check()
    assert len(index.structures) == 2
    assert index.box(3000) == (tuple(lows[3000]), tuple(highs[3000]))
    assert 2999 not in index
    assert 3000 in index
    assert "x" not in index


def test_structures_follow_the_shape_of_the_boxes() -> None:
    def kinds(kind: str, dimensions: int, **more: Any) -> set[str]:
        lows, highs, _ = boxes_of(kind, 20_000, dimensions)
        index = BoxIndex(dimensions, budget=more.pop("budget", None))
        index.insert_many(np.arange(20_000), lows, highs, **more)
        return {each.kind for each in index.structures[1:]}

    assert kinds("lognormal", 2) == {"run_grid"}
    assert kinds("clusters", 2) == {"packed_tree"}
    assert kinds("lognormal", 3) == {"packed_tree"}
    few, many = np.arange(20_000) % 10, np.arange(20_000) % 1000
    assert kinds("even", 2, groups=many) == {"group_blocks"}
    assert kinds("even", 2, groups=few) == {"packed_tree"}
    assert kinds("even", 2, groups=np.where(few == 0, many, -1)) == {"packed_tree", "group_blocks"}


def test_a_larger_budget_makes_smaller_cells_and_the_same_answer() -> None:
    lows, highs, points = boxes_of("whole", 20_000, 2)
    roomy, tight = BoxIndex(2, budget=2000), BoxIndex(2)
    for index in (roomy, tight):
        index.insert_many(np.arange(20_000), lows.astype(np.int64), highs.astype(np.int64))
        index.check()
        assert index.storage().nbytes <= index.budget * 20_000
    assert roomy.storage().constructs > tight.storage().constructs
    assert roomy.stab(points.astype(np.int64)).sets() == tight.stab(points.astype(np.int64)).sets()


def test_groups_of_one_box_stay_within_the_budget() -> None:
    n = 100_000
    rng = np.random.default_rng(3)
    keys, lows = rng.permutation(n) * 17, rng.random((n, 2))
    index = BoxIndex(2)
    index.insert_many(np.arange(n), lows, lows + 0.1, groups=keys)
    assert index.storage().nbytes <= index.budget * n
    some = rng.integers(0, n, 1000)
    assert np.array_equal(index.stab(lows[some], groups=keys[some]).ids, some)


def test_crowds_that_overflow_the_queue_are_answered_in_smaller_blocks() -> None:
    n = 40_000
    index = BoxIndex(3)
    index.insert_many(np.arange(n), np.zeros((n, 3)), 1 + np.arange(3 * n).reshape(n, 3) / n)
    index.check()
    assert index.count(np.full((100, 3), 0.5)).tolist() == [n] * 100


@pytest.mark.parametrize("gone", [0, 500])
def test_rounds_follow_how_many_boxes_hold_a_point(gone: int) -> None:
    n = 3000
    index = BoxIndex(2)
    index.insert_many(np.arange(n), np.zeros((n, 2)), np.full((n, 2), 10.0) + np.arange(n)[:, np.newaxis])
    index.insert_many(np.arange(n, n + 100), np.full((100, 2), -5.0), np.full((100, 2), 1.0))
    index.remove_many(np.arange(gone))
    sparse, dense = np.full((5000, 2), -3.0), np.full((400, 2), 0.5)
    points = np.concatenate([sparse, dense, sparse, dense])
    expected = np.repeat([100, n + 100 - gone, 100, n + 100 - gone], [5000, 400, 5000, 400])
    answer = index.stab(points)
    assert np.array_equal(answer.counts, expected)
    assert np.array_equal(index.count(points), expected)
    for row in (0, 5000, 5399, 5400, 10_400, 10_799):
        everything = np.arange(gone if expected[row] > 100 else n, n + 100)
        assert np.array_equal(np.sort(answer[row]), everything)


PLAIN = """
import llvmlite.binding
import numpy as np
from fencepost.indexes import BoxIndex
rng = np.random.default_rng(1)
lows = rng.random((700, 2))
index = BoxIndex(2)
index.insert_many(np.arange(700), lows, lows + 0.2)
points = rng.random((40, 2))
print(all(row.tolist() == np.flatnonzero(((lows <= p) & (p < lows + 0.2)).all(1)).tolist()
          for p, row in zip(points, map(np.sort, index.stab(points)))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("features", ["", "+avx,+avx2,+popcnt", "+avx,+avx2,+avx512f,+popcnt"])
def test_processors_with_other_vectors_give_the_same_answer(features: str) -> None:
    has = llvmlite.binding.get_host_cpu_features()
    lacks = [name for name in features.replace("+", "").split(",") if name and not has.get(name)]
    if lacks:
        pytest.skip(f"this processor has no {', '.join(lacks)}")
    other = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    done = subprocess.run([sys.executable, "-c", PLAIN], env=other, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.stdout.strip() == "True", done.stderr


COORDINATES = st.one_of(
    st.integers(-3, 6).map(float), st.sampled_from([-math.inf, math.inf, 1e300, 5e-324, -0.0, 2.5, 1e-300])
)


class Churn(RuleBasedStateMachine):
    """Random changes with and without groups against a dictionary; the structure's own check after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.index = BoxIndex(2, values="float64")
        self.boxes: dict[int, tuple[tuple[float, ...], tuple[float, ...], int | None]] = {}

    @rule(
        first=st.integers(-50, 400),
        corners=st.lists(st.tuples(*[COORDINATES] * 4), min_size=1, max_size=40),
        group=st.sampled_from([None, None, 1, 2]),
    )
    def insert_many(self, first: int, corners: list[tuple[float, ...]], group: int | None) -> None:
        rows = {}
        for number, (a, b, c, d) in enumerate(corners):
            (a, c), (b, d) = sorted((a, c)), sorted((b, d))
            if first + number not in self.boxes and a < c and b < d:
                key = group if group is None or number % 3 else None
                rows[first + number] = ((a, b), (c, d), key)
        lows, highs, groups = zip(*rows.values(), strict=True) if rows else ((), (), ())
        self.index.insert_many(list(rows), list(lows), list(highs), groups=None if group is None else list(groups))
        self.boxes |= rows

    @precondition(lambda self: self.boxes)
    @rule(data=st.data())
    def remove_many(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.boxes)), max_size=30, unique=True))
        self.index.remove_many(ids)
        for id in ids:
            del self.boxes[id]

    @rule()
    def compact(self) -> None:
        self.index.compact()

    @rule()
    def save(self) -> None:
        self.index = BoxIndex.from_arrays({name: array.copy() for name, array in self.index.to_arrays().items()})

    @rule(points=st.lists(st.tuples(COORDINATES, COORDINATES), min_size=1, max_size=10), group=st.integers(0, 2))
    def stab(self, points: list[tuple[float, float]], group: int) -> None:
        for (x, y), row in zip(points, self.index.stab(points, groups=[group] * len(points)), strict=True):
            expected = {
                id
                for id, ((a, b), (c, d), key) in self.boxes.items()
                if a <= x and (x < c or c == math.inf) and b <= y and (y < d or d == math.inf) and key in (None, group)
            }
            assert sorted(row.tolist()) == sorted(expected)

    @invariant()
    def sound(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.boxes)
        for id in list(self.boxes)[:3]:
            lows, highs, group = self.boxes[id]
            assert self.index.box(id) == (lows, highs)
            assert self.index.group_of(id) == group


TestChurn = Churn.TestCase
TestChurn.settings = examples(15, stateful_step_count=25)


@given(
    corners=st.lists(st.tuples(*[st.integers(LEAST, MOST)] * 3, *[st.integers(-2, 2)] * 3), min_size=1, max_size=60),
    data=st.data(),
)
@examples(30)
def test_ordinals_of_any_size_are_answered_exactly(corners: list[tuple[int, ...]], data: st.DataObject) -> None:
    firsts = np.array([[a, b, 0] for a, b, *_ in corners])
    lasts = np.array([[max(a, c), max(b, min(b + e, MOST)), abs(f)] for a, b, c, _, e, f in corners])
    index = BoxIndex(3, values="int64")
    index.insert_ordinals(np.arange(len(corners)), firsts, lasts)
    index.check()
    picked = data.draw(st.lists(st.integers(0, len(corners) - 1), min_size=1, max_size=20))
    asked = np.array([[lasts[i, 0], firsts[j, 1], 1] for i in picked for j in picked])
    for point, row in zip(asked, index.stab_ordinals(asked), strict=True):
        assert np.sort(row).tolist() == np.flatnonzero(((firsts <= point) & (point <= lasts)).all(1)).tolist()


def test_an_id_that_comes_back_again_and_again_is_found() -> None:
    index = BoxIndex(2)
    index.insert_many(range(20), [(i, i) for i in range(20)], [(i + 5, i + 5) for i in range(20)])
    for step in range(40):
        for id in (12, 7):
            index.remove(id)
            index.insert(id, (step, id), (step + 1, id + 1))
            index.check()
            assert index.ordinals(id) == ((step, id), (step, id))
            assert id in index.stab([(step, id)]).sets()[0]
    assert len(index) == 20
