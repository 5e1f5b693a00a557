"""The database of a rule book: opened or made, read in one view, written by one at a time, refusals in plain words."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Table, create_engine, event, inspect, make_url, select, text, update
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from fencepost._text import mask_url, mask_urls
from fencepost.book.tables import BOOK, FORMAT, TABLES
from fencepost.errors import FencepostError, UnreachableError

_WRITES = "fencepost_writes"
_MAKING = 7_305_809_123
"""The advisory lock of those who make the tables in PostgreSQL."""


class Writing(NamedTuple):
    """A change under way."""

    connection: Connection
    revision: int
    """The number of this change."""


class Locked:
    """A book that no other process changes; whoever holds it may find that there is nothing to change."""

    def __init__(self, connection: Connection, last: int) -> None:
        self.connection = connection
        self.last = last
        """The number of the last change."""

    def begin_change(self) -> Writing:
        """Take the next number for a change."""
        self.last += 1
        self.connection.execute(update(BOOK).values(revision=self.last))
        return Writing(self.connection, self.last)


class Database:
    """Where a rule book is kept."""

    def __init__(self, url: str, create: bool, wait: float) -> None:
        self._url = _read_url(url)
        self._wait = wait
        self.name = mask_urls(self._url.render_as_string(hide_password=True))
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        self._there: set[str] = set()
        if self._is_sqlite and not create:
            self._refuse_missing_file()
        try:
            arguments = {"timeout": wait} if self._is_sqlite and "timeout" not in self._url.query else {}
            self._engine = create_engine(self._url, connect_args=arguments)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise FencepostError(
                f"{self.name} needs a driver ({error})", "psycopg", "Install it: pip install 'fencepost[postgres]'."
            ) from None
        if self._is_sqlite:
            event.listen(self._engine, "connect", _leave_begin_to_us)
            event.listen(self._engine, "begin", _begin)
        try:
            self._open(create)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> str:
        """Where the book is, without who reads it and how: the same for every spelling of a file's path."""
        if self._is_sqlite:
            file = str(self._url.database)
            return file if file.startswith("file:") else str(Path(file).resolve())
        return f"{self._url.get_backend_name()}://{self._url.host}:{self._url.port}/{self._url.database}"

    def close(self) -> None:
        """Gives the connections back."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One view of the book: whatever others commit meanwhile is not seen."""
        options: dict[str, Any] = {} if self._is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._in_plain_words(), self._engine.connect().execution_options(**options) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """One change, whole or not at all; others wait until it is done."""
        with self._transaction() as connection:
            connection.execute(update(BOOK).values(revision=BOOK.c.revision + 1))
            revision = connection.execute(select(BOOK.c.revision)).scalar_one()
            yield Writing(connection, revision)

    @contextmanager
    def locked(self) -> Iterator[Locked]:
        """The book for one writer: whatever is changed is changed whole or not at all."""
        with self._transaction() as connection:
            yield Locked(connection, connection.execute(select(BOOK.c.revision).with_for_update()).scalar_one())

    def has_table(self, connection: Connection, table: Table) -> bool:
        """Whether a book that was made by an older fencepost has this table, too."""
        if table.name not in self._there and inspect(connection).has_table(table.name):
            self._there.add(table.name)
        return table.name in self._there

    def ensure_table(self, connection: Connection, table: Table) -> None:
        """Make a table where it is missing, in a transaction that may yet be taken back."""
        if table.name not in self._there:
            table.create(connection, checkfirst=True)

    @contextmanager
    def recording(self) -> Iterator[Connection]:
        """A transaction that changes no rule."""
        with self._transaction() as connection:
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with (
            self._in_plain_words(),
            self._engine.connect().execution_options(**{_WRITES: True}) as connection,
            connection.begin(),
        ):
            if not self._is_sqlite:
                wait = {"wait": f"{int(self._wait * 1000)}ms"}
                connection.execute(text("SELECT set_config('lock_timeout', :wait, true)"), wait)
            yield connection

    def _open(self, create: bool) -> None:
        with self.reading() as connection:
            there = inspect(connection).get_table_names()
            if BOOK.name in there:
                found = connection.execute(select(BOOK.c.format)).scalar()
                if found is not None:
                    self._check_format(found)
        if BOOK.name in there and found is not None:
            if found < FORMAT:
                self._upgrade(found)
            return
        if self._is_sqlite and there and BOOK.name not in there:
            raise FencepostError(
                f"{self.name} is a database with the table {there[0]} and without rules",
                "a rule book, or a file that does not exist yet",
                "Name another file.",
            )
        if not create:
            raise self._no_book()
        self._make()

    def _make(self) -> None:
        if self._is_sqlite:
            with self._in_plain_words():
                # Readers then never wait for a writer. It holds for the file, and cannot be set in a transaction.
                raw = self._engine.raw_connection()
                try:
                    raw.cursor().execute("PRAGMA journal_mode=WAL").close()
                finally:
                    raw.close()
        with self._transaction() as connection:
            if not self._is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MAKING})
            TABLES.create_all(connection)
            if connection.execute(select(BOOK.c.format)).scalar() is None:
                connection.execute(BOOK.insert().values(one=1, format=FORMAT, revision=0))

    def _upgrade(self, found: int) -> None:
        """Add what books of an older format lack: columns, which are null in what was stored before, and indexes."""
        try:
            with self._transaction() as connection:
                if not self._is_sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MAKING})
                TABLES.create_all(connection)
                for table in TABLES.sorted_tables:
                    known = {column["name"] for column in inspect(connection).get_columns(table.name)}
                    for column in table.columns:
                        if column.name not in known:
                            added = CreateColumn(column).compile(dialect=connection.dialect)
                            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {added}"))
                    for index in table.indexes:
                        index.create(connection, checkfirst=True)
                connection.execute(update(BOOK).values(format=FORMAT))
        except FencepostError as error:
            raise FencepostError(
                f"{self.name} is a rule book of format {found}, and cannot be upgraded to {FORMAT}: {error.got}",
                "a book that may be written, once",
                "Open it where it may be written, or work on a copy.",
            ) from None

    def _check_format(self, found: object) -> None:
        if not isinstance(found, int) or not 1 <= found <= FORMAT:
            is_newer = isinstance(found, int) and found > FORMAT
            raise FencepostError(
                f"{self.name} is a rule book of format {found!r}",
                f"format {FORMAT}, or an older one, which is upgraded",
                "Upgrade fencepost." if is_newer else "Name another book, or restore this one from a backup.",
            )

    def _refuse_missing_file(self) -> None:
        file = str(self._url.database)
        if not file.startswith("file:") and not Path(file).exists():
            raise self._no_book()

    def _no_book(self) -> FencepostError:
        return FencepostError(
            f"no rule book is at {self.name}",
            "one that exists",
            "Add or import a rule, which makes it, or name the right one with --book or FENCEPOST_BOOK.",
        )

    @contextmanager
    def _in_plain_words(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise _refusal(error.orig, self.name) from None
        except UnicodeDecodeError:  # SQLAlchemy lets those of SQLite pass
            raise FencepostError(f"{self.name} is damaged", *_NO_BOOK) from None
        except (sqlite3.Error, SQLAlchemyError) as error:
            raise _refusal(error, self.name) from None


def _read_url(url: str) -> URL:
    try:
        made = make_url(url)
    except (ArgumentError, ValueError, TypeError):
        raise _no_url(repr(mask_url(url))) from None
    backend = made.get_backend_name() if made.drivername != "postgres" else "postgresql"
    if backend == "postgresql" and made.drivername in ("postgres", "postgresql"):
        return made.set(drivername="postgresql+psycopg")
    if backend not in ("sqlite", "postgresql"):
        raise _no_url(made.render_as_string(hide_password=True))
    if backend == "sqlite" and made.database in (None, "", ":memory:"):
        raise FencepostError(f"{url} is a rule book in memory", "one in a file or on a server", "Use Rules instead.")
    return made


def _no_url(shown: str) -> FencepostError:
    return FencepostError(
        f"{shown} is no address of a rule book",
        "sqlite:///FILE or postgresql://USER@HOST/DATABASE",
        "Write for example sqlite:///fencepost.db.",
    )


def _leave_begin_to_us(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # sqlite3 would begin only before a write, and so read outside of it


def _begin(connection: Connection) -> None:
    # A writer takes the lock at once: one that read first could find that another has written since.
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


_LOCKED = (
    "is locked by another writer",
    "a rule book that becomes free while this one waits",
    "Wait for the other writer to finish, and try again.",
)
_WRITABLE = ("one that may be written", "Ask for the right to write to it, or work on a copy.")
_NO_BOOK = ("a rule book", "Name another file; a book that was damaged comes back from its last export or backup.")
_SQLITE = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_READONLY": ("is read-only", *_WRITABLE),
    "SQLITE_CANTOPEN": (
        "cannot be opened",
        "a file in a directory that exists and may be written",
        "Make the directory, or name another file.",
    ),
    "SQLITE_NOTADB": ("is no rule book", *_NO_BOOK),
    "SQLITE_CORRUPT": ("is damaged", *_NO_BOOK),
    "SQLITE_FULL": ("is on a full disk", "room for the change", "Make room; nothing was changed."),
}
_POSTGRES = {
    "55P03": _LOCKED,
    "25006": ("is read-only", *_WRITABLE),
    "42501": ("may not be used by this user", *_WRITABLE),
    "28": ("refuses the login", "the right user and password", "Correct them in the address."),
    "3D": ("names a database that does not exist", "one that does", "Create it, or correct its name in the address."),
}
_AWAY = ("08", "53", "57P")
"""PostgreSQL is not to be reached, has no room for another connection, or is being stopped or started."""
_AT_LOGIN = {"authentication failed": "28", "no password supplied": "28"}


def _refusal(error: Any, name: str) -> FencepostError:
    """An error of the database as a refusal; the codes tell more reliably than the texts."""
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or ""
    for known, (got, expected, remedy) in {**_SQLITE, **_POSTGRES}.items():
        if code.startswith(known):
            kind = UnreachableError if got == _LOCKED[0] else FencepostError
            return kind(f"{name} {got}", expected, remedy)
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    for words, known in _AT_LOGIN.items():  # a connection that was never made has no code
        if not code and words in reason:
            got, expected, remedy = _POSTGRES[known]
            return FencepostError(f"{name} {got}", expected, remedy)
    if "Could not decode to UTF-8" in reason:  # which has no code
        return FencepostError(f"{name} is damaged ({reason})", *_NO_BOOK)
    if (not code and type(error).__name__ == "OperationalError") or code.startswith(_AWAY):
        return UnreachableError(
            f"{name} does not answer ({reason})", "a server that answers", "Start it, or correct the address."
        )
    return FencepostError(f"{name} reports an error: {reason}", "an answer", "Correct what it names, and try again.")
