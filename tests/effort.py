"""How many examples property tests try: as many as they say, or a share of them."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

FULL = 60
"""Examples of a test that says nothing."""
LEAST = 5
"""The first ones are the simplest: a share of few examples would try nothing else."""
SHARES = {"full": 1.0, "half": 0.5, "quick": 0.25, "plain": 1 / 12}
"""By the name of a profile: pytest alone, `make test-all`, `make test`, kernels that are not compiled."""


def register_profiles() -> None:
    """The same examples on every machine, and no deadline: kernels compile on first use."""
    for name, share in SHARES.items():
        settings.register_profile(
            name,
            deadline=None,
            derandomize=True,
            max_examples=max(LEAST, round(FULL * share)),
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
    settings.load_profile("full")


def examples(count: int, **others: Any) -> settings:
    """Settings for a test that needs another number of examples, which the profile has its share of."""
    share = settings().max_examples / FULL
    return settings(max_examples=min(count, max(LEAST, round(count * share))), **others)


def seeds(count: int) -> list[Any]:
    """Parameters for a test that draws with a generator of its own: all but a share of them are slow."""
    quick = max(LEAST, round(count * SHARES["quick"]))
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= quick else []) for seed in range(count)]
