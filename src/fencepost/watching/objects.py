"""The objects a monitor knows: each value has a slot, and slots index the arrays of its state."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._arrow import plain_array
from fencepost.errors import FencepostError
from fencepost.events import Identities, Identity, identify
from fencepost.indexes.arrays import Int64s
from fencepost.snapshot import Table

UNKNOWN = -1
_LARGEST_DIRECT = 2**22
_FEW, _INT64 = 256, pa.int64()
"""Objects up to which each is looked up by itself, and the type of plain integers."""


class Objects:
    """Slots of objects, in the order of their first appearance.

    Integers from 0 to four million are looked up in an array, other integers in a sorted one, and everything else
    in a dictionary, once per distinct value of a batch.

    >>> objects = Objects()
    >>> objects.slots(pa.array(["a", "b", "a"]), add=True).tolist(), len(objects)
    ([0, 1, 0], 2)
    >>> objects.values(np.array([1])).to_pylist(), objects.values(np.array([1, 0, 1])).to_pylist()
    (['b'], ['b', 'a', 'b'])
    """

    def __init__(self, type: Any = None) -> None:
        self.type = type
        """The Arrow type of all objects; None until the first is seen."""
        self._count = 0
        self._identities = Identities(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._direct = np.zeros(0, np.int64)
        self._sorted = np.zeros(0, np.int64)
        self._sorted_slots = np.zeros(0, np.int64)
        self._named: dict[Any, int] = {}
        self._names: list[Any] = []

    def __len__(self) -> int:
        return self._count

    @property
    def is_integer(self) -> bool:
        """Whether objects are integers."""
        return self.type is not None and pa.types.is_integer(self.type)

    @property
    def id_type(self) -> Any:
        """The Arrow type of the names of objects in events."""
        return self.type

    def emptied(self, *, typed: bool = True) -> "Objects":
        """The same without any object, and perhaps without their type."""
        return Objects(self.type if typed else None)

    def read(self, table: Table, name: str) -> Any:
        """The objects of a batch, null where there is none."""
        return self.accept(table.arrow(name), name)

    def accept(self, column: Any, name: str) -> Any:
        """The column as one plain Arrow array of the objects' type, which the first batch decides."""
        array = takeable(plain(column))
        if pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        if pa.types.is_null(array.type):
            return array
        if self.type is None:
            identify(array.slice(0, 1))  # refuses a type without identities before anything is kept
            return array
        if array.type == self.type:
            return array
        try:
            return array.cast(self.type)
        except pa.ArrowException as error:
            raise FencepostError(
                f"objects in {name} of type {array.type} ({error})",
                f"{self.type}, as in the first batch",
                "Cast the column.",
            ) from None

    def slots(self, array: Any, *, add: bool) -> Int64s:
        """The slot of each object of an accepted array without nulls; unknown ones get a new slot if asked."""
        if self.type is None and add:
            self.type = array.type
        if self.is_integer:
            return self._integer_slots(np.asarray(array if array.type == _INT64 else array.cast(_INT64)), add)
        if len(array) <= _FEW and not add:
            return np.array([self._named.get(value, UNKNOWN) for value in array.to_pylist()], np.int64)
        encoded = array.dictionary_encode()
        if add:
            self._name([value for value in encoded.dictionary.to_pylist() if value not in self._named])
        known = [self._named.get(value, UNKNOWN) for value in encoded.dictionary.to_pylist()]
        found: Int64s = np.array(known, np.int64)[np.asarray(encoded.indices)]
        return found

    def slot(self, value: Any) -> int:
        """The slot of one object, or `UNKNOWN`."""
        if not self.is_integer:
            return self._named.get(value, UNKNOWN)
        if not isinstance(value, int) or not -(2**63) <= value < 2**63:
            return UNKNOWN
        if 0 <= value < len(self._direct):
            return int(self._direct[value])
        return int(self._find_integers(np.array([value], np.int64))[0])

    def identities(self, slots: Int64s) -> Identities:
        """The part of event ids that says which objects these are."""
        return self._identities.take(slots)

    def identity(self, slot: int) -> Identity:
        """The same for one object."""
        tags, lows, highs = self._identities
        return Identity(int(tags[slot]), int(lows[slot]), int(highs[slot]))

    def values(self, slots: Int64s) -> Any:
        """The objects themselves, an Arrow array."""
        if self.type is None:
            return pa.nulls(len(slots))
        if self.is_integer:
            integers = plain_array(_INT64, self.integers(slots))
            return integers if self.type == _INT64 else integers.cast(self.type)
        if len(slots) > len(self._names):
            return pa.array(self._names, self.type).take(pa.array(slots))
        return pa.array([self._names[slot] for slot in slots.tolist()], self.type)

    def ids(self, values: Any) -> Any:
        """The names of these objects in events."""
        return values

    def integers(self, slots: Int64s) -> Int64s:
        """The objects themselves, which are integers."""
        return self._identities.lows[slots]

    def _integer_slots(self, values: Int64s, add: bool) -> Int64s:
        found = self._find_integers(values)
        if not add or not (found == UNKNOWN).any():
            return found
        distinct, first = np.unique(values[found == UNKNOWN], return_index=True)
        self._add_integers(distinct[np.argsort(first)])
        return self._find_integers(values)

    def _find_integers(self, values: Int64s) -> Int64s:
        if len(values) == 1 and 0 <= (value := values.item()) < len(self._direct):
            return self._direct[value : value + 1].copy()
        found = np.full(len(values), UNKNOWN, np.int64)
        direct = (values >= 0) & (values < len(self._direct))
        if direct.all():
            return self._direct[values] if len(values) else found
        found[direct] = self._direct[values[direct]]
        if len(self._sorted):
            rest = np.flatnonzero(~direct)
            at = np.minimum(np.searchsorted(self._sorted, values[rest]), len(self._sorted) - 1)
            hit = self._sorted[at] == values[rest]
            found[rest[hit]] = self._sorted_slots[at[hit]]
        return found

    def _add_integers(self, values: Int64s) -> None:
        slots = self._take_slots(identify(pa.array(values)))
        direct = (values >= 0) & (values < _LARGEST_DIRECT)
        if direct.any():
            needed = int(values[direct].max()) + 1
            if needed > len(self._direct):
                larger = np.full(max(needed, 2 * len(self._direct)), UNKNOWN, np.int64)
                larger[: len(self._direct)] = self._direct
                self._direct = larger
            self._direct[values[direct]] = slots[direct]
        if not direct.all():
            keys = np.concatenate([self._sorted, values[~direct]])
            order = np.argsort(keys)
            self._sorted = keys[order]
            self._sorted_slots = np.concatenate([self._sorted_slots, slots[~direct]])[order]

    def _name(self, new: list[Any]) -> None:
        if new:
            slots = self._take_slots(identify(pa.array(new, self.type)))
            self._named.update(zip(new, slots.tolist(), strict=True))
            self._names += new

    def _take_slots(self, identities: Identities) -> Int64s:
        """New slots at the end, with their identities; the arrays grow by doubling."""
        first, self._count = self._count, self._count + len(identities.tags)
        if self._count > len(self._identities.tags):
            room = max(self._count, 2 * first)
            self._identities = Identities(*(np.resize(column, room) for column in self._identities))
        for column, added in zip(self._identities, identities, strict=True):
            column[first : self._count] = added
        return np.arange(first, self._count)


def plain(array: Any) -> Any:
    """The array without dictionary or chunks."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def takeable(array: Any) -> Any:
    """The array in a type that Arrow can take from, which views are not."""
    return array.cast(pa.string()) if pa.types.is_string_view(array.type) else array
