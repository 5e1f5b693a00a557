"""SliceList edited in place: windows that grow, split and empty, ids near and far, and whoever reads meanwhile."""

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fencepost.errors import FencepostError
from fencepost.indexes import SliceList
from fencepost.indexes.ordinal import ValueType
from fencepost.indexes.slice_list import edits
from fencepost.indexes.slice_list import index as slice_index
from fencepost.indexes.slice_list import view as slice_view
from fencepost.indexes.slice_list.view import Slices
from fencepost.indexes.slice_list.windows import has_pieces
from fencepost.lab import workloads
from tests.effort import examples

LEAST, MOST = -(2**63), 2**63 - 1
DOMAIN = 240
FAR = 10**12


class Held:
    """An answer that somebody keeps, with a copy of what it said."""

    def __init__(self, slices: Slices) -> None:
        self.parts: tuple[Any, ...] = (slices.starts, slices.lengths, slices.slots)
        self.said = [part.copy() for part in self.parts]
        self.slices = slices

    def let_go_of_all_but_the_slots(self) -> None:
        del self.slices

    def check(self) -> None:
        starts, lengths, slots = self.said
        for begin, length in zip(starts.ravel().tolist(), lengths.ravel().tolist(), strict=True):
            run = slice(begin, begin + length)
            assert np.array_equal(self.parts[2][run], slots[run]), "what is held stays as it was"


class Edits(RuleBasedStateMachine):
    """A bulk of intervals, then few changes at a time: most of them go into windows that are there."""

    kind: ValueType = "int64"
    step = 1
    keyed = False

    @initialize(seed=st.integers(0, 2**31), size=st.sampled_from([30, 300, 900]), widest=st.sampled_from([8, 60]))
    def build(self, seed: int, size: int, widest: int) -> None:
        self.index = SliceList(values=self.kind)
        self.truth: dict[int, tuple[float, float, int]] = {}
        self.held: list[Held] = []
        self.next = 0
        rng = np.random.default_rng(seed)
        lows = rng.integers(0, DOMAIN, size)
        self.add(self.ids(size), lows, lows + rng.integers(1, widest, size), rng.integers(0, 3, size))

    def ids(self, count: int) -> npt.NDArray[np.int64]:
        self.next += count
        return np.arange(self.next - count, self.next) * self.step

    def groups(self, groups: Any) -> Any:
        return groups if self.keyed else None

    def add(self, ids: Any, lows: Any, highs: Any, groups: Any) -> None:
        self.index.insert_many(ids, lows, highs, groups=self.groups(groups))
        rows = zip(lows.tolist(), highs.tolist(), groups.tolist(), strict=True)
        self.truth |= dict(zip(ids.tolist(), rows, strict=True))

    @rule(low=st.integers(-5, DOMAIN), width=st.integers(1, 90), group=st.integers(0, 3), far=st.booleans())
    def insert(self, low: int, width: int, group: int, far: bool) -> None:
        id = int(self.ids(1)[0]) + (FAR if far else 0)
        lo, hi = (low, low + width) if self.kind == "int64" else (low + 0.5, low + width)
        self.index.insert(id, lo, hi, group=self.groups(group))
        self.truth[id] = lo, hi, group
        with pytest.raises(FencepostError, match=f"Id {id} is in the index already"):
            self.index.insert(id, lo, hi, group=self.groups(group))

    @rule(low=st.integers(0, DOMAIN - 20), count=st.integers(1, 60), width=st.integers(1, 20), far=st.booleans())
    def insert_side_by_side(self, low: int, count: int, width: int, far: bool) -> None:
        """Short ones between each other: strictly inside windows, and again inside the pieces of those."""
        lows = low + np.arange(count) % 20
        self.add(self.ids(count) + (FAR if far else 0), lows, lows + width, np.arange(count) % 3)

    @rule(low=st.integers(-5, DOMAIN), group=st.integers(0, 3))
    def insert_unbounded(self, low: int, group: int) -> None:
        id = int(self.ids(1)[0])
        self.index.insert(id, low, None, group=self.groups(group))
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
        """A window, or a few, are emptied."""
        ids = [id for id, (lo, hi, _) in self.truth.items() if lo <= value + width and value < hi]
        self.index.remove_many(ids)
        for id in ids:
            del self.truth[id]

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def remove_and_bring_back(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.truth)), unique=True, max_size=9))
        self.index.remove_many(ids)
        lows, highs, groups = (np.array([self.truth[id][column] for id in ids]) for column in range(3))
        self.index.insert_many(ids, lows.tolist(), highs.tolist(), groups=self.groups(groups))

    @rule(values=st.lists(st.integers(-5, DOMAIN + 90), min_size=1, max_size=9), slots_only=st.booleans())
    def hold(self, values: list[int], slots_only: bool) -> None:
        held = Held(self.index.slices(values, groups=self.groups([1] * len(values))))
        if slots_only:
            held.let_go_of_all_but_the_slots()
        self.held = [*self.held[-2:], held]

    @rule()
    def let_go(self) -> None:
        self.held = []

    @rule()
    def save_and_load(self) -> None:
        arrays = self.index.to_arrays()
        said = {name: array.tobytes() for name, array in arrays.items()}
        saved = {name: np.frombuffer(said[name], array.dtype).reshape(array.shape) for name, array in arrays.items()}
        before, self.index = self.index, SliceList.from_arrays(saved)
        if len(before):
            before.remove_many(list(self.truth)[:5])
            before.insert(10 * FAR, 3, 40, group=self.groups(1))
        before.check()
        assert {name: array.tobytes() for name, array in arrays.items()} == said, "what was handed out stays as it was"

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.check()
        for held in self.held:
            held.check()
        assert len(self.index) == len(self.truth)
        asked = np.arange(-7, DOMAIN + 100, 3)
        of = asked % 4
        ids = np.array(list(self.truth), np.int64)
        lows, highs, groups = (np.array([row[column] for row in self.truth.values()]) for column in range(3))
        found, slots = (self.index.stab(asked, groups=self.groups(of), slots=slots) for slots in (False, True))
        assert np.array_equal(self.index.slot_ids[slots.ids], found.ids)
        for value, group, row in zip(asked.tolist(), of.tolist(), found, strict=True):
            holds = (lows <= value) & (value < highs) & ((groups == group) | (not self.keyed))
            assert np.array_equal(np.sort(row), np.sort(ids[holds])), value
        assert self.index.count(asked, groups=self.groups(of)).tolist() == found.counts.tolist()
        for id in list(self.truth)[-3:]:
            assert self.index.interval(id) == self.truth[id][:2]
            assert self.index.group_of(id) == (self.truth[id][2] if self.keyed else None)
        assert self.index.contents().ids.tolist() == sorted(self.truth)


@pytest.mark.parametrize("reserve", [64, 0], ids=["with a reserve", "always short of room"])
@pytest.mark.parametrize("keyed", [False, True], ids=["no groups", "groups"])
@pytest.mark.parametrize("step", [1, 1_000_003], ids=["dense ids", "listed ids"])
@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_edits_answer_like_a_dictionary(
    kind: ValueType, step: int, keyed: bool, reserve: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_index, "_LEAST_RESERVE", reserve)
    monkeypatch.setattr(slice_index, "_SHARE_IN_RESERVE", 16 if reserve else 10**9)
    machine = type("EditsOf", (Edits,), {"kind": kind, "step": step, "keyed": keyed})
    machine.TestCase.settings = examples(8, stateful_step_count=25)  # type: ignore[attr-defined]
    machine.TestCase().runTest()  # type: ignore[attr-defined]


def sparse(n: int) -> tuple[SliceList, Any, Any]:
    """Intervals in a wide domain, and those of theirs that come next."""
    rng = np.random.default_rng(n)
    lows = rng.integers(0, 2**31, 2 * n)
    highs = lows + rng.integers(1, 200 * 2**31 // n, 2 * n)
    index = SliceList()
    index.insert_many(np.arange(n), lows[:n], highs[:n])
    return index, lows, highs


def assert_answers(index: SliceList, ids: Any, lows: Any, highs: Any, values: Any) -> None:
    for value, row in zip(values.tolist(), index.stab(values), strict=True):
        assert np.array_equal(np.sort(row), np.sort(ids[(lows <= value) & (value < highs)]))


def test_single_changes_of_a_large_index_make_no_runs() -> None:
    n = 20_000
    index, lows, highs = sparse(n)
    before = index.storage()
    for id in range(n, n + 1000):
        index.insert(id, int(lows[id]), int(highs[id]))
        index.remove(id - n)
    index.check()
    assert any(has_pieces(part) for part in index._parts.values()), "some lay strictly inside a window"
    assert index.slices([0]).lengths.shape == (1, 1), "all of them are in the windows that were there"
    live = np.arange(1000, n + 1000)
    assert_answers(index, live, lows[live], highs[live], np.random.default_rng(1).integers(0, 2**31, 300))
    assert index.storage().nbytes <= 1.25 * before.nbytes


def test_what_was_edited_stays_near_its_budget() -> None:
    for work in (workloads.sparse(n=60_000, values=10), workloads.heavy_tailed(n=60_000, mean_matches=100, values=10)):
        n = len(work.los)
        index = SliceList()
        index.insert_many(work.ids, work.los, work.his)
        picked = np.random.default_rng(2).integers(0, n, 6 * 900)
        for at in range(0, len(picked), 900):
            some = picked[at : at + 900]
            index.insert_many(np.arange(n + at, n + at + 900), work.los[some] + 1, work.his[some] + 1)
            index.remove_many(np.arange(at, at + 900))
        index.check()
        assert index.storage().nbytes <= 72 * n


@pytest.mark.parametrize("step", [1, 1_000_003], ids=["dense ids", "listed ids"])
def test_new_ids_that_are_far_leave_the_others_as_they_are(step: int) -> None:
    index, lows, highs = sparse(5000)
    if step > 1:
        index = SliceList()
        index.insert_many(np.arange(5000) * step, lows[:5000], highs[:5000])
    ids = np.arange(5000) * step
    scales = _scales(index)
    low, high = int(lows[9]), int(highs[9])
    for far in (-(2**62), 2**62, LEAST, MOST):
        index.insert(far, low, high + 1)
        index.remove(far)
        index.insert(far, low, high)
        assert far in index
    assert all(one is old for one, old in zip(_scales(index), scales, strict=True)), "nothing was built anew"
    index.check()
    every = np.append(ids, [-(2**62), 2**62, LEAST, MOST])
    starts, ends = np.append(lows[:5000], [low] * 4), np.append(highs[:5000], [high] * 4)
    values = np.array([low - 1, low, high - 1, high, 2**30])
    assert_answers(index, every, starts, ends, values)
    assert_answers(SliceList.from_arrays(index.to_arrays()), every, starts, ends, values)


def _scales(index: SliceList) -> list[Any]:
    return [part.scales for part in index._parts.values()]


@pytest.mark.parametrize("streamed", [False, True])
def test_listed_and_counted_ids_are_told_apart_in_answers_of_every_length(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_view, "_STREAMED_BYTES", 0 if streamed else 2**60)
    monkeypatch.setattr(slice_view, "streaming_pays", lambda: True)
    index = SliceList()
    index.insert_many(np.arange(600), np.zeros(600, np.int64), np.arange(600) + 1)
    for far in range(0, 60, 7):
        index.insert(FAR + far, 0, 10 * far + 5)
    assert index._slots.mixed
    for value in range(0, 600, 11):
        expected = {*range(value, 600), *(FAR + far for far in range(0, 60, 7) if value < 10 * far + 5)}
        assert set(index.stab([value])[0].tolist()) == expected
        slices = index.slices([value])
        runs = zip(slices.starts[0].tolist(), slices.lengths[0].tolist(), strict=True)
        assert {id for begin, length in runs for id in slices.ids[begin : begin + length].tolist()} == expected


def test_the_arrays_of_a_loaded_index_stay_as_they_are() -> None:
    """There is room behind the slots that are saved: a change may not write there, either."""
    index, lows, highs = sparse(3000)
    arrays = index.to_arrays()
    said = {name: array.tobytes() for name, array in arrays.items()}
    saved = {name: np.frombuffer(said[name], array.dtype).reshape(array.shape) for name, array in arrays.items()}
    changes: list[Callable[[SliceList], object]] = [
        lambda loaded: loaded.insert(3000, int(lows[3000]), int(highs[3000])),
        lambda loaded: loaded.insert_many(np.arange(3000, 4000), lows[3000:4000], highs[3000:4000]),
        lambda loaded: loaded.insert_many([3000, 3001], [5, 2**40], [6, 2**40 + 1]),
        lambda loaded: loaded.insert(FAR, -5, 10),
        lambda loaded: loaded.remove(7),
        lambda loaded: loaded.remove_many(np.arange(0, 3000, 2)),
        lambda loaded: loaded.compact(),
    ]
    for change in changes:
        loaded = SliceList.from_arrays(saved)
        change(loaded)
        loaded.check()
        change(index)
        index.check()
        assert {name: array.tobytes() for name, array in arrays.items()} == said
        index = SliceList.from_arrays(saved)


def test_the_ends_of_int64_are_edited_exactly() -> None:
    index = SliceList(values="int64")
    rows: dict[int, tuple[int | None, int | None]] = {
        id: (lo, hi)
        for id, (lo, hi) in enumerate([(LEAST, 5), (None, None), (0, 9), (MOST - 9, MOST - 2), (LEAST, LEAST + 9)])
    }
    index.insert_many(list(rows), [lo for lo, _ in rows.values()], [hi for _, hi in rows.values()])
    more = [
        (MOST - 1, MOST),
        (MOST - 1, None),
        (LEAST, LEAST + 1),
        (LEAST + 3, MOST),
        (MOST - 5, MOST - 4),
        (-1, 1),
        (2, 3),
    ]
    for id, (lo, hi) in enumerate(more, 100):
        index.insert(id, lo, hi)
        rows[id] = lo, hi
        index.check()
    values = [LEAST, LEAST + 1, LEAST + 3, -1, 0, 2, 8, MOST - 9, MOST - 5, MOST - 4, MOST - 2, MOST - 1, MOST]
    for removed in [None, *list(rows)[::-1]]:
        if removed is not None:
            index.remove(removed)
            del rows[removed]
            index.check()
        for value, found in zip(values, index.stab(values).sets(), strict=True):
            assert found == {
                id for id, (lo, hi) in rows.items() if (lo is None or lo <= value) and (hi is None or value < hi)
            }


@pytest.mark.parametrize("kind", ["int64", "float64"])
@pytest.mark.parametrize(
    "row",
    [
        (1, 2, 1),
        (True, 2, 3),
        (1.0, 2, 3),
        ("1", 2, 3),
        (MOST + 1, 2, 3),
        (9, 3, 2),
        (9, 3, 3),
        (9, "3", 4),
        (9, True, 4),
        (9, math.nan, 4),
        (9, 2.5, math.nan),
        (9, 2.5, 1),
        (9, MOST, MOST),
        (9, 0, MOST + 2),
        (9, 2**53 + 1, 2**53 + 2),
        (9, math.inf, None),
        (9, 2, 3, "<>"),
        (9, 2, 3, None, "x"),
        (9, 2, 3, None, 2.5),
        (9, 2, 3, None, MOST + 1),
        (1, 2, 3),
    ],
)
def test_a_single_row_is_refused_as_one_of_many_is(kind: ValueType, row: Any) -> None:
    id, lo, hi, bounds, group = (*row, None, None)[:5]
    refusals = []
    for single in (True, False):
        index = SliceList(values=kind)
        index.insert_many([1, 2], [0, 1], [5, 6])
        try:
            if single:
                index.insert(id, lo, hi, bounds, group)
            else:
                index.insert_many([id], [lo], [hi], bounds, None if group is None else [group])
            refusals.append(f"{index.contents()}")
        except FencepostError as error:
            refusals.append(str(error))
            assert len(index) == 2
        index.check()
    assert refusals[0] == refusals[1]


def assert_readers_see_whole_changes(index: SliceList, asked: Any, changes: Callable[[], None]) -> None:
    """Every change holds at all values that are asked, or at none: so the counts of one batch differ by the base's."""
    base = index.count(asked)
    stop = threading.Event()
    wrong: list[Any] = []
    batches = [0]

    def read(ask: Callable[[], Any]) -> None:
        while not stop.is_set():
            more = ask() - base
            batches[0] += 1
            if (more != more[0]).any():
                wrong.append(more)
                return

    def ask_slices() -> Any:
        slices = index.slices(asked)
        slots, begins, ends = slices.slots, slices.starts, slices.starts + slices.lengths
        runs = zip(begins.tolist(), ends.tolist(), strict=True)
        found = [[slots[a:b].copy() for a, b in zip(*row, strict=True)] for row in runs]
        assert all(len(np.unique(np.concatenate(row))) == sum(map(len, row)) for row in found)
        return slices.lengths.sum(axis=1).astype(np.int64)

    asks: list[Callable[[], Any]] = [
        lambda: index.stab(asked).counts,
        lambda: index.count(asked),
        ask_slices,
    ]
    readers = [threading.Thread(target=read, args=(ask,)) for ask in asks]
    for reader in readers:
        reader.start()
    changes()
    stop.set()
    for reader in readers:
        reader.join()
    index.check()
    assert not wrong, "one batch, one state"
    assert batches[0] >= len(readers)


@pytest.mark.parametrize("many", [False, True], ids=["single", "many"])
def test_readers_see_a_change_in_place_whole_or_not_at_all(many: bool) -> None:
    """An interval over some twenty windows comes and goes: whoever reads finds it in all of them, or in none."""
    rng = np.random.default_rng(3)
    lows = rng.integers(0, 20_000, 4000)
    index = SliceList("int64")
    index.insert_many(np.arange(4000), lows, lows + rng.integers(1, 100, 4000))
    asked = np.repeat(np.arange(10_000, 10_040), 40)

    def change() -> None:
        for turn in range(400):
            ids = np.arange(5000 + 5 * turn, 5000 + 5 * turn + (5 if many else 1))
            if many:
                index.insert_many(ids, np.full(5, 9_950) + np.arange(5), np.full(5, 10_060) + np.arange(5))
                index.remove_many(ids)
            else:
                index.insert(int(ids[0]), 9_950 + turn % 40, 10_060)
                index.remove(int(ids[0]))

    assert_readers_see_whole_changes(index, asked, change)
    assert index.slices([0]).lengths.shape == (1, 1)


def test_an_interval_of_more_windows_than_are_worth_it_is_a_run_of_its_own() -> None:
    index, _, _ = sparse(5000)
    index.insert(10_000, 0, 2**31)
    assert index.slices([0]).lengths.shape == (1, 2)
    assert index.stab([5, 2**30]).sets()[0] >= {10_000}
    index.remove(10_000)
    index.check()
    assert 10_000 not in index.stab([2**30]).sets()[0]


def test_a_window_that_is_long_to_move_about_is_left_alone() -> None:
    n = edits._MOST_EDGES + 100
    index = SliceList()
    index.insert_many(np.arange(n), np.arange(n), np.full(n, 2 * n))
    index.insert(n, 5, 3 * n)
    index.check()
    assert index.slices([0]).lengths.shape == (1, 2)
    assert index.count([5, 2 * n]).tolist() == [7, 1]
    index.remove_many([3, n])
    index.check()
    assert index.count([5, 2 * n]).tolist() == [5, 0]


def test_a_change_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    index, lows, highs = sparse(2000)
    for id in range(2000, 2150):
        index.insert(id, int(lows[id]), int(highs[id]))
    assert any(has_pieces(part) for part in index._parts.values())

    def no_memory(*_: Any) -> Any:
        raise MemoryError

    lowest = int(lows[:2150].min())
    with monkeypatch.context() as patch:
        patch.setattr(slice_index, "build_part", no_memory)
        with pytest.raises(MemoryError):  # three fit into windows, one lies before them all
            index.insert_many(np.arange(3000, 3004), [*lows[5:8], lowest - 9], [*highs[5:8], lowest - 5])
        with pytest.raises(MemoryError):
            index.insert(3003, lowest - 9, lowest - 5)
    index.check()
    assert (len(index), 3001 in index, 3003 in index) == (2150, False, False)
    values = np.append(lows[:100], lowest - 7)
    assert_answers(index, np.arange(2150), lows[:2150], highs[:2150], values)
    index.insert_many(np.arange(3000, 3004), [*lows[5:8], lowest - 9], [*highs[5:8], lowest - 5])
    index.check()
    assert index.stab([lowest - 7]).sets() == [{3003}]
