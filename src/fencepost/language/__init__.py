"""SQL conditions as boxes or bands: parsed with sqlglot, exact, bound to column types.

The text is parsed without its constants, once per shape; constants are filled in (`parse`), and turned into
ordinals of the columns' types (`bind`). Every refusal is a `ConditionError` that marks the place.
"""

from fencepost.language.band_binding import BoundBand, bind_band
from fencepost.language.bands import Band
from fencepost.language.binding import KEY, Binder, BoundBox, BoundCondition, ColumnType, bind, infer_types
from fencepost.language.boxes import LARGEST_BOX_COUNT, Box, ColumnKind, Condition, Part
from fencepost.language.source import ConditionError
from fencepost.language.templates import parse

__all__ = [
    "KEY",
    "LARGEST_BOX_COUNT",
    "Band",
    "Binder",
    "BoundBand",
    "BoundBox",
    "BoundCondition",
    "Box",
    "ColumnKind",
    "ColumnType",
    "Condition",
    "ConditionError",
    "Part",
    "bind",
    "bind_band",
    "infer_types",
    "parse",
]
