"""Indexes where memory ends: a change is made whole or not at all, whichever allocation fails."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fencepost.indexes import Borders, BoxIndex, SliceList, matches, runs
from fencepost.indexes.borders import axis, box_rules, lists
from fencepost.indexes.box_index import grid_changes, group_blocks, groups, packed_tree, run_grid
from fencepost.indexes.box_index import index as box_index
from fencepost.indexes.kernels import id_map, radix, vectors
from fencepost.indexes.slice_list import index as slice_index
from fencepost.indexes.slice_list import slot_table, windows
from tests.effort import seeds
from tests.indexes.memory import failing_at

MODULES: tuple[ModuleType, ...] = (
    slice_index, slot_table, windows, runs, axis, box_rules, lists, grid_changes, group_blocks, groups, packed_tree,
    run_grid, box_index, id_map, radix, vectors, matches,
)  # fmt: skip
DOMAIN, N = 4000, 300
Index = Any
Change = Callable[[Index], object]


def rows(seed: int, count: int, d: int) -> tuple[Any, Any, list[int | None]]:
    rng = np.random.default_rng(seed)
    lows = rng.integers(0, DOMAIN, (count, d)) / 2
    highs = lows + rng.integers(1, 60, (count, d)) / 2
    keys = [None if key == 3 else key for key in rng.integers(0, 4, count).tolist()]
    return (lows, highs, keys) if d > 1 else (lows[:, 0], highs[:, 0], keys)


def slice_list() -> Index:
    return SliceList("float64", budget=400)


SUBJECTS: dict[str, tuple[int, Callable[[], Index]]] = {
    "SliceList": (1, slice_list),
    "SliceList, layers": (1, lambda: SliceList("float64", budget=48)),
    "BoxIndex": (2, lambda: BoxIndex(2, "float64")),
    "BoxIndex, three axes": (3, lambda: BoxIndex(3, "float64")),
    "Borders": (1, lambda: Borders(values="float64")),
    "Borders, two axes": (2, lambda: Borders(2, "float64")),
}


class Kept:
    """An index that was changed before, and what is in it; sometimes with a reader who holds on to what it saw."""

    def __init__(self, name: str, seed: int, keyed: bool, read: bool) -> None:
        self.d, make = SUBJECTS[name]
        self.index, self.keyed = make(), keyed
        self.truth: dict[int, Any] = {}
        self.put(self.index, seed, np.arange(N))
        rng = np.random.default_rng(seed)
        for turn in range(3):
            self.put(self.index, seed + 10 + turn, np.arange(N + 20 * turn, N + 20 * turn + 20))
            gone = rng.choice(list(self.truth), 10, replace=False)
            self.index.remove_many(gone)
            for id in gone.tolist():
                del self.truth[id]
        self.held = self.index.slices([5.0], groups=[1] if keyed else None) if read else None

    def put(self, index: Index, seed: int, ids: Any, keep: bool = True) -> None:
        lows, highs, keys = rows(seed, len(ids), self.d)
        index.insert_many(ids, lows, highs, groups=keys if self.keyed else None)
        if keep:
            self.truth |= {
                id: (lows[i], highs[i], keys[i] if self.keyed else None) for i, id in enumerate(ids.tolist())
            }

    def check(self) -> None:
        index = self.index
        index.check()
        assert len(index) == len(self.truth)
        points = np.random.default_rng(1).integers(-2, DOMAIN + 60, (60, self.d)) / 2
        asked = np.arange(60) % 4 if self.keyed else None
        found = index.stab(points if self.d > 1 else points[:, 0], groups=asked).sets()
        ids = np.array(list(self.truth))
        lows = np.array([row[0] for row in self.truth.values()]).reshape(len(ids), -1)
        highs = np.array([row[1] for row in self.truth.values()]).reshape(len(ids), -1)
        for at, point in enumerate(points):
            holds = ((lows <= point) & (point < highs)).all(axis=1)
            if asked is not None:
                holds &= np.array([row[2] in (None, asked[at]) for row in self.truth.values()])
            assert found[at] == set(ids[holds].tolist())


def changes(kept: Kept) -> dict[str, tuple[Change, Change]]:
    """Changes, and what undoes them."""
    far, ids = 10**9, np.arange(10_000, 10_050)
    live = np.array(sorted(kept.truth))
    few, many = live[::60], live[::3]

    def back(index: Index, some: Any) -> None:
        lows, highs, keys = (np.array([kept.truth[id][c] for id in some.tolist()], object) for c in range(3))
        lows, highs = (np.array(list(column), np.float64) for column in (lows, highs))
        index.insert_many(some, lows, highs, groups=keys.tolist() if kept.keyed else None)

    def insert(index: Index, new: Any, seed: int) -> None:
        kept.put(index, seed, new, keep=False)

    def insert_one(index: Index) -> None:
        low, high, _ = rows(77, 1, kept.d)
        index.insert(20_000, low[0], high[0], group=1 if kept.keyed else None)

    found: dict[str, tuple[Change, Change]] = {
        "insert one": (insert_one, lambda index: index.remove(20_000)),
        "remove one": (lambda index: index.remove(int(live[7])), lambda index: back(index, live[7:8])),
        "remove few": (lambda index: index.remove_many(few), lambda index: back(index, few)),
        "remove many": (lambda index: index.remove_many(many), lambda index: back(index, many)),
        "insert few": (lambda index: insert(index, ids, 5), lambda index: index.remove_many(ids)),
        "insert far": (lambda index: insert(index, ids + far, 6), lambda index: index.remove_many(ids + far)),
        "insert many": (
            lambda index: insert(index, np.arange(30_000, 31_000), 7),
            lambda index: index.remove_many(np.arange(30_000, 31_000)),
        ),
    }
    return found


@pytest.mark.parametrize("read", [False, True], ids=["alone", "while somebody reads"])
@pytest.mark.parametrize("keyed", [False, True], ids=["no groups", "groups"])
@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("seed", seeds(1))
def test_changes_are_made_whole_or_not_at_all(name: str, seed: int, keyed: bool, read: bool) -> None:
    if read and not name.startswith("SliceList"):
        pytest.skip("what it answers is a copy")
    kept = Kept(name, seed, keyed, read)
    kept.check()
    for what, (change, undo) in changes(kept).items():
        change(kept.index)  # once as it should go: nothing compiles while memory ends
        undo(kept.index)
        failed, size, at = 0, len(kept.index), 0
        while True:
            with failing_at(MODULES, at) as short:
                try:
                    change(kept.index)
                except MemoryError:
                    failed += 1
            if len(kept.index) != size:  # what only tidies up waits for the next change
                undo(kept.index)
            kept.check()
            if short.left >= 0:
                break
            at += 1 + at // 12
        assert failed or what.startswith("remove"), what


def test_a_first_insert_that_fails_does_not_decide_the_type_of_values() -> None:
    for make in (SliceList, Borders, lambda: BoxIndex(2)):
        index: Index = make()
        d = getattr(index, "dimensions", 1)
        with failing_at(MODULES, 0), pytest.raises(MemoryError):
            index.insert_ordinals(np.array([1]), np.zeros((1, d), np.int64), np.ones((1, d), np.int64))
        low, high = (0.5, 2.5) if d == 1 else ((0.5, 0.5), (2.5, 2.5))
        index.insert(1, low, high)
        index.check()


@pytest.mark.parametrize("ids", [[1, 2, 3], [10, 10**6, 10**12]])
@pytest.mark.parametrize("new", [[10**13], [-(10**13)], [5, 10**11]])
def test_borders_are_saved_whole_after_a_change_for_which_there_was_no_memory(ids: list[int], new: list[int]) -> None:
    for allocation in range(100):
        index = Borders(values="float64")
        index.insert_many(ids, [1.0, 2.0, 3.0], [5.0, 6.0, 7.0])
        with failing_at(MODULES, allocation) as memory:
            try:
                index.insert_many(new, [2.0] * len(new), [9.0] * len(new))
            except MemoryError:
                pass
            else:
                break
        saved = Borders.from_arrays(index.to_arrays())
        saved.check()
        assert saved.stab([4.0]).sets() == index.stab([4.0]).sets() == [set(ids)], allocation
        saved.insert_many(new, [2.0] * len(new), [9.0] * len(new))
        saved.remove_many(ids)
        assert saved.stab([4.0]).sets() == [set(new)]
    assert memory.left >= 0
    assert allocation > 0


def test_an_interrupted_rebuild_leaves_no_part_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    index = SliceList("float64", budget=48)
    lows = rng.integers(0, DOMAIN, 3000) / 2
    index.insert_many(np.arange(3000), lows, lows + rng.integers(1, 60, 3000) / 2)
    index.insert(3000, 5.0, 9.0)  # windows have room from now on
    new = np.arange(10_000, 10_040)
    lows = rng.integers(0, DOMAIN, 40) / 2
    highs = lows + np.where(rng.random(40) < 0.5, 1, 900.0)  # short ones fit into windows, long ones do not

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(SliceList, "_balance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            index.insert_many(new, lows, highs)
    index.check()
    assert np.isin(new, index.contents().ids).sum() in (0, 40)
