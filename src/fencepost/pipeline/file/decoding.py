"""Messages of Kafka that are no JSON: what their settings say, and the columns of their schema."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fencepost.errors import FencepostError
from fencepost.pipeline.file.avro import read_record, reader_schema, record_columns
from fencepost.pipeline.file.document import PipelineFile, listed
from fencepost.pipeline.file.faults import Fault
from fencepost.pipeline.file.protobuf import find_message
from fencepost.pipeline.file.registry import Registry


class Decoded(NamedTuple):
    """What the messages of a source are read as."""

    columns: dict[str, str | None]
    """By name; a type is None where only Spark can tell it."""
    schema: str
    """The schema that Spark reads with."""
    written: str
    """The same as it is written: that of all messages, where no registry has others."""
    message: str = ""
    """The full name of a Protobuf message."""
    descriptors: bytes = b""


def is_decoded(source: dict[str, Any]) -> bool:
    """Whether the messages of a source are no JSON."""
    return bool(source.get("decode", "json") != "json")


def subjects_of(source: dict[str, Any]) -> list[str]:
    """The subjects of a registry that the values of a source's topics have."""
    return [f"{topic}-value" for topic in listed(source.get("topic"))]


def read_decoded(file: PipelineFile, name: str) -> Decoded:
    """The schema of a source without other faults; what a registry says of it is asked once."""
    known: dict[str, Decoded] = file.remembered.setdefault("decoded", {})
    if name not in known:
        known[name] = _read(file, file.section(name))
    return known[name]


def _read(file: PipelineFile, source: dict[str, Any]) -> Decoded:
    content = _read_file(file, source["schema"]) if source.get("schema") else b""
    if source["decode"] == "protobuf":
        message, columns = find_message(content, source["message"])
        return Decoded(columns, "", "", message, content)
    written: str | bytes = content or Registry(source["registry"]).latest(subjects_of(source)[0])
    record = read_record(written)
    return Decoded(record_columns(record), reader_schema(record), _text(written))


def _text(written: str | bytes) -> str:
    return written if isinstance(written, str) else written.decode()


def _read_file(file: PipelineFile, path: str) -> bytes:
    place = file.resolved(path)
    try:
        content = place.read_bytes()
    except OSError as error:
        got = f"{place} ({error.strerror})"
        raise FencepostError(got, "a file with the schema", "Correct the path, or its permissions.") from None
    if not content:
        raise FencepostError(f"{place} is empty", "a file with the schema", "Write the schema into it.")
    return content


def decoding_faults(file: PipelineFile, name: str) -> Iterator[Fault]:
    """What is wrong with the settings of a topic's messages; where nothing is, its schema can be read."""
    source = file.section(name)
    if source.get("format") != "kafka":
        return
    kind, schema, registry = source["decode"], source["schema"], source["registry"]
    as_file = 'schema = "messages.desc"' if kind == "protobuf" else 'schema = "messages.avsc"'
    if kind == "json":
        if schema is None and not _is_written(file, f"{name}.schema"):
            expected = "schema, columns and their Spark types"
            yield file.fault(f"{name}.schema", "no schema", expected, f"Add schema to [{name}].")
        elif isinstance(schema, str):
            got, remedy = f"the file {schema} for JSON", 'Write schema = { price = "double" }, or name decode.'
            yield file.fault(f"{name}.schema", got, "columns and their Spark types", remedy)
    elif isinstance(schema, dict):
        got = f"columns and their types for {kind}"
        yield file.fault(f"{name}.schema", got, "a file with the schema", f"Write for example {as_file}.")
    elif schema is None and (kind == "protobuf" or registry is None):
        expected = "a file of descriptors" if kind == "protobuf" else "a file with the schema, or a registry"
        yield file.fault(f"{name}.schema", "no schema", expected, f"Add for example {as_file} to [{name}].")
    elif schema is None and len(listed(source.get("topic"))) > 1:
        got = "several topics and a registry"
        remedy = f"Add for example {as_file}, with the columns that rules need."
        yield file.fault(f"{name}.schema", got, "the schema that all of them are read with", remedy)
    if registry is not None and kind != "avro":
        got = f"a registry for {kind}"
        remedy = "Remove it." if kind == "json" else "Remove it, and name a file of descriptors."
        yield file.fault(f"{name}.registry", got, 'decode = "avro"', remedy)
    if source["message"] is not None and kind != "protobuf":
        yield file.fault(f"{name}.message", f"a message for {kind}", 'decode = "protobuf"', "Remove it.")
    if source["message"] is None and kind == "protobuf":
        remedy = 'Add for example message = "Tick".'
        yield file.fault(f"{name}.message", "no message", "the name of the message in the descriptors", remedy)


def _is_written(file: PipelineFile, place: str) -> bool:
    """Whether a key stands in the file; it is not among the settings where its value was refused."""
    return place in file.lines or any(line.startswith(f"{place}.") for line in file.lines)


def check_registry(file: PipelineFile, name: str) -> None:
    """Refuse a registry that does not answer, or not us."""
    source = file.section(name)
    if source.get("decode") == "avro" and source.get("registry") and source.get("schema"):
        Registry(source["registry"]).schema(0)  # the schema itself comes from a file, so only this asks


def place_of_schema(file: PipelineFile, name: str) -> str:
    """The key that the schema of a source's messages comes from."""
    return f"{name}.schema" if file.section(name).get("schema") else f"{name}.registry"
