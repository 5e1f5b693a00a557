"""A monitor's state as a file.

It is an Arrow file with a seal behind it. The Arrow table has a row per object; the rest is JSON in its metadata.
Where the rules are saved, too, their snapshot stands between the two, with its length behind it.
"""

import json
import struct
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost._files.local_copies import mapped
from fencepost._files.whole import replace_file
from fencepost._text import count
from fencepost.emitting.emitter import Emitter
from fencepost.emitting.engine import Counts
from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.pairing.engine import Pairwise
from fencepost.pairing.rules import SIDES
from fencepost.snapshot import Snapshot
from fencepost.watching.engine import Watch
from fencepost.watching.rules_in_force import RulesInForce
from fencepost.watching.sealed import check_seal, is_marked, make_seal

_MARK, _MARK_WITH_RULES = b"fencepost state2", b"fencepost whole1"
_METADATA = b"fencepost.monitor"
_LENGTH = struct.Struct("<Q")


class Saved(NamedTuple):
    """What a file holds, every byte of which is as it was written."""

    header: dict[str, Any]
    table: Any
    rules: bytes | None
    """The snapshot of the rules, where they were saved."""


def save(path: Path, watch: Watch, pairs: Pairwise, emitter: Emitter, whole: dict[str, Any] | None = None) -> None:
    """Write the objects that are present; the file appears whole or not at all.

    The columns of pairs stand beside those of objects, the shorter ones filled up. Of the rules a fingerprint is kept,
    of the settings what a monitor must have in common with this one to restore it. A file that is `whole` has the rules
    themselves, and all settings, which are given.
    """
    tables = dict(zip(("", *(f"{side} " for side in SIDES)), [*watch.tables(), *pairs.tables()], strict=True))
    rows = max(len(table) for table in tables.values())
    columns = {
        f"{prefix}{name}": pa.concat_arrays([column.combine_chunks(), pa.nulls(rows - len(table), column.type)])
        for prefix, table in tables.items()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    rules = watch.rules
    header: dict[str, Any] = {
        "settings": _settings(watch, pairs),
        "types": {name: str(type_) for name, type_ in {**pairs.types, **rules.types}.items()},
        "rules": _fingerprint(rules),
        "versions": rules.save_versions(),
        "clock": watch.clock.saved(),
        "counts": watch.counts.plus(pairs.counts),
        "damped": watch.waiting.plus(pairs.waiting).damped,
        "events": emitter.counts,
        "rows": [len(table) for table in tables.values()],
        "key_kinds": pairs.sides.key_kinds,
    }
    packed = b""
    if whole is not None:
        snapshot = rules.snapshot()
        packed = snapshot.to_bytes()
        packed += _LENGTH.pack(len(packed))
        used = {"types": {name: str(type_) for name, type_ in rules.types.items()}, "keys": sorted(rules.keys)}
        header |= {"monitor": whole, "schema": rules.schema, "used": used}
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(header)})
    with replace_file(path) as draft:
        with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        with draft.open("ab") as file:
            file.write(packed)
        content = mapped(draft)
        with draft.open("ab") as file:
            file.write(make_seal(_MARK if whole is None else _MARK_WITH_RULES, content))


def load_rules(path: Path) -> tuple[dict[str, Any], RulesInForce]:
    """The settings of a monitor that was saved with its rules, and those rules."""
    header, _, packed = _read(path)
    if packed is None:
        raise FencepostError(
            f"the state file {path} has no rules",
            "a file that save(path, rules=True) wrote",
            "Build a Monitor from the rules of that time, and call restore(path).",
        )
    settings, schema, used = header["monitor"], header["schema"], header["used"]
    types = {name: AttributeType.parse(type_) for name, type_ in used["types"].items()}
    return settings, RulesInForce(Snapshot.from_bytes(packed), schema, types, used["keys"])


def timeout_to_json(timeout: timedelta | int | None) -> Any:
    """A timeout as JSON has it: durations as text."""
    return f"{timeout // timedelta(microseconds=1)} us" if isinstance(timeout, timedelta) else timeout


def timeout_from_json(saved: Any) -> timedelta | int | None:
    """The timeout that `timeout_to_json` wrote."""
    return timedelta(microseconds=int(saved.split()[0])) if isinstance(saved, str) else saved


def restore(path: Path, watch: Watch, pairs: Pairwise, emitter: Emitter) -> None:
    """Take over a saved state; refuses a file that was changed, and one of other rules or settings."""
    header, table, _ = _read(path)
    settings = _settings(watch, pairs)
    for name in {**header["settings"], **settings}:
        value, saved = settings.get(name), header["settings"].get(name)
        if value != saved:
            raise FencepostError(
                f"a Monitor with {name}={value!r}",
                f"{name}={saved!r}, as in {path}",
                "Build the Monitor with the settings of the one that saved.",
            )
    _compare_rules(path, header, watch.rules, pairs)
    objects, *counts = header["rows"]
    sides = []
    for name, number in zip(SIDES, counts, strict=True):
        chosen = [column for column in table.column_names if column.startswith(f"{name} ")]
        own = table.select(chosen).rename_columns([column[len(name) + 1 :] for column in chosen])
        sides.append(own.slice(0, number))
    watch.restore([[table.slice(0, objects)]])
    watch.clock.restore(header["clock"])
    pairs.restore([sides], header["key_kinds"])
    watch.rules.restore_versions(header["versions"])
    watch.counts, pairs.counts, emitter.counts = Counts(*header["counts"]), Counts(), header["events"]
    watch.state.damped.dropped = header.get("damped", 0)


def _read(path: Path) -> Saved:
    try:
        sealed = np.fromfile(path, np.uint8)
    except OSError as error:
        raise _refused(path, f"cannot be read ({error.strerror})") from None
    has_rules = is_marked(_MARK_WITH_RULES, sealed)
    content, fault = check_seal(_MARK_WITH_RULES if has_rules else _MARK, sealed)
    if fault is not None:
        raise _refused(path, fault)
    packed = None
    if has_rules:
        content, (length,) = content[: -_LENGTH.size], _LENGTH.unpack(content[-_LENGTH.size :].tobytes())
        content, packed = content[: len(content) - length], content[len(content) - length :].tobytes()
    table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(content))).read_all()
    return Saved(json.loads(table.schema.metadata[_METADATA]), table, packed)


def _refused(path: Path, fault: str) -> FencepostError:
    return FencepostError(
        f"the state file {path} {fault}",
        "a file as Monitor.save of this version wrote it",
        "Check the path, or restore a copy; without one, begin with a new Monitor and update it with past rows.",
    )


def _settings(watch: Watch, pairs: Pairwise) -> dict[str, Any]:
    """The settings that a monitor must share with the one whose state it takes over."""
    timeout, key = watch.clock.given_timeout, pairs.pairing.key
    return {
        "object": watch.columns.object,
        "time": watch.columns.time,
        "sequence": list(watch.columns.sequence),
        "first": "silent" if watch.silent else "enter",
        "timeout": None if timeout is None else str(timeout),
        **({"key": list(key)} if key else {}),
    }


def _compare_rules(path: Path, header: dict[str, Any], rules: RulesInForce, pairs: Pairwise) -> None:
    for name, type_ in {**pairs.types, **rules.types}.items():
        saved = header["types"].get(name, str(type_))
        if saved != str(type_):
            raise FencepostError(
                f"{name} as {type_}", f"{saved}, as in {path}", "Pass schema= to the Monitor with that type."
            )
    if header["rules"] != _fingerprint(rules):
        raise FencepostError(
            f"a Monitor whose {count(len(rules), 'rule')}, or their versions, differ from those of {path}",
            f"the same {count(header['rules']['count'], 'rule')} in the same versions",
            "Build the Monitor from the rules of that time, restore, then change them with add, replace and remove.",
        )


def _fingerprint(rules: RulesInForce) -> dict[str, Any]:
    """The number of rules in force, and a hash of their ids, versions and expiries."""
    ids, versions, expires = rules.in_force()
    order = np.argsort(ids)
    digest = blake2b(digest_size=16)
    for column in (ids, versions, expires):
        digest.update(np.ascontiguousarray(column[order], np.dtype("<i8")).tobytes())
    return {"count": len(ids), "hash": digest.hexdigest()}
