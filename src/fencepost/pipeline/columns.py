"""The columns that a source gives, known before Spark starts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from fencepost.errors import FencepostError
from fencepost.pipeline.faults import Fault, meant
from fencepost.pipeline.file import PipelineFile

__all__ = ["KAFKA_SEQUENCE", "ColumnType", "Columns", "files_of", "is_pattern", "source_columns", "spark_type"]

KAFKA_SEQUENCE = ("kafka_partition", "kafka_offset")
"""The columns that order the rows of a topic."""

_GIVEN: Mapping[str, dict[str, str]] = {
    "kafka": {"kafka_partition": "int", "kafka_offset": "bigint", "kafka_timestamp": "timestamp"},
    "rate": {"timestamp": "timestamp", "value": "bigint"},
}
"""Columns beside those of the schema."""

_ALIASES = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "int64": "bigint",
    "int32": "int",
    "real": "float",
    "float64": "double",
    "text": "string",
    "str": "string",
    "timestamp_ltz": "timestamp",
    "datetime": "timestamp",
    "decimal": "decimal(10,0)",
    "dec": "decimal(10,0)",
    "numeric": "decimal(10,0)",
}
_TYPES = {
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
    *("date", "timestamp", "timestamp_ntz", "string", "binary"),
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\((\d+)(?:,(\d+))?\)")
_NESTED = re.compile(r"(array|map|struct)<.+>|(var)?char\(\d+\)")


class ColumnType(NamedTuple):
    """A type as Spark calls it; the shape in which frames have it."""

    text: str

    def simpleString(self) -> str:  # noqa: N802 (Spark's name)
        """The text."""
        return self.text


class Field(NamedTuple):
    """A column as frames have it."""

    name: str
    dataType: ColumnType  # noqa: N815 (Spark's name)


class Columns(NamedTuple):
    """Columns by name."""

    read: dict[str, str]
    """As they are read."""
    types: dict[str, str | None]
    """With those that were added; a type is None where only Spark can tell it."""

    @property
    def fields(self) -> list[Field]:
        """Those whose type is known, as a Spark schema has them."""
        return [Field(name, ColumnType(type_)) for name, type_ in self.types.items() if type_ is not None]


def spark_type(text: str) -> str:
    """A type as Spark writes it.

    >>> spark_type("LONG"), spark_type("decimal(9, 2)")
    ('bigint', 'decimal(9,2)')
    """
    plain = re.sub(r"\s+", "", text.lower())
    plain = _ALIASES.get(plain, plain)
    decimal = _DECIMAL.fullmatch(plain)
    if decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2] or 0) <= int(decimal[1]):
        return f"decimal({decimal[1]},{decimal[2] or 0})"
    if plain in _TYPES or _NESTED.fullmatch(plain):
        return plain
    raise FencepostError(
        f"the type {text!r}",
        f"one of {', '.join(sorted(_TYPES))} or decimal(p,s)",
        meant(plain, _TYPES | set(_ALIASES)),
    )


def source_columns(file: PipelineFile, name: str, faults: list[Fault]) -> Columns | None:
    """The columns of a source; None where they cannot be known because of other faults.

    Args:
        file: the pipeline.
        name: of the section.
        faults: what is found wrong goes here.
    """
    source = file.sections[name]
    format_ = source["format"]
    written = source.get("schema")
    if format_ == "parquet" and not written:
        written = _parquet_schema(file, name, faults)
    if written is None and format_ != "rate":
        return None
    read: dict[str, str] = {}
    types: dict[str, str | None] = {}
    for column, text in (written or {}).items():
        try:
            types[column] = read[column] = spark_type(text)
        except FencepostError as error:
            types[column] = None
            faults.append(file.refusal(f"{name}.schema", _about(column, error)))
    faults += _doubled(file, name, types)
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


def _doubled(file: PipelineFile, name: str, types: Mapping[str, Any]) -> Iterator[Fault]:
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
            f"{expression!r}, which does not parse ({str(error).splitlines()[0]})",
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
        schema = pq.read_schema(first)
    except (pa.ArrowException, OSError) as error:
        faults.append(file.fault(f"{name}.path", f"{first} ({error})", "a Parquet file", "Check path and format."))
        return None
    found = {}
    for field in schema:
        found[field.name] = _of_arrow(field.type)
    return found


def _of_arrow(type_: Any) -> str:
    """The type in which Spark reads a column of a Parquet file."""
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp_ntz"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_dictionary(type_):
        return _of_arrow(type_.value_type)
    names = {"bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}
    names |= {"uint8": "smallint", "uint16": "int", "uint32": "bigint", "date32[day]": "date", "large_string": "string"}
    names |= {"large_binary": "binary", "halffloat": "float"}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"array<{_of_arrow(type_.value_type)}>"
    return names.get(str(type_), str(type_))
