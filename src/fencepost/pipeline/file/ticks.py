"""Clock ticks of a running pipeline: silent objects and expired rules end although no row comes.

A tick promises that no older row will come, so it must not run ahead of rows that wait to be read. It announces the
newest event time of the rows so far, plus how long none has come since, minus one interval for rows out of order.
Event time may be years behind the wall clock, as in a replay; a tick is never ahead of it, whatever a row says.

The markers are beside the checkpoint, so no other stream reads them: another one may be at another time.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.published.markers import Markers, number_of

DEFAULT_TICK = "1 minute"
NEWEST = "newest"
"""The name under which progress reports the newest event time of a source's rows, in microseconds since 1970."""
_DAY = 86_400_000_000
_SLACK = 1_000_000
"""How much later than its time a trigger may begin, in microseconds."""
_KEPT = 100
"""Markers that stay. One is needed until the micro-batch that reads it is done, and few are written before that."""


def is_instant(type_: str) -> bool:
    """Whether times of this type go on with the wall clock, as timestamps and dates do."""
    return AttributeType.parse(type_).dimension == "time"


def check_ticking(column: str, type_: str) -> None:
    """Refuse ticks for times that the wall clock says nothing about."""
    if not is_instant(type_):
        raise FencepostError(
            f"tick and {column}, which is {type_}",
            "a time column of timestamps or dates, since the wall clock ticks",
            "Remove tick, and announce the time yourself: fencepost tick DIR NUMBER",
        )


class _Seen(NamedTuple):
    """What is known of one source, in microseconds since 1970."""

    newest: int
    """The newest event time of its rows."""
    at: int
    """When the last micro-batch began that had any."""


class Ticks:
    """Announces to the stream of one pipeline which time has come.

    Nobody else may read the `markers`. Progress reports the rows under the names of the `sources`; `every` is the time
    between two micro-batches, `now` counts microseconds since 1970.
    """

    def __init__(
        self, markers: Markers, sources: Iterable[str], tick: timedelta, every: timedelta, *, dates: bool, now: int
    ) -> None:
        self._markers, self._sources, self._dates = markers, tuple(sources), dates
        self._behind, self._every = _microseconds(tick), _microseconds(every)
        self._announced = markers.newest()[1]
        self._read_until = now
        """All rows that came before this instant were read."""
        self._ended = now
        """When the last micro-batch was done."""
        self._next = now
        # While a pipeline is stopped its clock stands: rows may have come meanwhile, which are still to be read.
        was = None if self._announced is None else _Seen(self._announced + self._behind, now)
        self._seen = {} if was is None else dict.fromkeys(self._sources, was)

    def see(self, report: Mapping[str, Any]) -> None:
        """Note which rows a micro-batch has read, from its progress report."""
        begun = number_of(datetime.fromisoformat(report["timestamp"]))
        self._read_until = max(self._read_until, begun)
        self._ended = begun + 1000 * int(report["durationMs"]["triggerExecution"])
        for name in self._sources:
            figures = (report["observedMetrics"] or {}).get(name)
            newest = None if figures is None else figures[NEWEST]
            if newest is not None:
                before = self._seen.get(name)
                newest = min(newest, begun)
                self._seen[name] = _Seen(newest if before is None else max(newest, before.newest), begun)

    def tick(self, now: int, *, idle: bool, wanted: Callable[[], bool]) -> None:
        """Announce the time, if it is time to and there is a later one to announce.

        `idle`: whether the query was waiting; `see` has got the reports of all that it did before. `wanted` is only
        asked where there is a time to announce.
        """
        looked = now - self._every - _SLACK
        if idle and looked >= self._ended:  # else rows may wait that came during the last micro-batch
            self._read_until = max(self._read_until, looked)
        if now < self._next:
            return
        time = self._time()
        if time is None or (self._announced is not None and time <= self._announced):
            return
        self._next = now + max(self._behind, self._every)  # a stream reads no more than a time per micro-batch
        if wanted():
            self._markers.mark_time(time)
            self._announced = time
            self._markers.forget_times(_KEPT)

    def _time(self) -> int | None:
        """The time that has come for all sources that have had a row."""
        if not self._seen:
            return None
        time = min(newest + self._read_until - at for newest, at in self._seen.values()) - self._behind
        return time - time % _DAY if self._dates else time


def _microseconds(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
