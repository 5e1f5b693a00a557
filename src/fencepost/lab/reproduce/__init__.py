"""Every figure of the five papers, and our own experiments in the same form: `fencepost reproduce`.

`figure` says what a figure is; a file per paper has its figures, and `catalogue` all of them; `command` measures,
checks, draws and writes them; `table` makes docs/reproduction.md of what was written.
"""

from fencepost.lab.reproduce.command import reproduce
from fencepost.lab.reproduce.figure import Check, Curve, Figure, Finding, Outcome, Panel

__all__ = ["Check", "Curve", "Figure", "Finding", "Outcome", "Panel", "reproduce"]
