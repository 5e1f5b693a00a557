"""Rules as people write them: one by one as SQL conditions, or a million at a time as a table."""

from typing import TYPE_CHECKING

from fencepost._lazy import lazily

if TYPE_CHECKING:
    from fencepost.rules.faults import FaultyRulesWarning, RuleFault, RuleFaultsError
    from fencepost.rules.rule import Rule
    from fencepost.rules.rules import Rules
    from fencepost.snapshot import CompiledColumns

__all__ = ["CompiledColumns", "FaultyRulesWarning", "Rule", "RuleFault", "RuleFaultsError", "Rules"]

__getattr__ = lazily(
    __name__,
    {
        "CompiledColumns": "fencepost.snapshot",
        "FaultyRulesWarning": "fencepost.rules.faults",
        "Rule": "fencepost.rules.rule",
        "RuleFault": "fencepost.rules.faults",
        "RuleFaultsError": "fencepost.rules.faults",
        "Rules": "fencepost.rules.rules",
    },
)
