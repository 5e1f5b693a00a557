"""The interval skip list: its markers against the reference version, written out in plain Python."""

import copy
import itertools
import math
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.indexes.contracts.registry import Bounds
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.papers.islist import ISList
from fencepost.indexes.papers.skiplist import COUNT, KEY, NEXT, OWNERS, SHORT_OF_NODES, START
from tests.effort import examples
from tests.oracle import IntervalOracle, contains

Interval = tuple[float, float, Bounds]
Placement = tuple[dict[tuple[float, float, int], set[int]], dict[float, set[int]]]

BOUNDS: list[Bounds] = ["[)", "[]", "(]", "()"]
HIGHEST = 32

every_bounds = pytest.mark.parametrize("bounds", BOUNDS)


# -- the reference version: around a node that comes or goes, take all intervals out and place them again ---------


@dataclass(eq=False)
class Node:
    key: float
    forward: list["Node | None"]
    markers: list[set[int]]
    equal: set[int] = field(default_factory=set)
    owners: int = 0


class Reference:
    """The published algorithm to the letter; the heights of the nodes come from outside."""

    def __init__(self, height_of: Callable[[float], int]) -> None:
        self.height_of = height_of
        self.header = self.new_node(math.nan, HIGHEST)
        self.intervals: dict[int, Interval] = {}

    def new_node(self, key: float, height: int) -> Node:
        return Node(key, [None] * height, [set() for _ in range(height)])

    def nodes(self) -> Iterator[Node]:
        node = self.header.forward[0]
        while node is not None:
            yield node
            node = node.forward[0]

    def node(self, key: float) -> Node | None:
        return next((node for node in self.nodes() if node.key == key), None)

    def predecessors(self, key: float) -> list[Node]:
        found: list[Node] = []
        node = self.header
        for level in range(HIGHEST - 1, -1, -1):
            while (beyond := node.forward[level]) is not None and beyond.key < key:
                node = beyond
            found.append(node)
        return found[::-1]

    def path(self, id: int) -> tuple[list[tuple[Node, int]], list[Node]]:
        low, high, _ = self.intervals[id]

        def leads_inside(node: Node, level: int) -> bool:
            beyond = node.forward[level]
            return beyond is not None and beyond.key <= high

        node, level = cast(Node, self.node(low)), 0
        edges: list[tuple[Node, int]] = []
        visited = [node]
        while leads_inside(node, level):
            while level + 1 < len(node.forward) and leads_inside(node, level + 1):
                level += 1
            edges.append((node, level))
            node = cast(Node, node.forward[level])
            visited.append(node)
        while node.key != high:
            while level > 0 and not leads_inside(node, level):
                level -= 1
            edges.append((node, level))
            node = cast(Node, node.forward[level])
            visited.append(node)
        return edges, visited

    def place(self, id: int) -> None:
        edges, visited = self.path(id)
        for node, level in edges:
            node.markers[level].add(id)
        for node in visited:
            if contains(*self.intervals[id], node.key):
                node.equal.add(id)

    def unplace(self, id: int) -> None:
        edges, visited = self.path(id)
        for node, level in edges:
            node.markers[level].remove(id)
        for node in visited:
            node.equal.discard(id)

    def add_node(self, key: float) -> None:
        node = self.node(key)
        if node is None:
            node = self.new_node(key, self.height_of(key))
            before = self.predecessors(key)
            around = set().union(*(before[level].markers[level] for level in range(len(node.forward))))
            for id in around:
                self.unplace(id)
            for level in range(len(node.forward)):
                node.forward[level] = before[level].forward[level]
                before[level].forward[level] = node
            for id in around:
                self.place(id)
        node.owners += 1

    def drop_node(self, key: float) -> None:
        node = cast(Node, self.node(key))
        node.owners -= 1
        if node.owners == 0:
            before = self.predecessors(key)
            levels = range(len(node.forward))
            around = set().union(*(node.markers[level] | before[level].markers[level] for level in levels))
            for id in around:
                self.unplace(id)
            for level in levels:
                before[level].forward[level] = node.forward[level]
            for id in around:
                self.place(id)

    def insert(self, id: int, low: float, high: float, bounds: Bounds) -> None:
        self.add_node(low)
        self.add_node(high)
        self.intervals[id] = (low, high, bounds)
        self.place(id)

    def remove(self, id: int) -> None:
        low, high, _ = self.intervals[id]
        self.unplace(id)
        self.drop_node(low)
        self.drop_node(high)
        del self.intervals[id]

    def placement(self) -> Placement:
        edges = {}
        for node in self.nodes():
            for level, beyond in enumerate(node.forward):
                if beyond is not None:
                    edges[node.key, beyond.key, level] = node.markers[level]
        return edges, {node.key: node.equal for node in self.nodes()}


# -- the same of the index --------------------------------------------------------------------------------


def ids_on(index: ISList, record: int) -> set[int]:
    start, count = index._skip.words[record, START : COUNT + 1].tolist()
    ids = index._skip.ids[start : start + count].tolist()
    assert len(set(ids)) == len(ids)
    return set(ids)


def heights(index: ISList) -> dict[float, int]:
    nodes, found = index._nodes()
    return dict(zip(index._skip.keys[nodes, KEY].tolist(), found.tolist(), strict=True))


def placement(index: ISList) -> Placement:
    skip, edges, equal = index._skip, {}, {}
    for node, height in zip(*(column.tolist() for column in index._nodes()), strict=True):
        key = float(skip.keys[node, KEY])
        equal[key] = ids_on(index, node)
        for level in range(height):
            if skip.words[node + 1 + level, NEXT]:
                edges[key, float(skip.keys[node + 1 + level, KEY]), level] = ids_on(index, node + 1 + level)
    return edges, equal


def assert_answers(index: ISList, oracle: IntervalOracle) -> None:
    asked = [n / 2 for n in range(-3, 70)] + [math.inf, -math.inf, math.nan]
    for low, high, _ in oracle.intervals.values():
        asked += [low, high, math.nextafter(low, math.inf), math.nextafter(high, -math.inf)]
    for value, row in zip(asked, index.stab(asked), strict=True):
        assert sorted(row.tolist()) == oracle.stab(value), f"at {value!r}"


class Trio:
    """The index, the reference and the oracle, which see the same changes and are compared after each."""

    def __init__(self, index: ISList) -> None:
        self.index = index
        self.reference = Reference(lambda key: heights(index)[key])
        self.oracle = IntervalOracle()

    def insert(self, id: int, low: float, high: float, bounds: Bounds) -> None:
        self.index.insert(id, low, high, bounds=bounds)
        self.reference.insert(id, low, high, bounds)
        self.oracle.insert(id, low, high, bounds)
        self.compare()

    def remove(self, id: int) -> None:
        self.index.remove(id)
        self.reference.remove(id)
        self.oracle.remove(id)
        self.compare()

    def compare(self) -> None:
        self.index.check()
        assert placement(self.index) == self.reference.placement()


# -- random changes ---------------------------------------------------------------------------------------


@st.composite
def small_intervals(draw: st.DrawFn) -> Interval:
    """Ends on the integers and halves of [0, 32] or unbounded; points only where they are closed."""
    ends = st.one_of(st.integers(0, 32).map(float), st.integers(0, 64).map(lambda n: n / 2))
    low, high = sorted((draw(ends), draw(ends)))
    bounds = draw(st.sampled_from(BOUNDS))
    if low == high:
        bounds = "[]"
    unbounded = draw(st.sampled_from(["", "", "", "", "low", "high", "low high"]))
    return (-math.inf if "low" in unbounded else low), (math.inf if "high" in unbounded else high), bounds


@given(seed=st.integers(0, 2**64), drawn=st.lists(small_intervals(), max_size=14), choice=st.randoms())
@examples(60)
def test_random_changes_place_markers_like_the_reference(
    seed: int, drawn: list[Interval], choice: random.Random
) -> None:
    trio = Trio(ISList(seed=seed))
    for id, (low, high, bounds) in enumerate(drawn):
        trio.insert(id, low, high, bounds)
        if choice.random() < 0.3:
            trio.remove(choice.choice(sorted(trio.oracle.intervals)))
    assert_answers(trio.index, trio.oracle)
    for id in choice.sample(sorted(trio.oracle.intervals), len(trio.oracle.intervals)):
        trio.remove(id)
    assert trio.index.storage()[:3] == (0, 0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_a_crowd_on_few_end_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trio = Trio(ISList(seed=seed))
    for id in range(150):
        low, high = sorted(rng.choice(33, 2, replace=False).tolist())
        trio.insert(id, low, high, BOUNDS[rng.integers(4)])
        if id > 60 and rng.random() < 0.6:
            trio.remove(int(rng.choice(list(trio.oracle.intervals))))
    assert_answers(trio.index, trio.oracle)


SHAPES: dict[str, list[tuple[float, float]]] = {
    "nested": [(float(n), 40.0 - n) for n in range(20)],
    "touching": [(float(n), n + 1.0) for n in range(24)],
    "overlapping": [(float(n), n + 7.0) for n in range(24)],
    "one start": [(3.0, 4.0 + n) for n in range(24)],
    "one end": [(float(n), 30.0) for n in range(24)],
    "identical": [(5.0, 9.0)] * 12,
    "points": [(float(n % 6), float(n % 6)) for n in range(18)],
    "unbounded below": [(-math.inf, float(n)) for n in range(20)],
    "unbounded above": [(float(n), math.inf) for n in range(20)],
    "unbounded": [(-math.inf, math.inf)] * 4 + [(float(n), n + 2.0) for n in range(12)],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_in_both_orders(shape: str, descending: bool) -> None:
    drawn = SHAPES[shape][:: -1 if descending else 1]
    trio = Trio(ISList(seed=len(shape)))
    for id, (low, high) in enumerate(drawn):
        trio.insert(id, low, high, "[]" if low == high else BOUNDS[id % 4])
    assert_answers(trio.index, trio.oracle)
    for id in range(len(drawn)):
        trio.remove(id)
    assert len(trio.index) == 0


# -- ends -------------------------------------------------------------------------------------------------


@every_bounds
@pytest.mark.parametrize("closed", [False, True])
def test_ends_belong_to_an_interval_as_its_bounds_say(closed: bool, bounds: Bounds) -> None:
    index = ISList(closed=closed)
    index.insert(1, 2, 5, bounds=bounds)
    index.insert_many([2], [3], [4])
    expected = [{1} if bounds[0] == "[" else set(), {1, 2}, {1, 2} if closed else {1}]
    assert index.stab([2, 3, 4]).sets() == expected
    assert index.stab([5]).sets() == [{1} if bounds[1] == "]" else set()]
    assert index.interval(1) == (2.0, 5.0)


@every_bounds
def test_an_unbounded_end_is_closed(bounds: Bounds) -> None:
    index = ISList()
    index.insert_many([1, 2, 3], [None, 4, None], [3, None, None], bounds=bounds)
    low, high = ({1} if bounds[1] == "]" else set()), ({2} if bounds[0] == "[" else set())
    assert index.stab([-math.inf, math.inf]).sets() == [{1, 3}, {2, 3}]
    assert index.stab([3, 4, math.nan]).sets() == [low | {3}, high | {3}, set()]


@every_bounds
@pytest.mark.parametrize("closed", [False, True])
def test_an_empty_interval_is_refused_in_the_words_of_its_bounds(closed: bool, bounds: Bounds) -> None:
    index = ISList(closed=closed)
    index.insert(9, 1, 8)
    expected = "lo <= hi" if bounds == "[]" else "lo < hi"
    message = f"Interval 2 with lo=6, hi=5; expected {expected}. Swap the bounds, or leave the interval out"
    with pytest.raises(FencepostError, match=message):
        index.insert_many([1, 2], [0, 6], [3, 5], bounds=bounds)
    if bounds == "[]":
        index.insert(2, 5, 5, bounds=bounds)
        assert index.stab([5]).sets() == [{2, 9}]
        index.remove(2)
    else:
        with pytest.raises(FencepostError, match="Interval 2 with lo=5, hi=5; expected lo < hi"):
            index.insert(2, 5, 5, bounds=bounds)
    index.check()
    assert index.stab([2, 5]).sets() == [{9}, {9}]


def test_an_open_interval_without_a_float_in_it_is_empty() -> None:
    for closed in (False, True):
        with pytest.raises(FencepostError, match=r"Interval 1 with lo=1, hi=1.0000000000000002; expected lo < hi"):
            ISList(closed=closed).insert(1, 1.0, math.nextafter(1.0, 2.0), bounds="()")


def test_without_bounds_the_index_decides_what_is_empty() -> None:
    with pytest.raises(FencepostError, match="Interval 1 with lo=5, hi=5; expected lo < hi"):
        ISList().insert(1, 5, 5)
    index = ISList(closed=True)
    index.insert(1, 5, 5)
    assert index.pieces(1) == [(5.0, 5.0)]
    with pytest.raises(FencepostError, match="Interval 2 with lo=6, hi=5; expected lo <= hi"):
        index.insert(2, 6, 5)


# -- bulk, heights, memory ----------------------------------------------------------------------------------


def random_columns(n: int, seed: int = 3) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    lows = rng.integers(0, 1000, n) / 2
    return np.arange(n), lows, lows + rng.integers(1, 120, n)


@every_bounds
def test_bulk_and_single_changes_are_the_same(bounds: Bounds) -> None:
    ids, lows, highs = random_columns(700)
    bulk, single = ISList(seed=5), ISList(seed=5)
    bulk.insert_many(ids, lows, highs, bounds=bounds)
    for id, low, high in zip(ids.tolist(), lows.tolist(), highs.tolist(), strict=True):
        single.insert(id, low, high, bounds=bounds)
    bulk.check()
    assert placement(bulk) == placement(single)
    bulk.remove_many(ids[::2])
    for id in ids[::2].tolist():
        single.remove(id)
    bulk.check()
    assert placement(bulk) == placement(single)
    assert bulk.storage()[:3] == single.storage()[:3]


def test_heights_follow_the_seed() -> None:
    ids, lows, highs = random_columns(2000)
    made = [ISList(seed=seed) for seed in (1, 1, 2, -1)]
    for index in made:
        index.insert_many(ids, lows, highs)
    same, again, other, negative = (heights(index) for index in made)
    assert same == again
    assert same != other
    assert other != negative
    drawn = np.array(list(same.values()))
    assert abs((drawn > 1).mean() - 0.5) < 0.06
    assert abs((drawn > 2).mean() - 0.25) < 0.05


def test_memory_is_used_again() -> None:
    index = ISList()
    handed_out = []
    for round_number in range(12):
        ids, lows, highs = random_columns(3000, seed=round_number)
        index.insert_many(ids + 7 * round_number, lows, highs)
        index.check()
        handed_out.append(index._skip.arenas[:, 0].copy())
        index.remove_many(np.random.default_rng(round_number).permutation(ids) + 7 * round_number)
        index.check()
        assert index.storage()[:3] == (0, 0, 0)
    assert (handed_out[-1] < 1.4 * handed_out[1]).all()


def test_a_vacated_slot_does_not_keep_its_ends() -> None:
    index = ISList()
    index.insert(1, 0, 5, bounds="[]")
    index.remove(1)
    index.insert(2, 0, 5, bounds="()")
    assert index.stab([0, 3, 5]).sets() == [set(), {2}, set()]


class Tight(ISList):
    """Grows by a little at a time, and keeps a guarded zone behind every array."""

    def _enlarge(self, short: int) -> None:
        skip = self._skip
        if short == SHORT_OF_NODES:
            keys = self._guarded("keys", skip.keys, len(skip.keys) + 2)
            self._skip = skip._replace(keys=keys, words=keys.view(np.uint32))
        else:
            ids = self._guarded("ids", skip.ids, len(skip.ids) + 3)
            self._skip = skip._replace(ids=ids, slots=self._guarded("slots", skip.slots, len(ids) - PADDING))

    def _guarded(self, name: str, array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
        buffer = np.zeros((size + 200, *array.shape[1:]), array.dtype)
        buffer[: len(array)] = array
        buffer[size:] = 77
        self.__dict__.setdefault("guards", {})[name] = buffer[size:]
        return buffer[:size]

    def assert_guarded(self) -> None:
        for name, guard in self.__dict__.get("guards", {}).items():
            assert (guard == 77).all(), f"a write behind {name}"


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_written_behind_the_arrays_while_they_grow(seed: int) -> None:
    index, oracle, rng = Tight(seed=seed), IntervalOracle(), np.random.default_rng(seed)
    for id in range(220):
        low, high = sorted(rng.choice(33, 2, replace=False).tolist())
        bounds = BOUNDS[rng.integers(4)]
        index.insert(id, low, high, bounds=bounds)
        oracle.insert(id, low, high, bounds)
        if rng.random() < 0.3:
            gone = int(rng.choice(list(oracle.intervals)))
            index.remove(gone)
            oracle.remove(gone)
        index.check()
        index.assert_guarded()
    assert_answers(index, oracle)
    index.remove_many(sorted(oracle.intervals))
    index.check()
    index.assert_guarded()


def test_answers_grow_over_several_rounds() -> None:
    ids, lows, highs = random_columns(1500)
    index = ISList()
    index.insert_many(ids, lows, highs)
    asked = np.concatenate([np.full(3000, -5.0), np.random.default_rng(1).uniform(-5, 600, 3000), lows[:500]])
    answer = index.stab(asked)
    for value, row in zip(asked, answer, strict=True):
        assert np.array_equal(np.sort(row), np.flatnonzero((lows <= value) & (value < highs)))
    assert ISList().stab(asked).counts.sum() == 0


def test_storage_counts_nodes_and_markers() -> None:
    index = ISList(closed=True)
    index.insert(1, 2, 2)
    assert index.storage()[:2] == (1, 1)
    index.insert(2, 0, 4)
    edges, equal = placement(index)
    markers = sum(map(len, edges.values())) + sum(map(len, equal.values()))
    assert index.storage()[:2] == (3, markers)
    pointers = sum(heights(index).values()) + max(heights(index).values())
    assert index.storage().model_bytes == 3 * 12 + 8 * pointers + 8 * markers


def test_pieces_tile_the_interval() -> None:
    ids, lows, highs = random_columns(200)
    index = ISList()
    index.insert_many(ids, lows, highs, bounds="(]")
    for id in ids.tolist():
        pieces = index.pieces(id)
        edges = [piece for piece in pieces if piece[0] < piece[1]]
        assert [edges[0][0], edges[-1][1]] == [lows[id], highs[id]]
        assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
        assert [key for key, end in pieces if key == end] == [end for _, end in edges]


# -- copies and damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])
def test_a_copy_lives_on_its_own(copied: Callable[[ISList], ISList]) -> None:
    ids, lows, highs = random_columns(100)
    index = ISList()
    index.insert_many(ids, lows, highs)
    twin = copied(index)
    twin.remove_many(ids[:50])
    twin.insert(1000, 3, 9)
    twin.check()
    index.check()
    assert (len(index), len(twin)) == (100, 51)


def damaged_marker(index: ISList) -> None:
    index._skip.slots[np.flatnonzero(index._skip.slots)[0]] += 1


def damaged_count(index: ISList) -> None:
    index._skip.words[np.flatnonzero(index._skip.words[:, COUNT])[-1], COUNT] -= 1


def damaged_owners(index: ISList) -> None:
    index._skip.words[index._nodes()[0][3], OWNERS] += 1


def damaged_key(index: ISList) -> None:
    index._skip.keys[index._nodes()[0][3] + 1, KEY] += 0.25


def damaged_ends(index: ISList) -> None:
    index._skip.ends[index._live_slots()[0]] ^= 1


def damaged_arena(index: ISList) -> None:
    index._skip.arenas[1, 0] += 1


@pytest.mark.parametrize(
    "damage", [damaged_marker, damaged_count, damaged_owners, damaged_key, damaged_ends, damaged_arena]
)
def test_check_notices(damage: Callable[[ISList], None]) -> None:
    index = ISList()
    index.insert_many(*random_columns(60))
    index.check()
    damage(index)
    with pytest.raises(AssertionError):
        index.check()
