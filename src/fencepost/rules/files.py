"""Rules in files: JSON lines for people and other programs, CSV for spreadsheets, Parquet for many.

All have the fields that `Rules.add` takes, `for_` spelled `for`, and `version`. A JSON line leaves out those with their
default, and the version 1. In CSV an empty field is one that is left out, and labels and margin are JSON objects.

A Parquet file has a row per rule: id, version, detect, initial, enabled, expires, labels (JSON), name, for,
keep_firing_for, stay, margin (JSON), cooldown, limit, every, condition and table. Rules of the n-th table have no
condition but the number n in `table`, and their keys and bounds in columns of their own, in the types that the table
had. The schema's metadata `fencepost.rules` lists them. A file that others wrote may have any of the fields as columns.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._files.native import open_native
from fencepost._files.whole import replace_file
from fencepost.errors import FencepostError
from fencepost.rules import damping
from fencepost.rules.compile import text_fields
from fencepost.rules.options import FIELDS, OPTION_NAMES, OptionColumns, Options, fields_of, options_of
from fencepost.rules.rule import Rule, labels_of, labels_text
from fencepost.rules.table_blocks import RuleFields, TableBlock
from fencepost.rules.table_rules import TableShape
from fencepost.snapshot.columns import DETECTS, NEVER, detect_names

F = TypeVar("F")

_FORMAT = 1
_METADATA = b"fencepost.rules"
_INSTANT = pa.timestamp("us", tz="UTC")
_LINES_AT_ONCE = 10_000
_ROWS_AT_ONCE = 100_000
_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_LATER = ("name", *damping.FIELDS)
"""Columns that files from before do not have."""
_OWN = "a Parquet file that Rules.to_parquet wrote"

OPTION_COLUMNS = OptionColumns({**dict(zip(Options._fields, OPTION_NAMES, strict=True)), "version": "version"})
"""Where the options of a table's rules are, in a file."""

Texts = Iterable[tuple[Rule, str]]
"""Rules, each with its condition."""
Rows = Iterator[tuple[int, Callable[[], Any]]]
"""The place of each rule, and what reads it as a mapping or refuses it."""


class RuleFile(NamedTuple):
    """The rules of a file, not yet checked."""

    unit: str
    """What its places are: line or row."""
    about: int
    """How many rules there are, roughly."""
    rows: Rows


def read_rules(path: Path) -> RuleFile:
    """The rules of a file by its extension; what is wrong with the file as a whole is refused at once."""
    if not path.is_file():
        raise FencepostError(f"{path} is no file", "a file of rules", "Correct the path.")
    return _by_extension(path, {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet})(path)


def write_rules(path: Path, texts: Texts) -> None:
    """Write a file of rules by its extension."""
    write = _by_extension(path, {".jsonl": write_jsonl, ".csv": _write_csv, ".parquet": _write_text_parquet})
    try:
        write(path, texts)
    except FileNotFoundError:
        raise FencepostError(f"the directory of {path} does not exist", "one that does", "Make it first.") from None
    except OSError as error:
        raise FencepostError(
            f"{path} cannot be written ({error.strerror})", "a file that can", "Name another."
        ) from None


def _by_extension(path: Path, known: Mapping[str, F]) -> F:
    extension = {".json": ".jsonl", ".ndjson": ".jsonl"}.get(path.suffix.lower(), path.suffix.lower())
    if extension not in known:
        raise FencepostError(
            f"{path} has the extension {path.suffix!r}", f"one of {', '.join(known)}", "Rename the file."
        )
    return known[extension]


# -- JSON lines --------------------------------------------------------------------------------------------


def write_jsonl(path: str | PathLike[str], texts: Texts) -> None:
    """Write rules as JSON lines, some at a time."""
    lines = (_json_line(rule, condition) for rule, condition in texts)
    with replace_file(Path(path)) as draft, draft.open("w", encoding="utf-8") as file:
        while some := list(islice(lines, _LINES_AT_ONCE)):
            file.writelines(some)


def _json_line(rule: Rule, condition: str) -> str:
    fields: dict[str, Any] = {"id": rule.id, "condition": condition, "detect": rule.detect}
    for name, value, default in zip(OPTION_NAMES, options_of(rule), Options(), strict=True):
        if value != default:
            fields[name] = value
    if rule.version > 1:
        fields["version"] = rule.version
    return json.dumps(fields, ensure_ascii=False, default=datetime.isoformat) + "\n"


def json_lines(path: str | PathLike[str]) -> Rows:
    """The lines that are not empty, numbered from 1."""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, partial(_json_object, line)


def _json_object(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        shown = line[:40].decode(errors="replace").strip()
        raise FencepostError(f"`{shown}` is no JSON ({error})", "one object", "Write one rule per line.") from None


def _read_jsonl(path: Path) -> RuleFile:
    return RuleFile("line", _line_count(path), json_lines(path))


def _line_count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) + 1


# -- CSV ---------------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> RuleFile:
    file = path.open(encoding="utf-8-sig", newline="")
    reader = csv.reader(file, strict=True)
    try:
        header = next(reader, [])
        _check_columns(path, header)
    except BaseException as error:
        file.close()
        if isinstance(error, (UnicodeDecodeError, csv.Error)):
            raise _no_csv(path, error) from None
        raise

    def rows() -> Rows:
        with file:
            try:
                for cells in reader:
                    if cells:
                        yield reader.line_num, partial(_csv_mapping, header, cells)
            except (UnicodeDecodeError, csv.Error) as error:
                raise _no_csv(path, error) from None

    return RuleFile("line", _line_count(path), rows())


def _no_csv(path: Path, error: Exception) -> FencepostError:
    return FencepostError(f"{path} is no CSV in UTF-8 ({error})", "rows of text", "Write the file again.")


def _csv_mapping(header: list[str], cells: list[str]) -> dict[str, Any]:
    if len(cells) != len(header):
        raise FencepostError(
            f"the line has {len(cells)} fields", f"{len(header)}, as in the first line", "Quote fields with commas."
        )
    return {name: _csv_value(name, cell) for name, cell in zip(header, cells, strict=True)}


def _csv_value(name: str, cell: str) -> Any:
    if cell == "":
        return None
    if name == "labels":
        return labels_of(cell)
    if name in ("id", "version"):
        try:
            return int(cell)
        except ValueError:
            raise FencepostError(f"{name} {cell!r}", "a whole number", "Number the rules.") from None
    if isinstance(getattr(Options(), name, None), bool):
        if cell.lower() not in _FLAGS:
            raise FencepostError(f"{name} {cell!r}", "true or false", "Correct the field, or leave it empty.")
        return _FLAGS[cell.lower()]
    return cell


def _write_csv(path: Path, texts: Texts) -> None:
    with replace_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for rule, condition in texts:
            writer.writerow(map(_csv_text, {**fields_of(rule), "condition": condition}.values()))


def _csv_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return labels_text(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _check_columns(path: Path, names: list[str]) -> None:
    """A file with other columns is another kind of file: refused once, not for every row."""
    unknown = [name for name in names if name not in FIELDS]
    missing = [name for name in ("id", "condition") if name not in names]
    if unknown or missing:
        got = f"the unknown column {unknown[0]!r}" if unknown else f"no column {missing[0]}"
        raise FencepostError(f"{path} has {got}", f"the columns {', '.join(FIELDS)}", "Id and condition are needed.")


# -- Parquet -----------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> RuleFile:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(open_native(path))
        schema = file.schema_arrow
        names = [name for name in schema.names if name != "table"]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _no_parquet(path, error) from None
    if (_header(path, schema) or {}).get("tables"):  # which have no conditions of their own
        from fencepost.rules.rules import Rules  # it reads them, by this module

        file.close()
        texts = Rules.from_parquet(path).with_text()
        mappings = ({**fields_of(rule), "condition": condition} for rule, condition in texts)
        return RuleFile("row", 0, ((row, partial(dict, mapping)) for row, mapping in enumerate(mappings)))
    _check_columns(path, names)

    def rows() -> Rows:
        number = 0
        with file:
            try:
                for batch in file.iter_batches(_LINES_AT_ONCE, columns=names):
                    for row in batch.to_pylist():
                        yield number, partial(_parquet_mapping, row)
                        number += 1
            # A damaged page, or a time beyond the year 9999.
            except (pa.ArrowException, OSError, OverflowError, ValueError) as error:
                raise _no_parquet(path, error) from None

    return RuleFile("row", file.metadata.num_rows, rows())


def _no_parquet(path: str | PathLike[str], error: Exception, expected: str = "a Parquet file") -> FencepostError:
    reason = str(error).splitlines()[0]
    return FencepostError(f"{path} cannot be read as Parquet ({reason})", expected, "Write it again.")


def _parquet_mapping(row: dict[str, Any]) -> dict[str, Any]:
    labels = row.get("labels")
    if isinstance(labels, str):
        labels = labels_of(labels)
    elif labels is not None:  # a map comes as pairs, a struct with every name there is
        try:
            labels = {name: text for name, text in dict(labels).items() if text is not None}
        except (TypeError, ValueError):
            return row  # neither: refused with its row, like other labels that are none
    return row if "labels" not in row else {**row, "labels": labels}


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
    """Write rules of tables and rules written as text to one file."""
    import pyarrow.parquet as pq

    whole = _whole_table(blocks, rules)
    with replace_file(Path(path)) as draft, open_native(draft, "wb") as file:
        pq.write_table(whole, file)


def to_bytes(blocks: Sequence[TableBlock], rules: Sequence[Rule]) -> bytes:
    """What `write_parquet` would write."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(_whole_table(blocks, rules), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _whole_table(blocks: Sequence[TableBlock], rules: Sequence[Rule]) -> Any:
    parts: list[Any] = []
    described: list[dict[str, Any]] = []
    for block in blocks:
        if block.count:
            table, description = _block_table(block, len(described))
            parts.append(table)
            described.append(description)
    texts = [(rule, str(rule.condition)) for rule in rules]
    whole = pa.concat_tables([*parts, _text_table(texts)], promote_options="default")
    return whole.replace_schema_metadata(_metadata(described))


def _write_text_parquet(path: Path, texts: Texts) -> None:
    """Write rules that all have a condition, some at a time, to a file as write_parquet writes it."""
    import pyarrow.parquet as pq

    remaining = iter(texts)
    schema = _text_table([]).schema.with_metadata(_metadata([]))
    with (
        replace_file(path) as draft,
        open_native(draft, "wb") as file,
        pq.ParquetWriter(file, schema) as writer,
    ):
        while some := list(islice(remaining, _ROWS_AT_ONCE)):
            writer.write_table(_text_table(some).cast(schema))


def _text_table(texts: Sequence[tuple[Rule, str]]) -> Any:
    columns = _field_columns(text_fields([rule for rule, _ in texts]))
    columns["condition"] = pa.array([condition for _, condition in texts], pa.large_string())
    return pa.table(columns)


def _metadata(described: Sequence[Mapping[str, Any]]) -> dict[bytes, str]:
    return {_METADATA: json.dumps({"format": _FORMAT, "tables": described})}


def _header(path: str | PathLike[str], schema: Any) -> Any:
    """What write_parquet says of a file; None if it did not write it."""
    metadata = (schema.metadata or {}).get(_METADATA)
    if metadata is None:
        return None
    header = json.loads(metadata)
    if header["format"] != _FORMAT:
        raise FencepostError(f"{path} has format {header['format']}", f"format {_FORMAT}", "Install a newer fencepost.")
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
    names = pa.array([detect_names(flags) for flags in range(2 * max(DETECTS.values()))])
    return {
        "id": pa.array(fields.ids),
        "version": pa.array(fields.versions),
        "detect": names.take(pa.array(fields.detects)),
        "initial": pa.array(fields.initial),
        "enabled": pa.array(fields.enabled),
        "expires": pa.array(fields.expires, mask=fields.expires == NEVER).view(_INSTANT),
        "labels": fields.labels,
        "name": fields.names,
        **_damping_columns(fields.damping),
        "condition": pa.nulls(len(fields.ids), pa.large_string()),
        "table": pa.nulls(len(fields.ids), pa.int32()),
    }


def _damping_columns(texts: Any) -> dict[str, Any]:
    """A column for each option of damping: texts, and numbers for `limit`."""
    encoded = texts.dictionary_encode()
    distinct = [damping.damping_of(text).as_fields() for text in encoded.dictionary.to_pylist()]
    columns = {}
    for name in damping.FIELDS:
        values = [each.get(name) for each in distinct]
        if name == "limit":
            column = pa.array(values, pa.int64())
        else:
            column = pa.array([None if value is None else _option_text(value) for value in values], pa.large_string())
        columns[name] = column.take(encoded.indices)
    return columns


def _option_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def read_parquet(path: str | PathLike[str], data: bytes | None = None) -> StoredRules:
    """Reads what write_parquet wrote, or `to_bytes` gave; refuses foreign, newer and damaged files."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(open_native(path) if data is None else pa.BufferReader(data))
        table.schema.names  # noqa: B018 (a damaged name shows only when it is read)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise _no_parquet(path, error, _OWN) from None
    header = _header(path, table.schema)
    if header is None:
        raise FencepostError(f"{path} has no rules of fencepost", _OWN, "Read it as a table, and use Rules.from_table.")
    for name in _LATER:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), pa.large_string()))
    missing = [name for name in (*FIELDS, "table") if name not in table.column_names]
    if missing:
        raise FencepostError(f"{path} has no column {missing[0]}", _OWN, "Write it again.")
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
    texts = table.select(FIELDS).filter(is_text)
    yield from zip(rows, texts.to_pylist(), strict=True)
