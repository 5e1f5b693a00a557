"""What was used last stays; what was used longest ago goes first."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost._files.recent import RecentlyUsed


def _fail() -> int:
    raise AssertionError("it is there")


def test_a_value_is_made_once_and_goes_when_others_were_used_since() -> None:
    recent: RecentlyUsed[str, int] = RecentlyUsed(2)
    assert recent.get("a", lambda: 1) == 1
    assert recent.get("b", lambda: 2) == 2
    assert recent.get("a", _fail) == 1
    assert recent.get("c", lambda: 3) == 3
    assert recent.keys() == ["a", "c"]
    assert recent.get("b", lambda: 4) == 4
    assert recent.keys() == ["c", "b"]


def test_a_value_that_cannot_be_made_is_not_kept() -> None:
    recent: RecentlyUsed[str, int] = RecentlyUsed(2)
    with pytest.raises(AssertionError):
        recent.get("a", _fail)
    assert recent.keys() == []
    assert recent.get("a", lambda: 1) == 1


def test_the_last_value_stays_however_heavy() -> None:
    recent: RecentlyUsed[str, str] = RecentlyUsed(3, weigh=len)
    recent.put("a", "12")
    recent.put("b", "12345")
    assert recent.keys() == ["b"]
    recent.put("c", "1")
    assert recent.keys() == ["c"]


def test_making_a_value_may_ask_for_another() -> None:
    recent: RecentlyUsed[str, int] = RecentlyUsed(2)
    assert recent.get("a", lambda: recent.get("b", lambda: 1) + 1) == 2
    assert recent.keys() == ["b", "a"]


def test_threads_make_a_value_once() -> None:
    recent: RecentlyUsed[int, int] = RecentlyUsed(4)
    made: list[int] = []

    def make(key: int) -> Callable[[], int]:
        def run() -> int:
            time.sleep(0.001)
            made.append(key)
            return key

        return run

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: recent.get(n % 4, make(n % 4)), range(64))) == [n % 4 for n in range(64)]
    assert sorted(made) == [0, 1, 2, 3]


@given(st.integers(1, 12), st.lists(st.tuples(st.sampled_from("gptc"), st.integers(0, 5), st.integers(0, 8))))
def test_it_keeps_what_a_list_of_uses_keeps(most: int, steps: list[tuple[str, int, int]]) -> None:
    recent: RecentlyUsed[int, int] = RecentlyUsed(most, weigh=lambda value: value)
    expected: list[tuple[int, int]] = []

    for step, key, value in steps:
        there = dict(expected)
        rest = [pair for pair in expected if pair[0] != key]
        if step == "g":
            assert recent.get(key, partial(int, value)) == there.get(key, value)
            expected = [*rest, (key, there.get(key, value))]
        elif step == "p":
            recent.put(key, value)
            expected = [*rest, (key, value)]
        elif step == "t":
            assert recent.take(key) == there.get(key)
            expected = rest
        else:
            recent.clear()
            expected = []
        while len(expected) > 1 and sum(weight for _, weight in expected) > most:
            expected.pop(0)
        assert recent.keys() == [key for key, _ in expected]
