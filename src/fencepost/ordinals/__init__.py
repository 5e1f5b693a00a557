"""Attribute values as int64 codes that keep their order exactly, so that every range is one `[first, last]`.

types           the types of attributes, their limits, and the way to and from ordinals
spellings       the one table of type names: SQL, Arrow, Spark and others
schema          schemas of any origin as column types
arrays, scalars columns and single values to ordinals and back
zones           which instant a wall clock shows
"""

from fencepost.ordinals.spellings import Kind
from fencepost.ordinals.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    KEY,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    AttributeType,
    ColumnType,
    Mask,
    Ordinals,
)

__all__ = [
    "BIGINT",
    "BOOLEAN",
    "DATE",
    "DOUBLE",
    "KEY",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "AttributeType",
    "ColumnType",
    "Kind",
    "Mask",
    "Ordinals",
]
