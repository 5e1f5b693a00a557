"""Attribute values as int64 codes that keep their order exactly, so that every range is one `[first, last]`."""

from fencepost.ordinals.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    AttributeType,
    Kind,
    Mask,
    Ordinals,
)

__all__ = [
    "BIGINT",
    "BOOLEAN",
    "DATE",
    "DOUBLE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "AttributeType",
    "Kind",
    "Mask",
    "Ordinals",
]
