"""The rules in force: a snapshot that stays as it is, and a small one of everything changed since."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.language import KEY, Binder, Condition, parse
from fencepost.monitor.positions import KeyStrings, Pairs, Positions, batch_of
from fencepost.ordinals import AttributeType
from fencepost.rules import Rules
from fencepost.rules.rule import (
    checked_detect,
    checked_expires,
    checked_flag,
    checked_id,
    checked_labels,
    microseconds_of,
)
from fencepost.rules.schemas import read_schema
from fencepost.snapshot import BoxSet, RuleColumns, Snapshot, detect_flags

__all__ = ["Box", "Layers", "LiveRule", "matched"]

Box = tuple[dict[str, str], dict[str, tuple[int, int]]]
"""Keys by column, and inclusive ranges of ordinals by attribute."""


class LiveRule(NamedTuple):
    """One rule in force."""

    id: int
    version: int
    detects: int
    initial: bool
    expires: int
    boxes: list[Box] | None
    """None for a rule of the base, which has them."""
    row: int | None = None
    """Of a rule of the base."""


class Layers:
    """The rules in force, numbered by rows: those of the base, then those changed since.

    A change costs as much as the rules changed so far, never as much as the base.

    Args:
        base: the rules to start with.
        schema: the types of columns, as for `Rules.compile`; without one, new columns take the type of their first use.
        paused: versions of rules that are known but not in force, by id.

    """

    def __init__(self, base: Snapshot, schema: Any, paused: Mapping[int, int]) -> None:
        self.base = base
        # Bands are no part of a monitor, so their columns are not needed.
        self.types: dict[str, AttributeType] = {
            name: type_ for name, type_ in base.types.items() if any(name in group.attributes for group in base.groups)
        }
        self.keys = {name for group in base.groups for name in group.keys}
        self.paused = dict(paused)
        """Versions of rules that are known but not in force."""
        self.removed: dict[int, int] = {}
        """Versions of rules that are gone: an id that comes back goes on from there."""
        self._schema = schema
        self._hidden: Bools = np.zeros(len(base), np.bool_)
        self._hidden_count = 0
        self._live: dict[int, LiveRule] = {}
        self._top: Snapshot | None = None
        self._order: Int64s | None = None
        self._asked: tuple[int | None, int | None] = (None, None)
        self._binder: Binder | None = None
        self._describe()

    @property
    def version(self) -> int:
        """The version of the base."""
        return self.base.version

    def __len__(self) -> int:
        return len(self.base) - self._hidden_count + len(self._live)

    @property
    def hides(self) -> bool:
        """Whether some rules of the base are no longer in force."""
        return self._hidden_count > 0

    def in_force(self) -> tuple[Int64s, Int64s, Int64s]:
        """Ids, versions and expiries of all rules in force."""
        self.top()
        shown = np.ones(len(self.ids), np.bool_)
        shown[: len(self.base)] = ~self._hidden
        return self.ids[shown], self.versions[shown], self.expires[shown]

    def __contains__(self, id: int) -> bool:
        return id in self._live or self._base_row(id) is not None

    def find(self, id: int) -> LiveRule | None:
        """The rule with this id, if it is in force."""
        if id in self._live:
            return self._live[id]
        row = self._base_row(id)
        if row is None:
            return None
        rules = self.base.rules
        version, detects, expires = int(rules.versions[row]), int(rules.detects[row]), int(rules.expires[row])
        return LiveRule(id, version, detects, bool(rules.initial[row]), expires, None, row)

    def boxes(self, rule: LiveRule) -> list[Box]:
        """The boxes of a rule in force."""
        if rule.boxes is not None:
            return rule.boxes
        assert rule.row is not None, "a rule without boxes is one of the base"
        return self.base.boxes_of(rule.row)

    def prepared(self, id: int, condition: str, options: Mapping[str, Any]) -> tuple[LiveRule | None, dict[str, Any]]:
        """The rule as it would be in force (None if it is not enabled), and the columns it brings; changes nothing."""
        try:
            return self._bound(id, condition, **options), {}
        except (FencepostError, TypeError):
            pass  # the way around compiles it alone: it can take new columns, and its refusals name the rule
        alone = Rules()
        alone.add(id, condition, **options)
        compiled = self._compiled(alone)
        new = {**dict.fromkeys(compiled.keys, KEY), **compiled.types}
        if not len(compiled):
            return None, new
        rules, version = compiled.rules, self.next_version(id)
        boxes = compiled.boxes_of(0)
        rule = LiveRule(id, version, int(rules.detects[0]), bool(rules.initial[0]), int(rules.expires[0]), boxes)
        return rule, new

    def _bound(
        self,
        id: int,
        condition: str,
        *,
        detect: Any = "inside",
        initial: bool = False,
        labels: Any = None,
        expires: Any = None,
        enabled: bool = True,
    ) -> LiveRule | None:
        """A rule whose columns are all known: its text bound to their types, without compiling anything."""
        if self._binder is None:
            self._binder = Binder(self._columns() if self._schema is None else read_schema(self._schema).types)
        parsed = parse(condition)
        if not isinstance(parsed, Condition):
            raise FencepostError("a band", "a condition of one stream", "Compile it.")
        boxes = [
            (dict(box.keys), {name: (first, last) for name, first, last in box.ranges})
            for box in self._binder.bind(parsed).boxes
        ]
        if any(name not in self.types for _, ranges in boxes for name in ranges) or any(
            name not in self.keys for keys, _ in boxes for name in keys
        ):
            raise FencepostError("a new column", "known ones", "Compile it.")
        checked_labels(labels)
        rule = LiveRule(
            checked_id(id),
            self.next_version(id),
            detect_flags(checked_detect(detect)),
            checked_flag(initial, "initial"),
            microseconds_of(checked_expires(expires)),
            boxes,
        )
        return rule if checked_flag(enabled, "enabled") else None

    def next_version(self, id: int) -> int:
        """The version that this id gets with its next edit."""
        if id in self.paused:
            return self.paused[id] + 1
        if id in self._live:
            return self._live[id].version + 1
        row = self._base_row(id)
        return self.removed.get(id, 0) + 1 if row is None else int(self.base.rules.versions[row]) + 1

    def put(self, id: int, rule: LiveRule | None, new: Mapping[str, Any]) -> None:
        """Put a prepared rule in force, in place of any other with its id."""
        version = self.next_version(id)
        self._drop(id)
        self.removed.pop(id, None)
        for name, type_ in new.items():
            self._binder = None
            if type_ == KEY:
                self.keys.add(name)
            else:
                self.types.setdefault(name, type_)
        if rule is None:
            self.paused[id] = version
            return
        self.paused.pop(id, None)
        self._live[id] = rule
        self._top = None

    def remove(self, id: int) -> None:
        """Take a rule out."""
        self.removed[id] = self.next_version(id) - 1
        self._drop(id)
        self.paused.pop(id, None)

    def held_at(self, positions: Positions, strings: Mapping[str, KeyStrings]) -> Pairs:
        """Which conditions hold at which positions."""
        held = matched(self.base, positions, strings)
        if self._hidden_count:
            held = held.only(~self._hidden[held.rules])
        top = self.top()
        if not len(top):
            return held
        above = matched(top, positions, strings)
        return Pairs(
            np.concatenate([held.moves, above.moves]), np.concatenate([held.rules, above.rules + len(self.base)])
        )

    def top(self) -> Snapshot:
        """The changed rules, compiled."""
        if self._top is None:
            self._describe()
        assert self._top is not None, "described above"
        return self._top

    def boxes_of(self, row: int) -> list[Box]:
        """The boxes of the rule in a row."""
        if row < len(self.base):
            return self.base.boxes_of(row)
        return self.boxes(self._live[int(self.ids[row])])

    def rows_that_detect(self, bit: int) -> list[int]:
        """The rows of the rules in force that detect something."""
        self.top()
        asking = (self.detects & bit) != 0
        asking[: len(self.base)] &= ~self._hidden
        return np.flatnonzero(asking).tolist()

    def _describe(self) -> None:
        """Compile the changed rules, and the columns of all."""
        live = list(self._live.values())
        changed = RuleColumns(
            np.array([rule.id for rule in live], np.int64),
            np.array([rule.version for rule in live], np.int64),
            np.array([rule.detects for rule in live], np.uint8),
            np.array([rule.initial for rule in live], np.bool_),
            np.array([rule.expires for rule in live], np.int64),
            pa.nulls(len(live), pa.large_string()),
            pa.nulls(len(live), pa.large_string()),
        )
        self._top = Snapshot.compile(changed, _box_sets(live), self.types, sorted(self.keys))
        base = self.base.rules
        self.ids: Int64s = np.concatenate([base.ids, changed.ids])
        self.versions: Int64s = np.concatenate([base.versions, changed.versions])
        self.detects: UInt8s = np.concatenate([base.detects, changed.detects])
        self.expires: Int64s = np.concatenate([base.expires, changed.expires])
        self.detected = int(np.bitwise_or.reduce(self.detects, initial=0))
        """Every kind that some rule detects."""
        self.is_ascending = bool((self.ids[1:] > self.ids[:-1]).all())
        """Whether rows are in the order of ids."""

    def _columns(self) -> dict[str, Any]:
        return {**dict.fromkeys(sorted(self.keys), KEY), **self.types}

    def _compiled(self, rules: Rules) -> Snapshot:
        """Compiled with the types that columns have so far; new columns take the type of their use."""
        if self._schema is not None:
            return rules.compile(self._schema)
        try:
            return rules.compile(self._columns())
        except FencepostError:
            inferred = rules.columns()
            known = {name.lower() for name in self._columns()}
            new = {**dict.fromkeys(inferred.keys, KEY), **inferred.types}
            return rules.compile({**{n: t for n, t in new.items() if n.lower() not in known}, **self._columns()})

    def _drop(self, id: int) -> None:
        if self._live.pop(id, None) is not None:
            self._top = None
            return
        row = self._base_row(id)
        if row is not None:
            self._hidden[row] = True
            self._hidden_count += 1

    def _base_row(self, id: int) -> int | None:
        """The row of a rule of the base that is still in force."""
        if self._asked[0] != id:  # one change asks for the same id several times
            ids = self.base.rules.ids
            if self._order is None:
                self._order = np.argsort(ids, kind="stable")
            at = int(ids.searchsorted(id, sorter=self._order))
            row = int(self._order[at]) if at < len(ids) else None
            self._asked = (id, row if row is not None and ids[row] == id else None)
        row = self._asked[1]
        return None if row is None or self._hidden[row] else row


def _box_sets(rules: list[LiveRule]) -> list[BoxSet]:
    """The boxes of the rules, a set per combination of columns."""
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[int, Box]]] = {}
    for row, rule in enumerate(rules):
        for box in rule.boxes or ():
            together.setdefault((tuple(sorted(box[0])), tuple(sorted(box[1]))), []).append((row, box))
    sets = []
    for (keys, attributes), members in together.items():
        ends = np.array([[ranges[name] for name in attributes] for _, (_, ranges) in members], np.int64)
        ends = ends.reshape(len(members), len(attributes), 2)
        texts = tuple(pa.array([box[0][name] for _, box in members], pa.large_string()) for name in keys)
        rows = np.array([row for row, _ in members], np.int64)
        sets.append(BoxSet(keys, attributes, rows, texts, ends[..., 0], ends[..., 1]))
    return sets


def matched(snapshot: Snapshot, positions: Positions, strings: Mapping[str, KeyStrings]) -> Pairs:
    """Which rules of one snapshot hold at which positions."""
    matches = snapshot.match_rows(batch_of(snapshot, positions, strings))
    return Pairs(np.repeat(np.arange(positions.rows), matches.counts), matches.ids)
