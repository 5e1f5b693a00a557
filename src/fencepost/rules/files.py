"""Rules in files: JSON lines for people and other programs, Parquet for many.

A JSON line has the arguments of `Rules.add`, those with their default left out, and the version beyond 1.

A Parquet file has a row per rule: id, version, detect, initial, enabled, expires, labels (JSON), condition, table.
Rules of the n-th table have no condition but the number n in `table`, and their keys and bounds in columns of
their own, in the types that the table had. The schema's metadata `fencepost.rules` tells which these are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.errors import FencepostError
from fencepost.rules.blocks import RuleFields, TableBlock
from fencepost.rules.compiling import text_fields
from fencepost.rules.rule import Rule
from fencepost.rules.tables import Constants, OptionColumns, TableShape
from fencepost.snapshot.columns import DETECTS, NEVER, detect_names

__all__ = [
    "NO_CONSTANTS",
    "OPTIONS",
    "StoredRules",
    "StoredTable",
    "has_tables",
    "json_lines",
    "json_object",
    "read_parquet",
    "write_jsonl",
    "write_parquet",
    "write_text_parquet",
]

_FORMAT = 1
_METADATA = b"fencepost.rules"
_INSTANT = pa.timestamp("us", tz="UTC")
_FIELDS = ("id", "version", "detect", "initial", "enabled", "expires", "labels", "condition", "table")
_LINES_AT_ONCE = 10_000
_ROWS_AT_ONCE = 100_000
_OWN = "a Parquet file that Rules.to_parquet wrote"

NO_CONSTANTS = Constants(DETECTS["inside"], False, None, NEVER, True)
OPTIONS = OptionColumns("detect", "initial", "labels", "expires", "enabled", "version")


def write_jsonl(path: str | PathLike[str], rules: Iterable[tuple[Rule, str]]) -> None:
    """Writes rules, each with its condition, as JSON lines."""
    lines: list[str] = []
    with Path(path).open("w", encoding="utf-8") as file:
        for rule, condition in rules:
            lines.append(_json_line(rule, condition))
            if len(lines) == _LINES_AT_ONCE:
                file.writelines(lines)
                lines.clear()
        file.writelines(lines)


def _json_line(rule: Rule, condition: str) -> str:
    fields: dict[str, Any] = {"id": rule.id, "condition": condition, "detect": rule.detect}
    if rule.initial:
        fields["initial"] = True
    if rule.labels:
        fields["labels"] = rule.labels
    if rule.expires:
        fields["expires"] = rule.expires.isoformat()
    if not rule.enabled:
        fields["enabled"] = False
    if rule.version > 1:
        fields["version"] = rule.version
    return json.dumps(fields, ensure_ascii=False) + "\n"


def json_lines(path: str | PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, numbered from 1."""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def json_object(line: bytes) -> Any:
    """The object of a line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        shown = line[:40].decode(errors="replace").strip()
        raise FencepostError(
            f"`{shown}`, which is no JSON ({error})", "one object", "Write one rule per line."
        ) from None


class StoredTable(NamedTuple):
    """The rules of one table, as from_table takes them."""

    table: Any
    shape: TableShape


class StoredRules(NamedTuple):
    """What a Parquet file holds."""

    row_count: int
    texts: Iterable[tuple[int, Mapping[str, Any]]]
    tables: Sequence[StoredTable]


def write_parquet(path: str | PathLike[str], blocks: Sequence[TableBlock], rules: Sequence[Rule]) -> None:
    """Writes rules of tables and rules written as text to one file."""
    parts: list[Any] = []
    described: list[dict[str, Any]] = []
    for block in blocks:
        if block.count:
            table, description = _block_table(block, len(described))
            parts.append(table)
            described.append(description)
    whole = pa.concat_tables([*parts, _text_table(rules)], promote_options="default")
    pq.write_table(whole.replace_schema_metadata(_metadata(described)), str(path))


def write_text_parquet(path: str | PathLike[str], rules: Iterable[Rule]) -> None:
    """Writes rules that all have a condition, some at a time, to a file as write_parquet writes it."""
    remaining = iter(rules)
    schema = _text_table([]).schema.with_metadata(_metadata([]))
    with pq.ParquetWriter(str(path), schema) as writer:
        while some := list(islice(remaining, _ROWS_AT_ONCE)):
            writer.write_table(_text_table(some).cast(schema))


def _text_table(rules: Sequence[Rule]) -> Any:
    columns = _field_columns(text_fields(rules))
    columns["condition"] = pa.array([rule.condition for rule in rules], pa.large_string())
    return pa.table(columns)


def _metadata(described: Sequence[Mapping[str, Any]]) -> dict[bytes, str]:
    return {_METADATA: json.dumps({"format": _FORMAT, "tables": described})}


def has_tables(path: str | PathLike[str], schema: Any) -> bool:
    """Whether a Parquet file has rules of tables, which have no condition of their own."""
    header = _header(path, schema)
    return header is not None and bool(header["tables"])


def _header(path: str | PathLike[str], schema: Any) -> Any:
    """What write_parquet says of a file; None if it did not write it."""
    metadata = (schema.metadata or {}).get(_METADATA)
    if metadata is None:
        return None
    header = json.loads(metadata)
    if header["format"] != _FORMAT:
        raise FencepostError(f"{path} in format {header['format']}", f"format {_FORMAT}", "Install a newer fencepost.")
    return header


def _block_table(block: TableBlock, number: int) -> tuple[Any, dict[str, Any]]:
    """The rules of a block as a table, and where its keys and bounds are."""
    columns = _field_columns(block.fields)
    columns["table"] = pa.array(np.full(len(block.fields.ids), number, np.int32))
    equal, ranges = {}, {}
    for key in block.keys:
        name = equal[key.column] = f"table{number}.{key.column}"
        columns[name] = key.values
    for range_ in block.ranges:
        names: list[str | None] = []
        for side, bounds in (("lower", range_.lower), ("upper", range_.upper)):
            names.append(None if bounds is None else f"table{number}.{range_.column}.{side}")
            if bounds is not None:
                columns[names[-1]] = bounds
        ranges[range_.column] = {"columns": names, "bounds": range_.bounds}
    table = pa.table(columns)
    if block.count < len(table):
        table = table.filter(pa.array(block.alive))
    return table, {"equal": equal, "ranges": ranges}


def _field_columns(fields: RuleFields) -> dict[Any, Any]:
    names = pa.array([detect_names(flags) for flags in range(16)])
    return {
        "id": pa.array(fields.ids),
        "version": pa.array(fields.versions),
        "detect": names.take(pa.array(fields.detects)),
        "initial": pa.array(fields.initial),
        "enabled": pa.array(fields.enabled),
        "expires": pa.array(fields.expires, mask=fields.expires == NEVER).view(_INSTANT),
        "labels": fields.labels,
        "condition": pa.nulls(len(fields.ids), pa.large_string()),
        "table": pa.nulls(len(fields.ids), pa.int32()),
    }


def read_parquet(path: str | PathLike[str]) -> StoredRules:
    """Reads what write_parquet wrote; refuses foreign, newer and damaged files."""
    try:
        table = pq.read_table(str(path))
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FencepostError(
            f"{path}, which Parquet cannot read ({str(error).splitlines()[0]})", _OWN, "Write it again."
        ) from None
    header = _header(path, table.schema)
    if header is None:
        raise FencepostError(
            f"{path} without rules of fencepost", _OWN, "Read it as a table, and use Rules.from_table."
        )
    missing = [name for name in _FIELDS if name not in table.column_names]
    if missing:
        raise FencepostError(f"{path} without the column {missing[0]}", _OWN, "Write it again.")
    tables = []
    for number, described in enumerate(header["tables"]):
        mine = table.filter(pc.fill_null(pc.equal(table["table"], number), False))
        ranges = described["ranges"]
        shape = TableShape(
            "id",
            described["equal"],
            {column: tuple(each["columns"]) for column, each in ranges.items()},
            {column: each["bounds"] for column, each in ranges.items()},
        )
        tables.append(StoredTable(mine, shape))
    return StoredRules(len(table), _text_rows(table), tables)


def _text_rows(table: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    is_text = pc.is_null(table["table"])
    rows = np.flatnonzero(np.asarray(is_text)).tolist()
    texts = table.select([name for name in _FIELDS if name != "table"]).filter(is_text)
    yield from zip(rows, texts.to_pylist(), strict=True)
