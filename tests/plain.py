"""Runs kernels as plain Python, so that a debugger and a measure of coverage see their branches.

A plugin of pytest, for a process in which Numba compiles nothing:

    NUMBA_DISABLE_JIT=1 python -m pytest -p tests.plain tests/indexes

What is written in LLVM for Numba has no body that Python could run. It is written here a second time, in NumPy.
"""

import ctypes
import math
import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numba
import numba.extending
import numpy as np

_ROUNDS = 12
_VECTOR_BYTES = 64

U64 = np.uint64


def copy_run(target: Any, at: int, source: Any, start: int, count: int) -> None:
    target[at : at + count] = source[start : start + count]


def widen_run(target: Any, at: int, source: Any, start: int, count: int, add: int) -> None:
    target[at : at + count] = (source[start : start + count].astype(np.int64) + add).astype(target.dtype)


def fence() -> None:
    """Nothing is reordered here."""


def prefetch(array: Any, index: int) -> None:
    """Nothing is read ahead here."""


def items_until_aligned(array: Any) -> int:
    return int(-array.ctypes.data % _VECTOR_BYTES // array.itemsize)


def count_above(array: Any, start: int, count: int, value: int) -> int:
    return int(np.count_nonzero(array[start : start + count] > value))


def is_among(array: Any, start: int, count: int, value: int) -> bool:
    return bool((array[start : start + count] == value).any())


def first_above(array: Any, start: int, stop: int, value: int) -> int:
    return int(start + np.searchsorted(array[start:stop], value, side="right"))


def as_mask(lanes: Any) -> Any:
    """Bit i is set if lane i is."""
    return U64(sum(1 << int(lane) for lane in np.flatnonzero(lanes)))


def below_64(array: Any, start: int, value: int) -> tuple[Any, Any]:
    items = array[start : start + 64]
    return as_mask(items < value), U64((items == value).any())


def not_below_16(array: Any, start: int, value: int) -> Any:
    return as_mask(array[start : start + 16] >= value)


def bit_count(bits: Any) -> int:
    return int(bits).bit_count()


def bit_length(bits: Any) -> int:
    return int(bits).bit_length()


def load_word(array: Any, at: int) -> Any:
    return U64(int.from_bytes(array[at : at + 8].tobytes(), "little"))


def compare_32(keys: Any, start: int, value: int) -> tuple[Any, Any]:
    items = keys[start : start + 32]
    return as_mask(items < value), as_mask(items > value)


def between_32(keys: Any, start: int, stride: int, value: int) -> tuple[Any, Any]:
    lows, highs = keys[start : start + 32], keys[start + stride : start + stride + 32]
    return as_mask((lows <= value) & (value <= highs)), as_mask((lows < value) & (value < highs))


def compress_32(target: Any, at: int, source: Any, start: int, mask: Any, add: int) -> None:
    chosen = [lane for lane in range(32) if int(mask) >> lane & 1]
    items = source[start : start + 32][chosen]
    target[at : at + len(chosen)] = items if target.dtype == source.dtype else items.astype(np.int64) + add


def lowest_bit(bits: Any) -> int:
    return (int(bits) & -int(bits)).bit_length() - 1


def first_lanes(count: int) -> Any:
    return U64((1 << min(max(int(count), 0), 32)) - 1)


def mix_lanes(work: Any) -> None:
    from fencepost.indexes.kernels.blake2b import _MIXED, _SCHEDULE

    def turned(value: Any, bits: int) -> Any:
        return (value >> U64(bits)) | (value << U64(64 - bits))

    v, m = work[:16], work[16:32]
    for turn in range(_ROUNDS):
        for step, (a, b, c, d) in enumerate(_MIXED):
            for half, (first, second) in enumerate(((32, 24), (16, 63))):
                v[a] = v[a] + v[b] + m[_SCHEDULE[turn % len(_SCHEDULE)][2 * step + half]]
                v[d] = turned(v[d] ^ v[a], first)
                v[c] = v[c] + v[d]
                v[b] = turned(v[b] ^ v[c], second)


def array_at(dtype: Any) -> Callable[..., Any]:
    """Makes an array of the items at an address."""

    def items_at(address: int, *shape: int) -> Any:
        count = math.prod(map(int, shape))
        if not count:
            return np.zeros(shape, dtype)
        room = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(int(address))
        return np.frombuffer(room, dtype, count).reshape(shape)

    return items_at


PLAIN: dict[str, Callable[..., Any]] = {
    form.__name__: form
    for form in (
        copy_run, widen_run, fence, prefetch, items_until_aligned, count_above, is_among, first_above, below_64,
        not_below_16,
        bit_count, bit_length, load_word, compare_32, between_32, compress_32, lowest_bit, first_lanes, mix_lanes,
    )
} | {"stream_run": copy_run}  # fmt: skip
PLAIN |= {
    f"{items}_at": array_at(dtype)
    for items, dtype in {
        "int64s": np.int64,
        "int64_rows": np.int64,
        "int16s": np.int16,
        "uint32s": np.uint32,
        "float64_rows": np.float64,
        "bytes": np.uint8,
        "bools": np.bool_,
    }.items()
}


def plain_intrinsic(written_in_llvm: Callable[..., Any]) -> Callable[..., Any]:
    """Stands in for Numba's `intrinsic`."""
    name = written_in_llvm.__name__
    assert name in PLAIN, f"{name} is written in LLVM alone; give tests/plain.py the same in NumPy"
    return PLAIN[name]


def plain_overload(stub: Callable[..., Any], **_options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Stands in for Numba's `overload`: the stub's name means a function that chooses by the types of its arguments."""

    def chooses(choose: Callable[..., Any]) -> Callable[..., Any]:
        stub.__globals__[stub.__name__] = lambda *given: choose(*map(numba.typeof, given))(*given)
        return choose

    return chooses


def wrapped_u64(number: Any) -> Any:
    """Compiled code takes a negative number's bits; NumPy would refuse it."""
    return U64(int(number) & (1 << 64) - 1)


def wrapped_i64(number: Any) -> Any:
    """Likewise above the largest."""
    return wrapped_u64(number).astype(np.int64)


def pytest_load_initial_conftests() -> None:
    """Before anything imports a kernel."""
    assert numba.config.DISABLE_JIT, "set NUMBA_DISABLE_JIT=1"
    assert "fencepost.indexes" not in sys.modules
    numba.extending.intrinsic, numba.extending.overload = plain_intrinsic, plain_overload
    for found in pkgutil.walk_packages(import_module("fencepost.indexes").__path__, "fencepost.indexes."):
        module = vars(import_module(found.name))
        module |= {name: form for name, form in {"u64": wrapped_u64, "i64": wrapped_i64}.items() if name in module}
    np.seterr(over="ignore", invalid="ignore", divide="ignore")  # compiled code says nothing of these, either
