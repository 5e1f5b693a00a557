"""Snapshots: an immutable function from a batch of rows to the rules they concern.

snapshot        Snapshot: all rules of one version; asks every group and joins the answers
columns         rules as arrays, which is how a snapshot takes them
layer           rules that were compiled together, shared by every version that has them
group           boxes over the same columns; structures says what answers for them, keys numbers their strings
sides           what of bands is computed, or concerns one side
jumps           which boxes a move jumps over; few_moves what few moves do to all rules, in one call
bounds, damping the ordered strings of several layers, and their damped rules, joined
tables, records batches as callers have them
labels, names   what rules are called
explanation     what a snapshot says of itself
saving, store   snapshots as bytes: what is written of them, and files of flat arrays
brute_force     every box against every row, to check answers
"""

from typing import TYPE_CHECKING

from fencepost._lazy import lazily

if TYPE_CHECKING:
    from fencepost.snapshot.brute_force import BruteForce
    from fencepost.snapshot.columns import (
        DETECTS,
        NEVER,
        BandColumns,
        BoxSet,
        CompiledColumns,
        RuleColumns,
        detect_flags,
        detect_names,
    )
    from fencepost.snapshot.explanation import Explanation, GroupExplanation
    from fencepost.snapshot.group import Batch
    from fencepost.snapshot.snapshot import Snapshot
    from fencepost.snapshot.tables import Table

__all__ = [
    "DETECTS",
    "NEVER",
    "BandColumns",
    "Batch",
    "BoxSet",
    "BruteForce",
    "CompiledColumns",
    "Explanation",
    "GroupExplanation",
    "RuleColumns",
    "Snapshot",
    "Table",
    "detect_flags",
    "detect_names",
]

_PUBLISHED = ("Head", "Lease", "ShardPlan", "VersionDirectory", "check_shards", "parts_of", "plan_shards", "routing")
"""Names that lie in `fencepost.published` now, for imports from before."""

__getattr__ = lazily(
    __name__,
    {
        **dict.fromkeys(_PUBLISHED, "fencepost.published"),
        "BandColumns": "fencepost.snapshot.columns",
        "Batch": "fencepost.snapshot.group",
        "BoxSet": "fencepost.snapshot.columns",
        "BruteForce": "fencepost.snapshot.brute_force",
        "CompiledColumns": "fencepost.snapshot.columns",
        "DETECTS": "fencepost.snapshot.columns",
        "Explanation": "fencepost.snapshot.explanation",
        "GroupExplanation": "fencepost.snapshot.explanation",
        "NEVER": "fencepost.snapshot.columns",
        "RuleColumns": "fencepost.snapshot.columns",
        "Snapshot": "fencepost.snapshot.snapshot",
        "Table": "fencepost.snapshot.tables",
        "detect_flags": "fencepost.snapshot.columns",
        "detect_names": "fencepost.snapshot.columns",
    },
)
