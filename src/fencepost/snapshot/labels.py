"""What rules are called, as columns of events: names, labels as maps, and conditions, by row of rule."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost._coded import coded, coded_nulls, is_worth_it
from fencepost.indexes.arrays import Int64s

if TYPE_CHECKING:
    from fencepost.snapshot.layer import Layer
    from fencepost.snapshot.snapshot import Snapshot

LABELS = pa.map_(pa.string(), pa.string())
"""The Arrow type of labels in events."""


class LabelMaps:
    """Labels as maps: those of a rule are read from their JSON when an event first needs them, equal ones once.

    >>> maps = LabelMaps(pa.array(['{"desk": "4"}', None], pa.large_string()))
    >>> maps.take(np.array([1, 0, 0])).to_pylist()
    [None, [('desk', '4')], [('desk', '4')]]
    """

    def __init__(self, texts: Any) -> None:
        self._texts = texts
        self._slots: npt.NDArray[np.int32] = np.full(len(texts), -1, np.int32)
        """Per row, the place of its map; -1 where nobody asked for it."""
        self._by_text: dict[str | None, int] = {None: 0}
        self._maps: Any = pa.array([None], LABELS)

    def take(self, rows: Int64s, short: bool = False) -> Any:
        """The labels of rules, an Arrow array of maps, null where a rule has none; as codes if that is `short`."""
        if self._texts.null_count == len(self._texts):
            return coded_nulls(len(rows), LABELS) if short else pa.nulls(len(rows), LABELS)
        slots = self._slots[rows]
        if (slots < 0).any():
            self._read(np.unique(rows[slots < 0]))
            slots = self._slots[rows]
        if short and is_worth_it(len(self._maps), len(rows)):
            return coded(slots, self._maps)
        return self._maps.take(pa.array(slots))

    def _read(self, rows: Int64s) -> None:
        encoded = self._texts.take(pa.array(rows)).dictionary_encode()
        texts = [*encoded.dictionary.to_pylist(), None]
        new = [text for text in texts if text not in self._by_text]
        if new:
            maps = pa.array([list(json.loads(text).items()) for text in new], LABELS)
            self._by_text |= {text: len(self._maps) + number for number, text in enumerate(new)}
            self._maps = pa.concat_arrays([self._maps, maps])
        places = np.array([self._by_text[text] for text in texts], np.int32)
        self._slots[rows] = places[np.asarray(encoded.indices.fill_null(len(texts) - 1))]


class RuleTexts:
    """What the rules of a snapshot are called, by row."""

    def __init__(self, snapshot: "Snapshot") -> None:
        self._snapshot = snapshot

    def names(self, rows: Int64s) -> Any:
        """Their names, an Arrow array."""
        return self._of_layers(rows, lambda layer, own: _texts_at(layer.rules.names, own))

    def conditions(self, rows: Int64s) -> Any:
        """Their conditions, null for rules of tables."""
        return self._of_layers(rows, lambda layer, own: _texts_at(layer.rules.conditions, own))

    def labels(self, rows: Int64s, short: bool = False) -> Any:
        """Their labels, as maps; as codes where that is `short`, and there is one layer."""
        is_one = len(self._snapshot.layers) == 1
        return self._of_layers(rows, lambda layer, own: layer.label_maps.take(own, short and is_one))

    def _of_layers(self, rows: Int64s, take: Any) -> Any:
        layers: tuple[Layer, ...] = self._snapshot.layers
        if len(layers) == 1 or not len(rows):
            return take(layers[0], rows)
        starts = np.cumsum([0, *map(len, layers)])
        which = np.searchsorted(starts, rows, side="right") - 1
        parts, order = [], []
        for number in np.unique(which).tolist():
            own = np.flatnonzero(which == number)
            order.append(own)
            parts.append(take(layers[number], rows[own] - starts[number]))
        if len(parts) == 1:
            return parts[0]
        places = np.empty(len(rows), np.int64)
        places[np.concatenate(order)] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(places))


class TextsOfIds:
    """The same by numbers that stand for ids of rules in a snapshot."""

    def __init__(self, snapshot: "Snapshot", ids: Int64s) -> None:
        self._texts, self._snapshot, self._ids = RuleTexts(snapshot), snapshot, ids

    def names(self, rows: Int64s) -> Any:
        """Their names."""
        return self._texts.names(self._rows(rows))

    def conditions(self, rows: Int64s) -> Any:
        """Their conditions."""
        return self._texts.conditions(self._rows(rows))

    def labels(self, rows: Int64s, short: bool = False) -> Any:
        """Their labels."""
        return self._texts.labels(self._rows(rows), short)

    def _rows(self, rows: Int64s) -> Int64s:
        found: Int64s = self._snapshot.rows_of(self._ids[rows])
        return found


class ChangedTexts:
    """The same where rules change: the first half of the ids are those of rules before, the second of rules after."""

    def __init__(self, before: "Snapshot", after: "Snapshot", ids: Int64s) -> None:
        self._half = len(ids) // 2
        self._parts = TextsOfIds(before, ids), TextsOfIds(after, ids)

    def names(self, rows: Int64s) -> Any:
        """Their names."""
        return self._of_both(rows, "names")

    def conditions(self, rows: Int64s) -> Any:
        """Their conditions."""
        return self._of_both(rows, "conditions")

    def labels(self, rows: Int64s, short: bool = False) -> Any:  # noqa: ARG002 (a change of rules has few events)
        """Their labels."""
        return self._of_both(rows, "labels")

    def _of_both(self, rows: Int64s, what: str) -> Any:
        is_new = rows >= self._half
        order = np.argsort(is_new, kind="stable")
        parts = [getattr(part, what)(rows[mask]) for part, mask in zip(self._parts, (~is_new, is_new), strict=True)]
        return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))


class ListedTexts:
    """The same for a few rules, given as columns of texts."""

    def __init__(self, conditions: Any, labels: Any, names: Any) -> None:
        self._conditions, self._names, self._labels = conditions, names, LabelMaps(labels)

    def names(self, rows: Int64s) -> Any:
        """Their names."""
        return _texts_at(self._names, rows)

    def conditions(self, rows: Int64s) -> Any:
        """Their conditions."""
        return _texts_at(self._conditions, rows)

    def labels(self, rows: Int64s, short: bool = False) -> Any:
        """Their labels."""
        return self._labels.take(rows, short)


def _texts_at(texts: Any, rows: Int64s) -> Any:
    if texts.null_count == len(texts):
        return pa.nulls(len(rows), pa.string())
    return texts.take(pa.array(rows)).cast(pa.string())
