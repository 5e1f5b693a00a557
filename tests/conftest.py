"""Deterministic property tests: the same examples on every machine, no deadline (kernels compile on first use)."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fencepost",
    deadline=None,
    derandomize=True,
    max_examples=60,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fencepost")
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))
