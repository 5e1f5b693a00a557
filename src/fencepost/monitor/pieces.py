"""A batch of rows for a Monitor, in as many pieces as its events need room."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._memory import SETTING, AnswerTooLargeError
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.matches import in_pieces
from fencepost.monitor.monitor import Monitor
from fencepost.snapshot import Table

_ROW = "fencepost row"


def update_in_pieces(monitor: Monitor, data: Any) -> Iterator[pa.Table]:
    """See Monitor.update_pieces: the events that `monitor.update(data)` would return, by time too.

    Where they are several, the events of rows that have the object, the time and the sequence in common come together.
    An update that is refused changes nothing, so the same rows can be given again, fewer of them.
    """
    try:
        whole = monitor.update(data)
    except AnswerTooLargeError:
        pass
    else:
        yield whole
        return
    table, cuts = _find_cuts(monitor, data if isinstance(data, pa.Table) else _as_arrow(Table(data)))

    def update(begin: int, end: int) -> pa.Table:
        first, count = int(cuts[begin]), int(cuts[end] - cuts[begin])
        try:
            return monitor.update(table.slice(first, count))
        except AnswerTooLargeError as error:
            if end - begin > 1:
                raise
            what = "one row" if count == 1 else f"{count:,} rows of one object at one time"
            raise FencepostError(
                f"{what}, with {error.got}", error.expected, f"Set {SETTING}, such as 8 GiB, or try fewer rules."
            ) from None

    yield from in_pieces(len(cuts) - 1, update)


def _as_arrow(table: Table) -> pa.Table:
    return pa.table({name: table.arrow(name) for name in table.names})


def sort_rows(table: pa.Table, order: Sequence[str]) -> pa.Array:
    """The places of rows by time and sequence as an update has them: a sequence that is missing comes first."""
    by = {}
    for place, name in enumerate(order):
        by[f"known {place}"], by[f"value {place}"] = pc.is_valid(table[name]), table[name]
    by.pop("known 0", None)  # rows without a time do not count
    return pc.sort_indices(pa.table(by), [(name, "ascending") for name in by])


def _find_cuts(monitor: Monitor, table: pa.Table) -> tuple[pa.Table, Int64s]:
    """The rows in the order of time, and ties of an object together, and where they can be cut.

    A row is late only after an update with a later one, and ties of an object are put in order within an update.
    """
    if monitor.time is None:  # then rows stay as they came
        return table, np.arange(table.num_rows + 1)
    given = Table(table)
    order = [given.find(name) or name for name in (monitor.time, *monitor.sequence)]
    alike = [given.find(monitor.object) or monitor.object, *order]
    table = table.take(sort_rows(table, order))
    ties = table.select(alike).append_column(_ROW, pa.array(np.arange(table.num_rows)))
    found = ties.group_by(alike, use_threads=False).aggregate([(_ROW, "list"), (_ROW, "min")])
    together = found.sort_by(f"{_ROW}_min")[f"{_ROW}_list"]
    ends = np.cumsum(pc.list_value_length(together).to_numpy(), dtype=np.int64)
    return table.take(pc.list_flatten(together)), np.append(0, ends)
