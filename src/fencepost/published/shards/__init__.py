"""Shards: parts of the rules, for rules that no worker should hold whole.

plan.py: which shard a position goes to, and which shards a rule needs. parts.py: the shards of a snapshot, and of all
versions of a directory.
"""

from fencepost.published.shards.parts import Head, parts_of
from fencepost.published.shards.plan import ShardPlan, check_shards, plan_shards, routing, rule_masks

__all__ = ["Head", "ShardPlan", "check_shards", "parts_of", "plan_shards", "routing", "rule_masks"]
