"""`fencepost why` of events that waited: the rule behind them has lengths of time, or needs a timeout."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fencepost.cli.app import app

RULES = [
    {"id": 7, "condition": "price < 40", "detect": "enter,exit", "for": "5 minutes"},
    {"id": 8, "condition": "price < 40", "detect": "silent"},
    {"id": 9, "condition": "price < 40", "detect": "exit", "stay": "price < 41 AND symbol = 'IBM' OR price < 40"},
]
ROWS = "symbol,ts,price\nIBM,2026-01-05T09:31:00Z,39.5\nIBM,2026-01-05T10:40:00Z,41.5\n"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (0, "since 2026-01-05 09:31:00+00:00, due 2026-01-05 09:36:00+00:00: `for` 5 minutes"),
        (-2, "silent of rule 8 (version 1, timeout) at 2026-01-05 10:01:00+00:00"),
        (-1, "  stay: symbol = 'IBM' and price < 41.0: before and after"),
    ],
)
@pytest.mark.parametrize("published", [True, False])
def test_events_of_rules_that_need_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int, said: str, published: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in RULES))
    Path("rows.csv").write_text(ROWS)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--book", "sqlite:///book.db"])
        assert done.exit_code == 0, done.output
        return done.output

    run("rules", "import", "rules.jsonl")
    columns = ["--object", "symbol", "--time", "ts", "--timeout", "30 minutes"]
    run("backtest", "rows.csv", *columns, "--events", "events.parquet")
    import pyarrow.parquet as pq

    id = sorted(pq.read_table("events.parquet").to_pylist(), key=lambda event: event["rule_id"])[place]["event_id"]
    where = []
    if published:
        run("publish", "published")
        where = ["--rules", "published"]
    assert said in run("why", id, "--events", "events.parquet", *where)
