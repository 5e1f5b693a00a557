"""Times contestants in interleaved rounds and judges ratios of their medians."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

__all__ = ["Report", "console", "interleaved", "once"]

console = Console(width=118)


def interleaved(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 5,
    measure: Callable[[Callable[[], object]], float] | None = None,
) -> dict[str, float]:
    """Median seconds of each contestant; every round runs all of them, so that noise hits all alike.

    Args:
        contestants: what to run, by name; each runs once unmeasured before.
        rounds: how often.
        measure: runs one and tells its seconds; `once` if none is given.
    """
    measure = measure or once
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant()
    gc.disable()
    for _ in range(rounds):
        for name, contestant in contestants.items():
            times[name].append(measure(contestant))
    gc.enable()
    return {name: statistics.median(taken) for name, taken in times.items()}


def once(contestant: Callable[[], object]) -> float:
    """Seconds of one run."""
    begin = time.perf_counter()
    contestant()
    return time.perf_counter() - begin


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
