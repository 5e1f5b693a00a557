"""The VCR report's own examples and counts (Wu, Chen, Yu), and the shape of the R-tree."""

import operator
from typing import Any

import numpy as np
import pytest

from fencepost.errors import FencepostError
from fencepost.indexes import VCR, RTree, analysis


def test_the_constructs_at_the_origin_are_numbered_by_width_then_height() -> None:
    index = VCR(domain=(20, 20), length=4)
    sizes = [(w, h) for h in (1, 2, 4) for w in (1, 2, 4)]
    for number, (w, h) in enumerate(sizes):
        index.insert(number, (0, 0), (w, h))
        assert index.pieces(number) == [number]


def test_simple_decomposition_of_the_reports_example() -> None:
    index = VCR(domain=(20, 20), length=4)
    index.insert(7, (3, 3), (14, 9))
    assert index.pieces(7) == [575, 611, 646, 663, 1292, 1328, 1363, 1380]
    assert index.storage()[:3] == (8, 8, 4 * 8 + 8 * 8)


def test_overlapped_decomposition_of_the_reports_example() -> None:
    index = VCR(domain=(20, 20), length=4, overlap=True)
    index.insert(7, (3, 3), (14, 9))
    assert index.pieces(7) == [575, 611, 638, 935, 971, 998]
    cells = np.array([(x + 0.5, y + 0.5) for x in range(20) for y in range(20)])
    inside = [3 <= x < 14 and 3 <= y < 9 for x, y in cells.tolist()]
    assert index.stab(cells).counts.tolist() == [int(hit) for hit in inside], "overlaps are reported once"


@pytest.mark.parametrize("length", [1, 2, 4, 8, 16])
def test_the_covering_set_has_the_reports_size(length: int) -> None:
    index = VCR(domain=(64, 64), length=length)
    found = index.covering((40.5, 30))
    assert len(set(found)) == len(found) == (2 * length - 1) ** 2 == index.lists_per_search
    assert index.lists_per_search == analysis.vcr_lists_per_search((length, length))
    closed = VCR(domain=(64, 64), length=length, closed=True)
    assert closed.lists_per_search == analysis.vcr_lists_per_search((length, length), closed=True)


def test_the_covering_set_is_the_pivot_plus_the_difference_array() -> None:
    index = VCR(domain=(20, 20), length=2)
    pivot = 4 * (9 + 6 * 20)
    assert [id - pivot for id in index.covering((10.5, 7.5))] == [3, 6, 7, 81, 83, 84, 85, 86, 87]


def test_near_the_border_the_covering_set_leaves_the_domain_out() -> None:
    index = VCR(domain=((-5, 15), (2, 22)), length=4)
    assert len(index.covering((-5, 2))) == 9, "only what starts in the corner"
    assert index.covering((15, 5)) == index.covering((0, 1.5)) == []


def test_a_point_on_the_left_border_does_not_meet_the_row_below() -> None:
    for closed in (False, True):
        index = VCR(domain=(8, 8), length=4, closed=closed)
        index.insert(1, (4, 3), (8, 4))
        index.insert(2, (0, 3), (8, 5))
        points = [(x, y) for x in (0, 0.5, 7, 7.5, 8) for y in (3, 3.5, 4, 4.5, 5)]
        below = operator.le if closed else operator.lt
        for point, row in zip(points, index.stab(points), strict=True):
            x, y = point
            first = x >= 4 and below(x, 8) and y >= 3 and below(y, 4)
            second = below(x, 8) and y >= 3 and below(y, 5)
            assert sorted(row.tolist()) == [1] * first + [2] * second, point


@pytest.mark.parametrize(("length", "widest", "simple", "overlapped"), [(8, 20, 5.52, 4.00), (16, 40, 7.70, 4.31)])
def test_mean_pieces_are_the_reports(length: int, widest: int, simple: float, overlapped: float) -> None:
    lengths, sides = (length, length), (widest, widest)
    assert round(analysis.vcr_gamma(lengths, sides), 2) == simple
    assert round(analysis.vcr_gamma(lengths, sides, overlap=True), 2) == overlapped
    ids = np.arange(widest * widest)
    his = 3 + np.stack([1 + ids // widest, 1 + ids % widest], axis=1)
    for overlap, expected in ((False, simple), (True, overlapped)):
        index = VCR(domain=(100, 100), length=length, overlap=overlap)
        index.insert_many(ids, np.full_like(his, 3), his)
        assert round(index.storage().entries / len(ids), 2) == expected


def test_axes_may_have_lengths_and_domains_of_their_own() -> None:
    index = VCR(domain=((-10, 10), 50), length=(4, 16))
    index.insert(1, (-8, 3), (-1, 20))
    sizes = 3 * 5
    starts = [(2, 3, 2, 4), (6, 3, 1, 4), (8, 3, 0, 4), (2, 19, 2, 0), (6, 19, 1, 0), (8, 19, 0, 0)]
    assert index.pieces(1) == [sizes * (a + b * 20) + j * 3 + i for a, b, i, j in starts]
    assert analysis.vcr_constructs((4, 16), (20, 50)) == sizes * 20 * 50
    assert index.lists_per_search == 7 * 31


def test_only_activated_constructs_take_memory() -> None:
    index = VCR(domain=(10**6, 10**6), length=8)
    index.insert(1, (999_990, 999_990), (10**6, 10**6))
    assert index.storage().constructs == len(index.pieces(1)) == 4
    assert index.storage().nbytes < 1_000_000
    assert index.stab([(999_999.5, 999_990), (0, 0)]).sets() == [{1}, set()]
    index.remove(1)
    index.check()
    assert index.storage().constructs == 0


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("domain", [(10**6, 10**6), (2**50, 4)])
def test_rectangles_of_very_many_pieces_overflow_instead_of_filling_the_memory(domain: Any, closed: bool) -> None:
    index = VCR(domain=domain, length=8, closed=closed)
    n = 5000
    index.insert(1, (10, 1), (20, 3))
    index.insert_many(np.arange(2, n), [(None, None)] * (n - 2), [(None, None)] * (n - 2))
    index.insert(n, (5, 0), (domain[0] - 5, 3.5))
    index.check()
    assert index.overflow == n - 1
    assert index.pieces(n) == []
    assert index.storage().nbytes < 4_000_000
    whole = set(range(2, n))
    asked = [(15, 2), (domain[0] - 6, 3.25), (domain[0] - 6, 3.5), (1, 1), (-9, 2), (9, 10**9), (np.nan, 2)]
    expected = [whole | {1, n}, whole | {n}, whole | ({n} if closed else set()), whole, whole, whole, set()]
    assert index.stab(asked).sets() == expected
    index.remove_many(np.arange(2, n + 1))
    index.check()
    assert index.overflow == 0
    assert index.stab(asked).sets() == [{1}] + [set()] * 6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"domain": (5,), "length": 4}, "Domain .5,.; expected two axes"),
        ({"domain": (5, (3, 3)), "length": 4}, "Domain .3, 3.; expected a pair of whole numbers"),
        ({"domain": (5, 0), "length": 4}, "Domain .0, 0.; expected a pair of whole numbers"),
        ({"domain": (5, 5), "length": 3}, "length 3; expected a power of two"),
        ({"domain": (5, 5), "length": (4, 4, 4)}, "3 lengths; expected one, or one per axis"),
        ({"domain": (5, 5), "length": 256}, "length=256 and domain=.5, 5.; expected at most 64 sizes"),
        ({"domain": (5, 5), "length": 4, "most_pieces": 0}, "most_pieces=0; expected a whole number from 1 to"),
        ({"domain": (5, 5), "length": 4, "most_pieces": 1.5}, "most_pieces=1.5; expected a whole number"),
        ({"domain": (2**40, 2**40), "length": 4}, "expected at most 64 sizes of constructs, and ids that fit int64"),
    ],
)
def test_impossible_shapes_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(FencepostError, match=message):
        VCR(**parameters)


def test_a_packed_tree_has_full_nodes_and_changes_like_any_other() -> None:
    rng = np.random.default_rng(3)
    lows = rng.random((5000, 2))
    packed, grown = RTree(packed=True), RTree()
    for index in (packed, grown):
        index.insert_many(np.arange(5000), lows, lows + 0.02)
        index.check()
    assert packed.storage().constructs < 0.8 * grown.storage().constructs
    packed.remove_many(np.arange(0, 5000, 3))
    packed.insert_many(np.arange(10_000, 11_000), lows[:1000], lows[:1000] + 0.5)
    packed.check()


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("length", [(4, 4), (1, 8), (8, 2)])
def test_rows_that_are_searched_often_answer_as_the_lists_do(
    length: tuple[int, int], overlap: bool, closed: bool
) -> None:
    rng = np.random.default_rng(4)
    index = VCR(domain=((-5, 25), (3, 20)), length=length, overlap=overlap, closed=closed)
    los = rng.integers(-80, 280, (200, 2)) / 10  # on the grid and beside it, within the domain and beyond
    his = los + rng.integers(1, 120, (200, 2)) / 10
    index.insert_many(np.arange(200), los, his)
    grid = np.stack(np.meshgrid(np.arange(-6, 27, 0.5), np.arange(2, 22, 0.5)), axis=-1).reshape(-1, 2)
    for gone in (0, 60, 150):
        if gone:
            index.remove_many([each for each in range(gone) if each in index])
        before = index.storage().nbytes
        first = [set(index.stab([point])[0].tolist()) for point in grid[:5]]
        index.stab(grid)
        often = index.stab(grid)
        assert index.storage().nbytes > before, "rows are laid out"
        index.check()
        below = operator.le if closed else operator.lt
        live = np.arange(gone, 200)
        for at, point in enumerate(grid):
            inside = (los[live] <= point).all(axis=1) & below(point, his[live]).all(axis=1)
            assert sorted(often[at].tolist()) == live[inside].tolist()
            assert at >= len(first) or set(often[at].tolist()) == first[at]
