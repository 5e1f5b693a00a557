"""Events between being found and being written out."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fencepost.events import REASONS, Facts, Identities, Moved, event_table, time_tag
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, UInt32s
from fencepost.indexes.radix import sorted_positions
from fencepost.monitor.positions import Pairs, Positions
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS

__all__ = [
    "CROSSED",
    "ENDED",
    "ENTERED",
    "EXITED",
    "REASON_CODES",
    "STAYED",
    "Found",
    "found_of",
    "joined",
    "no_events",
    "time_reasons",
    "written",
]

REASON_CODES = {name: code for code, name in enumerate(REASONS)}
ENDED, EXITED, CROSSED, ENTERED, STAYED = range(5)
"""The order of events on one row: what time ended before it, exits, crosses, enters, insides."""


class Found(NamedTuple):
    """Events as columns, before ids and values are attached."""

    rules: Int64s
    """Rows of the rules in force."""
    rows: Int64s
    """The row, or object, that each event is about."""
    before: Int64s
    """Places in an array of positions, -1 for nowhere; likewise `after`, where only the deleted are nowhere."""
    after: Int64s
    times: Int64s
    detects: UInt8s
    reasons: UInt8s
    phases: UInt8s

    def take(self, chosen: Int64s | UInt32s) -> "Found":
        """The chosen events, in that order."""
        return Found(*(column[chosen] for column in self))

    def ordered(self, ranks: Int64s, ids: Int64s, *, is_ascending: bool) -> "Found":
        """In the order of the ranks of their rows; on one row by phase, time and rule id."""
        places = ranks[self.rows] * 8 + self.phases
        if (self.phases == ENDED).any():
            return self.take(np.lexsort([ids[self.rules], self.times, places]))
        if not is_ascending:
            return self.take(np.lexsort([ids[self.rules], places]))
        # Rows, five phases and rules fit one int64, which is sorted at once.
        return self.take(sorted_positions(places * len(ids) + self.rules))


def found_of(
    pairs: Pairs, kind: str, phase: int, before: Int64s, after: Int64s, times: Int64s, reasons: Any = None
) -> Found:
    """Events of one kind, for pairs of row and rule."""
    count = len(pairs.rules)
    codes = np.zeros(count, np.uint8) if reasons is None else np.broadcast_to(np.asarray(reasons, np.uint8), count)
    detects, phases = np.full(count, DETECTS[kind], np.uint8), np.full(count, phase, np.uint8)
    return Found(pairs.rules, pairs.moves, before, after, times, detects, codes, phases)


def no_events() -> Found:
    """None of any kind."""
    nothing = np.zeros(0, np.int64)
    return found_of(Pairs(nothing, nothing), "exit", EXITED, nothing, nothing, nothing)


def joined(parts: Sequence[Found]) -> Found:
    """All events of several."""
    return Found(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def time_reasons(expires: Int64s, ends: Int64s) -> UInt8s:
    """Why time ended what it did: rules that expired by then, else silence."""
    codes = np.where(expires <= ends, REASON_CODES["expired"], REASON_CODES["timeout"])
    return codes.astype(np.uint8)


def written(
    found: Found,
    ids: Int64s,
    versions: Int64s,
    positions: Positions,
    objects: Any,
    identities: Identities,
    sequences: Sequence[tuple[Int64s, Bools]],
    time: AttributeType,
    types: Mapping[str, AttributeType],
    snapshot_version: int,
    others: tuple[Any, Identities] | None = None,
) -> Any:
    """The event table.

    Args:
        found: the events, in order.
        ids: of their rules; likewise `versions`.
        versions: of their rules.
        positions: what `before` and `after` refer to.
        objects: of each event, an Arrow array.
        identities: of the objects.
        sequences: of each event.
        time: the type of times.
        types: of the attributes.
        snapshot_version: of the rules.
        others: the partners of each event, an Arrow array, and their identities, where there are any.

    """
    attributes = {}
    for name in types:
        ordinals, known = positions.ordinals[name], positions.known[name]
        attributes[name] = Moved(
            ordinals[found.before],
            (found.before >= 0) & known[found.before],
            ordinals[found.after],
            (found.after >= 0) & known[found.after],
        )
    facts = Facts(
        ids,
        versions,
        identities,
        None if others is None else others[1],
        found.detects,
        time_tag(time),
        found.times,
        found.reasons,
        sequences,
        attributes,
    )
    return event_table(facts, objects, time, types, snapshot_version, None if others is None else others[0])
