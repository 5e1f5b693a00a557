"""Seeded intervals, boxes, bands, values and moves, shared by tests, benchmarks, figures and the demo."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


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


class MoveWorkload(NamedTuple):
    """Rules ``[los[i], his[i])``, and where every object is tick after tick: `values` has a row per tick."""

    domain: float
    los: npt.NDArray[np.float64]
    his: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]

    @property
    def objects(self) -> npt.NDArray[np.int64]:
        """The object of each value, flattened."""
        ticks, objects = self.values.shape[:2]
        return np.tile(np.arange(objects), ticks)


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


class BoxWorkload(NamedTuple):
    """Boxes ``[los[i], his[i])`` with ids 0, 1, ..., a column per dimension, and points to stab them with."""

    name: str
    domain: int
    los: npt.NDArray[np.float64]
    his: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64]

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """One id per box."""
        return np.arange(len(self.los))


def grid(n: int, widest: int, crowded: bool, points: int, seed: int = 7) -> BoxWorkload:
    """Rectangles on 245 x 245 cells, sides uniform on 1..`widest` (Wu, Chen, Yu, IBM report).

    Args:
        n: how many.
        widest: the longest side.
        crowded: 90% of the lower left corners, and of the points, in 10% of the area.
        points: how many centres of cells to ask.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    side = 245
    los = _crowded(rng, n, side, crowded).astype(np.int64)
    his = np.minimum(los + rng.integers(1, widest + 1, (n, 2)), side)
    asked = np.floor(_crowded(rng, points, side, crowded)) + 0.5
    name = f"{side} x {side}, sides 1..{widest}, {'90-10' if crowded else 'uniform'}"
    return BoxWorkload(name, side, los.astype(np.float64), his.astype(np.float64), asked)


def plane(
    variant: str, n: int = 1_000_000, points: int = 100_000, mean_matches: int = 20, seed: int = 7
) -> BoxWorkload:
    """Workload G: real coordinates on 10**6 x 10**6.

    Args:
        variant: ``"equal"`` or ``"lognormal"`` sides; ``"skew"``: 90% of boxes and points in 10% of the area;
            ``"clusters"``: 1,000 tiny ones.
        n: how many rectangles.
        points: how many to ask.
        mean_matches: rectangles that contain a point, about.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    side = 10**6
    centres, asked = _crowded(rng, n, side, variant == "skew"), _crowded(rng, points, side, variant == "skew")
    crowding = 0.9 * 0.9 / 0.1 + 0.1 * 0.1 / 0.9 if variant == "skew" else 1.0
    if variant == "clusters":
        spread = side / 1000
        middles = rng.random((1000, 2)) * side
        centres = middles[rng.integers(0, 1000, n)] + rng.normal(0, spread / 4, (n, 2))
        asked = middles[rng.integers(0, 1000, points)] + rng.normal(0, spread / 4, (points, 2))
        crowding = side**2 / (1000 * 4 * np.pi * (spread / 4) ** 2)
    sides = rng.lognormal(0, 1, (n, 2)) if variant == "lognormal" else rng.uniform(0.5, 1.5, (n, 2))
    sides *= np.sqrt(mean_matches * side**2 / n / crowding / sides.prod(axis=1).mean())
    return BoxWorkload(f"G, {variant}", side, centres - sides / 2, centres + sides / 2, asked)


def partly_bounded(
    dimensions: int, n: int = 1_000_000, points: int = 100_000, mean_matches: int = 10, seed: int = 7
) -> BoxWorkload:
    """Boxes in a unit cube, half of them unbounded in one or two dimensions, all of the same volume on average."""
    rng = np.random.default_rng(seed)
    free = np.where(rng.random(n) < 0.5, rng.integers(1, 3, n), 0)
    unbounded = rng.random((n, dimensions)).argsort(1) < np.minimum(free, dimensions - 1)[:, np.newaxis]
    sides = (mean_matches / n) ** (1 / (dimensions - unbounded.sum(1)))
    half = sides[:, np.newaxis] * rng.uniform(0.25, 0.75, (n, dimensions))
    centers = rng.random((n, dimensions))
    los, his = np.where(unbounded, -np.inf, centers - half), np.where(unbounded, np.inf, centers + half)
    return BoxWorkload(f"partly bounded, {dimensions}-D", 1, los, his, rng.random((points, dimensions)))


def _crowded(rng: np.random.Generator, n: int, side: int, crowded: bool) -> npt.NDArray[np.float64]:
    """Places on a square, 90% of them in a corner of 10% of its area if crowded."""
    places = rng.random((n, 2)) * side
    if crowded:
        places[rng.random(n) < 0.9] *= np.sqrt(0.1)
    return places


def moves(
    n: int,
    width: float,
    fluctuation: float,
    objects: int,
    ticks: int,
    law: str = "uniform",
    domain: float = 1_000_000.0,
    seed: int = 7,
) -> MoveWorkload:
    """Rules of one width and objects that wander (Lee et al.): width and mean step are shares of the domain.

    Lengths of steps follow the law `constant`, `uniform`, `normal` or `exponential`; at the ends objects turn round.
    """
    rng = np.random.default_rng(seed)
    los = rng.random(n) * domain * (1 - width)
    mean = fluctuation * domain
    shape = (ticks, objects)
    laws: dict[str, Callable[[], npt.NDArray[np.float64]]] = {
        "constant": lambda: np.full(shape, mean),
        "uniform": lambda: rng.random(shape) * 2 * mean,
        "normal": lambda: np.abs(rng.normal(0, mean * np.sqrt(np.pi / 2), shape)),
        "exponential": lambda: rng.exponential(mean, shape),
    }
    lengths = laws[law]()
    lengths *= rng.choice([-1.0, 1.0], shape)
    lengths[0] = rng.random(objects) * domain
    folded = np.cumsum(lengths, axis=0) % (2 * domain)
    return MoveWorkload(domain, los, los + width * domain, np.minimum(folded, 2 * domain - folded))


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
