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


@pytest.mark.parametrize("ending", ["Z", "+00:00", "+0000", "+00"])
def test_instants_in_json_lines_stay_instants(tmp_path: Path, ending: str) -> None:
    """Arrow reads them as what the clock shows in UTC, and forgets that."""
    runner, book = CliRunner(), f"--book=sqlite:///{tmp_path}/b.db"
    rows, events = tmp_path / "rows.jsonl", tmp_path / "events.jsonl"
    times = [None, f"2024-03-31T00:00:00{ending}", "2024-03-31T02:30:00+01:00"]
    rows.write_text("".join(json.dumps({"o": "a", "ts": time, "n": 1}) + "\n\n" for time in times))

    def run(*command: str) -> str:
        done = runner.invoke(app, [*command, book])
        assert done.exit_code == 0, done.output
        return done.output

    run("rules", "add", "1", "EXTRACT(HOUR FROM ts AT TIME ZONE 'Europe/Berlin') = 1")
    matched = [json.loads(line) for line in run("match", str(rows)).splitlines()]
    assert [row["rule_ids"] for row in matched] == [[], [1], []]
    assert matched[1]["ts"] == "2024-03-31T00:00:00+00:00"
    run("backtest", str(rows), "--object", "o", "--time", "ts", "--events", str(events))
    [event] = [json.loads(line) for line in events.read_text().splitlines()]
    reason = run("why", event["event_id"], "--events", str(events))
    assert "EXTRACT(HOUR FROM ts AT TIME ZONE 'Europe/Berlin'): None -> 1" in reason
    assert "<= 1: after" in reason


def test_times_without_a_zone_in_json_lines_have_none(tmp_path: Path) -> None:
    book, rows = f"--book=sqlite:///{tmp_path}/b.db", tmp_path / "rows.jsonl"
    rows.write_text('{"ts": "2024-03-31T01:00:00", "d": "2024-03-31"}\n')
    CliRunner().invoke(app, ["rules", "add", "1", "HOUR(ts) = 1 AND d = DATE '2024-03-31'", book])
    [row] = [json.loads(line) for line in CliRunner().invoke(app, ["match", str(rows), book]).output.splitlines()]
    assert row == {"d": "2024-03-31T00:00:00", "ts": "2024-03-31T01:00:00", "rule_ids": [1]}
