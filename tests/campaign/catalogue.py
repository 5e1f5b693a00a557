"""All trials, in the order of their importance, and those that are known to fail."""

from dataclasses import replace

from tests.campaign import bands, changed_bytes, failing_files, indexes, inputs, kills, long_run, matching, semantics
from tests.campaign.trial import Trial

MODULES = semantics, bands, matching, changed_bytes, indexes, failing_files, inputs, kills, long_run

KNOWN = {
    "semantics.unused-columns": "a declared column that no rule uses is not remembered, and events lack it",
    "semantics.whole-schema": "a schema that names the time column lets a row without values count as observed",
    "bytes.newest": "a damaged header or announcement lets readers of the newest version silently have an older one",
    "bytes.schema": "schema.json has no checksum: raw JSONDecodeError, or other columns",
    "bytes.state": "files of Monitor.save have no checksum: other states, raw errors, segmentation faults",
    "bytes.seed": "files of save_state have no checksum: other states, raw errors, segmentation faults",
    "failures.leftovers": "claims, orphaned versions and drafts are never collected",
    "inputs.giants": "conditions have no limit of length and parts",
    "inputs.nested-pipelines": "deeply nested TOML: raw RecursionError, or seconds",
    "inputs.parquet": "a damaged name of a column: raw UnicodeDecodeError",
    "long.publishes": "files and time of a publish grow",
}
"""Faults of the product that a trial finds today. Take a trial out of here once its fault is cured."""

TRIALS: list[Trial] = [replace(trial, known=KNOWN.get(trial.name, "")) for module in MODULES for trial in module.TRIALS]
