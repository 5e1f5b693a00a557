"""The copy limit: a kernel that does nothing but copy the answer's ids, from runs at random places."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from fencepost.indexes.kernels.vectors import PADDING, aligned_empty, copy_run, fence, prefetch, stream_run

__all__ = ["copy_contestants"]

STAGE = 4096
AHEAD = 8


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def copy_ordinary(starts: Any, counts: Any, source: Any, offsets: Any, out: Any) -> None:
    at = 0
    for i in range(len(starts)):
        if i + AHEAD < len(starts):
            prefetch(source, starts[i + AHEAD])
        copy_run(out, at, source, starts[i], counts[i])
        at += counts[i]
        offsets[i + 1] = at


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def copy_streamed(starts: Any, counts: Any, source: Any, offsets: Any, out: Any, stage: Any) -> None:
    """Through a small buffer to stores that bypass the cache; `out` is aligned."""
    staged = 0
    flushed = 0
    total = 0
    for i in range(len(starts)):
        if i + AHEAD < len(starts):
            prefetch(source, starts[i + AHEAD])
        start, left = starts[i], counts[i]
        total += left
        while left > 0:
            part = min(left, STAGE - staged)
            copy_run(stage, staged, source, start, part)
            staged += part
            start += part
            left -= part
            if staged == STAGE:
                stream_run(out, flushed, stage, 0, STAGE)
                flushed += STAGE
                staged = 0
        offsets[i + 1] = total
    copy_run(out, flushed, stage, 0, staged)
    fence()


def copy_contestants(
    name: str, counts: npt.NDArray[np.int64], source_items: int, dtype: npt.DTypeLike
) -> dict[str, Callable[[], object]]:
    """Copies of runs of these lengths from random places of so many ids, with ordinary and with streamed stores."""
    rng = np.random.default_rng(1)
    source = np.arange(source_items + int(counts.max(initial=0)) + PADDING).astype(dtype)
    starts = rng.integers(0, max(1, source_items), len(counts))
    out = aligned_empty(int(counts.sum()) + STAGE, dtype)
    out[:] = 0
    offsets = np.zeros(len(counts) + 1, np.int64)
    stage = aligned_empty(STAGE, dtype)
    return {
        f"{name}, ordinary": lambda: copy_ordinary(starts, counts, source, offsets, out),
        f"{name}, streamed": lambda: copy_streamed(starts, counts, source, offsets, out, stage),
    }
