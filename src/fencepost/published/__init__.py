"""Published rules: directories of versions that streams follow.

directory.py: the versions of one directory, and who still needs which. markers.py: files whose names tell streams that
a version or a time has come. shards/: the rules of a directory in parts.
"""

from fencepost.published.directory import Lease, VersionDirectory
from fencepost.published.shards import Head, ShardPlan, check_shards, parts_of, plan_shards, routing, rule_masks

__all__ = [
    "Head",
    "Lease",
    "ShardPlan",
    "VersionDirectory",
    "check_shards",
    "parts_of",
    "plan_shards",
    "routing",
    "rule_masks",
]
