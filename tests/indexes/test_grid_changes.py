"""Live changes of a BoxIndex with a grid: cells are written anew, and who reads an older view sees nothing of it."""

import itertools
import math
import threading
from typing import Any

import numpy as np
import pytest

from fencepost.indexes import BoxIndex
from fencepost.indexes.box_index import grid_changes
from tests.effort import seeds
from tests.indexes.test_box_index import Rows, boxes_of, scan

KINDS = ["even", "whole", "lognormal", "unbounded", "grid"]
N = 2000


class Churned:
    """A BoxIndex with a grid, and its boxes in plain arrays beside it."""

    def __init__(self, kind: str, spread: int, seed: int, as_int: bool = False) -> None:
        self.lows, self.highs, self.points = boxes_of(kind, N + 1500, 2, seed)
        if as_int:
            self.lows, self.highs, self.points = (
                each.astype(np.int64) for each in (self.lows, self.highs, self.points)
            )
        self.spread, self.kept = spread, np.arange(N)
        self.next = N
        self.index = BoxIndex(2, budget=400)
        self.index.insert_many(self.kept * spread, self.lows[:N], self.highs[:N])
        assert "run_grid" in {each.kind for each in self.index.structures}

    def add(self, count: int) -> None:
        new = np.arange(self.next, self.next + count)
        self.index.insert_many(new * self.spread, self.lows[new], self.highs[new])
        self.kept, self.next = np.append(self.kept, new), self.next + count

    def remove(self, rng: Any, count: int) -> None:
        gone = rng.choice(self.kept, count, replace=False)
        self.index.remove_many(gone * self.spread)
        self.kept = np.setdiff1d(self.kept, gone)

    def bring_back(self, rng: Any) -> None:
        """An id that was removed comes with other bounds."""
        free = np.setdiff1d(np.arange(self.next), self.kept)
        if len(free):
            one, other = int(rng.choice(free)), int(rng.integers(0, self.next))
            self.lows[one], self.highs[one] = self.lows[other], self.highs[other]
            self.index.insert(one * self.spread, tuple(self.lows[one].tolist()), tuple(self.highs[one].tolist()))
            self.kept = np.append(self.kept, one)

    def expected(self) -> list[list[int]]:
        """What a scan finds for all points."""
        kept = np.sort(self.kept)
        return [kept[scan(self.lows[kept], self.highs[kept], point)].tolist() for point in self.points]

    def check(self) -> None:
        self.index.check()
        found = [(np.sort(row) // self.spread).tolist() for row in self.index.stab(self.points)]
        assert found == self.expected()
        before, after = self.points[:-1], self.points[1:]
        entered, left = self.index.moves_ordinals(ordinals_of(self.index, before), ordinals_of(self.index, after))
        for row, (was, now) in enumerate(itertools.pairwise(found)):
            ids = self.index.slot_ids
            assert sorted((ids[entered[row]] // self.spread).tolist()) == sorted(set(now) - set(was))
            assert sorted((ids[left[row]] // self.spread).tolist()) == sorted(set(was) - set(now))


def ordinals_of(index: BoxIndex, points: Rows) -> Rows:
    if index.values == "int64":
        return points
    words = np.ascontiguousarray(points, np.float64).view(np.int64)
    return np.where(words < 0, np.iinfo(np.int64).min - words, words)


@pytest.mark.parametrize("spread", [1, 1_000_003], ids=["dense ids", "listed ids"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(12))
def test_changes_of_every_shape_are_answered_like_a_scan(seed: int, kind: str, spread: int) -> None:
    rng = np.random.default_rng(seed)
    churned = Churned(kind, spread, seed)
    for _ in range(12):
        match rng.integers(0, 5):
            case 0:
                churned.add(int(rng.integers(1, 110)))
            case 1:
                churned.add(1)
            case 2:
                churned.remove(rng, int(rng.integers(1, 110)))
            case 3:
                churned.remove(rng, 1)
            case _:
                churned.bring_back(rng)
    churned.check()
    saved = BoxIndex.from_arrays(churned.index.to_arrays())
    saved.check()
    churned.index = saved
    churned.add(3)
    churned.remove(rng, 40)
    churned.check()


def test_whole_numbers_change_like_floats() -> None:
    churned = Churned("whole", 1, 5, as_int=True)
    rng = np.random.default_rng(5)
    for _ in range(5):
        churned.add(60)
        churned.remove(rng, 60)
    churned.check()


def test_small_changes_leave_one_structure_and_nothing_to_sift() -> None:
    churned = Churned("even", 1, 3)
    rng = np.random.default_rng(3)
    for _ in range(5):
        churned.add(10)
        churned.remove(rng, 10)
    assert len(churned.index.structures) == 2, "the exact rows and one grid"
    churned.check()


def test_older_views_stay_as_they_were() -> None:
    churned = Churned("even", 1, 7)
    rng = np.random.default_rng(7)
    views = []
    for _ in range(8):
        churned.add(30)
        churned.remove(rng, 30)
        views.append((churned.index._view, churned.expected()))
    later = churned.index._view
    for view, expected in views:
        churned.index._view = view
        assert [np.sort(row).tolist() for row in churned.index.stab(churned.points)] == expected
    churned.index._view = later


def test_a_box_in_very_many_cells_lies_beside_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_changes, "_MOST_CELLS", 3)
    churned = Churned("even", 1, 9)
    rng = np.random.default_rng(9)
    for _ in range(4):
        churned.add(20)
        churned.remove(rng, 40)
    assert len(churned.index.structures) > 2
    churned.check()


@pytest.mark.parametrize("short", ["cells", "words"])
def test_what_a_grid_cannot_count_lies_beside_it(short: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if short == "cells":
        monkeypatch.setattr(grid_changes, "write_cells", lambda *_: -1)
    else:
        monkeypatch.setattr(grid_changes, "MOST_WORDS", 0)
    churned = Churned("grid", 1, 11)
    rng = np.random.default_rng(11)
    for _ in range(4):
        churned.add(50)
        churned.remove(rng, 50)
    churned.check()


def test_a_change_that_finds_no_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    churned = Churned("even", 1, 13)
    churned.add(5)

    def refuse(*_: Any) -> Any:
        raise MemoryError

    for name in ("write_cells", "answer_array", "pack_blocks"):
        with monkeypatch.context() as patched:
            patched.setattr(grid_changes, name, refuse)
            patched.setattr(grid_changes, "PADDING", 2**40 if name == "pack_blocks" else 64)
            with pytest.raises(MemoryError):
                churned.index.remove_many(churned.kept[:7])
        churned.check()


def test_readers_beside_a_writer_see_whole_changes() -> None:
    rng = np.random.default_rng(17)
    corners = rng.random((N, 2)) * 100
    index = BoxIndex(2)
    index.insert_many(np.arange(N), corners, corners + 5)
    pair, at = (10**6, 10**6 + 1), (50.0, 50.0)
    faults: list[Any] = []
    done = threading.Event()

    def read() -> None:
        points = np.tile(at, (200, 1))
        while not done.is_set():
            for row in index.stab(points):
                if len(set(pair) & set(row.tolist())) == 1:
                    faults.append(row)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(150):
        index.insert_many(pair, [(49, 49), (math.nextafter(50, 0), 50)], [(51, 51), (50.5, 50.5)])
        index.remove_many(pair)
    done.set()
    for reader in readers:
        reader.join()
    index.check()
    assert not faults
