"""Streaming frames of a source section; the JVM separates rows that cannot be used."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.pipeline.file.columns import KAFKA_SEQUENCE
from fencepost.pipeline.file.decoding import is_decoded
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.file.faults import PipelineFaultsError
from fencepost.pipeline.file.formats import FILES
from fencepost.pipeline.file.ticks import NEWEST
from fencepost.pipeline.runtime.decoding import decode_messages
from fencepost.pipeline.runtime.formats import SPARK_ERRORS, first_line, open_stream, plain_options, refuse
from fencepost.spark.plan.abilities import parse_type
from fencepost.spark.plan.columns import quoted

FAULTS = "faults"
"""The prefix under which query progress reports how many rows of a source could not be used."""

_DAY = 86_400_000_000
_CORRUPT = "fencepost corrupt"
_FAULT = "fencepost fault"
_RAW = "fencepost raw"
_ORIGIN = "fencepost origin"
_KEY = "fencepost key"
_PARSED = "fencepost parsed"
_OWN = (_CORRUPT, _FAULT, _RAW, _ORIGIN, _KEY)


class SourceFrames(NamedTuple):
    """What a source gives."""

    rows: Any
    """Those that can be used; how many cannot is observed."""
    dead: Any
    """The others: ``origin, fault, value`` and the raw ``key`` and ``raw`` of a message. Reads the source again."""


def source_frames(
    spark: Any,
    file: PipelineFile,
    name: str,
    schema: Mapping[str, str],
    required: Sequence[str],
    time: str | None = None,
) -> SourceFrames:
    """The frames of a source; without a schema, Spark finds out what it has."""
    source = file.sections[name]
    try:
        if is_decoded(source):
            read = _decoded(spark, file, name, schema)
        else:
            read = _READERS.get(source["format"], _other)(spark, file, source, schema)
    except SPARK_ERRORS as error:
        raise refuse(file, name, error) from None
    rows = _derive(read, file, name)
    # A column that is missing where only Spark knows the columns is refused later, with all that is wrong with them.
    there = {column.lower() for column in rows.columns}
    fault = quoted(_FAULT)
    for column in (column for column in required if column.lower() in there):
        fault = F.coalesce(fault, F.when(quoted(column).isNull(), F.lit(f"no {column}")))
    rows = rows.withColumn(_FAULT, fault)
    newest = [] if time is None or time.lower() not in there else [_newest(rows, time).alias(NEWEST)]
    observed = rows.observe(f"{FAULTS} {name}", F.count(quoted(_FAULT)).alias("faults"), *newest)
    usable = observed.where(quoted(_FAULT).isNull()).drop(*_OWN)
    unusable = rows.where(quoted(_FAULT).isNotNull())
    return SourceFrames(usable, unusable.select(*_dead_columns(as_text=not is_decoded(source))))


def _derive(rows: Any, file: PipelineFile, name: str) -> Any:
    """Rows with the columns that the file adds."""
    derived = {column: F.expr(text) for column, text in (file.sections[name].get("columns") or {}).items()}
    try:
        return rows.withColumns(derived) if derived else rows
    except SPARK_ERRORS as error:
        fault = file.fault(f"{name}.columns", first_line(error), "expressions that Spark takes", "Correct them.")
        raise PipelineFaultsError(file.path.name, [fault]) from None


def _newest(rows: Any, time: str) -> Any:
    """The newest event time in microseconds since 1970; null where times are no instants."""
    ((_, type_),) = rows.select(quoted(time)).dtypes
    newest = F.max(F.when(quoted(_FAULT).isNull(), quoted(time)))
    match type_:
        case "timestamp" | "timestamp_ntz":
            return instant_micros(newest, type_)
        case "date":
            return F.unix_date(newest) * F.lit(_DAY)
        case _:
            return F.max(F.lit(None).cast("bigint"))


def instant_micros(column: Any, type_: str) -> Any:
    """A column of timestamps in microseconds since 1970."""
    if type_ == "timestamp_ntz":  # in UTC, as everywhere, whatever the session's zone is
        column = F.concat(column.cast("string"), F.lit("Z")).try_cast("timestamp")
    return F.unix_micros(column)


def _dead_columns(*, as_text: bool) -> list[Any]:
    text = F.make_valid_utf8(quoted(_RAW).cast("string")) if as_text else F.base64(quoted(_RAW))
    return [
        quoted(_ORIGIN).alias("origin"),
        quoted(_FAULT).alias("fault"),
        text.alias("value"),
        quoted(_KEY).alias("key"),
        quoted(_RAW).alias("raw"),
    ]


def kafka_reader(spark: Any, servers: str, topics: str | Sequence[str], options: Mapping[str, Any]) -> Any:
    """The raw messages of topics, as a stream."""
    subscribed = topics if isinstance(topics, str) else ",".join(topics)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", subscribed).options(**plain_options(options)).load()


def _json_object(schema: Mapping[str, str], options: Mapping[str, Any]) -> tuple[Any, Any]:
    """The parsed object of the column of raw text, and what is wrong with it or null."""
    text = quoted(_RAW).cast("string")
    struct = parse_type(_ddl({**schema, _CORRUPT: "string"}))
    settings = plain_options(options) | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    trimmed = F.trim(text)
    fault = (
        F.when(text.isNull() | (trimmed == ""), "empty")
        # Spark would take the first object of an array, or of several in a row, and drop the rest without a word.
        .when(~(F.startswith(trimmed, F.lit("{")) & F.endswith(trimmed, F.lit("}"))), "not a JSON object")
        .when((F.locate("}", trimmed) < F.length(trimmed)) & ~_is_alone(trimmed), "not a JSON object")
        .when(quoted(_PARSED).isNull() | _field(_CORRUPT).isNotNull(), "does not fit the schema")
    )
    return F.from_json(text, struct, settings).alias(_PARSED), fault


def _is_alone(text: Any) -> Any:
    """Whether a text is one JSON value; only asked where it does not end with its first brace, as flat objects do."""
    return F.coalesce(F.size(F.from_json(F.concat(F.lit("["), text, F.lit("]")), "array<string>")), F.lit(0)) == 1


def _field(name: str) -> Any:
    """A field of the parsed object."""
    return quoted(_PARSED).getField(name)


def _parsed(raw: Any, schema: Iterable[str], object_: tuple[Any, Any], given: Sequence[Any]) -> Any:
    """Frames of raw messages with the fields of their objects: the expression of these, and what is wrong with it."""
    parsed, fault = object_
    kept = [quoted(name) for name in (_RAW, _ORIGIN, _KEY)]
    objects = raw.select(*kept, *given, parsed)
    fields = [_field(name).alias(name) for name in schema]
    names = [column for column in objects.columns if column not in {_PARSED, _RAW, _ORIGIN, _KEY}]
    return objects.select(*kept, *fields, *map(quoted, names), fault.alias(_FAULT))


def _kafka(spark: Any, file: PipelineFile, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    del file
    return _messages(spark, source, schema, _json_object(schema, {}))


def _decoded(spark: Any, file: PipelineFile, name: str, schema: Mapping[str, str]) -> Any:
    """Messages of a topic that are no JSON."""
    parsed, fault = decode_messages(file, name, quoted(_RAW), quoted(_PARSED))
    return _messages(spark, file.sections[name], schema, (parsed.alias(_PARSED), fault))


def _messages(spark: Any, source: Mapping[str, Any], schema: Iterable[str], object_: tuple[Any, Any]) -> Any:
    options = {"startingOffsets": source["starting"], **source["options"]}
    raw = kafka_reader(spark, source["servers"], source["topic"], options)
    origin = F.concat_ws("/", "topic", "partition", "offset")
    raw = raw.withColumns({_RAW: F.col("value"), _ORIGIN: origin, _KEY: F.col("key")})
    partition, offset = KAFKA_SEQUENCE
    given = [F.col("partition").alias(partition), F.col("offset").alias(offset)]
    return _parsed(raw, schema, object_, [*given, F.col("timestamp").alias("kafka_timestamp")])


def _socket(spark: Any, file: PipelineFile, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    del file
    reader = spark.readStream.format("socket").option("host", source["host"]).option("port", source["port"])
    lines = reader.options(**plain_options(source["options"])).load()
    return _lines(lines, F.lit(f"{source['host']}:{source['port']}"), source, schema)


def _json(spark: Any, file: PipelineFile, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    path = file.located(source["path"])
    lines = spark.readStream.options(**plain_options(source["options"])).text(path)
    return _lines(lines, F.col("_metadata.file_path"), source, schema)


def _lines(lines: Any, origin: Any, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    """Objects, one on each line that is not blank."""
    written = lines.where(F.trim("value") != "")
    columns = {_RAW: F.col("value").cast("binary"), _ORIGIN: origin, _KEY: F.lit(None).cast("binary")}
    return _parsed(written.withColumns(columns), schema, _json_object(schema, source["options"]), [])


def _csv(spark: Any, file: PipelineFile, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    # Whether a row fits the schema must not depend on which of its columns a query needs.
    settings = {"header": "true", "columnPruning": "false"} | plain_options(source["options"])
    settings |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    reader = spark.readStream.schema(_ddl({**schema, _CORRUPT: "string"})).options(**settings)
    rows = reader.csv(file.located(source["path"]))
    return _from_columns(rows, schema, F.when(quoted(_CORRUPT).isNotNull(), "does not fit the schema"))


def _parquet(spark: Any, file: PipelineFile, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    reader = spark.readStream.schema(_ddl(schema)).options(**plain_options(source["options"]))
    return _from_columns(reader.parquet(file.located(source["path"])), schema, F.lit(None).cast("string"))


def _rate(spark: Any, file: PipelineFile, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    del file, schema
    reader = spark.readStream.format("rate").option("rowsPerSecond", source["rows_per_second"])
    rows = reader.options(**plain_options(source["options"])).load()
    columns = {_FAULT: F.lit(None).cast("string"), _ORIGIN: F.lit("rate")}
    columns |= {_RAW: F.to_json(F.struct("timestamp", "value")).cast("binary"), _KEY: F.lit(None).cast("binary")}
    return rows.withColumns(columns)


def _other(spark: Any, file: PipelineFile, source: Mapping[str, Any], schema: Mapping[str, str]) -> Any:
    """Any format that Spark knows."""
    no_fault = F.lit(None).cast("string")
    if source["format"] == "xml" and schema:
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        rows = open_stream(spark, file, source, _ddl({**schema, _CORRUPT: "string"}), **options)
        return _from_columns(rows, schema, F.when(quoted(_CORRUPT).isNotNull(), "does not fit the schema"))
    rows = open_stream(spark, file, source, _ddl(schema))
    if source["format"] in FILES:
        return _from_columns(rows, rows.columns, no_fault)
    place = source.get("table") or source.get("path")
    return _from_columns(rows, rows.columns, no_fault, F.lit(" ".join(filter(None, [source["format"], place]))))


def _from_columns(rows: Any, names: Iterable[str], fault: Any, origin: Any = None) -> Any:
    """Rows that have columns of their own; a dead letter shows them as JSON. Without an origin it is their file."""
    raw = F.to_json(F.struct(*map(quoted, names)))
    if _CORRUPT in rows.columns:
        raw = F.coalesce(quoted(_CORRUPT), raw)
    origin = F.col("_metadata.file_path") if origin is None else origin
    columns = {_FAULT: fault, _RAW: raw.cast("binary"), _ORIGIN: origin}
    return rows.withColumns(columns | {_KEY: F.lit(None).cast("binary")})


_READERS = {"kafka": _kafka, "socket": _socket, "json": _json, "csv": _csv, "parquet": _parquet, "rate": _rate}


def _ddl(schema: Mapping[str, str]) -> str:
    return ", ".join(f"`{name.replace('`', '``')}` {type_}" for name, type_ in schema.items())
