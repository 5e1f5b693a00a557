"""Rules on several axes: the most selective axis finds candidates, the others decide. The engine of n-D `Borders`."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes import idmap
from fencepost.indexes.arguments import kernel_ready
from fencepost.indexes.arrays import Bools, Int64s, i64
from fencepost.indexes.borders.axis import AxisRules, Rounds
from fencepost.indexes.borders.bmq_kernels import find_all
from fencepost.indexes.borders.border_moves import Asked
from fencepost.indexes.borders.contract import Crossings
from fencepost.indexes.borders.lines import lines_meet, only
from fencepost.indexes.matches import Matches

__all__ = ["BoxRules"]

_CANDIDATES = 1 << 17
"""Judged in one round, on average: as many as stay in the cache."""
_SAMPLE = 1024


class Boxes(NamedTuple):
    """Inclusive ordinal ranges per place and axis, and the group of each place, which counts where `grouped`."""

    firsts: Int64s
    lasts: Int64s
    groups: Int64s
    grouped: Bools


class BoxRules:
    """Boxes with ids and groups, asked what moves enter, leave and cross.

    The ranges of one axis are in an `AxisRules`, by place; a move's candidates are the boxes whose range there meets
    the move's. The axis is the one on which fewest boxes hold at their middles, chosen when boxes are first inserted
    and whenever their number has doubled.

    Invariants: (1) every id has a place of its own; (2) the axis holds exactly the places in use, with their ranges.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.is_float = False
        self._clear()

    def _clear(self) -> None:
        d = self.dimensions
        self._places = idmap.empty_map()
        self._vacant: list[int] = []
        self._ids = np.zeros(0, np.int64)
        self._boxes = Boxes(
            np.zeros((0, d), np.int64), np.zeros((0, d), np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
        )
        self._axis, self._chosen, self._chosen_at = 0, AxisRules(), 0
        self._round = 64

    @property
    def live(self) -> int:
        """How many boxes there are."""
        return int(self._places.size[0])

    @property
    def keyed(self) -> bool:
        """Whether any box has a group."""
        return self._chosen.keyed

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
        again = self._vacant[len(self._vacant) - min(len(ids), len(self._vacant)) :]
        del self._vacant[len(self._vacant) - len(again) :]
        used = len(self._ids)
        more = len(ids) - len(again)
        places = np.array([*again, *range(used, used + more)], np.int64)
        self._ids = np.append(self._ids, np.zeros(more, np.int64))
        self._ids[places] = ids
        columns = []
        for old, new in zip(self._boxes, (firsts, lasts, groups, ~in_all), strict=True):
            column = np.concatenate([old, np.zeros((more, *old.shape[1:]), old.dtype)])
            column[places] = new
            columns.append(column)
        self._boxes = Boxes(*columns)
        self._places = idmap.grown(self._places, len(ids))
        put_all(self._places, ids, places)
        if self.live > 2 * self._chosen_at:
            self._choose_axis()
        else:
            self._chosen.insert(places, firsts[:, self._axis], lasts[:, self._axis], groups, in_all)

    def _choose_axis(self) -> None:
        """Put all boxes into an axis of their own, on the axis that tells them apart best."""
        places = np.sort(self._places.places())
        boxes = Boxes(*(column[places] for column in self._boxes))
        some = np.random.default_rng(0).integers(0, len(places), _SAMPLE)
        holding = []
        for axis in range(self.dimensions):
            firsts, lasts = np.sort(boxes.firsts[:, axis]), np.sort(boxes.lasts[:, axis])
            middles = boxes.firsts[some, axis] // 2 + boxes.lasts[some, axis] // 2
            started, ended = np.searchsorted(firsts, middles, "right"), np.searchsorted(lasts, middles, "left")
            holding.append(float((started - ended).mean()))
        self._axis = int(np.argmin(holding))
        self._round = int(np.clip(_CANDIDATES / (1 + min(holding)), 64, 8192))
        self._chosen, self._chosen_at = AxisRules(), len(places)
        self._chosen.is_float = self.is_float
        firsts, lasts = (np.ascontiguousarray(column[:, self._axis]) for column in boxes[:2])
        self._chosen.insert(places, firsts, lasts, boxes.groups, ~boxes.grouped)

    def remove(self, slots: Int64s) -> None:
        """Take out the boxes at these places."""
        self._chosen.remove(self._chosen.slots_of(slots))
        drop_all(self._places, self._ids[slots])
        self._vacant += slots.tolist()

    def compact(self) -> None:
        """Merge all changes into freshly built lists."""
        self._chosen.compact()

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
    ) -> Crossings:
        """What each of so many moves enters, leaves and (if asked for) crosses along its straight line."""
        kinds: list[list[Matches]] = [[], [], []]
        for start in range(0, rows, self._round):
            moves = asked(start, min(start + self._round, rows))
            for kind, found in zip(kinds, self._answers(moves, cross), strict=True):
                kind.append(found)
        enter, exit, crossed = (_joined(kind, self._ids, slots) for kind in kinds)
        return Crossings(enter, exit, crossed if cross else None)

    def _answers(self, moves: Asked, cross: bool) -> tuple[Matches, Matches, Matches]:
        on_axis = moves._replace(
            before=np.ascontiguousarray(moves.before[:, self._axis]),
            after=np.ascontiguousarray(moves.after[:, self._axis]),
        )
        candidates = self._chosen.met(len(moves.after), on_axis.rows)
        offsets = np.zeros((3, len(candidates) + 1), np.int64)
        found = [np.empty(len(candidates.ids) + 1, np.int64) for _ in range(3)]
        judge(self._boxes, moves, candidates.offsets, candidates.ids, offsets, *found)
        enter, exit, neither = (Matches(ends, ids[: ends[-1]]) for ends, ids in zip(offsets, found, strict=True))
        if cross:
            at = np.repeat(np.arange(len(neither)), neither.counts)
            firsts, lasts = self._boxes.firsts[neither.ids], self._boxes.lasts[neither.ids]
            kind: Any = "float64" if self.is_float else "int64"
            neither = only(neither, lines_meet(moves.before[at], moves.after[at], firsts, lasts, kind))
        return enter, exit, neither

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as flat arrays; changes are merged in first."""
        in_use = np.zeros(len(self._ids), np.bool_)
        in_use[self._places.places()] = True
        own = {"ids": self._ids, "in_use": in_use, "chosen": np.array([self._axis, self._chosen_at, self._round])}
        return {**self._chosen.to_arrays(), **{f"box.{k}": v for k, v in (own | self._boxes._asdict()).items()}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The boxes that `to_arrays` described."""
        own = {name: kernel_ready(arrays[f"box.{name}"]) for name in ("ids", "in_use", "chosen", *Boxes._fields)}
        rules = cls(own["firsts"].shape[1])
        rules._chosen = AxisRules.from_arrays(arrays)
        rules.is_float = rules._chosen.is_float
        rules._axis, rules._chosen_at, rules._round = own["chosen"].tolist()
        rules._ids, rules._boxes = own["ids"], Boxes(*(own[name] for name in Boxes._fields))
        places = np.flatnonzero(own["in_use"])
        rules._vacant = np.flatnonzero(~own["in_use"]).tolist()
        rules._places = idmap.empty_map(len(places))
        put_all(rules._places, rules._ids[places], places)
        return rules

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        own = [*self._places, self._ids, *self._boxes]
        return self._chosen.nbytes() + sum(array.nbytes for array in own)

    def check(self) -> None:
        """Assert every invariant."""
        self._chosen.check()
        places = self._places.places()
        assert sorted([*places.tolist(), *self._vacant]) == list(range(len(self._ids))), "a place is an id's or vacant"
        assert (find_all(self._places, self._ids[places]) == places).all(), "every id has its place"
        assert self._chosen.live == self.live, "the axis holds every box"
        for place in places.tolist():
            slot = int(self._chosen.slots_of(np.array([place]))[0])
            first, last, group = self._chosen.rule(slot)
            own = self.rule(place)
            assert (first, last) == (own[0][self._axis], own[1][self._axis]), "with its range"
            assert group == own[2], "and its group"


def _joined(parts: list[Matches], ids: Int64s, slots: bool) -> Matches:
    """Answers of consecutive rows as one, of places or of ids."""
    ends = np.cumsum([0, *(len(part.ids) for part in parts)])
    offsets = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
    places = np.concatenate([np.zeros(0, np.int64), *(part.ids for part in parts)])
    return Matches(
        np.concatenate([np.zeros(1, np.int64), *offsets]), places.astype(np.uint32) if slots else ids[places]
    )


@kernel
def put_all(places: idmap.IdMap, ids: Int64s, at: Int64s) -> None:
    """Add ids at their places."""
    for i in range(len(ids)):
        idmap.put(places, ids[i], at[i])


@kernel
def drop_all(places: idmap.IdMap, ids: Int64s) -> None:
    """Remove ids."""
    for i in range(len(ids)):
        idmap.drop(places, ids[i])


@kernel
def judge(
    boxes: Boxes,
    moves: Asked,
    offsets: Int64s,
    candidates: Int64s,
    ends: Int64s,
    entered: Int64s,
    left: Int64s,
    neither: Int64s,
) -> None:
    """Sort each move's candidates into those entered, those left, and those that hold at neither end of a way."""
    firsts, lasts, groups, grouped = boxes.firsts, boxes.lasts, boxes.groups, boxes.grouped
    before, after = moves.before, moves.after
    a = i64(0)
    b = i64(0)
    c = i64(0)
    for row in range(len(offsets) - 1):
        unplaced = len(moves.first) > 0 and moves.first[row]
        groupless = len(moves.groupless) > 0 and moves.groupless[row]
        for i in range(offsets[row], offsets[row + 1]):
            box = candidates[i]
            could_be, could_stay = not unplaced, True
            if grouped[box]:
                could_be = not unplaced and not groupless and moves.before_groups[row] == groups[box]
                could_stay = moves.after_groups[row] == groups[box]
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
