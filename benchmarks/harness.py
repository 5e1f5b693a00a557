"""Judges ratios of medians, measured in interleaved rounds, against their goals."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from fencepost.lab.reproduce.timing import interleaved, once

__all__ = ["Report", "Row", "console", "interleaved", "once", "show_missed"]

console = Console(width=118)
MARKS = {True: "[green]reached[/]", False: "[red]missed[/]", None: ""}


class Row(NamedTuple):
    """A figure and what became of its goal, if it has one."""

    what: str
    measured: str
    goal: str = ""
    reached: bool | None = None


@dataclass
class Report:
    """A table of measured figures against their goals."""

    title: str
    rows: list[Row] = field(default_factory=list)
    headlines: list[tuple[str, str, str]] = field(default_factory=list)
    """What was asked, beside whom if anyone, and the figure: for those who read no further."""

    def at_most(self, what: str, value: float, goal: float, unit: str = "x") -> None:
        """Judge a figure that should be small."""
        self._judge(what, f"{value:,.2f}{unit}", f"<= {goal:g}{unit}", value <= goal)

    def at_least(self, what: str, value: float, goal: float, unit: str = "x") -> None:
        """Judge a figure that should be large."""
        self._judge(what, f"{value:,.2f}{unit}", f">= {goal:g}{unit}", value >= goal)

    def within(self, what: str, value: float, low: float, high: float, unit: str = "x") -> None:
        """Judge a figure that should be neither small nor large."""
        self._judge(what, f"{value:,.2f}{unit}", f"{low:g} to {high:g}{unit}", low <= value <= high)

    def note(self, what: str, figure: str) -> None:
        """Show a figure without a goal."""
        self.rows.append(Row(what, figure))

    def headline(self, what: str, beside: str, figure: str) -> None:
        """Have a figure in the short table, too."""
        self.headlines.append((what, beside, figure))

    def _judge(self, what: str, figure: str, goal: str, reached: bool) -> None:
        self.rows.append(Row(what, figure, goal, reached))

    @property
    def goals(self) -> int:
        """How many rows have one."""
        return sum(row.reached is not None for row in self.rows)

    @property
    def missed(self) -> int:
        """How many goals were not reached."""
        return sum(row.reached is False for row in self.rows)

    def show(self) -> None:
        """Print the table."""
        table = Table(title=self.title, title_justify="left")
        table.add_column("what")
        table.add_column("measured", justify="right")
        table.add_column("goal", justify="right")
        table.add_column("")
        for row in self.rows:
            table.add_row(row.what, row.measured, row.goal, MARKS[row.reached])
        console.print(table)


def show_missed(reports: Iterable[Report]) -> None:
    """Say how many goals were missed in all."""
    missed = sum(report.missed for report in reports)
    console.print(f"{missed} goals missed. Ratios decide; absolute times only inform.")
