"""Faults of many rules, collected and raised once."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fencepost._text import count as count_of
from fencepost.errors import FencepostError, call_rule, shorten
from fencepost.indexes.arrays import Bools, Int64s

if TYPE_CHECKING:
    from fencepost.snapshot import Snapshot

_MOST_SHOWN = 20
_LONGEST = 1_000


class RuleFaultsError(FencepostError):
    """Every fault of a set of rules: how many there are, and the first of them.

    Args:
        got: how many faults in how many rules.
        expected: what would have been accepted.
        remedy: the next step, a full sentence.
        total: how many faults there are.
        shown: the first of them, each one line that begins with its place.
    """

    def __init__(self, got: str, expected: str, remedy: str, total: int, shown: Sequence[str]) -> None:
        super().__init__(got, expected, remedy)
        self.total = total
        self.shown = tuple(shown)

    def __str__(self) -> str:
        lines = [super().__str__(), *(f"  {fault}" for fault in self.shown)]
        if self.total > len(self.shown):
            lines.append(f"  ... and {self.total - len(self.shown):,} more")
        return "\n".join(lines)


class RuleFault(NamedTuple):
    """A rule that cannot be used, and why."""

    id: int
    reason: str
    name: str | None = None
    """The name of the rule, if it has one."""

    @property
    def called(self) -> str:
        """Its id, and its name where it has one."""
        return call_rule(self.id, self.name)


class FaultyRulesWarning(UserWarning):
    """Rules that were left out of a version because they are faulty.

    Args:
        faults: each of them.
    """

    def __init__(self, faults: Sequence[RuleFault]) -> None:
        super().__init__(describe_faults(faults))
        self.faults = tuple(faults)


def describe_faults(faults: Sequence[RuleFault]) -> str:
    """What was left out, in a line for each of the first rules."""
    lines = [f"{count_of(len(faults), 'faulty rule')} not published; treated as paused until corrected:"]
    lines += [f"  rule {fault.called}: {shorten(fault.reason, _LONGEST)}" for fault in faults[:_MOST_SHOWN]]
    if len(faults) > _MOST_SHOWN:
        lines.append(f"  ... and {len(faults) - _MOST_SHOWN:,} more")
    return "\n".join(lines)


def report_faults(
    found: Mapping[int, str],
    names: Mapping[int, str],
    taken: list[RuleFault] | None,
    undecided: Sequence[str] = (),
) -> None:
    """Give the caller of `publish` the faults: in the list that it passed, else by a warning.

    A directory keeps the types of its columns for ever, so those that nothing tells are warned of.
    """
    if undecided:
        shown = ", ".join(undecided)
        warnings.warn(
            f"The rules do not tell the type of {shown}: no constant is compared with it, and this directory keeps it "
            f"as double from now on. Where it is something else, publish to a new directory and name the type: "
            f"schema={{{undecided[0]!r}: 'string'}}, or --type {undecided[0]}=string on the command line.",
            stacklevel=3,
        )
    faults = [RuleFault(id, reason, names.get(id)) for id, reason in sorted(found.items())]
    if taken is not None:
        taken += faults
    elif faults:
        warnings.warn(FaultyRulesWarning(faults), stacklevel=3)


class Faults:
    """Collects faults by the number of the row, line or rule they are in.

    >>> faults = Faults("row")
    >>> faults.add(3, "a null id")
    >>> faults.raise_if_any(10, "Correct it.")
    Traceback (most recent call last):
    ...
    fencepost.rules.faults.RuleFaultsError: 1 fault in 10 rows; expected none. Correct it.
      row 3: a null id
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._found: list[tuple[int, str]] = []
        self.total = 0
        self.undecided: tuple[str, ...] = ()
        """Columns whose type nothing tells, so that they are doubles until somebody says otherwise."""

    def add(self, number: int, fault: str) -> None:
        """Notes one fault, described in one line."""
        self.total += 1
        self._found.append((number, fault))

    def add_all(self, ids: Int64s, fault: str) -> None:
        """Notes one fault that all these rules have, under the first of them."""
        self.add(int(ids[0]), fault)

    def add_rows(self, wrong: Bools, fault: Callable[[int], str], numbers: Int64s | None = None) -> None:
        """Notes a fault for every marked row; the text is only made for those that may be shown.

        `numbers` are what the rows are called, where not by their position.
        """
        rows = np.flatnonzero(wrong)
        self.total += len(rows)
        for row in rows[:_MOST_SHOWN].tolist():
            self._found.append((row if numbers is None else int(numbers[row]), fault(row)))

    def raise_if_any(self, count: int, remedy: str) -> None:
        """Raises all faults at once."""
        if not self.total:
            return
        first = sorted(self._found, key=lambda found: found[0])[:_MOST_SHOWN]
        raise RuleFaultsError(
            f"{self.total:,} fault{'s' * (self.total > 1)} in {count:,} {self._unit}{'s' * (count != 1)}",
            "none",
            remedy,
            self.total,
            [f"{self._unit} {number}: {shorten(fault, _LONGEST)}" for number, fault in first],
        )


FindFaults = Callable[["Snapshot"], Mapping[int, str]]
"""Says which compiled rules whoever follows them cannot use, by id with the reason."""


class FaultyRules(Faults):
    """Collects the faults of rules by their ids, each rule once, and raises nothing: the others go on.

    >>> faulty = FaultyRules()
    >>> faulty.add(3, "a column that nobody knows")
    >>> faulty.found
    {3: 'a column that nobody knows'}
    """

    def __init__(self) -> None:
        super().__init__("rule")
        self.found: dict[int, str] = {}

    def add(self, number: int, fault: str) -> None:
        """Notes one fault; the first one of a rule counts."""
        self.found.setdefault(number, fault)

    def add_all(self, ids: Int64s, fault: str) -> None:
        """Notes one fault for each of these rules."""
        for id in ids.tolist():
            self.add(id, fault)

    def add_rows(self, wrong: Bools, fault: Callable[[int], str], numbers: Int64s | None = None) -> None:
        """Notes a fault for every marked row."""
        for row in np.flatnonzero(wrong).tolist():
            self.add(row if numbers is None else int(numbers[row]), fault(row))

    def raise_if_any(self, count: int, remedy: str) -> None:
        """Raises nothing."""

    def leave_out(self, snapshot: "Snapshot", find: FindFaults | None) -> "Snapshot":
        """Notes faults of compiled rules, and gives the snapshot without these."""
        found = {} if find is None else find(snapshot)
        for id, fault in found.items():
            self.add(id, fault)
        return snapshot.without(snapshot.rows_of(np.array(list(found), np.int64)))

    def refuse(self, count: int, remedy: str) -> None:
        """Raises all faults of so many rules at once."""
        strict = Faults("rule")
        for id, fault in self.found.items():
            strict.add(id, fault)
        strict.raise_if_any(count, remedy)

    def refuse_nothing_left(self, left: int) -> None:
        """Raises all faults where no rule is left that could be used."""
        if not left:
            self.refuse(len(self.found), "Correct the rules; none is left that could be published.")
