"""What moves enter and leave in a BoxIndex: the difference of what holds at both ends, by whichever way it is found."""

from typing import Any

import numpy as np
import pytest

from fencepost.indexes import BoxIndex
from tests.indexes.test_box_index import SHAPES, boxes_of

N = 2_000
FURTHEST = {"clusters": 1e-3, "equal": 0.6, "grid": 3.0}
"""About the size of a box, where that is not a few hundred."""


def ordinals(index: BoxIndex, points: Any) -> Any:
    """Points as the index has them."""
    flat = np.ascontiguousarray(points, np.float64).view(np.int64)
    return np.where(flat < 0, np.int64(-(2**63)) - flat, flat) if index.values == "float64" else points.astype(np.int64)


def moves_of(kind: str, points: Any, seed: int = 8) -> tuple[Any, Any]:
    """Moves of every length, from none to far beyond a cell, some of them ending on the bounds of boxes."""
    rng = np.random.default_rng(seed)
    before = np.repeat(points, 3, axis=0)
    length = FURTHEST.get(kind, 300.0) * 10.0 ** rng.uniform(-5, 1, (len(before), 1))
    after = before + rng.uniform(-1, 1, before.shape) * length * (rng.random((len(before), 1)) < 0.9)
    if kind in ("whole", "grid"):
        after = np.round(after)
    return before, after


def assert_moves(index: BoxIndex, before: Any, after: Any, **more: Any) -> None:
    """`moves_ordinals` says what the answers at both ends differ by."""
    asked = [ordinals(index, points) for points in (before, after)]
    groups = [more.get(name) for name in ("before_groups", "after_groups")]
    masks = [more.get(name) for name in ("nowhere", "missing")]
    was, now = (index.stab_ordinals(*each).sets() for each in zip(asked, masks, groups, strict=True))
    if "groupless" in more:
        ungrouped = {id for id in index.contents().ids.tolist() if index.group_of(id) is None}
        was = [held & ungrouped if alone else held for held, alone in zip(was, more["groupless"], strict=True)]
    found = index.moves_ordinals(*asked, **more)
    slot_ids = index.slot_ids
    entered, left = ([set(slot_ids[row].tolist()) for row in each] for each in found)
    assert entered == [b - a for a, b in zip(was, now, strict=True)]
    assert left == [a - b for a, b in zip(was, now, strict=True)]
    assert [len(each.ids) for each in found] == [sum(map(len, sets)) for sets in (entered, left)], "each slot once"


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_what_moves_enter_and_leave_is_what_their_ends_differ_by(kind: str, dimensions: int) -> None:
    lows, highs, points = boxes_of(kind, N, dimensions)
    before, after = moves_of(kind, points)
    after[::50] = lows[: len(after[::50])]
    index = BoxIndex(dimensions)
    index.insert_many(np.arange(N) * 7, lows, highs)
    assert_moves(index, before, after)


def test_moves_within_cells_of_a_roomy_grid_and_of_one_with_whole_numbers() -> None:
    for kind, dtype in (("even", np.float64), ("whole", np.int64)):
        lows, highs, points = boxes_of(kind, N, 2)
        before, after = moves_of(kind, points)
        for budget in (None, 2_000):
            index = BoxIndex(2, budget=budget)
            index.insert_many(np.arange(N), lows.astype(dtype), highs.astype(dtype))
            assert {each.kind for each in index.structures[1:]} == {"run_grid"}
            assert_moves(index, before, after)


def test_moves_after_live_changes_tell_of_what_is_there_now() -> None:
    lows, highs, points = boxes_of("even", N, 2)
    before, after = moves_of("even", points)
    index = BoxIndex(2)
    index.insert_many(np.arange(1_800), lows[:1_800], highs[:1_800])
    index.insert_many(np.arange(1_800, N), lows[1_800:], highs[1_800:])
    index.remove_many(np.arange(0, N, 3))
    assert len(index.structures) > 2
    assert_moves(index, before, after)


@pytest.mark.parametrize("groups", [4, 300])
def test_groups_and_moves_without_an_end(groups: int) -> None:
    lows, highs, points = boxes_of("even", N, 2)
    before, after = moves_of("even", points)
    rng = np.random.default_rng(4)
    keys = rng.integers(0, groups, N)
    index = BoxIndex(2)
    index.insert_many(np.arange(N), lows, highs, groups=[None if i % 5 == 0 else int(k) for i, k in enumerate(keys)])
    count = len(before)
    was = rng.integers(0, groups, count)
    now = np.where(rng.random(count) < 0.3, rng.integers(0, groups + 1, count), was)
    assert_moves(index, before, after, before_groups=was, after_groups=now, groupless=rng.random(count) < 0.1)
    gone = {name: rng.random((count, 2)) < 0.2 for name in ("nowhere", "missing")}
    assert_moves(index, before, after, before_groups=was, after_groups=now, **gone)


def test_an_index_of_nothing_and_moves_of_nobody() -> None:
    index = BoxIndex(2)
    nothing = np.zeros((0, 2), np.int64)
    assert [len(each) for each in index.moves_ordinals(nothing, nothing)] == [0, 0]
    assert [each.sets() for each in index.moves_ordinals(nothing[:0], nothing[:0])] == [[], []]
    index.insert_many(np.arange(N), *boxes_of("even", N, 2)[:2])
    assert [len(each) for each in index.moves_ordinals(nothing, nothing)] == [0, 0]
    one = np.zeros((1, 2), np.int64)
    index.remove_many(np.arange(N))
    assert [each.sets() for each in index.moves_ordinals(one, one)] == [[set()], [set()]]
