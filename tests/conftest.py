"""Which tests belong to which tier, how many examples property tests try, and one server for tests of buckets.

`make test` leaves out what is marked `slow` or `system`. What starts an interpreter of its own must be marked `slow`:
a test that does so without the mark fails.

Tiers run beside each other (`tools/tiers.py`). All tests with the Spark session are in one of them, the lane "spark": a
run has one session.
"""

import contextlib
import multiprocessing.util
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost._java import prepare_java
from fencepost.errors import FencepostError
from tests import s3
from tests.effort import register_profiles

os.environ |= s3.ENVIRONMENT
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))
register_profiles()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell that starts jobs in the background lets them ignore it,
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and what they start would, too
with contextlib.suppress(FencepostError):  # tests that need a Java say so
    prepare_java()

LANES = ("spark", "others")
"""Tests that use the Spark session, and all others."""
UNMARKED = "This test starts an interpreter. Mark it with pytest.mark.slow: make test has none of those."


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """The URL of a bucket; each test uses a directory of its own."""
    with s3.serving() as url:
        yield url


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a process run one lane."""
    parser.addoption("--lane", choices=LANES, help="tests with the Spark session, or all others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the other lane out."""
    lane = config.getoption("--lane")
    if lane is not None:
        config.hook.pytest_deselected(items=[item for item in items if lane_of(item) != lane])
        items[:] = [item for item in items if lane_of(item) == lane]


def lane_of(item: pytest.Item) -> str:
    """A test uses the session if it asks for it, or is marked because it may."""
    return LANES[0] if "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("spark") else LANES[1]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let only tests that are marked start an interpreter; a fixture of the whole session may."""
    if item.get_closest_marker("slow") or item.get_closest_marker("system"):
        return (yield)
    start, spawn = subprocess.Popen.__init__, multiprocessing.util.spawnv_passfds

    def start_others(self: Any, command: Any, *given: Any, **named: Any) -> None:
        if sys.executable in str(command):
            pytest.fail(UNMARKED)
        start(self, command, *given, **named)

    def spawn_others(*given: Any) -> Any:
        if sys.executable in str(given):
            pytest.fail(UNMARKED)
        return spawn(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", start_others)
        patch.setattr(multiprocessing.util, "spawnv_passfds", spawn_others)
        return (yield)
