"""The tables of a rule book.

    fencepost_book        one row: the format of these tables, and the number of the last change
    fencepost_rules       per rule id the last change; a removed rule keeps its row, so that its versions go on
    fencepost_past        the changes before those
    fencepost_published   snapshots that were published, by digest, with the number of the last change in each

A change takes the next revision and locks the one row of `fencepost_book` for it, so revisions become visible in
their order: whoever has seen revision n has seen all before it.
"""

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text

FORMAT = 1
"""Of these tables; a book of another one is refused."""

REMOVED = ("removed", "expired")
"""The actions after which a rule is no longer there."""

TABLES = MetaData()

# In SQLite only an INTEGER primary key is the place of a row itself.
_ID = BigInteger().with_variant(Integer, "sqlite")

BOOK = Table(
    "fencepost_book",
    TABLES,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("format", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
)


def _change_columns() -> list[Column[Any]]:
    """What is known of one change, and the rule as it was left by it."""
    return [
        Column("previous", BigInteger),
        Column("action", String(10), nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("author", Text, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("condition", Text, nullable=False),
        Column("detect", Text, nullable=False),
        Column("initial", Boolean, nullable=False),
        Column("labels", Text),
        Column("expires", BigInteger),
        Column("enabled", Boolean, nullable=False),
    ]


RULES = Table(
    "fencepost_rules",
    TABLES,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False, index=True),
    *_change_columns(),
)

# Most rules never expire, and those are left out.
Index(
    "ix_fencepost_rules_expires",
    RULES.c.expires,
    sqlite_where=RULES.c.expires.is_not(None),
    postgresql_where=RULES.c.expires.is_not(None),
)

PAST = Table(
    "fencepost_past",
    TABLES,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, primary_key=True, autoincrement=False, index=True),
    *_change_columns(),
)

PUBLISHED = Table(
    "fencepost_published",
    TABLES,
    Column("digest", String(64), primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
)

UNREMOVED = RULES.c.action.not_in(REMOVED)
