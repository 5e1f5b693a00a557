"""`fencepost rules`: what is in the rule book."""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.options import DEFAULT_BOOK, Author, Book, Expect, Json, named_values, opened
from fencepost.cli.output import note, print_json, print_json_array, print_table, progress
from fencepost.rules.options import fields_of

if TYPE_CHECKING:
    from fencepost.rules import Rule

_SHOWN = 100

app = typer.Typer(help="Look at the rules of the book, and change them.", no_args_is_help=True)

Id = Annotated[int, typer.Argument(metavar="ID", help="An integer; put -- before a negative one.")]
Condition = Annotated[str, typer.Argument(metavar="CONDITION", help="What would stand after WHERE.")]
Detect = Annotated[str, typer.Option("--detect", help="Any of inside, enter, exit, cross, separated by commas.")]
Initial = Annotated[bool, typer.Option("--initial", help="Report objects that are inside when the rule begins.")]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="NAME=TEXT", help="Free text, carried along.")]
Expires = Annotated[
    str | None, typer.Option("--expires", metavar="TIME", help="When it ends: 2030-01-01T12:00, in UTC.")
]
Paused = Annotated[bool, typer.Option("--paused", help="Keep it, but let it take no part.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="*.jsonl, *.csv or *.parquet.")]


def _rule_options(
    detect: Detect = "inside",
    initial: Initial = False,
    label: Labels = None,
    expires: Expires = None,
    paused: Paused = False,
) -> dict[str, Any]:
    """The options of a rule, from those of a command."""
    labels = named_values(label, "--label", "team=desk")
    return {"detect": detect, "initial": initial, "labels": labels, "expires": expires, "enabled": not paused}


def _with_rule_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of a rule; it takes them as a mapping, after id and condition."""
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
    with opened(book, author, create=True) as rules:
        _tell(rules.add(id, condition, **options), "added", as_json)


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
    """Put another rule in the place of one; nothing is taken over from it."""
    with opened(book, author) as rules:
        _tell(rules.replace(id, condition, expect=expect, **options), "replaced", as_json)


@app.command("remove")
def remove(
    id: Id, expect: Expect = None, author: Author = None, book: Book = DEFAULT_BOOK, as_json: Json = False
) -> None:
    """Take a rule out; its history stays."""
    with opened(book, author) as rules:
        rules.remove(id, expect=expect)
    if as_json:
        print_json({"id": id, "removed": True})
    else:
        note(f"removed rule {id}")


@app.command("pause")
def pause(
    id: Id, expect: Expect = None, author: Author = None, book: Book = DEFAULT_BOOK, as_json: Json = False
) -> None:
    """Let a rule take no part until it is resumed."""
    with opened(book, author) as rules:
        _tell(rules.pause(id, expect=expect), "paused", as_json)


@app.command("resume")
def resume(
    id: Id, expect: Expect = None, author: Author = None, book: Book = DEFAULT_BOOK, as_json: Json = False
) -> None:
    """Let a paused rule take part again."""
    with opened(book, author) as rules:
        _tell(rules.resume(id, expect=expect), "resumed", as_json)


@app.command("expire")
def expire(
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="The time, if not now.")] = None,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Take out the rules whose time has passed."""
    with opened(book, author) as rules:
        ended = rules.expire(at, author=author)  # type: ignore[arg-type]
    if as_json:
        print_json({"expired": ended})
    else:
        note(f"took out {len(ended):,} rules whose time has passed")


@app.command("list")
def list_rules(
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many; 0 for all.")] = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """List the rules: all of them with --json, else the first hundred, unless --limit says otherwise."""
    with opened(book) as rules:
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
            note(f"{len(shown):,} of {total:,} rules; --limit 0 shows all")


@app.command("show")
def show(id: Id, book: Book = DEFAULT_BOOK, as_json: Json = False) -> None:
    """Show one rule."""
    with opened(book) as rules:
        rule = rules[id]
    if as_json:
        print_json(fields_of(rule))
    else:
        for name, value in fields_of(rule).items():
            print(f"{name:<10}{'' if value is None else value}")


@app.command("history")
def history(
    id: Annotated[int | None, typer.Argument(metavar="[ID]", help="Of one rule; of all without it.")] = None,
    last: Annotated[int, typer.Option("--last", min=0, help="So many of the last changes; 0 for all.")] = 100,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Show who changed what, and when; the last change last."""
    with opened(book) as rules:
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
    replace: Annotated[bool, typer.Option("--replace", help="Replace the rules that the book has.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out the rules that the book has.")] = False,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Take in all rules of a file, or none."""
    if replace and skip:
        raise typer.BadParameter("--replace and --skip exclude each other")
    with opened(book, author, create=True) as rules, progress() as report:
        imported = rules.import_file(
            file, existing="replace" if replace else "skip" if skip else "refuse", progress=report
        )
    if as_json:
        print_json(imported)
    else:
        note(
            f"{imported.added:,} rules added, {imported.replaced:,} replaced, {imported.unchanged:,} unchanged, "
            f"{imported.skipped:,} left out"
        )


@app.command("export")
def export_rules(file: File, book: Book = DEFAULT_BOOK, as_json: Json = False) -> None:
    """Write all rules to a file that `import` takes."""
    with opened(book) as rules, progress() as report:
        count = rules.export_file(file, progress=report)
    if as_json:
        print_json({"rules": count, "file": str(file)})
    else:
        note(f"{count:,} rules written to {file}")


def _tell(rule: "Rule", action: str, as_json: bool) -> None:
    if as_json:
        print_json(fields_of(rule))
    else:
        note(f"{action} rule {rule.id}, version {rule.version}")
