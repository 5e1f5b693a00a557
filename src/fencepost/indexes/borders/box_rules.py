"""Rules on several axes, the engine of n-D `Borders`: a `BoxIndex` tells moves; what is jumped over is walked to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arguments import Column, kernel_ready
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64
from fencepost.indexes.borders.axis import ROUND, AxisRules, Rounds
from fencepost.indexes.borders.lines import lines_meet, only
from fencepost.indexes.borders.moves import Asked
from fencepost.indexes.box_index.index import BoxIndex
from fencepost.indexes.contracts.borders import Crossings
from fencepost.indexes.kernels import id_map
from fencepost.indexes.matches import Matches, joined
from fencepost.indexes.ordinal import ValueType
from fencepost.indexes.papers.bmq_kernels import find_all
from fencepost.indexes.slice_list.search import Translation
from fencepost.indexes.slice_list.slot_table import grow

_CANDIDATES = 1 << 17
"""Judged in one round, on average: as many as stay in the cache."""
_FIRST_ROUND = 64
_SAMPLE = 1024


class Boxes(NamedTuple):
    """Inclusive ordinal ranges per place and axis, and the group of each place, which counts where `grouped`."""

    firsts: Int64s
    lasts: Int64s
    groups: Int64s
    grouped: Bools


class BoxRules:
    """Boxes with ids and groups, asked what moves enter, leave and cross.

    What a move enters and leaves is what holds at one of its ends only, which a `BoxIndex` finds.

    Only who asks for what is jumped over needs borders: then every axis has its ranges in an `AxisRules`, by place,
    built when first asked for. The candidates of a move are the boxes whose borders it passes on any axis (the paper's
    walk per axis) or, where these are more, those whose range on the best axis meets the move's; so are those of a
    move without a way, of an object that was nowhere or in another group. The best axis is the one on which fewest
    boxes hold at their middles, chosen when the number of boxes has doubled.

    Invariants: (1) every id has a place of its own; (2) the index, and every axis if there are any, holds exactly the
    places in use, with their ranges.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.is_float = False
        self._clear()

    def _clear(self) -> None:
        d = self.dimensions
        self._places = id_map.empty_map()
        self._vacant: list[int] = []
        self._borrowed = False
        """Whether somebody else may hold `_ids` and `_boxes`."""
        self._ids = np.zeros(0, np.int64)
        self._boxes = Boxes(
            np.zeros((0, d), np.int64), np.zeros((0, d), np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
        )
        self._index = BoxIndex(d)
        self._slot_places: Int64s | None = None
        """The place of every slot of the index; None if that has changed."""
        self._slot_translation = Translation(np.zeros(0, np.int64), 0)
        """The id of every slot, as long as `_slot_places` is known."""
        self._axes: list[AxisRules] = []
        self._best, self._chosen_at = 0, 0
        self._ticks = np.zeros(0, np.int64)
        self._tick = 0

    @property
    def live(self) -> int:
        """How many boxes there are."""
        return int(self._places.size[0])

    @property
    def keyed(self) -> bool:
        """Whether any box has a group."""
        return self._index.keyed or any(rules.keyed for rules in self._axes)

    def slots_of(self, ids: Int64s) -> Int64s:
        """The place of each id, or -1."""
        found: Int64s = find_all(self._places, ids)
        return found

    def slot_ids(self) -> Int64s:
        """The id of every place."""
        return self._ids

    def insert(self, ids: Int64s, firsts: Int64s, lasts: Int64s, groups: Int64s, in_all: Bools) -> None:
        """Add boxes whose ids are new and whose ranges are not empty."""
        if not self.live:
            self._clear()
        self._make_room(len(ids))
        places = np.array(self._vacant[len(self._vacant) - len(ids) :][::-1], np.int64)
        self._ids[places] = ids  # nobody sees what is vacant
        for column, new in zip(self._boxes, (firsts, lasts, groups, ~in_all), strict=True):
            column[places] = new
        self._places = id_map.grown(self._places, len(ids))
        with self._index.all_or_none(), self._without_axes_on_failure():
            self._index.values = self._kind
            self._index.insert_ordinals(places, firsts, lasts, _optional_groups(groups, in_all))
            if self._axes:
                self._insert_on_axes(places)
        put_all(self._places, ids, places)
        del self._vacant[len(self._vacant) - len(ids) :]
        self._slot_places = None
        if self._axes and self.live > 2 * self._chosen_at:
            with suppress(MemoryError):  # the change is made; the next one tries again
                self._choose_axis()

    def _make_room(self, count: int) -> None:
        """Have so many vacant places, in arrays of our own."""
        if self._borrowed:
            self._ids, self._boxes = self._ids.copy(), Boxes(*(column.copy() for column in self._boxes))
            self._borrowed = False
        held, lacking = len(self._ids), count - len(self._vacant)
        if lacking > 0:
            larger = grow(self._ids, held + lacking), *(grow(column, held + lacking) for column in self._boxes)
            self._vacant = [*range(len(larger[0]) - 1, held - 1, -1), *self._vacant]
            self._ids, self._boxes = larger[0], Boxes(*larger[1:])

    @contextmanager
    def _without_axes_on_failure(self) -> Iterator[None]:
        """Borders are built anew, when they are asked for again, if the block is left by an exception."""
        try:
            yield
        except BaseException:
            self._axes = []
            raise

    @property
    def _kind(self) -> ValueType:
        return "float64" if self.is_float else "int64"

    def _insert_on_axes(self, places: Int64s) -> None:
        for axis, rules in enumerate(self._axes):
            rules.is_float = self.is_float
            firsts, lasts = (np.ascontiguousarray(column[places, axis]) for column in self._boxes[:2])
            rules.insert(places, firsts, lasts, self._boxes.groups[places], ~self._boxes.grouped[places])

    def _build_axes(self) -> None:
        """Have the borders of every axis, if there are none yet."""
        if not self._axes:
            with self._without_axes_on_failure():
                self._axes = [AxisRules() for _ in range(self.dimensions)]
                if self.live:
                    self._insert_on_axes(np.sort(self._places.places()))
                    self._choose_axis()

    def _choose_axis(self) -> None:
        places = self._places.places()
        some = places[np.random.default_rng(0).integers(0, len(places), _SAMPLE)]
        holding = []
        for axis in range(self.dimensions):
            firsts, lasts = (np.sort(column[places, axis]) for column in self._boxes[:2])
            middles = self._boxes.firsts[some, axis] // 2 + self._boxes.lasts[some, axis] // 2
            started, ended = np.searchsorted(firsts, middles, "right"), np.searchsorted(lasts, middles, "left")
            holding.append(float((started - ended).mean()))
        self._best, self._chosen_at = int(np.argmin(holding)), len(places)

    def remove(self, slots: Int64s) -> None:
        """Take out the boxes at these places."""
        ids, going = self._ids[slots], slots.tolist()
        with self._index.all_or_none(), self._without_axes_on_failure():
            self._index.remove_many(slots)
            for rules in self._axes:
                rules.remove(rules.slots_of(slots))
        drop_all(self._places, ids)
        self._vacant += going
        self._slot_places = None

    def compact(self) -> None:
        """Merge all changes into freshly built lists."""
        self._slot_places = None
        self._index.compact()
        for rules in self._axes:
            rules.compact()

    def rule(self, slot: int) -> tuple[Int64s, Int64s, int | None]:
        """The first and last ordinals and the group of the box at a place."""
        firsts, lasts, groups, grouped = self._boxes
        return firsts[slot], lasts[slot], int(groups[slot]) if grouped[slot] else None

    def crossings(
        self,
        rows: int,
        asked: Rounds,
        cross: bool,
        slots: bool = False,
        out: Crossings | None = None,  # noqa: ARG002
        strategy: int = 0,  # noqa: ARG002
        outgrow: bool = False,  # noqa: ARG002
    ) -> Crossings:
        """What each of so many moves enters, leaves and (if asked for) crosses along its straight line."""
        if not cross:
            return self._compare(rows, asked, slots)
        self._build_axes()
        kinds: list[list[Matches]] = [[], [], []]
        start, size = 0, _FIRST_ROUND
        while start < rows:
            moves = asked(start, min(start + size, rows))
            candidates = self._find_candidates(moves)
            for kind, found in zip(kinds, self._judge(moves, candidates), strict=True):
                kind.append(found)
            start += size
            each = sum(len(found.ids) for found in candidates) / len(moves.after)
            size = int(np.clip(_CANDIDATES / (1 + each), _FIRST_ROUND, ROUND))
        enter, exit, crossed = (self._name(joined(kind, np.int64), slots) for kind in kinds)
        return Crossings(enter, exit, crossed)

    def _name(self, places: Matches, slots: bool) -> Matches:
        """An answer of places as one of ids, or of 32-bit places."""
        return Matches(places.offsets, places.ids.astype(np.uint32) if slots else self._ids[places.ids])

    def _compare(self, rows: int, asked: Rounds, slots: bool) -> Crossings:
        """What moves enter and leave: what holds at one end only."""
        if self._slot_places is None:
            self._slot_places = self._index.slot_ids
            self._slot_translation = _translation_of(self._ids[self._slot_places])
        kinds: list[list[Matches]] = [[], []]
        for start in range(0, rows, ROUND):
            moves = asked(start, min(start + ROUND, rows))
            found = self._index.moves_ordinals(
                moves.before,
                moves.after,
                self._mark(moves.first, moves.missing),
                self._mark(moves.missing),
                moves.before_groups if len(moves.before_groups) else None,
                moves.after_groups if len(moves.after_groups) else None,
                moves.groupless,
            )
            for kind, each in zip(kinds, found, strict=True):
                kind.append(Matches(each.offsets, self._numbers_of(each.ids, slots)))
        enter, exit = (joined(kind, np.uint32 if slots else np.int64) for kind in kinds)
        return Crossings(enter, exit, None)

    def _numbers_of(self, found: UInt32s, slots: bool) -> Any:
        """Places or ids of slots of the index."""
        assert self._slot_places is not None, "looked up before"
        return self._slot_places[found].astype(np.uint32) if slots else self._slot_translation.ids(found)

    def _mark(self, *masks: Bools) -> Bools | None:
        """Rows in any of the masks, with all their coordinates."""
        given = [mask for mask in masks if len(mask)]
        if not given:
            return None
        return np.repeat(np.logical_or.reduce(given)[:, np.newaxis], self.dimensions, axis=1)

    def _find_candidates(self, moves: Asked) -> list[Matches]:
        """The places that each move may enter, leave or cross; some of them several times."""
        rows = len(moves.after)
        on_axes = [
            moves._replace(
                before=np.ascontiguousarray(moves.before[:, axis]), after=np.ascontiguousarray(moves.after[:, axis])
            )
            for axis in range(self.dimensions)
        ]
        passed = np.zeros(rows, np.int64)
        far = np.zeros(rows, np.bool_)
        for axis, (rules, on_axis) in enumerate(zip(self._axes, on_axes, strict=True)):
            found = rules.locate(on_axis)
            s0, e0, s1, e1 = np.moveaxis(found.places.astype(np.int64), 2, 0)
            passed += (np.abs(s1 - s0) + np.abs(e1 - e0)).sum(axis=1)
            if axis == self._best:
                met = (np.maximum(s0, s1) - np.minimum(e0, e1)).sum(axis=1)
                for mask in (found.first, found.regrouped):
                    if len(mask):
                        far |= mask
        far |= passed > met
        absent = moves.missing if len(moves.missing) else np.zeros(rows, np.bool_)
        sources = []
        if not far.all():
            for rules, on_axis in zip(self._axes, on_axes, strict=True):
                found_near = rules.crossings(rows, on_axis._replace(missing=absent | far).rows, cross=True)
                sources += [each for each in found_near if each is not None]
        if far.any():
            here = on_axes[self._best]._replace(missing=absent | ~far)
            sources.append(self._axes[self._best].met(rows, here.rows))
        return sources

    def _judge(self, moves: Asked, candidates: list[Matches]) -> tuple[Matches, Matches, Matches]:
        """What moves enter, leave and cross, of the places they may."""
        rows = len(moves.after)
        total = sum(len(each.ids) for each in candidates)
        sources = np.stack([each.offsets for each in candidates])
        ids = np.concatenate([each.ids for each in candidates])
        sources += (np.cumsum([0, *(len(each.ids) for each in candidates)])[:-1])[:, np.newaxis]
        offsets = np.zeros((3, rows + 1), np.int64)
        found = [np.empty(total + 1, np.int64) for _ in range(3)]
        if len(self._ticks) < len(self._ids):
            self._ticks = np.zeros(2 * len(self._ids), np.int64)
        judge(self._boxes, moves, sources, ids, self._ticks, self._tick, offsets, *found)
        self._tick += rows
        enter, exit, neither = (Matches(ends, each[: ends[-1]]) for ends, each in zip(offsets, found, strict=True))
        at = np.repeat(np.arange(rows), neither.counts)
        firsts, lasts = self._boxes.firsts[neither.ids], self._boxes.lasts[neither.ids]
        kinds = [self._kind] * self.dimensions
        return enter, exit, only(neither, lines_meet(moves.before[at], moves.after[at], firsts, lasts, kinds))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as flat arrays; changes are merged in first."""
        in_use = np.zeros(len(self._ids), np.bool_)
        in_use[self._places.places()] = True
        own = {"ids": self._ids, "in_use": in_use, "is_float": np.array(self.is_float)}
        arrays = {f"box.{name}": array for name, array in (own | self._boxes._asdict()).items()}
        self._slot_places = None
        self._borrowed = True
        return arrays | {f"index.{name}": array for name, array in self._index.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The boxes that `to_arrays` described."""
        own = {name: kernel_ready(arrays[f"box.{name}"]) for name in ("ids", "in_use", *Boxes._fields)}
        rules = cls(own["firsts"].shape[1])
        rules.is_float = bool(arrays["box.is_float"])
        prefix = "index."
        rules._index = BoxIndex.from_arrays(
            {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        )
        rules._borrowed = True
        rules._ids, rules._boxes = own["ids"], Boxes(*(own[name] for name in Boxes._fields))
        places = np.flatnonzero(own["in_use"])
        rules._vacant = np.flatnonzero(~own["in_use"]).tolist()
        rules._places = id_map.empty_map(len(places))
        put_all(rules._places, rules._ids[places], places)
        return rules

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        own = [*self._places, self._ids, *self._boxes, self._ticks]
        borders = sum(rules.nbytes() for rules in self._axes)
        return self._index.storage().nbytes + borders + sum(array.nbytes for array in own)

    def check(self) -> None:
        """Assert every invariant."""
        places = self._places.places()
        assert sorted([*places.tolist(), *self._vacant]) == list(range(len(self._ids))), "a place is an id's or vacant"
        assert (find_all(self._places, self._ids[places]) == places).all(), "every id has its place"
        self._index.check()
        assert len(self._index) == self.live, "the index holds every box"
        for place in places.tolist():
            held = (*self._index.ordinals(place), self._index.group_of(place))
            own = self.rule(place)
            assert held == (tuple(own[0]), tuple(own[1]), own[2]), "with its ranges and its group"
        for axis, rules in enumerate(self._axes):
            rules.check()
            assert rules.live == self.live, "every axis holds every box"
            for place in places.tolist():
                first, last, group = rules.rule(int(rules.slots_of(np.array([place]))[0]))
                own = self.rule(place)
                assert (first, last) == (own[0][axis], own[1][axis]), "with its range"
                assert group == own[2], "and its group"


def _translation_of(ids: Int64s) -> Translation:
    """From slots to ids, without a table where they are numbered one by one."""
    counted = len(ids) > 0 and bool((ids[1:] - ids[:-1] == 1).all())
    return Translation(np.zeros(0, np.int64), int(ids[0])) if counted else Translation(ids, 0)


def _optional_groups(groups: Int64s, in_all: Bools) -> Column | None:
    """Groups as a caller passes them: None for what is in all of them."""
    if in_all.all():
        return None
    return [None if every else group for group, every in zip(groups.tolist(), in_all, strict=True)]


@kernel
def put_all(places: id_map.IdMap, ids: Int64s, at: Int64s) -> None:
    """Add ids at their places."""
    for i in range(len(ids)):
        id_map.put(places, ids[i], at[i])


@kernel
def drop_all(places: id_map.IdMap, ids: Int64s) -> None:
    """Remove ids."""
    for i in range(len(ids)):
        id_map.drop(places, ids[i])


@kernel
def judge(
    boxes: Boxes,
    moves: Asked,
    sources: Int64s,
    candidates: Int64s,
    ticks: Int64s,
    tick: int,
    ends: Int64s,
    entered: Int64s,
    left: Int64s,
    neither: Int64s,
) -> None:
    """Sort each move's candidates into those entered, those left, and those that hold at neither end of a way.

    `sources` has a row of offsets into the candidates per source; `ticks` tell those of a move that came before.
    """
    firsts, lasts, groups, grouped = boxes.firsts, boxes.lasts, boxes.groups, boxes.grouped
    before, after = moves.before, moves.after
    a = i64(0)
    b = i64(0)
    c = i64(0)
    first, no_group, before_groups, after_groups = moves.first, moves.groupless, moves.before_groups, moves.after_groups
    for row in range(sources.shape[1] - 1):
        # A candidate of several sources is judged once per move.
        tick += 1
        unplaced = len(first) > 0 and first[row]
        groupless = len(no_group) > 0 and no_group[row]
        for source in range(sources.shape[0]):
            for i in range(sources[source, row], sources[source, row + 1]):
                box = candidates[i]
                if ticks[box] == tick:
                    continue
                ticks[box] = tick
                # By its group first, then on every axis.
                could_be, could_stay = not unplaced, True
                if grouped[box]:
                    could_be = not unplaced and not groupless and before_groups[row] == groups[box]
                    could_stay = after_groups[row] == groups[box]
                was, now = could_be, could_stay
                for axis in range(firsts.shape[1]):
                    was &= firsts[box, axis] <= before[row, axis] and before[row, axis] <= lasts[box, axis]
                    now &= firsts[box, axis] <= after[row, axis] and after[row, axis] <= lasts[box, axis]
                entered[a] = box
                a += now and not was
                left[b] = box
                b += was and not now
                neither[c] = box
                c += could_be and could_stay and not was and not now
        ends[0, row + 1] = a
        ends[1, row + 1] = b
        ends[2, row + 1] = c
