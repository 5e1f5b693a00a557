"""The papers' interval structures against the copy limit (workloads A and B), and the cost of changing them."""

import statistics
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.harness import Report, interleaved, once
from benchmarks.limits import copy_contestants
from fencepost.indexes import ACEI, CEI, LCI, UI, ISList, Matches
from fencepost.indexes.contracts.intervals import IntervalIndex
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.lab import workloads
from fencepost.lab.workloads import IntervalWorkload

__all__ = ["run"]

CEI_LENGTH = 16
SINGLES = 5000


def run(full: bool) -> list[Report]:
    """All reports; `full` asks a million values instead of 300,000."""
    values = 1_000_000 if full else 300_000
    small = workloads.uniform(65_536, 50_000, 200, values, name="A")
    large = workloads.uniform(2**20, 640_000, 200, values, name="B")
    return [
        against_the_limit(small, {"CEI": 3.0}, {"UI": 1.5}),
        against_the_limit(large, {"CEI": 4.0}, {}),
        changes(small),
    ]


def structures(work: IntervalWorkload) -> dict[str, Callable[[], IntervalIndex]]:
    """What to build for a workload; UI only where its entries fit the machine."""
    domain = (0, work.domain)
    made: dict[str, Callable[[], IntervalIndex]] = {
        "CEI": lambda: CEI(domain, CEI_LENGTH),
        "LCI": lambda: LCI(domain, CEI_LENGTH),
        "ACEI": lambda: ACEI.tuned(domain, n=len(work.los), mean_width=100),
        "ISList": ISList,
    }
    if work.name == "A":
        made["UI"] = lambda: UI(domain)
    return made


def against_the_limit(work: IntervalWorkload, compact_goals: dict[str, float], own_goals: dict[str, float]) -> Report:
    """Each structure's stab beside two limits: runs of a compact array, and runs of an array of its own size."""
    counts, n = work.counts(), len(work.los)
    report = Report(f"Workload {work.name}: {n:,} intervals, {counts.mean():.0f} matches per value, int64 ids")
    values = work.values.astype(np.float64)
    buffers = Matches(np.empty(len(values) + 1, np.int64), np.zeros(int(counts.sum()) + PADDING, np.int64))
    contest: dict[str, Callable[[], object]] = copy_contestants("copy", counts, 8 * n, np.int64)
    made = {}
    for name, make in structures(work).items():
        index = made[name] = make()
        index.insert_many(work.ids, work.los, work.his)
        assert np.array_equal(index.stab(values).counts, counts), f"{name} disagrees with the ranks"
        contest |= copy_contestants(name, counts, index.storage().entries, np.int64)
        contest[name] = partial(index.stab, values, out=buffers)
    taken = interleaved(contest)
    limit = min(taken["copy, ordinary"], taken["copy, streamed"])
    report.note("copy limit, compact array", f"{limit / len(values) * 1e9:,.0f} ns per value")
    for name, index in made.items():
        own = min(taken[f"{name}, ordinary"], taken[f"{name}, streamed"])
        held = index.storage()
        figure = f"{name} stab, {taken[name] / len(values) * 1e9:,.0f} ns, {held.nbytes / n:.0f} B per interval"
        for goals, what, against in ((compact_goals, "copy limit", limit), (own_goals, "copy of its own lists", own)):
            if name in goals:
                report.at_most(f"{figure} / {what}", taken[name] / against, goals[name])
            else:
                report.note(f"{figure} / {what}", f"{taken[name] / against:.2f}x")
    return report


def changes(work: IntervalWorkload) -> Report:
    """Bulk and single inserts and removes."""
    report = Report(f"Changes, workload {work.name}")
    some = list(zip(range(10**9, 10**9 + SINGLES), work.los[:SINGLES].tolist(), work.his.tolist(), strict=False))
    for name, make in structures(work).items():
        index = make()
        index.insert_many(work.ids, work.los, work.his)
        index.remove_many(work.ids)
        seconds = once(partial(index.insert_many, work.ids, work.los, work.his))
        rate = len(work.los) / seconds / 1e6
        if name == "CEI":
            report.at_least(f"{name} insert_many", rate, 1.0, " M/s")
        else:
            report.note(f"{name} insert_many", f"{rate:.2f} M/s")
        singles = [(once(partial(_insert_all, index, some)), once(partial(_remove_all, index, some))) for _ in range(5)]
        inserting, removing = (statistics.median(each) for each in zip(*singles, strict=True))
        for what, taken in (("insert", inserting), ("remove", removing)):
            if name == "CEI":
                report.at_most(f"{name} single {what}", taken / SINGLES * 1e6, 10, " µs")
            else:
                report.note(f"{name} single {what}", f"{taken / SINGLES * 1e6:.2f} µs")
    return report


def _insert_all(index: IntervalIndex, rows: list[tuple[int, int, int]]) -> None:
    for id, lo, hi in rows:
        index.insert(id, lo, hi)


def _remove_all(index: IntervalIndex, rows: list[tuple[int, int, int]]) -> None:
    for id, _, _ in rows:
        index.remove(id)
