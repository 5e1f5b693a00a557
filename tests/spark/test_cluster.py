"""Every operator on a standalone cluster of two workers, of which one is killed while all of them have state."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.published import VersionDirectory
from tests.spark import test_bands, test_watch
from tests.spark.cluster import Cluster
from tests.spark.cluster_driver import OPERATORS, SHARDS
from tests.spark.files import put_file

pytestmark = pytest.mark.system

FILES = 10
BEFORE = 3
"""So many micro-batches of every operator are done before the kill."""


def committed(path: Path) -> pa.Table:
    """What a file sink has told: the files in its log. A task that was killed leaves others behind."""
    files = {}
    for log in (path / "_spark_metadata").glob("[0-9]*"):
        for entry in map(json.loads, log.read_text().splitlines()[1:]):
            files[entry["path"]] = unquote(urlparse(entry["path"]).path)
    return pa.concat_tables([pq.read_table(file) for file in files.values()])


def commits(path: Path, operator: str) -> int:
    return len(list((path / operator / "checkpoint" / "commits").glob("[0-9]*")))


def test_a_worker_is_killed_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    rules = test_watch.rules_of(2)
    rules.publish(tmp_path / "published")
    rules.publish(tmp_path / "parted", shards=SHARDS)
    inputs: dict[str, list[pa.Table]] = {
        "traffic": [test_watch.traffic(120, n, start=40 * n) for n in range(FILES)],
        "left": [test_bands.quotes(60, 2 * n, start=20 * n) for n in range(FILES)],
        "right": [test_bands.quotes(60, 2 * n + 1, start=20 * n) for n in range(FILES)],
    }
    for folder, tables in inputs.items():
        (tmp_path / folder).mkdir()
        for number, table in enumerate(tables):
            put_file(table, tmp_path / folder, number)
    (tmp_path / "cluster").mkdir()
    with Cluster(tmp_path / "cluster") as cluster, (tmp_path / "driver.log").open("w") as log:
        driver = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.spark.cluster_driver", cluster.master, str(tmp_path)],
            stdout=log,
            stderr=log,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 300
            while min(commits(tmp_path, name) for name in OPERATORS) < BEFORE:
                assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:] + cluster.logs()
                assert time.monotonic() < deadline, cluster.logs()
                time.sleep(0.1)
            done = {name: commits(tmp_path, name) for name in OPERATORS}
            cluster.kill_worker(0)
            driver.wait(timeout=400)
            assert driver.returncode == 0, (tmp_path / "driver.log").read_text()[-3000:] + cluster.logs()
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
    assert max(done.values()) < FILES, f"the kill came in the middle: {done}"

    told = {name: committed(tmp_path / name / "out") for name in OPERATORS}
    traffic = pa.concat_tables(inputs["traffic"])
    found, notes = test_watch.rules_of(1).compile(traffic.schema).match(traffic), traffic["note"].to_pylist()
    expected = Counter((note, id) for row, note in enumerate(notes) for id in found[row].tolist())
    matched = zip(*(told["match"][name].to_pylist() for name in ("note", "rule_id")), strict=True)
    assert Counter(matched) == expected
    watcher = fp.Monitor(
        VersionDirectory(tmp_path / "published").load(), object="vehicle", time="ts", sequence="seq"
    ).update(traffic)
    joiner = fp.Monitor(test_bands.rules_of(1), **test_bands.NAMED)
    joined = joiner.update(left=pa.concat_tables(inputs["left"]), right=pa.concat_tables(inputs["right"]))
    check_parts(tmp_path, traffic, watcher)
    for name, events in (("watch", watcher), ("bands", joined)):
        assert Counter(told[name]["event_id"].to_pylist()) == Counter(events["event_id"].to_pylist())
        assert events.num_rows > 500


def check_parts(path: Path, traffic: pa.Table, watcher: pa.Table) -> None:
    """What match and watch told in parts, and that no worker has mapped more than its part."""
    snapshot = VersionDirectory(path / "parted").load()
    found, notes = snapshot.match(traffic), traffic["note"].to_pylist()
    expected = Counter((note, id) for row, note in enumerate(notes) for id in found[row].tolist())
    matched = pq.read_table(path / "match-parts")
    assert Counter(zip(matched["note"].to_pylist(), matched["rule_id"].to_pylist(), strict=True)) == expected
    events = pq.read_table(path / "watch-parts")["event_id"].to_pylist()
    assert Counter(events) == Counter(watcher["event_id"].to_pylist())
    mapped = json.loads((path / "mapped.json").read_text())
    assert sorted(mapped["match"]) == [[0], [1]], "each worker has the part that it served, and nothing else"
    assert {part for held in mapped["watch"] for part in held} == {0, 1}, "no worker has the whole"
