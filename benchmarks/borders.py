"""Borders against the paper's BMQ and DiffRMQ, against its own two strategies, and at a million rules and objects."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Report, console, interleaved, once
from fencepost.indexes import BMQ, CEI, Borders, BoxIndex, Crossings, DiffRMQ, ISList, Matches, SliceList
from fencepost.indexes.analysis import bmq_efficiency, diff_efficiency
from fencepost.indexes.contracts.borders import BorderIndex
from fencepost.lab import workloads
from fencepost.lab.workloads import MoveWorkload

__all__ = ["run"]

SINGLES = 2000
CHANGE_ROUNDS, EACH_ROUND = 10, 1000
CEI_LENGTH = 1024
"""The nearest power of two to the width of the rules."""


def run(full: bool) -> list[Report]:
    """All reports; `full` takes the published sizes."""
    ticks = 1000 if full else 30
    console.print("[dim]the paper's workload[/]")
    reports = [against_the_paper(ticks)]
    console.print("[dim]longer and longer steps[/]")
    reports.append(strategies(ticks))
    console.print("[dim]a million rules, a million objects[/]")
    reports += [large(1_000_000 if full else 300_000), burst(), two_axes(full), efficiency(full)]
    console.print("[dim]live changes[/]")
    reports += [single_changes(), small_changes()]
    return reports


def filled(index: BorderIndex, work: MoveWorkload) -> Any:
    """The workload's rules in an index."""
    index.insert_many(np.arange(len(work.los)), work.los, work.his)
    return index


def same(answers: list[Crossings]) -> None:
    """All of them have the same rules entered and left in every row."""
    for kind in ("enter", "exit"):
        first, *others = (getattr(answer, kind) for answer in answers)
        expected = _by_row(first)
        for other in others:
            assert np.array_equal(first.offsets, other.offsets), f"{kind}: other numbers of rules"
            assert np.array_equal(expected, _by_row(other)), f"{kind}: other rules"


def _by_row(found: Matches) -> Any:
    """The ids, sorted within each row."""
    rows = np.repeat(np.arange(len(found)), found.counts)
    return found.ids[np.lexsort((found.ids, rows))]


def against_the_paper(ticks: int) -> Report:
    """100,000 rules of 0.1%, 2,000 objects, steps of 0.01%: every structure moves the same objects by the same rows.

    Borders writes into buffers that are used again, as its callers can; the others allocate what they return.
    """
    work = workloads.moves(100_000, 0.001, 0.0001, 2000, ticks)
    rows, names = work.values.ravel(), work.objects
    report = Report(f"Borders, the paper's workload: 100,000 rules, 2,000 objects x {ticks:,} rows, W=0.1%, FL=0.01%")
    domain = (0, int(work.domain))
    indexes: dict[str, Any] = {
        "Borders": Borders(),
        "BMQ": BMQ(),
        "DiffRMQ(CEI)": DiffRMQ(CEI(domain, CEI_LENGTH)),
        "DiffRMQ(CEI), kept": DiffRMQ(CEI(domain, CEI_LENGTH), keep=True),
        "DiffRMQ(ISList)": DiffRMQ(ISList()),
        "DiffRMQ(SliceList)": DiffRMQ(SliceList()),
    }
    some = min(len(rows), 20_000)
    for index in indexes.values():
        filled(index, work)
    same([index.update(names[:some], rows[:some]) for index in indexes.values()])
    contest: dict[str, Callable[[], object]] = {
        name: partial(index.update, names, rows) for name, index in indexes.items()
    }
    found = indexes["Borders"].update(names, rows)
    contest["Borders"] = partial(indexes["Borders"].update, names, rows, cross=False, out=_buffers(found))
    contest["Borders, with cross"] = partial(indexes["Borders"].update, names, rows, out=_buffers(found))
    before, after = np.ascontiguousarray(work.values[:-1]).ravel(), np.ascontiguousarray(work.values[1:]).ravel()
    contest["Borders, stateless"] = _stateless(indexes["Borders"], before, after, "cheaper")
    taken = interleaved(contest, rounds=3)
    for name, seconds in taken.items():
        each, ratio = seconds / len(rows) * 1e9, seconds / taken["Borders"]
        if name in ("DiffRMQ(CEI)", "DiffRMQ(ISList)"):
            report.at_least(f"{name} ({each:,.0f} ns per row) / Borders", ratio, 30)
        elif name == "Borders, stateless":
            report.at_most("Borders, stateless, about 10 changes per row", each, 30, " ns")
        else:
            report.note(f"{name} ({each:,.0f} ns per row) / Borders", f"{ratio:.2f}x")
        if name in ("DiffRMQ(CEI)", "BMQ"):
            report.headline(
                "which of 100,000 ranges does a move enter or leave?",
                f"{name}, ours after the papers",
                f"{ratio:,.0f}x",
            )
    return report


def _stateless(index: Any, before: Any, after: Any, strategy: str) -> Callable[[], Crossings]:
    """Moves without an object table, into buffers that are used again."""
    out = _buffers(index.crossings(before, after, cross=False, strategy=strategy))
    return partial(index.crossings, before, after, cross=False, out=out, strategy=strategy)


def _buffers(found: Crossings) -> Crossings:
    """Touched buffers, with room for an answer of this size."""
    room = [0 if each is None else len(each.ids) + len(each.ids) // 8 + 4096 for each in found]
    made = (Matches(np.zeros(len(found.enter) + 1, np.int64), np.zeros(size, np.int64)) for size in room)
    return Crossings(*made)


def strategies(ticks: int) -> Report:
    """Steps from 0.001% to 1%: what is cheaper per move against walking or comparing all of them."""
    report = Report("Borders, 100,000 rules of 0.1%: choosing per move / the better of walking and comparing alone")
    for fluctuation in (0.00001, 0.0001, 0.0003, 0.001, 0.003, 0.01):
        work = workloads.moves(100_000, 0.001, fluctuation, 2000, max(51, ticks // 10))
        index = filled(Borders(), work)
        before, after = np.ascontiguousarray(work.values[:-1]).ravel(), np.ascontiguousarray(work.values[1:]).ravel()
        contest = {name: _stateless(index, before, after, name) for name in ("cheaper", "walk", "compare")}
        same([contestant() for contestant in contest.values()])
        taken = interleaved(contest, rounds=7)
        shown = ", ".join(f"{name} {seconds / len(before) * 1e9:,.0f}" for name, seconds in taken.items())
        better = min(taken["walk"], taken["compare"])
        report.at_most(f"FL={fluctuation:.3%} ({shown} ns per row)", taken["cheaper"] / better, 1.2)
    return report


def large(size: int) -> Report:
    """As many objects as rules, one change per row on average."""
    report = Report(f"Borders, {size:,} rules and {size:,} objects, mean 1 change per row")
    work = workloads.moves(size, 20 / size, 0.5 / size, size, 3, domain=2.0**40)
    index = filled(Borders(), work)
    rng = np.random.default_rng(3)
    rounds = [(order, work.values[tick][order]) for tick in range(3) for order in [rng.permutation(size)]]
    index.update(*rounds[0])
    changes = [found.enter.offsets[-1] + found.exit.offsets[-1] for found in (index.update(*rounds[1]),)]
    report.note("changes per row", f"{changes[0] / size:.2f}")

    out = _buffers(index.update(*rounds[2]))

    def both() -> None:
        for names, values in rounds[1:]:
            index.update(names, values, out=out)

    seconds = interleaved({"update": both}, rounds=5)["update"] / (2 * size)
    report.at_most("update with the object table, per row", seconds * 1e9, 150, " ns")
    report.at_most("space per rule", index.storage().nbytes / size, 40, " bytes")
    report.at_most("space per object", index.object_bytes / size, 32, " bytes")
    return report


def burst() -> Report:
    """Objects that jump in the first rows of an update and stand still in all others: how much room is asked for."""
    rows, objects, n, domain = 100_000, 2000, 100_000, 1_000_000
    report = Report(f"Borders, a burst: {objects:,} of {rows:,} rows jump over {n:,} rules, the others stay")
    rng = np.random.default_rng(3)
    los = rng.integers(0, domain - 1000, n)
    names, jumps = np.tile(np.arange(objects), rows // objects), rng.integers(0, domain, objects)
    index = Borders()
    index.insert_many(np.arange(n), los, los + 1000)
    index.update(np.arange(objects), rng.integers(0, domain, objects))
    found = index.update(names, np.tile(jumps, rows // objects))
    asked = [each.ids if each.ids.base is None else each.ids.base for each in found if each is not None]
    true = sum(each.ids.nbytes for each in found if each is not None)
    report.at_most(
        f"bytes of the buffers / bytes of the answer ({true / 1e6:,.0f} MB)",
        sum(each.nbytes for each in asked) / true,
        2.1,
    )
    return report


def two_axes(full: bool) -> Report:
    """Rectangles over 10^6 x 10^6, mean 20 of them at a point, 100,000 objects."""
    n, objects = (1_000_000, 100_000) if full else (100_000, 20_000)
    report = Report(f"Borders on two axes: {n:,} rectangles, 20 at a point, {objects:,} objects")
    rng = np.random.default_rng(5)
    domain = 1e6
    side = domain * np.sqrt(20 / n)
    los = rng.random((n, 2)) * domain
    his = los + side * rng.uniform(0.5, 1.5, (n, 2))
    for step, goal, faster in ((0.0001, 130, 1.8), (0.001, 200, 1.25)):
        before = rng.random((objects, 2)) * domain
        after = before + rng.uniform(-step, step, before.shape) * domain
        indexes: dict[str, Any] = {"Borders": Borders(2), "DiffRMQ": DiffRMQ(BoxIndex(2), 2), "BMQ": BMQ(2)}
        for index in indexes.values():
            index.insert_many(np.arange(n), los, his)
        some = 1000
        same([index.crossings(before[:some], after[:some]) for index in indexes.values()])
        contest = {
            "Borders": partial(indexes["Borders"].crossings, before, after, cross=False),
            "DiffRMQ": partial(indexes["DiffRMQ"].crossings, before, after),
            "BMQ": partial(indexes["BMQ"].crossings, before[:some], after[:some]),
        }
        taken = interleaved(contest, rounds=3)
        each = {name: seconds / (some if name == "BMQ" else objects) * 1e9 for name, seconds in taken.items()}
        report.at_most(f"steps up to {step:.2%}: Borders, per row", each["Borders"], goal, " ns")
        report.at_least(
            f"steps up to {step:.2%}: DiffRMQ(BoxIndex) ({each['DiffRMQ']:,.0f} ns) / Borders",
            each["DiffRMQ"] / each["Borders"],
            faster,
        )
        report.at_least(
            f"steps up to {step:.2%}: BMQ ({each['BMQ']:,.0f} ns) / Borders", each["BMQ"] / each["Borders"], 20
        )
    return report


def changing() -> tuple[Borders, MoveWorkload]:
    """A million rules of which a hundred hold at a value, and moves of about ten changes."""
    size = 1_000_000
    work = workloads.moves(size, 100 / size, 5 / size, 100_000, 2, domain=2.0**40)
    return filled(Borders(), work), work


def single_changes() -> Report:
    """One rule at a time."""
    index, work = changing()
    n = len(work.los)
    picked = np.random.default_rng(9).integers(0, n, SINGLES)
    rows = list(zip(range(n, n + SINGLES), work.los[picked].tolist(), work.his[picked].tolist(), strict=True))

    def insert() -> None:
        for id, lo, hi in rows:
            index.insert(id, lo, hi)

    def remove() -> None:
        for id, _, _ in rows:
            index.remove(id)

    report = Report(f"Borders, {SINGLES:,} single changes at {n:,} rules")
    first = once(lambda: index.insert(2 * n, 1.0, 2.0))
    times = [(once(insert), once(remove)) for _ in range(4)][1:]
    for what, taken in zip(("insert", "remove"), np.median(times, axis=0).tolist(), strict=True):
        report.at_most(f"single {what}", taken / SINGLES * 1e6, 10, " µs")
    report.note("the first change, which spreads all rules out", f"{first * 1e3:,.0f} ms")
    return report


def small_changes() -> Report:
    """Rounds of a thousand inserts and a thousand removes: what moves cost afterwards."""
    before, work = changing()
    after, _ = changing()
    n = len(work.los)
    rng = np.random.default_rng(9)
    picked = rng.integers(0, n, (CHANGE_ROUNDS, EACH_ROUND))
    gone = rng.choice(n, (CHANGE_ROUNDS, EACH_ROUND), replace=False)
    seconds = 0.0
    for number, (some, old) in enumerate(zip(picked, gone, strict=True)):
        ids = np.arange(n, n + EACH_ROUND) + number * EACH_ROUND
        seconds += once(partial(after.insert_many, ids, work.los[some] + 0.5, work.his[some] + 0.5))
        seconds += once(partial(after.remove_many, old))
    start, end = work.values[0], work.values[1]
    contest: dict[str, Callable[[], object]] = {}
    for name, index in (("before", before), ("after", after)):
        contest[name] = _stateless(index, start, end, "cheaper")
        contest[f"{name}, stab"] = partial(index.stab, start)
    taken = interleaved(contest)
    report = Report(
        f"Borders, {CHANGE_ROUNDS} rounds of {EACH_ROUND:,} inserts and {EACH_ROUND:,} removes at {n:,} rules"
    )
    report.at_most("moves after / before", taken["after"] / taken["before"], 1.15)
    report.at_most("stab after / before", taken["after, stab"] / taken["before, stab"], 1.15)
    report.note("  all changes", f"{seconds * 1e3:,.0f} ms")
    report.note("  space per rule after them", f"{after.storage().nbytes / n:.1f} bytes")
    return report


def efficiency(full: bool) -> Report:
    """What BMQ and DiffRMQ look at, against the closed forms."""
    report = Report("Search efficiency: measured against the closed form")
    for law in ("constant", "uniform", "normal", "exponential") if full else ("constant", "exponential"):
        for fluctuation in (0.0001, 0.001):
            work = workloads.moves(100_000, 0.001, fluctuation, 2000, 21, law=law)
            rows, names = work.values.ravel(), work.objects
            bmq, diff = filled(BMQ(), work), filled(DiffRMQ(SliceList()), work)
            for index in (bmq, diff):
                index.update(names[:2000], rows[:2000])
            first = bmq.touched
            diff.intermediate = diff.reported = 0
            for index in (bmq, diff):
                index.update(names[2000:], rows[2000:])
            deltas, reported = bmq.touched.deltas - first.deltas, bmq.touched.reported - first.reported
            measured = {"BMQ": reported / deltas, "DiffRMQ": diff.reported / diff.intermediate}
            closed = {
                "BMQ": bmq_efficiency(fluctuation, 0.001, law),
                "DiffRMQ": diff_efficiency(fluctuation, 0.001, law),
            }
            for name, value in measured.items():
                off = abs(value / closed[name] - 1) * 100
                report.at_most(f"{name}, {law} steps, FL={fluctuation:.2%}: {value:.3f}, off by", off, 2, " %")
    return report
