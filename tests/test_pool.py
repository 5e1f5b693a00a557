"""Memory of answers that is used again: nobody sees another's answer, and no more waits than may."""

import gc
import os
import threading
import tracemalloc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fencepost as fp
from fencepost import _memory, _pool
from fencepost._pool import LEAST, SETTING, Pool
from fencepost.errors import FencepostError
from fencepost.indexes import Borders, BoxIndex, Matches, SliceList, matches
from fencepost.indexes.kernels.vectors import PADDING

MB = 1 << 20


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool of 64 MB in place of that of the process."""
    made = Pool(64 * MB)
    monkeypatch.setattr(_pool, "_pool", made)
    yield made
    gc.collect()


def lent(pool: Pool, size: int) -> Any:
    """Memory from a pool; it must have some."""
    found = pool.lend(size)
    assert found is not None
    return found


def address(array: Any) -> int:
    return int(array.ctypes.data)


def test_memory_comes_back_when_the_last_array_over_it_is_gone() -> None:
    pool = Pool(64 * MB)
    whole = lent(pool, 2 * MB)
    at = address(whole)
    part = whole[5:900].view(np.uint8)[::3]
    del whole
    gc.collect()
    assert pool.kept == 0
    assert address(lent(pool, 2 * MB)) != at
    del part
    assert pool.kept == 4 * MB
    assert address(lent(pool, 2 * MB)) == at


def test_an_answer_in_arrow_keeps_its_memory(pool: Pool) -> None:
    index = SliceList()
    index.insert_many(np.arange(100), np.zeros(100), np.full(100, 9.0))
    shared = index.stab(np.full(5000, 3.0)).to_arrow().slice(7, 2000)
    gc.collect()
    other = index.stab(np.full(5000, 3.0))
    other.ids[:] = -1
    assert sorted(shared[1234].as_py()) == list(range(100))
    before = pool.kept
    del shared
    gc.collect()
    assert pool.kept > before


@pytest.mark.parametrize("size", [LEAST, LEAST + 1, 5 * MB // 3, 7 * MB, 63 * MB])
def test_a_block_is_little_larger_than_what_is_asked_for_and_aligned(size: int) -> None:
    pool = Pool(64 * MB)
    first = lent(pool, size)
    assert size <= first.nbytes <= 1.126 * size
    assert address(first) % 64 == 0
    del first
    again = lent(pool, size)
    assert size <= again.nbytes
    assert pool.kept == 0, "the same was taken again"
    del again
    if size > 2 * LEAST:
        assert lent(pool, int(size / 1.3)).nbytes < size, "what is much larger stays for others"


def test_small_memory_and_what_could_never_wait_comes_from_numpy() -> None:
    pool = Pool(8 * MB)
    assert pool.lend(LEAST - 1) is None
    assert pool.lend(9 * MB) is None
    assert Pool(0).lend(LEAST) is None


def test_a_tiny_answer_asks_no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Pool:
        raise AssertionError("asked")

    monkeypatch.setattr(_pool, "_of_process", refuse)
    index = SliceList()
    index.insert_many([1, 2], [0, 0], [5, 6])
    assert index.stab([3, 5]).sets() == [{1, 2}, {2}]
    assert fp.Rules.from_dicts([{"id": 1, "condition": "x > 5"}]).compile().match({"x": [7.0]}).sets() == [{1}]


def test_what_has_waited_longest_makes_room() -> None:
    pool = Pool(20 * MB)
    small = [lent(pool, 2 * MB) for _ in range(8)]
    addresses = [address(each) for each in small]
    while small:
        del small[0]
    assert pool.kept == 16 * MB
    large = lent(pool, 10 * MB)
    at = address(large)
    del large
    assert pool.kept <= 20 * MB
    assert address(lent(pool, 10 * MB)) == at, "the new block was kept"
    assert address(lent(pool, 2 * MB)) == addresses[-1]


def test_what_nobody_takes_goes_to_the_system() -> None:
    pool = Pool(64 * MB)
    lent(pool, 30 * MB)  # given back at once
    assert pool.kept >= 30 * MB
    for _ in range(100):
        lent(pool, 2 * MB)
    assert pool.kept == 2 * MB


def test_loans_that_end_while_memory_is_lent() -> None:
    """The garbage collector may end a loan at any allocation, also of the pool itself."""

    class Ring:
        def __init__(self, memory: Any) -> None:
            self.memory, self.ring = memory, self

    pool = Pool(24 * MB)
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for number in range(300):
            memory = lent(pool, MB + number * 7919 % (3 * MB))
            memory[:8] = number % 251
            Ring(memory)
            held = lent(pool, 2 * MB)
            held[:8] = 255
            assert (memory[:8] == number % 251).all()
    finally:
        gc.set_threshold(*before)
    del memory, held
    gc.collect()
    assert 0 < pool.kept <= 24 * MB


def test_threads_never_get_the_same_memory() -> None:
    pool, wrong = Pool(32 * MB), []

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(200):
            memory = lent(pool, int(rng.integers(MB, 3 * MB)))
            memory[::4096] = number
            held = memory[4096 : 2 * 4096]
            if not (memory[::4096] == number).all():
                wrong.append(number)
            del memory
            if not (held[::4096] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.kept <= 32 * MB


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_changes_no_answer_of_its_parent() -> None:
    pool = Pool(64 * MB)
    held, waiting = lent(pool, 3 * MB), lent(pool, 3 * MB)
    held[:] = 1
    waiting[:] = 2
    at = address(waiting)
    del waiting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests may have left threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            held[:] = 9
            lent(pool, 3 * MB)[:] = 9
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert (held == 1).all()
    again = lent(pool, 3 * MB)
    assert address(again) == at
    assert (again == 2).all()


def test_what_waits_is_given_up_where_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(64 * MB)
    lent(pool, 5 * MB)  # given back at once
    real = np.empty
    refused: list[int] = []

    def short(size: int, dtype: Any) -> Any:
        if not refused:
            refused.append(pool.kept)
            raise MemoryError
        return real(size, dtype)

    monkeypatch.setattr(np, "empty", short)
    assert lent(pool, 2 * MB).nbytes == 2 * MB
    assert refused == [5 * MB]
    assert pool.kept == 2 * MB

    def none(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(np, "empty", none)
    with pytest.raises(MemoryError):
        pool.lend(30 * MB)


def test_the_setting_says_how_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def most() -> int:
        monkeypatch.setattr(_pool, "_pool", None)
        return _pool._of_process().most

    monkeypatch.setenv(SETTING, " OFF ")
    assert most() == 0
    assert _pool.lend(10 * MB, np.int64) is None
    assert len(matches.answer_array(2 * MB, np.int64)) == 2 * MB + PADDING
    monkeypatch.setenv(SETTING, "64 MiB")
    assert most() == 64 * MB
    _pool.keep_at_most(MB)
    assert _pool._of_process().most == 64 * MB, "who sets it decides"
    monkeypatch.setenv(SETTING, "much")
    with pytest.raises(FencepostError, match=f"{SETTING}='much'; expected a size such as 2 GiB"):
        most()
    monkeypatch.delenv(SETTING)
    monkeypatch.setattr(_memory, "_free_of_machine", lambda: 320 * MB)
    monkeypatch.setattr(_memory, "_free_of_group", lambda: None)
    assert most() == 20 * MB
    _pool.lend(5 * MB, np.uint8)  # given back at once
    _pool.keep_at_most(4 * MB)
    assert _pool.lend(5 * MB, np.uint8) is None
    assert _pool._of_process().most == 4 * MB


def test_sizes_are_counted(pool: Pool) -> None:
    tracemalloc.start()
    try:
        answer = matches.answer_array(3 * MB // 8, np.int64)
        assert 3 * MB <= tracemalloc.get_traced_memory()[0] < 4 * MB
        assert answer.nbytes == answer.base.nbytes >= 3 * MB  # type: ignore[union-attr]
        del answer
        assert pool.kept <= tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def wide(count: int = 200) -> BoxIndex:
    index = BoxIndex(2, values="float64")
    index.insert_many(np.arange(count), np.zeros((count, 2)), np.full((count, 2), 9.0))
    return index


def test_a_guess_takes_no_new_memory_and_holds_no_more_than_the_answer(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, inside = wide(), np.full((5000, 2), 3.0)
    mixed = np.full((5000, 2), -3.0)
    mixed[:20] = 3.0
    found, fresh = index.stab(inside), pool._fresh
    asked: list[int] = []
    assert found.counts.tolist() == [200] * 5000

    def recorded(size: int) -> Any:
        asked.append(size)
        return fresh(size)

    monkeypatch.setattr(pool, "_fresh", recorded)
    pool.clear()
    assert len(index.stab(mixed).ids) == 20 * 200
    assert not asked, "nothing waits, and little was found"
    del found
    kept = pool.kept
    index.stab(inside[:1])  # what it expects from now on
    few = index.stab(mixed)
    assert len(few.ids) == 20 * 200
    assert few.ids.base is None or few.ids.base.nbytes < MB
    assert pool.kept == kept, "the large block waits again"
    index.stab(inside[:1])
    assert len({address(index.stab(inside).ids) for _ in range(3)}) == 1
    assert not asked


def test_a_guess_respects_the_limit_of_answers(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    index, inside = wide(), np.full((5000, 2), 3.0)
    index.stab(inside)
    assert pool.kept
    monkeypatch.setenv(_memory.SETTING, "3 MB")
    with pytest.raises(_memory.AnswerTooLargeError):
        index.stab(inside)
    assert index.stab(inside[:1000]).counts.tolist() == [200] * 1000


@pytest.mark.usefixtures("pool")
def test_answers_in_used_memory_are_right() -> None:
    rng = np.random.default_rng(3)
    lows = rng.random(3000)
    slices, borders, boxes = SliceList(), Borders(), BoxIndex(2)
    slices.insert_many(np.arange(3000), lows, lows + 0.3)
    borders.insert_many(np.arange(3000), lows, lows + 0.3)
    boxes.insert_many(np.arange(3000), np.stack([lows, lows], 1), np.stack([lows, lows], 1) + 0.3)
    held: list[tuple[Matches, Any]] = []
    for _ in range(12):
        before, values = rng.random(2000), rng.random(2000)
        was, now = ((lows[:, None] <= at) & (at < lows[:, None] + 0.3) for at in (before, values))
        moves = borders.crossings(before, values, cross=False)
        answers = [slices.stab(values), boxes.stab(np.stack([values, values], 1)), moves.enter, moves.exit]
        for answer, expected in zip(answers, (now, now, now & ~was, was & ~now), strict=True):
            rows = np.repeat(np.arange(2000), answer.counts)
            assert np.array_equal(np.sort(rows * 3000 + answer.ids), np.flatnonzero(expected.T))
        for answer, copied in held:
            assert np.array_equal(answer.ids, copied), "others wrote into it"
        for answer, _ in held:
            answer.ids[:] = -7  # whoever holds an answer may write to it
        held = [(each, each.ids.copy()) for each in answers[1::2]]
        del answers, moves, answer


@pytest.mark.parametrize("round", [1024, 512])
def test_many_values_are_answered_the_same_with_and_without_buffers(
    round: int, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.indexes.slice_list.view.ROUND", round)
    rng = np.random.default_rng(4)
    index = SliceList()
    assert index.stab(np.zeros(5000)).counts.sum() == 0
    lows = rng.integers(0, 10_000, 5000)
    index.insert_many(np.arange(5000), lows, lows + rng.integers(1, 500, 5000))
    index.remove_many(rng.choice(5000, 300, replace=False))
    values = rng.integers(0, 10_000, 20_000)
    for slots in (False, True):
        new = index.stab(values, slots=slots)
        buffers = Matches(np.empty(len(values) + 1, np.int64), np.empty(2 * len(new.ids), new.ids.dtype))
        given = index.stab(values, slots=slots, out=buffers)
        assert np.array_equal(new.offsets, given.offsets)
        assert np.array_equal(new.ids, given.ids)
    assert new.ids.base is not None
    assert new.ids.base.nbytes < (1.2 if round == 1024 else 2.3) * new.ids.nbytes + 1024
    del new
    assert pool.kept


def test_a_worker_of_spark_keeps_little(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.spark.work import caches

    class Task:
        @staticmethod
        def get() -> object:
            return object()

    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.setattr(caches, "TaskContext", Task)
    monkeypatch.setattr(caches, "_tasks_begun", 0)
    caches.begin_task()
    assert pool.most == 32 * MB
