"""The band joins' worked examples and counted claims, and what the production structure promises beyond them."""

import math
from typing import Any

import numpy as np
import pytest

from fencepost.errors import FencepostError
from fencepost.indexes import SSI, BlockBands, QuadraticBands, StabbingBands
from fencepost.lab import workloads
from tests.indexes.test_bands_conformance import CATALOGUE, as_list


@pytest.mark.parametrize("entry", CATALOGUE)
def test_a_displacement_on_the_stabbing_point_reports_once(entry: Any) -> None:
    index = entry()
    index.insert_many("left", [0, 1], [0.0, 1.0])
    index.insert_query(7, 0, 1)
    assert as_list(index.pairs("right", 0.0)) == [(0, 7), (1, 7)]
    assert index.affected("right", 0.0).tolist() == [7]


@pytest.mark.parametrize("entry", CATALOGUE)
def test_infinite_bands_do_not_meet_absent_neighbours(entry: Any) -> None:
    index = entry()
    index.insert("left", 5, 5.0)
    index.insert_queries([1, 2], [-math.inf, 4], [3, math.inf])
    assert index.affected("right", 1.0).tolist() == [2]
    assert index.affected("right", 2.0).tolist() == [1]
    assert index.affected("right", 1.5).tolist() == []


@pytest.mark.parametrize("entry", CATALOGUE)
def test_differences_are_not_rounded(entry: Any) -> None:
    """1.0 - 0.3 is a little more than the double 0.7, to which it is rounded: real numbers decide."""
    index = entry()
    index.insert("left", 1, 1.0)
    index.insert_queries([1, 2], [None, 0.7], [0.7, None])
    assert 1.0 - 0.3 == 0.7
    assert index.affected("right", 0.3).tolist() == [2]


@pytest.mark.parametrize("entry", CATALOGUE)
def test_degenerate_sets(entry: Any) -> None:
    same, apart = entry(), entry()
    for index in (same, apart):
        index.insert_many("left", range(12), [0.0, 0.0, 3.0, 3.0, *range(4, 12)])
    same.insert_queries(range(9), [1] * 9, [2] * 9)
    apart.insert_queries(range(9), [3 * i for i in range(9)], [3 * i for i in range(9)])
    assert sorted(same.affected("right", 1.5).tolist()) == list(range(9))
    assert len(same.pairs("right", 1.5).rows) == 2 * 9
    assert sorted(apart.affected("right", 0.0).tolist()) == [0, 1, 2, 3]
    assert as_list(apart.pairs("right", 3.0)) == [(2, 0), (3, 0), (6, 1), (9, 2)]
    assert apart.affected("right", 0.5).tolist() == []
    for index in (same, apart):
        index.check()


def test_a_greedy_stabbing_set_is_smallest() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        lows = rng.integers(0, 60, 30)
        highs = lows + rng.integers(0, 12, 30)
        index = SSI()
        index.insert_queries(range(30), lows, highs)
        assert index.stabbing_groups == smallest_stabbing_set(lows, highs)


def smallest_stabbing_set(lows: Any, highs: Any) -> int:
    """By upper bounds instead of lower ones: stab at the least end not stabbed yet."""
    count, last = 0, -math.inf
    for high, low in sorted(zip(highs.tolist(), lows.tolist(), strict=True)):
        if low > last:
            count, last = count + 1, high
    return count


def test_space_follows_the_lemmas() -> None:
    work = workloads.hotspots(rows=200, queries=200, hotspots=5, mean_affected=10, values=10)
    held = {}
    for entry in (QuadraticBands, StabbingBands, SSI):
        index = entry()
        work.load(index)
        held[entry] = index.storage()
    tau = held[SSI].constructs
    assert tau <= 5
    assert held[QuadraticBands].entries >= 2 * 200 * 200
    assert held[StabbingBands].entries <= 2 * (3 * 201 * tau + 2 * 200)
    assert held[SSI].entries == 200 + 200 + 2 * 200 + tau


def test_blocks_share_their_orders() -> None:
    """Short queries and distant points: with r = 2 a block and a gap have few orders, whatever their number."""
    rng = np.random.default_rng(2)
    few = BlockBands(size=2)
    few.insert_many("left", range(120), np.sort(rng.uniform(0, 1e6, 120)))
    lows = rng.uniform(0, 1e6, 120)
    few.insert_queries(range(120), lows, lows + 1e-3)
    assert few.descriptions <= 8
    with pytest.raises(FencepostError, match="size=9; expected 1 to 7"):
        BlockBands(size=9)


def brute(
    queries: dict[int, tuple[float, float]], side: str, value: float, others: dict[int, float]
) -> set[tuple[int, int]]:
    rows = np.array(list(others.values()))
    differences = value - rows if side == "left" else rows - value
    ids = list(others)
    found: set[tuple[int, int]] = set()
    for id, (low, high) in queries.items():
        found.update((ids[i], id) for i in np.flatnonzero((differences >= low) & (differences <= high)).tolist())
    return found


def test_long_churn_splits_and_merges_chunks() -> None:
    """Hundreds of rows and queries come and go one by one, on whole numbers, so that floats are exact."""
    rng = np.random.default_rng(4)
    index = SSI()
    rows: dict[str, dict[int, float]] = {"left": {}, "right": {}}
    queries: dict[int, tuple[float, float]] = {}
    for step in range(5000):
        growing = (step // 1250) % 2 == 0
        side: Any = ("left", "right")[step % 2]
        if growing or not rows[side]:
            rows[side][step] = float(rng.integers(0, 3000))
            index.insert(side, step, rows[side][step])
            low = float(rng.choice([-500, 0, 700]) - rng.integers(0, 25))
            queries[step] = (low, low + float(rng.integers(0, 50)))
            index.insert_query(step, *queries[step])
        else:
            row = int(rng.choice(list(rows[side])))
            del rows[side][row]
            index.remove(side, row)
            if queries:
                query = int(rng.choice(list(queries)))
                del queries[query]
                index.remove_query(query)
        other = "right" if side == "left" else "left"
        if rows[side] and step % 40 == 0:
            row, value = int(rng.choice(list(rows[side]))), float(rng.integers(0, 3000))
            was = brute(queries, side, rows[side][row], rows[other])
            now = brute(queries, side, value, rows[other])
            assert as_list(index.pairs(side, value)) == sorted(now)
            assert sorted(index.affected(side, value).tolist()) == sorted({query for _, query in now})
            change = index.move(side, row, value)
            rows[side][row] = value
            assert as_list(change.entered) == sorted(now - was)
            assert as_list(change.left) == sorted(was - now)
        if step % 250 == 0:
            index.check()
            bounds = np.array(list(queries.values())).reshape(-1, 2)
            assert index.stabbing_groups <= 1.5 * smallest_stabbing_set(bounds[:, 0], bounds[:, 1]) + 2
    index.check()
    assert index.storage().nbytes < 400_000


def test_a_chunk_that_was_split_may_have_a_small_neighbour() -> None:
    index = SSI()
    index.insert_many("left", range(57), np.arange(57.0))
    for number in range(100, 140):
        index.insert("left", number, -float(number))
        index.check()


def test_ten_thousand_groups_with_shared_and_own_queries() -> None:
    rng = np.random.default_rng(5)
    keys = np.repeat(np.arange(10_000) * 3 - 7, 2)
    index = SSI()
    index.insert_many("left", np.arange(20_000), rng.integers(0, 50, 20_000), keys)
    index.insert_many("right", np.arange(20_000), rng.integers(0, 50, 20_000), keys)
    index.insert_queries([1, 2], [-5, None], [5, -40])
    index.insert_queries(np.arange(10, 10_010), np.full(10_000, 6), np.full(10_000, 9), groups=keys[::2])
    index.check()
    for i in (0, 1, 777, 19_999):
        value, key, slot = index.row("left", i), int(keys[i]), i // 2
        expected = set()
        for j in (2 * slot, 2 * slot + 1):
            difference = value - index.row("right", j)
            expected |= {(j, 1)} if -5 <= difference <= 5 else set()
            expected |= {(j, 2)} if difference <= -40 else set()
            expected |= {(j, 10 + slot)} if 6 <= difference <= 9 else set()
        assert as_list(index.pairs("left", value, key)) == sorted(expected)
    assert index.affected("left", 10.0, group=99_999_999).tolist() == []
    index.remove_many("left", np.arange(20_000))
    index.remove_queries(np.arange(10, 10_010))
    index.remove_many("right", np.arange(20_000))
    index.check()


def test_saved_arrays_make_the_same_index() -> None:
    rng = np.random.default_rng(6)
    index = SSI(values="int64")
    index.insert_many("left", np.arange(300), rng.integers(-(2**62), 2**62, 300), [None, 4, 4] * 100)
    index.insert_many("right", np.arange(300), rng.integers(-(2**62), 2**62, 300), [4, None, 4] * 100)
    index.insert_queries(np.arange(50), [None] * 25 + [-(2**61)] * 25, [2**60] * 50, groups=[None, 4] * 25)
    index.insert_query(99, 0, 2**61, bounds="(]")
    arrays = index.to_arrays()
    for array in arrays.values():
        array.flags.writeable = False
    loaded = SSI.from_arrays(arrays)
    loaded.check()
    for value in (0, 5, -(2**61)):
        for group in (None, 4):
            assert as_list(loaded.pairs("left", value, group)) == as_list(index.pairs("left", value, group))
    loaded.insert("left", 1000, 3)
    assert loaded.query(99) == (0, 2**61)
    with pytest.raises(FencepostError, match="Arrays of format 9; expected format 1"):
        SSI.from_arrays({**arrays, "state": np.array([9, 0])})
