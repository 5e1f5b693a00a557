"""Interval indexes over a sweep: what each holds, how long a search takes, and whether its answers are right."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.indexes import Matches, Storage
from fencepost.indexes.contracts.intervals import IntervalIndex
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.lab.reproduce.figure import Check, Curve, Kind, Panel
from fencepost.lab.reproduce.timing import computing, interleaved
from fencepost.lab.workloads import IntervalWorkload

OURS = "SliceList"


class Case(NamedTuple):
    """One place of a sweep: the workload there and the structures to ask."""

    x: float
    work: IntervalWorkload
    structures: Mapping[str, Callable[[], IntervalIndex]]
    """Each makes a filled index: only one case is in memory at a time."""


class Point(NamedTuple):
    """One structure at one place of the sweep."""

    x: float
    microseconds: float
    storage: Storage
    lists: int | None


class Sweep(NamedTuple):
    """The points of every structure, and the checks of its answers."""

    points: dict[str, list[Point]]
    checks: list[Check]

    def at(self, name: str, x: float) -> Point:
        """One structure at one place."""
        return next(point for point in self.points[name] if point.x == x)


def filled(make: Callable[[], IntervalIndex], work: IntervalWorkload, closed: bool = False) -> IntervalIndex:
    """A new index with the workload's intervals in it."""
    index = make()
    index.insert_many(work.ids, work.los, work.his, "[]" if closed else None)
    return index


def measured(
    cases: Iterable[Case],
    searches: npt.NDArray[np.float64] | None = None,
    counts: Callable[[IntervalWorkload, npt.NDArray[np.float64]], npt.NDArray[np.int64]] | None = None,
    rounds: int = 5,
) -> Sweep:
    """Build, check and time every structure of every case.

    Args:
        cases: the sweep, made as it is consumed.
        searches: values to ask; the workload's own, moved to random places of their cells, if not given.
        counts: how many intervals contain each value; by ranks if not given.
        rounds: of the interleaved measurement.
    """
    found = Sweep({}, [])
    for case in cases:
        values = searches
        if values is None:
            values = case.work.values + np.random.default_rng(1).random(len(case.work.values))
        expected = case.work.counts() if counts is None else counts(case.work, values)
        room = int(expected.sum()) + PADDING
        out = Matches(np.empty(len(values) + 1, np.int64), np.zeros(room, np.int64))
        indexes = {name: make() for name, make in case.structures.items()}
        for name, index in indexes.items():
            wrong = int(np.count_nonzero(index.stab(values).counts != expected))
            found.checks.append(Check(f"{name} at {case.x:g}: values answered wrongly", wrong, 0))
        contest = {name: partial(index.stab, values, out=out) for name, index in indexes.items()}
        taken = interleaved(contest, rounds, computing)
        for name, index in indexes.items():
            lists = getattr(index, "lists_per_search", None)
            point = Point(case.x, taken[name] / len(values) * 1e6, index.storage(), lists)
            found.points.setdefault(name, []).append(point)
    return found


def storage_panel(sweep: Sweep, title: str, x_label: str, extra: Sequence[Curve] = ()) -> Panel:
    """Megabytes over the sweep: the papers' structures by the papers' model, ours in real bytes."""
    curves = [
        Curve(
            f"{name}, real bytes" if name == OURS else name,
            [point.x for point in points],
            [(point.storage.nbytes if name == OURS else point.storage.model_bytes) / 1e6 for point in points],
            _kind(name),
        )
        for name, points in sweep.points.items()
    ]
    return Panel(title, x_label, "storage, MB", [*curves, *extra])


def time_panel(sweep: Sweep, title: str, x_label: str) -> Panel:
    """Microseconds per search over the sweep, ids copied out; the labels compare with ours."""
    curves = [
        Curve(name, [point.x for point in points], [point.microseconds for point in points], _kind(name))
        for name, points in sweep.points.items()
    ]
    return Panel(title, x_label, "CPU time per search, µs", curves, ratio_to=OURS)


def _kind(name: str) -> Kind:
    return "ours" if name == OURS else "paper"
