"""Memory of large answers that is used again.

To touch fresh memory costs about as much as to write an answer into it, since the system clears each page first. So
the memory of a large answer waits here once nobody holds the answer, a slice of it or an Arrow array over it, and the
next answer gets it. `FENCEPOST_WARM_MEMORY` says how much may wait, such as "64 MiB"; "off" keeps nothing.
"""

import itertools
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost._memory import free_memory, parse_size

SETTING = "FENCEPOST_WARM_MEMORY"
LEAST = 1 << 20
"""Bytes from which on memory comes from here: of less, malloc uses by itself what it had before."""
_MOST_KEPT = 1 << 30
"""Bytes that wait at most, unless the setting says otherwise; less where little memory is free."""
_FREE_SHARE = 16
_STEPS = 8
"""Sizes of blocks between a power of two and the next: a block is at most an eighth larger than what is asked for."""
_BITS = LEAST.bit_length() - 2
_SIZES = [(_STEPS + step) << (bits - 3) for bits in range(_BITS, 36) for step in range(1, _STEPS + 1)]
_ALIGNED = 64
"""Bytes of the widest vector, on whose boundary a block begins."""
_PATIENCE = 64
"""Blocks that come back before one that nobody takes goes to the system."""

Memory = npt.NDArray[np.uint8]


class _Loan:
    """Lends a block to one array. NumPy keeps the loan as long as any array shares the memory."""

    __slots__ = ("__array_interface__", "_memory", "_number", "_pool")

    def __init__(self, pool: "Pool", number: int, memory: Memory) -> None:
        self._pool, self._number, self._memory = pool, number, memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._pool.take_back(self._number, self._memory)


class Pool:
    """Blocks that wait, by size.

    Threads share it without a lock, since a loan may end in the middle of any call, also of one that holds the lock.
    Only single steps on lists change it, and no list is looked at for longer than one of them.

    Args:
        most: bytes that wait at most.

    >>> pool = Pool(most=1 << 24)
    >>> first = pool.lend(3 << 20)
    >>> address = first.ctypes.data
    >>> del first
    >>> pool.kept, pool.lend(3 << 20).ctypes.data == address
    (3145728, True)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._returned = itertools.count()
        self._waiting: list[list[tuple[int, Memory]]] = [[] for _ in _SIZES]
        """By size, when each block came back, and the block; the last comes first again, as the cache may have it."""

    @property
    def kept(self) -> int:
        """Bytes that wait."""
        return sum(size * len(blocks) for size, blocks in zip(_SIZES, self._waiting, strict=True))

    def lend(self, size: int) -> Memory | None:
        """Memory of so many bytes, or up to a quarter more, with whatever is in it; None for sizes that never wait."""
        if not LEAST <= size <= self.most or size > _SIZES[-1]:
            return None
        number = _number_of(size)
        found = self._find(number, 2)
        return np.asarray(_Loan(self, number, self._fresh(_SIZES[number]))) if found is None else found

    def lend_waiting(self, size: int) -> Memory | None:
        """The same of what waits, at most two and a half times as large; None where nothing does."""
        return self._find(_number_of(size), _STEPS + 2) if LEAST <= size <= self.most else None

    def _find(self, number: int, sizes: int) -> Memory | None:
        for each in range(number, min(number + sizes, len(_SIZES))):
            try:
                _, memory = self._waiting[each].pop()
            except IndexError:
                continue
            return np.asarray(_Loan(self, each, memory))
        return None

    def _fresh(self, size: int) -> Memory:
        try:
            memory = np.empty(size + _ALIGNED, np.uint8)
        except MemoryError:
            self.clear()
            memory = np.empty(size + _ALIGNED, np.uint8)
        lead = -memory.ctypes.data % _ALIGNED
        return memory[lead : lead + size]

    def take_back(self, number: int, memory: Memory) -> None:
        """Keep a block for the next who asks; what has waited longest makes room for it."""
        now = next(self._returned)
        self._waiting[number].append((now, memory))
        while True:
            kept, oldest, longest = 0, now, self._waiting[number]
            for size, blocks in zip(_SIZES, self._waiting, strict=True):
                if blocks:
                    try:
                        came = blocks[0][0]
                    except IndexError:
                        continue  # another thread took it
                    kept += size * len(blocks)
                    if came < oldest:
                        oldest, longest = came, blocks
            if not kept or (kept <= self.most and oldest >= now - _PATIENCE):
                return
            try:
                longest.pop(0)
            except IndexError:
                continue

    def clear(self) -> None:
        """Give all that waits to the system."""
        for blocks in self._waiting:
            blocks.clear()


def _number_of(size: int) -> int:
    """The place in `_SIZES` of the smallest block that has so many bytes."""
    bits = (size - 1).bit_length() - 1
    return (bits - _BITS) * _STEPS + -((1 << bits) - size >> (bits - 3)) - 1


def _most_kept() -> int:
    given = os.environ.get(SETTING)
    if given is None:
        return min(_MOST_KEPT, free_memory() // _FREE_SHARE)
    return 0 if given.strip().lower() == "off" else parse_size(given, SETTING)


_pool: Pool | None = None


def _of_process() -> Pool:
    global _pool
    if _pool is None:
        _pool = Pool(_most_kept())
    return _pool


def lend(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
    """An array of so many bytes or somewhat more, from the pool of this process; None if NumPy should make it."""
    if size < LEAST:
        return None
    memory = _of_process().lend(size)
    return None if memory is None else memory.view(dtype)


def lend_waiting(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
    """The same of memory that waits, up to two and a half times as much; None where none does."""
    if size < LEAST:
        return None
    memory = _of_process().lend_waiting(size)
    return None if memory is None else memory.view(dtype)


def keep_at_most(size: int) -> None:
    """Let no more bytes than these wait in this process, unless the setting says how many may."""
    if os.environ.get(SETTING) is None:
        pool = _of_process()
        pool.most = min(pool.most, size)
