"""The band rules in force, each in the index that serves rules of its shape, over the rows of two streams."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fencepost.computed import Computed
from fencepost.indexes.arrays import Int64s
from fencepost.pairing.conditions import Conditions, SideValues
from fencepost.pairing.join import BandJoin, Places, Triples, no_triples
from fencepost.pairing.rows import last_rows
from fencepost.pairing.rules import LEFT, RIGHT, BandRule, BandRules, Shape
from fencepost.pairing.sides import Sides
from fencepost.snapshot.sides import BandSides
from fencepost.watching.clock import Clock
from fencepost.watching.positions import Positions


class BandIndexes:
    """Each combination of what rules subtract, require to be equal and ask of either side is served by one `BandJoin`.

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
        self._conditions = (Conditions(), Conditions())
        """On the rows of either side."""

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
            {name for shape in self._joins for name in (shape.columns[side], *(pair[side] for pair in shape.same))}
            | {name for join in self for name in join.sides.uses[side]}
            | self.rules.compared[side]
            for side in (LEFT, RIGHT)
        )
        return left, right

    @property
    def computed(self) -> dict[str, Computed]:
        """The expressions of rules, by name."""
        return {name: each for join in self for name, each in join.sides.computed.items()}

    # -- rules ---------------------------------------------------------------------------------------------

    def drop(self, rules: Sequence[BandRule]) -> None:
        """Take rules out."""
        for shape, members in self.rules.by_shape([self.rules.slots[rule.id] for rule in rules]).items():
            join = self._joins[shape]
            join.drop_rules([self.rules.drop(rule.id) for _, rule in members])
            if not len(join.slots):
                del self._joins[shape]
        for side, conditions in enumerate(self._conditions):
            conditions.keep({shape.where[side] for shape in (*self._joins, *self._askers)})

    def put(self, rules: Sequence[BandRule]) -> None:
        """Take rules in, whose columns are tracked."""
        for shape, members in self.rules.by_shape([self.rules.put(rule) for rule in rules]).items():
            if shape not in self._joins:
                self._joins[shape] = self._filled(shape, members[0][1].sides)
            join = self._joins[shape]
            join.put_rules(members, partial(self._placed, join))

    # -- rows ----------------------------------------------------------------------------------------------

    def _placed(self, join: BandJoin, side: int) -> tuple[Int64s, Places]:
        """The slots of all rows of a side, and where they are in an index."""
        slots, values = self._here(side)
        return slots, join.places(side, values)

    def values(self, side: int, positions: Positions) -> SideValues:
        """Positions of one side, of which what indexes compute is computed once."""
        return SideValues(positions, self._sides.states[side].strings, self._conditions[side])

    def _filled(self, shape: Shape, sides: BandSides) -> BandJoin:
        """An index with all rows and no rules."""
        for conditions, text in zip(self._conditions, shape.where, strict=True):
            conditions.learn(text, sides)
        join = BandJoin(shape, sides)
        self._fill([join])
        return join

    def _fill(self, joins: Sequence[BandJoin]) -> None:
        for side in (LEFT, RIGHT):
            slots, values = self._here(side)
            for join in joins:
                places = join.places(side, values)
                join.add_rows(side, slots, places, np.flatnonzero(places.usable))

    def refill(self) -> None:
        """Index all rows anew, where slots or codes are no longer what they were; the rules stay."""
        self.rules.recode(self._sides.strings)
        self._askers.clear()
        for join in self:
            join.clear_rows()
        self._fill(list(self))

    def forget(self, side: int, slots: Int64s) -> None:
        """Take rows out, which the streams still have."""
        values = self.values(side, self._sides.states[side].positions(slots))
        for join in self:
            join.drop_rows(side, slots[join.places(side, values).usable])

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
                join = self._filled(shape, members[0][1].sides)
            join.put_rules([(slot, rule._replace(detects=0)) for slot, rule in members], partial(self._placed, join))
            pairs = self._pairs(join, table, LEFT, *self._here(LEFT))
            join.drop_rules([slot for slot, _ in members])
            self._askers[shape] = join
            found = found.joined(pairs._replace(rules=numbers[pairs.rules]))
        return found

    def pairs_of(self, side: int, slots: Int64s) -> Triples:
        """The pairs inside rules in force that some rows of one side are part of: left, right and slot of rule."""
        found = no_triples()
        values = self.values(side, self._sides.states[side].positions(slots))
        for join in self:
            found = found.joined(self._pairs(join, self.rules, side, slots, values))
        return found

    def _here(self, side: int) -> tuple[Int64s, SideValues]:
        """The slots of all rows of a side, and their values."""
        slots = self._sides.states[side].here()
        return slots, self.values(side, self._sides.states[side].positions(slots))

    def _pairs(self, join: BandJoin, rules: BandRules, side: int, slots: Int64s, values: SideValues) -> Triples:
        """The pairs inside the rules of one index that some rows of one side are part of: left, right and rule."""
        places = join.places(side, values)
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
