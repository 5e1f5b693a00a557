"""What a bucket keeps between triggers: a head, tables of its objects, and a log of what has changed since.

The head says what the rest is and carries a token that is new with every trigger. A worker that still has the engine of
that token reads nothing but the head; any other reads the tables, then the log. Where the store can append, a trigger
writes only the objects that it touched, and the tables anew once the log has grown to half of them.

The head has a checksum, tables and entries of the log end in a seal: a changed byte is refused. States that older
versions wrote have neither, and get them with the next trigger.
"""

import json
import secrets
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from fencepost._files.recent import RecentlyUsed
from fencepost.errors import FencepostError
from fencepost.indexes.kernels.checksum import checksum
from fencepost.indexes.kernels.damping import LONG_AGO
from fencepost.ordinals import AttributeType
from fencepost.pairing.rules import SIDES
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import packed_bytes, packed_table
from fencepost.spark.work.task import Task
from fencepost.watching.clock import latest_marker, read_marker
from fencepost.watching.keyed_objects import KeyedObjects
from fencepost.watching.objects import Objects
from fencepost.watching.rules_in_force import KeptColumns
from fencepost.watching.sealed import check_seal, make_seal
from fencepost.watching.state import State
from fencepost.watching.tables import replay_tables, table_of, waiting_texts

DAMPED = "damped"
"""The column of `read_state` that says what waits for an object."""
BLOB = "head string, base binary"
"""The state where a value is written whole."""

_HASH = "xxhash64"
_METADATA = b"fencepost.bucket"
_SEED = b"fencepost seed01"
_STATE = b"fencepost stat01"
_SEALED, _CHECKSUM = "sealed", "checksum"
"""In a head: that tables and log end in seals, and its own checksum. Heads of older versions have neither."""
_MOST_ENTRIES = 256
_MOST_WARM = 2_000_000
"""Objects of the engines that a process keeps at hand."""
_LENGTH = struct.Struct("<q")


class BucketStore(Protocol):
    """Where Spark keeps one bucket."""

    appends: bool
    """Whether `append` writes less than `rewrite`."""

    def head(self) -> str | None:
        """The head, or None where there is no state yet."""

    def base(self) -> bytes:
        """The tables."""

    def log(self) -> Iterable[bytes]:
        """What has changed since, in order."""

    def rewrite(self, head: str, base: bytes) -> None:
        """Replace everything."""

    def append(self, head: str, number: int, entry: bytes) -> None:
        """Replace the head and lengthen the log."""

    def replace_head(self, head: str) -> None:
        """Replace the head alone."""


class BlobStore:
    """A state of applyInPandasWithState, which is one value and so has no log."""

    appends = False

    def __init__(self, state: Any) -> None:
        self._state = state

    def head(self) -> str | None:
        """See `BucketStore`, and likewise the rest."""
        return self._state.get[0] if self._state.exists else None

    def base(self) -> bytes:
        """The tables."""
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

    def replace_head(self, head: str) -> None:
        """Replace the head; the value is written whole."""
        self._state.update((head, self.base()))


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
        """The tables."""
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

    def replace_head(self, head: str) -> None:
        """Replace the head alone."""
        self._head.update((head,))


class Opened(NamedTuple):
    """A bucket as the last trigger left it."""

    engine: Any
    head: dict[str, Any]

    @property
    def version(self) -> int:
        """Of the rules that were in force."""
        return int(self.head["version"])


warm_engines: "RecentlyUsed[tuple[Task, int], tuple[str, Any]]" = RecentlyUsed(
    _MOST_WARM, weigh=lambda held: held[1].weight
)
"""The engines that a process has at hand, by the token of the state they stand for; the oldest ones go first."""


def open_bucket(store: BucketStore, task: Task, bucket: int) -> Opened | None:
    """What a bucket has, or None where it starts.

    Its engine belongs to the caller: it is at hand again only after `keep`, so one that failed halfway is not.
    """
    warm = warm_engines.take((task, bucket))
    text = store.head()
    if text is None:
        return _seeded(task, bucket)
    head = _read_head(text, task.format)
    if warm is not None and warm[0] == head["token"]:
        return Opened(warm[1], head)
    entries = list(store.log())
    if len(entries) != head["entries"]:
        raise _damaged(f"has {len(entries):,} entries in its log in place of {head['entries']:,}")
    return _restored(head, _unsealed(head, [store.base(), *entries]), task, bucket)


def pass_time(store: BucketStore, task: Task, bucket: int, marker: int) -> dict[str, Any] | None:
    """Let a time come that ends nothing, by the head alone; that head, or None where it may end something.

    What an engine would remember of it is the marker.
    """
    text = store.head()
    if text is None:
        return None
    head = _read_head(text, task.format)
    now = read_marker(marker, AttributeType.parse(task.time_type))
    if now >= head.get("next", LONG_AGO):
        return None
    check_head(head, task)
    token = secrets.token_hex(16)
    warm = warm_engines.take((task, bucket))
    if warm is not None and warm[0] == head["token"]:
        warm[1].clock.advance(now)
        warm_engines.put((task, bucket), (token, warm[1]))
    clock = {**head["clock"], "marker": latest_marker(head["clock"]["marker"], now)}
    store.replace_head(_write_head({**head, "clock": clock, "token": token}))
    return dict(head)


def keep(engine: Any, before: Opened | None, store: BucketStore, task: Task, bucket: int) -> None:
    """Write what a trigger has changed."""
    touched = engine.changes()
    head = _head(engine, task)
    base, entries, logged = (0, 0, 0) if before is None else _lengths(before.head)
    logged += 0 if touched is None else sum(map(len, touched))
    goes_on = before is not None and _SEALED in before.head and entries < _MOST_ENTRIES
    if store.appends and touched is not None and goes_on and 2 * logged <= base:
        head |= {"base": base, "entries": entries + 1, "logged": logged}
        store.append(_write_head(head), entries, _sealed(_packed(touched)))
    else:
        tables = engine.tables()
        head |= {"base": sum(map(len, tables)), "entries": 0, "logged": 0}
        store.rewrite(_write_head(head), _sealed(_packed(tables)))
    warm_engines.put((task, bucket), (head["token"], engine))


def seed_bytes(engine: Any, task: Task) -> bytes:
    """A bucket as a file for `seed`."""
    table = engine.tables()[0]
    content = packed_bytes(table.replace_schema_metadata({_METADATA: json.dumps(_head(engine, task))}))
    return content + make_seal(_SEED, np.frombuffer(content, np.uint8))


def _seeded(task: Task, bucket: int) -> Opened | None:
    file = None if task.seed is None else Path(task.seed, f"{bucket:05}.arrow")
    if file is None or not file.exists():
        return None
    content, fault = check_seal(_SEED, np.fromfile(file, np.uint8))
    if fault is not None:
        raise FencepostError(
            f"the seed {file}, which {fault}",
            "a file as save_state wrote it",
            "Restore a copy, or save the state again.",
        )
    table = content.tobytes()
    head = json.loads(packed_table(table).schema.metadata[_METADATA])
    _check_format(head, task.format)
    return _restored(head, [table], task, bucket)


def _restored(head: dict[str, Any], entries: Sequence[Any], task: Task, bucket: int) -> Opened:
    check_head(head, task)
    engine: Any = task.make_engine(int(head["version"]), bucket)
    engine.restore([_unpacked(entry, len(task.sides)) for entry in entries])
    engine.clock.restore(head["clock"])
    return Opened(engine, head)


def _packed(tables: Sequence[Any]) -> bytes:
    """Tables as bytes: one as it is, several each behind its length."""
    if len(tables) == 1:
        return packed_bytes(tables[0])
    payloads = [packed_bytes(table) for table in tables]
    return b"".join(_LENGTH.pack(len(payload)) + payload for payload in payloads)


def _unpacked(payload: Any, sides: int) -> list[Any]:
    if sides == 1:
        return [packed_table(payload)]
    tables, at, view = [], 0, memoryview(payload)
    for _ in range(sides):
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        tables.append(packed_table(pa.py_buffer(view[at : at + length])))
        at += length
    return tables


# -- damage ------------------------------------------------------------------------------------------------


def _write_head(head: Mapping[str, Any]) -> str:
    marked = {**head, _SEALED: True}
    return json.dumps({**marked, _CHECKSUM: _checksum_of(marked)})


def _read_head(text: str | bytes, format: int) -> dict[str, Any]:
    """A head that is whole, in a format that is known."""
    try:
        head: dict[str, Any] = dict(json.loads(text))
    except (ValueError, TypeError):
        raise _damaged("has a head that cannot be read") from None
    _check_format(head, format)
    found = head.pop(_CHECKSUM, None)
    if (_SEALED in head or found is not None) and found != _checksum_of(head):
        raise _damaged("has another head than was written")
    return head


def _check_format(head: Mapping[str, Any], format: int) -> None:
    if head.get("format") != format:
        raise FencepostError(
            f"state in format {head.get('format')}",
            f"format {format}",
            "Run the query with the version of fencepost that wrote its checkpoint.",
        )


def _checksum_of(head: Mapping[str, Any]) -> str:
    return f"{checksum(np.frombuffer(json.dumps(head).encode(), np.uint8)):016x}"


def _sealed(payload: bytes) -> bytes:
    return payload + make_seal(_STATE, np.frombuffer(payload, np.uint8))


def _unsealed(head: Mapping[str, Any], payloads: Iterable[bytes]) -> list[Any]:
    """Payloads without their seals, where the head says that they have some."""
    if _SEALED not in head:
        return list(payloads)
    found = []
    for payload in payloads:
        content, fault = check_seal(_STATE, np.frombuffer(payload, np.uint8))
        if fault is not None:
            raise _damaged(fault)
        found.append(content.data)
    return found


def _damaged(fault: str) -> FencepostError:
    return FencepostError(
        f"the state of a bucket, which {fault}",
        "the state as it was written",
        "Restore the checkpoint from a copy, or start with a new one and the state that save_state wrote.",
    )


# -- the head ----------------------------------------------------------------------------------------------


def _head(engine: Any, task: Task) -> dict[str, Any]:
    return {
        "operator": task.operator,
        "format": task.format,
        "buckets": task.buckets,
        "hash": _HASH,
        "rules": _fixed_rules(task),
        "version": engine.version,
        "clock": engine.clock.saved(),
        "next": engine.next_instant(),
        "waiting": engine.waiting[1:],
        "token": secrets.token_hex(16),
        **task.kept_settings(),
        **task.describe_state(),
    }


def _lengths(head: Mapping[str, Any]) -> tuple[int, int, int]:
    """Rows of the tables, entries of the log, and their rows; a seed has none of them in the store."""
    return head.get("base", 0), head.get("entries", 0), head.get("logged", 0)


def check_head(head: Mapping[str, Any], task: Task) -> None:
    """Refuse a state that this query cannot go on with."""
    for name, own in {"buckets": task.buckets, "hash": _HASH, **task.kept_settings()}.items():
        if head[name] != own:
            raise FencepostError(
                f"{task.operator} with {name}={own}",
                f"{name}={head[name]}, with which the checkpoint was made",
                f"Pass {name}={head[name]}, or start with a new checkpoint.",
            )
    if head["rules"] is not None and head["rules"] != _fixed_rules(task):
        raise FencepostError(
            "other rules than those that the checkpoint was made with",
            "the same ones, so that nothing stays inside a rule that is gone",
            "Publish the rules to a directory and pass that: then they may change.",
        )
    if head["clock"]["type"] != task.time_type:
        raise FencepostError(
            f"a time column of type {task.time_type}",
            f"{head['clock']['type']}, with which the checkpoint was made",
            "Cast the column, or start with a new checkpoint.",
        )


def _fixed_rules(task: Task) -> str | None:
    """The digest of fixed rules; a directory has versions instead."""
    return None if isinstance(task.source, Published) else task.source.digest


# -- reading it --------------------------------------------------------------------------------------------


def state_rows(pieces: Any, schema: Any) -> Any:
    """For applyInArrow over the pieces of one bucket: a row per object, with its last time and values.

    `pieces` is a table of `number` and `piece`: the head has number -2, the tables -1, the log counts from 0.
    """
    by_number = dict(zip(pieces["number"].to_pylist(), pieces["piece"].to_pylist(), strict=True))
    head = _read_head(by_number.pop(-2), Task.format)
    numbers = [-1, *range(head["entries"])]
    if not by_number.keys() >= set(numbers):
        raise _damaged(f"lacks {len(set(numbers) - by_number.keys()):,} of {len(numbers):,} pieces")
    entries = _unsealed(head, [by_number[number] for number in numbers])
    sides = head.get("sides")
    if sides is None:
        return _side_rows([[packed_table(entry)] for entry in entries], 0, head, head, schema)
    unpacked = [_unpacked(entry, len(sides)) for entry in entries]
    return pa.concat_tables([_side_rows(unpacked, side, own, head, schema) for side, own in enumerate(sides)])


def _side_rows(
    entries: list[list[Any]], side: int, own: Mapping[str, Any], head: Mapping[str, Any], schema: Any
) -> Any:
    """The rows of one side; columns that the other side has alone are null."""
    kinds = {name: head["attributes"][name] for name in own["attributes"]}
    kept = KeptColumns(
        {name: AttributeType.parse(kind) for name, kind in kinds.items()},
        frozenset([*own["keys"], *head.get("key", ())]),
    )
    key = head.get("key", [])
    state = State(KeyedObjects(key) if key else Objects())
    replay_tables(state, (entry[side] for entry in entries), kept)
    table = table_of(state, state.here())
    objects = table["object"].combine_chunks()
    columns = {"object": state.objects.ids(objects), "time": _decoded(table["time"], head["clock"]["type"])}
    columns |= {name: objects.field(place) for place, name in enumerate(key)} if len(objects) else {}
    columns |= {"snapshot_version": pa.array(np.full(len(table), head["version"]))}
    columns |= {name: _decoded(table[f"attribute {name}"], kind) for name, kind in kinds.items()}
    columns |= {name: table[f"key {name}"] for name in own["keys"] if name not in columns}
    if DAMPED not in columns:
        columns[DAMPED] = waiting_texts(table)
    if "sides" in head:
        columns["side"] = pa.array([SIDES[side]] * len(table), pa.string())
    filled = [columns[field.name] if field.name in columns else pa.nulls(len(table), field.type) for field in schema]
    return pa.table(filled, names=schema.names).cast(schema)


def _decoded(column: Any, kind: str) -> Any:
    array = column.combine_chunks()
    return AttributeType.parse(kind).decode(np.asarray(array.fill_null(0)), np.asarray(array.is_valid()))
