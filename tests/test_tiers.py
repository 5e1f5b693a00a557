"""What makes `make test` quick: no interpreters that nobody marked, and a share of the examples."""

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.conftest import COMPILING
from tests.effort import FULL, LEAST, examples


def test_a_test_without_the_mark_may_not_start_an_interpreter() -> None:
    with pytest.raises(pytest.fail.Exception, match="Mark it"):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(pytest.fail.Exception, match="Mark it"):
        multiprocessing.get_context("spawn").Process(target=print).start()
    assert subprocess.run(["/bin/true"], check=True).returncode == 0


@pytest.mark.slow
def test_a_test_with_the_mark_may() -> None:
    assert subprocess.run([sys.executable, "-c", ""], check=True).returncode == 0


def test_examples_are_a_share_but_never_the_simplest_alone() -> None:
    before = settings.get_current_profile_name()
    try:
        for name, counts in {"full": [600, 60, 3], "quick": [150, 15, 3], "plain": [50, LEAST, 3]}.items():
            settings.load_profile(name)
            assert [examples(count).max_examples for count in (600, FULL, 3)] == counts
    finally:
        settings.load_profile(before)


def test_the_files_that_go_first_are_there() -> None:
    assert all(any(Path(__file__).parent.rglob(f"{name}.py")) for name in COMPILING)
