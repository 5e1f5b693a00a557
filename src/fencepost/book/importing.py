"""Taking in a file of rules: all of them are checked before the book is locked, then all are written or none."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from sqlalchemy import Connection

from fencepost.book.changes import Stamp, change_row, check_storable, rule_of, stamp_now
from fencepost.book.database import Database
from fencepost.book.storing import Existing, Imported, Progress, chunks, put, stored_rows
from fencepost.errors import FencepostError
from fencepost.rules import Rule
from fencepost.rules.checked import rule_of_mapping
from fencepost.rules.faults import Faults
from fencepost.rules.files import RuleFile, read_rules

_ROWS_AT_ONCE = 10_000


def import_file(database: Database, path: Path, existing: Existing, author: str, progress: Progress) -> Imported:
    """See RuleBook.import_file."""
    if existing not in get_args(Existing):
        raise FencepostError(
            f"existing={existing!r}", f"one of {', '.join(get_args(Existing))}", "Write for example 'replace'."
        )
    file = read_rules(path)
    rules, places = _check_rows(file, str(path), progress)
    faults = Faults(file.unit)
    with database.writing() as writing:
        imported = _take_in(
            writing.connection,
            stamp_now(writing.revision, "added", author),
            rules,
            existing,
            lambda number, rule: faults.add(places[number], f"rule {rule.id} is already in the book"),
            progress,
        )
        faults.raise_if_any(
            len(rules), "Import them with --replace or --skip (existing='replace' or 'skip'); no rule was imported."
        )
    return imported


def _check_rows(file: RuleFile, name: str, progress: Progress) -> tuple[list[Rule], list[int]]:
    """The rules of a file with their places, all checked; every fault is reported at once."""
    rules: list[Rule] = []
    places: list[int] = []
    faults, first, count = Faults(file.unit), dict[int, int](), 0
    for count, (place, read) in enumerate(file.rows, start=1):
        try:
            rule = check_storable(rule_of_mapping(read()).rule)
            if first.setdefault(rule.id, place) != place:
                raise FencepostError(
                    f"rule {rule.id} is also in {file.unit} {first[rule.id]}",
                    "ids must be unique",
                    "Leave one of them out.",
                )
            rules.append(rule)
            places.append(place)
        except FencepostError as error:
            faults.add(place, error.one_line)
        if count % _ROWS_AT_ONCE == 0:
            progress("checking", count, file.about or None)
    faults.raise_if_any(count, f"Correct {name} and import it again; no rule was imported.")
    progress("checking", count, count)
    return rules, places


def _take_in(
    connection: Connection,
    stamp: Stamp,
    rules: Sequence[Rule],
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
        progress("storing", done, len(rules))
    return Imported(**counts)


def _fate(rule: Rule, now: Rule | None, existing: Existing) -> str:
    if now is None:
        return "added"
    if replace(rule, version=now.version) == now:
        return "unchanged"
    return "skipped" if existing == "skip" else "replaced"
