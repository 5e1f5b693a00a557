"""Sources and sinks of any format: opened as Spark does, and refused at their place in the file where Spark cannot."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.file.faults import Fault, PipelineFaultsError
from fencepost.pipeline.file.formats import package_of

SPARK_ERRORS = (PySparkException, Py4JError)
"""Everything that Spark raises when it refuses something."""

_UNKNOWN = re.compile(r"DATA_SOURCE_NOT_(FOUND|ENABLED)|Failed to find (the )?data source")
_NO_STREAM = re.compile(
    r"does not support streamed (reading|writing)|does not support (micro-batch|streaming)|"
    r"[sS]tream(ing)? ?(Reader|Writer|reader|writer|read|write)\b.* not (implemented|supported)"
)
_NO_SCHEMA = re.compile(r"Schema must be specified|UNABLE_TO_INFER_SCHEMA|does not support user[- ]specified schema")
_NO_PLACE = re.compile(
    r"PATH_NOT_FOUND|TABLE_OR_VIEW_NOT_FOUND|DELTA_(TABLE_NOT_FOUND|PATH_DOES_NOT_EXIST|SCHEMA_NOT_SET)"
)
_OTHER_SPARK = re.compile(r"IncompatibleClassChangeError|NoSuchMethodError|NoClassDefFoundError|AbstractMethodError")
_NO_TABLE = re.compile(r"does not exist|doesn't exist|not found|no such table|invalid object name", re.IGNORECASE)


def plain_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark takes them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def options_of(file: PipelineFile, section: Mapping[str, Any]) -> dict[str, str]:
    """The options of a source or a sink, with its path."""
    options = plain_options(section.get("options") or {})
    if section.get("path"):
        options["path"] = file.located(section["path"])
    if _is_database(section) and section.get("table"):
        options["dbtable"] = section["table"]
    return options


def _catalog_table(section: Mapping[str, Any]) -> str | None:
    """The table of Spark's catalogs that a source or a sink is; a database has its own."""
    return None if _is_database(section) else section.get("table")


def _is_database(section: Mapping[str, Any]) -> bool:
    return bool(section["format"].lower() == "jdbc")


def open_stream(spark: Any, file: PipelineFile, source: Mapping[str, Any], ddl: str, **more: str) -> Any:
    """The rows of a source of any format."""
    reader = spark.readStream.format(source["format"]).options(**options_of(file, source), **more)
    reader = reader.schema(ddl) if ddl else reader
    table = _catalog_table(source)
    return reader.table(table) if table else reader.load()


def refuse(file: PipelineFile, name: str, error: Exception) -> PipelineFaultsError:
    """What Spark refused of a source or a sink, as a fault of the file."""
    return PipelineFaultsError(file.path.name, [_fault_of(file, name, error)])


def _fault_of(file: PipelineFile, name: str, error: Exception) -> Fault:
    format_, text = file.section(name)["format"], str(error)
    reason = first_line(error)
    if _UNKNOWN.search(text):
        package = package_of(format_)
        remedy = (
            f'Add packages = ["{package}"] to [session].'
            if package
            else "Name the package that has it in session.packages."
        )
        return file.fault(
            f"{name}.format", f"{format_!r}, which this session does not know", "a format of Spark", remedy
        )
    if _OTHER_SPARK.search(text):
        got = f"{format_!r}, whose package was made for another Spark ({reason})"
        return file.fault(
            f"{name}.format", got, "the package of this Spark", "Correct session.packages, or use that Spark."
        )
    if _NO_STREAM.search(text):
        verb = "written to" if name.startswith("sink") else "read"
        got = f"{format_!r} cannot be {verb} as a stream"
        return file.fault(f"{name}.format", got, "a format that can", f"Name another one. Spark said: {reason}")
    if _NO_SCHEMA.search(text):
        got = f"{'a' if file.section(name).get('schema') else 'no'} schema ({reason})"
        return file.fault(f"{name}.schema", got, "the columns that the format has", "Correct schema, or add it.")
    if _NO_PLACE.search(text):
        key = "table" if file.section(name).get("table") else "path"
        return file.fault(f"{name}.{key}", reason, "what is there to be read", "Make it first, or correct it.")
    return file.fault(name, reason, f"what the format {format_!r} takes", "Correct the keys and options.")


def first_line(error: Exception) -> str:
    """What an error says, without its trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Py4J says first that something happened, and then what.
    said = [line for line in lines if not line.startswith(("An error occurred while calling", "JVM stacktrace"))]
    return next(iter(said), type(error).__name__)


class AnyWriter:
    """Writes answers to a sink of any format: as a stream, or micro-batch by micro-batch where it takes no streams.

    Used as Spark's own writer of streams: `trigger`, then `start`.
    """

    def __init__(
        self, answers: Any, file: PipelineFile, batch_form: Callable[[Any], Any], section: str = "sink"
    ) -> None:
        self._answers, self._file, self._batch_form = answers, file, batch_form
        self._section, self._sink = section, file.section(section)
        assert file.checkpoint is not None, "formats like these need one"
        self._checkpoint = file.resolved(file.checkpoint)
        self._table = _catalog_table(self._sink)
        self._trigger: dict[str, Any] = {}

    def trigger(self, **trigger: Any) -> "AnyWriter":
        """When micro-batches begin, as Spark's writers take it."""
        self._trigger = trigger
        return self

    def start(self) -> Any:
        """The running query."""
        try:
            writer = self._prepare(self._answers.writeStream.format(self._sink["format"]))
            writer = writer.options(**options_of(self._file, self._sink))
            return writer.toTable(self._table) if self._table else writer.start()
        except SPARK_ERRORS as error:
            if not _NO_STREAM.search(str(error)):
                raise refuse(self._file, self._section, error) from None
        repeated = unfinished_batch(self._checkpoint)
        writer = self._answers.writeStream.foreachBatch(
            lambda frame, batch: self.append(frame, again=batch == repeated)
        )
        return self._prepare(writer).start()

    def _prepare(self, writer: Any) -> Any:
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**self._trigger) if self._trigger else writer

    def append(self, frame: Any, *, again: bool) -> None:
        """Add the answers of a micro-batch; of one that was begun before, only events that are not there yet."""
        rows = self._batch_form(frame)
        if again and "event_id" in rows.columns:
            rows = self._without_written(rows)
        writer = rows.write.format(self._sink["format"]).options(**options_of(self._file, self._sink)).mode("append")
        if self._table:
            writer.saveAsTable(self._table)
        else:
            writer.save()

    def _without_written(self, rows: Any) -> Any:
        reader = rows.sparkSession.read.format(self._sink["format"]).options(**options_of(self._file, self._sink))
        try:
            there = reader.table(self._table) if self._table else reader.load()
            return rows.join(there.select("event_id"), "event_id", "left_anti").select(*rows.columns)
        except SPARK_ERRORS as error:
            if _NO_TABLE.search(str(error)):
                return rows  # the first micro-batch makes it
            raise FencepostError(
                f"a sink that cannot be read ({first_line(error)})",
                "the events of a micro-batch that was begun before, so that none is written twice",
                "Run it again when the sink can be reached; it goes on from its checkpoint.",
            ) from None


def unfinished_batch(checkpoint: Path) -> int | None:
    """The micro-batch that was begun and not finished when a pipeline ended; it will be repeated."""
    begun, done = (_newest(checkpoint / name) for name in ("offsets", "commits"))
    return begun if begun is not None and begun != done else None


def _newest(directory: Path) -> int | None:
    numbers = [int(path.name) for path in directory.glob("[0-9]*") if path.name.isdigit()]
    return max(numbers, default=None)
