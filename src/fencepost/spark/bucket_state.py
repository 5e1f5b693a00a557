"""What a bucket keeps between triggers: a head, a table of its objects, and a log of what has changed since.

The head says what the rest is and carries a token that is new with every trigger. A worker that still has the monitor
of that token reads nothing but the head; any other reads the table, then the log. Where the store can append, a
trigger writes only the objects that it touched, and the table anew once the log has grown to half of it.
"""

import json
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from fencepost.indexes.arrays import Int64s
from fencepost.monitor import Monitor
from fencepost.monitor.state import State
from fencepost.monitor.state_file import Columns, fill, table_of
from fencepost.ordinals import AttributeType
from fencepost.spark.packing import packed_bytes, packed_table
from fencepost.spark.state_head import check_head, state_head
from fencepost.spark.watch_task import WatchTask, monitor_at

__all__ = [
    "BLOB",
    "BlobStore",
    "BucketStore",
    "LoggedStore",
    "WarmMonitors",
    "keep",
    "new_bucket",
    "open_bucket",
    "seed_bytes",
    "state_rows",
    "warm_monitors",
]

BLOB = "head string, base binary"
"""The state where a value is written whole."""

_FORMAT = 2
_METADATA = b"fencepost.bucket"
_GONE = "gone"
_MOST_ENTRIES = 256
_MOST_WARM = 2_000_000
"""Objects of the monitors that a process keeps at hand."""


class BucketStore(Protocol):
    """Where Spark keeps one bucket."""

    appends: bool
    """Whether `append` writes less than `rewrite`."""

    def head(self) -> str | None:
        """The head, or None where there is no state yet."""

    def base(self) -> bytes:
        """The table."""

    def log(self) -> Iterable[bytes]:
        """What has changed since, in order."""

    def rewrite(self, head: str, base: bytes) -> None:
        """Replace everything."""

    def append(self, head: str, number: int, entry: bytes) -> None:
        """Replace the head and lengthen the log."""


class BlobStore:
    """A state of applyInPandasWithState, which is one value and so has no log."""

    appends = False

    def __init__(self, state: Any) -> None:
        self._state = state

    def head(self) -> str | None:
        """See `BucketStore`, and likewise the rest."""
        return self._state.get[0] if self._state.exists else None

    def base(self) -> bytes:
        """The table."""
        return bytes(self._state.get[1])

    def log(self) -> Iterable[bytes]:
        """Nothing."""
        return ()

    def rewrite(self, head: str, base: bytes) -> None:
        """Replace everything."""
        self._state.update((head, base))

    def append(self, head: str, number: int, entry: bytes) -> None:
        """Is never asked for."""
        raise NotImplementedError


class LoggedStore:
    """The state variables of transformWithState."""

    appends = True

    def __init__(self, handle: Any) -> None:
        self._head = handle.getValueState("head", "head string")
        self._base = handle.getValueState("base", "base binary")
        self._log = handle.getListState("log", "number int, entry binary")

    def head(self) -> str | None:
        """See `BucketStore`, and likewise the rest."""
        found = self._head.get()
        return None if found is None else found[0]

    def base(self) -> bytes:
        """The table."""
        return bytes(self._base.get()[0])

    def log(self) -> Iterable[bytes]:
        """What has changed since, in order."""
        return [bytes(entry) for _, entry in sorted(tuple(each) for each in self._log.get())]

    def rewrite(self, head: str, base: bytes) -> None:
        """Replace everything."""
        self._head.update((head,))
        self._base.update((base,))
        self._log.clear()

    def append(self, head: str, number: int, entry: bytes) -> None:
        """Replace the head and lengthen the log."""
        self._head.update((head,))
        self._log.appendValue((number, entry))


class Journal(State):
    """A state that knows which of its objects were touched."""

    def __init__(self) -> None:
        super().__init__()
        self._touched: list[Int64s] | None = []
        """Slots; None where all objects have got new ones."""

    def store(self, slots: Int64s, times: Int64s, positions: Any) -> None:
        """Remember where these objects are, and that they were touched."""
        super().store(slots, times, positions)
        if self._touched is not None:
            self._touched.append(slots)

    def forget(self, slots: Int64s) -> None:
        """Let objects go, and remember that they went."""
        super().forget(slots)
        if self._touched is not None:
            self._touched.append(slots)

    def tidy(self) -> None:
        """As any state does; where objects are numbered anew, all count as touched."""
        before = self.objects
        super().tidy()
        if self.objects is not before:
            self._touched = None

    def taken(self) -> Int64s | None:
        """The slots that were touched since the last call, once each, or None for all."""
        touched, self._touched = self._touched, []
        return None if touched is None else np.unique(np.concatenate([np.zeros(0, np.int64), *touched]))


class Opened(NamedTuple):
    """A bucket as the last trigger left it."""

    monitor: Monitor
    head: dict[str, Any]

    @property
    def version(self) -> int:
        """Of the rules that were in force."""
        return int(self.head["version"])


class WarmMonitors:
    """The monitors that a process has at hand, by the token of the state they stand for; the oldest ones go first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._objects = 0
        self._held: OrderedDict[tuple[WatchTask, int], tuple[str, Monitor, int]] = OrderedDict()

    def put(self, task: WatchTask, bucket: int, token: str, monitor: Monitor) -> None:
        """Keep a monitor, and let others go while there are too many objects."""
        objects = len(monitor._state.objects)
        self._held[task, bucket] = token, monitor, objects
        self._objects += objects
        while len(self._held) > 1 and self._objects > self._most:
            self._objects -= self._held.popitem(last=False)[1][2]

    def take(self, task: WatchTask, bucket: int) -> tuple[str, Monitor] | None:
        """The monitor of a bucket, which is then no longer here."""
        found = self._held.pop((task, bucket), None)
        if found is None:
            return None
        self._objects -= found[2]
        return found[0], found[1]

    def clear(self) -> None:
        """Let all go."""
        self._held.clear()
        self._objects = 0


warm_monitors = WarmMonitors(_MOST_WARM)


def open_bucket(store: BucketStore, task: WatchTask, bucket: int) -> Opened | None:
    """What a bucket has, or None where it starts.

    Its monitor belongs to the caller: it is at hand again only after `keep`, so one that failed halfway is not.
    """
    warm = warm_monitors.take(task, bucket)
    text = store.head()
    if text is None:
        return _seeded(task, bucket)
    head = json.loads(text)
    if warm is not None and warm[0] == head["token"]:
        return Opened(warm[1], head)
    return _restored(head, [store.base(), *store.log()], task, bucket)


def new_bucket(task: WatchTask, version: int, bucket: int) -> Monitor:
    """A monitor for a bucket that starts."""
    monitor = monitor_at(task, version, bucket)
    monitor._state = _replayed((), monitor._layers)
    return monitor


def keep(monitor: Monitor, before: Opened | None, store: BucketStore, task: WatchTask, bucket: int) -> None:
    """Write what a trigger has changed."""
    state = monitor._state
    assert isinstance(state, Journal), "the state was made by this module"
    touched = state.taken()
    head = _head(monitor, task)
    base, entries, logged = (0, 0, 0) if before is None else _lengths(before.head)
    logged += 0 if touched is None else len(touched)
    if store.appends and touched is not None and before is not None and 2 * logged <= base and entries < _MOST_ENTRIES:
        head |= {"base": base, "entries": entries + 1, "logged": logged}
        entry = table_of(state, touched).append_column(_GONE, pa.array(~state.present[touched]))
        store.append(json.dumps(head), entries, packed_bytes(entry))
    else:
        table = table_of(state)
        head |= {"base": len(table), "entries": 0, "logged": 0}
        store.rewrite(json.dumps(head), packed_bytes(table))
    warm_monitors.put(task, bucket, head["token"], monitor)


def seed_bytes(monitor: Monitor, task: WatchTask) -> bytes:
    """A bucket as a file for `seed`."""
    head = _head(monitor, task)
    return packed_bytes(table_of(monitor._state).replace_schema_metadata({_METADATA: json.dumps(head)}))


def _seeded(task: WatchTask, bucket: int) -> Opened | None:
    file = None if task.seed is None else Path(task.seed, f"{bucket:05}.arrow")
    if file is None or not file.exists():
        return None
    table = file.read_bytes()
    head = json.loads(packed_table(table).schema.metadata[_METADATA])
    return _restored(head, [table], task, bucket)


def _restored(head: dict[str, Any], tables: list[bytes], task: WatchTask, bucket: int) -> Opened:
    check_head(head, task, "watch", _FORMAT)
    monitor = monitor_at(task, int(head["version"]), bucket)
    monitor._state = _replayed(tables, monitor._layers)
    monitor._clock.restore(head["clock"])
    return Opened(monitor, head)


def _replayed(tables: Iterable[bytes], columns: Columns) -> Journal:
    state = Journal()
    state.track(columns.types, tuple(sorted(columns.keys)))
    for table in map(packed_table, tables):
        slots = fill(state, table, columns)
        if _GONE in table.column_names:
            state.forget(slots[np.asarray(table[_GONE])])
    state.taken()
    return state


def _head(monitor: Monitor, task: WatchTask) -> dict[str, Any]:
    return state_head(task, _FORMAT, monitor._layers.version, monitor._clock.saved()) | {
        "token": secrets.token_hex(16),
        "object": task.object_type,
        "attributes": dict(task.attributes),
        "keys": list(task.keys),
    }


def _lengths(head: Mapping[str, Any]) -> tuple[int, int, int]:
    """Rows of the table, entries of the log, and their rows; a seed has none of them in the store."""
    return head.get("base", 0), head.get("entries", 0), head.get("logged", 0)


class _Columns(NamedTuple):
    types: Mapping[str, AttributeType]
    keys: Iterable[str]


def state_rows(parts: Any, schema: Any) -> Any:
    """For applyInArrow over the parts of one bucket: a row per object, with its last time and values.

    Args:
        parts: a table of `number` and `part`: the head has number -2, the table -1, the log counts from 0.
        schema: of the answer.
    """
    by_number = dict(zip(parts["number"].to_pylist(), parts["part"].to_pylist(), strict=True))
    head = json.loads(by_number.pop(-2))
    types = {name: AttributeType.parse(kind) for name, kind in head["attributes"].items()}
    numbers = [-1, *range(head["entries"])]
    table = table_of(_replayed([by_number[number] for number in numbers], _Columns(types, head["keys"])))
    columns = {"object": table["object"], "time": _decoded(table["time"], head["clock"]["type"])}
    columns["snapshot_version"] = pa.array(np.full(len(table), head["version"]))
    for name, kind in head["attributes"].items():
        columns[name] = _decoded(table[f"attribute {name}"], kind)
    for name in head["keys"]:
        columns[name] = table[f"key {name}"]
    return pa.table(columns).select(schema.names).cast(schema)


def _decoded(column: Any, kind: str) -> Any:
    array = column.combine_chunks()
    return AttributeType.parse(kind).decode(np.asarray(array.fill_null(0)), np.asarray(array.is_valid()))
