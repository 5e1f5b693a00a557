"""The band rules in force, each in the index that serves rules of its shape, over the rows of two streams."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fencepost.indexes.arrays import Int64s
from fencepost.pairing.join import BandJoin, Places, Triples, no_triples
from fencepost.pairing.rows import last_rows
from fencepost.pairing.rules import LEFT, RIGHT, BandRule, BandRules, Shape
from fencepost.pairing.sides import Sides
from fencepost.watching.clock import Clock


class BandIndexes:
    """Each combination of columns that rules subtract and require to be equal is served by one `BandJoin`.

    Args:
        sides: whose rows are indexed.
        clock: that rules expire by.

    """

    def __init__(self, sides: Sides, clock: Clock) -> None:
        self._sides, self._clock = sides, clock
        self.rules = BandRules(sides.strings)
        self._joins: dict[Shape, BandJoin] = {}
        self._askers: dict[Shape, BandJoin] = {}
        """Indexes of all rows that stand ready for rules to be asked about, until a row moves."""

    def __iter__(self) -> Iterator[BandJoin]:
        return iter(self._joins.values())

    @property
    def same(self) -> set[tuple[str, str]]:
        """The left and right columns that rules require to be equal."""
        return {pair for shape in self._joins for pair in shape.same}

    @property
    def used(self) -> tuple[set[str], set[str]]:
        """The columns of either side that rules use."""
        left, right = (
            {shape.columns[side] for shape in self._joins}
            | {pair[side] for pair in self.same}
            | self.rules.compared[side]
            for side in (LEFT, RIGHT)
        )
        return left, right

    # -- rules ---------------------------------------------------------------------------------------------

    def drop(self, rules: Sequence[BandRule]) -> None:
        """Take rules out."""
        for shape, members in self.rules.by_shape([self.rules.slots[rule.id] for rule in rules]).items():
            join = self._joins[shape]
            join.drop_rules([self.rules.drop(rule.id) for _, rule in members])
            if not len(join.slots):
                del self._joins[shape]

    def put(self, rules: Sequence[BandRule]) -> None:
        """Take rules in, whose columns are tracked."""
        for shape, members in self.rules.by_shape([self.rules.put(rule) for rule in rules]).items():
            if shape not in self._joins:
                self._joins[shape] = self._filled(shape)
            join = self._joins[shape]
            join.put_rules(members, partial(self._placed, join))

    # -- rows ----------------------------------------------------------------------------------------------

    def _placed(self, join: BandJoin, side: int) -> tuple[Int64s, Places]:
        """The slots of all rows of a side, and where they are in an index."""
        slots = self._sides.states[side].here()
        return slots, self._places(join, side, slots)

    def _places(self, join: BandJoin, side: int, slots: Int64s) -> Places:
        state = self._sides.states[side]
        return join.places(side, state.positions(slots), state.strings)

    def _filled(self, shape: Shape) -> BandJoin:
        """An index with all rows and no rules."""
        join = BandJoin(shape)
        self._fill(join)
        return join

    def _fill(self, join: BandJoin) -> None:
        for side in (LEFT, RIGHT):
            slots, places = self._placed(join, side)
            join.add_rows(side, slots, places, np.flatnonzero(places.usable))

    def refill(self) -> None:
        """Index all rows anew, where slots or codes are no longer what they were; the rules stay."""
        self.rules.recode(self._sides.strings)
        self._askers.clear()
        for join in self:
            join.clear_rows()
            self._fill(join)

    def forget(self, side: int, slots: Int64s) -> None:
        """Take rows out, which the streams still have."""
        for join in self:
            join.drop_rows(side, slots[self._places(join, side, slots).usable])

    def rows_moved(self) -> None:
        """Forget what is known only as long as no row moves."""
        self._askers.clear()

    # -- asking --------------------------------------------------------------------------------------------

    def inside(self, rules: Sequence[BandRule], ids: Int64s) -> Triples:
        """The pairs inside rules now, in force or not: slots of the left and the right row, and the rule's number.

        Args:
            rules: to ask about.
            ids: ascending; the place of a rule's id is its number.

        """
        table = BandRules(self._sides.strings, rules)
        numbers = np.searchsorted(ids, table.ids)
        found = no_triples()
        for shape, members in table.by_shape(range(len(rules))).items():
            join = self._askers.pop(shape, None)  # until the rules that are asked about have left it again
            if join is None:
                join = self._filled(shape)
            join.put_rules([(slot, rule._replace(detects=0)) for slot, rule in members], partial(self._placed, join))
            pairs = self._pairs(join, table, LEFT, self._sides.states[LEFT].here())
            join.drop_rules([slot for slot, _ in members])
            self._askers[shape] = join
            found = found.joined(pairs._replace(rules=numbers[pairs.rules]))
        return found

    def pairs_of(self, side: int, slots: Int64s) -> Triples:
        """The pairs inside rules in force that some rows of one side are part of: left, right and slot of rule."""
        found = no_triples()
        for join in self:
            found = found.joined(self._pairs(join, self.rules, side, slots))
        return found

    def _pairs(self, join: BandJoin, rules: BandRules, side: int, slots: Int64s) -> Triples:
        """The pairs inside the rules of one index that some rows of one side are part of: left, right and rule."""
        places = self._places(join, side, slots)
        usable = np.flatnonzero(places.usable)
        pairs = join.pairs(side, places, usable)
        mine = slots[usable[pairs.moves]]
        own, others = (
            last_rows(self._sides.states[side], mine),
            last_rows(self._sides.states[1 - side], pairs.others),
        )
        inside = rules.holding(side, own, others, pairs.rules, self._clock)
        lefts, rights = (mine, pairs.others) if side == LEFT else (pairs.others, mine)
        return Triples(lefts, rights, pairs.rules).only(inside)
