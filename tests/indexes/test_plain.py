"""Kernels give the same answers when Python runs them: no branch rests on what a compiler makes of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = "bulk or ends or churn or traffic or every_row"
"""Tests with few and small examples; the others try sizes that take plain Python too long."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernels_that_are_not_compiled_answer_like_the_oracle() -> None:
    suites = [str(file) for file in (ROOT / "tests" / "indexes").glob("test_*_conformance.py")]
    assert len(suites) == 4
    command = [sys.executable, "-m", "pytest", "-p", "tests.plain", "-p", "no:cacheprovider", "-k", SMALL]
    command += ["--hypothesis-profile", "plain", "tests/indexes/test_blake2b.py", *suites]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
