"""The kernels of the interval skip list: lists, nodes, intervals, search. `ISList` says what they maintain."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Float64s, Int64s, UInt8s, UInt32s
from fencepost.indexes.contracts.registry import Queries
from fencepost.indexes.kernels.vectors import PADDING, copy_run, prefetch
from fencepost.indexes.papers.arena import release, size_class, take

MOST_LEVELS = 31
HEADER = NIL = 0
KEY = 0
NEXT, START, COUNT, ROOM, HEIGHT = 2, 3, 4, 5, 6
OWNERS = NEXT
BEHIND, AHEAD = 0, 1
CLOSED_LOW, CLOSED_HIGH, OWNS_LOW, OWNS_HIGH = 1, 2, 4, 8
NODES, ENTRIES = 0, 1
SEED, DRAWN, LEVELS, ALIVE = 0, 1, 2, 3
LANES = 24
VALUES_PER_ROUND = 1024


class SkipList(NamedTuple):
    """The arrays of an interval skip list; `ISList` says what holds between them."""

    keys: Float64s
    """Four columns per record, of which KEY is used: the key of a node, or the key that an edge leads to."""
    words: UInt32s
    """The same memory: NEXT of an edge or OWNERS of a node; START, COUNT and ROOM of its list; HEIGHT of a node."""
    ids: Int64s
    slots: UInt32s
    ends: UInt8s
    """Per slot: which ends belong to the interval, and whether the nodes at its ends count it as an owner."""
    arenas: Int64s
    """The state of the arenas of records and list entries."""
    state: Int64s
    """[seed, heights drawn, levels in use, nodes]"""
    before: Int64s
    """Per level, the predecessor that `search` found."""
    around: Float64s
    """Per level, the key of that predecessor (BEHIND) and the next one on the other side of the middle (AHEAD)."""
    tally: Int64s
    """Two rows of a count per level."""


class Visits(NamedTuple):
    """What a batch of searches finds: the lists that each value meets, as (start, length)."""

    lanes: Int64s
    counts: Int64s
    runs: UInt32s


# -- lists ----------------------------------------------------------------------------------------------
#
# A helper that takes a whole SkipList costs a reference count per array and call, so the common cases are spelled
# out where they occur: only a list that changes its block calls `move` or `trim`.

SHORT_OF_NODES, SHORT_OF_ENTRIES = 1, 2
MEASURE, RESERVE, ADD, REMOVE = 0, 1, 2, 3


@kernel
def whole(word: Any) -> Any:
    """A word of a record as an int64."""
    return np.int64(word)


@kernel
def missing_items(room: int, count: int) -> Any:
    """Items of the new block that a list needs if it is to hold `count` markers; 0 if it has the room."""
    return 0 if count <= (1 << room) >> 1 else 1 << size_class(count)


@kernel
def move(skip: SkipList, record: int, c: int) -> None:
    """Move a list to a block of 2**c items; the caller has made sure that the arena has one."""
    start, room = whole(skip.words[record, START]), whole(skip.words[record, ROOM])
    block = take(skip.arenas, ENTRIES, skip.slots, c)
    for j in range(whole(skip.words[record, COUNT])):
        skip.ids[block + j] = skip.ids[start + j]
        skip.slots[block + j] = skip.slots[start + j]
    if room:
        release(skip.arenas, ENTRIES, skip.slots, room - 1, start)
    skip.words[record, START] = block
    skip.words[record, ROOM] = c + 1


@kernel
def wasteful(room: int, count: int) -> bool:
    """Whether a list uses a quarter of its block or less."""
    return room > 0 and 8 * count <= 1 << room


@kernel
def trim(skip: SkipList, record: int) -> None:
    """Give back the block of an empty list; exchange that of a `wasteful` one, if a smaller one is free."""
    c = size_class(2 * whole(skip.words[record, COUNT]))
    if skip.words[record, COUNT] == 0:
        release(skip.arenas, ENTRIES, skip.slots, whole(skip.words[record, ROOM]) - 1, whole(skip.words[record, START]))
        skip.words[record, ROOM] = 0
    elif skip.arenas[ENTRIES, 1 + c]:
        move(skip, record, c)


@kernel
def among(slots: UInt32s, at: int, slot: np.uint32) -> bool:
    """Whether a slot is among 16 entries, all of them compared at once."""
    hit = False
    for j in range(16):
        hit |= slots[at + j] == slot
    return hit


# -- nodes ----------------------------------------------------------------------------------------------


@kernel
def drawn_height(state: Int64s) -> int:
    """The height of the next node: 1, and as often 1 more as a fair coin shows heads."""
    bits = np.uint64(state[SEED]) * np.uint64(0xD1342543DE82EF95) + np.uint64(state[DRAWN] + 1)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    height = 1
    while height < MOST_LEVELS and bits & np.uint64(1):
        bits >>= np.uint64(1)
        height += 1
    return height


@kernel
def search(skip: SkipList, key: float) -> Any:
    """The node of a key, or `NIL`; its predecessor on every level goes to `before`."""
    levels = skip.state[LEVELS]
    skip.before[levels:] = HEADER
    node = whole(HEADER)
    for level in range(levels - 1, -1, -1):
        while skip.keys[node + 1 + level, KEY] < key:
            node = whole(skip.words[node + 1 + level, NEXT])
        skip.before[level] = node
    return whole(skip.words[node + 1, NEXT]) if skip.keys[node + 1, KEY] == key else whole(NIL)


@kernel
def highest_in(around: Float64s, level: int, height: int, low: float) -> int:
    """The highest level, from `level` up, on which an interval that starts at `low` contains the edge in."""
    while level + 1 < height and low <= around[BEHIND, level + 1]:
        level += 1
    return level


@kernel
def highest_out(around: Float64s, level: int, height: int, high: float) -> int:
    """The highest level, from `level` up, on which an interval that ends at `high` contains the edge out."""
    while level + 1 < height and around[AHEAD, level + 1] <= high:
        level += 1
    return level


class Chain(NamedTuple):
    """The edges of a level that a marker leaves when it rises at a node, and takes again when it falls."""

    first: int
    last: int
    level: int
    inward: bool
    """It leads to the node, and passes over its own `last` too; otherwise it leads away, and passes over `first`."""


@kernel
def chain_in(before: Int64s, level: int) -> Chain:
    """From the predecessor one level up to the predecessor on this level."""
    return Chain(before[level + 1], before[level], level, True)


@kernel
def chain_out(words: UInt32s, node: int, level: int) -> Chain:
    """From the successor on this level to the successor one level up."""
    return Chain(whole(words[node + 1 + level, NEXT]), whole(words[node + 2 + level, NEXT]), level, False)


@kernel
def strip_chain(skip: SkipList, bounds: Float64s, chain: Chain, low: float, high: float) -> None:
    """Take the intervals that contain ``[low, high]`` off the edges of a chain and the nodes it passes over."""
    words, slots, ids = skip.words, skip.slots, skip.ids
    node = chain.first
    while node != chain.last:
        edge = node + 1 + chain.level
        beyond = whole(words[edge, NEXT])
        for record in (edge, beyond if chain.inward else node):
            start = kept = whole(words[record, START])
            for at in range(start, start + whole(words[record, COUNT])):
                slot = slots[at]
                if bounds[slot, 0] > low or bounds[slot, 1] < high:
                    slots[kept], ids[kept] = slot, ids[at]
                    kept += 1
            words[record, COUNT] = kept - start
            if wasteful(whole(words[record, ROOM]), kept - start):
                trim(skip, record)
        node = beyond


@kernel
def widen_chain(skip: SkipList, chain: Chain, more: int, task: int) -> Any:
    """Reserve the room for `more` markers on all edges and nodes of a chain; or measure the items it takes."""
    items, node = 0, chain.first
    while node != chain.last:
        edge = node + 1 + chain.level
        beyond = whole(skip.words[edge, NEXT])
        for record in (edge, beyond if chain.inward else node):
            count = whole(skip.words[record, COUNT]) + more
            missing = missing_items(whole(skip.words[record, ROOM]), count)
            items += missing
            if task == RESERVE and missing:
                move(skip, record, size_class(count))
        node = beyond
    return items


@kernel
def push(words: UInt32s, slots: UInt32s, ids: Int64s, record: int, slot: int, id: int) -> None:
    """Append a marker to a list that has the room."""
    at = whole(words[record, START]) + whole(words[record, COUNT])
    slots[at], ids[at] = slot, id
    words[record, COUNT] += 1


@kernel
def push_chain(words: UInt32s, slots: UInt32s, ids: Int64s, chain: Chain, slot: int, id: int) -> None:
    """Append a marker to all edges and nodes of a chain, which have the room."""
    node = chain.first
    while node != chain.last:
        edge = node + 1 + chain.level
        beyond = whole(words[edge, NEXT])
        push(words, slots, ids, edge, slot, id)
        push(words, slots, ids, beyond if chain.inward else node, slot, id)
        node = beyond


@kernel
def link(skip: SkipList, bounds: Float64s, key: float) -> Any:
    """The node of a key, which exists from now on; or minus what it is short of, and nothing has changed.

    A marker on an edge that the new node splits goes to the highest edge in and the highest edge out that its
    interval contains. One of the two may be higher than the edge was: then the chains below it are stripped.
    """
    found = search(skip, key)
    if found != NIL:
        return found
    height = drawn_height(skip.state)
    block_class = size_class(1 + height)
    if skip.arenas[NODES, 0] + (1 << block_class) > len(skip.words):
        return whole(-SHORT_OF_NODES)
    keys, words, slots, ids, before, around = skip.keys, skip.words, skip.slots, skip.ids, skip.before, skip.around
    into, onward = skip.tally[0], skip.tally[1]
    # The keys on both sides of the new node, level by level.
    for level in range(height):
        around[BEHIND, level] = keys[before[level], KEY]
        around[AHEAD, level] = keys[before[level] + 1 + level, KEY]
        into[level] = onward[level] = 0
    # What each new edge will hold: the markers that pass the node, by the highest level at which they fit.
    passing = 0
    for level in range(height):
        edge = before[level] + 1 + level
        start, count = whole(words[edge, START]), whole(words[edge, COUNT])
        for at in range(start, start + count):
            into[highest_in(around, level, height, bounds[slots[at], 0])] += 1
            onward[highest_out(around, level, height, bounds[slots[at], 1])] += 1
        passing += count
    # Nothing has changed yet: what is missing is said here.
    items = 4 * passing
    for level in range(height):
        items += missing_items(whole(words[before[level] + 1 + level, ROOM]), into[level])
    if skip.arenas[ENTRIES, 0] + items > len(slots):
        return whole(-SHORT_OF_ENTRIES)

    node = take(skip.arenas, NODES, words[:, NEXT], block_class)
    words[node : node + 1 + height, NEXT:] = 0
    words[node, HEIGHT] = height
    keys[node, KEY] = key
    if passing:
        move(skip, node, size_class(passing))
    # Each level gets an edge out of the node, with room for its markers.
    rising_in = rising_out = 0
    for level in range(height):
        edge, out = before[level] + 1 + level, node + 1 + level
        keys[out, KEY] = keys[edge, KEY]
        words[out, NEXT] = words[edge, NEXT]
        if onward[level]:
            move(skip, out, size_class(onward[level]))
        if missing_items(whole(words[edge, ROOM]), into[level]):
            move(skip, edge, size_class(into[level]))
    # A marker that rises leaves the chains of lower edges on its side.
    for level in range(height):
        count = whole(words[before[level] + 1 + level, COUNT])
        rising_in += count - into[level]
        rising_out += count - onward[level]
        if rising_in:
            strip_chain(skip, bounds, chain_in(before, level), around[BEHIND, level + 1], key)
        if rising_out:
            strip_chain(skip, bounds, chain_out(words, node, level), key, around[AHEAD, level + 1])
    # The markers of each edge go to the highest edge in and out; from above, so that none is looked at twice.
    for level in range(height - 1, -1, -1):
        edge = before[level] + 1 + level
        start = kept = whole(words[edge, START])
        for at in range(start, start + whole(words[edge, COUNT])):
            slot, id = slots[at], ids[at]
            push(words, slots, ids, node, slot, id)
            out = node + 1 + highest_out(around, level, height, bounds[slot, 1])
            push(words, slots, ids, out, slot, id)
            goal = highest_in(around, level, height, bounds[slot, 0])
            if goal > level:
                push(words, slots, ids, before[goal] + 1 + goal, slot, id)
            else:
                slots[kept], ids[kept] = slot, id
                kept += 1
        words[edge, COUNT] = kept - start
    # At last the node is linked.
    for level in range(height):
        edge = before[level] + 1 + level
        keys[edge, KEY] = key
        words[edge, NEXT] = node
        if wasteful(whole(words[edge, ROOM]), whole(words[edge, COUNT])):
            trim(skip, edge)
    skip.state[DRAWN] += 1
    skip.state[ALIVE] += 1
    skip.state[LEVELS] = max(skip.state[LEVELS], height)
    return node


@kernel
def unlink(skip: SkipList, bounds: Float64s, node: int) -> int:
    """Undo `link` for the node that `search` has just found; or what it is short of, and nothing has changed.

    A marker stays on the lower one of its two levels at the node; on the other side, it falls to that level.
    """
    keys, words, slots, ids, before, around = skip.keys, skip.words, skip.slots, skip.ids, skip.before, skip.around
    height, merged = whole(words[node, HEIGHT]), skip.tally[0]
    # What each merged edge will hold: a marker stays on the lower of its two levels.
    for level in range(height):
        around[AHEAD, level] = keys[node + 1 + level, KEY]
        merged[level] = 0
    for level in range(height):
        start, count = whole(words[before[level] + 1 + level, START]), whole(words[before[level] + 1 + level, COUNT])
        for at in range(start, start + count):
            merged[min(level, highest_out(around, 0, height, bounds[slots[at], 1]))] += 1
    # First the room that is missing is measured, and refused if there is none; then it is reserved.
    for task in (MEASURE, RESERVE):
        items = falling_in = falling_out = 0
        for level in range(height):
            edge = before[level] + 1 + level
            missing = missing_items(whole(words[edge, ROOM]), merged[level])
            items += missing
            if task == RESERVE and missing:
                move(skip, edge, size_class(merged[level]))
            falling_in += merged[level] - whole(words[edge, COUNT])
            falling_out += merged[level] - whole(words[node + 1 + level, COUNT])
            if falling_in:
                items += widen_chain(skip, chain_in(before, level), falling_in, task)
            if falling_out:
                items += widen_chain(skip, chain_out(words, node, level), falling_out, task)
        if task == MEASURE and skip.arenas[ENTRIES, 0] + items > len(slots):
            return SHORT_OF_ENTRIES

    # Markers that fall go to all edges of the chains below.
    for level in range(height):
        edge = before[level] + 1 + level
        start = kept = whole(words[edge, START])
        for at in range(start, start + whole(words[edge, COUNT])):
            slot, id = slots[at], ids[at]
            goal = highest_out(around, 0, height, bounds[slot, 1])
            for lower in range(goal, level):
                push_chain(words, slots, ids, chain_in(before, lower), slot, id)
            for lower in range(level, goal):
                push_chain(words, slots, ids, chain_out(words, node, lower), slot, id)
            if goal < level:
                push(words, slots, ids, before[goal] + 1 + goal, slot, id)
            else:
                slots[kept], ids[kept] = slot, id
                kept += 1
        words[edge, COUNT] = kept - start
    # The edges pass the node, and its room is given back.
    for level in range(height):
        edge, out = before[level] + 1 + level, node + 1 + level
        keys[edge, KEY] = keys[out, KEY]
        words[edge, NEXT] = words[out, NEXT]
        if wasteful(whole(words[edge, ROOM]), whole(words[edge, COUNT])):
            trim(skip, edge)
    for record in range(node, node + 1 + height):
        words[record, COUNT] = 0
        if words[record, ROOM]:
            trim(skip, record)
    release(skip.arenas, NODES, words[:, NEXT], size_class(1 + height), node)
    skip.state[ALIVE] -= 1
    while skip.state[LEVELS] and words[skip.state[LEVELS], NEXT] == NIL:
        skip.state[LEVELS] -= 1
    return 0


# -- intervals ------------------------------------------------------------------------------------------


@kernel
def walk(skip: SkipList, queries: Queries, slot: int, node: int, task: int) -> Any:
    """Add or remove the markers of an interval, from the node where it starts, by invariants 2 and 3.

    Or measure the items that this takes. The walk goes from node to edge to node.
    """
    keys, words, slots, ids = skip.keys, skip.words, skip.slots, skip.ids
    low, high, ends, id = queries.bounds[slot, 0], queries.bounds[slot, 1], skip.ends[slot], queries.ids[slot]
    items = level = 0
    record = node
    while True:
        key = keys[node, KEY]
        if record != node or ((low < key or ends & CLOSED_LOW) and (key < high or ends & CLOSED_HIGH)):
            start, count, room = whole(words[record, START]), whole(words[record, COUNT]), whole(words[record, ROOM])
            if task == REMOVE:
                at, last = start, start + count - 1
                while at + 16 <= last and not among(slots, at, np.uint32(slot)):
                    at += 16
                while at < last and slots[at] != slot:
                    at += 1
                slots[at], ids[at] = slots[last], ids[last]
                words[record, COUNT] = count - 1
                if wasteful(room, count - 1):
                    trim(skip, record)
            elif task == MEASURE:
                items += missing_items(room, count + 1)
            else:
                if missing_items(room, count + 1):
                    move(skip, record, room)
                push(words, slots, ids, record, slot, id)
        if record != node:
            node = record = whole(words[record, NEXT])
        elif key == high:
            return items
        else:
            while level + 1 < words[node, HEIGHT] and keys[node + 2 + level, KEY] <= high:
                level += 1
            while not keys[node + 1 + level, KEY] <= high:
                level -= 1
            record = node + 1 + level


@kernel
def attach(skip: SkipList, queries: Queries, flags: int, slots: Int64s, first: int) -> tuple[int, Any]:
    """Add each interval; the row it stopped at, to be done again, and what it was short of."""
    for row in range(first, len(slots)):
        slot = slots[row]
        low, high = queries.bounds[slot, 0], queries.bounds[slot, 1]
        start = link(skip, queries.bounds, low)
        if start < 0:
            return row, -start
        end = link(skip, queries.bounds, high)
        if end < 0:
            return row, -end
        ends = flags | (CLOSED_LOW if low == -np.inf else 0) | (CLOSED_HIGH if high == np.inf else 0)
        skip.ends[slot] = ends
        if skip.arenas[ENTRIES, 0] + walk(skip, queries, slot, start, MEASURE) > len(skip.slots):
            return row, SHORT_OF_ENTRIES
        walk(skip, queries, slot, start, ADD)
        skip.words[start, OWNERS] += 1
        skip.words[end, OWNERS] += 1
        skip.ends[slot] = ends | OWNS_LOW | OWNS_HIGH
    return len(slots), 0


@kernel
def detach(skip: SkipList, queries: Queries, slots: Int64s, first: int) -> tuple[int, int]:
    """Take out each interval; the row it stopped at, to be done again, and what it was short of."""
    for row in range(first, len(slots)):
        slot = slots[row]
        for side in range(2):
            node = search(skip, queries.bounds[slot, side])
            owns = OWNS_LOW << side
            if skip.ends[slot] & owns:
                if side == 0:
                    walk(skip, queries, slot, node, REMOVE)
                skip.words[node, OWNERS] -= 1
                skip.ends[slot] ^= owns
            if node != NIL and skip.words[node, OWNERS] == 0:
                short = unlink(skip, queries.bounds, node)
                if short:
                    return row, short
    return len(slots), 0


# -- search ---------------------------------------------------------------------------------------------


@kernel
def enter_lane(lanes: Int64s, lane: int, row: int, levels: int) -> None:
    """Start the search for the value in a row."""
    lanes[lane, 0], lanes[lane, 1], lanes[lane, 2], lanes[lane, 3] = row, HEADER + levels, levels, 0


@kernel
def trace(skip: SkipList, values: Float64s, visits: Visits) -> None:
    """Find the lists of the edges over each value, and of the node it hits.

    Many searches take turns, a step each, so that they wait for memory together. A lane is one of them: [row,
    record, 1 + level, runs]. A step goes right or down, which is computed rather than branched on.
    """
    lanes, counts, runs = visits
    keys, words, levels = skip.keys, skip.words, skip.state[LEVELS]
    if levels == 0:
        counts[:] = 0
        return
    active = row = min(len(lanes), len(values))
    for lane in range(active):
        enter_lane(lanes, lane, lane, levels)
    while active:
        lane = 0
        while lane < active:
            i, record, above, n = lanes[lane, 0], lanes[lane, 1], lanes[lane, 2], lanes[lane, 3]
            value, key, count = values[i], keys[record, KEY], words[record, COUNT]
            runs[i, n, 0] = words[record, START]
            runs[i, n, 1] = count
            right = whole(key < value)
            n += (1 - right) * whole((key != value) & (count > 0))
            beyond = whole(words[record, NEXT]) + above
            record = right * beyond + (1 - right) * (record - 1)
            prefetch(keys, record * keys.shape[1])
            above -= 1 - right
            lanes[lane, 1], lanes[lane, 2], lanes[lane, 3] = record, above, n
            if above == 0:
                if key == value:
                    runs[i, n, 0] = words[beyond - 1, START]
                    runs[i, n, 1] = words[beyond - 1, COUNT]
                    n += 1
                counts[i] = n
                if row < len(values):
                    enter_lane(lanes, lane, row, levels)
                    row += 1
                else:
                    active -= 1
                    for part in range(lanes.shape[1]):
                        lanes[lane, part] = lanes[active, part]
                    continue
            lane += 1


@kernel
def emit(skip: SkipList, visits: Visits, offsets: Int64s, out: Int64s, first: int) -> tuple[int, Any]:
    """Copy the lists of each value; the row it stopped at for want of room, and the room that row needs."""
    ahead = 2
    counts, runs = visits.counts, visits.runs
    rows, room, at = len(offsets) - 1, len(out) - PADDING, offsets[first]
    for i in range(first, rows):
        if i + ahead < rows:
            for run in range(counts[i + ahead]):
                prefetch(skip.ids, whole(runs[i + ahead, run, 0]))
        needed = 0
        for run in range(counts[i]):
            needed += whole(runs[i, run, 1])
        if at + needed > room:
            return i, needed
        for run in range(counts[i]):
            count = whole(runs[i, run, 1])
            copy_run(out, at, skip.ids, whole(runs[i, run, 0]), count)
            at += count
        offsets[i + 1] = at
    return rows, 0
