"""The columns that a source gives, known before Spark starts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from fencepost._files.native import open_native
from fencepost.errors import FencepostError
from fencepost.ordinals.spellings import TYPES, decimal_digits, spark_name
from fencepost.pipeline.file.decoding import decoding_faults, is_decoded, place_of_schema, read_decoded
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.file.faults import Fault, meant

KAFKA_SEQUENCE = ("kafka_partition", "kafka_offset")
"""The columns that order the rows of a topic."""

_GIVEN: Mapping[str, dict[str, str]] = {
    "kafka": {"kafka_partition": "int", "kafka_offset": "bigint", "kafka_timestamp": "timestamp"},
    "rate": {"timestamp": "timestamp", "value": "bigint"},
}
"""Columns beside those of the schema."""

_ALIASES = {"datetime": "timestamp", **dict.fromkeys(["decimal", "dec", "numeric"], "decimal(10,0)")}
"""What Spark takes these names for, and rules do not."""
_NESTED = re.compile(r"(array|map|struct)<.+>|(var)?char\(\d+\)")


class Columns(NamedTuple):
    """Columns by name."""

    read: dict[str, str]
    """As they are read."""
    types: dict[str, str | None]
    """With those that were added; a type is None where only Spark can infer it."""


def spark_type(text: str) -> str:
    """A type as Spark writes it.

    >>> spark_type("LONG"), spark_type("decimal(9, 2)")
    ('bigint', 'decimal(9,2)')
    """
    plain = re.sub(r"\s+", "", text.lower())
    if _NESTED.fullmatch(plain):
        return plain
    name = _ALIASES.get(plain) or spark_name(text) or ""
    precision, scale = decimal_digits(name) or (0, 0)
    if name in TYPES or (1 <= precision <= 38 and 0 <= scale <= precision):
        return name
    raise FencepostError(
        f"the type {text!r}", f"one of {', '.join(sorted(TYPES))} or decimal(p,s)", meant(plain, TYPES)
    )


def source_columns(file: PipelineFile, name: str, faults: list[Fault]) -> Columns | None:
    """The columns of a source; None where they cannot be known: only Spark can tell, or there are other faults."""
    source = file.sections[name]
    format_ = source["format"]
    if wrong := list(decoding_faults(file, name)):
        faults += wrong
        return None
    written = source.get("schema")
    if format_ == "parquet" and not written:
        written = _parquet_schema(file, name, faults)
    if written is None and format_ != "rate" and not is_decoded(source):
        return None
    read: dict[str, str] = {}
    types: dict[str, str | None] = {}
    if is_decoded(source):
        try:
            types = dict(read_decoded(file, name).columns)
        except FencepostError as error:
            faults.append(file.refusal(place_of_schema(file, name), error))
            return None
        read = {column: type_ or "" for column, type_ in types.items()}
        written = {}
    for column, text in (written or {}).items():
        try:
            types[column] = read[column] = spark_type(text)
        except FencepostError as error:
            types[column] = None
            faults.append(file.refusal(f"{name}.schema", _about(column, error)))
    faults += _find_doubled(file, name, types)
    for column, type_ in _GIVEN.get(format_, {}).items():
        if column in types:
            got = f"a column {column}"
            faults.append(
                file.fault(f"{name}.schema", got, f"that name to be free, since {format_} gives it", "Rename.")
            )
        types[column] = type_
    for column, expression in (source.get("columns") or {}).items():
        try:
            types[column] = _derived_type(expression, types)
        except FencepostError as error:
            types[column] = None
            faults.append(file.refusal(f"{name}.columns", _about(column, error)))
    return Columns(read, types)


def _about(column: str, error: FencepostError) -> FencepostError:
    return FencepostError(f"the column {column}: {error.got}", error.expected, error.remedy)


def _find_doubled(file: PipelineFile, name: str, types: Mapping[str, Any]) -> Iterator[Fault]:
    spelled: dict[str, str] = {}
    for column in types:
        if (other := spelled.setdefault(column.lower(), column)) != column:
            got = f"the columns {other} and {column}"
            yield file.fault(f"{name}.schema", got, "names that differ by more than case", "Rename one of the two.")


def _derived_type(expression: str, types: Mapping[str, str | None]) -> str | None:
    """The type of an expression where it is plain: a column or a cast."""
    try:
        parsed = sqlglot.parse_one(expression, read="spark")
    except sqlglot.errors.SqlglotError as error:
        raise FencepostError(
            f"{expression!r} does not parse ({str(error).splitlines()[0]})",
            "a Spark SQL expression",
            "Correct it.",
        ) from None
    known = {column.lower(): type_ for column, type_ in types.items()}
    for column in parsed.find_all(exp.Column):
        if column.name.lower() not in known and not column.table:
            raise FencepostError(
                f"{expression!r}, which needs {column.name}", "columns that the source gives", meant(column.name, types)
            )
    if isinstance(parsed, exp.Column):
        return known.get(parsed.name.lower())
    if isinstance(parsed, exp.Cast):
        try:
            return spark_type(parsed.to.sql("spark"))
        except FencepostError:
            return None
    return None


def is_pattern(path: Path) -> bool:
    """Whether a path stands for several."""
    return any(sign in str(path) for sign in "*?[{")


def files_of(path: Path) -> Iterator[Path]:
    """The data files at a path of a source; a pattern with braces is Spark's alone to read."""
    if is_pattern(path):
        if "{" in str(path):
            return
        anchor = next(parent for parent in path.parents if not is_pattern(parent))
        found = sorted(anchor.glob(str(path.relative_to(anchor))))
    else:
        found = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in found:
        if file.is_file() and not file.name.startswith((".", "_")):
            yield file


def _parquet_schema(file: PipelineFile, name: str, faults: list[Fault]) -> dict[str, str] | None:
    """What the first file at the path has."""
    if "path" not in file.sections[name]:
        return None
    path = file.resolved(file.sections[name]["path"])
    first = next(files_of(path), None)
    if first is None:
        if path.exists() or is_pattern(path):
            got = f"{path} without a file"
            faults.append(file.fault(f"{name}.schema", got, "a schema, or a file to take it from", "Add schema."))
        return None
    try:
        with open_native(first) as opened:
            schema = pq.read_schema(opened)
    except (pa.ArrowException, OSError) as error:
        faults.append(file.fault(f"{name}.path", f"{first} ({error})", "a Parquet file", "Check path and format."))
        return None
    return {field.name: _of_arrow(field.type) for field in schema}


def _of_arrow(type_: Any) -> str:
    """The type in which Spark reads a column of a Parquet file."""
    if pa.types.is_dictionary(type_):
        return _of_arrow(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"array<{_of_arrow(type_.value_type)}>"
    return "decimal(20,0)" if pa.types.is_uint64(type_) else spark_name(str(type_)) or str(type_)
