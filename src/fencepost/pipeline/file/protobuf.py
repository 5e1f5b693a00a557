"""Descriptors of Protobuf, as ``protoc --descriptor_set_out`` writes them: a message, its columns, and its rows.

Messages are decoded here and not by Spark: its package for that is missing in many repositories, makes nulls of zeros,
and negative numbers of large ones.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from fencepost.errors import FencepostError
from fencepost.pipeline.file.faults import meant

_PLAIN = {
    **dict.fromkeys([3, 4, 6, 7, 13, 16, 18], "bigint"),  # int64, uint64, fixed64, fixed32, uint32, sfixed64, sint64
    **dict.fromkeys([5, 15, 17], "int"),  # int32, sfixed32, sint32
    1: "double",
    2: "float",
    8: "boolean",
    9: "string",
    12: "binary",
    14: "string",  # the name of an enum's value
}
"""By the number of the type in a descriptor."""
_GROUP, _MESSAGE, _BYTES, _ENUM, _UNSIGNED = 10, 11, 12, 14, (4, 6)
_INSTANT, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63

_Read = Callable[[Any], Any]


def find_message(content: bytes, name: str) -> tuple[str, dict[str, str | None]]:
    """The full name of a message, and its columns with their types.

    A field whose message contains itself has no type, and no column.
    """
    messages = _messages(content)
    chosen = [full for full in messages if name in (full, full.rpartition(".")[2])]
    if len(chosen) != 1:
        got = f"{len(chosen)} messages {name}" if chosen else f"no message {name} in the descriptors"
        raise FencepostError(got, "one message of that name", meant(name, messages))
    columns: dict[str, str | None] = dict(_fields(messages[chosen[0]], ()))
    if not columns:
        raise FencepostError(f"the message {chosen[0]} has no field", "one with fields", "Name another one.")
    return chosen[0], columns


class Decoder:
    """Makes a tuple of a message, a value for each column of `find_message`; None of what is no such message.

    Args:
        content: the descriptors.
        message: its full name.
    """

    def __init__(self, content: bytes, message: str) -> None:
        self._content, self._message = content, message
        self._made: tuple[Any, _Read] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}  # classes of messages are made where they are used

    def __call__(self, value: bytes | None) -> tuple[Any, ...] | None:
        """The row of a message."""
        from google.protobuf.message import DecodeError

        if value is None:
            return None
        if self._made is None:
            self._made = _reader(self._content, self._message)
        parse, read = self._made
        try:
            found = parse(bytes(value))
            if not found.IsInitialized():
                return None  # without a field that is required
            row: tuple[Any, ...] = read(found)
        except (DecodeError, OverflowError):
            return None
        return row


@cache
def _reader(content: bytes, message: str) -> tuple[Any, _Read]:
    from google.protobuf import message_factory

    descriptor = _messages(content)[message]
    return message_factory.GetMessageClass(descriptor).FromString, _row_reader(descriptor, ())


@cache
def _messages(content: bytes) -> Mapping[str, Any]:
    """The descriptors of all messages by their full names."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError
    except ImportError:
        raise FencepostError("no protobuf", "it to be installed", "pip install 'fencepost[spark]'") from None
    remedy = "Write it: protoc --include_imports --descriptor_set_out=FILE messages.proto"
    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError as error:
        got = f"a file that is no set of descriptors ({error})"
        raise FencepostError(got, "what protoc writes", remedy) from None
    pool = DescriptorPool()
    found: dict[str, Any] = {}
    there = {file.name for file in files}
    for file in files:
        for imported in file.dependency:
            if imported not in there:
                there.add(imported)
                _add_well_known(pool, imported, remedy)
        try:
            pool.Add(file)
            messages = pool.FindFileByName(file.name).message_types_by_name.values()
        except (TypeError, KeyError) as error:
            got = f"descriptors that do not fit together ({str(error).strip()})"
            raise FencepostError(got, "what protoc writes", remedy) from None
        for message in messages:
            _collect(message, found)
    return found


def _add_well_known(pool: Any, imported: str, remedy: str) -> None:
    """Add a file that a set imports and leaves out, where Protobuf itself brings it."""
    from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2

    for module in (timestamp_pb2, duration_pb2, wrappers_pb2):
        if imported == module.DESCRIPTOR.name:
            copied = descriptor_pb2.FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(copied)
            pool.Add(copied)
            return
    raise FencepostError(f"descriptors without {imported}, which they import", "all that they import", remedy)


def _collect(message: Any, found: dict[str, Any]) -> None:
    found[message.full_name] = message
    for inner in message.nested_types:
        if not inner.GetOptions().map_entry:
            _collect(inner, found)


# -- types ----------------------------------------------------------------------------------------------------


def _fields(message: Any, around: tuple[str, ...]) -> list[tuple[str, str]]:
    """The fields of a message that have a type, in their order."""
    around = (*around, message.full_name)
    typed = ((field.name, _type_of(field, around)) for field in message.fields)
    return [(name, type_) for name, type_ in typed if type_ is not None]


def _type_of(field: Any, around: tuple[str, ...]) -> str | None:
    if _is_map(field):
        key, value = (_type_of(field.message_type.fields_by_name[name], around) for name in ("key", "value"))
        return None if value is None else f"map<{key},{value}>"
    single = _single_type(field, around)
    return f"array<{single}>" if _is_repeated(field) and single else single


def _single_type(field: Any, around: tuple[str, ...]) -> str | None:
    if field.type not in (_MESSAGE, _GROUP):
        return _PLAIN[field.type]
    message = field.message_type
    if message.full_name == _INSTANT:
        return "timestamp"
    if message.full_name == _DURATION:
        return "interval day to second"
    if message.full_name in _WRAPPERS:
        return _PLAIN[message.fields_by_name["value"].type]
    fields = [] if message.full_name in around else _fields(message, around)
    return f"struct<{','.join(f'`{name}`:{type_}' for name, type_ in fields)}>" if fields else None


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)  # protobuf before 6.31 has label alone
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)


# -- values ---------------------------------------------------------------------------------------------------


def _row_reader(message: Any, around: tuple[str, ...]) -> _Read:
    """From a message to the tuple of its fields: null where one can be missing and is, else zero as Protobuf has it."""
    typed = {name for name, _ in _fields(message, around)}
    around = (*around, message.full_name)
    readers = [(each.name, _field_reader(each, around), each.has_presence) for each in message.fields]
    chosen = [each for each in readers if each[0] in typed]

    def read(found: Any) -> tuple[Any, ...]:
        return tuple(
            None if has_presence and not found.HasField(name) else reader(getattr(found, name))
            for name, reader, has_presence in chosen
        )

    return read


def _field_reader(field: Any, around: tuple[str, ...]) -> _Read:
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        key, one = _single_reader(field.message_type.fields_by_name["key"], around), _single_reader(value, around)
        return lambda found: {key(each): one(found[each]) for each in found}
    single = _single_reader(field, around)
    return (lambda found: [single(each) for each in found]) if _is_repeated(field) else single


def _single_reader(field: Any, around: tuple[str, ...]) -> _Read:
    if field.type in (_MESSAGE, _GROUP):
        message = field.message_type
        if message.full_name == _INSTANT:
            return lambda found: _EPOCH + _time(found)
        if message.full_name == _DURATION:
            return _time
        if message.full_name in _WRAPPERS:
            single = _single_reader(message.fields_by_name["value"], around)
            return lambda found: single(found.value)
        return (lambda _: None) if message.full_name in around else _row_reader(message, around)
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda found: names.get(found, str(found))
    if field.type in _UNSIGNED:
        return _checked
    return bytearray if field.type == _BYTES else lambda found: found


def _time(found: Any) -> timedelta:
    return timedelta(seconds=found.seconds, microseconds=found.nanos // 1000)


def _checked(number: int) -> int:
    if number >= _LARGEST:
        raise OverflowError("an unsigned number beyond bigint")
    return number
