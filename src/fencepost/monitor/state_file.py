"""A monitor's state as a file: one Arrow table of objects, with the rest as JSON in its metadata."""

import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.monitor.layers import Layers
from fencepost.monitor.positions import NO_KEY, Positions
from fencepost.monitor.state import State

__all__ = ["read", "state_of", "table_of", "write"]

_FORMAT = 1
_METADATA = b"fencepost.monitor"


def write(path: Path, state: State, rules: Layers, settings: dict[str, Any], kept: dict[str, Any]) -> None:
    """Write the objects that are present; the file appears whole or not at all.

    Args:
        path: the file.
        state: the objects.
        rules: those in force, of which a fingerprint is kept.
        settings: what a monitor must have in common with this one to restore it.
        kept: everything else, as JSON takes it.

    """
    header = {
        "format": _FORMAT,
        "settings": settings,
        "types": {name: str(type_) for name, type_ in rules.types.items()},
        "keys": sorted(rules.keys),
        "rules": _fingerprint(rules),
        "kept": kept,
    }
    table = table_of(state).replace_schema_metadata({_METADATA: json.dumps(header)})
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with pa.OSFile(str(partial), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path, rules: Layers, settings: dict[str, Any]) -> tuple[State, dict[str, Any]]:
    """The state in a file, and what was kept with it; refuses one of other rules or settings.

    Args:
        path: the file.
        rules: those in force now.
        settings: of the monitor that takes it over.

    """
    try:
        with pa.OSFile(str(path), "rb") as file:
            table = pa.ipc.open_file(file).read_all()
        header = json.loads((table.schema.metadata or {})[_METADATA])
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise FencepostError(
            f"{path}, which is no saved state ({error})", "a file that Monitor.save wrote", "Check the path."
        ) from None
    if header["format"] != _FORMAT:
        raise FencepostError(
            f"{path} in format {header['format']}", f"format {_FORMAT}", "Restore it with the version that saved it."
        )
    for name, value in settings.items():
        if header["settings"][name] != value:
            raise FencepostError(
                f"a Monitor with {name}={value!r}",
                f"{name}={header['settings'][name]!r}, as in {path}",
                "Build the Monitor with the settings of the one that saved.",
            )
    _compare_rules(path, header, rules)
    return state_of(table, rules), header["kept"]


def table_of(state: State) -> Any:
    """The objects that are present, a row each: times and values as ordinals, keys as strings."""
    slots = state.here()
    positions = state.positions(slots)
    columns = {"object": state.objects.values(slots), "time": pa.array(state.times[slots])}
    for name, ordinals in positions.ordinals.items():
        columns[f"attribute {name}"] = pa.array(ordinals, mask=~positions.known[name])
    for name, codes in positions.keys.items():
        columns[f"key {name}"] = state.strings[name].texts(codes)
    return pa.table(columns)


def state_of(table: Any, rules: Layers) -> State:
    """The state that `table_of` wrote, for rules that may use other columns by now."""
    state = State()
    state.track(rules.types, tuple(sorted(rules.keys)))
    if len(table):
        objects = table["object"].combine_chunks()
        slots = state.objects.slots(objects, add=True)
        state.make_room()
        state.store(slots, np.asarray(table["time"]), _positions(table, state, rules))
    return state


def _positions(table: Any, state: State, rules: Layers) -> Positions:
    ordinals, known, keys = {}, {}, {}
    for name in rules.types:
        column = _column(table, f"attribute {name}", pa.int64())
        known[name] = np.asarray(column.is_valid())
        ordinals[name] = np.array(column.fill_null(0))
    for name in rules.keys:
        column = _column(table, f"key {name}", pa.string())
        keys[name] = state.strings[name].codes(column) if len(column) else np.full(0, NO_KEY)
    return Positions(len(table), ordinals, known, keys)


def _column(table: Any, name: str, type_: Any) -> Any:
    return table[name].combine_chunks() if name in table.column_names else pa.nulls(len(table), type_)


def _compare_rules(path: Path, header: dict[str, Any], rules: Layers) -> None:
    for name, type_ in rules.types.items():
        saved = header["types"].get(name, str(type_))
        if saved != str(type_):
            raise FencepostError(
                f"{name} as {type_}", f"{saved}, as in {path}", "Pass schema= to the Monitor with that type."
            )
    if header["rules"] != _fingerprint(rules):
        raise FencepostError(
            f"a Monitor whose {len(rules):,} rules, or their versions, differ from those of {path}",
            f"the same {header['rules']['count']:,} rules in the same versions",
            "Build the Monitor from the rules of that time, restore, then change them with add, replace and remove.",
        )


def _fingerprint(rules: Layers) -> dict[str, Any]:
    """The number of rules in force, and a hash of their ids, versions and expiries."""
    ids, versions, expires = rules.in_force()
    order = np.argsort(ids)
    digest = blake2b(digest_size=16)
    for column in (ids, versions, expires):
        digest.update(np.ascontiguousarray(column[order], np.dtype("<i8")).tobytes())
    return {"count": len(ids), "hash": digest.hexdigest()}
