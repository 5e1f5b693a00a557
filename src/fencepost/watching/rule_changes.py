"""Changes of rules: what they do to the objects that are there."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fencepost.emitting.detections import ENDED, REASON_CODES, Detections, Pairs, detections_of, join_detections
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.snapshot import DETECTS, Snapshot
from fencepost.watching.clock import Clock
from fencepost.watching.crossings import find_differences
from fencepost.watching.everyone import Everyone
from fencepost.watching.positions import KeyStrings
from fencepost.watching.rules_in_force import LiveRule, match_positions

_FEW_RULES = 4
"""Changed rules are indexed and matched by themselves where they are less than one in so many, and objects are not
fewer: indexing them costs about what matching the objects with all the others would."""


class RuleFacts(NamedTuple):
    """Rules that change, by number; the entries of a rule that is not there do not matter."""

    versions: Int64s
    detects: UInt8s
    initial: Bools


class ChangedRules(NamedTuple):
    """Rules that change, by number, and the objects of everyone that were and are inside them."""

    was: Pairs
    is_now: Pairs
    old: RuleFacts
    new: RuleFacts
    old_rows: Int64s
    """Of the snapshot before, -1 where a rule is not there; likewise `new_rows`."""
    new_rows: Int64s


class RuleChange(NamedTuple):
    """Detections that a change of rules causes, with the ids and versions that their rows of rules stand for."""

    found: Detections
    rule_ids: Int64s
    rule_versions: Int64s
    ids: Int64s
    """Of the rules that change, ascending: what their numbers stand for."""
    reasons: UInt8s
    """Why each rule ends for those that no longer are inside."""
    facts: "ChangedRules | None" = None
    """Where many rules change."""


def detect_change(
    ids: Int64s, was: Pairs, is_now: Pairs, old: RuleFacts, new: RuleFacts, reasons: UInt8s, now: Everyone
) -> RuleChange:
    """Exits of objects that no longer are inside a rule, and enters of those newly inside where the rule asks for it.

    Rules are numbered by their place in `ids`; pairs have the place of an object and the number of a rule.
    """
    if not len(was.rules) and not len(is_now.rules):
        twice = np.concatenate([ids, ids]), np.concatenate([old.versions, new.versions])
        return RuleChange(join_detections([]), *twice, ids, reasons)
    begun, ended = find_differences(was, is_now, len(now.slots), max(1, len(ids)))
    ended = ended.only((old.detects[ended.rules] & DETECTS["exit"]) != 0)
    begun = begun.only(new.initial[begun.rules] & ((new.detects[begun.rules] & DETECTS["enter"]) != 0))
    # An exit carries the version that it ends, an enter the new one: the rules stand twice in the table.
    begun_rows = begun._replace(rules=begun.rules + len(ids))
    found = join_detections(
        [
            detections_of(pairs, kind, ENDED, at, at, now.times[at], now.slots[at], codes)
            for pairs, kind, at, codes in (
                (ended, "exit", ended.moves, reasons[ended.rules]),
                (begun_rows, "enter", begun.moves, REASON_CODES["initial"]),
            )
        ]
    )
    return RuleChange(found, np.concatenate([ids, ids]), np.concatenate([old.versions, new.versions]), ids, reasons)


def change_rules(
    before: Snapshot,
    after: Snapshot,
    now: Everyone,
    strings: Mapping[str, KeyStrings],
    clock: Clock,
    elsewhere: Callable[[Int64s], Bools] | None = None,
    remembered: Int64s | None = None,
) -> RuleChange:
    """Find what a step from one snapshot to another does; only rules that differ cost time.

    Where both are shards of a whole, `elsewhere` says which rules are in force in it though they are not here. Rules
    with the ids `remembered` are among those that change, if they do, whether an object is inside or not.
    """
    changed = before.unlike(after)
    was = inside_rules(before, changed, now, strings, clock)
    is_now = inside_rules(after, after.unlike(before), now, strings, clock)
    also = np.zeros(0, np.int64) if remembered is None else np.intersect1d(remembered, before.rules.ids[changed])
    ids = np.unique(np.concatenate([before.rules.ids[was.rules], after.rules.ids[is_now.rules], also]))
    old_rows, new_rows = before.rows_of(ids), after.rows_of(ids)
    paused = np.isin(ids, np.array(list(after.paused), np.int64))
    there = new_rows >= 0
    if elsewhere is not None and not (there | paused).all():
        there |= ~paused & elsewhere(ids)
    reasons = np.where(there, REASON_CODES["edited"], np.where(paused, REASON_CODES["paused"], REASON_CODES["removed"]))
    numbered = [
        Pairs(pairs.moves, np.searchsorted(ids, snapshot.rules.ids[pairs.rules]))
        for pairs, snapshot in ((was, before), (is_now, after))
    ]
    facts = [_facts_at(snapshot, rows) for snapshot, rows in ((before, old_rows), (after, new_rows))]
    change = detect_change(ids, numbered[0], numbered[1], facts[0], facts[1], reasons.astype(np.uint8), now)
    return change._replace(facts=ChangedRules(numbered[0], numbered[1], facts[0], facts[1], old_rows, new_rows))


def change_rule(
    id: int, old: LiveRule | None, new: LiveRule | None, was: Bools, is_now: Bools, reason: str, now: Everyone
) -> RuleChange:
    """The same for one rule, given which objects were inside it and which are."""
    pairs = [Pairs(at, np.zeros(len(at), np.int64)) for at in (np.flatnonzero(was), np.flatnonzero(is_now))]
    facts = [_facts_of(rule) for rule in (old, new)]
    reasons = np.array([REASON_CODES[reason]], np.uint8)
    return detect_change(np.array([id], np.int64), pairs[0], pairs[1], facts[0], facts[1], reasons, now)


def _facts_at(snapshot: Snapshot, rows: Int64s) -> RuleFacts:
    rules = snapshot.rules
    if not len(rules.ids):
        return RuleFacts(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.bool_))
    return RuleFacts(rules.versions[rows], rules.detects[rows], rules.initial[rows])


def _facts_of(rule: LiveRule | None) -> RuleFacts:
    version, detects, initial = (0, 0, False) if rule is None else (rule.version, rule.detects, rule.initial)
    return RuleFacts(np.array([version], np.int64), np.array([detects], np.uint8), np.array([initial], np.bool_))


def inside_rules(
    snapshot: Snapshot, rows: Int64s, now: Everyone, strings: Mapping[str, KeyStrings], clock: Clock
) -> Pairs:
    """Which objects are inside which of the chosen rules."""
    if not len(rows) or not len(now.slots):
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if len(rows) * _FEW_RULES < len(snapshot) and len(snapshot) < len(now.slots) * _FEW_RULES:
        few = match_positions(snapshot.only(rows), now.positions, strings)
        held = Pairs(few.moves, rows[few.rules])
    else:
        chosen = np.zeros(len(snapshot.rules.ids), np.bool_)
        chosen[rows] = True
        held = match_positions(snapshot, now.positions, strings)
        held = held.only(chosen[held.rules])
    ends = clock.instants(snapshot.rules.expires[held.rules])
    return held.only(ends > clock.at_least(now.times)[held.moves])
