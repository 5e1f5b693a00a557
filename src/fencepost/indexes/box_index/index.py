"""BoxIndex: the production index for boxes, of up to 16 dimensions, with groups and live changes."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import (
    Column,
    Owners,
    check_format,
    corner_items,
    flat_items,
    kernel_ready,
    point_rows,
    require_groups,
    table_rows,
    whole_id,
)
from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.indexes.box_index.grid_changes import Reached, change_grid, fitting_boxes, held_boxes, reach_cells
from fencepost.indexes.box_index.group_blocks import (
    LARGEST_BLOCK,
    GroupBlocks,
    block_slots,
    build_blocks,
    check_blocks,
)
from fencepost.indexes.box_index.groups import Groups, no_groups, number_keys, only_first
from fencepost.indexes.box_index.moves import compare_moves
from fencepost.indexes.box_index.packed_tree import PackedTree, build_tree, check_tree, tree_slots
from fencepost.indexes.box_index.rows import EVERY_GROUP, Axes, axes_of
from fencepost.indexes.box_index.run_grid import RunGrid, build_grid, check_grid, grid_slots
from fencepost.indexes.box_index.view import Asked, Part, View, answer, is_keyed, search_rounds
from fencepost.indexes.contracts.boxes import Box, BoxesIndex, Corner, check_dimensions
from fencepost.indexes.contracts.production import OrdinalIndex
from fencepost.indexes.contracts.registry import Bounds, Contents, array_bytes
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.matches import Matches, Storage, answer_buffers, split_rows, widened
from fencepost.indexes.ordinal import VALUE_TYPES, ValueType, bounds_of, values_to_ordinals
from fencepost.indexes.runs import Runs, mark_bits, read_bits
from fencepost.indexes.slice_list.search import Translation
from fencepost.indexes.slice_list.slot_table import grow

_FORMAT = 1
_WORTH_THREADS = 8192
"""Points from which on threads gain more than it costs to start them."""
_GONE_TO_REBUILD, _SHARE_TO_REBUILD = 1024, 16
"""Boxes that are hidden are found and left out by every search: that many, and that part of the others, are too many.
As many at once are no small change of a grid."""
_MORE_GONE = 2
"""How many times as many may be gone that only have a slot."""
_MOST_RUNS = 6
"""Runs that are kept: every one of them is searched for every point."""
_WORTH_A_GRID = 512
"""Boxes from which on a grid answers faster than a tree of few nodes."""
_NO_GROUPS = np.zeros(0, np.uint32)
_NO_KEYS = np.zeros(0, np.int64)
_NONE_MISSING: Bools = np.zeros((0, 0), np.bool_)
_NONE_GROUPLESS: Bools = np.zeros(0, np.bool_)

_PARTS: dict[str, type[PackedTree] | type[RunGrid] | type[GroupBlocks]] = {
    "packed_tree": PackedTree,
    "run_grid": RunGrid,
    "group_blocks": GroupBlocks,
}


class Structure(NamedTuple):
    """One structure that answers for some of the boxes."""

    kind: str
    boxes: int
    nbytes: int


class _Run(NamedTuple):
    """The slots that one build covers, its structures, and its live slots in order of id if that is not their own."""

    start: int
    stop: int
    parts: tuple[Part, ...]
    by_id: UInt32s

    @property
    def size(self) -> int:
        """How many slots it covers."""
        return self.stop - self.start


class BoxIndex(OrdinalIndex, BoxesIndex):
    """The fastest way to find the boxes that contain a point, with groups and live changes.

    Boxes have slots in the order in which they came: a row of exact inclusive ordinals and a group number each.
    Structures over stretches of slots find candidates by 16-bit keys and decide ties on the exact rows: a
    `run_grid` in two dimensions where the budget suffices, `group_blocks` for small groups, a `packed_tree` for
    all else. There a group is one more axis, in which a box is a point.

    A change of a `run_grid` writes the cells that it concerns anew. Other recent changes are runs of slots with
    structures of their own, merged as they grow and swept into one when they have become a share of the index that
    readers would notice. Readers work on an immutable view, so a change is seen whole or not at all.

    Args:
        dimensions: coordinates of a point, 1 to 16.
        values: ``"int64"`` or ``"float64"``; if not given, the first insert decides.
        budget: bytes per box that the index may take; ``22 + 21 * dimensions`` if not given, which is the least.

    Invariants: (1) a slot below `_used` belongs to one run; (2) a live box is in one structure, of its run or in the
    grid of the first if its bit in `_lent` says so; a box that is gone is in one at most, and hidden if it is; (3) ids
    ascend within a run in the order of `by_id`; (4) where `slot_ids` is empty, slot s has the id ``origin + s``.

    Costs: search O(log n + matches) node visits for boxes that overlap little; insert and remove amortised
    O(log n) rebuilds; space 16 bytes per dimension for the exact rows and about 5 per dimension for the keys.

    >>> index = BoxIndex(dimensions=2)
    >>> index.insert_many([1, 2, 3], [(0, 0), (5, 5), (None, 6)], [(10, 10), (15, 15), (None, None)])
    >>> index.stab([(6, 6), (6, 5), (20, 6)]).sets()
    [{1, 2, 3}, {1, 2}, {3}]
    """

    def __init__(self, dimensions: int, values: ValueType | None = None, budget: int | None = None) -> None:
        super().__init__(values)
        self.dimensions = check_dimensions(dimensions)
        least = 22 + 21 * self.dimensions
        if budget is not None and budget < least:
            raise FencepostError(
                f"budget={budget}", f"at least {least} bytes per box in {self.dimensions} dimensions", "Raise it."
            )
        self.budget = budget or least
        self._clear()
        self._publish()

    def _clear(self) -> None:
        self._ranges = np.zeros((0, 2 * self.dimensions), np.int64)
        self._group_numbers = _NO_GROUPS
        self._gone = np.zeros(0, np.uint32)
        self._hidden = np.zeros(0, np.uint32)
        self._lent = np.zeros(0, np.uint32)
        self._translation = Translation(_NO_KEYS, 0)
        self._groups = no_groups()
        self._runs = Runs[_Run]()
        self._used = 0
        self._gone_count = 0
        self._hidden_count = 0
        self._per_point = 0.0

    def _publish(self) -> None:
        """Let readers see the changes, all at once."""
        self._view = View(
            tuple(part for run in self._runs for part in run.parts),
            self._ranges,
            self._group_numbers,
            self._hidden,
            self._translation,
            self._groups,
            self._used,
        )

    # -- changing the set -------------------------------------------------------------------------------

    @override
    def insert(self, id: int, lo: Corner, hi: Corner, bounds: Bounds | None = None, group: int | None = None) -> None:
        """Add one box; see `insert_many`."""
        number = whole_id(id)
        lows = corner_items(lo, self.dimensions, f"box {id} with", "lower bound")
        highs = corner_items(hi, self.dimensions, f"box {id} with", "upper bound")
        self.insert_many([number], [lows], [highs], bounds, None if group is None else [group])

    @override
    def _flat_bounds(self, bounds: Column, what: str, owners: Owners) -> Any:
        return flat_items(bounds, table_rows(bounds, self.dimensions, f"{what}s", owners=owners))

    @override
    def _flat_ordinals(self, ordinals: Int64s, what: str) -> Int64s:
        return table_rows(ordinals, self.dimensions, what).astype(np.int64, copy=False).reshape(-1)

    def _add(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        with self.all_or_none():
            self._add_boxes(ids, firsts, lasts, groups, in_all)
        self._balance()
        self._publish()

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """All is as it was if the block is left by an exception: a change writes to nothing that was there."""
        before = self.__dict__ | {"_runs": self._runs.copy()}
        try:
            yield
        except BaseException:
            groups = self._groups
            self.__dict__.update(before)
            if groups.table is self._groups.table and groups.size > self._groups.size:
                self._groups = only_first(self._groups)
            raise

    def _add_boxes(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        if not len(self):
            self._clear()
        numbers = _NO_GROUPS
        if not in_all.all():
            numbers = np.full(len(ids), EVERY_GROUP, np.uint32)
            self._groups, numbers[~in_all] = number_keys(self._groups, groups[~in_all])
        order: Any = slice(None)
        if not self._used and not (ids[1:] > ids[:-1]).all():
            order = np.argsort(ids, kind="stable")
        firsts, lasts = (column.reshape(len(ids), self.dimensions) for column in (firsts, lasts))
        self._append(ids[order], firsts[order], lasts[order], numbers[order] if len(numbers) else numbers)
        self._add_to_grid(self._used - len(ids))
        self._add_run(self._used - len(ids))

    def _append(self, ids: Int64s, firsts: Int64s, lasts: Int64s, numbers: UInt32s) -> None:
        """Give boxes the next slots."""
        start, stop = self._used, self._used + len(ids)
        if stop >= 2**32:
            raise FencepostError(f"{stop} boxes", "fewer than 2**32", "Split the set over several indexes.")
        self._ranges = grow(self._ranges, stop)
        self._ranges[start:stop, : self.dimensions] = firsts
        self._ranges[start:stop, self.dimensions :] = lasts
        if len(numbers) or len(self._group_numbers):
            if not len(self._group_numbers):
                self._group_numbers = np.full(start, EVERY_GROUP, np.uint32)
            self._group_numbers = grow(self._group_numbers, stop)
            self._group_numbers[start:stop] = numbers if len(numbers) else EVERY_GROUP
        slot_ids, origin, _ = self._translation
        if not start:
            origin = int(ids[0])
        if not len(slot_ids) and not _counts_on(ids, origin + start):
            slot_ids = np.arange(origin, origin + start)
        if len(slot_ids) or not _counts_on(ids, origin + start):
            slot_ids = grow(slot_ids, stop)
            slot_ids[start:stop] = ids
        self._translation = Translation(slot_ids, origin)
        if len(self._gone):
            self._gone = grow(self._gone, len(self._ranges) // 32 + 1)
        if len(self._hidden):
            self._hidden = grow(self._hidden, len(self._ranges) // 32 + 1)
        if len(self._lent):
            self._lent = grow(self._lent, len(self._ranges) // 32 + 1)
        self._used = stop

    def _remove(self, slots: Int64s) -> None:
        with self.all_or_none():
            words = len(self._ranges) // 32 + 1
            gone = self._gone.copy() if len(self._gone) else np.zeros(words, np.uint32)
            mark_bits(gone, slots)
            hidden, kept = self._hidden, self._remove_from_grid(slots)
            if len(kept):
                hidden = hidden.copy() if len(hidden) else np.zeros(words, np.uint32)
                mark_bits(hidden, kept)
            self._gone, self._hidden = gone, hidden
            self._gone_count += len(slots)
            self._hidden_count += len(kept)
        self._balance()
        self._publish()

    # -- cells that are written anew --------------------------------------------------------------------

    def _grid(self) -> RunGrid | None:
        """The grid of the first run, if it has one."""
        first = next(iter(self._runs), None)
        return next((part for part in first.parts if isinstance(part, RunGrid)), None) if first else None

    def _change_grid(self, grid: RunGrid, reached: Reached, are_new: bool) -> bool:
        """Let boxes come to the cells of the grid, or go; False if it cannot hold them."""
        changed = change_grid(grid, self._ranges, reached, are_new, self._axes())
        if changed is None:
            return False
        first = next(iter(self._runs))
        self._runs.replace_first(first._replace(parts=tuple(changed if p is grid else p for p in first.parts)))
        return True

    def _add_to_grid(self, start: int) -> None:
        """Let those of the boxes from slot `start` on come to the grid that suit it, if they are few beside it."""
        grid = self._grid()
        if grid is None or _SHARE_TO_REBUILD * (self._used - start) > self._used:
            return
        slots = np.arange(start, self._used, dtype=np.uint32)
        if len(self._group_numbers):
            slots = slots[self._group_numbers[slots] == EVERY_GROUP]
        reached = reach_cells(grid, self._ranges, slots, self._axes())
        reached = reached.rows(fitting_boxes(reached))
        if len(reached.slots):
            words = len(self._ranges) // 32 + 1
            lent = self._lent.copy() if len(self._lent) else np.zeros(words, np.uint32)
            mark_bits(lent, reached.slots.astype(np.int64))
            if self._change_grid(grid, reached, True):
                self._lent = lent

    def _remove_from_grid(self, slots: Int64s) -> Int64s:
        """Let those of the boxes go that are in the grid, if they are few beside it; the others."""
        grid = self._grid()
        if grid is None or _SHARE_TO_REBUILD * len(slots) > self._used:
            return slots
        reached = reach_cells(grid, self._ranges, slots.astype(np.uint32), self._axes())
        held = held_boxes(grid, self._ranges, reached, self._axes())
        kept = slots[~held]
        return kept if held.any() and self._change_grid(grid, reached.rows(held), False) else slots

    def _axes(self, keyed: bool = False) -> Axes:
        return axes_of(self.dimensions, self.values or "float64", keyed)

    def compact(self) -> None:
        """Merge all changes into a freshly built index: nothing gone, one run."""
        with self._lock:
            if len(self):
                self._rebuild()
                self._publish()

    # -- runs -------------------------------------------------------------------------------------------

    def _slots_of(self, ids: Int64s) -> Int64s:
        """The slot of each id that is held, or -1."""
        slots = np.full(len(ids), -1, np.int64)
        slot_ids, origin, _ = self._translation
        if not len(slot_ids):
            within = (ids >= origin) & (ids - origin < self._used)
            slots[within] = ids[within] - origin
        else:
            for run in self._runs:
                own = slot_ids[run.by_id] if len(run.by_id) else slot_ids[run.start : run.stop]
                at = np.minimum(np.searchsorted(own, ids), len(own) - 1)
                # the same id may have been removed here and come back in a later run
                found = own[at] == ids
                at = run.by_id[at].astype(np.int64) if len(run.by_id) else run.start + at
                found &= ~self._is_gone(at)
                slots[found] = at[found]
            return slots
        return np.where((slots >= 0) & ~self._is_gone(np.maximum(slots, 0)), slots, -1)

    def _is_gone(self, slots: Int64s) -> Bools:
        return read_bits(self._gone, slots)

    def _add_run(self, start: int) -> None:
        """Build structures for the slots from `start` on, together with the smaller runs before them."""
        for run in self._runs.take_smaller(self._used - start):
            start = run.start
        self._runs.add(self._build(start, self._used))

    def _build(self, start: int, stop: int) -> _Run:
        slots = np.arange(start, stop, dtype=np.uint32)
        slot_ids = self._translation.slot_ids
        live = slots[~self._is_gone(slots.astype(np.int64))]
        by_id = _NO_GROUPS
        if len(slot_ids) and not (slot_ids[start + 1 : stop] > slot_ids[start : stop - 1]).all():
            # only the live: an id that was removed and came back has several slots here
            by_id = live[np.argsort(slot_ids[live], kind="stable")]
        if start and len(live):
            live = live[~read_bits(self._lent, live.astype(np.int64))]
        return _Run(start, stop, tuple(self._structures_for(live)) if len(live) else (), by_id)

    def _structures_for(self, live: UInt32s) -> Iterator[Part]:
        """Structures by shape: groups small enough to be compared whole, large groups, and boxes of every group."""
        axes, keyed_axes = self._axes(), self._axes(keyed=True)
        numbers = self._group_numbers
        if len(numbers):
            own = numbers[live]
            keyed = live[own != EVERY_GROUP]
            live = live[own == EVERY_GROUP]
            if 0 < self._groups.size <= 2 * len(keyed):
                small = (np.bincount(numbers[keyed]) <= LARGEST_BLOCK)[numbers[keyed]]
                if small.any():
                    yield build_blocks(self._ranges, numbers, keyed[small], keyed_axes, self._groups.size)
                keyed = keyed[~small]
            if len(keyed):
                yield build_tree(self._ranges, numbers, keyed, keyed_axes)
        if self.dimensions == 2 and len(live) >= _WORTH_A_GRID:
            exact = 8 * (4 + (len(self._translation.slot_ids) > 0)) + 4 * (len(numbers) > 0) + 1
            grid, live = build_grid(self._ranges, live, axes, self.budget - exact)
            if grid is not None:
                yield grid
        if len(live):
            yield build_tree(self._ranges, _NO_GROUPS, live, axes)

    def _balance(self) -> None:
        """Rebuild once changes have grown to a share of the index that readers would notice, if there is memory."""
        if not len(self):
            self._clear()
            return
        many = _GONE_TO_REBUILD + len(self) // _SHARE_TO_REBUILD
        too_many_gone = self._hidden_count > many or self._gone_count > _MORE_GONE * many
        if too_many_gone or self._runs.outgrown or len(self._runs) > _MOST_RUNS:
            with suppress(MemoryError):  # the change is made; the next one tries again
                self._rebuild()

    def _rebuild(self) -> None:
        """Build everything anew from what is live, slots in the order of ids."""
        with self.all_or_none():
            self._build_anew()

    def _build_anew(self) -> None:
        slots = np.flatnonzero(~self._is_gone(np.arange(self._used)))
        ids = self._translation.ids(slots)
        if not (ids[1:] > ids[:-1]).all():
            order = np.argsort(ids, kind="stable")
            slots, ids = slots[order], ids[order]
        rows, groups = self._ranges[slots], self._groups
        numbers = self._group_numbers[slots] if len(self._group_numbers) else _NO_GROUPS
        self._clear()
        if len(numbers):
            keyed = numbers != EVERY_GROUP
            self._groups, numbers[keyed] = number_keys(self._groups, groups.keys[numbers[keyed]])
            if not keyed.any():
                numbers = _NO_GROUPS
        self._append(ids, rows[:, : self.dimensions], rows[:, self.dimensions :], numbers)
        self._add_run(0)

    # -- asking -----------------------------------------------------------------------------------------

    @override
    def stab(
        self,
        points: Column,
        out: Matches | None = None,
        groups: Column | None = None,
        slots: bool = False,
        threads: int = 1,
    ) -> Matches:
        """The ids of all boxes that contain each point.

        Args:
            points: a row per point, or one point; NaN or None in any dimension: in no box.
            out: buffers to write into instead of new ones; the answer is a view of them.
            groups: the group of each point.
            slots: return the index's own 32-bit slots (translate with `slot_ids`), which is faster.
            threads: cores to split a large batch over.
        """
        asked = self._asked(self._view, points, groups)
        dtype = np.uint32 if slots else np.int64
        if threads > 1 and len(asked.words) >= _WORTH_THREADS:
            return self._stab_threaded(asked, dtype, out, threads)
        return self._answer(asked, dtype, out)

    def stab_ordinals(
        self, ordinals: Int64s, missing: Bools | None = None, groups: Int64s | None = None, slots: bool = False
    ) -> Matches:
        """Like `stab`, for points that are rows of ordinals already; `missing` marks coordinates in no range."""
        asked = self._asked_ordinals(self._view, ordinals, missing, groups)
        return self._answer(asked, np.uint32 if slots else np.int64, None)

    def _answer(self, asked: Asked, dtype: npt.DTypeLike, out: Matches | None) -> Matches:
        """The answer in one thread; how many ids it has per point says which memory to try for the next."""
        found = answer(asked, dtype, out, self._per_point * len(asked.words))
        if len(found):
            self._per_point = len(found.ids) / len(found)
        return found

    def moves_ordinals(
        self,
        before: Int64s,
        after: Int64s,
        nowhere: Bools | None = None,
        missing: Bools | None = None,
        before_groups: Int64s | None = None,
        after_groups: Int64s | None = None,
        groupless: Bools | None = None,
    ) -> tuple[Matches, Matches]:
        """The slots of the boxes that each move enters, and of those it leaves, between rows of ordinals.

        `nowhere` and `missing` mark coordinates of starts and of ends that are in no range, `groupless` moves whose
        start is in no group.
        """
        view = self._view
        starts = self._asked_ordinals(view, before, nowhere, before_groups)
        ends = self._asked_ordinals(view, after, missing, after_groups)
        return compare_moves(starts, ends, _NONE_GROUPLESS if groupless is None else groupless)

    def _asked_ordinals(self, view: View, ordinals: Int64s, missing: Bools | None, groups: Column | None) -> Asked:
        words = kernel_ready(table_rows(ordinals, self.dimensions, "ordinals", one_row=True))
        absent: Bools = _NONE_MISSING if missing is None else kernel_ready(np.asarray(missing).reshape(words.shape))
        return Asked(view, words, False, absent, self._asked_groups(view, len(words), groups))

    def count(self, points: Column, groups: Column | None = None) -> Int64s:
        """How many boxes contain each point."""
        asked = self._asked(self._view, points, groups)
        counts = np.zeros(len(asked.words), np.int64)
        for rows, found in search_rounds(asked):
            for offsets, _ in found:
                counts[rows] += np.diff(offsets)
        return counts

    def _asked(self, view: View, points: Column, groups: Column | None) -> Asked:
        """What a caller asks, checked."""
        is_float = (self.values or "float64") == "float64"
        if is_float:
            words, missing = point_rows(points, self.dimensions).view(np.int64), _NONE_MISSING
        else:
            table = table_rows(points, self.dimensions, "points", one_row=True)
            flat, absent = values_to_ordinals(flat_items(points, table), "int64")
            words = kernel_ready(flat.reshape(table.shape))
            missing = absent.reshape(table.shape) if len(absent) else _NONE_MISSING
        return Asked(view, words, is_float, missing, self._asked_groups(view, len(words), groups))

    def _asked_groups(self, view: View, points: int, groups: Column | None) -> Int64s:
        if not is_keyed(view):
            return _NO_KEYS
        return require_groups(groups, points, "point", "boxes")

    def _stab_threaded(self, asked: Asked, dtype: npt.DTypeLike, out: Matches | None, threads: int) -> Matches:
        shares = split_rows(len(asked.words), threads)
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda share: answer(asked.rows(share), dtype, None), shares))
            ends = np.cumsum([len(part.ids) for part in found]).tolist()
            offsets, ids = answer_buffers(len(asked.words), ends[-1], dtype, out)
            if len(ids) < ends[-1]:
                ids = widened(ids, 0, ends[-1], out)

            def write(share: slice, part: Matches, start: int) -> None:
                offsets[share.start : share.stop] = part.offsets[:-1] + start
                ids[start : start + len(part.ids)] = part.ids

            list(pool.map(write, shares, found, [0, *ends[:-1]]))
        offsets[-1] = ends[-1]
        return Matches(offsets, ids[: ends[-1]])

    # -- saving -----------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything the index is, as flat arrays to save; changes are merged in first."""
        with self._lock:
            if self._gone_count or len(self._runs) > 1:
                self._rebuild()
                self._publish()
            slot_ids, origin, _ = self._translation
            arrays: dict[str, npt.NDArray[Any]] = {
                "ranges": self._ranges[: self._used],
                "slot_ids": slot_ids[: self._used],
                "group_numbers": self._group_numbers[: self._used],
                "group_keys": self._groups.keys[: self._groups.size],
                "group_table": self._groups.table,
                "state": np.array(
                    [_FORMAT, self.dimensions, VALUE_TYPES.index(self.values), self.budget, origin, self._used]
                ),
            }
            for number, part in enumerate(part for run in self._runs for part in run.parts):
                stem = f"{_name_of(part)}{number}"
                arrays |= {f"{stem}.{name}": array for name, array in _saved(part).items()}
            return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The index that `to_arrays` described; arrays may be memory-mapped and read-only, nothing is copied."""
        ready = {name: kernel_ready(array) for name, array in arrays.items()}
        version, dimensions, kind, budget, origin, used = ready["state"].tolist()
        check_format(version, _FORMAT)
        index = cls(dimensions, VALUE_TYPES[kind], budget)
        index._ranges, index._group_numbers, index._used = ready["ranges"], ready["group_numbers"], used
        index._translation = Translation(ready["slot_ids"], origin)
        index._groups = Groups(ready["group_keys"], ready["group_table"], len(ready["group_keys"]))
        parts: list[Part] = []
        for stem in sorted({name.partition(".")[0] for name in ready if "." in name}):
            own = {name.removeprefix(f"{stem}."): array for name, array in ready.items() if name.startswith(f"{stem}.")}
            kind_of_part = _PARTS[stem.rstrip("0123456789")]
            parts.append(RunGrid.from_arrays(own) if kind_of_part is RunGrid else kind_of_part(**own))
        if used:
            index._runs.add(_Run(0, used, tuple(parts), _NO_GROUPS))
        index._publish()
        return index

    # -- reporting --------------------------------------------------------------------------------------

    @property
    def slot_ids(self) -> Int64s:
        """The id of every slot."""
        view = self._view
        return view.translation.table(view.used)

    @property
    def keyed(self) -> bool:
        """Whether groups matter: some structure tells boxes apart by group."""
        return is_keyed(self._view)

    @property
    def structures(self) -> list[Structure]:
        """What answers, for how many boxes, in how many bytes; the exact rows of all boxes come first."""
        view = self._view
        shared = array_bytes((view.ranges, view.group_numbers, view.gone, view.translation.slot_ids, *view.groups[:2]))
        found = [Structure("exact_rows", view.used, shared)]
        return found + [Structure(_name_of(part), int(part.boxes[0]), _bytes_of(part)) for part in view.parts]

    @override
    def box(self, id: int) -> Box:
        """The lows and highs ``[lo, hi)`` of one box, infinite where it is unbounded."""
        kind = self.values or "float64"
        lows, highs = zip(*(bounds_of(*ends, kind) for ends in zip(*self.ordinals(id), strict=True)), strict=True)
        return lows, highs

    def ordinals(self, id: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first and last ordinals of one box."""
        with self._lock:
            row = self._ranges[self._slot(id)].tolist()
            return tuple(row[: self.dimensions]), tuple(row[self.dimensions :])

    def group_of(self, id: int) -> int | None:
        """The group of one box; None if it holds in every group."""
        with self._lock:
            slot = self._slot(id)
            number = int(self._group_numbers[slot]) if len(self._group_numbers) else EVERY_GROUP
            return None if number == EVERY_GROUP else int(self._groups.keys[number])

    def contents(self) -> Contents:
        """Every box of the index, by ascending id; firsts and lasts have a column per dimension."""
        with self._lock:
            slots = np.flatnonzero(~self._is_gone(np.arange(self._used)))
            ids = self.slot_ids[slots]
            order = sorted_positions(ids)
            slots = slots[order]
            rows = self._ranges[slots]
            numbers = self._group_numbers[slots] if len(self._group_numbers) else np.full(len(slots), EVERY_GROUP)
            grouped = numbers != EVERY_GROUP
            groups = np.zeros(len(slots), np.int64)
            groups[grouped] = self._groups.keys[numbers[grouped]]
            return Contents(ids[order], rows[:, : self.dimensions], rows[:, self.dimensions :], groups, grouped)

    @override
    def storage(self) -> Storage:
        """Nodes, cells and groups, and the boxes in them; the model is 4 bytes per slot and bound."""
        view = self._view
        nodes = sum(_nodes_of(part) for part in view.parts)
        entries = sum(int(part.boxes[3] if isinstance(part, RunGrid) else part.boxes[0]) for part in view.parts)
        return Storage(nodes, entries, 4 * entries * (1 + 2 * self.dimensions), sum(s.nbytes for s in self.structures))

    def __len__(self) -> int:
        return self._used - self._gone_count

    @override
    def check(self) -> None:
        every = np.arange(self._used)
        assert self._gone_count == np.count_nonzero(self._is_gone(every)), "what is gone was counted"
        hidden = read_bits(self._hidden, every) if len(self._hidden) else np.zeros(len(every), np.bool_)
        assert self._hidden_count == np.count_nonzero(hidden), "what is hidden was counted"
        bounds = [0, *(run.stop for run in self._runs)]
        assert bounds == [*(run.start for run in self._runs), self._used], "runs lie side by side"
        slot_ids = self._translation.slot_ids
        held = [np.zeros(0, np.uint32)]
        for run in self._runs:
            for part in run.parts:
                keyed = len(part.is_float) > self.dimensions
                axes = self._axes(keyed)
                numbers = self._group_numbers if keyed else _NO_GROUPS
                if isinstance(part, RunGrid):
                    check_grid(part, self._ranges, axes)
                    held.append(grid_slots(part))
                elif isinstance(part, GroupBlocks):
                    check_blocks(part, self._ranges, numbers, axes)
                    held.append(block_slots(part))
                else:
                    check_tree(part, self._ranges, numbers, axes)
                    held.append(tree_slots(part))
                of_others = (held[-1] < run.start) | (held[-1] >= run.stop)
                assert not of_others.any() or part is self._grid(), "only the first grid holds slots of other runs"
            if len(slot_ids):
                ids = slot_ids[run.by_id] if len(run.by_id) else slot_ids[run.start : run.stop]
                assert (ids[1:] >= ids[:-1]).all(), "ids ascend within a run"
        found = np.concatenate(held).astype(np.int64)
        assert len(np.unique(found)) == len(found), "no box is stored twice"
        gone = self._is_gone(every)
        assert np.isin(every[~gone], found).all(), "every live box is in a structure"
        assert hidden[found].sum() == gone[found].sum() == np.count_nonzero(gone[found] & hidden[found]), (
            "of those that are gone, the ones that a structure still holds are hidden"
        )
        assert (self._ranges[every, : self.dimensions] <= self._ranges[every, self.dimensions :]).all(), "none is empty"


def _name_of(part: Part) -> str:
    return next(name for name, kind in _PARTS.items() if isinstance(part, kind))


def _saved(part: Part) -> dict[str, npt.NDArray[Any]]:
    return part.to_arrays() if isinstance(part, RunGrid) else part._asdict()


def _bytes_of(part: Part) -> int:
    """What a structure takes; room behind the blocks of a grid that nobody wrote to is no memory yet."""
    unused = 4 * (len(part.words) - PADDING - int(part.boxes[4])) if isinstance(part, RunGrid) else 0
    return array_bytes(part) - unused


def _nodes_of(part: Part) -> int:
    """Nodes of a tree, cells of a grid, groups."""
    if isinstance(part, PackedTree):
        return len(part.scales)
    return len(part.blocks) if isinstance(part, RunGrid) else len(part.starts) - 1


def _counts_on(ids: Int64s, first: int) -> bool:
    """Whether ids go on from `first`, one by one."""
    return int(ids[0]) == first and bool((ids[1:] - ids[:-1] == 1).all())
