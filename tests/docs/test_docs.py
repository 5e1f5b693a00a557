"""Every block of the documentation runs, and every name in it exists."""

import re
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from fencepost.cli.app import app
from tests.docs.blocks import PAGES, ROOT, Block, blocks_of, inline_codes
from tests.docs.running import RUNNERS, Reader, run_shell
from tests.docs.settings import SETTINGS

NOT_RUN = {
    ("README.md", "# a market and a city"): "tests/spark/test_demo.py runs the demo, and make test-all runs this",
    ("README.md", " rules: "): "a picture",
    ("README.md", "fencepost serve &"): "docs/service.md has the same calls, which are run",
    ("docs/pipeline.md", "# events that wait"): "tests/cli/test_deliveries.py runs these commands",
    ("docs/production.md", "[Unit]"): "tests/pipeline/test_production.py runs its ExecStart",
    ("docs/how-it-works.md", "window "): "a picture",
    ("docs/console.md", "fencepost serve "): "tests/console runs these commands",
    ("docs/security.md", "default-src "): "a header; tests/console/test_parts.py compares it",
    ("docs/service.md", "pip install"): "the page's setting starts the service",
}
"""Blocks by page and beginning that nothing runs, with the reason."""
SOURCE = ROOT / "src" / "fencepost"
DOCUMENTED = (
    "fencepost",
    "fencepost.plot",
    "fencepost.spark",
    "fencepost.pipeline",
    "fencepost.sizing",
    "fencepost.indexes",
)


def reason_not_to_run(page: str, text: str) -> str | None:
    return next((why for (place, start), why in NOT_RUN.items() if place == page and text.startswith(start)), None)


def run_of(page: str) -> list[Block]:
    """The blocks of a page that are run."""
    return [block for block in blocks_of(page) if reason_not_to_run(page, block.text) is None]


def as_parameter(page: str) -> Any:
    """A page that mentions Spark may ask for the session; one with commands starts interpreters."""
    slow = [pytest.mark.slow] if any(RUNNERS.get(block.language) is run_shell for block in run_of(page)) else []
    spark = [pytest.mark.spark] if any("spark" in block.text.lower() for block in run_of(page)) else []
    return pytest.param(page, marks=[*spark, *slow])


@pytest.mark.parametrize("page", [as_parameter(page) for page in PAGES if run_of(page)])
def test_the_blocks_of_a_page_run_in_their_order(
    page: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path, lambda: request.getfixturevalue("spark"))
    with SETTINGS[page](reader) if page in SETTINGS else nullcontext():
        for block in run_of(page):
            assert block.language in RUNNERS, f"{block}: nothing runs it; write it in {', '.join(RUNNERS)}"
            RUNNERS[block.language](reader, block)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", ">>> 1 + 1\n3\n"),
        ("python", "assert 1 + 1 == 3\n"),
        pytest.param("sh", "false\ntrue\n", marks=pytest.mark.slow),
        pytest.param("sh", "fencepost rules lst\n", marks=pytest.mark.slow),
        ("toml", "[source]\nformat = 'yaml'\n"),
        ("json", '{"op": "insert", "id": 7, "condition": "price >"}\n'),
    ],
)
def test_a_block_that_is_wrong_is_noticed(tmp_path: Path, language: str, text: str) -> None:
    reader = Reader(tmp_path, lambda: None)
    with pytest.raises(AssertionError):
        RUNNERS[language](reader, Block("a page", 1, language, text))


def test_what_is_not_run_is_still_there() -> None:
    for (page, start), why in NOT_RUN.items():
        assert why
        assert [block for block in blocks_of(page) if block.text.startswith(start)], (page, start)
    assert set(SETTINGS) <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_files_that_a_page_names_exist(page: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    told = [*inline_codes(page), *(line for block in blocks_of(page) for line in block.text.splitlines())]
    for code in told:
        words = code.split()
        if words[:1] == ["make"]:
            assert set(targets_of(words[1:])) <= set(targets), f"{page}: {code}"
        if words[:1] == ["fencepost"] and len(words) > 1:
            assert is_command(words[1:]), f"{page}: {code}"
        if re.fullmatch(r"(src|docs|tests|examples|benchmarks|tools)/[\w/.-]+", code):
            assert (ROOT / code).exists(), f"{page}: {code}"
        if re.fullmatch(r"python -m (benchmarks|tests|tools)[\w. -]*", code):
            assert import_module(words[2]), f"{page}: {code}"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/how-it-works.md"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    named = [code for code in inline_codes(page) if re.fullmatch(r"\w+(/\w+)*(/|\.py)", code)]
    assert named
    assert [code for code in named if not any((place / code).exists() for place in (ROOT, SOURCE))] == []


def test_the_floor_plan_names_every_folder() -> None:
    """Each line begins with names; what follows two spaces is what they are for."""
    plan = (ROOT / "CONTRIBUTING.md").read_text().partition("    src/fencepost/\n")[2].partition("\n    tools/")[0]
    named = {
        name for line in plan.splitlines() for name in re.findall(r"(\w+)/(?= |$)", line.strip().partition("  ")[0])
    }
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} <= named
    assert all(any(SOURCE.rglob(name)) for name in named)


def test_folders_say_what_their_modules_are_for() -> None:
    """Where a folder has many modules of one kind, it says so once."""
    for folder in {path.parent for path in SOURCE.rglob("*.py")} - {SOURCE}:
        if {"lab", "papers", "commands", "pages"}.isdisjoint(folder.relative_to(SOURCE).parts):
            purpose = (folder / "__init__.py").read_text().split('"""')[1]
            said = set(re.findall(r"\w+", purpose))
            assert {path.stem for path in folder.glob("*.py")} - {"__init__"} <= said, folder


def targets_of(words: list[str]) -> list[str]:
    """The targets of a make command, up to a comment or a variable."""
    return words[: next((place for place, word in enumerate(words) if not re.fullmatch(r"[a-z-]+", word)), len(words))]


def is_command(words: list[str]) -> bool:
    """Whether a command line begins with a subcommand, an option, or a word for any."""
    known: Any = typer.main.get_command(app)
    for word in words:
        if word.startswith("-") or word.isupper():
            return True
        if not hasattr(known, "commands"):
            return True
        if word not in known.commands:
            return False
        known = known.commands[word]
    return True


def test_the_reference_has_every_public_name_and_no_other() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    listed: dict[str, set[str]] = {}
    for place, name in re.findall(r"currentmodule:: (\S+)|auto(?:class|function|exception):: (\S+)", text):
        if place:
            current = listed.setdefault(place, set())
        else:
            current.add(name)
    assert listed == {package: set(import_module(package).__all__) for package in DOCUMENTED}


@pytest.mark.parametrize("page", PAGES)
def test_code_is_at_most_88_columns_wide(page: str) -> None:
    wide = [(str(block), line) for block in blocks_of(page) for line in block.text.splitlines() if len(line) > 88]
    assert not wide
