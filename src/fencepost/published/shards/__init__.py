"""Shards: parts of the rules, for rules that no worker should hold whole.

plan.py: which shard a position goes to, and which shards a rule needs. saved.py: the shards of a snapshot, and of all
versions of a directory, as they are saved.
"""

from fencepost.published.shards.plan import ShardPlan, check_shards, plan_shards, routing, rule_masks
from fencepost.published.shards.saved import Head, cut_into_shards

__all__ = ["Head", "ShardPlan", "check_shards", "cut_into_shards", "plan_shards", "routing", "rule_masks"]
