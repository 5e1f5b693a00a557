"""Our own experiments in the form of the papers' figures: churn, bytes per rule, scaling in rules and in matches."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fencepost.indexes import (
    ACEI,
    BMQ,
    CEI,
    SSI,
    Borders,
    BoxIndex,
    ISList,
    Linear,
    LinearBoxes,
    Matches,
    RTree,
    SliceList,
)
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.lab import workloads
from fencepost.lab.reproduce.figure import Check, Curve, Figure, Finding, Kind, Outcome, Panel
from fencepost.lab.reproduce.timing import computing, interleaved
from fencepost.lab.workloads import IntervalWorkload

PAPER = "fencepost"
PRODUCTION = ("SliceList", "BoxIndex", "Borders", "SSI")


def _kind(name: str) -> Kind:
    return "ours" if name in PRODUCTION else "paper"


# Rule changes against lookups


class Mixed(NamedTuple):
    """One structure under one mix of lookups and changes."""

    lookups_per_second: float
    change_microseconds: float


def mixed(indexes: Mapping[str, Any], work: IntervalWorkload, changes: int, batches: int) -> dict[str, Mixed]:
    """Batches of lookups, each after changes: half of them remove the oldest rules, half add new ones.

    The structures take turns, so that noise hits all alike.
    """
    half = changes // 2
    values = work.values.astype(np.float64)
    for index in indexes.values():
        index.insert_many(work.ids, work.los, work.his)
        index.stab(values)

    def change(index: Any, batch: int) -> None:
        gone = np.arange(batch * half, (batch + 1) * half)
        index.remove_many(gone)
        index.insert_many(gone + len(work.los), work.los[gone % len(work.los)], work.his[gone % len(work.los)])

    asking: dict[str, float] = dict.fromkeys(indexes, 0.0)
    changing: dict[str, float] = dict.fromkeys(indexes, 0.0)
    for batch in range(batches + 1):
        for name, index in indexes.items():
            changed = computing(partial(change, index, batch)) if half else 0.0
            asked = computing(partial(index.stab, values))
            if batch > 0:
                changing[name] += changed
                asking[name] += asked
    return {
        name: Mixed(
            batches * len(values) / (asking[name] + changing[name]), changing[name] / max(1, batches * 2 * half) * 1e6
        )
        for name in indexes
    }


def churn(queries: int, searches: int, changes: Sequence[int], batches: int) -> Outcome:
    """Lookups per second, changes included, against changes per 1,000 lookups."""
    span, widest = 2**20, 200
    work = workloads.uniform(span, queries, widest, searches)
    made: dict[str, Callable[[], Any]] = {
        "SliceList": lambda: SliceList("float64"),
        "CEI": lambda: CEI((0, span), 16),
        "IS-list": ISList,
    }
    first = {name: make() for name, make in made.items()}
    mixed(first, work, changes[-1], batches)  # before anything is timed: a first run compiles
    checks = [Check(f"{name}: rules more than were left", len(index) - queries, 0) for name, index in first.items()]
    runs = [mixed({name: make() for name, make in made.items()}, work, count, batches) for count in (0, *changes)]
    found = {name: [run[name] for run in runs] for name in made}
    xs = [count / searches * 1000 for count in changes]
    kept = {
        name: [each.lookups_per_second / points[0].lookups_per_second for each in points[1:]]
        for name, points in found.items()
    }
    fastest = [
        xs[i]
        for i in range(len(xs))
        if found["SliceList"][i + 1].lookups_per_second
        < max(points[i + 1].lookups_per_second for points in found.values())
    ]
    middle = len(xs) // 2
    return Outcome(
        [
            Panel(
                "lookups while rules change, time of changes included",
                "rule changes per 1,000 lookups",
                "million lookups per second",
                [
                    Curve(name, xs, [each.lookups_per_second / 1e6 for each in points[1:]], _kind(name))
                    for name, points in found.items()
                ],
                ratio_to="SliceList",
            ),
            Panel(
                "a change, in batches",
                "rule changes per 1,000 lookups",
                "CPU time per change, µs",
                [
                    Curve(name, xs, [each.change_microseconds for each in points[1:]], _kind(name))
                    for name, points in found.items()
                ],
                ratio_to="SliceList",
            ),
        ],
        [
            Finding(
                f"SliceList keeps half of its speed at {xs[middle]:g} changes per 1,000 lookups",
                f"{kept['SliceList'][middle]:.0%} of {found['SliceList'][0].lookups_per_second / 1e6:.1f} M/s; CEI "
                f"{kept['CEI'][middle]:.0%} of {found['CEI'][0].lookups_per_second / 1e6:.1f} M/s",
                kept["SliceList"][middle] >= 0.5,
            ),
            Finding(
                "It is the fastest at every mix",
                f"overtaken at {', '.join(f'{x:g}' for x in fastest)} changes per 1,000 lookups"
                if fastest
                else "it is",
                not fastest,
                f"a call costs SliceList at least {found['SliceList'][1].change_microseconds * changes[0]:,.0f} µs, "
                "however few rules it changes"
                if fastest
                else "",
            ),
            Finding(
                f"In batches of {changes[-1]:,} a change costs it the least",
                ", ".join(f"{name} {points[-1].change_microseconds:.2f} µs" for name, points in found.items()),
                min(found, key=lambda name: found[name][-1].change_microseconds) == "SliceList",
            ),
        ],
        checks,
    )


# Bytes per rule


def bytes_per_rule(counts: Sequence[int], objects: int) -> Outcome:
    """Real bytes of the arrays per rule, against the number of rules."""
    families: dict[str, dict[str, list[float]]] = {"intervals": {}, "boxes": {}, "borders and bands": {}}

    def note(family: str, name: str, index: Any, n: int) -> None:
        families[family].setdefault(name, []).append(index.storage().nbytes / n)

    for n in counts:
        work = workloads.uniform(2**20, n, 200, 1)
        intervals = {
            "SliceList": SliceList(),
            "CEI": CEI((0, 2**20), 16),
            "ACEI": ACEI.tuned((0, 2**20), n, 100),
            "IS-list": ISList(),
        }
        for name, index in intervals.items():
            index.insert_many(work.ids, work.los, work.his)
            note("intervals", name, index, n)
        plane = workloads.plane("equal", n, 1, 10)
        for name, boxes in {"BoxIndex": BoxIndex(2), "R-tree": RTree(2, packed=True)}.items():
            boxes.insert_many(plane.ids, plane.los, plane.his)
            note("boxes", name, boxes, n)
        moved = workloads.moves(n, 20 / n, 0.5 / n, objects, 2)
        for name, borders in {"Borders": Borders(), "BMQ": BMQ()}.items():
            borders.insert_many(np.arange(n), moved.los, moved.his)
            note("borders and bands", name, borders, n)
        joined = workloads.hotspots(n, n, 10, 10, 1)
        bands = SSI()
        joined.load(bands)
        families["borders and bands"].setdefault("SSI, a row or query", []).append(bands.storage().nbytes / (3 * n))
    most = {
        name: families[family][name][-1]
        for family, name in (("intervals", "SliceList"), ("boxes", "BoxIndex"), ("borders and bands", "Borders"))
    }
    limits = {"SliceList": 64, "BoxIndex": 64, "Borders": 40}
    return Outcome(
        [
            Panel(
                family,
                "rules",
                "real bytes per rule",
                [
                    Curve(name, counts, values, "ours" if name.split(",")[0] in PRODUCTION else "paper")
                    for name, values in curves.items()
                ],
            )
            for family, curves in families.items()
        ],
        [
            Finding(
                f"{name} takes at most {limit} bytes per rule",
                f"{most[name]:.0f} bytes at {counts[-1]:,} rules",
                most[name] <= limit,
            )
            for name, limit in limits.items()
        ],
        notes=["Nobody else publishes this figure. With few rules the fixed parts of a structure weigh most."],
    )


# Scaling


def _timed(indexes: dict[str, Any], values: Any, rounds: int, where: str, checks: list[Check]) -> dict[str, float]:
    """Microseconds per value of filled indexes, whose answers are compared."""
    reference = next(iter(indexes.values())).stab(values)
    for name, index in indexes.items():
        wrong = int(np.count_nonzero(index.stab(values).offsets != reference.offsets))
        checks.append(Check(f"{name}, {where}: offsets unlike those of the first", wrong, 0))
    room = 2 * (len(reference.ids) + max(map(len, indexes.values()))) + PADDING
    out = Matches(np.empty(len(values) + 1, np.int64), np.zeros(room, np.int64))
    taken = interleaved(
        {name: partial(index.stab, values, out=out) for name, index in indexes.items()}, rounds, computing
    )
    return {name: seconds / len(values) * 1e6 for name, seconds in taken.items()}


def scaling(
    counts: Sequence[int], searches: int, rounds: int, most_listed: int, most_compared: int, matches: int = 10
) -> Outcome:
    """Time per lookup against the number of rules, the matches per value held constant; time to build."""
    checks: list[Check] = []
    asked: dict[str, dict[str, dict[int, float]]] = {"intervals": {}, "boxes": {}}
    built: dict[str, dict[int, float]] = {}

    def add(family: str, n: int, indexes: dict[str, Any], work: Any, values: Any) -> None:
        for name, index in indexes.items():
            built.setdefault(name, {})[n] = (
                computing(partial(index.insert_many, work.ids, work.los, work.his)) / n * 1e6
            )
        for name, microseconds in _timed(indexes, values, rounds, f"{n:,} rules", checks).items():
            asked[family].setdefault(name, {})[n] = microseconds

    for n in counts:
        work = workloads.sparse(n, matches, searches)
        indexes: dict[str, Any] = {"SliceList": SliceList("float64")}
        if n <= most_listed:
            indexes["IS-list"] = ISList()
        if n <= most_compared:
            indexes["Linear scan"] = Linear()
        add("intervals", n, indexes, work, work.values.astype(np.float64))
        plane = workloads.plane("equal", n, searches, matches)
        boxes: dict[str, Any] = {"BoxIndex": BoxIndex(2)}
        if n <= most_listed:
            boxes["R-tree"] = RTree(2, packed=True)
        if n <= most_compared:
            boxes["Linear scan"] = LinearBoxes(2)
        add("boxes", n, boxes, plane, plane.points)
    growth = {
        name: asked[family][name][counts[-1]] / asked[family][name][counts[0]]
        for family, name in (("intervals", "SliceList"), ("boxes", "BoxIndex"))
    }
    more = counts[-1] / counts[0]
    panels = [
        Panel(
            f"a lookup in {family}, {matches} matches",
            "rules",
            "CPU time per lookup, µs",
            [Curve(name, list(points), list(points.values()), _kind(name)) for name, points in curves.items()],
        )
        for family, curves in asked.items()
    ]
    names = [name for name in built if name != "Linear scan"]
    panels.append(
        Panel(
            "building",
            "rules",
            "CPU time per rule, µs",
            [Curve(name, list(built[name]), list(built[name].values()), _kind(name)) for name in names],
        )
    )
    return Outcome(
        panels,
        [
            Finding(
                f"{name}: {more:,.0f}x the rules cost less than 10x the time of a lookup",
                f"{each:.1f}x: {asked[family][name][counts[0]]:.3f} to {asked[family][name][counts[-1]]:.3f} µs",
                each < 10,
                "a cache miss or two at the larger sizes",
            )
            for (name, each), family in zip(growth.items(), asked, strict=True)
        ],
        checks,
    )


def matching(queries: int, matches: Sequence[int], answered: int, rounds: int) -> Outcome:
    """Time per lookup against the matches of a value, beside the time to copy as many ids."""
    checks: list[Check] = []
    times: dict[str, list[float]] = {"SliceList": [], "IS-list": [], "copying the ids": []}
    for count in matches:
        searches = max(50, answered // count)
        work = workloads.sparse(queries, count, searches)
        indexes: dict[str, Any] = {"SliceList": SliceList("float64"), "IS-list": ISList()}
        for index in indexes.values():
            index.insert_many(work.ids, work.los, work.his)
        for name, microseconds in _timed(
            indexes, work.values.astype(np.float64), rounds, f"{count:,} matches", checks
        ).items():
            times[name].append(microseconds)
        source = np.arange(int(work.counts().sum()))
        target = np.zeros_like(source)
        copying = interleaved({"copy": partial(np.copyto, target, source)}, rounds, computing)["copy"]
        times["copying the ids"].append(copying / searches * 1e6)
    limit = times["SliceList"][-1] / times["copying the ids"][-1]
    slower = [other / mine for other, mine in zip(times["IS-list"], times["SliceList"], strict=True)]
    return Outcome(
        [
            Panel(
                f"a lookup among {queries:,} rules",
                "matches per value",
                "CPU time per lookup, µs",
                [
                    Curve(name, matches, values, "model" if name.startswith("copying") else _kind(name))
                    for name, values in times.items()
                ],
                ratio_to="SliceList",
            ),
            Panel(
                "the same, per id",
                "matches per value",
                "CPU time per reported id, ns",
                [
                    Curve(
                        name,
                        matches,
                        [value / count * 1e3 for value, count in zip(values, matches, strict=True)],
                        "model" if name.startswith("copying") else _kind(name),
                    )
                    for name, values in times.items()
                ],
            ),
        ],
        [
            Finding(
                f"With {matches[-1]:,} matches SliceList answers at the speed of copying the answer",
                f"{limit:.1f}x the time of one contiguous copy",
                limit < 2,
                "it reads slots of 32 bits where the copy reads ids of 64, and stores past the cache"
                if limit < 1
                else "",
            ),
            Finding(
                "It is faster than the IS-list at any number of matches",
                f"by {min(slower):.1f} to {max(slower):.1f}x",
                min(slower) > 1,
            ),
        ],
        checks,
    )


FIGURES = (
    Figure(
        "ours-churn",
        PAPER,
        "",
        "Rule changes against lookups",
        "Rules can change all the time: lookups stay fast while they do.",
        churn,
        {"queries": 100_000, "searches": 10_000, "changes": (2, 10, 100, 1000, 10_000), "batches": 40},
        {"queries": 1_000_000, "searches": 100_000, "changes": (20, 100, 1000, 10_000, 100_000), "batches": 20},
    ),
    Figure(
        "ours-bytes",
        PAPER,
        "",
        "Bytes per rule",
        "A rule takes tens of bytes, however many there are.",
        bytes_per_rule,
        {"counts": (1000, 10_000, 100_000), "objects": 100},
        {"counts": (1000, 10_000, 100_000, 1_000_000), "objects": 1000},
    ),
    Figure(
        "ours-rules",
        PAPER,
        "",
        "Scaling in rules",
        "A thousand times the rules cost a lookup a few cache misses, if as many match.",
        scaling,
        {
            "counts": (1000, 10_000, 100_000, 1_000_000),
            "searches": 20_000,
            "rounds": 5,
            "most_listed": 100_000,
            "most_compared": 1000,
        },
        {
            "counts": (1000, 10_000, 100_000, 1_000_000, 10_000_000),
            "searches": 100_000,
            "rounds": 7,
            "most_listed": 1_000_000,
            "most_compared": 1000,
        },
    ),
    Figure(
        "ours-matches",
        PAPER,
        "",
        "Scaling in matches",
        "Finding costs little; what remains is copying the ids that match.",
        matching,
        {"queries": 100_000, "matches": (1, 10, 100, 1000, 10_000), "answered": 1_000_000, "rounds": 5},
        {"queries": 1_000_000, "matches": (1, 10, 100, 1000, 10_000), "answered": 10_000_000, "rounds": 9},
    ),
)
