"""Publishing a book: what changed since a version that it published before goes on top of that version.

A version is found again by the digest of its snapshot, which the book keeps with the number of the last change that
is in it. So it does not matter where a directory was moved or copied to, nor who else publishes there, nor whether
the book was restored from a backup: a version that this book has no record of is never built upon.
"""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, delete, insert, select

from fencepost._files.storage import Place, modified, touch
from fencepost.book.changes import rule_of
from fencepost.book.database import Database
from fencepost.book.tables import BOOK, PUBLISHED, RULES
from fencepost.errors import FencepostError
from fencepost.ordinals.schema import read_schema
from fencepost.published import VersionDirectory
from fencepost.rules import Rule, Rules
from fencepost.rules.options import fields_of
from fencepost.rules.rule import microseconds_of
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


class Publisher:
    """Publishes a book."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: _Kept | None = None

    def publish(
        self,
        directory: str | PathLike[str],
        schema: Any,
        keep: timedelta,
        all_rules: Callable[[Connection], Rules],
        shards: int | None = None,
    ) -> int:
        """See RuleBook.publish."""
        versions = VersionDirectory(directory)
        made: list[tuple[Snapshot, int]] = []

        def compile_version(number: int) -> Snapshot:
            # Read after the number was taken: a version with a greater number then never knows less.
            with self._database.reading() as connection:
                revision = connection.execute(select(BOOK.c.revision)).scalar_one()
                base = self._base(connection, versions, schema)
                if base is None:
                    bound = versions.schema() if schema is None else schema
                    snapshot = all_rules(connection).compile(bound, number)
                else:
                    snapshot = self._changed(connection, versions, base, number)
            made.append((snapshot, revision))
            return snapshot

        fixed = None if schema is None else read_schema(schema).as_texts()
        number = versions.publish(compile_version, fixed, shards)
        snapshot, revision = made[0]
        self._kept = _Kept(versions.path.absolute(), versions.digest(number), snapshot)
        self._record(self._kept.digest, revision, keep)
        _collect(versions, keep)
        return number

    def _base(self, connection: Connection, versions: VersionDirectory, schema: Any) -> _Version | None:
        """The newest version of the directory that this book published, if its columns have the types asked for."""
        fixed = versions.schema()
        if fixed is None or (schema is not None and read_schema(schema).types != read_schema(fixed).types):
            return None
        for number in islice(versions.newest_first(), _LOOKED_AT):
            digest = versions.digest(number)
            revision = connection.execute(select(PUBLISHED.c.revision).where(PUBLISHED.c.digest == digest)).scalar()
            if revision is not None:
                return _Version(number, digest, revision)
        return None

    def _changed(self, connection: Connection, versions: VersionDirectory, base: _Version, number: int) -> Snapshot:
        """A version with everything that changed since it."""
        kept = self._kept
        if kept is not None and kept[:2] == (versions.path.absolute(), base.digest):
            before = kept.snapshot
        else:
            before = versions.load(base.number)
        rows = connection.execute(select(RULES).where(RULES.c.revision > base.revision)).mappings().all()
        if not rows:
            return before.with_version(number)
        ids = [row["id"] for row in rows]
        changed = rules_from([rule for row in rows if (rule := rule_of(row)) is not None])
        paused = {id: version for id, version in before.paused.items() if id not in set(ids)} | changed.paused()
        columns = changed.columns(versions.schema())
        return before.changed(np.array(sorted(ids), np.int64), columns, paused, number)

    def _record(self, digest: str, revision: int, keep: timedelta) -> None:
        now = microseconds_of(datetime.now(UTC))
        is_old = PUBLISHED.c.at < now - keep // _MICROSECOND
        try:
            with self._database.recording() as connection:
                connection.execute(delete(PUBLISHED).where(is_old | (PUBLISHED.c.digest == digest)))
                connection.execute(insert(PUBLISHED).values(digest=digest, revision=revision, at=now))
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


def rules_from(rules: Iterable[Rule]) -> Rules:
    """Stored rules, parsed."""
    return Rules.from_dicts(map(fields_of, rules))
