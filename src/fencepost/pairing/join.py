"""One index of bands: rows of two streams, and the rules that subtract the same two columns of them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fencepost import indexes
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import DOUBLE
from fencepost.pairing.conditions import SideValues
from fencepost.pairing.rules import SIDES, BandRule, Shape
from fencepost.snapshot import DETECTS
from fencepost.snapshot.sides import BandSides

if TYPE_CHECKING:  # most monitors have no bands
    from fencepost.indexes import SSI
    from fencepost.indexes.contracts.bands import Moves, PairLists

_CROSS = DETECTS["cross"]


class Places(NamedTuple):
    """Where positions of one side are in the index."""

    values: Int64s
    """The numbers to subtract."""
    groups: Int64s
    """The number of the combination of keys that must be equal."""
    usable: Bools
    """Which are in the index at all: those with a finite number and all the keys, that meet the side's condition."""


class Triples(NamedTuple):
    """Moves of rows of one side, each with a row of the other side and a rule, both by slot."""

    moves: Int64s
    others: Int64s
    rules: Int64s

    def only(self, chosen: Bools | Int64s) -> "Triples":
        """The chosen ones."""
        return Triples(self.moves[chosen], self.others[chosen], self.rules[chosen])

    def joined(self, more: "Triples") -> "Triples":
        """These, then those."""
        return Triples(*(np.concatenate(columns) for columns in zip(self, more, strict=True)))


class Actions(NamedTuple):
    """What rows of both sides do to an index, in the order in which they are applied."""

    sides: Int64s
    slots: Int64s
    places: Places
    """Where each row is afterwards."""
    was: Bools
    """Whether it was in the index; likewise `now`."""
    now: Bools
    moves: Bools
    """Whether it was and is, as the same object in the same group."""
    listed: Bools
    """Whether all its pairs before and after are wanted, not only those that differ; true where it does not move."""

    def stretch(self, begin: int, end: int) -> "Actions":
        """Those of some rows."""
        places = Places(*(column[begin:end] for column in self.places))
        sides, slots, _, *flags = self
        return Actions(sides[begin:end], slots[begin:end], places, *(column[begin:end] for column in flags))


def no_triples() -> Triples:
    """None at all."""
    nothing = np.zeros(0, np.int64)
    return Triples(nothing, nothing, nothing)


def differing(before: Triples, after: Triples) -> tuple[Triples, Triples]:
    """The triples that are only after, and those that are only before."""
    both = before.joined(after)
    if not len(both.moves):
        return before, after
    is_after = np.arange(len(both.moves)) >= len(before.moves)
    order = np.lexsort([is_after, both.rules, both.others, both.moves])
    ordered, is_after = both.only(order), is_after[order]
    twice = np.ones(len(order) - 1, np.bool_)
    for column in ordered:
        twice &= column[1:] == column[:-1]
    alone = ~(np.append(twice, False) | np.append(False, twice))
    return ordered.only(alone & is_after), ordered.only(alone & ~is_after)


class BandJoin:
    """The rows of two streams in an `SSI`, under the slots of their objects, and rules under theirs.

    For rules that detect cross there is a second index, whose queries are what lies below a band and what lies above
    it: a move that takes a pair out of the one and into the other jumped over the band.

    Args:
        shape: of its rules.
        sides: their expressions, and what rows of either side must meet.

    """

    def __init__(self, shape: Shape, sides: BandSides) -> None:
        self.shape, self.sides = shape, sides
        self._slots: set[int] = set()
        self._slot_array: Int64s | None = None
        self._index = self._empty()
        self._around: SSI | None = None
        """What lies below a band (twice the slot of its rule) and above it (plus one)."""
        self._groups: dict[tuple[str, ...], int] = {}

    def _empty(self) -> "SSI":
        return indexes.SSI("float64" if self.shape.is_float else "int64")

    @property
    def slots(self) -> Int64s:
        """Of its rules."""
        if self._slot_array is None:
            self._slot_array = np.array(sorted(self._slots), np.int64)
        return self._slot_array

    # -- where rows are ------------------------------------------------------------------------------------

    def places(self, side: int, given: SideValues) -> Places:
        """Where positions of one side are in the index."""
        column, computed, positions = self.shape.columns[side], self.sides.computed, given.positions
        values, usable = given.ordinals(column, computed.get(column))
        if self.shape.is_float:
            values = np.asarray(DOUBLE.decode(values))
            usable = usable & np.isfinite(values)
        if self.shape.where[side]:
            usable = usable & given.met(self.shape.where[side])
        groups = np.zeros(positions.rows, np.int64)
        if self.shape.same and positions.rows:
            keys = given.combined(tuple(pair[side] for pair in self.shape.same), computed)
            usable = usable & keys.known
            numbers = [0 if texts is None else self._number(texts) for texts in keys.texts]
            groups = np.array(numbers, np.int64)[keys.where]
        return Places(values, groups, usable)

    def _number(self, texts: tuple[str, ...]) -> int:
        return self._groups.setdefault(texts, len(self._groups))

    def _groups_of(self, places: Places, chosen: Int64s) -> Int64s | None:
        return places.groups[chosen] if self.shape.same else None

    # -- changes -------------------------------------------------------------------------------------------

    def put_rules(self, rules: Sequence[tuple[int, BandRule]], placed: Callable[[int], tuple[Int64s, Places]]) -> None:
        """Take rules in, by slot; `placed` gives the slots and places of a side's rows, which are there already."""
        self._slots.update(slot for slot, _ in rules)
        self._slot_array = None
        self._insert(self._index, [(slot, rule.lower, rule.upper, rule.bounds, rule) for slot, rule in rules])
        around: list[tuple[int, float | None, float | None, str, BandRule]] = []
        for slot, rule in rules:
            if rule.detects & _CROSS and rule.lower is not None and rule.upper is not None:
                around.append((2 * slot, None, rule.lower, "[)" if rule.closed[0] else "[]", rule))
                around.append((2 * slot + 1, rule.upper, None, "(]" if rule.closed[1] else "[]", rule))
        if around and self._around is None:
            self._around = self._empty()
            for side in (0, 1):
                slots, places = placed(side)
                self._add(self._around, side, slots, places, np.flatnonzero(places.usable))
        if self._around is not None:
            self._insert(self._around, around)

    def _insert(self, index: "SSI", queries: Sequence[tuple[int, float | None, float | None, str, BandRule]]) -> None:
        together: dict[tuple[str, bool], list[tuple[int, float | None, float | None, int | None]]] = {}
        for id, lower, upper, bounds, rule in queries:
            group = None if rule.pinned is None else self._number(rule.pinned)
            together.setdefault((bounds, group is None), []).append((id, lower, upper, group))
        for (bounds, everywhere), members in together.items():
            ids, lows, highs, groups = map(list, zip(*members, strict=True))
            index.insert_queries(ids, lows, highs, bounds, None if everywhere else groups)  # type: ignore[arg-type]

    def drop_rules(self, slots: Sequence[int]) -> None:
        """Take rules out."""
        self._slots.difference_update(slots)
        self._slot_array = None
        self._index.remove_queries(slots)
        if self._around is None:
            return
        self._around.remove_queries([2 * slot + part for slot in slots if 2 * slot in self._around for part in (0, 1)])
        if not len(self._around):
            self._around = None

    def add_rows(self, side: int, slots: Int64s, places: Places, chosen: Int64s) -> None:
        """Put rows in at the chosen places; their slots are given for every place."""
        for index in self._indexes():
            self._add(index, side, slots, places, chosen)

    def _add(self, index: "SSI", side: int, slots: Int64s, places: Places, chosen: Int64s) -> None:
        index.insert_many(SIDES[side], slots[chosen], places.values[chosen], self._groups_of(places, chosen))

    def clear_rows(self) -> None:
        """Take all rows of both sides out."""
        for index in self._indexes():
            index.clear_rows()

    def drop_rows(self, side: int, slots: Int64s) -> None:
        """Take rows out."""
        for index in self._indexes():
            index.remove_many(SIDES[side], slots)

    def _indexes(self) -> list["SSI"]:
        return [self._index] if self._around is None else [self._index, self._around]

    def replay(self, actions: Actions) -> tuple[tuple[Triples, Triples], int]:
        """Let rows do what they do: the pairs that entered bands and those that left; of listed rows, all pairs.

        It takes as many as it has room for their pairs; how many these were.
        """
        entered, left = self._replayed(self._index, actions, listed=True)
        return (_triples(entered), _triples(left)), len(entered.offsets) - 1

    def cross(self, actions: Actions) -> tuple[tuple[Triples], int]:
        """The same for jumps over bands."""
        if self._around is None:
            return (no_triples(),), len(actions.slots)
        moves = self._replayed(self._around, actions, listed=False)
        entered, left = map(_triples, moves)
        # A pair jumps if it leaves one side of a band and enters the other: what is in both is what is not alone.
        opposite = entered._replace(rules=entered.rules ^ 1)
        alone, _ = differing(left, opposite)
        jumped, _ = differing(alone, opposite)
        return (jumped._replace(rules=jumped.rules >> 1),), len(moves.left.offsets) - 1

    def _replayed(self, index: "SSI", actions: Actions, *, listed: bool) -> "Moves":
        from fencepost.indexes.ssi.replay import CAME, LISTED, MOVED, WENT

        compared = actions.moves & ~actions.listed if listed else actions.moves
        taken = np.where(compared, MOVED, np.where(actions.was, WENT, 0) | np.where(actions.now, CAME, 0))
        if listed:
            taken |= np.where(actions.listed, LISTED, 0)
        groups = actions.places.groups if self.shape.same else None
        given = (actions.sides, actions.slots, taken.astype(np.uint8), actions.places.values, groups)
        return index.replay(*given, partly=True)

    # -- asking --------------------------------------------------------------------------------------------

    def pairs(self, side: int, places: Places, chosen: Int64s) -> Triples:
        """The pairs within bands that rows at the chosen places make, keys that rules ask for aside."""
        return _triples(self._index.pairs_many(SIDES[side], places.values[chosen], self._groups_of(places, chosen)))


def _triples(pairs: "PairLists") -> Triples:
    moves = np.repeat(np.arange(len(pairs.offsets) - 1), np.diff(pairs.offsets))
    return Triples(moves, pairs.rows, pairs.queries)
