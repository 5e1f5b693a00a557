"""Starting: the Monitor as it was saved, then everything that was logged since, once more.

A replay gives the same events at the same positions. Those that are stored are compared with what the replay finds,
by their ids, and must be equal; the others are stored now.
"""

from dataclasses import dataclass

import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.service.clock import Clock
from fencepost.service.event_log import Caused, EventLog, StoredEvents
from fencepost.service.keys import Keys, Remembered
from fencepost.service.monitoring import Watcher
from fencepost.service.publishing import Publishing
from fencepost.service.records import TICK, VERSION, VOID, Record, rows_of, unpack_records
from fencepost.service.saves import Saves
from fencepost.service.segments import Segments
from fencepost.service.settings import Settings
from fencepost.service.single import Rows, row_count

_EVENTS_AT_ONCE = 50_000
_ROWS_AT_ONCE, _CALLS_AT_ONCE = 40_000, 2_000


@dataclass
class Start:
    """A Monitor, and where in the logs it stands."""

    watcher: Watcher
    position: int
    """Of the last record that is in it."""
    event: int
    """Of the last event that it reported."""
    clock: Clock


def start_watcher(settings: Settings, saves: Saves, rows: Segments, events: EventLog, keys: Keys) -> Start:
    """The Monitor of the last save, or a new one."""
    save = saves.load()
    if save is None:
        if rows.first > 1 or events.first > 1:
            raise FencepostError(
                f"{settings.data} without its saves, whose logs begin at {rows.first} and {events.first}",
                "a save from which the rows can be replayed",
                "Restore the directory saves from a backup, or name a new directory with --data.",
            )
        return Start(Watcher(_new_monitor(settings), {}, settings.silence), 0, 0, Clock(settings.tick))
    keys.restore(save.about["keys"])
    watcher = Watcher(save.monitor, save.about["version"], settings.silence)
    clock = Clock(settings.tick, save.about.get("clock"))
    start = Start(watcher, save.position, int(save.about["event"]), clock)
    if rows.next <= start.position:
        raise FencepostError(
            f"{rows.directory}, which ends at position {rows.next - 1}",
            f"rows up to position {start.position}, at which the state was saved",
            "Restore the files that are missing, or delete the saves of later positions.",
        )
    if events.last < start.event:  # they were on the disk before the save was
        raise FencepostError(
            f"{events.segments.directory}, which ends at event {events.last}",
            f"events up to {start.event}, after which the state was saved",
            "Restore the files that are missing, or delete the saves of later positions: then they are found again.",
        )
    return start


def _new_monitor(settings: Settings) -> Monitor:
    return Monitor(
        Rules(),
        object=settings.object,
        time=settings.time,
        timeout=settings.silence,
        schema=settings.types or None,
        labels=True,
    )


def replay(start: Start, rows: Segments, events: EventLog, keys: Keys, publishing: Publishing) -> None:
    """Apply what was logged behind a position, and store the events that are missing."""
    voids = {
        int(record.about["of"])
        for block in rows.flagged(start.position + 1)
        for record in unpack_records(block)
        if record.kind == VOID
    }
    publishing.need(start.watcher.version)
    stored = _Stored(start.event, events)
    waiting: list[tuple[Record, Rows]] = []
    rows_waiting = 0

    def flush() -> None:
        """Apply the rows that wait."""
        found = start.watcher.take_calls([content for _, content in waiting])
        for (record, content), events_here in zip(waiting, found, strict=True):
            if isinstance(events_here, MemoryError):
                raise events_here
            if isinstance(events_here, Exception):
                continue  # a crash came before the refusal was noted, and nobody was answered
            start.clock.see(record.about)
            note(record, row_count(content), events_here)
        waiting.clear()

    def note(record: Record, number: int, found: pa.Table | None) -> None:
        """Store the events of a record, and remember its key."""
        caused = 0 if found is None else found.num_rows
        if "key" in record.about:
            at = float(record.about["at"])
            answer = Remembered(record.position, number, record.about["digest"], stored.next, caused, at)
            keys.remember(record.about["key"], answer)
        if caused:
            stored.add(found, record.position)

    # Calls with rows wait and are taken together, as far as the next record of another kind, which comes between them.
    for block in rows.blocks(start.position + 1):
        for record in unpack_records(block):
            if record.position <= start.position or record.position in voids:
                continue
            content = rows_of(record)
            if content is not None:
                waiting.append((record, content))
                rows_waiting += row_count(content)
                if rows_waiting >= _ROWS_AT_ONCE or len(waiting) >= _CALLS_AT_ONCE:
                    flush()
                    rows_waiting = 0
                continue
            flush()
            rows_waiting = 0
            note(record, 0, _apply(start.watcher, record, publishing))
    flush()
    stored.finish()
    start.clock.resume()


def _apply(watcher: Watcher, record: Record, publishing: Publishing) -> pa.Table | None:
    if record.kind == VERSION:
        number = int(record.about["version"])
        publishing.need(number)
        return watcher.follow(publishing.directory.load(number), record.about)
    return watcher.advance(record.about["time"]) if record.kind == TICK else None


class _Stored:
    """The events that are stored behind a position, beside those that a replay finds."""

    def __init__(self, after: int, events: EventLog) -> None:
        self._events, self._last = events, events.last
        self._blocks = events.blocks(after)
        self._block: StoredEvents | None = None
        self.next = after + 1
        self._new: list[pa.Table] = []
        self._waiting = 0
        self._causes: list[Caused] = []

    def add(self, table: pa.Table, position: int) -> None:
        """Compare the events of a record with what is stored, and store what is not."""
        causes = table.num_rows
        while table.num_rows and self.next <= self._last:
            block = self._current()
            there = block.table["event_id"].slice(self.next - block.first, table.num_rows)
            if not there.equals(table["event_id"].slice(0, len(there))):
                raise FencepostError(
                    f"{self._events.segments.directory}, whose events from position {self.next} on differ from those "
                    f"that a replay of the rows finds at position {position}",
                    "the same events",
                    "Start the version of fencepost that wrote them, or restore the directory from a backup.",
                )
            self.next += len(there)
            table = table.slice(len(there))
        if table.num_rows:
            if self._new and self._new[-1].schema != table.schema:
                self.finish()
            self._new.append(table)
            # Of a record whose events are stored in part, the rest counts as well.
            self._causes.append(Caused(position, table.num_rows if table.num_rows < causes else causes))
            self.next += table.num_rows
            self._waiting += table.num_rows
            if self._waiting >= _EVENTS_AT_ONCE:
                self.finish()

    def _current(self) -> StoredEvents:
        while self._block is None or self._block.last < self.next:
            self._block = next(self._blocks)
        return self._block

    def finish(self) -> None:
        """Store what is left; refuse events that no row causes."""
        if self._new:
            self._events.append(pa.concat_tables(self._new), self._causes)
            self._new, self._causes, self._waiting = [], [], 0
        elif self.next <= self._last:
            raise FencepostError(
                f"{self._events.segments.directory}, which has events up to position {self._last}",
                f"events up to position {self.next - 1}, which is all that the rows cause",
                "Restore the rows from a backup, or move the files of later events away.",
            )
