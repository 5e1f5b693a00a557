"""The one table of type names: what Spark calls a type, and how SQL, Arrow, numpy and others spell it."""

import re
from typing import Any, Literal, NamedTuple

import pyarrow as pa

Kind = Literal["double", "bigint", "decimal", "timestamp", "timestamp_ntz", "date", "boolean"]


class Spelling(NamedTuple):
    """A type without parameters."""

    kind: Kind | Literal["key"] | None
    """What rules take its columns for; None where they cannot use them."""
    arrow: Any
    """The Arrow type in which Spark has it."""
    others: tuple[str, ...] = ()
    """Beside Spark's name."""


# A time without a zone in its name is Spark's: an instant.
TYPES: dict[str, Spelling] = {
    "boolean": Spelling("boolean", pa.bool_(), ("bool",)),
    "tinyint": Spelling("bigint", pa.int8(), ("byte", "int8")),
    "smallint": Spelling("bigint", pa.int16(), ("short", "int16", "int2", "uint8")),
    "int": Spelling("bigint", pa.int32(), ("integer", "int32", "int4", "uint16")),
    "bigint": Spelling("bigint", pa.int64(), ("long", "int64", "uint32", "uint64")),
    "float": Spelling("double", pa.float32(), ("real", "float4", "float16", "halffloat", "float32")),
    "double": Spelling("double", pa.float64(), ("double precision", "float8", "float64")),
    "date": Spelling("date", pa.date32(), ("date32", "date32[day]", "date64", "date64[ms]")),
    "timestamp": Spelling(
        "timestamp", pa.timestamp("us", tz="UTC"), ("timestamptz", "timestamp_ltz", "timestamp with time zone")
    ),
    "timestamp_ntz": Spelling("timestamp_ntz", pa.timestamp("us"), ("timestamp without time zone", "datetime")),
    "string": Spelling(
        "key",
        pa.string(),
        ("key", "str", "text", "utf8", "large_string", "large_utf8", "string_view", "char", "varchar"),
    ),
    "binary": Spelling(None, pa.binary(), ("large_binary",)),
}
_NAMES = {spelled: name for name, each in TYPES.items() for spelled in (name, *each.others)}
_DECIMAL = re.compile(r"(?:decimal(?:32|64|128|256)?|numeric|dec) ?\( ?(\d+) ?(?:, ?(-?\d+) ?)?\)")
_TIMESTAMP = re.compile(r"timestamp\[(?:s|ms|us|ns)(, ?tz=.+)?\]")
_STRING = re.compile(r"(?:var)?char ?\( ?\d+ ?\)|dictionary<values=(?:large_)?string(?:_view)?,.*>")


def spark_name(spelled: str) -> str | None:
    """A type as Spark writes it, whoever spelled it; None where there is no such type.

    >>> spark_name("LONG"), spark_name("numeric(9, 2)"), spark_name(str(pa.timestamp("ms"))), spark_name("money")
    ('bigint', 'decimal(9,2)', 'timestamp_ntz', None)
    """
    name = " ".join(spelled.lower().split())
    if digits := decimal_digits(name):
        return "decimal({},{})".format(*digits)
    if match := _TIMESTAMP.fullmatch(name):
        return "timestamp" if match[1] else "timestamp_ntz"
    return "string" if _STRING.fullmatch(name) else _NAMES.get(name)


def is_string(type_: Any) -> bool:
    """Whether an Arrow type is one of strings."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def decimal_digits(name: str) -> tuple[int, int] | None:
    """Precision and scale, where a name is that of a decimal."""
    match = _DECIMAL.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2] or 0))
