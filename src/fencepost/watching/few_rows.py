"""Few rows: from a table, or from single values, to what they change, in few calls.

Rows are taken this way where nothing matters but where each object was and is: each row is of another object that is
here, in columns of the very types of the state, and none is late. All others go through `Watch.take`; both find and
remember the same.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fencepost.emitting.detections import ENTERED, EXITED, STAYED, Detections, Subjects
from fencepost.emitting.emitter import Emitter
from fencepost.emitting.engine import Step
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.addresses import address_of
from fencepost.indexes.slice_list.few_moves import (
    ABSENT,
    COUNT,
    DOUBLES,
    GIVEN_HEAD,
    INSTANTS,
    PLAIN,
    SLOTS,
    TAKEN,
    columns_of_work,
    gather_moves,
    plan_state,
    store_moves,
)
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS, Table
from fencepost.snapshot.few_moves import MoveFinder, WorkColumns
from fencepost.watching.moved import Moved, write_move
from fencepost.watching.positions import KeyStrings, Positions, batch_of
from fencepost.watching.rows import read_carried

if TYPE_CHECKING:
    from fencepost.watching.engine import Watch

MOST_ROWS = 256
"""Rows up to which this way is faster."""
_INT64, _STRING = pa.int64(), pa.string()
_FORMS = {"double": DOUBLES, "bigint": PLAIN, "timestamp": PLAIN, "timestamp_ntz": PLAIN}
"""How columns are given whose Arrow type keeps an attribute of this kind in eight bytes."""
_ROOM = 64
_SINGLY = 6
"""Changes up to which each event by itself is faster than columns."""
_PHASES = np.zeros(8, np.uint8)
for _kind, _phase in (("exit", EXITED), ("enter", ENTERED), ("inside", STAYED)):
    _PHASES[DETECTS[_kind]] = _phase


class ShortWay:
    """All that few rows need, made for the rules, the columns and the arrays of now."""

    def __init__(self, watch: "Watch") -> None:
        rules, state = watch.rules, watch.state
        self._rules, self._snapshot, self.kept = rules, rules.snapshot(), rules.kept
        self._clock_type, self._object_type = watch.clock.type, state.objects.type
        types, strings = list(self.kept.types), list(state.strings)
        self._type_names, self._string_names = types, strings
        self.forms = {name: place for place, name in enumerate((*types, *strings))}
        """Which of the columns that rows are given in each is."""
        before = columns_of_work(len(types), len(strings))
        computed = list(self._snapshot.computed)
        self.width = before + 2 * len(computed)
        self.ordinals = {name: 1 + place for place, name in enumerate(types)}
        """The columns of `work` that have the ordinals of attributes; the one that says whether there is any follows
        `len(types)` columns later."""
        self.codes = {name: 1 + 2 * len(types) + place for place, name in enumerate(strings)}
        """The columns of `work` that have the codes of keys."""
        known = {name: place + len(types) for name, place in self.ordinals.items()}
        of_boxes = {name: before + 2 * place for place, name in enumerate(computed)}
        columns = WorkColumns(
            self.ordinals | of_boxes,
            known | {name: place + 1 for name, place in of_boxes.items()},
            {name: place + len(strings) for name, place in self.codes.items()},
        )
        damped = watch.damped()
        self._finder = MoveFinder(
            self._snapshot,
            columns,
            None if damped is None else damped.is_damped,
            rules.detected,
            ascending=rules.is_ascending,
        )
        self._layout, self._strings = -1, list[tuple[KeyStrings, int]]()
        self._state = state
        self.changes = np.empty((_ROOM, 3), np.int64)
        """What was found: the move, the row of the rule, and the bit of what is detected."""
        self.needed = rules.used
        """The columns that rules in force use."""
        self.about = watch.subjects()
        self.shown = [
            (rules.types[name], self.ordinals[name], self.ordinals[name] + len(types)) for name in sorted(rules.types)
        ]
        """The attributes that events have: their types, and their columns of `work`."""
        self.one = OneRow(self, timed=watch.columns.time is not None)

    def is_current(self, watch: "Watch") -> bool:
        """Whether the rules, the columns and the types are still those it was made for."""
        rules, state = watch.rules, watch.state
        return (
            rules.snapshot() is self._snapshot
            and rules is self._rules
            and rules.kept is self.kept
            and state is self._state
            and state.objects is self.about.objects
            and watch.clock.type is self._clock_type
            and state.objects.type is self._object_type
        )

    def table(self, watch: "Watch") -> Int64s:
        """The table of what is known of objects; made anew where arrays are others, or strings are new."""
        state = watch.state
        is_new = state.layout != self._layout
        for each, known in self._strings:
            is_new |= len(each) != known
        if is_new:
            naming, snapshot = watch.naming(), self._snapshot
            translations = {name: state.strings[name].translation(snapshot.key_column(name)) for name in snapshot.keys}
            self.arrays = (
                [
                    (state.column("ordinal", name), state.column("known", name), name in naming)
                    for name in self._type_names
                ],
                [(state.column("key", name), translations.get(name), name in naming) for name in self._string_names],
                (state.present, state.times),
            )  # what the table has the addresses of
            types, strings, (present, times) = self.arrays
            self._table = plan_state(present, times, types, strings)
            self._strings = [(each, len(each)) for each in state.strings.values()]
            self._layout = state.layout
        return self._table

    def find(self, watch: "Watch", work: Int64s) -> int:
        """How many changes moves bring; they are in `changes`. Negative where they are for the long way."""
        while True:
            if self._finder.is_whole:
                found = self._finder.find(work, self.changes)
            else:
                batch = batch_of(self._snapshot, self.positions(work), watch.state.strings)
                found = self._finder.find_with(batch, work, self.changes)
            if found <= len(self.changes):
                return found
            self.changes = np.empty((2 * found, 3), np.int64)

    def positions(self, work: Int64s) -> Positions:
        """The positions that moves start from and lead to, one after the other."""
        count = len(self._type_names)
        return Positions(
            len(work),
            {name: np.ascontiguousarray(work[:, place]) for name, place in self.ordinals.items()},
            {name: work[:, place + count] != 0 for name, place in self.ordinals.items()},
            {name: np.ascontiguousarray(work[:, place]) for name, place in self.codes.items()},
        )


def _view(array: Any) -> Any:
    """The items of an array, which Python reads and writes faster this way."""
    return memoryview(array)


class OneRow:
    """Room for one row, used again and again: what is given, where its object was and is, and the time."""

    def __init__(self, way: ShortWay, *, timed: bool) -> None:
        columns = len(way.forms)
        self.slots, self._at, self._items = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(columns, np.int64)
        self.given = np.zeros(GIVEN_HEAD + 2 * columns, np.int64)
        self.given[COUNT], self.given[SLOTS] = 1, address_of(self.slots)
        self.given[INSTANTS] = address_of(self._at) if timed else 0
        self.given[GIVEN_HEAD : GIVEN_HEAD + columns] = address_of(self._items) + 8 * np.arange(columns)
        self.work, self.times = np.zeros((2, way.width), np.int64), np.zeros(1, np.int64)
        self._forms, self._nothing = _view(self.given)[GIVEN_HEAD + columns :], _view(np.full(columns, ABSENT))
        self._numbers, self._doubles = _view(self._items), _view(self._items.view(np.float64))
        self._one_slot, self._one_at = _view(self.slots), _view(self._at)

    def begin(self, slot: int) -> None:
        """Let it be a row of an object."""
        self._forms[:] = self._nothing
        self._one_slot[0] = slot

    def put_at(self, at: int) -> None:
        """Let it have a time."""
        self._one_at[0] = at

    def put_double(self, place: int, value: float) -> None:
        """Let a column have a double."""
        self._doubles[place] = value
        self._forms[place] = DOUBLES

    def put(self, place: int, ordinal: int) -> None:
        """Let a column have an ordinal, or a code."""
        self._numbers[place] = ordinal
        self._forms[place] = PLAIN


class FewRows:
    """The rows of a table: where their objects were and are, and their times."""

    def __init__(self, table: Int64s, given: Int64s, width: int, held: Any) -> None:
        self._table, self._given, self._held = table, given, held
        count = int(given[COUNT])
        self.work, self.times = np.zeros((2 * count, width), np.int64), np.empty(count, np.int64)
        self.outcome = gather_moves(table, given, self.work, self.times)

    def store(self) -> None:
        """Remember where the objects are now."""
        store_moves(self._table, self._given, self.work, self.times)


def take_few(watch: "Watch", table: Table, *, singly: bool) -> Step | None:
    """What a table of few rows does; None where they go the long way."""
    columns, state = watch.columns, watch.state
    if not 0 < table.rows <= MOST_ROWS:
        return None
    watch.tidy_few(table.rows)  # before all else: objects may get other numbers
    way = watch.short_way()
    objects = None if way is None else table.whole(columns.object, state.objects.type)
    if way is None or objects is None or (columns.sequence and columns.time is None and table.rows > 1):
        return None
    slots = state.objects.slots(objects, add=False)
    held = [slots]  # whose items compiled code reads
    instants = 0
    if columns.time is not None:
        assert watch.clock.type is not None, "there is a short way only where times have a type"
        times = _eight_bytes(table, columns.time, watch.clock.type)
        if times is None:
            return None
        instants = _items_of(times)
        held.append(times)
    sequences = [table.whole(name, _INT64) for name in columns.sequence]
    if any(each is None for each in sequences):
        return None
    addresses, forms = [0] * len(way.forms), [ABSENT] * len(way.forms)
    for name, place in way.forms.items():
        if name not in way.needed and table.find(name) is None:
            continue
        type_ = way.kept.types.get(name)
        column = table.whole(name, _STRING) if type_ is None else _eight_bytes(table, name, type_)
        if column is None:
            return None
        if type_ is None:
            column = state.strings[name].codes(column)
        addresses[place] = address_of(column) if type_ is None else _items_of(column)
        forms[place] = PLAIN if type_ is None else _FORMS[type_.kind]
        held.append(column)
    carried = read_carried(table, columns.carry, watch.carried_types) if columns.carry else {}
    given = np.array([table.rows, address_of(slots), instants, bool(sequences), *addresses, *forms], np.int64)
    rows = FewRows(way.table(watch), given, way.width, (held, way.arrays))
    if rows.outcome != TAKEN or _waits(watch, slots):
        return None
    found = way.find(watch, rows.work)
    if found < 0:
        return None

    def settle() -> None:
        watch.settle_few(rows.store, slots)
        watch.note_carried(carried)

    if not found and not carried:
        return Step([], way.about, settle)
    if singly and found <= _SINGLY:
        return Step([], way.about, settle, partial(_write_singly, watch, way, rows, slots, objects, sequences, found))
    about = _about(way, rows, sequences, carried)
    return Step([_detections(way, rows, slots, found)] if found else [], about, settle)


def _write_singly(
    watch: "Watch",
    way: ShortWay,
    rows: FewRows,
    slots: Int64s,
    objects: Any,
    sequences: Sequence[Any],
    found: int,
    emitter: Emitter,
) -> list[tuple[Any, ...]]:
    """The events of few changes, as tuples."""
    events: list[tuple[Any, ...]] = []
    for move, changes in groupby(way.changes[:found].tolist(), itemgetter(0)):
        ends = rows.work[2 * move : 2 * move + 2].tolist()
        sequence = [each[move].as_py() for each in sequences]
        moved = Moved(list(changes), ends, int(rows.times[move]), int(slots[move]), objects[move].as_py(), sequence)
        events += write_move(watch, emitter, way, moved, {}, for_arrow=True)
    return events


def _about(way: ShortWay, few: FewRows, sequences: Sequence[Any], carried: Mapping[str, Any]) -> Subjects:
    count = len(few.times)
    places = np.arange(count)
    everywhere = np.ones(count, np.bool_)
    about = way.about._replace(
        values=way.positions(few.work),
        ranks=places,
        sequences=[(np.asarray(each), everywhere) for each in sequences],
        ordered=True,
    )
    if carried:
        types = {name: column.type for name, column in carried.items()}
        about = about._replace(carried=carried, carried_rows=places, carried_types=types)
    return about


def _detections(way: ShortWay, few: FewRows, slots: Int64s, found: int) -> Detections:
    moves, rules, bits = way.changes[:found].T.copy()
    detects = bits.astype(np.uint8)
    return Detections(
        rules,
        moves,
        2 * moves,
        2 * moves + 1,
        few.times[moves],
        detects,
        np.zeros(len(moves), np.uint8),
        _PHASES[detects],
        slots[moves],
    )


def _waits(watch: "Watch", slots: Int64s) -> bool:
    """Whether damping remembers something of any of these objects."""
    damped = watch.state.damped
    return bool(damped.count) and any(map(damped.has, slots.tolist()))


def _eight_bytes(table: Table, name: str, type_: AttributeType) -> Any | None:
    """A column of an attribute as Arrow keeps it, if the items say what its ordinals are."""
    return table.whole(name, type_.arrow) if type_.kind in _FORMS else None


def _items_of(column: Any) -> int:
    """Where the items of an Arrow array of eight bytes each begin."""
    address: int = column.buffers()[1].address + 8 * column.offset
    return address
