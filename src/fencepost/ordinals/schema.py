"""Schemas of every origin as column types: strings are keys, everything else an attribute."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.ordinals.spellings import spark_name
from fencepost.ordinals.types import KEY, AttributeType, ColumnType


class Schema(NamedTuple):
    """The columns that rules can use, and why others cannot be used."""

    types: dict[str, ColumnType]
    unusable: dict[str, FencepostError]

    def as_texts(self) -> dict[str, str]:
        """Every column with the name of its type."""
        return {name: str(type_) for name, type_ in self.types.items()}


def described_columns(schema: Any) -> dict[str, Any]:
    """Every column of a schema with whatever describes its type."""
    return dict(_fields(schema))


def read_schema(schema: Any) -> Schema:
    """The column types of an Arrow schema, a mapping of column to type, or a Spark StructType.

    >>> read_schema({"price": "decimal(9,2)", "symbol": "string"}).types["symbol"]
    'key'
    """
    types: dict[str, ColumnType] = {}
    unusable: dict[str, FencepostError] = {}
    for name, described in _fields(schema):
        if name in types or name in unusable:
            raise FencepostError(
                f"a schema with two columns named {name}", "one column of a name", "Rename one of the two."
            )
        try:
            types[name] = _column_type(described)
        except FencepostError as error:
            unusable[name] = FencepostError(f"the column {name}, {error.got}", error.expected, error.remedy)
    return Schema(types, unusable)


def _fields(schema: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(schema, Mapping):
        return schema.items()
    if isinstance(schema, pa.Schema):
        return [(field.name, field.type) for field in schema]
    try:
        return [(field.name, field.dataType.simpleString()) for field in schema.fields]  # Spark
    except (AttributeError, TypeError):
        raise FencepostError(
            f"{type(schema).__name__} as a schema",
            "an Arrow schema, a dict of column to type, or a Spark StructType",
            'Write for example {"price": "double", "symbol": "string"}.',
        ) from None


def _column_type(described: Any) -> ColumnType:
    if described is str or (isinstance(described, np.dtype) and described.kind in "UT"):
        return KEY
    if isinstance(described, (str, pa.DataType)) and spark_name(str(described)) == "string":
        return KEY
    return AttributeType.parse(described)
