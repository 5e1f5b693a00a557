"""The state of a monitor: each object's last time and its last known values."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from fencepost.indexes.arrays import Bools, Int64s
from fencepost.snapshot import NEVER
from fencepost.watching.entries import Entries
from fencepost.watching.objects import Objects
from fencepost.watching.positions import NO_KEY, KeyStrings, Positions

_FEW = 1024


class State:
    """Arrays by slot of object: whether it is present, its last time, its last known values.

    Which rules an object is inside is not kept: its position and the rules say it.
    """

    def __init__(self, objects: Objects | None = None) -> None:
        self.objects = Objects() if objects is None else objects
        self.strings: dict[str, KeyStrings] = {}
        self.count = 0
        """How many objects are present."""
        self._columns: dict[tuple[str, str], Any] = {}
        self.present: Bools = np.zeros(0, np.bool_)
        self.times: Int64s = np.zeros(0, np.int64)
        self.damped = Entries()
        """What is remembered of damped pairs."""
        self.oldest = NEVER
        """No object that is present has an earlier last time; it may be later for all."""
        self.layout = 0
        """Another number whenever other arrays take the place of those that are here."""

    def track(self, attributes: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
        """Keep these columns from now on, and say whether any is new; nothing is known of new ones yet."""
        before, room = len(self._columns), len(self.present)
        for name in attributes:
            if ("ordinal", name) not in self._columns:
                self._columns["ordinal", name] = np.zeros(room, np.int64)
                self._columns["known", name] = np.zeros(room, np.bool_)
        for name in keys:
            if name not in self.strings:
                self._columns["key", name] = np.full(room, NO_KEY, np.int64)
                self.strings[name] = KeyStrings()
        self.layout += len(self._columns) - before
        return len(self._columns) > before

    def tracked(self) -> tuple[tuple[str, str], ...]:
        """The columns of now, for `untrack`."""
        return tuple(self._columns)

    def untrack(self, kept: Iterable[tuple[str, str]]) -> None:
        """Keep no columns but these."""
        self.layout += 1
        self._columns = {place: self._columns[place] for place in kept}
        self.strings = {name: own for name, own in self.strings.items() if ("key", name) in self._columns}

    def make_room(self) -> None:
        """Let every slot of the object table have its place."""
        needed = len(self.objects)
        if needed <= len(self.present):
            return
        room = max(needed, 2 * len(self.present), 16)

        def larger(column: Any, empty: Any) -> Any:
            longer = np.full(room, empty, column.dtype)
            longer[: len(column)] = column
            return longer

        present, times = larger(self.present, False), larger(self.times, 0)
        columns = {place: larger(each, NO_KEY if place[0] == "key" else 0) for place, each in self._columns.items()}
        self.layout += 1
        self.present, self.times, self._columns = present, times, columns

    def here(self) -> Int64s:
        """The slots of all objects that are present."""
        return np.flatnonzero(self.present)

    def positions(self, slots: Int64s | slice) -> Positions:
        """The last known values of these objects."""
        columns: dict[str, dict[str, Any]] = {"ordinal": {}, "known": {}, "key": {}}
        for (kind, name), column in self._columns.items():
            columns[kind][name] = column[slots]
        return Positions(len(self.times[slots]), columns["ordinal"], columns["known"], columns["key"])

    def store(self, slots: Int64s, times: Int64s, positions: Positions) -> None:
        """Remember where these objects are, each of them named once."""
        self.count += len(slots) - int(np.count_nonzero(self.present[slots]))
        self.oldest = min(self.oldest, int(times.min(initial=NEVER)))
        self.present[slots] = True
        self.times[slots] = times
        for kind, columns in (("ordinal", positions.ordinals), ("known", positions.known), ("key", positions.keys)):
            for name, column in columns.items():
                self._columns[kind, name][slots] = column

    def column(self, kind: str, name: str) -> Any:
        """One of the arrays by slot: the "ordinal" of an attribute, whether it is "known", or the code of a "key"."""
        return self._columns[kind, name]

    def value(self, name: str, slot: int) -> int | None:
        """The ordinal of one attribute of one object, if known."""
        return int(self._columns["ordinal", name][slot]) if self._columns["known", name][slot] else None

    def forget(self, slots: Int64s) -> None:
        """Let objects go, each of them named once."""
        self.count -= int(np.count_nonzero(self.present[slots]))
        self.present[slots] = False

    def find_oldest(self) -> None:
        """Find the earliest last time of all objects that are present."""
        self.oldest = int(self.times[self.here()].min(initial=NEVER))

    def touch(self, slots: Int64s) -> None:
        """Note that something about these objects has changed."""

    def tidy(self, lefts: "State | None" = None) -> None:
        """Give back the room of objects that went, and of strings that no object has, once they are the most.

        Where these are the right rows of pairs, what is remembered of the pairs is with their left ones.
        """
        with suppress(MemoryError):  # it is only for room: what happened to objects has been reported
            remembered = (self if lefts is None else lefts).damped.count
            if len(self.objects) > 2 * (self.count + remembered) + _FEW:
                self._renumber(lefts)
            for name, strings in self.strings.items():
                if len(strings) > 2 * self.count + _FEW:
                    codes = self._columns["key", name]
                    codes[~self.present] = NO_KEY
                    self.layout += 1
                    self.strings[name], self._columns["key", name] = strings.compact(codes)

    def _renumber(self, lefts: "State | None") -> None:
        """Number the objects that are present anew, and no others: all of them or, if it fails, none."""
        remembered = self.damped.slots() if lefts is None else lefts.damped.others()
        here = np.union1d(self.here(), remembered)  # cooldown may outlive an object
        fewer = State(self.objects.emptied())
        fewer.strings = self.strings
        fewer._columns = {place: column[:0] for place, column in self._columns.items()}
        slots = fewer.objects.slots(self.objects.values(here), add=True) if len(here) else here
        fewer.make_room()
        fewer.store(slots, self.times[here], self.positions(here))
        fewer.forget(slots[~self.present[here]])
        new_slots = np.zeros(len(self.present), np.int64)
        new_slots[here] = slots
        if self.damped.count:
            self.damped = self.damped.renumbered(new_slots)
        if lefts is not None and lefts.damped.count:
            lefts.damped = lefts.damped.renumbered(np.arange(len(lefts.present)), new_slots)
        self.layout += 1
        self.objects, self.count = fewer.objects, fewer.count
        self.present, self.times, self._columns = fewer.present, fewer.times, fewer._columns


class Journal(State):
    """A state that knows which of its objects were touched since it was last asked."""

    def __init__(self, objects: Objects | None = None) -> None:
        super().__init__(objects)
        self._touched: list[Int64s] | None = []
        """Numbers; None where all objects have got new ones."""

    def store(self, slots: Int64s, times: Int64s, positions: Positions) -> None:
        """Remember where these objects are, and that they were touched."""
        super().store(slots, times, positions)
        if self._touched is not None:
            self._touched.append(slots)

    def forget(self, slots: Int64s) -> None:
        """Let objects go, and remember that they went."""
        super().forget(slots)
        if self._touched is not None:
            self._touched.append(slots)

    def touch(self, slots: Int64s) -> None:
        """Remember that something about these objects has changed."""
        if self._touched is not None and len(slots):
            self._touched.append(slots.copy())  # a row by itself has its slot where the next one has its own

    def tidy(self, lefts: State | None = None) -> None:
        """As any state does; where objects are numbered anew, all count as touched."""
        before = self.objects
        super().tidy(lefts)
        if self.objects is not before:
            self._touched = None

    def take_touched(self) -> Int64s | None:
        """The numbers that were touched since the last call, once each; None for all."""
        touched, self._touched = self._touched, []
        return None if touched is None else np.unique(np.concatenate([np.zeros(0, np.int64), *touched]))
