"""What readers of a slice list work on: an immutable view, and the answers drawn from it."""

import functools
import math
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.indexes.arguments import lent
from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.indexes.kernels.vectors import aligned_empty
from fencepost.indexes.matches import Matches, answer_array, answer_buffers, widened
from fencepost.indexes.slice_list.search import (
    STAGE,
    Translation,
    copy_runs,
    count_runs,
    find_runs,
    stream_runs,
)
from fencepost.indexes.slice_list.window_kernels import Part

ROUND = 1 << 18
"""Values that are located before their runs are copied: many, since the two compete for the cache."""
_LOCATED = 32
"""Rounds whose runs are kept until all are located, so that the answer is allocated once; more would take much room."""
_TRIED = 4096
_STREAMED_BYTES = 1 << 27


class View:
    """What a reader sees, for as long as it holds this: a writer edits in place only what nobody holds."""

    __slots__ = ("__weakref__", "ids", "parts", "translation")

    def __init__(self, parts: tuple[Part, ...], ids: UInt32s, translation: Translation) -> None:
        self.parts, self.ids, self.translation = parts, ids, translation


class Slices:
    """Answers that are not copied: per value and layer a run of one shared array.

    ``slots[starts[i, l] : starts[i, l] + lengths[i, l]]`` are the slots of value i in layer l, and `ids` is
    `slots` translated to ids. Layers hold disjoint intervals: lengths of one scale, intervals of all groups,
    live changes.
    """

    def __init__(self, runs: UInt32s, view: View) -> None:
        self._runs = runs
        self._translation = view.translation
        self._ids: Int64s | None = None
        self.slots: UInt32s = lent(view.ids, view)

    @property
    def starts(self) -> UInt32s:
        """One row per value, one column per layer."""
        return self._runs[:, :, 0]

    @property
    def lengths(self) -> UInt32s:
        """One row per value, one column per layer."""
        return self._runs[:, :, 1]

    @property
    def ids(self) -> Int64s:
        """The shared array as ids; translated from `slots` when first asked for."""
        if self._ids is None:
            self._ids = self._translation.ids(self.slots)  # what no run reaches may be no slot
        return self._ids

    def to_arrow(self, slots: bool = False) -> list[Any]:
        """One Arrow list view per layer over the shared array, nothing copied.

        Args:
            slots: over the slots themselves instead of the ids.
        """
        import pyarrow as pa

        values = pa.array(self.slots if slots else self.ids)
        runs = self._runs.astype(np.int64)
        return [
            pa.LargeListViewArray.from_arrays(pa.array(runs[:, layer, 0]), pa.array(runs[:, layer, 1]), values)
            for layer in range(runs.shape[1])
        ]


def answer_values(
    view: View,
    ordinals: Int64s,
    missing: Bools,
    groups: Int64s,
    dtype: npt.DTypeLike,
    out: Matches | None,
) -> Matches:
    """The whole answer: round by round into buffers that are given or grow, else into new ones of just its size."""
    total = len(ordinals)
    if out is None and ROUND < total <= _LOCATED * ROUND and view.parts:
        runs, found = locate_values(view, ordinals, missing, groups)
        offsets, ids = answer_buffers(total, found, dtype, None)
        offsets[0] = 0
        write_runs(view, runs, offsets, ids, len(ids))
        return Matches(offsets, ids[: offsets[-1]])
    offsets, ids = answer_buffers(total, 0, dtype, out)
    offsets[0] = 0
    if not view.parts:
        offsets[:] = 0
        return Matches(offsets, ids[:0])
    runs = np.empty((min(ROUND, total), len(view.parts), 2), np.uint32)
    for first in range(0, total, ROUND):
        part = slice(first, first + ROUND)
        values = ordinals[part]
        found = _find(view, values, missing[part], groups[part], runs)
        filled = int(offsets[first])
        if filled + found > len(ids):
            ids = widened(ids, filled, filled + found, out)
        write_runs(view, runs[: len(values)], offsets[first : first + len(values) + 1], ids, len(ids))
    return Matches(offsets, ids[: offsets[-1]])


def locate_values(view: View, ordinals: Int64s, missing: Bools, groups: Int64s) -> tuple[UInt32s, int]:
    """The runs of all values, and how many ids they hold: the first half of an answer whose room must be known."""
    shape = (len(ordinals), len(view.parts), 2)
    size = math.prod(shape)
    runs = answer_array(size, np.uint32)[:size].reshape(shape)
    found = _find(view, ordinals, missing, groups, runs)
    return runs, found


def write_runs(view: View, runs: UInt32s, offsets: Int64s, ids: npt.NDArray[Any], limit: int) -> None:
    """Copy runs to ``ids[offsets[0]:limit]``, as slots or as ids, and set the offsets behind them."""
    if len(ids) * ids.itemsize >= _STREAMED_BYTES and streaming_pays():
        stage, wide = aligned_empty(STAGE, np.uint32), aligned_empty(STAGE, ids.dtype)
        stream_runs(view.ids, runs, view.translation, offsets, ids, stage, wide)
    else:
        copy_runs(view.ids, runs, view.translation, limit, offsets, ids)


def count_values(
    view: View,
    ordinals: Int64s,
    missing: Bools,
    groups: Int64s,
    counts: Int64s,
) -> None:
    """Write how many intervals contain each value, round by round."""
    if not view.parts:
        counts[:] = 0
        return
    runs = np.empty((min(ROUND, len(ordinals)), len(view.parts), 2), np.uint32)
    for first in range(0, len(ordinals), ROUND):
        part = slice(first, first + ROUND)
        values = ordinals[part]
        _find(view, values, missing[part], groups[part], runs)
        count_runs(runs[: len(values)], counts[part])


@functools.cache
def streaming_pays() -> bool:
    """Whether this machine writes large output faster past the cache; tried once, on 32 MB."""
    slots = aligned_empty(1 << 22, np.uint32)
    slots[:] = 0
    out, offsets = aligned_empty(1 << 23, np.uint32), np.zeros(_TRIED + 1, np.int64)
    out[:] = 0
    runs = np.zeros((_TRIED, 1, 2), np.uint32)
    runs[:, 0, 0] = np.arange(_TRIED) * 7919 % (1 << 21)
    runs[:, 0, 1] = 512
    translation = Translation(np.zeros(0, np.int64), 0)
    stage = aligned_empty(STAGE, np.uint32)
    taken = {True: math.inf, False: math.inf}
    for streamed in (True, False) * 3:
        begin = time.perf_counter()
        for at in range(4):
            offsets[0] = at * _TRIED * 512
            if streamed:
                stream_runs(slots, runs, translation, offsets, out, stage, stage)
            else:
                copy_runs(slots, runs, translation, len(out), offsets, out)
        taken[streamed] = min(taken[streamed], time.perf_counter() - begin)
    return taken[True] < 0.9 * taken[False]


def _find(
    view: View,
    values: Int64s,
    missing: Bools,
    groups: Int64s,
    runs: UInt32s,
) -> int:
    found = 0
    for column, part in enumerate(view.parts):
        found += find_runs(part, values, missing, groups, runs, column)
    return found
