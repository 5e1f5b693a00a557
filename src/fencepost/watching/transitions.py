"""From the moves of a batch to its detections."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from fencepost.emitting.detections import (
    CROSSED,
    ENDED,
    ENTERED,
    EXITED,
    REASON_CODES,
    STAYED,
    Detections,
    Pairs,
    detections_of,
    join_detections,
    time_reasons,
)
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.matches import check_room, in_pieces, share_room
from fencepost.snapshot import DETECTS
from fencepost.watching.clock import gone_after
from fencepost.watching.crossings import Moves, find_crossings, held_at
from fencepost.watching.damping import DampedRules, Round, begins_window
from fencepost.watching.positions import KeyStrings, batch_of
from fencepost.watching.rows import MovedRows, Steps
from fencepost.watching.rules_in_force import RulesInForce

_NOTHING = np.zeros(0, np.int64)
SHARES = 12
"""Of the memory for an answer, what the answer itself may take: it is compared by means of arrays of its length."""
_BYTES = 130
"""About what a detection takes until it is ordered."""


class Context(NamedTuple):
    """All that transitions depend on, beside the moves."""

    rules: RulesInForce
    strings: Mapping[str, KeyStrings]
    expires: Int64s
    """Of each rule, on the clock of objects."""
    clocks: Int64s | None
    """At each position, where rules expire."""
    timeout: int | None
    damped: DampedRules | None = None
    round: Round | None = None
    """What the batch does to damped pairs, where there are any."""


def find_transitions(context: Context, moved: MovedRows, *, silent: bool) -> Iterator[Detections]:
    """All detections of a batch; where `silent`, an object that is new enters without one.

    They come in pieces, each of so many moves that the rules that hold before and after them have room. The pieces are
    in the order of events, which is that of `ranks`; the detections of one piece are in none.
    """
    rows, steps, count = moved.rows, moved.steps, len(moved.rows.slots)

    @cache
    def by_rank() -> Int64s:
        return np.argsort(moved.ranks, kind="stable")

    def find_some(begin: int, end: int) -> Detections:
        if end - begin == count:
            return _find(context, steps, rows.slots, rows.times, silent=silent)
        chosen = np.sort(by_rank()[begin:end])
        only, places = steps.only(chosen)
        clocks = None if context.clocks is None else context.clocks[places]
        found = _find(context._replace(clocks=clocks), only, rows.slots[chosen], rows.times[chosen], silent=silent)
        before, after = (np.where(own < 0, -1, places[own]) for own in (found.before, found.after))
        return found._replace(rows=chosen[found.rows], before=before, after=after)

    def find(begin: int, end: int) -> Detections:
        with share_room(SHARES):
            found = find_some(begin, end)
        check_room(_BYTES * len(found.rules))
        return found

    return in_pieces(count, find)


def _find(context: Context, moved: Steps, slots: Int64s, times: Int64s, *, silent: bool) -> Detections:
    """The detections of some moves, whose objects have these numbers and whose rows these times."""
    rules, expires = context.rules, context.expires
    before = np.where(moved.is_new, -1, moved.previous)
    after = moved.offset + np.arange(len(slots))
    moves = Moves(before, after, context.clocks)
    crossed = find_crossings(rules, moved.positions, context.strings, moves, expires)
    exits, parts = crossed.exit, []
    if context.clocks is not None:
        # An exit that the row shows at or after the instant of expiry is the expiry.
        ends = expires[exits.rules]
        expired = ends <= times[exits.moves]
        pairs = exits.only(expired)
        parts.append(end_by_time(rules, pairs, ends[expired], ends[expired], slots, moved.previous))
        exits = exits.only(~expired)
    if context.timeout is not None:
        left = _left_behind(context, moved)
        gone = gone_after(moved.clocks[moved.previous[left.moves]], context.timeout)
        ends = expires[left.rules]
        parts.append(end_by_time(rules, left, np.minimum(ends, gone), ends, slots, moved.previous))
        parts.append(report_silence(rules, left.only(gone < ends), gone[gone < ends], slots, moved.previous))
    enters, insides = crossed.enter, crossed.inside
    if silent:
        wanted = ~moved.is_new[enters.moves]
        if context.damped is not None:  # which find out by themselves
            wanted |= context.damped.is_damped[enters.rules]
        enters = enters.only(wanted)
    if context.damped is not None and context.damped.everys is not None:
        insides = _insides_at_times(context.damped.everys, insides, crossed.enter, moved, times)
    for kind, phase, pairs in (
        ("exit", EXITED, exits),
        ("cross", CROSSED, _crosses(context, moved, before, after)),
        ("enter", ENTERED, enters),
        ("inside", STAYED, insides),
    ):
        if not rules.detected & DETECTS[kind]:
            continue
        pairs = pairs.only((rules.finds[pairs.rules] & DETECTS[kind]) != 0)
        at = pairs.moves
        parts.append(detections_of(pairs, kind, phase, before[at], after[at], times[at], slots[at]))
    found = join_detections(parts)
    if context.round is None:
        return found
    left_stay = _leave_stay(context, moved, moves)
    return context.round.damp(found, left_stay, moved, (slots, times), expires, context.timeout, silent=silent)


def _leave_stay(context: Context, moved: Steps, moves: Moves) -> Pairs:
    """The moves that end the wider conditions of damped rules."""
    damped = context.damped
    if damped is None or damped.stay is None:
        return Pairs(_NOTHING, _NOTHING)
    return find_crossings(damped.stay, moved.positions, context.strings, moves, damped.stay_expires).exit


def _insides_at_times(everys: Int64s, insides: Pairs, enters: Pairs, moved: Steps, times: Int64s) -> Pairs:
    """The rows inside that are reported where rules say how often: the first one, and the first of each window."""
    limited = everys[insides.rules] != 0
    if not limited.any():
        return insides
    count = len(everys)
    begun = np.isin(insides.moves * count + insides.rules, enters.moves * count + enters.rules)
    return insides.only(~limited | begun | begins_window(insides.moves, moved, times, everys[insides.rules]))


def end_by_time(
    rules: RulesInForce, pairs: Pairs, times: Int64s, expires: Int64s, slots: Int64s, places: Int64s | None = None
) -> Detections:
    """Exits that time causes, expiry or silence; the object is still where it was.

    Pairs are of rows (or objects) that have these slots, and a rule that ends at a time; `expires` says when the rule
    does. `places` has the position before each row; objects are at their own place.
    """
    wanted = (rules.finds[pairs.rules] & DETECTS["exit"]) != 0
    pairs, times, expires = pairs.only(wanted), times[wanted], expires[wanted]
    at = pairs.moves if places is None else places[pairs.moves]
    return detections_of(pairs, "exit", ENDED, at, at, times, slots[pairs.moves], time_reasons(expires, times))


def report_silence(
    rules: RulesInForce, pairs: Pairs, times: Int64s, slots: Int64s, places: Int64s | None = None
) -> Detections:
    """Objects that went silent while they were inside rules that detect it; pairs as for `end_by_time`."""
    wanted = (rules.detects[pairs.rules] & DETECTS["silent"]) != 0
    pairs, times = pairs.only(wanted), times[wanted]
    at = pairs.moves if places is None else places[pairs.moves]
    reason = REASON_CODES["timeout"]
    return detections_of(pairs, "silent", ENDED, at, at, times, slots[pairs.moves], reason)


def _left_behind(context: Context, moved: Steps) -> Pairs:
    """The rules that objects were inside when they went silent, with the rows that they came back with."""
    again = np.flatnonzero(moved.is_new & (moved.previous >= 0))
    if not len(again):
        return Pairs(_NOTHING, _NOTHING)
    places = moved.previous[again]
    clocks = None if context.clocks is None else context.clocks[places]
    held = held_at(context.rules, moved.positions.take(places), context.strings, clocks, context.expires)
    return Pairs(again[held.moves], held.rules)


def _crosses(context: Context, moved: Steps, before: Int64s, after: Int64s) -> Pairs:
    """Jumps over whole rules that have not expired where they end."""
    rules = context.rules
    if not rules.detected & DETECTS["cross"]:
        return Pairs(_NOTHING, _NOTHING)
    snapshot = rules.snapshot()
    found = Pairs(*snapshot.jumps(batch_of(snapshot, moved.positions, context.strings), before, after))
    if context.clocks is None:
        return found
    return found.only(context.expires[found.rules] > context.clocks[after[found.moves]])
