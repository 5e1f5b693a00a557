"""Pauses that end by themselves: who uses a book after such a time resumes the rule, as a change like any other.

A row of `fencepost_pauses` holds as long as the pause is the last change of its rule; any other change makes it void.
"""

from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select

from fencepost.book.changes import change_row, rule_of, stamp_now
from fencepost.book.database import Database, Writing
from fencepost.book.storing import put
from fencepost.book.tables import PAUSES, RULES
from fencepost.errors import FencepostError
from fencepost.rules.rule import instant_of, microseconds_of

_HELD = PAUSES.join(RULES, (RULES.c.id == PAUSES.c.id) & (RULES.c.revision == PAUSES.c.revision))


class Pauses:
    """The pauses of a book."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, writing: Writing, id: int, until: datetime) -> None:
        """Remember when the pause of this change ends."""
        self._database.ensure_table(writing.connection, PAUSES)
        writing.connection.execute(delete(PAUSES).where(PAUSES.c.id == id))
        row = {"id": id, "revision": writing.revision, "until": microseconds_of(until)}
        writing.connection.execute(insert(PAUSES).values(**row))

    def find(self, connection: Connection, id: int, revision: int) -> datetime | None:
        """When the pause that this change of a rule began ends; None where it stays."""
        if not self._database.has_table(connection, PAUSES):
            return None
        asked = select(PAUSES.c.until).where(PAUSES.c.id == id, PAUSES.c.revision == revision)
        until = connection.execute(asked).scalar()
        return None if until is None else instant_of(until)

    def all(self, connection: Connection) -> dict[int, datetime]:
        """When rules go on, by id."""
        if not self._database.has_table(connection, PAUSES):
            return {}
        rows = connection.execute(select(PAUSES.c.id, PAUSES.c.until).select_from(_HELD).order_by(PAUSES.c.id))
        return {row.id: until for row in rows if (until := instant_of(row.until)) is not None}

    def end_due(self) -> None:
        """Resume the rules whose time has come; a book that cannot be written stays as it is."""
        now = microseconds_of(datetime.now(UTC))
        due = select(PAUSES.c.id).where(PAUSES.c.until <= now)
        with self._database.reading() as connection:
            if not self._database.has_table(connection, PAUSES) or connection.execute(due.limit(1)).first() is None:
                return
        try:
            with self._database.locked() as book:
                ended = select(RULES).select_from(_HELD).where(PAUSES.c.until <= now).order_by(RULES.c.id)
                rows = book.connection.execute(ended).mappings().all()
                book.connection.execute(delete(PAUSES).where(PAUSES.c.until <= now))
                if rows:
                    writing = book.begin_change()
                    changes = []
                    for row in rows:
                        rule = rule_of(row)
                        assert rule is not None
                        stamp = stamp_now(writing.revision, "resumed", row["author"])
                        resumed = replace(rule, enabled=True, version=rule.version + 1)
                        changes.append(change_row(resumed, stamp, row["revision"]))
                    put(writing.connection, changes)
        except FencepostError:
            return
