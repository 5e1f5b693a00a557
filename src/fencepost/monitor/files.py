"""A monitor's state as a file: one Arrow table of objects, with the rest as JSON in its metadata."""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost._files.whole import replace_file
from fencepost.errors import FencepostError
from fencepost.pairing.engine import Pairwise
from fencepost.pairing.rules import SIDES
from fencepost.watching.engine import Watch
from fencepost.watching.rules_in_force import RulesInForce

_FORMAT = 1
_METADATA = b"fencepost.monitor"


class Saved(NamedTuple):
    """What a file has."""

    objects: Any
    """A table; likewise the rows of either side of bands."""
    sides: list[Any]
    key_kinds: list[dict[str, str]]
    kept: dict[str, Any]


def write(path: Path, watch: Watch, pairs: Pairwise, settings: dict[str, Any], kept: dict[str, Any]) -> None:
    """Write the objects that are present; the file appears whole or not at all.

    The columns of pairs stand beside those of objects, the shorter ones filled up. Of the rules a fingerprint is kept,
    of the settings what a monitor must have in common with this one to restore it.
    """
    tables = [*watch.tables(), *pairs.tables()]
    parts = dict(zip(("", *(f"{side} " for side in SIDES)), tables, strict=True))
    count = max(len(part) for part in parts.values())
    columns = {
        f"{prefix}{name}": pa.concat_arrays([column.combine_chunks(), pa.nulls(count - len(part), column.type)])
        for prefix, part in parts.items()
        for name, column in zip(part.column_names, part.columns, strict=True)
    }
    rules = watch.rules
    header = {
        "format": _FORMAT,
        "settings": settings,
        "types": {name: str(type_) for name, type_ in {**pairs.types, **rules.types}.items()},
        "keys": sorted(rules.keys),
        "rules": _fingerprint(rules),
        "kept": kept,
        "rows": [len(part) for part in parts.values()],
        "key_kinds": pairs.sides.key_kinds,
    }
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(header)})
    with (
        replace_file(path) as draft,
        pa.OSFile(str(draft), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)


def read(path: Path, watch: Watch, pairs: Pairwise, settings: dict[str, Any]) -> Saved:
    """What a file has; refuses one of other rules or settings than a monitor has."""
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
    _compare_rules(path, header, watch.rules, pairs)
    objects, *counts = header.get("rows", [len(table), 0, 0])
    sides = []
    for name, count in zip(SIDES, counts, strict=True):
        chosen = [column for column in table.column_names if column.startswith(f"{name} ")]
        own = table.select(chosen).rename_columns([column[len(name) + 1 :] for column in chosen])
        sides.append(own.slice(0, count))
    return Saved(table.slice(0, objects), sides, header.get("key_kinds", [{}, {}]), header["kept"])


def _compare_rules(path: Path, header: dict[str, Any], rules: RulesInForce, pairs: Pairwise) -> None:
    for name, type_ in {**pairs.types, **rules.types}.items():
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


def _fingerprint(rules: RulesInForce) -> dict[str, Any]:
    """The number of rules in force, and a hash of their ids, versions and expiries."""
    ids, versions, expires = rules.in_force()
    order = np.argsort(ids)
    digest = blake2b(digest_size=16)
    for column in (ids, versions, expires):
        digest.update(np.ascontiguousarray(column[order], np.dtype("<i8")).tobytes())
    return {"count": len(ids), "hash": digest.hexdigest()}
