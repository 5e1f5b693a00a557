"""fencepost evaluates millions of standing range rules against live data."""

from typing import TYPE_CHECKING

from fencepost._lazy import lazily
from fencepost._moved import follow_moves

if TYPE_CHECKING:
    from fencepost.book import RuleBook
    from fencepost.errors import FencepostError
    from fencepost.monitor import Monitor
    from fencepost.rules import Rule, RuleFaultsError, Rules
    from fencepost.snapshot import Snapshot

__all__ = ["FencepostError", "Monitor", "Rule", "RuleBook", "RuleFaultsError", "Rules", "Snapshot"]

follow_moves()

__getattr__ = lazily(
    __name__,
    {
        "FencepostError": "fencepost.errors",
        "Monitor": "fencepost.monitor",
        "Rule": "fencepost.rules.rule",
        "RuleBook": "fencepost.book",
        "RuleFaultsError": "fencepost.rules",
        "Rules": "fencepost.rules",
        "Snapshot": "fencepost.snapshot",
    },
)
