"""Few moves against all rules of a snapshot: its groups as one table of addresses, for one compiled call."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fencepost.indexes.arguments import kernel_ready
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.slice_list.few_moves import find_changes, plan_group, plan_rules
from fencepost.indexes.slice_list.view import View
from fencepost.snapshot.group import Batch, Group
from fencepost.snapshot.snapshot import Snapshot
from fencepost.snapshot.structures import Sliced

_NOTHING = np.zeros(0, np.int64)


class WorkColumns(NamedTuple):
    """Where the rows of `work` have what."""

    ordinals: Mapping[str, int]
    """By attribute; likewise `known`. Computed ones are among them."""
    known: Mapping[str, int]
    keys: Mapping[str, int]
    """The code that rules have, by key."""


class MoveFinder:
    """Finds what few moves do to the rules of a snapshot.

    Groups over one attribute, or with one that is indexed and others that are compared, are searched in the compiled
    call; those whose boxes are indexed together, and computed attributes, are found in front of it.

    `kinds` has all that rules detect; where ids are `ascending`, they are in the order of rows.
    """

    def __init__(
        self, snapshot: Snapshot, columns: WorkColumns, damped: Bools | None, kinds: int, *, ascending: bool
    ) -> None:
        self._snapshot, self._columns = snapshot, columns
        self._held: list[Any] = []
        """What the plan has the addresses of."""
        rules = snapshot.rules
        order = None
        if not ascending:
            by_rank = np.argsort(rules.ids, kind="stable")
            ranks = np.empty(len(by_rank), np.int64)
            ranks[by_rank] = np.arange(len(by_rank))
            order = self._hold(ranks), self._hold(by_rank)
        hidden = snapshot.hidden_rows
        mine = [each for each in snapshot.groups if isinstance(each[0].structure, Sliced)]
        self._others = [each for each in snapshot.groups if not isinstance(each[0].structure, Sliced)]
        plan = plan_rules(
            len(mine),
            None if hidden is None else self._hold(hidden),
            order,
            self._hold(rules.detects),
            None if damped is None else self._hold(damped),
            kinds,
        )
        for group, rows in mine:
            plan += self._plan_group(len(plan), group, rows)
        self._plan = np.array(plan, np.int64)

    def _hold(self, array: Any) -> Any:
        """The array as compiled code takes it, for as long as this lives."""
        array = kernel_ready(array)
        self._held.append(array)
        return array

    def _plan_group(self, place: int, group: Group, rows: Int64s) -> list[int]:
        structure, columns = group.structure, self._columns
        assert isinstance(structure, Sliced)
        places = [(columns.ordinals[name], columns.known[name]) for name in group.attributes]
        axis = places.pop(structure.axis) if structure.axis >= 0 else (-1, -1)
        steps = [_NOTHING, *group.combination.steps]
        keys = [
            (columns.keys[name], size, self._hold(step))
            for name, size, step in zip(group.keys, group.combination.sizes, steps, strict=False)
        ]
        view: View = structure.index.view()
        self._held.append(view)
        compared = self._hold(structure.firsts), self._hold(structure.lasts)
        return plan_group(place, axis, keys, places, view, self._hold(rows), compared)

    @property
    def is_whole(self) -> bool:
        """Whether the compiled call finds all there is."""
        return not self._others and not self._snapshot.computed

    def find(self, work: Int64s, changes: Int64s) -> int:
        """See `find_changes`, where all that rules ask for is in `work`."""
        found: int = find_changes(self._plan, work, _NOTHING, _NOTHING, changes)
        return found

    def find_with(self, batch: Batch, work: Int64s, changes: Int64s) -> int:
        """The same for positions that come as a batch, too, with computed attributes; `work` gains these."""
        columns = self._columns
        for name in self._snapshot.computed:
            valid = batch.valid[name]
            work[:, columns.ordinals[name]] = batch.ordinals[name]
            work[:, columns.known[name]] = 1 if valid is None else valid
        ends, more = np.zeros(batch.rows + 1, np.int64), _NOTHING
        if self._others:
            answers = [group.match(batch) for group, _ in self._others]
            counts = [np.diff(offsets) for offsets, _ in answers]
            ends[1:] = np.cumsum(np.sum(counts, axis=0))
            rows = [of_boxes[boxes] for (_, of_boxes), (_, boxes) in zip(self._others, answers, strict=True)]
            positions = np.concatenate([np.repeat(np.arange(batch.rows), each) for each in counts])
            more = np.concatenate(rows)[np.argsort(positions, kind="stable")]
        found: int = find_changes(self._plan, work, ends, more, changes)
        return found
