"""Whose checkpoint it is: a small file in it says which pipeline it belongs to.

checkpoint/fencepost/pipeline.json   what may not change: source, operator, rules, sink; never a user or a password
checkpoint/fencepost/status.json     what the pipeline did last
checkpoint/fencepost/console.url     the address that opens its pages, while they are served
checkpoint/fencepost/spark.log       what Spark said; spark.log.1 of the run before
checkpoint/fencepost/rules/          the published versions of a book
checkpoint/fencepost/markers/        the times that the pipeline has announced to itself
checkpoint/fencepost/dead_letters/   how far the rows that could not be read have been written
checkpoint/fencepost/deliveries/     events for the webhook
checkpoint/fencepost/sinks/NAME/     of one of several sinks: its last micro-batch, and events for a webhook
checkpoint/fencepost/schemas/        schemas that a registry gave, by source and id
checkpoint/fencepost/changes/        how far changes of rules have been applied
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from fencepost._files.storage import is_url
from fencepost._files.whole import PRIVATE, write_whole
from fencepost._text import mask_url
from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import PipelineFile

_SOURCE = ("format", "path", "table", "topic", "host", "port")
_OPERATOR = ("kind", "object", "time", "key", "sequence", "buckets", "shards", "explode", "report", "deleted")
_SINK = ("format", "path", "table", "topic")
_PATHS = {"path", "directory"}


def own_place(file: PipelineFile, name: str = "") -> Path:
    """Where fencepost keeps what belongs to a checkpoint."""
    assert file.checkpoint is not None, "whoever runs a pipeline gives it one"
    return file.resolved(file.checkpoint) / "fencepost" / name


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
        raise FencepostError(f"{place} cannot be read ({error})", "what a pipeline wrote", remedy) from None
    # Earlier files have whole URLs: what does not count is left out of both.
    was, mine = ({name: _plain(file, each or {}) for name, each in all_.items()} for all_ in (found, _identity(file)))
    both_sink = bool(was.get("sink")) and bool(mine.get("sink"))
    for section in sorted(mine.keys() | was.keys()):
        if section == "sink" and not both_sink:  # to several sinks, or back: each knows itself what it has
            continue
        before, now = was.get(section) or {}, mine.get(section) or {}
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                raise FencepostError(
                    f"{place.parents[1]}, a checkpoint of another pipeline, whose {section}.{key} is "
                    f"{before.get(key)!r}",
                    f"one of this pipeline, whose {section}.{key} is {now.get(key)!r}",
                    remedy,
                )


def claim_checkpoint(file: PipelineFile) -> None:
    """Write into a checkpoint which pipeline it belongs to, in place of what says the same less well."""
    place = own_place(file, "pipeline.json")
    place.parent.mkdir(parents=True, exist_ok=True)
    mine = json.dumps(_identity(file), indent=2)
    if not place.exists() or place.read_text() != mine or place.stat().st_mode & 0o077:
        write_whole(place, mine, mode=PRIVATE)


def clear_drafts(file: PipelineFile) -> None:
    """Remove what a kill left of the first micro-batch before it was noted: Spark would refuse to start beside it.

    Nothing has begun there, so nothing is lost.
    """
    checkpoint = own_place(file, "pipeline.json").parents[1]
    for log in (checkpoint / "offsets", checkpoint / "commits"):
        if log.is_dir() and not any(name.name.isdecimal() for name in log.iterdir()):
            for draft in log.glob(".*.tmp*"):
                draft.unlink(missing_ok=True)


def _identity(file: PipelineFile) -> dict[str, dict[str, Any]]:
    """What a checkpoint cannot survive a change of; servers, rates, triggers and several sinks may change."""
    parts: dict[str, tuple[str, ...]] = dict.fromkeys(file.sources, _SOURCE)
    parts |= {"rules": ("directory", "book"), "operator": _OPERATOR}
    if "sink" in file.sinks:
        parts["sink"] = _SINK
    return {name: _plain(file, _settings(file, name, keys)) for name, keys in sorted(parts.items())}


def _settings(file: PipelineFile, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    section = file.section(name)
    found = {key: section[key] for key in keys if section.get(key) is not None}
    return {key: file.located(value) if key in _PATHS else value for key, value in found.items()}


def _plain(file: PipelineFile, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without what may change: users, passwords and queries of URLs, the host of a database, and receivers.

    Hosts have many spellings, and databases move. A directory of rules at a URL keeps its host, which is a bucket. The
    address of a webhook may be a secret as a whole; what waits for the old one goes to the new one.
    """
    shapes = {"book": _plain_book, "directory": _plain_directory}
    kept = {key: value for key, value in settings.items() if key != "url"}
    return {key: shapes[key](file, value) if key in shapes else value for key, value in kept.items()}


def _plain_book(file: PipelineFile, url: str) -> str:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return mask_url(url)
    backend, database = parsed.get_backend_name(), parsed.database or ""
    if backend == "sqlite" and database not in {"", ":memory:"} and not database.startswith("file:"):
        database = str(file.resolved(database))
    return f"{'postgresql' if backend == 'postgres' else backend}:///{database}"


def _plain_directory(file: PipelineFile, directory: str) -> str:
    del file
    if not is_url(directory):
        return directory
    parsed = urlsplit(directory)
    return parsed._replace(netloc=parsed.netloc.rpartition("@")[2], query="", fragment="").geturl()
