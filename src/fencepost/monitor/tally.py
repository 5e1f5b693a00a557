"""How often each rule fired, when, and for which objects."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.snapshot import DETECTS

_BLOCKS = " ▁▂▃▄▅▆▇█"
_OBJECTS = 3
_BINS = 60
_MERGED_AT = 50
"""Batches whose counts are kept apart before they are added up."""


class Fired(NamedTuple):
    """The events of one rule."""

    rule_id: int
    events: dict[str, int]
    """Counts by kind."""
    objects: int
    most: list[Any]
    """The objects that it fired for most often."""
    first: Any
    last: Any


class Tally:
    """Counts the events of a run."""

    def __init__(self) -> None:
        self._counts: list[Any] = []
        self._rules: list[npt.NDArray[np.int64]] = []
        self._times: list[npt.NDArray[np.float64]] = []
        self._events: list[Any] = []

    def add(self, events: Any, *, whole: bool = False) -> None:
        """Count the events of a batch, and keep what is drawn of them: all columns where they are to be `whole`."""
        if not events.num_rows:
            return
        by = ["rule_id", "detect", "object"]
        counted = events.group_by(by).aggregate([("event_id", "count"), ("time", "min"), ("time", "max")])
        self._counts.append(counted.rename_columns([*by, "count", "first", "last"]))
        if len(self._counts) >= _MERGED_AT:
            self._counts = [self._merge()]
        self._rules.append(np.asarray(events["rule_id"]))
        self._times.append(_to_numbers(events["time"]))
        self._events.append(events if whole else events.select(["rule_id", "detect", "time"]))

    def _merge(self) -> Any:
        whole = pa.concat_tables(self._counts)
        by = ["rule_id", "detect", "object"]
        counted = whole.group_by(by).aggregate([("count", "sum"), ("first", "min"), ("last", "max")])
        return counted.rename_columns([*by, "count", "first", "last"])

    def fired(self) -> list[Fired]:
        """The rules that fired, the most frequent first."""
        if not self._counts:
            return []
        rows = self._merge().sort_by([("rule_id", "ascending"), ("count", "descending")])
        ids = np.asarray(rows["rule_id"])
        starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]).tolist()
        found = [
            _summarise(rows.slice(start, stop - start))
            for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True)
        ]
        return sorted(found, key=lambda each: (-sum(each.events.values()), each.rule_id))

    def events(self) -> Any:
        """The rule, kind and time of every event, and what else was kept."""
        return pa.concat_tables(self._events) if self._events else []

    def histogram(self, rule_id: int | None = None, bins: int = _BINS) -> list[int]:
        """How many events there were in equal parts of the time of all of them."""
        if not self._times:
            return [0] * bins
        times, ids = np.concatenate(self._times), np.concatenate(self._rules)
        # From the first event on: where all are of one instant, its microseconds are too large to be cut into parts.
        since = times - times.min()
        chosen = since if rule_id is None else since[ids == rule_id]
        counts: list[int] = np.histogram(chosen, bins, (0.0, float(since.max())))[0].tolist()
        return counts


def _to_numbers(times: Any) -> npt.NDArray[np.float64]:
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    elif pa.types.is_temporal(times.type):
        times = times.cast(pa.int64())
    return np.asarray(times.cast(pa.float64()))


def _summarise(rows: Any) -> Fired:
    events = dict.fromkeys(DETECTS, 0)
    objects: dict[Any, int] = {}
    for detect, name, count in zip(
        *(rows[column].to_pylist() for column in ("detect", "object", "count")), strict=True
    ):
        events[detect] += count
        objects[name] = objects.get(name, 0) + count
    most = sorted(objects, key=lambda name: (-objects[name], str(name)))[:_OBJECTS]
    first, last = pc.min(rows["first"]).as_py(), pc.max(rows["last"]).as_py()
    return Fired(rows["rule_id"][0].as_py(), events, len(objects), most, first, last)


def sparkline(counts: Sequence[int]) -> str:
    """Counts as a line of blocks.

    >>> sparkline([0, 1, 2, 4])
    ' ▂▄█'
    """
    most = max(counts, default=0)
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // most)] if most else " " for count in counts)
