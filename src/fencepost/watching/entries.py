"""What is remembered of damped pairs: an entry for those that are not plainly inside or outside."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.emitting.damping import new_states
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.kernels.damping import (
    ENTERS,
    FIELDS,
    INNER,
    LAST,
    NEVER,
    QUIET,
    RAW,
    REPORTED,
    ROWS,
    SINCE,
    collect_listed,
    count_listed,
    link_entries,
)

_NOTHING = np.zeros(0, np.int64)
_MOST_ROWS = 2**31 - 1
_GROWTH = 16
"""Room grows by a sixteenth: there may be millions of entries, and half of it would stay empty if it doubled."""
_IS_RAW, _IS_REPORTED, _IS_INNER = 1, 2, 4
_FLAGS = ((RAW, _IS_RAW), (REPORTED, _IS_REPORTED), (INNER, _IS_INNER))
_COLUMNS = {
    "others": np.int32,
    "rules": np.int64,
    "since": np.int64,
    "quiet": np.int64,
    "last": np.int64,
    "rows": np.int32,
    "enters": np.int32,
    "flags": np.uint8,
    "nexts": np.int32,
}


class Pending(NamedTuple):
    """Some entries: the pairs, and the state of each as the kernels have it."""

    slots: Int64s
    """Of objects; of bands, of left rows."""
    others: Int64s
    """Of bands: slots of right rows; 0 for objects."""
    rules: Int64s
    """Ids."""
    states: Int64s
    """A row each, of `FIELDS` columns."""

    def take(self, chosen: Int64s | Bools) -> "Pending":
        """The chosen ones."""
        return Pending(*(column[chosen] for column in self))

    def followed_by(self, other: "Pending") -> "Pending":
        """These, then the others."""
        return Pending(*(np.concatenate(columns) for columns in zip(self, other, strict=True)))


NONE_PENDING = Pending(_NOTHING, _NOTHING, _NOTHING, new_states(0))


class Entries:
    """Entries in arrays, those of one object in a list; about 45 bytes each.

    An entry is there while raw differs from reported, while cooldown or a limit matters, and while its object is inside
    `stay` only. So what is remembered follows what is flapping, not objects times rules.
    """

    def __init__(self, *, of_pairs: bool = False) -> None:
        self.of_pairs = of_pairs
        self.count = 0
        self.next_due = NEVER
        """No entry becomes an event by time alone before this; it may be later for all."""
        self.dropped = 0
        """Pending enters that came to nothing."""
        self.pending = 0
        """How many entries have something to report that is inside; `ending`: that is outside."""
        self.ending = 0
        self._heads = np.full(0, -1, np.int32)
        self._columns = {name: np.zeros(0, kind) for name, kind in _COLUMNS.items() if of_pairs or name != "others"}
        self._free = np.zeros(0, np.int32)
        """Places that can be used again, the first `_free_count` of these."""
        self._free_count = 0
        self._end = 0

    @property
    def nbytes(self) -> int:
        """What the arrays take."""
        return sum(array.nbytes for array in (*self._columns.values(), self._heads, self._free))

    def of(self, slots: Int64s) -> tuple[Pending, Int64s]:
        """The entries of these objects, each named once, and the place of its object among them."""
        if not self.count or not len(slots):
            return NONE_PENDING, _NOTHING
        heads, nexts = self._heads, self._columns["nexts"]
        count = count_listed(heads, nexts, slots)
        entries, places = np.empty(count, np.int64), np.empty(count, np.int64)
        collect_listed(heads, nexts, slots, entries, places)
        return self._read(entries, slots[places]), places

    def of_others(self, others: Int64s) -> Pending:
        """The entries of pairs with these right rows; it looks at all entries."""
        if not self.count or not len(others):
            return NONE_PENDING
        entries, slots = self._listed()
        chosen = np.isin(self._columns["others"][entries], others)
        return self._read(entries[chosen], slots[chosen])

    def others(self) -> Int64s:
        """The right rows that have entries, ascending; none where entries are about objects."""
        if not self.of_pairs or not self.count:
            return _NOTHING
        return np.unique(self._columns["others"][self._listed()[0]]).astype(np.int64)

    def _listed(self) -> tuple[Int64s, Int64s]:
        """The places of all entries, and the slots of their objects."""
        slots = self.slots()
        entries, places = np.empty(self.count, np.int64), np.empty(self.count, np.int64)
        collect_listed(self._heads, self._columns["nexts"], slots, entries, places)
        return entries, slots[places]

    def has(self, slot: int) -> bool:
        """Whether an object has any entry."""
        return bool(self.count and slot < len(self._heads) and self._heads[slot] >= 0)

    def all(self) -> Pending:
        """All entries."""
        if not self.count:
            return NONE_PENDING
        return self.of(self.slots())[0]

    def slots(self) -> Int64s:
        """The objects that have entries, ascending."""
        return np.flatnonzero(self._heads >= 0)

    def _read(self, entries: Int64s, slots: Int64s) -> Pending:
        columns = self._columns
        states = np.empty((len(entries), FIELDS), np.int64)
        flags = columns["flags"][entries]
        for field, bit in _FLAGS:
            states[:, field] = (flags & bit) != 0
        for field, name in ((SINCE, "since"), (ROWS, "rows"), (QUIET, "quiet"), (LAST, "last"), (ENTERS, "enters")):
            states[:, field] = columns[name][entries]
        others = columns["others"][entries].astype(np.int64) if self.of_pairs else np.zeros(len(entries), np.int64)
        return Pending(slots, others, columns["rules"][entries], states)

    def prepare(self, slots: Int64s, pending: Pending) -> Callable[[], None]:
        """Let these objects, each named once, have these entries and no others, once the result is called.

        All that can fail happens now: the call itself needs no memory.
        """
        highest = max(int(slots.max(initial=-1)), int(pending.slots.max(initial=-1)))
        self._make_room(highest + 1, len(pending.slots))
        # The entries that these objects have now are free again; the new ones take free places first.
        old = _NOTHING
        if self.count:
            nexts = self._columns["nexts"]
            old = np.empty(count_listed(self._heads, nexts, slots), np.int64)
            collect_listed(self._heads, nexts, slots, old, np.empty_like(old))
        reused = min(len(pending.slots), self._free_count + len(old))
        free = np.concatenate([self._free[: self._free_count], old])
        entries = np.concatenate(
            [free[len(free) - reused :], np.arange(self._end, self._end + len(pending.slots) - reused)]
        )
        # What stays free needs room in the list, which is made now.
        left = free[: len(free) - reused]
        if len(left) > len(self._free):
            self._free = np.concatenate([self._free, np.zeros(len(left) - len(self._free), np.int32)])
        states = pending.states
        flags = _flags_of(states)
        values = {
            "rules": pending.rules,
            "since": states[:, SINCE],
            "quiet": states[:, QUIET],
            "last": states[:, LAST],
            "rows": np.minimum(states[:, ROWS], _MOST_ROWS),
            "enters": np.minimum(states[:, ENTERS], _MOST_ROWS),
            "flags": flags,
        }
        if self.of_pairs:
            values["others"] = pending.others
        more = _count_waiting(flags) - _count_waiting(self._columns["flags"][old])

        def put() -> None:
            self._heads[slots] = -1
            for name, column in values.items():
                self._columns[name][entries] = column
            link_entries(self._heads, self._columns["nexts"], pending.slots, entries)
            self._free[: len(left)] = left
            self._free_count = len(left)
            self._end += len(entries) - reused
            self.count += len(entries) - len(old)
            self.pending += int(more[_IS_RAW])
            self.ending += int(more[_IS_REPORTED])

        return put

    def keep_only(self, rules: Int64s) -> None:
        """Forget what is remembered of other rules than those with these ids."""
        held = self.all()
        stays = np.isin(held.rules, rules)
        if not stays.all():
            self.prepare(self.slots(), held.take(stays))()

    def _make_room(self, slots: int, new: int) -> None:
        """Let there be room for so many objects, and so many new entries beside those that are free."""
        if slots > len(self._heads):
            longer = np.full(max(slots, len(self._heads) + len(self._heads) // _GROWTH, 16), -1, np.int32)
            longer[: len(self._heads)] = self._heads
            self._heads = longer
        room = len(self._columns["rules"])
        needed = self._end + max(0, new - self._free_count)
        if needed > room:
            room = max(needed, room + room // _GROWTH, 16)
            larger = {}
            for name, column in self._columns.items():
                larger[name] = np.zeros(room, column.dtype)
                larger[name][: self._end] = column[: self._end]
            self._columns = larger

    def renumbered(self, slots: Int64s, others: Int64s | None = None) -> "Entries":
        """The same where objects have other slots: those at the places of the old ones."""
        fewer = Entries(of_pairs=self.of_pairs)
        pending = self.all()
        moved = pending._replace(slots=slots[pending.slots])
        if others is not None:
            moved = moved._replace(others=others[pending.others])
        fewer.prepare(np.unique(moved.slots), moved)()
        fewer.next_due, fewer.dropped = self.next_due, self.dropped
        return fewer


def _flags_of(states: Int64s) -> UInt8s:
    flags = np.zeros(len(states), np.uint8)
    for field, bit in _FLAGS:
        flags[states[:, field] != 0] |= bit
    return flags


def _count_waiting(flags: UInt8s) -> Int64s:
    """How many flags say only raw, and only reported, at the places of these bits."""
    counts: Int64s = np.bincount(flags & (_IS_RAW | _IS_REPORTED), minlength=4)
    return counts


# -- as columns of a table ---------------------------------------------------------------------------------

_ENTRY = (
    ("rule", pa.int64()),
    ("since", pa.int64()),
    ("quiet", pa.int64()),
    ("last", pa.int64()),
    ("rows", pa.int64()),
    ("enters", pa.int64()),
    ("flags", pa.uint8()),
)


def entry_lists(entries: Entries, slots: Int64s, name_others: Callable[[Int64s], Any] | None = None) -> Any:
    """The entries of these objects, a list of structs each; `name_others` gives the right rows of bands."""
    pending, places = entries.of(slots)
    counts = np.bincount(places, minlength=len(slots))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    states = pending.states
    flags = _flags_of(states)
    columns = [pending.rules, *(states[:, field] for field in (SINCE, QUIET, LAST, ROWS, ENTERS)), flags]
    arrays = [pa.array(np.ascontiguousarray(column), kind) for column, (_, kind) in zip(columns, _ENTRY, strict=True)]
    names = [name for name, _ in _ENTRY]
    if name_others is not None:
        arrays.append(name_others(pending.others))
        names.append("other")
    return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(arrays, names))


def entry_texts(lists: Any) -> Any:
    """Lists of entries as texts, JSON each; null where there is none."""
    return pa.array([json.dumps(entries) if entries else None for entries in lists.to_pylist()], pa.string())


def read_entry_texts(texts: Any, slots: Int64s) -> Pending:
    """The entries that `entry_texts` wrote of objects that have these slots."""
    found = [json.loads(text) if text else [] for text in texts.to_pylist()]
    return read_entries(pa.array(found, pa.list_(pa.struct(list(_ENTRY)))), slots)


def read_entries(lists: Any, slots: Int64s, find_others: Callable[[Any], Int64s] | None = None) -> Pending:
    """The entries that `entry_lists` wrote of objects that have these slots by now."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    counts = np.asarray(lists.value_lengths().fill_null(0))
    structs = lists.flatten()
    rule, since, quiet, last, rows, enters, flags = (np.asarray(structs.field(name)) for name, _ in _ENTRY)
    states = new_states(len(rule))
    for field, column in ((SINCE, since), (QUIET, quiet), (LAST, last), (ROWS, rows), (ENTERS, enters)):
        states[:, field] = column
    for field, bit in _FLAGS:
        states[:, field] = (flags & bit) != 0
    others = np.zeros(len(rule), np.int64) if find_others is None else find_others(structs.field("other"))
    return Pending(np.repeat(slots, counts), others, rule.astype(np.int64), states)
