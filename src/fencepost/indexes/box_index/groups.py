"""Dense numbers for the group keys of boxes."""

from typing import NamedTuple

import numpy as np

from fencepost.indexes.arrays import Int64s, UInt32s
from fencepost.indexes.box_index.rows import UNKNOWN_GROUP, find_groups
from fencepost.indexes.slice_list.window_kernels import enter_groups


class Groups(NamedTuple):
    """Keys by number, and a table that finds a number by open addressing.

    Invariants: (1) ``table[at]`` is 0 where free, else 1 + a number; (2) an eighth of the table is free at least;
    (3) the keys of the first ``size`` numbers are never edited, so readers may hold on to an older size.
    """

    keys: Int64s
    table: UInt32s
    size: int


def no_groups() -> Groups:
    """No group at all."""
    return Groups(np.zeros(0, np.int64), np.zeros(1, np.uint32), 0)


def find_numbers(groups: Groups, keys: Int64s) -> Int64s:
    """The number of each key, or `UNKNOWN_GROUP`."""
    numbers = np.empty((len(keys), 1), np.int64)
    find_groups(keys, 0, groups.keys, groups.table, numbers, 0)
    return numbers[:, 0]


def number_keys(groups: Groups, keys: Int64s) -> tuple[Groups, UInt32s]:
    """The groups with all of these keys among them, and the number of each key."""
    numbers = find_numbers(groups, keys)
    unknown = numbers == UNKNOWN_GROUP
    if unknown.any():
        new = np.unique(keys[unknown])
        count = groups.size + len(new)
        kept, table = groups.keys, groups.table
        if count > len(kept):
            room = count + (groups.size // 8)
            kept = np.zeros(room, np.int64)
            kept[: groups.size] = groups.keys[: groups.size]
            table = np.zeros(room + room // 7 + 1, np.uint32)
            enter_groups(kept[: groups.size], 0, table)
        kept[groups.size : count] = new
        enter_groups(kept[:count], groups.size, table)
        groups = Groups(kept, table, count)
        numbers = find_numbers(groups, keys)
    return groups, numbers.astype(np.uint32)


def only_first(groups: Groups) -> Groups:
    """The groups with a table of their own, for keys that were to come and did not."""
    table = np.zeros_like(groups.table)
    enter_groups(groups.keys[: groups.size], 0, table)
    return groups._replace(table=table)
