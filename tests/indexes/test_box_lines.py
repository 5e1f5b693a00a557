"""BoxLines against every line and box compared, at every scale."""

import numpy as np
import pytest

from fencepost.indexes.borders.box_lines import BoxLines
from fencepost.indexes.ordinal import LARGEST, SMALLEST, ValueType
from fencepost.ordinals import BIGINT, DOUBLE
from tests.snapshot.jump_oracle import Box, jumps_over

KINDS: list[list[ValueType]] = [
    ["float64", "float64"],
    ["int64", "int64"],
    ["float64", "int64"],
    ["int64", "float64", "float64"],
]
SCALES = [(0.0, 20.0), (0.0, 1e6), (-1e15, 30.0), (2.0**52, 4000.0), (2.0**60, 1e6), (3.0, 1e-14), (0.0, 1e-308)]
"""Where boxes are, and how far apart."""


def drawn(rng: np.random.Generator, kind: ValueType, origin: float, reach: float, count: int) -> list[int]:
    """Ordinals of values on a grid of 20 steps, so that ends and lines collide."""
    steps = rng.integers(0, 21, count)
    if kind == "int64":
        return [int(origin) + int(step) * max(1, int(reach / 20)) for step in steps]
    found = [DOUBLE.encode_one(origin + float(step) * reach / 20) for step in steps]
    return [ordinal for ordinal in found if ordinal is not None]


@pytest.mark.parametrize("kinds", KINDS, ids=", ".join)
@pytest.mark.parametrize("scale", SCALES)
def test_lines_jump_over_what_every_box_compared_tells(kinds: list[ValueType], scale: tuple[float, float]) -> None:
    names = [f"a{axis}" for axis in range(len(kinds))]
    types = {name: DOUBLE if kind == "float64" else BIGINT for name, kind in zip(names, kinds, strict=True)}
    rng = np.random.default_rng(len(kinds))
    found = 0
    for count in (1, 2, 31, 33, 64, 120):
        keyed = count % 2 == 1
        firsts, lasts = (np.array([drawn(rng, kind, *scale, count) for kind in kinds]).T for _ in range(2))
        firsts, lasts = np.minimum(firsts, lasts), np.maximum(firsts, lasts)
        small = rng.random(count) < 0.7
        lasts[small] = np.minimum(lasts[small], firsts[small] + 2)  # a few values, or of floats next to nothing
        firsts[rng.random(firsts.shape) < 0.05], lasts[rng.random(lasts.shape) < 0.05] = SMALLEST, LARGEST
        groups = rng.integers(0, 3, count) if keyed else None
        lines = BoxLines(firsts, lasts, kinds, groups)
        boxes: list[Box] = [
            ({}, dict(zip(names, zip(low, high, strict=True), strict=True)))
            for low, high in zip(firsts.tolist(), lasts.tolist(), strict=True)
        ]
        origin, reach = scale
        for wide in (1.0, 3.0, 1e5):  # on the grid, a little beyond it, and from far away
            begin = origin - reach * (wide - 1) / 2
            before, after = (np.array([drawn(rng, kind, begin, reach * wide, 12) for kind in kinds]).T for _ in "ba")
            after[::5, 0] = before[::5, 0]
            own = rng.integers(0, 4, 12) if keyed else None
            moves = [(dict(zip(names, each, strict=True))) for each in (*before.tolist(), *after.tolist())]
            expected = [
                (line, box)
                for line in range(12)
                for box in range(count)
                if groups is None or own is None or groups[box] == own[line]
                if jumps_over([boxes[box]], moves[line], moves[12 + line], types)
            ]
            pairs = [column.tolist() for column in lines.jumped_over(before, after, own)]
            assert sorted(zip(*pairs, strict=True)) == expected
            found += len(expected)
    assert found > 10
