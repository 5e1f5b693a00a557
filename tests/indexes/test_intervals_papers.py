"""The papers' own examples and counts, for the structures over virtual constructs."""

import itertools

import numpy as np
import pytest

from fencepost.errors import FencepostError
from fencepost.indexes import ACEI, CEI, LCI, SCI, UI, analysis
from fencepost.indexes.papers.constructs import ConstructIndex
from fencepost.lab import workloads


def pieces_of(index: ConstructIndex, low: float, high: float) -> list[object]:
    index.insert(1, low, high)
    found = index.pieces(1)
    index.remove(1)
    return list(found)


def test_cei_ids_of_figures_6_and_7() -> None:
    index = CEI(domain=(0, 64), length=8)
    assert pieces_of(index, 8, 14) == [18, 22]
    assert pieces_of(index, 11, 15) == [27, 22, 30]


def test_cei_search_of_figure_10() -> None:
    index = CEI(domain=(0, 4), length=4)
    index.insert_many([1, 2, 3, 4], [0, 1, 1, 0], [4, 3, 4, 2])
    assert [index.pieces(q) for q in (1, 2, 3, 4)] == [[1], [5, 6], [5, 3], [2]]
    assert index.stab([1.5]).sets() == [{1, 2, 3, 4}]
    assert index.lists_per_search == 3


def test_cei_counts_its_constructs() -> None:
    assert CEI(domain=(0, 64), length=8).storage().constructs == 120
    assert CEI(domain=(0, 60), length=8).storage().constructs == 120, "the domain is raised to whole segments"
    assert CEI(domain=(0, 64), length=64).lists_per_search == 7


@pytest.mark.parametrize("length", [1, 2, 4, 8, 16, 32])
def test_cei_decomposition_is_an_exact_partition_of_minimal_size(length: int) -> None:
    size = 2 * length
    index = CEI(domain=(0, size), length=length)
    nodes = {}
    for segment in range(size // length):
        for node in range(1, 2 * length):
            level = node.bit_length() - 1
            width = length >> level
            start = segment * length + (node - (1 << level)) * width
            nodes[node + 2 * segment * length] = (start, start + width)
    ending_at: dict[int, list[int]] = {}
    for start, end in nodes.values():
        ending_at.setdefault(end, []).append(start)
    for low in range(size):
        fewest = {low: (0, 1)}
        for end in range(low + 1, size + 1):
            ways = [fewest[start] for start in ending_at.get(end, []) if start in fewest]
            if ways:
                least = min(pieces for pieces, _ in ways)
                fewest[end] = (least + 1, sum(count for pieces, count in ways if pieces == least))
        for high in range(low + 1, size + 1):
            covered = [nodes[piece] for piece in pieces_of(index, low, high)]  # type: ignore[index]
            assert sorted(itertools.chain.from_iterable(range(*node) for node in covered)) == list(range(low, high))
            assert (len(covered), 1) == fewest[high]


def test_cei_of_one_segment_serves_one_sided_intervals_with_few_pieces() -> None:
    index = CEI(domain=(0, 64), length=64)
    assert max(len(pieces_of(index, low, 64)) for low in range(64)) == 6
    assert max(len(pieces_of(index, low, high)) for low in range(64) for high in range(low + 1, 65)) == 10
    index.insert(9, 5, None)
    assert index.stab([4, 5, 63, 64, 1e9]).sets() == [set(), {9}, {9}, {9}, {9}]


def test_cei_closed_keeps_the_right_end_in_a_point_list() -> None:
    index = CEI(domain=(0, 64), length=8, closed=True)
    assert pieces_of(index, 8, 14) == [18, 22, ("point", 14)]
    assert pieces_of(index, 5, 5) == [("point", 5)]
    assert index.constructs == 120 + 64
    assert index.lists_per_search == 5


def test_cei_part_filled_cells_are_unit_pieces() -> None:
    index = CEI(domain=(0, 64), length=8)
    leaf = {cell: cell + 8 + 8 * (cell // 8) for cell in range(64)}
    assert pieces_of(index, 8.5, 10.25) == [leaf[9], leaf[8], leaf[10]]
    assert pieces_of(index, 8.25, 8.5) == [leaf[8]]


def test_acei_pieces_of_section_6_1() -> None:
    index = ACEI(domain=(0, 64), length=8, blocks=2)
    units = [("unit", cell) for cell in (1, 2, 3, 12, 13, 14)]
    assert set(pieces_of(index, 1, 15)) == {(0, 3), (1, 2), *units}
    assert set(pieces_of(index, 2, 12)) == {(0, 3), (1, 2), ("unit", 2), ("unit", 3)}
    assert pieces_of(index, 3, 7) == [("unit", cell) for cell in range(3, 7)]


def test_acei_allocates_and_frees_unit_arrays() -> None:
    index = ACEI(domain=(0, 64), length=8, blocks=2)
    levels = 8 * 3
    assert index.storage().constructs == levels
    index.insert(1, 3, 7)
    index.insert(2, 1, 15)
    assert index.storage().constructs == levels + 2 * 8
    index.remove(2)
    assert index.storage().constructs == levels + 8
    index.remove(1)
    assert index.storage().constructs == levels


def test_acei_model_counts_heads_pointers_and_entries() -> None:
    index = ACEI(domain=(0, 64), length=8, blocks=2)
    index.insert(1, 3, 7)
    assert index.storage().model_bytes == 4 * (8 * 3 + 8 + 8) + 8 * 4


def test_acei_lists_per_search() -> None:
    assert ACEI(domain=(0, 64), length=8, blocks=2).lists_per_search == 3
    assert ACEI(domain=(0, 64), length=8, blocks=8).lists_per_search == 4
    assert ACEI(domain=(0, 64), length=8).lists_per_search == 2


def test_acei_of_blocks_equal_to_length_is_cei() -> None:
    acei, cei = ACEI(domain=(0, 64), length=8, blocks=8), CEI(domain=(0, 64), length=8)
    for low in range(64):
        for high in range(low + 1, 65):
            ours = [piece[1] + 16 * piece[0] for piece in pieces_of(acei, low, high)]  # type: ignore[index]
            assert ours == pieces_of(cei, low, high)


@pytest.mark.parametrize(
    ("n", "domain", "width", "expected"),
    [
        (10**3, 2**32, 1024, (2048, 1)),
        (10**5, 2**20, 1024, (16, 8)),
        (10**4, 2**20, 256, (16, 1)),
        (20_000, 2**20, 256, (8, 2)),
        (640_000, 2**20, 256, (8, 8)),
        (1_280_000, 2**20, 256, (16, 16)),
    ],
)
def test_acei_tunes_itself(n: int, domain: int, width: int, expected: tuple[int, int]) -> None:
    index = ACEI.tuned((0, domain), n=n, mean_width=width)
    assert (index.length, index.blocks) == expected


def test_acei_serves_a_huge_domain_without_allocating_it() -> None:
    index = ACEI.tuned((-(2**39), 2**39), n=1000, mean_width=1024)
    rng = np.random.default_rng(1)
    lows = rng.integers(-(2**39), 2**39 - 2048, 1000)
    index.insert_many(np.arange(1000), lows, lows + rng.integers(1, 2048, 1000))
    for id in range(0, 1000, 97):
        assert id in index.stab([int(lows[id])]).sets()[0]
    index.check()
    held = index.storage()
    assert held.nbytes < 8 * held.model_bytes < 2**40 // 300


@pytest.mark.parametrize(("low", "high", "lengths"), [(10, 17, [4, 2, 1]), (3, 4, [1]), (0, 40, [16, 16, 8])])
def test_lci_cuts_the_largest_power_first(low: int, high: int, lengths: list[int]) -> None:
    index = LCI(domain=(0, 100), length=16)
    assert [1 << (piece % 5) for piece in pieces_of(index, low, high)] == lengths  # type: ignore[operator]


def test_sci_cuts_ceil_of_width_over_length_pieces() -> None:
    index = SCI(domain=(0, 100), length=5)
    for width in range(1, 40):
        assert len(pieces_of(index, 7, 7 + width)) == -(-width // 5)


def distances(index: SCI | LCI, closed: bool) -> list[int]:
    shape = index._shape
    table = [*shape.around, *(shape.ending if closed else [])]
    return sorted(int(distance) - int(min(table)) for distance in table)


def test_difference_tables_of_both_papers() -> None:
    lci, sci = LCI(domain=(0, 64), length=4, closed=True), SCI(domain=(0, 64), length=4, closed=True)
    assert distances(lci, closed=False) == [0, 3, 5, 6, 7, 8, 9]
    assert distances(lci, closed=True) == [0, 3, 5, 6, 7, 8, 9, 10, 11, 12]
    assert distances(sci, closed=True) == [0, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]


@pytest.mark.parametrize("length", [1, 2, 4, 8, 16])
def test_lists_per_search_are_the_closed_forms(length: int) -> None:
    domain = (0, 64)
    for closed in (False, True):
        assert UI(domain, closed).lists_per_search == analysis.ui_lists_per_search(closed=closed)
        assert SCI(domain, length, closed).lists_per_search == analysis.sci_lists_per_search(length, closed=closed)
        assert LCI(domain, length, closed).lists_per_search == analysis.lci_lists_per_search(length, closed=closed)
        assert CEI(domain, length, closed).lists_per_search == analysis.cei_lists_per_search(length, closed=closed)


@pytest.mark.parametrize("length", [1, 4, 16, 64])
def test_storage_is_what_the_analysis_predicts(length: int) -> None:
    """All widths 1..W at all starts of one segment: the mean number of pieces is exactly gamma."""
    widest, span = 48, 256
    starts = np.repeat(np.arange(64, 64 + max(length, 1)), widest)
    widths = np.tile(np.arange(1, widest + 1), max(length, 1))
    n = len(starts)
    for index, constructs, gamma in (
        (UI((0, span)), analysis.ui_constructs(span), analysis.ui_gamma(widest)),
        (SCI((0, span), length), analysis.sci_constructs(length, span), analysis.sci_gamma(length, widest)),
        (LCI((0, span), length), analysis.lci_constructs(length, span), analysis.lci_gamma(length, widest)),
        (CEI((0, span), length), analysis.cei_constructs(length, span), analysis.cei_gamma(length, widest)),
    ):
        index.insert_many(np.arange(n), starts, starts + widths)
        held = index.storage()
        assert held.constructs == constructs
        assert held.entries == pytest.approx(n * gamma.exact, rel=1e-12)
        assert held.model_bytes == 4 * held.constructs + 8 * held.entries
        assert held.nbytes > held.entries


def test_figure_14_totals_for_a_random_workload() -> None:
    work = workloads.uniform(domain=2**20, n=20_000, widest=200, values=1)
    for length, expected in ((16, 9.294), (64, 6.311)):
        index = CEI((0, work.domain), length)
        index.insert_many(work.ids, work.los, work.his)
        assert index.storage().entries / 20_000 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("length", [0, -1, 3, 2.5, "8"])
def test_a_length_that_is_no_power_of_two_is_refused(length: object) -> None:
    with pytest.raises(FencepostError, match="expected a power of two"):
        CEI((0, 64), length)  # type: ignore[arg-type]


@pytest.mark.parametrize("domain", [(0, 0), (5, 3), (0, 2.5), 64, (0, 2**54), (None, 3), "ab"])
def test_a_domain_that_is_no_range_of_integers_is_refused(domain: object) -> None:
    with pytest.raises(FencepostError, match="expected a pair of whole numbers"):
        UI(domain)  # type: ignore[arg-type]


def test_other_wrong_parameters_are_refused() -> None:
    with pytest.raises(FencepostError, match="blocks=16 for length=8; expected blocks <= length"):
        ACEI((0, 64), 8, 16)
    with pytest.raises(FencepostError, match="blocks 3; expected a power of two"):
        ACEI((0, 64), 8, 3)
    with pytest.raises(FencepostError, match="length 0; expected a whole number from 1 on"):
        SCI((0, 64), 0)
    with pytest.raises(FencepostError, match=r"A domain that needs \d+ lists; expected at most"):
        UI((0, 2**40))


def test_a_bulk_refill_takes_the_blocks_that_were_freed() -> None:
    work = workloads.uniform(domain=4096, n=8000, widest=60, values=1)
    index = CEI((0, work.domain), 16)
    index.insert_many(work.ids, work.los, work.his)
    filled = index.storage().nbytes
    for _ in range(3):
        index.remove_many(work.ids)
        index.insert_many(work.ids, work.los, work.his)
        index.check()
        assert index.storage().nbytes == filled
