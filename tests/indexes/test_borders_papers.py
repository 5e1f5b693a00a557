"""The BMQ paper: its worked example, its policy choices, and its search efficiency."""

import math

import numpy as np
import pytest

from fencepost.indexes import BMQ, Borders, DiffRMQ, SliceList
from fencepost.indexes.analysis import bmq_deltas_per_row, bmq_efficiency, diff_efficiency, shorter_than_width
from fencepost.indexes.contracts.borders import BorderIndex
from fencepost.lab import workloads

FIGURE_2 = ([1, 2, 3, 4, 5], [10, 10, 10, 30, 70], [20, 50, 40, 60, 80])
INF = math.inf


def figure_2(index: BorderIndex) -> BorderIndex:
    index.insert_many(*FIGURE_2)
    return index


def test_figure_2_nodes_and_delta_sets() -> None:
    bmq = BMQ()
    figure_2(bmq)
    assert bmq.nodes() == [
        (-INF, set(), set()),
        (10, {1, 2, 3}, set()),
        (20, set(), {1}),
        (30, {4}, set()),
        (40, set(), {3}),
        (50, set(), {2}),
        (60, set(), {4}),
        (70, {5}, set()),
        (80, set(), {5}),
    ]
    bmq.remove(3)
    assert [low for low, _, _ in bmq.nodes()] == [-INF, 10, 20, 30, 50, 60, 70, 80]
    bmq.check()
    assert bmq.storage().constructs == 8


@pytest.mark.parametrize("make", [BMQ, Borders, lambda: DiffRMQ(SliceList())])
@pytest.mark.parametrize(
    ("before", "after", "enter", "exit", "cross"),
    [
        (math.nan, 45, {2, 4}, set(), set()),
        (45, 75, {5}, {2, 4}, set()),
        (45, 15, {1, 3}, {4}, set()),
        (65, 90, set(), set(), {5}),
        (90, 65, set(), set(), {5}),
        (45, 45, set(), set(), set()),
        (9, 80, set(), set(), {1, 2, 3, 4, 5}),
        (10, 60, set(), {1, 2, 3}, {4}),
    ],
)
def test_figure_2_moves(
    make: type[BorderIndex], before: float, after: float, enter: set[int], exit: set[int], cross: set[int]
) -> None:
    index = figure_2(make())
    found = index.crossings([before], [after])
    assert (found.enter.sets(), found.exit.sets()) == ([enter], [exit])
    assert found.cross is None if isinstance(index, DiffRMQ) else found.cross.sets() == [cross]  # type: ignore[union-attr]
    rows = [after] if math.isnan(before) else [before, after]
    moved = index.update(["s"] * len(rows), rows)
    assert (moved.enter.sets()[-1], moved.exit.sets()[-1]) == (enter, exit)


@pytest.mark.parametrize("make", [BMQ, Borders, lambda: DiffRMQ(SliceList()), lambda: DiffRMQ(SliceList(), keep=True)])
def test_a_rule_around_an_object_is_silent_until_it_leaves(make: type[BorderIndex]) -> None:
    index = figure_2(make())
    index.update(["s"], [65])
    index.insert(9, 61, 69)
    assert index.inside(9) == ["s"]
    found = index.update(["s", "s"], [66, 75])
    assert found.enter.sets() == [set(), {5}]
    assert found.exit.sets() == [set(), {9}]
    index.remove(5)
    assert index.update(["s"], [95]).exit.sets() == [set()]


@pytest.mark.parametrize("law", ["constant", "uniform", "normal", "exponential"])
@pytest.mark.parametrize(("width", "fluctuation"), [(0.01, 0.001), (0.01, 0.01), (0.005, 0.02)])
def test_search_efficiency_is_the_closed_form(law: str, width: float, fluctuation: float) -> None:
    work = workloads.moves(20_000, width, fluctuation, objects=500, ticks=40, law=law)
    rows = work.values.ravel()
    bmq, diff = BMQ(), DiffRMQ(SliceList())
    for index in (bmq, diff):
        index.insert_many(np.arange(len(work.los)), work.los, work.his)
        index.update(work.objects[:500], rows[:500])
    first = bmq.touched
    diff.intermediate = diff.reported = 0
    answers = [index.update(work.objects[500:], rows[500:]) for index in (bmq, diff)]
    deltas, reported = bmq.touched.deltas - first.deltas, bmq.touched.reported - first.reported
    assert deltas / len(rows[500:]) == pytest.approx(bmq_deltas_per_row(20_000, fluctuation), rel=0.02)
    assert reported / deltas == pytest.approx(bmq_efficiency(fluctuation, width, law), rel=0.02)  # type: ignore[arg-type]
    assert diff.reported == reported
    assert diff.reported / diff.intermediate == pytest.approx(diff_efficiency(fluctuation, width, law), rel=0.02)  # type: ignore[arg-type]
    assert np.array_equal(answers[0].enter.offsets, answers[1].enter.offsets)


def test_both_efficiencies_meet_where_the_step_is_as_long_as_the_width() -> None:
    at_equal = {"constant": 1.0, "uniform": 0.75, "normal": 0.70, "exponential": 0.63}
    for law, value in at_equal.items():
        assert bmq_efficiency(0.01, 0.01, law) == diff_efficiency(0.01, 0.01, law) == pytest.approx(value, abs=0.005)  # type: ignore[arg-type]
        assert shorter_than_width(0.01, 1.0, law) == pytest.approx(0.01)  # type: ignore[arg-type]
