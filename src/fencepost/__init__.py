"""fencepost evaluates millions of standing range rules against live data."""

from fencepost.errors import FencepostError
from fencepost.rules import Rule, RuleFaultsError, Rules
from fencepost.snapshot import Snapshot
from fencepost.monitor import Monitor  # isort: skip (in the order in which data flows)

__all__ = ["FencepostError", "Monitor", "Rule", "RuleFaultsError", "Rules", "Snapshot"]
