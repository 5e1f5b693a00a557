"""SliceList beyond the conformance suite: groups, whole numbers, live changes, budgets, views and threads."""

import itertools
import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencepost.errors import FencepostError
from fencepost.indexes import Matches, SliceList
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.ordinal import ValueType
from fencepost.indexes.slice_list import search as slice_search
from fencepost.indexes.slice_list import view as slice_view
from fencepost.indexes.slice_list import window_kernels, windows
from fencepost.indexes.slice_list.edits import USED
from fencepost.lab import workloads
from fencepost.lab.workloads import IntervalWorkload
from tests.effort import examples

LEAST, MOST = -(2**63), 2**63 - 1


def _long_over_short() -> IntervalWorkload:
    starts = np.arange(2000) % 1000 * 1000
    return IntervalWorkload(
        "long over short", 2**20, starts, starts + np.repeat([2**20, 1000], 1000), np.arange(0, 2**20, 999)
    )


def _every_scale() -> IntervalWorkload:
    starts = np.arange(3100)
    return IntervalWorkload("every scale", 2**62, starts, starts + 2 ** (starts % 62), np.arange(0, 6000, 7))


WORKLOADS = [
    workloads.uniform(domain=4096, n=3000, widest=60, values=500),
    workloads.uniform(domain=2**31, n=3000, widest=2**24, values=500),
    workloads.heavy_tailed(n=3000, mean_matches=60, values=500),
    workloads.loans(n=3000, values=300),
    workloads.onion(n=3000, values=300),
    workloads.clustered(n=3000, values=500),
    IntervalWorkload("all cover", 9, np.zeros(2000, np.int64), np.full(2000, 9), np.arange(-1, 10)),
    IntervalWorkload("touching", 4000, np.arange(2000), np.arange(1, 2001), np.arange(-1, 2003)),
    _long_over_short(),
    _every_scale(),
]


def scan(work: IntervalWorkload, value: int) -> npt.NDArray[np.int64]:
    return np.flatnonzero((work.los <= value) & (value < work.his))


@pytest.mark.parametrize("spread", [1, 1_000_003], ids=["dense ids", "listed ids"])
@pytest.mark.parametrize("work", WORKLOADS, ids=lambda work: work.name)
def test_every_shape_is_answered_within_its_budget(work: IntervalWorkload, spread: int) -> None:
    index = SliceList()
    index.insert_many(work.ids * spread, work.los, work.his)
    index.check()
    answer = index.stab(work.values)
    for value, row in zip(work.values.tolist(), answer, strict=True):
        assert np.array_equal(np.sort(row), scan(work, value) * spread)
    assert np.array_equal(index.count(work.values), work.counts())
    constant = 4096 * len(index.slices([0]).lengths[0])
    assert index.storage().nbytes <= 64 * len(work.los) + constant


def test_a_smaller_budget_makes_more_layers_and_the_same_answer() -> None:
    work = workloads.heavy_tailed(n=20_000, mean_matches=200, values=300)
    roomy, tight = SliceList(budget=400), SliceList(budget=48)
    for index in (roomy, tight):
        index.insert_many(work.ids, work.los, work.his)
    assert tight.storage().nbytes < 52 * 20_000 < roomy.storage().nbytes
    assert tight.slices([0]).lengths.shape[1] > roomy.slices([0]).lengths.shape[1]
    assert tight.stab(work.values).sets() == roomy.stab(work.values).sets()


@pytest.mark.parametrize("groups", [1, 7, 300, 3000])
@pytest.mark.parametrize("skewed", [False, True])
def test_groups_are_answered_like_a_scan(groups: int, skewed: bool) -> None:
    rng = np.random.default_rng(groups)
    n = 3000
    keys = rng.integers(0, groups, n) * 10**12 - 5
    if skewed:
        keys[: n // 2] = keys[0]
    lows = rng.integers(0, 500, n)
    highs = lows + rng.integers(1, 80, n)
    index = SliceList()
    index.insert_many(np.arange(n), lows, highs, groups=keys)
    index.insert_many([n, n + 1], [100, None], [200, 50])
    index.check()
    asked, of = rng.integers(-5, 600, 400), np.append(rng.choice(keys, 390), np.full(10, 77))
    for value, key, row in zip(asked, of, index.stab(asked, groups=of), strict=True):
        expected = np.flatnonzero((lows <= value) & (value < highs) & (keys == key)).tolist()
        expected += [n] * bool(100 <= value < 200) + [n + 1] * bool(value < 50)
        assert sorted(row.tolist()) == expected
    assert index.storage().nbytes <= 64 * n + 12_000


def test_a_million_groups_of_one_interval_stay_within_the_budget() -> None:
    n = 200_000
    rng = np.random.default_rng(3)
    keys = rng.permutation(n) * 17
    lows = rng.integers(0, 1000, n)
    for spread in (1, 1_000_003):
        index = SliceList()
        index.insert_many(np.arange(n) * spread, lows, lows + 10, groups=keys)
        assert index.storage().nbytes <= 64 * n
        some = rng.integers(0, n, 1000)
        assert np.array_equal(index.stab(lows[some], groups=keys[some]).ids, some * spread)


def test_whole_numbers_are_exact_at_the_edges_of_int64() -> None:
    index = SliceList(values="int64")
    index.insert(1, LEAST, LEAST + 1)
    index.insert(2, MOST - 1, None)
    index.insert(3, MOST - 1, MOST)
    index.insert(4, None, None)
    index.insert(5, 2**53 + 1, 2**53 + 2)
    index.insert(6, MOST, MOST, bounds="[]")
    index.check()
    asked = np.array([LEAST, LEAST + 1, MOST - 1, MOST, 2**53, 2**53 + 1])
    assert index.stab(asked).sets() == [{1, 4}, {4}, {2, 3, 4}, {2, 4, 6}, {4}, {4, 5}]
    assert index.interval(2) == (MOST - 1, math.inf)
    assert index.interval(5) == (2**53 + 1, 2**53 + 2)
    for lo, hi, bounds in ((MOST, MOST, "[)"), (LEAST, LEAST, "[)"), (MOST, None, "(]"), (5, 6, "()")):
        with pytest.raises(FencepostError, match="Swap the bounds, or leave the interval out: it is empty"):
            index.insert(9, lo, hi, bounds=bounds)  # type: ignore[arg-type]


def test_the_first_insert_decides_the_type_of_the_values() -> None:
    whole, real = SliceList(), SliceList()
    whole.insert(1, 0, None)
    real.insert(1, 0.5, None)
    assert (whole.values, real.values) == ("int64", "float64")
    real.insert(2, 0, 3)
    with pytest.raises(FencepostError, match=r"Interval 2 with lower bound 0.5 \(float\) in an index of int64 values"):
        whole.insert(2, 0.5, 3)
    with pytest.raises(FencepostError, match=r"Value 1.5 \(float\) in an index of int64 values"):
        whole.stab([1, 1.5])
    assert whole.stab([1, None, math.nan, -1]).sets() == [{1}, set(), set(), set()]
    assert len(whole) == 1
    with pytest.raises(FencepostError, match=r"Value 9007199254740993 \(int\); expected a number that float64"):
        real.stab([2**53 + 1])


def test_a_zero_has_no_sign_and_neighbours_are_told_apart() -> None:
    index = SliceList()
    tiny = math.nextafter(0.0, 1.0)
    index.insert_many([1, 2, 3], [0.0, -tiny, -0.0], [tiny, 0.0, None])
    assert index.stab([0.0, -0.0, tiny, -tiny, math.inf]).sets() == [{1, 3}, {1, 3}, {3}, {2}, {3}]


KEYS = [None, 1, 2, 10**15]


class LiveChanges(RuleBasedStateMachine):
    """Inserts and removes, single and in bulk, with and without groups, dense ids and others."""

    def __init__(self) -> None:
        super().__init__()
        self.index = SliceList(values="int64")
        self.truth: dict[int, tuple[int, int, int | None]] = {}

    @rule(
        start=st.integers(-50, 3000),
        step=st.sampled_from([1, 1, 3, 10**6]),
        rows=st.lists(
            st.tuples(st.integers(0, 60), st.integers(1, 40), st.sampled_from([None, 1, 2, 10**15])), max_size=40
        ),
    )
    def insert(self, start: int, step: int, rows: list[tuple[int, int, int | None]]) -> None:
        new = {start + step * i: (lo, lo + width, key) for i, (lo, width, key) in enumerate(rows)}
        new = {id: row for id, row in new.items() if id not in self.truth}
        lows, highs, keys = ([row[i] for row in new.values()] for i in range(3))
        self.index.insert_many(list(new), lows, highs, groups=keys)
        self.truth |= new

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.truth)), unique=True, max_size=20))
        self.index.remove_many(ids)
        for id in ids:
            del self.truth[id]

    @rule()
    def compact(self) -> None:
        self.index.compact()

    @rule()
    def save_and_load(self) -> None:
        arrays = {name: array.copy() for name, array in self.index.to_arrays().items()}
        for array in arrays.values():
            array.flags.writeable = False
        self.index = SliceList.from_arrays(arrays)

    @invariant()
    def agrees(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.truth)
        asked = np.repeat(np.arange(-1, 102, 3), 3)
        of = np.tile([1, 10**15, 99], len(asked) // 3)
        expected = [
            sorted(id for id, (lo, hi, key) in self.truth.items() if lo <= value < hi and key in (None, group))
            for value, group in zip(asked.tolist(), of.tolist(), strict=True)
        ]
        assert [sorted(row.tolist()) for row in self.index.stab(asked, groups=of)] == expected
        assert self.index.count(asked, groups=of).tolist() == [len(ids) for ids in expected]
        for id, (lo, hi, _) in list(self.truth.items())[:3]:
            assert self.index.interval(id) == (lo, hi)


def test_live_changes_answer_like_a_dictionary() -> None:
    machine = LiveChanges.TestCase
    machine.settings = examples(40, stateful_step_count=30)
    machine().runTest()


def test_many_single_changes_keep_few_parts() -> None:
    index = SliceList()
    rng = np.random.default_rng(1)
    lows = rng.integers(0, 1000, 3000)
    index.insert_many(np.arange(2000), lows[:2000], lows[:2000] + 10)
    for id in range(2000, 3000):
        index.insert(id, int(lows[id]), int(lows[id]) + 10)
        index.remove(id - 2000)
    index.check()
    assert len(index) == 2000
    assert index.slices([1]).lengths.shape[1] <= 8
    asked = np.arange(0, 1000, 7)
    live = np.arange(1000, 3000)
    for value, row in zip(asked, index.stab(asked), strict=True):
        assert np.array_equal(np.sort(row), live[(lows[1000:] <= value) & (value < lows[1000:] + 10)])


def test_a_bulk_removal_is_swept_out() -> None:
    work = workloads.uniform(domain=2**20, n=40_000, widest=4000, values=500)
    index = SliceList()
    index.insert_many(work.ids, work.los, work.his)
    before = index.storage().entries
    index.remove_many(np.arange(0, 40_000, 10))
    index.check()
    assert index.storage().entries < before
    for value, row in zip(work.values.tolist(), index.stab(work.values), strict=True):
        found = scan(work, value)
        assert np.array_equal(np.sort(row), found[found % 10 != 0])


def test_a_reader_never_sees_half_a_change() -> None:
    """A writer moves a pair of intervals to and fro; whoever reads finds both of them or none."""
    index = SliceList()
    index.insert_many(np.arange(2000), np.arange(2000), np.arange(2000) + 5)
    asked = np.array([10_000, 20_000] * 500)
    stop = threading.Event()
    seen: list[set[int]] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(set(index.stab(asked).counts.tolist()))

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(300):
        index.insert_many([5000 + 2 * turn, 5001 + 2 * turn], [10_000, 20_000], [10_001, 20_001])
        index.remove_many([5000 + 2 * turn, 5001 + 2 * turn])
    stop.set()
    reader.join()
    assert all(len(counts) == 1 for counts in seen), "one batch, one state"


def test_slices_are_runs_of_the_shared_array() -> None:
    work = workloads.heavy_tailed(n=5000, mean_matches=100, values=200)
    index = SliceList()
    index.insert_many(work.ids + 100, work.los, work.his)
    index.insert(9, 0, None)
    index.remove(100)
    view = index.slices(work.values)
    expected = index.stab(work.values).sets()
    assert view.lengths.shape == view.starts.shape == (200, len(view.to_arrow()))
    for i in range(200):
        runs = [view.ids[s : s + n].tolist() for s, n in zip(view.starts[i], view.lengths[i], strict=True)]
        assert set(itertools.chain.from_iterable(runs)) == expected[i]
    slots = view.to_arrow(slots=True)
    assert slots[0].values.type == pa.uint32()
    assert slots[0].values.buffers()[1].address == view.slots.ctypes.data, "not copied"
    merged = [set(itertools.chain.from_iterable(layer[i].as_py() for layer in view.to_arrow())) for i in range(200)]
    assert merged == expected


def test_slots_translate_to_ids() -> None:
    for spread in (1, 10**9):
        index = SliceList()
        index.insert_many((np.arange(50) - 20) * spread, np.arange(50), np.arange(50) + 8)
        slots = index.stab([20, 30], slots=True)
        assert slots.ids.dtype == np.uint32
        assert np.array_equal(index.slot_ids[slots.ids], index.stab([20, 30]).ids)
        buffers = Matches(np.empty(3, np.int64), np.empty(200, np.uint32))
        assert np.shares_memory(index.stab([20, 30], slots=True, out=buffers).ids, buffers.ids)


@pytest.mark.parametrize("slots", [False, True])
def test_threads_do_not_change_the_answer(slots: bool) -> None:
    work = workloads.uniform(domain=50_000, n=20_000, widest=300, values=30_001)
    index = SliceList()
    index.insert_many(work.ids, work.los, work.his)
    one, two = (index.stab(work.values, slots=slots, threads=threads) for threads in (1, 3))
    assert np.array_equal(one.offsets, two.offsets)
    assert np.array_equal(one.ids, two.ids)
    buffers = Matches(np.empty(30_002, np.int64), np.empty(len(one.ids), one.ids.dtype))
    assert np.array_equal(index.stab(work.values, slots=slots, threads=2, out=buffers).ids, one.ids)
    with pytest.raises(FencepostError, match="An `out` with room for 10 ids"):
        index.stab(
            work.values, slots=slots, threads=2, out=Matches(np.empty(30_002, np.int64), np.empty(10, one.ids.dtype))
        )


@pytest.mark.parametrize("pays", [True, False])
def test_output_past_the_cache_is_the_same(monkeypatch: pytest.MonkeyPatch, pays: bool) -> None:
    monkeypatch.setattr(slice_view, "_STREAMED_BYTES", 1 << 16)
    monkeypatch.setattr(slice_view, "streaming_pays", lambda: pays)
    index = SliceList()
    index.insert_many(np.arange(2000) * 3, np.zeros(2000, np.int64), np.arange(2000) + 1)
    index.remove_many(np.arange(0, 6000, 30))
    left = np.flatnonzero(np.arange(2000) % 10)
    values = np.arange(3000) % 1500
    for slots in (False, True):
        answer = index.stab(values, slots=slots)
        ids = index.slot_ids[answer.ids] if slots else answer.ids
        for i in range(0, 3000, 331):
            row = ids[answer.offsets[i] : answer.offsets[i + 1]]
            assert np.array_equal(np.sort(row), 3 * left[left >= values[i]])


def test_whether_streaming_pays_is_found_out_once() -> None:
    slice_view.streaming_pays.cache_clear()
    for _ in range(3):
        assert slice_view.streaming_pays() in (True, False)
    assert slice_view.streaming_pays.cache_info().misses == 1


def test_read_only_arrays_hit_the_same_compiled_code() -> None:
    index = SliceList()
    index.insert_many(np.arange(100), np.arange(100), np.arange(100) + 9)
    index.stab(np.arange(50))
    kernels: list[Any] = [slice_search.find_runs, slice_search.copy_runs]
    before = [len(kernel.signatures) for kernel in kernels]
    arrays = index.to_arrays()
    frozen = {name: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape) for name, array in arrays.items()}
    loaded = SliceList.from_arrays(frozen)
    values = np.frombuffer(np.arange(50).tobytes(), np.int64)
    assert not values.flags.writeable
    assert loaded.stab(values).sets() == index.stab(np.arange(50)).sets()
    strided = np.arange(100)[::2]
    assert loaded.stab(strided).sets() == index.stab(list(range(0, 100, 2))).sets()
    assert [len(kernel.signatures) for kernel in kernels] == before
    loaded.remove(5)
    loaded.insert(5, 0, 1)
    loaded.check()
    assert frozen["owners"].tobytes() == arrays["owners"].tobytes(), "the arrays it was made from stay as they were"


@pytest.mark.parametrize("version", [1, 2, 4])
def test_arrays_of_another_format_are_refused(version: int) -> None:
    """Formats 1 and 2 were never released: they are not read."""
    index = SliceList()
    index.insert(1, 0, 5)
    arrays = dict(index.to_arrays())
    arrays["state"] = np.append(version, arrays["state"][1:])
    message = f"Arrays of format {version}; expected format 3. Publish or save the rules again"
    with pytest.raises(FencepostError, match=message):
        SliceList.from_arrays(arrays)


def test_what_is_saved_holds_nothing_but_the_index() -> None:
    """Room to spare is zeros: no other memory gets into a file, and the same index gives the same bytes."""
    index = SliceList()
    index.insert_many(np.arange(5000), np.arange(5000), np.arange(5000) + 40)
    index.insert_many([9000, 9001], [1, 2], [70, 80])
    index.remove_many(np.arange(100, 4000, 7))
    index.slices([5])
    arrays = index.to_arrays()
    assert not arrays["ids"][int(arrays["state"][4]) :].any()
    for name, array in arrays.items():
        if name.endswith(("edges", "short_edges")):
            windows = arrays[f"{name.split('.')[0]}.windows"]
            assert not array[int(windows[-1, 1]) :].any(), name


@given(
    gaps=st.lists(st.integers(1, 10**6), min_size=1, max_size=60),
    widths=st.lists(st.integers(1, 50), min_size=60, max_size=60),
    kind=st.sampled_from(["int64", "float64"]),
    unbounded=st.sampled_from(["", "low", "high", "both"]),
    groups=st.integers(0, 2),
)
def test_values_between_and_beside_far_apart_intervals(
    gaps: list[int], widths: list[int], kind: ValueType, unbounded: str, groups: int
) -> None:
    """Where most values meet nothing, those at the edges of what is met are the ones to get wrong."""
    lows = np.cumsum(gaps) - 10**5
    highs = lows + widths[: len(gaps)]
    ids = np.arange(len(gaps))
    starts, ends = lows.tolist(), highs.tolist()
    if unbounded in ("low", "both"):
        starts[0] = None
    if unbounded in ("high", "both"):
        ends[-1] = None
    keys = ids % groups if groups else None
    index = SliceList(kind)
    index.insert_many(ids, starts, ends, groups=keys)
    index.check()
    edges = np.concatenate([lows, highs])
    values = np.concatenate([edges - 1, edges, edges + 1, [-(10**12), 10**12]])
    asked = np.arange(len(values)) % groups if groups else None
    found = index.stab(values.astype(np.float64) if kind == "float64" else values, groups=asked).sets()
    for i, value in enumerate(values.tolist()):
        expected = {
            n
            for n in range(len(ids))
            if (starts[n] is None or starts[n] <= value)
            and (ends[n] is None or value < ends[n])
            and (keys is None or asked is None or keys[n] == asked[i])
        }
        assert found[i] == expected


def test_values_are_located_where_the_bucket_table_is_no_help() -> None:
    """All keys in one bucket: the table is no help, and the search falls back on halving."""
    index = SliceList(values="float64")
    crowd = 1.0 + np.arange(20_000) * 1e-12
    lows = np.concatenate([crowd, [-1e300] * 500, [1e300] * 500])
    index.insert_many(np.arange(21_000), lows, np.nextafter(lows, np.inf))
    assert np.array_equal(index.stab(crowd).ids, np.arange(20_000))


def test_wrong_calls_are_refused() -> None:
    index = SliceList()
    index.insert_many([1, 2], [0, 0], [5, 5], groups=[1, 2])
    with pytest.raises(FencepostError, match="1 values without groups; expected the group of each value"):
        index.stab([1])
    with pytest.raises(FencepostError, match="2 values and 1 groups; expected one group per value"):
        index.stab([1, 2], groups=[1])
    with pytest.raises(FencepostError, match="Value 1 without a group"):
        index.stab([1, 2], groups=[1, None])
    with pytest.raises(FencepostError, match="1 ids and 2 groups; expected columns of the same length"):
        index.insert_many([3], [0], [1], groups=[1, 2])
    with pytest.raises(FencepostError, match=r"Interval 3 with group 'x' \(str\)"):
        index.insert_many([3], [0], [1], groups=["x"])
    with pytest.raises(FencepostError, match="values='int32'; expected 'int64' or 'float64'"):
        SliceList(values="int32")  # type: ignore[arg-type]
    with pytest.raises(FencepostError, match="budget=10; expected at least 48 bytes"):
        SliceList(budget=10)
    assert len(index) == 2


@given(st.lists(st.one_of(st.integers(LEAST, MOST), st.integers(-5, 5)), max_size=200))
def test_radix_sort_is_a_stable_sort(keys: list[int]) -> None:
    column = np.array(keys, np.int64)
    assert np.array_equal(sorted_positions(column), np.argsort(column, kind="stable"))
    backwards = np.arange(len(keys), dtype=np.uint32)[::-1].copy()
    expected = backwards[np.argsort(column[backwards], kind="stable")]
    assert np.array_equal(sorted_positions(column, backwards), expected)


@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 30)), min_size=1, max_size=40))
def test_no_interval_lies_strictly_inside_a_window(rows: list[tuple[int, int]]) -> None:
    firsts = np.array([first for first, _ in rows], np.int64)
    lasts = firsts + np.array([width for _, width in rows], np.int64)
    ordered = windows.sort_intervals(
        window_kernels.Intervals(np.arange(len(rows), dtype=np.uint32), firsts, lasts, np.zeros(0, np.int64))
    )
    cut, copies, _ = windows.cut(ordered)
    for first, last in zip(firsts, lasts, strict=True):
        assert not ((cut.keys < first) & (last < cut.until)).any()
    assert copies == sum(
        int(((cut.keys <= last) & (first <= cut.until)).sum()) for first, last in zip(firsts, lasts, strict=True)
    )


def test_slices_translate_scattered_ids() -> None:
    for ids in (np.arange(40) * 10**12, np.arange(3) * 10**12 - 5):
        index = SliceList()
        index.insert_many(ids, np.arange(len(ids)) * 1.0, np.arange(len(ids)) + 2.0)
        index._ids[index._marks[USED] :] = 2**32 - 1  # room that was never written may hold anything
        runs = index.slices([1.5])
        start, length = int(runs.starts[0, 0]), int(runs.lengths[0, 0])
        assert set(runs.ids[start : start + length].tolist()) == set(ids[:2].tolist())
        assert set(runs.to_arrow()[0][0].as_py()) == set(ids[:2].tolist())


def test_readers_wait_for_a_writer_that_has_taken_the_view() -> None:
    index = SliceList()
    index.insert_many(np.arange(2000), np.arange(2000) * 1.0, np.arange(2000) + 2.0)
    found: list[int] = []
    with index._lock:
        index._open()
        readers = [threading.Thread(target=lambda: found.append(int(index.count([3.5])[0]))) for _ in range(3)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(0.1)
        assert not found, "there is nothing to read"
        index._remove_rows(np.array([3]))
        index._live -= 1
        index._publish()
    for reader in readers:
        reader.join()
    assert found == [1, 1, 1]
    index.check()


@pytest.mark.parametrize("exponent", range(-323, -295))
def test_values_are_located_in_the_smallest_domains(exponent: int) -> None:
    starts = np.unique(np.arange(100) * (10.0**exponent / 100))
    ends = np.nextafter(starts, np.inf)
    index = SliceList()
    index.insert_many(np.arange(len(starts)), starts, ends)
    index.check()
    assert index.stab(starts).sets() == [{i} for i in range(len(starts))]


def test_eighths_between_neighbouring_numbers_need_no_mark() -> None:
    index = SliceList()
    index.insert_many(range(8), [-36, -27, -17, -12, 14, -5, 22, -30], [None, -26, -16, -11, 15, -4, 23, -29])
    index.check()


@pytest.mark.parametrize(("lookups", "parts"), [(0, 3), (20_000, 2)])
def test_recent_changes_are_merged_where_lookups_would_pay_more_for_another_part(lookups: int, parts: int) -> None:
    index = SliceList()
    index.insert_many(np.arange(20_000), np.arange(20_000), np.arange(20_000) + 2)
    index.insert_many(np.arange(2100) + 20_000, np.arange(2100), np.arange(2100) + 2)
    index.count(np.arange(lookups))
    index.insert_many(np.arange(430) + 22_100, np.arange(430), np.arange(430) + 2)
    assert index.slices([0]).starts.shape == (1, parts)
    assert index.count([10, 1000, 2100]).tolist() == [6, 4, 3]
    index.check()
