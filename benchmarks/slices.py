"""SliceList against the copy limit, its goals and everyone else's interval index."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.contest import agree
from benchmarks.harness import Report, console, interleaved, once
from benchmarks.limits import copy_contestants
from benchmarks.peers import PEERS
from fencepost.indexes import Matches, SliceList
from fencepost.indexes.arrays import Int64s
from fencepost.lab import workloads
from fencepost.lab.workloads import IntervalWorkload

__all__ = ["run"]

CHANGES = 10_000
SINGLES = 2000
CHANGE_ROUNDS, EACH_ROUND = 10, 1000
FAR = 10_000_000
"""Ids that are far from those of the workload, so that ids are not dense any more."""
PEER_VALUES = 100_000
PEER_IDS = 6_000_000
"""About as many as a batch of theirs may answer, for the memory that lists of them take."""
COMPARED = 2000
HEADLINE = "B"


def run(full: bool) -> list[Report]:
    """All reports; `full` takes the published sizes."""
    scale = 1 if full else 4
    works = [
        workloads.uniform(65_536, 50_000, 200, 1_000_000 // scale, name="A"),
        workloads.uniform(2**20, 640_000, 200, 1_000_000 // scale, name="B"),
        workloads.sparse(values=1_000_000 // scale),
        workloads.heavy_tailed(values=100_000 // scale),
        workloads.loans(values=1000 // scale),
        workloads.onion(1_000_000 if full else 200_000, 400),
        workloads.clustered(1_000_000, 1_000_000 // scale),
    ]
    if full:
        works.append(workloads.uniform(2**40, 10_000_000, 2**40 // 10**5, 1_000_000, name="10M"))
    reports = []
    for work in works:
        console.print(f"[dim]workload {work.name}[/]")
        reports.append(against_the_limit(work))
        if work.name in "ABCD":
            reports.append(against_peers(work, full))
    console.print("[dim]groups, live changes, threads[/]")
    return [
        *reports,
        grouped(1_000_000 if full else 300_000),
        live_changes(),
        single_changes(),
        small_changes(),
        sparse_ids(),
        threads(),
    ]


def built(work: IntervalWorkload) -> SliceList:
    """The workload in an index."""
    index = SliceList()
    index.insert_many(work.ids, work.los, work.his)
    return index


def against_the_limit(work: IntervalWorkload) -> Report:
    """Searching, counting, building and space of one workload."""
    counts, n, m = work.counts(), len(work.los), len(work.values)
    matches = counts.mean()
    report = Report(f"SliceList, workload {work.name}: {n:,} intervals, {matches:,.0f} matches per value")
    index = built(work)
    held = index.storage()
    assert np.array_equal(index.count(work.values), counts), "disagrees with the ranks"
    total = int(counts.sum())
    slots = Matches(np.empty(m + 1, np.int64), np.zeros(total, np.uint32))
    ids = Matches(np.empty(m + 1, np.int64), np.zeros(total, np.int64))
    taken = interleaved(
        {
            **copy_contestants("slots", counts, held.entries, np.uint32),
            **copy_contestants("ids", counts, held.entries, np.int64),
            "stab slots": lambda: index.stab(work.values, slots=True, out=slots),
            "stab ids": lambda: index.stab(work.values, out=ids),
            "count": lambda: index.count(work.values),
            "slices": lambda: index.slices(work.values),
            "build": lambda: built(work),
            "sort": lambda: np.sort(np.concatenate([work.los, work.his])),
        }
    )
    per_value = {name: seconds / m * 1e9 for name, seconds in taken.items()}
    for kind in ("slots", "ids"):
        limit = min(per_value[f"{kind}, ordinary"], per_value[f"{kind}, streamed"])
        label = f"stab {kind} ({per_value[f'stab {kind}']:,.0f} ns) / copy limit ({limit:,.0f} ns)"
        ratio = per_value[f"stab {kind}"] / limit
        if matches >= 60:
            report.at_most(label, ratio, 1.15 if matches >= 1000 else 1.5)
        else:
            report.note(label, f"{ratio:.2f}x")
    fast = 10 if n <= 100_000 else 30
    if n <= 1_000_000 and work.name in "ABCD":
        report.at_most("count, per value", per_value["count"], fast, " ns")
        report.at_most("slices, per value", per_value["slices"], fast, " ns")
    if work.name == "10M":
        report.at_most("stab ids, per value", per_value["stab ids"], 120, " ns")
    report.at_most("build / NumPy sort of the endpoints", taken["build"] / taken["sort"], 4)
    report.at_most("space per interval", held.nbytes / n, 64, " bytes")
    return report


def against_peers(work: IntervalWorkload, full: bool) -> Report:
    """The same large batch to everyone, since a join has its fixed costs; pure Python answers a hundredth of it.

    SliceList writes into buffers that are used again, as its callers can; what a peer returns it allocates itself.
    """
    index = built(work)
    values = work.values[: min(PEER_VALUES, int(PEER_IDS / work.counts().mean()))]
    compared = values[:COMPARED]
    report = Report(f"SliceList against its peers, workload {work.name}, {len(values):,} values, time per value")
    offsets, total = np.empty(len(values) + 1, np.int64), int(work.counts()[: len(values)].sum())
    slots = Matches(offsets, np.zeros(total, np.uint32))
    ids = Matches(offsets, np.zeros(total, np.int64))
    for name, make in PEERS.items():
        if name == "intervaltree" and len(work.los) > 100_000 and not full:
            report.note(name, "left out of the quick size: builds for minutes")
            continue
        peer = make(work)
        agree(name, index.stab(compared), peer.pairs(peer.ask(compared)))
        asked = values[: len(values) // 100] if name == "intervaltree" else values
        contest: dict[str, Callable[[], object]] = {
            "peer": partial(peer.ask, asked),
            "slots": partial(index.stab, values, slots=True, out=slots),
            "ids": partial(index.stab, values, out=ids),
        }
        taken = interleaved(contest, rounds=3)
        each = taken["peer"] / len(asked)
        ratios = {kind: each / (taken[kind] / len(values)) for kind in ("slots", "ids")}
        report.at_least(f"{name} ({each * 1e9:,.0f} ns) / slots", ratios["slots"], 50)
        report.at_least(f"{name} ({each * 1e9:,.0f} ns) / ids", ratios["ids"], 30)
        if work.name == HEADLINE:
            question = f"which of {len(work.los):,} ranges hold a value? {work.counts().mean():.0f} do"
            report.headline(question, name, f"{ratios['ids']:,.0f}x")
    return report


def grouped(n: int) -> Report:
    """One index, more and more groups, the same number of matches: the cost per value should not follow."""
    report = Report(f"SliceList with groups: {n:,} intervals, about 10 matches per value")
    rng = np.random.default_rng(5)
    contest: dict[str, Callable[[], object]] = {}
    values = rng.integers(0, 2**30, 200_000)
    out = Matches(np.empty(len(values) + 1, np.int64), np.zeros(20 * len(values), np.uint32))
    for groups in (10, 1000, n // 100, n // 20):
        keys = rng.integers(0, groups, n)
        lows = rng.integers(0, 2**30, n)
        width = 2 * 10 * 2**30 * groups // n
        index = SliceList()
        index.insert_many(np.arange(n), lows, lows + rng.integers(1, width, n), groups=keys)
        asked = rng.integers(0, groups, len(values))
        contest[f"{groups:,} groups"] = partial(index.stab, values, groups=asked, slots=True, out=out)
        report.note(f"{groups:,} groups: space per interval", f"{index.storage().nbytes / n:.1f} bytes")
    taken = interleaved(contest)
    fewest = next(iter(taken.values()))
    for name, seconds in taken.items():
        report.note(f"{name}: stab", f"{seconds / len(values) * 1e9:,.0f} ns, {seconds / fewest:.2f}x of 10 groups")
    return report


def live_changes() -> Report:
    """10,000 inserts and 10,000 removes in bulk on a million intervals, and the search after them."""
    work = workloads.sparse(values=200_000)
    report = Report(
        f"SliceList, live changes: {CHANGES:,} inserts and {CHANGES:,} removes at {len(work.los):,} intervals"
    )
    rng = np.random.default_rng(9)
    indexes = [built(work) for _ in range(4)]
    new = np.arange(len(work.los), len(work.los) + CHANGES)
    picked = rng.integers(0, len(work.los), CHANGES)
    gone = rng.choice(len(work.los), CHANGES, replace=False)

    def change(index: SliceList) -> None:
        index.insert_many(new, work.los[picked], work.his[picked])
        index.remove_many(gone)

    seconds = sorted(once(partial(change, index)) for index in indexes[1:])
    report.at_most("both calls", seconds[1] * 1e3, 50, " ms")
    before, after = indexes[0], indexes[1]
    room = int(1.1 * work.counts().sum())
    out = Matches(np.empty(len(work.values) + 1, np.int64), np.zeros(room, np.uint32))
    taken = interleaved(
        {
            "before": lambda: before.stab(work.values, slots=True, out=out),
            "after": lambda: after.stab(work.values, slots=True, out=out),
        }
    )
    report.at_most("stab after / before", taken["after"] / taken["before"], 1.2)
    compacting = once(after.compact)
    report.note("compact() of all of it", f"{compacting * 1e3:.0f} ms")
    return report


def single_changes() -> Report:
    """One interval at a time."""
    work = workloads.sparse(values=1000)
    n = len(work.los)
    index = built(work)
    picked = np.random.default_rng(9).integers(0, n, SINGLES)
    widths = work.his[picked] - work.los[picked]
    anywhere = np.random.default_rng(10).integers(0, int(work.los.max()), SINGLES)
    report = Report(f"SliceList, {SINGLES:,} single changes at {n:,} intervals")
    for where, los in (("like one that is there", work.los[picked]), ("anywhere", anywhere)):
        rows = list(zip(range(n, n + SINGLES), los.tolist(), (los + widths).tolist(), strict=True))

        def insert(rows: list[tuple[int, int, int]] = rows) -> None:
            for id, lo, hi in rows:
                index.insert(id, lo, hi)

        def remove(rows: list[tuple[int, int, int]] = rows) -> None:
            for id, _, _ in rows:
                index.remove(id)

        times = [(once(insert), once(remove)) for _ in range(4)][1:]
        for what, taken in zip(("insert", "remove"), np.median(times, axis=0).tolist(), strict=True):
            report.at_most(f"single {what}, {where}", taken / SINGLES * 1e6, 10, " µs")
    return report


def small_changes() -> Report:
    """Rounds of a thousand inserts and a thousand removes: what readers pay afterwards, with ids near and far."""
    work = workloads.sparse(values=200_000)
    n = len(work.los)
    report = Report(
        f"SliceList, {CHANGE_ROUNDS} rounds of {EACH_ROUND:,} inserts and {EACH_ROUND:,} removes at {n:,} intervals"
    )
    rng = np.random.default_rng(9)
    picked = rng.integers(0, n, (CHANGE_ROUNDS, EACH_ROUND))
    anywhere = rng.integers(0, int(work.los.max()), (CHANGE_ROUNDS, EACH_ROUND))
    gone = rng.choice(n, (CHANGE_ROUNDS, EACH_ROUND), replace=False)

    def change(index: SliceList, first: int, los: Int64s = work.los[picked]) -> None:
        for number, (some, own, old) in enumerate(zip(picked, los, gone, strict=True)):
            ids = np.arange(first, first + EACH_ROUND) + number * EACH_ROUND
            index.insert_many(ids, own, own + work.his[some] - work.los[some])
            index.remove_many(old)

    before, near, far, mixed = (built(work) for _ in range(4))
    seconds: dict[str, list[float]] = {"near": [], "far": []}
    for number in range(3):
        for name, first in (("near", n), ("far", FAR)):
            index = built(work)
            lasted = once(partial(change, index, first))
            if number:  # the first may compile
                seconds[name].append(lasted)
    change(near, n)
    change(far, FAR)
    change(mixed, n, anywhere)
    room = int(1.1 * work.counts().sum())
    out = Matches(np.empty(len(work.values) + 1, np.int64), np.zeros(room, np.int64))
    contest = {"before": before, "near": near, "far": far, "anywhere": mixed}
    taken = interleaved({name: partial(each.stab, work.values, out=out) for name, each in contest.items()})
    report.at_most("stab ids after / before", taken["near"] / taken["before"], 1.15)
    report.at_most("stab ids after / before, where new ones lie anywhere", taken["anywhere"] / taken["before"], 1.15)
    report.at_most("space per interval after them", mixed.storage().nbytes / n, 64, " bytes")
    near_seconds, far_seconds = min(seconds["near"]), min(seconds["far"])
    report.at_most(
        f"ids from {FAR:,} on: changes ({far_seconds * 1e3:,.0f} ms) / with near ids ({near_seconds * 1e3:,.0f} ms)",
        far_seconds / near_seconds,
        1.15,
    )
    report.at_most(f"ids from {FAR:,} on: stab ids afterwards / with near ids", taken["far"] / taken["near"], 1.15)
    return report


def sparse_ids() -> Report:
    """Ids that are not dense, in no order: each is looked up by its slot."""
    work = workloads.sparse(values=200_000)
    n = len(work.los)
    rng = np.random.default_rng(9)
    dense, index = built(work), SliceList()
    index.insert_many(np.sort(rng.choice(100 * n, n, replace=False))[rng.permutation(n)], work.los, work.his)
    out = Matches(np.empty(len(work.values) + 1, np.int64), np.zeros(int(work.counts().sum()), np.int64))
    taken = interleaved(
        {"dense": lambda: dense.stab(work.values, out=out), "sparse": lambda: index.stab(work.values, out=out)}
    )
    report = Report(f"SliceList, ids that are not dense: {n:,} intervals, {work.counts().mean():.0f} matches per value")
    report.at_most("stab ids, per value", taken["sparse"] / len(work.values) * 1e9, 180, " ns")
    report.note("  dense ids", f"{taken['dense'] / len(work.values) * 1e9:,.0f} ns")
    return report


def threads() -> Report:
    """One batch over two cores."""
    report = Report("SliceList, two threads")
    work = workloads.heavy_tailed(values=100_000)
    index = built(work)
    out = Matches(np.empty(len(work.values) + 1, np.int64), np.zeros(int(work.counts().sum()), np.uint32))
    taken = interleaved(
        {
            "one": lambda: index.stab(work.values, slots=True, out=out),
            "two": lambda: index.stab(work.values, slots=True, out=out, threads=2),
        }
    )
    report.at_least("workload D, slots: one thread / two", taken["one"] / taken["two"], 1.8)
    return report
