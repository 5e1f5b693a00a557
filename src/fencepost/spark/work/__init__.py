"""What happens in a Python worker.

caches          snapshots by version; version and claims say which one a micro-batch has
packing         rows and events as bytes, by bucket
task            how a bucket makes its engine: watch_task, band_task
bucket          a step of one bucket
store           its state: what was touched is written
match           match without state
usable, shards  which rules a stream can use; rules in shards
"""
