"""From the moves of a batch to its events."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fencepost.indexes.arrays import Int64s
from fencepost.monitor.clock import gone_after
from fencepost.monitor.crossings import Moves, crossings, held_at, jumped
from fencepost.monitor.found import (
    CROSSED,
    ENDED,
    ENTERED,
    EXITED,
    STAYED,
    Found,
    found_of,
    joined,
    no_events,
    time_reasons,
)
from fencepost.monitor.layers import Box, Layers
from fencepost.monitor.positions import KeyStrings, Pairs
from fencepost.monitor.rows import Rows, Steps
from fencepost.snapshot import DETECTS

__all__ = ["Settled", "ended_by_time", "transitions"]

_NOTHING = np.zeros(0, np.int64)


class Settled(NamedTuple):
    """What transitions depend on, beside the moves."""

    layers: Layers
    strings: Mapping[str, KeyStrings]
    expires: Int64s
    """Of each rule, on the clock of objects."""
    clocks: Int64s | None
    """At each position, where rules expire."""
    timeout: int | None
    crossing: Sequence[tuple[int, list[Box]]]
    """The rows and boxes of the rules that detect cross."""


def transitions(settled: Settled, moved: Steps, rows: Rows, *, silent: bool) -> Found:
    """All events of a batch, unordered.

    Args:
        settled: the rules in force, and the clocks.
        moved: the moves.
        rows: that caused them.
        silent: whether an object that is new enters without a word.

    """
    layers, expires = settled.layers, settled.expires
    before = np.where(moved.is_new, -1, moved.previous)
    after = moved.offset + np.arange(len(rows.slots))
    moves = Moves(before, after, settled.clocks)
    crossed = crossings(layers, moved.positions, settled.strings, moves, expires)
    exits, parts = crossed.exit, []
    if settled.clocks is not None:
        # An exit that the row shows at or after the instant of expiry is the expiry.
        ends = expires[exits.rules]
        expired = ends <= rows.times[exits.moves]
        parts.append(ended_by_time(layers, exits.only(expired), ends[expired], ends[expired], moved.previous))
        exits = exits.only(~expired)
    if settled.timeout is not None:
        left = _left_behind(settled, moved)
        gone = gone_after(moved.clocks[moved.previous[left.moves]], settled.timeout)
        ends = expires[left.rules]
        parts.append(ended_by_time(layers, left, np.minimum(ends, gone), ends, moved.previous))
    enters = crossed.enter.only(~moved.is_new[crossed.enter.moves]) if silent else crossed.enter
    for kind, phase, pairs in (
        ("exit", EXITED, exits),
        ("cross", CROSSED, _crosses(settled, moved, before, after)),
        ("enter", ENTERED, enters),
        ("inside", STAYED, crossed.inside),
    ):
        if not layers.detected & DETECTS[kind]:
            continue
        pairs = pairs.only((layers.detects[pairs.rules] & DETECTS[kind]) != 0)
        parts.append(found_of(pairs, kind, phase, before[pairs.moves], after[pairs.moves], rows.times[pairs.moves]))
    return joined(parts) if parts else no_events()


def ended_by_time(layers: Layers, pairs: Pairs, times: Int64s, expires: Int64s, places: Int64s | None = None) -> Found:
    """Exits that time causes, expiry or silence; the object is still where it was.

    Args:
        layers: the rules in force.
        pairs: rows (or objects), each with a rule that ends.
        times: when each ends.
        expires: when its rule expires.
        places: the position before each row; objects are at their own place.

    """
    wanted = (layers.detects[pairs.rules] & DETECTS["exit"]) != 0
    pairs, times, expires = pairs.only(wanted), times[wanted], expires[wanted]
    at = pairs.moves if places is None else places[pairs.moves]
    return found_of(pairs, "exit", ENDED, at, at, times, time_reasons(expires, times))


def _left_behind(settled: Settled, moved: Steps) -> Pairs:
    """The rules that objects were inside when they went silent, with the rows that they came back with."""
    again = np.flatnonzero(moved.is_new & (moved.previous >= 0))
    if not len(again):
        return Pairs(_NOTHING, _NOTHING)
    places = moved.previous[again]
    clocks = None if settled.clocks is None else settled.clocks[places]
    held = held_at(settled.layers, moved.positions.take(places), settled.strings, clocks, settled.expires)
    return Pairs(again[held.moves], held.rules)


def _crosses(settled: Settled, moved: Steps, before: Int64s, after: Int64s) -> Pairs:
    """Jumps over whole rules: one step per rule that asks for it, all moves at once."""
    moves = np.flatnonzero(before >= 0)
    if not settled.crossing or not len(moves):
        return Pairs(_NOTHING, _NOTHING)
    starts, ends = moved.positions.take(before[moves]), moved.positions.take(after[moves])
    found = []
    for row, boxes in settled.crossing:
        over = jumped(boxes, starts, ends, settled.strings, settled.layers.types)
        if settled.clocks is not None:
            over &= settled.expires[row] > settled.clocks[after[moves]]
        found.append(Pairs(moves[over], np.full(int(over.sum()), row)))
    return Pairs(*(np.concatenate(column) for column in zip(*found, strict=True)))
