"""Attribute values as int64 codes that keep their order exactly, so that every range is one `[first, last]`."""

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
