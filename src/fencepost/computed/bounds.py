"""Ordered strings: the bounds of rules in order, and where a string lies among them.

The bound number r has the ordinal 2 * r, what lies between it and the next one 2 * r + 1. Only the order against bounds
matters to a rule, so this is exact. Order is by code point, which is that of UTF-8's bytes.
"""

import hashlib
import sys
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.indexes.arrays import Bools, Int64s

SMALLEST, LARGEST = -(2**63), 2**63 - 1
"""The ordinals of a range without a lower or an upper bound."""

_Words = npt.NDArray[np.uint64]


class Bounds:
    """Distinct strings in order.

    >>> bounds = Bounds.of(pa.array(["M", "Acme", "M"]))
    >>> ordinals, valid = bounds.ordinals(pa.array(["Acme", "Acme Ltd", "", "M", None, "Z"]))
    >>> ordinals.tolist(), valid.tolist()
    ([0, 1, -1, 2, 0, 3], [True, True, True, True, False, True])
    """

    def __init__(self, strings: Any) -> None:
        self.strings = strings
        """An Arrow array of large strings, ascending."""

    @classmethod
    def of(cls, strings: Any) -> "Bounds":
        """All distinct ones of an Arrow array."""
        distinct = pc.unique(strings.cast(pa.large_string()).drop_null())
        return cls(distinct.take(pc.array_sort_indices(distinct)))

    def __len__(self) -> int:
        return len(self.strings)

    @cached_property
    def digest(self) -> str:
        """Equal for equal bounds."""
        offsets, data = _buffers(self.strings)
        return hashlib.blake2b((offsets - offsets[0]).tobytes() + data.tobytes(), digest_size=8).hexdigest()

    @cached_property
    def _levels(self) -> list[_Words]:
        """The bounds in words of eight bytes; behind the last one their lengths."""
        offsets, data = _buffers(self.strings)
        return _words(offsets, data)

    @cached_property
    def _nearby(self) -> tuple[np.uint64, int, Int64s]:
        """The smallest first word, how far words are shifted to be the number of a cell, and where cells start."""
        first = self._levels[0]
        low, span = first[0], int(first[-1] - first[0])
        shift = max(0, span.bit_length() - (4 * len(first)).bit_length())
        cells = ((first - low) >> np.uint64(shift)).astype(np.int64)
        return low, shift, np.searchsorted(cells, np.arange(int(cells[-1]) + 2))

    def ordinals(self, values: Any) -> tuple[Int64s, Bools | None]:
        """Where each string of an Arrow array lies, and which rows have one (None where all do)."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if pa.types.is_dictionary(values.type):
            own, known = self.ordinals(values.dictionary)
            indices = np.asarray(pc.fill_null(values.indices.cast(pa.int64()), len(own)))
            known = np.ones(len(own), np.bool_) if known is None else known
            valid = np.append(known, False)[indices]
            return np.append(own, 0)[indices], None if valid.all() else valid
        valid = None if values.null_count == 0 else np.asarray(values.is_valid())
        strings = pc.fill_null(values.cast(pa.large_string()), "")
        if not len(self) or not len(strings):
            return np.full(len(strings), -1, np.int64), valid
        ordinals = self._search(*_buffers(strings))
        if valid is not None:
            ordinals[~valid] = 0
        return ordinals, valid

    def _search(self, offsets: Int64s, data: npt.NDArray[np.uint8]) -> Int64s:
        """The ordinals of strings, a word of each at a time: first of all, then of those that are not told apart."""
        levels, rows = self._levels, np.arange(len(offsets) - 1)
        ordinals = np.empty(len(rows), np.int64)
        starts, lengths = offsets[:-1], np.diff(offsets)
        low, shift, cells = self._nearby
        words = _word_of(starts, lengths, data, 0)
        above: Bools = words >= low
        distance = np.where(above, words, low) - low
        cell = np.minimum(distance >> np.uint64(shift), np.uint64(len(cells) - 2)).astype(np.int64)
        first, last = cells[cell], cells[cell + 1]
        for level, own in enumerate(levels):
            if level == len(levels) - 1:
                words = lengths.astype(np.uint64)
            elif level:
                words = _word_of(starts, lengths, data, level)
            begin = _lower(own, words, first, last)
            is_there = begin < last
            is_there[is_there] = own[begin[is_there]] == words[is_there]
            ordinals[rows[~is_there]] = 2 * begin[~is_there] - 1
            if level == len(levels) - 1:
                ordinals[rows[is_there]] = 2 * begin[is_there]
                break
            rows, words, begin, last = rows[is_there], words[is_there], begin[is_there], last[is_there]
            starts, lengths = starts[is_there], lengths[is_there]
            if not len(rows):
                break
            first, last = begin, _upper(own, words, begin, last)
        return ordinals

    def rank(self, strings: Any) -> Int64s:
        """The numbers of strings that are bounds; any number for one that is none."""
        return np.maximum(self.ordinals(strings)[0], 0) >> 1


def encode_ends(bounds: Bounds, strings: Any, closed: Bools, *, is_lower: bool) -> Int64s:
    """The ordinals of the lower or of the upper ends of ranges, whose bounds are strings; null is unbounded."""
    ordinals = 2 * bounds.rank(strings)
    ordinals += np.where(closed, 0, 1 if is_lower else -1)
    ordinals[np.asarray(strings.is_null())] = SMALLEST if is_lower else LARGEST
    return ordinals


def used_bounds(ends: Int64s, *, is_lower: bool) -> Int64s:
    """The number of the bound that each end of a range is about; -1 where it is unbounded."""
    numbers = (ends if is_lower else ends + 1) >> 1
    numbers[ends == (SMALLEST if is_lower else LARGEST)] = -1
    return numbers


def move_ends(ends: Int64s, numbers: Int64s, *, is_lower: bool) -> Int64s:
    """The ends of ranges among other bounds: `numbers` says what each bound's number is there."""
    used = used_bounds(ends.copy(), is_lower=is_lower)
    is_open = ends & 1
    moved = 2 * numbers[np.maximum(used, 0)] + (is_open if is_lower else -is_open)
    return np.where(used < 0, ends, moved)


def lowered(text: str) -> str:
    """A constant in lower case as LOWER makes it of columns, which Python does not for all letters."""
    found: str = pc.utf8_lower(pa.scalar(text)).as_py()
    return found


def after_prefix(prefix: str) -> str | None:
    r"""The least string above all that begin with a prefix; None where there is none.

    >>> after_prefix("Acme"), after_prefix("z\U0010ffff"), after_prefix("")
    ('Acmf', '{', None)
    """
    while prefix:
        last = ord(prefix[-1])
        if last < sys.maxunicode:
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None


def _lower(words: _Words, wanted: _Words, first: Int64s, last: Int64s) -> Int64s:
    """Per row the first place from `first` up to `last` whose word is not below the wanted one."""
    return _first_place(words, wanted, first, last, np.less)


def _upper(words: _Words, wanted: _Words, first: Int64s, last: Int64s) -> Int64s:
    """Likewise the first place whose word is above the wanted one."""
    return _first_place(words, wanted, first, last, np.less_equal)


def _first_place(words: _Words, wanted: _Words, first: Int64s, last: Int64s, is_before: np.ufunc) -> Int64s:
    """Per row the first place whose word is not before the wanted one: all rows are halved together."""
    low, high = first.copy(), last.copy()
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) >> 1
        before = is_before(words[middle], wanted[open_])
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]


def _words(offsets: Int64s, data: npt.NDArray[np.uint8]) -> list[_Words]:
    starts, lengths = offsets[:-1], np.diff(offsets)
    count = (int(lengths.max(initial=0)) + 7) // 8
    return [*(_word_of(starts, lengths, data, level) for level in range(max(1, count))), lengths.astype(np.uint64)]


def _word_of(starts: Int64s, lengths: Int64s, data: npt.NDArray[np.uint8], level: int) -> _Words:
    """Eight bytes of each string as a number that orders like them; where it is shorter, zeros."""
    each = np.ndarray((max(1, len(data) - 7),), "<u8", data, strides=(1,))
    left = np.clip(lengths - 8 * level, 0, 8)
    words = each[np.where(left > 0, starts + 8 * level, 0)].byteswap()
    kept: _Words = np.where(
        left == 0, np.uint64(0), np.uint64(2**64 - 1) << (8 * np.minimum(8 - left, 7)).astype(np.uint64)
    )
    found: _Words = words.astype(np.uint64) & kept
    return found


def _buffers(strings: Any) -> tuple[Int64s, npt.NDArray[np.uint8]]:
    """Offsets and bytes of an Arrow array of large strings without nulls; the bytes have eight more behind them."""
    _, offset_buffer, data_buffer = strings.buffers()
    if not len(strings) or offset_buffer is None:
        return np.zeros(len(strings) + 1, np.int64), np.zeros(8, np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + 8, np.uint8)
    if end > begin:
        data[: end - begin] = np.frombuffer(data_buffer, np.uint8)[begin:end]
    return offsets - begin, data
