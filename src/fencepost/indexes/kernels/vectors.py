"""Wide copies for kernels, written once as LLVM vectors.

LLVM lowers a 64-byte vector to whatever the processor has (one AVX-512 register, two AVX, four SSE or NEON),
so the same code runs everywhere and gives the same answer. All of them may read and write up to `PADDING`
items beyond the run: both arrays must have that much room to spare.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

VECTOR_BYTES = 64
_WORTH_ALIGNING = 1 << 16
PADDING = 64
"""Items of slack behind every array that is copied from or to; covers the widest unrolled step."""


def vector_intrinsic(typing: Callable[..., Any]) -> Any:
    """Numba's decorator for a function written in LLVM, with a type that checkers accept."""
    return intrinsic(typing)


def aligned_empty(size: int, dtype: Any) -> Any:
    """An uninitialised array of `size` items with `PADDING` zeros behind it; a large one starts on a vector boundary.

    Zeros, because arrays are saved with their padding: what other memory held is nobody's business.
    """
    item = np.dtype(dtype).itemsize
    if size * item < _WORTH_ALIGNING:
        array = np.empty(size + PADDING, dtype)
    else:
        raw = np.empty(size + PADDING + VECTOR_BYTES // item, dtype)
        lead = (-raw.ctypes.data % VECTOR_BYTES) // item
        array = raw[lead : lead + size + PADDING]
    array[size:] = 0
    return array


def item_pointer(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """The address of an array's first item."""
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


def spread_lanes(builder: Any, vector: Any, value: Any) -> Any:
    """The vector with `value` in every lane."""
    nothing = ir.Constant(vector, ir.Undefined)
    word = ir.IntType(32)
    one = builder.insert_element(nothing, value, word(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(word, vector.count), [0] * vector.count))


def _steps(builder: Any, count: Any, width: int, body: Callable[[Any], None]) -> None:
    """A loop over 0, width, 2 * width, ... below `count`."""
    word = ir.IntType(64)
    position = cgutils.alloca_once_value(builder, word(0))
    check, inside, done = (builder.append_basic_block(name) for name in ("check", "inside", "done"))
    builder.branch(check)
    builder.position_at_end(check)
    step = builder.load(position)
    builder.cbranch(builder.icmp_signed("<", step, count), inside, done)
    builder.position_at_end(inside)
    body(step)
    builder.store(builder.add(step, word(width)), position)
    builder.branch(check)
    builder.position_at_end(done)


def _copy_loop(stream: bool) -> Any:
    def typing(_context: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:  # noqa: ARG001
        signature = types.void(target, types.int64, source, types.int64, types.int64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            vector, lanes = _vector(sig.args[0])
            align = VECTOR_BYTES if stream else vector.element.width // 8
            to = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
            source_data = builder.gep(item_pointer(context, builder, sig.args[2], args[2]), [args[3]])

            def body(step: Any) -> None:
                _move(builder, vector, to, source_data, step, align, stream)

            _steps(builder, args[4], lanes, body)
            return context.get_dummy_value()

        return signature, generate

    return typing


@vector_intrinsic
def copy_run(typingctx: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    """``target[at:at+count] = source[start:start+count]``, a vector at a time."""
    return _copy_loop(stream=False)(typingctx, target, at, source, start, count)


@vector_intrinsic
def stream_run(typingctx: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    """Like `copy_run` past the cache: for output larger than the cache. `target[at]` must be aligned.

    Call `fence` before anyone else reads the result.
    """
    return _copy_loop(stream=True)(typingctx, target, at, source, start, count)


@vector_intrinsic
def widen_run(typingctx: Any, target: Any, at: Any, source: Any, start: Any, count: Any, add: Any) -> Any:  # noqa: ARG001
    """``target[at:at+count] = source[start:start+count] + add`` from uint32, to int64 or to uint32."""
    signature = types.void(target, types.int64, source, types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide, lanes = _vector(sig.args[0])
        narrow = ir.VectorType(ir.IntType(32), lanes)
        to = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        source_data = builder.gep(item_pointer(context, builder, sig.args[2], args[2]), [args[3]])
        is_wider = lanes < _vector(sig.args[2])[1]
        added = spread_lanes(builder, wide, args[5] if is_wider else builder.trunc(args[5], wide.element))

        def body(step: Any) -> None:
            loaded = builder.load(
                builder.bitcast(builder.gep(source_data, [step]), narrow.as_pointer()), align=4, typ=narrow
            )
            sums = builder.add(builder.zext(loaded, wide) if is_wider else loaded, added)
            address = builder.bitcast(builder.gep(to, [step]), wide.as_pointer())
            builder.store(sums, address, align=wide.element.width // 8)

        _steps(builder, args[4], lanes, body)
        return context.get_dummy_value()

    return signature, generate


@vector_intrinsic
def fence(typingctx: Any) -> Any:  # noqa: ARG001
    """Order streamed stores before everything that follows."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@vector_intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """Ask for the cache line of ``array[index]`` (flat index) ahead of its use."""
    signature = types.void(array, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        address = builder.bitcast(
            builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]]), byte_pointer
        )
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [byte_pointer],
            ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word]),
        )
        builder.call(function, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


@vector_intrinsic
def items_until_aligned(typingctx: Any, array: Any) -> Any:  # noqa: ARG001
    """Items from ``array[0]`` to the next vector boundary: what must be stored before `stream_run` may be used."""
    signature = types.int64(array)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        item = sig.args[0].dtype.bitwidth // 8
        word = ir.IntType(64)
        address = builder.ptrtoint(item_pointer(context, builder, sig.args[0], args[0]), word)
        lead = builder.and_(builder.neg(address), ir.Constant(word, VECTOR_BYTES - 1))
        return builder.udiv(lead, ir.Constant(word, item))

    return signature, generate


@vector_intrinsic
def count_above(typingctx: Any, array: Any, start: Any, count: Any, value: Any) -> Any:  # noqa: ARG001
    """How many of the `count` int64 items from `start` on are > value."""
    signature = types.int64(array, types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = ir.IntType(64)
        vector = ir.VectorType(word, 8)
        data = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        threshold = spread_lanes(builder, vector, args[3])
        lanes = ir.Constant(vector, list(range(8)))
        total = cgutils.alloca_once_value(builder, word(0))
        popcount = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(8)])

        def body(step: Any) -> None:
            loaded = builder.load(builder.bitcast(builder.gep(data, [step]), vector.as_pointer()), align=8, typ=vector)
            counted = builder.icmp_signed("<", lanes, spread_lanes(builder, vector, builder.sub(args[2], step)))
            hit = builder.and_(builder.icmp_signed(">", loaded, threshold), counted)
            found = builder.zext(builder.call(popcount, [builder.bitcast(hit, ir.IntType(8))]), word)
            builder.store(builder.add(builder.load(total), found), total)

        _steps(builder, args[2], 8, body)
        return builder.load(total)

    return signature, generate


@vector_intrinsic
def is_among(typingctx: Any, array: Any, start: Any, count: Any, value: Any) -> Any:  # noqa: ARG001
    """Whether one of the `count` uint32 items from `start` on is the value."""
    signature = types.boolean(array, types.int64, types.int64, types.uint32)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        half = ir.IntType(16)
        vector = ir.VectorType(ir.IntType(32), 16)
        data = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        wanted = spread_lanes(builder, vector, args[3])
        lanes = ir.Constant(vector, list(range(16)))
        met = cgutils.alloca_once_value(builder, half(0))

        def body(step: Any) -> None:
            loaded = builder.load(builder.bitcast(builder.gep(data, [step]), vector.as_pointer()), align=4, typ=vector)
            left = builder.trunc(builder.sub(args[2], step), ir.IntType(32))
            counted = builder.icmp_signed("<", lanes, spread_lanes(builder, vector, left))
            hit = builder.and_(builder.icmp_signed("==", loaded, wanted), counted)
            builder.store(builder.or_(builder.load(met), builder.bitcast(hit, half)), met)

        _steps(builder, args[2], 16, body)
        return builder.icmp_unsigned("!=", builder.load(met), half(0))

    return signature, generate


@vector_intrinsic
def first_above(typingctx: Any, array: Any, start: Any, stop: Any, value: Any) -> Any:  # noqa: ARG001
    """The position of the first of ascending int64 items from `start` to before `stop` that is > value, or `stop`."""
    signature = types.int64(array, types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _, start, stop, value = args
        bit, byte, half, word = (ir.IntType(width) for width in (1, 8, 32, 64))
        vector = ir.VectorType(word, 8)
        data = item_pointer(context, builder, sig.args[0], args[0])
        threshold = spread_lanes(builder, vector, value)
        trailing = builder.module.declare_intrinsic("llvm.cttz", [half], ir.FunctionType(half, [half, bit]))
        entry = builder.block
        check, again, done = (builder.append_basic_block(name) for name in ("check", "again", "done"))
        builder.branch(check)
        builder.position_at_end(check)
        at = builder.phi(word)
        at.add_incoming(start, entry)
        loaded = builder.load(builder.bitcast(builder.gep(data, [at]), vector.as_pointer()), align=8, typ=vector)
        above = builder.zext(builder.bitcast(builder.icmp_signed(">", loaded, threshold), byte), half)
        passed = builder.call(trailing, [builder.or_(above, half(256)), bit(1)])
        reached = builder.add(at, builder.zext(passed, word))
        goes_on = builder.and_(builder.icmp_unsigned("==", above, half(0)), builder.icmp_signed("<", reached, stop))
        builder.cbranch(goes_on, again, done)
        builder.position_at_end(again)
        at.add_incoming(reached, again)
        builder.branch(check)
        builder.position_at_end(done)
        return builder.select(builder.icmp_signed("<", reached, stop), reached, stop)

    return signature, generate


@vector_intrinsic
def below_64(typingctx: Any, array: Any, start: Any, value: Any) -> Any:  # noqa: ARG001
    """Compare 64 int16 items from `start` on with a value: a bit mask of those below it, and 0 if none is equal."""
    signature = types.UniTuple(types.uint64, 2)(array, types.int64, types.int16)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        half, word, long = ir.IntType(16), ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(half, 32)
        data = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        spread = spread_lanes(builder, vector, args[2])
        parts = [
            builder.load(builder.bitcast(builder.gep(data, [long(offset)]), vector.as_pointer()), align=2, typ=vector)
            for offset in (0, 32)
        ]
        low, high = (
            builder.zext(builder.bitcast(builder.icmp_signed("<", part, spread), word), long) for part in parts
        )
        below = builder.or_(low, builder.shl(high, long(32)))
        equal = builder.or_(*(builder.icmp_signed("==", part, spread) for part in parts))
        return context.make_tuple(builder, sig.return_type, [below, builder.zext(builder.bitcast(equal, word), long)])

    return signature, generate


@vector_intrinsic
def not_below_16(typingctx: Any, array: Any, start: Any, value: Any) -> Any:  # noqa: ARG001
    """Compare 16 uint32 items from `start` on with a value: a bit mask of those that are not below it."""
    signature = types.uint64(array, types.int64, types.uint32)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(32), 16)
        data = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        loaded = builder.load(builder.bitcast(data, vector.as_pointer()), align=4, typ=vector)
        above = builder.icmp_unsigned(">=", loaded, spread_lanes(builder, vector, args[2]))
        return builder.zext(builder.bitcast(above, ir.IntType(16)), ir.IntType(64))

    return signature, generate


@vector_intrinsic
def bit_count(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of set bits of a uint64."""
    signature = types.int64(types.uint64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        function = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)])
        return builder.call(function, [args[0]])

    return signature, generate


@vector_intrinsic
def bit_length(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of bits up to the highest that is set, 0 if none is."""
    signature = types.int64(types.uint64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.sub(ir.IntType(64)(64), builder.ctlz(args[0], ir.IntType(1)(0)))

    return signature, generate


@vector_intrinsic
def load_word(typingctx: Any, array: Any, at: Any) -> Any:  # noqa: ARG001
    """Eight bytes of a uint8 array from `at` on, as a little-endian uint64."""
    signature = types.uint64(array, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = ir.IntType(64)
        address = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        return builder.load(builder.bitcast(address, word.as_pointer()), align=1, typ=word)

    return signature, generate
