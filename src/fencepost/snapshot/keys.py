"""Key columns: strings as numbers, and the numbers of several columns as one."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import kernel_ready
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.strings import (
    UNKNOWN_STRING,
    StringTable,
    combine_codes,
    find_strings,
    string_table,
)
from fencepost.ordinals.spellings import is_string

_SAFE = 2**62
_STRING = pa.string()


class KeyColumn:
    """The strings that rules compare one key column with, each with its code.

    A column is a stack of tables: the rules of a later layer may bring strings that the earlier ones do not have,
    and no code ever changes.

    >>> column = KeyColumn.of("symbol", pa.array(["IBM", "AAPL", "IBM"]))
    >>> column.codes(pa.array(["AAPL", None, "MSFT"])).tolist()
    [0, -1, -2]
    >>> column.extended(pa.array(["MSFT", "IBM"])).codes(pa.array(["AAPL", None, "MSFT"])).tolist()
    [0, -1, 2]
    """

    def __init__(self, name: str, tables: Sequence[StringTable]) -> None:
        self.name = name
        self.tables = tuple(tables)
        counts = [0, *(len(table.offsets) - 1 for table in tables)]
        self._starts: list[int] = np.cumsum(counts).tolist()

    @classmethod
    def of(cls, name: str, values: Any) -> "KeyColumn":
        """The column with all distinct strings of an Arrow array, in ascending order."""
        return cls(name, ()).extended(values)

    def extended(self, values: Any) -> "KeyColumn":
        """This column, and a table of the distinct strings that it does not have yet."""
        distinct = pc.unique(_as_strings(self.name, values).drop_null())
        if self.tables:
            distinct = distinct.filter(pa.array(self.codes(distinct) == UNKNOWN_STRING))
        ordered = distinct.take(pc.array_sort_indices(distinct))
        offsets, data, _ = _buffers(ordered)
        return KeyColumn(self.name, (*self.tables, string_table(offsets.copy(), data)))

    def __len__(self) -> int:
        return self._starts[-1]

    def codes(self, values: Any) -> Int64s:
        """The code of each string: -1 for null, -2 for one that no rule mentions."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if pa.types.is_dictionary(values.type):
            known = np.append(self.codes(values.dictionary), [-1])
            indices = pc.fill_null(values.indices.cast(pa.int64()), len(known) - 1).to_numpy(zero_copy_only=False)
            taken: Int64s = np.take(known, indices)
            return taken
        offsets, data, valid = _buffers(values if values.type == _STRING else _as_strings(self.name, values))
        numbers = np.full(len(values), UNKNOWN_STRING, np.int64)
        for table, start in zip(self.tables, self._starts, strict=False):
            find_strings(table, offsets, data, valid, start, numbers)
        return numbers

    def string(self, code: int) -> str:
        """The string with this code."""
        which = bisect_right(self._starts, code) - 1
        offsets, data, _ = self.tables[which]
        number = code - self._starts[which]
        return bytes(data[offsets[number] : offsets[number + 1]]).decode()

    def strings(self, codes: Int64s) -> Any:
        """The strings with these codes, an Arrow array."""
        tables = [
            pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
            for offsets, data, _ in self.tables
        ]
        return pa.concat_arrays(tables).take(pa.array(codes))


def check_strings(name: str, values: Any) -> Any:
    """An Arrow array, perhaps a dictionary, that must have strings."""
    own = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    return values if is_string(own) else _as_strings(name, values)


def _as_strings(name: str, values: Any) -> Any:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_null(array.type):
        return array.cast(pa.large_string())
    if not is_string(array.type):
        raise FencepostError(
            f"column {name} of type {array.type}",
            "strings, since rules compare it with quoted strings",
            "Cast the column to a string in the same form that the rules use.",
        )
    return array.cast(pa.large_string())


def _buffers(strings: Any) -> tuple[Int64s, Any, Any]:
    """Offsets, bytes and validity of an Arrow array of strings, large or not."""
    _, offset_buffer, data_buffer = strings.buffers()
    if offset_buffer is None or not len(strings):
        return np.zeros(len(strings) + 1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.bool_)
    dtype = np.int32 if strings.type == _STRING else np.int64
    offsets = np.frombuffer(offset_buffer, dtype)[strings.offset : strings.offset + len(strings) + 1]
    if dtype == np.int32:
        offsets = offsets.astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    valid = strings.is_valid().to_numpy(zero_copy_only=False) if strings.null_count else np.zeros(0, np.bool_)
    return kernel_ready(offsets), kernel_ready(data), kernel_ready(valid)


class KeyCombination:
    """The codes of several key columns as one code: pairs are numbered column by column, exactly.

    `steps[i]` are the pairs (code so far, code of column i + 1) that occur, as ``a * sizes[i + 1] + b``, ascending;
    the rank of a pair is the code so far of the next step.
    """

    def __init__(self, sizes: Sequence[int], steps: Sequence[Int64s]) -> None:
        self.sizes = list(sizes)
        self.steps = list(steps)

    @classmethod
    def of(cls, columns: Sequence[Int64s], sizes: Sequence[int]) -> tuple["KeyCombination", Int64s]:
        """The combination of these code columns, and the combined code of each row."""
        codes = columns[0]
        steps: list[Int64s] = []
        for column, size in zip(columns[1:], sizes[1:], strict=True):
            if (int(codes.max(initial=0)) + 1) * size >= _SAFE:
                raise FencepostError(
                    f"{len(columns)} key columns with {size} strings in one of them",
                    "fewer combinations than 2**62",
                    "Join some of the key columns into one.",
                )
            step, codes = np.unique(codes * size + column, return_inverse=True)
            steps.append(step)
        return cls(sizes, steps), codes

    def apart(self, combined: Int64s) -> list[Int64s]:
        """The code columns behind combined codes."""
        columns: list[Int64s] = []
        for size, step in zip(reversed(self.sizes[1:]), reversed(self.steps), strict=True):
            combined, column = np.divmod(step[combined], size)
            columns.insert(0, column)
        return [combined, *columns]

    def codes(self, columns: Sequence[Int64s]) -> Int64s:
        """The combined code of each row; negative for a combination that does not occur."""
        if not self.steps:
            return columns[0]
        codes = columns[0].copy()
        for column, size, step in zip(columns[1:], self.sizes[1:], self.steps, strict=True):
            combine_codes(codes, kernel_ready(column), size, kernel_ready(step))
        return codes
