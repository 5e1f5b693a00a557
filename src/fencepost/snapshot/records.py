"""Records, a list of dicts, as columns: what a record lacks is null, and a column has values of one kind."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost._text import name_kind
from fencepost.errors import FencepostError

_KINDS: dict[str, str] = {"b": "a boolean", "i": "a number", "u": "a number", "f": "a number", "U": "a string"}
"""By the kind of a NumPy scalar."""


def read_records(records: Sequence[Any]) -> dict[str, list[Any]]:
    """The columns of records, in the order in which they first appear.

    >>> read_records([{"symbol": "IBM", "price": 41.5}, {"symbol": "HP"}])
    {'symbol': ['IBM', 'HP'], 'price': [41.5, None]}
    """
    names: dict[str, None] = {}
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise FencepostError(
                f"record {number} is of type {type(record).__name__}",
                "a dict of column to value",
                "Pass records such as [{'price': 41.5}], or a dict of columns such as {'price': [41.5]}.",
            )
        names.update(dict.fromkeys(record))
    for name in names:
        if not isinstance(name, str):
            raise FencepostError(f"the column {name!r} of a record", "a name", "Use strings as keys of records.")
    return {name: [record.get(name) for record in records] for name in names}


def column_of_records(name: str, values: list[Any]) -> Any:
    """A column as an Arrow array. A value that has no exact place among the others is refused, with its record."""
    kinds: dict[str, int] = {}
    for kind_of_type in {type(value) for value in values}:
        if kind_of_type is not float and kind_of_type is not int and kind_of_type is not type(None):
            kinds = _find_kinds(name, values)
            break
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        number, reason = _first_fault(values, error)
        expected = f"{next(iter(kinds), 'a number')} that Arrow holds exactly beside those before it"
        raise FencepostError(
            f"{values[number]!r} as {name} of record {number}, which Arrow refuses ({reason})",
            expected,
            f"Give {name} values of one type.",
        ) from None


def _find_kinds(name: str, values: list[Any]) -> dict[str, int]:
    """The one kind of a column, and the first record that has it."""
    kinds: dict[str, int] = {}
    for number, value in enumerate(values):
        kind = _kind_of(value)
        if kind is not None and kind not in kinds:
            kinds[kind] = number
            if len(kinds) > 1:
                first, place = next(iter(kinds.items()))
                raise FencepostError(
                    f"{value!r} as {name} of record {number}, {kind}",
                    f"{first}, as in record {place}",
                    f"Give {name} values of one type.",
                )
    return kinds


def _kind_of(value: Any) -> str | None:
    """What a value is; None for a null."""
    if value is None or (isinstance(value, (float, datetime, np.generic)) and value != value):  # NaN, NaT
        return None
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float, Decimal)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, datetime):
        return "a time without a zone" if value.tzinfo is None else "a time with a zone"
    if isinstance(value, date):
        return "a date"
    if isinstance(value, np.datetime64):
        return "a date" if np.datetime_data(value.dtype)[0] == "D" else "a time without a zone"
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        return _KINDS[value.dtype.kind]
    return name_kind(value)


def _first_fault(values: list[Any], error: Exception) -> tuple[int, Exception]:
    """The first value that Arrow refuses beside those before it, and why."""
    good, bad = 0, len(values)
    while good + 1 < bad:  # it takes the first `good`, and refuses the first `bad`
        middle = (good + bad) // 2
        try:
            pa.array(values[:middle], from_pandas=True)
            good = middle
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as found:
            bad, error = middle, found
    return bad - 1, error
