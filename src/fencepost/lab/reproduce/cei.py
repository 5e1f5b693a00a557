"""Figures 14 to 19 of the CEI paper (Wu, Chen, Yu 2006): pieces, storage and search time of UI, LCI, CEI, IS-lists."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fencepost.indexes import CEI, LCI, UI, ISList, SliceList
from fencepost.indexes.analysis import (
    Gamma,
    cei_constructs,
    cei_gamma,
    cei_lists_per_search,
    lci_constructs,
    lci_gamma,
    lci_lists_per_search,
    lci_smaller_than_cei_beyond,
    ui_constructs,
    ui_gamma,
    ui_lists_per_search,
)
from fencepost.indexes.contracts.intervals import IntervalIndex
from fencepost.lab import workloads
from fencepost.lab.reproduce.figure import Check, Curve, Figure, Finding, Outcome, Panel
from fencepost.lab.reproduce.intervals import OURS, Case, Point, Sweep, filled, measured, storage_panel, time_panel
from fencepost.lab.reproduce.pieces import cei_pieces, lci_pieces, sampling_error
from fencepost.lab.workloads import IntervalWorkload

PAPER = "Wu, Chen, Yu 2006 (CEI)"
LARGE, SMALL = 2**20, 2**16


def of_work(work: IntervalWorkload, name: str, length: int) -> IntervalIndex:
    """One structure of the paper, or ours, with the workload in it."""
    domain = (0, work.domain)
    made: dict[str, Callable[[], IntervalIndex]] = {
        "UI": lambda: UI(domain),
        "LCI": lambda: LCI(domain, length),
        "CEI": lambda: CEI(domain, length),
        "IS-list": ISList,
        OURS: lambda: SliceList("float64"),
    }
    return filled(made[name], work)


# Figure 14: pieces


def decomposed(span: int, queries: int, widest: int, lengths: Sequence[int]) -> Outcome:
    """Pieces of all queries against L: by simulation, by the closed form, and between the paper's bounds."""
    work = workloads.uniform(span, queries, widest, 1)
    ours = of_work(work, OURS, 1).storage().entries
    simulated: dict[str, list[float]] = {"LCI": [], "CEI": []}
    checks = []
    for length in lengths:
        expected = {
            "LCI": lci_pieces(work.his - work.los, length).sum(),
            "CEI": cei_pieces(work.los, work.his, length).sum(),
        }
        for name in simulated:
            entries = of_work(work, name, length).storage().entries
            simulated[name].append(entries)
            checks.append(Check(f"{name}, L = {length}: entries", entries, int(expected[name])))
            gamma = _gamma(name, length, widest).exact
            checks.append(Check(f"{name}, L = {length}: gamma", entries / queries, gamma, sampling_error(queries)))
    bounds = {name: [_gamma(name, length, widest) for length in lengths] for name in simulated}
    outside = [
        f"{name} at L = {length}"
        for name, counts in simulated.items()
        for length, entries, gamma in zip(lengths, counts, bounds[name], strict=True)
        if not gamma.lower * (1 - sampling_error(queries)) <= entries / queries
        or not entries / queries <= gamma.upper * (1 + sampling_error(queries))
    ]
    thousands = {name: [entries / 1e3 for entries in counts] for name, counts in simulated.items()}
    panels = [
        Panel(
            f"{name}: simulated between the bounds",
            "maximal length L, cells",
            "pieces of all queries, thousands",
            [
                Curve(name, lengths, thousands[name]),
                Curve("upper bound", lengths, [gamma.upper * queries / 1e3 for gamma in bounds[name]], "model"),
                Curve("exact", lengths, [gamma.exact * queries / 1e3 for gamma in bounds[name]], "model"),
                Curve("lower bound", lengths, [gamma.lower * queries / 1e3 for gamma in bounds[name]], "model"),
            ],
        )
        for name in ("CEI", "LCI")
    ]
    unit = [ui_gamma(widest).exact * queries / 1e3] * len(lengths)
    every = [
        Curve("UI", lengths, unit),
        Curve("CEI", lengths, thousands["CEI"]),
        Curve("LCI", lengths, thousands["LCI"]),
        Curve(OURS, lengths, [ours / 1e3] * len(lengths), "ours"),
    ]
    panels.append(Panel("all of them", "maximal length L, cells", "entries, thousands", every))
    least = min(one / other for one, other in zip(simulated["CEI"], simulated["LCI"], strict=True))
    fewer = unit[0] * 1e3 / simulated["CEI"][-1]
    return Outcome(
        panels,
        [
            Finding("The simulation lies within the bounds", ", ".join(outside) or "it does, for every L", not outside),
            Finding("UI has far more pieces than CEI and LCI", f"{fewer:.0f}x those of CEI, largest L", fewer > 5),
            Finding("CEI has more pieces than LCI", f"at least {least:.3f}x, every L", least > 1),
        ],
        checks,
    )


def _gamma(name: str, length: int, widest: int) -> Gamma:
    """Mean pieces of a query in one of the three structures."""
    if name == "UI":
        return ui_gamma(widest)
    return (lci_gamma if name == "LCI" else cei_gamma)(length, widest)


# What figures 15 to 19 have in common


def checks_of(sweep: Sweep, cases: Sequence[tuple[float, int, int, int, int]]) -> list[Check]:
    """Constructs, lists, pieces and model bytes of UI, LCI and CEI; a case is (x, span, queries, widest, length)."""
    checks = list(sweep.checks)
    for x, span, queries, widest, length in cases:
        closed = {
            "UI": (ui_constructs(span), ui_lists_per_search()),
            "LCI": (lci_constructs(length, span), lci_lists_per_search(length)),
            "CEI": (cei_constructs(length, span), cei_lists_per_search(length)),
        }
        for name, (constructs, lists) in closed.items():
            if name not in sweep.points:
                continue
            point = sweep.at(name, x)
            held, gamma = point.storage, _gamma(name, length, widest).exact
            where = f"{name} at {x:g}"
            checks += [
                Check(f"{where}: constructs", held.constructs, constructs),
                Check(f"{where}: lists per search", point.lists or 0, lists),
                Check(f"{where}: gamma", held.entries / queries, gamma, sampling_error(queries)),
                Check(f"{where}: model bytes", held.model_bytes, 4 * constructs + 8 * held.entries),
            ]
    return checks


def _model(point: Point) -> float:
    return point.storage.model_bytes / 1e6


def _slower(sweep: Sweep, name: str, other: str) -> list[float]:
    """How many times slower one structure is than another, place by place."""
    pairs = zip(sweep.points[name], sweep.points[other], strict=True)
    return [one.microseconds / two.microseconds for one, two in pairs]


def _faster_than_all(sweep: Sweep) -> Finding:
    """The extra curve beside the paper's."""
    fastest = [
        min(points[i].microseconds for name, points in sweep.points.items() if name != OURS)
        for i in range(len(sweep.points[OURS]))
    ]
    ratios = [best / ours.microseconds for best, ours in zip(fastest, sweep.points[OURS], strict=True)]
    slower = [f"{point.x:g}" for point, ratio in zip(sweep.points[OURS], ratios, strict=True) if ratio < 1]
    return Finding(
        "SliceList is the fastest of all",
        f"the best other takes {min(ratios):.1f} to {max(ratios):.1f}x its time",
        not slower,
        f"another is faster at {', '.join(slower)}" if slower else "",
        ours=True,
    )


# Figures 15 and 16: the maximal length


def against_length(span: int, queries: int, widest: int, lengths: Sequence[int], searches: int, rounds: int) -> Outcome:
    """Storage and search time of UI, LCI and CEI against L."""
    work = workloads.uniform(span, queries, widest, searches)
    fixed = {name: of_work(work, name, 1) for name in ("UI", OURS)}

    def cases() -> Iterator[Case]:
        for length in lengths:
            yield Case(
                length,
                work,
                {
                    "UI": lambda: fixed["UI"],
                    "LCI": partial(of_work, work, "LCI", length),
                    "CEI": partial(of_work, work, "CEI", length),
                    OURS: lambda: fixed[OURS],
                },
            )

    sweep = measured(cases(), rounds=rounds)
    checks = checks_of(sweep, [(length, span, queries, widest, length) for length in lengths])
    lci, cei, ui = (sweep.points[name] for name in ("LCI", "CEI", "UI"))
    smallest = min(lci, key=_model)
    rise = _model(lci[-1]) / _model(smallest)
    enough = 1 << (widest.bit_length() - 1)
    falls = [_model(point) for point in cei if point.x <= enough]
    after = _model(cei[-1]) / falls[-1]
    steep = {name: points[-1].microseconds / points[0].microseconds for name, points in (("LCI", lci), ("CEI", cei))}
    unit = max(_slower(sweep, "UI", "CEI"))
    larger = [int(point.x) for point, other in zip(cei, lci, strict=True) if _model(point) > _model(other)]
    beyond = max((lci_smaller_than_cei_beyond(length, widest, span) for length in larger), default=0)
    large = span >= queries
    rises = (
        Finding(
            "LCI's storage falls, then rises with L",
            f"least at L = {smallest.x:g}, {rise:.2f}x that at L = {lengths[-1]}",
            smallest.x not in (lengths[0], lengths[-1]) and rise > 1.1,
        )
        if large
        else Finding("LCI's storage does not rise notably", f"{rise:.2f}x its least at the largest L", rise < 1.2)
    )
    return Outcome(
        [
            storage_panel(sweep, "a: storage", "maximal length L, cells"),
            time_panel(sweep, "b: search, ids reported", "maximal length L, cells"),
        ],
        [
            Finding(
                "UI is the fastest of the three, the biggest, and flat",
                f"at most {unit:.2f}x CEI's time; {_model(ui[0]) / _model(cei[-1]):.0f}x its storage",
                unit <= 1.1 and _model(ui[0]) > max(map(_model, cei)),
                ""
                if unit <= 1.1
                else "its lists take many times CEI's memory, and no cache of the paper's time held either",
            ),
            rises,
            Finding(
                "CEI's storage falls with L",
                f"{falls[0]:.2f} to {falls[-1]:.2f} MB up to L = {enough}, then {after:.4f}x",
                falls == sorted(falls, reverse=True),
                f"beyond L = 2^floor(log2 W) = {enough} gamma is constant and only the constructs grow",
            ),
            Finding(
                "LCI's time rises steeply with L, CEI's slightly",
                f"LCI {steep['LCI']:.1f}x, CEI {steep['CEI']:.1f}x from L = {lengths[0]} to {lengths[-1]}",
                steep["LCI"] > 2 * steep["CEI"],
            ),
            Finding(
                "CEI is smaller than LCI",
                f"it is larger at L = {', '.join(map(str, larger))}" if larger else "at every L",
                not larger,
                f"the paper's own model makes LCI the smaller at these L from n = {beyond:,.0f} on; n is {queries:,}"
                if larger
                else "",
            ),
            _faster_than_all(sweep),
        ],
        checks,
    )


# Figure 17: the widest query


def against_width(span: int, queries: int, widths: Sequence[int], length: int, searches: int, rounds: int) -> Outcome:
    """Storage and search time of all four structures against W."""

    def cases() -> Iterator[Case]:
        for widest in widths:
            work = workloads.uniform(span, queries, widest, searches)
            yield Case(widest, work, _four(work, length))

    sweep = measured(cases(), rounds=rounds)
    checks = checks_of(sweep, [(widest, span, queries, widest, length) for widest in widths])
    slower = _slower(sweep, "IS-list", "CEI")
    least = {name: min(_slower(sweep, "IS-list", name)) for name in ("UI", "LCI", "CEI")}
    first, last = ({name: points[i] for name, points in sweep.points.items()} for i in (0, -1))
    bigger = [
        _model(skip) / max(_model(one), _model(other))
        for skip, one, other in zip(*(sweep.points[name] for name in ("IS-list", "LCI", "CEI")), strict=True)
    ]
    near = slower[0] >= 10
    return Outcome(
        [
            storage_panel(sweep, "a: storage", "widest query W, cells"),
            time_panel(sweep, "b: search, ids reported", "widest query W, cells"),
        ],
        [
            Finding(
                f"A search in CEI takes about 1/20 of one in the IS-list at W = {widths[0]}",
                f"1/{slower[0]:.1f} there, 1/{slower[-1]:.1f} at W = {widths[-1]}",
                near,
                ""
                if near
                else "the IS-list here is compiled and its nodes are packed; on this machine walking it costs less",
            ),
            Finding(
                "All three are faster than the IS-list",
                ", ".join(f"{name} by at least {each:.1f}x" for name, each in least.items()),
                min(least.values()) > 1,
                ""
                if min(least.values()) > 1
                else f"LCI reads {lci_lists_per_search(length)} lists, about as dear as the walk",
            ),
            Finding(
                "The IS-list takes more storage than LCI and CEI",
                f"{min(bigger):.2f} to {max(bigger):.2f}x the larger of them",
                min(bigger) > 1,
            ),
            Finding(
                "The IS-list is smaller than UI at large W only",
                f"{_model(first['IS-list']) / _model(first['UI']):.2f}x at W = {widths[0]}, "
                f"{_model(last['IS-list']) / _model(last['UI']):.2f}x at W = {widths[-1]}",
                _model(first["IS-list"]) > _model(first["UI"]) and _model(last["IS-list"]) < _model(last["UI"]),
            ),
            _faster_than_all(sweep),
        ],
        checks,
    )


def _four(work: IntervalWorkload, length: int) -> dict[str, Callable[[], IntervalIndex]]:
    return {name: partial(of_work, work, name, length) for name in ("UI", "LCI", "CEI", "IS-list", OURS)}


def _all_faster(sweep: Sweep) -> bool:
    return all(min(_slower(sweep, "IS-list", name)) > 1 for name in ("UI", "LCI", "CEI"))


# Figures 18 and 19: the number of queries


def against_queries(span: int, counts: Sequence[int], widest: int, length: int, searches: int, rounds: int) -> Outcome:
    """Storage and search time of all four structures against n."""

    def cases() -> Iterator[Case]:
        for queries in counts:
            work = workloads.uniform(span, queries, widest, searches)
            yield Case(queries, work, _four(work, length))

    sweep = measured(cases(), rounds=rounds)
    checks = checks_of(sweep, [(queries, span, queries, widest, length) for queries in counts])
    close, skipping = _slower(sweep, "CEI", "UI"), _slower(sweep, "IS-list", "LCI")
    smallest = [
        queries
        for i, queries in enumerate(counts)
        if _model(sweep.points["IS-list"][i]) < min(_model(sweep.points[name][i]) for name in ("UI", "LCI", "CEI"))
    ]
    beyond = lci_smaller_than_cei_beyond(length, widest, span)
    lci_wins = [n for i, n in enumerate(counts) if _model(sweep.points["LCI"][i]) < _model(sweep.points["CEI"][i])]
    checks += [Check("LCI smaller than CEI beyond n*", len(lci_wins), sum(n > beyond for n in counts))]
    large = span > SMALL
    advantage = (
        Finding(
            "The IS-list has the least storage for small n only",
            f"the least at n = {', '.join(f'{n:,}' for n in smallest) or 'none'}",
            bool(smallest) and smallest == list(counts[: len(smallest)]) and len(smallest) < len(counts),
        )
        if large
        else Finding(
            "The IS-list's advantage in storage is gone",
            f"it is the least at n = {', '.join(f'{n:,}' for n in smallest) or 'none'}",
            not smallest,
        )
    )
    findings = [
        Finding(
            "CEI's time is close to UI's",
            f"{min(close):.2f} to {max(close):.2f}x",
            max(close) <= 2,
            "" if max(close) <= 2 else f"CEI reads {cei_lists_per_search(length)} lists, UI one",
        ),
        Finding(
            "The IS-list is the slowest",
            f"{min(skipping):.1f} to {max(skipping):.1f}x LCI's time, "
            f"at least {min(_slower(sweep, 'IS-list', 'CEI')):.1f}x CEI's",
            _all_faster(sweep),
            "" if _all_faster(sweep) else f"LCI reads {lci_lists_per_search(length)} lists, about as dear as the walk",
        ),
        advantage,
    ]
    if not large:
        findings.append(
            Finding(
                "CEI is the best overall: also smaller than LCI",
                f"LCI is the smaller at n = {', '.join(f'{n:,}' for n in lci_wins) or 'none'}",
                not lci_wins,
                f"the paper's own model says so for n > {beyond:,.0f}",
            )
        )
    largest = {name: points[-1] for name, points in sweep.points.items()}
    return Outcome(
        [
            storage_panel(sweep, "a: storage", "queries n"),
            time_panel(sweep, "b: search, ids reported", "queries n"),
        ],
        [*findings, _faster_than_all(sweep)],
        checks,
        notes=[
            f"The paper's machine ran out of memory with UI and the IS-list at the largest n. At n = {counts[-1]:,} "
            f"the model says {_model(largest['UI']):,.0f} and {_model(largest['IS-list']):,.0f} MB, which fit here."
        ],
    )


_LENGTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_ONE = {"queries": 100_000, "widest": 200, "lengths": _LENGTHS}
_SEARCHES = {"searches": 50_000, "rounds": 7}
_MORE_SEARCHES = {"searches": 50_000, "rounds": 15}
_FEW, _MANY = (5_000, 20_000, 80_000, 160_000), (5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000)
_BY_LENGTH = (
    "UI is the fastest, the biggest and flat. LCI's search time rises steeply with L, CEI's slightly. "
    "CEI's storage falls with L. CEI beats LCI in storage and time. "
)
_BY_QUERIES = "CEI's search time is close to UI's; the IS-list is the slowest. "

FIGURES = (
    Figure(
        "cei-14",
        PAPER,
        "14a, b, c",
        "Pieces that queries are cut into",
        "The simulation lies within the bounds. UI has far more pieces than CEI, and CEI more than LCI.",
        decomposed,
        {"span": LARGE, **_ONE, "lengths": _LENGTHS[:7]},
        {"span": LARGE, **_ONE, "lengths": _LENGTHS[:7]},
    ),
    Figure(
        "cei-15",
        PAPER,
        "15a, b",
        "The maximal length L, large domain",
        _BY_LENGTH + "With a large domain LCI's storage falls, then rises.",
        against_length,
        {"span": LARGE, **_ONE, **_SEARCHES},
        {"span": LARGE, **_ONE, **_MORE_SEARCHES},
    ),
    Figure(
        "cei-16",
        PAPER,
        "16a, b",
        "The maximal length L, small domain",
        _BY_LENGTH + "With a small domain LCI's storage does not rise notably.",
        against_length,
        {"span": SMALL, **_ONE, **_SEARCHES},
        {"span": SMALL, **_ONE, **_MORE_SEARCHES},
    ),
    Figure(
        "cei-17",
        PAPER,
        "17a, b",
        "The widest query W",
        "At W = 10 CEI takes 1/20 of the IS-list's search time; all three beat it. The IS-list takes more storage than "
        "LCI and CEI, and less than UI only at large W.",
        against_width,
        {"span": SMALL, "queries": 50_000, "widths": (10, 20, 40, 80, 160, 320), "length": 16, **_SEARCHES},
        {"span": SMALL, "queries": 50_000, "widths": (10, 20, 40, 80, 160, 320), "length": 16, **_MORE_SEARCHES},
    ),
    Figure(
        "cei-18",
        PAPER,
        "18a, b",
        "The number of queries, large domain",
        _BY_QUERIES + "The IS-list has the least storage for small n only.",
        against_queries,
        {"span": LARGE, "counts": _FEW, "widest": 200, "length": 16, **_SEARCHES},
        {"span": LARGE, "counts": _MANY, "widest": 200, "length": 16, **_MORE_SEARCHES},
    ),
    Figure(
        "cei-19",
        PAPER,
        "19a, b",
        "The number of queries, small domain",
        _BY_QUERIES + "The IS-list's advantage in storage is gone; CEI is the best overall.",
        against_queries,
        {"span": SMALL, "counts": _FEW, "widest": 200, "length": 16, **_SEARCHES},
        {"span": SMALL, "counts": _MANY, "widest": 200, "length": 16, **_MORE_SEARCHES},
    ),
)
