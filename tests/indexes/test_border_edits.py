"""Borders edited in place: holes that fill and come, groups that begin elsewhere, marks, whoever reads meanwhile."""

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fencepost.errors import FencepostError
from fencepost.indexes import Borders
from fencepost.indexes.borders import axis, lists
from fencepost.indexes.ordinal import ValueType
from tests.effort import examples

DOMAIN, FAR = 240, 10**12


class Edits(RuleBasedStateMachine):
    """Rules that are built at once, then few changes at a time: all of them are made where they belong."""

    kind: ValueType = "int64"
    step = 1
    keyed = False

    @initialize(seed=st.integers(0, 2**31), size=st.sampled_from([20, 200, 500]), widest=st.sampled_from([8, 60]))
    def build(self, seed: int, size: int, widest: int) -> None:
        self.index = Borders(values=self.kind)
        self.truth: dict[int, tuple[float, float, int | None]] = {}
        self.next = 0
        rng = np.random.default_rng(seed)
        lows = rng.integers(0, DOMAIN, size)
        self.add(self.ids(size), lows, lows + rng.integers(1, widest, size), rng.integers(0, 5, size))

    def ids(self, count: int) -> npt.NDArray[np.int64]:
        self.next += count
        return np.arange(self.next - count, self.next) * self.step

    def add(self, ids: Any, lows: Any, highs: Any, keys: Any) -> None:
        groups = [None if key == 4 or not self.keyed else key for key in keys.tolist()]
        self.index.insert_many(ids, lows, highs, groups=groups if self.keyed else None)
        self.truth |= dict(zip(ids.tolist(), zip(lows.tolist(), highs.tolist(), groups, strict=True), strict=True))

    @rule(low=st.integers(-5, DOMAIN), width=st.integers(1, 90), key=st.integers(0, 30), far=st.booleans())
    def insert(self, low: int, width: int, key: int, far: bool) -> None:
        id = int(self.ids(1)[0]) + (FAR if far else 0)
        self.add(np.array([id]), np.array([low]), np.array([low + width]), np.array([key]))
        with pytest.raises(FencepostError, match=f"Id {id} is in the index already"):
            self.index.insert(id, low, low + width)

    @rule(low=st.integers(0, DOMAIN), count=st.integers(1, 60), width=st.integers(1, 20), key=st.integers(0, 9))
    def insert_at_one_place(self, low: int, count: int, width: int, key: int) -> None:
        lows = low + np.arange(count) % 4
        self.add(self.ids(count), lows, lows + width, np.full(count, key))

    @rule(low=st.integers(-5, DOMAIN), key=st.integers(0, 4))
    def insert_unbounded(self, low: int, key: int) -> None:
        id, group = int(self.ids(1)[0]), key if self.keyed and key != 4 else None
        self.index.insert(id, low, None, group=group)
        self.truth[id] = low, math.inf, group

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.truth)))
        self.index.remove(id)
        del self.truth[id]
        with pytest.raises(FencepostError, match=f"Id {id} to remove"):
            self.index.remove(id)

    @rule(value=st.integers(0, DOMAIN), width=st.integers(0, 12))
    def remove_all_there(self, value: int, width: int) -> None:
        ids = [id for id, (lo, hi, _) in self.truth.items() if lo <= value + width and value < hi]
        self.index.remove_many(ids)
        for id in ids:
            del self.truth[id]

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def remove_and_bring_back(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.truth)), unique=True, min_size=1, max_size=9))
        rows = [self.truth.pop(id) for id in ids]
        self.index.remove_many(ids)
        self.index.insert_many(ids, [row[0] for row in rows], [row[1] for row in rows], groups=[row[2] for row in rows])
        self.truth |= dict(zip(ids, rows, strict=True))

    @rule()
    def save_and_load(self) -> None:
        arrays = self.index.to_arrays()
        said = {name: array.tobytes() for name, array in arrays.items()}
        saved = {name: np.frombuffer(said[name], array.dtype).reshape(array.shape) for name, array in arrays.items()}
        before, self.index = self.index, Borders.from_arrays(saved)
        if len(before):
            before.remove_many(list(self.truth)[:5])
            before.insert(10 * FAR, 3, 40)
        before.check()
        assert {name: array.tobytes() for name, array in arrays.items()} == said, "what was handed out stays as it was"

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.check()
        assert len(self.index) == len(self.truth)
        rng = np.random.default_rng(len(self.truth))
        before, after = rng.integers(-7, DOMAIN + 100, (2, 40))
        after = np.where(rng.random(40) < 0.6, before + rng.integers(-9, 10, 40), after)
        old = rng.integers(0, 6, 40)
        new, first = np.where(rng.random(40) < 0.8, old, rng.integers(0, 6, 40)), rng.random(40) < 0.2
        ids = np.array(list(self.truth), np.int64)
        lows, highs = (np.array([row[column] for row in self.truth.values()]) for column in range(2))
        groups = np.array([-1 if row[2] is None else row[2] for row in self.truth.values()])
        told: Any = {"before_groups": old, "after_groups": new} if self.keyed else {}
        strategy: Any = ("cheaper", "walk", "compare")[len(self.truth) % 3]
        found = self.index.crossings(before, after, first, strategy=strategy, **told)
        assert found.cross is not None
        for row in range(40):
            own, then = ((groups == key[row]) | (groups < 0) for key in (old, new))
            was = own & (lows <= before[row]) & (before[row] < highs) & (not first[row])
            now = then & (lows <= after[row]) & (after[row] < highs)
            low, high = sorted((before[row], after[row]))
            over = own & then & (low < lows) & (highs <= high) & (not first[row])
            for answer, chosen in ((found.enter, now & ~was), (found.exit, was & ~now), (found.cross, over)):
                assert np.array_equal(np.sort(answer[row]), np.sort(ids[chosen]))
        held = self.index.stab(after, groups=new if self.keyed else None)
        for row in range(40):
            holds = ((groups == new[row]) | (groups < 0)) & (lows <= after[row]) & (after[row] < highs)
            assert np.array_equal(np.sort(held[row]), np.sort(ids[holds]))


@pytest.mark.parametrize("near", [True, False], ids=["holes are near", "always short of room"])
@pytest.mark.parametrize("keyed", [False, True], ids=["no groups", "groups"])
@pytest.mark.parametrize("step", [1, 1_000_003], ids=["dense ids", "listed ids"])
@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_edits_answer_like_a_dictionary(
    kind: ValueType, step: int, keyed: bool, near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not near:
        monkeypatch.setattr(lists, "RULES_PER_HOLE", 10**9)
        monkeypatch.setattr(lists, "_SHARE_BEHIND", 10**9)
        monkeypatch.setattr(axis, "_NEVER_MANY", 10**9)
    machine = type("EditsOf", (Edits,), {"kind": kind, "step": step, "keyed": keyed})
    machine.TestCase.settings = examples(8, stateful_step_count=25)  # type: ignore[attr-defined]
    machine.TestCase().runTest()  # type: ignore[attr-defined]


def sparse(n: int) -> tuple[Borders, Any, Any]:
    """Rules in a wide domain, and those that come next."""
    rng = np.random.default_rng(n)
    lows = rng.integers(0, 2**31, 2 * n)
    highs = lows + rng.integers(1, 100 * 2**31 // n, 2 * n)
    index = Borders()
    index.insert_many(np.arange(n), lows[:n], highs[:n])
    return index, lows, highs


def test_single_changes_of_a_large_index_build_nothing_anew() -> None:
    n = 5000
    index, lows, highs = sparse(n)
    before = index.storage()
    index.insert(n, int(lows[n]), int(highs[n]))
    rules = index._rules
    assert isinstance(rules, axis.AxisRules)
    scales = rules._parts[0].scales
    for id in range(n + 1, n + 300):
        index.insert(id, int(lows[id]), int(highs[id]))
        index.remove(id - n)
    index.check()
    assert rules._parts[0].scales is scales
    assert len(rules._parts) == 1
    assert index.storage().nbytes < 1.4 * before.nbytes
    live = np.array([0, *range(300, n + 300)])
    values = np.random.default_rng(1).integers(0, 2**31, 300)
    for value, row in zip(values.tolist(), index.stab(values), strict=True):
        assert np.array_equal(np.sort(row), live[(lows[live] <= value) & (value < highs[live])])


def test_many_rules_at_one_place_find_room() -> None:
    index, lows, _ = sparse(3000)
    low = int(lows[7])
    for id in range(3000, 3400):
        index.insert(id, low, low + 1 + id)
    index.check()
    assert set(range(3000, 3400)) <= index.stab([low]).sets()[0]


def test_a_group_that_is_new_has_rules_at_once() -> None:
    rng = np.random.default_rng(6)
    lows, keys = rng.integers(0, 100, 600), rng.integers(0, 200, 600)
    index = Borders()
    index.insert_many(np.arange(600), lows, lows + 30, groups=keys)
    expected = {
        key: set(np.flatnonzero((keys == key) & (lows <= 50) & (lows + 30 > 50)).tolist()) for key in range(300)
    }
    for id, key in enumerate(range(199, 260), 600):
        index.insert(id, 40, 60, group=key)
        expected[key].add(id)
    index.insert_many([700, 701, 702], [50, 50, 0], [51, 51, 9], groups=[270, None, 271])
    for each in expected.values():
        each.add(701)
    expected[270].add(700)
    index.check()
    assert index.stab([50] * 300, groups=np.arange(300)).sets() == [expected[key] for key in range(300)]


def test_an_update_beside_a_writer_sees_whole_changes() -> None:
    index, lows, _ = sparse(2000)
    middle = int(lows[5])
    base = index.crossings([middle - 1000] * 50, [middle] * 50).enter.counts[0]
    faults: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            counts = index.crossings([middle - 1000] * 50, [middle] * 50).enter.counts - base
            if (counts != counts[0]).any() or counts[0] not in (0, 3):
                faults.append(counts)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(100):
        index.insert_many([9000, 9001, 9002], [middle - 500] * 3, [middle + 50, middle + 60, middle + 2**20])
        index.remove_many([9001, 9000, 9002])
    done.set()
    for reader in readers:
        reader.join()
    index.check()
    assert not faults
