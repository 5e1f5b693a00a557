"""Band joins: SSI against all queries at once in NumPy, its own steps and two Q1 answers; the four against clusters."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from benchmarks.harness import Report, interleaved, once
from fencepost.indexes import SSI, BlockBands, Matches, QuadraticBands, StabbingBands
from fencepost.indexes.contracts.bands import BandIndex
from fencepost.lab import workloads
from fencepost.lab.workloads import BandWorkload

__all__ = ["run"]

SINGLES = 2000
Array = npt.NDArray[Any]


def run(full: bool) -> list[Report]:
    """All reports; `full` asks more values and sweeps larger sets."""
    size = 100_000
    return [
        affected(size, 20_000 if full else 4_000),
        moves(size),
        changes(size),
        groups(),
        clusters(1500 if full else 400),
    ]


def evaluate_all(work: BandWorkload, right: Array, value: float) -> Array:
    """Q2 as NumPy does it: for every query, whether the sorted right side has a row between two bounds."""
    first = np.searchsorted(right, value - work.highs, "left")
    last = np.searchsorted(right, value - work.lows, "right")
    return np.flatnonzero(first < last)


def affected(size: int, values: int) -> Report:
    report = Report(f"Q2, {size:,} rows a side, {size:,} queries, about 100 affected")
    made = {}
    for hotspots in (10, 1000, 10_000):
        work = workloads.hotspots(size, size, hotspots, 100, values)
        made[hotspots] = (work, SSI())
        work.load(made[hotspots][1])
    contest: dict[str, Callable[[], object]] = {}
    sizes = {}
    for hotspots, (work, index) in made.items():
        asked = work.values[: max(100, values * 10 // hotspots)]
        answer = index.affected_many("left", asked)
        sizes[hotspots] = (len(asked), len(answer.ids) / len(asked))
        room = Matches(np.empty(len(asked) + 1, np.int64), np.zeros(2 * len(answer.ids) + 1000, np.int64))
        contest[f"SSI {hotspots}"] = partial(index.affected_many, "left", asked, out=room)
        right, points = np.sort(work.right), np.sort(np.random.default_rng(1).uniform(-2.5e5, 2.5e5, hotspots))
        order = np.random.default_rng(2).permutation(size).astype(np.int32)
        contest[f"steps {hotspots}"] = partial(
            bare_steps, right, points, asked, order, np.arange(size), int(sizes[hotspots][1]), room.ids
        )
    work, index = made[10]
    right = np.sort(work.right)
    for value in work.values[:20]:
        assert np.array_equal(np.sort(index.affected("left", value)), evaluate_all(work, right, value))
    some = work.values[:5].tolist()
    contest["NumPy"] = lambda: [evaluate_all(work, right, value) for value in some]
    contest["SSI one by one"] = lambda: [index.affected("left", value) for value in some]
    taken = interleaved(contest, rounds=7)
    each = {hotspots: taken[f"SSI {hotspots}"] / count for hotspots, (count, _) in sizes.items()}
    numpy = taken["NumPy"] / len(some)
    report.at_least(f"NumPy ({numpy * 1e3:.1f} ms) / SSI ({each[10] * 1e6:.1f} µs), tau = 10", numpy / each[10], 500)
    report.headline(
        f"which of {size:,} band queries does a new row affect? 100", "NumPy, all at once", f"{numpy / each[10]:,.0f}x"
    )
    report.note("NumPy / SSI, one value a call", f"{taken['NumPy'] / taken['SSI one by one']:,.0f}x")
    for hotspots, (_, index) in made.items():
        figure = f"tau = {index.stabbing_groups:,}, k = {sizes[hotspots][1]:.0f}, {each[hotspots] * 1e6:,.1f} µs"
        report.at_most(
            f"{figure} / tau binary searches and k gathers", taken[f"SSI {hotspots}"] / taken[f"steps {hotspots}"], 3
        )
    for one, other in ((10, 1000), (1000, 10_000)):
        report.at_most(
            f"time of tau = {other:,} / {other // one} x that of {one:,}", each[other] / each[one] / (other / one), 1
        )
    return report


@numba.njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def bare_steps(rows: Array, points: Array, values: Array, order: Array, ids: Array, affected: int, out: Array) -> None:
    """Tau plain binary searches and k gathered ids for each value: the steps that the bound counts."""
    count = 0
    for value in values:
        gathered = 0
        for p in range(len(points)):
            low, high = 0, len(rows)
            while low < high:
                middle = (low + high) >> 1
                if rows[middle] <= value + points[p]:
                    low = middle + 1
                else:
                    high = middle
            run = affected * (p + 1) // len(points) - gathered
            low = min(low, len(order) - run)
            for i in range(run):
                out[count] = ids[order[low + i]]
                count += 1
            gathered += run


def moves(size: int) -> Report:
    """Small steps: about 1% of a row's pairs change."""
    report = Report(f"A moving row, {size:,} rows a side, {size:,} queries, tau = 10")
    work = workloads.hotspots(size, size, 10, 10_000, SINGLES)
    index = SSI()
    work.load(index)
    rows = np.random.default_rng(3).permutation(size)[:100]
    old = work.left[rows]
    step = 0.005
    new = old + step
    before, after = (index.pairs_many("left", each) for each in (old, new))
    change = index.move_many("left", rows, new)
    changed = 0
    for i in range(len(rows)):
        was, now = (set(zip(*(c.tolist() for c in each.of(i)), strict=True)) for each in (before, after))
        assert set(zip(*(c.tolist() for c in change.entered.of(i)), strict=True)) == now - was
        assert set(zip(*(c.tolist() for c in change.left.of(i)), strict=True)) == was - now
        changed += len(now ^ was)
    pairs = len(before.rows) / len(rows)
    report.note(
        "pairs of a row, and how many of them a step changes", f"{pairs:,.0f}, {100 * changed / len(rows) / pairs:.2f}%"
    )
    state = [True]

    def move() -> None:
        index.move_many("left", rows, old if state[0] else new)
        state[0] = not state[0]

    def compare() -> None:
        was, now = (index.pairs_many("left", each) for each in (old, new))
        for i in range(len(rows)):
            one, other = (
                each.rows[each.offsets[i] : each.offsets[i + 1]] * size
                + each.queries[each.offsets[i] : each.offsets[i + 1]]
                for each in (was, now)
            )
            np.setdiff1d(one, other, assume_unique=True)
            np.setdiff1d(other, one, assume_unique=True)

    def ask_twice() -> None:
        index.pairs_many("left", old)
        index.pairs_many("left", new)

    taken = interleaved({"move": move, "compare": compare, "ask": ask_twice})
    per = taken["move"] / len(rows) * 1e6
    report.at_least(f"two Q1 and a set difference / move ({per:,.1f} µs)", taken["compare"] / taken["move"], 20)
    report.note("two Q1 alone / move", f"{taken['ask'] / taken['move']:.1f}x")
    return report


def changes(size: int) -> Report:
    report = Report(f"Changes one by one, {size:,} rows a side, {size:,} queries, tau = 10")
    work = workloads.hotspots(size, size, 10, 100, 10)
    index = SSI()
    seconds = once(partial(work.load, index))
    report.note("loading everything", f"{seconds:.2f} s")
    report.at_most("memory", index.storage().nbytes / (3 * size), 64, " B per row or query")
    ids = range(10**9, 10**9 + SINGLES)
    rows = list(zip(ids, work.left.tolist(), strict=False))
    queries = list(zip(ids, work.lows.tolist(), work.highs.tolist(), strict=False))
    contest = {
        "insert a row": lambda: [index.insert("left", id, value) for id, value in rows],
        "remove a row": lambda: [index.remove("left", id) for id, _ in rows],
        "insert a query": lambda: [index.insert_query(id, low, high) for id, low, high in queries],
        "remove a query": lambda: [index.remove_query(id) for id, _, _ in queries],
    }
    for what, seconds in interleaved(contest).items():
        report.at_most(what, seconds / SINGLES * 1e6, 20, " µs")
    random = np.random.default_rng(8).permutation(size)[:SINGLES].tolist()
    report.note(
        "remove random old queries", f"{once(lambda: [index.remove_query(id) for id in random]) / SINGLES * 1e6:.1f} µs"
    )
    report.note("memory after that", f"{index.storage().nbytes / (3 * size):.1f} B per row or query")
    return report


def groups() -> Report:
    """One structure for 10,000 symbols, with queries of all and with queries of each."""
    report = Report("10,000 groups, 10 rows a side and 10 queries each, 100 shared queries")
    rng = np.random.default_rng(9)
    keys = np.repeat(np.arange(10_000), 10)
    index = SSI()
    values = rng.normal(100, 1, len(keys))
    for side in ("left", "right"):
        index.insert_many(side, np.arange(len(keys)), values + rng.normal(0, 0.1, len(keys)), keys)
    spread = rng.exponential(0.05, len(keys))
    index.insert_queries(np.arange(len(keys)), -spread, spread, groups=keys)
    shared = rng.exponential(0.01, 100)
    index.insert_queries(np.arange(10**6, 10**6 + 100), 1 - shared, 1 + shared)
    asked, about = values[:20_000], keys[:20_000]
    taken = interleaved(
        {"Q1": lambda: index.pairs_many("left", asked, about), "Q2": lambda: index.affected_many("left", asked, about)}
    )
    for what, seconds in taken.items():
        report.note(f"{what}, a value", f"{seconds / len(asked) * 1e6:.2f} µs")
    report.note("memory", f"{index.storage().nbytes / (3 * len(keys)):.1f} B per row or query")
    return report


def clusters(size: int) -> Report:
    """Time and space of the four structures against clusteredness."""
    report = Report(f"Clusteredness: {size} rows a side, {size} queries, Q2 in µs and KB, against tau / n")
    for share in (0.005, 0.02, 0.1, 0.3, 1.0):
        work = workloads.hotspots(size, size, max(1, int(share * size)), 10, 200)
        indexes: dict[str, BandIndex] = {
            "quadratic": QuadraticBands(),
            "stabbing": StabbingBands(),
            "blocks": BlockBands(size=2),
            "SSI": SSI(),
        }
        answers = []
        for index in indexes.values():
            work.load(index)
            answers.append([sorted(row.tolist()) for row in index.affected_many("left", work.values)])
        assert all(answer == answers[0] for answer in answers), "the four structures agree"
        taken = interleaved(
            {name: partial(index.affected_many, "left", work.values) for name, index in indexes.items()}
        )
        ssi = indexes["SSI"]
        assert isinstance(ssi, SSI)
        for name, index in indexes.items():
            time, space = taken[name] / len(work.values) * 1e6, index.storage().nbytes / 1024
            report.note(f"tau / n = {ssi.stabbing_groups / size:.3f}, {name}", f"{time:,.1f} µs, {space:,.0f} KB")
    return report
