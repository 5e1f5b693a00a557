"""BLAKE2b of many short messages of one length: eight at a time, a vector lane each (RFC 7693)."""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, UInt8s, i64, u64
from fencepost.indexes.kernels.vectors import item_pointer, vector_intrinsic

_LANES = 8
_BLOCK = 128
_INITIAL = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_MIXED = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
"""The four words of the state that each step of a round mixes: columns, then diagonals."""
_SCHEDULE = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
"""Which word of the message goes where in each round; after ten rounds it begins again."""


def blake2b_rows(messages: UInt8s, digest_size: int) -> UInt8s:
    """The digests of many messages, a row each.

    Args:
        messages: a row per message, all of the same length above zero.
        digest_size: bytes of a digest, 1 to 64.

    >>> import hashlib
    >>> rows = np.frombuffer(b"abcabd", np.uint8).reshape(2, 3)
    >>> blake2b_rows(rows, 16)[1].tobytes() == hashlib.blake2b(b"abd", digest_size=16).digest()
    True
    """
    count, length = messages.shape
    blocks = -(-length // _BLOCK)
    padded = np.zeros((-(-count // _LANES) * _LANES, blocks * _BLOCK), np.uint8)
    padded[:count, :length] = messages
    states = np.empty((len(padded), 8), np.uint64)
    work = np.empty((40, _LANES), np.uint64)
    hash_groups(padded.view(np.uint64), length, digest_size, work, states)
    return np.ascontiguousarray(states[:count].view(np.uint8)[:, :digest_size])


def blake2b_records(fields: Int64s, widths: Int64s, digest_size: int, *, in_hex: bool) -> UInt8s:
    """The digests of records, one after the other.

    Args:
        fields: a row per field of the record, a column per record: numbers, which are packed as little-endian bytes.
        widths: how many bytes each field takes, up to 8.
        digest_size: bytes of a digest, 1 to 64.
        in_hex: as text in lower-case hex, or the bytes themselves.

    >>> import hashlib
    >>> text = blake2b_records(np.array([[7], [258]]), np.array([1, 2]), 16, in_hex=True)
    >>> text.tobytes().decode() == hashlib.blake2b(bytes([7, 2, 1]), digest_size=16).hexdigest()
    True
    """
    length = int(widths.sum())
    words = np.empty((_LANES, -(-length // _BLOCK) * _BLOCK // 8), np.uint64)
    work, states = np.empty((40, _LANES), np.uint64), np.empty((_LANES, 8), np.uint64)
    found = np.empty((2 if in_hex else 1) * digest_size * fields.shape[1], np.uint8)
    bytes_of = words.view(np.uint8), states.view(np.uint8)
    hash_fields(fields, widths, digest_size, words, bytes_of[0], work, states, bytes_of[1], in_hex, found)
    return found


@vector_intrinsic
def mix_lanes(_context: Any, work: Any) -> Any:
    """The twelve rounds on rows 0 to 15 of `work`, with the message in rows 16 to 31; a row is one vector."""
    signature = types.void(work)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = ir.IntType(64)
        vector = ir.VectorType(word, _LANES)
        first = item_pointer(context, builder, sig.args[0], args[0])

        def place(row: int) -> Any:
            return builder.bitcast(builder.gep(first, [word(row * _LANES)]), vector.as_pointer())

        def turned(value: Any, bits: int) -> Any:
            right, left = (ir.Constant(vector, [count] * _LANES) for count in (bits, 64 - bits))
            return builder.or_(builder.lshr(value, right), builder.shl(value, left))

        rows = [builder.load(place(row), align=8, typ=vector) for row in range(32)]
        v, m = rows[:16], rows[16:]
        for turn in range(12):
            for step, (a, b, c, d) in enumerate(_MIXED):
                for half, (first_turn, second_turn) in enumerate(((32, 24), (16, 63))):
                    message = m[_SCHEDULE[turn % 10][2 * step + half]]
                    v[a] = builder.add(builder.add(v[a], v[b]), message)
                    v[d] = turned(builder.xor(v[d], v[a]), first_turn)
                    v[c] = builder.add(v[c], v[d])
                    v[b] = turned(builder.xor(v[b], v[c]), second_turn)
        for row, value in enumerate(v):
            builder.store(value, place(row), align=8)
        return context.get_dummy_value()

    return signature, generate


@kernel
def hash_groups(
    words: npt.NDArray[np.uint64],
    length: int,
    digest_size: int,
    work: npt.NDArray[np.uint64],
    states: npt.NDArray[np.uint64],
) -> None:
    """Hash groups of `_LANES` messages; rows of `work` are 16 words of state, 16 of message and 8 of hash."""
    v, m, h = work[:16], work[16:32], work[32:]
    blocks = words.shape[1] // 16
    for group in range(0, len(words), _LANES):
        for word in range(8):
            for lane in range(_LANES):
                h[word, lane] = _INITIAL[word]
        for lane in range(_LANES):
            h[0, lane] ^= u64(0x01010000) ^ u64(digest_size)
        for block in range(blocks):
            is_last = block == blocks - 1
            counted = u64(length if is_last else (block + 1) * _BLOCK)
            for word in range(16):
                for lane in range(_LANES):
                    m[word, lane] = words[group + lane, block * 16 + word]
            for word in range(8):
                for lane in range(_LANES):
                    v[word, lane] = h[word, lane]
                    v[word + 8, lane] = _INITIAL[word]
            for lane in range(_LANES):
                v[12, lane] ^= counted
                if is_last:
                    v[14, lane] = ~v[14, lane]
            mix_lanes(work)
            for word in range(8):
                for lane in range(_LANES):
                    h[word, lane] ^= v[word, lane] ^ v[word + 8, lane]
        for word in range(8):
            for lane in range(_LANES):
                states[group + lane, word] = h[word, lane]


@kernel
def hash_fields(
    fields: Int64s,
    widths: Int64s,
    digest_size: int,
    words: npt.NDArray[np.uint64],
    packed: UInt8s,
    work: npt.NDArray[np.uint64],
    states: npt.NDArray[np.uint64],
    digests: UInt8s,
    in_hex: bool,
    found: UInt8s,
) -> None:
    """Pack records, hash `_LANES` of them at once, and write the digests, in hex or as they are.

    `packed` is `words`, byte by byte, and `digests` are `states` likewise.
    """
    count = fields.shape[1]
    at = i64(0)
    for first in range(0, count, _LANES):
        lanes = min(_LANES, count - first)
        words[:] = u64(0)
        for lane in range(lanes):
            place = 0
            for field in range(len(widths)):
                number = fields[field, first + lane]
                for byte in range(widths[field]):
                    packed[lane, place + byte] = (number >> (8 * byte)) & 255
                place += widths[field]
        hash_groups(words, widths.sum(), digest_size, work, states)
        for lane in range(lanes):
            for byte in range(digest_size):
                value = i64(digests[lane, byte])
                if not in_hex:
                    found[at] = value
                    at += 1
                    continue
                for half in (value >> 4, value & 15):
                    found[at] = half + (48 if half < 10 else 87)
                    at += 1
