"""Deterministic property tests: the same examples on every machine, no deadline (kernels compile on first use).

And one server for all tests that need a bucket.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import s3

os.environ |= s3.ENVIRONMENT
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))
settings.register_profile(
    "fencepost",
    deadline=None,
    derandomize=True,
    max_examples=60,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fencepost")


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """The URL of a bucket; each test uses a directory of its own."""
    with s3.serving() as url:
        yield url
