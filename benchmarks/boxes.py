"""Box indexes against the copy limit, everyone else's, and the VCR report's figure 13."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.box_peers import PEERS, scan_of_one_attribute
from benchmarks.contest import agree
from benchmarks.harness import Report, console, interleaved, once
from benchmarks.limits import copy_contestants
from fencepost.indexes import VCR, BoxIndex, Matches, RTree
from fencepost.indexes.contracts.boxes import BoxesIndex
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.lab import workloads
from fencepost.lab.workloads import BoxWorkload

__all__ = ["run"]

PEER_POINTS = 2000
LENGTHS = {20: 8, 40: 16}
"""The construct length that the report finds best for a longest side."""
STRTREE_GOALS = {"equal": 25, "lognormal": 60, "skew": 22, "clusters": 20}
SCAN_GOALS = {3: 200, 5: 100}
SCANNED_POINTS = 100
CHANGES = 10_000
CHANGE_ROUNDS, EACH_ROUND = 10, 1000
HEADLINE = "G, equal"
PEER_NAMES = {"STRtree bbox": "shapely's STRtree", "rtree (PyPI)": "rtree"}
ROOMY = 96
"""Bytes per box for who has them: the default is the goal for space."""
FIGURE_13 = {(False, 20): 304 / 60, (True, 20): 1300 / 280}
"""R-tree / VCR in the report at n = 32,000: uniform, and 90% of the rectangles in 10% of the area."""
VCR_GOAL = 4


def run(full: bool) -> list[Report]:
    """All reports; `full` takes the published sizes."""
    points = 100_000 if full else 20_000
    reports = []
    for n in (32_000, 320_000):
        for widest in (20, 40):
            for crowded in (False, True):
                console.print(f"[dim]grid: {n:,} rectangles, sides 1..{widest}, crowded: {crowded}[/]")
                dense = n > 100_000
                work = workloads.grid(n, widest, crowded, points // 10 if dense else points)
                structures = grid_structures(widest, whole_catalogue=full or not dense)
                paper = FIGURE_13.get((crowded, widest)) if not dense else None
                asked = PEER_POINTS // 10 if dense or crowded else PEER_POINTS
                reports.append(against_everyone(work, structures, asked, grid_goals=True, paper_ratio=paper))
    for variant, goal in STRTREE_GOALS.items():
        console.print(f"[dim]plane: {variant}[/]")
        work = workloads.plane(variant, 1_000_000 if full else 200_000, points)
        reports.append(against_everyone(work, plane_structures(), PEER_POINTS, strtree_goal=goal))
    console.print("[dim]several dimensions, groups, live changes[/]")
    n = 1_000_000
    reports += [against_a_scan(workloads.partly_bounded(dimensions, n, points)) for dimensions in (3, 5)]
    return [
        *reports,
        *(grouped(dimensions, n, points) for dimensions in (1, 2)),
        live_changes(n, points),
        small_changes(n, points),
    ]


def grid_structures(widest: int, whole_catalogue: bool) -> dict[str, Callable[[], BoxesIndex]]:
    """What to build for the integer grid; the papers' structures take long to fill."""
    length = LENGTHS[widest]
    papers: dict[str, Callable[[], BoxesIndex]] = {
        "VCR-SD": lambda: VCR((245, 245), length),
        "VCR-OD": lambda: VCR((245, 245), length, overlap=True),
        "RTree": RTree,
        "RTree packed": lambda: RTree(packed=True),
    }
    return {**(papers if whole_catalogue else {}), "BoxIndex": lambda: BoxIndex(dimensions=2)}


def plane_structures() -> dict[str, Callable[[], BoxesIndex]]:
    """What to build for real coordinates: constructs over a million cells per axis are no match for them."""
    return {
        "RTree packed": lambda: RTree(packed=True),
        f"BoxIndex(budget={ROOMY})": lambda: BoxIndex(dimensions=2, budget=ROOMY),
        "BoxIndex": lambda: BoxIndex(dimensions=2),
    }


def against_everyone(
    work: BoxWorkload,
    structures: dict[str, Callable[[], BoxesIndex]],
    peer_points: int,
    grid_goals: bool = False,
    paper_ratio: float | None = None,
    strtree_goal: float = 80,
) -> Report:
    """Each structure's stab beside the copy limit and the peers, which answer the first points only."""
    points, n, m = work.points, len(work.los), len(work.points)
    some = points[:peer_points]
    made: dict[str, BoxesIndex] = {}
    for name, make in structures.items():
        made[name] = make()
        made[name].insert_many(work.ids, work.los, work.his)
    answer = made["BoxIndex"].stab(points)
    counts = answer.counts
    for name, index in made.items():
        assert np.array_equal(index.stab(points).counts, counts), f"{name} disagrees"
    report = Report(f"{work.name}: {n:,} boxes, {counts.mean():.1f} matches per point, int64 ids")
    room = int(counts.sum()) + int(counts.max()) * 8 + 64 * PADDING
    out = Matches(np.empty(m + 1, np.int64), np.zeros(room, np.int64))
    contest: dict[str, Callable[[], object]] = copy_contestants("copy", counts, 8 * n, np.int64)
    for name, index in made.items():
        agree(name, index.stab(some), (np.repeat(np.arange(len(some)), counts[: len(some)]), answer.ids))
        contest[name] = partial(index.stab, points, out=out)
    for name, prepare in PEERS.items():
        peer = prepare(work)
        agree(name, made["BoxIndex"].stab(some), peer.pairs(peer.ask(some)))
        contest[name] = partial(peer.ask, some)
    taken = interleaved(contest, rounds=3)
    per_point = {name: t / (len(some) if name in PEERS else m) * 1e9 for name, t in taken.items()}
    limit = min(per_point["copy, ordinary"], per_point["copy, streamed"])
    report.note("copy limit", f"{limit:,.0f} ns per point")
    for name in PEERS:
        report.note(name, f"{per_point[name]:,.0f} ns per point")
    production = made.pop("BoxIndex")
    taken_by_it, held = per_point["BoxIndex"], production.storage().nbytes / n
    if grid_goals:
        report.at_most(f"BoxIndex ({taken_by_it:,.0f} ns) / copy limit", taken_by_it / limit, 1.5)
    else:
        report.note(f"BoxIndex ({taken_by_it:,.0f} ns) / copy limit", f"{taken_by_it / limit:.1f}x")
    report.at_least("STRtree bbox / BoxIndex", per_point["STRtree bbox"] / taken_by_it, strtree_goal)
    if work.name == HEADLINE:
        for name in ("STRtree bbox", "rtree (PyPI)"):
            asked = f"which of {n:,} boxes hold a point? {counts.mean():.0f} do"
            report.headline(asked, PEER_NAMES[name], f"{per_point[name] / taken_by_it:,.0f}x")
    report.at_most("BoxIndex, space", held, 64, " B per box")
    for name, index in made.items():
        label = f"{name}, {per_point[name]:,.0f} ns, {index.storage().nbytes / n:.0f} B per box"
        report.note(f"{label} / copy limit", f"{per_point[name] / limit:.1f}x")
        report.note(f"STRtree bbox / {name}", f"{per_point['STRtree bbox'] / per_point[name]:.1f}x")
    if "VCR-SD" in made:
        ratio = per_point["RTree"] / per_point["VCR-SD"]
        if paper_ratio is None:
            report.note("RTree / VCR-SD", f"{ratio:.2f}x")
        else:
            report.at_least(f"RTree / VCR-SD, {paper_ratio:.2f}x in figure 13", ratio, VCR_GOAL)
        report.note("RTree packed / VCR-SD", f"{per_point['RTree packed'] / per_point['VCR-SD']:.2f}x")
    return report


def against_a_scan(work: BoxWorkload) -> Report:
    """Several dimensions: beside the candidates of the best single attribute, compared in compiled code."""
    points, n, dimensions = work.points, len(work.los), work.points.shape[1]
    some = points[:SCANNED_POINTS]
    index = BoxIndex(dimensions)
    build = once(lambda: index.insert_many(work.ids, work.los, work.his))
    index = BoxIndex(dimensions)
    build = once(lambda: index.insert_many(work.ids, work.los, work.his))
    scan = scan_of_one_attribute(work)
    answer = index.stab(points)
    agree("the scan", index.stab(some), scan.pairs(scan.ask(some)))
    out = Matches(np.empty(len(points) + 1, np.int64), np.zeros(len(answer.ids) + PADDING, np.int64))
    taken = interleaved({"scan": lambda: scan.ask(some), "BoxIndex": lambda: index.stab(points, out=out)}, rounds=3)
    scanned, ours = taken["scan"] / len(some) * 1e9, taken["BoxIndex"] / len(points) * 1e9
    report = Report(f"{work.name}: {n:,} boxes, {answer.counts.mean():.1f} matches per point")
    report.at_least(
        f"scan of one attribute ({scanned:,.0f} ns) / BoxIndex ({ours:,.0f} ns)",
        scanned / ours,
        SCAN_GOALS[dimensions],
    )
    report.at_most("space", index.storage().nbytes / n, 128 if dimensions == 5 else index.budget, " B per box")
    report.at_most("build, scaled to a million boxes", build * 1e6 / n, 1, " s")
    return report


def grouped(dimensions: int, n: int, m: int, groups: int = 10_000) -> Report:
    """Groups of about a hundred boxes."""
    rng = np.random.default_rng(2)
    groups = min(groups, n // 100)
    centers, half = rng.random((n, dimensions)), 0.07 * rng.uniform(0.75, 1.25, (n, dimensions))
    index = BoxIndex(dimensions)
    index.insert_many(np.arange(n), centers - half, centers + half, groups=rng.integers(0, groups, n))
    points, asked = rng.random((m, dimensions)), rng.integers(0, groups, m)
    found = index.stab(points, groups=asked, slots=True)
    out = Matches(np.empty(m + 1, np.int64), np.zeros(len(found.ids) + 1024, np.uint32))
    taken = interleaved({"stab": lambda: index.stab(points, groups=asked, slots=True, out=out)})["stab"]
    report = Report(f"{groups:,} groups of {n // groups} boxes, {dimensions}-D, slots")
    report.at_most("stab", taken / m * 1e9, {1: 45, 2: 75}[dimensions], " ns per point")
    report.note("space", f"{index.storage().nbytes / n:.0f} B per box")
    return report


def live_changes(n: int, m: int) -> Report:
    """Inserts and removes on a running index, and what they cost the readers."""
    work = workloads.plane("equal", n + CHANGES, m)
    old, new = slice(0, n), slice(n, None)
    indexes = [BoxIndex(dimensions=2) for _ in range(3)]
    build = [once(partial(index.insert_many, work.ids[old], work.los[old], work.his[old])) for index in indexes][-1]
    first, before, after = indexes
    gone = np.random.default_rng(5).permutation(n)[:CHANGES]

    def change(index: BoxIndex) -> float:
        inserting = once(lambda: index.insert_many(work.ids[new], work.los[new], work.his[new]))
        return inserting + once(lambda: index.remove_many(gone))

    of_process, taken = change(first), change(after)
    answer = after.stab(work.points)
    out = Matches(np.empty(m + 1, np.int64), np.zeros(2 * len(answer.ids) + PADDING, np.int64))
    asking = interleaved(
        {
            "before": lambda: before.stab(work.points, out=out),
            "after": lambda: after.stab(work.points, out=out),
        }
    )
    report = Report(f"{CHANGES:,} live inserts and removes at {n:,} boxes")
    report.at_most("build, scaled to a million boxes", build * 1e6 / n, 1, " s")
    report.at_most("changes", taken * 1e3, 100, " ms")
    report.note("  the first ones of a process: code is loaded, memory is new", f"{of_process * 1e3:,.0f} ms")
    report.at_most("stab afterwards / before", asking["after"] / asking["before"], 1.2)
    return report


def small_changes(n: int, m: int) -> Report:
    """Rounds of a thousand inserts and a thousand removes: what readers pay afterwards."""
    more = CHANGE_ROUNDS * EACH_ROUND
    work = workloads.plane("equal", n + more, m)
    before, after = BoxIndex(dimensions=2), BoxIndex(dimensions=2)
    for index in (before, after):
        index.insert_many(work.ids[:n], work.los[:n], work.his[:n])
    gone = np.random.default_rng(5).permutation(n)[:more].reshape(CHANGE_ROUNDS, EACH_ROUND)
    seconds = 0.0
    for number, old in enumerate(gone):
        new = slice(n + number * EACH_ROUND, n + (number + 1) * EACH_ROUND)
        seconds += once(partial(after.insert_many, work.ids[new], work.los[new], work.his[new]))
        seconds += once(partial(after.remove_many, old))
    out = Matches(np.empty(m + 1, np.int64), np.zeros(2 * len(after.stab(work.points).ids) + PADDING, np.int64))
    taken = interleaved(
        {"before": lambda: before.stab(work.points, out=out), "after": lambda: after.stab(work.points, out=out)}
    )
    report = Report(
        f"BoxIndex, {CHANGE_ROUNDS} rounds of {EACH_ROUND:,} inserts and {EACH_ROUND:,} removes at {n:,} boxes"
    )
    report.at_most("stab afterwards / before", taken["after"] / taken["before"], 1.2)
    report.note("  all changes", f"{seconds * 1e3:,.0f} ms")
    return report
