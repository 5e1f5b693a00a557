"""`fencepost rules`: shows and changes the rules of the book."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost._text import count
from fencepost.cli.commands import tables
from fencepost.cli.options import DEFAULT_BOOK, Author, Book, Expect, Json, Zone, make_book, open_book, read_key
from fencepost.cli.output import (
    note,
    print_done,
    print_json,
    print_json_array,
    print_table,
    print_text,
    progress,
    warnings_as_notes,
)
from fencepost.cli.rule_options import damping_options, plain_options, with_options
from fencepost.errors import FencepostError
from fencepost.rules.damping import FIELDS
from fencepost.rules.options import fields_of
from fencepost.rules.table_arguments import read_pairs

if TYPE_CHECKING:
    from fencepost.rules import Rule

_SHOWN = 100

app = typer.Typer(help="Show and change the rules of the book.", no_args_is_help=True)


Id = Annotated[
    Any,
    typer.Argument(
        metavar="ID",
        parser=read_key,
        help="The id of the rule, an integer, or its name; write -- before a negative id.",
        show_default=False,
    ),
]
Condition = Annotated[str, typer.Argument(metavar="CONDITION", help='SQL as after WHERE, e.g. "price > 40".')]
File = Annotated[Path, typer.Argument(metavar="FILE", help="*.jsonl, *.csv or *.parquet.")]


_with_rule_options = with_options(plain_options, damping_options, after="condition")


@app.command("add")
@_with_rule_options
def add(
    id: Id,
    condition: Condition,
    options: dict[str, Any],
    author: Author = None,
    zone: Zone = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Add a rule."""
    with make_book(book, author, zone) as rules, warnings_as_notes():
        _print_change(rules.add(id, condition, **options), "added", as_json)


@app.command("replace")
@_with_rule_options
def replace(
    id: Id,
    condition: Condition,
    options: dict[str, Any],
    expect: Expect = None,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Replace a rule.

    Options that are not given get their defaults, not the values of the old rule.
    """
    with open_book(book, author) as rules, warnings_as_notes():
        _print_change(rules.replace(id, condition, expect=expect, **options), "replaced", as_json)


@app.command("remove")
def remove(
    id: Id, expect: Expect = None, author: Author = None, book: Book = DEFAULT_BOOK, as_json: Json = False
) -> None:
    """Remove a rule but keep its history."""
    with open_book(book, author) as rules:
        rules.remove(id, expect=expect)
    print_done(as_json, {"id": id, "removed": True}, f"removed rule {id}")


@app.command("pause")
def pause(
    id: Id,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Resume at this time, e.g. '2030-01-01 08:00' (UTC)."),
    ] = None,
    expect: Expect = None,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Store the rule but do not evaluate it."""
    end = None if until is None else _read_end(until)
    with open_book(book, author) as rules:
        paused = rules.pause(id, until=end, expect=expect)
    _print_change(paused, "paused", as_json)


def _read_end(text: str) -> datetime:
    """When a pause ends: a time to come."""
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise FencepostError(f"--until {text}", "a date or a time", "Write for example '2030-01-01 08:00'.") from None
    end, now = end if end.tzinfo else end.replace(tzinfo=UTC), datetime.now(UTC)
    if end <= now:
        remedy = f"Times without a zone are UTC, where it is {now:%Y-%m-%d %H:%M} now."
        raise FencepostError(f"--until {text} is past", "a time to come", remedy)
    return end


@app.command("resume")
def resume(
    id: Id, expect: Expect = None, author: Author = None, book: Book = DEFAULT_BOOK, as_json: Json = False
) -> None:
    """Evaluate a paused rule again."""
    with open_book(book, author) as rules:
        _print_change(rules.resume(id, expect=expect), "resumed", as_json)


@app.command("restore")
def restore(
    id: Id,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="The version to go back to.")],
    expect: Expect = None,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Give a rule the content of an earlier version.

    That is a new version. A rule that was removed is there again.
    """
    with open_book(book, author) as rules:
        _print_change(rules.restore(id, version, expect=expect), "restored", as_json)


@app.command("expire")
def expire(
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Compare with this time instead of now.")
    ] = None,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Remove the rules that have expired."""
    with open_book(book, author) as rules:
        ended = rules.expire(at, author=author)  # type: ignore[arg-type]
    print_done(as_json, {"expired": ended}, f"removed {count(len(ended), 'expired rule')}")


@app.command("list")
def list_rules(
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=TEXT", help="Only rules with this label, e.g. desk=4. Repeatable."),
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="Only rules that are enabled, paused or expired.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only rules whose condition contains this.")
    ] = None,
    holds: Annotated[
        list[str] | None,
        typer.Option(
            "--holds",
            metavar="COLUMN=VALUE",
            help="Only rules that hold at this value, e.g. price=47. Repeatable; other columns are null.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="List at most this many; 0 lists all.")] = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """List the rules.

    Without --limit, --json lists all of them, and a table the first hundred.
    """
    values = read_pairs(holds, "--holds", "price=47") or None
    labels = read_pairs(label, "--label", "team=desk")
    with open_book(book) as rules, progress() as report:
        found = rules.list(labels=labels, state=state, text=text, holds=values, progress=report)  # type: ignore[arg-type]
        if as_json:
            print_json_array({**fields_of(rule), "zone": rules.zone} for rule in islice(found, limit or None))
            return
        limit = _SHOWN if limit is None else limit
        shown = list(islice(found, limit or None))
        hidden = sum(1 for _ in found) if len(shown) == limit else 0
        pauses = rules.pauses()
    is_damped = any(rule.damping for rule in shown)
    print_table(
        ("id", "name", "version", "detect", "condition", *(["damping"] * is_damped), "labels", "expires", "state"),
        [
            (
                rule.id,
                rule.name,
                rule.version,
                rule.detect,
                rule.condition,
                *([rule.damping] * is_damped),
                ", ".join(f"{name}={text}" for name, text in (rule.labels or {}).items()),
                rule.expires,
                _state_of(rule, pauses),
            )
            for rule in shown
        ],
    )
    if hidden:
        note(f"{len(shown):,} of {count(len(shown) + hidden, 'rule')}; --limit 0 lists all")


def _state_of(rule: "Rule", pauses: "dict[int, datetime]") -> str:
    if rule.enabled:
        return ""
    return f"paused until {pauses[rule.id]:%Y-%m-%d %H:%M:%S}" if rule.id in pauses else "paused"


@app.command("show")
def show(id: Id, book: Book = DEFAULT_BOOK, as_json: Json = False) -> None:
    """Show one rule."""
    with open_book(book) as rules:
        rule = rules[id]
        until = rules.pauses().get(rule.id)
        zone = rules.zone
    shown = {**fields_of(rule), "zone": zone} | ({} if until is None else {"paused_until": until})
    if as_json:
        print_json(shown)
    else:
        shown = {name: value for name, value in shown.items() if value is not None or name not in FIELDS}
        if rule.margin is not None:
            shown["margin"] = ", ".join(f"{column} {number}" for column, number in rule.margin.items())
        named = {name.removeprefix("paused_"): "" if value is None else value for name, value in shown.items()}
        width = max(10, *(len(name) + 1 for name in named))
        for name, value in named.items():
            print_text(f"{name:<{width}}{value}")


@app.command("history")
def history(
    id: Annotated[
        Any, typer.Argument(metavar="[ID]", parser=read_key, help="Show the changes of this rule only.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=0, help="Show the last N changes; 0 shows all.")
    ] = 100,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Show who changed what, and when.

    The newest change comes last.
    """
    with open_book(book) as rules:
        changes = rules.history(id, last=last or None)
        if as_json:
            print_json_array(
                {
                    "revision": change.revision,
                    "id": change.id,
                    "action": change.action,
                    "author": change.author,
                    "at": change.at,
                    "before": change.before and fields_of(change.before),
                    "after": change.after and fields_of(change.after),
                }
                for change in changes
            )
            return
        rows = []
        for change in changes:
            rule = change.after or change.before
            said = (rule.version, rule.condition, rule.damping) if rule else (None, None, None)
            at = change.at.strftime("%Y-%m-%d %H:%M:%S")
            rows.append((change.revision, at, change.author, change.action, change.id, *said))
        headers = ("revision", "at (UTC)", "author", "action", "id", "version", "condition", "damping")
        shown = len(headers) if any(row[-1] for row in rows) else -1
        print_table(headers[:shown], [row[:shown] for row in rows])


app.command("import")(tables.import_rules)
app.command("sync")(tables.sync)


@app.command("export")
def export_rules(file: File, book: Book = DEFAULT_BOOK, as_json: Json = False) -> None:
    """Write all rules to a file.

    `fencepost rules import` reads it.
    """
    with open_book(book) as rules, progress() as report:
        written = rules.export_file(file, progress=report)
    print_done(as_json, {"rules": written, "file": str(file)}, f"{count(written, 'rule')} written to {file}")


def _print_change(rule: "Rule", action: str, as_json: bool) -> None:
    print_done(as_json, fields_of(rule), f"{action} rule {rule.id}, version {rule.version}")
