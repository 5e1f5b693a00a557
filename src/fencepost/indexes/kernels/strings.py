"""A fixed set of strings numbered 0, 1, ...: flat arrays that find the number of a string."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, UInt32s, i64, u64
from fencepost.indexes.kernels.vectors import PADDING, load_word

NO_STRING, UNKNOWN_STRING = -1, -2


class StringTable(NamedTuple):
    """The arrays: string s is ``data[offsets[s]:offsets[s+1]]`` in UTF-8.

    `table` is an open-addressing hash table of 1 + number, 0 is free; at most six in seven places are taken.
    """

    offsets: Int64s
    data: UInt8s
    table: UInt32s


def string_table(offsets: Int64s, data: UInt8s) -> StringTable:
    """The table of distinct strings."""
    count = len(offsets) - 1
    padded = np.zeros(len(data) + PADDING, np.uint8)
    padded[: len(data)] = data
    made = StringTable(offsets, padded, np.zeros(count + count // 6 + 1, np.uint32))
    enter_strings(made)
    return made


@kernel
def word_at(data: UInt8s, at: int, end: int) -> Any:
    """Up to 8 bytes from `at` on as a number, those from `end` on as 0."""
    if at + 8 <= end:
        return load_word(data, at)
    word = u64(0)
    for j in range(end - at):
        word |= u64(data[at + j]) << u64(8 * j)
    return word


@kernel
def hashed(data: UInt8s, start: int, end: int) -> Any:
    """64 mixed bits of a string."""
    h = u64(end - start) * u64(0x9E3779B97F4A7C15)
    for at in range(start, end, 8):
        h = (h ^ word_at(data, at, end)) * u64(0xBF58476D1CE4E5B9)
        h ^= h >> u64(32)
    h *= u64(0x94D049BB133111EB)
    return h ^ (h >> u64(29))


@kernel
def same(a: UInt8s, a_start: int, b: UInt8s, b_start: int, length: int) -> Any:
    """Whether two strings of one length are equal."""
    for j in range(0, length, 8):
        if word_at(a, a_start + j, a_start + length) != word_at(b, b_start + j, b_start + length):
            return False
    return True


@kernel
def place_of(h: int, size: int) -> Any:
    """Where the search for a hash starts in a table of any size below 2**32."""
    return i64(((u64(h) >> u64(32)) * u64(size)) >> u64(32))


@kernel
def enter_strings(strings: StringTable) -> None:
    """Fill the hash table."""
    offsets, data, table = strings.offsets, strings.data, strings.table
    for s in range(len(offsets) - 1):
        at = place_of(hashed(data, offsets[s], offsets[s + 1]), len(table))
        while table[at] != 0:
            at = at + 1 if at + 1 < len(table) else 0
        table[at] = s + 1


@kernel
def find_strings(
    strings: StringTable, offsets: Int64s, data: UInt8s, valid: Bools, start: int, numbers: Int64s
) -> None:
    """Give each string that is in the table and has no number yet its number, counted from `start`.

    Numbers are `UNKNOWN_STRING` at first. What is not valid (an empty mask: all are) becomes `NO_STRING`.
    """
    own_offsets, own_data, table = strings.offsets, strings.data, strings.table
    for i in range(len(numbers)):
        if numbers[i] != UNKNOWN_STRING:
            continue
        if len(valid) > 0 and not valid[i]:
            numbers[i] = NO_STRING
            continue
        begin, end = offsets[i], offsets[i + 1]
        at = place_of(hashed(data, begin, end), len(table))
        while table[at] != 0:
            s = i64(table[at]) - 1
            own = own_offsets[s]
            if own_offsets[s + 1] - own == end - begin and same(own_data, own, data, begin, end - begin):
                numbers[i] = start + s
                break
            at = at + 1 if at + 1 < len(table) else 0


@kernel
def combine_codes(codes: Int64s, column: Int64s, size: int, pairs: Int64s) -> None:
    """Replace codes by those of pairs of them and a code of a further column, which has so many: the rank of a pair.

    `pairs` are those that occur, as ``code * size + further``, ascending.
    """
    for i in range(len(codes)):
        # A code of a later layer is beyond the size, and would be taken for another pair.
        code = i64(UNKNOWN_STRING)
        if codes[i] >= 0 and column[i] >= 0 and column[i] < size:
            pair = codes[i] * size + column[i]
            low, high = i64(0), i64(len(pairs))
            while low < high:
                middle = (low + high) >> 1
                if pairs[middle] < pair:
                    low = middle + 1
                else:
                    high = middle
            if low < len(pairs) and pairs[low] == pair:
                code = low
        codes[i] = code
