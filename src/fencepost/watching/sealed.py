"""Files of state end in a seal of 32 bytes: a mark with the format, the length of what is before it, and a checksum.

So nothing is read of a file of which a byte has changed, or that was cut short.
"""

import struct

from fencepost.indexes.arrays import UInt8s
from fencepost.indexes.kernels.checksum import checksum

_SEAL = struct.Struct("<16sQQ")


def make_seal(mark: bytes, content: UInt8s) -> bytes:
    """The bytes that follow a content; the mark has 16."""
    return _SEAL.pack(mark, len(content), checksum(content))


def is_marked(mark: bytes, sealed: UInt8s) -> bool:
    """Whether a file ends in a seal with this mark."""
    return sealed[-_SEAL.size :].tobytes().startswith(mark)


def check_seal(mark: bytes, sealed: UInt8s) -> tuple[UInt8s, str | None]:
    """The content of a sealed file, and the fault that it has, if any: it goes on after "which"."""
    content, seal = sealed[: -_SEAL.size], sealed[-_SEAL.size :].tobytes()
    if len(seal) < _SEAL.size or not seal.startswith(mark):
        return content, "is cut short, or was saved in another format, or is something else"
    return content, None if seal == make_seal(mark, content) else "has changed since it was saved"
