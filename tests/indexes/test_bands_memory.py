"""SSI where memory ends: moves and steps are taken whole or not at all, whichever allocation fails."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fencepost.indexes import SSI
from fencepost.indexes.contracts.bands import Moves
from fencepost.indexes.ssi import index as ssi_index
from fencepost.indexes.ssi import members, ordered, rounds
from fencepost.indexes.ssi.ordered import (
    CHUNK,
    add_all,
    check_ordered,
    compact,
    discard_all,
    empty_ordered,
    has_room,
    put_back,
    with_majors,
    with_room,
)
from fencepost.indexes.ssi.replay import CAME, LISTED, MOVED, WENT
from tests.effort import seeds
from tests.indexes.memory import failing_at

MODULES = (ssi_index, members, ordered, rounds)


def loaded(seed: int) -> SSI:
    rng = np.random.default_rng(seed)
    index = SSI()
    lows = rng.integers(-60, 60, 150)
    groups = [None if group == 3 else group for group in rng.integers(0, 4, 150).tolist()]
    index.insert_queries(np.arange(150), lows, lows + rng.integers(0, 90, 150), groups=groups)
    for side in ("left", "right"):
        index.insert_many(side, np.arange(120), rng.integers(0, 100, 120), rng.integers(0, 4, 120))
    return index


def steps_of(seed: int, index: SSI, count: int) -> tuple[Any, ...]:
    """Steps that can be taken: known rows and new ones, known groups and new ones."""
    rng = random.Random(seed)  # noqa: S311
    there = [{row for row in range(150) if index.has_row(side, row)} for side in ("left", "right")]
    steps = []
    for _ in range(count):
        side, row = rng.randrange(2), rng.randrange(150)
        action = rng.choice([WENT, WENT | CAME, MOVED, MOVED]) if row in there[side] else CAME
        if action & WENT:
            there[side].discard(row)
        if action & CAME:
            there[side].add(row)
        listed = 0 if action == MOVED else rng.choice([0, LISTED])
        steps.append((side, row, action | listed, float(rng.randrange(100)), rng.randrange(40)))
    sides, rows, actions, values, groups = zip(*steps, strict=True)
    return np.array(sides), np.array(rows), np.array(actions, np.uint8), np.array(values), np.array(groups)


def content(index: SSI) -> dict[str, list[Any]]:
    return {name: array.tolist() for name, array in index.to_arrays().items()}


def told(moves: Moves) -> Any:
    found = []
    for lists in moves:
        for step in range(len(lists.offsets) - 1):
            pairs = lists.of(step)
            found.append(sorted(zip(pairs.rows.tolist(), pairs.queries.tolist(), strict=True)))
    return found


def try_every_failure(seed: int, act: Callable[[SSI], Moves]) -> int:
    """Let one allocation after the other fail; how many there were."""
    index, twin = loaded(seed), loaded(seed)
    expected = told(act(twin))
    before, failed = content(index), 0
    while True:
        with failing_at(MODULES, failed) as short:
            try:
                got = act(index)
            except MemoryError:
                pass
            else:
                break
        assert short.left == -1
        index.check()
        assert content(index) == before, f"allocation {failed}"
        failed += 1
    index.check()
    assert told(got) == expected
    assert content(index) == content(twin)
    return failed


@pytest.mark.parametrize("seed", seeds(6))
def test_steps_are_taken_whole_or_not_at_all(seed: int) -> None:
    steps = steps_of(seed, loaded(seed), 300)
    assert try_every_failure(seed, lambda index: index.replay(*steps)) > 20


@pytest.mark.parametrize("seed", seeds(6))
def test_moves_are_made_whole_or_not_at_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, values = rng.integers(0, 120, 400), rng.integers(0, 100, 400) / 1.0
    assert try_every_failure(seed, lambda index: index.move_many("left", rows, values)) > 4
    assert try_every_failure(seed, lambda index: index.move_many("right", rows[:1], values[:1])) > 3


def test_moves_are_undone_in_lists_that_have_no_room_left() -> None:
    """Rows that gather around one value split chunks there, while those they leave stay sparse."""
    index, count = SSI(), 40 * CHUNK
    index.insert_queries([1, 2], [-0.5, -10.0], [0.5, 10.0])
    index.insert_many("right", np.arange(200), np.zeros(200))
    index.insert_many("left", np.arange(count), np.arange(count) * 100.0)
    before = content(index)
    rng = np.random.default_rng(5)
    rows = rng.permutation(count)[: count // 2]
    values = 1000.0 + rng.integers(0, 50, len(rows)) / 2
    for failure in range(3, 200):
        with failing_at(MODULES, failure):
            try:
                index.move_many("left", rows, values)
            except MemoryError:
                pass
            else:
                break
        index.check()
        assert content(index) == before
    assert failure > 8, "the list grew in several rounds"


@pytest.mark.parametrize("seed", seeds(10))
def test_a_list_is_filled_where_it_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30 * CHUNK))
    majors, keys = rng.integers(0, 5, count).astype(np.int32), rng.integers(0, 50, count)
    held = with_majors(empty_ordered(with_keys=bool(seed % 2)), 8)
    slots, done = rng.permutation(count), 0
    while done < count:
        held = with_room(held)
        done = add_all(held, majors, keys, done, slots)
    gone = rng.permutation(count)[: count // 3]
    discard_all(held, majors, keys, gone)
    left = np.sort(np.setdiff1d(slots, gone))
    compact(held, majors, keys)
    check_ordered(held, majors, keys, left)
    assert int(held.state[0]) == -(-len(left) // CHUNK)
    for slot in gone.tolist():  # they were there when there was a chunk to spare
        put_back(held, majors, keys, slot)
    check_ordered(held, majors, keys, np.arange(count))
    compact(held, majors, keys)
    assert has_room(held)
    check_ordered(held, majors, keys, np.arange(count))
