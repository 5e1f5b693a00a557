"""Writing to the tables of a book: every statement with bound parameters, many rows at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, RowMapping, bindparam, insert, select, update

from fencepost.book.tables import PAST, RULES

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
