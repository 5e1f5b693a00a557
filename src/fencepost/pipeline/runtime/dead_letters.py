"""Dead letters that tasks and the driver write themselves: JSON lines in files that appear whole."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost._files.whole import write_whole


def write_letters(directory: Path, name: str, letters: Sequence[Mapping[str, Any]]) -> None:
    """Write a file, which takes the place of one that an earlier attempt at the same micro-batch wrote."""
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / name, "".join(f"{json.dumps(letter, ensure_ascii=False)}\n" for letter in letters))
