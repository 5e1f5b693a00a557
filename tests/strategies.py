"""Generators that aim at the shapes that hurt: touching, nested, duplicate, unbounded, on the edge."""

import math

from hypothesis import strategies as st

DOMAIN = (-7, 50)
"""Small, offset, and a multiple of no power of two."""

EDGES = [
    float(DOMAIN[0]),
    float(DOMAIN[1]),
    math.nextafter(DOMAIN[0], -math.inf),
    math.nextafter(DOMAIN[1], -math.inf),
    math.nextafter(0.0, 1.0),
    -0.0,
    DOMAIN[0] - 1.0,
    DOMAIN[1] + 1.0,
    1e300,
    -1e300,
]


def coordinates() -> st.SearchStrategy[float]:
    """Mostly small integers, so that ends collide; then halves, neighbours of integers and edges."""
    whole = st.integers(DOMAIN[0] - 3, DOMAIN[1] + 3).map(float)
    half = st.integers(2 * DOMAIN[0], 2 * DOMAIN[1]).map(lambda n: n / 2)
    beside = whole.map(lambda x: math.nextafter(x, math.inf))
    return st.one_of(whole, whole, half, beside, st.sampled_from(EDGES))


@st.composite
def intervals(draw: st.DrawFn, points: bool) -> tuple[float, float]:
    """``(low, high)`` with low < high, or low == high where points are intervals too."""
    shape = draw(st.sampled_from(["any", "any", "any", "short", "below", "above", "all"]))
    low = draw(coordinates())
    high = draw(coordinates())
    if shape == "short":
        high = low + draw(st.integers(0, 3))
    low, high = min(low, high), max(low, high)
    if low == high and not points:
        high = math.nextafter(high, math.inf)
    return (
        -math.inf if shape in ("below", "all") else low,
        math.inf if shape in ("above", "all") else high,
    )


def values() -> st.SearchStrategy[float]:
    return st.one_of(coordinates(), st.sampled_from([math.nan, math.inf, -math.inf]))


Corners = tuple[tuple[float, ...], tuple[float, ...]]


@st.composite
def boxes(draw: st.DrawFn, dimensions: int, points: bool) -> Corners:
    """The lows and the highs of a box: an interval of the above per dimension, often the same in all of them."""
    if draw(st.integers(0, 4)) == 0:
        low, high = draw(intervals(points))
        return (low,) * dimensions, (high,) * dimensions
    lows, highs = zip(*(draw(intervals(points)) for _ in range(dimensions)), strict=True)
    return lows, highs


def places(dimensions: int) -> st.SearchStrategy[tuple[float, ...]]:
    """Points whose coordinates are the values of the above."""
    return st.tuples(*[values()] * dimensions)
