"""Arrow arrays of a few values, without pandas.

`pa.array` asks pandas whether it was given a Series, and imports it for that where it is installed: most of what the
first answer of a process would take.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_FEW = 10_000
"""Values that are worth it: of more of them the import takes a small part."""


def plain_array(type_: Any, items: Any, known: Any = None) -> Any:
    """The array over NumPy's items, as Arrow keeps those of this type; nothing is copied.

    >>> plain_array(pa.int64(), np.array([7, 8]), np.array([True, False])).to_pylist()
    [7, None]
    """
    nulls = 0 if known is None else len(known) - int(np.count_nonzero(known))
    mask = pa.py_buffer(np.packbits(known, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(type_, len(items), [mask, pa.py_buffer(items)], nulls)


def strings_array(texts: Sequence[str | None]) -> Any:
    """Texts as strings.

    >>> strings_array(["a", None]).to_pylist()
    ['a', None]
    """
    builder = pa.lib.StringBuilder()
    builder.append_values(texts)
    return builder.finish()


def array_of(values: Any) -> Any:
    """The array of some values; NaN is null, as pandas has it.

    >>> array_of(["a", None]).to_pylist(), array_of([1.5, float("nan")]).to_pylist()
    (['a', None], [1.5, None])
    >>> array_of([1, None]).to_pylist(), array_of((True,)).to_pylist()
    ([1, None], [True])
    """
    if "pandas" not in sys.modules and isinstance(values, list | tuple) and len(values) < _FEW:
        made = _array_of_few(values)
        if made is not None:
            return made
    return pa.array(values, from_pandas=True)


def _array_of_few(values: Sequence[Any]) -> Any:
    """The array of texts, floats or whole numbers; None for any others."""
    kinds = set(map(type, values))
    if kinds <= {str, type(None)} and str in kinds:
        return strings_array(list(values))
    if kinds == {float}:
        numbers = np.array(values, np.float64)
        return plain_array(pa.float64(), numbers, ~np.isnan(numbers))
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return plain_array(pa.int64(), np.array(values, np.int64))
    return None


def text_array(texts: Sequence[str | None]) -> Any:
    """Texts as large strings.

    >>> text_array([]).type, text_array([None]).null_count
    (DataType(large_string), 1)
    """
    if "pandas" in sys.modules or len(texts) >= _FEW:
        return pa.array(texts, pa.large_string())
    return strings_array(list(texts)).cast(pa.large_string())
