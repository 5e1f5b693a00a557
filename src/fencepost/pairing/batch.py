"""One batch of rows of two streams: what its rows, applied in their order, do in the indexes of bands."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.emitting.detections import (
    CROSSED,
    ENDED,
    ENTERED,
    EXITED,
    STAYED,
    Detections,
    Pairs,
    detections_of,
    join_detections,
    time_reasons,
)
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.matches import share_room
from fencepost.pairing.conditions import SideValues
from fencepost.pairing.damping import BandRound, DampedBands, begins_window
from fencepost.pairing.indexes import BandIndexes
from fencepost.pairing.join import Actions, BandJoin, Places, Triples, differing, no_triples
from fencepost.pairing.rows import AllRows, History, RowsAt, SideRows
from fencepost.pairing.rules import LEFT, BandRules
from fencepost.pairing.sides import Sides
from fencepost.snapshot import DETECTS, NEVER
from fencepost.watching.clock import Clock, gone_after

_SHARES = 8
"""Of the memory for an answer, what the pairs of an index may take: they are compared by means of arrays as long."""


class _Steps(NamedTuple):
    """What the rows of one side do in one index."""

    side: int
    given: SideRows
    places: Places
    """Where each row is afterwards."""
    was: Bools
    """Whether the row was in the index; likewise `now`."""
    now: Bools
    moves: Bools
    """Whether it was and is, as the same object in the same group."""
    listed: Bools
    """Whether all its pairs before and after are compared, not only those that differ reported."""
    moments: Int64s
    """Its place in the order in which the rows of both sides are applied."""


class _Probe:
    """The pairs that rows find in one index, which goes ahead as far as it has room for them.

    Args:
        find: takes some actions, and says what pairs they find and how many of them it took.
        actions: of all rows.

    """

    def __init__(self, find: Callable[[Actions], tuple[tuple[Triples, ...], int]], actions: Actions) -> None:
        self._find, self._actions = find, actions
        self._found: tuple[Triples, ...] = ()
        self._length = len(actions.slots)
        self.reached = 0
        """The first row that was not taken yet."""

    def go_on(self, begin: int) -> None:
        """Take rows, unless the one that is asked for was taken."""
        if self.reached > begin:
            return
        found, done = self._find(self._actions.stretch(begin, begin + self._length))
        self._found = tuple(pairs._replace(moves=pairs.moves + begin) for pairs in found)
        self.reached, self._length = begin + done, 2 * done

    def until(self, end: int) -> tuple[Triples, ...]:
        """The pairs of rows before one, which are then forgotten."""
        found, self._found = self._found, ()
        if self.reached > end:
            self._found = tuple(pairs.only(pairs.moves >= end) for pairs in found)
            found = tuple(pairs.only(pairs.moves < end) for pairs in found)
        return found


class BandBatch:
    """Rows of both sides in the order in which they are applied, and what they meet.

    Args:
        sides: the rows of each side that has any, not yet settled.
        before: the rows before the batch.
        rules: in force.
        clock: of event time.
        silent: whether a row that is new enters without an event.
        damped: the rules that are damped, if any.

    """

    def __init__(
        self,
        sides: Sequence[tuple[int, SideRows]],
        before: Sides,
        rules: BandRules,
        clock: Clock,
        *,
        silent: bool,
        damped: DampedBands | None = None,
    ) -> None:
        self.sides = sides
        self._before, self._rules, self._clock, self._silent = before, rules, clock, silent
        self._expires = clock.instants(rules.expires)
        self._damped = damped
        self._finds = rules.detects if damped is None else damped.finds
        self._of_side = np.concatenate([np.full(len(each.ranks), side, np.int64) for side, each in sides])
        """Of each row, one side after the other; likewise its number among those of its side, and its slot."""
        self._numbers = np.concatenate([np.arange(len(each.ranks)) for _, each in sides])
        self._slots = np.concatenate([each.rows.slots for _, each in sides])
        ranks, times = (np.concatenate(part) for part in zip(*((e.ranks, e.rows.times) for _, e in sides), strict=True))
        by = [ranks, self._of_side] if clock.column is None else [ranks, self._of_side, times]
        self._order = np.lexsort(by)
        self.moments = np.empty(len(self._order), np.int64)
        """Of each row: its place in the order in which they are applied."""
        self.moments[self._order] = np.arange(len(self._order))
        self._own_moments: dict[int, Int64s] = {side: self.moments[self._of_side == side] for side, _ in sides}
        self._rows_before: dict[int, int] = {}
        """Rows of the sides before one, among those of both; likewise the positions that moves touch."""
        self._places_before: dict[int, int] = {}
        rows = places = 0
        for side, each in sides:
            self._rows_before[side], self._places_before[side] = rows, places
            rows, places = rows + len(each.ranks), places + each.moved.positions.rows
        self._histories = [History(state) for state in before.states]
        for side, each in sides:
            self._histories[side] = History(before.states[side], each, self._own_moments[side])

    def all_rows(self) -> AllRows:
        """The rows of both sides together."""
        return AllRows(self.sides, self.moments, self._clock.timeout)

    def apply(self, indexes: BandIndexes, round: BandRound | None = None) -> Iterator[Detections]:
        """What the rows do in the indexes, which then have them where they are; damped, where there is a round.

        It comes in pieces, in the order in which rows are applied: each has as many rows as all indexes have room for.
        """
        joins = list(indexes)
        values = [indexes.values(side, given.moved.positions) for side, given in self.sides]
        all_steps = [
            [self._steps(join, side, given, own) for (side, given), own in zip(self.sides, values, strict=True)]
            for join in joins
        ]
        probes = []
        for join, steps in zip(joins, all_steps, strict=True):
            actions = self._actions(steps)
            probes.append((_Probe(join.replay, actions), _Probe(join.cross, actions)))
        begin, rows = 0, len(self._order)
        while begin < rows:
            with share_room(_SHARES):
                for probe in itertools.chain(*probes):
                    probe.go_on(begin)
            end = min((probe.reached for probe in itertools.chain(*probes)), default=rows)
            parts: list[Detections] = []
            for join, steps, (replayed, crossed) in zip(joins, all_steps, probes, strict=True):
                found = (*replayed.until(end), *crossed.until(end))
                for each in steps:
                    own = [pairs.only(self._of_side[self._order[pairs.moves]] == each.side) for pairs in found]
                    numbered = (pairs._replace(moves=self._numbers[self._order[pairs.moves]]) for pairs in own)
                    parts += self._caused(join, each, *numbered)
            together = join_detections(parts)
            yield together if round is None else round.damp(together, begin, end)
            begin = end

    def _actions(self, steps: Sequence[_Steps]) -> Actions:
        """What the rows of both sides do in one index, in their order."""

        def ordered(columns: Sequence[Any]) -> Any:
            return np.concatenate(columns)[self._order]

        places = Places(*map(ordered, zip(*(each.places for each in steps), strict=True)))
        flags = (ordered([getattr(each, name) for each in steps]) for name in ("was", "now", "moves", "listed"))
        return Actions(self._of_side[self._order], self._slots[self._order], places, *flags)

    def _steps(self, join: BandJoin, side: int, given: SideRows, values: SideValues) -> _Steps:
        """What the rows of one side do in one index."""
        moved = given.moved
        places = join.places(side, values)
        before, after = moved.previous, Places(*(column[moved.offset :] for column in places))
        was = (before >= 0) & places.usable[before]
        now = after.usable & ~given.deleted
        moves = was & now & ~moved.is_new & (places.groups[before] == after.groups)
        # What moves within its group, keeps its keys and meets no expiry needs no look at the pairs that stay.
        plain = moves & (given.rows.times < self._expires[join.slots].min(initial=NEVER))
        for column in self._rules.required[side]:
            codes = moved.positions.keys[column]
            plain &= codes[before] == codes[moved.offset :]
        if self._silent and (self._damped is None or not self._damped.is_damped[join.slots].any()):
            plain |= moved.is_new & ~was  # enters without an event
        if self._detects_inside(join):
            plain[:] = False
        return _Steps(side, given, after, was, now, moves, ~plain, self._own_moments[side])

    def sequences(self) -> list[tuple[Int64s, Bools]]:
        """Of each row of both sides: the ordinals of sequence columns, and which are there."""
        columns = zip(*(each.rows.sequences for _, each in self.sides), strict=True)
        joined = [[np.concatenate(part) for part in zip(*column, strict=True)] for column in columns]
        return [(ordinals, known) for ordinals, known in joined]

    def carried(self, names: Sequence[str]) -> tuple[dict[str, Any], Int64s]:
        """Columns that events carry, one side after the other, and the place in them of each row of both sides."""
        columns: dict[str, Any] = {}
        lengths = [1 + int(each.rows.numbers.max(initial=-1)) for _, each in self.sides]
        for name in names:
            parts = [each.rows.carried.get(name) for _, each in self.sides]
            type_ = next(
                (part.type for part in parts if part is not None and not pa.types.is_null(part.type)), pa.null()
            )
            parts = [
                pa.nulls(length, type_) if part is None or part.type != type_ else part.slice(0, length)
                for part, length in zip(parts, lengths, strict=True)
            ]
            columns[name] = pa.concat_arrays(parts)
        starts = np.cumsum([0, *lengths])
        rows = [start + each.rows.numbers for start, (_, each) in zip(starts.tolist(), self.sides, strict=False)]
        return columns, np.concatenate(rows)

    def _detects_inside(self, join: BandJoin) -> bool:
        return bool((self._rules.detects[join.slots] & DETECTS["inside"]).any())

    def _caused(
        self, join: BandJoin, steps: _Steps, begun: Triples, ceased: Triples, crossed: Triples
    ) -> list[Detections]:
        """What the rows of one side do, given the pairs that each of them brings into bands, takes out and crosses."""
        rules, side, given = self._rules, steps.side, steps.given
        moved, times, is_new = given.moved, given.rows.times, given.moved.is_new
        before, after = moved.previous, moved.offset + np.arange(len(times))

        def own(pairs: Triples, position: Int64s) -> RowsAt:
            return RowsAt(moved.clocks, moved.positions.keys, position[pairs.moves])

        def holding(pairs: Triples, position: Int64s) -> Triples:
            theirs = self._histories[1 - side].at(pairs.others, steps.moments[pairs.moves])
            return pairs.only(rules.holding(side, own(pairs, position), theirs, pairs.rules, self._clock))

        holds, held, crossed = holding(begun, after), holding(ceased, before), holding(crossed, after)
        had = rules.asked_keys(side, own(crossed, before), crossed.rules)
        crossed = crossed if had is None else crossed.only(had)
        returned = is_new[held.moves]
        left_behind, held = held.only(returned), held.only(~returned)
        entered, no_longer = _changes(held, holds, steps.moves & steps.listed)
        expired = self._expires[no_longer.rules] <= times[no_longer.moves]
        exited = no_longer.only(~expired)
        ended = no_longer.only(expired).joined(left_behind)
        ends = self._expires[ended.rules]
        if self._clock.timeout is not None:
            gone = gone_after(moved.clocks[before[ended.moves]], self._clock.timeout)
            ends = np.where(is_new[ended.moves], np.minimum(ends, gone), ends)
        inside = holds if self._detects_inside(join) else no_triples()
        if self._damped is not None and self._damped.everys is not None and len(inside.moves):
            inside = self._insides_at_times(self._damped.everys, steps, inside, entered)
        if self._silent:
            wanted = ~is_new[entered.moves]
            if self._damped is not None:  # which find out by themselves
                wanted |= self._damped.is_damped[entered.rules]
            entered = entered.only(wanted)

        reasons = time_reasons(self._expires[ended.rules], ends)
        parts = [self._detect(side, given, ended, "exit", ENDED, ends, reasons)]
        for kind, phase, pairs in (
            ("exit", EXITED, exited),
            ("cross", CROSSED, crossed),
            ("enter", ENTERED, entered),
            ("inside", STAYED, inside),
        ):
            parts.append(self._detect(side, given, pairs, kind, phase, times[pairs.moves], None))
        return [each for each in parts if len(each.rules)]

    def _insides_at_times(self, everys: Int64s, steps: _Steps, inside: Triples, entered: Triples) -> Triples:
        """The pairs inside that are reported where rules say how often: the first time, and first in each window."""
        staying, _ = differing(entered, inside)
        moved, moves = steps.given.moved, staying.moves
        partners = self._histories[1 - steps.side].at(staying.others, steps.moments[moves])
        theirs = partners.times[partners.places]
        before = np.maximum(moved.clocks[moved.previous[moves]], theirs)
        now = np.maximum(steps.given.rows.times[moves], theirs)
        return staying.only(begins_window(before, now, everys[staying.rules])).joined(entered)

    def _detect(
        self,
        side: int,
        given: SideRows,
        pairs: Triples,
        kind: str,
        phase: int,
        times: Int64s,
        reasons: UInt8s | None,
    ) -> Detections:
        """Detections of one kind, if rules ask for it; rows and places count through both sides."""
        wanted = (self._finds[pairs.rules] & DETECTS[kind]) != 0
        pairs, times, reasons = pairs.only(wanted), times[wanted], None if reasons is None else reasons[wanted]
        rows, moved = pairs.moves, given.moved
        before = moved.previous[rows]
        after = before if phase == ENDED else np.where(given.deleted[rows], -1, moved.offset + rows)
        before = before if phase == ENDED else np.where(moved.is_new[rows], -1, before)
        shift = self._places_before[side]
        before, after = (np.where(place < 0, -1, place + shift) for place in (before, after))
        own = given.rows.slots[rows]
        from_left = np.full(len(rows), side == LEFT)
        objects, others = (own, pairs.others) if side == LEFT else (pairs.others, own)
        numbered = Pairs(rows + self._rows_before[side], pairs.rules)
        found = detections_of(numbered, kind, phase, before, after, times, objects, reasons)
        return found._replace(others=others, from_left=from_left)


def _changes(held: Triples, holds: Triples, compared: Bools) -> tuple[Triples, Triples]:
    """The pairs of rows that are only after, and only before; of rows that are not compared, all of them."""
    was, is_now = compared[held.moves], compared[holds.moves]
    newly, no_longer = differing(held.only(was), holds.only(is_now))
    return holds.only(~is_now).joined(newly), held.only(~was).joined(no_longer)
