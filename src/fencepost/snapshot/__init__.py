"""Snapshots: an immutable function from a batch of rows to the rules they concern."""

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
