"""The exported checks pass every structure of the catalogue, and notice a structure that breaks its contract."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fencepost.errors import FencepostError
from fencepost.indexes import (
    BMQ,
    CEI,
    SSI,
    BlockBands,
    Borders,
    BoxIndex,
    Linear,
    Matches,
    QuadraticBands,
    RTree,
    SliceList,
    StabbingBands,
)
from fencepost.indexes.contracts.checks import check_index
from tests.effort import seeds

SUBJECTS: dict[str, Callable[[], Any]] = {
    "Linear": Linear,
    "CEI": lambda: CEI(domain=(-7, 50), length=8),
    "CEI, closed": lambda: CEI(domain=(-7, 50), length=8, closed=True),
    "SliceList": lambda: SliceList(values="float64"),
    "RTree": lambda: RTree(dimensions=2),
    "BoxIndex": lambda: BoxIndex(dimensions=3, values="float64"),
    "BMQ": lambda: BMQ(dimensions=1),
    "Borders": lambda: Borders(values="float64"),
    "Borders, two axes": lambda: Borders(2, values="float64"),
    "SSI": SSI,
    "QuadraticBands": QuadraticBands,
    "StabbingBands": StabbingBands,
    "BlockBands": BlockBands,
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_structure_of_the_catalogue_passes(name: str) -> None:
    check_index(SUBJECTS[name], scripts=len(seeds(20)))


class OffByOne(Linear):
    """Takes the end of an interval for a part of it."""

    def stab(self, values: Any, out: Any = None) -> Matches:
        return super().stab(np.nextafter(np.asarray(values, np.float64), -np.inf), out)


class Forgetful(Linear):
    """Keeps what was removed."""

    def remove(self, id: int) -> None:
        self.interval(id)


class Careless(Linear):
    """Takes the good half of a faulty call."""

    def insert_many(self, ids: Any, los: Any, his: Any, bounds: Any = None) -> None:
        for row in zip(ids, los, his, strict=True):
            self.insert(*row, bounds=bounds)


class Indifferent(Linear):
    """Does not refuse an id that it does not have."""

    def remove(self, id: int) -> None:
        if id in self:
            super().remove(id)


class Greedy(SSI):
    """Reports every pair that is entered, as left, too."""

    def move(self, side: Any, row: int, value: float) -> Any:
        move = super().move(side, row, value)
        return move._replace(left=move.entered)


@pytest.mark.parametrize("broken", [OffByOne, Forgetful, Careless, Indifferent, Greedy])
def test_a_structure_that_breaks_its_contract_is_noticed(broken: Any) -> None:
    with pytest.raises(AssertionError, match=f"{broken.__name__}, script [0-9]+: "):
        check_index(broken)


def test_what_follows_no_contract_is_refused() -> None:
    with pytest.raises(FencepostError, match="A dict; expected one of IntervalIndex"):
        check_index(dict)


def test_a_refused_query_leaves_pairs_that_were_found_before_right() -> None:
    index = QuadraticBands()
    index.insert_queries(range(8), [-1.0] * 8, [1.0] * 8)
    index.insert_many("right", [0, 1, 2], [0.0, 5.0, 9.0])
    before = index.pairs("left", 5.0)
    with pytest.raises(FencepostError):
        index.insert_query(7, 0, 1)  # makes room for a ninth query before it is refused
    after = index.pairs("left", 5.0)
    assert sorted(after.queries.tolist()) == sorted(before.queries.tolist()) == list(range(8))
    assert after.rows.tolist() == [1] * 8
