"""Does a structure keep its contract? Random scripts against plain comparisons, for whoever writes a structure.

A script inserts ranges that touch, repeat, nest and are unbounded, removes some, makes calls that must be refused, and
asks at the ends of the ranges and beside them. After every call the structure must agree with a dictionary, and its own
`check` must pass. Scripts are drawn from seeds: a failure names its seed and can be repeated.

>>> from fencepost.indexes import CEI
>>> check_index(lambda: CEI(domain=(0, 64), length=8), scripts=2)
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fencepost._text import name_kind
from fencepost.errors import FencepostError
from fencepost.indexes.contracts.bands import BandIndex
from fencepost.indexes.contracts.borders import BorderIndex
from fencepost.indexes.contracts.boxes import BoxesIndex
from fencepost.indexes.contracts.intervals import IntervalIndex

Range = tuple[float, float]
Point = tuple[float, ...]
Pair = tuple[int, int]
_STEPS = 25
_IDS = 20
"""So few ids that scripts meet known, removed and unknown ones."""


def check_index(make: Callable[[], Any], scripts: int = 20, seed: int = 0) -> None:
    """Run random scripts on a structure; an AssertionError names the script and the call that broke the contract.

    Args:
        make: makes an empty structure that follows `IntervalIndex`, `BoxesIndex`, `BorderIndex` or `BandIndex`.
        scripts: how many scripts to run.
        seed: of the first script; each following script has the next one.
    """
    for number in range(seed, seed + scripts):
        subject, rng = make(), np.random.default_rng(number)
        script = next((script for contract, script in _SCRIPTS.items() if isinstance(subject, contract)), None)
        if script is None:
            contracts = ", ".join(contract.__name__ for contract in _SCRIPTS)
            raise FencepostError(name_kind(subject), f"one of {contracts}", "Derive it from its contract.")
        try:
            script(subject, rng).run()
        except Exception as error:
            raise AssertionError(
                f"{type(subject).__name__}, script {number}: {error or type(error).__name__}"
            ) from error


class _Script:
    """Random calls of one structure, each followed by a comparison."""

    def __init__(self, subject: Any, rng: np.random.Generator) -> None:
        self.subject, self.rng = subject, rng

    def run(self) -> None:
        calls = [getattr(self, name) for name in dir(self) if name.startswith("call_")]
        for _ in range(_STEPS):
            call = calls[self.rng.integers(len(calls))]
            call()
            self.subject.check()
            self.compare()

    def compare(self) -> None:
        raise NotImplementedError

    def coordinate(self) -> float:
        """Mostly whole numbers, so that ends meet; also halves, neighbours of whole numbers, and far away."""
        whole = float(self.rng.integers(-9, 53))
        others = [whole / 2, math.nextafter(whole, math.inf), math.nextafter(whole, -math.inf), whole * 1e9]
        return [whole, whole, whole, *others][self.rng.integers(7)]

    def draw_range(self) -> Range:
        """A range that holds something; sometimes unbounded."""
        low, high = sorted((self.coordinate(), self.coordinate()))
        high = math.nextafter(high, math.inf) if low == high else high
        open_end = self.rng.integers(8)
        return -math.inf if open_end in (0, 1) else low, math.inf if open_end in (1, 2) else high

    def draw_id(self) -> int:
        return int(self.rng.integers(_IDS))

    def expect(self, same: bool, what: str) -> None:
        if not same:
            raise AssertionError(what)

    def must_refuse(self, what: str, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except FencepostError:
            return
        raise AssertionError(f"{what} was not refused")


class _Stabbed(_Script):
    """Structures that keep ranges by id, one or one per axis, and are asked which of them hold a value."""

    def __init__(self, subject: Any, rng: np.random.Generator) -> None:
        super().__init__(subject, rng)
        self.axes = getattr(subject, "dimensions", 1)
        self.flat = self.axes == 1 and not isinstance(subject, BoxesIndex)
        self.closed = bool(getattr(subject, "closed", False))
        self.held: dict[int, list[Range]] = {}

    def draw(self) -> list[Range]:
        return [self.draw_range() for _ in range(self.axes)]

    def written(self, corner: list[float]) -> Any:
        """A bound or a point, as the structure takes it."""
        return corner[0] if self.flat else corner

    def ends(self, ranges: list[Range]) -> tuple[Any, Any]:
        return self.written([low for low, _ in ranges]), self.written([high for _, high in ranges])

    def call_insert(self) -> None:
        id, drawn = self.draw_id(), self.draw()
        if id in self.held:
            self.must_refuse(f"inserting id {id} again", self.subject.insert, id, *self.ends(drawn))
        else:
            self.subject.insert(id, *self.ends(drawn))
            self.held[id] = drawn

    def call_insert_many(self) -> None:
        drawn = {id: self.draw() for id in set(range(_IDS)) - set(self.held) if self.rng.integers(3) == 0}
        if drawn:
            los, his = zip(*(self.ends(ranges) for ranges in drawn.values()), strict=True)
            self.subject.insert_many(list(drawn), list(los), list(his))
            self.held |= drawn

    def call_insert_faulty(self) -> None:
        """One fault among good ones: nothing may be taken."""
        good, bad = self.draw(), self.draw()
        bad[-1] = ((math.nan, 1.0), (5.0, 4.0))[self.rng.integers(2)]
        los, his = zip(*(self.ends(ranges) for ranges in (good, bad)), strict=True)
        self.must_refuse("a faulty range", self.subject.insert_many, [_IDS, _IDS + 1], list(los), list(his))

    def call_remove(self) -> None:
        id = self.draw_id()
        if id in self.held:
            self.subject.remove(id)
            del self.held[id]
        else:
            self.must_refuse(f"removing the unknown id {id}", self.subject.remove, id)

    def call_remove_many(self) -> None:
        ids = [id for id in self.held if self.rng.integers(3) == 0]
        self.must_refuse("removing an unknown id", self.subject.remove_many, [*ids, _IDS])
        self.subject.remove_many(ids)
        for id in ids:
            del self.held[id]

    def contains(self, id: int, point: Point) -> bool:
        return all(
            low <= value and (value < high or high == math.inf or (self.closed and value == high))
            for value, (low, high) in zip(point, self.held[id], strict=True)
        )

    def points(self) -> list[Point]:
        """Places at the ends of what is held, beside them, and anywhere."""
        found = [tuple(self.coordinate() for _ in range(self.axes)) for _ in range(6)]
        found.append(tuple([math.nan] * self.axes))
        for ranges in self.held.values():
            for end in (0, 1):
                corner = [each[end] if math.isfinite(each[end]) else self.coordinate() for each in ranges]
                found += [tuple(corner), tuple(math.nextafter(value, -math.inf) for value in corner)]
        return found

    def compare(self) -> None:
        self.expect(len(self.subject) == len(self.held), f"it has {len(self.subject)} of {len(self.held)} ranges")
        for id in range(_IDS + 2):
            self.expect((id in self.subject) == (id in self.held), f"`{id} in index` is wrong")
        self.compare_answers()

    def compare_answers(self) -> None:
        points = self.points()
        answer = self.subject.stab([self.written(list(point)) for point in points])
        for point, row in zip(points, answer, strict=True):
            expected = sorted(id for id in self.held if self.contains(id, point))
            self.expect(sorted(row.tolist()) == expected, f"at {point} got {sorted(row.tolist())}, expected {expected}")


class _Moved(_Stabbed):
    """Structures that follow objects and say which ranges a move enters, leaves and jumps over."""

    def __init__(self, subject: Any, rng: np.random.Generator) -> None:
        super().__init__(subject, rng)
        self.objects: dict[int, Point] = {}

    def call_update(self) -> None:
        points = self.points()
        objects = [int(self.rng.integers(6)) for _ in points]
        answer = self.subject.update(objects, [self.written(list(point)) for point in points])
        for row, (object, point) in enumerate(zip(objects, points, strict=True)):
            before = self.objects.get(object)
            if not math.isnan(point[0]):
                self.objects[object] = point
            self.compare_move(f"object {object}", before, point, answer, row)

    def call_remove_object(self) -> None:
        for object in list(self.objects)[:1]:
            self.subject.remove_object(object)
            del self.objects[object]

    def compare_move(self, what: str, before: Point | None, after: Point, answer: Any, row: int) -> None:
        seen = not math.isnan(after[0])
        was = {id for id in self.held if seen and before is not None and self.contains(id, before)}
        now = {id for id in self.held if seen and self.contains(id, after)}
        expected = {"enter": now - was, "exit": was - now}
        if answer.cross is not None and self.axes == 1:
            ends = None if before is None or not seen else sorted((before[0], after[0]))
            expected["cross"] = {id for id in self.held if ends and self.jumps_over(id, *ends)} - was - now
        for kind, ids in expected.items():
            got = set(getattr(answer, kind)[row].tolist())
            self.expect(got == ids, f"{what} from {before} to {after}: {kind} got {got}, expected {ids}")

    def jumps_over(self, id: int, low: float, high: float) -> bool:
        [(start, end)] = self.held[id]
        return low <= start and end <= high

    def compare_answers(self) -> None:
        points = [point for point in self.points() if not math.isnan(point[0])]
        moves = list(zip(points, reversed(points), strict=True))
        answer = self.subject.crossings(*([self.written(list(move[end])) for move in moves] for end in (0, 1)))
        for row, (before, after) in enumerate(moves):
            self.compare_move("a move", before, after, answer, row)
        for id in self.held:
            inside = {object for object, point in self.objects.items() if self.contains(id, point)}
            self.expect(set(self.subject.inside(id)) == inside, f"`inside({id})` is wrong")


class _Paired(_Script):
    """Structures that keep rows of two sides and bands for their differences."""

    def __init__(self, subject: Any, rng: np.random.Generator) -> None:
        super().__init__(subject, rng)
        self.queries: dict[int, Range] = {}
        self.rows: dict[str, dict[int, float]] = {"left": {}, "right": {}}

    def draw_side(self) -> Any:
        return ("left", "right")[self.rng.integers(2)]

    def call_insert_query(self) -> None:
        id, (low, high) = self.draw_id(), self.draw_range()
        if id in self.queries:
            self.must_refuse(f"inserting query {id} again", self.subject.insert_query, id, low, high)
        else:
            self.must_refuse("a band that is not a number", self.subject.insert_query, id, math.nan, high)
            self.subject.insert_query(id, low, high)
            self.queries[id] = (low, high)

    def call_remove_query(self) -> None:
        id = self.draw_id()
        if self.queries.pop(id, None) is None:
            self.must_refuse(f"removing the unknown query {id}", self.subject.remove_query, id)
        else:
            self.subject.remove_query(id)

    def call_insert(self) -> None:
        side = self.draw_side()
        new = {id: self.coordinate() for id in set(range(_IDS)) - set(self.rows[side]) if self.rng.integers(3) == 0}
        self.must_refuse("a row at NaN", self.subject.insert_many, side, [_IDS, _IDS + 1], [1.0, math.nan])
        self.subject.insert_many(side, list(new), list(new.values()))
        self.rows[side] |= new

    def call_remove(self) -> None:
        side, row = self.draw_side(), self.draw_id()
        if self.rows[side].pop(row, None) is None:
            self.must_refuse(f"removing the unknown {side} row {row}", self.subject.remove, side, row)
        else:
            self.subject.remove(side, row)

    def call_move(self) -> None:
        side = self.draw_side()
        for row in list(self.rows[side])[:3]:
            was, value = self.pairs(side, self.rows[side][row]), self.coordinate()
            move = self.subject.move(side, row, value)
            self.rows[side][row] = value
            now = self.pairs(side, value)
            self.compare_pairs(f"moving {side} row {row} to {value} entered", move.entered, now - was)
            self.compare_pairs(f"moving {side} row {row} to {value} left", move.left, was - now)

    def pairs(self, side: str, value: float) -> set[Pair]:
        """Of rows of the other side, and queries: exact, by fractions."""
        found = set()
        for row, other in self.rows["right" if side == "left" else "left"].items():
            difference = Fraction(value) - Fraction(other) if side == "left" else Fraction(other) - Fraction(value)
            found |= {(row, id) for id, (low, high) in self.queries.items() if low <= difference <= high}
        return found

    def compare_pairs(self, what: str, got: Any, expected: set[Pair]) -> None:
        pairs = list(zip(got.rows.tolist(), got.queries.tolist(), strict=True))
        self.expect(len(pairs) == len(set(pairs)), f"{what}: pairs {pairs}, one of them twice")
        self.expect(set(pairs) == expected, f"{what}: got {set(pairs)}, expected {expected}")

    def compare(self) -> None:
        for side in self.rows:
            for value in [self.coordinate() for _ in range(3)] + list(self.rows[side].values())[:3]:
                expected = self.pairs(side, value)
                self.compare_pairs(f"{side} at {value}", self.subject.pairs(side, value), expected)
                affected = sorted(self.subject.affected(side, value).tolist())
                self.expect(affected == sorted({id for _, id in expected}), f"{side} at {value}: affected {affected}")


_SCRIPTS: dict[type, type[_Script]] = {
    IntervalIndex: _Stabbed,
    BoxesIndex: _Stabbed,
    BorderIndex: _Moved,
    BandIndex: _Paired,
}
