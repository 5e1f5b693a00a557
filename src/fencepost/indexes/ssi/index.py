"""SSI: the production band index, whose cost follows the number of hotspots that the bands gather around."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import Column, Owners, id_column, kernel_ready, same_length
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.contracts.bands import (
    HIGH,
    LOW,
    MARK,
    ROW_GROUP,
    ROW_KEY,
    STAB_GROUP,
    BandIndex,
    Moves,
    PairLists,
    Probes,
    Side,
    item_of,
    no_number,
)
from fencepost.indexes.contracts.registry import Bounds
from fencepost.indexes.kernels.id_map import ABSENT
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened
from fencepost.indexes.ordinal import ValueType
from fencepost.indexes.ssi.changes import (
    WITNESS,
    Partitions,
    collect,
    greedy,
    insert_closed_query,
    insert_row,
    lay_out,
    link,
    regroup,
    release,
    remove_one_query,
    remove_row,
    tally,
    unlink,
)
from fencepost.indexes.ssi.checks import EXCESS, SLACK, check_partitions
from fencepost.indexes.ssi.distance import LEFT, RIGHT
from fencepost.indexes.ssi.members import Table, enlarged, evict_absent, evict_known, find_slot
from fencepost.indexes.ssi.moves import move_rows, undo_moves
from fencepost.indexes.ssi.ordered import (
    add_all,
    built,
    check_ordered,
    discard_all,
    empty_ordered,
    entries,
    ordered_bytes,
    with_majors,
    with_room,
)
from fencepost.indexes.ssi.replay import CAME, MOVED, possible, take_steps, undo_steps
from fencepost.indexes.ssi.rounds import take_in_rounds
from fencepost.indexes.ssi.search import Queries, RowList, SSIView, Stabs, affected_by, pairs_of

_FORMAT = 1
_SIDES = ("left", "right")
_HUGE = 2**63 - 1


class _Before(NamedTuple):
    """What answers before this one had: how much room the next is given at once. More is found out by counting."""

    per_value: float = 16.0
    """Of the last."""
    most: int = 0
    """Of the largest."""

    def expected(self, values: int) -> int:
        """Room for the answer about so many values: never much more than an answer has really had."""
        return int(1.25 * min(self.per_value * values, max(16 * values, self.most)))

    def followed_by(self, values: int, found: int) -> "_Before":
        """The same with one more answer."""
        return _Before(max(16.0, found / max(1, values)), max(self.most, found))


class SSI(BandIndex):
    """Band joins by a stabbing partition: queries in groups that share a point, rows in order, both dynamic.

    Each query belongs to a *stabbing group* whose point lies in it. Of the rows around a value only the two whose
    differences enclose the point can decide which queries of a group are affected: those left of it by their lower
    bounds, those right of it by their upper bounds, which is why a group keeps its queries sorted by either.

    Rows and queries may have a *group*, an equality key such as a symbol: only rows of one group make pairs, and a
    query is about one group or, without one, about all. Groups are numbered; number 0 is that of none. The queries of
    each number have a stabbing partition of their own.

    Arrays: the rows of a side and the queries are tables (`fencepost.indexes.ssi.members`); rows are listed by
    (group, key), queries by (stabbing group, lower bound) and by (stabbing group, upper bound), stabbing groups by
    (partition, point), each in an `Ordered` list.

    Invariants: (1) the point of a stabbing group lies in each of its queries, by the exact predicate; (2) the
    witnesses of a partition, at most one per stabbing group, are disjoint; (3) a partition has at most 1.5 tau + 2
    stabbing groups, where tau is the least possible number, because it is rebuilt as soon as it has more than 1.5
    times the witnesses plus 2; (4) no stabbing group is empty; (5) a group that nobody uses has no number.

    Costs, with tau over the partitions that concern a value: `affected` O(tau log m + k); `pairs` the same and the
    rows in reach; `move` O(tau log m) and O(log m + log n) per row with a change, not the pairs that stay; a row
    O(log m) and a query O(log n) to insert or remove, and the queries' share of a rebuild. About 52 bytes per row
    or query where bands gather around hotspots, 69 on average where each query is a stabbing group of its own.

    Agarwal, Xie, Yang, Yu 2005, section 2.2, made dynamic. Deviations: stabbing points need not be finite, since
    neighbours are found by the exact predicate and absent ones are absent; lists are ordered by bounds without the
    openness of their ends, so that queries that are open exactly at a difference are looked at in vain.

    >>> index = SSI()
    >>> index.insert_queries([1, 2], [-1.0, 2.0], [1.0, None])
    >>> index.insert_many("left", [10, 11], [5.0, 8.0])
    >>> index.affected("right", 5.5).tolist()
    [1, 2]
    >>> index.insert("right", 20, 5.5)
    >>> change = index.move("right", 20, 9.0)
    >>> change.entered.rows.tolist(), change.entered.queries.tolist()
    ([11], [1])
    >>> change.left.rows.tolist(), change.left.queries.tolist()
    ([10, 11], [1, 2])
    """

    _has_groups = True

    def __init__(self, values: ValueType = "float64") -> None:
        super().__init__(values)
        self._known_groups = Table()
        self._uses = np.zeros(1, np.int32)
        self._order = [empty_ordered(with_keys=True), empty_ordered(with_keys=True)]
        self._affected_before = _Before()
        self._pairs_before = _Before()
        self._clear_partitions(1, 8)

    def _clear_partitions(self, partitions: int, groups: int) -> None:
        self._partitions = Partitions(*(np.zeros(partitions, np.int32) for _ in Partitions._fields))
        self._stabs = Stabs(
            np.zeros(groups, np.int64),
            np.zeros(groups, np.int8),
            np.zeros(groups, np.int32),
            np.zeros(groups, np.int32),
            np.zeros(groups, np.int64),
            np.zeros(groups, np.int64),
            np.zeros(2, np.int64),
        )
        self._lows, self._highs, self._points = (with_majors(empty_ordered(False), groups) for _ in range(3))

    # -- groups -----------------------------------------------------------------------------------------

    @override
    def _numbers(self, keys: Int64s, no_key: Bools) -> Int64s:
        if not len(keys):
            return np.zeros(len(no_key), np.int64)
        slots = self._known_groups.find(keys)
        return np.where(no_key, 0, np.where(slots == ABSENT, ABSENT, slots + 1))

    @override
    def _numbered(self, keys: Int64s, no_key: Bools) -> Int64s:
        numbers = self._numbers(keys, no_key)
        if (numbers == ABSENT).any():
            unknown = np.unique(keys[numbers == ABSENT])
            self._known_groups.make_room(len(unknown))
            # All room is made before a group is known: whatever finds a group's number relies on it.
            count = 1 + len(self._known_groups.members.ids)
            self._points = with_majors(self._points, count)
            self._order = [with_majors(order, count) for order in self._order]
            if count > len(self._uses):
                self._partitions = Partitions(*(enlarged(array, count) for array in self._partitions))
                self._uses = enlarged(self._uses, count)
            try:
                self._known_groups.admit(unknown)
                numbers = self._numbers(keys, no_key)
            except BaseException:
                evict_known(self._known_groups.members, unknown)
                raise
        tally(self._uses, numbers, 1)
        return numbers

    def _plain_number(self, group: int | None) -> int:
        """The number of one group, `ABSENT` if it has none yet or is no plain number."""
        if group is None:
            return 0
        if type(group) is not int or abs(group) >= _HUGE:
            return ABSENT
        slot = int(find_slot(self._known_groups.members, group))
        return ABSENT if slot == ABSENT else slot + 1

    def _release(self, numbers: Int64s) -> None:
        """Let groups go that nobody uses any more."""
        if len(numbers) == 1 and (numbers[0] == 0 or self._uses[numbers[0]] > 1):
            self._uses[numbers[0]] -= 1
            return
        release(self._uses, self._known_groups.members, numbers)

    # -- rows -------------------------------------------------------------------------------------------

    def _row_list(self, side: int) -> RowList:
        table = self._rows[side]
        return RowList(table.members.ids, table.columns[ROW_GROUP], table.columns[ROW_KEY], self._order[side])

    @override
    def insert(self, side: Side, row: int, value: float, group: int | None = None) -> None:
        """Add one row; what is out of the ordinary, or to be refused, takes the way of `insert_many`."""
        number = self._plain_number(group)
        ordinary = type(row) is int and abs(row) < _HUGE and type(value) is float and math.isfinite(value)
        if ordinary and number >= 0 and self.values == "float64" and side in _SIDES:
            which = _SIDES.index(side)
            self._rows[which].make_room(1)
            self._order[which] = with_room(self._order[which])
            if insert_row(self._rows[which].members, self._row_list(which), which, row, value, number):
                self._uses[number] += 1
                return
        super().insert(side, row, value, group)

    @override
    def remove(self, side: Side, row: int) -> None:
        """Take one row out."""
        if type(row) is int and abs(row) < _HUGE and side in _SIDES:
            which = _SIDES.index(side)
            number = remove_row(self._rows[which].members, self._row_list(which), row)
            if number != ABSENT:
                self._release(np.array([number]))
                return
        super().remove(side, row)

    @override
    def _rows_added(self, side: int, slots: Int64s) -> None:
        keys, groups = self._rows[side].columns
        if 4 * len(slots) > len(self._rows[side]):
            live = self._rows[side].slots()
            live = live[np.lexsort((keys[live], groups[live]))]
            self._order[side] = built(live, groups, keys, len(self._uses), with_keys=True)
            return
        done = 0
        while done < len(slots):
            self._order[side] = with_room(self._order[side])
            done = add_all(self._order[side], groups, keys, done, slots)

    @override
    def _rows_leave(self, side: int, slots: Int64s) -> None:
        keys, groups = self._rows[side].columns
        discard_all(self._order[side], groups, keys, slots)
        self._release(groups[slots].astype(np.int64))

    def clear_rows(self) -> None:
        """Take all rows of both sides out; the queries stay. It needs nothing of the rows to be in order."""
        for side, table in enumerate(self._rows):
            table.clear()
            self._order[side] = with_majors(empty_ordered(with_keys=True), len(self._uses))
        self._uses[:] = 0
        tally(self._uses, self._partition_numbers(self._queries.slots()), 1)
        known = self._known_groups.slots()
        self._known_groups.evict(self._known_groups.members.ids[known[self._uses[known + 1] == 0]])

    @override
    def _move(self, side: int, slots: Int64s, keys: Int64s) -> Moves:
        others, view = self._row_list(1 - side), self._view()
        # One row moves or does not. Of several, what they have now is kept, should memory end among them.
        before = self._rows[side].columns[ROW_KEY][slots] if len(slots) > 1 else keys

        def take(done: int, *room: Int64s) -> int:
            self._order[side] = with_room(self._order[side])
            return int(move_rows(self._kind, side, done, slots, keys, self._row_list(side), others, view, *room))

        def undo(done: int) -> None:
            if len(slots) > 1:
                undo_moves(done, slots, before, self._row_list(side))

        return take_in_rounds(len(slots), take, undo)

    def replay(
        self,
        sides: Int64s,
        rows: Column,
        actions: UInt8s,
        values: Column,
        groups: Column | None = None,
        *,
        partly: bool = False,
    ) -> Moves:
        """Take steps of both sides in their order; what each of them changed. All of them or, if one is at fault, none.

        Args:
            sides: of each step: 0 for left, 1 for right.
            rows: the row of each step.
            actions: `MOVED` gives a row another value; `WENT` takes it out, `CAME` puts it in, both do so in turn;
                with `LISTED` all pairs of a row that went have left and all of one that came have entered, else no
                pair is told of.
            values: where rows come or move to.
            groups: of rows that come.
            partly: to take only as many steps, from the first on, as there is room for what they change: the answer
                then says how many. Refused where that is none.
        """
        ids = id_column(rows)
        owners = Owners("row", ids)
        keys, missing = self._keys(LEFT, values, owners)
        group_keys, no_key = self._group_keys(groups, ids, owners)
        same_length(ids, values=keys, sides=sides, actions=actions)
        keys = np.where(sides == RIGHT, ~keys, keys)
        faulty = missing & (actions & (CAME | MOVED) != 0)
        if faulty.any():
            row = int(np.argmax(faulty))
            raise no_number(_SIDES[sides[row]], int(ids[row]), item_of(values, row))
        comes = np.flatnonzero((actions & CAME) != 0)
        slots, numbers = np.empty(len(ids), np.int64), np.full(len(ids), -1, np.int64)
        released, view = np.empty(len(ids), np.int64), self._view()
        new = [np.unique(own[table.find(own) == ABSENT]) for own, table in self._ids_by_side(sides, ids)]

        def undo(done: int) -> None:
            """Let everything be as it was; it takes no memory, so that it cannot fail where memory has ended."""
            undo_steps(done, sides, slots, actions, keys, released, self._row_list(LEFT), self._row_list(RIGHT))
            for table, admitted in zip(self._rows, new, strict=True):
                evict_known(table.members, admitted)
            release(self._uses, self._known_groups.members, numbers)

        try:
            there = self._admit_rows(sides, ids, new, slots)
            at_first = [own.copy() for own in there] if partly else there
            wrong = int(possible(sides, slots, actions, *there))
            if wrong >= 0:
                step = f"{_SIDES[sides[wrong]]} row {ids[wrong]} in step {wrong}"
                expected = "a row that is there if it moves or goes, and is not if it comes"
                raise FencepostError(step, expected, "Put the steps in their order.")
            numbers[comes] = self._numbered(group_keys[comes] if len(group_keys) else group_keys, no_key[comes])
        except BaseException:
            undo(0)
            raise

        def take(done: int, *room: Int64s) -> int:
            self._order = [with_room(order) for order in self._order]
            lists = self._row_list(LEFT), self._row_list(RIGHT)
            steps = (sides, slots, actions, keys, numbers)
            return int(take_steps(self._kind, done, *steps, *lists, view, released, *room))

        changed = take_in_rounds(len(ids), take, undo, partly=partly)
        # The rows and groups go that no step has put in, or that have gone. From here on nothing takes memory.
        done, stays = len(changed.left.offsets) - 1, there
        if done < len(ids):
            stays = at_first
            possible(sides[:done], slots[:done], actions[:done], *stays)
            release(self._uses, self._known_groups.members, numbers[done:])
        for side, table in enumerate(self._rows):
            evict_absent(table.members, slots, sides, side, stays[side])
        release(self._uses, self._known_groups.members, released[:done])
        return changed

    def _ids_by_side(self, sides: Int64s, ids: Int64s) -> list[tuple[Int64s, Table]]:
        return [(ids[sides == side], table) for side, table in enumerate(self._rows)]

    def _admit_rows(self, sides: Int64s, ids: Int64s, new: list[Int64s], slots: Int64s) -> list[Bools]:
        """Give the new rows of both sides slots, and fill the slots of all; of each side, which slots have rows."""
        there = []
        for side, table in enumerate(self._rows):
            table.admit(new[side])
            slots[sides == side] = table.find(ids[sides == side])
            there.append(np.ones(len(table.members.ids), np.bool_))
            there[side][table.find(new[side])] = False
        return there

    # -- queries ----------------------------------------------------------------------------------------

    @override
    def insert_query(
        self, id: int, a: float | None, b: float | None, bounds: Bounds = "[]", group: int | None = None
    ) -> None:
        """Add one query; what is out of the ordinary, or to be refused, takes the way of `insert_queries`."""
        number = self._plain_number(group)
        ordinary = type(id) is int and abs(id) < _HUGE and bounds == "[]" and number >= 0 and self.values == "float64"
        if ordinary and type(a) is float and type(b) is float and a <= b and a < math.inf and b > -math.inf:
            self._queries.make_room(1)
            self._make_room()
            if insert_closed_query(self._queries.members, self._view(), self._partitions, id, a, b, number):
                self._uses[number] += 1
                self._tidy(number)
                return
        super().insert_query(id, a, b, bounds, group)

    @override
    def remove_query(self, id: int) -> None:
        """Take one query out."""
        if type(id) is int and abs(id) < _HUGE:
            number = remove_one_query(self._queries.members, self._view(), self._partitions, id)
            if number != ABSENT:
                self._tidy(number)
                self._release(np.array([number]))
                return
        super().remove_query(id)

    def _query_columns(self) -> Queries:
        columns = self._queries.columns
        return Queries(self._queries.members.ids, columns[LOW], columns[HIGH], columns[MARK], columns[STAB_GROUP])

    def _view(self) -> SSIView:
        return SSIView(self._query_columns(), self._stabs, self._lows, self._highs, self._points)

    @override
    def _queries_added(self, slots: Int64s, groups: Int64s) -> None:
        if 4 * len(slots) > len(self._queries):
            linked = entries(self._lows)
            numbers = np.append(self._partition_numbers(linked), groups)
            self._rebuild(np.append(linked, slots), numbers)
            return
        done = 0
        while done < len(slots):
            self._make_room()
            done = link(self._view(), self._partitions, done, slots, groups, EXCESS, SLACK)
            if done:
                self._tidy(int(groups[done - 1]))

    @override
    def _queries_leave(self, slots: Int64s) -> None:
        groups = self._partition_numbers(slots)
        done = 0
        while done < len(slots):
            done = unlink(self._view(), self._partitions, done, slots, EXCESS, SLACK)
            self._tidy(int(groups[done - 1]))
        self._release(groups)

    def _make_room(self) -> None:
        """Room for one more stabbing group, and for a chunk in each list."""
        used, free = self._stabs.state.tolist()
        if not free and used == len(self._stabs.points):
            size = used + used // 4
            columns = {name: enlarged(getattr(self._stabs, name), size) for name in Stabs._fields if name != "state"}
            self._stabs = self._stabs._replace(**columns)
            self._lows, self._highs = with_majors(self._lows, size), with_majors(self._highs, size)
        self._lows, self._highs, self._points = map(with_room, (self._lows, self._highs, self._points))

    def _partition_numbers(self, slots: Int64s) -> Int64s:
        """The number of the group of each query."""
        numbers: Int64s = self._stabs.partitions[self._queries.columns[STAB_GROUP][slots]].astype(np.int64)
        return numbers

    def _tidy(self, partition: int) -> None:
        """Partition anew where there may be too many stabbing groups for invariant 3."""
        groups, proven = int(self._partitions.groups[partition]), int(self._partitions.witnesses[partition])
        if groups <= (1 + EXCESS) * max(1, proven) + SLACK:
            return
        slots = np.empty(int(self._partitions.queries[partition]), np.int64)
        if 8 * len(slots) > len(self._queries):
            linked = entries(self._lows)
            self._rebuild(linked, self._partition_numbers(linked))
            return
        collect(self._view(), partition, slots)
        slots = slots[self._by_lower_bound(slots)]
        labels, witnesses = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        greedy(self._query_columns(), slots, np.full(len(slots), partition), labels, witnesses)
        regroup(self._view(), self._partitions, partition, slots, labels, witnesses)

    def _by_lower_bound(self, slots: Int64s, major: Int64s | None = None) -> Int64s:
        columns = self._queries.columns
        signs = columns[MARK][slots] & 3
        return np.lexsort((signs, columns[LOW][slots]) if major is None else (signs, columns[LOW][slots], major))

    def _rebuild(self, slots: Int64s, numbers: Int64s) -> None:
        """Partition all queries anew, which are in these slots and have groups of these numbers."""
        order = self._by_lower_bound(slots, numbers)
        slots, numbers = slots[order], numbers[order]
        labels, witnesses = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        queries = self._query_columns()
        count = greedy(queries, slots, numbers, labels, witnesses)
        self._clear_partitions(len(self._uses), count + count // 8 + 8)
        stabs = self._stabs
        lay_out(queries, stabs, self._partitions, slots, numbers, labels, witnesses, count)
        self._lows, self._highs = (
            built(
                slots[np.lexsort((slots, bounds[slots], queries.groups[slots]))],
                queries.groups,
                bounds,
                len(stabs.points),
                with_keys=False,
            )
            for bounds in (queries.lows, queries.highs)
        )
        by_point = np.lexsort((stabs.points[:count], stabs.partitions[:count]))
        self._points = built(by_point, stabs.partitions, stabs.points, len(self._uses), with_keys=False)

    # -- asking -----------------------------------------------------------------------------------------

    @override
    def _affected(self, side: int, probes: Probes, out: Matches | None = None) -> Matches:
        rows, view = self._row_list(1 - side), self._view()
        expected = self._affected_before.expected(len(probes.keys))
        offsets, ids = answer_buffers(len(probes.keys), expected, np.int64, out)
        found = affected_by(self._kind, side, *probes, rows, view, offsets, ids)
        if found > len(ids):
            ids = widened(ids, 0, found, out)
            affected_by(self._kind, side, *probes, rows, view, offsets, ids)
        self._affected_before = self._affected_before.followed_by(len(probes.keys), found)
        return Matches(offsets, ids[:found])

    @override
    def _pairs(self, side: int, probes: Probes, out: PairLists | None = None) -> PairLists:
        rows, view = self._row_list(1 - side), self._view()
        expected = self._pairs_before.expected(len(probes.keys))
        given = None if out is None else Matches(out.offsets, out.rows)
        offsets, ids = answer_buffers(len(probes.keys), expected, np.int64, given)
        queries = np.empty(len(ids), np.int64) if out is None else out.queries
        found = pairs_of(self._kind, side, *probes, rows, view, offsets, ids, queries)
        if found > len(ids):
            ids = widened(ids, 0, found, given)
            queries = np.empty(len(ids), np.int64)
            pairs_of(self._kind, side, *probes, rows, view, offsets, ids, queries)
        self._pairs_before = self._pairs_before.followed_by(len(probes.keys), found)
        return PairLists(offsets, ids[:found], queries[:found])

    # -- saving -----------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The rows and queries as flat arrays to save; the partition is made anew from them."""
        arrays: dict[str, npt.NDArray[Any]] = {"state": np.array([_FORMAT, self.values == "float64"])}
        for name, table in zip(_SIDES, self._rows, strict=True):
            slots = table.slots()
            arrays |= {f"{name}.ids": table.members.ids[slots], f"{name}.keys": table.columns[ROW_KEY][slots]}
            arrays |= self._saved_groups(name, table.columns[ROW_GROUP][slots].astype(np.int64))
        slots, columns = self._queries.slots(), self._queries.columns
        arrays |= {
            "queries.ids": self._queries.members.ids[slots],
            "queries.lows": columns[LOW][slots],
            "queries.highs": columns[HIGH][slots],
            "queries.marks": columns[MARK][slots] & (WITNESS - 1),
        }
        return arrays | self._saved_groups("queries", self._partition_numbers(slots))

    def _saved_groups(self, name: str, numbers: Int64s) -> dict[str, npt.NDArray[Any]]:
        keys = np.append(0, self._known_groups.members.ids)[numbers]
        return {f"{name}.groups": keys, f"{name}.grouped": numbers > 0}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The index that `to_arrays` described; arrays may be memory-mapped and read-only."""
        ready = {name: kernel_ready(array) for name, array in arrays.items()}
        version, is_float = ready["state"].tolist()
        if version != _FORMAT:
            raise FencepostError(
                f"arrays of format {version}",
                f"format {_FORMAT}",
                "Save the index again with this version of fencepost.",
            )
        index = cls("float64" if is_float else "int64")
        for side, name in ((LEFT, "left"), (RIGHT, "right")):
            slots, _ = index._rows[side].admit(ready[f"{name}.ids"])
            columns = index._rows[side].columns
            columns[ROW_KEY][slots] = ready[f"{name}.keys"]
            columns[ROW_GROUP][slots] = index._numbered(ready[f"{name}.groups"], ~ready[f"{name}.grouped"])
            index._rows_added(side, slots)
        slots, _ = index._queries.admit(ready["queries.ids"])
        for column, name in ((LOW, "lows"), (HIGH, "highs"), (MARK, "marks")):
            index._queries.columns[column][slots] = ready[f"queries.{name}"]
        index._queries_added(slots, index._numbered(ready["queries.groups"], ~ready["queries.grouped"]))
        return index

    # -- looking after ----------------------------------------------------------------------------------

    @property
    def stabbing_groups(self) -> int:
        """How many stabbing groups there are, over all groups of rows."""
        return int(self._partitions.groups.sum())

    @override
    def storage(self) -> Storage:
        entries = sum(map(len, self._rows)) + 2 * len(self) + self.stabbing_groups
        lists = (*self._order, self._lows, self._highs, self._points)
        real = self._table_bytes() + sum(map(ordered_bytes, lists)) + self._known_groups.nbytes + self._uses.nbytes
        real += sum(array.nbytes for array in (*self._stabs, *self._partitions))
        return Storage(self.stabbing_groups, entries, 8 * entries, real)

    @override
    def _check(self) -> None:
        self._known_groups.check()
        uses = np.zeros(len(self._uses), np.int64)
        for side in (LEFT, RIGHT):
            keys, groups = self._rows[side].columns
            slots = self._rows[side].slots()
            check_ordered(self._order[side], groups, keys, slots)
            np.add.at(uses, groups[slots], 1)
        queries, stabs, slots = self._query_columns(), self._stabs, self._queries.slots()
        check_ordered(self._lows, queries.groups, queries.lows, slots)
        check_ordered(self._highs, queries.groups, queries.highs, slots)
        numbers = self._partition_numbers(slots)
        np.add.at(uses, numbers, 1)
        assert np.array_equal(uses, self._uses), "every use of a group is counted"
        known = np.zeros(len(uses), np.bool_)
        known[self._known_groups.slots() + 1] = True
        assert np.array_equal(np.flatnonzero(uses[1:]), np.flatnonzero(known[1:])), "groups in use have numbers"
        live = np.unique(queries.groups[slots])
        check_ordered(self._points, stabs.partitions, stabs.points, live.astype(np.int64))
        check_partitions(self._view(), self._partitions, slots[self._by_lower_bound(slots, numbers)], numbers)
