"""The protocol of every engine: `fencepost.watching` has the one for objects, `fencepost.pairing` the one for pairs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from fencepost.emitting.detections import Detections, Subjects


class Step(NamedTuple):
    """The detections of an engine. Nothing has changed yet: `settle` is called once the events are written."""

    pieces: Iterable[Detections]
    """In the order of their events, each piece of bounded size; found as they are asked for, and only once."""
    about: Subjects
    settle: Callable[[], None]
    singly: Callable[[Any], list[tuple[Any, ...]]] | None = None
    """In place of pieces, where they are few and the caller asked for it: writes the events with an emitter, as tuples
    in the order of the columns of `about`."""


class Counts(NamedTuple):
    """Rows that an engine has taken."""

    rows: int = 0
    late: int = 0
    """Older than the last row of their object."""
    null: int = 0
    """Without any observation."""

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(*(one + two for one, two in zip(self, other, strict=True)))


class Waiting(NamedTuple):
    """What damping holds back."""

    damped: int = 0
    """Enters that waited and came to nothing, so far."""
    pending: int = 0
    """Pairs that are inside and not reported yet, now."""
    ending: int = 0
    """Pairs that are outside and still reported as inside, now."""

    def plus(self, other: "Waiting") -> "Waiting":
        """Both together."""
        return Waiting(*(one + two for one, two in zip(self, other, strict=True)))


class Engine(Protocol):
    """Rows, rules and time in, detections out.

    An engine has one side (objects) or two (left and right rows); tables come and go as one per side.
    """

    counts: Counts

    @property
    def version(self) -> int:
        """Of the snapshot in force."""

    @property
    def weight(self) -> int:
        """About how much it holds, in objects."""

    @property
    def waiting(self) -> Waiting:
        """What damping holds back."""

    def update(self, tables: Sequence[Any]) -> Step:
        """Take a batch of rows; None for a side without any."""

    def follow(self, rules: Any, elsewhere: Any = None) -> Step:
        """Let other rules be in force."""

    def advance(self, now: int) -> Step:
        """Let time pass for all objects."""

    def next_instant(self) -> int:
        """No clock marker before this ends or reports anything."""

    def tables(self) -> list[Any]:
        """All objects, a table per side."""

    def changes(self) -> list[Any] | None:
        """The objects that were touched since the last call, a table per side; None where all may have been."""

    def restore(self, entries: Iterable[Sequence[Any]]) -> None:
        """Take over what `tables` gave, and then what `changes` gave, in their order."""
