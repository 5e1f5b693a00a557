"""`fencepost rules`, `publish` and what needs no data."""

import json
import os
import re
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fencepost.indexes
from fencepost.cli.app import app
from fencepost.cli.commands.catalogue import CATALOGUE
from fencepost.published import VersionDirectory
from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


def test_rules_from_the_first_to_the_last(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert "No rule book is at sqlite:///rules.db" in shell.refused("fencepost rules list")
    assert not (tmp_path / "rules.db").exists()
    done = shell.run("""fencepost rules add 1 "symbol = 'IBM' AND price BETWEEN 40 AND 50" --detect exit,enter""")
    assert (done.out, done.err) == ("", "added rule 1, version 1\n")
    shell.call(
        "fencepost rules add 2 'price < 4' --label 'team=it''s; DROP TABLE' --expires 2020-01-01 --paused --author bob"
    )
    added = json.loads(
        shell.call("fencepost rules replace 1 'price > 41' --initial --expect 1 --name 'ibm roof' --json").out
    )
    assert added == {
        "id": 1,
        "condition": "price > 41",
        "detect": "inside",
        "initial": True,
        "labels": None,
        "expires": None,
        "enabled": True,
        "name": "ibm roof",
        **dict.fromkeys(["for", "keep_firing_for", "stay", "margin", "cooldown", "limit", "every"]),
        "version": 2,
    }
    assert "name      ibm roof" in shell.call("fencepost rules show 1").out.splitlines()
    listed = json.loads(shell.call("fencepost rules list --json").out)
    assert [(rule["id"], rule["version"], rule["enabled"]) for rule in listed] == [(1, 2, True), (2, 1, False)]
    assert listed[1]["labels"] == {"team": "its; DROP TABLE"}
    lines = shell.call("fencepost rules list").out.splitlines()
    assert lines[0].split("\t") == ["id", "name", "version", "detect", "condition", "labels", "expires", "state"]
    assert lines[2].split("\t")[-1] == "paused"
    assert (
        shell.run("fencepost --book sqlite:///rules.db rules list", FENCEPOST_BOOK="nonsense").out.splitlines() == lines
    )
    called = shell.call("fencepost --book sqlite:///rules.db rules list", FENCEPOST_BOOK="nonsense")
    assert called.out.splitlines() == lines
    assert "1 of 2 rules; --limit 0 lists all" in shell.call("fencepost rules list --limit 1").err
    shell.run("fencepost rules resume 2 && fencepost rules pause 1 && fencepost publish published")
    snapshot = VersionDirectory(tmp_path / "published").load()
    assert (len(snapshot), snapshot.paused) == (1, {1: 3})
    assert json.loads(shell.call("fencepost rules expire --json").out) == {"expired": [2]}
    assert json.loads(shell.call("fencepost publish published --json").out)["version"] == 2
    shell.run("fencepost publish parted --shards 2 --type symbol=string")
    plan = VersionDirectory(tmp_path / "parted").shards()
    assert plan is not None
    assert plan.shards == 2
    shell.call("fencepost rules remove 1")
    history = json.loads(shell.call("fencepost rules history --json").out)
    assert [(each["id"], each["action"]) for each in history] == [
        (1, "added"),
        (2, "added"),
        (1, "replaced"),
        (2, "resumed"),
        (1, "paused"),
        (2, "expired"),
        (1, "removed"),
    ]
    assert {each["author"] for each in history if each["id"] == 1} == {"ann"}
    assert history[1]["author"] == "bob"
    assert history[2]["before"]["condition"] == "symbol = 'IBM' AND price BETWEEN 40 AND 50"
    assert len(shell.call("fencepost rules history 2").out.splitlines()) == 4


def test_many_rules_in_and_out_of_files(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    rules = ({"id": id, "condition": f"price > {id}", "labels": {"n": str(id)}} for id in range(2000))
    (tmp_path / "rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    assert "2,000 rules added" in shell.run("fencepost rules import rules.jsonl").err
    assert "line 1: rule 0 is already in the book" in shell.call_refused("fencepost rules import rules.jsonl")
    imported = json.loads(shell.call("fencepost rules import rules.jsonl --replace --json").out)
    assert imported == {"added": 0, "replaced": 0, "unchanged": 2000, "skipped": 0}
    shell.call("fencepost rules export out.csv")
    shell.call("fencepost rules import out.csv --book sqlite:///other.db")
    shell.call("fencepost rules export again.jsonl --book sqlite:///other.db")
    again = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert [(rule["id"], rule["labels"]["n"]) for rule in again] == [(id, str(id)) for id in range(2000)]
    # Whoever reads the output may stop at any time.
    for command in ("list --limit 0", "list --json", "history --last 0"):
        done = shell.run(f"set +o pipefail; fencepost rules {command} | head -n 2")
        assert (len(done.out.splitlines()), done.err) == (2, "")


def test_columns_that_come_and_rules_that_are_faulty(tmp_path: Path) -> None:
    shell, directory = Shell(tmp_path), VersionDirectory(tmp_path / "published")
    shell.call("fencepost rules add 1 'price > 4'")
    shell.call("fencepost publish published --type gate=string")
    assert directory.schema() == {"gate": "key", "price": "double"}
    warned = shell.call("fencepost rules add 2 'prcie > 4'").err
    assert "warning: rule 2 is stored, but not published as it is" in warned
    assert "Did you mean price?" in warned
    shell.call("fencepost rules add 3 'volume > 4'")
    shown = shell.call("fencepost publish published --dry-run --type volume=bigint").out
    assert shown.splitlines()[0] == "added: 1 rule: 3"
    assert "columns added: volume bigint" in shown
    told = json.loads(shell.call("fencepost publish published --dry-run --json").out)
    assert (told["added"], list(told["faulty"]), told["unchanged"]) == ([], ["2", "3"], 1)
    assert "2 faults in 2 rules" in shell.call_refused("fencepost publish published --strict")
    assert directory.latest() == 1, "nothing was written"
    done = shell.call("fencepost publish published --type volume=bigint")
    assert "1 faulty rule not published" in done.err
    assert "rule 2: `prcie > 4` uses the column prcie" in done.err
    told = json.loads(shell.call("fencepost publish published --json").out)
    assert [fault["id"] for fault in told["faults"]] == [2]
    assert directory.added_columns() == {"volume"}
    assert len(directory.load()) == 2


def test_refusals_in_plain_words(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.call("fencepost rules add 1 'price > 4'")
    message = shell.refused("fencepost rules add 2 'price > 5 AND price < 3'")
    assert "Rule 2: `price > 5` and `price < 3` exclude each other" in message
    assert "\n  price > 5 AND price < 3\n  ^^^^^^^^^     ^^^^^^^^^\n" in message
    assert "detect='leave'; expected any of inside, enter" in shell.call_refused(
        "fencepost rules add 2 'x > 1' --detect leave"
    )
    assert "--label team; expected a name, an equals sign" in shell.call_refused(
        "fencepost rules add 2 'x > 1' --label team"
    )
    assert "expires='soon'; expected a datetime" in shell.call_refused("fencepost rules add 2 'x > 1' --expires soon")
    assert "Rule 9 does not exist; expected the id of a rule in the book" in shell.refused("fencepost rules show 9")
    assert "Rule 1 already exists" in shell.call_refused("fencepost rules add 1 'price > 4'")
    assert "version 1, added by ann; expected version 7" in shell.call_refused("fencepost rules remove 1 --expect 7")
    assert "nowhere.csv is no file" in shell.call_refused("fencepost rules import nowhere.csv")
    (tmp_path / "lies.csv").write_text("id,price,volume\n1,2,3\n")
    assert "lies.csv has the unknown column 'price'; expected the columns id," in shell.call_refused(
        "fencepost rules import lies.csv"
    )
    assert "The directory of nowhere/rules.csv does not exist" in shell.call_refused(
        "fencepost rules export nowhere/rules.csv"
    )
    assert "is no rule book" in shell.call_refused("fencepost rules list --book sqlite:///lies.csv")
    read_only = "sqlite:///file:rules.db?mode=ro&uri=true"
    assert "is read-only; expected one that may be written" in shell.refused(
        "fencepost rules remove 1", FENCEPOST_BOOK=read_only
    )
    other = sqlite3.connect(tmp_path / "rules.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    locked = shell.refused("fencepost rules remove 1", FENCEPOST_BOOK="sqlite:///rules.db?timeout=0.1")
    assert "is locked by another writer" in locked
    assert "Wait for the other writer to finish, and try again." in locked
    other.close()
    assert "does not answer" in shell.call_refused("fencepost rules list --book postgresql://ann@127.0.0.1:1/rules")
    for wrong in ("rules restore 1 x", "rules add 2", "rules sell", "rules list --limit -1", "rules", "nonsense"):
        shell.call(f"fencepost {wrong}", 2)
    assert len(json.loads(shell.call("fencepost rules list --json").out)) == 1


def test_what_needs_no_rules(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert re.fullmatch(r"fencepost \d+\.\d+.*\n", shell.run("fencepost version").out)
    assert "fencepost" in json.loads(shell.call("fencepost version --json").out)
    told = json.loads(shell.call("fencepost catalogue --json").out)
    assert [each["name"] for each in told] == [each.name for each in CATALOGUE]
    structures = set(fencepost.indexes.__all__) - {"Crossings", "Matches", "Storage"}
    assert {each["name"] for each in told} == structures
    assert "Wu, Chen, Yu 2006" in shell.call("fencepost catalogue").out
    assert (
        "complete -"
        in shell.run("fencepost --show-completion bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").out
    )


def test_a_book_in_front_of_one_command_is_not_that_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(tmp_path)
    shell.call("fencepost rules add 1 'price < 50'")
    monkeypatch.delenv("FENCEPOST_BOOK", raising=False)
    monkeypatch.chdir(shell.home)
    for before in (None, "sqlite:///mine.db"):
        if before is not None:
            monkeypatch.setenv("FENCEPOST_BOOK", before)
        assert CliRunner().invoke(app, ["--book", "sqlite:///rules.db", "rules", "list"]).exit_code == 0
        assert os.environ.get("FENCEPOST_BOOK") == before


def test_rules_with_expressions_match_a_file(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for id, text in enumerate(["bid - ask < 0.02 AND name LIKE 'Ac%'", "x IS NULL", "bid > ask"], 1):
        shell.call(f'fencepost rules add {id} "{text}" --detect enter,exit')
    (tmp_path / "data.csv").write_text("bid,ask,name,x\n1.0,1.0,Acme,\n2.0,1.0,IBM,3\n", encoding="utf-8")
    lines = shell.run("fencepost match data.csv").out.splitlines()
    assert [json.loads(line)["rule_ids"] for line in lines] == [[1, 2], [3]]


def test_a_pause_ends_in_time_to_come(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.call("fencepost rules add 'ibm floor' 'price > 40'")
    told = shell.call_refused("fencepost rules pause 'ibm floor' --until 2020-01-01")
    assert "--until 2020-01-01 is past; expected a time to come. Times without a zone are UTC" in told
    told = shell.call_refused("fencepost rules pause 1 --until tomorrow")
    assert "--until tomorrow; expected a date or a time. Write for example '2030-01-01 08:00'." in told
    assert len(json.loads(shell.call("fencepost rules history 1 --json").out)) == 1, "nothing has changed"
    shell.call("fencepost rules pause 1 --until '2100-01-01 08:00'")
    assert "paused until 2100-01-01 08:00:00" in shell.call("fencepost rules list").out


def test_status_counts_rules_that_are_there(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for id in (1, 2, 3):
        shell.call(f"fencepost rules add {id} 'price > 40'")
    shell.call("fencepost publish published")
    shell.call("fencepost rules replace 1 'price > 41'")
    shell.call("fencepost rules remove 2")
    shell.call("fencepost rules pause 3")
    shell.call("fencepost rules add 4 'price > 42'")
    shell.call("fencepost publish published")
    assert "rules:        3, 2 in force" in shell.call("fencepost status published").out
