"""Slots kept in the order of (major, key): chunks of a fixed size behind a sorted directory of their first entries."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, i64
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.ssi.members import Int32s, enlarged

CHUNK = 64
_FILLED = 56
_SPARSE = 48

_LISTED, _USED, _FREE = 0, 1, 2


class Ordered(NamedTuple):
    """A dynamic sorted list of slots; the majors and keys they are sorted by are columns of the caller's.

    Arrays: `slots` holds `CHUNK` entries per chunk, and `keys` their keys if the list was made to have them at hand;
    `sizes` and `nexts` have an item per chunk; `order`, `majors` and `keys_first` are the directory: the chunks in
    order, with the major and key of their first entry; `homes` has the chunk where each major begins, or -1.
    `state` is [chunks in the directory, chunks ever used, 1 + first free chunk or 0]; free chunks are chained
    through `nexts`. `keys` and `keys_first` have padding behind them, for comparisons of several items at once.

    Invariants: (1) entries ascend by (major, key, slot), within and across chunks; (2) no chunk in the directory is
    empty; (3) `nexts` follows `order`; (4) two neighbours share a chunk if both are sparse, so that space is linear.
    """

    slots: Int32s
    keys: Int64s
    sizes: Int32s
    nexts: Int32s
    order: Int32s
    majors: Int32s
    keys_first: Int64s
    homes: Int32s
    state: Int64s


def empty_ordered(with_keys: bool) -> Ordered:
    """A list without entries."""
    return _sized(1, 8, with_keys)


def _sized(chunks: int, majors: int, with_keys: bool) -> Ordered:
    return Ordered(
        slots=np.zeros(chunks * CHUNK, np.int32),
        keys=np.zeros(chunks * CHUNK + PADDING if with_keys else 0, np.int64),
        sizes=np.zeros(chunks, np.int32),
        nexts=np.zeros(chunks, np.int32),
        order=np.zeros(chunks, np.int32),
        majors=np.zeros(chunks, np.int32),
        keys_first=np.zeros(chunks + PADDING, np.int64),
        homes=np.full(majors, -1, np.int32),
        state=np.zeros(3, np.int64),
    )


def built(slots: Int64s, majors: Int32s, keys: Int64s, majors_known: int, with_keys: bool) -> Ordered:
    """The list of these slots, which are in order already."""
    chunks = -(-len(slots) // _FILLED)
    ordered = _sized(chunks + chunks // 16 + 1, majors_known, with_keys)
    fill(ordered, slots, majors, keys)
    return ordered


def with_room(ordered: Ordered) -> Ordered:
    """The list with a chunk to spare."""
    if ordered.state[_FREE] or ordered.state[_USED] < len(ordered.sizes):
        return ordered
    size = len(ordered.sizes) + len(ordered.sizes) // 8 + 1
    per_chunk = ("sizes", "nexts", "order", "majors")
    return ordered._replace(
        slots=enlarged(ordered.slots, size * CHUNK),
        keys=enlarged(ordered.keys, size * CHUNK + PADDING) if len(ordered.keys) else ordered.keys,
        keys_first=enlarged(ordered.keys_first, size + PADDING),
        **{name: enlarged(getattr(ordered, name), size) for name in per_chunk},
    )


def with_majors(ordered: Ordered, count: int) -> Ordered:
    """The list with room for majors below `count`."""
    if count <= len(ordered.homes):
        return ordered
    homes = np.full(count + count // 4, -1, np.int32)
    homes[: len(ordered.homes)] = ordered.homes
    return ordered._replace(homes=homes)


def ordered_bytes(ordered: Ordered) -> int:
    """Bytes of all arrays."""
    return sum(array.nbytes for array in ordered)


def entries(ordered: Ordered) -> Int64s:
    """All slots in order."""
    runs = [
        ordered.slots[chunk * CHUNK : chunk * CHUNK + ordered.sizes[chunk]]
        for chunk in ordered.order[: ordered.state[_LISTED]].tolist()
    ]
    return np.concatenate(runs).astype(np.int64) if runs else np.zeros(0, np.int64)


def check_ordered(ordered: Ordered, majors: Int32s, keys: Int64s, expected: Int64s) -> None:
    """Assert the invariants, and that the list holds the expected slots, which ascend."""
    held = entries(ordered)
    assert np.array_equal(np.sort(held), expected), "every slot is listed once"
    assert np.array_equal(np.lexsort((held, keys[held], majors[held])), np.arange(len(held))), "entries ascend"
    listed = ordered.order[: ordered.state[_LISTED]]
    assert (ordered.sizes[listed] > 0).all(), "no chunk is empty"
    firsts = ordered.slots[listed * CHUNK]
    assert np.array_equal(ordered.majors[: len(listed)], majors[firsts]), "the directory has the first majors"
    assert np.array_equal(ordered.keys_first[: len(listed)], keys[firsts]), "the directory has the first keys"
    assert np.array_equal(ordered.nexts[listed[:-1]], listed[1:]), "the chain follows the directory"
    assert not len(listed) or ordered.nexts[listed[-1]] == -1, "the chain ends"
    if len(ordered.keys):
        for chunk in listed.tolist():
            own = slice(chunk * CHUNK, chunk * CHUNK + int(ordered.sizes[chunk]))
            assert np.array_equal(ordered.keys[own], keys[ordered.slots[own]]), "keys at hand are the slots' own"
    homes = np.full(len(ordered.homes), -1, np.int64)
    for chunk in listed[::-1].tolist():
        homes[majors[ordered.slots[chunk * CHUNK : chunk * CHUNK + ordered.sizes[chunk]]]] = chunk
    assert np.array_equal(homes, ordered.homes), "each major's home is the chunk where it begins"
    # Removals merge neighbours of up to `_SPARSE`; a split leaves half a chunk beside one of any size.
    sizes = ordered.sizes[listed].astype(np.int64)
    assert len(sizes) < 2 or (sizes[1:] + sizes[:-1] > CHUNK // 2).all(), "sparse neighbours are merged"


@kernel
def fill(ordered: Ordered, slots: Int64s, majors: Int32s, keys: Int64s) -> None:
    """Lay slots that are in order out in new chunks."""
    chunk = 0
    for begin in range(0, len(slots), _FILLED):
        size = min(_FILLED, len(slots) - begin)
        for i in range(size):
            slot = slots[begin + i]
            ordered.slots[chunk * CHUNK + i] = slot
            if len(ordered.keys):
                ordered.keys[chunk * CHUNK + i] = keys[slot]
            if ordered.homes[majors[slot]] < 0:
                ordered.homes[majors[slot]] = chunk
        ordered.sizes[chunk] = size
        ordered.order[chunk] = chunk
        ordered.nexts[chunk] = chunk + 1
        ordered.majors[chunk] = majors[slots[begin]]
        ordered.keys_first[chunk] = keys[slots[begin]]
        chunk += 1
    if chunk:
        ordered.nexts[chunk - 1] = -1
    ordered.state[_LISTED] = chunk
    ordered.state[_USED] = chunk


@kernel
def find(ordered: Ordered, majors: Int32s, keys: Int64s, major: int, key: int, slot: int) -> Any:
    """The place, in the directory and in its chunk, of the first entry at or after (major, key, slot).

    A place behind the last entry of a chunk stands for the next chunk's first.
    """
    low, high = i64(0), ordered.state[_LISTED] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        first_major, first_key = ordered.majors[middle], ordered.keys_first[middle]
        after = first_major > major
        if first_major == major:
            after = first_key > key
            if first_key == key:
                after = ordered.slots[i64(ordered.order[middle]) * CHUNK] > slot
        if after:
            high = middle - 1
        else:
            low = middle
    if high < 0:
        return i64(0), i64(0)
    base = i64(ordered.order[low]) * CHUNK
    begin, end = i64(0), i64(ordered.sizes[ordered.order[low]])
    while begin < end:
        middle = (begin + end) >> 1
        entry = ordered.slots[base + middle]
        before = majors[entry] < major
        if majors[entry] == major:
            before = keys[entry] < key or (keys[entry] == key and entry < slot)
        if before:
            begin = middle + 1
        else:
            end = middle
    return low, begin


@kernel
def first_of(ordered: Ordered, majors: Int32s, major: int) -> Any:
    """The index in its home chunk of a major's first entry."""
    base = i64(ordered.homes[major]) * CHUNK
    begin, end = i64(0), i64(ordered.sizes[ordered.homes[major]])
    while begin < end:
        middle = (begin + end) >> 1
        if majors[ordered.slots[base + middle]] < major:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def new_chunk(ordered: Ordered, at: int) -> Any:
    """An empty chunk, put into the directory at a place."""
    state = ordered.state
    if state[_FREE]:
        chunk = state[_FREE] - 1
        state[_FREE] = i64(ordered.nexts[chunk]) + 1
    else:
        chunk = state[_USED]
        state[_USED] += 1
    for i in range(state[_LISTED], at, -1):
        ordered.order[i] = ordered.order[i - 1]
        ordered.majors[i] = ordered.majors[i - 1]
        ordered.keys_first[i] = ordered.keys_first[i - 1]
    ordered.order[at] = chunk
    ordered.nexts[chunk] = -1
    if at > 0:
        ordered.nexts[ordered.order[at - 1]] = chunk
    if at < state[_LISTED]:
        ordered.nexts[chunk] = ordered.order[at + 1]
    ordered.sizes[chunk] = 0
    state[_LISTED] += 1
    return chunk


@kernel
def drop_chunk(ordered: Ordered, at: int) -> None:
    """Take a chunk out of the directory."""
    state = ordered.state
    chunk = ordered.order[at]
    if at > 0:
        ordered.nexts[ordered.order[at - 1]] = ordered.nexts[chunk]
    state[_LISTED] -= 1
    for i in range(at, state[_LISTED]):
        ordered.order[i] = ordered.order[i + 1]
        ordered.majors[i] = ordered.majors[i + 1]
        ordered.keys_first[i] = ordered.keys_first[i + 1]
    ordered.nexts[chunk] = state[_FREE] - 1
    state[_FREE] = i64(chunk) + 1


@kernel
def shift(ordered: Ordered, source: int, target: int, count: int) -> None:
    """Move entries, keys included, to a place that may overlap theirs."""
    if target > source:
        for i in range(count - 1, -1, -1):
            ordered.slots[target + i] = ordered.slots[source + i]
        if len(ordered.keys):
            for i in range(count - 1, -1, -1):
                ordered.keys[target + i] = ordered.keys[source + i]
    else:
        for i in range(count):
            ordered.slots[target + i] = ordered.slots[source + i]
        if len(ordered.keys):
            for i in range(count):
                ordered.keys[target + i] = ordered.keys[source + i]


@kernel
def name_first(ordered: Ordered, majors: Int32s, keys: Int64s, at: int) -> None:
    """Write a chunk's first entry into the directory."""
    first = ordered.slots[i64(ordered.order[at]) * CHUNK]
    ordered.majors[at] = majors[first]
    ordered.keys_first[at] = keys[first]


@kernel
def split(ordered: Ordered, majors: Int32s, keys: Int64s, at: int) -> None:
    """Move the upper half of a full chunk into a new one behind it."""
    half = CHUNK // 2
    old = i64(ordered.order[at])
    new = new_chunk(ordered, at + 1)
    shift(ordered, old * CHUNK + half, new * CHUNK, CHUNK - half)
    ordered.sizes[old] = half
    ordered.sizes[new] = CHUNK - half
    name_first(ordered, majors, keys, at + 1)
    before = majors[ordered.slots[old * CHUNK + half - 1]]
    for i in range(CHUNK - half):
        major = majors[ordered.slots[new * CHUNK + i]]
        if major != before:
            ordered.homes[major] = new
        before = major


@kernel
def merge(ordered: Ordered, majors: Int32s, at: int) -> None:
    """Append the entries of the next chunk to this one."""
    kept, gone = i64(ordered.order[at]), i64(ordered.order[at + 1])
    size, more = i64(ordered.sizes[kept]), i64(ordered.sizes[gone])
    for i in range(more):
        major = majors[ordered.slots[gone * CHUNK + i]]
        if ordered.homes[major] == gone:
            ordered.homes[major] = kept
    shift(ordered, gone * CHUNK, kept * CHUNK + size, more)
    ordered.sizes[kept] = size + more
    drop_chunk(ordered, at + 1)


@kernel
def has_room(ordered: Ordered) -> Any:
    """Whether there is a chunk to spare, which one `add` may need."""
    return ordered.state[_FREE] != 0 or ordered.state[_USED] < len(ordered.sizes)


@kernel
def compact(ordered: Ordered, majors: Int32s, keys: Int64s) -> None:
    """Fill every chunk but the last, so that others become free: room where there is no memory for more of it."""
    state = ordered.state
    listed = state[_LISTED]
    # Entries move to the front, in their order: the place written to is never behind the one read from.
    at, index = i64(-1), i64(CHUNK)
    for source in range(listed):
        begin = i64(ordered.order[source]) * CHUNK
        for i in range(begin, begin + ordered.sizes[ordered.order[source]]):
            if index == CHUNK:
                at, index = at + 1, i64(0)
            place = i64(ordered.order[at]) * CHUNK + index
            ordered.slots[place] = ordered.slots[i]
            if len(ordered.keys):
                ordered.keys[place] = ordered.keys[i]
            index += 1
    # What is behind them is free.
    state[_LISTED] = at + 1
    for source in range(at + 1, listed):
        chunk = i64(ordered.order[source])
        ordered.nexts[chunk] = state[_FREE] - 1
        state[_FREE] = chunk + 1
    before = i64(-1)
    for source in range(at + 1):
        chunk = i64(ordered.order[source])
        ordered.sizes[chunk] = CHUNK if source < at else index
        ordered.nexts[chunk] = ordered.order[source + 1] if source < at else -1
        name_first(ordered, majors, keys, source)
        for i in range(chunk * CHUNK, chunk * CHUNK + ordered.sizes[chunk]):
            major = i64(majors[ordered.slots[i]])
            if major != before:
                ordered.homes[major] = chunk
            before = major


@kernel
def put_back(ordered: Ordered, majors: Int32s, keys: Int64s, slot: int) -> None:
    """Insert a slot that was there when the list had a chunk to spare: then it has room without more memory."""
    if not has_room(ordered):
        compact(ordered, majors, keys)
    add(ordered, majors, keys, slot)


@kernel
def add_all(ordered: Ordered, majors: Int32s, keys: Int64s, start: int, slots: Int64s) -> Any:
    """Insert slots, from the `start`-th on, as long as there is room; the next one."""
    for i in range(start, len(slots)):
        if not has_room(ordered):
            return i
        add(ordered, majors, keys, slots[i])
    return len(slots)


@kernel
def discard_all(ordered: Ordered, majors: Int32s, keys: Int64s, slots: Int64s) -> None:
    """Take slots out that are there."""
    for slot in slots:
        discard(ordered, majors, keys, slot)


@kernel
def add(ordered: Ordered, majors: Int32s, keys: Int64s, slot: int) -> None:
    """Insert a slot; the caller has made room for a chunk."""
    major, key = majors[slot], keys[slot]
    at, index = find(ordered, majors, keys, major, key, slot)
    if ordered.state[_LISTED] == 0:
        new_chunk(ordered, 0)
    elif ordered.sizes[ordered.order[at]] == CHUNK:
        split(ordered, majors, keys, at)
        if index > CHUNK // 2:
            at, index = at + 1, index - CHUNK // 2
    chunk = i64(ordered.order[at])
    place = chunk * CHUNK + index
    shift(ordered, place, place + 1, ordered.sizes[chunk] - index)
    ordered.slots[place] = slot
    if len(ordered.keys):
        ordered.keys[place] = key
    ordered.sizes[chunk] += 1
    before = i64(-1)
    if index > 0:
        before = i64(majors[ordered.slots[place - 1]])
    elif at > 0:
        last = i64(ordered.order[at - 1])
        before = i64(majors[ordered.slots[last * CHUNK + ordered.sizes[last] - 1]])
    if before != major:
        ordered.homes[major] = chunk
    if index == 0:
        name_first(ordered, majors, keys, at)


@kernel
def discard(ordered: Ordered, majors: Int32s, keys: Int64s, slot: int) -> None:
    """Take a slot out that is there."""
    major = majors[slot]
    at, index = find(ordered, majors, keys, major, keys[slot], slot)
    chunk = i64(ordered.order[at])
    place = chunk * CHUNK + index
    first = ordered.homes[major] == chunk and (index == 0 or majors[ordered.slots[place - 1]] != major)
    size = i64(ordered.sizes[chunk]) - 1
    shift(ordered, place + 1, place, size - index)
    ordered.sizes[chunk] = size
    if first:
        home, entry = chunk, place
        if index == size:
            home = i64(ordered.nexts[chunk])
            entry = home * CHUNK
        ordered.homes[major] = home if home >= 0 and majors[ordered.slots[entry]] == major else -1
    if size == 0:
        drop_chunk(ordered, at)
        at -= 1
    elif index == 0:
        name_first(ordered, majors, keys, at)
    listed = ordered.state[_LISTED]
    if at >= 0 and at + 1 < listed and size_at(ordered, at) + size_at(ordered, at + 1) <= _SPARSE:
        merge(ordered, majors, at)
    elif at > 0 and size_at(ordered, at) + size_at(ordered, at - 1) <= _SPARSE:
        merge(ordered, majors, at - 1)


@kernel
def size_at(ordered: Ordered, at: int) -> Any:
    """The entries of the chunk at a place of the directory."""
    return i64(ordered.sizes[ordered.order[at]])
