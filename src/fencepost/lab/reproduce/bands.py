"""The band-join paper (Agarwal, Xie, Yang, Yu) has no figures: its structures against how clustered the queries are."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.indexes import SSI, BlockBands, QuadraticBands, StabbingBands, Storage
from fencepost.indexes.contracts.bands import BandIndex
from fencepost.lab import workloads
from fencepost.lab.reproduce.figure import Check, Curve, Figure, Finding, Kind, Outcome, Panel
from fencepost.lab.reproduce.timing import computing, interleaved

PAPER = "Agarwal, Xie, Yang, Yu (band joins)"
OURS = "SSI"
QUADRATIC, STABBING, BLOCKS = "Quadratic (Lemma 1)", "Stabbing (Lemma 5)", "Block (Theorem 1)"


class Joined(NamedTuple):
    """What was measured at one degree of clustering."""

    stabbing: int
    """The least number of points that stab every query, tau."""
    microseconds: dict[str, float]
    storage: dict[str, Storage]


def least_stabbing(lows: npt.NDArray[np.float64], highs: npt.NDArray[np.float64]) -> int:
    """Tau by the greedy sweep: a group lasts while the next query begins before the smallest end in it."""
    groups, end = 0, -np.inf
    for low, high in sorted(zip(lows.tolist(), highs.tolist(), strict=True)):
        if low > end:
            groups, end = groups + 1, high
        else:
            end = min(end, high)
    return groups


def joined(
    rows: int, queries: int, hotspots: int, mean_affected: float, values: int, rounds: int, checks: list[Check]
) -> Joined:
    """All four structures on one workload."""
    work = workloads.hotspots(rows, queries, hotspots, mean_affected, values)
    tau = least_stabbing(work.lows, work.highs)
    indexes: dict[str, BandIndex] = {
        QUADRATIC: QuadraticBands(),
        STABBING: StabbingBands(),
        BLOCKS: BlockBands(size=2),
        OURS: SSI(),
    }
    answers = {}
    for name, index in indexes.items():
        work.load(index)
        answers[name] = [sorted(row.tolist()) for row in index.affected_many("left", work.values)]
    taken = interleaved(
        {name: partial(index.affected_many, "left", work.values) for name, index in indexes.items()}, rounds, computing
    )
    stored = {name: index.storage() for name, index in indexes.items()}
    where = f"{hotspots} hotspots"
    for name, answer in answers.items():
        wrong = sum(one != other for one, other in zip(answer, answers[QUADRATIC], strict=True))
        checks.append(Check(f"{name}, {where}: values answered otherwise than by {QUADRATIC}", wrong, 0))
    checks += [
        Check(f"SSI, {where}: groups after loading", stored[OURS].constructs, tau),
        Check(f"{STABBING}, {where}: groups of both sides", stored[STABBING].constructs, 2 * tau),
        Check(
            f"{QUADRATIC}, {where}: ranges of Q1 above m n a side",
            max(0, stored[QUADRATIC].entries - 4 * rows * queries),
            0,
        ),
        Check(
            f"{STABBING}, {where}: ranges above 3 (m + 1) tau + 2 n a side",
            max(0, stored[STABBING].entries - 2 * (3 * (rows + 1) * tau + 2 * queries)),
            0,
        ),
        Check(f"SSI, {where}: entries, 2 m + 2 n + tau", stored[OURS].entries, 2 * rows + 2 * queries + tau),
    ]
    microseconds = {name: seconds / values * 1e6 for name, seconds in taken.items()}
    return Joined(tau, microseconds, stored)


def clusters(
    rows: int, queries: int, shares: Sequence[float], mean_affected: float, values: int, rounds: int
) -> Outcome:
    """Time of Q2 and storage against tau / n."""
    checks: list[Check] = []
    found = [
        joined(rows, queries, max(1, round(share * queries)), mean_affected, values, rounds, checks) for share in shares
    ]
    xs = [each.stabbing / queries for each in found]
    names = (QUADRATIC, STABBING, BLOCKS, OURS)

    def kind(name: str) -> Kind:
        return "ours" if name == OURS else "paper"

    times = {name: [each.microseconds[name] for each in found] for name in names}
    held = {name: [each.storage[name].model_bytes / 1e6 for each in found] for name in names}
    first, last = found[0], found[-1]
    saving = held[QUADRATIC][0] / held[STABBING][0]
    flat = max(held[QUADRATIC]) / min(held[QUADRATIC])
    cheap, dear = times[OURS][0], times[OURS][-1]
    groups = last.stabbing / first.stabbing
    return Outcome(
        [
            Panel(
                "time of Q2: the queries that a new value affects",
                "stabbing points of all queries, tau / n",
                "CPU time per value, µs",
                [Curve(name, xs, times[name], kind(name)) for name in names],
                ratio_to=OURS,
            ),
            Panel(
                "storage, 8 bytes per entry",
                "stabbing points of all queries, tau / n",
                "storage, MB",
                [Curve(name, xs, held[name], kind(name)) for name in names],
            ),
        ],
        [
            Finding(
                "Lemma 1 takes O(mn) space however clustered the queries are",
                f"{flat:.2f}x between its extremes, {max(held[QUADRATIC]):,.1f} MB for m = {rows:,}, n = {queries:,}",
                flat < 3,
            ),
            Finding(
                "Lemma 5 takes O(m tau + n): far less where queries cluster",
                f"1/{saving:.0f} of Lemma 1 at tau = {first.stabbing}, "
                f"1/{held[QUADRATIC][-1] / held[STABBING][-1]:.1f} at tau = {last.stabbing}",
                saving > 5,
            ),
            Finding(
                "Lemma 5 answers as fast as Lemma 1: O(log(m tau) + k)",
                f"{min(a / b for a, b in zip(times[STABBING], times[QUADRATIC], strict=True)):.1f} to "
                f"{max(a / b for a, b in zip(times[STABBING], times[QUADRATIC], strict=True)):.1f}x its time",
                max(a / b for a, b in zip(times[STABBING], times[QUADRATIC], strict=True)) < 3,
            ),
            Finding(
                "Theorem 1 takes o(mn) space and o(m + n) time",
                f"{held[BLOCKS][-1] / held[QUADRATIC][-1]:.2f}x of Lemma 1's space, "
                f"{times[BLOCKS][-1] / times[QUADRATIC][-1]:.0f}x its time, unclustered",
                held[BLOCKS][-1] < held[QUADRATIC][-1],
                "one size cannot show a limit, and blocks of 2 are the largest that share their descriptions",
            ),
            Finding(
                "SSI, O(m + n) space: its time follows tau",
                f"{cheap:.1f} to {dear:.1f} µs, {dear / cheap:.0f}x for {groups:.0f}x the groups; "
                f"1/{held[STABBING][-1] / held[OURS][-1]:.0f} of Lemma 5's space, unclustered",
                dear / cheap < groups,
                ours=True,
            ),
        ],
        checks,
        notes=[
            "Closed (i,j)-intervals, as printed, are not disjoint and report a query twice, and so do its blocks: here "
            "intervals are half-open and a block knows the last point of the one before.",
        ],
    )


_SHARES = (0.005, 0.02, 0.1, 0.3, 1.0)

FIGURES = (
    Figure(
        "bands-clusters",
        PAPER,
        "Lemmas 1 and 5, Theorem 1",
        "Band joins against how clustered the queries are",
        "Lemma 1: O(mn) space, O(log mn + k) time. Lemma 5: O(m tau + n) space at the same time, tau points stab all "
        "queries. Theorem 1: o(mn) space, o(m + n) + O(k) time for any queries.",
        clusters,
        {"rows": 400, "queries": 400, "shares": _SHARES, "mean_affected": 10, "values": 400, "rounds": 5},
        {"rows": 1000, "queries": 1000, "shares": _SHARES, "mean_affected": 10, "values": 1000, "rounds": 7},
    ),
)
