"""Schemas of Avro: the columns that Spark makes of a record, and the form in which it reads all versions of one."""

import json
import re
from collections.abc import Mapping
from typing import Any

from fencepost._text import name_kind
from fencepost.errors import FencepostError

DECODED = "fencepost_is_decoded"
"""A field that every record has once it is read: Spark makes nulls of a message that it cannot decode."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("string", "uuid"): "string",
}
_MOST_DIGITS = 38


def read_record(text: str | bytes) -> dict[str, Any]:
    """The schema of a record, as it is written; refuses what is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FencepostError(f"a schema that is no JSON ({error})", "the schema of a record", "Correct it.") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        got = f"the type {found.get('type')!r}" if isinstance(found, dict) else name_kind(found)
        raise FencepostError(got, 'the schema of a record, {"type": "record", ...}', "Name the schema of messages.")
    try:
        _Types().of(found, "")
    except RecursionError:
        raise FencepostError("a schema nested too deeply", "the schema of a record", "Correct it.") from None
    return found


def record_columns(record: Mapping[str, Any]) -> dict[str, str | None]:
    """The columns of a record by name; a type is None where only Spark can tell it.

    >>> record_columns({"type": "record", "name": "Tick", "fields": [{"name": "price", "type": ["null", "double"]}]})
    {'price': 'double'}
    """
    types = _Types()
    types.of(record, "")
    return {field["name"]: types.of_field[field["name"]] for field in record["fields"]}


def reader_schema(record: Mapping[str, Any]) -> str:
    """The schema that Spark reads with: a field that a message does not have is null, if it has no default."""
    fields = [_optional(field) for field in record["fields"]]
    return json.dumps({**record, "fields": [*fields, {"name": DECODED, "type": "boolean", "default": True}]})


def _optional(field: Mapping[str, Any]) -> Mapping[str, Any]:
    if "default" in field:
        return field
    branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return {**field, "type": ["null", *(each for each in branches if each != "null")], "default": None}


class _Types:
    """The types that Spark makes of a schema and of those that it names."""

    def __init__(self) -> None:
        self._named: dict[str, str | None] = {}
        self._open: set[str] = set()
        self.of_field: dict[str, str | None] = {}
        """Of the outermost record."""

    def of(self, schema: Any, space: str) -> str | None:
        if isinstance(schema, list):
            return self._of_union(schema, space)
        if isinstance(schema, str):
            return self._of_name(schema, space)
        if not isinstance(schema, Mapping):
            raise _wrong(f"a type that is {schema!r}", "a name, an object or an array")
        match schema.get("type"):
            case "record" | "error":
                return self._of_record(schema, space)
            case "enum" | "fixed" as kind:
                full = _full_name(schema, space)
                found = "string" if kind == "enum" else _decimal(schema) or "binary"
                self._named[full] = found
                return found
            case "array":
                return _around("array<{}>", self.of(schema.get("items"), space))
            case "map":
                return _around("map<string,{}>", self.of(schema.get("values"), space))
            case dict() | list() as inner:
                return self.of(inner, space)
            case str() as name:
                return self._of_logical(schema, name, space)
            case other:
                raise _wrong(f"a type that is {other!r}", "a name, an object or an array")

    def _of_logical(self, schema: Mapping[str, Any], name: str, space: str) -> str | None:
        logical = schema.get("logicalType")
        if logical is None or name not in _PLAIN:
            return self._of_name(name, space)
        if name == "bytes":
            return _decimal(schema) or "binary"
        if (name, logical) in _LOGICAL:
            return _LOGICAL[name, logical]
        return None if str(logical).startswith("time") else _PLAIN[name]  # later releases of Spark know more times

    def _of_name(self, name: str, space: str) -> str | None:
        if name == "null":
            return None
        if name in _PLAIN:
            return _PLAIN[name]
        for full in (name if "." in name else f"{space}.{name}".lstrip("."), name):
            if full in self._open:
                return None  # a record in itself
            if full in self._named:
                return self._named[full]
        raise _wrong(f"the type {name!r}", "one of Avro, or one that the schema has described before")

    def _of_union(self, branches: list[Any], space: str) -> str | None:
        types = [self.of(branch, space) for branch in branches if branch != "null"]
        if len(types) == 1:
            return types[0]
        if None in types or not types:
            return None
        if set(types) == {"int", "bigint"}:
            return "bigint"
        if set(types) == {"float", "double"}:
            return "double"
        return f"struct<{','.join(f'member{number}:{type_}' for number, type_ in enumerate(types))}>"

    def _of_record(self, schema: Mapping[str, Any], space: str) -> str | None:
        full = _full_name(schema, space)
        is_outermost = not self._open and not self._named
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(each, Mapping) and "type" in each for each in fields):
            raise _wrong(f"the record {full} without fields", 'an array of {"name": ..., "type": ...}')
        self._open.add(full)
        types: dict[str, str | None] = {}
        for field in fields:
            name = field.get("name")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise _wrong(f"the field {name!r} of {full}", "letters, digits and _ as its name")
            if name in types:
                raise _wrong(f"two fields {name} of {full}", "a name of its own for each")
            types[name] = self.of(field["type"], full.rpartition(".")[0])
        self._open.remove(full)
        if is_outermost:
            self.of_field = types
        whole = None if None in types.values() else f"struct<{','.join(f'{name}:{t}' for name, t in types.items())}>"
        self._named[full] = whole
        return whole


def _full_name(schema: Mapping[str, Any], space: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise _wrong(f"the name {name!r}", "letters, digits, _ and dots")
    return name if "." in name else f"{schema.get('namespace', space)}.{name}".lstrip(".")


def _decimal(schema: Mapping[str, Any]) -> str | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return f"decimal({precision},{scale})" if 0 <= scale <= precision <= _MOST_DIGITS and precision else None


def _around(shape: str, inner: str | None) -> str | None:
    return None if inner is None else shape.format(inner)


def _wrong(got: str, expected: str) -> FencepostError:
    return FencepostError(got, expected, "Correct the schema.")
