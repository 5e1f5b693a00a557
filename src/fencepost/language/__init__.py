"""SQL conditions as boxes or bands: parsed with sqlglot, exact, bound to column types.

The text is parsed without its constants, once per shape; constants are filled in, and turned into ordinals of the
columns' types. Every refusal is a `ConditionError` that marks the place.

source          the text, its tokens, errors that mark a place; refusals has one function per reason
shape, sql      a condition without its constants, and what it becomes
operands        what sqlglot makes of a condition: columns and constants
expression      constant expressions; computing has those over columns
parse, forms    from one text, or from many alike, to a Condition (condition) or a Band (band)
sides           what of a band concerns one side alone
bind, bind_band boxes and bands in ordinals
"""

from fencepost.language.band import Band
from fencepost.language.bind import (
    Binder,
    BoundBox,
    BoundCondition,
    StringRange,
    bind,
    infer_kinds,
    infer_types,
    types_suggested_by,
)
from fencepost.language.bind_band import BoundBand, bind_band
from fencepost.language.condition import LARGEST_BOX_COUNT, Box, ColumnKind, Condition, Part
from fencepost.language.parse import parse
from fencepost.language.source import ConditionError
from fencepost.ordinals import KEY, ColumnType

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
    "StringRange",
    "bind",
    "bind_band",
    "infer_kinds",
    "infer_types",
    "parse",
    "types_suggested_by",
]
