"""Upkeep: what a service does beside its calls: follows its book, saves its state, collects what is old."""

import logging
import threading
import time
from collections.abc import Callable
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
_LAST_LOOK = 30.0
"""Seconds that the end waits for a book that does not answer."""
_LOG = logging.getLogger("fencepost.service")


class Upkeep:
    """Two threads that look every second what is due: one follows the book, the other does what needs no book."""

    def __init__(self, service: "Service", saves: Saves, rows: Segments, events: EventLog) -> None:
        self._service, self._saves, self._rows, self._events = service, saves, rows, events
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=["_look"], name="fencepost-upkeep", daemon=True)
        self._follower = threading.Thread(target=self._run, args=["_follow_book"], name="fencepost-book", daemon=True)
        self._saved_at, self._saved_position = time.monotonic(), rows.next - 1
        self._rows_at_save = 0
        self._collected_at = 0.0
        self._ticks = 0
        """How many since the last save; they alone are no reason for another."""
        self._tick: Future[Any] | None = None
        self._faults: dict[str, FencepostError] = {}
        """By step, what kept it from being done the last time."""

    @property
    def fault(self) -> FencepostError | None:
        """What keeps something from being done, if anything does."""
        return next(iter(list(self._faults.values())), None)

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._follower.start()

    def stop(self) -> None:
        """End, and save the state if anything has come since."""
        self._done.set()
        self._thread.join()
        self._follower.join(_LAST_LOOK)
        if self._service.engine.failure is None and self._rows.next - 1 > self._saved_position:
            self._try(self.save)  # without it the replay takes longer, that is all

    def _run(self, look: str) -> None:
        while not self._done.wait(min(_EVERY, self._service.settings.tick or _EVERY)):
            self._try(getattr(self, look))

    def _try(self, step: Callable[[], Any]) -> None:
        """Do a step; whatever keeps it from being done is noted, and the next step comes."""
        name = getattr(step, "__name__", "step").strip("_")
        try:
            step()
        except FencepostError as error:
            fault = error
        except OSError as error:
            fault = FencepostError(str(error), "files that can be written", "Look at the disk.")
        except Exception as error:  # whatever it was: the next look must come, or nothing is saved any more
            said = f"{type(error).__name__}: {error}"
            fault = FencepostError(said, "an upkeep that works", "Look at the book; it is tried again.")
        else:
            if self._faults.pop(name, None) is not None:
                _LOG.warning("upkeep goes on: %s", name.replace("_", " "))
            return
        before = self._faults.get(name)
        self._faults[name] = fault
        if before is None or before.got != fault.got:
            _LOG.warning("upkeep is kept from its work: %s", fault.one_line)

    def _look(self) -> None:
        steps = [self._sample, self._move_clock, self._save_if_due]
        if (now := time.monotonic()) - self._collected_at >= _COLLECTED_EVERY:
            self._collected_at = now
            steps += [self._renew_leases, self._collect_rows, self._collect_events]
        for step in steps:
            self._try(step)

    def _sample(self) -> None:
        service = self._service
        service.statistics.sample(service.engine.watcher.monitor.counters["late"])

    def _follow_book(self) -> None:
        """Let the rules be in force that somebody else has changed."""
        service = self._service
        if service.settings.publish == "auto" and service.book.revision != service.engine.watcher.about.get(
            "revision", 0
        ):
            service.settle()

    def _save_if_due(self) -> None:
        service, limits = self._service, self._service.settings.limits
        new_rows = service.statistics.rows - self._rows_at_save
        is_due = new_rows >= limits.save_rows or time.monotonic() - self._saved_at >= limits.save_seconds
        if is_due and self._rows.next - 1 > self._saved_position + self._ticks:
            self.save()

    def _renew_leases(self) -> None:
        self._service.publishing.renew()

    def _collect_rows(self) -> None:
        limits = self._service.settings.limits
        self._rows.collect(self._saves.oldest() + 1, limits.rows_age, limits.rows_bytes)

    def _collect_events(self) -> None:
        limits = self._service.settings.limits
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
