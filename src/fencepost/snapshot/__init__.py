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
    from fencepost.snapshot.parts import Head, parts_of
    from fencepost.snapshot.shards import ShardPlan, checked_shards, plan_shards, routing, rule_masks
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
    "Head",
    "Lease",
    "RuleColumns",
    "ShardPlan",
    "Snapshot",
    "Table",
    "VersionDirectory",
    "checked_shards",
    "detect_flags",
    "detect_names",
    "parts_of",
    "plan_shards",
    "routing",
    "rule_masks",
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
        "Head": "fencepost.snapshot.parts",
        "Lease": "fencepost.snapshot.directory",
        "NEVER": "fencepost.snapshot.columns",
        "RuleColumns": "fencepost.snapshot.columns",
        "ShardPlan": "fencepost.snapshot.shards",
        "Snapshot": "fencepost.snapshot.snapshot",
        "Table": "fencepost.snapshot.tables",
        "VersionDirectory": "fencepost.snapshot.directory",
        "checked_shards": "fencepost.snapshot.shards",
        "detect_flags": "fencepost.snapshot.columns",
        "detect_names": "fencepost.snapshot.columns",
        "parts_of": "fencepost.snapshot.parts",
        "plan_shards": "fencepost.snapshot.shards",
        "routing": "fencepost.snapshot.shards",
        "rule_masks": "fencepost.snapshot.shards",
    },
)
