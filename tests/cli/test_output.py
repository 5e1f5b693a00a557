"""What commands print: plain English, and nothing that steers a terminal, whoever wrote the rules."""

import io
import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.output import as_json, print_table
from tests.cli.shell import Done, Shell

EVIL = "\x1b[31m\x1b]0;pwned\x07\x9b2J\x7f\u202e[red]x[/red]"
"""Colours, a window title, a C1 command that clears the screen, a right-to-left override, and Rich's markup."""


def run(shell: Shell, *words: str, code: int = 0) -> Done:
    """What a command printed, which has no character that a terminal obeys."""
    done = shell.call(shlex.join(["fencepost", *words]), code)
    for text in (done.out, done.err):
        assert all(each.isprintable() or each in "\n\t" for each in text), repr(text)
    return done


def strict(text: str) -> Any:
    """What JSON means to a parser that knows no Infinity and no NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(name="shell")
def a_shell_with_a_hostile_rule(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    condition = f"symbol = '{EVIL}' AND price > 4 OR price > 5 AND price < 3"
    run(shell, "rules", "add", "1", condition, "--label", f"team={EVIL}", "--author", EVIL, "--detect", "enter,exit")
    rows = [{"symbol": EVIL, "ts": f"2024-01-01 00:00:0{n}", "price": price} for n, price in enumerate((3, 9))]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return shell


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_no_command_prints_a_control_character_of_a_rule(shell: Shell, json_too: list[str]) -> None:
    watch = ["--object", "symbol", "--time", "ts"]
    for command in (["rules", "list"], ["rules", "show", "1"], ["rules", "history"], ["explain"]):
        out = run(shell, *command, *json_too).out
        assert "[red]x[/red]" in out or command == ["explain"], "markup is text like any other"
        assert not json_too or strict(out) is not None
    out = run(shell, "backtest", "rows.jsonl", *watch, "--events", "events.jsonl", *json_too).out
    assert "[red]x[/red]" in out
    event = json.loads((shell.home / "events.jsonl").read_text().splitlines()[0])
    assert event["object"] == EVIL
    run(shell, "why", event["event_id"], "--events", "events.jsonl", *json_too)
    run(shell, "match", "rows.jsonl", *json_too)
    run(shell, "verify", "rows.jsonl", *json_too)
    (shell.home / "pipeline.toml").write_text('[source]\n"\\u001b[31m" = 1\nformat = "\\u009b"\n')
    run(shell, "check", "pipeline.toml", *json_too, code=1)
    run(shell, "run", "pipeline.toml", *json_too, code=1)


def test_no_refusal_prints_a_control_character(shell: Shell) -> None:
    for words in (
        ["rules", "add", "2", f"symbol = '{EVIL}' AND"],
        ["rules", "add", "2", f"price > 5 AND price < 3 AND symbol = '{EVIL}'"],
        ["rules", "import", EVIL],
        ["match", f"{EVIL}.csv"],
        ["backtest", "rows.jsonl", "--object", EVIL, "--time", "ts"],
        ["publish", "published", "--type", EVIL],
    ):
        refused = run(shell, *words, code=1).err
        assert refused.startswith("fencepost: ")
        assert "; expected " in refused


def test_markup_is_text_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    print_table(("condition",), [(EVIL,)])
    assert "[red]x[/red]" in terminal.getvalue()
    assert r"\x1b[31m" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()
    assert "\x9b" not in terminal.getvalue()


@pytest.mark.parametrize("width", [70, 80, 120, 300])
def test_a_wide_table_leaves_columns_out_and_breaks_only_the_last(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")  # Rich takes any other for one of 80 columns
    monkeypatch.setenv("COLUMNS", str(width))
    line, condition = "▁▂ ▃▄▅▆▇█▇▆▅▄▃▂▁▂▃▄▅▆▇█▇", " ".join(f"word{n}" for n in range(30))
    headers = ("rule", "events", "inside", "enter", "first", "when", "condition")
    row = (7, 1234, "", 1234, "2013-01-01 11:00:00+00:00", line, condition)
    print_table(headers, [row], spare=("first", "inside", "enter"))
    told = capsys.readouterr()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", told.out).splitlines()
    assert all(len(each) <= width for each in lines)
    assert sum(line in each for each in lines) == 1, "it is in one piece"
    assert "inside" not in told.out, "it is empty"
    assert all(f"word{n}" in told.out for n in range(30))
    assert ("first" in lines[1], "enter" in lines[1]) == (width >= 120, width >= 80)
    wanted = {70: "first, enter", 80: "first", 120: "", 300: ""}[width]
    assert told.err == (f"a wider terminal also shows: {wanted}\n" if wanted else "")


def test_json_has_no_infinity() -> None:
    row = {"price": math.inf, "before": [-math.inf, math.nan, 1.5], "pair": (math.inf, 2), "text": "Infinity \x9b"}
    assert strict(as_json(row)) == {
        "price": None,
        "before": [None, None, 1.5],
        "pair": [None, 2],
        "text": "Infinity \x9b",
    }
    assert "\x9b" not in as_json(row)


def test_one_rule_is_one_rule(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "rules.jsonl").write_text('{"id": 1, "condition": "price > 4", "detect": "enter"}\n')
    (tmp_path / "rows.csv").write_text("symbol,ts,price\nIBM,2024-01-01,3\nIBM,2024-01-02,5\n")
    assert run(shell, "rules", "import", "rules.jsonl").err == "1 rule added, 0 replaced, 0 unchanged, 0 skipped\n"
    assert run(shell, "rules", "export", "out.csv").err == "1 rule written to out.csv\n"
    assert run(shell, "match", "rows.csv", "--out", "o.csv").err == "1 match of 2 rows written to o.csv\n"
    fired = run(shell, "backtest", "rows.csv", "--object", "symbol", "--time", "ts")
    assert fired.err == "1 of 1 rule fired in 2 rows\n"
    assert run(shell, "verify", "rows.csv").err == "2 rows, 1 match, 1 rule: no difference from brute force\n"
    assert run(shell, "rules", "expire").err == "removed 0 expired rules\n"


def test_backtest_sorts_what_is_in_no_order(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    run(shell, "rules", "add", "1", "price BETWEEN 4 AND 6", "--detect", "enter,exit")
    rows = [f"IBM,2024-01-01 00:00:{n:02},{n % 3},{price}" for n, price in enumerate([3, 5, 9, 5, 4, 8, 1, 6] * 5)]
    tied = [f"SAP,2024-01-01 00:00:07,{number},{price}" for number, price in ((0, 5), (1, 9), (2, 5), (3, 7))]
    mixed = [*rows[::2], *tied[::-1], ",,,", *rows[::-2], "IBM,,1,5"]
    watch = ("--object", "symbol", "--time", "ts", "--sequence", "number")
    told = {}
    for name, lines in {"sorted": sorted([*rows, *tied], key=lambda row: row.split(",")[1:3]), "mixed": mixed}.items():
        (tmp_path / f"{name}.csv").write_text("symbol,ts,number,price\n" + "\n".join(lines) + "\n")
        done = run(shell, "backtest", f"{name}.csv", *watch, "--events", f"{name}.jsonl")
        counted = json.loads(run(shell, "backtest", f"{name}.csv", *watch, "--json").out)
        told[name] = sorted((tmp_path / f"{name}.jsonl").read_text().splitlines()), counted["rules"]
        assert (counted["late"], counted["sorted"]) == (0, name == "mixed")
        assert ("sorted 46 rows by ts and number: mixed.csv is in another order\n" in done.err) == (name == "mixed")
    assert told["sorted"] == told["mixed"]
    assert len([line for line in told["sorted"][0] if '"SAP"' in line]) == 4, "in the order of their sequence"
