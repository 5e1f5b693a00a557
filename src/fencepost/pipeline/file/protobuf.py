"""Descriptors of Protobuf, as ``protoc --descriptor_set_out`` writes them: the columns of a message."""

from typing import Any

from fencepost.errors import FencepostError
from fencepost.pipeline.file.faults import meant

_PLAIN = {
    **dict.fromkeys([3, 4, 6, 16, 18], "bigint"),  # int64, uint64, fixed64, sfixed64, sint64
    **dict.fromkeys([5, 7, 13, 15, 17], "int"),  # int32, fixed32, uint32, sfixed32, sint32
    1: "double",
    2: "float",
    8: "boolean",
    9: "string",
    12: "binary",
    14: "string",  # the name of an enum's value
}
"""By the number of the type in a descriptor."""
_MESSAGE, _REPEATED = 11, 3


def find_message(content: bytes, name: str) -> tuple[str, dict[str, str | None]]:
    """The full name of a message, and its columns; a type is None where only Spark can tell it."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError
    except ImportError:
        raise FencepostError("no protobuf", "it to be installed", "pip install 'fencepost[spark]'") from None
    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError as error:
        raise FencepostError(
            f"a file that is no set of descriptors ({error})",
            "what protoc writes",
            "Write it: protoc --include_imports --descriptor_set_out=FILE messages.proto",
        ) from None
    messages: dict[str, Any] = {}
    for file in files:
        for message in file.message_type:
            _collect(message, file.package, messages)
    chosen = [full for full in messages if name in (full, full.rpartition(".")[2])]
    if len(chosen) != 1:
        got = f"{len(chosen)} messages {name}" if chosen else f"no message {name} in the descriptors"
        raise FencepostError(got, "one message of that name", meant(name, messages))
    return chosen[0], {field.name: _type_of(field) for field in messages[chosen[0]].field}


def _collect(message: Any, space: str, messages: dict[str, Any]) -> None:
    full = f"{space}.{message.name}".lstrip(".")
    messages[full] = message
    for inner in message.nested_type:
        if not inner.options.map_entry:
            _collect(inner, full, messages)


def _type_of(field: Any) -> str | None:
    if field.type == _MESSAGE:
        is_instant = field.type_name == ".google.protobuf.Timestamp" and field.label != _REPEATED
        return "timestamp" if is_instant else None
    plain = _PLAIN.get(field.type)
    return f"array<{plain}>" if field.label == _REPEATED and plain else plain
