"""Objects that keys tell apart: one id under two keys is two objects."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.events import Identities
from fencepost.indexes.arrays import Int64s
from fencepost.snapshot import Table
from fencepost.watching.objects import UNKNOWN, Objects

_HALF = 32
_LOW = (1 << _HALF) - 1


class KeyedObjects(Objects):
    """Objects whose values are structs of the keys and, last, the id; event ids hold the id alone.

    Each column has slots of its own, and so has each pair of those so far and the next one's; the slots of the last
    pairs are the objects'.

    >>> objects = KeyedObjects(["symbol"])
    >>> read = objects.read(Table({"symbol": ["SAP", "BMW", "SAP"], "venue": [1, 1, 1]}), "venue")
    >>> objects.slots(read, add=True).tolist()
    [0, 1, 0]
    >>> objects.values(np.array([1])).to_pylist()
    [{'symbol': 'BMW', 'venue': 1}]
    """

    def __init__(self, keys: Sequence[str], type: Any = None) -> None:
        super().__init__(type)
        self._keys = tuple(keys)
        self._columns = [Objects() for _ in (*keys, "id")]
        if type is not None:
            for column, field in zip(self._columns, type, strict=True):
                column.type = field.type
        self._pairs = [Objects(pa.int64()) for _ in keys]

    def __len__(self) -> int:
        return len(self._pairs[-1])

    @property
    def id_type(self) -> Any:
        """The Arrow type of the ids."""
        return self._columns[-1].type

    def emptied(self, *, typed: bool = True) -> "KeyedObjects":
        """The same without any object, and perhaps without their type."""
        return KeyedObjects(self._keys, self.type if typed else None)

    def read(self, table: Table, name: str) -> Any:
        """Keys and ids as structs, null where one of them is."""
        names = (*self._keys, name)
        arrays = [own.accept(table.arrow(each), each) for own, each in zip(self._columns, names, strict=True)]
        absent = np.zeros(table.rows, np.bool_)
        for array in arrays:
            absent |= np.asarray(array.is_null())
        return pa.StructArray.from_arrays(arrays, names=names, mask=pa.array(absent))

    def slots(self, array: Any, *, add: bool) -> Int64s:
        """The slot of each object of an array without nulls; unknown ones get a new slot if asked."""
        if self.type is None and add:
            self.type = array.type
        found, *more = (
            own.slots(array.field(place), add=add) if len(array) else np.zeros(0, np.int64)
            for place, own in enumerate(self._columns)
        )
        for pairs, slots in zip(self._pairs, more, strict=True):
            found = pairs.slots(pa.array(found << _HALF | slots), add=add)
        return found

    def slot(self, value: Any) -> int:
        """The slot of one object, a dict of its keys and its id, or `UNKNOWN`."""
        if not isinstance(value, dict) or self.type is None or set(value) != {field.name for field in self.type}:
            return UNKNOWN
        found, *more = (own.slot(value[field.name]) for own, field in zip(self._columns, self.type, strict=True))
        for pairs, slot in zip(self._pairs, more, strict=True):
            if UNKNOWN in (found, slot):
                return UNKNOWN
            found = pairs.slot(found << _HALF | slot)
        return found

    def identities(self, slots: Int64s) -> Identities:
        """The part of event ids that says which objects these are: their ids, without keys."""
        return self._columns[-1].identities(self._pairs[-1].integers(slots) & _LOW)

    def values(self, slots: Int64s) -> Any:
        """The objects themselves, an Arrow array of structs."""
        if self.type is None:
            return pa.nulls(len(slots))
        arrays = []
        for own, pairs in zip(self._columns[:0:-1], self._pairs[::-1], strict=True):
            packed = pairs.integers(slots)
            arrays.append(own.values(packed & _LOW))
            slots = packed >> _HALF
        arrays.append(self._columns[0].values(slots))
        return pa.StructArray.from_arrays(arrays[::-1], names=[field.name for field in self.type])

    def ids(self, values: Any) -> Any:
        """The ids of objects, without their keys."""
        return values.field(len(self._keys)) if pa.types.is_struct(values.type) else values  # or there are none
