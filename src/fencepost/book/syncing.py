"""Mirroring a table in a book: what is new is added, what differs replaced, what is gone removed, in one change.

For every table that is mirrored, an *origin*, the book keeps the ids of its rules and a digest of what the table said
of each, as arrays (`MirroredRules`). So a table of a million rules is compared with them at once, and only what
differs is written as a condition, compared with the stored rule, and stored. What others did to these rules since is
found by the revision of their change: such a rule is compared whatever its digest says.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection, RowMapping, delete, insert, inspect, select, update

from fencepost._text import count
from fencepost.book.changes import Stamp, change_row, check_texts, rule_of, stamp_now
from fencepost.book.database import Database, Locked
from fencepost.book.importing import refuse_taken
from fencepost.book.incoming import IncomingTable
from fencepost.book.storing import Progress, Synced, chunks, number_names, put, stored_rows
from fencepost.book.tables import MIRRORED, ORIGINS, REMOVED, RULES
from fencepost.errors import FencepostError, call_rule
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.rules import Rule
from fencepost.rules.faults import Faults
from fencepost.rules.row_digests import SIZE, digest_texts

REMOVE_AT_MOST = "10%"
_ALWAYS_REMOVED = 10
"""So many rules may go by default, also where they are more than that share of a few."""
_SHOWN = 20
_ON_A_PAGE = 65_536
_ROW = np.dtype([("id", "<i8"), ("digest", "u1", SIZE)])
_NAMED_ROW = np.dtype([("id", "<i8"), ("digest", "u1", SIZE), ("name", "u1", SIZE)])


class MirroredRules(NamedTuple):
    """What is known of the rules of an origin, in the order of their ids."""

    revision: int
    """The last change that was compared with the table."""
    ids: Int64s
    digests: UInt8s
    names: UInt8s | None = None
    """Digests of the names, where the table has these in place of ids."""

    def take(self, rows: Any) -> "MirroredRules":
        """Some of them, or all in another order."""
        names = None if self.names is None else self.names[rows]
        return MirroredRules(self.revision, self.ids[rows], self.digests[rows], names)


class RemovalLimit(NamedTuple):
    """How many rules a table may take away at once."""

    share: float
    at_least: int
    text: str

    def allows(self, removed: int, of: int, *, is_empty: bool) -> bool:
        """Whether so many may go; by default an empty table removes no rule at all."""
        if is_empty and removed and self.text == REMOVE_AT_MOST:
            return False
        return removed <= max(self.at_least, int(self.share * of))


def read_limit(given: str | int | None) -> RemovalLimit:
    """A limit such as "10%" or 50; None for the usual one.

    >>> read_limit("25%").allows(25, 100, is_empty=False), read_limit(24).allows(25, 100, is_empty=False)
    (True, False)
    """
    if given is None:
        return RemovalLimit(float(REMOVE_AT_MOST[:-1]) / 100, _ALWAYS_REMOVED, REMOVE_AT_MOST)
    text = str(given).strip()
    try:
        if text.endswith("%") and 0 <= float(text[:-1]) <= 100:
            return RemovalLimit(float(text[:-1]) / 100, 0, text)
        if int(text) >= 0 and not isinstance(given, bool):
            return RemovalLimit(0.0, int(text), text)
    except ValueError:
        pass
    raise FencepostError(
        f"{given!r} is no limit of removals", "a share such as 10%, or a number of rules", "Write 100% for no limit."
    )


def sync(
    database: Database,
    incoming: IncomingTable,
    origin: str,
    *,
    limit: RemovalLimit,
    adopt: bool,
    dry_run: bool,
    author: str,
    progress: Progress,
) -> Synced:
    """See RuleBook.sync."""
    check_texts("an origin", [origin])
    if not origin:
        raise FencepostError("origin=''", "a name for the table", "Name it, so that its rules are known again.")
    digests = incoming.digests()
    if dry_run:
        with database.reading() as connection:
            known = None
            if database.has_table(connection, ORIGINS):
                known = load_mirrored(connection, origin)
            return _Sync(connection, incoming, digests, known, limit, adopt, progress).run(None)
    with database.locked() as book:
        for table in (ORIGINS, MIRRORED):
            database.ensure_table(book.connection, table)
        known = load_mirrored(book.connection, origin)
        made = _Sync(book.connection, incoming, digests, known, limit, adopt, progress)
        synced = made.run(_Writer(book, author))
        made.save(origin, book.last)
    return synced


def load_mirrored(connection: Connection, origin: str) -> MirroredRules | None:
    """What is known of the rules of an origin; None where it is new."""
    found = connection.execute(select(ORIGINS.c.revision, ORIGINS.c.rules).where(ORIGINS.c.origin == origin)).first()
    if found is None:
        return None
    pages = select(MIRRORED.c.content).where(MIRRORED.c.origin == origin).order_by(MIRRORED.c.page)
    content = b"".join(connection.execute(pages).scalars())
    rows = _NAMED_ROW if len(content) == found.rules * _NAMED_ROW.itemsize and content else _ROW
    if len(content) != found.rules * rows.itemsize:
        raise FencepostError(
            f"the list of rules of {origin} is damaged",
            f"{found.rules:,} rules",
            "Restore the book from its last backup, or mirror the table under another origin with --adopt.",
        )
    read = np.frombuffer(content, rows)
    columns = [np.ascontiguousarray(read[name]) for name in rows.names or ()]
    return MirroredRules(found.revision, *columns)


def save_mirrored(connection: Connection, origin: str, now: MirroredRules, before: MirroredRules | None) -> None:
    """Store what is known of the rules of an origin; pages that are the same are left alone."""
    header = {"revision": now.revision, "rules": len(now.ids)}
    if before is None:
        connection.execute(insert(ORIGINS).values(origin=origin, **header))
    else:
        connection.execute(update(ORIGINS).where(ORIGINS.c.origin == origin).values(**header))
    pages, old = _pages(now), [] if before is None else _pages(before)
    for number, content in enumerate(pages):
        row = {"origin": origin, "page": number, "content": content}
        if number >= len(old):
            connection.execute(insert(MIRRORED).values(**row))
        elif content != old[number]:
            there = (MIRRORED.c.origin == origin) & (MIRRORED.c.page == number)
            connection.execute(update(MIRRORED).where(there).values(content=content))
    if len(pages) < len(old):
        connection.execute(delete(MIRRORED).where(MIRRORED.c.origin == origin, MIRRORED.c.page >= len(pages)))


def _pages(mirrored: MirroredRules) -> list[bytes]:
    rows = np.empty(len(mirrored.ids), _ROW if mirrored.names is None else _NAMED_ROW)
    rows["id"], rows["digest"] = mirrored.ids, mirrored.digests
    if mirrored.names is not None:
        rows["name"] = mirrored.names
    return [rows[start : start + _ON_A_PAGE].tobytes() for start in range(0, len(rows), _ON_A_PAGE)]


class _Writer:
    """Stores changes as one change of the book, which begins with the first of them."""

    def __init__(self, book: Locked, author: str) -> None:
        self._book, self._author = book, author
        self._stamps: dict[str, Stamp] = {}
        self.revision: int | None = None

    def put(self, changes: list[tuple[str, Rule, RowMapping | None]]) -> None:
        if not changes:
            return
        if self.revision is None:
            self.revision = self._book.begin_change().revision
            for action in ("added", "replaced", "removed"):
                self._stamps[action] = stamp_now(self.revision, action, self._author)
        rows = [
            change_row(rule, self._stamps[action], None if last is None else last["revision"])
            for action, rule, last in changes
        ]
        put(self._book.connection, rows)


class _Sync:
    """One comparison of a table with a book."""

    def __init__(
        self,
        connection: Connection,
        incoming: IncomingTable,
        digests: UInt8s,
        known: MirroredRules | None,
        limit: RemovalLimit,
        adopt: bool,
        progress: Progress,
    ) -> None:
        self._connection, self._incoming, self._known = connection, incoming, known
        self._limit, self._adopt, self._progress = limit, adopt, progress
        names = None
        if incoming.is_by_name:
            names = digest_texts(incoming.names)
            incoming.number(self._number(names))
        self._now, self._order = MirroredRules(0, incoming.ids, digests, names), np.arange(incoming.count)
        if not (incoming.ids[1:] > incoming.ids[:-1]).all():
            self._order = np.argsort(incoming.ids, kind="stable")
            self._now = self._now.take(self._order)
        self._named: dict[str, int] = {}
        self._adopted: list[int] = []
        self._others: dict[str, Int64s] | None = None

    def _number(self, names: UInt8s) -> Int64s:
        """The ids of names: those that are known, and what the book says of the others."""
        known = self._known
        ids = np.full(len(names), -1, np.int64)
        is_new = np.ones(len(names), np.bool_)
        if known is not None and known.names is not None:
            places = _places_in(_as_binary(known.names), _as_binary(names))
            is_new = places < 0
            ids[~is_new] = known.ids[places[~is_new]]
        new = self._incoming.names.filter(pa.array(is_new)).to_pylist()
        ids[is_new] = number_names(self._connection, new)
        return ids

    def run(self, writer: _Writer | None) -> Synced:
        """Compare, and store what differs; without a writer nothing is stored."""
        ids = self._now.ids
        known = MirroredRules(0, ids[:0], self._now.digests[:0]) if self._known is None else self._known
        touched, ended = self._touched_since(known)
        if np.array_equal(known.ids, ids):  # as between most syncs
            places, is_known = np.arange(len(ids)), np.ones(len(ids), np.bool_)
            differs = _differ(known.digests, self._now.digests)
        else:
            places = _places_in(pa.array(known.ids), pa.array(ids))
            is_known = places >= 0
            differs = ~is_known
            differs[is_known] = _differ(known.digests[places[is_known]], self._now.digests[is_known])
        self.is_same = not differs.any() and len(known.ids) == len(ids)
        if len(touched):
            differs |= np.isin(ids, touched)
        is_gone = np.ones(len(known.ids), np.bool_)
        is_gone[places[is_known]] = False
        gone = known.ids[is_gone]
        gone = gone[~np.isin(gone, ended)] if len(ended) else gone
        self._check_limit(len(gone), int((~np.isin(known.ids, ended)).sum()))
        counts = {"added": 0, "replaced": 0, "removed": 0}
        examples: list[tuple[str, int, str]] = []
        for changes in chain(self._differences(differs, is_known), self._removals(gone)):
            for action, rule, _ in changes:
                counts[action] += 1
                if len(examples) < _SHOWN:
                    examples.append((action, rule.id, str(rule.condition)))
            if writer is not None:
                writer.put(changes)
        if writer is not None:
            refuse_taken(self._connection, self._named, self._incoming.count, "row")
        unchanged = len(ids) - counts["added"] - counts["replaced"]
        return Synced(
            **counts,
            unchanged=unchanged,
            revision=None if writer is None else writer.revision,
            examples=tuple(examples),
        )

    def save(self, origin: str, revision: int) -> None:
        """Remember what the table said, after all was stored."""
        if self._adopted:
            others = select(ORIGINS.c.origin).where(ORIGINS.c.origin != origin)
            for other in self._connection.execute(others).scalars().all():
                self._take_from(other)
        before = self._known
        if before is None or not self.is_same:
            save_mirrored(self._connection, origin, self._now._replace(revision=revision), before)
        elif before.revision != revision:
            self._connection.execute(update(ORIGINS).where(ORIGINS.c.origin == origin).values(revision=revision))

    def _take_from(self, other: str) -> None:
        before = load_mirrored(self._connection, other)
        assert before is not None
        stays = ~np.isin(before.ids, np.array(self._adopted, np.int64))
        if not stays.all():
            save_mirrored(self._connection, other, before.take(stays), before)

    def _touched_since(self, known: MirroredRules) -> tuple[Int64s, Int64s]:
        """The rules that were changed since the last comparison, and those of them that are no longer there."""
        if self._known is None:
            return known.ids[:0], known.ids[:0]
        since = select(RULES.c.id, RULES.c.action).where(RULES.c.revision > known.revision)
        rows = self._connection.execute(since).all()
        touched = np.array([row.id for row in rows], np.int64)
        return touched, np.array([row.id for row in rows if row.action in REMOVED], np.int64)

    def _check_limit(self, removed: int, of: int) -> None:
        if not self._limit.allows(removed, of, is_empty=not self._incoming.count):
            got = f"the table has {count(self._incoming.count, 'row')}, and {removed:,} of {count(of, 'rule')} would go"
            raise FencepostError(
                got,
                f"at most {self._limit.text} to be removed",
                "If the table is whole, say how many may go: --remove-at-most 100% (remove_at_most='100%').",
            )

    def _differences(self, differs: Bools, is_known: Bools) -> Iterator[list[tuple[str, Rule, RowMapping | None]]]:
        """What is to be added and replaced, some at a time."""
        positions = np.flatnonzero(differs)
        rows, faults, done = self._order[positions], Faults("row"), 0
        mine = is_known[positions].tolist()
        for some in chunks(zip(self._incoming.rules(rows), mine, rows.tolist(), strict=True)):
            stored = stored_rows(self._connection, [rule.id for rule, *_ in some])
            changes: list[tuple[str, Rule, RowMapping | None]] = []
            for rule, is_mine, row in some:
                if rule.name is not None:
                    self._named[rule.name] = row
                last = stored.get(rule.id)
                now = None if last is None else rule_of(last)
                if now is not None and not is_mine and not self._adopt:
                    made = self._made_from(rule.id)
                    called = call_rule(rule.id, rule.name)
                    faults.add(row, f"rule {called} is in the book, and was not made from this table{made}")
                    continue
                if last is not None:
                    rule = replace(rule, version=last["version"] + 1)
                    if not is_mine:  # perhaps it was made from another table, and removed by hand
                        self._adopted.append(rule.id)
                if now is None:
                    changes.append(("added", rule, last))
                    continue
                if not self._incoming.says_enabled:
                    rule = replace(rule, enabled=now.enabled)
                if replace(rule, version=now.version) != now:
                    changes.append(("replaced", rule, last))
            done += len(some)
            self._progress("storing", done, len(rows))
            yield changes
        faults.raise_if_any(
            self._incoming.count,
            "Take them over with --adopt (adopt=True), call the table as before with --origin (origin=), or give them "
            "other ids; no rule was changed.",
        )

    def _made_from(self, id: int) -> str:
        """Which other table a rule was made from, in words; none if somebody wrote it."""
        if self._others is None:
            has_any = inspect(self._connection).has_table(ORIGINS.name)
            origins = self._connection.execute(select(ORIGINS.c.origin)).scalars().all() if has_any else []
            loaded = {origin: load_mirrored(self._connection, origin) for origin in origins}
            self._others = {origin: each.ids for origin, each in loaded.items() if each is not None}
        for origin, ids in self._others.items():
            place = int(np.searchsorted(ids, id))
            if place < len(ids) and ids[place] == id:
                return f", but from {origin}"
        return ""

    def _removals(self, gone: Int64s) -> Iterator[list[tuple[str, Rule, RowMapping | None]]]:
        for some in chunks(gone.tolist()):
            stored = stored_rows(self._connection, some)
            found = ((rule_of(stored[id]), stored[id]) for id in some if id in stored)
            yield [("removed", rule, last) for rule, last in found if rule is not None]


def _places_in(known: Any, asked: Any) -> Int64s:
    """The place of each value among known ones, -1 where it is none of them."""
    found = pc.index_in(asked, value_set=known)
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)


def _differ(digests: UInt8s, others: UInt8s) -> Bools:
    """Which rows have other digests; a digest is two words."""
    mine, theirs = (np.ascontiguousarray(each).view(np.uint64) for each in (digests, others))
    differ: Bools = (mine[:, 0] != theirs[:, 0]) | (mine[:, 1] != theirs[:, 1])
    return differ


def _as_binary(digests: UInt8s) -> Any:
    content = pa.py_buffer(np.ascontiguousarray(digests))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(SIZE), len(digests), [None, content])
