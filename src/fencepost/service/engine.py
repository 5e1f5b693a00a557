"""The engine of a service: one thread that logs what comes, applies it, stores the events, and answers.

What comes waits in a queue. The thread takes all that waits, writes it to the row log with one `fsync`, gives it to the
Monitor record by record, and stores the events in the event log. Then it answers the callers and wakes those who follow
the events. An event is as durable as the rows that caused it: what a loss of power takes from the event log is found
again, at the same positions, when the row log is replayed.

A record that cannot be applied is answered with the refusal, and a `void` record says so to whoever replays the log.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost._text import count
from fencepost.errors import FencepostError
from fencepost.service.clock import Clock
from fencepost.service.event_log import Caused, EventLog
from fencepost.service.keys import Keys, Remembered
from fencepost.service.monitoring import Watcher
from fencepost.service.records import HAS_VOID, ROW, ROWS, TICK, VERSION, VOID, pack_record
from fencepost.service.refusals import BehindError, RefusalError
from fencepost.service.rows import write_rows
from fencepost.service.segments import Segments
from fencepost.service.single import Rows, row_count, write_row
from fencepost.service.statistics import Statistics

_ROWS_AT_ONCE = 200_000
_CALLS_AT_ONCE = 2_000


class Receipt(NamedTuple):
    """What became of some rows."""

    position: int
    """Of the rows in the row log."""
    rows: int
    events: pa.Table | None
    """The events that they caused, with their positions, where they were asked for."""
    first_event: int
    caused: int
    """How many events there were."""
    repeated: bool = False
    """Whether the rows had come before, with the same key."""


@dataclass
class _Item:
    """Something that waits for the engine."""

    kind: int
    about: dict[str, Any]
    content: Rows | None = None
    snapshot: Any = None
    key: str | None = None
    digest: str = ""
    came: float = field(default_factory=time.perf_counter)
    answer: "Future[Receipt]" = field(default_factory=Future)
    position: int = 0

    @property
    def rows(self) -> int:
        return 0 if self.content is None else row_count(self.content)

    def pack(self) -> bytes:
        """As the log has it."""
        about = self.about if self.key is None else {**self.about, "key": self.key, "digest": self.digest}
        if isinstance(self.content, dict):
            return pack_record(ROW, about, write_row(self.content))
        return pack_record(self.kind, about, b"" if self.content is None else write_rows(self.content))


@dataclass
class _Call:
    """Something that is to be done between two groups."""

    task: Callable[[], Any]
    answer: "Future[Any]" = field(default_factory=Future)


class Engine:
    """The thread, its queue and its logs."""

    def __init__(
        self,
        watcher: Watcher,
        rows: Segments,
        events: EventLog,
        keys: Keys,
        statistics: Statistics,
        clock: Clock,
        *,
        most_waiting: int,
    ) -> None:
        self.watcher, self.rows, self.events, self.keys, self.statistics = watcher, rows, events, keys, statistics
        self.clock = clock
        self._queue: queue.SimpleQueue[_Item | _Call | None] = queue.SimpleQueue()
        self._most, self._waiting, self._count_lock = most_waiting, 0, threading.Lock()
        self._unwritten: list[tuple[pa.Table, list[Caused]]] = []
        """Events that had no room on the disk; rows are refused until they have."""
        self._voids: list[int] = []
        """Positions of records that could not be applied, and of which the log does not yet say so."""
        self._listeners: dict[object, Callable[[], None]] = {}
        self.on_idle: Callable[[], None] | None = None
        """Called between groups, in the thread of the engine."""
        self.failure: BaseException | None = None
        """What stopped the engine, if anything did."""
        self._thread = threading.Thread(target=self._run, name="fencepost-engine", daemon=True)

    def start(self) -> None:
        """Begin to take what comes."""
        self._thread.start()

    def stop(self) -> None:
        """Do what waits, then end."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    # -- what comes ----------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return self._waiting

    def put_rows(self, rows: Rows, key: str | None, digest: str, about: Mapping[str, Any]) -> "Future[Receipt]":
        """Let rows be logged and applied; refused at once while too many wait."""
        self._check_alive()
        item = _Item(ROWS, dict(about), rows, key=key, digest=digest)
        with self._count_lock:
            if self._waiting and self._waiting + item.rows > self._most:
                raise BehindError(
                    f"{count(self._waiting, 'row')} wait already",
                    f"at most {self._most:,} that wait",
                    "Send the rows again a little later; nothing of this call was taken.",
                )
            self._waiting += max(1, item.rows)
        self._queue.put(item)
        return item.answer

    def put_version(self, snapshot: Any, about: Mapping[str, Any]) -> "Future[Receipt]":
        """Let a published version be in force from here on."""
        self._check_alive()
        item = _Item(VERSION, dict(about), snapshot=snapshot)
        self._queue.put(item)
        return item.answer

    def put_tick(self, at: str | int) -> "Future[Receipt]":
        """Promise that no older row will come."""
        self._check_alive()
        item = _Item(TICK, {"time": at})
        self._queue.put(item)
        return item.answer

    def call(self, task: Callable[[], Any]) -> "Future[Any]":
        """Let something be done between two groups, in the thread of the engine."""
        self._check_alive()
        asked = _Call(task)
        self._queue.put(asked)
        return asked.answer

    def listen(self, owner: object, wake: Callable[[], None]) -> None:
        """Call something whenever there are new events, until `unlisten`."""
        self._listeners[owner] = wake

    def unlisten(self, owner: object) -> None:
        """No longer."""
        self._listeners.pop(owner, None)

    def _check_alive(self) -> None:
        if self.failure is not None:
            raise BehindError(
                f"the engine, which stopped ({type(self.failure).__name__}: {self.failure})",
                "one that runs",
                "Look at the log of the service, and start it again: it goes on where it stopped.",
            )

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        going = True
        while going:
            group, going = self._take()
            try:
                for part in group:
                    if isinstance(part, _Call):
                        _settle(part.answer, part.task)
                # Whoever has gone by now is not served; from here on nobody can go.
                items = [
                    part for part in group if isinstance(part, _Item) and part.answer.set_running_or_notify_cancel()
                ]
                if items:
                    self._do(items)
                if self.on_idle is not None:
                    self.on_idle()
            except BaseException as error:  # what is half done would be done twice: only a replay is sure
                self.failure = error
                self._abandon(group, error)
                raise
            finally:
                with self._count_lock:
                    self._waiting -= sum(max(1, part.rows) for part in group if _is_rows(part))

    def _take(self) -> tuple[list[Any], bool]:
        """All that waits, up to a limit, and whether to go on."""
        group: list[Any] = []
        rows = 0
        try:
            part = self._queue.get(timeout=1.0)
        except queue.Empty:
            return group, True
        while True:
            if part is None:
                return group, False
            group.append(part)
            rows += part.rows if isinstance(part, _Item) else 0
            if rows >= _ROWS_AT_ONCE or len(group) >= _CALLS_AT_ONCE:
                return group, True
            try:
                part = self._queue.get_nowait()
            except queue.Empty:
                return group, True

    def _abandon(self, group: Sequence[Any], error: BaseException) -> None:
        while True:
            for part in group:
                if part is not None and not part.answer.done():
                    part.answer.set_exception(
                        BehindError(f"the engine stopped ({error})", "one that runs", "Start the service again.")
                    )
            try:
                group = [self._queue.get_nowait()]
            except queue.Empty:
                return

    def _do(self, items: list[_Item]) -> None:
        """Log, apply, store and answer one group."""
        last = self.events.last
        items = self._without_repeated(items)
        if not items or not self._log(items):
            return
        done: list[tuple[_Item, pa.Table | None, int]] = []
        voids: list[tuple[_Item, BaseException]] = []
        for run in _runs(items):
            found = (
                self.watcher.take_calls([item.content for item in run]) if _is_rows(run[0]) else [self._change(run[0])]
            )
            for item, events in zip(run, found, strict=True):
                if isinstance(events, Exception):
                    voids.append((item, events))
                else:
                    done.append((item, events, 0 if events is None else events.num_rows))
        self._voids += [item.position for item, _ in voids]
        try:
            self._write_voids()
        except FencepostError:
            self.statistics.note_full()  # they are written before anything else is
        first = self.events.last + sum(table.num_rows for table, _ in self._unwritten) + 1
        self._store(done)
        now = time.perf_counter()
        for item, events, number in done:
            if item.kind == ROWS:
                self.clock.see(item.about)
            if item.key is not None:
                self.keys.remember(
                    item.key, Remembered(item.position, item.rows, item.digest, first, number, time.time())
                )
            self.statistics.note_rows(item.rows, now - item.came, events)
            item.answer.set_result(Receipt(item.position, item.rows, events, first, number))
            first += number
        for item, fault in voids:
            item.answer.set_exception(_as_refusal(fault))
        if self.events.last > last:
            for wake in list(self._listeners.values()):
                wake()

    def _without_repeated(self, items: list[_Item]) -> list[_Item]:
        """What is new; callers who repeat themselves are answered as before."""
        left, here = [], set()
        for item in items:
            if item.key is not None and (known := self.keys.find(item.key)) is not None:
                _settle(item.answer, partial(self._repeat, item, known))
            elif item.key is not None and item.key in here:
                twin = _Item(item.kind, item.about, item.content, key=item.key, digest=item.digest)
                twin.answer.add_done_callback(partial(_pass_on, item.answer))
                self._queue.put(twin)  # the other one is in this group
                with self._count_lock:
                    self._waiting += max(1, item.rows)
            else:
                here.add(item.key)
                left.append(item)
        return left

    def _repeat(self, item: _Item, known: Remembered) -> Receipt:
        if known.digest != item.digest:
            raise RefusalError(
                f"Idempotency-Key {item.key!r} with other rows than before",
                "the same rows, or another key",
                "Make a new key for new rows.",
            )
        events = self.events.caused_by(known.position, known.first_event - 1) if known.events else None
        return Receipt(known.position, known.rows, events, known.first_event, known.events, repeated=True)

    def _log(self, items: list[_Item]) -> bool:
        """Write a group to the row log; where that fails, nobody's rows were taken."""
        parts = [item.pack() for item in items]
        try:
            self._write_unwritten()
            self._write_voids()
            first = self.rows.append(parts, len(parts))
        except FencepostError as error:
            for item in items:
                item.answer.set_exception(error)
            return False
        try:
            self.rows.sync()
        except FencepostError as error:
            self.rows.drop_last()
            for item in items:
                item.answer.set_exception(error)
            return False
        for number, item in enumerate(items):
            item.position = first + number
        return True

    def _change(self, item: _Item) -> pa.Table | Exception:
        """Apply something else than rows."""
        try:
            if item.kind == VERSION:
                return self.watcher.follow(item.snapshot, item.about)
            return self.watcher.advance(item.about["time"])
        except Exception as error:  # whatever it is, the Monitor has not changed
            return error

    def _store(self, done: Sequence[tuple[_Item, pa.Table | None, int]]) -> None:
        """Store the events of a group, as few blocks as there are schemas."""
        tables: list[pa.Table] = []
        causes: list[Caused] = []
        for item, events, number in done:
            if events is None or not number:
                continue
            if tables and events.schema != tables[0].schema:
                self._unwritten.append((pa.concat_tables(tables), causes))
                tables, causes = [], []
            tables.append(events)
            causes.append(Caused(item.position, number))
        if tables:
            self._unwritten.append((pa.concat_tables(tables), causes))
        try:
            self._write_unwritten()
        except FencepostError:
            self.statistics.note_full()  # rows are refused until there is room

    def _write_voids(self) -> None:
        if self._voids:
            parts = [pack_record(VOID, {"of": position}) for position in self._voids]
            self.rows.append(parts, len(parts), HAS_VOID)
            self._voids.clear()
            self.rows.sync()

    def _write_unwritten(self) -> None:
        while self._unwritten:
            table, causes = self._unwritten[0]
            self.events.append(table, causes)
            self._unwritten.pop(0)

    # -- questions -----------------------------------------------------------------------------------------

    def is_behind(self) -> bool:
        """Whether events wait for room on the disk."""
        return bool(self._unwritten or self._voids)


def _runs(items: Sequence[_Item]) -> list[list[_Item]]:
    """Calls with rows that follow each other, together; anything else alone."""
    runs: list[list[_Item]] = []
    for item in items:
        if runs and _is_rows(item) and _is_rows(runs[-1][0]):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _is_rows(part: Any) -> bool:
    return isinstance(part, _Item) and part.kind == ROWS


def _pass_on(answer: "Future[Any]", done: "Future[Any]") -> None:
    """Give an answer to whoever waits for the same."""
    if (error := done.exception()) is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


def _settle(answer: "Future[Any]", task: Callable[[], Any]) -> None:
    try:
        result = task()
    except Exception as error:
        answer.set_exception(error)
    else:
        answer.set_result(result)


def _as_refusal(error: BaseException) -> BaseException:
    """What a caller is told of rows that could not be applied."""
    if isinstance(error, FencepostError):
        return error
    if isinstance(error, MemoryError):
        return BehindError(
            f"rows whose events do not fit into memory ({error})", "fewer rows in a call", "Send them in smaller calls."
        )
    return error
