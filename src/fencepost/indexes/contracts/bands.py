"""What every band index does, and how it refuses: the part that no structure has to repeat."""

from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost._text import name_kind
from fencepost.compiled import kernel
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import (
    Column,
    Owners,
    bound_column,
    group_column,
    id_column,
    repeated_rows,
    same_length,
    value_column,
    whole_id,
)
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.contracts.registry import Bounds
from fencepost.indexes.kernels.id_map import ABSENT
from fencepost.indexes.matches import Matches, Storage
from fencepost.indexes.ordinal import ValueType, floats_to_ordinals, from_ordinal, values_to_ordinals
from fencepost.indexes.ssi.distance import FLOAT, LEFT, RIGHT, WHOLE, bound_pairs, side_keys
from fencepost.indexes.ssi.members import Table

Side = Literal["left", "right"]

ROW_KEY, ROW_GROUP = 0, 1
LOW, HIGH, MARK, STAB_GROUP = 0, 1, 2, 3
"""Columns of the queries; upper bounds are kept as complements, so that lists by either bound ascend."""


class Pairs(NamedTuple):
    """Pairs of a row of the other side and a query, as two columns in no set order."""

    rows: Int64s
    queries: Int64s


class PairLists(NamedTuple):
    """Pairs of many values or moves: those of the i-th are ``offsets[i]:offsets[i + 1]`` of the columns."""

    offsets: Int64s
    rows: Int64s
    queries: Int64s

    def __getitem__(self, item: Any) -> Any:
        """One of the three columns; use `of` for the pairs of one value."""
        return tuple.__getitem__(self, item)

    def of(self, row: int) -> Pairs:
        """The pairs of one value or move."""
        begin, end = self.offsets[row], self.offsets[row + 1]
        return Pairs(self.rows[begin:end], self.queries[begin:end])


class Move(NamedTuple):
    """What one move changed: pairs that are in a band since then, and pairs that are no longer."""

    entered: Pairs
    left: Pairs


class Moves(NamedTuple):
    """What each of many moves changed."""

    entered: PairLists
    left: PairLists


class Probes(NamedTuple):
    """Values to ask about: their keys on their own side, the numbers of their groups, and which are no numbers."""

    keys: Int64s
    groups: Int64s
    missing: Bools


class BandIndex(ABC):
    """Two changing sets of numbers, left and right, and standing queries for pairs within a band: the contract.

    A pair (left, right) is in query ``[a, b]`` if ``a <= left - right <= b``, where the difference is that of real
    numbers: it is not rounded. A bound of None or infinity leaves that side unbounded; values are finite. A refused
    call changes nothing.

    Args:
        values: ``"float64"``, or ``"int64"`` for whole numbers of any size that int64 has.
    """

    def __init__(self, values: ValueType = "float64") -> None:
        if values not in ("int64", "float64"):
            raise FencepostError(f"values={values!r}", "'int64' or 'float64'", "Leave it out for float64.")
        self.values: ValueType = values
        self._kind = FLOAT if values == "float64" else WHOLE
        self._rows = (Table(np.int64, np.int32), Table(np.int64, np.int32))
        self._queries = Table(np.int64, np.int64, np.uint8, np.int32)

    # -- queries ----------------------------------------------------------------------------------------

    def insert_query(
        self, id: int, a: float | None, b: float | None, bounds: Bounds = "[]", group: int | None = None
    ) -> None:
        """Add one query; see `insert_queries`."""
        self.insert_queries([whole_id(id)], [a], [b], bounds, None if group is None else [group])

    def insert_queries(
        self, ids: Column, lows: Column, highs: Column, bounds: Bounds = "[]", groups: Column | None = None
    ) -> None:
        """Add many queries at once: all of them or, if one is at fault, none.

        Args:
            ids: numbers of your own, each new.
            lows: the least difference; None or -inf for no bound.
            highs: the greatest difference; None or inf for no bound.
            bounds: which ends belong to the band.
            groups: the group whose rows a query is about; None for a query about every group's.
        """
        id_array = id_column(ids)
        if bounds not in ("[]", "[)", "(]", "()"):
            raise FencepostError(f"bounds {bounds!r}", "'[]', '[)', '(]' or '()'", "Use one of those.")
        owners = Owners("query", id_array)
        low, no_low, bad_low = self._bounds(lows, -np.inf, "lower bound", owners)
        high, no_high, bad_high = self._bounds(highs, np.inf, "upper bound", owners)
        same_length(id_array, lows=low, highs=high)
        keys, no_key = self._group_keys(groups, id_array, owners)
        empty = ~(no_low | no_high | bad_low | bad_high) & ((low > high) if bounds == "[]" else (low >= high))
        faulty = bad_low | bad_high | empty
        if faulty.any():
            row = int(np.argmax(faulty))
            raise _query_refusal(int(id_array[row]), item_of(lows, row), item_of(highs, row), bounds, bool(empty[row]))
        slots, row = self._queries.admit(id_array)
        if row >= 0:
            raise _known(id_array, row, "query")
        low, low_signs = bound_pairs(low, no_low, bounds[0] == "[", upper=False)
        high, high_signs = bound_pairs(high, no_high, bounds[1] == "]", upper=True)
        columns = self._queries.columns
        columns[LOW][slots], columns[HIGH][slots] = low, ~high
        columns[MARK][slots] = (low_signs + 1) | (high_signs + 1) << 2
        self._queries_added(slots, self._numbered(keys, no_key))

    def remove_query(self, id: int) -> None:
        """Take one query out."""
        self.remove_queries([whole_id(id)])

    def remove_queries(self, ids: Column) -> None:
        """Take many queries out: all of them or, if one is unknown, none."""
        id_array = id_column(ids)
        slots = _known_slots(self._queries, id_array, "query", " to remove")
        self._queries_leave(slots)
        self._queries.evict(id_array)

    def query(self, id: int) -> tuple[float, float]:
        """The band of one query, infinite where it is unbounded."""
        slot = int(_known_slots(self._queries, np.array([whole_id(id)]), "query", "")[0])
        mark = int(self._queries.columns[MARK][slot])
        low, high = int(self._queries.columns[LOW][slot]), ~int(self._queries.columns[HIGH][slot])
        return (
            -np.inf if low_sign(mark) < 0 else from_ordinal(low, self.values),
            np.inf if high_sign(mark) > 0 else from_ordinal(high, self.values),
        )

    # -- rows -------------------------------------------------------------------------------------------

    def insert(self, side: Side, row: int, value: float, group: int | None = None) -> None:
        """Add one row; see `insert_many`."""
        self.insert_many(side, [whole_id(row)], [value], None if group is None else [group])

    def insert_many(self, side: Side, rows: Column, values: Column, groups: Column | None = None) -> None:
        """Add many rows to a side: all of them or, if one is at fault, none.

        Args:
            side: ``"left"`` or ``"right"``.
            rows: numbers of your own, each new on that side.
            values: where the rows are: finite numbers, equal ones as often as you like.
            groups: the group each belongs to; only rows of one group make pairs. None is a group of its own.
        """
        which = _side(side)
        ids = id_column(rows)
        owners = Owners(f"{side} row", ids)
        keys, missing = self._keys(which, values, owners)
        same_length(ids, values=keys)
        group_keys, no_key = self._group_keys(groups, ids, owners)
        if missing.any():
            raise no_number(side, int(ids[np.argmax(missing)]), item_of(values, int(np.argmax(missing))))
        slots, row = self._rows[which].admit(ids)
        if row >= 0:
            raise _known(ids, row, f"{side} row")
        self._rows[which].columns[ROW_KEY][slots] = keys
        self._rows[which].columns[ROW_GROUP][slots] = self._numbered(group_keys, no_key)
        self._rows_added(which, slots)

    def remove(self, side: Side, row: int) -> None:
        """Take one row out."""
        self.remove_many(side, [whole_id(row)])

    def remove_many(self, side: Side, rows: Column) -> None:
        """Take many rows out: all of them or, if one is unknown, none."""
        which = _side(side)
        ids = id_column(rows)
        slots = _known_slots(self._rows[which], ids, f"{side} row", " to remove")
        self._rows_leave(which, slots)
        self._rows[which].evict(ids)

    def move(self, side: Side, row: int, value: float) -> Move:
        """Give a row another value: which pairs entered a query's band by it and which left one, each once."""
        changes = self.move_many(side, [whole_id(row)], [value])
        return Move(changes.entered.of(0), changes.left.of(0))

    def move_many(self, side: Side, rows: Column, values: Column) -> Moves:
        """Give rows other values, one after another; what each of the moves changed."""
        which = _side(side)
        ids = id_column(rows)
        keys, missing = self._keys(which, values, Owners(f"{side} row", ids))
        same_length(ids, values=keys)
        slots = self._rows[which].find(ids)
        if (slots == ABSENT).any():
            raise _unknown(int(ids[np.argmax(slots == ABSENT)]), f"{side} row", " to move")
        if missing.any():
            raise no_number(side, int(ids[np.argmax(missing)]), item_of(values, int(np.argmax(missing))))
        return self._move(which, slots, keys)

    def row(self, side: Side, row: int) -> float:
        """The value of one row."""
        which = _side(side)
        slot = _known_slots(self._rows[which], np.array([whole_id(row)]), f"{side} row", "")
        key = side_keys(which, self._rows[which].columns[ROW_KEY][slot])
        return from_ordinal(int(key[0]), self.values)

    # -- asking -----------------------------------------------------------------------------------------

    def pairs(self, side: Side, value: float, group: int | None = None) -> Pairs:
        """Q1: all pairs that a row of this value on this side makes, or would make.

        Args:
            side: where the row is, or would be: the pairs are with rows of the other side.
            value: a number; NaN and infinity make no pairs.
            group: the group of the row.
        """
        return self._pairs(_side(side), self._probes(side, [value], None if group is None else [group])).of(0)

    def pairs_many(
        self, side: Side, values: Column, groups: Column | None = None, out: PairLists | None = None
    ) -> PairLists:
        """Q1 for many values; `out` is a former answer whose memory may be used again."""
        return self._pairs(_side(side), self._probes(side, values, groups), out)

    def affected(self, side: Side, value: float, group: int | None = None) -> Int64s:
        """Q2: the queries that have at least one such pair, each once."""
        return self._affected(_side(side), self._probes(side, [value], None if group is None else [group]))[0]

    def affected_many(
        self, side: Side, values: Column, groups: Column | None = None, out: Matches | None = None
    ) -> Matches:
        """Q2 for many values; `out` is a former answer whose memory may be used again."""
        return self._affected(_side(side), self._probes(side, values, groups), out)

    def rows(self, side: Side) -> int:
        """How many rows a side has."""
        return len(self._rows[_side(side)])

    def has_row(self, side: Side, row: int) -> bool:
        """Whether a side has a row of this id."""
        return bool(self._rows[_side(side)].find(np.array([whole_id(row)]))[0] != ABSENT)

    @abstractmethod
    def storage(self) -> Storage:
        """What the index holds: lists or groups, their entries, the paper's count in 8-byte words, real bytes."""

    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""
        for table in (*self._rows, self._queries):
            table.check()
        self._check()

    def __len__(self) -> int:
        """The number of queries."""
        return len(self._queries)

    def __contains__(self, id: object) -> bool:
        try:
            return bool(self._queries.find(np.array([whole_id(id)]))[0] != ABSENT)
        except FencepostError:
            return False

    def __repr__(self) -> str:
        left, right = map(len, self._rows)
        return f"{type(self).__name__}({len(self)} queries, {left} left rows, {right} right rows)"

    # -- arguments --------------------------------------------------------------------------------------

    def _keys(self, side: int, values: Column, owners: Owners | None = None) -> tuple[Int64s, Bools]:
        """Keys of values, and which are no finite numbers."""
        if self.values == "float64":
            floats = value_column(values, owners)
            return side_keys(side, floats_to_ordinals(floats)), ~np.isfinite(floats)
        ordinals, missing = values_to_ordinals(values, "int64", owners)
        return side_keys(side, ordinals), missing if len(missing) else np.zeros(len(ordinals), np.bool_)

    def _bounds(self, bounds: Column, unbounded: float, what: str, owners: Owners) -> tuple[Int64s, Bools, Bools]:
        """Ordinals of bounds, which are unbounded, and which are no bounds at all."""
        if self.values == "float64":
            column = bound_column(bounds, unbounded, what, owners)
            return floats_to_ordinals(column), column == unbounded, np.isnan(column) | (column == -unbounded)
        items = np.asarray(bounds, object)
        without = np.array([bound is None or bound == unbounded for bound in items], np.bool_)
        wrong = np.array([bound != bound or bound == -unbounded for bound in items], np.bool_)
        given = [0 if skip else bound for skip, bound in zip(without | wrong, items, strict=True)]
        return values_to_ordinals(given, "int64", owners, what)[0], without, wrong

    def _probes(self, side: Side, values: Column, groups: Column | None) -> Probes:
        keys, missing = self._keys(_side(side), values)
        group_keys, no_key = self._group_keys(groups, keys)
        return Probes(keys, self._numbers(group_keys, no_key), missing)

    def _group_keys(self, groups: Column | None, rows: Int64s, owners: Owners | None = None) -> tuple[Int64s, Bools]:
        keys, no_key = group_column(groups, len(rows), owners)
        same_length(rows, groups=keys if groups is not None else None)
        if groups is not None and not self._has_groups:
            raise FencepostError(f"groups for {name_kind(self)}", "none", "Use an SSI, which has groups.")
        return keys, no_key

    # -- what a structure supplies ----------------------------------------------------------------------

    _has_groups = False

    def _numbers(self, keys: Int64s, no_key: Bools) -> Int64s:  # noqa: ARG002
        """The number of each group, 0 for none, `ABSENT` for one that is not known."""
        return np.zeros(len(no_key), np.int64)

    def _numbered(self, keys: Int64s, no_key: Bools) -> Int64s:
        """The same for rows or queries that are added: unknown groups get a number."""
        return self._numbers(keys, no_key)

    @abstractmethod
    def _queries_added(self, slots: Int64s, groups: Int64s) -> None: ...

    @abstractmethod
    def _queries_leave(self, slots: Int64s) -> None: ...

    @abstractmethod
    def _rows_added(self, side: int, slots: Int64s) -> None: ...

    @abstractmethod
    def _rows_leave(self, side: int, slots: Int64s) -> None: ...

    @abstractmethod
    def _move(self, side: int, slots: Int64s, keys: Int64s) -> Moves: ...

    @abstractmethod
    def _pairs(self, side: int, probes: Probes, out: PairLists | None = None) -> PairLists: ...

    @abstractmethod
    def _affected(self, side: int, probes: Probes, out: Matches | None = None) -> Matches: ...

    @abstractmethod
    def _check(self) -> None: ...

    def _table_bytes(self) -> int:
        return sum(table.nbytes for table in (*self._rows, self._queries))


@kernel
def low_sign(mark: int) -> Any:
    """The sign of a query's lower bound."""
    return (mark & 3) - 1


@kernel
def high_sign(mark: int) -> Any:
    """The sign of a query's upper bound."""
    return (mark >> 2 & 3) - 1


def _side(side: Any) -> int:
    if side == "left":
        return LEFT
    if side == "right":
        return RIGHT
    raise FencepostError(f"side {side!r}", "'left' or 'right'", "Name the side that changes.")


def item_of(column: Any, row: int) -> Any:
    """One item of a column, as Python has it."""
    item = column if np.ndim(column) == 0 else column[row]
    return item.item() if isinstance(item, np.generic) else item


def _known_slots(table: Table, ids: Int64s, what: str, doing: str) -> npt.NDArray[np.int64]:
    slots = table.find(ids)
    again = repeated_rows(ids)
    if len(again) or (slots == ABSENT).any():
        row = int(np.append(np.flatnonzero(slots == ABSENT), again).min())
        raise _unknown(int(ids[row]), what, doing + (" twice" if row in again else ""))
    return slots


def _unknown(id: int, what: str, doing: str) -> FencepostError:
    return FencepostError(f"{what} {id}{doing}", f"the id of a {what} in the index, once", "Insert it first.")


def _known(ids: Int64s, row: int, what: str) -> FencepostError:
    id = int(ids[row])
    if (ids[:row] == id).any():
        return FencepostError(f"{what} {id} twice in one call", "each id once", "Drop one of the two.")
    return FencepostError(
        f"{what} {id} is in the index already", "a new id", f"Remove the old {what} first, or use another id."
    )


def no_number(side: str, id: int, value: Any) -> FencepostError:
    """The refusal of a row without a finite value."""
    return FencepostError(
        f"{side} row {id} with value {value}", "a finite number", "Leave it out: it is at no distance from anything."
    )


def _query_refusal(id: int, low: Any, high: Any, bounds: str, empty: bool) -> FencepostError:
    band = f"query {id} with a={low}, b={high}"
    if empty:
        return FencepostError(band, "a <= b" if bounds == "[]" else "a < b", "Swap the bounds, or leave it out.")
    return FencepostError(band, "bounds that a difference can reach", "Use None for a side without a bound.")
