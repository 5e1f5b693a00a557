"""The rows of two streams that bands join: where each is now, what its columns are, and how a batch is taken in."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fencepost.computed import Computed
from fencepost.emitting.engine import Counts
from fencepost.errors import FencepostError
from fencepost.events import Identities
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import KEY, AttributeType, ColumnType
from fencepost.pairing.rows import SideRows, deletions, key_kind, key_texts, side_rows
from fencepost.pairing.rules import LEFT, RIGHT, SIDES
from fencepost.snapshot import Table
from fencepost.watching.clock import Clock
from fencepost.watching.entries import Entries
from fencepost.watching.keyed_objects import KeyedObjects
from fencepost.watching.positions import NO_KEY, KeyStrings, Positions
from fencepost.watching.rows import (
    Rows,
    find_observing,
    read_carried,
    read_rows,
    read_values,
    rows_at,
    split_late,
    strings_of,
)
from fencepost.watching.rules_in_force import KeptColumns
from fencepost.watching.state import Journal, State
from fencepost.watching.tables import replay_tables


class Pairing(NamedTuple):
    """What makes rows of two streams pairs, and what is reported of them."""

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


class Sides:
    """The last row of every object of two streams, each side a `State` of its own.

    Args:
        columns: that name the rows, and their sequence.
        clock: of event time.
        pairing: which rows are told apart, and which are gone.
        late: called with late rows and their side.
        journal: whether it will be asked which rows were touched.
        carry: columns of rows that events carry; either side may lack them.

    """

    def __init__(
        self,
        columns: tuple[str, Sequence[str]],
        clock: Clock,
        pairing: Pairing,
        late: Callable[[str, Any], None] | None,
        *,
        journal: bool,
        carry: tuple[str, ...] = (),
    ) -> None:
        self.carry, self.carried_types = carry, dict[str, Any]()
        self.shown_keys: set[str] = set()
        """The key columns that events show, whichever side has them."""
        self._columns, self._clock, self._pairing, self.late = columns, clock, pairing, late
        self._journal = journal
        self.types: dict[str, AttributeType] = {}
        """Of every column of numbers or times that bands use or ever used; keys alone aside."""
        self.states = (self._no_rows(of_pairs=True), self._no_rows())
        self.used: tuple[set[str], set[str]] = (set(), set())
        """The attributes that are remembered of each side."""
        self._needed: tuple[set[str], set[str]] = (set(), set())
        """Columns of each side that rules use; others that are remembered may be missing in a batch."""
        self._declared: dict[str, AttributeType] = {}
        self.same: frozenset[str] = frozenset()
        """Other names for the columns that name and order rows."""
        self.key_kinds: tuple[dict[str, str], dict[str, str]] = ({}, {})
        """What the keys of each side are, once seen: strings, or a type whose ordinals are compared."""

    def _no_rows(self, *, of_pairs: bool = False) -> State:
        """A state without rows; that of the left ones has what is remembered of damped pairs."""
        objects = KeyedObjects(self._pairing.key) if self._pairing.key else None
        state = Journal(objects) if self._journal else State(objects)
        state.damped = Entries(of_pairs=of_pairs)
        return state

    @property
    def strings(self) -> tuple[dict[str, KeyStrings], dict[str, KeyStrings]]:
        """Of the key columns of either side."""
        return self.states[LEFT].strings, self.states[RIGHT].strings

    def track(self, types: Mapping[str, AttributeType], columns: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Keep columns from now on.

        Args:
            types: of all columns of numbers and times that bands may use.
            columns: of each side, those of them that it has, and its keys.

        """
        self.types = dict(sorted({**self.types, **types}.items()))
        for needed, (attributes, keys) in zip(self._needed, columns, strict=True):
            needed.update(attributes, keys)
        self._remember(columns)

    def declare(self, columns: Mapping[str, ColumnType]) -> None:
        """Remember columns that rules may use later, where a side has them."""
        self._declared = {name: type_ for name, type_ in columns.items() if isinstance(type_, AttributeType)}
        keys = tuple(name for name, type_ in columns.items() if type_ == KEY)
        self._remember([(tuple(self._declared), keys)] * 2)

    def _remember(self, columns: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        for state, used, (attributes, keys) in zip(self.states, self.used, columns, strict=True):
            used.update(attributes)
            state.track(dict.fromkeys(sorted(used)), tuple(sorted(keys)))

    def tracked(self) -> Any:
        """What `untrack` is given to keep the columns of now and no others."""
        sets = [[set(each) for each in pair] for pair in (self.used, self._needed)]
        return self.types, set(self.shown_keys), *sets, [state.tracked() for state in self.states]

    def untrack(self, kept: Any) -> None:
        """Keep no columns but these."""
        self.types, self.shown_keys, used, needed, columns = kept
        self.used, self._needed = (used[LEFT], used[RIGHT]), (needed[LEFT], needed[RIGHT])
        for state, own in zip(self.states, columns, strict=True):
            state.untrack(own)

    def _type(self, name: str) -> AttributeType:
        return self.types[name] if name in self.types else self._declared[name]

    # -- a batch -------------------------------------------------------------------------------------------

    def take(
        self,
        tables: Sequence[Table | None],
        start_clock: Callable[[AttributeType], None],
        objects: Any,
        compared: tuple[Collection[str], Collection[str]],
        same: Iterable[tuple[str, str]],
        computed: Mapping[str, Computed],
        used: tuple[Collection[str], Collection[str]],
    ) -> list[tuple[int, SideRows]]:
        """The moves of a batch, by side; it is refused whole, or counted and its objects have slots.

        Args:
            tables: the left and the right rows.
            start_clock: called with the type of times, where there was none.
            objects: the type of objects in events so far, or None.
            compared: of each side, the key columns that rules compare with strings.
            same: the left and right key columns, or expressions, that rules compare with each other.
            computed: the expressions, by name.
            used: of each side, the columns that rules use.

        """
        read: list[tuple[int, _Read]] = []
        time_type: AttributeType | None = None
        kinds = (dict(self.key_kinds[LEFT]), dict(self.key_kinds[RIGHT]))
        for side, table in enumerate(tables):
            if table is None:
                continue
            values = self._values(side, table, kinds[side], compared[side])
            deleted = deletions(table, self._pairing.deleted)
            observing = find_observing(values, self._naming(values, used[side])) | deleted
            rows, own_type = read_rows(
                table, self.states[side], self._columns, self._clock, values, observing, time_type
            )
            if self.carry:
                rows = rows._replace(carried=read_carried(table, [n for n in self.carry if table.find(n) is not None]))
            if len(rows.numbers):
                time_type = own_type
                if side == LEFT:
                    self._check_objects(self.states[LEFT].objects.ids(rows.objects).type, objects)
            read.append((side, _Read(table, rows, deleted)))
        _check_keys(kinds, same, computed)
        self._check_carried([each.rows.carried for _, each in read])
        if self._clock.type is None and time_type is not None:
            start_clock(time_type)
        self.key_kinds = kinds
        return [(side, self._taken(side, each)) for side, each in read]

    def _values(self, side: int, table: Table, kinds: dict[str, str], compared: Collection[str]) -> Positions:
        """What the rows of one side observe; `kinds` learns what their keys are."""
        used = self.used[side]
        needed = self._needed[side]
        values = read_values(table, {name: self._type(name) for name in sorted(used)}, {}, needed)
        for name, strings in self.states[side].strings.items():
            if name not in needed and table.find(name) is None:
                values.keys[name] = np.full(table.rows, NO_KEY, np.int64)
                continue
            array = table.arrow(name)
            if name in compared:
                strings_of(array, name)  # refuses what cannot equal the strings of rules
            texts, kind = key_texts(array, name, self._type(name) if name in used else None)
            if kind is not None and kinds.setdefault(name, kind) != kind:
                raise FencepostError(
                    f"{SIDES[side]}.{name} as {kind}", f"{kinds[name]}, as in the rows before", "Cast the column."
                )
            values.keys[name] = strings.codes(texts)
        return values

    def _check_carried(self, carried: Sequence[Mapping[str, Any]]) -> None:
        """Refuse columns to carry that have another type on the other side, or that no side has."""
        types: dict[str, Any] = {}
        for name in self.carry:
            own = {str(columns[name].type): columns[name].type for columns in carried if name in columns}
            own.pop("null", None)
            if len(own) > 1:
                raise FencepostError(
                    f"{name} as {' on one side and '.join(own)} on the other",
                    "one type, since events carry it",
                    "Cast one of the two columns to the type of the other.",
                )
            if own:
                types[name] = next(iter(own.values()))
            if len(carried) == 2 and not any(name in columns for columns in carried):
                raise FencepostError(
                    f"two tables without the column {name}", "that column in one of them", "Leave it out of carry=."
                )
        self.carried_types = {**self.carried_types, **types}

    def _naming(self, values: Positions, used: Collection[str]) -> set[str]:
        """Columns that only name and order rows: no rule uses them. The columns of a key are used by every rule."""
        columns = (self._columns[0], self._clock.column, *self._columns[1], self._pairing.deleted, *self.same)
        own = {name.lower() for name in columns if name is not None}
        return {name for name in (*values.known, *values.keys) if name.lower() in own} - {*used, *self._pairing.key}

    def _check_objects(self, lefts: Any, objects: Any) -> None:
        if objects is not None and lefts != objects:
            raise FencepostError(
                f"left rows named by {lefts} beside objects of type {objects}",
                "one type, since both are the objects of events",
                f"Cast the column {self._columns[0]}.",
            )

    def _taken(self, side: int, read: _Read) -> SideRows:
        """One side's rows, with slots for their objects, without the late ones, as moves."""
        (table, rows, deleted), state = read, self.states[side]
        null, late = table.rows - len(rows.numbers), None
        if len(rows.numbers):
            rows = rows._replace(slots=state.objects.slots(rows.objects, add=True))
            state.make_room()
        timed = self._clock.column is not None
        if timed and len(rows.numbers):
            rows, late = split_late(rows, state)
        counts = Counts(table.rows, 0 if late is None else len(late), null)
        late_rows = None if late is None or self.late is None else rows_at(table, late)
        needed, used = self._needed[side], self.used[side]
        unused = {*used, *state.strings} - needed | ((used & needed) - self.types.keys())
        given = side_rows(rows, deleted[rows.numbers], state, self._clock.timeout, timed=timed, unused=unused)
        return given._replace(counts=counts, late=late_rows)

    def settle(self, moves: Sequence[tuple[int, SideRows]]) -> Counts:
        """Report late rows, then let each object of a batch be where its last row says; how many rows there were."""
        for side, given in moves:
            if given.late is not None and self.late is not None:
                self.late(SIDES[side], given.late)
        counts = Counts()
        for side, given in moves:
            rows, moved, deleted = given.rows, given.moved, given.deleted
            counts = counts.plus(given.counts)
            lasts = np.flatnonzero(moved.is_last)
            kept, gone = lasts[~deleted[lasts]], lasts[deleted[lasts]]
            state = self.states[side]
            state.store(rows.slots[kept], rows.times[kept], moved.positions.take(moved.offset + kept))
            state.forget(rows.slots[gone])
        return counts

    def tidy(self) -> bool:
        """Give back room; whether slots of objects, or codes of keys, are no longer what they were."""
        before = [(state.objects, list(state.strings.values())) for state in self.states]
        left, right = self.states
        left.tidy()
        right.tidy(left)
        return any(
            state.objects is not objects
            or any(one is not other for one, other in zip(state.strings.values(), strings, strict=True))
            for state, (objects, strings) in zip(self.states, before, strict=True)
        )

    def restore(self, states: Sequence[State], kinds: tuple[dict[str, str], dict[str, str]]) -> None:
        """Take over rows that were saved, in place of those that are there."""
        self.states, self.key_kinds = (states[LEFT], states[RIGHT]), kinds

    def read(self, entries: Iterable[Sequence[Any]]) -> list[State]:
        """The rows of saved tables, and then of saved changes, each entry a table per side."""
        listed = list(entries)
        states = [type(own)(own.objects.emptied()) for own in self.states]
        states[LEFT].damped = Entries(of_pairs=True)
        for side in (RIGHT, LEFT):  # what is remembered of pairs names right rows
            types = {column: self._type(column) for column in sorted(self.used[side])}
            kept = KeptColumns(types, frozenset(self.states[side].strings))
            rights = states[RIGHT] if side == LEFT else None
            replay_tables(states[side], (entry[side] for entry in listed), kept, rights)
        return states

    # -- questions -----------------------------------------------------------------------------------------

    def identities(self, lefts: Int64s, rights: Int64s) -> tuple[Identities, Identities]:
        """What event ids hold of the rows in these slots."""
        return self.states[LEFT].objects.identities(lefts), self.states[RIGHT].objects.identities(rights)


def _check_keys(
    kinds: tuple[dict[str, str], dict[str, str]], same: Iterable[tuple[str, str]], computed: Mapping[str, Computed]
) -> None:
    """Refuse keys that can never be equal, since their types differ."""
    for left, right in same:
        one, other = (
            key_kind(computed[name].term.type) if name in computed else own.get(name)
            for own, name in zip(kinds, (left, right), strict=True)
        )
        if one is not None and other is not None and one != other:
            raise FencepostError(
                f"left.{left} as {one} and right.{right} as {other}",
                "one type, since rules compare them",
                "Cast one of the two columns to the type of the other.",
            )
