"""The commands of the README, pasted into a shell in their order."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import fencepost as fp

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(start: str, language: str = "") -> str:
    found = re.search(rf"^```{language}\n({re.escape(start)}.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the README has a block that starts with {start}"
    return found[1]


def test_from_a_clone_to_a_watched_stream(tmp_path: Path) -> None:
    rules = fp.Rules()
    for id, low in enumerate(range(10, 60, 5), start=100):
        rules.add(id, f"price BETWEEN {low} AND {low + 7}", detect="enter,exit")
    rules.to_parquet(tmp_path / "rules.parquet")
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [{"symbol": "IBM", "price": 35.0 + n, "ts": start + timedelta(minutes=n)} for n in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "yesterday.parquet")
    (tmp_path / "ticks").mkdir()
    lines = (f'{{"symbol": "IBM", "price": {row["price"]}, "ts": "{row["ts"]:%Y-%m-%dT%H:%M:%SZ}"}}' for row in rows)
    (tmp_path / "ticks" / "1.json").write_text("\n".join(lines))
    (tmp_path / "pipeline.toml").write_text(block("[source]", "toml") + "[trigger]\nonce = true\n")
    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "-euc", block("fencepost rules import")],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    told = pq.read_table(tmp_path / "alerts")
    monitor = fp.Monitor(fp.RuleBook(f"sqlite:///{tmp_path}/fencepost.db").rules(), object="symbol", time="ts")
    expected = monitor.update(pa.Table.from_pylist(rows))
    assert sorted(told["event_id"].to_pylist()) == sorted(expected["event_id"].to_pylist())
    assert 1 in told["rule_id"].to_pylist()
