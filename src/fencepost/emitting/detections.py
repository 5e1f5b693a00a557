"""Detections: findings of engines, as columns, before they are written as events."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from fencepost.events import REASONS, Identities
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, UInt32s
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS

REASON_CODES = {name: code for code, name in enumerate(REASONS)}
ENDED, EXITED, CROSSED, ENTERED, STAYED = range(5)
"""The order of events on one row: what time ended before it, exits, crosses, enters, insides."""


class Pairs(NamedTuple):
    """Positions or moves, each with the row of a rule."""

    moves: Int64s
    rules: Int64s

    def only(self, chosen: Bools) -> "Pairs":
        """The chosen pairs."""
        return Pairs(self.moves[chosen], self.rules[chosen])


class Detections(NamedTuple):
    """A row per detection; `Subjects` has what its numbers refer to."""

    rules: Int64s
    """Rows of the rules."""
    rows: Int64s
    """The row of the batch that caused it; of no meaning where no row did."""
    before: Int64s
    """Places of values, -1 for nowhere; likewise `after`, where only the deleted are nowhere."""
    after: Int64s
    times: Int64s
    detects: UInt8s
    reasons: UInt8s
    phases: UInt8s
    objects: Int64s
    """Numbers of the objects; of pairs, of their left rows."""
    others: Int64s | None = None
    """Of pairs: numbers of the right rows."""
    from_left: Bools | None = None
    """Of pairs: whether the left row is the one that moved."""
    since: Int64s | None = None
    """When that began which is reported now, where a rule is damped; None where all are reported at once."""

    def take(self, chosen: Int64s | UInt32s | slice) -> "Detections":
        """The chosen detections, in that order."""
        return Detections(*(None if column is None else column[chosen] for column in self))  # type: ignore[arg-type]


class Values(Protocol):
    """Values of attributes by place: ordinals, and which of them are known."""

    @property
    def ordinals(self) -> Mapping[str, Int64s]:
        """By attribute."""

    @property
    def known(self) -> Mapping[str, Bools]:
        """By attribute."""

    @property
    def keys(self) -> Mapping[str, Int64s]:
        """By key: codes of its strings, negative where it is not known."""


class Texts(Protocol):
    """What rules are called, by row."""

    def names(self, rows: Int64s) -> Any:
        """Their names, an Arrow array of strings."""

    def labels(self, rows: Int64s, short: bool = False) -> Any:
        """Their labels, an Arrow array of maps; or of codes of maps, if it may be `short`."""

    def conditions(self, rows: Int64s) -> Any:
        """Their conditions, an Arrow array of strings."""


class Named(Protocol):
    """Objects by number."""

    @property
    def id_type(self) -> Any:
        """The Arrow type of their names in events; None before the first."""

    @property
    def type(self) -> Any:
        """The Arrow type of `values`."""

    def identities(self, numbers: Int64s) -> Identities:
        """The part of event ids that says which objects these are."""

    def values(self, numbers: Int64s) -> Any:
        """The objects themselves, an Arrow array."""

    def ids(self, values: Any) -> Any:
        """The names of objects in events."""


class Subjects(NamedTuple):
    """The rules, objects and values that the numbers of detections refer to."""

    rule_ids: Int64s
    """By row of rule; likewise `rule_versions`."""
    rule_versions: Int64s
    ascending: bool
    """Whether the ids of rules ascend with their rows."""
    version: int
    """Of the snapshot."""
    time: AttributeType | None
    types: Mapping[str, AttributeType]
    """Of the attributes that events have."""
    values: Values
    objects: Named
    others: Named | None = None
    ranks: Int64s | None = None
    """Of each row of the batch: its place in the order of events; None where no row caused anything."""
    sequences: Sequence[tuple[Int64s, Bools]] = ()
    """Of each row of the batch: the ordinals of sequence columns, and which are there."""
    sequence_count: int = 0
    """How many columns of a sequence there are, where no row has any."""
    named: Any = None
    """Of each row of the batch: its object, an Arrow array, where it is at hand."""
    key: tuple[str, ...] = ()
    """Columns of a key that pairs have in common, which events have behind the others."""
    only_movers: bool = False
    """Whether events of pairs name only the row that moved."""
    keys: Collection[str] = ()
    """The keys whose values events have."""
    strings: Callable[[str, Int64s], Any] | None = None
    """The strings of a key that have these codes, an Arrow array; null for negative ones."""
    all_strings: Callable[[str], Any] | None = None
    """All strings of a key, in the order of their codes."""
    texts: Texts | None = None
    """What the rules are called."""
    carried: Mapping[str, Any] = MappingProxyType({})
    """Columns of the batch that events carry, Arrow arrays."""
    carried_rows: Int64s | None = None
    """Of each row of the batch: its place in them; None where no row caused anything."""
    carried_types: Mapping[str, Any] = MappingProxyType({})
    """The types of such columns, as far as they are known."""
    shows_since: bool = False
    """Whether events say since when, as those of damped rules do."""
    ordered: bool = False
    """Whether detections come in the order of events."""


def detections_of(
    pairs: Pairs,
    kind: str,
    phase: int,
    before: Int64s,
    after: Int64s,
    times: Int64s,
    objects: Int64s,
    reasons: Any = None,
) -> Detections:
    """Detections of one kind, for pairs of row and rule."""
    count = len(pairs.rules)
    codes = np.zeros(count, np.uint8) if reasons is None else np.broadcast_to(np.asarray(reasons, np.uint8), count)
    detects, phases = np.full(count, DETECTS[kind], np.uint8), np.full(count, phase, np.uint8)
    return Detections(pairs.rules, pairs.moves, before, after, times, detects, codes, phases, objects)


def join_detections(parts: Sequence[Detections]) -> Detections:
    """All detections of several, which are of one kind of engine."""
    if not parts:
        nothing = np.zeros(0, np.int64)
        return detections_of(Pairs(nothing, nothing), "exit", EXITED, nothing, nothing, nothing, nothing)
    if len(parts) == 1:
        return parts[0]
    if any(part.since is not None for part in parts):
        parts = [part if part.since is not None else part._replace(since=part.times) for part in parts]
    columns = zip(*parts, strict=True)
    return Detections(*(None if each[0] is None else np.concatenate(each) for each in columns))  # type: ignore[arg-type]


def replace_detections(found: Detections, gone: Bools, parts: Sequence[Detections]) -> Detections:
    """The detections without those that are gone, and with others in their place, in no order.

    All columns are copied once, as they lie: most often few are gone, and fewer come.
    """
    parts = [part for part in parts if len(part.rules)]
    holes = np.flatnonzero(gone)
    if not len(holes):
        return join_detections([found, *parts])
    new = join_detections(parts) if parts else found.take(slice(0, 0))
    count = len(new.rules)
    size = len(gone) - len(holes) + count
    if new.since is not None and found.since is None:
        found = found._replace(since=found.times)
    elif new.since is None and found.since is not None:
        new = new._replace(since=new.times)
    # The last ones that stay go to the holes that are left.
    filled = holes[: np.searchsorted(holes, size)]
    moved = size + np.flatnonzero(~gone[size:])
    columns: list[Any] = []
    for own, others in zip(found, new, strict=True):
        if own is None or others is None:
            columns.append(None)
            continue
        column = np.empty(size, own.dtype)
        column[: len(gone)] = own[:size]
        column[filled[:count]] = others[: len(filled)]
        column[len(gone) :] = others[len(filled) :]
        column[filled[count:]] = own[moved]
        columns.append(column)
    return Detections(*columns)


def time_reasons(expires: Int64s, ends: Int64s) -> UInt8s:
    """Why time ended what it did: rules that expired by then, else silence."""
    codes = np.where(expires <= ends, REASON_CODES["expired"], REASON_CODES["timeout"])
    return codes.astype(np.uint8)
