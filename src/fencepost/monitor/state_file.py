"""A monitor's state as a file: one Arrow table of objects, with the rest as JSON in its metadata."""

import json
import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.monitor.band_rules import SIDES
from fencepost.monitor.bands import Bands
from fencepost.monitor.layers import Layers
from fencepost.monitor.positions import NO_KEY, Positions
from fencepost.monitor.state import State
from fencepost.ordinals import AttributeType

__all__ = ["Columns", "fill", "position_columns", "positions_of", "read", "side_of", "table_of", "write"]

_FORMAT = 1
_METADATA = b"fencepost.monitor"


class Columns(Protocol):
    """What is kept of objects."""

    @property
    def types(self) -> Mapping[str, AttributeType]:
        """The attributes."""

    @property
    def keys(self) -> Iterable[str]:
        """The key columns."""


class _SideColumns(NamedTuple):
    """The same of one side of bands."""

    types: Mapping[str, AttributeType]
    keys: Iterable[str]


def write(
    path: Path, state: State, rules: Layers, settings: dict[str, Any], kept: dict[str, Any], bands: Bands
) -> None:
    """Write the objects that are present; the file appears whole or not at all.

    Args:
        path: the file.
        state: the objects.
        rules: those in force, of which a fingerprint is kept.
        settings: what a monitor must have in common with this one to restore it.
        kept: everything else, as JSON takes it.
        bands: the rows of two streams; their columns stand beside those of objects, the shorter ones filled up.

    """
    parts = {"": table_of(state)} | {f"{name} ": table_of(each) for name, each in zip(SIDES, bands.states, strict=True)}
    count = max(len(part) for part in parts.values())
    columns = {
        f"{prefix}{name}": pa.concat_arrays([column.combine_chunks(), pa.nulls(count - len(part), column.type)])
        for prefix, part in parts.items()
        for name, column in zip(part.column_names, part.columns, strict=True)
    }
    header = {
        "format": _FORMAT,
        "settings": settings,
        "types": {name: str(type_) for name, type_ in {**bands.types, **rules.types}.items()},
        "keys": sorted(rules.keys),
        "rules": _fingerprint(rules),
        "kept": kept,
        "rows": [len(part) for part in parts.values()],
        "key_kinds": bands.streams.key_kinds,
    }
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(header)})
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with pa.OSFile(str(partial), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read(
    path: Path, rules: Layers, settings: dict[str, Any], bands: Bands
) -> tuple[State, dict[str, Any], tuple[list[State], tuple[dict[str, str], dict[str, str]]]]:
    """The state in a file, what was kept with it, and the rows of bands; refuses one of other rules or settings.

    Args:
        path: the file.
        rules: those in force now.
        settings: of the monitor that takes it over.
        bands: of that monitor.

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
    for name in {**header["settings"], **settings}:
        value, saved = settings.get(name), header["settings"].get(name)
        if value != saved:
            raise FencepostError(
                f"a Monitor with {name}={value!r}",
                f"{name}={saved!r}, as in {path}",
                "Build the Monitor with the settings of the one that saved.",
            )
    _compare_rules(path, header, rules, bands)
    objects, *counts = header.get("rows", [len(table), 0, 0])
    sides = []
    for side, (name, count) in enumerate(zip(SIDES, counts, strict=True)):
        chosen = [column for column in table.column_names if column.startswith(f"{name} ")]
        own = table.select(chosen).rename_columns([column[len(name) + 1 :] for column in chosen]).slice(0, count)
        sides.append(side_of(own, bands, side))
    kinds = header.get("key_kinds", ({}, {}))
    state = State()
    fill(state, table.slice(0, objects), rules)
    return state, header["kept"], (sides, (kinds[0], kinds[1]))


def table_of(state: State, slots: Int64s | None = None) -> Any:
    """Objects, by default all that are present, a row each: times and values as ordinals, keys as strings."""
    slots = state.here() if slots is None else slots
    columns = {"object": state.objects.values(slots), "time": pa.array(state.times[slots])}
    return pa.table(columns | position_columns(state.positions(slots), state))


def position_columns(positions: Positions, state: State) -> dict[str, Any]:
    """Positions as the columns of a table: values as ordinals, keys as the strings that a state has for them."""
    columns = {}
    for name, ordinals in positions.ordinals.items():
        columns[f"attribute {name}"] = pa.array(ordinals, mask=~positions.known[name])
    for name, codes in positions.keys.items():
        columns[f"key {name}"] = state.strings[name].texts(codes)
    return columns


def side_of(table: Any, bands: Bands, side: int) -> State:
    """The rows of one side that `table_of` wrote, for band rules that may use other columns by now."""
    types = {column: bands.types[column] for column in sorted(bands.streams.used[side])}
    state = State(bands.states[side].objects.emptied())
    fill(state, table, _SideColumns(types, sorted(bands.states[side].strings)))
    return state


def fill(state: State, table: Any, rules: Columns) -> Int64s:
    """Put what `table_of` wrote into a state, for rules that may use other columns by now; the slots of its rows."""
    state.track(rules.types, tuple(sorted(rules.keys)))
    if not len(table):
        return np.zeros(0, np.int64)
    slots = state.objects.slots(table["object"].combine_chunks(), add=True)
    state.make_room()
    state.store(slots, np.asarray(table["time"]), positions_of(table, state, rules))
    return slots


def positions_of(table: Any, state: State, rules: Columns) -> Positions:
    """What `position_columns` wrote, for rules that may use other columns by now."""
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


def _compare_rules(path: Path, header: dict[str, Any], rules: Layers, bands: Bands) -> None:
    for name, type_ in {**bands.types, **rules.types}.items():
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
