"""What bands compute of the rows of one side, and which rows meet the conditions of sides: once for all rules."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fencepost._arrow import text_array
from fencepost.computed import Computed, Given
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.matches import Matches, in_pieces
from fencepost.ordinals import KEY, AttributeType
from fencepost.rules.band_columns import read_where
from fencepost.rules.box_groups import BoxGroups, types_of
from fencepost.snapshot import NEVER, Snapshot
from fencepost.snapshot.columns import CompiledColumns, RuleColumns
from fencepost.snapshot.group import Batch
from fencepost.snapshot.sides import BandSides
from fencepost.watching.positions import NO_KEY, KeyStrings, Positions


class Keys(NamedTuple):
    """A key of rows: codes, and the string of each code."""

    codes: Int64s
    texts: "KeyStrings | Texts"

    def text(self, code: int) -> str:
        """The string of a code that is one."""
        return self.texts.text(code) or ""


class Combined(NamedTuple):
    """Several keys of rows together."""

    texts: list[tuple[str, ...] | None]
    """The distinct combinations; None where one of the keys is not known."""
    where: Int64s
    """Of each row, which of them it has."""
    known: Bools
    """Which rows have all keys."""


class Texts:
    """Strings by their codes."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def text(self, code: int) -> str:
        """The string of a code."""
        return self._texts[code]


class Conditions:
    """The conditions on rows of one side that bands have, as boxes of a snapshot, which finds those that rows meet."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """By the text of a condition its row in the snapshot."""
        self._sides: dict[str, BandSides] = {}
        self._snapshot: Snapshot | None = None

    def learn(self, text: str, sides: BandSides) -> None:
        """Take in the condition of a band on this side, unless it is known; `sides` has its expressions."""
        if text and text not in self._sides:
            self._sides[text] = sides
            self._forget()

    def keep(self, texts: Iterable[str]) -> None:
        """Forget all conditions but these."""
        kept = {*texts}
        if not self._sides.keys() <= kept:
            self._sides = {text: sides for text, sides in self._sides.items() if text in kept}
            self._forget()

    def _forget(self) -> None:
        self.numbers, self._snapshot = {text: row for row, text in enumerate(self._sides)}, None

    @property
    def snapshot(self) -> Snapshot:
        """A rule per condition."""
        if self._snapshot is None:
            self._snapshot = self._compiled()
        return self._snapshot

    def _compiled(self) -> Snapshot:
        groups, known = BoxGroups(), dict[str, Computed]()
        types: dict[str, AttributeType] = {}
        for text, sides in self._sides.items():
            known |= sides.computed
            types |= {name: type_ for name, type_ in sides.columns.items() if isinstance(type_, AttributeType)}
            for box in read_where(text):
                groups.add(self.numbers[text], box)
        boxes = groups.finished()
        used = {name for each in boxes for name in each.attributes}
        computed = {name: each for name, each in {**known, **groups.computed}.items() if name in used}
        count = len(self._sides)
        nothing = pa.nulls(count, pa.large_string())
        rules = RuleColumns(
            np.arange(count),
            np.ones(count, np.int64),
            np.ones(count, np.uint8),
            np.zeros(count, np.bool_),
            np.full(count, NEVER),
            text_array(list(self._sides)),
            nothing,
            nothing,
        )
        attributes = dict(sorted(types_of(boxes, computed, types).items()))
        return Snapshot.compile(CompiledColumns(rules, boxes, attributes, None, {}, computed=computed))


class SideValues:
    """Positions of one side, and what is computed of them, each once.

    Args:
        positions: the rows.
        strings: of the key columns of the side.
        conditions: on rows of the side.
    """

    def __init__(self, positions: Positions, strings: Mapping[str, KeyStrings], conditions: Conditions) -> None:
        self.positions, self._strings, self._conditions = positions, strings, conditions
        self._given = Given(positions.rows, positions.ordinals, positions.known, self._strings_of)
        self._keys: dict[str, Keys] = {}
        self._combined: dict[tuple[str, ...], Combined] = {}
        self._met: Bools | None = None

    def _strings_of(self, name: str) -> pa.Array:
        return self._strings[name].strings(self.positions.keys[name])

    def ordinals(self, name: str, computed: Computed | None) -> tuple[Int64s, Bools]:
        """The ordinals of a column or an expression, and which rows have one."""
        if computed is None:
            return self.positions.ordinals[name], self.positions.known[name]
        ordinals, known = computed.ordinals(self._given)
        return ordinals, np.ones(self.positions.rows, np.bool_) if known is None else known

    def keys(self, name: str, computed: Computed | None) -> Keys:
        """A column or an expression as keys."""
        if computed is None:
            return Keys(self.positions.keys[name], self._strings[name])
        if name not in self._keys:
            self._keys[name] = self._computed_keys(computed)
        return self._keys[name]

    def combined(self, names: tuple[str, ...], computed: Mapping[str, Computed]) -> Combined:
        """Several keys together, at least one; found once for all indexes that compare them."""
        found = self._combined.get(names)
        if found is None:
            keys = [self.keys(name, computed.get(name)) for name in names]
            codes = np.stack([key.codes for key in keys], axis=1)
            known = (codes != NO_KEY).all(axis=1)
            distinct, where = np.unique(codes, axis=0, return_inverse=True)
            texts = [
                None if NO_KEY in each else tuple(key.text(code) for key, code in zip(keys, each, strict=True))
                for each in distinct.tolist()
            ]
            found = self._combined[names] = Combined(texts, where.reshape(-1), known)
        return found

    def _computed_keys(self, computed: Computed) -> Keys:
        if computed.term.type == KEY:
            found = self._given.strings(computed.term)
        else:  # as columns that are no strings: by their ordinals
            ordinals, known = computed.ordinals(self._given)
            found = pa.array(ordinals, mask=None if known is None else ~known)
        if pa.types.is_dictionary(found.type):
            found = found.dictionary_decode()
        encoded = found.dictionary_encode()
        codes = np.asarray(encoded.indices.fill_null(NO_KEY)).astype(np.int64)
        return Keys(codes, Texts([str(each) for each in encoded.dictionary.to_pylist()]))

    def met(self, condition: str) -> Bools:
        """Which rows meet a condition of the side."""
        if self._met is None:
            self._met = self._find_met()
        found: Bools = self._met[self._conditions.numbers[condition]]
        return found

    def _find_met(self) -> Bools:
        snapshot, rows = self._conditions.snapshot, self.positions.rows
        known, strings = self.positions.known, self._strings
        batch = Batch(
            rows,
            {name: self.positions.ordinals[name] for name in snapshot.attributes},
            {name: None if known[name].all() else known[name] for name in snapshot.attributes},
            {n: strings[n].translate(self.positions.keys[n], snapshot.key_column(n)) for n in snapshot.keys},
        )
        for name, each in snapshot.computed.items():
            batch.ordinals[name], batch.valid[name] = each.ordinals(self._given)
        met = np.zeros((len(snapshot), rows), np.bool_)

        def find(begin: int, end: int) -> tuple[int, Matches]:
            return begin, snapshot.match_rows(batch.only(begin, end))

        for begin, found in in_pieces(rows, find):
            at = begin + np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
            met[found.ids, at] = True
        return met
