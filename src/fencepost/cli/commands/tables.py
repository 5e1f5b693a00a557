"""`fencepost rules import` and `rules sync`: tables of rules go into the book."""

import signal
import threading
from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost._text import count
from fencepost.cli.options import DEFAULT_BOOK, Author, Book, Json, Types, Zone, make_book, open_book
from fencepost.cli.output import note, print_done, print_json, print_table, progress
from fencepost.errors import FencepostError
from fencepost.rules.table_arguments import (
    named_columns,
    read_pairs,
    read_table_arguments,
    refuse_without_columns,
)

if TYPE_CHECKING:
    from fencepost.book import RuleBook, Synced
    from fencepost.cli.sources import Wanted

_Id = Annotated[
    str | None, typer.Option("--id", metavar="COLUMN", help="The column of ids; rule_id if there is none named.")
]
_Equal = Annotated[
    list[str] | None,
    typer.Option(
        "--equal",
        metavar="COLUMN,...",
        help="Columns whose text the data must equal; NAME=COLUMN where the data names it differently. Repeatable.",
    ),
]
_Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        metavar="NAME=LOW,HIGH",
        help="A column of the data, and those of its bounds; leave one out for a side without bounds. Repeatable.",
    ),
]
_Bounds = Annotated[
    list[str] | None,
    typer.Option("--bounds", metavar="[)", help="Which bounds are inside: [) [] () or (], or NAME=[]. Repeatable."),
]
_Condition = Annotated[
    str | None,
    typer.Option("--condition", metavar="COLUMN", help="In place of --equal and --range, a column of conditions."),
]
_Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="COLUMN,...", help="Columns that become labels. Repeatable.")
]
_Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=COLUMN", help="The column of an option, e.g. detect=kind or expires=ends. Repeatable."
    ),
]
_Detect = Annotated[str | None, typer.Option("--detect", help="The events to report, for all rows: e.g. enter,exit.")]
_Initial = Annotated[bool, typer.Option("--initial", help="Report objects that are inside already.")]


def _table_arguments(
    id: _Id = None,
    equal: _Equal = None,
    range: _Ranges = None,
    bounds: _Bounds = None,
    condition: _Condition = None,
    label: _Labels = None,
    option: _Options = None,
    detect: _Detect = None,
    initial: _Initial = False,
    type: Types = None,
) -> tuple[dict[str, Any], list[str]]:
    """The arguments of RuleBook.add_table, from those of a command, and the values of --type."""
    arguments = read_table_arguments(
        id=id,
        equal=equal or (),
        range=range or (),
        bounds=bounds or (),
        condition=condition,
        label=label or (),
        option=option or (),
        detect=detect,
        initial=initial,
    )
    return arguments, type or []


def _takes_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a table; it takes them as two arguments, `table` and `types`."""
    options = signature(_table_arguments, eval_str=True).parameters
    own = [
        each for each in signature(command, eval_str=True).parameters.values() if each.name not in ("table", "types")
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        table, types = _table_arguments(**{name: given.pop(name) for name in options})
        command(table=table, types=types, **given)

    run.__signature__ = Signature([own[0], *options.values(), *own[1:]])  # type: ignore[attr-defined]
    return run


def _wanted(table: dict[str, Any], types: list[str]) -> "Wanted":
    """The columns that the arguments name."""
    from fencepost.cli.binding import arrow_type
    from fencepost.cli.sources import Wanted

    table.setdefault("id", "rule_id")
    texts = [*table.get("equal", {}).values(), *table.get("labels", ())]
    texts += [table["condition"]] if "condition" in table else []
    given = {name: arrow_type(text) for name, text in read_pairs(types, "--type", "low=decimal(9,2)").items()}
    return Wanted(named_columns(table), texts, given)


@_takes_table
def import_rules(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="*.jsonl, *.csv or *.parquet.")],
    table: dict[str, Any],
    types: list[str],
    replace: Annotated[bool, typer.Option("--replace", help="Replace rules that the book has already.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Skip rules that the book has already.")] = False,
    author: Author = None,
    zone: Zone = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Import the rules of a file, all or none.

    Without further options the file has the columns id, condition, and those that `rules export` writes. With --equal
    and --range it is a table of bounds, a rule per row.
    """
    if replace and skip:
        raise typer.BadParameter("use either --replace or --skip")
    existing: Any = "replace" if replace else "skip" if skip else "refuse"
    if table or types:
        from fencepost.cli.sources import read_source

        refuse_without_columns(table, "the options of a table")
        rows = read_source(str(file), None, _wanted(table, types))
        with make_book(book, author, zone) as rules, progress() as report:
            imported = rules.add_table(rows, existing=existing, progress=report, **table)
    else:
        with make_book(book, author, zone) as rules, progress() as report:
            imported = rules.import_file(file, existing=existing, progress=report)
    text = f"{count(imported.added, 'rule')} added, {imported.replaced:,} replaced, {imported.unchanged:,} unchanged, "
    print_done(as_json, imported, f"{text}{imported.skipped:,} skipped")


@_takes_table
def sync(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file or directory, a Delta table (delta:PATH), an Iceberg table (iceberg:CATALOG/SPACE.TABLE), "
            "or a database URL with --query.",
        ),
    ],
    table: dict[str, Any],
    types: list[str],
    query: Annotated[
        str | None, typer.Option("--query", metavar="SQL", help="The query whose rows are the rules; needs --origin.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="NAME", help="The name that the rules of the source are known by."),
    ] = None,
    remove_at_most: Annotated[
        str | None,
        typer.Option(
            "--remove-at-most",
            metavar="LIMIT",
            help="Refuse to remove more: a share or a number. By default 10%, or 10 rules where that is more.",
        ),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over rules that have ids of the source but were not made from it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    follow: Annotated[
        str | None, typer.Option("--follow", metavar="TIME", help="Go on, and look again every so often, e.g. 30s.")
    ] = None,
    publish: Annotated[
        str | None, typer.Option("--publish", metavar="DIR", help="Publish the book here after every change.")
    ] = None,
    author: Author = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Mirror a table of rules in the book.

    What is new is added, what differs replaced, what is gone removed, in one change: all or nothing. Rules that were
    not made from this source are never touched.
    """
    from fencepost.cli.sources import origin_of, read_source
    from fencepost.rules.durations import parse_duration

    pause = None if follow is None else parse_duration(follow)
    refuse_without_columns(table, "rules sync")
    name = origin_of(source, query) if origin is None else origin
    wanted = _wanted(table, types)

    def sync_once(rules: "RuleBook") -> "Synced":
        with progress() as report:
            rows = read_source(source, query, wanted)
            return rules.sync(
                rows,
                origin=name,
                remove_at_most=remove_at_most,
                adopt=adopt,
                dry_run=dry_run,
                progress=report,
                **table,
            )

    follows = pause is not None  # then others may want to read it meanwhile
    with open_book(book, author) if dry_run else make_book(book, author, at_once=follows) as rules:
        if pause is None or dry_run:
            synced = sync_once(rules)
            version = _publish(rules, publish) if publish is not None and not dry_run else None
            _print_synced(synced, version, as_json, dry_run)
        else:
            _follow(lambda: sync_once(rules), rules, publish, pause.total_seconds(), as_json)


def _publish(rules: "RuleBook", directory: str) -> int:
    with progress() as report:
        return rules.publish(directory, progress=report)


def _print_synced(synced: "Synced", version: int | None, as_json: bool, dry_run: bool) -> None:
    if as_json:
        examples = [{"action": action, "id": id, "condition": text} for action, id, text in synced.examples]
        counted = {name: getattr(synced, name) for name in ("added", "replaced", "removed", "unchanged", "revision")}
        print_json({**counted, "published": version, "examples": examples})
        return
    if dry_run and synced.examples:
        print_table(("action", "id", "condition"), synced.examples)
    note(f"{'would be: ' if dry_run else ''}{synced}{'' if version is None else f'; published version {version}'}")


def _follow(
    sync_once: "Callable[[], Synced]", rules: "RuleBook", publish: str | None, seconds: float, as_json: bool
) -> None:
    """Sync until Ctrl-C or SIGTERM. What fails is reported once, and tried again."""
    stop = threading.Event()
    before = {name: signal.signal(name, lambda *_: stop.set()) for name in (signal.SIGINT, signal.SIGTERM)}
    reported, published, is_first = "", publish is None, True
    try:
        while not stop.is_set():
            try:
                synced = sync_once()
                version = None
                if publish is not None and (synced.revision is not None or not published):
                    version = _publish(rules, publish)
                    published = True
                reported = ""
                if synced.revision is not None or version is not None:
                    _print_synced(synced, version, as_json, dry_run=False)
                is_first = False
            except FencepostError as error:
                if is_first:  # what was wrong from the beginning does not mend itself
                    raise
                published = publish is None
                if str(error) != reported:
                    note(f"the rules stay as they were: {error}")
                reported = str(error)
            stop.wait(seconds)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
