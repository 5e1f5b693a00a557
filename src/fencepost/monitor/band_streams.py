"""The rows of two streams that bands join: where each is now, what its columns are, and how a batch is taken in."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fencepost.errors import FencepostError
from fencepost.events import Identities
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.monitor.band_rows import SideRows, deletions, key_texts, side_rows
from fencepost.monitor.band_rules import LEFT, RIGHT, SIDES
from fencepost.monitor.clock import Clock
from fencepost.monitor.keyed_objects import KeyedObjects
from fencepost.monitor.layers import Layers
from fencepost.monitor.positions import KeyStrings, Positions
from fencepost.monitor.rows import Rows, observed, read_rows, read_values, strings_of, without_late
from fencepost.monitor.state import State
from fencepost.ordinals import AttributeType
from fencepost.snapshot import Table

__all__ = ["Pairing", "Streams"]


class Pairing(NamedTuple):
    """What makes rows of two streams pairs, and what is told of them."""

    deleted: str | None = None
    """The boolean column that says that a row is gone."""
    key: tuple[str, ...] = ()
    """Columns that tell rows apart beside their id, and that the rows of a pair have in common."""
    report: str = "pairs"
    """Or "rules", for events that name only the row that moved, once for each rule."""


class _Read(NamedTuple):
    """A batch of one side as it was read, before anything is kept of it."""

    table: Table
    rows: Rows
    deleted: Bools


class Streams:
    """The last row of every object of two streams, each side a `State` of its own.

    Args:
        columns: that name the rows, and their sequence.
        clock: of event time.
        pairing: which rows are told apart, and which are gone.
        late: told about late rows, with their side.

    """

    def __init__(
        self,
        columns: tuple[str, Sequence[str]],
        clock: Clock,
        pairing: Pairing,
        late: Callable[[str, Any], None] | None,
    ) -> None:
        self._columns, self._clock, self._pairing, self._late = columns, clock, pairing, late
        self.types: dict[str, AttributeType] = {}
        """Of every column that bands subtract or ever subtracted."""
        self.states = (self._no_rows(), self._no_rows())
        self.used: tuple[set[str], set[str]] = (set(), set())
        """The columns of `types` that each side has."""
        self.key_kinds: tuple[dict[str, str], dict[str, str]] = ({}, {})
        """What the keys of each side are, once seen: strings, or a type whose ordinals are compared."""
        self.rows = self.late_rows = self.null_rows = 0

    def _no_rows(self) -> State:
        return State(KeyedObjects(self._pairing.key) if self._pairing.key else None)

    @property
    def strings(self) -> tuple[dict[str, KeyStrings], dict[str, KeyStrings]]:
        """Of the key columns of either side."""
        return self.states[LEFT].strings, self.states[RIGHT].strings

    def track(self, types: Mapping[str, AttributeType], columns: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Keep columns from now on.

        Args:
            types: of all columns that bands may subtract.
            columns: of each side, those of them that it has, and its keys.

        """
        self.types = dict(sorted({**self.types, **types}.items()))
        for state, used, (attributes, keys) in zip(self.states, self.used, columns, strict=True):
            used.update(attributes)
            state.track(dict.fromkeys(sorted(used)), tuple(sorted(keys)))

    # -- a batch -------------------------------------------------------------------------------------------

    def take(
        self,
        tables: tuple[Table | None, Table | None],
        layers: Layers,
        objects: Any,
        compared: tuple[Collection[str], Collection[str]],
        same: Iterable[tuple[str, str]],
    ) -> list[tuple[int, SideRows]]:
        """The moves of a batch, by side; it is refused whole, or counted and its objects have slots.

        Args:
            tables: the left and the right rows.
            layers: the rules in force, which the clock is started with.
            objects: the type of objects in events so far, or None.
            compared: of each side, the key columns that rules compare with strings.
            same: the left and right key columns that rules compare with each other.

        """
        read: list[tuple[int, _Read]] = []
        time_type: AttributeType | None = None
        kinds = (dict(self.key_kinds[LEFT]), dict(self.key_kinds[RIGHT]))
        for side, table in enumerate(tables):
            if table is None:
                continue
            values = self._values(side, table, kinds[side], compared[side])
            deleted = deletions(table, self._pairing.deleted)
            told = observed(values) | deleted
            rows, own_type = read_rows(table, self.states[side], self._columns, self._clock, values, told, time_type)
            if len(rows.numbers):
                time_type = own_type
                if side == LEFT:
                    self._check_objects(self.states[LEFT].objects.ids(rows.objects).type, objects)
            read.append((side, _Read(table, rows, deleted)))
        _check_keys(kinds, same)
        if self._clock.type is None and time_type is not None:
            self._clock.start(time_type, layers)
        self.key_kinds = kinds
        return [(side, self._taken(side, each)) for side, each in read]

    def _values(self, side: int, table: Table, kinds: dict[str, str], compared: Collection[str]) -> Positions:
        """What the rows of one side observe; `kinds` learns what their keys are."""
        used = self.used[side]
        values = read_values(table, {name: self.types[name] for name in sorted(used)}, {})
        for name, strings in self.states[side].strings.items():
            array = table.arrow(name)
            if name in compared:
                strings_of(array, name)  # refuses what cannot equal the strings of rules
            texts, kind = key_texts(array, name, self.types[name] if name in used else None)
            if kind is not None and kinds.setdefault(name, kind) != kind:
                raise FencepostError(
                    f"{SIDES[side]}.{name} as {kind}", f"{kinds[name]}, as in the rows before", "Cast the column."
                )
            values.keys[name] = strings.codes(texts)
        return values

    def _check_objects(self, lefts: Any, objects: Any) -> None:
        if objects is not None and lefts != objects:
            raise FencepostError(
                f"left rows named by {lefts} beside objects of type {objects}",
                "one type, since both are the objects of events",
                f"Cast the column {self._columns[0]}.",
            )

    def _taken(self, side: int, read: _Read) -> SideRows:
        """One side's rows, counted, with slots for their objects, without the late ones, as moves."""
        (table, rows, deleted), state = read, self.states[side]
        self.rows += table.rows
        self.null_rows += table.rows - len(rows.numbers)
        if len(rows.numbers):
            rows = rows._replace(slots=state.objects.slots(rows.objects, add=True))
            state.make_room()
        timed = self._clock.column is not None
        if timed and len(rows.numbers):
            tell = None if self._late is None else partial(self._late, SIDES[side])
            rows, late = without_late(rows, table, state, tell)
            self.late_rows += late
        return side_rows(rows, deleted[rows.numbers], state, self._clock.timeout, timed=timed)

    def settle(self, moves: Iterable[tuple[int, SideRows]]) -> None:
        """Let each object of a batch be where its last row says."""
        for side, (rows, moved, _, deleted) in moves:
            lasts = np.flatnonzero(moved.is_last)
            kept, gone = lasts[~deleted[lasts]], lasts[deleted[lasts]]
            state = self.states[side]
            state.store(rows.slots[kept], rows.times[kept], moved.positions.take(moved.offset + kept))
            state.forget(rows.slots[gone])

    def tidy(self) -> bool:
        """Give back room; whether slots of objects, or codes of keys, are no longer what they were."""
        before = [(state.objects, list(state.strings.values())) for state in self.states]
        for state in self.states:
            state.tidy()
        return any(
            state.objects is not objects
            or any(one is not other for one, other in zip(state.strings.values(), strings, strict=True))
            for state, (objects, strings) in zip(self.states, before, strict=True)
        )

    def restore(self, states: Sequence[State], kinds: tuple[dict[str, str], dict[str, str]]) -> None:
        """Take over rows that were saved, in place of those that are there; nothing is counted of them yet."""
        self.states, self.key_kinds = (states[LEFT], states[RIGHT]), kinds
        self.rows = self.late_rows = self.null_rows = 0

    # -- questions -----------------------------------------------------------------------------------------

    def identities(self, lefts: Int64s, rights: Int64s) -> tuple[Identities, Identities]:
        """What event ids hold of the rows in these slots."""
        return self.states[LEFT].objects.identities(lefts), self.states[RIGHT].objects.identities(rights)


def _check_keys(kinds: tuple[dict[str, str], dict[str, str]], same: Iterable[tuple[str, str]]) -> None:
    """Refuse keys that can never be equal, since their types differ."""
    for left, right in same:
        one, other = kinds[LEFT].get(left), kinds[RIGHT].get(right)
        if one is not None and other is not None and one != other:
            raise FencepostError(
                f"left.{left} as {one} and right.{right} as {other}",
                "one type, since rules compare them",
                "Cast one of the two columns to the type of the other.",
            )
