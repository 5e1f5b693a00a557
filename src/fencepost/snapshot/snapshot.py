"""Snapshot: all rules of one version, compiled to arrays; asks every group and joins the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.indexes.answers import SHORT_ROW, join_rows, rules_of, unique_rows
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.matches import Matches
from fencepost.ordinals import AttributeType
from fencepost.snapshot import store
from fencepost.snapshot.columns import BandColumns, BoxSet, RuleColumns, detect_names
from fencepost.snapshot.groups import Batch, Group
from fencepost.snapshot.keys import KeyColumn
from fencepost.snapshot.tables import Table

__all__ = ["Explanation", "GroupExplanation", "Snapshot"]


@dataclass(frozen=True)
class GroupExplanation:
    """How one group of rules is answered."""

    keys: tuple[str, ...]
    attributes: tuple[str, ...]
    boxes: int
    rules: int
    structure: str
    nbytes: int


@dataclass(frozen=True)
class Explanation:
    """What a snapshot consists of; prints as a short report."""

    version: int
    rules: int
    types: dict[str, str]
    groups: tuple[GroupExplanation, ...]
    dropped: dict[int, tuple[str, ...]]
    """By rule id, branches that can never hold."""
    bands: int

    def __str__(self) -> str:
        lines = [f"snapshot {self.version}: {self.rules:,} rules, {sum(g.nbytes for g in self.groups):,} bytes indexed"]
        for group in self.groups:
            on = ", ".join([*(f"{key} =" for key in group.keys), *group.attributes]) or "no column"
            lines.append(f"  {group.boxes:,} boxes of {group.rules:,} rules on {on}")
            lines.append(
                f"    {group.structure}; {group.nbytes:,} bytes, {group.nbytes / max(1, group.boxes):.0f} per box"
            )
        if self.bands:
            lines.append(f"  {self.bands:,} bands, kept for a band join")
        for id, reasons in self.dropped.items():
            lines += [f"  rule {id}, a branch that never holds: {reason}" for reason in reasons]
        return "\n".join(lines)


class Snapshot:
    """An immutable function from rows to rules.

    Rules are grouped by the columns they constrain, and each group is indexed by itself. Snapshots are made by
    `Rules.compile` or `Snapshot.load`.

    >>> from fencepost.rules import Rules
    >>> rules = Rules()
    >>> rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50")
    >>> rules.add(2, "price >= 120 OR volume > 1e6")
    >>> snapshot = rules.compile()
    >>> snapshot.match({"symbol": ["IBM", "IBM"], "price": [41.5, 130.0], "volume": [10.0, 2e6]}).sets()
    [{1}, {2}]
    """

    def __init__(
        self,
        rules: RuleColumns,
        groups: Sequence[Group],
        columns: Mapping[str, KeyColumn],
        types: Mapping[str, AttributeType],
        bands: BandColumns | None,
        dropped: Mapping[int, tuple[str, ...]],
        version: int,
    ) -> None:
        self.rules = rules
        self.groups = tuple(groups)
        self.types = {name: types[name] for name in sorted(types)}
        self.keys = tuple(sorted(columns))
        self.bands = bands
        self.dropped = dict(dropped)
        self.version = version
        self._columns = dict(columns)
        boxes_per_rule = np.bincount(np.concatenate([np.zeros(0, np.int64), *(group.rules for group in groups)]))
        self._several = bool((boxes_per_rule > 1).any())
        """Whether some rule has several boxes and may come up twice."""

    @classmethod
    def compile(
        cls,
        rules: RuleColumns,
        boxes: Sequence[BoxSet],
        types: Mapping[str, AttributeType],
        keys: Sequence[str],
        bands: BandColumns | None = None,
        dropped: Mapping[int, tuple[str, ...]] | None = None,
        version: int = 0,
    ) -> "Snapshot":
        """Index bound rules; see `Rules.compile` for the usual way.

        Args:
            rules: a row per rule.
            boxes: their boxes, a set per combination of columns.
            types: the type of every attribute.
            keys: the key columns.
            bands: band rules.
            dropped: by rule id, branches that can never hold.
            version: of the snapshot.
        """
        columns = {}
        for name in keys:
            used = [each.key_values[each.keys.index(name)] for each in boxes if name in each.keys]
            strings = [pa.array([], pa.large_string()), *(array.cast(pa.large_string()) for array in used)]
            columns[name] = KeyColumn.of(name, pa.concat_arrays(strings))
        groups = [Group.build(box_set, columns, types) for box_set in boxes if len(box_set.rules)]
        return cls(rules, groups, columns, types, bands, dropped or {}, version)

    # -- asking -----------------------------------------------------------------------------------------

    def match(self, table: Any) -> Matches:
        """The ids of all rules that hold for each row; a null or NaN is in no range.

        Args:
            table: an Arrow table, a pandas or polars frame, or a dict of arrays; other columns do not matter.
        """
        return self.match_ids(self.encode(table))

    def match_ids(self, batch: Batch) -> Matches:
        """Like `match`, for encoded rows."""
        if self._several:
            found = self.match_rows(batch)
            return Matches(found.offsets, self.rules.ids[found.ids])
        return Matches(*self._found(batch, self._box_ids))

    def match_rows(self, batch: Batch) -> Matches:
        """Like `match_ids`, but the ids are rows of `rules`."""
        offsets, rows = self._found(batch, [group.rules for group in self.groups])
        if self._several:
            longest = int(np.diff(offsets).max(initial=0))
            unique_rows(offsets, rows, np.full(len(self.rules.ids) if longest > SHORT_ROW else 0, -1, np.int64))
        return Matches(offsets, rows[: offsets[-1]])

    def _found(self, batch: Batch, numbers: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
        """What all groups find, row by row: for each box its number, which is given per group."""
        answers = [group.match(batch) for group in self.groups]
        if len(answers) == 1:
            offsets, boxes = answers[0]
            found = np.empty(len(boxes), np.int64)
            rules_of(boxes, numbers[0], found)
            return offsets, found
        offsets = np.zeros(batch.rows + 1, np.int64)
        for own, _ in answers:
            offsets += own
        found = np.empty(int(offsets[-1]), np.int64)
        cursor = offsets[:-1].copy()
        for (own, boxes), of_boxes in zip(answers, numbers, strict=True):
            join_rows(own, boxes, of_boxes, cursor, found)
        return offsets, found

    @cached_property
    def _box_ids(self) -> list[Int64s]:
        """Per group, the id of each box's rule."""
        return [self.rules.ids[group.rules] for group in self.groups]

    def encode(self, table: Any) -> Batch:
        """The rows as ordinals and key codes; refuses what cannot be converted exactly, naming the column.

        Columns that only bands use may be missing.
        """
        given = table if isinstance(table, Table) else Table(table)
        for name in (*self.types, *self.keys):
            user = self._user_of(name)
            if user is not None and given.find(name) is None:
                raise FencepostError(
                    f"a table without the column {name}",
                    f"that column, since rule {user} needs it",
                    f"Add it; the table has {', '.join(given.names) or 'no columns'}.",
                )
        ordinals: dict[str, Int64s] = {}
        valid: dict[str, Bools | None] = {}
        for name, kind in self.types.items():
            if given.find(name) is None:
                ordinals[name], valid[name] = np.zeros(given.rows, np.int64), np.zeros(given.rows, np.bool_)
            else:
                ordinals[name], valid[name] = kind.encode(given.column(name), name)
        keys = {name: self.encode_key(name, given.arrow(name)) for name in self.keys}
        return Batch(given.rows, ordinals, valid, keys)

    def encode_key(self, column: str, values: Any) -> Int64s:
        """The codes of an Arrow array of strings in one key column: -1 for null, -2 for a string of no rule."""
        return self._columns[column].codes(values)

    def _user_of(self, column: str) -> int | None:
        """A rule whose boxes need the column; None if only bands have it."""
        for group in self.groups:
            if column in group.keys or column in group.attributes:
                return int(self.rules.ids[group.rules[0]])
        return None

    # -- looking into it --------------------------------------------------------------------------------

    def boxes_of(self, row: int) -> list[tuple[dict[str, str], dict[str, tuple[int, int]]]]:
        """The boxes of one rule: its keys, and ranges of ordinals by attribute."""
        found = []
        for group in self.groups:
            for box in np.flatnonzero(group.rules == row).tolist():
                codes = self._codes_of(group, box)
                keys = {name: self._columns[name].string(code) for name, code in zip(group.keys, codes, strict=True)}
                found.append((keys, group.ranges(box)))
        return found

    def _codes_of(self, group: Group, box: int) -> list[int]:
        """The key codes of one box, unfolded from their combination."""
        if not group.keys:
            return []
        combined = group.index.group_of(box)
        assert combined is not None, "a group with keys indexes every box under a key"
        codes: list[int] = []
        for size, step in zip(reversed(group.combination.sizes[1:]), reversed(group.combination.steps), strict=True):
            combined, code = divmod(int(step[combined]), size)
            codes.insert(0, code)
        return [combined, *codes]

    def explain(self) -> Explanation:
        """The groups, the structure that serves each and the reason, bytes, and what was dropped."""
        groups = tuple(
            GroupExplanation(
                group.keys,
                group.attributes,
                len(group.rules),
                len(np.unique(group.rules)),
                group.explained(),
                group.nbytes,
            )
            for group in self.groups
        )
        types = {name: str(kind) for name, kind in self.types.items()}
        bands = 0 if self.bands is None else len(self.bands.rules)
        return Explanation(self.version, len(self), types, groups, self.dropped, bands)

    def __len__(self) -> int:
        return len(self.rules.ids)

    def __repr__(self) -> str:
        return f"Snapshot(version {self.version}, {len(self):,} rules)"

    def detects(self, row: int) -> str:
        """What one rule asks to be told."""
        return detect_names(int(self.rules.detects[row]))

    # -- keeping it -------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the snapshot as a new directory: a checksummed header and one file of flat arrays."""
        arrays: dict[str, Any] = {}
        for name, column in self._columns.items():
            arrays |= {f"key.{name}.{field}": array for field, array in column.strings._asdict().items()}
        for number, group in enumerate(self.groups):
            arrays |= {f"group{number}.{name}": array for name, array in group.to_arrays().items()}
        for field in ("ids", "versions", "detects", "initial", "expires"):
            arrays[f"rules.{field}"] = getattr(self.rules, field)
        texts = {"rules.conditions": self.rules.conditions, "rules.labels": self.rules.labels}
        if self.bands is not None:
            for field, values in self.bands._asdict().items():
                (texts if isinstance(values, pa.Array) else arrays)[f"bands.{field}"] = values
        header = {
            "version": self.version,
            "types": {name: str(kind) for name, kind in self.types.items()},
            "keys": list(self.keys),
            "groups": [group.described() for group in self.groups],
            "dropped": {str(id): list(reasons) for id, reasons in self.dropped.items()},
            "bands": self.bands is not None,
        }
        store.write(Path(path), header, arrays, texts)

    @classmethod
    def load(cls, path: str | Path, verify: bool = True) -> "Snapshot":
        """Map a saved snapshot into memory; refuses one that is truncated, changed, foreign or newer.

        Args:
            path: what `save` wrote.
            verify: compare the checksum of every byte; skip it only where this host has verified the same version.
        """
        header, arrays, texts = store.read(Path(path), verify)
        columns = {name: KeyColumn(name, store.string_table_from(arrays, f"key.{name}.")) for name in header["keys"]}
        groups = [
            Group.from_arrays(described, store.with_prefix(arrays, f"group{number}."))
            for number, described in enumerate(header["groups"])
        ]
        rules = RuleColumns(**store.with_prefix(arrays, "rules."), **store.with_prefix(texts, "rules."))
        bands = None
        if header["bands"]:
            bands = BandColumns(**store.with_prefix(arrays, "bands."), **store.with_prefix(texts, "bands."))
        types = {name: AttributeType.parse(kind) for name, kind in header["types"].items()}
        dropped = {int(id): tuple(reasons) for id, reasons in header["dropped"].items()}
        return cls(rules, groups, columns, types, bands, dropped, header["version"])
