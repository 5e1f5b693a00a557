"""`fencepost rules`: shows and changes the rules of the book."""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost._text import count
from fencepost.cli.options import DEFAULT_BOOK, Author, Book, Expect, Json, open_book, read_pairs
from fencepost.cli.output import note, print_done, print_json, print_json_array, print_table, print_text, progress
from fencepost.rules.options import fields_of

if TYPE_CHECKING:
    from fencepost.rules import Rule

_SHOWN = 100

app = typer.Typer(help="Show and change the rules of the book.", no_args_is_help=True)

Id = Annotated[
    int, typer.Argument(metavar="ID", help="The id of the rule, an integer; write -- before a negative one.")
]
Condition = Annotated[str, typer.Argument(metavar="CONDITION", help='SQL as after WHERE, e.g. "price > 40".')]
Detect = Annotated[
    str, typer.Option("--detect", help="The events to report: any of inside, enter, exit, cross, separated by commas.")
]
Initial = Annotated[
    bool, typer.Option("--initial", help="Report objects that are inside already when the rule starts.")
]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=TEXT", help="Attach a label, e.g. team=desk. Repeatable.")
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="End the rule at this time, e.g. 2030-01-01T12:00 (UTC)."),
]
Paused = Annotated[bool, typer.Option("--paused", help="Store the rule but do not evaluate it.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="*.jsonl, *.csv or *.parquet.")]


def _rule_options(
    detect: Detect = "inside",
    initial: Initial = False,
    label: Labels = None,
    expires: Expires = None,
    paused: Paused = False,
) -> dict[str, Any]:
    """The options of a rule, from those of a command."""
    labels = read_pairs(label, "--label", "team=desk")
    return {"detect": detect, "initial": initial, "labels": labels, "expires": expires, "enabled": not paused}


def _with_rule_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a rule; it takes them as a mapping, after id and condition."""
    options = signature(_rule_options, eval_str=True).parameters
    own = [each for each in signature(command).parameters.values() if each.name != "options"]

    @wraps(command)
    def run(**given: Any) -> None:
        command(options=_rule_options(**{name: given.pop(name) for name in options}), **given)

    run.__signature__ = Signature([*own[:2], *options.values(), *own[2:]])  # type: ignore[attr-defined]
    return run


@app.command("add")
@_with_rule_options
def add(
    id: Id,
    condition: Condition,
    options: dict[str, Any],
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Add a rule."""
    with open_book(book, author, create=True) as rules:
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
    with open_book(book, author) as rules:
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
    id: Id, expect: Expect = None, author: Author = None, book: Book = DEFAULT_BOOK, as_json: Json = False
) -> None:
    """Store the rule but do not evaluate it."""
    with open_book(book, author) as rules:
        _print_change(rules.pause(id, expect=expect), "paused", as_json)


@app.command("resume")
def resume(
    id: Id, expect: Expect = None, author: Author = None, book: Book = DEFAULT_BOOK, as_json: Json = False
) -> None:
    """Evaluate a paused rule again."""
    with open_book(book, author) as rules:
        _print_change(rules.resume(id, expect=expect), "resumed", as_json)


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
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="List at most this many; 0 lists all.")] = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """List the rules.

    Without --limit, --json lists all of them, and a table the first hundred.
    """
    with open_book(book) as rules:
        if as_json:
            print_json_array(map(fields_of, islice(rules, limit or None)))
            return
        limit = _SHOWN if limit is None else limit
        shown = list(islice(rules, limit or None))
        print_table(
            ("id", "version", "detect", "condition", "labels", "expires", "state"),
            [
                (
                    rule.id,
                    rule.version,
                    rule.detect,
                    rule.condition,
                    ", ".join(f"{name}={text}" for name, text in (rule.labels or {}).items()),
                    rule.expires,
                    "" if rule.enabled else "paused",
                )
                for rule in shown
            ],
        )
        total = len(rules) if len(shown) == limit else len(shown)
        if total > len(shown):
            note(f"{len(shown):,} of {total:,} rules; --limit 0 lists all")


@app.command("show")
def show(id: Id, book: Book = DEFAULT_BOOK, as_json: Json = False) -> None:
    """Show one rule."""
    with open_book(book) as rules:
        rule = rules[id]
    if as_json:
        print_json(fields_of(rule))
    else:
        for name, value in fields_of(rule).items():
            print_text(f"{name:<10}{'' if value is None else value}")


@app.command("history")
def history(
    id: Annotated[int | None, typer.Argument(metavar="[ID]", help="Show the changes of this rule only.")] = None,
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
            version, condition = (rule.version, rule.condition) if rule else (None, None)
            at = change.at.strftime("%Y-%m-%d %H:%M:%S")
            rows.append((change.revision, at, change.author, change.action, change.id, version, condition))
        print_table(("revision", "at (UTC)", "author", "action", "id", "version", "condition"), rows)


@app.command("import")
def import_rules(
    file: File,
    replace: Annotated[bool, typer.Option("--replace", help="Replace rules that the book has already.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Skip rules that the book has already.")] = False,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Import the rules of a file, all or none."""
    if replace and skip:
        raise typer.BadParameter("use either --replace or --skip")
    with open_book(book, author, create=True) as rules, progress() as report:
        imported = rules.import_file(
            file, existing="replace" if replace else "skip" if skip else "refuse", progress=report
        )
    text = f"{count(imported.added, 'rule')} added, {imported.replaced:,} replaced, {imported.unchanged:,} unchanged, "
    print_done(as_json, imported, f"{text}{imported.skipped:,} skipped")


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
