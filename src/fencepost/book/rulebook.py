"""RuleBook: the durable, versioned store of rules."""

import getpass
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, Unpack

from sqlalchemy import Connection, RowMapping, and_, func, select, union_all

from fencepost.book.changes import Change, change_row, check_storable, check_texts, rule_of, stamp_now, time_of
from fencepost.book.database import Database, Writing
from fencepost.book.storing import Existing, Imported, Progress, chunks, put, stored_rows
from fencepost.book.tables import BOOK, PAST, RULES, UNREMOVED
from fencepost.errors import FencepostError
from fencepost.rules.options import RuleOptions, takes_options
from fencepost.rules.rule import Rule, checked_expires, checked_id, microseconds_of

if TYPE_CHECKING:
    from fencepost.book.publishing import Publisher
    from fencepost.rules import Rules

# What parses or compiles is imported where it is used: looking at a book needs none of it.

DEFAULT_URL = "sqlite:///fencepost.db"

_KEPT = timedelta(days=7)
_ROWS_AT_ONCE = 10_000
_STREAMED = {"yield_per": _ROWS_AT_ONCE}


def _ignore_progress(*_: Any) -> None:
    """Nobody asked how far it is."""


class RuleBook:
    """Rules in a database, with everything that ever happened to them.

    A file of SQLite, or PostgreSQL. Any number of processes may write at once: each change is whole or not at all,
    and waits for the one before it. Every change has a revision, an author and a time.

    Args:
        url: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.
        author: who makes the changes; without one, the user of this process.
        create: whether to make a book where there is none; without it that is refused.
        wait: how many seconds to wait for another writer.

    >>> import tempfile
    >>> book = RuleBook(f"sqlite:///{tempfile.mkdtemp()}/rules.db", author="ann")
    >>> book.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit").version
    1
    >>> book.replace(1, "symbol = 'IBM' AND price BETWEEN 40 AND 55", expect=1).version
    2
    >>> [(change.action, change.author) for change in book.history(1)]
    [('added', 'ann'), ('replaced', 'ann')]
    >>> book.close()
    """

    def __init__(
        self, url: str = DEFAULT_URL, *, author: str | None = None, create: bool = True, wait: float = 30.0
    ) -> None:
        self.author = _user() if author is None else author
        self._database = Database(str(url), create, wait)
        self._publisher: Publisher | None = None

    # -- changing ------------------------------------------------------------------------------------------

    @takes_options
    def add(
        self, id: SupportsIndex, condition: str, *, author: str | None = None, **options: Unpack[RuleOptions]
    ) -> Rule:
        """Adds a rule and returns it; the arguments are those of Rules.add.

        Args:
            id: an integer that no other rule has; one that was removed before goes on with its versions.
            condition: what would stand after WHERE, or a band over `left.` and `right.`.
            author: who adds it, if not the author of the book.
            **options: as in Rules.add.
        """
        rule = _check(id, condition, options)
        with self._database.writing() as writing:
            last = stored_rows(writing.connection, [rule.id]).get(rule.id)
            if last is not None:
                if rule_of(last) is not None:
                    raise FencepostError(
                        f"rule {rule.id} already exists", "ids must be unique", "Use replace() to edit it."
                    )
                rule = replace(rule, version=last["version"] + 1)
            self._put(writing, [(rule, last)], "added", author)
        return rule

    @takes_options
    def replace(
        self,
        id: SupportsIndex,
        condition: str,
        *,
        expect: int | None = None,
        author: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> Rule:
        """Puts another rule under a known id, with the next version, and returns it.

        Args:
            id: of the rule to replace.
            condition: as in add.
            expect: the version that is to be replaced; refused if another writer has changed the rule since.
            author: as in add.
            **options: as in add; nothing is taken over from the old rule.
        """
        rule = _check(id, condition, options)
        return self._edit(rule.id, "replaced", lambda _: rule, expect, author)

    def remove(self, id: SupportsIndex, *, expect: int | None = None, author: str | None = None) -> None:
        """Takes a rule out; its history stays.

        Args:
            id: of a known rule.
            expect: as in replace.
            author: as in add.
        """
        with self._database.writing() as writing:
            rule, last = self._known(writing.connection, checked_id(id), expect)
            self._put(writing, [(rule, last)], "removed", author)

    def pause(self, id: SupportsIndex, *, expect: int | None = None, author: str | None = None) -> Rule:
        """Lets a rule take no part until it is resumed, and returns it; one that is paused stays as it is.

        Args:
            id: of a known rule.
            expect: as in replace.
            author: as in add.
        """
        return self._edit(checked_id(id), "paused", lambda rule: replace(rule, enabled=False), expect, author)

    def resume(self, id: SupportsIndex, *, expect: int | None = None, author: str | None = None) -> Rule:
        """Lets a paused rule take part again, and returns it; one that does stays as it is.

        Args:
            id: of a known rule.
            expect: as in replace.
            author: as in add.
        """
        return self._edit(checked_id(id), "resumed", lambda rule: replace(rule, enabled=True), expect, author)

    def expire(self, at: datetime | None = None, *, author: str | None = None) -> list[int]:
        """Takes out all rules whose `expires` has passed, and returns their ids.

        Operators end them by themselves, by the time of their rows; this tidies the book. Where rows come late, name
        a time that they have passed, or what they would still have told is lost.

        Args:
            at: the time; without one, now.
            author: as in add.
        """
        instant = microseconds_of(checked_expires(at) or datetime.now(UTC))
        passed = select(RULES).where(UNREMOVED, RULES.c.expires <= instant).order_by(RULES.c.id)
        with self._database.writing() as writing:
            rows = writing.connection.execute(passed).mappings().all()
            ended = [(rule, row) for row in rows if (rule := rule_of(row)) is not None]
            self._put(writing, ended, "expired", author)
        return [rule.id for rule, _ in ended]

    def import_file(
        self,
        path: str | PathLike[str],
        *,
        existing: Existing = "refuse",
        author: str | None = None,
        progress: Progress = _ignore_progress,
    ) -> Imported:
        """Takes in all rules of a file, or none; every fault is reported with its line or row.

        Args:
            path: JSON lines, CSV or Parquet, by its extension, with the fields that add takes and `version`.
            existing: what to do with ids that the book has: "refuse", "replace" or "skip" them. What is equal but
                for the version stays as it is.
            author: as in add.
            progress: called with what is being done, how many rules are done, and how many there are.
        """
        from fencepost.book.importing import import_file

        return import_file(self._database, Path(path), existing, self._author(author), progress)

    # -- reading -------------------------------------------------------------------------------------------

    def export_file(self, path: str | PathLike[str], *, progress: Progress = _ignore_progress) -> int:
        """Writes all rules to a file that import_file takes, and returns how many.

        Args:
            path: JSON lines, CSV or Parquet, by its extension; what was there is replaced, once all is written.
            progress: as in import_file.
        """
        from fencepost.rules.files import write_rules

        total, done = len(self), 0

        def counted() -> Iterator[tuple[Rule, str]]:
            nonlocal done
            for rule in self:
                yield rule, str(rule.condition)
                done += 1
                if done % _ROWS_AT_ONCE == 0:
                    progress("writing", done, total)

        write_rules(Path(path), counted())
        progress("writing", done, done)
        return done

    def history(self, id: SupportsIndex | None = None, *, last: int | None = None) -> Iterator[Change]:
        """What happened to the rules, or to one of them, in order.

        Args:
            id: of a rule, which may have been removed.
            last: only so many of the last changes.
        """
        changes = union_all(select(RULES), select(PAST)).subquery()
        before = PAST.alias()
        asked = select(changes, *(column.label(f"before_{column.name}") for column in before.c)).select_from(
            changes.outerjoin(before, and_(before.c.id == changes.c.id, before.c.revision == changes.c.previous))
        )
        if id is not None:
            asked = asked.where(changes.c.id == checked_id(id))
        if last is None:
            asked = asked.order_by(changes.c.revision, changes.c.id)
        else:
            asked = asked.order_by(changes.c.revision.desc(), changes.c.id.desc()).limit(last)
        with self._database.reading() as connection, connection.execute(asked, execution_options=_STREAMED) as answer:
            rows = answer.mappings()
            yield from map(_change_of, rows if last is None else reversed(list(rows)))

    def rules(self, *, progress: Progress = _ignore_progress) -> "Rules":
        """All rules, parsed, with their versions.

        Args:
            progress: as in import_file.
        """
        with self._database.reading() as connection:
            return self._all_rules(connection, progress)

    def publish(
        self,
        directory: str | PathLike[str],
        schema: Any = None,
        *,
        keep: timedelta = _KEPT,
        progress: Progress = _ignore_progress,
        shards: int | None = None,
    ) -> int:
        """Writes the next snapshot version into a directory that others follow, and returns its number.

        Only what changed since this book last published there is parsed, compiled and written.

        Args:
            directory: a path, which is made where it does not exist, or a URL such as s3://bucket/rules.
            schema: as for Rules.compile; without one, the schema that the directory has from its first version.
            keep: how long versions stay that nobody uses and that are not the newest.
            progress: as in import_file; called where everything is parsed.
            shards: as in Rules.publish.
        """
        from fencepost.book.publishing import Publisher

        if self._publisher is None:
            self._publisher = Publisher(self._database)
        return self._publisher.publish(
            directory, schema, keep, lambda connection: self._all_rules(connection, progress), shards
        )

    @property
    def url(self) -> str:
        """Where the book is, without a password."""
        return self._database.name

    @property
    def revision(self) -> int:
        """The number of the last change."""
        with self._database.reading() as connection:
            number: int = connection.execute(select(BOOK.c.revision)).scalar_one()
            return number

    def __len__(self) -> int:
        with self._database.reading() as connection:
            return _count(connection)

    def __contains__(self, id: object) -> bool:
        try:
            self[id]  # type: ignore[index]
        except FencepostError:
            return False
        return True

    def __getitem__(self, id: SupportsIndex) -> Rule:
        number = checked_id(id)
        with self._database.reading() as connection:
            rule, _ = self._known(connection, number, None)
        return rule

    def __iter__(self) -> Iterator[Rule]:
        with self._database.reading() as connection:
            yield from _all(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connections to the database back; the book opens them again when it is used."""
        self._database.close()

    def __repr__(self) -> str:
        return f"RuleBook({self.url!r})"

    # -- helpers -------------------------------------------------------------------------------------------

    def _author(self, author: str | None) -> str:
        name = self.author if author is None else author
        if not isinstance(name, str):
            raise FencepostError(f"author={author!r}", "a name", "Pass it as a string.")
        check_texts("an author", [name])
        return name

    def _known(self, connection: Connection, id: int, expect: int | None) -> tuple[Rule, RowMapping]:
        """A rule that is there, in the version that the caller expects."""
        last = stored_rows(connection, [id]).get(id)
        rule = None if last is None else rule_of(last)
        if last is None or rule is None:
            fate = "does not exist" if last is None else f"was {last['action']} by {last['author']}"
            raise FencepostError(f"rule {id} {fate}", "the id of a rule in the book", "Use add() for a new rule.")
        if expect is not None and rule.version != expect:
            raise FencepostError(
                f"rule {id} is at version {rule.version}, {last['action']} by {last['author']}",
                f"version {expect}",
                "Look at what changed, and make the change again if it is still meant.",
            )
        return rule, last

    def _edit(
        self, id: int, action: str, edited: Callable[[Rule], Rule], expect: int | None, author: str | None
    ) -> Rule:
        with self._database.writing() as writing:
            rule, last = self._known(writing.connection, id, expect)
            after = replace(edited(rule), version=rule.version + 1)
            if action != "replaced" and after.enabled == rule.enabled:
                return rule
            self._put(writing, [(after, last)], action, author)
        return after

    def _put(
        self, writing: Writing, changed: Iterable[tuple[Rule, RowMapping | None]], action: str, author: str | None
    ) -> None:
        stamp = stamp_now(writing.revision, action, self._author(author))
        rows = (change_row(rule, stamp, None if last is None else last["revision"]) for rule, last in changed)
        for some in chunks(rows):
            put(writing.connection, some)

    def _all_rules(self, connection: Connection, progress: Progress) -> "Rules":
        from fencepost.book.publishing import rules_from

        total = _count(connection)

        def counted() -> Iterator[Rule]:
            for number, rule in enumerate(_all(connection), start=1):
                yield rule
                if number % _ROWS_AT_ONCE == 0:
                    progress("parsing", number, total)

        return rules_from(counted())


def _check(id: SupportsIndex, condition: str, options: RuleOptions) -> Rule:
    """A rule that parses and can be stored."""
    from fencepost.rules.checked import check_rule

    return check_storable(check_rule(id, condition, options).rule)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return "unknown"


def _count(connection: Connection) -> int:
    number: int = connection.execute(select(func.count()).select_from(RULES).where(UNREMOVED)).scalar_one()
    return number


def _all(connection: Connection) -> Iterator[Rule]:
    there = select(RULES).where(UNREMOVED).order_by(RULES.c.id)
    with connection.execute(there, execution_options=_STREAMED) as answer:
        for row in answer.mappings():
            rule = rule_of(row)
            assert rule is not None
            yield rule


def _change_of(row: RowMapping) -> Change:
    before = None
    if row["before_id"] is not None:
        before = rule_of({name.removeprefix("before_"): row[name] for name in row if name.startswith("before_")})
    return Change(row["revision"], row["id"], row["action"], row["author"], time_of(row), before, rule_of(row))
