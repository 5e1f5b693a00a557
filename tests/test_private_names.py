"""The check that no module reaches into another's private names finds such faults, and nothing else."""

from pathlib import Path

import pytest
from tools.private_names import main, reaches

FAULTS = {
    "from fencepost.rules.rules import _bind": "fencepost.rules.rules._bind",
    "def look(monitor):\n    return monitor._state": "monitor._state",
    "import fencepost.events as events\nevents._columns()": "events._columns",
    "class Child:\n    def ask(self, other):\n        return other._secret": "other._secret",
    "def swap(engine):\n    engine._rules = None": "engine._rules",
}
SOUND = [
    "from fencepost import _text",
    "class Own:\n    def __init__(self, other):\n        self._state = other._state",
    "class Own(Base):\n    def ask(self):\n        return self._inherited",
    "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: int\nPair(1)._replace(a=2)",
    "_LIMIT = 3\n\n\ndef read():\n    return _LIMIT.__class__",
]


def planted(folder: Path, text: str) -> Path:
    """A package like ours, with one module of this text."""
    package = folder / "src" / "fencepost" / "part"
    package.mkdir(parents=True)
    (package / "module.py").write_text(text)
    return package.parent


@pytest.mark.parametrize("text", FAULTS)
def test_a_module_that_reaches_into_another_is_named_with_the_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = planted(tmp_path, text)
    assert main(root) == 1
    said = capsys.readouterr().out
    assert said.startswith("src/fencepost/part/module.py:")
    assert f"{FAULTS[text]} is private to another module" in said
    (line, _), *more = reaches(root / "part" / "module.py")
    assert not more
    assert text.splitlines()[line - 1].strip()
    assert f":{line}: " in said


@pytest.mark.parametrize("text", SOUND)
def test_a_module_may_use_names_of_its_own(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(planted(tmp_path, text)) == 0
    assert capsys.readouterr().out == ""


def test_our_own_modules_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out
