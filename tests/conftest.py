"""Which tests belong to which tier, how many examples property tests try, and one server for tests of buckets.

`make test` leaves out what is marked `slow` or `system`. What starts an interpreter of its own must be marked `slow`:
a test that does so without the mark fails.

Of several processes that run tests, one has all tests with Spark, so that a run has one session. The others have whole
files: what one file needs compiled is mostly its own, so that they seldom wait for each other's kernels. Two files go
first, in which the kernels of rules about objects and about pairs are compiled: Spark, which is next, would wait long
for its workers to do that.
"""

import contextlib
import multiprocessing.util
import os
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
with contextlib.suppress(FencepostError):  # tests that need a Java say so
    prepare_java()

COMPILING = ["test_replay", "test_band_replay"]
UNMARKED = "This test starts an interpreter. Mark it with pytest.mark.slow: make test has none of those."


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """The URL of a bucket; each test uses a directory of its own."""
    with s3.serving() as url:
        yield url


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell which tests go to one process together."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=turn_of)


def turn_of(item: pytest.Item) -> int:
    """What compiles goes first, then Spark, which takes longest."""
    group = next(item.iter_markers("xdist_group")).args[0]
    return COMPILING.index(group) if group in COMPILING else len(COMPILING) + (group != "spark")


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
