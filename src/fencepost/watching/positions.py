"""Where objects are: known values as ordinals, and keys as codes of strings the monitor has met."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost._arrow import strings_array
from fencepost.computed import Computed, Given
from fencepost.errors import check_whole
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.snapshot import Snapshot
from fencepost.snapshot.group import Batch
from fencepost.snapshot.keys import KeyColumn

NO_KEY = -1
"""The code of a key that is not known."""
_ONLY_NO_KEY = np.array([NO_KEY], np.int64)
_MOST_TRANSLATIONS = 4
_FEW, _STRING = 256, pa.string()
"""Strings up to which each is looked up by itself, and the type of such."""


class Positions(NamedTuple):
    """One row per position; the three dicts have a column per attribute or key."""

    rows: int
    ordinals: dict[str, Int64s]
    known: dict[str, Bools]
    keys: dict[str, Int64s]
    """Codes of `KeyStrings`, or `NO_KEY`."""

    def take(self, chosen: Int64s) -> "Positions":
        """The chosen rows."""
        return Positions(
            len(chosen),
            {name: column[chosen] for name, column in self.ordinals.items()},
            {name: column[chosen] for name, column in self.known.items()},
            {name: column[chosen] for name, column in self.keys.items()},
        )

    def followed_by(self, other: "Positions") -> "Positions":
        """These rows, then the others."""
        if not self.rows:
            return other
        return Positions(
            self.rows + other.rows,
            {name: np.concatenate([column, other.ordinals[name]]) for name, column in self.ordinals.items()},
            {name: np.concatenate([column, other.known[name]]) for name, column in self.known.items()},
            {name: np.concatenate([column, other.keys[name]]) for name, column in self.keys.items()},
        )


class KeyStrings:
    """Every string that a key column has had, by code, and the codes a snapshot has for them.

    Snapshots know only the strings of their rules. A rule added later may mention any other, so the monitor keeps
    its own codes and translates them once per key column of a snapshot.

    >>> strings = KeyStrings()
    >>> strings.codes(pa.array(["IBM", None, "IBM"])).tolist(), strings.text(0)
    ([0, -1, 0], 'IBM')
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._texts = list(texts)
        self._codes = {text: code for code, text in enumerate(self._texts)}
        self._translations: dict[int, tuple[KeyColumn, Int64s]] = {}
        self._array: Any = None

    def __len__(self) -> int:
        return len(self._texts)

    def code(self, text: str) -> int:
        """The code of one string, a new one if need be."""
        code = self._codes.get(text)
        if code is None:
            check_whole(text)  # nothing that could never be shown or saved is kept
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def find(self, text: str) -> int:
        """The code of one string, or one that no position has."""
        return self._codes.get(text, NO_KEY - 1)

    def text(self, code: int) -> str | None:
        """The string of a code."""
        return None if code == NO_KEY else self._texts[code]

    def array(self) -> Any:
        """All strings by their codes, an Arrow array."""
        known = 0 if self._array is None else len(self._array)
        if known < len(self._texts) or self._array is None:
            new = pa.array(self._texts[known:], pa.string())
            self._array = pa.concat_arrays([self._array, new]) if known else new
        return self._array

    def texts(self, codes: Int64s) -> Any:
        """The strings of codes, an Arrow array."""
        distinct, where = np.unique(codes, return_inverse=True)
        return pa.array([self.text(code) for code in distinct.tolist()], pa.string()).take(pa.array(where))

    def taken(self, codes: Int64s) -> Any:
        """The strings of codes, an Arrow array; null for negative ones."""
        if len(codes) <= _FEW:
            return strings_array([None if code < 0 else self._texts[code] for code in codes.tolist()])
        known = codes >= 0
        return self.array().take(pa.array(np.where(known, codes, 0), mask=None if known.all() else ~known))

    def strings(self, codes: Int64s) -> Any:
        """The same: a dictionary where there are more codes than strings."""
        if len(codes) <= max(_FEW, len(self._texts)):
            return self.taken(codes)
        known = codes != NO_KEY
        indices = pa.array(np.where(known, codes, 0), mask=None if known.all() else ~known)
        return pa.DictionaryArray.from_arrays(indices, self.array())

    def codes(self, array: Any) -> Int64s:
        """The codes of an Arrow array of strings."""
        if len(array) <= _FEW and array.type == _STRING:
            own = list(map(self._codes.get, array.to_pylist()))
            if None in own:
                own = [NO_KEY if text is None else self.code(text) for text in array.to_pylist()]
            return np.array(own, np.int64)
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        own = list(map(self._codes.get, texts))
        if None in own:
            own = [NO_KEY if text is None else self.code(text) for text in texts]
        indices = encoded.indices.fill_null(len(own)) if encoded.indices.null_count else encoded.indices
        found: Int64s = np.array([*own, NO_KEY], np.int64)[np.asarray(indices)]
        return found

    def ranks(self, codes: Int64s) -> Int64s:
        """Numbers that order codes as their strings are ordered; what is not known comes first."""
        distinct, where = np.unique(codes, return_inverse=True)
        texts = [self.text(code) or "" for code in distinct.tolist()]
        order = sorted(range(len(texts)), key=lambda i: (distinct[i] != NO_KEY, texts[i]))
        ranks = np.empty(len(texts), np.int64)
        ranks[order] = np.arange(len(texts))
        return ranks[where]

    def translate(self, codes: Int64s, column: KeyColumn) -> Int64s:
        """The codes that a snapshot's key column has for these strings."""
        found: Int64s = self.translation(column)[codes]
        return found

    def translation(self, column: KeyColumn) -> Int64s:
        """By the code of each string here, the code that a snapshot's key column has for it; and that of none, last."""
        made_for, table = self._translations.get(id(column), (column, _ONLY_NO_KEY))
        if len(table) <= len(self._texts):
            new = column.codes(pa.array(self._texts[len(table) - 1 :], pa.large_string()))
            table = np.concatenate([table[:-1], new, _ONLY_NO_KEY])  # NO_KEY is -1: the last one
            if len(self._translations) > _MOST_TRANSLATIONS:
                self._translations.clear()  # of columns that are gone
            self._translations[id(column)] = (made_for, table)  # keeps the column, and so its id
        return table

    def compact(self, codes: Int64s) -> tuple["KeyStrings", Int64s]:
        """Only the strings that are in use, and their codes."""
        used, where = np.unique(codes[codes != NO_KEY], return_inverse=True)
        renumbered = np.full(len(codes), NO_KEY, np.int64)
        renumbered[codes != NO_KEY] = where
        return KeyStrings([self._texts[code] for code in used.tolist()]), renumbered


def batch_of(snapshot: Snapshot, positions: Positions, strings: Mapping[str, KeyStrings]) -> Batch:
    """The positions as a snapshot takes them."""
    batch = Batch(
        positions.rows,
        {name: positions.ordinals[name] for name in snapshot.attributes},
        {name: None if positions.known[name].all() else positions.known[name] for name in snapshot.attributes},
        {name: strings[name].translate(positions.keys[name], snapshot.key_column(name)) for name in snapshot.keys},
    )
    return with_computed(snapshot, batch, positions, strings) if snapshot.computed else batch


def with_computed(snapshot: Snapshot, batch: Batch, positions: Positions, strings: Mapping[str, KeyStrings]) -> Batch:
    """The positions with the computed attributes that a snapshot has."""
    return snapshot.with_computed(batch, lambda name: strings[name].strings(positions.keys[name]))


def computed_ordinals(
    computed: Mapping[str, Computed], positions: Positions, strings: Mapping[str, KeyStrings]
) -> dict[str, tuple[Int64s, Bools]]:
    """Computed attributes of positions: their ordinals, and which of them are known."""
    given = Given(
        positions.rows, positions.ordinals, positions.known, lambda name: strings[name].strings(positions.keys[name])
    )
    found = {name: each.ordinals(given) for name, each in computed.items()}
    everywhere = np.ones(positions.rows, np.bool_)
    return {name: (ordinals, everywhere if known is None else known) for name, (ordinals, known) in found.items()}
