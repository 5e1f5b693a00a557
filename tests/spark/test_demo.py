"""The demo as a person starts it: a real shell, a small world, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fencepost.lab.demo.world import World
from tests.spark.conftest import ENVIRONMENT

COMMAND = [sys.executable, "-m", "fencepost", "demo", "--rules", "20000", "--objects", "400"]


@pytest.mark.slow
def test_once_ends_by_itself_with_a_summary_that_was_checked(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603
        [*COMMAND, "--once", "--seconds", "6"],
        capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path, env={**ENVIRONMENT, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows against 20,000 rules gave" in done.stdout
    assert "Spot check: 200 objects were compared with every rule; all are where the events say" in done.stdout
    assert done.stderr == "", "Spark's own words are not for the user"


@pytest.mark.slow
def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    running = subprocess.Popen(  # noqa: S603
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path,
        env={**ENVIRONMENT, "COLUMNS": "200"},
    )  # fmt: skip
    try:
        assert running.stdout is not None
        assert "rules published" in running.stdout.readline()
        time.sleep(2)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to everything that runs in it
        told, errors = running.communicate(timeout=300)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, told + errors
    assert "Stopping after the rows under way." in told
    assert "Spot check" in told
    assert errors == ""


def test_a_wrong_answer_would_be_noticed() -> None:
    world = World(rules=2_000, objects=100)
    rules = world.rules()
    snapshot = rules.compile({"symbol": "string", "price": "double", "x": "double", "y": "double"})
    world.change(rules, 500)
    changed = rules.compile({"symbol": "string", "price": "double", "x": "double", "y": "double"})
    rows = {"symbol": world.symbols, "price": world.prices, "x": np.full(50, np.nan), "y": np.full(50, np.nan)}
    expected = [world.rules_around(str(symbol)) for symbol in world.symbols]
    assert changed.match(rows).sets() == expected
    assert snapshot.match(rows).sets() != expected, "rules that were removed are noticed"


@pytest.mark.slow
def test_a_rule_is_added_on_its_pages_and_fires(tmp_path: Path) -> None:
    import httpx  # the oldest Spark's environment, which collects this file, has none

    running = subprocess.Popen(  # noqa: S603
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path,
        env={**ENVIRONMENT, "COLUMNS": "200"},
    )  # fmt: skip
    try:
        assert running.stdout is not None
        assert "rules published" in running.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=\S+", running.stdout.readline())
        assert found
        with httpx.Client(base_url=found[1], follow_redirects=True, timeout=60) as client:
            assert client.get("/").status_code == 401, "closed by default"
            assert "Overview" in client.get(found[0]).text
            assert "20,000" in client.get("/rules").text
            objects = client.get("/objects?q=taxi").text
            taxi = re.search(r"name=(taxi\+\d+)", objects)
            assert taxi
            assert "<svg" in client.get(f"/object?name={taxi[1]}").text
            headers = {"origin": found[1]}
            wrong = {"condition": "height > 3", "detect": "enter"}
            assert client.post("/rules/add", data=wrong, headers=headers).status_code == 400
            rule = {"condition": "x > 0 AND y > 0", "detect": "enter", "name": "anywhere", "initial": "yes"}
            assert "The rule was added." in client.post("/rules/add", data=rule, headers=headers).text
            end = time.monotonic() + 240
            while "1000000001" not in (shown := client.get("/events?rule=1000000001").text) or "Why?" not in shown:
                assert time.monotonic() < end, "it fires"
                time.sleep(0.5)
            foreign = client.post("/rules/7", data={"condition": "x > 1", "detect": "enter"}, headers=headers)
            assert "belongs to the simulation" in foreign.text
            for path in ("/events", "/versions", "/rules/7", "/rules?holds=x+%3D+9000%2C+y+%3D+9000"):
                assert client.get(path).status_code == 200
        os.killpg(running.pid, signal.SIGINT)
        told, errors = running.communicate(timeout=300)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, told + errors
    assert "Spot check" in told
    assert errors == ""
