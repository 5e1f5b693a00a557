"""How rules are cut into shards: a position goes to one shard, a rule to every shard that it can hold in.

Positions are routed by one key column and one attribute at most. A position lies in a *lane*, and where the lane is
cut, in one of its *cells*; every cell belongs to a shard. Most keys are light: the lane of such a key is the shard that
its hash names, which is one cell. The lane of a heavy key is cut by the values of the attribute, and so is the only
lane where there is no key column. A box meets a run of cells of its lane, and a box without the key meets all shards.

A rule goes whole to every shard that one of its boxes meets, so that a shard knows all about the rules it has. A move
is sent to the shards of both its ends, and where jumps are asked for to those between them; of the shards that get it
and have the rule, the first one reports. So every event is reported once.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
import pyarrow.compute as pc

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt64s
from fencepost.ordinals import AttributeType
from fencepost.snapshot.columns import BoxSet
from fencepost.snapshot.layer import Layer
from fencepost.snapshot.snapshot import Snapshot

MOST_SHARDS = 64
"""The shards of a rule are the bits of one number."""

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_CELLS_PER_SHARD = 2
"""A key is heavy, and cut into cells, if it has more than one in so many of the boxes that a shard should have: light
keys go to shards by their hash, and no one of them fills half a shard."""


class Lane(NamedTuple):
    """The positions of one heavy key, or all of them, cut by the values of the attribute."""

    text: str | None
    """The key; None where there is no key column."""
    cuts: tuple[int, ...]
    """Ordinals, ascending; each is the first of a cell."""
    shards: tuple[int, ...]
    """The shard of each cell, of which there is one more than cuts."""


class ShardPlan(NamedTuple):
    """How positions are routed: a constant of a directory, like its schema."""

    shards: int
    key: str | None
    attribute: str | None
    lanes: tuple[Lane, ...]
    """Of the heavy keys; without a key column, the only one."""

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        lanes = [{"text": lane.text, "cuts": lane.cuts, "parts": lane.shards} for lane in self.lanes]
        return {"parts": self.shards, "key": self.key, "attribute": self.attribute, "lanes": lanes}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "ShardPlan":
        """The plan that `as_json` wrote."""
        lanes = tuple(Lane(lane["text"], tuple(lane["cuts"]), tuple(lane["parts"])) for lane in kept["lanes"])
        return cls(kept["parts"], kept["key"], kept["attribute"], lanes)


def refuse_damped(snapshot: Snapshot) -> None:
    """Refuse rules that shards cannot hold yet: two shards would have to agree on what an object did before."""
    damping = snapshot.damping
    if damping is None:
        return
    shown = np.flatnonzero(np.isin(damping.rules, snapshot.in_force))
    if len(shown):
        id = int(snapshot.rules.ids[damping.rules[shown[0]]])
        options = damping.texts[int(shown[0])].as_py()
        raise FencepostError(
            f"rule {id} with {options} in shards",
            "no rules with for, keep_firing_for, stay, margin, cooldown, limit or every, which cannot be in shards yet",
            "Publish without shards.",
        )


def check_shards(shards: object) -> int:
    """Refuse a number of shards that cannot be."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise FencepostError(
            f"shards={shards!r}", f"a whole number from 1 to {MOST_SHARDS}", "Take one for each worker, or two."
        )
    return shards


# -- where positions and boxes are ---------------------------------------------------------------------------


class Routing:
    """A plan, ready for arrays of positions and boxes; lanes of heavy keys are numbered after those of light ones."""

    def __init__(self, plan: ShardPlan) -> None:
        self.plan = plan
        light = 0 if plan.key is None else plan.shards
        self._heavy = {lane.text: light + number for number, lane in enumerate(plan.lanes)}
        self._cuts = {light + n: np.array(lane.cuts, np.int64) for n, lane in enumerate(plan.lanes) if lane.cuts}
        cells = [*([shard] for shard in range(light)), *(lane.shards for lane in plan.lanes)]
        self._starts = np.cumsum([0, *map(len, cells)])
        """The first cell of each lane, and the end of the last one."""
        self.shard = np.array([shard for lane in cells for shard in lane], np.int64)
        """Of each cell."""
        self.bits: UInt64s = _ONE << self.shard.astype(np.uint64)
        self.everywhere: UInt64s = np.bitwise_or.reduce(_ONE << np.arange(plan.shards, dtype=np.uint64))
        self._spans = np.zeros((len(self.shard), len(self.shard)), np.uint64)
        """The shards of every run of cells of one lane, by its first and its last cell."""
        for start, end in zip(self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True):
            for first in range(start, end):
                self._spans[first, first:end] = np.bitwise_or.accumulate(self.bits[first:end])

    def lanes(self, texts: Sequence[str | None]) -> Int64s:
        """The lane of each key; a key that is not known may be in any."""
        plan = self.plan
        if plan.key is None:
            return np.zeros(len(texts), np.int64)
        found = [
            0 if text is None else self._heavy[text] if text in self._heavy else crc32(text.encode()) % plan.shards
            for text in texts
        ]
        return np.array(found, np.int64)

    def cells(self, lanes: Int64s, ordinals: Int64s | None, known: Bools | None = None) -> Int64s:
        """The cell of each position; where the attribute is not `known`, it may be any, and is the first."""
        found: Int64s = self._starts[lanes]
        if ordinals is not None:
            for lane, cuts in self._cuts.items():
                here = np.flatnonzero(lanes == lane if known is None else (lanes == lane) & known)
                found[here] += np.searchsorted(cuts, ordinals[here], side="right")
        return found

    def visits(self, before: Int64s, after: Int64s, *, between: bool) -> UInt64s:
        """The shards that moves are sent to.

        A move without a start has -1 as `before`. `between` sends it to shards that have only rules between the two,
        too.
        """
        visited: UInt64s = self.bits[after] | np.where(before >= 0, self.bits[before], _NONE)
        if between:
            # The other way round, and from one lane to another, there is no run of cells: that adds nothing.
            visited |= np.where(before >= 0, self._spans[before, after] | self._spans[after, before], _NONE)
        return visited

    def box_masks(self, boxes: BoxSet) -> UInt64s:
        """The shards that each box meets."""
        plan, count = self.plan, len(boxes.rules)
        if plan.key is None:
            lanes = np.zeros(count, np.int64)
        elif plan.key in boxes.keys:
            texts = boxes.key_values[boxes.keys.index(plan.key)].dictionary_encode()
            lanes = self.lanes(texts.dictionary.to_pylist())[np.asarray(texts.indices)]
        else:
            return np.full(count, self.everywhere, np.uint64)
        if plan.attribute not in boxes.attributes:
            whole: UInt64s = self._spans[self._starts[lanes], self._starts[lanes + 1] - 1]
            return whole
        place = boxes.attributes.index(plan.attribute)
        firsts, lasts = (self.cells(lanes, ends[:, place]) for ends in (boxes.firsts, boxes.lasts))
        met: UInt64s = self._spans[firsts, lasts]
        return met


@lru_cache(maxsize=8)
def routing(plan: ShardPlan) -> Routing:
    """The plan, made ready once per process."""
    return Routing(plan)


_masks: "WeakKeyDictionary[Layer, tuple[ShardPlan, UInt64s]]" = WeakKeyDictionary()


def rule_masks(plan: ShardPlan, layer: Layer) -> UInt64s:
    """The shards that have each rule of a layer, found once; none for a rule of bands, which is in no shard."""
    known = _masks.get(layer)
    if known is not None and known[0] == plan:
        return known[1]
    masks = np.zeros(len(layer), np.uint64)
    for group in layer.groups:
        boxes = group.take(np.arange(len(group.rules)), layer.columns)
        np.bitwise_or.at(masks, boxes.rules, routing(plan).box_masks(boxes))
    _masks[layer] = plan, masks
    return masks


# -- making a plan -------------------------------------------------------------------------------------------


def plan_shards(snapshot: Snapshot, shards: int, keys: Iterable[str] = ()) -> ShardPlan:
    """How to cut rules like these into shards: by the key most boxes have, heavy ones and those without by values.

    `keys` are columns that later rules may compare, for a set that has no rule yet.
    """
    sets = [each for each in snapshot.take(snapshot.in_force).boxes if len(each.rules)]
    total = sum(len(each.rules) for each in sets)
    if not total:
        key = min(keys, default=None)
        if key is None:
            raise FencepostError(
                f"shards={shards} for no rules",
                "rules to learn from what they can be cut by, or a schema with a column of strings",
                "Add the rules before, or publish with schema= naming such a column.",
            )
        return ShardPlan(shards, key, None, ())
    key, with_key = _most_used({name: [each for each in sets if name in each.keys] for name in snapshot.keys})
    if 2 * with_key < total:  # the others would have to be in all shards
        key = None
    keyed = sets if key is None else [each for each in sets if key in each.keys]
    bounded = {name: [each for each in keyed if name in each.attributes] for name in snapshot.attributes}
    attribute, _ = _most_used(bounded)
    loads, lanes = np.zeros(shards), []
    for text, boxes, cells in _heavy_lanes(keyed, key, shards, total, loads):
        cuts = () if attribute is None else _cuts(boxes, attribute, snapshot.types[attribute], cells)
        lanes.append(_balanced(text, boxes, attribute, cuts, loads))
    return ShardPlan(shards, key, attribute if any(lane.cuts for lane in lanes) else None, tuple(lanes))


def _most_used(columns: Mapping[str, Sequence[BoxSet]]) -> tuple[str | None, int]:
    """The column that most boxes have, and how many have it."""
    counts = {name: sum(len(each.rules) for each in sets) for name, sets in columns.items()}
    found = max(sorted(counts), key=counts.__getitem__, default=None)
    return (None, 0) if found is None or not counts[found] else (found, counts[found])


def _heavy_lanes(
    sets: Sequence[BoxSet], key: str | None, shards: int, total: int, loads: Any
) -> list[tuple[str | None, list[BoxSet], int]]:
    """The lanes to cut, heaviest first: key, boxes, and into how many cells; what light keys weigh goes to `loads`."""
    if key is None:
        return [(None, list(sets), shards)]
    columns = [each.key_values[each.keys.index(key)] for each in sets]
    weights: dict[str, int] = {}
    for column in columns:
        for item in column.value_counts().to_pylist():
            weights[item["values"]] = weights.get(item["values"], 0) + item["counts"]
    lanes: list[tuple[str | None, list[BoxSet], int]] = []
    for text, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        if weight * _CELLS_PER_SHARD * shards <= total:
            loads[crc32(text.encode()) % shards] += weight
            continue
        chosen = [_only(each, np.asarray(pc.equal(column, text))) for each, column in zip(sets, columns, strict=True)]
        lanes.append((text, chosen, ceil(weight * _CELLS_PER_SHARD * shards / total)))
    return lanes


def _only(boxes: BoxSet, chosen: Bools) -> BoxSet:
    """The chosen boxes, without their keys."""
    return BoxSet((), boxes.attributes, boxes.rules[chosen], (), boxes.firsts[chosen], boxes.lasts[chosen])


def _cuts(sets: Sequence[BoxSet], attribute: str, kind: AttributeType, cells: int) -> tuple[int, ...]:
    """Where to cut, such that cells have about as many ends of boxes."""
    smallest, largest = kind.limits
    ends = [np.zeros(0, np.int64)]
    for each in sets:
        if attribute in each.attributes:
            place = each.attributes.index(attribute)
            firsts, lasts = each.firsts[:, place], each.lasts[:, place]
            end = np.where(firsts > smallest, firsts, lasts)
            ends.append(end[(firsts > smallest) | (lasts < largest)])
    together = np.sort(np.concatenate(ends))
    if not len(together):
        return ()
    found = np.unique(together[np.arange(1, cells) * len(together) // cells])
    return tuple(found[found > together[0]].tolist())


def _balanced(
    text: str | None, sets: Sequence[BoxSet], attribute: str | None, cuts: tuple[int, ...], loads: Any
) -> Lane:
    """The lane, each cell in the shard that has the fewest boxes so far."""
    cells, at = len(cuts) + 1, np.array(cuts, np.int64)
    changes = np.zeros(cells + 1, np.int64)
    for each in sets:
        firsts, lasts = np.zeros(len(each.rules), np.int64), np.full(len(each.rules), cells - 1)
        if attribute in each.attributes:
            place = each.attributes.index(attribute)
            firsts, lasts = (np.searchsorted(at, ends[:, place], side="right") for ends in (each.firsts, each.lasts))
        np.add.at(changes, firsts, 1)
        np.add.at(changes, lasts + 1, -1)
    chosen: list[int] = []
    for weight in np.cumsum(changes)[:-1].tolist():
        chosen.append(int(np.argmin(loads)))
        loads[chosen[-1]] += weight
    return Lane(text, cuts, tuple(chosen))
