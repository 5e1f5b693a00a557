"""The tables of a rule book.

    fencepost_book        one row: the format of these tables, and the number of the last change
    fencepost_rules       per rule id the last change; a removed rule keeps its row, so that its versions go on
    fencepost_past        the changes before those
    fencepost_published   snapshots that were published, by digest, with the number of the last change in each
    fencepost_settings    values by name: the zone, the columns that rules were published with
    fencepost_pauses      when rules that are paused for a while go on
    fencepost_origins     tables that are mirrored, each with the number of the last change that was compared with it
    fencepost_tokens      who may call a service: a digest of each token, and what it allows
    fencepost_mirrored    the rules of each of them, some thousands in a row: ids, and digests of what the table says

Books that were made before the last four get them with the first change that needs one.

A change takes the next revision and locks the one row of `fencepost_book` for it, so revisions become visible in
their order: whoever has seen revision n has seen all before it.
"""

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

FORMAT = 3
"""Of these tables: 2 has names, 3 damping. A book of an older one is upgraded, one of a newer one refused."""

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
        Column("name", Text),
        # A JSON object of the options for, keep_firing_for, stay, margin, cooldown, limit and every.
        Column("damping", Text),
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

# Not unique: rules that change together may exchange their names. Whoever writes looks for names that are there twice.
Index(
    "ix_fencepost_rules_name",
    RULES.c.name,
    sqlite_where=RULES.c.name.is_not(None),
    postgresql_where=RULES.c.name.is_not(None),
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

PAUSES = Table(
    "fencepost_pauses",
    TABLES,
    Column("id", _ID, primary_key=True, autoincrement=False),
    # Of the pause: any later change of the rule makes the row void.
    Column("revision", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False, index=True),
)

ORIGINS = Table(
    "fencepost_origins",
    TABLES,
    Column("origin", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("rules", BigInteger, nullable=False),
)

MIRRORED = Table(
    "fencepost_mirrored",
    TABLES,
    Column("origin", Text, primary_key=True),
    Column("page", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

TOKENS = Table(
    "fencepost_tokens",
    TABLES,
    Column("id", String(16), primary_key=True),
    Column("name", Text, nullable=False),
    # Of the secret part, which is kept nowhere.
    Column("digest", String(64), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("made", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("revoked", BigInteger),
)

SETTINGS = Table(
    "fencepost_settings",
    TABLES,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

UNREMOVED = RULES.c.action.not_in(REMOVED)
