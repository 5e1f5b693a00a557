"""Tables in a short form, for a way on which every byte is copied often: few values as their codes, ids as bytes.

>>> short = pa.table({"detect": coded(np.array([0, 1, 0]), pa.array(["enter", "exit"]))}).replace_schema_metadata(CODED)
>>> decoded(short)["detect"].to_pylist()
['enter', 'exit', 'enter']
"""

from typing import Any

import numpy as np
import pyarrow as pa

CODED = {b"fencepost coded": b"1"}
"""The metadata of a table in the short form."""
_SHORTENS = 4
"""Values are coded if each is there so many times on average."""


def is_worth_it(values: int, rows: int) -> bool:
    """Whether codes of so many values take less than the values themselves."""
    return _SHORTENS * values <= rows


def coded(codes: Any, values: Any) -> Any:
    """Values by their places in an array of all of them, -1 for null."""
    kind = next(kind for kind in (np.int8, np.int16, np.int32) if len(values) <= np.iinfo(kind).max)
    missing = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(kind), mask=missing if missing.any() else None), values)


def coded_nulls(rows: int, type_: Any) -> Any:
    """Nulls of any type, a byte each."""
    return pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int8()), pa.nulls(0, type_))


def cast_coded(column: Any, type_: Any) -> Any:
    """A column of a table in the short form that is of another type once it is decoded."""
    if pa.types.is_fixed_size_binary(column.type):
        return column
    if not pa.types.is_dictionary(column.type):
        return column.cast(type_)
    chunks = [pa.DictionaryArray.from_arrays(each.indices, each.dictionary.cast(type_)) for each in column.chunks]
    return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, type_))


def decoded(table: Any) -> Any:
    """The table in its usual form; others as they are."""
    if not (table.schema.metadata or {}).keys() & CODED.keys():
        return table
    return pa.table([_decoded(column) for column in table.columns], names=table.column_names)


def _decoded(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        return pa.chunked_array([each.dictionary.take(each.indices) for each in column.chunks], column.type.value_type)
    if pa.types.is_fixed_size_binary(column.type):
        return pa.chunked_array([_in_hex(each) for each in column.chunks], pa.string())
    return column


def _in_hex(digests: Any) -> Any:
    size = digests.type.byte_width
    content = memoryview(digests.buffers()[1])[digests.offset * size : (digests.offset + len(digests)) * size]
    offsets = np.arange(len(digests) + 1, dtype=np.int32) * np.int32(2 * size)
    return pa.StringArray.from_buffers(len(digests), pa.py_buffer(offsets), pa.py_buffer(content.hex().encode()))
