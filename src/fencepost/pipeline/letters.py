"""Dead letters that tasks and the driver write themselves: JSON lines in files that appear whole."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["write_letters"]


def write_letters(directory: Path, name: str, letters: Sequence[Mapping[str, Any]]) -> None:
    """Write a file, which takes the place of one that an earlier attempt at the same micro-batch wrote.

    Args:
        directory: made where it does not exist.
        name: of the file, the same for every attempt.
        letters: a JSON object each.
    """
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f".{name}"
    draft.write_text("".join(f"{json.dumps(letter, ensure_ascii=False)}\n" for letter in letters), encoding="utf-8")
    draft.replace(directory / name)
