"""The papers' interval structures against the copy limit (workloads A and B)."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Report, console, interleaved
from benchmarks.limits import copy_limit
from fencepost import workloads
from fencepost.indexes import ACEI, CEI, LCI, UI, Matches
from fencepost.indexes.intervals.contract import IntervalIndex
from fencepost.indexes.vectors import PADDING
from fencepost.workloads import IntervalWorkload

__all__ = ["run"]

CEI_LENGTH = 16
GOALS = {"A": {"CEI": 3.0, "UI": 1.5}, "B": {"CEI": 4.0}}


def run(full: bool) -> list[Report]:
    values = 1_000_000 if full else 300_000
    return [
        against_the_limit(workloads.uniform(65_536, 50_000, 200, values, name="A")),
        against_the_limit(workloads.uniform(2**20, 640_000, 200, values, name="B")),
        changes(workloads.uniform(65_536, 50_000, 200, 1, name="A")),
    ]


def structures(work: IntervalWorkload) -> dict[str, Callable[[], IntervalIndex]]:
    domain = (0, work.domain)
    made: dict[str, Callable[[], IntervalIndex]] = {
        "CEI": lambda: CEI(domain, CEI_LENGTH),
        "LCI": lambda: LCI(domain, 16),
        "ACEI": lambda: ACEI.tuned(domain, n=len(work.los), mean_width=100),
        # islist
    }
    if work.name == "A":
        made["UI"] = lambda: UI(domain)
    return made


def against_the_limit(work: IntervalWorkload) -> Report:
    counts = work.counts()
    report = Report(f"Workload {work.name}: {len(work.los):,} intervals, mean {counts.mean():.0f} matches")
    values = work.values.astype(np.float64)
    buffers = Matches(
        np.empty(len(values) + 1, np.int64), np.zeros(int(counts.sum()) + PADDING, np.int64)
    )
    _, contestants = copy_limit(counts, len(work.los) * 8, np.int64, rounds=1)
    contest: dict[str, Callable[[], object]] = {f"copy, {name}": limit for name, limit in contestants.items()}
    for name, make in structures(work).items():
        index = make()
        begin = time.perf_counter()
        index.insert_many(work.ids, work.los, work.his)
        rate = len(work.los) / (time.perf_counter() - begin)
        held = index.storage()
        assert np.array_equal(index.stab(values).counts, counts), f"{name} disagrees with the ranks"
        report.note(
            f"{name}: insert_many, space",
            f"{rate / 1e6:.2f} M/s, {held.nbytes / len(work.los):.0f} B each, {held.entries / len(work.los):.1f} entries",
        )
        contest[name] = lambda index=index: index.stab(values, out=buffers)  # type: ignore[misc]
    taken = interleaved(contest)
    limit = min(taken["copy, ordinary"], taken["copy, streamed"])
    for name, seconds in taken.items():
        figure = f"{seconds / len(values) * 1e9:,.0f} ns"
        goal = GOALS[work.name].get(name)
        if goal:
            report.at_most(f"{name} stab ({figure}) / copy limit", seconds / limit, goal)
        else:
            report.note(f"{name} stab / copy limit", f"{figure}, {seconds / limit:.2f}x")
    return report


def changes(work: IntervalWorkload) -> Report:
    report = Report("Changes")
    for name, make in structures(work).items():
        index = make()
        index.insert_many(work.ids, work.los, work.his)
        index.remove_many(work.ids)
        begin = time.perf_counter()
        index.insert_many(work.ids, work.los, work.his)
        rate = len(work.los) / (time.perf_counter() - begin)
        if name == "CEI":
            report.at_least(f"{name} insert_many", rate / 1e6, 1.0, " M/s")
        else:
            report.note(f"{name} insert_many", f"{rate / 1e6:.2f} M/s")
        some = [(10**9 + i, int(lo), int(hi)) for i, (lo, hi) in enumerate(zip(work.los[:5000], work.his, strict=False))]
        for what, call in (
            ("insert", lambda index=index: [index.insert(*each) for each in some]),
            ("remove", lambda index=index: [index.remove(each[0]) for each in some]),
        ):
            begin = time.perf_counter()
            call()
            report.at_most(f"{name} single {what}", (time.perf_counter() - begin) / len(some) * 1e6, 10, " µs")
    return report


if __name__ == "__main__":
    for each in run(full=False):
        each.show()
    console.print("[dim]Ratios decide; absolute times only inform.[/]")
