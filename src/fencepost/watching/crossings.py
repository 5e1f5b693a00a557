"""Moves and rules: which rules begin to hold, cease to, or hold on.

`find_crossings` is the one place that knows how transitions are found: by the borders between the two positions of each
move where that says it all, else by comparing the answers for both.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from fencepost.computed import Computed
from fencepost.emitting.detections import Pairs
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.ordinal import SMALLEST
from fencepost.snapshot import DETECTS, Batch
from fencepost.watching.positions import KeyStrings, Positions, batch_of, computed_ordinals
from fencepost.watching.rules_in_force import Box, RulesInForce

_NOTHING = np.zeros(0, np.int64)


class Moves(NamedTuple):
    """Moves between positions, as positions in one array of them; at most one move leaves each position."""

    before: Int64s
    """Where each move starts; -1 for an object that was nowhere."""
    after: Int64s
    clocks: Int64s | None
    """The time at each position, where rules can expire by it."""


class Crossings(NamedTuple):
    """The pairs of each kind. Pairs of rules that detect no transition are only in `inside`."""

    enter: Pairs
    exit: Pairs
    inside: Pairs
    """Empty where no rule detects it."""


def held_at(
    rules: RulesInForce, positions: Positions, strings: Mapping[str, KeyStrings], clocks: Int64s | None, expires: Int64s
) -> Pairs:
    """Which rules hold at which positions: the conditions, and that the rule has not expired by then."""
    held = rules.held_at(positions, strings)
    return held if clocks is None else held.only(expires[held.rules] > clocks[held.moves])


def find_crossings(
    rules: RulesInForce, positions: Positions, strings: Mapping[str, KeyStrings], moves: Moves, expires: Int64s
) -> Crossings:
    """Find what each move does to the rules; they expire on the clock of the moves."""
    snapshot = rules.snapshot()
    batch = batch_of(snapshot, positions, strings) if _borders_suffice(rules, positions, moves, expires) else None
    if batch is not None and _keep_values(batch, snapshot.computed, moves):
        found = snapshot.crossings(batch, moves.before, moves.after)
        enter, exit = (Pairs(*pairs) for pairs in found)
        if moves.clocks is not None:
            latest = moves.clocks.max(initial=SMALLEST)
            enter, exit = (pairs.only(expires[pairs.rules] > latest) for pairs in (enter, exit))
        return Crossings(enter, exit, Pairs(_NOTHING, _NOTHING))
    return _compare_answers(rules, positions, strings, moves, expires)


def _borders_suffice(rules: RulesInForce, positions: Positions, moves: Moves, expires: Int64s) -> bool:
    """Whether transitions follow from the borders that moves pass.

    Not so where a rule may be inside of without passing any (it detects `inside`, or expires while objects move), where
    one may be passed from one box of a rule to another, and where some of several attributes are not indexed.
    """
    snapshot = rules.snapshot()
    if rules.detected & DETECTS["inside"] or not snapshot.has_borders:
        return False
    if not snapshot.repays_borders(len(moves.after)):
        return False
    if moves.clocks is not None and len(moves.clocks):
        ends = expires[rules.expiring]
        if ((ends > moves.clocks.min()) & (ends <= moves.clocks.max())).any():
            return False
    return all(known.all() or not _is_lost(known, moves) for known in positions.known.values())


def _keep_values(batch: Batch, computed: Collection[str], moves: Moves) -> bool:
    """Whether no move loses the value of an expression, as one into a division by zero does."""
    masks = (batch.valid[name] for name in computed)
    return all(known is None or not _is_lost(known, moves) for known in masks)


def _is_lost(known: Bools, moves: Moves) -> bool:
    return bool((known[moves.before] & (moves.before >= 0) & ~known[moves.after]).any())


def _compare_answers(
    rules: RulesInForce, positions: Positions, strings: Mapping[str, KeyStrings], moves: Moves, expires: Int64s
) -> Crossings:
    """The answers for both positions of each move, compared."""
    held = held_at(rules, positions, strings, moves.clocks, expires)
    arrivals = np.full(positions.rows, -1, np.int64)
    arrivals[moves.after] = np.arange(len(moves.after))
    departures = np.full(positions.rows, -1, np.int64)
    started = np.flatnonzero(moves.before >= 0)
    departures[moves.before[started]] = started
    into = arrivals[held.moves]
    inside = Pairs(into, held.rules).only(into >= 0)

    left, begun, detects_moves = Pairs(departures[held.moves], held.rules), inside, rules.detects_moves
    left = left.only(left.moves >= 0)
    if detects_moves is not None:
        left, begun = left.only(detects_moves[left.rules]), inside.only(detects_moves[inside.rules])
    enter, exit = find_differences(left, begun, len(moves.after), max(1, len(rules.ids)))
    return Crossings(enter, exit, inside)


def find_differences(before: Pairs, after: Pairs, moves: int, rules: int) -> tuple[Pairs, Pairs]:
    """The pairs that are only after, and those that are only before; both ordered by move, then rule."""
    # Most pairs are on both sides, and most of those meet in a small table per move. What it misses (a pair whose
    # cell another one took) is left to the sort, so the answer is exact.
    if len(before.rules) and len(after.rules):
        cells = 8
        while cells < 64 and cells * moves < 4 * len(before.rules):
            cells *= 2
        table = np.full(moves * cells, -1, np.int32)
        table[_cells(before, cells)] = np.arange(len(before.rules), dtype=np.int32)
        met = table[_cells(after, cells)]
        is_both = (met >= 0) & (before.rules[met] == after.rules)
        is_alone = np.ones(len(before.rules), np.bool_)
        is_alone[met[is_both]] = False
        before, after = before.only(is_alone), after.only(~is_both)

    # One sort brings equal pairs together; the last bit says which side a pair is from.
    sides = np.concatenate([(before.moves * rules + before.rules) * 2, (after.moves * rules + after.rules) * 2 + 1])
    sides.sort()
    pairs = sides >> 1
    alone = np.ones(len(pairs), np.bool_)
    twice = pairs[1:] == pairs[:-1]
    alone[1:] &= ~twice
    alone[:-1] &= ~twice
    sides = sides[alone]
    move, rule = np.divmod(sides >> 1, rules)
    is_after = (sides & 1) == 1
    both = Pairs(move, rule)
    return both.only(is_after), both.only(~is_after)


def _cells(pairs: Pairs, cells: int) -> Int64s:
    """The cell of each pair, among those of its move; `cells` is a power of two."""
    cell: Int64s = pairs.rules * 0x9E3779B1
    cell >>= 16
    cell &= cells - 1
    cell += pairs.moves * cells
    return cell


def inside_boxes(
    boxes: list[Box], computed: Mapping[str, Computed], positions: Positions, strings: Mapping[str, KeyStrings]
) -> Bools:
    """Which positions are inside any of the boxes, which may have ranges of computed attributes."""
    inside = np.zeros(positions.rows, np.bool_)
    if computed:
        found = computed_ordinals(computed, positions, strings)
        ordinals_of = {**positions.ordinals, **{name: ordinals for name, (ordinals, _) in found.items()}}
        positions = positions._replace(
            ordinals=ordinals_of, known={**positions.known, **{name: known for name, (_, known) in found.items()}}
        )
    for keys, ranges in boxes:
        here = np.flatnonzero(_has_keys(keys, positions, strings))
        for name, (first, last) in ranges.items():
            ordinals = positions.ordinals[name][here]
            here = here[positions.known[name][here] & (ordinals >= first) & (ordinals <= last)]
        inside[here] = True
    return inside


def _has_keys(keys: dict[str, str], positions: Positions, strings: Mapping[str, KeyStrings]) -> Bools:
    here = np.ones(positions.rows, np.bool_)
    for name, text in keys.items():
        here &= positions.keys[name] == strings[name].find(text)
    return here
