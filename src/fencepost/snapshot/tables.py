"""Tables as callers have them (Arrow, pandas, polars, dicts of arrays, records): columns by name, without case."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from fencepost._arrow import array_of
from fencepost._text import name_kind
from fencepost.errors import FencepostError
from fencepost.snapshot.records import column_of_records, read_records


class Table:
    """A table's columns, by the names that rules use.

    A name matches exactly, or without case if that leaves one column. Of records, a list of dicts, a column has a null
    where a record lacks it.

    >>> Table({"Price": [1.0, 2.0]}).column("price")
    [1.0, 2.0]
    """

    def __init__(self, data: Any) -> None:
        is_polars = type(data).__module__.split(".")[0] == "polars" and hasattr(data, "to_arrow")  # not a LazyFrame
        self._data = data.to_arrow() if is_polars else data
        self._of_records = isinstance(data, (list, tuple))
        records = len(data) if self._of_records else 0
        if self._of_records:
            data = self._data = read_records(data)
        self.names = self._column_names()
        lengths = {name: self._length(name) for name in self.names} if isinstance(data, Mapping) else {}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise FencepostError(f"columns of different lengths ({shown})", "one length", "Pad or cut the columns.")
        self.rows = next(iter(lengths.values()), records) if isinstance(data, Mapping) else self._count()

    def _column_names(self) -> list[str]:
        data = self._data
        if isinstance(data, Mapping):
            return list(data)
        if isinstance(data, pa.Table | pa.RecordBatch):
            return list(data.schema.names)
        if hasattr(data, "iloc") and hasattr(data, "columns"):
            return [str(name) for name in data.columns]
        raise FencepostError(
            name_kind(data),
            "an Arrow table or record batch, a pandas or polars frame, a dict of arrays, or a list of dicts",
            "Pass for example {'price': [41.5, 47.0]}.",
        )

    def _count(self) -> int:
        return int(self._data.num_rows) if hasattr(self._data, "num_rows") else len(self._data)

    def _length(self, name: str) -> int:
        column = self._data[name]
        if not hasattr(column, "__len__"):
            raise FencepostError(
                f"{name_kind(column)} as the column {name}",
                "a column of values",
                "Pass a list, also of one value.",
            )
        return len(column)

    def fill(self, names: Iterable[str]) -> None:
        """Give records columns of nulls in place of these that none of them has; other tables must have them."""
        if self._of_records:
            for name in names:
                if self.find(name) is None:
                    self._data[name] = pa.nulls(self.rows)
                    self.names.append(name)

    def _get(self, name: str) -> Any:
        if self._of_records and isinstance(self._data[name], list):
            self._data[name] = column_of_records(name, self._data[name])
        return self._data.column(name) if isinstance(self._data, pa.Table | pa.RecordBatch) else self._data[name]

    def find(self, name: str) -> str | None:
        """The table's own name for a column, or None if it has none."""
        times = self.names.count(name)
        if times == 1:
            return name
        if times > 1:
            raise FencepostError(f"two columns named {name}", "one column of that name", "Rename one of the two.")
        near = [own for own in self.names if str(own).lower() == name.lower()]
        if len(near) > 1:
            raise FencepostError(
                f"columns {' and '.join(near)} for {name}", "one column of that name", "Rename one of the two."
            )
        return near[0] if near else None

    def column(self, name: str) -> Any:
        """The column of that name, as the table has it."""
        own = self.find(name)
        if own is None:
            raise FencepostError(
                f"a table without the column {name}",
                f"that column beside {', '.join(self.names) or 'none'}",
                "Add the column, or rename the one that is meant.",
            )
        return self._get(own)

    def whole(self, name: str, type_: Any) -> Any | None:
        """A column of this Arrow type as one array without nulls; None where it would have to be made."""
        own = self.find(name)
        column = None if own is None else self._get(own)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else None
        elif isinstance(column, list):
            try:
                column = array_of(column)
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                return None  # who needs the column refuses it
        is_whole = isinstance(column, pa.Array) and column.type == type_ and not column.null_count
        return column if is_whole else None

    def arrow(self, name: str) -> Any:
        """The column of that name as an Arrow array."""
        column = self.column(name)
        if isinstance(column, pa.ChunkedArray):
            return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.Array):
            return column
        try:
            return array_of(column)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise FencepostError(
                f"{name} as {type(column).__name__}, which Arrow refuses ({error})",
                "a column of values of one type",
                "Pass an Arrow, numpy, pandas or polars column, or a list of values of one type.",
            ) from None
