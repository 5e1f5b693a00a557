"""fencepost evaluates millions of standing range rules against live data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.book import RuleBook
    from fencepost.errors import FencepostError
    from fencepost.monitor import Monitor
    from fencepost.rules import Rule, RuleFaultsError, Rules
    from fencepost.snapshot import Snapshot

__all__ = ["FencepostError", "Monitor", "Rule", "RuleBook", "RuleFaultsError", "Rules", "Snapshot"]

# Loaded when first asked for: compiled code takes longer to load than a short command takes to run.
_HOMES = {
    "FencepostError": "errors",
    "Monitor": "monitor",
    "Rule": "rules",
    "RuleBook": "book",
    "RuleFaultsError": "rules",
    "Rules": "rules",
    "Snapshot": "snapshot",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"fencepost.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
