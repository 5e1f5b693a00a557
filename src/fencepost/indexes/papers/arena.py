"""Blocks of power-of-two sizes cut from one growing array, reused through a free list per size.

Several arenas keep their bookkeeping in one array, a row each: item 0 is the number of items handed out so
far; item ``1 + c`` is 1 + the first free block of 2**c items, or 0. Free blocks are chained through `links`, an
array parallel to the items (a word of the block itself).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, i64

SIZE_CLASSES = 40


def new_arenas(count: int) -> Int64s:
    """The bookkeeping of `count` empty arenas."""
    return np.zeros((count, 1 + SIZE_CLASSES), np.int64)


@kernel
def size_class(count: int) -> Any:
    """The smallest c with 2**c >= count."""
    c = 0
    while (1 << c) < count:
        c += 1
    return c


@kernel
def take(arenas: Int64s, arena: int, links: npt.NDArray[Any], c: int) -> Any:
    """A block of 2**c items; the caller has made sure that the array has room for a new one."""
    head = arenas[arena, 1 + c]
    if head != 0:
        block = head - 1
        arenas[arena, 1 + c] = i64(links[block])
        return block
    block = arenas[arena, 0]
    arenas[arena, 0] = block + (1 << c)
    return block


@kernel
def has_block(arenas: Int64s, arena: int, items: int, c: int) -> Any:
    """Whether `take` can serve a block of 2**c items from an array of so many items."""
    return arenas[arena, 1 + c] != 0 or arenas[arena, 0] + (1 << c) <= items


@kernel
def release(arenas: Int64s, arena: int, links: npt.NDArray[Any], c: int, block: int) -> None:
    """Give a block of 2**c items back."""
    links[block] = arenas[arena, 1 + c]
    arenas[arena, 1 + c] = block + 1
