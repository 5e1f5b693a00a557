"""Thirty-two lanes at once: compare 16-bit keys, and gather the slots that passed.

Written as LLVM vectors of 64 bytes, which every processor runs. Only `compress_32` has faster forms for AVX-512 and
AVX2, chosen when the code is compiled, by what LLVM can do on the target; all store the same items. Like all of
`fencepost.indexes.kernels.vectors` they may read and write up to `PADDING` items beyond what was asked for.
"""

import functools
from typing import Any, NamedTuple

from llvmlite import binding, ir
from numba import types

from fencepost.indexes.kernels.vectors import item_pointer, spread_lanes, vector_intrinsic

LANES = 32
ALL_LANES = (1 << LANES) - 1

_HALF, _WORD, _LONG = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_KEYS = ir.VectorType(_HALF, LANES)


class Vectors(NamedTuple):
    """Which instructions there are to gather chosen lanes."""

    avx512: bool
    avx2: bool


@functools.cache
def vectors_of(triple: str, processor: str, features: str) -> Vectors:
    """What a target has, read off what LLVM writes for it: a processor's name implies features that no list tells."""
    module = ir.Module()
    module.triple = triple
    kinds = [ir.VectorType(_WORD, lanes) for lanes in (16, 8)]
    lanes, address = ir.VectorType(ir.IntType(1), 16), _WORD.as_pointer()
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [kinds[0], address, lanes, kinds[1], kinds[1].as_pointer()]), "probe"
    )
    items, to, chosen, terms, sums = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    kind = ir.FunctionType(ir.VoidType(), [kinds[0], address, lanes])
    builder.call(_declared(builder, kind, "llvm.masked.compressstore.v16i32"), [items, to, chosen])
    builder.store(builder.add(terms, terms), sums)
    builder.ret_void()
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, features=features)
    written = machine.emit_assembly(binding.parse_assembly(str(module)))
    return Vectors("vpcompressd" in written, any("vpadd" in line and "ymm" in line for line in written.splitlines()))


def _load_keys(builder: Any, data: Any, offset: int) -> Any:
    address = builder.bitcast(builder.gep(data, [_LONG(offset)]), _KEYS.as_pointer())
    return builder.load(address, align=2, typ=_KEYS)


def _bits(builder: Any, lanes: Any) -> Any:
    return builder.zext(builder.bitcast(lanes, _WORD), _LONG)


@vector_intrinsic
def compare_32(typingctx: Any, keys: Any, start: Any, value: Any) -> Any:  # noqa: ARG001
    """Bit masks of the 32 keys from `start` on that are below the value, and of those above it."""
    signature = types.UniTuple(types.uint64, 2)(keys, types.int64, types.uint16)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        loaded = _load_keys(builder, builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]]), 0)
        spread = spread_lanes(builder, _KEYS, args[2])
        masks = [_bits(builder, builder.icmp_unsigned(sign, loaded, spread)) for sign in ("<", ">")]
        return context.make_tuple(builder, sig.return_type, masks)

    return signature, generate


@vector_intrinsic
def between_32(typingctx: Any, keys: Any, start: Any, stride: Any, value: Any) -> Any:  # noqa: ARG001
    """Where ``low <= value <= high``, and where ``low < value < high``: bit masks.

    The 32 lows are at `start`, the highs `stride` behind them.
    """
    signature = types.UniTuple(types.uint64, 2)(keys, types.int64, types.int64, types.uint16)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        lows, highs = _load_keys(builder, data, 0), _load_keys(builder, builder.gep(data, [args[2]]), 0)
        spread = spread_lanes(builder, _KEYS, args[3])
        masks = []
        for sign in ("<=", "<"):
            passed = builder.and_(builder.icmp_unsigned(sign, lows, spread), builder.icmp_unsigned(sign, spread, highs))
            masks.append(_bits(builder, passed))
        return context.make_tuple(builder, sig.return_type, masks)

    return signature, generate


@vector_intrinsic
def compress_32(typingctx: Any, target: Any, at: Any, source: Any, start: Any, mask: Any, add: Any) -> Any:  # noqa: ARG001
    """Write those of the 32 uint32 items from `start` on whose bit is set to `target`, from `at` on.

    To a target of int64 goes their sum with `add`.
    """
    signature = types.void(target, types.int64, source, types.int64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to = builder.gep(item_pointer(context, builder, sig.args[0], args[0]), [args[1]])
        data = builder.gep(item_pointer(context, builder, sig.args[2], args[2]), [args[3]])
        to_ids = sig.args[0].dtype == types.int64
        vectors = vectors_of(*context.codegen().magic_tuple())
        width, pack = (16, _packed_16) if vectors.avx512 else (8, _packed_8) if vectors.avx2 else (16, None)
        slots, ids = ir.VectorType(_WORD, width), ir.VectorType(_LONG, width)
        chosen_bits, chosen_lanes = ir.IntType(width), ir.VectorType(ir.IntType(1), width)
        added = spread_lanes(builder, ids, args[5])
        count = builder.module.declare_intrinsic("llvm.ctpop", [_LONG])
        for first in range(0, LANES, width):
            chosen = builder.trunc(builder.lshr(args[4], _LONG(first)), chosen_bits)
            address = builder.bitcast(builder.gep(data, [_LONG(first)]), slots.as_pointer())
            items = builder.load(address, align=4, typ=slots)
            if pack is not None:
                items = pack(builder, items, chosen)
            if to_ids:
                items = builder.add(builder.zext(items, ids), added)
            if pack is not None:
                builder.store(items, builder.bitcast(to, items.type.as_pointer()), align=items.type.element.width // 8)
            else:
                kind = ir.FunctionType(ir.VoidType(), [items.type, to.type, chosen_lanes])
                name = f"llvm.masked.compressstore.v16i{items.type.element.width}"
                builder.call(_declared(builder, kind, name), [items, to, builder.bitcast(chosen, chosen_lanes)])
            to = builder.gep(to, [builder.call(count, [builder.zext(chosen, _LONG)])])
        return context.get_dummy_value()

    return signature, generate


def _packed_16(builder: Any, items: Any, chosen: Any) -> Any:
    """Sixteen lanes with the chosen ones in front, by AVX-512."""
    lanes = ir.VectorType(ir.IntType(1), 16)
    kind = ir.FunctionType(items.type, [items.type, items.type, lanes])
    compress = _declared(builder, kind, "llvm.x86.avx512.mask.compress.v16i32")
    return builder.call(compress, [items, ir.Constant(items.type, None), builder.bitcast(chosen, lanes)])


def _packed_8(builder: Any, items: Any, chosen: Any) -> Any:
    """Eight lanes with the chosen ones in front, by AVX2: a table tells for every mask which lanes they are."""
    name = "fencepost.chosen_lanes"
    table = builder.module.globals.get(name)
    if table is None:
        kind = ir.ArrayType(_LONG, 256)
        table = ir.GlobalVariable(builder.module, kind, name)
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind, [_chosen_lanes(mask) for mask in range(256)])
    entry = builder.load(builder.gep(table, [_LONG(0), builder.zext(chosen, _LONG)]), typ=_LONG)
    order = builder.zext(builder.bitcast(entry, ir.VectorType(ir.IntType(8), 8)), items.type)
    permute = _declared(builder, ir.FunctionType(items.type, [items.type, items.type]), "llvm.x86.avx2.permd")
    return builder.call(permute, [items, order])


def _chosen_lanes(mask: int) -> int:
    """The numbers of the bits that are set, a byte each, lowest first."""
    return int.from_bytes(bytes(lane for lane in range(8) if mask >> lane & 1).ljust(8, b"\0"), "little")


def _declared(builder: Any, kind: Any, name: str) -> Any:
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


@vector_intrinsic
def lowest_bit(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of the lowest set bit of a uint64 that is not 0."""
    signature = types.int64(types.uint64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.cttz(args[0], ir.IntType(1)(1))

    return signature, generate


@vector_intrinsic
def first_lanes(typingctx: Any, count: Any) -> Any:  # noqa: ARG001
    """A mask of the lowest `count` bits, none below 0, all 32 from 32 on."""
    signature = types.uint64(types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        none, most = _LONG(0), _LONG(LANES)
        least = builder.select(builder.icmp_signed("<", args[0], none), none, args[0])
        clipped = builder.select(builder.icmp_signed(">", least, most), most, least)
        return builder.sub(builder.shl(_LONG(1), clipped), _LONG(1))

    return signature, generate
