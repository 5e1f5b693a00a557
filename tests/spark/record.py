"""What the micro-batches of a query took, as its checkpoint has recorded it."""

import json
from collections.abc import Iterator
from pathlib import Path

__all__ = ["recorded_batches"]


def recorded_batches(checkpoint: Path, sources: int, offsets: Path | None = None) -> Iterator[list[list[str]]]:
    """The names of the files that each micro-batch took from each of its sources of files, in order.

    Args:
        checkpoint: of the query.
        sources: how many it has.
        offsets: where the files of offsets are, if Spark has deleted some of them.
    """
    logs = [_logged(checkpoint / "sources" / str(source)) for source in range(sources)]
    reached = [-1] * sources
    for file in sorted((offsets or checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name)):
        lines = file.read_text().splitlines()[2:]
        now = [-1 if line == "-" else json.loads(line)["logOffset"] for line in lines]
        yield [
            [name for batch in range(reached[source] + 1, now[source] + 1) for name in logs[source].get(batch, [])]
            for source in range(sources)
        ]
        reached = now


def _logged(folder: Path) -> dict[int, list[str]]:
    """The files of a source by the number under which it logged them."""
    found: dict[int, list[str]] = {}
    for file in folder.glob("[0-9]*"):
        for entry in map(json.loads, file.read_text().splitlines()[1:]):
            names = found.setdefault(entry["batchId"], [])
            names += [Path(entry["path"]).name] if Path(entry["path"]).name not in names else []
    return found
