"""Blocks of power-of-two sizes cut from one growing array, reused through a free list per size.

`state[0]` is the number of items handed out so far; `state[1 + c]` is 1 + the first free block of 2**c items,
or 0. Free blocks are chained through `links`, an array parallel to the items (a word of the block itself).
"""

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel

__all__ = ["new_state", "release", "size_class", "take"]

SIZE_CLASSES = 40


def new_state() -> npt.NDArray[np.int64]:
    """The bookkeeping of an empty arena."""
    return np.zeros(1 + SIZE_CLASSES, np.int64)


@kernel
def size_class(count: int) -> int:
    """The smallest c with 2**c >= count."""
    c = 0
    while (1 << c) < count:
        c += 1
    return c


@kernel
def take(state, links, c):  # type: ignore[no-untyped-def]
    """A block of 2**c items; the caller has made sure that the array has room for a new one."""
    head = state[1 + c]
    if head != 0:
        block = head - 1
        state[1 + c] = np.int64(links[block])
        return block
    block = state[0]
    state[0] = block + (1 << c)
    return block


@kernel
def release(state, links, c, block):  # type: ignore[no-untyped-def]
    """Give a block of 2**c items back."""
    links[block] = state[1 + c]
    state[1 + c] = block + 1
