"""Wide copies for kernels, written once as LLVM vectors.

LLVM lowers a 64-byte vector to whatever the processor has (one AVX-512 register, two AVX, four SSE or NEON),
so the same code runs everywhere and gives the same answer. All of them may read and write up to `PADDING`
items beyond the run: both arrays must have that much room to spare.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "PADDING",
    "aligned_empty",
    "copy_run",
    "count_above",
    "count_below",
    "fence",
    "items_until_aligned",
    "prefetch",
    "stream_run",
]

VECTOR_BYTES = 64
PADDING = 64
"""Items of slack behind every array that is copied from or to; covers the widest unrolled step."""


def aligned_empty(size: int, dtype: Any) -> Any:
    """An uninitialised array of `size` items that starts on a vector boundary, with `PADDING` behind it."""
    item = np.dtype(dtype).itemsize
    raw = np.empty(size + PADDING + VECTOR_BYTES // item, dtype)
    lead = (-raw.ctypes.data % VECTOR_BYTES) // item
    return raw[lead : lead + size + PADDING]


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


def _vector(array_type: Any) -> tuple[Any, int]:
    bits = array_type.dtype.bitwidth
    lanes = VECTOR_BYTES * 8 // bits
    return ir.VectorType(ir.IntType(bits), lanes), lanes


def _move(builder: Any, vector: Any, target: Any, source: Any, step: Any, align: int, stream: bool) -> None:
    to = builder.bitcast(builder.gep(target, [step]), vector.as_pointer())
    item = vector.element.width // 8
    loaded = builder.load(builder.bitcast(builder.gep(source, [step]), vector.as_pointer()), align=item, typ=vector)
    stored = builder.store(loaded, to, align=align)
    if stream:
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))


def _copy_loop(stream: bool) -> Any:
    def typing(_context: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:  # noqa: ARG001
        signature = types.void(target, types.int64, source, types.int64, types.int64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            vector, lanes = _vector(sig.args[0])
            align = VECTOR_BYTES if stream else vector.element.width // 8
            to = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
            source_data = builder.gep(_data(context, builder, sig.args[2], args[2]), [args[3]])
            zero = ir.Constant(ir.IntType(64), 0)
            width = ir.Constant(ir.IntType(64), lanes)
            position = cgutils.alloca_once_value(builder, zero)
            check = builder.append_basic_block("copy.check")
            body = builder.append_basic_block("copy.body")
            done = builder.append_basic_block("copy.done")
            builder.branch(check)
            builder.position_at_end(check)
            step = builder.load(position)
            builder.cbranch(builder.icmp_signed("<", step, args[4]), body, done)
            builder.position_at_end(body)
            _move(builder, vector, to, source_data, step, align, stream)
            builder.store(builder.add(step, width), position)
            builder.branch(check)
            builder.position_at_end(done)
            return context.get_dummy_value()

        return signature, generate

    return typing


@intrinsic  # type: ignore[untyped-decorator]
def copy_run(typingctx, target, at, source, start, count):  # type: ignore[no-untyped-def]
    """``target[at:at+count] = source[start:start+count]``, a vector at a time."""
    return _copy_loop(stream=False)(typingctx, target, at, source, start, count)


@intrinsic  # type: ignore[untyped-decorator]
def stream_run(typingctx, target, at, source, start, count):  # type: ignore[no-untyped-def]
    """Like `copy_run` past the cache: for output larger than the cache. `target[at]` must be aligned.

    Call `fence` before anyone else reads the result.
    """
    return _copy_loop(stream=True)(typingctx, target, at, source, start, count)


@intrinsic  # type: ignore[untyped-decorator]
def fence(typingctx):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Order streamed stores before everything that follows."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typingctx, array, index):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Ask for the cache line of ``array[index]`` (flat index) ahead of its use."""
    signature = types.void(array, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        address = builder.bitcast(builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]]), byte_pointer)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [byte_pointer],
            ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word]),
        )
        builder.call(function, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


@intrinsic  # type: ignore[untyped-decorator]
def items_until_aligned(typingctx, array):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Items from ``array[0]`` to the next vector boundary: what must be stored before `stream_run` may be used."""
    signature = types.int64(array)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        item = sig.args[0].dtype.bitwidth // 8
        word = ir.IntType(64)
        address = builder.ptrtoint(_data(context, builder, sig.args[0], args[0]), word)
        lead = builder.and_(builder.neg(address), ir.Constant(word, VECTOR_BYTES - 1))
        return builder.udiv(lead, ir.Constant(word, item))

    return signature, generate


def _count_loop(predicate: str) -> Any:
    def typing(_context: Any, array: Any, start: Any, count: Any, value: Any) -> Any:  # noqa: ARG001
        signature = types.int64(array, types.int64, types.int64, types.int64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            word = ir.IntType(64)
            vector = ir.VectorType(word, 8)
            data = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
            zero, eight = ir.Constant(word, 0), ir.Constant(word, 8)
            spread = builder.shuffle_vector(
                builder.insert_element(ir.Constant(vector, ir.Undefined), args[3], ir.Constant(ir.IntType(32), 0)),
                ir.Constant(vector, ir.Undefined),
                ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8),
            )
            lanes = ir.Constant(vector, list(range(8)))
            position = cgutils.alloca_once_value(builder, zero)
            total = cgutils.alloca_once_value(builder, zero)
            check = builder.append_basic_block("count.check")
            body = builder.append_basic_block("count.body")
            done = builder.append_basic_block("count.done")
            builder.branch(check)
            builder.position_at_end(check)
            step = builder.load(position)
            builder.cbranch(builder.icmp_signed("<", step, args[2]), body, done)
            builder.position_at_end(body)
            loaded = builder.load(builder.bitcast(builder.gep(data, [step]), vector.as_pointer()), align=8, typ=vector)
            left = builder.sub(args[2], step)
            left_spread = builder.shuffle_vector(
                builder.insert_element(ir.Constant(vector, ir.Undefined), left, ir.Constant(ir.IntType(32), 0)),
                ir.Constant(vector, ir.Undefined),
                ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8),
            )
            hit = builder.and_(
                builder.icmp_signed(predicate, loaded, spread), builder.icmp_signed("<", lanes, left_spread)
            )
            bits = builder.bitcast(hit, ir.IntType(8))
            popcount = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(8)])
            found = builder.zext(builder.call(popcount, [bits]), word)
            builder.store(builder.add(builder.load(total), found), total)
            builder.store(builder.add(step, eight), position)
            builder.branch(check)
            builder.position_at_end(done)
            return builder.load(total)

        return signature, generate

    return typing


@intrinsic  # type: ignore[untyped-decorator]
def count_below(typingctx, array, start, count, value):  # type: ignore[no-untyped-def]
    """How many of the `count` int64 items from `start` on are < value."""
    return _count_loop("<")(typingctx, array, start, count, value)


@intrinsic  # type: ignore[untyped-decorator]
def count_above(typingctx, array, start, count, value):  # type: ignore[no-untyped-def]
    """How many of the `count` int64 items from `start` on are > value."""
    return _count_loop(">")(typingctx, array, start, count, value)
