"""Box indexes against the copy limit, everyone else's, and the VCR report's figure 13."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.box_peers import PEERS
from benchmarks.harness import Report, console, interleaved
from benchmarks.limits import copy_contestants
from fencepost import workloads
from fencepost.indexes import VCR, Matches, RTree
from fencepost.indexes.boxes.contract import BoxesIndex
from fencepost.indexes.vectors import PADDING
from fencepost.workloads import BoxWorkload

__all__ = ["run"]

PEER_POINTS = 2000
LENGTHS = {20: 8, 40: 16}
"""The construct length that the report finds best for a longest side."""
FIGURE_13 = {(False, 20): 304 / 60, (True, 20): 1300 / 280}
"""R-tree / VCR in the report at n = 32,000: uniform, and 90% of the rectangles in 10% of the area."""


def run(full: bool) -> list[Report]:
    """All reports; `full` takes the published sizes."""
    points = 100_000 if full else 20_000
    reports = []
    for n in (32_000, 320_000):
        for widest in (20, 40):
            for crowded in (False, True):
                console.print(f"[dim]grid: {n:,} rectangles, sides 1..{widest}, crowded: {crowded}[/]")
                work = workloads.grid(n, widest, crowded, points if n < 100_000 else points // 10)
                paper = FIGURE_13.get((crowded, widest)) if n == 32_000 else None
                reports.append(against_everyone(work, grid_structures(widest), paper))
    for variant in ("equal", "lognormal", "skew", "clusters"):
        console.print(f"[dim]plane: {variant}[/]")
        work = workloads.plane(variant, 1_000_000 if full else 200_000, points)
        reports.append(against_everyone(work, plane_structures(), None))
    return reports


def grid_structures(widest: int) -> dict[str, Callable[[], BoxesIndex]]:
    """What to build for the integer grid."""
    length = LENGTHS[widest]
    return {
        "VCR-SD": lambda: VCR((245, 245), length),
        "VCR-OD": lambda: VCR((245, 245), length, overlap=True),
        "RTree": RTree,
        "RTree packed": lambda: RTree(packed=True),
    }


def plane_structures() -> dict[str, Callable[[], BoxesIndex]]:
    """What to build for real coordinates: constructs over a million cells per axis are no match for them."""
    return {"RTree packed": lambda: RTree(packed=True)}


def against_everyone(
    work: BoxWorkload, structures: dict[str, Callable[[], BoxesIndex]], paper_ratio: float | None
) -> Report:
    """Each structure's stab beside the copy limit and the peers, which answer the first points only."""
    points, n, m = work.points, len(work.los), len(work.points)
    some = points[:PEER_POINTS]
    made: dict[str, BoxesIndex] = {}
    for name, make in structures.items():
        made[name] = make()
        made[name].insert_many(work.ids, work.los, work.his)
    answers = {name: index.stab(points) for name, index in made.items()}
    counts = next(iter(answers.values())).counts
    for name, answer in answers.items():
        assert np.array_equal(answer.counts, counts), f"{name} disagrees"
    report = Report(f"{work.name}: {n:,} boxes, {counts.mean():.1f} matches per point, int64 ids")
    room = int(counts.sum()) + int(counts.max()) * 8 + 64 * PADDING
    out = Matches(np.empty(m + 1, np.int64), np.zeros(room, np.int64))
    contest: dict[str, Callable[[], object]] = copy_contestants("copy", counts, 8 * n, np.int64)
    for name, index in made.items():
        contest[name] = partial(index.stab, points, out=out)
    for name, prepare in PEERS.items():
        stab = prepare(work)
        assert stab(some) == counts[: len(some)].sum(), f"{name} disagrees"
        contest[name] = partial(stab, some)
    taken = interleaved(contest, rounds=3)
    per_point = {name: t / (len(some) if name in PEERS else m) * 1e9 for name, t in taken.items()}
    limit = min(per_point["copy, ordinary"], per_point["copy, streamed"])
    report.note("copy limit", f"{limit:,.0f} ns per point")
    for name in PEERS:
        report.note(name, f"{per_point[name]:,.0f} ns per point")
    for name, index in made.items():
        label = f"{name}, {per_point[name]:,.0f} ns, {index.storage().nbytes / n:.0f} B per box"
        report.note(f"{label} / copy limit", f"{per_point[name] / limit:.1f}x")
        report.note(f"STRtree bbox / {name}", f"{per_point['STRtree bbox'] / per_point[name]:.1f}x")
    if "VCR-SD" in made:
        ratio = per_point["RTree"] / per_point["VCR-SD"]
        if paper_ratio is None:
            report.note("RTree / VCR-SD", f"{ratio:.2f}x")
        else:
            report.at_least("RTree / VCR-SD, figure 13", ratio, round(paper_ratio, 2))
        report.note("RTree packed / VCR-SD", f"{per_point['RTree packed'] / per_point['VCR-SD']:.2f}x")
    return report
