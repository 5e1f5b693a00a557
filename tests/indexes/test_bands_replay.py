"""SSI.replay: steps of both sides in their order, against the oracle one by one; its refusals change nothing."""

import random
from typing import Any

import numpy as np
import pytest

from fencepost.errors import FencepostError
from fencepost.indexes import SSI
from fencepost.indexes.contracts.bands import Side
from fencepost.indexes.ssi.replay import CAME, LISTED, MOVED, WENT
from tests.indexes.band_oracle import BandOracle

SIDES: tuple[Side, Side] = ("left", "right")


def loaded(rng: random.Random, values: Any) -> tuple[SSI, BandOracle]:
    index, oracle = SSI(values), BandOracle()
    for id in range(25):
        low, high = sorted(rng.sample(range(-8, 9), 2))
        group = rng.choice([None, None, 0, 1, 2])
        index.insert_query(id, low, high, "[)", group)
        oracle.queries[id] = (low, high, "[)", group)
    return index, oracle


def steps(rng: random.Random, oracle: BandOracle, count: int) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Random steps that can be taken, and what each of them changes."""
    taken, expected = [], []
    for _ in range(count):
        side, row, value, group = rng.randrange(2), rng.randrange(12), rng.randrange(-9, 10), rng.randrange(3)
        rows, listed = oracle.rows(SIDES[side]), rng.choice([0, LISTED])
        entered: set[tuple[int, int]] = set()
        left: set[tuple[int, int]] = set()
        action = CAME
        if row in rows:
            action = rng.choice([WENT, WENT | CAME, MOVED, MOVED, MOVED])
        if action == MOVED:
            entered, left = oracle.move(SIDES[side], row, value)
        else:
            if action & WENT:
                left = oracle.pairs(SIDES[side], *rows.pop(row))
            if action & CAME:
                rows[row] = (value, group)
                entered = oracle.pairs(SIDES[side], value, group)
            entered, left = (entered, left) if listed else (set(), set())
            action |= listed
        taken.append((side, row, action, value, group))
        expected.append((entered, left))
    return taken, expected


@pytest.mark.parametrize("values", ["float64", "int64"])
def test_each_step_changes_what_the_oracle_says(values: Any) -> None:
    rng = random.Random(3)  # noqa: S311
    index, oracle = loaded(rng, values)
    for count in (1, 40, 400, 0, 150):
        taken, expected = steps(rng, oracle, count)
        sides, rows, actions, numbers, groups = (
            (list(column) for column in zip(*taken, strict=True)) if taken else [[]] * 5
        )
        changed = index.replay(np.array(sides, np.int64), rows, np.array(actions, np.uint8), numbers, groups)
        index.check()
        for number, (entered, left) in enumerate(expected):
            for told, wanted in ((changed.entered, entered), (changed.left, left)):
                pairs = list(zip(*(column.tolist() for column in told.of(number)), strict=True))
                assert sorted(pairs) == sorted(wanted)
        for side in SIDES:
            assert index.rows(side) == len(oracle.rows(side))
    index.clear_rows()
    index.check()
    assert index.rows("left") == index.rows("right") == 0
    assert len(index) == 25


def test_steps_that_cannot_be_are_refused_whole() -> None:
    index = SSI()
    index.insert("left", 1, 5.0)
    sides = np.array([0, 1, 0])
    for actions, values, message in (
        ([MOVED, MOVED, CAME], [1.0, 2.0, 3.0], "Right row 7 in step 1; expected a row that is there if it moves"),
        ([MOVED, CAME, CAME], [1.0, 2.0, 3.0], "Left row 1 in step 2"),
        ([MOVED, CAME, MOVED], [1.0, float("nan"), 3.0], "Right row 7 with value nan; expected a finite number"),
    ):
        with pytest.raises(FencepostError, match=message):
            index.replay(sides, [1, 7, 1], np.array(actions, np.uint8), values)
        index.check()
        assert (index.row("left", 1), index.rows("right")) == (5.0, 0)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("count", range(1, 9))
def test_few_rows_are_found_however_near_the_first_and_the_last_of_them_are(side: Side, count: int) -> None:
    index, oracle = SSI("int64"), BandOracle()
    for id, (low, high) in enumerate([(-3, 3), (-1, 9), (-9, 1), (-2, 2), (0, 1)]):
        index.insert_query(id, low, high, "[]", None)
        oracle.queries[id] = (low, high, "[]", None)
    other = SIDES[1 - SIDES.index(side)]
    index.insert_many(other, np.arange(count), np.arange(count))
    oracle.rows(other).update({row: (row, None) for row in range(count)})
    index.insert_many(side, [0], [0])
    oracle.rows(side)[0] = (0, None)
    rng = random.Random(count)  # noqa: S311
    for _ in range(60):
        value = rng.randrange(-12, count + 12)
        entered, left = oracle.move(side, 0, value)
        change = index.move(side, 0, value)
        for pairs, expected in ((change.entered, entered), (change.left, left)):
            assert sorted(zip(pairs.rows.tolist(), pairs.queries.tolist(), strict=True)) == sorted(expected)
