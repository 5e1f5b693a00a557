"""fencepost evaluates millions of standing range rules against live data."""

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rule, RuleFaultsError, Rules
from fencepost.snapshot import Snapshot

__all__ = ["FencepostError", "Monitor", "Rule", "RuleFaultsError", "Rules", "Snapshot"]
