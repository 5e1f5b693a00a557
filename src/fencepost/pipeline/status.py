"""What a pipeline did last, in a file beside its checkpoint: written while it runs, read by whoever asks."""

import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost._files.storage import modified, place_of
from fencepost._files.whole import PRIVATE, write_whole
from fencepost.deliveries.spool import find_spools
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory

_NAME = "status.json"
_SILENT = 30.0
"""Seconds after which a pipeline on another host that says nothing is taken for dead."""
GOING = ("starting", "running", "retrying")
"""States of a pipeline whose process lives."""


class StatusFile:
    """Writes the status of a pipeline that runs here."""

    def __init__(self, directory: Path, about: Mapping[str, Any]) -> None:
        self._path = directory / _NAME
        self._about = {
            **about,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process_started": _process_start(os.getpid()),
            "started": _now(),
        }

    def write(self, state: str, figures: Mapping[str, Any], reason: str | None = None) -> None:
        """Say how things are; nobody else may read it. It can be made again, so nothing waits for the disk."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        said = {**self._about, "state": state, "reason": reason, "updated": _now(), **figures}
        write_whole(self._path, json.dumps(said, indent=2, default=str), durable=False, mode=PRIVATE)


def read_status(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The status of a checkpoint of a pipeline, or of a directory of rules."""
    place = place_of(path)
    if isinstance(place, Path):
        for directory in (place / "fencepost", place):
            if (directory / _NAME).is_file() or (directory / "pipeline.json").is_file():
                return _checkpoint_status(directory)
    versions = VersionDirectory(place)
    if versions.latest() is not None:
        return _rules_status(versions)
    raise FencepostError(
        f"{path}, where no pipeline ran and no rules were published",
        "the checkpoint of a pipeline, or a directory of rules",
        "Name what the pipeline file has as checkpoint, or what rules were published to.",
    )


def _checkpoint_status(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"state": "never ran", "reason": None}
    try:
        found = json.loads((directory / _NAME).read_text())
    except FileNotFoundError:
        pass
    except ValueError:
        found["reason"] = f"{directory / _NAME} is damaged"
    if found["state"] in GOING and not _is_alive(found):
        found["state"], found["reason"] = "killed", "it ended without a word; the next run goes on from the checkpoint"
    sinks = {name: dict(figures) for name, figures in (found.get("sinks") or {}).items()}
    for name, spool in find_spools(directory).items():
        own = sinks.setdefault(name or "webhook", {})
        own |= {"waiting": spool.waiting(), "undelivered": len(spool.letters()), "place": str(spool.undelivered)}
    rules = directory / "rules"
    return {
        "kind": "pipeline",
        "checkpoint": str(directory.parent),
        **found,
        "committed_batch": _last_commit(directory.parent),
        "published_version": VersionDirectory(rules).latest() if rules.is_dir() else None,
        "sinks": sinks,
    }


def _rules_status(versions: VersionDirectory) -> dict[str, Any]:
    numbers = versions.versions()
    latest = numbers[-1]
    published = modified(versions.path / f"{latest:08}.published")
    snapshot = versions.load(latest, verify=False)
    in_force = int(snapshot.in_force.size)
    return {
        "kind": "rules",
        "directory": str(versions.path),
        "version": latest,
        "published": None if published is None else datetime.fromtimestamp(published, UTC).isoformat(),
        "rules": in_force + len(snapshot.paused),
        "in_force": in_force,
        "columns": versions.schema(),
        "versions": len(numbers),
        "oldest": numbers[0],
        "followed": sorted(versions.leased() & set(numbers)),
    }


def _last_commit(checkpoint: Path) -> int | None:
    """The last micro-batch that Spark has noted as done."""
    names = (entry.name for entry in (checkpoint / "commits").glob("[0-9]*"))
    return max((int(name) for name in names if name.isdecimal()), default=None)


def _is_alive(found: Mapping[str, Any]) -> bool:
    if found.get("host") == socket.gethostname():
        started = _process_start(int(found["pid"]))
        return started is not None and started == found.get("process_started")
    age = datetime.now(UTC) - datetime.fromisoformat(found["updated"])
    return age.total_seconds() < _SILENT


def _process_start(pid: int) -> str | None:
    """What tells a process from a later one of the same number; None where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return None if Path("/proc/self").exists() else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
