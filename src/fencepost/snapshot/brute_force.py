"""Every box compared with every row: slow, without any index, to check answers against."""

from typing import Any

import numpy as np

from fencepost.computed import Given
from fencepost.indexes.arrays import Bools
from fencepost.ordinals import KEY
from fencepost.snapshot.columns import BoxSet, CompiledColumns
from fencepost.snapshot.tables import Table


class BruteForce:
    """Bound rules, asked one row at a time.

    Args:
        columns: what a snapshot would be compiled from.

    >>> from fencepost.rules import Rules
    >>> rules = Rules()
    >>> rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50")
    >>> rules.add(2, "price >= 45")
    >>> BruteForce(rules.columns()).holding({"symbol": ["IBM", None], "price": [47.0, 47.0]})
    [{1, 2}, {2}]
    """

    def __init__(self, columns: CompiledColumns) -> None:
        self._columns = columns
        self._keys = [[_as_list(values) for values in each.key_values] for each in columns.boxes]

    def holding(self, table: Any) -> list[set[int]]:
        """The ids of the rules that hold for each row.

        Args:
            table: as for Snapshot.match.
        """
        given = Table(table)
        encoded = {name: type_.encode(given.column(name), name) for name, type_ in self._attributes().items()}
        computed = self._columns.computed
        if computed:
            ordinals_of = {name: ordinals for name, (ordinals, _) in encoded.items()}
            valid_of = {name: valid for name, (_, valid) in encoded.items()}
            asked = Given(given.rows, ordinals_of, valid_of, given.arrow)
            encoded |= {name: each.ordinals(asked) for name, each in computed.items()}
        strings = {name: given.arrow(name).to_pylist() for name in self._columns.keys}
        found: list[set[int]] = []
        for row in range(given.rows):
            ordinals = {
                name: None if valid is not None and not valid[row] else int(values[row])
                for name, (values, valid) in encoded.items()
            }
            keys = {name: values[row] for name, values in strings.items()}
            held: set[int] = set()
            for boxes, key_values in zip(self._columns.boxes, self._keys, strict=True):
                rows = boxes.rules[_holds(boxes, key_values, ordinals, keys)]
                held.update(self._columns.rules.ids[rows].tolist())
            found.append(held)
        return found

    def _attributes(self) -> dict[str, Any]:
        used = {name for boxes in self._columns.boxes for name in boxes.attributes}
        columns = self._columns
        used |= {name for each in columns.computed.values() for name, kind in each.columns.items() if kind != KEY}
        return {name: columns.types[name] for name in used - columns.computed.keys()}


def _as_list(values: Any) -> Any:
    return np.array(values.to_pylist(), dtype=object)


def _holds(boxes: BoxSet, key_values: list[Any], ordinals: dict[str, int | None], keys: dict[str, Any]) -> Bools:
    holds: Bools = np.ones(len(boxes.rules), np.bool_)
    for place, name in enumerate(boxes.attributes):
        ordinal = ordinals[name]
        if ordinal is None:
            return np.zeros(len(boxes.rules), np.bool_)
        holds &= (boxes.firsts[:, place] <= ordinal) & (ordinal <= boxes.lasts[:, place])
    for name, values in zip(boxes.keys, key_values, strict=True):
        holds &= (values == keys[name]).astype(np.bool_)
    return holds
