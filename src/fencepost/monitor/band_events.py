"""Writes the events of bands: in order, with ids, with the key of the pair, counted."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import FencepostError
from fencepost.events import Identities, event_schema
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.monitor.band_batch import BandBatch, Told
from fencepost.monitor.band_joins import Triples
from fencepost.monitor.band_rows import together
from fencepost.monitor.band_rules import LEFT, RIGHT, BandRules
from fencepost.monitor.band_streams import Pairing, Streams
from fencepost.monitor.clock import Clock
from fencepost.monitor.found import ENDED, Found, joined, written
from fencepost.monitor.positions import Positions
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS

__all__ = ["BandEvents"]


class BandEvents:
    """From what was found to event tables, and how many of each kind there were.

    Args:
        streams: whose rows the events are about.
        clock: of event time.
        pairing: what is told of a pair.
        sequences: how many columns order rows of equal time.

    """

    def __init__(self, streams: Streams, clock: Clock, pairing: Pairing, sequences: int) -> None:
        self._streams, self._clock, self._pairing, self._sequences = streams, clock, pairing, sequences
        self.counts = dict.fromkeys(DETECTS, 0)

    def forget_counts(self) -> None:
        """Count from zero again."""
        self.counts = dict.fromkeys(DETECTS, 0)

    def of_rows(self, told: Sequence[Told], batch: BandBatch, rules: BandRules, snapshot_version: int) -> Any:
        """The events of a batch, in the order in which its rows are applied.

        Args:
            told: what the rows did.
            batch: the rows.
            rules: in force.
            snapshot_version: of the rules.

        """
        if not told:
            return self.none()
        rows_before, positions_before = {}, {}
        row_count = position_count = 0
        for side, each in batch.sides:
            rows_before[side], positions_before[side] = row_count, position_count
            row_count, position_count = row_count + len(each.ranks), position_count + each.moved.positions.rows
        of_row = np.concatenate([each.rows.slots for _, each in batch.sides])
        parts, partners = [], [each.others for each in told]
        for side, found, _ in told:
            shifted = [np.where(place < 0, -1, place + positions_before[side]) for place in (found.before, found.after)]
            parts.append(found._replace(rows=found.rows + rows_before[side], before=shifted[0], after=shifted[1]))
        found, others = joined(parts), np.concatenate(partners)
        is_left = np.repeat([side == LEFT for side, *_ in told], [len(each.others) for each in told])
        if self._pairing.report == "rules":
            once = _each_once([found.rows, found.rules, found.times, found.phases])
            found, others, is_left = found.take(once), others[once], is_left[once]
        own = of_row[found.rows]
        lefts, rights = np.where(is_left, own, others), np.where(is_left, others, own)
        one, two = self._streams.identities(lefts, rights)
        by_time = np.where(found.phases == ENDED, found.times, 0)
        by = [two.highs, two.lows, one.highs, one.lows, rules.ids[found.rules], by_time, found.phases]
        order = np.lexsort([*by, batch.moments[found.rows]])
        found, lefts, rights, is_left = found.take(order), lefts[order], rights[order], is_left[order]
        caused = found.phases != ENDED  # what time ended has no row, and so no sequence
        sequences = []
        for column in zip(*(each.rows.sequences for _, each in batch.sides), strict=True):
            ordinals, known = (np.concatenate(part) for part in zip(*column, strict=True))
            sequences.append((ordinals[found.rows], known[found.rows] & caused))
        positions = together([each.moved.positions for _, each in batch.sides], self._streams.types)
        ids, versions = rules.ids[found.rules], rules.versions[found.rules]
        return self._written(found, ids, versions, positions, (lefts, rights), is_left, sequences, snapshot_version)

    def without_rows(
        self, parts: Sequence[tuple[Triples, Found]], ids: Int64s, versions: Int64s, snapshot_version: int
    ) -> Any:
        """Events that no row caused, by time, rule and rows.

        Args:
            parts: pairs of a left and a right row, and the event of each.
            ids: of the rules that the events refer to.
            versions: of the rule of each event.
            snapshot_version: of the rules.

        """
        found = joined([each for _, each in parts])
        if not len(found.rules):
            return self.none()
        lefts, rights = (np.concatenate([pairs[place] for pairs, _ in parts]) for place in (LEFT, RIGHT))
        if self._pairing.report == "rules":
            once = _each_once([found.rules, found.times, found.detects, lefts])
            found, versions, lefts, rights = found.take(once), versions[once], lefts[once], rights[once]
        rule_ids = ids[found.rules]
        one, two = self._streams.identities(lefts, rights)
        order = np.lexsort([two.highs, two.lows, one.highs, one.lows, rule_ids, found.times])
        found, lefts, rights = found.take(order), lefts[order], rights[order]
        here = np.arange(len(order))
        found = found._replace(before=here, after=here)
        positions = together([self._streams.states[LEFT].positions(lefts)], self._streams.types)
        absent = (np.zeros(len(order), np.int64), np.zeros(len(order), np.bool_))
        sequences = [absent] * self._sequences
        is_left = np.ones(len(order), np.bool_)
        rule_ids, versions = rule_ids[order], versions[order]
        pairs = (lefts, rights)
        return self._written(found, rule_ids, versions, positions, pairs, is_left, sequences, snapshot_version)

    def _written(
        self,
        found: Found,
        ids: Int64s,
        versions: Int64s,
        positions: Positions,
        pairs: tuple[Int64s, Int64s],
        is_left: Bools,
        sequences: Sequence[tuple[Int64s, Bools]],
        snapshot_version: int,
    ) -> Any:
        """The event table, counted; `is_left` says which of the two rows an event is about."""
        for kind, bit in DETECTS.items():
            self.counts[kind] += int((found.detects == bit).sum())
        states = self._streams.states
        values = [state.objects.values(slots) for state, slots in zip(states, pairs, strict=True)]
        named = [state.objects.ids(each) for state, each in zip(states, values, strict=True)]
        identities = list(self._streams.identities(*pairs))
        if self._pairing.report == "rules":
            for side, hidden in ((LEFT, ~is_left), (RIGHT, is_left)):
                named[side] = pc.if_else(pa.array(hidden), pa.scalar(None, named[side].type), named[side])
                identities[side] = Identities(*(np.where(hidden, 0, column) for column in identities[side]))
        assert self._clock.type is not None, "there are rows, so there was a time"
        events = written(
            found,
            ids,
            versions,
            positions,
            named[LEFT],
            identities[LEFT],
            sequences,
            self._clock.type,
            self._streams.types,
            snapshot_version,
            (named[RIGHT], identities[RIGHT]),
        )
        for place, name in enumerate(self._pairing.key):
            events = events.append_column(name, values[LEFT].field(place))
        return events

    def none(self) -> Any:
        """A table without rows."""
        object_type, other_type = (
            pa.null() if state.objects.id_type is None else state.objects.id_type for state in self._streams.states
        )
        time_type = pa.null() if self._clock.type is None else self._clock.type.arrow
        return self._schema(object_type, time_type, self._streams.types, other_type).empty_table()

    def check_names(self, types: Mapping[str, AttributeType]) -> None:
        """Refuse attributes, or a key, whose names events cannot have."""
        self._schema(pa.null(), pa.null(), types)

    def _schema(self, object: Any, time: Any, types: Mapping[str, AttributeType], other: Any = None) -> Any:
        """The schema of events, with the columns of the key behind the others."""
        schema, keyed = event_schema(object, time, types, other), self._streams.states[LEFT].objects.type
        for place, name in enumerate(self._pairing.key):
            if name in schema.names:
                raise FencepostError(
                    f"key={name!r}, which events have as a column already",
                    "a column name that no other event column has",
                    f"Rename {name} in both streams and in the rules.",
                )
            schema = schema.append(pa.field(name, pa.null() if keyed is None else keyed.field(place).type))
        return schema


def _each_once(columns: Sequence[Any]) -> Int64s:
    """The places of items, one of those that are equal in all columns."""
    order = np.lexsort(columns)
    differs = np.ones(len(order), np.bool_)
    differs[1:] = False
    for column in columns:
        differs[1:] |= column[order][1:] != column[order][:-1]
    return order[differs]
