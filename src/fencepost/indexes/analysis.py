"""Closed forms for the papers' indexes: constructs, pieces, lists and search efficiency, without building anything.

UI has unit intervals, SCI every length 1..L, LCI every power of two 1..L, CEI the segments of length L and
their halvings, ACEI the upper levels of CEI over lazily allocated unit intervals. The papers' symbols here:

========  ==================  =====================================================================
L, k      ``length``          longest construct; a power of two 2^k except for SCI
r, R      ``span``            number of unit cells in the domain
n, N      ``queries``         number of registered queries
W         ``widest``          widths are uniform on 1..W and starts uniform (sec. 4 of the CEI paper)
W         ``mean_width``      mean width, of any distribution (ACEI paper)
B, h      ``blocks``          constructs on the lowest complete level of an ACEI segment, a power of two 2^h
========  ==================  =====================================================================

A total written T(u, v] counts the pieces of all queries with a width in (u, v] and a start in one segment.

Sources: Wu, Chen, Yu, KAIS 9(1) 2006 (CEI); Wu, Chen, Yu, IBM research report (closed endpoints); Yao, Wang,
Liu, Guo, Journal of Software 20(9) 2009 (ACEI).
"""

import math
from typing import Literal, NamedTuple

from fencepost.errors import FencepostError


class Gamma(NamedTuple):
    """Mean pieces per query, between the bounds of the CEI paper's Table 2."""

    lower: float
    exact: float
    upper: float


class AceiOptimum(NamedTuple):
    """Real-valued `length` and `blocks` that minimise `acei_cost_bound`, and its value `cost` there."""

    length: float
    blocks: float
    cost: float


class AceiParameters(NamedTuple):
    """Segment length L and blocks per segment B, powers of two with B <= L."""

    length: int
    blocks: int


# Constructs defined (N) and lists visited by a search (C): CEI paper, Table 1.


def ui_constructs(span: int) -> int:
    """Unit intervals over the domain (CEI paper, Table 1)."""
    return span


def sci_constructs(length: int, span: int) -> int:
    """Constructs of SCI: `length` at every start (CEI paper, Table 1)."""
    return span * length


def lci_constructs(length: int, span: int) -> int:
    """Constructs of LCI: a power of two up to `length` at every start (CEI paper, Table 1)."""
    return span * (1 + _exponent(length))


def cei_constructs(length: int, span: int) -> int:
    """Constructs of CEI, 2r - r/L, with the span raised to whole segments (CEI paper, Table 1).

    >>> cei_constructs(8, 64)
    120
    """
    _require_power_of_two(length)
    segments = -(-span // length)
    return segments * (2 * length - 1)


def ui_lists_per_search(*, closed: bool = False) -> int:
    """Lists UI visits (CEI paper, Table 1); `closed`: at an integer value, where two pieces meet."""
    return 2 if closed else 1


def sci_lists_per_search(length: int, *, closed: bool = False) -> int:
    """Lists SCI visits; `closed`: at an integer value (IBM report, covering set).

    >>> sci_lists_per_search(4), sci_lists_per_search(4, closed=True)
    (10, 14)
    """
    return length * (length + 3) // 2 if closed else length * (length + 1) // 2


def lci_lists_per_search(length: int, *, closed: bool = False) -> int:
    """Lists LCI visits (CEI paper, Table 1); `closed`: at an integer value (IBM report, covering set).

    >>> lci_lists_per_search(4), lci_lists_per_search(4, closed=True)
    (7, 10)
    """
    exponent = _exponent(length)
    return 2 * length + exponent if closed else 2 * length - 1


def cei_lists_per_search(length: int, *, closed: bool = False) -> int:
    """Lists CEI visits (CEI paper, Table 1); `closed`: at an integer value, with its point list.

    >>> cei_lists_per_search(16)
    5
    """
    return _exponent(length) + (2 if closed else 1)


# Pieces in total (T): CEI paper, section 4. All of them are whole numbers; halves are taken last.


def popcount_total(bound: int) -> int:
    """Ones in the binary forms of 0..bound-1; d * 2^(d-1) for bound = 2^d (CEI paper, Lemma 4).

    >>> popcount_total(16), popcount_total(11)
    (32, 17)
    """
    total = ones_above = 0
    for exponent in reversed(range(bound.bit_length())):
        if bound >> exponent & 1:
            total += (exponent << exponent) // 2 + (ones_above << exponent)
            ones_above += 1
    return total


def sci_pieces_up_to(length: int, widest: int) -> int:
    """SCI pieces of one query of each width 1..widest, ceil(width / length) each (not in the paper)."""
    whole, rest = divmod(widest, length)
    return length * whole * (whole + 1) // 2 + rest * (whole + 1)


def lci_pieces_up_to_multiple(length: int, multiple: int) -> int:
    """LCI pieces of one query of each width up to `multiple` lengths (CEI paper, Lemma 8 and its sum).

    >>> lci_pieces_up_to_multiple(16, 1)
    33
    """
    up_to_length = 1 + length * _exponent(length) // 2
    return multiple * up_to_length + length * multiple * (multiple - 1) // 2


def lci_pieces_up_to(length: int, widest: int) -> int:
    """LCI pieces of one query of each width 1..widest (not in the paper, which bounds it)."""
    whole, rest = divmod(widest, length)
    return lci_pieces_up_to_multiple(length, whole) + whole * rest + popcount_total(rest + 1)


def cei_pieces_between_multiples(length: int, multiple: int) -> int:
    """T(iL, (i+1)L] of CEI for i = `multiple` >= 1 (CEI paper, Lemma 5 for i = 1, Lemma 6 beyond).

    >>> cei_pieces_between_multiples(8, 1)
    236
    """
    exponent = _exponent(length)
    return (length * length * (2 * exponent + 2 * multiple - 1) + 3 * length) // 2


def cei_pieces_between_halvings(length: int, halvings: int) -> int:
    """T(L/2^j, L/2^(j-1)] of CEI for j = `halvings`, 1 <= j <= k (CEI paper, Lemma 7).

    >>> cei_pieces_between_halvings(8, 1)
    91
    """
    exponent = _exponent(length)
    scaled = (length * length >> halvings) * (2 * (exponent - halvings) + 1)
    return (scaled + 3 * length - (1 << halvings)) // 2


def cei_pieces_up_to_multiple(length: int, multiple: int) -> int:
    """T(0, phi*L] of CEI for phi = `multiple`, zero for the empty range phi = 0 (CEI paper, Theorem 2).

    >>> [cei_pieces_up_to_multiple(length, 1) for length in (1, 2, 4, 8)]
    [1, 5, 27, 145]
    """
    exponent = _exponent(length)
    if multiple == 0:
        return 0
    quadratic = length * length * (multiple * (2 * exponent + multiple - 2) - 2)
    return (quadratic + 3 * length * (exponent + multiple)) // 2 + 1


def cei_pieces_up_to(length: int, widest: int) -> int:
    """T(0, W] of CEI for every W >= 1 (not in the paper, which bounds it).

    No query holds a construct longer than itself, so a `length` above the largest power of two that fits
    `widest` only repeats the pattern of that power.
    """
    _require_power_of_two(length)
    used = min(length, 1 << (widest.bit_length() - 1))
    whole, rest = divmod(widest, used)
    beyond = rest * (1 + used * (_exponent(used) + whole - 1)) + rest * (rest + 1) // 2
    return (length // used) * (cei_pieces_up_to_multiple(used, whole) + beyond)


# Mean pieces per query (gamma): CEI paper, section 4 and Table 2.


def ui_gamma(widest: int) -> Gamma:
    """Mean pieces of UI, the mean width (CEI paper, sec. 4).

    >>> ui_gamma(200).exact
    100.5
    """
    _require_positive("widest", widest)
    mean = (widest + 1) / 2
    return Gamma(mean, mean, mean)


def sci_gamma(length: int, widest: int) -> Gamma:
    """Mean pieces of SCI, exact in all three fields (not in the paper).

    >>> sci_gamma(16, 200).exact
    6.76
    """
    _require_positive("widest", widest)
    mean = sci_pieces_up_to(length, widest) / widest
    return Gamma(mean, mean, mean)


def lci_gamma(length: int, widest: int) -> Gamma:
    """Mean pieces of LCI (CEI paper, Table 2).

    >>> lci_gamma(16, 200)
    Gamma(lower=7.26, exact=7.805, upper=8.385)
    """
    _require_power_of_two(length)
    _require_positive("widest", widest)
    return Gamma(
        lower=lci_pieces_up_to_multiple(length, widest // length) / widest,
        exact=lci_pieces_up_to(length, widest) / widest,
        upper=lci_pieces_up_to_multiple(length, -(-widest // length)) / widest,
    )


def cei_gamma(length: int, widest: int) -> Gamma:
    """Mean pieces of CEI (CEI paper, Theorem 2 and Table 2).

    >>> cei_gamma(16, 10)
    Gamma(lower=0.0, exact=2.475, upper=4.75625)
    """
    _require_power_of_two(length)
    _require_positive("widest", widest)
    starts_and_widths = length * widest
    return Gamma(
        lower=cei_pieces_up_to_multiple(length, widest // length) / starts_and_widths,
        exact=cei_pieces_up_to(length, widest) / starts_and_widths,
        upper=cei_pieces_up_to_multiple(length, -(-widest // length)) / starts_and_widths,
    )


# Storage: CEI paper, section 4.


def model_bytes(constructs: int, queries: int, gamma: float) -> float:
    """Bytes under the CEI paper's model: 4 per list head, 8 per entry (id and link).

    >>> model_bytes(cei_constructs(8, 64), queries=1000, gamma=2.5)
    20480.0
    """
    return 4 * constructs + 8 * queries * gamma


def lci_smaller_than_cei_beyond(length: int, widest: int, span: int) -> float:
    """Number of queries beyond which the model makes LCI smaller than CEI, infinite if it never does.

    The CEI paper claims that CEI is the smaller; under its own model LCI's fewer pieces win once there are
    about as many queries as cells.

    >>> round(lci_smaller_than_cei_beyond(16, 200, 65536) / 65536, 3)
    1.028
    """
    more_pieces = cei_gamma(length, widest).exact - lci_gamma(length, widest).exact
    if more_pieces == 0:
        return math.inf
    return span * (_exponent(length) - 1 + 1 / length) / (2 * more_pieces)


# ACEI: depth, cost, and the choice of its two parameters (ACEI paper).


def acei_lists_per_search(length: int, blocks: int) -> int:
    """Lists ACEI visits where the unit array is allocated; with `blocks` = `length` it has none (ACEI paper).

    >>> acei_lists_per_search(16, 8), acei_lists_per_search(16, 16)
    (5, 5)
    """
    _require_power_of_two(length)
    levels = _exponent(blocks) + 1
    return levels if blocks == length else levels + 1


def acei_cost(length: float, blocks: float, queries: int, span: int, mean_width: float) -> float:
    """Elements that ACEI stores at most, Y(L, B): a list head, an id and a pointer count one each.

    In order: list heads of the levels and pointers to the unit arrays, unit list heads (two segments per
    query), ids on level 0, ids on the levels below (two each), unit ids (ACEI paper, cost model).

    >>> acei_cost(16, 8, queries=100, span=1600, mean_width=32)
    6000.0
    """
    return (
        2 * span * blocks / length
        + 2 * queries * length
        + queries * mean_width / length
        + 2 * queries * math.log2(blocks)
        + 2 * queries * length / blocks
    )


def acei_cost_bound(length: float, blocks: float, queries: int, span: int, mean_width: float) -> float:
    """The bound y(L, B) >= Y(L, B) that ACEI minimises: log2 B < L replaces the logarithm (ACEI paper).

    >>> acei_cost_bound(16, 8, queries=100, span=1600, mean_width=32)
    8600.0
    """
    return (
        2 * span * blocks / length
        + 2 * queries * length / blocks
        + 4 * queries * length
        + queries * mean_width / length
    )


def acei_unconstrained_optimum(queries: int, span: int, mean_width: float) -> AceiOptimum:
    """Minimum of `acei_cost_bound` over all real L and B; usable where B >= 1 (ACEI paper).

    >>> acei_unconstrained_optimum(queries=64, span=64, mean_width=256)
    AceiOptimum(length=8.0, blocks=8.0, cost=4352.0)
    """
    return AceiOptimum(
        length=math.sqrt(mean_width) / 2,
        blocks=math.sqrt(queries * mean_width / (4 * span)),
        cost=4 * math.sqrt(span * queries) + 4 * queries * math.sqrt(mean_width),
    )


def acei_single_block_optimum(queries: int, span: int, mean_width: float) -> AceiOptimum:
    """Minimum of `acei_cost_bound` with B = 1, for sparse queries (ACEI paper).

    >>> acei_single_block_optimum(queries=1, span=40, mean_width=16)
    AceiOptimum(length=4.0, blocks=1.0, cost=48.0)
    """
    coverage = 2 * span + queries * mean_width
    return AceiOptimum(
        length=math.sqrt(coverage / (6 * queries)), blocks=1.0, cost=2 * math.sqrt(6 * queries * coverage)
    )


def acei_parameters(queries: int, span: int, mean_width: float) -> AceiParameters:
    """ACEI's segment length and blocks for a workload, rounded up to powers of two (ACEI paper).

    With more queries than cells both become equal, and ACEI is CEI.

    >>> acei_parameters(100_000, 2**20, 1024)
    AceiParameters(length=16, blocks=8)
    """
    _require_positive("queries", queries)
    _require_positive("span", span)
    _require_positive("mean_width", mean_width)
    dense = queries * mean_width > 4 * span
    optimum = (acei_unconstrained_optimum if dense else acei_single_block_optimum)(queries, span, mean_width)
    block_exponent = math.ceil(math.log2(optimum.blocks))
    length_exponent = max(math.ceil(math.log2(optimum.length)), block_exponent)
    return AceiParameters(length=1 << length_exponent, blocks=1 << block_exponent)


# VCR: the two axes of a rectangle are independent, so everything is a product (IBM report).


def vcr_constructs(lengths: tuple[int, int], spans: tuple[int, int]) -> int:
    """Constructs that VCR numbers; only those in use take memory (IBM report)."""
    return math.prod(lci_constructs(length, span) for length, span in zip(lengths, spans, strict=True))


def vcr_lists_per_search(lengths: tuple[int, int], *, closed: bool = False) -> int:
    """Size of VCR's covering set; `closed`: at a point of the grid (IBM report).

    >>> [vcr_lists_per_search((length, length)) for length in (1, 2, 4, 8, 16)]
    [1, 9, 49, 225, 961]
    """
    return math.prod(lci_lists_per_search(length, closed=closed) for length in lengths)


def vcr_gamma(lengths: tuple[int, int], widest: tuple[int, int], *, overlap: bool = False) -> float:
    """Mean pieces of rectangles whose sides are uniform on 1..`widest`, simple or overlapped (IBM report).

    >>> round(vcr_gamma((8, 8), (20, 20)), 2), round(vcr_gamma((8, 8), (20, 20), overlap=True), 2)
    (5.52, 4.0)
    """
    per_axis = [
        sum(-(-side // _power_within(min(side, length))) for side in range(1, most + 1)) / most
        if overlap
        else lci_gamma(length, most).exact
        for length, most in zip(lengths, widest, strict=True)
    ]
    return math.prod(per_axis)


def _power_within(width: int) -> int:
    """The largest power of two up to a width."""
    return 1 << (width.bit_length() - 1)


# Border monitoring: delta queries and search efficiency (BMQ-Index, Lee et al.). A fluctuation is the mean step of an
# object between two rows, a width that of every query; both are shares of the domain, over which bounds are uniform.

StepLaw = Literal["constant", "uniform", "normal", "exponential"]


def bmq_deltas_per_row(queries: int, fluctuation: float) -> float:
    """Delta queries that BMQ touches per row: each query has two borders.

    >>> bmq_deltas_per_row(100_000, 0.0001)
    20.0
    """
    return 2 * queries * fluctuation


def shorter_than_width(fluctuation: float, width: float, law: StepLaw) -> float:
    """The mean of the smaller of a step and the width, E min(|d|, W), for steps of this law and mean.

    >>> [round(shorter_than_width(0.01, 0.01, law) / 0.01, 2) for law in ("constant", "uniform", "normal")]
    [1.0, 0.75, 0.7]
    """
    if law == "constant":
        return min(fluctuation, width)
    if law == "uniform":
        return fluctuation if width >= 2 * fluctuation else width - width**2 / (4 * fluctuation)
    if law == "exponential":
        return fluctuation * (1 - math.exp(-width / fluctuation))
    sigma = fluctuation * math.sqrt(math.pi / 2)
    reach = width / (sigma * math.sqrt(2))
    return width * math.erfc(reach) + fluctuation * (1 - math.exp(-(reach**2)))


def bmq_efficiency(fluctuation: float, width: float, law: StepLaw) -> float:
    """Search efficiency of BMQ: changes reported over delta queries touched.

    >>> round(bmq_efficiency(0.001, 0.001, "exponential"), 2)
    0.63
    """
    return shorter_than_width(fluctuation, width, law) / fluctuation


def diff_efficiency(fluctuation: float, width: float, law: StepLaw) -> float:
    """Search efficiency of DiffRMQ: changes reported over the matches before and after; BMQ's at equal FL and W.

    >>> round(diff_efficiency(0.0001, 0.001, "uniform"), 2)
    0.1
    """
    return shorter_than_width(fluctuation, width, law) / width


def _exponent(length: int) -> int:
    """The k of length = 2^k."""
    _require_power_of_two(length)
    return length.bit_length() - 1


def _require_power_of_two(length: int) -> None:
    if length < 1 or length & (length - 1):
        raise FencepostError(f"a length of {length}", "a power of two", "Round it up to the next one.")


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise FencepostError(f"{name}={value}", "a finite number above zero", "Estimate it from at least one query.")
