"""Figures 5 to 7 of the ACEI paper (Yao, Wang, Liu, Guo 2009): storage and search time of ACEI and CEI."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fencepost.indexes import ACEI, CEI, SliceList
from fencepost.indexes.analysis import (
    AceiParameters,
    acei_cost,
    acei_lists_per_search,
    acei_parameters,
    cei_constructs,
    cei_gamma,
    cei_lists_per_search,
    model_bytes,
)
from fencepost.indexes.contracts.intervals import IntervalIndex
from fencepost.lab.reproduce.figure import Check, Curve, Figure, Finding, Outcome
from fencepost.lab.reproduce.intervals import OURS, Case, Sweep, filled, measured, storage_panel, time_panel
from fencepost.lab.reproduce.pieces import sampling_error
from fencepost.lab.workloads import IntervalWorkload

PAPER = "Yao, Wang, Liu, Guo 2009 (ACEI)"
EQUAL_DEPTH, EQUAL_BLOCKS, OWN_BEST = "CEI, L = 2B", "CEI, L = B", "CEI, L = 64"
PAPERS_MEMORY = 1e9
"""Bytes of the machine that the paper measured on."""


class Place(NamedTuple):
    """One place of a sweep: the paper's R, N and mean width W."""

    span: int
    queries: int
    mean_width: int

    @property
    def parameters(self) -> AceiParameters:
        """What ACEI's cost model chooses here."""
        return acei_parameters(self.queries, self.span, self.mean_width)

    @property
    def widest(self) -> int:
        """Widths are uniform on 1 up to this, which makes their mean W."""
        return 2 * self.mean_width - 1

    def lengths(self) -> dict[str, int]:
        """The L that CEI gets: as deep as ACEI, as many blocks, and one of its own."""
        blocks = self.parameters.blocks
        return {EQUAL_DEPTH: 2 * blocks, EQUAL_BLOCKS: blocks, OWN_BEST: 64}

    def predicted(self, name: str) -> float:
        """Megabytes of a CEI by the model, whether it fits this machine or not."""
        length = self.lengths()[name]
        gamma = cei_gamma(length, self.widest).exact
        return model_bytes(cei_constructs(length, self.span), self.queries, gamma) / 1e6

    def workload(self, searches: int, seed: int = 7) -> IntervalWorkload:
        """Starts uniform, widths uniform on 1..2W-1; what would leave the domain is drawn anew."""
        rng = np.random.default_rng(seed)
        los = rng.integers(0, self.span, self.queries)
        his = los + rng.integers(1, self.widest + 1, self.queries)
        while (outside := his > self.span).any():
            los[outside] = rng.integers(0, self.span, outside.sum())
            his[outside] = los[outside] + rng.integers(1, self.widest + 1, outside.sum())
        return IntervalWorkload("sparse", self.span, los, his, rng.integers(0, self.span, searches))


def swept(places: Sequence[Place], by_span: bool, searches: int, rounds: int, most_constructs: int) -> Sweep:
    """ACEI, our index, and CEI in three lengths as far as its array of lists stays below a limit."""

    def cases() -> Iterator[Case]:
        for place in places:
            work, domain = place.workload(searches), (0, place.span)
            made: dict[str, Callable[[], IntervalIndex]] = {
                "ACEI": partial(ACEI.tuned, domain, place.queries, place.mean_width)
            }
            for name, length in place.lengths().items():
                if cei_constructs(length, place.span) <= most_constructs:
                    made[name] = partial(CEI, domain, length)
            made[OURS] = partial(SliceList, "float64")
            structures = {name: partial(filled, make, work) for name, make in made.items()}
            yield Case(place.span if by_span else place.queries, work, structures)

    return measured(cases(), rounds=rounds)


def checks_of(sweep: Sweep, places: Sequence[Place], by_span: bool) -> list[Check]:
    """Parameters, lists, elements and bytes of ACEI; constructs, lists and pieces of CEI."""
    checks = list(sweep.checks)
    for place in places:
        x = place.span if by_span else place.queries
        length, blocks = place.parameters
        point = sweep.at("ACEI", x)
        segments = -(-place.span // length)
        elements = point.storage.constructs + segments + point.storage.entries
        most = acei_cost(length, blocks, place.queries, place.span, place.mean_width)
        checks += [
            Check(f"ACEI at {x:,}: lists per search", point.lists or 0, acei_lists_per_search(length, blocks)),
            Check(
                f"ACEI at {x:,}: elements above the paper's Y",
                max(0, elements - most * (1 + sampling_error(place.queries))),
                0,
            ),
        ]
        for name, cei_length in place.lengths().items():
            if x not in [point.x for point in sweep.points.get(name, [])]:
                continue
            point = sweep.at(name, x)
            gamma = cei_gamma(cei_length, place.widest).exact
            checks += [
                Check(f"{name} at {x:,}: constructs", point.storage.constructs, cei_constructs(cei_length, place.span)),
                Check(f"{name} at {x:,}: lists per search", point.lists or 0, cei_lists_per_search(cei_length)),
                Check(
                    f"{name} at {x:,}: gamma",
                    point.storage.entries / place.queries,
                    gamma,
                    sampling_error(place.queries),
                ),
            ]
    return checks


def _bound_note(sweep: Sweep, places: Sequence[Place], by_span: bool) -> str:
    """How far the paper's cost is above what is stored."""
    ratios = []
    for place in places:
        held = sweep.at("ACEI", place.span if by_span else place.queries).storage
        elements = held.constructs + -(-place.span // place.parameters.length) + held.entries
        ratios.append(acei_cost(*place.parameters, place.queries, place.span, place.mean_width) / elements)
    return f"The paper's Y counts upper bounds: it is {min(ratios):.2f} to {max(ratios):.2f} times the elements stored."


def _predictions(places: Sequence[Place], by_span: bool) -> list[Curve]:
    xs = [place.span if by_span else place.queries for place in places]
    return [
        Curve(f"{name}, predicted", xs, [place.predicted(name) for place in places], "model")
        for name in (EQUAL_DEPTH, EQUAL_BLOCKS)
    ]


def _time_finding(sweep: Sweep) -> Finding:
    pairs = [
        (point.x, point.microseconds, sweep.at("ACEI", point.x).microseconds) for point in sweep.points[EQUAL_DEPTH]
    ]
    where, one, other = max(pairs, key=lambda pair: abs(pair[1] - pair[2]))
    near = abs(one - other) < 0.1
    return Finding(
        "The search times of ACEI and CEI differ by less than 0.1 µs",
        f"by at most {abs(one - other):.3f} µs ({other:.3f} against {one:.3f}, at {where:,.0f}), where CEI was built",
        near,
        ""
        if near
        else "which of them is the faster changes along the curve, with the number and the length of their lists",
    )


def against_domain(
    queries: int, mean_width: int, exponents: Sequence[int], last: int, searches: int, rounds: int, most_constructs: int
) -> Outcome:
    """Storage and search time against R; `last` is the exponent up to which the paper's CEI fitted its memory."""
    places = [Place(2**exponent, queries, mean_width) for exponent in exponents]
    sweep = swept(places, True, searches, rounds, most_constructs)
    fits, beyond = (Place(2**exponent, queries, mean_width).predicted(EQUAL_DEPTH) for exponent in (last, last + 1))
    largest = sweep.points["ACEI"][-1].storage
    compared = places[-1].predicted(EQUAL_DEPTH)
    labelled = queries == 1000 and exponents[-1] == 32
    return Outcome(
        [
            storage_panel(sweep, "a: storage", "domain R, cells", _predictions(places, True)),
            time_panel(sweep, "b: search, ids reported", "domain R, cells"),
        ],
        [
            Finding(
                f"CEI does not fit the machine's 1 GB beyond R = 2^{last}",
                f"the model: {fits:,.0f} MB there, {beyond:,.0f} MB at 2^{last + 1}",
                fits * 1e6 < PAPERS_MEMORY < beyond * 1e6,
            ),
            Finding(
                f"ACEI still fits at R = 2^{exponents[-1]}",
                f"{largest.model_bytes / 1e6:,.1f} MB, where CEI needs {compared:,.0f} MB"
                + (" (the paper's label: 43.436 MB)" if labelled else ""),
                largest.model_bytes < PAPERS_MEMORY,
            ),
            _time_finding(sweep),
            _ours(sweep),
        ],
        checks_of(sweep, places, True),
        notes=[
            "CEI's L follows from ACEI's depth: L = 2B as the paper's section 2.3 says, or L = B as the garbled "
            "sentence of its experiments can be read; both are drawn, and predicted where they are too large to build.",
            _bound_note(sweep, places, True),
        ],
    )


def against_queries(
    span: int, mean_width: int, counts: Sequence[int], searches: int, rounds: int, most_constructs: int
) -> Outcome:
    """Storage and search time against N."""
    places = [Place(span, queries, mean_width) for queries in counts]
    sweep = swept(places, False, searches, rounds, most_constructs)

    def ratio(name: str, x: float) -> float:
        return sweep.at(name, x).storage.model_bytes / sweep.at("ACEI", x).storage.model_bytes

    few, many = counts[0], counts[-1]
    own = [queries for queries in counts if ratio(OWN_BEST, queries) < 1]
    same = {name: ratio(name, many) for name in (EQUAL_DEPTH, EQUAL_BLOCKS)}
    least = min(ratio(EQUAL_DEPTH, few), ratio(EQUAL_BLOCKS, few))
    coincide = all(0.95 < each < 1.05 for each in same.values())
    return Outcome(
        [
            storage_panel(sweep, "a: storage", "queries N"),
            time_panel(sweep, "b: search, ids reported", "queries N"),
        ],
        [
            Finding(
                "ACEI is smaller while N is well below R",
                f"CEI takes at least {least:.1f}x at N = {few:,}",
                least > 1,
            ),
            Finding(
                "The two coincide from N = 320,000 on",
                f"at N = {many:,} CEI takes {same[EQUAL_BLOCKS]:.2f}x with L = B, {same[EQUAL_DEPTH]:.2f}x with L = 2B",
                coincide,
                ""
                if coincide
                else "rounding makes B = L there, so that ACEI is CEI(B); the L = 2B that the paper compares by makes "
                "CEI the smaller",
            ),
            _time_finding(sweep),
            _ours(sweep),
        ],
        checks_of(sweep, places, False),
        notes=[
            "With a length of its own, L = 64, CEI is smaller than ACEI at N = "
            f"{', '.join(f'{n:,}' for n in own) or 'none'}: "
            "ACEI's advantage is a large domain with few queries.",
            _bound_note(sweep, places, False),
        ],
    )


def _ours(sweep: Sweep) -> Finding:
    ratios = [point.microseconds / sweep.at(OURS, point.x).microseconds for point in sweep.points["ACEI"]]
    smaller = [point.storage.model_bytes / sweep.at(OURS, point.x).storage.nbytes for point in sweep.points["ACEI"]]
    return Finding(
        "SliceList is faster than ACEI, and smaller",
        f"ACEI takes {min(ratios):.1f} to {max(ratios):.1f}x its time, "
        f"{min(smaller):.1f} to {max(smaller):.1f}x its bytes",
        min(ratios) >= 1 and min(smaller) >= 1,
        ours=True,
    )


_QUICK = {"searches": 50_000, "rounds": 7, "most_constructs": 2**24}
_FULL = {"searches": 50_000, "rounds": 15, "most_constructs": 2**27}

FIGURES = (
    Figure(
        "acei-5",
        PAPER,
        "5a, b",
        "The domain, very sparse queries",
        "CEI does not fit the memory beyond R = 2^27; ACEI reaches 2^32. Search times differ by less than 0.1 µs.",
        against_domain,
        {"queries": 1000, "mean_width": 1024, "exponents": tuple(range(22, 33, 2)), "last": 27, **_QUICK},
        {"queries": 1000, "mean_width": 1024, "exponents": tuple(range(22, 33)), "last": 27, **_FULL},
    ),
    Figure(
        "acei-6",
        PAPER,
        "6a, b",
        "The domain, sparse queries",
        "CEI does not fit the memory beyond R = 2^26; ACEI reaches 2^32. Search times differ by less than 0.1 µs.",
        against_domain,
        {"queries": 100_000, "mean_width": 1024, "exponents": (20, 22, 24, 26, 28, 30), "last": 26, **_QUICK},
        {"queries": 100_000, "mean_width": 1024, "exponents": tuple(range(20, 33)), "last": 26, **_FULL},
    ),
    Figure(
        "acei-7",
        PAPER,
        "7a, b",
        "The number of queries",
        "ACEI is smaller while N is well below R; from 320,000 on the two are nearly equal. Search times differ by "
        "less than 0.1 µs.",
        against_queries,
        {"span": 2**20, "mean_width": 256, "counts": (10_000, 20_000, 40_000, 80_000, 160_000, 320_000), **_QUICK},
        {
            "span": 2**20,
            "mean_width": 256,
            "counts": (10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000),
            **_FULL,
        },
    ),
)
