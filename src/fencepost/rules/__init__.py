"""Rules as people write them: one by one as SQL conditions, or a million at a time as a table."""

from fencepost.rules.compiling import CompiledColumns
from fencepost.rules.faults import RuleFaultsError
from fencepost.rules.rule import Rule
from fencepost.rules.ruleset import Rules

__all__ = ["CompiledColumns", "Rule", "RuleFaultsError", "Rules"]
