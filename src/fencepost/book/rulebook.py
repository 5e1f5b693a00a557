"""RuleBook: the durable, versioned store of rules."""

import builtins
import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from sqlalchemy import Connection, select

from fencepost._text import count
from fencepost.book.changes import Change, check_storable, check_texts
from fencepost.book.database import Database
from fencepost.book.editing import (
    add_rule,
    edit_rule,
    expire_rules,
    pause_rule,
    remove_rule,
    restore_rule,
    restore_rules,
)
from fencepost.book.pauses import Pauses
from fencepost.book.reading import (
    count_rules,
    find_rule,
    find_rules_where,
    parse_rules,
    read_history,
    read_revision,
    read_rules,
)
from fencepost.book.settings import read_setting, write_setting
from fencepost.book.storing import ROWS_AT_ONCE, Existing, Imported, Progress, State, Synced, ids_named, number_names
from fencepost.book.tables import RULES, UNREMOVED
from fencepost.errors import FencepostError
from fencepost.ordinals.zones import check_zone
from fencepost.rules.options import RuleOptions, TableOptions, takes_options, with_name
from fencepost.rules.rule import Rule, RuleKey, checked_id, checked_instant, microseconds_of

if TYPE_CHECKING:
    from fencepost.book.compiling import BookCompiler
    from fencepost.book.paging import RuleCount, RulePage
    from fencepost.book.publishing import Publisher
    from fencepost.book.texts import Texts
    from fencepost.language import ColumnKind
    from fencepost.published.difference import Difference
    from fencepost.rules import RuleFault, Rules
    from fencepost.rules.faults import FindFaults
    from fencepost.snapshot import Snapshot

# What parses or compiles is imported where it is used: looking at a book needs none of it.

DEFAULT_URL = "sqlite:///fencepost.db"

_KEPT = timedelta(days=7)


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
        zone: the time zone that timestamps without one are read in, such as "America/New_York". It is kept with the
            book, UTC by default; a book with changes keeps the one it has.

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
        self,
        url: str = DEFAULT_URL,
        *,
        author: str | None = None,
        create: bool = True,
        wait: float = 30.0,
        zone: str | None = None,
    ) -> None:
        self.author = _user() if author is None else author
        wanted = None if zone is None else check_zone(zone)
        self._database = Database(str(url), create, wait)
        self.zone = self._find_zone(wanted)
        """The time zone that timestamps without one are read in."""
        self._publisher: Publisher | None = None
        self._compiler: BookCompiler | None = None
        self._counted: RuleCount | None = None
        self._texts: Texts | None = None
        self._pauses = Pauses(self._database)

    # -- changing ------------------------------------------------------------------------------------------

    @takes_options
    def add(self, id: RuleKey, condition: str, *, author: str | None = None, **options: Unpack[RuleOptions]) -> Rule:
        """Adds a rule and returns it; the arguments are those of Rules.add.

        Args:
            id: an integer that no other rule has; one that was removed before goes on with its versions. A text is the
                name of the rule: it gets an id that no rule ever had, or the one that a removed rule of this name had.
            condition: what would stand after WHERE, or a band over `left.` and `right.`.
            author: who adds it, if not the author of the book.
            **options: as in Rules.add.
        """
        rule = self._check(id, condition, with_name(options, id))
        by = self._author(author)
        with self._database.writing() as writing:
            return add_rule(writing, id, rule, by)

    @takes_options
    def replace(
        self,
        id: RuleKey,
        condition: str,
        *,
        expect: int | None = None,
        author: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> Rule:
        """Puts another rule under a known id, with the next version, and returns it.

        Args:
            id: of the rule to replace, or its name.
            condition: as in add.
            expect: the version that is to be replaced; refused if another writer has changed the rule since.
            author: as in add.
            **options: as in add; nothing is taken over from the old rule, but for the name where that is named.
        """
        rule = self._check(id, condition, with_name(options, id))
        return self._edit(id, "replaced", lambda old: replace(rule, id=old.id), expect, author)

    def remove(self, id: RuleKey, *, expect: int | None = None, author: str | None = None) -> None:
        """Takes a rule out; its history stays.

        Args:
            id: of a known rule, or its name.
            expect: as in replace.
            author: as in add.
        """
        by = self._author(author)
        with self._database.writing() as writing:
            remove_rule(writing, id, expect, by)

    def pause(
        self,
        id: RuleKey,
        *,
        until: datetime | None = None,
        expect: int | None = None,
        author: str | None = None,
    ) -> Rule:
        """Lets a rule take no part until it is resumed, and returns it; one that is paused stays as it is.

        With `until`, the rule goes on by itself at that time, by the clock of whoever uses the book then: the first
        process that reads, changes or publishes it resumes the rule, as a change like any other. Pipelines look at
        their book every second or so. Any other change of the rule makes `until` void.

        Args:
            id: of a known rule, or its name.
            until: when the pause ends; without a zone it is read as UTC. It may also change that of a paused rule.
            expect: as in replace.
            author: as in add.
        """
        end, by = checked_instant(until, "until"), self._author(author)
        with self._database.writing() as writing:
            return pause_rule(writing, self._pauses, id, end, expect, by)

    def resume(self, id: RuleKey, *, expect: int | None = None, author: str | None = None) -> Rule:
        """Lets a paused rule take part again, and returns it; one that does stays as it is.

        Args:
            id: of a known rule, or its name.
            expect: as in replace.
            author: as in add.
        """
        return self._edit(id, "resumed", lambda rule: replace(rule, enabled=True), expect, author)

    def restore(self, id: RuleKey, version: int, *, expect: int | None = None, author: str | None = None) -> Rule:
        """Gives a rule the content that it had in an earlier version, as a new version, and returns it.

        A rule that was removed is there again. One that has that content stays as it is.

        Args:
            id: of a rule that is or was in the book, or its name.
            version: the one to go back to.
            expect: as in replace.
            author: as in add.
        """
        by = self._author(author)
        with self._database.writing() as writing:
            return restore_rule(writing, id, version, expect, by)

    def restore_all(self, versions: Mapping[int, int], *, remove: Iterable[int] = (), author: str | None = None) -> int:
        """Gives many rules the content of earlier versions and takes others out, in one change; how many changed.

        Args:
            versions: by the ids of rules, the version to go back to.
            remove: ids of rules to take out; those that are not there do not matter.
            author: as in add.

        """
        gone, by = [checked_id(id) for id in remove], self._author(author)
        with self._database.writing() as writing:
            return restore_rules(writing, versions, gone, by)

    def expire(self, at: datetime | None = None, *, author: str | None = None) -> builtins.list[int]:
        """Takes out all rules whose `expires` has passed, and returns their ids.

        Operators end them by themselves, by the time of their rows; this tidies the book. Where rows come late, name
        a time that they have passed, or what they would still have reported is lost.

        Args:
            at: the time; without one, now.
            author: as in add.
        """
        instant = microseconds_of(checked_instant(at, "at") or datetime.now(UTC))
        by = self._author(author)
        with self._database.writing() as writing:
            return expire_rules(writing, instant, by)

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

        return import_file(self._database, Path(path), existing, self._author(author), progress, self.zone)

    @takes_options
    def add_table(
        self,
        table: Any,
        *,
        id: str = "rule_id",
        equal: str | Sequence[str] | Mapping[str, str] = (),
        ranges: Mapping[str, tuple[str | None, str | None]] | None = None,
        bounds: str | Mapping[str, str] = "[)",
        condition: str | None = None,
        existing: Existing = "refuse",
        author: str | None = None,
        progress: Progress = _ignore_progress,
        **options: Unpack[TableOptions],
    ) -> Imported:
        """Adds a rule per row of a table, all or none; every faulty row is reported.

        The rules are stored as conditions that say the same, exactly in the types of the table.

        Args:
            table: Arrow, pandas or polars table, or a mapping of column names to columns.
            id: as in Rules.add_table, and so are equal, ranges and bounds.
            equal: columns whose string the data must equal.
            ranges: for every attribute the columns of its bounds.
            bounds: [) [] () or (].
            condition: in place of equal and ranges, a column of conditions.
            existing: as in import_file.
            author: as in add.
            progress: as in import_file.
            **options: as in Rules.add_table: for all rows, or the column that has one per row. `labels` may be a list
                of columns.
        """
        from fencepost.book.importing import import_table
        from fencepost.book.incoming import IncomingTable

        shape = {"id": id, "equal": equal, "ranges": ranges, "bounds": bounds, "condition": condition}
        incoming = IncomingTable(table, {**shape, **options})
        return import_table(self._database, incoming, existing, self._author(author), progress)

    @takes_options
    def sync(
        self,
        table: Any,
        *,
        origin: str,
        id: str = "rule_id",
        equal: str | Sequence[str] | Mapping[str, str] = (),
        ranges: Mapping[str, tuple[str | None, str | None]] | None = None,
        bounds: str | Mapping[str, str] = "[)",
        condition: str | None = None,
        remove_at_most: str | int | None = None,
        adopt: bool = False,
        dry_run: bool = False,
        author: str | None = None,
        progress: Progress = _ignore_progress,
        **options: Unpack[TableOptions],
    ) -> Synced:
        """Makes the rules of an origin those of a table, in one change: adds, replaces and removes, all or nothing.

        Rules that the table says the same of keep their version. Rules that were not made from this origin are never
        touched. A rule that somebody paused stays paused, unless the table says which rules are enabled.

        Args:
            table: as in add_table.
            origin: a name for the table, under which its rules are known again.
            id: as in add_table, and so are equal, ranges, bounds and condition.
            equal: columns whose string the data must equal.
            ranges: for every attribute the columns of its bounds.
            bounds: [) [] () or (].
            condition: in place of equal and ranges, a column of conditions.
            remove_at_most: how many rules may go at once, as a share such as "10%" or a number. Without it, a tenth,
                or ten where that is more, and never all because the table is empty.
            adopt: whether to take over rules with ids of the table that were not made from it; else that is refused.
            dry_run: only report what would change.
            author: as in add.
            progress: as in import_file.
            **options: as in add_table.
        """
        from fencepost.book.incoming import IncomingTable
        from fencepost.book.syncing import read_limit, sync

        limit = read_limit(remove_at_most)
        shape = {"id": id, "equal": equal, "ranges": ranges, "bounds": bounds, "condition": condition}
        return sync(
            self._database,
            IncomingTable(table, {**shape, **options}),
            origin,
            limit=limit,
            adopt=adopt,
            dry_run=dry_run,
            author=self._author(author),
            progress=progress,
        )

    # -- reading -------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        state: State | None = None,
        text: str | None = None,
        holds: Mapping[str, Any] | None = None,
        progress: Progress = _ignore_progress,
    ) -> Iterator[Rule]:
        """The rules that everything given is true of, in the order of their ids.

        Args:
            labels: labels that the rule has with these values, perhaps among others.
            state: "enabled", "paused", or "expired" for those whose `expires` has passed.
            text: what the condition contains, in upper or lower case.
            holds: values by column at which the condition holds. Columns without a value are null. All rules that are
                left by then are parsed.
            progress: as in import_file; called where rules are parsed.
        """
        self._wake()
        with self._database.reading() as connection:
            yield from find_rules_where(connection, labels, state, text, holds, progress)

    def search(
        self,
        after: int | None = None,
        limit: int = 50,
        *,
        labels: Mapping[str, str] | None = None,
        state: State | None = None,
        text: str | None = None,
        search: str | None = None,
    ) -> "RulePage":
        """The next rules after an id: a million rules are read as fast as ten.

        Where something is asked for that no index finds, a page looks at some thousands of rules and may end before it
        is full; `after` then says where to go on.

        Args:
            after: the id that the page before ended with; None begins.
            limit: how many rules at most.
            labels: as in list, and likewise the others.
            state: as in list.
            text: as in list.
            search: what the condition or the name contains, in upper or lower case.

        """
        from fencepost.book.paging import search_page
        from fencepost.book.texts import Texts

        self._wake()
        if self._texts is None:
            self._texts = Texts(self._database)
        with self._database.reading() as connection:
            asked: dict[str, Any] = {"labels": labels, "state": state, "text": text, "search": search}
            return search_page(connection, self._texts, after, limit, **asked)

    def find(self, beginning: str) -> builtins.list[Rule]:
        """The rules whose name begins with a text, and the one whose id it is; twenty at most.

        Args:
            beginning: of a name, or an id.

        """
        from fencepost.book.paging import find_named

        with self._database.reading() as connection:
            return find_named(connection, beginning)

    def some(self, ids: Sequence[int]) -> builtins.list[Rule]:
        """Those of some rules that the book has, in the order of their ids.

        Args:
            ids: of rules.

        """
        from fencepost.book.paging import find_rules

        with self._database.reading() as connection:
            return find_rules(connection, [checked_id(id) for id in ids])

    def next_id(self) -> int:
        """The id that a rule gets which is added by its name: none had it before."""
        with self._database.reading() as connection:
            return number_names(connection, [""])[0]

    def count(self) -> int:
        """How many rules there are, like `len`; of a book that was counted before, only what changed is looked at."""
        from fencepost.book.paging import RuleCount

        if self._counted is None:
            self._counted = RuleCount(self._database)
        return self._counted.read()

    def pauses(self) -> dict[int, datetime]:
        """When the rules that are paused for a while go on, by id."""
        self._wake()
        with self._database.reading() as connection:
            return self._pauses.all(connection)

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
                if done % ROWS_AT_ONCE == 0:
                    progress("writing", done, total)

        write_rules(Path(path), counted())
        progress("writing", done, done)
        return done

    def history(self, id: RuleKey | None = None, *, last: int | None = None) -> Iterator[Change]:
        """What happened to the rules, or to one of them, in order.

        Args:
            id: of a rule, or its name; it may have been removed.
            last: only so many of the last changes.
        """
        self._wake()
        with self._database.reading() as connection:
            yield from read_history(connection, id, last)

    def rules(self, *, progress: Progress = _ignore_progress) -> "Rules":
        """All rules, parsed, with their versions.

        Args:
            progress: as in import_file.
        """
        self._wake()
        with self._database.reading() as connection:
            return parse_rules(connection, self.zone, progress)

    def rules_since(
        self, revision: int | None = None, *, progress: Progress = _ignore_progress
    ) -> tuple[int, "Rules", builtins.list[int]]:
        """The rules that changed after a revision, parsed: the last revision, the rules, and the ids that changed.

        An id that changed and has no rule was removed. With rules that were read up to the last revision, a program
        follows a book without reading all of it again.

        Args:
            revision: the last one that is known; None reads all rules.
            progress: as in import_file.
        """
        from fencepost.book.publishing import changed_since

        with self._database.reading() as connection:
            last = read_revision(connection)
            if revision is None:
                return last, parse_rules(connection, self.zone, progress), []
            ids, rules = changed_since(connection, revision, self.zone)
            return last, rules, ids

    def publish(
        self,
        directory: str | PathLike[str],
        schema: Any = None,
        *,
        keep: timedelta = _KEPT,
        progress: Progress = _ignore_progress,
        shards: int | None = None,
        strict: bool = False,
        infer: bool = False,
        faults: "builtins.list[RuleFault] | None" = None,
        unusable: "FindFaults | None" = None,
    ) -> int:
        """Writes the next snapshot version into a directory that others follow, and returns its number.

        Only what changed since this book last published there is parsed, compiled and written. Rules that are faulty
        are left out and named, as in Rules.publish.

        Args:
            directory: a path, which is made where it does not exist, or a URL such as s3://bucket/rules.
            schema: as for Rules.publish.
            keep: how long versions stay that nobody uses and that are not the newest.
            progress: as in import_file; called where everything is parsed.
            shards: as in Rules.publish.
            strict: as in Rules.publish.
            infer: for the first version: columns that the schema lacks get the types that the rules suggest.
            faults: as in Rules.publish.
            unusable: says of compiled rules which ones whoever follows the directory cannot use, by id with the
                reason; they are faulty, too.
        """
        from fencepost.rules.faults import report_faults

        publishing = self._publishing()
        number, faulty = publishing.publish(
            directory, schema, keep, progress, shards=shards, strict=strict, infer=infer, unusable=unusable
        )
        report_faults(faulty.found, publishing.names(faulty.found), faults, faulty.undecided)
        return number

    def preview(
        self,
        directory: str | PathLike[str],
        schema: Any = None,
        *,
        infer: bool = False,
        progress: Progress = _ignore_progress,
        unusable: "FindFaults | None" = None,
    ) -> "Difference":
        """What publish would change in a directory; nothing is written.

        Args:
            directory: as in publish, and likewise the rest.
            schema: as in publish.
            infer: as in publish.
            progress: as in publish.
            unusable: as in publish.
        """
        return self._publishing().preview(directory, schema, progress, infer=infer, unusable=unusable)

    def check_rules(
        self, schema: Any, *, progress: Progress = _ignore_progress, unusable: "FindFaults | None" = None
    ) -> None:
        """Refuses rules that could not be published with a schema, all of them at once.

        Args:
            schema: as for Rules.compile.
            progress: as in import_file.
            unusable: as in publish.
        """
        with self._view() as connection:
            self._compiling().check(connection, schema, progress, unusable)

    def compile(self, schema: Any = None, *, progress: Progress = _ignore_progress) -> "Snapshot":
        """The enabled rules as a snapshot, like Rules.compile, without making each of them a `Rule`.

        What was compiled is kept on this machine for this user, and used again as long as the book stays as it is; of
        a book that has changed, only what changed is read and compiled.

        Args:
            schema: as for Rules.compile.
            progress: as in import_file; called where everything is read.
        """
        return self.compile_revision(schema, progress=progress)[1]

    def compile_revision(self, schema: Any = None, *, progress: Progress = _ignore_progress) -> tuple[int, "Snapshot"]:
        """The number of the last change, and the snapshot that `compile` makes of the rules as it left them.

        Args:
            schema: as in compile.
            progress: as in compile.
        """
        with self._view() as connection:
            last = read_revision(connection)
            made = self._compiling().compile(connection, schema, progress)
        made.refuse_faults()
        return last, made.snapshot

    def column_kinds(self, *, progress: Progress = _ignore_progress) -> "dict[str, ColumnKind]":
        """Every column that enabled rules use, with the kind of value it is compared with; bands aside.

        Args:
            progress: as in compile.
        """
        with self._view() as connection:
            return self._compiling().kinds(connection, progress)

    @contextmanager
    def _view(self) -> Iterator[Connection]:
        self._wake()
        with self._database.reading() as connection:
            yield connection

    def _compiling(self) -> "BookCompiler":
        from fencepost.book.compiling import BookCompiler

        if self._compiler is None:
            self._compiler = BookCompiler(self._database, self.zone)
        return self._compiler

    def _publishing(self) -> "Publisher":
        from fencepost.book.publishing import Publisher

        if self._publisher is None:
            self._publisher = Publisher(self._database, self._compiling(), self.zone)
        self._wake()
        return self._publisher

    @property
    def columns(self) -> dict[str, str]:
        """The columns that rules of this book were published with, and their types."""
        with self._database.reading() as connection:
            return dict(read_setting(connection, "columns") or {})

    @property
    def url(self) -> str:
        """Where the book is, without a password."""
        return self._database.name

    @property
    def revision(self) -> int:
        """The number of the last change."""
        self._wake()
        with self._database.reading() as connection:
            return read_revision(connection)

    @property
    def is_empty(self) -> bool:
        """Whether no rule is there; asked sooner than how many there are."""
        with self._database.reading() as connection:
            return connection.execute(select(RULES.c.id).where(UNREMOVED).limit(1)).first() is None

    def __len__(self) -> int:
        with self._database.reading() as connection:
            return count_rules(connection)

    def __contains__(self, id: object) -> bool:
        try:
            self[id]  # type: ignore[index]
        except FencepostError:
            return False
        return True

    def __getitem__(self, id: RuleKey) -> Rule:
        self._wake()
        with self._database.reading() as connection:
            return find_rule(connection, id)[0]

    def id_of(self, name: str) -> int:
        """The id of the rule with a name.

        Args:
            name: of the rule.
        """
        with self._database.reading() as connection:
            found = ids_named(connection, [name]) if isinstance(name, str) else {}
        if name not in found:
            from fencepost.rules.checked import no_such_name

            raise no_such_name(name)
        return found[name][0]

    def __iter__(self) -> Iterator[Rule]:
        self._wake()
        with self._database.reading() as connection:
            yield from read_rules(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connections to the database back; the book opens them again when it is used."""
        if self._texts is not None:
            self._texts.close()
        self._database.close()

    def __reduce__(self) -> Any:
        raise FencepostError(
            "a RuleBook cannot be pickled or copied",
            "book.rules() or book.compile(), which can",
            "Open the book again where it is needed: RuleBook(url).",
        )

    def __repr__(self) -> str:
        return f"RuleBook({self.url!r}, author={self.author!r})"

    def _repr_html_(self) -> str:
        from fencepost.rules.html import rules_html

        with self._database.reading() as connection:
            total = count_rules(connection)
            return rules_html(f"{self.url}: {count(total, 'rule')}", read_rules(connection), total)

    # -- helpers -------------------------------------------------------------------------------------------

    def _find_zone(self, wanted: str | None) -> str:
        """The zone of the book; one that is wanted is kept with a book that has no changes yet."""
        with self._database.reading() as connection:
            zone = read_setting(connection, "zone") or "UTC"
            revision = read_revision(connection)
        if wanted is None or wanted == zone:
            return check_zone(zone)
        if revision:
            raise FencepostError(
                f"zone={wanted!r} for {self.url}",
                f"{zone}, the zone of this book",
                f"Leave it out, or export the rules and import them into a new book with zone={wanted!r}.",
            )
        with self._database.recording() as connection:
            write_setting(connection, "zone", wanted)
        return wanted

    def _check(self, id: RuleKey, condition: str, options: RuleOptions) -> Rule:
        """A rule that parses and can be stored; warns where it does not fit the columns that were published.

        One that is called by its name has the id 0 until the book gives it its own.
        """
        from fencepost.rules.checked import check_rule, warn_unknown_columns

        number, called = (0, id) if isinstance(id, str) else (id, None)
        made = check_rule(number, condition, options, zone=self.zone, called=called)
        if columns := self.columns:
            warn_unknown_columns(made, columns, self.zone, called)
        return check_storable(made.rule)

    def _author(self, author: str | None) -> str:
        name = self.author if author is None else author
        if not isinstance(name, str):
            raise FencepostError(f"author={author!r}", "a name", "Pass it as a string.")
        check_texts("an author", [name])
        return name

    def _wake(self) -> None:
        """Resumes rules whose pause has ended. A book that cannot be written is left as it is."""
        self._pauses.end_due()

    def _edit(
        self, id: RuleKey, action: str, edited: Callable[[Rule], Rule], expect: int | None, author: str | None
    ) -> Rule:
        by = self._author(author)
        with self._database.writing() as writing:
            return edit_rule(writing, id, action, edited, expect, by)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return "unknown"
