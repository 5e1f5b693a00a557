"""Every closed form against enumeration: decompose all queries by the plain rules and count."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import pytest

from fencepost.errors import FencepostError
from fencepost.indexes.analysis import (
    AceiOptimum,
    acei_cost,
    acei_cost_bound,
    acei_lists_per_search,
    acei_parameters,
    acei_single_block_optimum,
    acei_unconstrained_optimum,
    cei_constructs,
    cei_gamma,
    cei_lists_per_search,
    cei_pieces_between_halvings,
    cei_pieces_between_multiples,
    cei_pieces_up_to,
    cei_pieces_up_to_multiple,
    lci_constructs,
    lci_gamma,
    lci_lists_per_search,
    lci_pieces_up_to,
    lci_pieces_up_to_multiple,
    lci_smaller_than_cei_beyond,
    model_bytes,
    popcount_total,
    sci_constructs,
    sci_gamma,
    sci_lists_per_search,
    sci_pieces_up_to,
    ui_constructs,
    ui_gamma,
    ui_lists_per_search,
)

Piece = tuple[int, int]  # start, length
Decompose = Callable[[int, int, int], Iterator[Piece]]  # length, start, end

POWERS = [1, 2, 4, 8, 16, 32, 64]
WIDEST = 200

every_power = pytest.mark.parametrize("length", POWERS)


# The plain rules: always cut the longest construct that starts here and still fits.


def ui_pieces(_length: int, start: int, end: int) -> Iterator[Piece]:
    for cell in range(start, end):
        yield cell, 1


def sci_pieces(length: int, start: int, end: int) -> Iterator[Piece]:
    while start < end:
        size = min(length, end - start)
        yield start, size
        start += size


def lci_pieces(length: int, start: int, end: int) -> Iterator[Piece]:
    while start < end:
        size = length
        while size > end - start:
            size //= 2
        yield start, size
        start += size


def cei_pieces(length: int, start: int, end: int) -> Iterator[Piece]:
    while start < end:
        size = length
        while start % size or start + size > end:
            size //= 2
        yield start, size
        start += size


def acei_pieces(length: int, blocks: int, start: int, end: int) -> Iterator[Piece]:
    """Unit pieces up to the first whole block and from the last one on, CEI's pieces between."""
    block = length // blocks
    first = -(-start // block) * block
    last = end // block * block
    if first >= last:
        yield from ui_pieces(length, start, end)
    else:
        yield from ui_pieces(length, start, first)
        yield from cei_pieces(length, first, last)
        yield from ui_pieces(length, last, end)


@cache
def pieces_by_width(decompose: Decompose, length: int) -> list[int]:
    """For each width 0..WIDEST: the pieces of the queries from every start of one segment."""
    return [
        sum(1 for start in range(length) for _ in decompose(length, start, start + width))
        for width in range(WIDEST + 1)
    ]


def enumerated(decompose: Decompose, length: int, above: int, up_to: int) -> int:
    """T(above, up_to]."""
    return sum(pieces_by_width(decompose, length)[above + 1 : up_to + 1])


def enumerated_gamma(decompose: Decompose, length: int, widest: int) -> float:
    return float(Fraction(enumerated(decompose, length, 0, widest), length * widest))


def lci_sizes(length: int) -> list[int]:
    return [size for size in POWERS if size <= length]


def cei_family(length: int, span: int) -> list[Piece]:
    return [(start, size) for size in lci_sizes(length) for start in range(0, span, size)]


# Pieces in total


@pytest.mark.parametrize("bound", [*range(70), 255, 256, 257, 1000])
def test_popcount_total_counts_the_ones_below_any_bound(bound: int) -> None:
    assert popcount_total(bound) == sum(bin(number).count("1") for number in range(bound))


@pytest.mark.parametrize("exponent", range(1, 12))
def test_popcount_total_at_a_power_of_two_is_lemma_4(exponent: int) -> None:
    assert popcount_total(2**exponent) == exponent * 2 ** (exponent - 1)


@every_power
def test_cei_pieces_between_length_and_twice_length_is_lemma_5(length: int) -> None:
    assert cei_pieces_between_multiples(length, 1) == enumerated(cei_pieces, length, length, 2 * length)


@every_power
def test_cei_pieces_between_further_multiples_is_lemma_6(length: int) -> None:
    for multiple in range(2, min(WIDEST // length, 12)):
        expected = enumerated(cei_pieces, length, multiple * length, (multiple + 1) * length)
        assert cei_pieces_between_multiples(length, multiple) == expected


@every_power
def test_cei_pieces_between_halvings_is_lemma_7(length: int) -> None:
    for halvings in range(1, length.bit_length()):
        expected = enumerated(cei_pieces, length, length >> halvings, length >> (halvings - 1))
        assert cei_pieces_between_halvings(length, halvings) == expected


@every_power
def test_cei_pieces_up_to_a_multiple_is_theorem_2(length: int) -> None:
    for multiple in range(WIDEST // length + 1):
        expected = enumerated(cei_pieces, length, 0, multiple * length)
        assert cei_pieces_up_to_multiple(length, multiple) == expected


@pytest.mark.parametrize("length", [*POWERS, 1024, 2**20])
@pytest.mark.parametrize("multiple", [1, 2, 7, 100])
def test_lemmas_5_to_7_add_up_to_theorem_2(length: int, multiple: int) -> None:
    unit_width = length
    halvings = sum(cei_pieces_between_halvings(length, step) for step in range(1, length.bit_length()))
    multiples = sum(cei_pieces_between_multiples(length, step) for step in range(1, multiple))
    assert unit_width + halvings + multiples == cei_pieces_up_to_multiple(length, multiple)


def test_cei_pieces_up_to_one_length_are_1_5_27_145() -> None:
    assert [cei_pieces_up_to_multiple(length, 1) for length in (1, 2, 4, 8)] == [1, 5, 27, 145]


@every_power
def test_cei_pieces_are_exact_for_every_widest_width(length: int) -> None:
    for widest in range(1, WIDEST + 1):
        assert cei_pieces_up_to(length, widest) == enumerated(cei_pieces, length, 0, widest)


@every_power
def test_lci_pieces_up_to_a_multiple_is_lemma_8_and_its_sum(length: int) -> None:
    for multiple in range(WIDEST // length + 1):
        expected = enumerated(lci_pieces, length, 0, multiple * length)
        assert length * lci_pieces_up_to_multiple(length, multiple) == expected


@every_power
def test_lci_pieces_are_exact_for_every_widest_width(length: int) -> None:
    for widest in range(1, WIDEST + 1):
        assert length * lci_pieces_up_to(length, widest) == enumerated(lci_pieces, length, 0, widest)


@pytest.mark.parametrize("length", range(1, 65))
def test_sci_pieces_are_exact_for_every_length_and_widest_width(length: int) -> None:
    for widest in range(1, WIDEST + 1):
        assert length * sci_pieces_up_to(length, widest) == enumerated(sci_pieces, length, 0, widest)


# Mean pieces per query


@pytest.mark.parametrize("widest", [1, 2, 7, 16, 100, 200])
def test_ui_gamma_is_the_mean_width(widest: int) -> None:
    exact = enumerated_gamma(ui_pieces, 1, widest)
    assert ui_gamma(widest) == (exact, exact, exact)


@every_power
@pytest.mark.parametrize("widest", [1, 3, 10, 16, 50, 64, 100, 128, 199, 200])
def test_gamma_is_the_enumerated_mean_between_its_bounds(length: int, widest: int) -> None:
    sci = enumerated_gamma(sci_pieces, length, widest)
    assert sci_gamma(length, widest) == (sci, sci, sci)
    for gamma, decompose in ((lci_gamma, lci_pieces), (cei_gamma, cei_pieces)):
        lower, exact, upper = gamma(length, widest)
        assert exact == enumerated_gamma(decompose, length, widest)
        assert lower <= exact <= upper


@every_power
def test_gamma_bounds_meet_where_the_widest_width_is_a_multiple_of_length(length: int) -> None:
    for widest in range(length, 4 * length + 1, length):
        for gamma in (lci_gamma, cei_gamma):
            assert len(set(gamma(length, widest))) == 1


@pytest.mark.parametrize("length", [16, 32, 64])
def test_gamma_below_one_length_is_bounded_by_zero_and_by_one_length(length: int) -> None:
    for widest in (1, 7, length - 1):
        assert lci_gamma(length, widest).lower == cei_gamma(length, widest).lower == 0
        assert cei_gamma(length, widest).upper == cei_pieces_up_to_multiple(length, 1) / (length * widest)
        assert lci_gamma(length, widest).upper == lci_pieces_up_to_multiple(length, 1) / widest


@pytest.mark.parametrize("multiple", [1, 2, 3, 10])
def test_gamma_at_a_multiple_agrees_with_the_papers_closed_form(multiple: int) -> None:
    for exponent, length in enumerate(POWERS):
        cei = exponent + multiple / 2 - 1 - 1 / multiple
        cei += 3 * (exponent + multiple) / (2 * multiple * length) + 1 / (multiple * length**2)
        assert cei_gamma(length, multiple * length).exact == pytest.approx(cei)
        lci = exponent / 2 + 1 / length + (multiple - 1) / 2
        assert lci_gamma(length, multiple * length).exact == pytest.approx(lci)


@pytest.mark.parametrize("widest", [1, 5, 10, 64, 200])
def test_cei_gamma_stays_the_same_once_length_reaches_the_widest_width(widest: int) -> None:
    enough = 2 ** math.floor(math.log2(widest))
    assert len({cei_gamma(enough << step, widest).exact for step in range(8)}) == 1


@pytest.mark.parametrize("gamma", [lci_gamma, cei_gamma, sci_gamma])
def test_gamma_for_length_one_is_that_of_unit_intervals(gamma: Callable[[int, int], object]) -> None:
    assert gamma(1, 37) == ui_gamma(37)


def test_gamma_vectors() -> None:
    assert cei_gamma(16, 200).exact == pytest.approx(9.2941, abs=5e-5)
    assert cei_gamma(64, 200).exact == pytest.approx(6.3110, abs=5e-5)
    assert cei_gamma(16, 10).exact == 2.475
    assert lci_gamma(16, 200).exact == 7.805
    assert lci_gamma(16, 10).exact == 1.7


@pytest.mark.parametrize(
    ("length", "cei", "lci"),
    [
        (2, (5075.0, 5075.0, 5075.0), (5050.0, 5050.0, 5050.0)),
        (4, (2637.1, 2637.1, 2637.1), (2575.0, 2575.0, 2575.0)),
        (8, (1467.1, 1467.1, 1467.1), (1362.5, 1362.5, 1362.5)),
        (16, (868.0, 929.4, 992.8), (726.0, 780.5, 838.5)),
        (32, (664.3, 705.0, 833.0), (483.0, 513.5, 619.5)),
        (64, (598.8, 631.1, 871.5), (385.5, 404.0, 578.0)),
        (128, (358.0, 620.6, 838.8), (224.5, 367.5, 513.0)),
    ],
)
def test_thousands_of_pieces_of_figure_14(length: int, cei: tuple[float, ...], lci: tuple[float, ...]) -> None:
    thousands = 100_000 / 1000
    assert [thousands * mean for mean in cei_gamma(length, 200)] == pytest.approx(cei, abs=0.051)
    assert [thousands * mean for mean in lci_gamma(length, 200)] == pytest.approx(lci, abs=0.051)
    assert thousands * ui_gamma(200).exact == pytest.approx(10050)


# Constructs defined and lists visited


@every_power
def test_constructs_are_as_many_as_the_families_hold(length: int) -> None:
    span = 128
    starts = range(span)
    assert ui_constructs(span) == len(starts)
    assert sci_constructs(length, span) == len([*itertools.product(starts, range(1, length + 1))])
    assert lci_constructs(length, span) == len([*itertools.product(starts, lci_sizes(length))])
    assert cei_constructs(length, span) == len(cei_family(length, span))


def test_cei_constructs_raise_the_span_to_whole_segments() -> None:
    assert cei_constructs(8, 64) == 120
    assert cei_constructs(8, 57) == cei_constructs(8, 64)
    assert cei_constructs(8, 65) == cei_constructs(8, 72)


@every_power
def test_lists_per_search_are_the_constructs_that_hold_a_value(length: int) -> None:
    at = 64
    starts = range(128)
    every_size = list(itertools.product(starts, range(1, length + 1)))
    powers = list(itertools.product(starts, lci_sizes(length)))
    for family, lists in (
        ([(start, 1) for start in starts], ui_lists_per_search()),
        (every_size, sci_lists_per_search(length)),
        (powers, lci_lists_per_search(length)),
        (cei_family(length, 128), cei_lists_per_search(length)),
    ):
        assert sum(start <= at < start + size for start, size in family) == lists


@every_power
def test_closed_lists_per_search_are_the_closed_constructs_that_hold_an_integer(length: int) -> None:
    at = 64
    starts = range(128)
    every_size = list(itertools.product(starts, range(1, length + 1)))
    powers = list(itertools.product(starts, lci_sizes(length)))
    for family, lists in (
        ([(start, 1) for start in starts], ui_lists_per_search(closed=True)),
        (every_size, sci_lists_per_search(length, closed=True)),
        (powers, lci_lists_per_search(length, closed=True)),
    ):
        assert sum(start <= at <= start + size for start, size in family) == lists


@every_power
def test_closed_cei_visits_one_point_list_more(length: int) -> None:
    assert cei_lists_per_search(length, closed=True) == cei_lists_per_search(length) + 1


# Storage


@pytest.mark.parametrize(
    ("length", "large", "small"),
    [
        (4, (84.59, 33.18, 28.44, 37.18), (80.66, 21.39, 21.56, 21.45)),
        (16, (84.59, 27.22, 15.56, 72.52), (80.66, 7.55, 7.94, 9.60)),
        (64, (84.59, 32.59, 13.37, 270.10), (80.66, 5.07, 5.57, 18.44)),
        (128, (84.59, 36.49, 13.32, 537.96), (80.66, 5.04, 5.49, 34.64)),
        (256, (84.59, 40.69, 13.34, 1074.5), (80.66, 5.30, 5.49, 67.91)),
    ],
)
def test_predicted_megabytes_of_figures_15_and_16(
    length: int, large: tuple[float, ...], small: tuple[float, ...]
) -> None:
    for span, expected in ((2**20, large), (2**16, small)):
        megabytes = [
            model_bytes(constructs, 100_000, gamma.exact) / 1e6
            for constructs, gamma in (
                (ui_constructs(span), ui_gamma(200)),
                (lci_constructs(length, span), lci_gamma(length, 200)),
                (cei_constructs(length, span), cei_gamma(length, 200)),
                (sci_constructs(length, span), sci_gamma(length, 200)),
            )
        ]
        assert megabytes == pytest.approx(expected, abs=0.0051, rel=5e-5)


@pytest.mark.parametrize(
    ("widest", "expected"),
    [
        (10, (2.46, 1.99, 1.50)),
        (20, (4.46, 2.15, 1.80)),
        (40, (8.46, 2.42, 2.15)),
        (80, (16.46, 2.94, 2.70)),
        (160, (32.46, 3.94, 3.72)),
        (320, (64.46, 5.94, 5.73)),
    ],
)
def test_predicted_megabytes_of_figure_17(widest: int, expected: tuple[float, ...]) -> None:
    span, queries, length = 2**16, 50_000, 16
    megabytes = [
        model_bytes(constructs, queries, gamma.exact) / 1e6
        for constructs, gamma in (
            (ui_constructs(span), ui_gamma(widest)),
            (lci_constructs(length, span), lci_gamma(length, widest)),
            (cei_constructs(length, span), cei_gamma(length, widest)),
        )
    ]
    assert megabytes == pytest.approx(expected, abs=0.0051)


@pytest.mark.parametrize(("length", "per_cell"), [(4, 1.006), (16, 1.028), (128, 1.187)])
def test_lci_and_cei_cross_near_one_query_per_cell(length: int, per_cell: float) -> None:
    assert lci_smaller_than_cei_beyond(length, 200, 2**16) / 2**16 == pytest.approx(per_cell, abs=5e-4)


@pytest.mark.parametrize("length", [2, 16, 128, 1024])
@pytest.mark.parametrize("widest", [10, 200])
def test_lci_is_smaller_exactly_beyond_the_crossover(length: int, widest: int) -> None:
    span = 2**16
    crossover = lci_smaller_than_cei_beyond(length, widest, span)
    for queries in (math.floor(crossover) - 1, math.ceil(crossover) + 1):
        lci = model_bytes(lci_constructs(length, span), queries, lci_gamma(length, widest).exact)
        cei = model_bytes(cei_constructs(length, span), queries, cei_gamma(length, widest).exact)
        assert (lci < cei) == (queries > crossover)


@pytest.mark.parametrize(("length", "widest"), [(1, 200), (16, 1)])
def test_lci_never_becomes_smaller_where_both_cut_the_same_pieces(length: int, widest: int) -> None:
    assert lci_smaller_than_cei_beyond(length, widest, 2**16) == math.inf


# ACEI

WORKLOADS = [
    (queries, span, mean_width)
    for queries in (factor * 10**exponent for exponent in range(1, 7) for factor in (1, 2, 5))
    for span in (2**10, 2**14, 2**20, 2**26, 2**32)
    for mean_width in (4, 16, 64, 256, 1024, 4096)
    if queries <= span and mean_width <= span
]


def power_pairs(largest: int) -> Iterator[tuple[int, int]]:
    """All (length, blocks) with blocks <= length <= largest."""
    for length_exponent in range(largest.bit_length()):
        for block_exponent in range(length_exponent + 1):
            yield 1 << length_exponent, 1 << block_exponent


@pytest.mark.parametrize(
    ("start", "end", "levels", "units"),
    [
        (1, 15, [(4, 4), (8, 4)], [1, 2, 3, 12, 13, 14]),
        (2, 12, [(4, 4), (8, 4)], [2, 3]),
        (3, 7, [], [3, 4, 5, 6]),
    ],
)
def test_the_enumeration_of_acei_follows_the_worked_examples(
    start: int, end: int, levels: list[Piece], units: list[int]
) -> None:
    pieces = list(acei_pieces(8, 2, start, end))
    assert [piece for piece in pieces if piece[1] > 1] == levels
    assert [at for at, size in pieces if size == 1] == units


@pytest.mark.parametrize(("length", "blocks"), list(power_pairs(16)))
def test_acei_cost_is_never_below_the_elements_stored(length: int, blocks: int) -> None:
    span = 48
    queries = [(start, end) for start in range(span) for end in range(start + 1, span + 1)]
    for workload in (queries, queries[::7], queries[100:110], queries[40:41]):
        ids, segments_with_units = 0, set()
        for start, end in workload:
            for at, size in acei_pieces(length, blocks, start, end):
                ids += 1
                if size == 1 and blocks < length:
                    segments_with_units.add(at // length)
        heads = span // length * (2 * blocks - 1) + len(segments_with_units) * length
        pointers = span // length
        mean_width = sum(end - start for start, end in workload) / len(workload)
        assert heads + pointers + ids <= acei_cost(length, blocks, len(workload), span, mean_width)


@pytest.mark.parametrize(("length", "blocks"), list(power_pairs(64)))
def test_acei_cost_adds_up_its_six_terms(length: int, blocks: int) -> None:
    queries, span, mean_width = 1000, 2**16, 100
    levels = blocks.bit_length() - 1
    expected = sum(
        (
            Fraction(span, length) * sum(2**level for level in range(levels + 1)),
            Fraction(2 * queries * length),
            Fraction(queries * mean_width, length),
            Fraction(2 * queries * levels),
            Fraction(2 * queries * length, blocks),
            Fraction(span, length),
        )
    )
    assert acei_cost(length, blocks, queries, span, mean_width) == pytest.approx(float(expected))


@pytest.mark.parametrize(("length", "blocks"), list(power_pairs(1024)))
def test_acei_cost_bound_is_never_below_the_cost(length: int, blocks: int) -> None:
    for workload in WORKLOADS:
        assert acei_cost(length, blocks, *workload) <= acei_cost_bound(length, blocks, *workload)


@pytest.mark.parametrize("optimum_of", [acei_unconstrained_optimum, acei_single_block_optimum])
def test_acei_optima_have_the_cost_they_state(optimum_of: Callable[[int, int, float], AceiOptimum]) -> None:
    for workload in WORKLOADS:
        optimum = optimum_of(*workload)
        assert acei_cost_bound(optimum.length, optimum.blocks, *workload) == pytest.approx(optimum.cost)


def test_no_other_length_and_blocks_undercut_the_unconstrained_optimum() -> None:
    factors = [2 ** (step / 8) for step in range(-16, 17)]
    for workload in WORKLOADS[::5]:
        length, blocks, cost = acei_unconstrained_optimum(*workload)
        for stretch, thin in itertools.product(factors, factors):
            assert acei_cost_bound(length * stretch, blocks * thin, *workload) >= cost * (1 - 1e-12)


def test_no_other_length_undercuts_the_optimum_with_a_single_block() -> None:
    for workload in WORKLOADS:
        length, blocks, cost = acei_single_block_optimum(*workload)
        assert blocks == 1
        for step in range(-64, 65):
            assert acei_cost_bound(length * 2 ** (step / 16), 1, *workload) >= cost * (1 - 1e-12)


def test_the_two_optima_agree_where_the_unconstrained_one_has_a_single_block() -> None:
    workload = (2**12, 2**16, 64.0)
    assert acei_unconstrained_optimum(*workload) == pytest.approx(acei_single_block_optimum(*workload))


@pytest.mark.parametrize(
    ("queries", "span", "mean_width", "length", "blocks"),
    [
        (1000, 2**22, 1024, 64, 1),
        (1000, 2**27, 1024, 256, 1),
        (1000, 2**32, 1024, 2048, 1),
        (100_000, 2**20, 1024, 16, 8),
        (100_000, 2**26, 1024, 32, 1),
        (100_000, 2**32, 1024, 128, 1),
        (10_000, 2**20, 256, 16, 1),
        (20_000, 2**20, 256, 8, 2),
        (40_000, 2**20, 256, 8, 2),
        (160_000, 2**20, 256, 8, 4),
        (320_000, 2**20, 256, 8, 8),
        (640_000, 2**20, 256, 8, 8),
        (1_280_000, 2**20, 256, 16, 16),
    ],
)
def test_acei_parameters_of_the_papers_experiments(
    queries: int, span: int, mean_width: float, length: int, blocks: int
) -> None:
    assert acei_parameters(queries, span, mean_width) == (length, blocks)


@pytest.mark.parametrize("mean_width", [0.5, 1, 2, 3.7, 100])
def test_acei_parameters_are_powers_of_two_with_blocks_up_to_length(mean_width: float) -> None:
    for queries, span in itertools.product((1, 7, 1000, 10**6), (1, 100, 2**20)):
        length, blocks = acei_parameters(queries, span, mean_width)
        assert (length, blocks) in set(power_pairs(2**20))


def test_acei_parameters_cost_at_most_17_percent_more_than_the_best_powers_of_two() -> None:
    for workload in WORKLOADS:
        best = min(acei_cost(*pair, *workload) for pair in power_pairs(2**17))
        assert acei_cost(*acei_parameters(*workload), *workload) <= 1.17 * best


@pytest.mark.parametrize(("mean_width", "sparsity"), [(4 + 1e-6, 1), (16, 4)])
def test_acei_parameters_cost_up_to_20_percent_more_just_above_four_covers(mean_width: float, sparsity: int) -> None:
    """Where queries * mean_width passes 4 * span, blocks jump from 1 to 2: the worst case of rounding up."""
    span = 2**40
    workload = (span // sparsity + 1, span, mean_width)
    assert acei_parameters(*workload) == (2, 2)
    best = min(acei_cost(length, blocks, *workload) for length, blocks in power_pairs(2**10))
    assert acei_cost(2, 2, *workload) / best == pytest.approx(1.2, abs=1e-5)


@pytest.mark.parametrize(("length", "blocks"), list(power_pairs(64)))
def test_acei_lists_per_search_are_the_levels_and_the_unit_array(length: int, blocks: int) -> None:
    at = 64
    levels = [(start, size) for start, size in cei_family(length, 128) if size >= length // blocks]
    units = [(start, 1) for start in range(128)] if blocks < length else []
    visited = sum(start <= at < start + size for start, size in levels + units)
    assert acei_lists_per_search(length, blocks) == visited


# Refusals


@pytest.mark.parametrize("length", [0, -4, 3, 12])
@pytest.mark.parametrize("closed_form", [lci_constructs, cei_constructs, lci_gamma, cei_gamma])
def test_a_length_that_is_no_power_of_two_is_refused(length: int, closed_form: Callable[[int, int], object]) -> None:
    with pytest.raises(FencepostError) as refusal:
        closed_form(length, 200)
    assert str(refusal.value) == (f"A length of {length}; expected a power of two. Round it up to the next one.")


@pytest.mark.parametrize("widest", [0, -1])
@pytest.mark.parametrize("gamma", [sci_gamma, lci_gamma, cei_gamma])
def test_a_widest_width_below_one_is_refused(widest: int, gamma: Callable[[int, int], object]) -> None:
    with pytest.raises(FencepostError, match=f"widest={widest}; expected a finite number above zero"):
        gamma(4, widest)


@pytest.mark.parametrize(
    ("queries", "span", "mean_width", "named"),
    [
        (0, 64, 8.0, "queries=0"),
        (10, 0, 8.0, "span=0"),
        (10, 64, 0.0, "mean_width=0.0"),
        (10, 64, math.inf, "mean_width=inf"),
        (10, 64, math.nan, "mean_width=nan"),
    ],
)
def test_acei_parameters_refuse_a_workload_without_extent(
    queries: int, span: int, mean_width: float, named: str
) -> None:
    with pytest.raises(FencepostError, match=f"{named}; expected a finite number above zero"):
        acei_parameters(queries, span, mean_width)
