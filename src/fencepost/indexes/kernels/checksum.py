"""A fast checksum of memory: finds any changed byte, not meant against forgery."""

from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import UInt8s, UInt64s, u64


def checksum(data: UInt8s) -> int:
    """64 bits that change with every single changed word, and almost surely with any other change."""
    whole = len(data) // 32 * 32
    tail = np.zeros(32, np.uint8)
    tail[: len(data) - whole] = data[whole:]
    words = np.concatenate([data[:whole].view(np.uint64)[:0], tail.view(np.uint64)])
    return int(mixed(data[:whole].view(np.uint64), words, len(data)))


@kernel
def mixed(words: UInt64s, tail: UInt64s, size: int) -> Any:
    """Four lanes, each a chain of bijections of its words, so that a single change never cancels out."""
    prime = u64(0x9E3779B97F4A7C15)
    a, b, c, d = u64(1), u64(2), u64(3), u64(4)
    for i in range(0, len(words), 4):
        a = (a ^ words[i]) * prime
        b = (b ^ words[i + 1]) * prime
        c = (c ^ words[i + 2]) * prime
        d = (d ^ words[i + 3]) * prime
        a ^= a >> u64(29)
        b ^= b >> u64(29)
        c ^= c >> u64(29)
        d ^= d >> u64(29)
    h = u64(size) * prime
    for lane in (a, b, c, d, tail[0], tail[1], tail[2], tail[3]):
        h = (h ^ lane) * prime
        h ^= h >> u64(32)
    return h
