"""Band rules over the rows of two streams: which pairs enter a band, leave it, jump over it or are inside.

A *pair* is a row of the left stream and a row of the right one. It is inside a rule if their difference is in the
rule's band, their keys are as the rule asks, and the rule has not expired by the later of the two rows (or the clock
marker). Each side's rows are objects as any others: late, silent, new by themselves.

An event tells the values of the row that moved, before and after; where no row moved, those of the left row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s, UInt8s
from fencepost.monitor.band_batch import BandBatch
from fencepost.monitor.band_events import BandEvents
from fencepost.monitor.band_indexes import BandIndexes
from fencepost.monitor.band_joins import Triples, differing
from fencepost.monitor.band_rules import LEFT, RIGHT, BandRule, band_rules
from fencepost.monitor.band_streams import Pairing, Streams
from fencepost.monitor.clock import Clock, gone_after
from fencepost.monitor.found import ENDED, REASON_CODES, Found, found_of, time_reasons
from fencepost.monitor.layers import Layers
from fencepost.monitor.positions import Pairs
from fencepost.monitor.state import State
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS, Snapshot, Table

__all__ = ["Bands", "Pairing", "RuleChange"]


class RuleChange(NamedTuple):
    """Band rules that go and band rules that come, before either happens; a rule that is edited does both."""

    gone: list[BandRule]
    new: list[BandRule]
    types: dict[str, AttributeType]
    reasons: dict[int, str]
    """Why each rule that goes does."""
    version: int
    """Of the snapshot."""


class Bands:
    """Rows of two streams and the band rules over them.

    `Streams` has the rows, `BandIndexes` the rules; a `BandBatch` is put through each index of theirs at once, the
    rows of both sides in their order, and `BandEvents` writes what it causes.

    Args:
        columns: that name the rows, and their sequence.
        clock: of event time.
        pairing: everything else that a caller chooses; None where there are no bands.
        silent: whether a row that is new enters without a word.
        late: told about late rows, with their side.

    """

    def __init__(
        self,
        columns: tuple[str, Sequence[str]],
        clock: Clock,
        pairing: Pairing | None = None,
        *,
        silent: bool,
        late: Callable[[str, Any], None] | None,
    ) -> None:
        self.pairing = pairing or Pairing()
        self.streams = Streams(columns, clock, self.pairing, late)
        self._clock, self._silent = clock, silent
        self._indexes = BandIndexes(self.streams, clock)
        self._events = BandEvents(self.streams, clock, self.pairing, len(columns[1]))
        self._version = 0

    @property
    def states(self) -> tuple[State, State]:
        """The left and the right rows."""
        return self.streams.states

    @property
    def types(self) -> dict[str, AttributeType]:
        """Of every column that bands subtract or ever subtracted."""
        return self.streams.types

    @property
    def rows(self) -> int:
        """How many rows were taken."""
        return self.streams.rows

    @property
    def late_rows(self) -> int:
        """How many of them were late."""
        return self.streams.late_rows

    @property
    def null_rows(self) -> int:
        """How many of them observed nothing."""
        return self.streams.null_rows

    @property
    def events(self) -> dict[str, int]:
        """How many events of each kind were told."""
        return self._events.counts

    # -- rules ---------------------------------------------------------------------------------------------

    def find(self, id: int) -> BandRule | None:
        """The band rule in force with this id."""
        return self._indexes.rules.find(id)

    def prepared(self, before: Snapshot | None, after: Snapshot, known: Mapping[str, AttributeType]) -> RuleChange:
        """What another snapshot changes; refuses what cannot be, and changes nothing.

        Args:
            before: the rules until now.
            after: the rules from now on.
            known: types that columns of other events have.

        """
        rows = after.in_force if before is None else after.unlike(before)
        new = {rule.id: rule for rule in band_rules(after, rows, self.pairing.key)}
        gone = {}
        if before is not None and len(self._indexes.rules):
            ids = before.rules.ids[before.unlike(after)].tolist()
            gone = {id: rule for id in ids if (rule := self.find(id)) is not None}
        for id in [id for id, rule in new.items() if gone.get(id) == rule]:
            del new[id], gone[id]
        types = {name: after.types[name] for rule in new.values() for name in rule.shape.columns}
        known = {**known, **self.types}
        for name, type_ in after.types.items():
            if known.get(name, type_) != type_:
                raise FencepostError(
                    f"rules that have {name} as {type_}",
                    f"{known[name]}, as the rules until now",
                    "Compile them with schema= naming that type.",
                )
        self._events.check_names({**self.types, **types})
        ids = np.array(list(gone), np.int64)
        edited = set(ids[after.rows_of(ids) >= 0].tolist())
        reasons = {id: "edited" if id in edited else "paused" if id in after.paused else "removed" for id in gone}
        return RuleChange(list(gone.values()), list(new.values()), types, reasons, after.version)

    def change(self, change: RuleChange) -> Any:
        """Let the rules change, and return the events this causes."""
        self._version = change.version
        if not change.gone and not change.new:
            return self._events.none()
        self._track(change)
        events = self.caused_by(change)
        self._indexes.drop(change.gone)
        self._indexes.put(change.new)
        return events

    def caused_by(self, change: RuleChange) -> Any:
        """The events that a change of rules causes, whose columns are tracked already; the rules stay as they are."""
        ids = np.array(sorted({rule.id for rule in (*change.gone, *change.new)}), np.int64)
        was, is_now = (self._indexes.inside(rules, ids) for rules in (change.gone, change.new))
        begun, ended = differing(was, is_now)
        parts: list[tuple[Triples, Found]] = []
        versions = []
        for pairs, rules, kind in ((ended, change.gone, "exit"), (begun, change.new, "enter")):
            wanted, codes = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.uint8)
            own_versions = np.zeros(len(ids), np.int64)
            for rule in rules:
                number = int(np.searchsorted(ids, rule.id))
                wanted[number] = bool(rule.detects & DETECTS[kind]) and (kind == "exit" or rule.initial)
                codes[number] = REASON_CODES["initial" if kind == "enter" else change.reasons[rule.id]]
                own_versions[number] = rule.version
            pairs = pairs.only(wanted[pairs.rules])
            times = np.maximum(self.states[LEFT].times[pairs.moves], self.states[RIGHT].times[pairs.others])
            parts.append((pairs, _without_row(pairs, kind, times, codes[pairs.rules])))
            versions.append(own_versions[pairs.rules])
        return self._events.without_rows(parts, ids, np.concatenate(versions), change.version)

    def track(self, types: Mapping[str, AttributeType], columns: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Keep columns from now on, whether rules need them yet or not.

        Args:
            types: of all columns that bands may subtract.
            columns: of each side, those of them that it has, and its keys.

        """
        self.streams.track(types, columns)

    def _track(self, change: RuleChange) -> None:
        """Keep the columns that new rules need."""
        shapes = {rule.shape for rule in change.new}
        attributes = ({shape.columns[side] for shape in shapes} for side in (LEFT, RIGHT))
        keys = ({name for rule in change.new for name in rule.key_columns(side)} for side in (LEFT, RIGHT))
        self.track(change.types, [(tuple(one), tuple(two)) for one, two in zip(attributes, keys, strict=True)])

    # -- rows and time -------------------------------------------------------------------------------------

    def update(self, tables: tuple[Table | None, Table | None], layers: Layers, objects: Any) -> Any:
        """Takes rows of either side or both and returns the events they cause.

        Args:
            tables: the left and the right rows.
            layers: the rules in force.
            objects: the type of objects in events so far, or None.

        """
        rules = self._indexes.rules
        sides = self.streams.take(tables, layers, objects, rules.compared, self._indexes.same)
        batch = BandBatch(sides, self.streams, rules, self._clock, silent=self._silent)
        told = [each for join in self._indexes for each in batch.apply(join)]
        self.streams.settle(sides)
        events = self._events.of_rows(told, batch, rules, self._version)
        self._moved()
        return events

    def advance(self, now: int) -> Any:
        """What ends by a time: expired rules, and pairs of which a row has gone silent."""
        rules, timeout = self._indexes.rules, self._clock.timeout
        ending = [rule for rule in rules.rules if rule and self._clock.instant(rule.expires) <= now]
        ids = np.array(sorted(rule.id for rule in ending), np.int64)
        pairs = self._indexes.inside(ending, ids)
        pairs = pairs._replace(rules=np.array([rules.slots[id] for id in ids.tolist()], np.int64)[pairs.rules])
        silent = []
        for side, state in enumerate(self.states):
            slots = state.here()
            silent.append(slots[:0] if timeout is None else slots[gone_after(state.times[slots], timeout) <= now])
            pairs = pairs.joined(self._indexes.pairs_of(side, silent[side]))
        pairs = Triples(*np.unique(np.array(pairs), axis=1))
        expires = self._clock.instants(rules.expires)
        ends = expires[pairs.rules]
        if timeout is not None:
            for state, slots in zip(self.states, (pairs.moves, pairs.others), strict=True):
                ends = np.minimum(ends, gone_after(state.times[slots], timeout))
        wanted = (rules.detects[pairs.rules] & DETECTS["exit"]) != 0
        pairs, ends = pairs.only(wanted), ends[wanted]
        found = _without_row(pairs, "exit", ends, time_reasons(expires[pairs.rules], ends))
        events = self._events.without_rows([(pairs, found)], rules.ids, rules.versions[pairs.rules], self._version)
        for side, slots in enumerate(silent):
            self._indexes.forget(side, slots)
            self.states[side].forget(slots)
        self._moved()
        return events

    def _moved(self) -> None:
        """Forget what is known only as long as no row moves, and give back room."""
        self._indexes.rows_moved()
        if self.streams.tidy():
            self._indexes.refill()

    # -- keeping it ----------------------------------------------------------------------------------------

    def restore(self, states: Sequence[State], kinds: tuple[dict[str, str], dict[str, str]]) -> None:
        """Take over rows that were saved under the same rules, in place of those that are there."""
        self.streams.restore(states, kinds)
        self._events.forget_counts()
        self._indexes.refill()

    # -- questions -----------------------------------------------------------------------------------------

    def inside(self, rule: BandRule) -> list[tuple[Any, Any]]:
        """The pairs that are inside a rule now."""
        pairs = self._indexes.inside([rule], np.array([rule.id]))
        lefts, rights = (
            state.objects.ids(state.objects.values(slots)).to_pylist()
            for state, slots in zip(self.states, (pairs.moves, pairs.others), strict=True)
        )
        return list(zip(lefts, rights, strict=True))


def _without_row(pairs: Triples, kind: str, times: Int64s, reasons: UInt8s) -> Found:
    """Events that no row caused; where the rows are is filled in when they are ordered."""
    nowhere = np.zeros(len(times), np.int64)
    return found_of(Pairs(nowhere, pairs.rules), kind, ENDED, nowhere, nowhere, times, reasons)
