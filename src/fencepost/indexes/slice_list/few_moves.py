"""Few moves against many rules, in one call: what objects were and are, which rules hold at both, which of them differ.

For few rows it is the calls that cost, not the searches. So the arrays of all groups are in one table of addresses
(`plan`), those of the objects in another (`state`), and a row of `work` has all there is about one position: the
kernels for batches search it, and nothing between them is Python.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Int64s, i64
from fencepost.indexes.kernels.addresses import (
    address_of,
    bools_at,
    bytes_at,
    float64_rows_at,
    int16s_at,
    int64_rows_at,
    int64s_at,
    uint32s_at,
)
from fencepost.indexes.kernels.answers import drop_outside
from fencepost.indexes.kernels.strings import combine_codes
from fencepost.indexes.slice_list.search import Translation, copy_runs, find_runs
from fencepost.indexes.slice_list.view import View
from fencepost.indexes.slice_list.window_kernels import Part

TAKEN, LATE, NOTHING_SEEN, ASIDE = 0, 1, 2, 3
"""What `gather_moves` says of rows: a row is late, one observes nothing, or they are for the long way."""
ABSENT, DOUBLES, PLAIN = 0, 1, 2
"""How a column of rows is given: not at all, as doubles, as ordinals or codes."""
WAITS, TOO_MANY = -1, -2
"""What `find_changes` says where damping has to do with a change, and where more rules hold than it looks through."""
_MOST_HELD = 1 << 20

# Of `plan`: the head, then a record for every group.
_GROUPS, _HIDDEN, _RANKS, _BY_RANK, _RULES, _DETECTS, _DAMPED, _KINDS, _HEAD = range(9)
_NEXT, _AXIS, _AXIS_KNOWN, _KEYS, _FURTHER, _PARTS, _SLOTS, _SLOTS_SIZE, _ROWS, _BOXES, _FIRSTS, _LASTS, _RECORD = (
    range(13)
)
_KEY, _FURTHER_ITEMS, _PART = 4, 2, 2 * len(Part._fields)
# Of `state`: the head, then items for every attribute and every key.
_PRESENT, _TIMES, _SIZE, _TYPES, _STRINGS, _ONLY_NAMING, _STATE_HEAD = range(7)
_TYPE_ITEMS, _STRING_ITEMS = 3, 4
# Of `given`: the head, then where the items of each attribute and each key begin, then the form of each.
COUNT, SLOTS, INSTANTS, STRICT, GIVEN_HEAD = range(5)
NO_KEY = -1
_FIRST_ROOM = 256


# -- tables ------------------------------------------------------------------------------------------------


def plan_group(
    place: int,
    axis: tuple[int, int],
    keys: list[tuple[int, int, Int64s]],
    further: list[tuple[int, int]],
    view: View,
    rows: Int64s,
    compared: tuple[Int64s, Int64s],
) -> list[int]:
    """The record of one group, which begins at a place of the plan.

    Args:
        place: of the record.
        axis: the columns of the indexed attribute in `work`, its ordinal and whether it is known; -1 for none.
        keys: of each key column the code's column in `work`, how many codes the column of the rules has, and the pairs
            with the codes so far that occur (of the first there are none).
        further: the columns of further attributes, like `axis`.
        view: of the index.
        rows: of each box's rule.
        compared: of the further attributes, the first and the last ordinals.
    """
    record = [0, *axis, len(keys), len(further), len(view.parts)]
    record += [address_of(view.ids), len(view.ids), address_of(rows), len(rows), *map(address_of, compared)]
    for column, size, step in keys:
        record += [column, size, address_of(step), len(step)]
    for columns in further:
        record += columns
    for part in view.parts:
        for array in part:
            record += [address_of(array), len(array)]
    record[_NEXT] = place + len(record)
    return record


def plan_rules(
    groups: int,
    hidden: Any,
    order: tuple[Int64s, Int64s] | None,
    detects: npt.NDArray[Any],
    damped: Any,
    kinds: int,
) -> list[int]:
    """The head of a plan, which the records of its groups follow.

    Args:
        groups: how many there are.
        hidden: which rules are hidden, None if none are.
        order: of each rule the rank of its id, and the rule of each rank; None where ids ascend.
        detects: what each rule detects.
        damped: which rules are damped, None if none are.
        kinds: all that rules detect.
    """
    ranks, by_rank = (0, 0) if order is None else map(address_of, order)
    hides, damps = (0 if mask is None else address_of(mask) for mask in (hidden, damped))
    return [groups, hides, ranks, by_rank, len(detects), address_of(detects), damps, kinds]


def plan_state(
    present: Any,
    times: Int64s,
    types: list[tuple[Int64s, Any, bool]],
    strings: list[tuple[Int64s, Int64s | None, bool]],
) -> Int64s:
    """The table of what is known of objects.

    Args:
        present: which objects are here.
        times: of their last rows.
        types: of each attribute the ordinals, which of them are known, and whether it only names the row.
        strings: of each key the codes, the codes that rules have for them, and whether it only names the row.
    """
    only_naming = all(each[2] for each in (*types, *strings))
    table = [address_of(present), address_of(times), len(times), len(types), len(strings), int(only_naming)]
    for ordinals, known, naming in types:
        table += [address_of(ordinals), address_of(known), int(naming)]
    for codes, translation, naming in strings:
        table += (
            [address_of(codes), 0, 0]
            if translation is None
            else [address_of(codes), address_of(translation), len(translation)]
        )
        table.append(int(naming))
    return np.array(table, np.int64)


def columns_of_work(types: int, strings: int) -> int:
    """How many columns a row of `work` has before computed attributes.

    They are: whether the object is somewhere, ordinals, which of them are known, codes of keys, those that rules have.
    """
    return 1 + 2 * types + 2 * strings


# -- rows --------------------------------------------------------------------------------------------------


@kernel
def ordinal_of_bits(bits: int) -> Any:
    """The ordinal of a double with these bits."""
    return bits if bits >= 0 else -(bits & i64(0x7FFFFFFFFFFFFFFF))


@kernel
def translate(translation: Int64s, code: int) -> Any:
    """The code that rules have for a string; none for one that no rule asks about."""
    return translation[code] if code >= 0 and len(translation) > 0 else i64(NO_KEY)


@kernel
def gather_moves(state: Int64s, given: Int64s, work: Int64s, times: Int64s) -> Any:
    """Write where the objects of rows were and are, two rows of `work` each, and the times of the rows.

    Rows are taken if each is of another object, which is here; if they come in the order of time, strictly so where it
    is said; and if none is late, and each observes something. Else it says why not, of the first row that is not.
    """
    count = given[COUNT]
    types, strings, size = state[_TYPES], state[_STRINGS], state[_SIZE]
    slots = int64s_at(given[SLOTS], count)
    present, lasts = bools_at(state[_PRESENT], size), int64s_at(state[_TIMES], size)
    for i in range(count):
        slot = slots[i]
        if slot < 0 or slot >= size or not present[slot]:
            return ASIDE
        for j in range(i):
            if slots[j] == slot:
                return ASIDE
        times[i] = lasts[slot] + 1
        late = False
        if given[INSTANTS] != 0:
            times[i] = int64s_at(given[INSTANTS], count)[i]
            late = times[i] < lasts[slot]
            if i > 0 and (times[i] < times[i - 1] or (given[STRICT] != 0 and times[i] == times[i - 1])):
                return ASIDE
        before, after = work[2 * i], work[2 * i + 1]
        before[0] = after[0] = 1
        sees = state[_ONLY_NAMING] != 0
        at, items = _STATE_HEAD, GIVEN_HEAD
        columns = types + strings
        for j in range(types):
            ordinal, known = int64s_at(state[at], size)[slot], bools_at(state[at + 1], size)[slot]
            before[1 + j] = ordinal if known else 0
            before[1 + types + j] = known
            form = given[items + columns]
            if form != ABSENT:
                own = int64s_at(given[items], count)[i]
                is_number = True
                if form == DOUBLES:
                    is_number = (own & i64(0x7FFFFFFFFFFFFFFF)) <= i64(0x7FF0000000000000)
                    own = ordinal_of_bits(own)
                if is_number:
                    ordinal, known = own, True
                    sees |= state[at + 2] == 0
            after[1 + j] = ordinal if known else 0
            after[1 + types + j] = known
            at += _TYPE_ITEMS
            items += 1
        for j in range(strings):
            code = int64s_at(state[at], size)[slot]
            translation = int64s_at(state[at + 1], state[at + 2])
            first = 1 + 2 * types + j
            before[first] = code
            before[first + strings] = translate(translation, code)
            if given[items + columns] != ABSENT:
                own = int64s_at(given[items], count)[i]
                if own != NO_KEY:
                    code = own
                    sees |= state[at + 3] == 0
            after[first] = code
            after[first + strings] = translate(translation, code)
            at += _STRING_ITEMS
            items += 1
        if not sees:
            return NOTHING_SEEN
        if late:
            return LATE
    return TAKEN


@kernel
def store_moves(state: Int64s, given: Int64s, work: Int64s, times: Int64s) -> None:
    """Remember where the objects of rows are now."""
    count = given[COUNT]
    types, strings, size = state[_TYPES], state[_STRINGS], state[_SIZE]
    slots = int64s_at(given[SLOTS], count)
    lasts = int64s_at(state[_TIMES], size)
    for i in range(count):
        slot, after = slots[i], work[2 * i + 1]
        lasts[slot] = times[i]
        at = _STATE_HEAD
        for j in range(types):
            int64s_at(state[at], size)[slot] = after[1 + j]
            bools_at(state[at + 1], size)[slot] = after[1 + types + j] != 0
            at += _TYPE_ITEMS
        for j in range(strings):
            int64s_at(state[at], size)[slot] = after[1 + 2 * types + j]
            at += _STRING_ITEMS


# -- rules -------------------------------------------------------------------------------------------------


@allocating_kernel
def part_at(plan: Int64s, at: int) -> Any:
    """The part whose arrays a place of the plan has."""
    return Part(
        int64s_at(plan[at], plan[at + 1]),
        uint32s_at(plan[at + 2], plan[at + 3]),
        int64s_at(plan[at + 4], plan[at + 5]),
        int16s_at(plan[at + 6], plan[at + 7]),
        int64s_at(plan[at + 8], plan[at + 9]),
        uint32s_at(plan[at + 10], plan[at + 11]),
        uint32s_at(plan[at + 12], plan[at + 13]),
        float64_rows_at(plan[at + 14], plan[at + 15], 4),
        uint32s_at(plan[at + 16], plan[at + 17]),
        bytes_at(plan[at + 18], plan[at + 19]),
        int64s_at(plan[at + 20], plan[at + 21]),
    )


@allocating_kernel
def find_group(plan: Int64s, place: int, work: Int64s, ends: Int64s, rows: Int64s) -> Any:
    """Append the rules of the boxes of one group that hold at each position; `ends` says where those of each end."""
    count = len(work)
    values = np.zeros(count, np.int64)
    missing = np.zeros(count, np.bool_)
    codes = np.zeros(count, np.int64)
    axis, known = plan[place + _AXIS], plan[place + _AXIS_KNOWN]
    keys, further, parts = plan[place + _KEYS], plan[place + _FURTHER], plan[place + _PARTS]
    for i in range(count):
        missing[i] = work[i, 0] == 0
        if axis >= 0:
            values[i] = work[i, axis]
            missing[i] |= work[i, known] == 0
    at = place + _RECORD
    for key in range(keys):
        further_codes = np.empty(count, np.int64)
        for i in range(count):
            further_codes[i] = work[i, plan[at]]
        if key == 0:
            codes = further_codes
        else:
            combine_codes(codes, further_codes, plan[at + 1], int64s_at(plan[at + 2], plan[at + 3]))
        at += _KEY
    if keys > 0:
        for i in range(count):
            missing[i] |= codes[i] < 0
    compared = at
    at += _FURTHER_ITEMS * further
    runs = np.empty((count, parts, 2), np.uint32)
    total = 0
    for column in range(parts):
        total += find_runs(part_at(plan, at), values, missing, codes, runs, column)
        at += _PART
    start = ends[0]
    if start + total > _MOST_HELD:
        ends[count] = TOO_MANY
        return rows
    slots = uint32s_at(plan[place + _SLOTS], plan[place + _SLOTS_SIZE])
    offsets = np.zeros(count + 1, np.int64)
    boxes = np.empty(total, np.uint32)
    copy_runs(slots, runs, Translation(np.empty(0, np.int64), 0, 0), total, offsets, boxes)
    if further > 0 and total > 0:
        firsts = int64_rows_at(plan[place + _FIRSTS], plan[place + _BOXES], further)
        lasts = int64_rows_at(plan[place + _LASTS], plan[place + _BOXES], further)
        others, valid = np.empty((count, further), np.int64), np.empty((count, further), np.bool_)
        for i in range(count):
            for j in range(further):
                others[i, j] = work[i, plan[compared + _FURTHER_ITEMS * j]]
                valid[i, j] = work[i, plan[compared + _FURTHER_ITEMS * j + 1]] != 0
        drop_outside(offsets, boxes, firsts, lasts, others, valid)
    of_boxes = int64s_at(plan[place + _ROWS], plan[place + _BOXES])
    if start + offsets[count] > len(rows):
        longer = np.empty(2 * (start + offsets[count]), np.int64)
        longer[:start] = rows[:start]
        rows = longer
    for i in range(offsets[count]):
        rows[start + i] = of_boxes[boxes[i]]
    for i in range(count + 1):
        ends[i] = start + offsets[i]
    return rows


@allocating_kernel
def find_changes(plan: Int64s, work: Int64s, more_ends: Int64s, more: Int64s, changes: Int64s) -> Any:
    """What each move does to the rules: rows of `changes` are the move, the rule and the bit of what is detected.

    They come in the order of events: by move, then exits, enters and what is inside, then by id. It says how many there
    are, which may be more than there is room for; or that damping has to do with one of them. `more` has rules that
    hold at the positions by other structures, each until its end.
    """
    count, groups, number = len(work), plan[_GROUPS], plan[_RULES]
    rows = np.empty(_FIRST_ROOM, np.int64)
    ends = np.zeros((groups, count + 1), np.int64)
    place, last = i64(_HEAD), i64(0)
    for group in range(groups):
        ends[group, 0] = last
        rows = find_group(plan, place, work, ends[group], rows)
        last = ends[group, count]
        if last == TOO_MANY:
            return i64(TOO_MANY)
        place = plan[place + _NEXT]
    detects, kinds = bytes_at(plan[_DETECTS], number), plan[_KINDS]
    found = i64(0)
    held = np.empty(_FIRST_ROOM, np.int64)
    for move in range(count // 2):
        size, same = i64(0), kinds & 1 == 0
        for group in range(groups):
            begin, middle, end = ends[group, 2 * move], ends[group, 2 * move + 1], ends[group, 2 * move + 2]
            size += end - begin
            same &= middle - begin == end - middle
            i = begin
            while same and i < middle:
                same = rows[i] == rows[i + middle - begin]
                i += 1
        if len(more_ends) > 0:
            size += more_ends[2 * move + 2] - more_ends[2 * move]
            same &= more_ends[2 * move + 2] == more_ends[2 * move]
        if same:
            continue  # most often: the rules are those that they were
        if size > len(held):
            held = np.empty(2 * size, np.int64)
        middle = hold_rows(plan, ends, rows, more_ends, more, 2 * move, held, 0)
        end = hold_rows(plan, ends, rows, more_ends, more, 2 * move + 1, held, middle)
        for kind in (4, 2, 1):
            if kind != 1 or kinds & 1 != 0:
                found = compare_held(plan, detects, held, middle, end, move, kind, changes, found)
                if found == WAITS:
                    return found
    return found


@allocating_kernel
def hold_rows(
    plan: Int64s, ends: Int64s, rows: Int64s, more_ends: Int64s, more: Int64s, position: int, held: Int64s, at: int
) -> Any:
    """Put the rules that hold at one position in the order of their ids, each once; where they end."""
    hidden = bools_at(plan[_HIDDEN], plan[_RULES] if plan[_HIDDEN] != 0 else 0)
    ranks = int64s_at(plan[_RANKS], plan[_RULES] if plan[_RANKS] != 0 else 0)
    begin = at
    for group in range(len(ends) + (len(more_ends) > 0)):
        own, until = (rows, ends[group]) if group < len(ends) else (more, more_ends)
        for i in range(until[position], until[position + 1]):
            row = own[i]
            if len(hidden) > 0 and hidden[row]:
                continue
            held[at] = ranks[row] if len(ranks) > 0 else row
            at += 1
    chosen = held[begin:at]
    chosen.sort()
    kept = begin
    for i in range(begin, at):
        if kept == begin or held[i] != held[kept - 1]:
            held[kept] = held[i]
            kept += 1
    return kept


@kernel
def compare_held(
    plan: Int64s,
    detects: npt.NDArray[Any],
    held: Int64s,
    middle: int,
    end: int,
    move: int,
    kind: int,
    changes: Int64s,
    found: int,
) -> Any:
    """Append the changes of one kind: rules that held before (up to the middle), that hold after, or both."""
    damped = bools_at(plan[_DAMPED], plan[_RULES] if plan[_DAMPED] != 0 else 0)
    by_rank = int64s_at(plan[_BY_RANK], plan[_RULES] if plan[_BY_RANK] != 0 else 0)
    i, j = 0, middle
    while i < middle or j < end:
        is_before = i < middle and (j == end or held[i] <= held[j])
        is_after = j < end and (i == middle or held[j] <= held[i])
        row = held[i] if is_before else held[j]
        i += is_before
        j += is_after
        row = by_rank[row] if len(by_rank) > 0 else row
        if is_before != is_after and len(damped) > 0 and damped[row]:
            return i64(WAITS)
        wanted = is_after if kind == 1 else is_before != is_after and is_after == (kind == 2)
        if wanted and detects[row] & kind != 0:
            if found < len(changes):
                changes[found, 0] = move
                changes[found, 1] = row
                changes[found, 2] = kind
            found += 1
    return found
