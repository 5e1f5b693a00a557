"""Arrays by their addresses: a table of numbers stands for any number of arrays, and a call passes one argument.

Passing an array to compiled code takes longer than a search, and a set of rules has dozens of them. Whoever makes a
table holds the arrays for as long as it is used.
"""

from typing import Any

from llvmlite import ir
from numba import types

from fencepost.indexes.kernels.vectors import vector_intrinsic


def address_of(array: Any) -> int:
    """Where the items of a NumPy array begin; it must be contiguous."""
    assert array.flags.c_contiguous, "compiled code sees one item after the other"
    address: int = array.__array_interface__["data"][0]
    return address


def _array(item: Any, address: Any, *shape: Any) -> Any:
    """The signature and the code of an array of items at an address, of one or two dimensions."""
    made = types.Array(item, len(shape), "C")

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        from numba.np.arrayobj import populate_array  # which takes long, and only compiling needs it

        array = context.make_array(made)(context, builder)
        size = context.get_abi_sizeof(context.get_data_type(item))
        word = ir.IntType(64)
        sizes = [builder.sext(each, word) if each.type.width < word.width else each for each in args[1:]]
        strides = [word(size)]
        for each in reversed(sizes[1:]):
            strides.insert(0, builder.mul(strides[0], each))
        data = builder.inttoptr(args[0], array.data.type)
        populate_array(array, data=data, shape=sizes, strides=strides, itemsize=word(size), meminfo=None)
        return array._getvalue()

    return made(address, *shape), generate


@vector_intrinsic
def int64s_at(_context: Any, address: Any, size: Any) -> Any:
    """The int64 array of so many items at an address; likewise the others."""
    return _array(types.int64, address, size)


@vector_intrinsic
def int64_rows_at(_context: Any, address: Any, rows: Any, columns: Any) -> Any:
    """The int64 array of so many rows and columns at an address."""
    return _array(types.int64, address, rows, columns)


@vector_intrinsic
def int16s_at(_context: Any, address: Any, size: Any) -> Any:
    """See `int64s_at`."""
    return _array(types.int16, address, size)


@vector_intrinsic
def uint32s_at(_context: Any, address: Any, size: Any) -> Any:
    """See `int64s_at`."""
    return _array(types.uint32, address, size)


@vector_intrinsic
def float64_rows_at(_context: Any, address: Any, rows: Any, columns: Any) -> Any:
    """See `int64_rows_at`."""
    return _array(types.float64, address, rows, columns)


@vector_intrinsic
def bytes_at(_context: Any, address: Any, size: Any) -> Any:
    """See `int64s_at`."""
    return _array(types.uint8, address, size)


@vector_intrinsic
def bools_at(_context: Any, address: Any, size: Any) -> Any:
    """See `int64s_at`."""
    return _array(types.boolean, address, size)
