"""What can be known to be wrong with a pipeline before Spark starts."""

import csv
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import sqlglot

from fencepost._files.storage import exists, is_url
from fencepost._text import count, mask_url
from fencepost.book import Progress
from fencepost.buckets import checked_buckets
from fencepost.deliveries.spool import find_spools
from fencepost.emitting.further import check_carried, event_columns
from fencepost.errors import FencepostError
from fencepost.events import event_schema
from fencepost.ordinals import AttributeType
from fencepost.pipeline.connector import Part, artifact_of, connector_jars, session_has_connector
from fencepost.pipeline.file.clock import PipelineClock, clock_of
from fencepost.pipeline.file.columns import Columns, files_of, is_pattern, source_columns
from fencepost.pipeline.file.decoding import check_registry
from fencepost.pipeline.file.document import PipelineFile, listed, sink_name
from fencepost.pipeline.file.faults import Fault, meant
from fencepost.pipeline.file.formats import AT_PATHS, OF_SPARK, package_of
from fencepost.pipeline.file.keys import FORMATS, SINKS
from fencepost.pipeline.file.rule_columns import rule_column_faults
from fencepost.pipeline.file.secrets import Resolved
from fencepost.pipeline.file.session import package_faults, session_settings
from fencepost.pipeline.file.ticks import check_ticking
from fencepost.pipeline.runtime import identity
from fencepost.pipeline.runtime.book import check_book, check_rules
from fencepost.pipeline.runtime.feeds import check_feed
from fencepost.pipeline.runtime.requirements import missing_for_spark
from fencepost.published import VersionDirectory, check_shards
from fencepost.snapshot import Table

_NEWEST = "the newest version of the rules"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~\xa0-\xff]*")


def pipeline_faults(
    file: PipelineFile, each_rule: bool = True, progress: Progress = lambda *_: None, faults: Sequence[Fault] = ()
) -> list[Fault]:
    """Everything that is wrong with a file whose sections have been read, beside the `faults` of these.

    `each_rule` includes rules of a book that do not fit the source, and rules that the clock cannot do with: a pipeline
    runs without those. A book is looked at last, and only where nothing else is wrong: it may have a million rules.
    """
    faults = list(faults)
    columns = {name: source_columns(file, name, faults) for name in file.sources}
    for name, source in file.sources.items():
        faults += _path_faults(file, name, source)
        faults += _header_faults(file, name, source)
    faults += _operator_value_faults(file)
    faults += column_faults(file, columns)
    faults += _sink_faults(file)
    faults += _metrics_faults(file)
    faults += _machine_faults(file)
    clock = None
    try:
        clock = clock_of(file, columns)
    except FencepostError as error:
        faults.append(file.refusal("operator.timeout", error))
    if each_rule and clock is not None:
        faults += _published_rule_faults(file, clock)
    known = _typed_columns(file, columns) if each_rule else None
    if known is not None and not faults:
        faults += _each_rule_faults(file, known, clock, progress)
    return faults


def left_out_checks(file: PipelineFile, faults: Sequence[Fault]) -> list[str]:
    """What was not looked at because of faults, in words."""
    if faults and not any(fault.place == "rules.book" for fault in faults):
        columns = {name: source_columns(file, name, []) for name in file.sources}
        if _typed_columns(file, columns) is not None:
            return ["rules.book: whether every rule fits the columns; correct the other faults first"]
    return []


def column_faults(file: PipelineFile, columns: Mapping[str, Columns | None]) -> Iterator[Fault]:
    """What is wrong with the rules as a whole, and with the columns that they and the operator need."""
    for name, known in columns.items():
        if known is not None:
            yield from _operator_faults(file, known, name)
    yield from _carry_faults(file, columns)
    yield from _rules_faults(file, columns)


def unchecked_parts(file: PipelineFile) -> list[str]:
    """What only Spark can tell, in words; a pipeline that runs is checked for it before its query starts."""
    parts = []
    for name in (*file.sources, *file.sinks):
        format_ = file.section(name).get("format")
        if format_ and format_ not in {*FORMATS, *SINKS, *OF_SPARK}:
            package = None if "spark.jars.packages" in session_settings(file) else package_of(format_)
            hint = f" ({package} has it)" if package else ""
            parts.append(f"{name}.format: whether the session knows {format_!r}{hint}")
    for name in file.sources:
        columns = source_columns(file, name, [])
        unknown = [column for column, type_ in columns.types.items() if type_ is None] if columns else []
        if unknown:
            parts.append(f"{name}.columns: the type of {', '.join(unknown)}")
        elif columns is None and not file.section(name).get("schema") and file.section(name)["format"] not in FORMATS:
            parts.append(f"{name}: its columns, and whether they are those that the rules and the operator need")
    return parts


def _path_faults(file: PipelineFile, name: str, source: dict[str, Any]) -> Iterator[Fault]:
    if source["format"] in AT_PATHS and source.get("path") and not is_url(file.located(source["path"])):
        path = file.resolved(source["path"])
        if not is_pattern(path) and not path.exists():
            yield file.fault(f"{name}.path", f"{path} does not exist", "files or a directory", "Make it first.")
    if source["format"] == "socket" and {"host", "port"} <= set(source):
        yield from _unreachable(file, f"{name}.port", f"{source['host']}:{source['port']}")
    if source["format"] == "kafka" and "servers" in source:
        yield from _unreachable(file, f"{name}.servers", source["servers"])
    try:
        check_registry(file, name)
    except FencepostError as error:
        yield file.refusal(f"{name}.registry", error)
    if source.get("dead_letters"):
        yield from _unwritable(file, f"{name}.dead_letters", source["dead_letters"])
    if source["format"] == "rate" and source["rows_per_second"] == 0:
        yield file.fault(f"{name}.rows_per_second", "0", "1 or more", "Correct the value.")


def _header_faults(file: PipelineFile, name: str, source: dict[str, Any]) -> Iterator[Fault]:
    """A CSV file must have the columns that the schema says, since Spark takes them by position."""
    options = {key.lower(): str(value).lower() for key, value in source.get("options", {}).items()}
    if source["format"] != "csv" or not {"path", "schema"} <= set(source) or options.get("header", "true") != "true":
        return
    first = next(files_of(file.resolved(source["path"])), None)
    if first is None or not first.exists():
        return
    spelled = (str(value) for key, value in source["options"].items() if key.lower() in {"sep", "delimiter"})
    separator = next(spelled, ",")
    if not separator or "\\" in separator:
        return  # Spark refuses it, or has escapes of its own
    try:
        with first.open(newline="", encoding="utf-8") as opened:
            if len(separator) == 1:
                header = next(csv.reader(opened, delimiter=separator), [])
            else:
                header = next(opened, "").rstrip("\r\n").split(separator)
    except (OSError, ValueError) as error:
        yield file.fault(f"{name}.path", f"{first} ({error})", "a CSV file in UTF-8", "Check path and format.")
        return
    if [column.lower() for column in header] != [column.lower() for column in source["schema"]]:
        yield file.fault(
            f"{name}.schema",
            f"the columns {', '.join(source['schema'])}",
            f"those of {first.name} in their order: {', '.join(header)}",
            "Write the schema as the file has it.",
        )


def _unreachable(file: PipelineFile, place: str, servers: str) -> Iterator[Fault]:
    """A fault unless one of the servers answers."""
    refused = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            yield file.fault(place, repr(server.strip()), "host:port", 'Write for example "127.0.0.1:9092".')
            return
        try:
            socket.create_connection((host, int(port)), timeout=3).close()
        except OSError as error:
            refused.append(f"{server.strip()} ({error.strerror or error})")
        else:
            return
    fault = file.fault(
        place, f"no answer from {', '.join(refused)}", "a server that listens", "Start it, or correct it."
    )
    yield fault._replace(may_pass=True)


def _unwritable(file: PipelineFile, place: str, path: str) -> Iterator[Fault]:
    target = file.resolved(path)
    there = next(parent for parent in (target, *target.parents) if parent.exists())
    if not there.is_dir():
        yield file.fault(place, f"{there} is a file", "a directory", "Name another place.")
    elif not os.access(there, os.W_OK):
        yield file.fault(place, f"{there} may not be written to", "a directory to write to", "Grant the right.")


def _operator_faults(file: PipelineFile, known: Columns, source: str) -> Iterator[Fault]:
    """Columns that the operator names against those of a source."""
    operator = file.section("operator")
    names = Table(dict.fromkeys(known.types, ()))
    roles = ("object", "time", "key", "deleted", "sequence")
    named = [(role, column) for role in roles for column in listed(operator.get(role))]
    for role, column in named:
        try:
            own = names.find(column)
        except FencepostError as error:
            yield file.refusal(f"operator.{role}", error)
            continue
        if own is None:
            got = f"the column {column}, which [{source}] does not have"
            yield file.fault(f"operator.{role}", got, "a column of the source", meant(column, known.types))
            continue
        yield from _type_faults(file, role, column, known.types[own])
    if operator.get("kind") == "match":
        for column in known.types:
            if column.lower() in {"rule_ids", "rule_id"}:
                got = f"a column {column}"
                yield file.fault(f"{source}.schema", got, "that name to be free for the answer", "Rename the column.")


def _carry_faults(file: PipelineFile, columns: Mapping[str, Columns | None]) -> Iterator[Fault]:
    """Columns to carry that no source has, that cannot be carried, or whose names events have already."""
    operator = file.section("operator")
    carried = listed(operator.get("carry"))
    for column in carried:
        found = [(name, known, _own(known, column)) for name, known in columns.items() if known is not None]
        lacking = [(name, known) for name, known, own in found if own is None]
        if lacking and (operator.get("kind") != "bands" or len(lacking) == len(columns)):
            got = f"the column {column}, which [{lacking[0][0]}] does not have"
            yield file.fault("operator.carry", got, "a column of the source", meant(column, lacking[0][1].types))
        for type_ in {str(known.types[own]) for _, known, own in found if own is not None}:
            if re.match(r"array|map|struct", type_):
                got = f"{column} is {type_}"
                yield file.fault("operator.carry", got, "a column of a plain type", "Leave it out.")
    try:
        of_events = event_columns(operator.get("labels") is not False, bool(operator.get("condition")), carried)
        check_carried(of_events, [*_event_names(file), *(name for name, _ in of_events.of_rules)])
    except FencepostError as error:
        yield file.refusal("operator.carry", error)


def _own(known: Columns, column: str) -> str | None:
    try:
        return Table(dict.fromkeys(known.types, ())).find(column)
    except FencepostError:
        return None


def _event_names(file: PipelineFile) -> list[str]:
    """The columns that events have in any case, and those of the rules, as far as they are known."""
    schema: Mapping[str, str] = {}
    if directory := file.section("rules").get("directory"):
        try:
            schema = VersionDirectory(file.located(directory)).schema() or {}
        except FencepostError:
            schema = {}  # it is refused where the rules are
    names = [column for name in schema for column in (name, f"{name}_before")]
    return [*event_schema(pa.null(), pa.null(), {}).names, *names, *listed(file.section("operator").get("key"))]


def _type_faults(file: PipelineFile, role: str, column: str, type_: str | None) -> Iterator[Fault]:
    if type_ is None:
        return
    if role == "deleted" and type_ != "boolean":
        yield file.fault("operator.deleted", f"{column} is {type_}", "a boolean column", "Name another one.")
    if role in {"time", "sequence"}:
        try:
            AttributeType.parse(type_)
        except FencepostError as error:
            got = f"{column} is {type_}"
            yield file.fault(f"operator.{role}", got, error.expected, "Name another column, or cast it in columns.")
            return
    if role == "time" and file.section("operator").get("tick"):
        try:
            check_ticking(column, type_)
        except FencepostError as error:
            yield file.refusal("operator.tick", error)
    if role == "object" and re.match(r"array|map|struct|float|double", type_):
        got = f"{column} is {type_}"
        yield file.fault("operator.object", got, "a column that names things", "Name another one.")


def _operator_value_faults(file: PipelineFile) -> Iterator[Fault]:
    operator = file.section("operator")
    try:
        checked_buckets(operator.get("buckets", 1))
    except FencepostError as error:
        yield file.fault("operator.buckets", str(operator["buckets"]), error.expected, error.remedy)
    if operator.get("shards") is not None:
        try:
            check_shards(operator["shards"])
            if directory := file.section("rules").get("directory"):
                versions = VersionDirectory(file.located(directory))
                if exists(versions.path):
                    versions.shards_for(operator["shards"])
        except FencepostError as error:
            yield file.refusal("operator.shards", error)
    if operator.get("seed") and not file.resolved(operator["seed"]).is_dir():
        got = f"{file.resolved(operator['seed'])} does not exist"
        yield file.fault("operator.seed", got, "a directory that save_state wrote", "Write it first.")
    if operator.get("late"):
        yield from _unwritable(file, "operator.late", operator["late"])


def _typed_columns(file: PipelineFile, columns: Mapping[str, Columns | None]) -> Columns | None:
    """The columns that rules of a book can be compared with before Spark starts: of one source, all with a type."""
    known = [each for each in columns.values() if each is not None]
    is_told = file.section("rules").get("book") and len(known) == 1 and None not in known[0].types.values()
    return known[0] if is_told else None


def _published_rule_faults(file: PipelineFile, clock: PipelineClock) -> Iterator[Fault]:
    """Rules of a directory that the clock cannot do with."""
    try:
        if (snapshot := file.remembered.get(_NEWEST)) is not None:
            clock.check_rules(snapshot)
    except FencepostError as error:
        yield file.refusal("rules.directory", error)


def _each_rule_faults(
    file: PipelineFile, columns: Columns, clock: PipelineClock | None, progress: Progress
) -> Iterator[Fault]:
    try:
        unusable = None if clock is None else clock.find_faults
        check_rules(file.section("rules")["book"], file, columns, progress, unusable)
    except FencepostError as error:
        yield file.refusal("rules.book", error)


def _rules_faults(file: PipelineFile, columns: Mapping[str, Columns | None]) -> Iterator[Fault]:
    rules = file.section("rules")
    if rules.get("book"):
        try:
            check_book(rules["book"], file)
        except FencepostError as error:
            yield file.refusal("rules.book", error)
    if changes := file.section("rules.changes"):
        if "servers" in changes:
            yield from _unreachable(file, "rules.changes.servers", changes["servers"])
        if changes.get("dead_letters"):
            yield from _unwritable(file, "rules.changes.dead_letters", changes["dead_letters"])
        try:
            check_feed(file)
        except FencepostError as error:
            yield file.refusal("rules.changes", error)
    if not rules.get("directory"):
        return
    try:
        versions = VersionDirectory(file.located(rules["directory"]))
        if versions.latest() is None:
            got = f"{versions.path}{' has no version' if exists(versions.path) else ' does not exist'}"
            remedy = f"Publish rules first: fencepost publish {rules['directory']}"
            yield file.fault("rules.directory", got, "a directory with a published version", remedy)
            return
        snapshot = file.remembered[_NEWEST] = versions.load()
    except FencepostError as error:
        yield file.refusal("rules.directory", error)
        return
    if find_spec("pyspark") is not None:
        yield from rule_column_faults(file, columns, versions, snapshot)


def _sink_faults(file: PipelineFile) -> Iterator[Fault]:
    for name, sink in file.sinks.items():
        yield from _one_sink_faults(file, name, sink)
    yield from _nested_faults(file)
    if file.checkpoint is not None:
        try:
            identity.check_checkpoint(file)
        except FencepostError as error:
            yield file.refusal(_checkpoint_place(file), error)
        yield from _orphaned_events(file, file.resolved(file.checkpoint))


def _orphaned_events(file: PipelineFile, checkpoint: Path) -> Iterator[Fault]:
    """Events that wait for a webhook that the file has no more would wait for ever."""
    webhooks = {
        section: sink_name(file, section) for section, sink in file.sinks.items() if sink["format"] == "webhook"
    }
    known = {"" if section == "sink" else name for section, name in webhooks.items()}
    for name, spool in find_spools(checkpoint).items():
        if name not in known and (waiting := spool.waiting()):
            words = f"the sink {name}" if name else "the only sink"
            yield file.fault(
                _checkpoint_place(file),
                f"{count(waiting, 'event')} that wait for {words}, which the file does not have any more",
                "a webhook to send them to",
                f"Name it again until they are sent, or delete {spool.directory} to give them up.",
            )


def _one_sink_faults(file: PipelineFile, name: str, sink: dict[str, Any]) -> Iterator[Fault]:
    if sink.get("format") == "kafka" and "servers" in sink:
        yield from _unreachable(file, f"{name}.servers", sink["servers"])
        topics = [source.get("topic") for source in file.sources.values() if source.get("servers") == sink["servers"]]
        read = [topic for each in topics for topic in listed(each)]
        if sink.get("topic") in read:
            got = f"the topic {sink['topic']} is also read"
            yield file.fault(f"{name}.topic", got, "another topic", "A pipeline must not read what it writes.")
    if sink.get("format") == "webhook":
        yield from _webhook_faults(file, name, sink)
    if sink.get("where"):
        try:
            sqlglot.parse_one(sink["where"], read="spark")
        except sqlglot.errors.SqlglotError as error:
            got = f"{sink['where']!r} does not parse ({str(error).splitlines()[0]})"
            yield file.fault(f"{name}.where", got, "a condition of Spark SQL", "Correct it.")
    if sink.get("name") and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", sink["name"]):
        expected = "letters, digits, _ and -, at most 64 of them"
        yield file.fault(f"{name}.name", repr(sink["name"]), expected, "Correct the name.")
    for key in ("path", "dead_letters", "checkpoint"):
        if (target := _path_at(file, f"{name}.{key}")) is not None:
            if key != "path" or sink["format"] in {*SINKS, *AT_PATHS}:
                yield from _unwritable(file, f"{name}.{key}", sink[key])
            yield from _loops(file, f"{name}.{key}", target)
            if key == "path" and name != "sink" and (target / "_spark_metadata").exists():
                yield file.fault(
                    f"{name}.path",
                    f"{target}, which the only sink of a pipeline has written to",
                    "a directory of its own, since readers with Spark would see nothing of what is added there",
                    "Name another directory.",
                )


def _checkpoint_place(file: PipelineFile) -> str:
    return next((f"{name}.checkpoint" for name, sink in file.sinks.items() if sink.get("checkpoint")), "sink")


def _webhook_faults(file: PipelineFile, section: str, sink: dict[str, Any]) -> Iterator[Fault]:
    """An address or a header that cannot be sent. Values of headers are not shown: they may be secret."""
    if "url" in sink and not _is_web_address(sink["url"]):
        expected = "http:// or https:// and a host, in ASCII and without blanks"
        shown = sink["url"] if isinstance(sink["url"], Resolved) else mask_url(sink["url"])
        yield file.fault(f"{section}.url", repr(shown), expected, "Correct the address; write a blank as %20.")
    elif urlsplit(sink.get("url", "")).username is not None and "authorization" in map(str.lower, sink["headers"]):
        got = "a user in the address and the header Authorization"
        yield file.fault(f"{section}.headers", got, "one of them, since both are sent as that header", "Remove one.")
    for name in ("concurrency", "batch"):
        if sink[name] < 1:
            yield file.fault(f"{section}.{name}", str(sink[name]), "1 or more", "Correct it, or leave it out.")
    for name, value in sink["headers"].items():
        if not _HEADER_NAME.fullmatch(name):
            got = f"the header {name!r}"
            yield file.fault(f"{section}.headers", got, "letters, digits and hyphens as its name", "Correct the name.")
        if not _HEADER_VALUE.fullmatch(str(value)):
            got = f"the header {name!r} with a line break, a control character or one outside of Latin-1 in its value"
            yield file.fault(f"{section}.headers", got, "one line of Latin-1", "Correct the value.")


def _is_web_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        usable = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:  # a port that is no number, or half of an IPv6 address
        return False
    return bool(usable) and re.fullmatch(r"[!-~]+", text) is not None


def _nested_faults(file: PipelineFile) -> Iterator[Fault]:
    """Nothing may be written into the checkpoint or the rules: Spark and publishers delete what they do not know."""
    places = [f"{name}.{key}" for name in file.sinks for key in ("path", "dead_letters")]
    places += ["operator.late", "rules.changes.dead_letters", *(f"{name}.dead_letters" for name in file.sources)]
    checkpoint = _checkpoint_place(file)
    owners = {checkpoint: "the checkpoint", "rules.directory": "the directory of rules"}
    for owner, words in owners.items():
        owned = _path_at(file, owner)
        for place in [*places, checkpoint]:
            path = _path_at(file, place)
            if owned is not None and path is not None and place != owner and _lies_in(path, owned):
                yield file.fault(place, f"{path}, which lies in {words}", "a directory of its own", "Name another one.")


def _path_at(file: PipelineFile, place: str) -> Path | None:
    section, _, key = place.rpartition(".")
    value = file.section(section).get(key)
    return file.resolved(value) if value and not is_url(file.located(value)) else None


def _lies_in(path: Path, directory: Path) -> bool:
    """Whether a path is a directory or lies in it, whatever links lead there."""
    return path.resolve().is_relative_to(directory.resolve())


def _loops(file: PipelineFile, place: str, target: Path) -> Iterator[Fault]:
    for name, source in file.sources.items():
        read = _path_at(file, f"{name}.path")
        if source["format"] in AT_PATHS and read is not None and _lies_in(target, read):
            got = f"{target}, which lies in what [{name}] reads"
            yield file.fault(place, got, "another place", "A pipeline must not read what it writes.")


def _metrics_faults(file: PipelineFile) -> Iterator[Fault]:
    listen = file.section("metrics").get("listen")
    if listen is None:
        return
    try:
        parse_address(listen)
    except FencepostError as error:
        yield file.refusal("metrics.listen", error)
    if find_spec("prometheus_client") is None:
        remedy = "pip install 'fencepost[spark]'"
        yield file.fault("metrics", "no prometheus_client", "it to be installed", remedy)


def parse_address(listen: str) -> tuple[str, int]:
    """An address to listen at.

    >>> parse_address("127.0.0.1:9464"), parse_address("[::1]:0")
    (('127.0.0.1', 9464), ('::1', 0))
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 2**16:
        raise FencepostError(repr(listen), "an address and a port", 'Write for example "127.0.0.1:9464".')
    return host.removeprefix("[").removesuffix("]"), int(port)


def _machine_faults(file: PipelineFile) -> Iterator[Fault]:
    """What the machine lacks."""
    for missing in missing_for_spark():
        yield file.fault("session", missing.got, missing.expected, missing.remedy)
    yield from package_faults(file)
    for part, section in needed_parts(file).items():
        if session_has_connector(session_settings(file), part) or connector_jars(part):
            continue
        if part == "kafka":
            got, command = "Kafka without Spark's connector for it", "fencepost connector"
        else:
            got, command = f'decode = "{part}" without Spark\'s package for it', f"fencepost connector {part}"
        yield file.fault(
            section,
            got,
            f"{artifact_of(part)} and what it depends on",
            f"Run {command}, or name it in session.settings as spark.jars.packages.",
        )


def needed_parts(file: PipelineFile) -> dict[Part, str]:
    """The parts of Spark that a pipeline needs beside pyspark, and the section that needs each first."""
    uses: dict[Part, str] = {}
    for name in (*file.sources, *file.sinks):
        if file.section(name).get("format") == "kafka":
            uses.setdefault("kafka", name)
    if file.section("rules.changes") and file.section("rules.changes")["format"] != "delta":
        uses.setdefault("kafka", "rules.changes")
    for name, source in file.sources.items():
        if source.get("decode") == "avro":
            uses.setdefault("avro", f"{name}.decode")
    return uses
