"""Every section and key that a pipeline file may have."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "text", "whole number", "true or false", "table", "table or text", "text or list", "duration", "duration or false"
]


class Key(NamedTuple):
    """One key of a section."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None


_SCHEMA = Key("schema", "table", "columns and their Spark types", required=True)
_COLUMNS = Key("columns", "table", "columns to add or replace, each a Spark SQL expression over the others")
_OPTIONS = Key("options", "table", "further options of Spark's reader or writer, as Spark names them", default={})
_DEAD = Key("dead_letters", "text", "directory for rows that cannot be read or have no object or time")
_DEAD_TOPIC = Key("dead_letters_topic", "text", "in its place a topic, on the same servers")
_SERVERS = Key("servers", "text", "brokers, host:port separated by commas", required=True)
_DIRECTORY = Key("path", "text", "directory of files, or a pattern", required=True)
_TABLE = Key("table", "text", "a table of Spark's catalogs")
_REST = (_COLUMNS, _DEAD, _OPTIONS)

ANY = "any other that Spark knows"
"""The variant of formats that have no keys of their own."""

FORMATS: Mapping[str, tuple[Key, ...]] = {
    "json": (_DIRECTORY, _SCHEMA, *_REST),
    "csv": (_DIRECTORY, _SCHEMA, *_REST),
    "parquet": (_DIRECTORY, _SCHEMA._replace(required=False, meaning="columns and types; else the files'"), *_REST),
    "kafka": (
        _SERVERS,
        Key("topic", "text or list", "topics to read", required=True),
        Key("decode", "text", "what messages are", choices=("json", "avro", "protobuf"), default="json"),
        Key("schema", "table or text", "columns and their Spark types; for Avro and Protobuf, a file"),
        Key("registry", "text", "URL of a schema registry that knows the schemas of messages in Avro"),
        Key("message", "text", "name of the Protobuf message"),
        Key("starting", "text", "where a new pipeline begins", choices=("earliest", "latest"), default="earliest"),
        _DEAD_TOPIC,
        *_REST,
    ),
    "socket": (
        Key("host", "text", "of a server that sends a JSON object per line", required=True),
        Key("port", "whole number", "of that server", required=True),
        _SCHEMA,
        *_REST,
    ),
    "rate": (Key("rows_per_second", "whole number", "of columns timestamp and value", default=1), *_REST),
    ANY: (
        _DIRECTORY._replace(required=False, meaning="where the format reads from a path"),
        _TABLE,
        _SCHEMA._replace(required=False, meaning="columns and types, where the format does not know them"),
        *_REST,
    ),
}
"""What sources may say, by format."""

_OBJECT = Key("object", "text", "the column that names the object", required=True)
_TIME = Key("time", "text", "the column of event time", required=True)
_FIRST = Key("first", "text", "what an object's first row is", choices=("enter", "silent"), default="enter")
_STATEFUL = (
    Key("sequence", "text or list", "columns that order rows of equal time; Kafka: partition and offset"),
    Key("buckets", "whole number", "how many buckets objects are spread over; kept by the checkpoint", default=32),
    Key("timeout", "duration", "how long an object may be silent before it is gone"),
    Key("tick", "duration or false", "how often time goes on without rows; false for never"),
    Key("late", "text", "directory for late rows"),
    Key("labels", "true or false", "whether events have name and labels of their rule; without it, yes"),
    Key("carry", "text or list", "columns of the row that caused an event, which the event has, too", default=()),
    Key("condition", "true or false", "whether events have the condition of their rule", default=False),
)

_SHARDS = Key("shards", "whole number", "shards that rules are cut into, where they are more than a worker should hold")

OPERATORS: Mapping[str, tuple[Key, ...]] = {
    "match": (Key("explode", "true or false", "a row per event and rule instead of an array", default=False), _SHARDS),
    "watch": (_OBJECT, _TIME, _FIRST, Key("seed", "text", "directory that save_state wrote"), _SHARDS, *_STATEFUL),
    "bands": (
        _OBJECT._replace(meaning="the column that names a row of either side"),
        _TIME,
        Key("key", "text or list", "columns on which the two sides meet; without one, all rows meet in one task"),
        _FIRST,
        Key("deleted", "text", "a boolean column that says that a row is gone"),
        Key("report", "text", "pairs that met and parted, or only their rules", choices=("pairs", "rules")),
        *_STATEFUL,
    ),
}
"""What operators may say, by kind."""

_CHECKPOINT = Key("checkpoint", "text", "directory that remembers how far the pipeline has come", required=True)
_ANY_SINK = (
    Key("name", "text", "of the sink, where there are several; its format if there is none"),
    Key("where", "text", "a Spark SQL condition over the columns of answers: the others do not go to this sink"),
)
_TARGET = (Key("path", "text", "directory to write to", required=True), _CHECKPOINT, _OPTIONS, *_ANY_SINK)

SINKS: Mapping[str, tuple[Key, ...]] = {
    "parquet": _TARGET,
    "json": _TARGET,
    "csv": _TARGET,
    "kafka": (
        _SERVERS,
        Key("topic", "text", "topic to write JSON objects to", required=True),
        Key("key", "text", "column for the messages' key; watch and bands: object"),
        _CHECKPOINT,
        _OPTIONS,
        *_ANY_SINK,
    ),
    "console": (_CHECKPOINT._replace(required=False), _OPTIONS, *_ANY_SINK),
    "webhook": (
        Key("url", "text", "where each event is posted as a JSON object", required=True),
        Key("headers", "table", "further HTTP headers", default={}),
        Key("retries", "whole number", "after a failed attempt", default=10),
        Key("backoff", "duration", "before the first retry; doubled each time, up to a minute", default="1 second"),
        Key("wait", "duration", "for an answer", default="10 seconds"),
        Key("concurrency", "whole number", "posts under way at once; in order per object", default=64),
        Key("batch", "whole number", "events in one post: above 1, an array of them", default=1),
        Key("secret", "text", "signs each body: X-Fencepost-Signature has its HMAC-SHA256"),
        Key("certificates", "text", "file of certificates to trust in place of the system's"),
        Key("dead_letters", "text", "directory for events that were not accepted; without it, beside the checkpoint"),
        _CHECKPOINT,
        *_ANY_SINK,
    ),
    ANY: (
        Key("path", "text", "where the format writes to a path"),
        _TABLE,
        _CHECKPOINT,
        _OPTIONS,
        *_ANY_SINK,
    ),
}
"""What sinks may say, by format."""

_CHANGES = tuple(key for key in FORMATS["kafka"] if key.name in {"servers", "topic", "dead_letters", "options"})
_MAPPED = (
    Key("id", "text", "the column of ids, or of names; without it, rule_id"),
    Key("equal", "text or list", "columns whose text the data must equal; NAME=COLUMN where names differ", default=()),
    Key("range", "text or list", "NAME=LOW,HIGH: a column of the data, and those of its bounds", default=()),
    Key("bounds", "text or list", "which bounds are inside: [) [] () or (], or NAME=[]", default=()),
    Key("condition", "text", "in place of equal and range, a column of conditions"),
    Key("label", "text or list", "columns that become labels", default=()),
    Key("option", "text or list", "NAME=COLUMN: the column of an option, such as detect=kind", default=()),
    Key("detect", "text", "the events to report, for all rows"),
    Key("initial", "true or false", "whether to report objects that are inside already", default=False),
)
"""How a table becomes rules, in the words of `fencepost rules sync`."""
MAPPED = tuple(key.name for key in _MAPPED)

SECTIONS: Mapping[str, tuple[str | None, Mapping[str, tuple[Key, ...]]]] = {
    "source": ("format", FORMATS),
    "rules": (
        None,
        {
            "": (
                Key("directory", "text", "that rules are published to, a path or a URL; followed live"),
                Key("book", "text", "URL of a rule book in its place; published and followed live"),
                Key("columns", "text or list", "columns that rules of the book may use; without it, all of the source"),
                Key("changes", "table", "a topic of changes to apply to the book"),
            )
        },
    ),
    "rules.changes": (
        "format",
        {
            "": _CHANGES,
            "json": _CHANGES,
            "debezium": (*_CHANGES, *_MAPPED),
            "delta": (
                Key("path", "text", "of a Delta table with a change data feed"),
                _TABLE,
                _DEAD,
                _OPTIONS,
                *_MAPPED,
            ),
        },
    ),
    "operator": ("kind", OPERATORS),
    "sink": ("format", SINKS),
    "trigger": (
        None,
        {
            "": (
                Key("every", "duration", "between two micro-batches; without it, one follows the other"),
                Key("once", "true or false", "read the rows that are there, then end", default=False),
            )
        },
    ),
    "session": (
        None,
        {
            "": (
                Key("master", "text", "Spark's master", default="local[*]"),
                Key("packages", "text or list", "Maven coordinates of formats that Spark does not have", default=[]),
                Key("settings", "table", "any settings of Spark", default={}),
                Key("log", "text", "file for what Spark says; without it, fencepost/spark.log in the checkpoint"),
                Key("retries", "whole number", "after a start, or a run, that failed for a passing reason", default=3),
                Key(
                    "pause",
                    "duration",
                    "before the first retry; doubled each time, up to a minute",
                    default="5 seconds",
                ),
            )
        },
    ),
    "metrics": (
        None,
        {"": (Key("listen", "text", "address and port that serve figures for Prometheus", required=True),)},
    ),
}
"""For every section the key that chooses its variant, and the keys of each variant; "" where that key is left out."""


def variants_of(section: str) -> tuple[str | None, Mapping[str, tuple[Key, ...]]]:
    """The variants of a section; both sides of bands are sources, and each of several sinks is one."""
    top = section.partition(".")[0]
    return SECTIONS[top if top in {"source", "sink"} else section]
