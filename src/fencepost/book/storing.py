"""Writing to the tables of a book: every statement with bound parameters, many rows at a time."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, RowMapping, bindparam, func, insert, select, update

from fencepost._text import count
from fencepost.book.tables import PAST, RULES, UNREMOVED

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many rules are done, and how many there are, if that is known."""
Existing = Literal["refuse", "replace", "skip"]
State = Literal["enabled", "paused", "expired"]

T = TypeVar("T")

ROWS_AT_ONCE = 10_000
_LAST_GIVEN = 2**62
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


@dataclass(frozen=True)
class Synced:
    """What a table changed in a book.

    Args:
        added: rules that are new, or back.
        replaced: rules that the table says something else of.
        removed: rules that the table no longer has.
        unchanged: all others of the table.
        revision: of the change; None where nothing changed, or nothing was to be changed.
        examples: the first changes: what is done, the id, and the condition.
    """

    added: int = 0
    replaced: int = 0
    removed: int = 0
    unchanged: int = 0
    revision: int | None = None
    examples: tuple[tuple[str, int, str], ...] = ()

    def __str__(self) -> str:
        return (
            f"{count(self.added, 'rule')} added, {self.replaced:,} replaced, {self.removed:,} removed, "
            f"{self.unchanged:,} unchanged"
        )


def chunks(items: Iterable[T], size: int = ROWS_AT_ONCE) -> Iterator[list[T]]:
    """Some items at a time."""
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some


def stored_rows(connection: Connection, ids: Sequence[int]) -> dict[int, RowMapping]:
    """The last change of each of these rules."""
    found = connection.execute(select(RULES).where(RULES.c.id.in_(ids)))
    return {row["id"]: row for row in found.mappings()}


def ids_named(connection: Connection, names: Sequence[str], *, also_removed: bool = False) -> dict[str, list[int]]:
    """The ids of the rules that have each of these names; with removed ones, the rule that is there comes last."""
    found: dict[str, list[int]] = {}
    order = (UNREMOVED, RULES.c.revision) if also_removed else (RULES.c.id,)
    asked = select(RULES.c.name, RULES.c.id).order_by(*order)
    asked = asked if also_removed else asked.where(UNREMOVED)
    for some in chunks(names):
        for name, id in connection.execute(asked.where(RULES.c.name.in_(some))):
            found.setdefault(name, []).append(id)
    return found


def names_of(connection: Connection, ids: Iterable[int]) -> dict[int, str]:
    """The names of these rules, also of removed ones; those without a name are left out."""
    asked = select(RULES.c.id, RULES.c.name).where(RULES.c.name.is_not(None))
    return {row.id: row.name for some in chunks(ids) for row in connection.execute(asked.where(RULES.c.id.in_(some)))}


def number_names(connection: Connection, names: Sequence[str]) -> list[int]:
    """An id for each name: that of the rule which has it, or had it last before it was removed, or a new one.

    New ids follow the largest one below 2**62 that ever was: removed rules keep their row, so none is used twice.
    """
    found = ids_named(connection, names, also_removed=True)
    largest = connection.execute(select(func.max(RULES.c.id)).where(RULES.c.id < _LAST_GIVEN)).scalar()
    following = itertools.count(max(0, -1 if largest is None else largest) + 1)
    return [found[name][-1] if name in found else next(following) for name in names]


def put(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Writes changes; what they take the place of goes to the past."""
    new = [row for row in rows if row["previous"] is None]
    known = [row for row in rows if row["previous"] is not None]
    if new:
        connection.execute(insert(RULES), new)
    for some in chunks(known):
        names = [column.name for column in RULES.c]
        old = select(RULES).where(RULES.c.id.in_([row["id"] for row in some]))
        connection.execute(insert(PAST).from_select(names, old))
        connection.execute(_UPDATE, [{**row, "row_id": row["id"]} for row in some])
