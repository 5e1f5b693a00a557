"""Snapshot: all rules of one version, compiled to layers of arrays; asks every group and joins the answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost._files.storage import Place, place_of
from fencepost._text import count
from fencepost.computed import Given, Term
from fencepost.computed.attributes import check_number, expressions_of
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.kernels.answers import SHORT_ROW, drop_hidden, join_rows, rules_of, unique_rows
from fencepost.indexes.matches import Matches, answer_array, check_room, in_pieces, share_room
from fencepost.ordinals import KEY, AttributeType
from fencepost.snapshot import store
from fencepost.snapshot.columns import BandColumns, CompiledColumns, DampingColumns, RuleColumns
from fencepost.snapshot.damping import count_damped, join_damping
from fencepost.snapshot.explanation import Explanation, explain_computed, explain_group, explain_sides
from fencepost.snapshot.group import Batch, Group
from fencepost.snapshot.keys import KeyColumn, check_strings
from fencepost.snapshot.layer import Home, Layer, join_bands, join_columns, join_rules, take_bands
from fencepost.snapshot.saving import read_bytes, read_saved, to_arrays
from fencepost.snapshot.sides import all_sides, band_attributes, key_columns
from fencepost.snapshot.tables import Table

_LAYER_RATIO = 4
"""A layer is compiled again once what lies above it is a quarter as large: a rule is then compiled at most so often per
layer, and there are few layers to ask, about as many as the rules have digits in base 4."""


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
        layers: Sequence[Layer],
        hidden: Sequence[Bools | None],
        types: Mapping[str, AttributeType],
        paused: Mapping[int, int],
        version: int,
        zone: str = "UTC",
    ) -> None:
        self.layers = tuple(layers)
        self.hidden = tuple(hidden)
        """Per layer, which of its rules are gone or stand in a layer above; None if none are."""
        self.paused = dict(paused)
        """The versions of rules that are known but not in force, by id."""
        self.version = version
        self.zone = zone
        """The time zone that timestamps without one were read in."""
        self._starts: list[int] = np.cumsum([0, *map(len, layers)]).tolist()
        self._columns: dict[str, KeyColumn] = layers[-1].columns
        self._live = [
            (start, group)
            for layer, gone, start in zip(self.layers, self.hidden, self._starts, strict=False)
            for group in layer.groups
            if gone is None or not gone[group.rules].all()
        ]
        used = {name for _, group in self._live for name in group.attributes}
        known = {name: each for layer in self.layers for name, each in layer.computed.items()}
        self.computed = {name: known[name] for name in sorted(used) if name in known}
        """The attributes of boxes that are no columns, by name."""
        of_expressions = {name: type_ for each in self.computed.values() for name, type_ in each.columns.items()}
        strings = {name for name, type_ in of_expressions.items() if type_ == KEY}
        self._of_boxes = {**types, **{name: each.type for name, each in self.computed.items()}}
        used = (used - self.computed.keys()) | (of_expressions.keys() - strings)
        self.attributes = tuple(sorted(used))
        """The columns that boxes, or expressions, have ranges of; `types` has those of bands, too."""
        if self.bands is not None:
            used |= band_attributes(self.bands)
        self.types = {name: types[name] for name in sorted(used)}
        compared = {name for _, group in self._live for name in group.keys}
        self._of_expressions = frozenset(strings - compared)
        """Columns of strings that only expressions use."""
        self.keys = tuple(sorted(compared | strings))
        self.stay = self._find_stay(types)
        """The rules in force that are left by other borders than they are entered by, under the same ids, with their
        outer boxes; None where there are none. Their columns are among those of this snapshot."""
        self._only_of_stay: frozenset[str] = frozenset()
        if self.stay is not None:
            self._only_of_stay = frozenset({*self.stay.keys, *self.stay.types}.difference(self.keys, self.types))
            self.attributes = tuple(sorted({*self.attributes, *self.stay.attributes}))
            self.types = dict(sorted({**self.types, **self.stay.types}.items()))
            self.keys = tuple(sorted({*self.keys, *self.stay.keys}))

    def _find_stay(self, types: Mapping[str, AttributeType]) -> "Snapshot | None":
        layers: list[Layer] = []
        hidden: list[Bools | None] = []
        for layer, mask in zip(self.layers, self.hidden, strict=True):
            if layer.stay is not None:
                layers.append(layer.stay)
                hidden.append(None if mask is None else mask[layer.rows_of(layer.stay.rules.ids)])
        if all(mask is not None and mask.all() for mask in hidden):
            return None
        return Snapshot(layers, hidden, types, {}, self.version, self.zone)

    @classmethod
    def compile(
        cls, columns: CompiledColumns, paused: Mapping[int, int] | None = None, version: int = 0, zone: str = "UTC"
    ) -> "Snapshot":
        """Index bound rules; see `Rules.compile` for the usual way.

        Args:
            columns: the rules.
            paused: versions of rules that are known but not in force, by id.
            version: of the snapshot.
            zone: that timestamps without one were read in.
        """
        return cls([Layer.build(columns)], [None], columns.types, paused or {}, version, zone)

    def changed(
        self, gone: Int64s, columns: CompiledColumns, paused: Mapping[int, int] | None = None, version: int = 0
    ) -> "Snapshot":
        """The snapshot after a change, which shares every layer that the change leaves alone.

        Args:
            gone: ids of rules to leave out.
            columns: new rules, and ones to take the place of those with their ids.
            paused: as for `compile`.
            version: of the new snapshot.
        """
        hidden = self._hide(np.concatenate([gone, columns.rules.ids]))
        stay = {} if columns.stay is None else columns.stay.computed
        new: dict[str, Term | None] = {**expressions_of([*columns.computed.values(), *stay.values()])}
        for each in [] if columns.bands is None else all_sides(columns.bands):
            new |= each.expressions
        if new:
            check_number({**_expressions(self.layers, hidden), **new})
        layers, types = list(self.layers), {**self.types, **columns.types}
        parts, size = [columns], len(columns.rules.ids)
        kept = [len(layer) - _count(mask) for layer, mask in zip(layers, hidden, strict=True)]
        while layers and (
            kept[-1] < _LAYER_RATIO * size or 2 * kept[-1] < len(layers[-1]) or (len(layers) == 1 and not kept[0])
        ):
            layer, mask = layers.pop(), hidden.pop()
            rows = np.arange(len(layer)) if mask is None else np.flatnonzero(~mask)
            parts.append(layer.take(rows, types))
            size += kept.pop()
        if size or not layers:
            together = join_columns(parts[::-1], types)
            layers.append(Layer.build(together, layers))
            hidden.append(None)
        return Snapshot(layers, hidden, types, paused or {}, version, self.zone)

    def expressions_without(self, gone: Int64s) -> dict[str, Term | None]:
        """The distinct expressions of rules in force once those with these ids are gone, by their texts.

        Conditions of sides of bands are among them, which are no terms.
        """
        return _expressions(self.layers, self._hide(gone))

    def _hide(self, ids: Int64s) -> list[Bools | None]:
        """Which rules of each layer are hidden once those with these ids are, too."""
        masks = list(self.hidden)
        for place, layer in enumerate(self.layers):
            rows = layer.rows_of(ids)
            rows = rows[rows >= 0]
            mask = masks[place]
            if len(rows):
                masks[place] = np.zeros(len(layer), np.bool_) if mask is None else mask.copy()
                masks[place][rows] = True  # type: ignore[index]
        return masks

    def only(self, rows: Int64s) -> "Snapshot":
        """A snapshot of the rules in these ascending rows alone; its rows are 0, 1, ... in that order."""
        return Snapshot.compile(self.take(rows), version=self.version, zone=self.zone)

    def take(self, rows: Int64s) -> CompiledColumns:
        """The rules in these ascending rows as they were before they were indexed, numbered 0, 1, ... in that order."""
        parts = []
        for layer, start in zip(self.layers, self._starts, strict=False):
            own = rows[(rows >= start) & (rows < start + len(layer))] - start
            parts.append(layer.take(own, self.types))
        return join_columns(parts, self.types)

    def rows_beyond(self, columns: AbstractSet[str]) -> Int64s:
        """The rows of rules in force with a box over some other column than these."""
        found = [np.zeros(0, np.int64)]
        for (_, group), rows in zip(self._live, self._box_rows, strict=True):
            if not columns >= self._columns_of(group):
                found.append(rows)
        if self.stay is not None:
            found.append(self.rows_of(self.stay.rules.ids[self.stay.rows_beyond(columns)]))
        rows = np.unique(np.concatenate(found))
        return rows if self._any_hidden is None else rows[~self._any_hidden[rows]]

    def _columns_of(self, group: Group) -> set[str]:
        """The columns that the boxes of a group need."""
        found = {*group.keys}
        for name in group.attributes:
            found.update(self.computed[name].columns if name in self.computed else (name,))
        return found

    def without(self, rows: Int64s) -> "Snapshot":
        """The same version without the rules in these rows, which count as paused."""
        if not len(rows):
            return self
        ids, versions = self.rules.ids[rows], self.rules.versions[rows]
        paused = self.paused | dict(zip(ids.tolist(), versions.tolist(), strict=True))
        return Snapshot(self.layers, self._hide(ids), self.types, paused, self.version, self.zone)

    def with_version(self, version: int) -> "Snapshot":
        """The same rules under another number."""
        return Snapshot(self.layers, self.hidden, self.types, self.paused, version, self.zone)

    # -- asking -----------------------------------------------------------------------------------------

    def match(self, table: Any) -> Matches:
        """The ids of all rules that hold for each row; a null or NaN is in no range.

        Args:
            table: an Arrow table, a pandas or polars frame, a dict of arrays, or records (a list of dicts, where a
                missing key is a null); other columns do not matter.

        An answer that has no room in memory is refused: `match_pieces` gives it piece by piece.
        """
        return self.match_ids(self.encode(table))

    def match_pieces(self, table: Any) -> Iterator[tuple[int, Matches]]:
        """Like `match`, in pieces that have room: the number of the first row of each, and the ids of its rows.

        Most often there is one piece. ``FENCEPOST_ANSWER_MEMORY`` says how much memory there is, such as "2 GiB";
        else it is a quarter of what is free. A row that has no room by itself is refused.

        Args:
            table: as for `match`.
        """
        batch = self.encode(table)
        yield from in_pieces(batch.rows, lambda begin, end: (begin, self.match_ids(batch.only(begin, end))))

    def match_ids(self, batch: Batch) -> Matches:
        """Like `match`, for encoded rows."""
        if self._several or self._any_hidden is not None:
            found = self.match_rows(batch)
            return Matches(found.offsets, self.rules.ids[found.ids])
        return Matches(*self._found(batch, self._box_ids))

    def match_rows(self, batch: Batch) -> Matches:
        """Like `match_ids`, but the ids are rows of `rules`."""
        offsets, rows = self._found(batch, self._box_rows)
        if self._any_hidden is not None:
            drop_hidden(offsets, rows, self._any_hidden)
        if self._several:
            longest = int(np.diff(offsets).max(initial=0))
            unique_rows(offsets, rows, np.full(len(self.rules.ids) if longest > SHORT_ROW else 0, -1, np.int64))
        return Matches(offsets, rows[: offsets[-1]])

    @property
    def groups(self) -> list[tuple[Group, Int64s]]:
        """The groups with rules in force, and the row of each box's rule."""
        return [(group, rows) for (_, group), rows in zip(self._live, self._box_rows, strict=True)]

    @property
    def hidden_rows(self) -> Bools | None:
        """Which rows of `rules` are hidden; None if none are."""
        return self._any_hidden

    @cached_property
    def has_borders(self) -> bool:
        """Whether `crossings` can tell: every rule is one box, and all groups have borders."""
        return not self._several and all(group.has_borders for _, group in self._live)

    def repays_borders(self, moves: int) -> bool:
        """Whether so many moves, with those asked about before, are worth building what `crossings` needs."""
        repaid = [layer.repays_borders(moves) for layer in self.layers]  # every layer counts its moves
        return all(repaid)

    def crossings(self, batch: Batch, before: Int64s, after: Int64s) -> list[tuple[Int64s, Int64s]]:
        """What moves between rows of the batch enter, and what they leave: pairs of move and row of `rules`.

        Args:
            batch: where moves start and end.
            before: the row each starts at, or -1 if it has no start.
            after: the row each ends at; where the start has a value, the end has one, too.
        """
        kinds: tuple[list[tuple[Int64s, Int64s]], ...] = ([], [])
        for (_, group), rows in zip(self._live, self._box_rows, strict=True):
            found = group.crossings(batch, before, after)
            for kind, each in zip(kinds, (found.enter, found.exit), strict=True):
                kind.append((np.repeat(np.arange(len(after)), each.counts), rows[each.ids]))
        nothing = np.zeros(0, np.int64)
        pairs = []
        for kind in kinds:
            moves, rules = (np.concatenate(column) for column in zip((nothing, nothing), *kind, strict=True))
            if self._any_hidden is not None:
                shown = ~self._any_hidden[rules]
                moves, rules = moves[shown], rules[shown]
            pairs.append((moves, rules))
        return pairs

    def jumps(self, batch: Batch, before: Int64s, after: Int64s) -> tuple[Int64s, Int64s]:
        """Which rules that detect cross moves between rows of the batch jump over: pairs of move and row of `rules`.

        The straight line of a move meets a box of the rule, while neither end is in any of its boxes.

        Args:
            batch: where moves start and end.
            before: the row each starts at, or -1 if it has no start.
            after: the row each ends at.
        """
        detects, nothing = self.rules.detects, np.zeros(0, np.int64)
        found = [(nothing, nothing)]
        for start, group in self._live:
            moves, boxes = group.jumps(batch, before, after, detects[start:], self._of_boxes)
            if len(boxes):
                found.append((moves, start + group.rules[boxes]))
        moves, rules = (np.concatenate(column) for column in zip(*found, strict=True))
        if self._any_hidden is not None:
            shown = ~self._any_hidden[rules]
            moves, rules = moves[shown], rules[shown]
        return self._outside_all_boxes(batch, before, after, moves, rules) if self._several else (moves, rules)

    def _outside_all_boxes(
        self, batch: Batch, before: Int64s, after: Int64s, moves: Int64s, rules: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Of pairs of move and rule, each once: those of rules with one box, and where no other box holds an end."""
        is_open = np.concatenate([layer.have_several_boxes for layer in self.layers])
        asked = is_open[rules]
        if not asked.any():
            return moves, rules
        count = len(is_open)
        open_moves, open_rules = np.divmod(np.unique(moves[asked] * count + rules[asked]), count)
        ends = np.unique(np.concatenate([before[open_moves], after[open_moves]]))
        held = self.match_rows(batch.take(ends))
        inside = np.repeat(ends, held.counts) * count + held.ids
        inside = inside[is_open[held.ids]]
        outside = ~(
            np.isin(before[open_moves] * count + open_rules, inside)
            | np.isin(after[open_moves] * count + open_rules, inside)
        )
        return (
            np.concatenate([moves[~asked], open_moves[outside]]),
            np.concatenate([rules[~asked], open_rules[outside]]),
        )

    def _found(self, batch: Batch, numbers: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
        """What all groups find, row by row: for each box its number, which is given per group."""
        if len(self._live) == 1 and (named := self._live[0][1].match_names(batch, numbers[0])) is not None:
            return named
        with share_room(3):  # boxes in 4 bytes each, then rules in 8
            answers = [group.match(batch) for _, group in self._live]
        if len(answers) == 1:
            offsets, boxes = answers[0]
            found = answer_array(len(boxes), np.int64)[: len(boxes)]
            rules_of(boxes, numbers[0], found)
            return offsets, found
        offsets = np.zeros(batch.rows + 1, np.int64)
        for own, _ in answers:
            offsets += own
        check_room(12 * int(offsets[-1]))
        found = answer_array(int(offsets[-1]), np.int64)[: int(offsets[-1])]
        cursor = offsets[:-1].copy()
        for (own, boxes), of_boxes in zip(answers, numbers, strict=True):
            join_rows(own, boxes, of_boxes, cursor, found)
        return offsets, found

    @cached_property
    def _box_rows(self) -> list[Int64s]:
        """Per live group, the row of each box's rule."""
        return [start + group.rules if start else group.rules for start, group in self._live]

    @cached_property
    def _box_ids(self) -> list[Int64s]:
        """Per live group, the id of each box's rule."""
        return [self.rules.ids[rows] for rows in self._box_rows]

    @cached_property
    def _several(self) -> bool:
        """Whether some rule has several boxes and may come up twice."""
        return any(layer.has_rules_of_several_boxes for layer in self.layers)

    @cached_property
    def _any_hidden(self) -> Bools | None:
        """Which rows of `rules` are hidden; None if none are."""
        if all(mask is None for mask in self.hidden):
            return None
        masks = [
            np.zeros(len(layer), np.bool_) if mask is None else mask
            for layer, mask in zip(self.layers, self.hidden, strict=True)
        ]
        return np.concatenate(masks)

    def encode(self, table: Any) -> Batch:
        """The rows as ordinals and key codes; refuses what cannot be converted exactly, naming the column.

        Columns that only bands or `stay` use may be missing.
        """
        given = table if isinstance(table, Table) else Table(table)
        given.fill((*self.types, *self.keys))
        for name in (*self.types, *self.keys):
            if given.find(name) is not None or name in self._only_of_stay:
                continue
            if (user := self.user_of(name)) is not None:
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
        keys = {}
        for name in self.keys:
            if name not in self._of_expressions:
                keys[name] = self.encode_key(name, _strings_of(given, name))
        batch = Batch(given.rows, ordinals, valid, keys)
        return self.with_computed(batch, lambda name: _strings_of(given, name)) if self.computed else batch

    def with_computed(self, batch: Batch, strings: Callable[[str], Any]) -> Batch:
        """Rows with the ordinals of computed attributes; the batch gains them.

        Args:
            batch: the ordinals of columns.
            strings: gives the Arrow array, perhaps a dictionary, of a key column.
        """
        if self.computed:
            given = Given(batch.rows, batch.ordinals, batch.valid, strings)
            found = {name: each.ordinals(given) for name, each in self.computed.items()}
            for name, (ordinals, valid) in found.items():
                batch.ordinals[name], batch.valid[name] = ordinals, valid
        return batch

    def encode_key(self, column: str, values: Any) -> Int64s:
        """The codes of an Arrow array of strings in one key column: -1 for null, -2 for a string of no rule."""
        return self._columns[column].codes(values)

    def key_column(self, name: str) -> KeyColumn:
        """The strings of one key column, with their codes."""
        return self._columns[name]

    @property
    def columns(self) -> dict[str, str]:
        """Every column that rules use, with the name of its type, "key" for a column of strings."""
        compared = {*self.keys, *key_columns(self.bands)}
        return dict.fromkeys(sorted(compared), KEY) | {name: str(kind) for name, kind in self.types.items()}

    def user_of(self, column: str) -> int | None:
        """A rule whose boxes, or those of its `stay`, need the column; None if only bands have it."""
        for start, group in self._live:
            if column in group.keys or column in group.attributes or column in self._columns_of(group):
                rows = start + group.rules
                shown = rows if self._any_hidden is None else rows[~self._any_hidden[rows]]
                return int(self.rules.ids[shown[0]])
        return None if self.stay is None else self.stay.user_of(column)

    # -- looking into it --------------------------------------------------------------------------------

    @cached_property
    def rules(self) -> RuleColumns:
        """A row per rule, layer by layer, hidden ones included."""
        return join_rules([layer.rules for layer in self.layers])

    @cached_property
    def in_force(self) -> Int64s:
        """The rows of `rules` that are not hidden."""
        return np.arange(self._starts[-1]) if self._any_hidden is None else np.flatnonzero(~self._any_hidden)

    @cached_property
    def bands(self) -> BandColumns | None:
        """The bands of the rules in force."""
        parts: list[tuple[int, BandColumns | None]] = []
        for layer, mask, start in zip(self.layers, self.hidden, self._starts, strict=False):
            bands = layer.bands
            if bands is not None and mask is not None:
                bands = take_bands(bands, np.flatnonzero(~mask[bands.rules]))
            parts.append((start, bands))
        return join_bands(parts)

    @cached_property
    def damping(self) -> DampingColumns | None:
        """The damping of rules, by their rows, hidden ones included; None where no rule is damped."""
        parts = zip(self._starts, (layer.damping for layer in self.layers), strict=False)
        return join_damping(list(parts))

    @property
    def dropped(self) -> dict[int, tuple[str, ...]]:
        """By id of a rule in force, branches that can never hold."""
        found: dict[int, tuple[str, ...]] = {}
        for layer, mask in zip(self.layers, self.hidden, strict=True):
            ids = np.array(list(layer.dropped), np.int64)
            shown = np.ones(len(ids), np.bool_) if mask is None else ~mask[layer.rows_of(ids)]
            found |= {id: layer.dropped[id] for id in ids[shown].tolist()}
        return found

    def rows_of(self, ids: Int64s) -> Int64s:
        """The row of the rule in force with each id, or -1."""
        found = np.full(len(ids), -1, np.int64)
        for layer, mask, start in zip(self.layers, self.hidden, self._starts, strict=False):
            rows = layer.rows_of(ids)
            shown = rows >= 0 if mask is None else (rows >= 0) & ~mask[rows]
            found[shown] = start + rows[shown]
        return found

    def versions_of(self, ids: Int64s) -> Int64s:
        """The version of the rule in force with each id, or -1; without a look at any other rule."""
        found = np.full(len(ids), -1, np.int64)
        for layer, mask in zip(self.layers, self.hidden, strict=True):
            rows = layer.rows_of(ids)
            shown = rows >= 0 if mask is None else (rows >= 0) & ~mask[rows]
            found[shown] = layer.rules.versions[rows[shown]]
        return found

    def rows_named(self, names: Any) -> Int64s:
        """The row of the rule in force with each of these names, an Arrow array of strings, or -1."""
        found = np.full(len(names), -1, np.int64)
        for layer, mask, start in zip(self.layers, self.hidden, self._starts, strict=False):
            rows = layer.rows_named(names)
            shown = rows >= 0 if mask is None else (rows >= 0) & ~mask[rows]
            found[shown] = start + rows[shown]
        return found

    def id_of(self, name: str) -> int:
        """The id of the rule in force with a name.

        Args:
            name: of the rule.
        """
        row = int(self.rows_named(pa.array([name], pa.large_string()))[0])
        if row < 0:
            raise FencepostError(f"no rule in force has the name {name!r}", "the name of one", "Correct the name.")
        return int(self.rules.ids[row])

    def unlike(self, other: "Snapshot") -> Int64s:
        """The rows of the rules in force here that the other has not, or perhaps has in another form."""
        theirs = {layer.identity: mask for layer, mask in zip(other.layers, other.hidden, strict=True)}
        rows = []
        for layer, mask, start in zip(self.layers, self.hidden, self._starts, strict=False):
            shown = np.ones(len(layer), np.bool_) if mask is None else ~mask
            if layer.identity in theirs:
                hidden_there = theirs[layer.identity]
                shown = np.zeros(len(layer), np.bool_) if hidden_there is None else shown & hidden_there
            rows.append(start + np.flatnonzero(shown))
        return np.concatenate(rows)

    def boxes_of(self, row: int) -> list[tuple[dict[str, str], dict[str, tuple[int, int]]]]:
        """The boxes of one rule: its keys, and ranges of ordinals by attribute."""
        found = []
        for start, group in self._live:
            for box in group.boxes_of(row - start):
                codes = zip(group.keys, group.key_codes(box), strict=True)
                found.append(({name: self._columns[name].string(code) for name, code in codes}, group.ranges(box)))
        return found

    def explain(self) -> Explanation:
        """The groups, the structure that serves each and the reason, bytes, and what was dropped."""
        groups = tuple(explain_group(group, self._starts.index(start)) for start, group in self._live)
        types = {name: str(kind) for name, kind in self.types.items()}
        bands = 0 if self.bands is None else len(self.bands.rules)
        damped, by = (0, {}) if self.damping is None else count_damped(self.damping, self._any_hidden)
        boxes = zip((group for _, group in self._live), self._box_rows, strict=True)
        computed = explain_computed(self.computed, boxes, self.rules.ids, self._any_hidden)
        if self.bands is not None:
            computed += explain_sides(self.bands, self.rules.ids)
        return Explanation(self.version, len(self), types, groups, self.dropped, bands, self.zone, damped, by, computed)

    def __len__(self) -> int:
        return self._starts[-1] - sum(map(_count, self.hidden))

    def __repr__(self) -> str:
        columns = ", ".join([*self.keys, *self.types])
        on = f" on {columns}" if columns else ""
        return f"Snapshot(version {self.version}, {count(len(self), 'rule')}{on})"

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    # -- keeping it -------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str] | Place, shared: bool = False) -> None:
        """Write the snapshot as a new directory: a checksummed header and one file of flat arrays.

        Args:
            path: where, or the URL of it.
            shared: leave out the layers that directories beside it hold, and name those instead; it then needs them.
        """
        path = place_of(path)
        header, arrays, texts = to_arrays(self, path.parent.absolute() if shared else None)
        digest = store.write(path, header, arrays, texts)
        for number, (layer, each) in enumerate(zip(self.layers, header["layers"], strict=True)):
            if "in" not in each:
                layer.note_home(Home(path.absolute(), number, digest))

    @classmethod
    def load(cls, path: str | PathLike[str] | Place, verify: bool = True) -> "Snapshot":
        """Map a saved snapshot into memory; refuses one that is truncated, changed, foreign or newer.

        Args:
            path: what `save` wrote.
            verify: compare the checksum of every byte; skip it only where this host has verified the same version.
        """
        return cls(*read_saved(place_of(path), verify))

    def to_bytes(self, note: Any = None) -> bytes:
        """The snapshot as bytes, with a checksum; `from_bytes` of any process reads them, and so does pickle.

        Args:
            note: anything of JSON that the bytes are to say of themselves; `note_of` reads it.

        >>> from fencepost.rules import Rules
        >>> rules = Rules()
        >>> rules.add(1, "price > 40")
        >>> Snapshot.from_bytes(rules.compile().to_bytes()).match({"price": [39.0, 41.0]}).sets()
        [set(), {1}]
        """
        header, arrays, texts = to_arrays(self)
        return store.pack(header if note is None else {**header, "note": note}, arrays, texts)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "Snapshot":
        """The snapshot that `to_bytes` wrote; refuses bytes that were changed.

        Args:
            data: the bytes.
        """
        return cls(*read_bytes(data))

    def __reduce__(self) -> Any:
        return Snapshot.from_bytes, (self.to_bytes(),)

    def __copy__(self) -> "Snapshot":
        return self  # nobody can change it

    def __deepcopy__(self, _: Any) -> "Snapshot":
        return self


def _strings_of(table: Table, name: str) -> Any:
    """A column of strings; nulls where there is none."""
    if table.find(name) is None:
        return pa.nulls(table.rows, pa.large_string())
    return check_strings(name, table.arrow(name))


def _expressions(layers: Sequence[Layer], hidden: Sequence[Bools | None]) -> dict[str, Term | None]:
    """The distinct expressions of boxes, the outer ones too, and of bands, of rules that are not hidden."""
    found: dict[str, Term | None] = {}
    for layer, mask in zip(layers, hidden, strict=True):
        used = set()
        for group in layer.groups if layer.computed else ():
            of_group = layer.computed.keys() & group.attributes
            if of_group and (mask is None or not mask[group.rules].all()):
                used |= of_group
        found |= expressions_of(layer.computed[name] for name in sorted(used))
        if layer.bands is not None and layer.has_sides:
            bands = layer.bands
            own = bands if mask is None else take_bands(bands, np.flatnonzero(~mask[bands.rules]))
            for each in [] if own is None else all_sides(own):
                found |= each.expressions
        if layer.stay is not None:
            of_stay = None if mask is None else mask[layer.rows_of(layer.stay.rules.ids)]
            found |= _expressions([layer.stay], [of_stay])
    return found


def _count(mask: Bools | None) -> int:
    return 0 if mask is None else int(np.count_nonzero(mask))
