"""Answers in new buffers beside answers in buffers that are passed: what it costs that nobody has to pass any."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Report, interleaved
from benchmarks.rules import BATCH, built, market
from fencepost.indexes import Borders, BoxIndex, Crossings, Matches, SliceList
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.lab import workloads

__all__ = ["run"]

GOAL = 1.15
ROUNDS = 9
SMALL_BATCH, TIMES = 20_000, 5
"""Rows whose answer is so small that it needs no large buffer; how many times the batch of `rules` is asked at once."""


class Kept:
    """A call whose last answer is held until the next is there, as by who works with it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._answer: object = None

    def __call__(self) -> None:
        """Ask anew."""
        self._answer = self._call()


def run(full: bool) -> list[Report]:
    """The report; `full` takes the published sizes."""
    report = Report("New buffers beside buffers that are passed (`out=`); the last answer is held meanwhile")
    work = workloads.sparse(values=1_000_000 if full else 250_000)
    slices = SliceList()
    slices.insert_many(work.ids, work.los, work.his)
    compare(report, "SliceList, workload C, ids", lambda out: slices.stab(work.values, out=out), buffers)
    compare(report, "SliceList, workload C, slots", lambda out: slices.stab(work.values, slots=True, out=out), buffers)
    plane = workloads.plane("equal", 1_000_000 if full else 200_000, 100_000)
    boxes = BoxIndex(dimensions=2)
    boxes.insert_many(plane.ids, plane.los, plane.his)
    compare(report, "BoxIndex, G, equal", lambda out: boxes.stab(plane.points, out=out), buffers)
    moves = workloads.moves(100_000, 0.001, 0.0001, 2000, 1000 if full else 200)
    borders = Borders()
    borders.insert_many(np.arange(len(moves.los)), moves.los, moves.his)
    before, after = (np.ascontiguousarray(each).ravel() for each in (moves.values[:-1], moves.values[1:]))
    compare(
        report,
        "Borders, the paper's workload",
        lambda out: borders.crossings(before, after, cross=False, out=out),
        both,
    )
    matching(report, 1_000_000 if full else 300_000)
    return [report]


def compare(report: Report, what: str, ask: Callable[[Any], Any], room: Callable[[Any], Any]) -> None:
    """Judge one call without `out` beside the same with it."""
    given = room(ask(None))
    taken = interleaved({"new": Kept(lambda: ask(None)), "given": lambda: ask(given)}, rounds=ROUNDS)
    report.at_most(f"{what}: new ({taken['new'] * 1e3:,.1f} ms) / given", taken["new"] / taken["given"], GOAL)


def buffers(found: Matches) -> Matches:
    """Touched buffers, with room for an answer of this size."""
    room = len(found.ids) + len(found.ids) // 8 + 64 * PADDING
    return Matches(np.zeros(len(found.offsets), np.int64), np.zeros(room, found.ids.dtype))


def both(found: Crossings) -> Crossings:
    """The same for what is entered and what is left."""
    return Crossings(buffers(found.enter), buffers(found.exit), None)


def matching(report: Report, n: int) -> None:
    """`match` takes no buffers: rows at once beside the same in batches, whose answers fit memory malloc has anyway."""
    given = market(n)
    snapshot = built(given)
    batches = [given.ticks.slice(begin, SMALL_BATCH).combine_chunks() for begin in range(0, BATCH, SMALL_BATCH)]
    whole = pa.concat_tables([given.ticks] * TIMES).combine_chunks()

    def in_batches() -> None:
        for batch in batches * TIMES:
            snapshot.match(batch)

    taken = interleaved({"new": Kept(lambda: snapshot.match(whole)), "batches": in_batches}, rounds=ROUNDS)
    label = f"Snapshot.match, {TIMES * BATCH:,} rows: at once ({taken['new'] * 1e3:,.1f} ms) / by {SMALL_BATCH:,}"
    report.at_most(label, taken["new"] / taken["batches"], GOAL)
