"""fencepost evaluates millions of standing range rules against live data."""

from typing import TYPE_CHECKING

from fencepost._lazy import lazily
from fencepost._moved import follow_moves
from fencepost._version import __version__ as __version__

if TYPE_CHECKING:
    from fencepost import plot as plot
    from fencepost.book import RuleBook
    from fencepost.emitting.event import Event
    from fencepost.errors import FencepostError
    from fencepost.monitor import Monitor
    from fencepost.rules import FaultyRulesWarning, Rule, RuleFault, RuleFaultsError, Rules
    from fencepost.snapshot import Snapshot

__all__ = [
    "Event",
    "FaultyRulesWarning",
    "FencepostError",
    "Monitor",
    "Rule",
    "RuleBook",
    "RuleFault",
    "RuleFaultsError",
    "Rules",
    "Snapshot",
]

follow_moves()

__getattr__ = lazily(
    __name__,
    {
        "Event": "fencepost.emitting.event",
        "FaultyRulesWarning": "fencepost.rules",
        "FencepostError": "fencepost.errors",
        "Monitor": "fencepost.monitor",
        "Rule": "fencepost.rules.rule",
        "RuleBook": "fencepost.book",
        "RuleFault": "fencepost.rules",
        "RuleFaultsError": "fencepost.rules",
        "Rules": "fencepost.rules",
        "Snapshot": "fencepost.snapshot",
        "plot": "fencepost.plot",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "plot"])
