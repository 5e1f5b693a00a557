"""Writing to the tables of a book: every statement with bound parameters, many rows at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, RowMapping, bindparam, insert, select, update

from fencepost.book.changes import Stamp, change_row, rule_of, storable
from fencepost.book.files import RuleFile
from fencepost.book.tables import PAST, RULES
from fencepost.errors import FencepostError
from fencepost.rules import Rule
from fencepost.rules.checked import rule_of_mapping
from fencepost.rules.faults import Faults, one_line

__all__ = ["Existing", "Imported", "Progress", "checked_rows", "chunks", "put", "stored_rows", "take_in"]

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many rules are done, and how many there are, if that is known."""
Existing = Literal["refuse", "replace", "skip"]

T = TypeVar("T")

_ROWS_AT_ONCE = 10_000
_UPDATE = (
    update(RULES)
    .where(RULES.c.id == bindparam("row_id"))
    .values({column.name: bindparam(column.name) for column in RULES.c if column.name != "id"})
)


@dataclass(frozen=True)
class Imported:
    """How many rules of a file were new, took the place of others, were there already, or were left out."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    skipped: int = 0


def chunks(items: Iterable[T], size: int = _ROWS_AT_ONCE) -> Iterator[list[T]]:
    """Some items at a time."""
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some


def stored_rows(connection: Connection, ids: Sequence[int]) -> dict[int, RowMapping]:
    """The last change of each of these rules."""
    found = connection.execute(select(RULES).where(RULES.c.id.in_(ids)))
    return {row["id"]: row for row in found.mappings()}


def put(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Writes changes; what they take the place of goes to the past.

    Args:
        connection: that writes.
        rows: as change_row makes them.

    """
    new = [row for row in rows if row["previous"] is None]
    known = [row for row in rows if row["previous"] is not None]
    if new:
        connection.execute(insert(RULES), new)
    for some in chunks(known):
        names = [column.name for column in RULES.c]
        old = select(RULES).where(RULES.c.id.in_([row["id"] for row in some]))
        connection.execute(insert(PAST).from_select(names, old))
        connection.execute(_UPDATE, [{**row, "row_id": row["id"]} for row in some])


def checked_rows(file: RuleFile, name: str, progress: Progress) -> tuple[list[Rule], list[int]]:
    """The rules of a file with their places, all checked; every fault is reported at once."""
    rules: list[Rule] = []
    places: list[int] = []
    faults, first, count = Faults(file.unit), dict[int, int](), 0
    for count, (place, read) in enumerate(file.rows, start=1):
        try:
            rule = storable(rule_of_mapping(read()).rule)
            if first.setdefault(rule.id, place) != place:
                raise FencepostError(
                    f"rule {rule.id}, which {file.unit} {first[rule.id]} has", "every id once", "Leave one of them out."
                )
            rules.append(rule)
            places.append(place)
        except FencepostError as error:
            faults.add(place, one_line(error))
        if count % _ROWS_AT_ONCE == 0:
            progress("checking", count, file.about or None)
    faults.raise_if_any(count, f"Correct {name} and import it again; no rule was taken.")
    progress("checking", count, count)
    return rules, places


def take_in(
    connection: Connection,
    stamp: Stamp,
    rules: Sequence[Rule],
    existing: Existing,
    refuse: Callable[[int, Rule], None],
    progress: Progress,
) -> Imported:
    """Writes many rules.

    Args:
        connection: that writes.
        stamp: of the change.
        rules: checked, every id once.
        existing: what to do with those that the book has.
        refuse: called with the number of each rule that is refused.
        progress: told of every chunk.

    """
    counts = {"added": 0, "replaced": 0, "unchanged": 0, "skipped": 0}
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
            if fate in ("added", "replaced"):
                at_least = 1 if last is None else last["version"] + 1
                versioned = replace(rule, version=max(rule.version, at_least))
                previous = None if last is None else last["revision"]
                rows.append(change_row(versioned, stamp._replace(action=fate), previous))
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
