"""Which columns of a frame the rules need: found and checked before a query starts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.rules.schemas import read_schema
from fencepost.snapshot import Snapshot, Table

__all__ = ["KEY", "Column", "arrow_type", "bound_columns", "needed_columns"]

KEY = "key"
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10}
"""Spark's integers that doubles and decimals can hold, with their decimal digits."""


class Column(NamedTuple):
    """A column that rules need."""

    name: str
    """As the snapshot calls it."""
    own: str
    """As the frame calls it."""


_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def arrow_type(field: Any) -> Any:
    """The Arrow type in which Spark sends a column to Python."""
    type_ = field.dataType.simpleString()
    found = _ARROW.get(type_)
    if found is None and type_.startswith("decimal("):
        found = pa.decimal128(field.dataType.precision, field.dataType.scale)
    if found is None:
        raise FencepostError(
            f"the column {field.name} of type {type_}", f"one of {', '.join(_ARROW)} or a decimal", "Cast the column."
        )
    return found


def needed_columns(snapshot: Snapshot) -> dict[str, str]:
    """The columns that some box needs, with the attribute's type or "key"; those of bands alone are left out."""
    return {name: str(snapshot.types[name]) for name in snapshot.attributes} | dict.fromkeys(snapshot.keys, KEY)


def bound_columns(frame_schema: Any, needed: Mapping[str, str], snapshot: Snapshot) -> list[Column]:
    """The frame's own columns for those that are needed; refuses a missing one and an inexact conversion.

    Args:
        frame_schema: the StructType of the frame.
        needed: columns and their types, "key" for strings.
        snapshot: where to find the rule that needs a column.
    """
    fields = {field.name: field.dataType.simpleString() for field in frame_schema.fields}
    names = Table(dict.fromkeys(fields, ()))
    bound = []
    for name, kind in needed.items():
        own = names.find(name)
        if own is None:
            raise FencepostError(
                f"a frame without the column {name}",
                f"that column, since {_user(snapshot, name)}",
                f"Add it; the frame has {', '.join(fields) or 'no columns'}.",
            )
        if [field.name for field in frame_schema.fields].count(own) > 1:
            raise FencepostError(
                f"a frame with two columns named {own}", "one, since rules need it", "Rename one of the two."
            )
        if not _converts(fields[own], kind):
            wanted = "string" if kind == KEY else kind
            raise FencepostError(
                f"a frame whose column {own} is {fields[own]}",
                f"{wanted} or a type that converts to it exactly, since {_user(snapshot, name)}",
                f"Cast the column to {wanted}, or compile or publish the rules with the frame's schema.",
            )
        bound.append(Column(name, own))
    return bound


def _user(snapshot: Snapshot, column: str) -> str:
    """Says who needs a column: a rule of this version, or the schema of the directory."""
    user = snapshot.user_of(column)
    return "the schema of the published rules has it" if user is None else f"rule {user} needs it"


def _converts(offered: str, wanted: str) -> bool:
    """Whether every value of a Spark type has an exact counterpart."""
    own = read_schema({"column": offered}).types.get("column")
    if own is None or KEY in (own, wanted):
        return own == wanted
    assert isinstance(own, AttributeType), "whatever is no key is an attribute"
    to = AttributeType.parse(wanted)
    if own == to:
        return True
    digits = _INTEGER_DIGITS.get(offered)
    if to.kind == "double":
        return digits is not None
    if to.kind == "decimal":
        whole = own.precision - own.scale if own.kind == "decimal" else digits
        return whole is not None and own.scale <= to.scale and whole <= to.precision - to.scale
    return to.kind == "bigint" and own.kind == "decimal" and own.scale == 0
