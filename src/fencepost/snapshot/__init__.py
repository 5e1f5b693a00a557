"""Snapshots: an immutable function from a batch of rows to the rules they concern."""

from typing import TYPE_CHECKING

from fencepost.lazily import lazily

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
    from fencepost.snapshot.directory import Lease, VersionDirectory
    from fencepost.snapshot.groups import Batch
    from fencepost.snapshot.snapshot import Explanation, GroupExplanation, Snapshot
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
    "Lease",
    "RuleColumns",
    "Snapshot",
    "Table",
    "VersionDirectory",
    "detect_flags",
    "detect_names",
]

__getattr__ = lazily(
    __name__,
    {
        "BandColumns": "fencepost.snapshot.columns",
        "Batch": "fencepost.snapshot.groups",
        "BoxSet": "fencepost.snapshot.columns",
        "BruteForce": "fencepost.snapshot.brute_force",
        "CompiledColumns": "fencepost.snapshot.columns",
        "DETECTS": "fencepost.snapshot.columns",
        "Explanation": "fencepost.snapshot.snapshot",
        "GroupExplanation": "fencepost.snapshot.snapshot",
        "Lease": "fencepost.snapshot.directory",
        "NEVER": "fencepost.snapshot.columns",
        "RuleColumns": "fencepost.snapshot.columns",
        "Snapshot": "fencepost.snapshot.snapshot",
        "Table": "fencepost.snapshot.tables",
        "VersionDirectory": "fencepost.snapshot.directory",
        "detect_flags": "fencepost.snapshot.columns",
        "detect_names": "fencepost.snapshot.columns",
    },
)
