"""Publishing a book: what changed since a version that it published before goes on top of that version.

A version is found again by the digest of its snapshot, which the book keeps with the number of the last change that
is in it. So it does not matter where a directory was moved or copied to, nor who else publishes there, nor whether
the book was restored from a backup: a version that this book has no record of is never built upon.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, delete, insert, select

from fencepost._files.storage import Place, modified, touch
from fencepost.book.changes import rule_of
from fencepost.book.compiling import BookCompiler, changed_ids, paused_of, read_columns, without
from fencepost.book.database import Database
from fencepost.book.settings import read_setting, write_setting
from fencepost.book.storing import Progress, chunks, names_of
from fencepost.book.tables import BOOK, PUBLISHED, RULES, UNREMOVED
from fencepost.errors import FencepostError
from fencepost.ordinals.schema import read_schema
from fencepost.published import VersionDirectory
from fencepost.published.difference import Difference, compare_versions
from fencepost.rules import Rule, Rules
from fencepost.rules.compile import StoredRules
from fencepost.rules.faults import FaultyRules, FindFaults
from fencepost.rules.options import fields_of
from fencepost.rules.rule import microseconds_of
from fencepost.rules.types import REMEDY
from fencepost.snapshot import Snapshot

_LOOKED_AT = 100
"""How many versions of a directory are looked at for one of this book."""
_COLLECTIONS = 10
"""How often versions are collected in the time that they stay."""
_MICROSECOND = timedelta(microseconds=1)


class _Version(NamedTuple):
    """A version that this book published."""

    number: int
    digest: str
    revision: int


class _Kept(NamedTuple):
    """The snapshot that was published last, which need not be loaded again."""

    directory: Place
    digest: str
    snapshot: Snapshot


class _Made(NamedTuple):
    """A version that could be published."""

    snapshot: Snapshot
    revision: int
    """The last change of the book that is in it."""
    faulty: FaultyRules
    since: "_Since | None"
    """What it was made from; None where all rules were read."""


class _Since(NamedTuple):
    """A version that this book published, and what has changed since."""

    version: int
    snapshot: Snapshot
    ids: frozenset[int]
    """Of the rules that may differ from it."""


class Publisher:
    """Publishes a book."""

    def __init__(self, database: Database, compiler: BookCompiler, zone: str) -> None:
        self._database, self._compiler, self._zone = database, compiler, zone
        self._kept: _Kept | None = None

    def publish(
        self,
        directory: str | PathLike[str],
        schema: Any,
        keep: timedelta,
        progress: Progress,
        *,
        shards: int | None = None,
        strict: bool = False,
        infer: bool = False,
        unusable: FindFaults | None = None,
    ) -> tuple[int, FaultyRules]:
        """See RuleBook.publish; the number of the version, and why rules were left out."""
        versions = VersionDirectory(directory)
        made: list[_Made] = []

        def compile_version(number: int) -> Snapshot:
            made.append(self._compile(versions, schema, number, progress, unusable, strict=strict, infer=infer))
            return made[-1].snapshot

        named = None if schema is None else read_schema(schema).as_texts()
        number = versions.publish(compile_version, named, shards)
        snapshot, revision, faulty, _ = made[-1]
        self._kept = _Kept(versions.path.absolute(), versions.digest(number), snapshot)
        self._record(self._kept.digest, revision, keep, versions.schema() or {})
        _collect(versions, keep)
        return number, faulty

    def preview(
        self,
        directory: str | PathLike[str],
        schema: Any,
        progress: Progress,
        *,
        infer: bool = False,
        unusable: FindFaults | None = None,
    ) -> Difference:
        """See RuleBook.preview."""
        versions = VersionDirectory(directory)
        latest = versions.latest()
        made = self._compile(versions, schema, (latest or 0) + 1, progress, unusable, strict=False, infer=infer)
        since = made.since if made.since is not None and made.since.version == latest else None
        before = since.snapshot if since is not None else None if latest is None else versions.load(latest)
        among = None if since is None else {*since.ids, *made.faulty.found}
        known = versions.schema() or {}
        named = {} if schema is None else read_schema(schema).as_texts()
        columns = {name: kind for name, kind in {**named, **made.snapshot.columns}.items() if name not in known}
        found = compare_versions(before, made.snapshot, made.faulty.found, columns, among)
        return replace(found, names=self.names(found.shown))

    def names(self, ids: Iterable[int]) -> dict[int, str]:
        """The names of rules that have one."""
        with self._database.reading() as connection:
            return names_of(connection, ids)

    def _compile(
        self,
        versions: VersionDirectory,
        schema: Any,
        number: int,
        progress: Progress,
        unusable: FindFaults | None,
        *,
        strict: bool,
        infer: bool,
    ) -> _Made:
        """The rules of the book as the next version of a directory.

        They are read after the number was taken: a version with a greater number then never knows less.
        """
        faulty = FaultyRules()
        with self._database.reading() as connection:
            revision = connection.execute(select(BOOK.c.revision)).scalar_one()
            bound, base = versions.bound_schema(schema), self._base(connection, versions)
            taken = None if strict else faulty
            if base is None:
                first = infer and versions.schema() is None
                made = self._compiler.compile(connection, bound, progress, infer=first)
                faulty, snapshot, since = made.faulty, made.snapshot.with_version(number), None
            else:
                snapshot, since = self._changed(connection, versions, base, bound, number, taken)
        snapshot = faulty.leave_out(snapshot, unusable)
        if strict:
            faulty.refuse(len(snapshot) + len(faulty.found), REMEDY)
        if not len(snapshot) and base is None and not versions.is_published():
            faulty.refuse_nothing_left(len(snapshot))
        return _Made(snapshot, revision, faulty, since)

    def _base(self, connection: Connection, versions: VersionDirectory) -> _Version | None:
        """The newest version of the directory that this book published."""
        for number in islice(versions.newest_first(), _LOOKED_AT):
            digest = versions.digest(number)
            revision = connection.execute(select(PUBLISHED.c.revision).where(PUBLISHED.c.digest == digest)).scalar()
            if revision is not None:
                return _Version(number, digest, revision)
        return None

    def _changed(
        self,
        connection: Connection,
        versions: VersionDirectory,
        base: _Version,
        schema: Any,
        number: int,
        faulty: FaultyRules | None,
    ) -> tuple[Snapshot, _Since]:
        """A version with everything that changed since it, and another try of the rules that were faulty in it."""
        kept = self._kept
        if kept is not None and kept[:2] == (versions.path.absolute(), base.digest):
            before = kept.snapshot
        else:
            before = versions.load(base.number)
            self._kept = _Kept(versions.path.absolute(), base.digest, before)
        ids = changed_ids(connection, base.revision)
        again = _enabled(connection, before.paused.keys() - {*ids.tolist()})
        if not len(ids) and not again:
            return before.with_version(number), _Since(base.number, before, frozenset())
        ids = np.union1d(ids, np.array(again, np.int64))
        fields, conditions = read_columns(connection, since=base.revision, also=again)
        columns = StoredRules(fields, conditions, self._zone).compile(
            schema, faulty, beside=before.expressions_without(ids)
        )
        paused = without(before.paused, ids) | paused_of(fields, faulty)
        return before.changed(ids, columns, paused, number), _Since(base.number, before, frozenset(ids.tolist()))

    def _record(self, digest: str, revision: int, keep: timedelta, columns: Mapping[str, str]) -> None:
        now = microseconds_of(datetime.now(UTC))
        is_old = PUBLISHED.c.at < now - keep // _MICROSECOND
        try:
            with self._database.recording() as connection:
                connection.execute(delete(PUBLISHED).where(is_old | (PUBLISHED.c.digest == digest)))
                connection.execute(insert(PUBLISHED).values(digest=digest, revision=revision, at=now))
                known = read_setting(connection, "columns") or {}
                if not columns.items() <= known.items():
                    write_setting(connection, "columns", {**known, **columns})
        except FencepostError:
            # A book that cannot be written can be published; the next time then starts from an older version.
            return


def _collect(versions: VersionDirectory, keep: timedelta) -> None:
    """Collects old versions, which looks at every one of them: now and then, not at every publishing."""
    last = versions.path / "collected"
    collected = modified(last)
    if collected is not None and time.time() - collected < keep.total_seconds() / _COLLECTIONS:
        return
    touch(last)
    versions.collect(keep)


def _enabled(connection: Connection, ids: Iterable[int]) -> list[int]:
    """Those of these rules that are enabled: not in force all the same, so they were faulty."""
    found: list[int] = []
    for some in chunks(sorted(ids)):
        asked = select(RULES.c.id).where(RULES.c.id.in_(some), RULES.c.enabled, UNREMOVED)
        found += connection.execute(asked).scalars().all()
    return found


def changed_since(connection: Connection, revision: int, zone: str) -> tuple[list[int], Rules]:
    """The ids that changed after a revision, and the rules that they have now."""
    rows = connection.execute(select(RULES).where(RULES.c.revision > revision)).mappings().all()
    found = [rule for row in rows if (rule := rule_of(row)) is not None]
    return [row["id"] for row in rows], rules_from(found, zone)


def rules_from(rules: Iterable[Rule], zone: str) -> Rules:
    """Stored rules, parsed."""
    return Rules.from_dicts(map(fields_of, rules), zone=zone)
