"""The run manager by itself; the indexes that use it are tested with it under their state machines."""

from typing import NamedTuple

import numpy as np
import pytest

from fencepost.indexes.runs import Runs, mark_bits, read_bits


class Run(NamedTuple):
    size: int
    kind: str = ""


def runs_of(*runs: Run) -> Runs[Run]:
    made: Runs[Run] = Runs()
    for run in runs:
        made.add(run)
    return made


def test_a_change_takes_the_runs_that_are_not_much_larger() -> None:
    runs = runs_of(Run(10_000), Run(900), Run(30), Run(7))
    assert runs.take_smaller(2) == [Run(7), Run(30)], "30 < 4 * (2 + 7), 900 is not"
    assert list(runs) == [Run(10_000), Run(900)]
    assert runs.rows == 10_900


def test_the_bulk_is_never_taken() -> None:
    runs = runs_of(Run(5))
    assert runs.take_smaller(1000) == []
    assert (len(runs), runs.rows) == (1, 5)


def test_small_runs_are_taken_at_any_size_if_they_are_alike() -> None:
    runs = runs_of(Run(10_000), Run(500, "a"), Run(200, "b"), Run(100, "a"))
    assert runs.take_smaller(1, least=256, alike=lambda run: run.kind == "a") == [Run(100, "a")]
    assert list(runs) == [Run(10_000), Run(500, "a"), Run(200, "b")]


def test_runs_are_told_apart_even_if_they_are_equal() -> None:
    runs = runs_of(Run(4), Run(4), Run(4))
    assert len(runs.take_smaller(2)) == 2
    assert (len(runs), runs.rows) == (1, 4)


def test_recent_changes_outgrow_an_eighth_of_the_bulk_and_some() -> None:
    assert not runs_of(Run(800), Run(228)).outgrown
    assert runs_of(Run(800), Run(228), Run(1)).outgrown


def test_the_largest_can_be_the_bulk() -> None:
    runs = runs_of(Run(3), Run(9), Run(5))
    runs.put_largest_first()
    assert [run.size for run in runs] == [9, 5, 3]


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_bits_of_words(dtype: type[np.unsignedinteger]) -> None:
    words = np.zeros(4, dtype)
    marked = np.array([0, 31, 32, 63, 64, 100, 100])
    mark_bits(words, marked)
    every = np.arange(4 * 8 * words.itemsize)
    assert np.array_equal(np.flatnonzero(read_bits(words, every)), np.unique(marked))
    assert not read_bits(words[:0], every).any(), "where nothing is marked, there are no words"
