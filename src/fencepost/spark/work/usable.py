"""The rules of a version that a stream can use: those whose columns it has.

Columns can be added to a directory while streams run. A stream that lacks one leaves the rules out that use it, as if
they were paused: it counts them, and warns of them once per version and process.
"""

import warnings
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fencepost._files.recent import RecentlyUsed
from fencepost._text import count
from fencepost.indexes.arrays import Int64s
from fencepost.pairing.rules import SIDES, band_rules
from fencepost.snapshot import Snapshot
from fencepost.spark.work.caches import Source, snapshot_at

Sent = tuple[frozenset[str], ...]
"""The columns that arrive of each side: one side for rules about rows, two for bands."""

_HELD = 4
_NAMED = 10


class Usable(NamedTuple):
    """The rules of one version that can be used."""

    snapshot: Snapshot
    skipped: int
    """How many others are in force."""


_usable: "RecentlyUsed[tuple[Source, int, Sent], Usable]" = RecentlyUsed(_HELD)


def usable_at(source: Source, version: int, sent: Sent) -> Usable:
    """The rules of one version that need no other columns than those that arrive."""
    snapshot = snapshot_at(source, version)
    if len(sent) == 1 and sent[0].issuperset((*snapshot.attributes, *snapshot.keys)):
        return Usable(snapshot, 0)
    return _usable.get((source, version, sent), lambda: _find(snapshot, str(source), sent))


def _find(snapshot: Snapshot, place: str, sent: Sent) -> Usable:
    rows, lacking = skipped_rules(snapshot, sent)
    if len(rows):
        warn_skipped(snapshot, rows, lacking, place)
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
            for column in sorted({rule.shape.columns[side], *rule.key_columns(side)} - sent[side])
        ]
        if absent:
            ids.append(rule.id)
            lacking.update(absent)
    return snapshot.rows_of(np.array(ids, np.int64)), lacking


def warn_skipped(snapshot: Snapshot, rows: Int64s, lacking: Iterable[str], place: str) -> None:
    """Name the rules that are left out, and the columns that they would need."""
    ids = snapshot.rules.ids[rows].tolist()
    named = ", ".join(map(str, ids[:_NAMED])) + (", ..." if len(ids) > _NAMED else "")
    warnings.warn(
        f"{count(len(ids), 'rule')} of version {snapshot.version} of {place} left out ({named}): the stream lacks the "
        f"columns that they use ({', '.join(sorted(lacking))}). Start it anew with a frame that has them.",
        stacklevel=2,
    )
