"""All trials, in the order of their importance, and those that are known to fail."""

from dataclasses import replace

from tests.campaign import (
    bands,
    changed_bytes,
    changed_notes,
    doors,
    failing_files,
    http,
    indexes,
    inputs,
    kills,
    long_run,
    matching,
    semantics,
)
from tests.campaign.trial import Trial

MODULES = (
    semantics,
    bands,
    matching,
    changed_bytes,
    changed_notes,
    indexes,
    failing_files,
    inputs,
    http,
    doors,
    kills,
    long_run,
)

KNOWN: dict[str, str] = {}
"""Faults of the product that a trial finds today. Take a trial out of here once its fault is cured."""

TRIALS: list[Trial] = [replace(trial, known=KNOWN.get(trial.name, "")) for module in MODULES for trial in module.TRIALS]
