"""Band rules as a monitor holds them: what each asks of a pair, and columns by slot for many pairs at once."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.contracts.registry import Bounds
from fencepost.ordinals import DOUBLE, KEY, AttributeType
from fencepost.pairing.rows import RowsAt
from fencepost.snapshot import NEVER, Snapshot
from fencepost.snapshot.columns import key_pairs
from fencepost.snapshot.sides import NO_SIDES, BandSides, read_sides
from fencepost.watching.clock import Clock
from fencepost.watching.positions import NO_KEY, KeyStrings

LEFT, RIGHT = 0, 1
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

_ANY = NO_KEY - 1
"""In place of the code of a key: a rule that does not ask for one."""


class Shape(NamedTuple):
    """What rules that one index serves have in common."""

    columns: tuple[str, str]
    """The left and the right column that are subtracted, or expressions by their names."""
    is_float: bool
    """Whether they are doubles; else ordinals, which are whole numbers of one unit, are subtracted."""
    same: tuple[tuple[str, str], ...]
    """Pairs of a left and a right column, or expression, that must be equal."""
    where: tuple[str, str] = ("", "")
    """What left and right rows must meet to be in the index, as `BandSides` has it."""


class BandRule(NamedTuple):
    """One band rule in force."""

    id: int
    version: int
    detects: int
    initial: bool
    expires: int
    shape: Shape
    lower: float | None
    """In the unit of the columns; None where unbounded."""
    upper: float | None
    closed: tuple[bool, bool]
    """Whether either bound itself is inside."""
    keys: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    """Of the left and the right row: columns, and the strings they must equal."""
    damping: str | None = None
    """How it is damped, as JSON; None where it is not."""
    sides: BandSides = NO_SIDES
    """Its expressions, and what each of its sides must meet; the same for all rules of one shape."""

    def __deepcopy__(self, memo: Any) -> "BandRule":
        return self  # nothing in it can change

    @property
    def bounds(self) -> Bounds:
        """Which ends belong to the band."""
        ends: dict[tuple[bool, bool], Bounds] = {
            (True, True): "[]",
            (True, False): "[)",
            (False, True): "(]",
            (False, False): "()",
        }
        return ends[self.closed]

    def shown_bounds(self, types: Mapping[str, AttributeType]) -> tuple[float | None, float | None, Any]:
        """The bounds as a reader knows them: numbers, or of times and dates counts of their units.

        Then the unit of the columns, where differences are multiplied by it for that; else None.
        """
        type_ = self.difference_type(types)
        if self.shape.is_float or type_.dimension != "number" or type_.unit == 1:
            return self.lower, self.upper, None
        lower, upper = (None if bound is None else float(bound * type_.unit) for bound in (self.lower, self.upper))
        return lower, upper, type_.unit

    def difference_type(self, types: Mapping[str, AttributeType]) -> AttributeType:
        """The type of what is subtracted, of the columns with these types."""
        name = self.shape.columns[0]
        return self.sides.computed[name].type if name in self.sides.computed else types[name]

    @property
    def pinned(self) -> tuple[str, ...] | None:
        """The strings that the equal columns must have, where the rule says so for each."""
        left, right = map(dict, self.keys)
        texts = [left.get(one, right.get(other)) for one, other in self.shape.same]
        return tuple(text for text in texts if text is not None) if texts and None not in texts else None

    def attributes(self, side: int) -> set[str]:
        """The columns of one side that are numbers or times: those that are subtracted, or in expressions or ranges."""
        own = {self.shape.columns[side]} - self.sides.computed.keys()
        return own | {name for name, type_ in self.sides.uses[side].items() if type_ != KEY}

    def key_columns(self, side: int) -> set[str]:
        """The columns of one side that are compared for equality, and its strings."""
        return {name for name, _ in self.same_columns(side)} | self.strings(side)

    def same_columns(self, side: int) -> list[tuple[str, str]]:
        """The columns of one side that must equal what the other one has, and what they must equal there."""
        pairs = (pair if side == LEFT else pair[::-1] for pair in self.shape.same)
        return [(own, other) for own, other in pairs if own not in self.sides.computed]

    def strings(self, side: int) -> set[str]:
        """The columns of one side that are compared with strings, or in expressions or ranges of strings."""
        used = (
            {name for name, type_ in self.sides.uses[side].items() if type_ == KEY} if self.sides.uses[side] else set()
        )
        return used | {name for name, _ in self.keys[side]}


def band_rules(snapshot: Snapshot, rows: Int64s, key: Sequence[str] = ()) -> list[BandRule]:
    """The band rules in these rows of a snapshot; rows of other rules are passed over.

    Args:
        snapshot: the rules.
        rows: of the snapshot.
        key: columns that must be equal in any case.

    """
    bands = snapshot.bands
    if bands is None:
        return []
    chosen = np.flatnonzero(np.isin(bands.rules, rows))
    rules, texts = snapshot.rules, [column.take(chosen).to_pylist() for column in (*bands[1:6], bands.sides)]
    found = []
    for place, left, right, same, left_keys, right_keys, text in zip(chosen.tolist(), *texts, strict=True):
        row, sides = int(bands.rules[place]), read_sides(text)
        is_float = (sides.computed[left].type if left in sides.computed else snapshot.types[left]) == DOUBLE
        id = int(rules.ids[row])
        lower, upper = (_bound(float(column[place]), is_float, id) for column in (bands.lower, bands.upper))
        found.append(
            BandRule(
                id,
                int(rules.versions[row]),
                int(rules.detects[row]),
                bool(rules.initial[row]),
                int(rules.expires[row]),
                Shape(
                    (left, right),
                    is_float,
                    tuple(dict.fromkeys((*key_pairs(same), *zip(key, key, strict=True)))),
                    sides.where,
                ),
                lower,
                upper,
                (bool(bands.lower_closed[place]) or lower is None, bool(bands.upper_closed[place]) or upper is None),
                (key_pairs(left_keys), key_pairs(right_keys)),
                None if snapshot.damping is None else snapshot.damping.text_of(row),
                sides,
            )
        )
    return found


def _bound(bound: float, is_float: bool, id: int) -> float | None:
    if math.isinf(bound):
        return None
    if is_float:
        return bound
    if not -(2**63) <= bound < 2**63:
        raise FencepostError(
            f"rule {id} with a bound of {bound:.0f} units", "one that fits int64", "Leave that bound out."
        )
    return int(bound)


class BandRules:
    """Rules by slot: what events and filters need of them, as columns.

    Args:
        strings: of the key columns of the left and the right side; the strings that rules ask for are added to them.
        rules: to begin with.

    """

    def __init__(
        self, strings: tuple[dict[str, KeyStrings], dict[str, KeyStrings]], rules: Iterable[BandRule] = ()
    ) -> None:
        self._strings = strings
        self.slots: dict[int, int] = {}
        """By id of rule."""
        self.rules: list[BandRule | None] = []
        self._free: list[int] = []
        self.ids: Int64s = np.zeros(0, np.int64)
        self.versions: Int64s = np.zeros(0, np.int64)
        self.detects: UInt8s = np.zeros(0, np.uint8)
        self.expires: Int64s = np.zeros(0, np.int64)
        """As the rules have it; the clock says which ordinal of time that is."""
        self.required: tuple[dict[str, Int64s], dict[str, Int64s]] = ({}, {})
        """Per side and key column that some rule compares with a string: the code of that string, by slot."""
        self.compared: tuple[set[str], set[str]] = (set(), set())
        """All such columns, those included where the group of a rule says what they must be."""
        for rule in rules:
            self.put(rule)

    def __len__(self) -> int:
        return len(self.slots)

    def find(self, id: int) -> BandRule | None:
        """The rule with this id."""
        slot = self.slots.get(id)
        return None if slot is None else self.rules[slot]

    def put(self, rule: BandRule) -> int:
        """Take a rule in, whose id is new; its slot."""
        slot = self._free.pop() if self._free else len(self.rules)
        if slot == len(self.rules):
            self.rules.append(None)
            self._make_room()
        self.rules[slot] = rule
        self.slots[rule.id] = slot
        self.ids[slot], self.versions[slot], self.detects[slot] = rule.id, rule.version, rule.detects
        self.expires[slot] = rule.expires
        self._require(slot)
        return slot

    def _require(self, slot: int) -> None:
        """Write down which keys the rule in a slot asks for."""
        rule: Any = self.rules[slot]
        for side in (0, 1):
            required = self.required[side]
            for codes in required.values():
                codes[slot] = _ANY
            self.compared[side].update(rule.strings(side))
            implied = dict(zip((pair[side] for pair in rule.shape.same), rule.pinned or (), strict=False))
            for column, text in rule.keys[side]:
                if implied.get(column) == text:
                    continue  # the group of the rule says so
                if column not in required:
                    required[column] = np.full(len(self.ids), _ANY, np.int64)
                required[column][slot] = self._strings[side][column].code(text)

    def recode(self, strings: tuple[dict[str, KeyStrings], dict[str, KeyStrings]]) -> None:
        """Let the strings that rules ask for have other codes: those of these key columns."""
        self._strings = strings
        if any(self.required):
            for slot in self.slots.values():
                self._require(slot)

    def drop(self, id: int) -> int:
        """Take a rule out; the slot it had."""
        slot = self.slots.pop(id)
        self.rules[slot] = None
        self._free.append(slot)
        return slot

    def _make_room(self) -> None:
        if len(self.rules) <= len(self.ids):
            return
        room = max(16, 2 * len(self.ids))
        self.ids, self.versions, self.detects, self.expires = (
            np.resize(column, room) for column in (self.ids, self.versions, self.detects, self.expires)
        )
        for required in self.required:
            for column, codes in required.items():
                required[column] = np.resize(codes, room)

    def asked_keys(self, side: int, rows: RowsAt, slots: Int64s) -> Bools | None:
        """Which rules have the keys they ask for in rows of one side; None where no rule asks for any.

        Args:
            side: 0 for left, 1 for right.
            rows: of that side.
            slots: the rule for each of the rows.

        """
        if not self.required[side]:
            return None
        met = np.ones(len(slots), np.bool_)
        for column, codes in self.required[side].items():
            asked = codes[slots]
            met &= (asked == _ANY) | (asked == rows.keys[column][rows.places])
        return met

    def holding(self, side: int, own: RowsAt, others: RowsAt, slots: Int64s, clock: Clock) -> Bools:
        """Which pairs within bands have the keys that rules ask for, and rules that have not expired.

        Args:
            side: of the first row of each pair.
            own: those rows.
            others: the rows of the other side.
            slots: the rule for each of the pairs.
            clock: that rules expire by.

        """
        ends = clock.instants(self.expires[slots])
        holding: Bools = np.ones(len(ends), np.bool_)
        if (ends != NEVER).any():
            holding = ends > clock.at_least(np.maximum(own.times[own.places], others.times[others.places]))
        for met in (self.asked_keys(side, own, slots), self.asked_keys(1 - side, others, slots)):
            if met is not None:
                holding &= met
        return holding

    def by_shape(self, slots: Iterable[int]) -> dict[Shape, list[tuple[int, BandRule]]]:
        """The rules in these slots, by the index that serves them."""
        found: dict[Shape, list[tuple[int, BandRule]]] = {}
        for slot in slots:
            rule: Any = self.rules[slot]
            found.setdefault(rule.shape, []).append((slot, rule))
        return found
