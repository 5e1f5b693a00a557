"""`fencepost why`: the rule behind one event, or why there is none."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.options import (
    DEFAULT_BOOK,
    Book,
    Directory,
    Json,
    Timeout,
    Types,
    open_book,
    read_key,
    read_timeout,
)
from fencepost.cli.output import print_json, print_text, progress
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.book import Progress, RuleBook
    from fencepost.rules import Rules
    from fencepost.snapshot import Snapshot


def why(
    event_id: Annotated[
        str | None, typer.Argument(metavar="[EVENT_ID]", help="The event_id of an event.", show_default=False)
    ] = None,
    events: Annotated[
        Path | None, typer.Option("--events", metavar="PATH", help="The file or directory that has the event.")
    ] = None,
    rule: Annotated[
        Any, typer.Option("--rule", metavar="ID", parser=read_key, help="Ask about this rule: its id, or its name.")
    ] = None,
    object: Annotated[str | None, typer.Option("--object", metavar="VALUE", help="And about this object.")] = None,
    rows: Annotated[
        Path | None,
        typer.Option("--rows", metavar="FILE", help="Its rows: *.jsonl, *.csv or *.parquet, or a directory."),
    ] = None,
    object_column: Annotated[
        str | None, typer.Option("--object-column", metavar="COLUMN", help="The column that names the object.")
    ] = None,
    time: Annotated[str | None, typer.Option("--time", metavar="COLUMN", help="The column of event time.")] = None,
    sequence: Annotated[
        list[str] | None, typer.Option("--sequence", metavar="COLUMN", help="Order rows of equal time by this column.")
    ] = None,
    timeout: Timeout = None,
    type: Types = None,
    rules: Directory = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Explain why an event happened, or why a rule is silent about an object.

    With EVENT_ID and --events: when it happened, the values before and after, and the rule as it was then: whether it
    held, and which of its parts were decisive. With --rule, --object, --rows and --object-column: whether the object is
    inside after these rows, whether that is reported, and what the rule waits for. --time names the column of event
    time; without it rows count in their order.
    """
    if event_id is not None and events is not None and rule is None and object is None:
        _explain_event(event_id, events, rules, book, as_json=as_json)
    elif event_id is None and events is None and None not in (rule, object, rows, object_column):
        assert object is not None, "it was asked above"
        columns = (str(object_column), time, sequence)
        _explain_absence(rule, object, Path(str(rows)), columns, timeout, type, rules, book, as_json=as_json)
    else:
        raise typer.BadParameter(
            "an event needs EVENT_ID and --events; its absence --rule, --object, --rows and --object-column"
        )


def _explain_absence(
    rule: int | str,
    name: str,
    rows: Path,
    columns: tuple[str, str | None, list[str] | None],
    timeout: str | None,
    types: list[str] | None,
    directory: str | None,
    book: str,
    *,
    as_json: bool,
) -> None:
    from fencepost.cli.binding import bind_rules, load_newest
    from fencepost.cli.data import open_data
    from fencepost.cli.replaying import find_roles, make_monitor, note_ignored

    with progress() as report:
        data = open_data(rows)
        own, time, *_ = find_roles(data, *columns)
        if isinstance(rule, str) and directory is not None:
            rule = load_newest(directory).id_of(rule)
        elif isinstance(rule, str):
            with open_book(book) as opened_book:
                rule = opened_book.id_of(rule)
        bound = bind_rules(book, directory, data, types, report, (rule,), time=time)
        monitor = make_monitor(bound, *columns, read_timeout(timeout))
        asked: Any = name
        for table in bound.batches(report, "watching"):
            asked = _read_object(name, table.schema.field(own).type)
            monitor.update(table)
    note_ignored(monitor, bound)
    found = monitor.why_not(rule, asked)
    if as_json:
        print_json(asdict(found))
    else:
        print_text(found)


def _read_object(text: str, type_: Any) -> Any:
    """An object in the type that its column has."""
    import pyarrow as pa

    try:
        return pa.array([text]).cast(type_)[0].as_py()
    except pa.ArrowException:
        raise FencepostError(f"--object {text}", f"a value of type {type_}, as in the file", "Correct it.") from None


def _explain_event(event_id: str, events: Path, rules: str | None, book: str, *, as_json: bool) -> None:
    from fencepost.monitor.explaining import explain_event

    own: Any = None
    with progress() as report:
        event, schema = _find_event(events, event_id, report)
        if rules is not None:
            found: Any = _load_version(rules, event)
            keys = list(found.keys)
        else:
            with open_book(book) as opened_book:
                found = _find_rule(opened_book, event)
            keys = [name.strip('"') for name, kind in found.column_kinds().items() if kind == "key"]
            own = _add_keys(schema, keys) if found.column_kinds() else None
        if any(not isinstance(event.get(name), str | None) for name in keys):  # a CSV, in which 007 looks like a number
            event, _ = _find_event(events, event_id, report, keys)
        reason = explain_event(found, event, own)
    if as_json:
        print_json({"event": event, "reason": asdict(reason)})
    else:
        print_text(reason)


def _find_event(path: Path, event_id: str, report: "Progress", keys: Sequence[str] = ()) -> tuple[dict[str, Any], Any]:
    """The event, and the types of its attributes; `keys` are columns of texts, whatever they look like."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from fencepost.cli.data import open_data

    data = open_data(path)
    missing = [name for name in ("event_id", "rule_id", "rule_version", "detect") if name not in data.schema.names]
    if missing:
        raise FencepostError(
            f"{path} without the column {missing[0]}", "a file of events", "Name what watch, run or backtest wrote."
        )
    columns = ["event_id", *(name for key in keys for name in (key, f"{key}_before") if name in data.schema.names)]
    texts = dict.fromkeys(columns, pa.string()) if data.is_text else {}
    if not data.is_text and not pa.types.is_string(data.schema.field("event_id").type):
        raise FencepostError(
            f"{path} with event_id as {data.schema.field('event_id').type}", "events, whose ids are texts", "Name them."
        )
    for table, done in data.batches(texts):
        report("searching", done, data.bytes)
        here = table.filter(pc.equal(table["event_id"], event_id))
        if len(here):
            names = [name for name in here.schema.names if f"{name}_before" in here.schema.names]
            event = here.slice(0, 1).to_pylist()[0]
            if not all(isinstance(event[name], int) for name in ("rule_id", "rule_version")):
                raise FencepostError(
                    f"event {event_id} with rule_id {event['rule_id']!r} in version {event['rule_version']!r}",
                    "whole numbers",
                    "Name a file as watch, run or backtest wrote it.",
                )
            return event, pa.schema([here.schema.field(name) for name in names])
    raise FencepostError(f"no event {event_id} in {path}", "an event_id that is there", "Correct the id or the path.")


def _add_keys(schema: Any, keys: Sequence[str]) -> Any:
    """The attributes of the event, and the keys of the rule: texts, whatever a file looks like."""
    import pyarrow as pa

    known = {name.lower() for name in keys}
    attributes = [field for field in schema if field.name.lower() not in known]
    return pa.schema([*attributes, *(pa.field(name, pa.string()) for name in keys)])


def _find_rule(book: "RuleBook", event: dict[str, Any]) -> "Rules":
    """The rule of the event, in the version that it had then."""
    from fencepost.rules import Rules
    from fencepost.rules.options import fields_of

    id, version = int(event["rule_id"]), int(event["rule_version"])
    known = [change.after for change in book.history(id) if change.after is not None]
    for rule in known:
        if rule.version == version:
            return Rules.from_dicts([{**fields_of(rule), "enabled": True}], zone=book.zone)
    versions = ", ".join(str(rule.version) for rule in known) or "none"
    raise FencepostError(
        f"an event of version {version} of rule {id}",
        f"a version that {book.url} knows ({versions})",
        "Name the book that the rules were published from, or their directory with --rules.",
    )


def _load_version(directory: str, event: dict[str, Any]) -> "Snapshot":
    """The version that found the event, or the newest that has its rule as it was."""
    from fencepost.published import VersionDirectory

    versions = VersionDirectory(directory)
    number = event.get("snapshot_version")
    there = versions.versions()
    return versions.load(number if number in there else None)
