"""What callers pass in, checked and turned into flat arrays."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Float64s, Int64s

Column = npt.ArrayLike | Sequence[Any]
Item = TypeVar("Item")

_EXACT = 2**53
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class _Memory:
    """Lends an array's memory, as writable to the type system; keeps the array alive, and a keeper if there is one."""

    def __init__(self, array: npt.NDArray[Any], keeper: object = None) -> None:
        self._array, self._keeper = array, keeper
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def kernel_ready(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, without a copy if possible, such that it hits the one compiled version of every kernel.

    Numba compiles read-only, unaligned and strided arrays anew. Kernels never write to what callers pass in or
    what is memory-mapped, so read-only memory is only relabelled.
    """
    if not (array.flags.c_contiguous and array.flags.aligned):
        return array.copy(order="C")
    return array if array.flags.writeable else np.asarray(_Memory(array))


def lent(array: npt.NDArray[Any], keeper: object) -> npt.NDArray[Any]:
    """The array; while anyone holds it, or a part of it, its keeper is alive."""
    return np.asarray(_Memory(array, keeper))


class Owners(NamedTuple):
    """Whose items a column has: so that the refusal of one item can name the id that it belongs to."""

    noun: str
    ids: Int64s
    each: int = 1
    """Items of one id, side by side."""

    def of(self, item: int) -> str:
        """Who has this item, to be followed by what it is."""
        row = item // self.each
        return f"{self.noun} {self.ids[row]} with " if row < len(self.ids) else f"row {row} with "


def check_ends(bounds: str) -> str:
    """Which ends belong to a range, refused unless that is one of the four ways."""
    if bounds not in ("[)", "[]", "(]", "()"):
        raise FencepostError(f"bounds {bounds!r}", "'[)', '[]', '(]' or '()'", "Use one of those.")
    return bounds


def check_format(found: int, expected: int) -> None:
    """Refuse saved arrays of another format than the current one, which alone is read."""
    if found != expected:
        raise FencepostError(
            f"arrays of format {found}",
            f"format {expected}",
            "Publish or save the rules again with this version of fencepost.",
        )


def whole_id(value: Any) -> int:
    """One id as an int that fits int64."""
    if type(value) is int and _INT64_MIN <= value <= _INT64_MAX:
        return value
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool_) or not _INT64_MIN <= number <= _INT64_MAX:
        raise FencepostError(
            f"id {value!r} ({type(value).__name__})",
            "a whole number that fits int64",
            "Number what you register, and keep its names in a table of your own.",
        )
    return number


def id_column(ids: Any) -> Int64s:
    """Ids as an int64 array, refused by name if one is not a whole number."""
    column = np.asarray(ids)
    if column.ndim != 1:
        raise FencepostError(f"ids with {column.ndim} dimensions", "a flat sequence", "Pass one id per row.")
    if column.dtype == np.int64:
        return kernel_ready(column)
    if column.dtype.kind in "iu" and column.dtype != np.uint64:
        return column.astype(np.int64)
    return np.array([whole_id(value) for value in _items(ids)], np.int64)


def convert_items(
    items: Iterable[Any], convert: Callable[[Any, str], Item], what: str, owners: Owners | None
) -> list[Item]:
    """The items converted one by one; the refusal of one names its owner, if those are known."""
    given = list(items)
    try:
        return [convert(item, what) for item in given]
    except FencepostError:
        if owners is not None:
            for number, item in enumerate(given):
                convert(item, f"{owners.of(number)}{what}")
        raise


def exact_float(value: Any, what: str) -> float:
    """`value` as a float64, refused unless that is exactly the same number."""
    if type(value) is float:
        return value
    if type(value) is int and -_EXACT <= value <= _EXACT:
        return float(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, str | bytes) or (isinstance(value, int) and number != value):
        raise FencepostError(
            f"{what} {value!r} ({type(value).__name__})",
            "a number that float64 holds exactly",
            "Integers beyond 2**53 belong in a SliceList with values='int64'.",
        )
    return number


def _float_column(values: Any, what: str, missing: float = np.nan, owners: Owners | None = None) -> Float64s:
    column = np.asarray(values)
    if column.dtype == np.float64 and column.ndim == 1:
        return kernel_ready(column)
    if column.ndim != 1:
        raise FencepostError(f"{what}s with {column.ndim} dimensions", "a flat sequence", "Pass one per row.")
    small = column.dtype.kind == "f" or (column.dtype.kind in "iu" and column.dtype.itemsize <= 4)
    if small or (
        column.dtype.kind in "iu" and (not column.size or max(-int(column.min()), int(column.max())) <= _EXACT)
    ):
        return column.astype(np.float64)

    def converted(value: Any, what: str) -> float:
        return missing if value is None else exact_float(value, what)

    return np.array(convert_items(_items(values), converted, what, owners), np.float64)


def _items(values: Any) -> Any:
    """The items as the caller wrote them: NumPy may have turned them all into one type."""
    return values if isinstance(values, list | tuple | range) else np.asarray(values).tolist()


def value_column(values: Any, owners: Owners | None = None) -> Float64s:
    """Data values as float64; a missing one (None) becomes NaN, which lies in no range."""
    return _float_column([values] if np.ndim(values) == 0 else values, "value", owners=owners)


def bound_column(bounds: Any, unbounded: float, what: str, owners: Owners | None = None) -> Float64s:
    """Range bounds as float64; a missing one (None) means unbounded on that side."""
    return _float_column(bounds, what, unbounded, owners)


def coordinates(corner: Any, dimensions: int, unbounded: float, whose: str, what: str) -> list[float]:
    """The bounds of one box as float64, one per dimension; None means unbounded on that side."""
    bounds = corner_items(corner, dimensions, whose, what)
    return [unbounded if bound is None else exact_float(bound, f"{whose} {what}") for bound in bounds]


def corner_items(corner: Any, dimensions: int, whose: str, what: str) -> list[Any]:
    """The bounds of one box as the caller wrote them, refused unless there is one per dimension."""
    bounds = list(corner) if isinstance(corner, Iterable) and not isinstance(corner, str | bytes) else [corner]
    if len(bounds) != dimensions:
        raise FencepostError(
            f"{whose} {len(bounds)} {what}{'s' if len(bounds) != 1 else ''}",
            f"{dimensions}, one per dimension",
            "Pass one number per dimension, None where there is no bound.",
        )
    return bounds


def bound_rows(bounds: Any, dimensions: int, unbounded: float, what: str, owners: Owners) -> Float64s:
    """Bounds of boxes as float64, a row per box; a missing one (None) means unbounded on that side."""
    table = table_rows(bounds, dimensions, f"{what}s", owners=owners)
    items = owners._replace(each=dimensions)
    return bound_column(flat_items(bounds, table), unbounded, what, items).reshape(table.shape)


def flat_items(rows: Any, table: npt.NDArray[Any]) -> Any:
    """The items of rows one after another, as the caller wrote them; `table` is what `table_rows` made of the rows."""
    if isinstance(rows, np.ndarray) or table.dtype.kind in "iu" or not table.size:
        return table.reshape(-1)
    return np.asarray(rows, object).reshape(-1)


def point_rows(points: Any, dimensions: int) -> Float64s:
    """Points as float64, a row each; a missing coordinate (None) becomes NaN."""
    table = table_rows(points, dimensions, "points", one_row=True)
    return value_column(table.reshape(-1)).reshape(table.shape)


def table_rows(
    rows: Any, dimensions: int, what: str, one_row: bool = False, owners: Owners | None = None
) -> npt.NDArray[Any]:
    """Rows with one column per dimension; a flat sequence is one row where that is allowed."""
    try:
        table = np.asarray(rows)
    except ValueError:
        sizes = [np.size(row) for row in rows]
        raise _wrong_sizes(sizes, dimensions, what, owners) from None
    if table.size == 0 and table.ndim == 1:
        return np.zeros((0, dimensions))
    if table.ndim == 1 and one_row:
        table = table[np.newaxis]
    if table.ndim != 2:
        raise FencepostError(
            f"{what} with {table.ndim} dimensions",
            f"a row each, with {dimensions} columns, one per dimension",
            "Pass a two-dimensional array or a list of rows.",
        )
    if table.shape[1] != dimensions:
        raise _wrong_sizes([table.shape[1]] * len(table), dimensions, what, owners)
    return table


def _wrong_sizes(sizes: list[int], dimensions: int, what: str, owners: Owners | None) -> FencepostError:
    """The refusal of rows some of which have another number of coordinates; `what` they are is a plural."""
    got = f"{what} with {' and '.join(map(str, sorted(set(sizes))))} coordinates each"
    if owners is not None:
        row = next((row for row, size in enumerate(sizes) if size != dimensions), 0)
        got = f"{owners.of(row)}{sizes[row]} {what if sizes[row] != 1 else what[:-1]}"
    return FencepostError(got, f"{dimensions}, one per dimension", "Give every row one number per dimension.")


def same_length(ids: npt.NDArray[Any], **columns: npt.NDArray[Any] | None) -> None:
    """Refuse columns that do not have one item per id."""
    for name, column in columns.items():
        if column is not None and len(column) != len(ids):
            without = f", none for id {ids[len(column)]}" if len(column) < len(ids) else ""
            raise FencepostError(
                f"{len(ids)} ids and {len(column)} {name}{without}",
                "columns of the same length",
                "Pass one of each per row.",
            )


def group_column(groups: Column | None, rows: int, owners: Owners | None = None) -> tuple[Int64s, Bools]:
    """Group keys as int64, and which rows have none."""
    if groups is None:
        return np.zeros(0, np.int64), np.ones(rows, np.bool_)
    column = np.asarray(groups)
    if column.ndim != 1:
        raise FencepostError(f"groups with {column.ndim} dimensions", "a flat sequence", "Pass one group per row.")
    if column.dtype.kind in "iu" and column.dtype != np.uint64:
        return id_column(column), np.zeros(len(column), np.bool_)
    items = _items(groups)
    none = np.array([key is None for key in items], np.bool_)
    return np.array(convert_items(items, _whole_group, "group", owners), np.int64), none


def _whole_group(key: Any, what: str) -> int:
    try:
        return 0 if key is None else whole_id(key)
    except FencepostError as error:
        remedy = "Number the groups, and keep their names in a table of your own."
        raise FencepostError(f"{what} {key!r} ({type(key).__name__})", error.expected, remedy) from None


def require_groups(groups: Column | None, rows: int, what: str, held: str) -> Int64s:
    """The group key of each value or point that is asked, refused unless every one of them has a group."""
    if groups is None:
        raise FencepostError(
            f"{rows} {what}s without groups",
            f"the group of each {what}, since the index has {held} with groups",
            "Pass the groups.",
        )
    keys, in_none = group_column(groups, rows)
    if len(keys) != rows:
        raise FencepostError(
            f"{rows} {what}s and {len(keys)} groups", f"one group per {what}", "Pass columns of one length."
        )
    if in_none.any():
        raise FencepostError(
            f"{what} {int(np.argmax(in_none))} without a group", f"the group of each {what}", f"Leave such {what}s out."
        )
    return keys


def repeated_rows(ids: Int64s) -> Int64s:
    """The rows whose id came before."""
    if (ids[1:] > ids[:-1]).all():
        return np.zeros(0, np.int64)
    order = np.argsort(ids, kind="stable")
    return np.compress(ids[order][1:] == ids[order][:-1], order[1:])


def shown_bound(column: Any, row: int, unbounded: float) -> float:
    """One bound, for its refusal: a whole number as it is, everything else as a float."""
    bound = column[row]
    if bound is None:
        return unbounded
    return int(bound) if isinstance(bound, int | np.integer) else float(bound)


def shown(number: float) -> str:
    """A number with all its digits, and no more."""
    short = f"{number:g}"
    return short if isinstance(number, float) and (number != number or float(short) == number) else repr(number)
