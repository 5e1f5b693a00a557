"""Published rules: directories of versions that streams follow.

directory.py: the versions of one directory, and who still needs which. markers.py: files whose names say that a
version or a time has come. shards/: rules cut into shards.
"""

from fencepost.published.directory import Lease, VersionDirectory
from fencepost.published.shards import Head, ShardPlan, check_shards, cut_into_shards, plan_shards, routing, rule_masks

parts_of = cut_into_shards
"""Its name before."""

__all__ = [
    "Head",
    "Lease",
    "ShardPlan",
    "VersionDirectory",
    "check_shards",
    "cut_into_shards",
    "parts_of",
    "plan_shards",
    "routing",
    "rule_masks",
]
