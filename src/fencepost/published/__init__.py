"""Published rules: directories of versions that streams follow.

directory       the versions of one directory
claims          numbers of versions, each used once; leases keep a version that somebody needs
columns         what a directory was published with
markers         files whose names say that a version or a time has come
difference      what one version has and another has not
shards/         rules cut into shards
"""

from fencepost.published.directory import VersionDirectory
from fencepost.published.leases import Lease
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
