"""Taking in a file or a table of rules: all are checked before the book is locked, then all are written or none."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from sqlalchemy import Connection

from fencepost.book.changes import Stamp, change_row, check_storable, rule_of, stamp_now
from fencepost.book.database import Database
from fencepost.book.incoming import IncomingTable
from fencepost.book.storing import (
    ROWS_AT_ONCE,
    Existing,
    Imported,
    Progress,
    chunks,
    ids_named,
    number_names,
    put,
    stored_rows,
)
from fencepost.errors import FencepostError, call_rule
from fencepost.rules import Rule
from fencepost.rules.checked import rule_of_mapping
from fencepost.rules.faults import Faults
from fencepost.rules.files import RuleFile, read_rules

if TYPE_CHECKING:
    from fencepost.book.rulebook import RuleBook


def import_file(
    database: Database, path: Path, existing: Existing, author: str, progress: Progress, zone: str = "UTC"
) -> Imported:
    """See RuleBook.import_file."""
    _check_existing(existing)
    file = read_rules(path)
    rules, places = _check_rows(file, str(path), progress, zone)
    total = len(rules)
    return _import(database, lambda _: rules, total, existing, author, progress, file.unit, places.__getitem__)


def import_content(
    book: "RuleBook", content: bytes, ending: str, called: str, *, existing: Existing, author: str
) -> Imported:
    """What import_file does, with the content of a file that somebody sent.

    Args:
        book: that takes the rules.
        content: of the file.
        ending: of its name, such as ".jsonl", which says its format.
        called: what refusals call it; it lies here under a name that nobody knows.
        existing: as in import_file.
        author: as in import_file.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-import-") as directory:
        path = Path(directory) / f"rules{ending}"
        path.write_bytes(content)
        try:
            return book.import_file(path, existing=existing, author=author)
        except FencepostError as error:
            error.args = tuple(str(each).replace(str(path), called) for each in error.args)
            for part in ("got", "expected", "remedy"):
                setattr(error, part, getattr(error, part).replace(str(path), called))
            raise


def import_table(
    database: Database, incoming: IncomingTable, existing: Existing, author: str, progress: Progress
) -> Imported:
    """See RuleBook.add_table."""
    _check_existing(existing)
    incoming.rules()  # which finds all faults, before the book is locked

    def rules(connection: Connection) -> Iterable[Rule]:
        if incoming.is_by_name:
            incoming.number(np.array(number_names(connection, incoming.names.to_pylist()), np.int64))
        return incoming.rules()

    return _import(database, rules, incoming.count, existing, author, progress, "row", lambda number: number)


def _check_existing(existing: str) -> None:
    if existing not in get_args(Existing):
        raise FencepostError(
            f"existing={existing!r}", f"one of {', '.join(get_args(Existing))}", "Write for example 'replace'."
        )


def _import(
    database: Database,
    rules: Callable[[Connection], Iterable[Rule]],
    total: int,
    existing: Existing,
    author: str,
    progress: Progress,
    unit: str,
    place: Callable[[int], int],
) -> Imported:
    faults, named = Faults(unit), dict[str, int]()
    with database.writing() as writing:
        imported = _take_in(
            writing.connection,
            stamp_now(writing.revision, "added", author),
            _note_names(rules(writing.connection), place, named),
            total,
            existing,
            lambda number, rule: faults.add(
                place(number), f"rule {call_rule(rule.id, rule.name)} is already in the book"
            ),
            progress,
        )
        faults.raise_if_any(
            total, "Import them with --replace or --skip (existing='replace' or 'skip'); no rule was imported."
        )
        refuse_taken(writing.connection, named, total, unit)
    return imported


def _note_names(rules: Iterable[Rule], place: Callable[[int], int], named: dict[str, int]) -> Iterator[Rule]:
    """The rules; on the way, the place of each name is noted."""
    for number, rule in enumerate(rules):
        if rule.name is not None:
            named[rule.name] = place(number)
        yield rule


def refuse_taken(connection: Connection, named: Mapping[str, int], total: int, unit: str) -> None:
    """Refuses names that several rules of the book have, now that these are written; `named` has their places."""
    faults = Faults(unit)
    for name, ids in ids_named(connection, list(named)).items():
        if len(ids) > 1:
            faults.add(named[name], f"the name {name!r} would belong to the rules {ids[0]} and {ids[1]}")
    faults.raise_if_any(total, "Give each rule a name of its own; no rule was changed.")


def _check_rows(file: RuleFile, name: str, progress: Progress, zone: str) -> tuple[list[Rule], list[int]]:
    """The rules of a file with their places, all checked; every fault is reported at once."""
    rules: list[Rule] = []
    places: list[int] = []
    faults, first, names, count = Faults(file.unit), dict[int, int](), dict[str, int](), 0
    for count, (place, read) in enumerate(file.rows, start=1):
        try:
            rule = check_storable(rule_of_mapping(read(), zone).rule)
            if first.setdefault(rule.id, place) != place:
                raise FencepostError(
                    f"rule {rule.id} is also in {file.unit} {first[rule.id]}",
                    "ids must be unique",
                    "Leave one of them out.",
                )
            if rule.name is not None and names.setdefault(rule.name, place) != place:
                raise FencepostError(
                    f"the name {rule.name!r} is also in {file.unit} {names[rule.name]}",
                    "names must be unique",
                    "Give each rule a name of its own.",
                )
            rules.append(rule)
            places.append(place)
        except FencepostError as error:
            faults.add(place, error.one_line)
        if count % ROWS_AT_ONCE == 0:
            progress("checking", count, file.about or None)
    faults.raise_if_any(count, f"Correct {name} and import it again; no rule was imported.")
    progress("checking", count, count)
    return rules, places


def _take_in(
    connection: Connection,
    stamp: Stamp,
    rules: Iterable[Rule],
    total: int,
    existing: Existing,
    refuse: Callable[[int, Rule], None],
    progress: Progress,
) -> Imported:
    """Writes many checked rules; `refuse` is called with the number of each that may not replace one."""
    counts = {"added": 0, "replaced": 0, "unchanged": 0, "skipped": 0}
    stamps = {action: stamp._replace(action=action) for action in ("added", "replaced")}
    done = 0
    for some in chunks(rules):
        known = stored_rows(connection, [rule.id for rule in some])
        rows = []
        for number, rule in enumerate(some, start=done):
            last = known.get(rule.id)
            now = None if last is None else rule_of(last)
            if now is not None and existing == "refuse":
                refuse(number, rule)
                continue
            fate = _fate(rule, now, existing)
            counts[fate] += 1
            if fate in stamps:
                previous = None
                if last is not None:
                    rule = replace(rule, version=max(rule.version, last["version"] + 1))
                    previous = last["revision"]
                rows.append(change_row(rule, stamps[fate], previous))
        put(connection, rows)
        done += len(some)
        progress("storing", done, total)
    return Imported(**counts)


def _fate(rule: Rule, now: Rule | None, existing: Existing) -> str:
    if now is None:
        return "added"
    if replace(rule, version=now.version) == now:
        return "unchanged"
    return "skipped" if existing == "skip" else "replaced"
