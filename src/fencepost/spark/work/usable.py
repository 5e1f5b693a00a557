"""The rules of a version that a stream can use: those whose columns it has, and that its clock can do with.

Columns can be added to a directory while streams run, and who publishes rules need not know on what times they run. A
stream that lacks a column leaves the rules out that use it, and likewise rules whose lengths, expiry or silence its
clock cannot do with, as if they were paused: it counts them, and warns of them once per version and process.
"""

import warnings
from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from fencepost._files.recent import RecentlyUsed
from fencepost._text import count
from fencepost.indexes.arrays import Int64s
from fencepost.ordinals import AttributeType
from fencepost.pairing.rules import SIDES, band_rules
from fencepost.snapshot import Snapshot
from fencepost.spark.work.caches import Source, snapshot_at
from fencepost.watching.clock import BeyondClock, Clock, rules_beyond_clock

Sent = tuple[frozenset[str], ...]
"""The columns that arrive of each side: one side for rules about rows, two for bands."""

_HELD = 4
_NAMED = 10
_EXPLAINED = 3
_REMEDY = "Pass timeout=, for example timedelta(minutes=10), or set timeout in [operator] of a pipeline."


class Times(NamedTuple):
    """The clock of a stream."""

    type: str
    """Of the time column, as Spark calls it."""
    timeout: timedelta | int | None

    def beyond(self, snapshot: Snapshot, column: str = "the time column") -> BeyondClock:
        """The rules that it cannot do with; refusals call the time column so."""
        return rules_beyond_clock(snapshot, Clock(column, self.timeout, _REMEDY), AttributeType.parse(self.type))


class Stream(NamedTuple):
    """What decides which rules a stream can use."""

    sent: Sent
    times: Times | None = None
    """None where time does not matter."""


class Usable(NamedTuple):
    """The rules of one version that can be used."""

    snapshot: Snapshot
    skipped: int
    """How many others are in force."""


_usable: "RecentlyUsed[tuple[Source, int, Stream], Usable]" = RecentlyUsed(_HELD)


def usable_at(source: Source, version: int, stream: Stream) -> Usable:
    """The rules of one version that need no other columns than those that arrive, and no other clock."""
    snapshot = snapshot_at(source, version)
    if stream.times is None and _has_all(snapshot, stream.sent):
        return Usable(snapshot, 0)
    return _usable.get((source, version, stream), lambda: _find(snapshot, str(source), stream))


def _has_all(snapshot: Snapshot, sent: Sent) -> bool:
    return len(sent) == 1 and sent[0].issuperset((*snapshot.attributes, *snapshot.keys))


def _find(snapshot: Snapshot, place: str, stream: Stream) -> Usable:
    rows, sent = np.zeros(0, np.int64), stream.sent
    if not _has_all(snapshot, sent):
        rows, lacking = skipped_rules(snapshot, sent)
        if len(rows):
            warn_skipped(snapshot, rows, lacking, place)
    if stream.times is not None:
        beyond = stream.times.beyond(snapshot)
        if len(beyond.rows):
            warn_beyond(snapshot, beyond, place)
            rows = np.union1d(rows, beyond.rows)
    return Usable(snapshot.without(rows), len(rows))


def skipped_rules(snapshot: Snapshot, sent: Sent) -> tuple[Int64s, set[str]]:
    """The rows of rules that need other columns than those that arrive, and those columns."""
    if len(sent) == 1:
        (columns,) = sent
        return snapshot.rows_beyond(columns), {*snapshot.attributes, *snapshot.keys} - columns
    ids, lacking = [], set[str]()
    for rule in band_rules(snapshot, snapshot.in_force):
        absent = [
            f"{name}.{column}"
            for side, name in enumerate(SIDES)
            for column in sorted((rule.attributes(side) | rule.key_columns(side)) - sent[side])
        ]
        if absent:
            ids.append(rule.id)
            lacking.update(absent)
    return snapshot.rows_of(np.array(ids, np.int64)), lacking


def warn_skipped(snapshot: Snapshot, rows: Int64s, lacking: Iterable[str], place: str) -> None:
    """Name the rules that are left out, and the columns that they would need."""
    warnings.warn(
        f"{_left_out(snapshot, snapshot.rules.ids[rows], place)}: the stream lacks the "
        f"columns that they use ({', '.join(sorted(lacking))}). Start it anew with a frame that has them.",
        stacklevel=2,
    )


def warn_beyond(snapshot: Snapshot, beyond: BeyondClock, place: str) -> None:
    """Name the rules that are left out since the clock of a stream cannot do with them, and say why of the first."""
    why = [str(beyond.refusal(number)) for number in range(min(len(beyond.rows), _EXPLAINED))]
    warnings.warn(
        f"{_left_out(snapshot, beyond.ids, place)}: the clock of the stream cannot do with them. {' '.join(why)}",
        stacklevel=2,
    )


def _left_out(snapshot: Snapshot, ids: Int64s, place: str) -> str:
    named = ", ".join(map(str, ids[:_NAMED].tolist())) + (", ..." if len(ids) > _NAMED else "")
    return f"{count(len(ids), 'rule')} of version {snapshot.version} of {place} left out ({named})"
