"""Judges ratios of medians, measured in interleaved rounds, against their goals."""

from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from fencepost.reproduce.timing import interleaved, once

__all__ = ["Report", "console", "interleaved", "once"]

console = Console(width=118)


@dataclass
class Report:
    """A table of measured figures against their goals."""

    title: str
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    missed: int = 0

    def at_most(self, what: str, value: float, goal: float, unit: str = "x") -> None:
        """Judge a figure that should be small."""
        self._judge(what, f"{value:,.2f}{unit}", f"<= {goal:g}{unit}", value <= goal)

    def at_least(self, what: str, value: float, goal: float, unit: str = "x") -> None:
        """Judge a figure that should be large."""
        self._judge(what, f"{value:,.2f}{unit}", f">= {goal:g}{unit}", value >= goal)

    def note(self, what: str, figure: str) -> None:
        """Show a figure without a goal."""
        self.rows.append((what, figure, "", ""))

    def _judge(self, what: str, figure: str, goal: str, reached: bool) -> None:
        self.missed += not reached
        self.rows.append((what, figure, goal, "[green]reached[/]" if reached else "[red]missed[/]"))

    def show(self) -> None:
        """Print the table."""
        table = Table(title=self.title, title_justify="left")
        table.add_column("what")
        table.add_column("measured", justify="right")
        table.add_column("goal", justify="right")
        table.add_column("")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
