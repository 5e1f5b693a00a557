"""How large an Arrow stream is when it is read, found before it is: a few bytes, compressed, may become all memory.

The head of each message is a flatbuffer, which pyarrow checks as it opens the message. Of it this reads the places of
buffers and whether they are compressed; a compressed buffer begins with its length before that.
"""

import struct
from collections.abc import Iterator

import pyarrow as pa

_I64, _I32, _U32, _U16 = (struct.Struct(f"<{kind}") for kind in "qiIH")
_DICTIONARY, _BATCH = 2, 3


def stream_size(body: bytes) -> int:
    """Bytes of all buffers of a stream when they are not compressed; one that is used twice counts twice."""
    size = 0
    reader = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return size
        if message.body is not None:
            size += sum(_buffers(memoryview(message.metadata), memoryview(message.body)))


def _buffers(head: memoryview, body: memoryview) -> Iterator[int]:
    """The lengths of the buffers of a message."""
    root = _U32.unpack_from(head, 0)[0]
    kind_at, batch_at = _field(head, root, 1), _field(head, root, 2)
    kind = head[kind_at] if kind_at else 0
    if kind not in (_DICTIONARY, _BATCH) or not batch_at:
        return
    batch = _follow(head, batch_at)
    if kind == _DICTIONARY:
        batch = _follow(head, _field(head, batch, 1))
    buffers_at, is_compressed = _field(head, batch, 2), bool(_field(head, batch, 3))
    if not buffers_at:
        return
    buffers = _follow(head, buffers_at)
    for number in range(_U32.unpack_from(head, buffers)[0]):
        place = buffers + 4 + 16 * number
        offset, length = _I64.unpack_from(head, place)[0], _I64.unpack_from(head, place + 8)[0]
        if is_compressed and length >= _I64.size:
            before = _I64.unpack_from(body, offset)[0]
            length = length - _I64.size if before == -1 else before
        yield max(0, length)


def _field(head: memoryview, table: int, number: int) -> int:
    """Where a field of a table is; 0 where it is left out."""
    fields = table - _I32.unpack_from(head, table)[0]
    place = 4 + 2 * number
    if place >= _U16.unpack_from(head, fields)[0]:
        return 0
    inside = _U16.unpack_from(head, fields + place)[0]
    return table + inside if inside else 0


def _follow(head: memoryview, place: int) -> int:
    return int(place + _U32.unpack_from(head, place)[0])
