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

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, select, union_all

from fencepost._text import count
from fencepost.book.changes import Change, change_row, check_storable, check_texts, rule_of, stamp_now, time_of
from fencepost.book.database import Database, Writing
from fencepost.book.pauses import Pauses
from fencepost.book.settings import read_setting, write_setting
from fencepost.book.storing import (
    Existing,
    Imported,
    Progress,
    State,
    Synced,
    chunks,
    ids_named,
    number_names,
    put,
    stored_rows,
)
from fencepost.book.tables import BOOK, PAST, RULES, UNREMOVED
from fencepost.errors import FencepostError
from fencepost.ordinals.zones import check_zone
from fencepost.rules.options import RuleOptions, TableOptions, takes_options, with_name
from fencepost.rules.rule import Rule, RuleKey, checked_id, checked_instant, microseconds_of

if TYPE_CHECKING:
    from fencepost.book.compiling import BookCompiler
    from fencepost.book.paging import RuleCount, RulePage
    from fencepost.book.publishing import Publisher
    from fencepost.language import ColumnKind
    from fencepost.published.difference import Difference
    from fencepost.rules import RuleFault, Rules
    from fencepost.rules.faults import FindFaults
    from fencepost.snapshot import Snapshot

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
        with self._database.writing() as writing:
            if isinstance(id, str):
                rule = replace(rule, id=number_names(writing.connection, [id])[0])
            last = stored_rows(writing.connection, [rule.id]).get(rule.id)
            if last is not None:
                if rule_of(last) is not None:
                    raise FencepostError(
                        f"rule {rule.id} already exists", "ids must be unique", "Use replace() to edit it."
                    )
                rule = replace(rule, version=last["version"] + 1)
            self._put(writing, [(rule, last)], "added", author)
            self._refuse_taken(writing.connection, rule)
        return rule

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
        with self._database.writing() as writing:
            rule, last = self._known(writing.connection, id, expect)
            self._put(writing, [(rule, last)], "removed", author)

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
        end = checked_instant(until, "until")
        with self._database.writing() as writing:
            rule, last = self._known(writing.connection, id, expect)
            after = replace(rule, enabled=False, version=rule.version + 1)
            if not rule.enabled and end == self._pauses.find(writing.connection, rule.id, last["revision"]):
                return rule
            self._put(writing, [(after, last)], "paused", author)
            if end is not None:
                self._pauses.note(writing, rule.id, end)
        return after

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
        with self._database.writing() as writing:
            connection = writing.connection
            number = self._number(connection, id, also_removed=True)
            last = stored_rows(connection, [number]).get(number)
            if last is None or expect is not None:
                self._known(connection, number, expect)
            assert last is not None
            old = self._version(connection, number, version)
            now = rule_of(last)
            if now is not None and replace(old, version=now.version) == now:
                return now
            after = replace(old, version=last["version"] + 1)
            self._put(writing, [(after, last)], "restored", author)
            self._refuse_taken(connection, after)
        return after

    def restore_all(self, versions: Mapping[int, int], *, remove: Iterable[int] = (), author: str | None = None) -> int:
        """Gives many rules the content of earlier versions and takes others out, in one change; how many changed.

        Args:
            versions: by the ids of rules, the version to go back to.
            remove: ids of rules to take out; those that are not there do not matter.
            author: as in add.

        """
        gone = [checked_id(id) for id in remove]
        with self._database.writing() as writing:
            connection = writing.connection
            last = {id: row for ids in chunks([*versions, *gone]) for id, row in stored_rows(connection, ids).items()}
            restored, removed = [], []
            for id, version in versions.items():
                old, row = self._version(connection, id, version), last[id]
                now = rule_of(row)
                if now is None or replace(old, version=now.version) != now:
                    restored.append((replace(old, version=row["version"] + 1), row))
            for id in gone:
                now = rule_of(last[id]) if id in last else None
                if now is not None:
                    removed.append((now, last[id]))
            self._put(writing, restored, "restored", author)
            self._put(writing, removed, "removed", author)
            for rule, _ in restored:
                self._refuse_taken(connection, rule)
        return len(restored) + len(removed)

    def expire(self, at: datetime | None = None, *, author: str | None = None) -> builtins.list[int]:
        """Takes out all rules whose `expires` has passed, and returns their ids.

        Operators end them by themselves, by the time of their rows; this tidies the book. Where rows come late, name
        a time that they have passed, or what they would still have told is lost.

        Args:
            at: the time; without one, now.
            author: as in add.
        """
        instant = microseconds_of(checked_instant(at, "at") or datetime.now(UTC))
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
        from fencepost.book.finding import conditions_for, holding, is_asked_for

        self._wake()
        asked = conditions_for(labels, state, text)

        def found(connection: Connection) -> Iterator[Rule]:
            for number, rule in enumerate(_all(connection, asked), start=1):
                if holds is not None and number % _ROWS_AT_ONCE == 0:
                    progress("parsing", number, None)
                if is_asked_for(rule, labels, text):
                    yield rule

        with self._database.reading() as connection:
            chosen = None if holds is None else holding(found(connection), holds)
            yield from (rule for rule in found(connection) if chosen is None or rule.id in chosen)

    def page(
        self,
        after: int | None = None,
        limit: int = 100,
        *,
        labels: Mapping[str, str] | None = None,
        state: State | None = None,
        search: str | None = None,
    ) -> builtins.list[Rule]:
        """Some rules, in the order of their ids: as many rows are read of a large book as of a small one.

        Args:
            after: only rules with a greater id.
            limit: how many there are at most.
            labels: as in list.
            state: as in list.
            search: what the condition or the name contains, in upper or lower case.
        """
        from fencepost.book.finding import conditions_for, is_asked_for, mentions

        self._wake()
        asked = and_(conditions_for(labels, state, None), mentions(search))
        found: builtins.list[Rule] = []
        with self._database.reading() as connection:
            while len(found) < limit:
                behind = asked if after is None else and_(asked, RULES.c.id > after)
                wanted = limit - len(found)
                rows = connection.execute(select(RULES).where(behind).order_by(RULES.c.id).limit(wanted)).mappings()
                rules = [rule for rule in map(rule_of, rows.all()) if rule is not None]
                found += [rule for rule in rules if is_asked_for(rule, labels, None)]
                if len(rules) < wanted:
                    break
                after = rules[-1].id
        return found

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

        self._wake()
        with self._database.reading() as connection:
            return search_page(connection, after, limit, labels=labels, state=state, text=text, search=search)

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
                if done % _ROWS_AT_ONCE == 0:
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
        changes = union_all(select(RULES), select(PAST)).subquery()
        before = PAST.alias()
        asked = select(changes, *(column.label(f"before_{column.name}") for column in before.c)).select_from(
            changes.outerjoin(before, and_(before.c.id == changes.c.id, before.c.revision == changes.c.previous))
        )
        if isinstance(id, str):
            with self._database.reading() as connection:
                id = self._number(connection, id, also_removed=True)
        if id is not None:
            asked = asked.where(changes.c.id == checked_id(id))
        if last is None:
            asked = asked.order_by(changes.c.revision, changes.c.id)
        else:
            asked = asked.order_by(changes.c.revision.desc(), changes.c.id.desc()).limit(last)
        self._wake()
        with self._database.reading() as connection, connection.execute(asked, execution_options=_STREAMED) as answer:
            rows = answer.mappings()
            yield from map(_change_of, rows if last is None else reversed(list(rows)))

    def rules(self, *, progress: Progress = _ignore_progress) -> "Rules":
        """All rules, parsed, with their versions.

        Args:
            progress: as in import_file.
        """
        self._wake()
        with self._database.reading() as connection:
            return self._all_rules(connection, progress)

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
            last: int = connection.execute(select(BOOK.c.revision)).scalar_one()
            if revision is None:
                return last, self._all_rules(connection, progress), []
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
            last: int = connection.execute(select(BOOK.c.revision)).scalar_one()
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
            number: int = connection.execute(select(BOOK.c.revision)).scalar_one()
            return number

    @property
    def is_empty(self) -> bool:
        """Whether no rule is there; asked sooner than how many there are."""
        with self._database.reading() as connection:
            return connection.execute(select(RULES.c.id).where(UNREMOVED).limit(1)).first() is None

    def __len__(self) -> int:
        with self._database.reading() as connection:
            return _count(connection)

    def __contains__(self, id: object) -> bool:
        try:
            self[id]  # type: ignore[index]
        except FencepostError:
            return False
        return True

    def __getitem__(self, id: RuleKey) -> Rule:
        self._wake()
        with self._database.reading() as connection:
            rule, _ = self._known(connection, id, None)
        return rule

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
            yield from _all(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connections to the database back; the book opens them again when it is used."""
        self._database.close()

    def __reduce__(self) -> Any:
        raise FencepostError(
            "a RuleBook, which cannot be pickled or copied",
            "book.rules() or book.compile(), which can",
            "Open the book again where it is needed: RuleBook(url).",
        )

    def __repr__(self) -> str:
        return f"RuleBook({self.url!r}, author={self.author!r})"

    def _repr_html_(self) -> str:
        from fencepost.rules.html import rules_html

        with self._database.reading() as connection:
            total = _count(connection)
            return rules_html(f"{self.url}: {count(total, 'rule')}", _all(connection), total)

    # -- helpers -------------------------------------------------------------------------------------------

    def _find_zone(self, wanted: str | None) -> str:
        """The zone of the book; one that is wanted is kept with a book that has no changes yet."""
        with self._database.reading() as connection:
            zone = read_setting(connection, "zone") or "UTC"
            revision = connection.execute(select(BOOK.c.revision)).scalar_one()
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

    def _number(self, connection: Connection, id: RuleKey, *, also_removed: bool = False) -> int:
        """The id of a rule that is called by its id or its name."""
        if not isinstance(id, str):
            return checked_id(id)
        if not (found := ids_named(connection, [id], also_removed=also_removed)):
            from fencepost.rules.checked import no_such_name

            raise no_such_name(id)
        return found[id][-1]

    def _known(self, connection: Connection, key: RuleKey, expect: int | None) -> tuple[Rule, RowMapping]:
        """A rule that is there, in the version that the caller expects."""
        id = self._number(connection, key)
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

    def _version(self, connection: Connection, id: int, version: int) -> Rule:
        """A rule as a version of it was."""
        known = []
        for table in (PAST, RULES):
            for row in connection.execute(select(table).where(table.c.id == id)).mappings():
                rule = rule_of(row)
                if rule is not None:
                    known.append(rule)
        found = next((rule for rule in known if rule.version == version), None)
        if found is None:
            versions = ", ".join(str(each) for each in sorted({rule.version for rule in known}))
            raise FencepostError(
                f"rule {id} has no version {version!r}", f"one of {versions}", "Look at its history for what they were."
            )
        return found

    def _wake(self) -> None:
        """Resumes rules whose pause has ended. A book that cannot be written is left as it is."""
        self._pauses.end_due()

    def _edit(
        self, id: RuleKey, action: str, edited: Callable[[Rule], Rule], expect: int | None, author: str | None
    ) -> Rule:
        with self._database.writing() as writing:
            rule, last = self._known(writing.connection, id, expect)
            after = replace(edited(rule), version=rule.version + 1)
            if action != "replaced" and after.enabled == rule.enabled:
                return rule
            self._put(writing, [(after, last)], action, author)
            self._refuse_taken(writing.connection, after)
        return after

    def _put(
        self, writing: Writing, changed: Iterable[tuple[Rule, RowMapping | None]], action: str, author: str | None
    ) -> None:
        stamp = stamp_now(writing.revision, action, self._author(author))
        rows = (change_row(rule, stamp, None if last is None else last["revision"]) for rule, last in changed)
        for some in chunks(rows):
            put(writing.connection, some)

    def _refuse_taken(self, connection: Connection, rule: Rule) -> None:
        """Refuses a rule that was just written, if another one has its name."""
        if rule.name is not None:
            others = [id for id in ids_named(connection, [rule.name])[rule.name] if id != rule.id]
            if others:
                from fencepost.rules.checked import name_taken

                raise name_taken(rule.id, rule.name, others[0])

    def _all_rules(self, connection: Connection, progress: Progress) -> "Rules":
        from fencepost.book.publishing import rules_from

        total = _count(connection)

        def counted() -> Iterator[Rule]:
            for number, rule in enumerate(_all(connection), start=1):
                yield rule
                if number % _ROWS_AT_ONCE == 0:
                    progress("parsing", number, total)

        return rules_from(counted(), self.zone)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return "unknown"


def _count(connection: Connection) -> int:
    number: int = connection.execute(select(func.count()).select_from(RULES).where(UNREMOVED)).scalar_one()
    return number


def _all(connection: Connection, asked: ColumnElement[bool] = UNREMOVED) -> Iterator[Rule]:
    there = select(RULES).where(asked).order_by(RULES.c.id)
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
