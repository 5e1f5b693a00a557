"""Rules that came from a table, kept as its columns: a million of them are a dozen arrays."""

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.language import ColumnKind
from fencepost.rules.damping import damping_of
from fencepost.rules.rule import Rule, instant_of, labels_of
from fencepost.snapshot.columns import detect_names
from fencepost.snapshot.names import NameIndex

_ROWS_AT_ONCE = 10_000


class RuleFields(NamedTuple):
    """What every rule has besides its condition, one row per rule."""

    ids: Int64s
    versions: Int64s
    detects: UInt8s
    initial: Bools
    enabled: Bools
    expires: Int64s
    labels: Any
    """Arrow large_string: a JSON object, or null."""
    names: Any
    """Arrow large_string, null where a rule has none."""
    damping: Any
    """Arrow large_string: what `Damping.text` writes, or null."""

    def take(self, rows: Int64s) -> "RuleFields":
        """The rules in these ascending rows."""
        if len(rows) == len(self.ids):
            return self
        chosen = pa.array(rows)
        return RuleFields(*(each[rows] if isinstance(each, np.ndarray) else each.take(chosen) for each in self))


class TableKey(NamedTuple):
    """A key column of a table of rules; null where every key is meant."""

    column: str
    """As conditions know it: in lower case, or in double quotes and exactly so."""
    values: Any


class TableRange(NamedTuple):
    """A pair of bound columns; None or null where the range is unbounded."""

    column: str
    kind: ColumnKind
    lower: Any | None
    upper: Any | None
    bounds: str
    """One of [) [] () (]."""

    @property
    def lower_closed(self) -> bool:
        """Whether the lower bound itself is inside."""
        return self.bounds[0] == "["

    @property
    def upper_closed(self) -> bool:
        """Whether the upper bound itself is inside."""
        return self.bounds[1] == "]"


class TableBlock:
    """The rules of one table.

    Invariants: (1) ids are unique; (2) every column has one row per rule; (3) `alive` is False exactly for the
    rules that were removed or replaced since.
    """

    def __init__(self, fields: RuleFields, keys: tuple[TableKey, ...], ranges: tuple[TableRange, ...]) -> None:
        self.fields = fields
        self.keys = keys
        self.ranges = ranges
        self.alive: Bools = np.ones(len(fields.ids), np.bool_)
        self.count = len(fields.ids)

    def copy(self) -> "TableBlock":
        """The same rules, whose end in one is none in the other; columns are shared."""
        copied = TableBlock(self.fields, self.keys, self.ranges)
        copied.alive, copied.count = self.alive.copy(), self.count
        return copied

    @cached_property
    def _by_id(self) -> tuple[Int64s, Int64s]:
        """The ids in order, and the row of each."""
        order = np.argsort(self.fields.ids, kind="stable")
        return self.fields.ids[order], order

    @cached_property
    def _by_name(self) -> NameIndex:
        return NameIndex(self.fields.names)

    @property
    def columns(self) -> Mapping[str, ColumnKind]:
        """Every column with its kind, as Condition.columns."""
        columns: dict[str, ColumnKind] = {key.column: "key" for key in self.keys}
        return columns | {range_.column: range_.kind for range_ in self.ranges}

    def find(self, id: int) -> int | None:
        """The row of a rule that is still here."""
        ids, order = self._by_id
        place = int(np.searchsorted(ids, id))
        if place == len(ids) or ids[place] != id:
            return None
        row = int(order[place])
        return row if self.alive[row] else None

    def contains(self, ids: Int64s) -> Bools:
        """Which of the ids are rules that are still here."""
        mine, order = self._by_id
        places = np.searchsorted(mine, ids).clip(max=max(0, len(mine) - 1))
        found: Bools = (mine[places] == ids) & self.alive[order[places]] if len(mine) else np.zeros(len(ids), np.bool_)
        return found

    def find_names(self, names: Any) -> Int64s:
        """The row of the rule that is still here with each of these names, or -1."""
        rows = self._by_name.rows_of(names)
        return np.where(self.alive[rows], rows, -1) if self.count else np.full(len(names), -1, np.int64)

    def end(self, row: int) -> None:
        """Takes the rule of a row out."""
        self.count -= int(self.alive[row])
        self.alive[row] = False

    def rule(self, row: int) -> Rule:
        """The rule of a row."""
        return next(self._rules(np.array([row])))

    def rules(self, rows: Int64s | None = None) -> Iterator[Rule]:
        """All rules that are still here, or those of some rows, each with the SQL condition that says the same."""
        rows = np.flatnonzero(self.alive) if rows is None else rows
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            yield from self._rules(rows[start : start + _ROWS_AT_ONCE])

    def _rules(self, rows: Int64s) -> Iterator[Rule]:
        fields = self.fields
        columns = [fields.ids, fields.detects, fields.initial, fields.expires, fields.enabled, fields.versions]
        lists = [column[rows].tolist() for column in columns]
        lists += [texts.take(pa.array(rows)).to_pylist() for texts in (fields.labels, fields.names, fields.damping)]
        rows_of_fields = zip(*lists, strict=True)
        for condition, each in zip(self._texts(rows), rows_of_fields, strict=True):
            id, detect, initial, expires, enabled, version, labels, name, damping = each
            detects, instant = detect_names(detect), instant_of(expires)
            options = {} if damping is None else damping_of(damping).as_options()
            yield Rule(id, condition, detects, initial, labels_of(labels), instant, enabled, version, name, **options)

    def _texts(self, rows: Int64s) -> Iterator[str]:
        parts = [_key_texts(key, rows) for key in self.keys] + [_range_texts(each, rows) for each in self.ranges]
        for row in range(len(rows)):
            yield " AND ".join(part[row] for part in parts if part[row]) or "TRUE"


def _key_texts(key: TableKey, rows: Int64s) -> list[str]:
    values = key.values.take(pa.array(rows)).to_pylist()
    return ["" if value is None else f"{key.column} = {constant_text(value)}" for value in values]


def _range_texts(range_: TableRange, rows: Int64s) -> list[str]:
    above, below = ">=" if range_.lower_closed else ">", "<=" if range_.upper_closed else "<"
    texts = []
    for low, high in zip(_constants(range_.lower, rows), _constants(range_.upper, rows), strict=True):
        parts = [
            f"{range_.column} {sign} {bound}" for sign, bound in ((above, low), (below, high)) if bound is not None
        ]
        texts.append(" AND ".join(parts) or any_value(range_.column, range_.kind))
    return texts


def any_value(column: str, kind: str) -> str:
    """The condition that holds for every value: an unbounded range still asks for one."""
    some = {"date": "DATE '2000-01-01'", "timestamp": "TIMESTAMP '2000-01-01'", "boolean": "TRUE"}.get(kind, "0")
    return f"({column} < {some} OR {column} >= {some})"


def _constants(bounds: Any | None, rows: Int64s) -> list[str | None]:
    if bounds is None:
        return [None] * len(rows)
    written: Callable[[Any], str] = _double_text if pa.types.is_floating(bounds.type) else constant_text
    return [None if value is None else written(value) for value in bounds.take(pa.array(rows)).to_pylist()]


def _double_text(value: float) -> str:
    """A double, exactly: 0.1 written plainly would be a tenth, which a decimal column can tell from the double."""
    if math.isinf(value):
        return f"CAST('{value}' AS DOUBLE)"
    text = repr(value)
    return text if Decimal(text) == Decimal(value) else f"CAST({text} AS DOUBLE)"


def constant_text(value: Any) -> str:
    """A constant as SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, (bool, int)):
        return str(value).upper()
    if hasattr(value, "hour"):
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}Z'"  # an instant, whatever the zone
    return f"DATE '{value.isoformat()}'" if hasattr(value, "isoformat") else f"{value:f}"
