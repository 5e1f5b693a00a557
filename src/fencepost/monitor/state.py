"""What a monitor remembers: each object's last time and its last known values."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fencepost.indexes.arrays import Bools, Int64s
from fencepost.monitor.objects import Objects
from fencepost.monitor.positions import NO_KEY, KeyStrings, Positions

__all__ = ["State"]

_FEW = 1024


class State:
    """Arrays by slot of object: whether it is present, its last time, its last known values.

    Which rules an object is inside is not kept: its position and the rules say it.

    Args:
        objects: none yet, of the kind to keep.

    """

    def __init__(self, objects: Objects | None = None) -> None:
        self.objects = Objects() if objects is None else objects
        self.strings: dict[str, KeyStrings] = {}
        self._room = 0
        self._columns: dict[tuple[str, str], Any] = {}
        self.present: Bools = np.zeros(0, np.bool_)
        self.times: Int64s = np.zeros(0, np.int64)

    def track(self, attributes: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
        """Keep these columns from now on, and say whether any is new; nothing is known of new ones yet."""
        before = len(self._columns)
        for name in attributes:
            if ("ordinal", name) not in self._columns:
                self._columns["ordinal", name] = np.zeros(self._room, np.int64)
                self._columns["known", name] = np.zeros(self._room, np.bool_)
        for name in keys:
            if name not in self.strings:
                self._columns["key", name] = np.full(self._room, NO_KEY, np.int64)
                self.strings[name] = KeyStrings()
        return len(self._columns) > before

    def make_room(self) -> None:
        """Let every slot of the object table have its place."""
        needed = len(self.objects)
        if needed <= self._room:
            return
        room = max(needed, 2 * self._room, 16)

        def larger(column: Any, empty: Any) -> Any:
            longer = np.full(room, empty, column.dtype)
            longer[: len(column)] = column
            return longer

        self.present, self.times = larger(self.present, False), larger(self.times, 0)
        for place, column in self._columns.items():
            self._columns[place] = larger(column, NO_KEY if place[0] == "key" else 0)
        self._room = room

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
        """Remember where these objects are."""
        self.present[slots] = True
        self.times[slots] = times
        for kind, columns in (("ordinal", positions.ordinals), ("known", positions.known), ("key", positions.keys)):
            for name, column in columns.items():
                self._columns[kind, name][slots] = column

    def value(self, name: str, slot: int) -> int | None:
        """The ordinal of one attribute of one object, if known."""
        return int(self._columns["ordinal", name][slot]) if self._columns["known", name][slot] else None

    def store_one(self, slot: int, time: int, ordinals: Mapping[str, int], keys: Mapping[str, int]) -> None:
        """Remember what one object was observed to have; the rest stays as it is."""
        self.times[slot] = time
        for name, ordinal in ordinals.items():
            self._columns["ordinal", name][slot] = ordinal
            self._columns["known", name][slot] = True
        for name, code in keys.items():
            self._columns["key", name][slot] = code

    def forget(self, slots: Int64s) -> None:
        """Let objects go."""
        self.present[slots] = False

    def tidy(self) -> None:
        """Give back the room of objects that went, and of strings that no object has, once they are the most."""
        here = self.here()
        if len(self.objects) > 2 * len(here) + _FEW:
            positions, times, values = self.positions(here), self.times[here], self.objects.values(here)
            self.objects = self.objects.emptied()
            self._room = 0
            self.present, self.times = self.present[:0], self.times[:0]
            self._columns = {place: column[:0] for place, column in self._columns.items()}
            slots = self.objects.slots(values, add=True) if len(values) else here
            self.make_room()
            self.store(slots, times, positions)
        for name, strings in self.strings.items():
            if len(strings) > 2 * len(here) + _FEW:
                codes = self._columns["key", name]
                codes[~self.present] = NO_KEY
                self.strings[name], self._columns["key", name] = strings.compacted(codes)
