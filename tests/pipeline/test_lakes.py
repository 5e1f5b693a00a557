"""Delta and Iceberg with their own packages, which exist for Spark 4.0: a pipeline from a table to another one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_run import expected
from tests.spark.needs import RELEASE

pytestmark = [
    pytest.mark.system,
    pytest.mark.oldest,
    pytest.mark.skipif(RELEASE != (4, 0), reason="these packages are for Spark 4.0: make test-system runs them there"),
]


def run_between_tables(name: str, home: Path) -> Any:
    command = [sys.executable, "-m", "tests.pipeline.lakes", name, str(home)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["faults"] == []
    assert told["rows"] == [4, 2, 0], "each row is read once"
    assert told["events"] == sorted(expected()["event_id"].to_pylist())
    return told


def test_from_delta_to_delta_with_rules_of_its_change_feed(tmp_path: Path) -> None:
    told = run_between_tables("delta", tmp_path)
    assert told["changes"] == [[2, 1], [2, 0]]
    assert told["book"] == [[1, "symbol = 'IBM' AND price >= 40.0 AND price <= 50.0"]]
    (fault,) = told["bad"]
    assert "an empty range" in fault


def test_from_iceberg_to_iceberg(tmp_path: Path) -> None:
    run_between_tables("iceberg", tmp_path)
