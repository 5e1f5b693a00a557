"""Why a pair of two streams is not reported: where its rows stand with a band, and what the rule waits for."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.damping import LONG_AGO
from fencepost.monitor.pair_reasons import write_band
from fencepost.monitor.pair_sides import show_condition, show_difference, show_value
from fencepost.monitor.standing import Question, Standing, StandingBand, answer
from fencepost.ordinals import KEY
from fencepost.pairing.conditions import SideValues
from fencepost.pairing.engine import Pairwise
from fencepost.pairing.rules import LEFT, RIGHT, SIDES, BandRule
from fencepost.rules.damping import Damping, damping_of
from fencepost.snapshot import NEVER
from fencepost.watching.objects import UNKNOWN
from fencepost.watching.positions import NO_KEY


class _Row:
    """What is known of one row of the pair."""

    def __init__(self, pairs: Pairwise, side: int, object: Any) -> None:
        self._pairs, self._state, self._types, self.side = pairs, pairs.states[side], pairs.types, side
        try:
            self.slot = self._state.objects.slot(object)
        except FencepostError:
            self.slot = UNKNOWN
        self.is_known = self.slot != UNKNOWN and bool(self._state.present[self.slot])
        self.time = int(self._state.times[self.slot]) if self.is_known else LONG_AGO

    @cached_property
    def values(self) -> SideValues:
        return self._pairs.values_of(self.side, np.array([self.slot]))

    def ordinal(self, rule: BandRule, name: str) -> int | None:
        """Of a column or an expression."""
        ordinals, known = self.values.ordinals(name, rule.sides.computed.get(name))
        return int(ordinals[0]) if known[0] else None

    def value(self, rule: BandRule, name: str) -> Any:
        """Likewise."""
        ordinal = self.ordinal(rule, name)
        type_ = rule.sides.computed[name].type if name in rule.sides.computed else self._types[name]
        return None if ordinal is None else type_.decode(np.array([ordinal]))[0].as_py()

    def is_infinite(self, rule: BandRule, name: str) -> bool:
        """Whether a column or an expression of doubles is known and has no difference to anything."""
        value = self.value(rule, name)
        return value is not None and math.isinf(value)

    def text(self, rule: BandRule, name: str) -> str | None:
        """The text of a key."""
        keys = self.values.keys(name, rule.sides.computed.get(name))
        code = int(keys.codes[0])
        return None if code == NO_KEY else keys.text(code)


def find_pair_standing(pairs: Pairwise, rule: BandRule, left: Any, right: Any) -> Standing:
    """Where a left and a right row stand with a band in force."""
    clock, rows = pairs.clock, (_Row(pairs, LEFT, left), _Row(pairs, RIGHT, right))
    is_known = all(row.is_known for row in rows)
    now = LONG_AGO if clock.marker is None else clock.marker
    if is_known:
        now = max(now, *(row.time for row in rows))
    missing = [
        f"no row of {object} has come on the {SIDES[row.side]} side"
        for row, object in zip(rows, (left, right), strict=True)
        if not row.is_known
    ]
    values: dict[str, Any] = {}
    if is_known:
        for row, column in zip(rows, rule.shape.columns, strict=True):
            values[show_value(rule, row.side, column)] = row.value(rule, column)
            values |= {f"{SIDES[row.side]}.{name}": row.text(rule, name) for name in sorted(rule.key_columns(row.side))}
            further = {name for name, type_ in rule.sides.uses[row.side].items() if type_ != KEY} - {column}
            values |= {f"{SIDES[row.side]}.{name}": row.value(rule, name) for name in sorted(further)}
            equal = [pair[row.side] for pair in rule.shape.same if pair[row.side] in rule.sides.computed]
            values |= {show_value(rule, row.side, name): row.text(rule, name) for name in equal}
    return answer(
        Question(
            rule,
            Damping() if rule.damping is None else damping_of(rule.damping),
            left,
            f"The pair of {left} and {right}",
            " and ".join(missing),
            clock,
            is_known,
            now,
            NEVER if rule.expires == NEVER else clock.instant(rule.expires),
            values,
            (_compare(pairs, rule, rows),) if is_known else (),
            (),
            pairs.policies(rule),
            _remembered(pairs, rule, rows),
            right,
        )
    )


def _remembered(pairs: Pairwise, rule: BandRule, rows: tuple[_Row, _Row]) -> Int64s | None:
    """What damping remembers of the pair."""
    if UNKNOWN in (rows[LEFT].slot, rows[RIGHT].slot):
        return None
    pending = pairs.states[LEFT].damped.of(np.array([rows[LEFT].slot]))[0]
    own = np.flatnonzero((pending.rules == rule.id) & (pending.others == rows[RIGHT].slot))
    return pending.states[own[0]] if len(own) else None


def _compare(pairs: Pairwise, rule: BandRule, rows: tuple[_Row, _Row]) -> StandingBand:
    """The band, and in words what is not met."""
    left, right = rows
    lower, upper, unit = rule.shown_bounds(pairs.types)
    missed = []
    for one, other in rule.shape.same:
        texts = left.text(rule, one), right.text(rule, other)
        if None in texts or texts[LEFT] != texts[RIGHT]:
            shown = show_value(rule, LEFT, one), show_value(rule, RIGHT, other)
            missed.append(f"{shown[LEFT]} is {_word(texts[LEFT])}, {shown[RIGHT]} {_word(texts[RIGHT])}")
    for row in rows:
        for name, text in rule.keys[row.side]:
            if row.text(rule, name) != text:
                missed.append(f"{SIDES[row.side]}.{name} is {_word(row.text(rule, name))}, not {text!r}")
        if rule.shape.where[row.side] and not row.values.met(rule.shape.where[row.side])[0]:
            missed.append(f"the {SIDES[row.side]} row is not {' or '.join(show_condition(rule, row.side))}")
    own, others = rule.shape.columns
    difference = show_difference(rule)
    ordinals = left.ordinal(rule, own), right.ordinal(rule, others)
    infinite = [
        show_value(rule, row.side, name)
        for row, name in zip(rows, rule.shape.columns, strict=True)
        if rule.shape.is_float and row.is_infinite(rule, name)
    ]
    if None in ordinals:
        missed.append(f"{difference} is not known")
    elif infinite:
        missed.append(
            f"{' and '.join(infinite)} {'is' if len(infinite) == 1 else 'are'} infinite, which makes no pairs"
        )
    else:
        found: Any = ordinals[LEFT] - ordinals[RIGHT]  # type: ignore[operator]
        if rule.shape.is_float:
            found = left.value(rule, own) - right.value(rule, others)
        distance = found if unit is None else float(found * unit)
        if rule.lower is not None and (found < rule.lower or (found == rule.lower and not rule.closed[0])):
            missed.append(f"{difference} is {distance}, not {'>=' if rule.closed[0] else '>'} {lower}")
        if rule.upper is not None and (found > rule.upper or (found == rule.upper and not rule.closed[1])):
            missed.append(f"{difference} is {distance}, not {'<=' if rule.closed[1] else '<'} {upper}")
    return StandingBand(write_band(difference, lower, upper, rule.closed), tuple(missed))


def _word(text: str | None) -> str:
    return "not known" if text is None else repr(text)
