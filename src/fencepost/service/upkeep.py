"""Upkeep: what a service does beside its calls: follows its book, saves its state, collects what is old."""

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from fencepost.errors import FencepostError
from fencepost.service.event_log import EventLog
from fencepost.service.saves import Saves
from fencepost.service.segments import Segments

if TYPE_CHECKING:
    from fencepost.service.service import Service

_EVERY = 1.0
_COLLECTED_EVERY = 60.0


class Upkeep:
    """A thread that looks every second what is due."""

    def __init__(self, service: "Service", saves: Saves, rows: Segments, events: EventLog) -> None:
        self._service, self._saves, self._rows, self._events = service, saves, rows, events
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fencepost-upkeep", daemon=True)
        self._saved_at, self._saved_position = time.monotonic(), rows.next - 1
        self._rows_at_save = 0
        self._collected_at = 0.0
        self._ticks = 0
        """How many since the last save; they alone are no reason for another."""
        self._tick: Future[Any] | None = None
        self.fault: FencepostError | None = None
        """What kept the last look from being done, if anything did."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and save the state if anything has come since."""
        self._done.set()
        self._thread.join()
        if self._service.engine.failure is None and self._rows.next - 1 > self._saved_position:
            try:
                self.save()
            except FencepostError as error:
                self.fault = error  # the replay takes longer, that is all

    def _run(self) -> None:
        while not self._done.wait(min(_EVERY, self._service.settings.tick or _EVERY)):
            try:
                self._look()
                self.fault = None
            except FencepostError as error:
                self.fault = error
            except OSError as error:
                self.fault = FencepostError(str(error), "files that can be written", "Look at the disk.")
            except Exception as error:  # whatever it was: the next look must come, or nothing is saved any more
                said = f"{type(error).__name__}: {error}"
                self.fault = FencepostError(said, "an upkeep that works", "Look at the book; it is tried again.")

    def _look(self) -> None:
        service, limits, now = self._service, self._service.settings.limits, time.monotonic()
        service.statistics.sample(service.engine.watcher.monitor.counters["late"])
        if service.settings.publish == "auto" and service.book.revision != service.engine.watcher.about.get(
            "revision", 0
        ):
            service.settle()
        self._move_clock()
        new_rows = service.statistics.rows - self._rows_at_save
        is_due = new_rows >= limits.save_rows or now - self._saved_at >= limits.save_seconds
        if is_due and self._rows.next - 1 > self._saved_position + self._ticks:
            self.save()
        if now - self._collected_at >= _COLLECTED_EVERY:
            self._collected_at = now
            service.publishing.renew()
            self._rows.collect(self._saves.oldest() + 1, limits.rows_age, limits.rows_bytes)
            self._events.segments.collect(self._saves.needs()[0] + 1, limits.events_age, limits.events_bytes)

    def _move_clock(self) -> None:
        """Tick where that is due and anything can end by it. What comes before is applied first."""
        engine = self._service.engine
        if engine.watcher.needs_ticks and (self._tick is None or self._tick.done()):
            at = engine.clock.due()
            if at is not None:
                self._tick = engine.put_tick(at)
                self._ticks += 1

    def save(self) -> None:
        """Keep the state as it is between two groups."""
        self._service.engine.call(self._save).result()

    def _save(self) -> None:
        engine = self._service.engine
        if engine.is_behind():
            return
        self._events.segments.sync()  # what is before a save is not replayed
        position, rows = self._rows.next - 1, self._service.statistics.rows
        about = {"event": self._events.last, "version": engine.watcher.about, "keys": engine.keys.saved()}
        about["clock"] = engine.clock.as_json()
        self._saves.write(position, engine.watcher.monitor, about)
        self._saved_at, self._saved_position, self._rows_at_save = time.monotonic(), position, rows
        self._ticks = 0
        self._service.publishing.forget_before(self._saves.needs()[1])
