"""Why a pair of two streams is not reported: where its rows stand with a band, and what the rule waits for."""

from typing import Any

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.damping import LONG_AGO
from fencepost.monitor.pair_reasons import write_band
from fencepost.monitor.standing import Question, Standing, StandingBand, answer
from fencepost.pairing.engine import Pairwise
from fencepost.pairing.rules import LEFT, RIGHT, SIDES, BandRule
from fencepost.rules.damping import Damping, damping_of
from fencepost.snapshot import NEVER
from fencepost.watching.objects import UNKNOWN


class _Row:
    """What is known of one row of the pair."""

    def __init__(self, pairs: Pairwise, side: int, object: Any) -> None:
        self._state, self._types, self.side = pairs.states[side], pairs.types, side
        try:
            self.slot = self._state.objects.slot(object)
        except FencepostError:
            self.slot = UNKNOWN
        self.is_known = self.slot != UNKNOWN and bool(self._state.present[self.slot])
        self.time = int(self._state.times[self.slot]) if self.is_known else LONG_AGO

    def ordinal(self, column: str) -> int | None:
        return self._state.value(column, self.slot)

    def value(self, column: str) -> Any:
        ordinal = self.ordinal(column)
        return None if ordinal is None else self._types[column].decode(np.array([ordinal]))[0].as_py()

    def text(self, column: str) -> str | None:
        """The text of a key."""
        codes = self._state.positions(np.array([self.slot])).keys[column]
        return self._state.strings[column].text(int(codes[0]))


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
            values[f"{SIDES[row.side]}.{column}"] = row.value(column)
            values |= {f"{SIDES[row.side]}.{name}": row.text(name) for name in sorted(rule.key_columns(row.side))}
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
        texts = left.text(one), right.text(other)
        if None in texts or texts[LEFT] != texts[RIGHT]:
            missed.append(f"left.{one} is {_word(texts[LEFT])}, right.{other} {_word(texts[RIGHT])}")
    for row in rows:
        for name, text in rule.keys[row.side]:
            if row.text(name) != text:
                missed.append(f"{SIDES[row.side]}.{name} is {_word(row.text(name))}, not {text!r}")
    own, others = rule.shape.columns
    difference = f"left.{own} - right.{others}"
    ordinals = left.ordinal(own), right.ordinal(others)
    if None in ordinals:
        missed.append(f"{difference} is not known")
    else:
        found: Any = ordinals[LEFT] - ordinals[RIGHT]  # type: ignore[operator]
        if rule.shape.is_float:
            found = left.value(own) - right.value(others)
        shown = found if unit is None else float(found * unit)
        if rule.lower is not None and (found < rule.lower or (found == rule.lower and not rule.closed[0])):
            missed.append(f"{difference} is {shown}, not {'>=' if rule.closed[0] else '>'} {lower}")
        if rule.upper is not None and (found > rule.upper or (found == rule.upper and not rule.closed[1])):
            missed.append(f"{difference} is {shown}, not {'<=' if rule.closed[1] else '<'} {upper}")
    return StandingBand(write_band(difference, lower, upper, rule.closed), tuple(missed))


def _word(text: str | None) -> str:
    return "not known" if text is None else repr(text)
