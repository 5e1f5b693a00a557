"""Figures 6 to 9 of the BMQ-Index paper (Lee et al.): search efficiency, search time and storage of BMQ and DiffRMQ."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fencepost.indexes import BMQ, CEI, Borders, DiffRMQ, ISList, Storage
from fencepost.indexes.analysis import (
    StepLaw,
    bmq_deltas_per_row,
    bmq_efficiency,
    cei_constructs,
    cei_lists_per_search,
    diff_efficiency,
)
from fencepost.lab import workloads
from fencepost.lab.reproduce.figure import Check, Curve, Figure, Finding, Outcome, Panel
from fencepost.lab.reproduce.timing import computing, interleaved

PAPER = "Lee et al. (BMQ-Index)"
DOMAIN = 1_000_000
OURS = "Borders"
BY_CEI, BY_SKIP_LIST = "DiffRMQ(CEI)", "DiffRMQ(IS-list)"


class Place(NamedTuple):
    """One place of a sweep; width and fluctuation (the mean step) are shares of the domain."""

    queries: int
    width: float
    fluctuation: float


class Watched(NamedTuple):
    """What was measured at a place: microseconds per row, search efficiency of BMQ and DiffRMQ."""

    microseconds: dict[str, float]
    efficiency: dict[str, float]


def nearest_length(width: float) -> int:
    """The power of two that is nearest to the width of the queries, for CEI's L, which the paper does not give."""
    return int(2 ** round(np.log2(width * DOMAIN)))


def watched(place: Place, law: StepLaw, objects: int, ticks: int, rounds: int) -> tuple[Watched, list[Check]]:
    """Move the objects through every structure; times only where rounds are asked for."""
    work = workloads.moves(place.queries, place.width, place.fluctuation, objects, ticks, law, float(DOMAIN))
    rows, names = work.values.ravel(), work.objects
    indexes: dict[str, Any] = {
        "BMQ": BMQ(),
        BY_CEI: DiffRMQ(CEI((0, DOMAIN), nearest_length(place.width))),
        BY_SKIP_LIST: DiffRMQ(ISList()),
        OURS: Borders(),
    }
    if not rounds:
        del indexes[BY_SKIP_LIST], indexes[OURS]
    found = {}
    for name, index in indexes.items():
        index.insert_many(np.arange(place.queries), work.los, work.his)
        index.update(names[:objects], rows[:objects])
        if name == "BMQ":
            before = index.touched
        elif isinstance(index, DiffRMQ):
            index.intermediate = index.reported = 0
        found[name] = index.update(names[objects:], rows[objects:])
    after, diff = indexes["BMQ"].touched, indexes[BY_CEI]
    moved = len(rows) - objects
    deltas = (after.deltas - before.deltas) / moved
    efficiency = {
        "BMQ": (after.reported - before.reported) / max(1, after.deltas - before.deltas),
        "DiffRMQ": diff.reported / max(1, diff.intermediate),
    }
    where = f"n = {place.queries:,}, W = {place.width:.3%}, FL = {place.fluctuation:.3%}, {law} steps"
    expected = bmq_deltas_per_row(place.queries, place.fluctuation)
    within = 0.03 + 5 / np.sqrt(objects * np.sqrt(ticks) * expected).item()  # an object sees sqrt(ticks) places
    checks = [
        Check(f"{where}: delta queries per row", deltas, expected, within),
        Check(f"{where}: SE of BMQ", efficiency["BMQ"], bmq_efficiency(place.fluctuation, place.width, law), within),
        Check(
            f"{where}: SE of DiffRMQ",
            efficiency["DiffRMQ"],
            diff_efficiency(place.fluctuation, place.width, law),
            within,
        ),
    ]
    for name, answer in found.items():
        for kind in ("enter", "exit"):
            wrong = int(np.count_nonzero(getattr(answer, kind).offsets != getattr(found["BMQ"], kind).offsets))
            checks.append(Check(f"{where}: rows whose {kind} differs between {name} and BMQ", wrong, 0))
    microseconds: dict[str, float] = {}
    if rounds:
        contest = {name: partial(index.update, names, rows) for name, index in indexes.items()}
        contest[OURS] = partial(indexes[OURS].update, names, rows, cross=False)
        taken = interleaved(contest, rounds, computing)
        microseconds = {name: seconds / len(rows) * 1e6 for name, seconds in taken.items()}
    return Watched(microseconds, efficiency), checks


class Sweep(NamedTuple):
    """All places under the first step law with times, and their efficiency under every law."""

    xs: list[float]
    seen: dict[StepLaw, list[Watched]]
    checks: list[Check]

    def times(self, name: str) -> list[float]:
        """Microseconds per row."""
        return [each.microseconds[name] for each in next(iter(self.seen.values()))]

    def efficiency(self, name: str, law: StepLaw) -> list[float]:
        """Search efficiency in percent."""
        return [100 * each.efficiency[name] for each in self.seen[law]]

    def panels(self, x_label: str) -> list[Panel]:
        """Efficiency and time."""
        efficiency = [
            Curve(f"{name}, {law}", self.xs, self.efficiency(name, law))
            for law in self.seen
            for name in ("BMQ", "DiffRMQ")
        ]
        times = [
            Curve(name, self.xs, self.times(name), "ours" if name == OURS else "paper")
            for name in ("BMQ", BY_CEI, BY_SKIP_LIST, OURS)
        ]
        law = next(iter(self.seen))
        return [
            Panel(
                "a: search efficiency, by step law", x_label, "reported of all looked at, %", efficiency, log_y=False
            ),
            Panel(f"b: search, {law} steps", x_label, "CPU time per row, µs", times, ratio_to=OURS),
        ]


def swept(
    places: Sequence[Place], xs: list[float], laws: Sequence[StepLaw], objects: int, ticks: int, rounds: int
) -> Sweep:
    """Measure all places under all step laws; times under the first."""
    sweep = Sweep(xs, {law: [] for law in laws}, [])
    for place in places:
        for position, law in enumerate(laws):
            seen, checks = watched(place, law, objects, ticks, rounds if position == 0 else 0)
            sweep.seen[law].append(seen)
            sweep.checks.extend(checks)
    return sweep


def _ratios(sweep: Sweep, name: str, other: str) -> list[float]:
    return [one / two for one, two in zip(sweep.times(name), sweep.times(other), strict=True)]


def _ours(sweep: Sweep) -> Finding:
    ratios = _ratios(sweep, "BMQ", OURS)
    return Finding(
        "Borders is faster than BMQ",
        f"BMQ takes {min(ratios):.1f} to {max(ratios):.1f}x its time",
        min(ratios) > 1,
        ours=True,
    )


def against_queries(
    counts: Sequence[int],
    width: float,
    fluctuation: float,
    laws: Sequence[StepLaw],
    objects: int,
    ticks: int,
    rounds: int,
) -> Outcome:
    """Figure 6."""
    places = [Place(queries, width, fluctuation) for queries in counts]
    sweep = swept(places, list(counts), laws, objects, ticks, rounds)
    bmq, diff = sweep.efficiency("BMQ", laws[0]), sweep.efficiency("DiffRMQ", laws[0])
    ratios = _ratios(sweep, BY_CEI, "BMQ") + _ratios(sweep, BY_SKIP_LIST, "BMQ")
    growth = sweep.times("BMQ")[-1] / sweep.times("BMQ")[0]
    more = counts[-1] / counts[0]
    return Outcome(
        sweep.panels("queries N"),
        [
            Finding("BMQ's search efficiency is 100%", f"{min(bmq):.1f}% at least", min(bmq) > 99),
            Finding("DiffRMQ's is far lower", f"{min(diff):.1f} to {max(diff):.1f}%", max(diff) < 20),
            Finding("BMQ is much faster", f"DiffRMQ takes {min(ratios):.1f} to {max(ratios):.1f}x", min(ratios) > 2),
            Finding(
                "BMQ's time grows slightly with N",
                f"{growth:.1f}x for {more:.0f}x the queries",
                growth < more / 2,
                "" if growth < more / 2 else "it walks over 2 N FL borders per row and reports all of them",
            ),
            _ours(sweep),
        ],
        sweep.checks,
        notes=[
            "The step law is not given; steps are constant here, the law under which the paper's 100% are possible."
        ],
    )


def against_width(
    queries: int,
    widths: Sequence[float],
    fluctuation: float,
    laws: Sequence[StepLaw],
    objects: int,
    ticks: int,
    rounds: int,
) -> Outcome:
    """Figure 7."""
    places = [Place(queries, width, fluctuation) for width in widths]
    sweep = swept(places, [100 * width for width in widths], laws, objects, ticks, rounds)
    constant = sweep.efficiency("BMQ", laws[0])
    diff = sweep.efficiency("DiffRMQ", laws[0])
    other = sweep.efficiency("BMQ", laws[-1])
    times = sweep.times("BMQ")
    rising = sweep.times(BY_CEI)[-1] / sweep.times(BY_CEI)[0]
    return Outcome(
        sweep.panels("width W of the queries, % of the domain"),
        [
            Finding(
                "BMQ's search efficiency is about 100% at every W",
                f"{min(constant):.0f}% at least with {laws[0]} steps, {other[0]:.0f}% at W = FL with {laws[-1]} ones",
                min(constant) > 97,
                "only steps that never exceed the width make it so: efficiency depends on FL / W and the step law",
            ),
            Finding(
                "DiffRMQ's falls as W grows", f"{diff[0]:.0f} to {diff[-1]:.0f}%", diff == sorted(diff, reverse=True)
            ),
            Finding(
                "BMQ's time is constant, DiffRMQ's rises",
                f"BMQ {max(times) / min(times):.2f}x between its extremes, DiffRMQ(CEI) {rising:.1f}x",
                max(times) / min(times) < 1.5 and rising > 1.5,
            ),
            _ours(sweep),
        ],
        sweep.checks,
        notes=[_SAME_POINT],
    )


_SAME_POINT = (
    "The leftmost point of figure 7 and the rightmost of figure 8 have the same FL / W = 1, hence the same efficiency; "
    "the paper says almost 100% in the one and a slow decrease in the other. Both step laws are drawn: constant steps "
    "give the one, exponential steps the other."
)


def against_steps(
    queries: int,
    width: float,
    fluctuations: Sequence[float],
    laws: Sequence[StepLaw],
    objects: int,
    ticks: int,
    rounds: int,
) -> Outcome:
    """Figure 8."""
    places = [Place(queries, width, fluctuation) for fluctuation in fluctuations]
    sweep = swept(places, [100 * each for each in fluctuations], laws, objects, ticks, rounds)
    falling = sweep.efficiency("BMQ", laws[-1])
    constant = sweep.efficiency("BMQ", laws[0])
    diff = sweep.efficiency("DiffRMQ", laws[0])
    gap = abs(sweep.efficiency("BMQ", laws[0])[-1] - diff[-1])
    last = _ratios(sweep, "BMQ", BY_CEI)[-1]
    return Outcome(
        sweep.panels("mean step FL, % of the domain"),
        [
            Finding(
                "BMQ's search efficiency falls slowly as FL grows",
                f"{falling[0]:.0f} to {falling[-1]:.0f}% with {laws[-1]} steps, {constant[0]:.0f} to "
                f"{constant[-1]:.0f}% with {laws[0]} ones",
                falling[-1] < falling[0] - 2,
                "not with constant steps, the law that figure 7 needs",
            ),
            Finding("DiffRMQ's rises", f"{diff[0]:.0f} to {diff[-1]:.0f}%", diff == sorted(diff)),
            Finding("The two are equal at FL = W", f"{gap:.1f} points apart", gap < 5),
            Finding(
                "There BMQ is slightly slower than DiffRMQ",
                f"it takes {last:.2f}x the time of DiffRMQ(CEI)",
                1 <= last < 2,
                ""
                if 1 <= last < 2
                else "two searches and a set difference still cost more than the walk"
                if last < 1
                else "the walk over single borders costs more than slightly",
            ),
            _ours(sweep),
        ],
        sweep.checks,
        notes=[_SAME_POINT],
    )


# Figure 9: storage


def stored(queries: int, width: float, objects: int, lengths: Sequence[int]) -> dict[str, Storage]:
    """What each structure holds; CEI with several L, as the paper gives none."""
    work = workloads.moves(queries, width, 0.0001, objects, 1, "constant", float(DOMAIN))
    indexes: dict[str, Any] = {
        "BMQ": BMQ(),
        BY_SKIP_LIST: DiffRMQ(ISList()),
        **{f"DiffRMQ(CEI), L = {length}": DiffRMQ(CEI((0, DOMAIN), length)) for length in lengths},
        OURS: Borders(),
    }
    for index in indexes.values():
        index.insert_many(np.arange(queries), work.los, work.his)
    indexes["BMQ"].update(work.objects, work.values.ravel())
    return {name: index.storage() for name, index in indexes.items()}


def storage(
    counts: Sequence[int], width: float, queries: int, widths: Sequence[float], objects: int, lengths: Sequence[int]
) -> Outcome:
    """Figure 9."""
    checks = []
    by_count = [stored(each, width, objects, lengths) for each in counts]
    by_width = [stored(queries, each, objects, lengths) for each in widths]
    if counts[-1] == queries:
        by_width, widths = [*by_width, by_count[-1]], [*widths, width]
    for held, n in [*zip(by_count, counts, strict=True), *((each, queries) for each in by_width)]:
        checks.append(Check(f"BMQ, n = {n:,}: entries", held["BMQ"].entries, 2 * n))
        checks.append(
            Check(
                f"BMQ, n = {n:,}: model bytes",
                held["BMQ"].model_bytes,
                8 * (held["BMQ"].constructs + 2 * n + objects),
            )
        )
        for length in lengths:
            constructs = held[f"DiffRMQ(CEI), L = {length}"].constructs
            checks.append(Check(f"CEI, L = {length}: constructs", constructs, cei_constructs(length, DOMAIN)))
    names = list(by_count[0])

    def curves(held: list[dict[str, Storage]], xs: Sequence[float]) -> list[Curve]:
        return [
            Curve(
                f"{name}, real bytes" if name == OURS else name,
                xs,
                [(each[name].nbytes if name == OURS else each[name].model_bytes) / 1e6 for each in held],
                "ours" if name == OURS else "paper",
            )
            for name in names
        ]

    def model(held: list[dict[str, Storage]], name: str) -> list[int]:
        return [each[name].model_bytes for each in held]

    others = [name for name in names if name not in ("BMQ", OURS)]
    least = all(
        each["BMQ"].model_bytes < min(each[name].model_bytes for name in others) for each in by_count + by_width
    )
    flat = max(model(by_width, "BMQ")) / min(model(by_width, "BMQ"))
    rises = {
        length: model(by_width, f"DiffRMQ(CEI), L = {length}")[-1] / model(by_width, f"DiffRMQ(CEI), L = {length}")[0]
        for length in lengths
    }
    most = {
        length: by_count[-1][f"DiffRMQ(CEI), L = {length}"].model_bytes / by_count[-1][BY_SKIP_LIST].model_bytes
        for length in lengths
    }
    return Outcome(
        [
            Panel("a: against the number of queries", "queries N", "storage, MB", curves(by_count, counts)),
            Panel(
                "b: against their width",
                "width W, % of the domain",
                "storage, MB",
                curves(by_width, [100 * each for each in widths]),
            ),
        ],
        [
            Finding("BMQ takes the least", "at every place" if least else "not everywhere", least),
            Finding("It does not depend on W", f"{flat:.3f}x between its extremes", flat < 1.01),
            Finding(
                "CEI takes the most",
                ", ".join(f"{each:.1f}x the IS-list at L = {length}" for length, each in most.items()),
                min(most.values()) > 1,
                "" if min(most.values()) > 1 else "it depends on L, which the paper does not give",
            ),
            Finding(
                "CEI's grows quickly with W",
                ", ".join(f"{each:.2f}x at L = {length}" for length, each in rises.items()),
                min(rises.values()) > 2,
                "" if min(rises.values()) > 2 else "with L >= W a query has O(log W) pieces, not one per grid cell",
            ),
        ],
        checks,
        notes=[
            f"A search in CEI reads {', '.join(str(cei_lists_per_search(each)) for each in lengths)} lists at these L."
        ],
    )


_WIDTHS = (0.0001, 0.0002, 0.0004, 0.0006, 0.0008, 0.001)
_LAWS = ("constant", "exponential")
_QUICK = {"objects": 200, "ticks": 51, "rounds": 5}  # few objects: BMQ walks all regions for the first row of each
_FULL = {"objects": 2000, "ticks": 1000, "rounds": 3}
_TEN = tuple(range(10_000, 100_001, 10_000))

FIGURES = (
    Figure(
        "bmq-6",
        PAPER,
        "6a, b",
        "The number of queries",
        "BMQ's search efficiency is 100%, DiffRMQ's far lower; BMQ is much faster, and its time grows slightly.",
        against_queries,
        {
            "counts": (10_000, 25_000, 50_000, 100_000),
            "width": 0.001,
            "fluctuation": 0.0001,
            "laws": _LAWS[:1],
            **_QUICK,
        },
        {"counts": _TEN, "width": 0.001, "fluctuation": 0.0001, "laws": _LAWS[:1], **_FULL},
    ),
    Figure(
        "bmq-7",
        PAPER,
        "7a, b",
        "The width of the queries",
        "BMQ's search efficiency stays almost 100%, its time constant; DiffRMQ's efficiency falls, its time rises.",
        against_width,
        {"queries": 100_000, "widths": (0.0001, 0.0003, 0.001), "fluctuation": 0.0001, "laws": _LAWS, **_QUICK},
        {"queries": 100_000, "widths": _WIDTHS, "fluctuation": 0.0001, "laws": _LAWS, **_FULL},
    ),
    Figure(
        "bmq-8",
        PAPER,
        "8a, b",
        "The length of the steps",
        "BMQ's search efficiency falls slowly, DiffRMQ's rises; equal at FL = W, where BMQ is slightly slower.",
        against_steps,
        {"queries": 100_000, "width": 0.001, "fluctuations": (0.0001, 0.0003, 0.001), "laws": _LAWS, **_QUICK},
        {"queries": 100_000, "width": 0.001, "fluctuations": _WIDTHS, "laws": _LAWS, **_FULL},
    ),
    Figure(
        "bmq-9",
        PAPER,
        "9a, b",
        "Storage",
        "BMQ takes the least, whatever W is; CEI the most, growing quickly with W; the IS-list is between.",
        storage,
        {
            "counts": (10_000, 30_000, 100_000),
            "width": 0.001,
            "queries": 100_000,
            "widths": (0.0001, 0.0003),
            "objects": 100,
            "lengths": (16, 1024),
        },
        {
            "counts": _TEN,
            "width": 0.001,
            "queries": 100_000,
            "widths": _WIDTHS[:-1],
            "objects": 2000,
            "lengths": (16, 128, 1024),
        },
    ),
)
