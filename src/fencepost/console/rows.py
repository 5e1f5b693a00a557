"""The last rows of a stream, kept in memory within bounds: trails of objects, and a try of conditions."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.console.recorder import to_numbers
from fencepost.console.source import Fired, Missing, SeenObject, Trail, Trial
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rule, Rules
from fencepost.rules.options import options_of

_ROWS = 500_000
_TRIED = 200_000
_BINS = 40
_MOST = 3
_OBJECTS = 1_000_000


class RecentRows:
    """The last rows.

    Args:
        object: the column that names the object.
        time: the column of event time, if there is one.
        rows: how many are kept.
    """

    def __init__(self, object: str, time: str | None, rows: int = _ROWS) -> None:
        self.object, self.time, self._most = object, time, rows
        self._lock = threading.Lock()
        self._tables: deque[Any] = deque()
        self._kept = 0

    def record(self, rows: Any) -> None:
        """Take in a table of rows."""
        if not rows.num_rows:
            return
        with self._lock:
            self._tables.append(rows)
            self._kept += rows.num_rows
            while len(self._tables) > 1 and self._kept - self._tables[0].num_rows >= self._most:
                self._kept -= self._tables.popleft().num_rows

    def tables(self) -> list[Any]:
        """Those that are kept, the oldest first."""
        with self._lock:
            return list(self._tables)

    def trail(self, name: str, rows: int) -> Trail | None:
        """The last rows of an object."""
        return find_trail(self.tables(), self.object, self.time, name, rows)

    # -- trying --------------------------------------------------------------------------------------------

    def try_condition(self, old: Rule | None, condition: str, options: Mapping[str, Any]) -> Trial:
        """What a rule and its next condition would have reported on these rows."""
        tables = self._tried_tables()
        if not tables:
            raise FencepostError("no rows", "rows to try the condition on", "Try again when rows have come.")
        new = self._replay(tables, condition, options)
        before = None
        if old is not None:
            known = {name: value for name, value in options_of(old)._asdict().items() if name not in ("name",)}
            before = self._replay(tables, str(old.condition), known)
        ends = (None, None)
        if self.time is not None:
            found = [pc.min_max(table[self.time]).as_py() for table in tables]
            ends = min(each["min"] for each in found), max(each["max"] for each in found)
        return Trial(sum(table.num_rows for table in tables), *ends, before, new)

    def _tried_tables(self) -> list[Any]:
        found: list[Any] = []
        rows = 0
        for table in reversed(self.tables()):
            found.append(table)
            rows += table.num_rows
            if rows >= _TRIED:
                break
        return found[::-1]

    def _replay(self, tables: Sequence[Any], condition: str, options: Mapping[str, Any]) -> Fired:
        rules = Rules()
        kept = {name: value for name, value in options.items() if value is not None}
        rules.add(0, condition, **{**kept, "enabled": True, "expires": None, "name": None})
        monitor = Monitor(rules, object=self.object, time=self.time)
        events = [found for table in tables for found in monitor.update_pieces(table) if found.num_rows]
        return tally(events, None if self.time is None else [table[self.time] for table in (tables[0], tables[-1])])


def find_trail(tables: Sequence[Any], object: str, time: str | None, name: str, rows: int) -> Trail | None:
    """The last rows of an object, from tables of which the newest is the last."""
    found: list[Any] = []
    count = 0
    for table in reversed(tables):
        mask = pc.equal(table[object].cast(pa.string()), name)
        mine = table.filter(mask.fill_null(False))
        if mine.num_rows:
            found.append(mine)
            count += mine.num_rows
        if count >= rows:
            break
    if not found:
        return None
    found.reverse()
    times = list(range(count)) if time is None else _column(found, time)
    names = dict.fromkeys(each for table in found for each in table.schema.names if each not in (object, time))
    return Trail(times[-rows:], {each: _column(found, each)[-rows:] for each in names})


def _column(tables: Sequence[Any], name: str) -> list[Any]:
    """The values of a column in several tables, None where one lacks it; as text where its type has changed."""
    values: list[Any] = []
    for table in tables:
        values += table[name].to_pylist() if name in table.schema.names else [None] * table.num_rows
    kinds = {int if type(value) is float else type(value) for value in values if value is not None}
    return values if len(kinds) < 2 else [None if value is None else str(value) for value in values]


def tally(events: Sequence[Any], times: Sequence[Any] | None) -> Fired:
    """Counts of events: by kind, by object, and over a time."""
    if not events:
        return Fired({}, 0, (), [0] * _BINS)
    whole = pa.concat_tables(events)
    kinds = {each["values"]: each["counts"] for each in pc.value_counts(whole["detect"]).to_pylist()}
    by_object = pc.value_counts(whole["object"].combine_chunks())
    most = sorted(by_object.to_pylist(), key=lambda each: (-each["counts"], str(each["values"])))[:_MOST]
    at = to_numbers(whole["time"])
    first, last = at.min(), at.max()
    if times is not None:
        first, last = to_numbers(times[0]).min(), to_numbers(times[-1]).max()
    # From the first on: the microseconds of an instant are too large to be cut into parts.
    counts = np.histogram(at - first, _BINS, (0.0, float(last - first) or 1.0))[0]
    return Fired(kinds, len(by_object), [(each["values"], each["counts"]) for each in most], counts.tolist())


class RowObjects:
    """Objects as their last rows show them, where no engine in this process knows them.

    Args:
        rows: the last rows.
        rules_at: how to find the rules at given values, or why that cannot be told.
        about: what people should know of these objects.
        most: how many are known; those of which a row came last.
    """

    def __init__(
        self,
        rows: RecentRows,
        rules_at: Callable[[Mapping[str, Any]], Sequence[int]] | Missing,
        about: str = "",
        most: int = _OBJECTS,
    ) -> None:
        self._rows, self._rules_at, self._most = rows, rules_at, most
        self.about = about
        self._names: dict[str, None] = {}
        self._sorted: list[str] | None = None
        self._lock = threading.Lock()

    def record(self, rows: Any) -> None:
        """Note who is in a table of rows."""
        names = pc.unique(rows[self._rows.object].combine_chunks()).cast(pa.string()).to_pylist()
        with self._lock:
            for name in names:
                if name is not None:
                    if self._names.pop(name, name) is not None:
                        self._sorted = None  # it is new
                    self._names[name] = None
            while len(self._names) > self._most:
                del self._names[next(iter(self._names))]
                self._sorted = None

    def _all(self) -> list[str]:
        with self._lock:
            if self._sorted is None:
                self._sorted = sorted(self._names)
            return self._sorted

    def count(self) -> int:
        """How many there are."""
        return len(self._names)

    def page(self, after: str, limit: int, beginning: str) -> tuple[list[SeenObject], str | None]:
        """The next objects in the order of their names."""
        names = self._all()
        if beginning:
            names = [name for name in names if beginning.lower() in name.lower()]
        begin = int(np.searchsorted(np.array(names, dtype=object), after, side="right")) if after and names else 0
        some = names[begin : begin + limit]
        return self._seen(some), some[-1] if begin + limit < len(names) else None

    def get(self, name: str) -> SeenObject | None:
        """One object."""
        return self._seen([name])[0] if name in self._names else None

    def _seen(self, names: Sequence[str]) -> list[SeenObject]:
        """Objects with the last values that they had in the rows that are kept."""
        wanted = dict.fromkeys(names)
        values: dict[str, dict[str, Any]] = {name: {} for name in names}
        times: dict[str, Any] = dict.fromkeys(names)
        rows = self._rows
        asked = pa.array(list(wanted), pa.string())
        for table in reversed(rows.tables()):
            if not wanted:
                break
            mine = table.filter(pc.is_in(table[rows.object].cast(pa.string()), asked))
            for row in reversed(mine.to_pylist()):
                name = str(row[rows.object])
                known = values[name]
                if rows.time is not None and times[name] is None:
                    times[name] = row[rows.time]
                for column, value in row.items():
                    if column not in (rows.object, rows.time) and value is not None:
                        known.setdefault(column, value)
                wanted.pop(name, None)
        return [SeenObject(name, times[name], values[name]) for name in names]

    def rules_inside(self, name: str, limit: int) -> Sequence[int] | Missing:
        """The rules that hold at the last values."""
        if isinstance(self._rules_at, Missing):
            return self._rules_at
        known = self.get(name)
        return list(self._rules_at(known.values))[:limit] if known else []

    def waiting(self, name: str) -> Sequence[Any]:  # noqa: ARG002 (as in ObjectsPart)
        """Only the engine knows."""
        return ()

    def trail(self, name: str, rows: int) -> Trail | None:
        """Its last rows."""
        return self._rows.trail(name, rows)

    def inside(self, rule: int, limit: int) -> Missing:  # noqa: ARG002 (as in ObjectsPart)
        """Only the engine knows."""
        return Missing("Only the workers of Spark know which objects are inside; look at the events of the rule.")

    def held_back(self, rule: int, limit: int) -> tuple[Sequence[Any], int]:  # noqa: ARG002 (as in ObjectsPart)
        """Only the engine knows."""
        return (), 0

    def why_not(self, rule: int, name: str) -> Missing:  # noqa: ARG002 (as in ObjectsPart)
        """Only the engine knows."""
        return Missing("What a rule waits for is known to the workers of Spark alone.")

    @property
    def told_from(self) -> str:
        """Nothing is told."""
        return ""
