"""Rules as people write them: one by one as SQL conditions, or a million at a time as a table.

rules           Rules: a set that can be edited and compiled; html shows it in notebooks
rule, options   one rule, and what it takes beside id and condition
checked         rules as text, checked; faults collects what is wrong with many
table_rules     rules as a table, checked; table_blocks keeps its columns, bounds are exact, row_digests compares rows
table_arguments the columns of a table, as people write them
box_groups      boxes on their way into a snapshot; form_boxes are those of many texts at once, band_columns bands
damping         what keeps a rule from flapping; durations are lengths of time, stays the damping of many rules
texts           the condition that boxes stand for
compile         from rules to the columns of a snapshot: types are what they are bound to, builder keeps their boxes
files           JSON lines, CSV and Parquet
"""

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
