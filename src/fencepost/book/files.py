"""Files of rules for a book: JSON lines, CSV and Parquet, by their extension; read and written some rules at a time.

All have the fields that `Rules.add` takes, and `version`. In CSV an empty field is one that is left out, and labels
are a JSON object. A Parquet file may be one that `Rules.to_parquet` wrote, or any table with these columns.
"""

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.errors import FencepostError
from fencepost.rules import Rule, Rules, files
from fencepost.rules.checked import FIELDS
from fencepost.rules.rule import labels_of, labels_text

__all__ = ["RuleFile", "read_rules", "write_rules"]

F = TypeVar("F")

_ROWS_AT_ONCE = 10_000
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


class RuleFile(NamedTuple):
    """The rules of a file, not yet checked."""

    unit: str
    """What its places are: line or row."""
    about: int
    """How many rules there are, roughly."""
    rows: Iterator[tuple[int, Callable[[], Any]]]
    """The place of each rule, and what reads it as a mapping or refuses it."""


def read_rules(path: Path) -> RuleFile:
    """The rules of a file; what is wrong with the file as a whole is refused at once."""
    if not path.is_file():
        raise FencepostError(f"{path}, which is no file", "a file of rules", "Correct the path.")
    return _by_extension(path, {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet})(path)


def write_rules(path: Path, rules: Iterable[Rule]) -> None:
    """Writes a file of rules, which appears whole or not at all."""
    write = _by_extension(path, {".jsonl": _write_jsonl, ".csv": _write_csv, ".parquet": files.write_text_parquet})
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(draft, rules)
        draft.replace(path)
    except FileNotFoundError:
        raise FencepostError(f"{path} in no directory", "a directory that exists", "Make it first.") from None
    except OSError as error:
        raise FencepostError(
            f"{path}, which cannot be written ({error.strerror})", "a file that can", "Name another."
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _by_extension(path: Path, known: Mapping[str, F]) -> F:
    extension = {".json": ".jsonl", ".ndjson": ".jsonl"}.get(path.suffix.lower(), path.suffix.lower())
    if extension not in known:
        raise FencepostError(
            f"{path} with the extension {path.suffix!r}", f"one of {', '.join(known)}", "Rename the file."
        )
    return known[extension]


def _read_jsonl(path: Path) -> RuleFile:
    rows = ((number, partial(files.json_object, line)) for number, line in files.json_lines(path))
    return RuleFile("line", _line_count(path), rows)


def _line_count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) + 1


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

    def rows() -> Iterator[tuple[int, Callable[[], Any]]]:
        with file:
            try:
                for cells in reader:
                    if cells:
                        yield reader.line_num, partial(_csv_mapping, header, cells)
            except (UnicodeDecodeError, csv.Error) as error:
                raise _no_csv(path, error) from None

    return RuleFile("line", _line_count(path), rows())


def _no_csv(path: Path, error: Exception) -> FencepostError:
    return FencepostError(f"{path}, which is no CSV in UTF-8 ({error})", "rows of text", "Write the file again.")


def _csv_mapping(header: list[str], cells: list[str]) -> dict[str, Any]:
    if len(cells) != len(header):
        raise FencepostError(
            f"{len(cells)} fields", f"{len(header)}, as in the first line", "Quote fields with commas."
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
    if name in ("initial", "enabled"):
        if cell.lower() not in _FLAGS:
            raise FencepostError(f"{name} {cell!r}", "true or false", "Correct the field, or leave it empty.")
        return _FLAGS[cell.lower()]
    return cell


def _read_parquet(path: Path) -> RuleFile:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from None
    if files.has_tables(path, file.schema_arrow):
        file.close()
        texts = Rules.from_parquet(path).with_text()
        return RuleFile("row", 0, ((row, partial(_as_mapping, *pair)) for row, pair in enumerate(texts)))
    names = [name for name in file.schema_arrow.names if name != "table"]
    _check_columns(path, names)

    def rows() -> Iterator[tuple[int, Callable[[], Any]]]:
        number = 0
        with file:
            try:
                for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
                    for row in batch.to_pylist():
                        yield number, partial(_parquet_mapping, row)
                        number += 1
            except (
                pa.ArrowException,
                OSError,
                OverflowError,
                ValueError,
            ) as error:  # a damaged page, a time beyond 9999
                raise _no_parquet(path, error) from None

    return RuleFile("row", file.metadata.num_rows, rows())


def _no_parquet(path: Path, error: Exception) -> FencepostError:
    told = str(error).splitlines()[0]
    return FencepostError(f"{path}, which Parquet cannot read ({told})", "a Parquet file", "Write it again.")


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


def _as_mapping(rule: Rule, condition: str) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in FIELDS} | {"condition": condition}


def _check_columns(path: Path, names: list[str]) -> None:
    """A file with other columns is another kind of file: told once, not for every row."""
    unknown = [name for name in names if name not in FIELDS]
    missing = [name for name in ("id", "condition") if name not in names]
    if unknown or missing:
        got = f"the column {unknown[0]!r}" if unknown else f"no column {missing[0]}"
        raise FencepostError(f"{path} with {got}", f"the columns {', '.join(FIELDS)}", "Id and condition are needed.")


def _write_jsonl(path: Path, rules: Iterable[Rule]) -> None:
    files.write_jsonl(path, ((rule, str(rule.condition)) for rule in rules))


def _write_csv(path: Path, rules: Iterable[Rule]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows([_csv_text(getattr(rule, name)) for name in FIELDS] for rule in rules)


def _csv_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return labels_text(value)
    return value.isoformat() if isinstance(value, datetime) else value
