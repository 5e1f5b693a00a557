"""`fencepost size`: numbers as people write them, a table, JSON, and refusals."""

import json
from pathlib import Path

import pytest

from fencepost.sizing import Size
from tests.cli.shell import Shell

SMALL = "fencepost size --rules 1M --rows-per-second 100_000 --objects 1e6 --trigger 30s"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_table_says_what_decides_each_line(shell: Shell) -> None:
    done = shell.call("fencepost size --rules 1e8 --rows-per-second 1e6 --objects 1e7 --events-per-row 0.3")
    header, *lines = [line.split("\t") for line in done.out.splitlines()]
    assert header == ["what", "size", "what decides it"]
    told = {name: size for name, size, _ in lines}
    assert {"cores", "hosts", "memory per host", "shards", "state", "checkpoint", "shuffle", "latency"} <= set(told)
    assert all(why.endswith(".") for _, _, why in lines)
    assert told["events"] == "300,000/s"
    assert "warning: Runs with up to" in done.err
    assert "measured on" in done.err


def test_numbers_are_read_as_people_write_them(shell: Shell) -> None:
    first = json.loads(shell.call(f"{SMALL} --json").out)
    same = "fencepost size --rules 1e6 --rows-per-second 100k --objects 1_000_000 --trigger 0.5m --json"
    assert json.loads(shell.call(same).out) == first
    assert set(Size._fields) <= set(first)
    assert first["workload"]["rules"] == 1e6
    assert first["warnings"] == []
    assert first["machine"]["cpu"]


@pytest.mark.parametrize("operator", ["match", "watch", "bands"])
def test_every_operator(shell: Shell, operator: str) -> None:
    found = json.loads(shell.call(f"{SMALL} --operator {operator} --keys 1000 --json").out)
    assert found["workload"]["operator"] == operator
    assert (found["state_bytes"] == 0) == (operator == "match")
    assert "cores" in shell.call(f"{SMALL} --operator {operator}").out


def test_options_reach_the_model(shell: Shell) -> None:
    options = (
        "--ranges 2 --timeout 1h --trigger 5s --hot 0.5 --always 3 --cross 1k --jump 1e-3 --host-cores 8 "
        "--host-memory 32GiB --headroom 0.25 --buckets 64 --replicas 3 --groups 20 --attributes 4"
    )
    found = json.loads(shell.call(f"{SMALL} {options} --json").out)
    asked = found["workload"]
    assert (asked["ranges"], asked["attributes"], asked["timeout"], asked["trigger"]) == (2, 4, 3600, 5)
    assert (asked["hot"], asked["always"], asked["cross"], asked["jump"], asked["groups"]) == (0.5, 3, 1000, 1e-3, 20)
    assert found["host"] == {"cores": 8, "memory": 32 * 2**30, "headroom": 0.25, "buckets": 64, "replicas": 3}
    assert found["events_per_second"] == pytest.approx(1e5 * (1 + 3 + 1))
    assert any("always holds" in each for each in found["warnings"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--rules many", "--rules many; expected a number, 1 or more"),
        ("--rules 0", "--rules 0; expected a number, 1 or more"),
        ("--rules 1e999", "--rules 1e999; expected a number"),
        ("--rules nan", "--rules nan; expected a number"),
        ("--rows-per-second 0", "expected a number, more than 0"),
        ("--events-per-row -1", "expected a number, 0 or more"),
        ("--hot 1.5", "expected a number, 0 or more, at most 1"),
        ("--headroom 0", "expected a number, more than 0, at most 0.95"),
        ("--operator join", "expected match, watch or bands"),
        ("--objects 0", "Add --objects NUMBER"),
        ("--keys 2M", "expected no more than --rules"),
        ("--cross 2M", "expected no more than --rules"),
        ("--ranges 0", "--ranges 0; expected 1 or more"),
        ("--host-cores 0", "--host-cores 0; expected 1 or more"),
        ("--host-memory lots", "--host-memory='lots'; expected a size"),
        ("--timeout soon", "'soon'; expected a number and milliseconds"),
        ("--trigger 0s", "'0s'; expected a number and milliseconds"),
        ("--buckets 70000", "buckets=70000"),
        ("--replicas 0", "--replicas 0; expected 1 or more"),
    ],
)
def test_refusals(shell: Shell, options: str, told: str) -> None:
    assert told in shell.call_refused(f"{SMALL} {options}").replace("\n", " ")


def test_without_rules_the_usage_is_shown(shell: Shell) -> None:
    assert "--rules" in shell.call("fencepost size", code=2).err
