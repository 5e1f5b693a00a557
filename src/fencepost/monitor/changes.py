"""What a change of rules does to the objects that are there: many rules at once."""

from collections.abc import Callable, Mapping

import numpy as np

from fencepost.indexes.arrays import Bools, Int64s
from fencepost.monitor.clock import Clock
from fencepost.monitor.crossings import differences
from fencepost.monitor.found import ENDED, REASON_CODES, Found, found_of, joined
from fencepost.monitor.layers import matched
from fencepost.monitor.positions import KeyStrings, Pairs
from fencepost.monitor.present import Present
from fencepost.snapshot import DETECTS, Snapshot

__all__ = ["changed_rules"]

_WORTH = 4
"""Rules are taken out and matched by themselves where they are less than one in so many, and objects are not fewer."""


def changed_rules(
    before: Snapshot,
    after: Snapshot,
    now: Present,
    strings: Mapping[str, KeyStrings],
    clock: Clock,
    elsewhere: Callable[[Int64s], Bools] | None = None,
) -> tuple[Found, Int64s, Int64s]:
    """The events that objects have because rules changed, with the ids and versions of their rules.

    Args:
        before: the rules until now.
        after: the rules from now on.
        now: all objects.
        strings: of their keys.
        clock: that rules expire by.
        elsewhere: where both are parts of a whole, which rules are in force in it though they are not here.

    """
    was = _inside(before, before.unlike(after), now, strings, clock)
    is_now = _inside(after, after.unlike(before), now, strings, clock)
    ids = np.unique(np.concatenate([before.rules.ids[was.rules], after.rules.ids[is_now.rules]]))
    old_rows, new_rows = before.rows_of(ids), after.rows_of(ids)
    numbers = [
        Pairs(pairs.moves, np.searchsorted(ids, snapshot.rules.ids[pairs.rules]))
        for pairs, snapshot in ((was, before), (is_now, after))
    ]
    begun, ended = differences(numbers[0], numbers[1], len(now.slots), max(1, len(ids)))
    ended = ended.only((before.rules.detects[old_rows[ended.rules]] & DETECTS["exit"]) != 0)
    new = new_rows[begun.rules]
    begun = begun.only(after.rules.initial[new] & ((after.rules.detects[new] & DETECTS["enter"]) != 0))
    paused = np.isin(ids, np.array(list(after.paused), np.int64))
    there = new_rows >= 0
    if elsewhere is not None and not (there | paused).all():
        there |= ~paused & elsewhere(ids)
    reasons = np.where(there, REASON_CODES["edited"], np.where(paused, REASON_CODES["paused"], REASON_CODES["removed"]))
    found = joined(
        [
            found_of(pairs, kind, ENDED, pairs.moves, pairs.moves, now.times[pairs.moves], codes)
            for pairs, kind, codes in (
                (ended, "exit", reasons[ended.rules]),
                (begun, "enter", REASON_CODES["initial"]),
            )
        ]
    )
    versions = np.concatenate(
        [before.rules.versions[old_rows[ended.rules]], after.rules.versions[new_rows[begun.rules]]]
    )
    return found, ids[found.rules], versions


def _inside(snapshot: Snapshot, rows: Int64s, now: Present, strings: Mapping[str, KeyStrings], clock: Clock) -> Pairs:
    """Which objects are inside which of the chosen rules."""
    if not len(rows) or not len(now.slots):
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if len(rows) * _WORTH < len(snapshot) and len(snapshot) < len(now.slots) * _WORTH:
        few = matched(snapshot.only(rows), now.positions, strings)
        held = Pairs(few.moves, rows[few.rules])
    else:
        chosen = np.zeros(len(snapshot.rules.ids), np.bool_)
        chosen[rows] = True
        held = matched(snapshot, now.positions, strings)
        held = held.only(chosen[held.rules])
    ends = clock.instants(snapshot.rules.expires[held.rules])
    return held.only(ends > clock.at_least(now.times)[held.moves])
