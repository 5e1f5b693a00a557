"""The last rows that a pipeline has read, read once more: for whoever asks now and then, at no cost to the stream.

The checkpoint says which files the finished micro-batches had. They are read as the stream reads them, so columns,
types and faults are the same.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import SparkSession

from fencepost.errors import FencepostError
from fencepost.pipeline.file.columns import source_columns
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.formats import SPARK_ERRORS, first_line
from fencepost.pipeline.runtime.operators import required_columns, sequence_of
from fencepost.pipeline.runtime.sources import source_frames
from fencepost.spark.plan.columns import quoted

_FORMATS = ("json", "csv", "parquet")
_FILES, _BYTES = 200, 64 << 20
"""Of files that are read again: whichever comes first, and one file at least."""
_LARGEST = 256 << 20
"""Bytes of a file that is too large to be read again while somebody waits."""
_GLOB = re.compile(r"([*?\[\]{}\\])")


def why_none(file: PipelineFile) -> str:
    """Why the rows of a pipeline cannot be read again, as a sentence; empty where they can."""
    kind, sources = file.section("operator")["kind"], list(file.sources.values())
    if kind != "watch":
        return f"this pipeline does not watch objects ({kind})."
    if sources[0]["format"] not in _FORMATS:
        return (
            f"rows of {sources[0]['format']} are not read a second time; only those of files in JSON, CSV or Parquet "
            "are. fencepost backtest FILE does the same on a file."
        )
    return ""


def read_last_rows(file: PipelineFile, most: int) -> pa.Table:
    """The last rows of finished micro-batches, in the order of time.

    Args:
        file: of a pipeline that runs in this process.
        most: how many rows.
    """
    try:
        spark = SparkSession.active()
    except SPARK_ERRORS:
        raise FencepostError("Spark, which has not started yet", "a pipeline that runs", "Try again soon.") from None
    assert file.checkpoint is not None, "whoever runs a pipeline gives it one"
    paths = list(_last_files(file.resolved(file.checkpoint), _folder(file)))
    if not paths:
        raise FencepostError("no rows", "rows that the pipeline has read", "Try again when rows have come.")
    columns = source_columns(file, "source", [])
    time = file.section("operator").get("time")
    again: Any = _Again(_Reader(spark.read, paths))
    try:
        schema = {} if columns is None else columns.read
        rows = source_frames(again, file, "source", schema, required_columns(file)).rows
        order = [each for each in (time, *(sequence_of(file) or ())) if each is not None]
        if order:
            rows = rows.orderBy(*(quoted(name).desc() for name in order))
        table: pa.Table = rows.limit(most).toArrow()
    except SPARK_ERRORS as error:
        raise FencepostError(
            f"the last files of the source, which Spark does not read again ({first_line(error)})",
            "files that are still there",
            "Try again when new rows have come.",
        ) from None
    return table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64())) if order else table


def _folder(file: PipelineFile) -> str:
    """The directory of the source, as far as no pattern begins."""
    located = str(file.located(file.section("source")["path"]))
    return _GLOB.split(unquote(urlsplit(located).path) if "://" in located else located)[0]


def _last_files(checkpoint: Path, folder: str) -> Iterator[str]:
    """The newest files that finished micro-batches have read, the last first."""
    done = max((int(note.name) for note in (checkpoint / "commits").glob("[0-9]*")), default=-1)
    count, size = 0, 0
    for entry in _entries(checkpoint, done):
        url = urlsplit(entry["path"])
        path = unquote(url.path)
        if not path.startswith(folder):
            continue  # of another source: the times that the pipeline announces to itself
        if url.scheme in ("", "file"):
            try:
                own = Path(path).stat().st_size
            except OSError:
                continue  # it was archived or deleted
            if own > _LARGEST:
                if count:
                    return
                raise FencepostError(
                    f"{path}, which has {own / 1e6:,.0f} MB",
                    f"files of at most {_LARGEST / 1e6:,.0f} MB, which can be read again while you wait",
                    "Use fencepost backtest on the file.",
                )
            size += own
            place = path
        else:
            place = unquote(entry["path"])
        if count and (count >= _FILES or size > _BYTES):
            return
        count += 1
        yield _GLOB.sub(r"\\\1", place)


def _entries(checkpoint: Path, done: int) -> list[Mapping[str, Any]]:
    """What Spark noted of the files of micro-batches up to one, the last first."""
    found: dict[str, Mapping[str, Any]] = {}
    for note in (checkpoint / "sources").glob("*/[0-9]*"):
        if note.name.endswith((".tmp", ".crc")):
            continue
        try:
            lines = note.read_text().splitlines()[1:]
        except FileNotFoundError:
            continue  # Spark has put it together with others
        for line in lines:
            entry = json.loads(line)
            if isinstance(entry, dict) and "path" in entry and entry.get("batchId", 0) <= done:
                found[entry["path"]] = entry
    return sorted(found.values(), key=lambda entry: (entry.get("batchId", 0), entry["timestamp"]), reverse=True)


class _Again:
    """In place of a session, for whoever opens a stream with it: reads some files once."""

    def __init__(self, reader: "_Reader") -> None:
        self.readStream = reader  # as Spark calls it


class _Reader:
    """A reader of some files, whatever path it is told."""

    def __init__(self, reader: Any, paths: list[str]) -> None:
        self._reader, self._paths = reader, paths

    def schema(self, schema: str) -> "_Reader":
        """As Spark's."""
        return _Reader(self._reader.schema(schema), self._paths)

    def options(self, **options: str) -> "_Reader":
        """As Spark's."""
        return _Reader(self._reader.options(**options), self._paths)

    def text(self, _: str) -> Any:
        """As Spark's."""
        return self._reader.text(self._paths)

    def csv(self, _: str) -> Any:
        """As Spark's."""
        return self._reader.csv(self._paths)

    def parquet(self, _: str) -> Any:
        """As Spark's."""
        return self._reader.parquet(*self._paths)
