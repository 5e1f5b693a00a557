"""What happens in a Python worker.

caches.py: snapshots by version. version.py, claims.py: the version of a micro-batch. packing.py: rows by bucket.
bucket.py: a step of one bucket. store.py: its state. match.py: match without state. shards.py: rules in shards.
"""
