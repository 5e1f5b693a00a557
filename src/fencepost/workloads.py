"""Seeded interval and band sets and values, shared by tests, benchmarks, figures and the demo."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "BandWorkload",
    "IntervalWorkload",
    "clustered",
    "heavy_tailed",
    "hotspots",
    "loans",
    "onion",
    "sparse",
    "uniform",
]


class IntervalWorkload(NamedTuple):
    """Intervals ``[los[i], his[i])`` with ids 0, 1, ... inside ``[0, domain)``, and values to stab them with."""

    name: str
    domain: int
    los: npt.NDArray[np.int64]
    his: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """One id per interval."""
        return np.arange(len(self.los))

    def counts(self) -> npt.NDArray[np.int64]:
        """How many intervals contain each value, by ranks alone."""
        started = np.searchsorted(np.sort(self.los), self.values, "right")
        ended = np.searchsorted(np.sort(self.his), self.values, "right")
        return np.asarray(started - ended, np.int64)


def _workload(
    name: str,
    domain: int,
    los: npt.NDArray[np.int64],
    widths: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
) -> IntervalWorkload:
    return IntervalWorkload(name, domain, los, np.minimum(los + widths, domain), values)


def uniform(domain: int, n: int, widest: int, values: int, seed: int = 7, name: str = "uniform") -> IntervalWorkload:
    """Starts uniform over the domain, widths uniform on 1..`widest` (Wu, Chen, Yu 2006)."""
    rng = np.random.default_rng(seed)
    los = rng.integers(0, domain, n)
    return _workload(name, domain, los, rng.integers(1, widest + 1, n), rng.integers(0, domain, values))


def sparse(n: int = 1_000_000, mean_matches: int = 100, values: int = 1_000_000, seed: int = 7) -> IntervalWorkload:
    """Workload C: a domain of about 2**31, widths such that a value lies in `mean_matches` intervals."""
    domain = 2**31 - 2**20
    return uniform(domain, n, 2 * mean_matches * domain // n, values, seed, "C")


def heavy_tailed(
    n: int = 1_000_000, mean_matches: int = 1000, values: int = 100_000, seed: int = 7
) -> IntervalWorkload:
    """Workload D: lognormal widths, a few of them nearly as wide as the domain."""
    rng = np.random.default_rng(seed)
    domain = 2**31 - 2**20
    los = rng.integers(0, domain, n)
    raw = rng.lognormal(0, 2.0, n)
    widths = np.maximum(1, (raw * (mean_matches * domain / n / raw.mean())).astype(np.int64))
    return _workload("D", domain, los, widths, rng.integers(0, domain, values))


def loans(n: int = 2_312_602, values: int = 1000, seed: int = 7) -> IntervalWorkload:
    """Workload E: a year of library loans in seconds; whole hours, most of them weeks long.

    The published data set cannot be shipped; durations are drawn to give its mean of about 6% of the year.
    """
    rng = np.random.default_rng(seed)
    domain = 31_507_200
    los = rng.integers(0, domain // 3600, n) * 3600
    hours = np.maximum(1, rng.gamma(1.2, 480.0, n).astype(np.int64))
    return _workload("E", domain, los, hours * 3600, rng.integers(0, domain, values))


def onion(n: int, values: int, seed: int = 7) -> IntervalWorkload:
    """N intervals, each strictly inside the one before: the worst case for anything that stores covers."""
    layer = np.arange(n)
    domain = 2 * n + 2
    rng = np.random.default_rng(seed)
    return IntervalWorkload("onion", domain, layer, domain - layer, rng.integers(0, domain, values))


def clustered(n: int, values: int, seed: int = 7) -> IntervalWorkload:
    """All but a few intervals crowd one millionth of a huge domain: the worst case for a bucket table."""
    rng = np.random.default_rng(seed)
    domain = 2**60
    centre = domain // 3
    los = centre + rng.integers(0, 64 * n, n)
    los[: n // 1000 + 1] = rng.integers(0, domain // 2, n // 1000 + 1)
    widths = rng.integers(1, 64 * 40, n)
    asked = np.where(
        rng.random(values) < 0.9, centre + rng.integers(0, 64 * n, values), rng.integers(0, domain, values)
    )
    return _workload("clustered", domain, los, widths, asked)


class BandWorkload(NamedTuple):
    """Rows of two sides, queries ``lows[i] <= left - right <= highs[i]``, ids 0, 1, ...; left values to ask about."""

    name: str
    left: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]
    lows: npt.NDArray[np.float64]
    highs: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]

    def load(self, index: Any) -> None:
        """Insert all rows and queries into a band index."""
        index.insert_many("left", np.arange(len(self.left)), self.left)
        index.insert_many("right", np.arange(len(self.right)), self.right)
        index.insert_queries(np.arange(len(self.lows)), self.lows, self.highs)


def hotspots(rows: int, queries: int, hotspots: int, mean_affected: float, values: int, seed: int = 7) -> BandWorkload:
    """Rows uniform on both sides; bands around a few differences, so narrow that a value affects `mean_affected`.

    With as many hotspots as queries the bands are not clustered at all. Values are such that no band reaches
    beyond the rows.
    """
    rng = np.random.default_rng(seed)
    extent = 1e6
    left, right = rng.uniform(0, extent, rows), rng.uniform(0, extent, rows)
    centres = rng.uniform(-extent / 4, extent / 4, hotspots)
    centre = centres[rng.permutation(queries) % hotspots]
    half_width = mean_affected / queries * extent / rows / 2
    lows, highs = centre - rng.exponential(half_width, queries), centre + rng.exponential(half_width, queries)
    return BandWorkload(
        f"{hotspots} hotspots", left, right, lows, highs, rng.uniform(extent / 4, 3 * extent / 4, values)
    )
