"""The names of rules: which rule has which."""

from functools import cached_property
from typing import Any

import numpy as np

from fencepost.indexes.arrays import Int64s
from fencepost.snapshot.keys import KeyColumn


class NameIndex:
    """Rows by the name that each has, which no other of them has; built when it is first asked.

    >>> import pyarrow as pa
    >>> NameIndex(pa.array(["floor", None, "roof"])).rows_of(pa.array(["roof", "attic", None])).tolist()
    [2, -1, -1]
    """

    def __init__(self, names: Any) -> None:
        self._names = names

    @cached_property
    def _found(self) -> tuple[KeyColumn, Int64s]:
        """The names with their codes, and the row of each code."""
        column = KeyColumn.of("name", self._names)
        codes = column.codes(self._names)
        rows = np.empty(len(column), np.int64)
        rows[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
        return column, rows

    def rows_of(self, names: Any) -> Int64s:
        """The row of each of these names, an Arrow array, or -1."""
        if self._names.null_count == len(self._names):
            return np.full(len(names), -1, np.int64)
        column, rows = self._found
        codes = column.codes(names)
        return np.where(codes >= 0, rows[np.maximum(codes, 0)], -1)
