"""Faults of many rules, collected and raised once."""

from collections.abc import Callable, Sequence

import numpy as np

from fencepost.errors import FencepostError, shorten
from fencepost.indexes.arrays import Bools, Int64s

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

    def add(self, number: int, fault: str) -> None:
        """Notes one fault, described in one line."""
        self.total += 1
        self._found.append((number, fault))

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
