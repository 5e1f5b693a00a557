"""Which time has come for objects that say nothing, as the rows and the wall clock tell it.

A tick promises that no older row will come. It announces the newest time of the rows so far, plus how long none has
come since, minus an allowed lateness: the wall clock minus the lateness where rows come as they happen, and a time in
the past where a history is replayed. It is never ahead of the wall clock, whatever a row says. A tick is a record of
the row log, so a replay of the log has the same ticks between the same rows.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import FencepostError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def newest_time(times: Any) -> int | None:
    """The newest of some instants in microseconds, since 1970; None where times are numbers."""
    if not pa.types.is_timestamp(times.type):
        return None
    newest: int | None = (times[0] if len(times) == 1 else pc.max(times)).value  # as_py would look for time zones
    return newest


def read_tick(given: str | int, type_: Any) -> str | int:
    """A time that somebody announces, as a record of the log has it; `type_` is that of times of rows."""
    if type_ is None:
        raise FencepostError(f"time={given} before the first row", "a row before it", "Nothing can end yet: send rows.")
    if not pa.types.is_timestamp(type_):
        if isinstance(given, int):
            return given
        raise FencepostError(f"time={given[:40]!r}", "a number, as rows have it", "Write for example 1200.")
    try:
        read = datetime.fromisoformat(given)  # type: ignore[arg-type]  # a number is refused below
        read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise FencepostError(
            f"time={str(given)[:40]}", "a time as ISO 8601 has it", "Write for example 2026-01-05T09:31:00Z."
        ) from None
    if read > datetime.now(UTC):
        raise FencepostError(f"time={given} is still to come", "now, or earlier", "Tick when it has come.")
    return read.isoformat()


class Clock:
    """What is known of the times of rows, and when the next tick is due.

    Args:
        lateness: seconds between two ticks, and how far one stays behind; None for no ticks.
        saved: what `as_json` gave.
        now: microseconds since 1970; None for the wall clock.

    >>> clock = Clock(60.0, now=0)
    >>> clock.see({"newest": 0, "at": 0.0})
    >>> clock.due(59_000_000), clock.due(90_000_000), clock.due(91_000_000)
    (None, '1970-01-01T00:00:30+00:00', None)
    """

    def __init__(
        self, lateness: float | None, saved: Mapping[str, int] | None = None, *, now: int | None = None
    ) -> None:
        now = time.time_ns() // 1000 if now is None else now
        self._lateness = None if lateness is None else round(lateness * 1e6)
        self._newest: int | None = None
        self._at = now
        if saved is not None:
            self._newest, self._at = saved["newest"], saved["at"]
        self._next = now + (self._lateness or 0)
        """When the next tick may come. Not at once: callers may have rows that they could not send before a start."""
        self._announced: int | None = None

    def see(self, about: Mapping[str, Any]) -> None:
        """Note that rows were applied, from what their record says."""
        newest = about.get("newest")
        if newest is not None:
            self._at = round(about["at"] * 1e6)
            newest = min(int(newest), self._at)
            self._newest = newest if self._newest is None else max(newest, self._newest)

    def resume(self) -> None:
        """Go on after a start. Where rows were late, time stands while nobody could send any."""
        if self._newest is not None and self._at - self._newest > (self._lateness or 0):
            self._at = max(self._at, self._next - (self._lateness or 0))

    def due(self, now: int | None = None) -> str | None:
        """The time to announce now; None where none is due."""
        now = time.time_ns() // 1000 if now is None else now
        if self._lateness is None or self._newest is None or now < self._next:
            return None
        at = self._newest + max(0, now - self._at) - self._lateness
        if self._announced is not None and at <= self._announced:
            return None
        self._announced, self._next = at, now + self._lateness
        return (_EPOCH + at * _MICROSECOND).isoformat()

    def as_json(self) -> dict[str, int] | None:
        """What a save keeps; None before the first row."""
        return None if self._newest is None else {"newest": self._newest, "at": self._at}
