"""Which columns of a frame the rules need: found and checked before a query starts."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.ordinals.schema import read_schema
from fencepost.ordinals.spellings import TYPES
from fencepost.snapshot import Snapshot, Table
from fencepost.snapshot.labels import LABELS
from fencepost.snapshot.sides import band_with

KEY = "key"
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10}
"""Spark's integers that doubles and decimals can hold, with their decimal digits."""


class Column(NamedTuple):
    """A column that rules need."""

    name: str
    """As the snapshot calls it."""
    own: str
    """As the frame calls it."""


def arrow_type(field: Any) -> Any:
    """The Arrow type in which Spark sends a column to Python."""
    type_ = field.dataType.simpleString()
    if type_.startswith("decimal("):
        return pa.decimal128(field.dataType.precision, field.dataType.scale)
    if type_ == "map<string,string>":
        return LABELS
    if type_ not in TYPES:
        raise FencepostError(
            f"the column {field.name} of type {type_}", f"one of {', '.join(TYPES)} or a decimal", "Cast the column."
        )
    return TYPES[type_].arrow


def arrow_schema(fields: Iterable[Any]) -> Any:
    """The Arrow schema in which Spark sends columns to Python."""
    return pa.schema([(field.name, arrow_type(field)) for field in fields])


def needed_columns(snapshot: Snapshot) -> dict[str, str]:
    """The columns that some box needs, with the attribute's type or "key"; those of bands alone are left out."""
    return {name: str(snapshot.types[name]) for name in snapshot.attributes} | dict.fromkeys(snapshot.keys, KEY)


def bind_columns(types: Sequence[tuple[str, str]], needed: Mapping[str, str], snapshot: Snapshot) -> list[Column]:
    """The frame's own columns for those that are needed; refuses a missing one and an inexact conversion.

    `types` are the names and types of the frame's columns, as `DataFrame.dtypes` has them.
    """
    fields = dict(types)
    names = Table(dict.fromkeys(fields, ()))
    bound = []
    for name, kind in needed.items():
        own = own_name(names, name, partial(_need, snapshot, name))
        if [name for name, _ in types].count(own) > 1:
            raise FencepostError(
                f"a frame with two columns named {own}", "one, since rules need it", "Rename one of the two."
            )
        if not _converts(fields[own], kind):
            wanted = "string" if kind == KEY else kind
            raise FencepostError(
                f"a frame whose column {own} is {fields[own]}",
                f"{wanted} or a type that converts to it exactly, {_need(snapshot, name)}",
                f"Cast the column to {wanted}, or compile or publish the rules with the frame's schema.",
            )
        bound.append(Column(name, own))
    return bound


def usable_columns(
    types: Sequence[tuple[str, str]], needed: Mapping[str, str], added: Container[str], snapshot: Snapshot
) -> dict[str, str]:
    """The columns that are needed, without `added` ones that the frame lacks or has in a type that does not convert."""
    found = {}
    for name, kind in needed.items():
        if name in added:
            try:
                bind_columns(types, {name: kind}, snapshot)
            except FencepostError:
                continue
        found[name] = kind
    return found


def own_name(names: Table, wanted: str, reason: Callable[[], str]) -> str:
    """The frame's own name of a column, which it must have."""
    own = names.find(wanted)
    if own is None:
        raise FencepostError(
            f"a frame without the column {wanted}",
            f"that column, {reason()}",
            f"Add it; the frame has {', '.join(names.names) or 'no columns'}.",
        )
    return own


def quoted(name: str) -> Any:
    """A column of a frame, whatever characters its name has."""
    return F.col("`" + name.replace("`", "``") + "`")


def _need(snapshot: Snapshot, column: str) -> str:
    """Says why a column is needed: for a rule of this version, or for the schema of the directory."""
    user = snapshot.user_of(column)
    if user is None and snapshot.bands is not None and (row := band_with(snapshot.bands, column)) is not None:
        user = int(snapshot.rules.ids[row])
    return "since the schema of the published rules has it" if user is None else f"since rule {user} needs it"


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
