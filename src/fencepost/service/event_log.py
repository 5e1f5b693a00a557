"""The event log: every event with a position 1, 2, ..., found again by position, and searched with filters.

A block has the events of some records of the row log, as one Arrow stream, and says how many each record caused. So an
answer that was lost on its way can be given again.
"""

import json
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.service.rows import load_rows, write_rows
from fencepost.service.segments import Block, Segments

_HEAD = struct.Struct("<I")
_KEPT_BLOCKS, _KEPT_BYTES = 256, 32 << 20
"""Of the newest events, which are kept in memory: whichever comes first."""
_SEARCHED_AT_ONCE, _BLOCKS_AT_ONCE = 2_000_000, 20_000
"""Events and blocks that one call looks at, at most: a filter that nothing passes answers with how far it came."""


class Caused(NamedTuple):
    """The events of one record."""

    position: int
    """Of the record, in the row log."""
    events: int


class StoredEvents(NamedTuple):
    """The events of a block."""

    first: int
    table: pa.Table
    causes: Sequence[Caused]
    at: float
    """When they were written, in seconds since 1970."""

    @property
    def last(self) -> int:
        """The position of the last of them."""
        return self.first + int(self.table.num_rows) - 1


@dataclass(frozen=True)
class EventFilter:
    """What is asked of events; None asks nothing."""

    rules: frozenset[int] | None = None
    object: str | None = None
    detect: frozenset[str] | None = None
    labels: Mapping[str, str] | None = None

    def choose(self, table: pa.Table) -> pa.Table:
        """The events that fit; the table has a column `position`."""
        if self.rules is not None:
            table = table.filter(pc.is_in(table["rule_id"], value_set=pa.array(sorted(self.rules), pa.int64())))
        if self.detect is not None and table.num_rows:
            table = table.filter(pc.is_in(table["detect"], value_set=pa.array(sorted(self.detect), pa.string())))
        if self.object is not None and table.num_rows:
            table = table.filter(pc.fill_null(pc.equal(table["object"].cast(pa.string()), self.object), False))
        if self.labels and table.num_rows:
            wanted = self.labels.items()
            own = [dict(labels or ()) for labels in table["labels"].to_pylist()]
            table = table.filter(pa.array([all(each.get(name) == text for name, text in wanted) for each in own]))
        return table


class EventPage(NamedTuple):
    """Some events, and where the next ones are."""

    events: pa.Table
    """With their positions, in a column of that name."""
    next: int
    """Ask for what comes after this position."""
    last: int
    """The last position there is."""


class EventLog:
    """Events in a directory.

    Args:
        directory: of the files.
        sure: the last event that was synced; what is behind it is found again by a replay of the rows.
    """

    def __init__(self, directory: Path, sure: int | None = None) -> None:
        self.segments = Segments(directory, "events", roll=32 << 20, what="events", sure=sure)
        self._recent: OrderedDict[int, tuple[StoredEvents, int]] = OrderedDict()
        """The last blocks that were written, with their sizes."""
        self._recent_bytes = 0
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """The position of the last event; 0 where there is none."""
        return self.segments.next - 1

    @property
    def first(self) -> int:
        """The first position that is kept."""
        return self.segments.first

    def append(self, table: pa.Table, causes: Sequence[Caused]) -> int:
        """Store some events; the position of the first."""
        at = time.time()
        about = json.dumps({"causes": causes, "at": at}, separators=(",", ":")).encode()
        parts = [_HEAD.pack(len(about)), about, write_rows(table)]
        first = self.segments.append(parts, table.num_rows)
        with self._lock:
            self._recent[first] = StoredEvents(first, table, causes, at), table.nbytes
            self._recent_bytes += table.nbytes
            while len(self._recent) > _KEPT_BLOCKS or self._recent_bytes > _KEPT_BYTES:
                self._recent_bytes -= self._recent.popitem(last=False)[1][1]
        return first

    def blocks(self, after: int = 0) -> Iterator[StoredEvents]:
        """The events behind a position, block by block; the first block may begin before."""
        with self._lock:
            recent = [stored for stored, _ in self._recent.values() if stored.last > after]
        if recent and recent[0].first <= after + 1:
            yield from recent
            return
        for block in self.segments.blocks(after + 1):
            yield read_block(block)

    def backwards(self, before: int | None = None) -> Iterator[StoredEvents]:
        """The events from the last one back, block by block."""
        for block in self.segments.blocks_backwards(before):
            yield read_block(block)

    def page(self, after: int, asked: EventFilter, limit: int) -> EventPage:
        """The first events behind a position that fit, of those that one call looks at."""
        found: list[pa.Table] = []
        reached, count, last = after, 0, self.last
        for blocks, stored in enumerate(self.blocks(after), start=1):
            table = asked.choose(_behind(stored, after))
            if count + table.num_rows > limit:
                table = table.slice(0, limit - count)
                found.append(table)
                reached = int(table["position"][-1].as_py()) if table.num_rows else reached
                break
            count += table.num_rows
            reached = stored.last
            if table.num_rows:
                found.append(table)
            if count == limit or reached - after >= _SEARCHED_AT_ONCE or blocks >= _BLOCKS_AT_ONCE:
                break
        return EventPage(join_events(found), reached, max(last, min(reached, self.last)))

    def newest(self, asked: EventFilter, limit: int, before: int | None = None) -> EventPage:
        """The last events that fit, of those before a position and that one call looks at, in their order."""
        found: list[pa.Table] = []
        count, reached = 0, self.last + 1 if before is None else before
        top = reached
        for blocks, stored in enumerate(self.backwards(before), start=1):
            table = asked.choose(_behind(stored, 0, before))
            reached = stored.first
            if count + table.num_rows >= limit:
                table = table.slice(table.num_rows - (limit - count))
                found.append(table)
                reached = int(table["position"][0].as_py()) if table.num_rows else reached
                break
            count += table.num_rows
            if table.num_rows:
                found.append(table)
            if top - reached >= _SEARCHED_AT_ONCE or blocks >= _BLOCKS_AT_ONCE:
                break
        return EventPage(join_events(found[::-1]), reached, self.last)

    def caused_by(self, position: int, after: int) -> pa.Table | None:
        """The events of one record, which begin behind a position of this log; None where none is kept."""
        for stored in self.blocks(after):
            start = 0
            for cause in stored.causes:
                if cause[0] == position:
                    return stored.table.slice(start, cause[1])
                start += cause[1]
            if stored.causes and stored.causes[0][0] > position:
                break
        return None

    def find(self, event_id: str) -> tuple[dict[str, Any] | None, int]:
        """The newest event with an id; and the position from which on one call has looked for it."""
        top = reached = self.last + 1
        for blocks, stored in enumerate(self.backwards(), start=1):
            mask = pc.equal(stored.table["event_id"], event_id)
            reached = stored.first
            if pc.any(mask).as_py():
                found: dict[str, Any] = numbered(stored).filter(mask).to_pylist()[0]
                return found, reached
            if top - reached >= _SEARCHED_AT_ONCE or blocks >= _BLOCKS_AT_ONCE:
                break
        return None, reached

    def at(self, position: int) -> dict[str, Any] | None:
        """The event at a position."""
        for stored in self.blocks(position - 1):
            if stored.first <= position <= stored.last:
                found: dict[str, Any] = numbered(stored).slice(position - stored.first, 1).to_pylist()[0]
                return found
            break
        return None

    def close(self) -> None:
        """Give the file back."""
        self.segments.close()


def read_block(block: Block) -> StoredEvents:
    """The events of a block."""
    (length,) = _HEAD.unpack_from(block.content)
    about = json.loads(bytes(block.content[_HEAD.size : _HEAD.size + length]))
    causes = [Caused(*each) for each in about["causes"]]
    return StoredEvents(block.first, load_rows(block.content[_HEAD.size + length :]), causes, about["at"])


def numbered(stored: StoredEvents) -> pa.Table:
    """The events with their positions in front."""
    positions = np.arange(stored.first, stored.first + stored.table.num_rows)
    return stored.table.add_column(0, "position", pa.array(positions))


def join_events(tables: Sequence[pa.Table]) -> pa.Table:
    """Events of several schemas in one table: columns that some lack are null there."""
    if not tables:
        return pa.table({"position": pa.array([], pa.int64())})
    return pa.concat_tables(tables, promote_options="permissive")


def _behind(stored: StoredEvents, after: int, before: int | None = None) -> pa.Table:
    table = numbered(stored)
    if before is not None and stored.last >= before:
        table = table.slice(0, max(0, before - stored.first))
    return table if stored.first > after else table.slice(after + 1 - stored.first)
