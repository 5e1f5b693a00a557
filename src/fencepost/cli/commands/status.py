"""`fencepost status`: what a pipeline does or did, and what a directory of rules has."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from fencepost._text import count
from fencepost.cli.options import Json
from fencepost.cli.output import print_json, print_text

_Path = Annotated[
    str, typer.Argument(metavar="PATH", help="A checkpoint, or a directory of rules.", show_default=False)
]


def status(path: _Path, as_json: Json = False) -> None:
    """Show what a pipeline does or did, or what is published; read from files, so it also works after a kill."""
    from fencepost.pipeline.status import read_status

    found = read_status(path)
    if as_json:
        print_json(found)
        return
    for name, text in _lines(found) if found["kind"] == "pipeline" else _rule_lines(found):
        print_text(f"{name + ':':<14}{text}")


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    reason = f" ({found['reason']})" if found["reason"] else ""
    yield "state", f"{found['state']}{reason}"
    if "pipeline" in found:
        yield "pipeline", f"{found['pipeline']}, process {found['pid']} on {found['host']}"
        yield "since", f"{found['started']}, last word {found['updated']}"
    counts = found.get("counts") or {}
    batch = found.get("last_batch")
    if batch:
        yield "last batch", f"{batch['id']} at {batch['time']}: {count(batch['rows'], 'row')} in {batch['seconds']:g} s"
    elif found["committed_batch"] is not None:
        yield "last batch", str(found["committed_batch"])
    if counts:
        parts = [
            f"{counts[name]:,} {name}" for name in ("enter", "exit", "cross", "inside", "silent") if counts.get(name)
        ]
        yield "rows", f"{counts['rows']:,} in this run, {counts['late']:,} late, {counts['null']:,} without a value"
        yield "events", f"{counts['events']:,}" + (f": {', '.join(parts)}" if parts else "")
        if counts.get("damped") or found.get("pending") is not None:
            waiting = ", ".join(
                f"{found[name]:,} {name}" for name in ("pending", "ending") if found.get(name) is not None
            )
            yield "damping", f"{counts.get('damped', 0):,} damped" + (f"; {waiting}" if waiting else "")
        yield "dead letters", f"{counts['dead_letters']:,}"
        yield "restarts", f"{counts['restarts']:,}"
    version, rules = found.get("rule_version"), found.get("rules")
    yield "rules", f"version {version or '-'}" + (f", {count(int(rules), 'rule')}" if rules else "")
    if found.get("rejected_versions"):
        yield "rejected", f"{count(int(found['rejected_versions']), 'newer version')} that could not be used"
    if found.get("skipped_rules"):
        yield (
            "skipped",
            f"{count(int(found['skipped_rules']), 'rule')} left out for want of a column or of a clock",
        )
    if found.get("newest"):
        yield "lag", f"{_age(found['newest'])}, newest event {found['newest']}"
    if found.get("offsets_behind") is not None:
        yield "behind", f"{found['offsets_behind']:,} messages"
    for name, sink in found["sinks"].items():
        yield (
            name,
            f"{sink.get('waiting', 0):,} wait, {sink.get('undelivered', 0):,} not delivered"
            + (f" ({sink['place']})" if sink.get("undelivered") and sink.get("place") else ""),
        )


def _rule_lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "version", f"{found['version']}, published {found['published']}"
    yield "rules", f"{found['rules']:,}, {found['in_force']:,} in force"
    yield "columns", ", ".join(f"{name} {kind}" for name, kind in (found["columns"] or {}).items())
    yield "kept", f"{count(found['versions'], 'version')} from {found['oldest']}"
    yield "followed", ", ".join(map(str, found["followed"])) or "by no stream"


def _age(instant: str) -> str:
    seconds = (datetime.now(UTC) - datetime.fromisoformat(instant)).total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"
