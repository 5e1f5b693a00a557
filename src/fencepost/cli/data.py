"""Files of data: JSON lines, CSV and Parquet, read some rows at a time, and written likewise."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from fencepost._files.native import open_native
from fencepost._files.whole import replace_file
from fencepost.cli.output import as_json
from fencepost.errors import FencepostError
from fencepost.snapshot import Table

_BYTES_AT_ONCE = 16 << 20
_ROWS_AT_ONCE = 100_000
_ROWS_AS_OBJECTS = 10_000
_OFFSET = re.compile(r"[T ]\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$")
_EXTENSIONS = {".jsonl": "json", ".json": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}

Types = Mapping[str, pa.DataType]


class DataFile(NamedTuple):
    """A file, or a directory of files, of rows."""

    path: Path
    schema: pa.Schema
    """As the file has it, or as it looks in the first rows of a text."""
    is_text: bool
    """Whether columns have no types of their own."""
    bytes: int
    read: Callable[[Types], Iterator[tuple[pa.Table, int]]]
    """Opens the files; use `batches`, which also refuses faulty ones in plain words."""

    def find(self, name: str) -> str | None:
        """The file's own name of a column."""
        return Table(self.schema.empty_table()).find(name)

    def batches(self, types: Types) -> Iterator[tuple[pa.Table, int]]:
        """Some rows at a time, with how many bytes of the file are done.

        `types` are those of columns of a text, by the file's own names; one that does not fit is refused.
        """
        try:
            yield from self.read(types)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise _unreadable(self.path, error) from None


def open_data(path: Path) -> DataFile:
    """A file of rows by its extension, or a directory of such files as Spark writes them."""
    files = _files(path)
    format = _EXTENSIONS[files[0].suffix.lower()]
    read = {"json": _json, "csv": _csv, "parquet": _parquet}[format]

    def rows(types: Types) -> Iterator[tuple[pa.Table, int]]:
        done = 0
        for file in files:
            for table, here in read(file, types):
                yield table, done + here
            done += file.stat().st_size

    try:
        schema = _first_schema(files, format, rows)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise FencepostError(f"{path} with two columns named {twice[0]}", "every column once", "Rename one of the two.")
    return DataFile(path, schema, format != "parquet", sum(file.stat().st_size for file in files), rows)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise FencepostError(f"{path} does not exist", "a file of data", "Correct the path.")
    found = [path]
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and file.name[0] not in "._")
    found = [file for file in found if file.suffix.lower() in _EXTENSIONS and "_spark_metadata" not in file.parts]
    if not found or len({_EXTENSIONS[file.suffix.lower()] for file in found}) > 1:
        raise FencepostError(
            f"{path}, " + ("which has files of several kinds" if found else "which is no file of data"),
            "JSON lines, CSV or Parquet, as its extension says",
            "Name it *.jsonl, *.csv or *.parquet.",
        )
    return found


def _first_schema(files: list[Path], format: str, rows: Callable[[Types], Iterator[tuple[pa.Table, int]]]) -> pa.Schema:
    if format == "parquet":
        with open_native(files[0]) as source:
            return pq.read_schema(source)
    schema = pa.schema([])
    for table, _ in rows({}):
        schema = table.schema
        if table.num_rows:  # a file of a header alone has names, and no values to infer types from
            break
    return schema


def _parquet(file: Path, types: Types) -> Iterator[tuple[pa.Table, int]]:  # noqa: ARG001 (it has its own)
    with open_native(file) as source, pq.ParquetFile(source) as opened:
        size, rows, done = file.stat().st_size, max(1, opened.metadata.num_rows), 0
        for batch in opened.iter_batches(_ROWS_AT_ONCE):
            done += batch.num_rows
            yield pa.Table.from_batches([batch]), size * done // rows


def _csv(file: Path, types: Types) -> Iterator[tuple[pa.Table, int]]:
    reading = pc_csv.ReadOptions(block_size=_BYTES_AT_ONCE)
    # Arrow would also take NA, null and NaN in a column of strings for nulls: they are keys like any other.
    converting = pc_csv.ConvertOptions(column_types=dict(types), strings_can_be_null=False)
    size, done = file.stat().st_size, 0
    with open_native(file) as source, pc_csv.open_csv(source, reading, convert_options=converting) as reader:
        for batch in reader:
            done = min(size, done + batch.nbytes)
            yield _nullify_empty(pa.Table.from_batches([batch])), done
        if not done:
            yield reader.schema.empty_table(), done


def _nullify_empty(table: pa.Table) -> pa.Table:
    """A table whose empty texts are null, as in Spark."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            texts = table.column(place)
            filled = pc.if_else(pc.equal(texts, ""), pa.scalar(None, field.type), texts)
            table = table.set_column(place, field, filled)
    return table


def _json(file: Path, types: Types) -> Iterator[tuple[pa.Table, int]]:
    known, line = pa.schema(list(types.items())), 1
    with file.open("rb") as source:
        while lines := source.readlines(_BYTES_AT_ONCE):
            parsing = pa_json.ParseOptions(explicit_schema=known)
            try:
                table = pa_json.read_json(
                    pa.py_buffer(b"".join(lines)), pa_json.ReadOptions(block_size=2**31 - 1), parsing
                )
            except pa.ArrowInvalid as error:
                _refuse_bad_line(file, lines, line)
                if "Empty" in str(error):
                    continue
                raise
            # The types of the first rows hold for the rest, so that every batch has the same types.
            table = _with_zones(table, lines, known)
            known = pa.schema({field.name: field for field in (*known, *table.schema)}.values())
            yield table, source.tell()
            line += len(lines)


def _with_zones(table: pa.Table, lines: list[bytes], known: pa.Schema) -> pa.Table:
    """The table with instants where timestamps are written with a zone or an offset, which Arrow drops."""
    for place, field in enumerate(table.schema):
        if field.name in known.names or not pa.types.is_timestamp(field.type):
            continue
        texts = (json.loads(line).get(field.name) for line in lines if line.strip())
        if _OFFSET.search(next((text for text in texts if text is not None), "")):
            instants = table.column(place).cast(pa.timestamp(field.type.unit, "UTC"))
            table = table.set_column(place, field.name, instants)
    return table


def _refuse_bad_line(file: Path, lines: list[bytes], first: int) -> None:
    for number, line in enumerate(lines, start=first):
        try:
            if line.strip() and not isinstance(json.loads(line), dict):
                raise ValueError("no object")
        except ValueError as error:
            shown = line[:40].decode(errors="replace").strip()
            raise FencepostError(
                f"line {number} of {file}, `{shown}` ({error})", "one JSON object per line", "Correct the line."
            ) from None


def _unreadable(path: Path, error: Exception) -> FencepostError:
    return FencepostError(
        f"{path} cannot be read as its extension says ({str(error).splitlines()[0]})",
        "rows of one kind from the first to the last",
        "Correct the file, rename it, or name the type of the column with --type COLUMN=TYPE.",
    )


class RowWriter:
    """Where rows go: a file by its extension, which appears whole, or JSON lines on standard output."""

    def __init__(self, path: Path | None) -> None:
        self._file: Any = sys.stdout
        self._writer: Any = None
        self._schema: Any = None
        self._kind = "json" if path is None else _EXTENSIONS.get(path.suffix.lower())
        with ExitStack() as opened:
            if path is None:
                opened.callback(sys.stdout.flush)
            elif self._kind is None:
                raise FencepostError(
                    f"{path} with the extension {path.suffix!r}", f"one of {', '.join(_EXTENSIONS)}", "Rename the file."
                )
            else:
                self._file = opened.enter_context(replace_file(path, durable=False))
                if self._kind != "parquet":
                    self._file = opened.enter_context(self._file.open("w", encoding="utf-8", newline=""))
            self._opened = opened.pop_all()

    def write(self, table: pa.Table) -> None:
        """Write some rows."""
        if self._kind == "json":
            self._file.writelines(as_json(row) + "\n" for row in _each_row(table))
            return
        if self._schema is None:
            self._begin(table.schema)
        if table.schema.names != self._schema.names:
            new = [name for name in table.schema.names if name not in self._schema.names]
            raise FencepostError(
                f"rows with the new column {', '.join(new) or 'order'} after the first",
                "the same columns in all rows",
                "Write JSON lines, which may differ.",
            )
        if self._kind == "parquet":
            self._writer.write_table(table.cast(self._schema))
        else:
            self._writer.writerows([_cell(value) for value in row.values()] for row in _each_row(table))

    def _begin(self, schema: pa.Schema) -> None:
        self._schema = schema
        if self._kind == "parquet":
            file = self._opened.enter_context(open_native(self._file, "wb"))
            self._writer = self._opened.enter_context(pq.ParquetWriter(file, schema))
        else:
            self._writer = csv.writer(self._file)
            self._writer.writerow(schema.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        if kind is None and self._schema is None and self._kind == "parquet":
            self._begin(pa.schema([]))
        self._opened.__exit__(kind, error, place)


def _each_row(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows, of which few are objects of Python at a time: these take many times the memory of the table."""
    for batch in table.to_batches(_ROWS_AS_OBJECTS):
        yield from batch.to_pylist()


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value
