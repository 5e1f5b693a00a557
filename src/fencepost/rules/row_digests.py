"""Digests of the rows of a table of rules: two rows with one digest say the same rule.

Every row becomes one message of fixed length, so that all of them are hashed at once: bounds as their bytes, texts as
digests of their own.
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.indexes.arrays import Bools, UInt8s
from fencepost.indexes.kernels.blake2b import blake2b_rows
from fencepost.rules.table_blocks import TableBlock

SIZE = 16
"""Bytes of a digest."""
_FORMAT = "1"
"""Changes where the same row gets another digest."""
_FEW = 4_096
"""So many distinct texts are hashed one by one."""
_AT_ONCE = 8_192
"""Rows whose messages are made and hashed before the next ones: they stay in the cache."""


def digest_rows(block: TableBlock, *, with_enabled: bool, conditions: Any = None) -> UInt8s:
    """A digest of `SIZE` bytes for each rule of a table, of all but its id and version.

    Args:
        block: the table; columns and bounds go into the digests with their names and types.
        with_enabled: whether the table says which rules are enabled.
        conditions: Arrow texts in place of keys and bounds, if the table has them.
    """
    fields = block.fields
    shape = [_FORMAT, *(key.column for key in block.keys)]
    parts: list[UInt8s] = [_bytes_of(fields.detects), _bytes_of(fields.initial), _bytes_of(fields.expires)]
    if with_enabled:
        parts.append(_bytes_of(fields.enabled))
    parts += [digest_texts(fields.labels), digest_texts(fields.names)]
    parts += [digest_texts(key.values) for key in block.keys]
    if conditions is not None:
        parts.append(digest_texts(conditions))
    for range_ in block.ranges:
        shape += [range_.column, range_.bounds]
        for bounds in (range_.lower, range_.upper):
            shape.append("" if bounds is None else str(bounds.type))
            if bounds is not None:
                parts += _bytes_of_bounds(bounds)
    seed = hashlib.blake2b(repr(shape).encode(), digest_size=SIZE).digest()
    parts.append(np.broadcast_to(np.frombuffer(seed, np.uint8), (len(fields.ids), SIZE)))
    digests = np.empty((len(fields.ids), SIZE), np.uint8)
    for start in range(0, len(digests), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        digests[rows] = blake2b_rows(np.concatenate([part[rows] for part in parts], axis=1), SIZE)
    damped = np.flatnonzero(np.asarray(pc.is_valid(fields.damping)))
    if len(damped):  # all others keep the digests that they had before there was any
        own = digest_texts(fields.damping.take(pa.array(damped)))
        digests[damped] = blake2b_rows(np.concatenate([digests[damped], own], axis=1), SIZE)
    return digests


def digest_texts(texts: Any) -> UInt8s:
    """A digest per text, zeros for null."""
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    digests = np.zeros((len(texts.dictionary) + 1, SIZE), np.uint8)  # the last one is that of null
    digests[:-1] = _digest_distinct(texts.dictionary)
    numbers = np.asarray(pc.fill_null(texts.indices.cast(pa.int64()), len(texts.dictionary)))
    found: UInt8s = digests[numbers]
    return found


def _digest_distinct(texts: Any) -> UInt8s:
    if len(texts) <= _FEW:
        made = b"".join(hashlib.blake2b(text.encode(), digest_size=SIZE).digest() for text in texts.to_pylist())
        return np.frombuffer(made, np.uint8).reshape(-1, SIZE)
    plain = texts.cast(pa.large_string())
    count = len(plain)
    offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset : plain.offset + count + 1]
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    digests = np.empty((count, SIZE), np.uint8)
    for length in np.unique(lengths).tolist():  # mostly a few: those of one length are hashed at once
        rows = np.flatnonzero(lengths == length)
        if length:
            digests[rows] = blake2b_rows(data[offsets[rows][:, None] + np.arange(length)], SIZE)
        else:
            digests[rows] = np.frombuffer(hashlib.blake2b(b"", digest_size=SIZE).digest(), np.uint8)
    return digests


def _bytes_of(values: Any) -> UInt8s:
    """The bytes of numbers or booleans, a row each."""
    whole = np.ascontiguousarray(values)
    return whole.view(np.uint8).reshape(len(whole), whole.itemsize)


def _bytes_of_bounds(bounds: Any) -> list[UInt8s]:
    """The bytes of bounds, zeros for null, and where they are null."""
    is_valid: Bools = np.asarray(pc.is_valid(bounds))
    type_ = bounds.type
    if pa.types.is_boolean(type_):
        content = _bytes_of(np.asarray(pc.fill_null(bounds, False)))
    else:
        width = type_.bit_width // 8
        content = np.frombuffer(bounds.buffers()[1] or b"", np.uint8)
        content = content[bounds.offset * width : (bounds.offset + len(bounds)) * width].reshape(-1, width)
        if not is_valid.all():
            content = np.where(is_valid[:, None], content, np.uint8(0))
    return [content, _bytes_of(is_valid)]
