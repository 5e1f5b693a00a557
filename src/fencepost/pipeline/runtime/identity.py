"""Whose checkpoint it is: a small file in it says which pipeline it belongs to.

checkpoint/fencepost/pipeline.json   what may not change: source, operator, rules, sink
checkpoint/fencepost/rules/          the published versions of a book
checkpoint/fencepost/markers/        the times that the pipeline has announced to itself
checkpoint/fencepost/dead_letters/   how far the rows that could not be read have been written
checkpoint/fencepost/deliveries/     events for the webhook
checkpoint/fencepost/changes/        how far changes of rules have been applied
"""

import json
from pathlib import Path
from typing import Any

from fencepost._files.whole import write_whole
from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import PipelineFile

_SOURCE = ("format", "path", "topic", "host", "port")
_OPERATOR = ("kind", "object", "time", "key", "sequence", "buckets", "shards", "explode", "report", "deleted")
_SINK = ("format", "path", "topic", "url")
_PATHS = {"path", "directory"}


def own_place(file: PipelineFile, name: str = "") -> Path:
    """Where fencepost keeps what belongs to a checkpoint."""
    return file.resolved(file.section("sink")["checkpoint"]) / "fencepost" / name


def check_checkpoint(file: PipelineFile) -> None:
    """Refuse a checkpoint that another pipeline has made."""
    place = own_place(file, "pipeline.json")
    remedy = "Name a new directory, or delete this one to start from the beginning."
    try:
        found = json.loads(place.read_text())
    except FileNotFoundError:
        if (place.parents[1] / "metadata").exists() or (place.parents[1] / "offsets").exists():
            raise FencepostError(
                f"{place.parents[1]}, a checkpoint that no pipeline file has made", "one of this pipeline", remedy
            ) from None
        return
    except (OSError, ValueError) as error:
        raise FencepostError(f"{place}, which cannot be read ({error})", "what a pipeline wrote", remedy) from None
    mine = _identity(file)
    for section in sorted(mine.keys() | found.keys()):
        was, now = found.get(section) or {}, mine.get(section) or {}
        for key in sorted(was.keys() | now.keys()):
            if was.get(key) != now.get(key):
                raise FencepostError(
                    f"{place.parents[1]}, a checkpoint of another pipeline, whose {section}.{key} is {was.get(key)!r}",
                    f"one of this pipeline, whose {section}.{key} is {now.get(key)!r}",
                    remedy,
                )


def claim_checkpoint(file: PipelineFile) -> None:
    """Write into a checkpoint which pipeline it belongs to, unless that is there."""
    place = own_place(file, "pipeline.json")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        write_whole(place, json.dumps(_identity(file), indent=2))


def _identity(file: PipelineFile) -> dict[str, dict[str, Any]]:
    """What a checkpoint cannot survive a change of; servers, rates and triggers may change."""
    parts: dict[str, tuple[str, ...]] = dict.fromkeys(file.sources, _SOURCE)
    parts |= {"rules": ("directory", "book"), "operator": _OPERATOR, "sink": _SINK}
    return {name: _settings(file, name, keys) for name, keys in sorted(parts.items())}


def _settings(file: PipelineFile, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    section = file.section(name)
    found = {key: section[key] for key in keys if section.get(key) is not None}
    return {key: file.located(value) if key in _PATHS else value for key, value in found.items()}
