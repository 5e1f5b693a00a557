"""Names of files that are no UTF-8, or have control characters: read, written, and refused in one line."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fencepost._files.native import open_native
from fencepost.cli.app import app
from fencepost.cli.data import open_data
from fencepost.errors import FencepostError
from fencepost.rules import Rules

ODD = os.fsdecode(b"rows\x9b\nof \x1b[31mtoday")


def run(home: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, ["--book", f"sqlite:///{home}/rules.db", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_rows_of_any_name_are_matched_replayed_and_written(kind: str, tmp_path: Path) -> None:
    run(tmp_path, "rules", "add", "1", "price > 40", "--detect", "enter")
    plain = tmp_path / "rows.csv"
    plain.write_text("symbol,ts,price\na,1,39\na,2,41\n")
    odd, found = tmp_path / f"{ODD}.{kind}", tmp_path / f"{ODD} found.{kind}"
    run(tmp_path, "match", str(plain), "--out", str(odd))
    with odd.open("rb") as file:
        assert len(file.read()) > 20
    if kind == "csv":  # which has no lists
        odd.write_bytes(plain.read_bytes())
    done = run(tmp_path, "backtest", str(odd), "--object", "symbol", "--time", "ts", "--events", str(found), "--json")
    assert json.loads(done.stdout)["rules"][0]["events"]["enter"] == 1
    events = [row for table, _ in open_data(found).batches({}) for row in table.to_pylist()]
    assert [event["rule_id"] for event in events] == [1]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rules_are_written_to_and_read_from_any_name(kind: str, tmp_path: Path) -> None:
    rules = Rules()
    rules.add(1, "price > 40")
    getattr(rules, f"to_{kind}")(tmp_path / f"{ODD}.{kind}")
    assert [rule.id for rule in getattr(Rules, f"from_{kind}")(tmp_path / f"{ODD}.{kind}")] == [1]
    run(tmp_path, "rules", "import", str(tmp_path / f"{ODD}.{kind}"))


def test_a_refusal_of_such_a_name_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FencepostError) as refused:
        open_data(tmp_path / f"{ODD}.csv")
    assert str(refused.value).isprintable()
    assert "rows\\udc9b\\nof \\x1b[31mtoday.csv does not exist" in str(refused.value)


def test_arrow_writes_and_reads_by_the_bytes_of_a_name(tmp_path: Path) -> None:
    with open_native(tmp_path / ODD, "wb") as file:
        file.write(b"x")
    with open_native(tmp_path / ODD) as file:
        assert file.read() == b"x"
    with pytest.raises((OSError, pa.ArrowException)):
        open_native(tmp_path / "nothing")
