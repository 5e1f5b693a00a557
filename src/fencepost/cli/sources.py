"""Where tables of rules come from: files, Delta and Iceberg tables, and queries of a database."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost._files.native import open_native
from fencepost.cli.data import open_data
from fencepost.errors import FencepostError

_DELTA, _ICEBERG = "delta:", "iceberg:"
_ROWS_AT_ONCE = 10_000


class Wanted(NamedTuple):
    """What is needed of a table."""

    columns: Sequence[str]
    texts: Sequence[str]
    """Those that are texts, also where they look like numbers in a CSV."""
    types: Mapping[str, Any]
    """Types that the user named, for columns of a text."""


def origin_of(source: str, query: str | None) -> str:
    """The name of a source, without any password; the rules that are made from it are known by this."""
    if query is not None:
        raise FencepostError(
            "--query without --origin", "a name for the rules of this query", "Write for example --origin alerts."
        )
    if source.startswith(_ICEBERG) or "://" in source:
        return re.sub(r"//[^/@]*@", "//", source)
    return str(Path(source.removeprefix(_DELTA)).resolve())


def read_source(source: str, query: str | None, wanted: Wanted) -> Any:
    """The rows of a source as one table; columns that nobody asked for may be missing."""
    if query is not None:
        return _read_query(source, query)
    if source.startswith(_ICEBERG):
        return _read_iceberg(source, wanted.columns)
    if source.startswith(_DELTA) or (Path(source) / "_delta_log").is_dir():
        return _read_delta(source.removeprefix(_DELTA), wanted.columns)
    return _read_files(Path(source), wanted)


def _read_files(path: Path, wanted: Wanted) -> Any:
    data = open_data(path)
    if not data.is_text and path.is_file():
        try:
            with open_native(path) as file:
                return pq.read_table(file, columns=_known(data.schema.names, wanted.columns))
        except pa.ArrowException as error:
            raise FencepostError(f"{path} ({error})", "a Parquet file", "Write it again.") from None
    types = dict(wanted.types)
    if data.is_text:
        is_csv = path.suffix.lower() == ".csv" or path.is_dir()
        looks = {field.name: field.type for field in data.schema}
        for name in wanted.texts:
            if name in looks and name not in types and (is_csv or pa.types.is_null(looks[name])):
                types[name] = pa.string()
    tables = [table for table, _ in data.batches(types)]
    return pa.concat_tables(tables, promote_options="default") if tables else data.schema.empty_table()


def _known(names: Iterable[str], columns: Sequence[str]) -> list[str]:
    """The columns that are there; those that are not are refused later, with what there is."""
    there = list(names)
    return [name for name in there if name in columns] if set(columns) <= set(there) else there


def _read_delta(path: str, columns: Sequence[str]) -> Any:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise _missing("delta", "deltalake") from None
    try:
        table = DeltaTable(path)
        dataset = table.to_pyarrow_dataset()
        return dataset.to_table(columns=_known(dataset.schema.names, columns))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise _unreadable(path, error, "a Delta table") from None


def _read_iceberg(source: str, columns: Sequence[str]) -> Any:
    """`iceberg:CATALOG/NAMESPACE.TABLE`; pyiceberg's own settings say where the catalog is."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError
    except ImportError:
        raise _missing("iceberg", "pyiceberg") from None
    catalog, slash, name = source.removeprefix(_ICEBERG).strip("/").partition("/")
    if not slash or "." not in name:
        raise FencepostError(
            f"{source} names no Iceberg table", "iceberg:CATALOG/NAMESPACE.TABLE", "Write iceberg:prod/desk.alerts."
        )
    try:
        table = load_catalog(catalog).load_table(name)
        names = [field.name for field in table.schema().fields]
        return table.scan(selected_fields=tuple(_known(names, columns))).to_arrow()
    except (NoSuchTableError, OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(source, error, "an Iceberg table") from None


def _read_query(url: str, query: str) -> Any:
    from sqlalchemy import create_engine, make_url, text
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgres", "postgresql"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        name = parsed.render_as_string(hide_password=True)
        engine = create_engine(parsed)
    except (ArgumentError, ValueError):
        raise FencepostError(
            "--query beside a source that is no address of a database", "a URL as SQLAlchemy takes it", "Correct it."
        ) from None
    except (ImportError, SQLAlchemyError) as error:
        raise _unreadable(name, error, "a database whose driver is installed") from None
    # A colon before a word would be a parameter.
    escaped = re.sub(r"(?<![:\w\\]):(?=\w)", r"\\:", query)
    try:
        with engine.connect() as connection:
            answer = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(text(escaped))
            names = list(answer.keys())
            columns: list[list[Any]] = [[] for _ in names]
            for rows in answer.partitions():
                for column, values in zip(columns, zip(*rows, strict=True), strict=True):
                    column.extend(values)
        return pa.table({each: _as_arrow(each, values) for each, values in zip(names, columns, strict=True)})
    except SQLAlchemyError as error:
        raise _unreadable(name, getattr(error, "orig", None) or error, "a query that it answers") from None
    finally:
        engine.dispose()


def _as_arrow(name: str, values: list[Any]) -> Any:
    """A column of a query; UUIDs and the like are texts."""
    if any(type(value).__name__ == "UUID" for value in values[:_ROWS_AT_ONCE]):
        values = [None if value is None else str(value) for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise FencepostError(f"column {name} has values of several types ({reason})", "one", "Cast it.") from None


def _missing(extra: str, package: str) -> FencepostError:
    return FencepostError(
        f"the package {package} is not installed", "it to be there", f"Install it: pip install 'fencepost[{extra}]'."
    )


def _unreadable(name: str, error: object, expected: str) -> FencepostError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return FencepostError(f"{name} cannot be read ({reason})", expected, "Correct what it names, and try again.")
