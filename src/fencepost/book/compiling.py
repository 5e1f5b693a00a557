"""A book compiled: all of its rules as a snapshot, which is kept for the next command of this user.

What is kept names the last change of the book that is in it, with a digest of that change. It is used only where the
book has that very change: as it is where that is the last one, else with what changed since compiled on top of it. So
another book at the same address, or one that was restored from a backup and went on differently, is never taken for
the one that was compiled.
"""

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sqlalchemy import ColumnElement, Connection, Select, Table, func, or_, select

from fencepost._files.kept import find_kept, forget, keep, read_kept
from fencepost._version import __version__
from fencepost.book.database import Database
from fencepost.book.storing import Progress, chunks
from fencepost.book.tables import PAST, RULES, UNREMOVED
from fencepost.errors import FencepostError
from fencepost.language import Binder, ColumnKind, ColumnType
from fencepost.ordinals import KEY, AttributeType
from fencepost.ordinals.schema import read_schema
from fencepost.rules import Rule
from fencepost.rules.compile import StoredRules, text_fields, types_agree
from fencepost.rules.faults import FaultyRules, FindFaults
from fencepost.rules.table_blocks import RuleFields
from fencepost.rules.types import REMEDY
from fencepost.snapshot import NEVER, Snapshot, detect_flags
from fencepost.snapshot.saving import note_of

_FORMAT = 1
"""Of what is kept: another one is another owner."""
_WORTH_KEEPING = 1_000
"""Rules below which parsing costs less than looking for what is kept."""
_COMPILED_ALONE = 8
"""A change of at most one rule in so many is compiled alone, on top of what is kept."""
_KEPT_ANEW = 100
"""After a change of more than one rule in so many, the outcome is kept in place of what was."""
_READ_AT_ONCE = 20_000

_Uses = Counter[tuple[str, ColumnKind]]


class CompiledBook(NamedTuple):
    """The rules of a book, bound to types and indexed."""

    snapshot: Snapshot
    faulty: FaultyRules
    """Those that could not be bound: not in force."""

    def refuse_faults(self) -> None:
        """Raise all faults at once, if there are any."""
        self.faulty.refuse(len(self.snapshot) + len(self.faulty.found), REMEDY)


class _Change(NamedTuple):
    """The last change of a book, as one of its rows has it."""

    revision: int
    id: int
    digest: str


class _Kept(NamedTuple):
    """What a file says of the snapshot in it."""

    file: Path
    change: _Change
    given: dict[str, str] | None
    """The columns that rules were bound to, None for the types that they suggest."""
    infer: bool
    """Whether columns that were not given got the types that rules suggest."""
    bound: dict[str, tuple[str, str, bool]]
    """Of columns as conditions name them: name, type, and whether that was given."""
    uses: _Uses
    has_bands: bool
    faulty: dict[int, str]
    total: int
    """How many rules are enabled."""

    def load(self) -> Snapshot | None:
        """The snapshot; None where the file is gone, or damaged, and then it goes."""
        memory = read_kept(self.file)
        try:
            return None if memory is None else Snapshot.from_bytes(memory.data)
        except FencepostError:
            forget(self.file)
            return None


class _Binding(NamedTuple):
    """What rules are to be bound to."""

    schema: Any
    given: dict[str, str] | None
    types: Mapping[str, ColumnType]
    infer: bool

    @classmethod
    def of(cls, schema: Any, infer: bool) -> "_Binding":
        """The columns of a schema, those that no rule can use among them."""
        if schema is None:
            return cls(None, None, {}, False)
        read = read_schema(schema)
        unusable = {name: f"unusable: {error}" for name, error in read.unusable.items()}
        return cls(schema, {**read.as_texts(), **unusable}, read.types, infer)

    @property
    def key(self) -> str:
        """Under which it is kept."""
        return _digest([self.given, self.infer])

    def fits(self, kept: _Kept) -> bool:
        """Whether a book that was bound like this would be what is kept."""
        if (kept.given, kept.infer) == (self.given, self.infer):
            return True
        if self.given is None or kept.faulty or kept.has_bands:
            return False
        types = dict(self.types)
        if self.infer:
            lower = {name.lower() for name in self.given}
            suggested = ((name, type_) for name, type_, was_given in kept.bound.values() if not was_given)
            types |= {name: _type_of(type_) for name, type_ in suggested if name.lower() not in lower}
        return kept.bound == _bound(kept.uses, types, kept.bound)


def _type_of(text: str) -> ColumnType:
    return KEY if text == KEY else AttributeType.parse(text)


def _bound(
    uses: _Uses, types: Mapping[str, ColumnType], before: Mapping[str, tuple[str, str, bool]]
) -> dict[str, tuple[str, str, bool]] | None:
    """The name and type of each column that conditions use; None where one has none."""
    binder, found = Binder(types), {}
    for column, _ in uses:
        try:
            name, type_ = binder.find(column)
        except FencepostError:
            return None
        found[column] = (name, str(type_), before[column][2] if column in before else False)
    return found


class BookCompiler:
    """Compiles a book, or finds it compiled.

    Args:
        database: of the book.
        zone: that timestamps without one are read in.
    """

    def __init__(self, database: Database, zone: str) -> None:
        self._database, self._zone = database, zone
        self._parsed: tuple[_Change | None, RuleFields, StoredRules] | None = None
        """What was parsed to find out kinds, for whoever compiles it next."""

    def compile(self, connection: Connection, schema: Any, progress: Progress, *, infer: bool = False) -> CompiledBook:
        """All enabled rules, of which faulty ones are left out.

        Args:
            connection: one view of the book.
            schema: as in `Rules.compile`.
            progress: called where rules are read and parsed.
            infer: give columns that the schema lacks the types that the rules suggest.
        """
        binding, change = _Binding.of(schema, infer), _last_change(connection)
        for kept in self._find(binding):
            if kept.change == change and (snapshot := kept.load()) is not None:
                return CompiledBook(snapshot, _faulty(kept.faulty))
        made = self._compile_onto_kept(connection, binding, change)
        return self._compile_all(connection, binding, change, progress) if made is None else made

    def check(
        self, connection: Connection, schema: Any, progress: Progress, unusable: FindFaults | None = None
    ) -> None:
        """Refuse a book with rules that cannot be bound to a schema, or that are `unusable` once they are compiled.

        Of what is kept, only the faults are read: a schema binds each rule by itself, so of a book that has changed
        since, the changed rules are bound and no others. All are compiled where the others are to be looked at, too.
        """
        if unusable is not None:
            made = self.compile(connection, schema, progress)
            made._replace(snapshot=made.faulty.leave_out(made.snapshot, unusable)).refuse_faults()
            return
        binding, change = _Binding.of(schema, infer=False), _last_change(connection)
        for kept in self._find(binding):
            if kept.change == change:
                _faulty(kept.faulty).refuse(kept.total, REMEDY)
                return
        for kept in () if binding.given is None else self._before(connection, change, binding):
            changed = set(changed_ids(connection, kept.change.revision).tolist())
            stored = StoredRules(*read_columns(connection, since=kept.change.revision), self._zone)
            faulty = _faulty({id: reason for id, reason in kept.faulty.items() if id not in changed})
            stored.compile(binding.schema, faulty)
            if faulty.found:
                faulty.refuse(_count_enabled(connection), REMEDY)
            return
        self.compile(connection, schema, progress).refuse_faults()

    def kinds(self, connection: Connection, progress: Progress) -> dict[str, ColumnKind]:
        """Every column that enabled rules use, with the kind of value it is compared with; bands aside."""
        change = _last_change(connection)
        uses = next((kept.uses for kept in self._find() if kept.change == change), None)
        for kept in () if uses is not None else self._before(connection, change):
            if (snapshot := kept.load()) is not None:
                fields, conditions = read_columns(connection, since=kept.change.revision)
                changed = StoredRules(fields, conditions, self._zone)
                ids = changed_ids(connection, kept.change.revision)
                uses = kept.uses - self._uses_of(snapshot, ids) + changed.uses
                break
        if uses is None:
            fields, parsed = self._parse(connection, progress)
            self._parsed, uses = (change, fields, parsed), parsed.uses
        return dict(sorted(uses))

    # -- kept ----------------------------------------------------------------------------------------------

    @property
    def _owner(self) -> str:
        return _digest([self._database.identity, self._zone, __version__, _FORMAT])

    def _find(self, binding: _Binding | None = None) -> Iterator[_Kept]:
        """What is kept of this book, perhaps of another change; of those, what has that binding."""
        for file in find_kept(self._owner):
            memory = read_kept(file, use=False)
            if memory is None:
                continue
            try:
                kept = _read_note(file, note_of(memory.data))
            except (FencepostError, ValueError, TypeError, KeyError, AttributeError):
                forget(file)
                continue
            if binding is None or binding.fits(kept):
                yield kept

    def _before(
        self, connection: Connection, change: _Change | None, binding: _Binding | None = None
    ) -> Iterator[_Kept]:
        """What is kept of earlier changes of this book, few before the last one."""
        for kept in self._find(binding):
            if change is None or not _has_change(connection, kept.change):
                continue
            since = select(func.count()).select_from(RULES).where(RULES.c.revision > kept.change.revision)
            if connection.execute(since).scalar_one() * _COMPILED_ALONE <= kept.total:
                yield kept

    def _keep(
        self, binding: _Binding, change: _Change | None, snapshot: Snapshot, uses: _Uses, faulty: FaultyRules
    ) -> None:
        total = len(snapshot) + len(faulty.found)
        if change is None or total < _WORTH_KEEPING:
            return
        suggested = {name: _type_of(text) for name, text in snapshot.columns.items() if name not in binding.types}
        bound = _bound(uses, {**suggested, **binding.types}, {}) or {}
        note = {
            "change": change,
            "given": binding.given,
            "infer": binding.infer,
            "bound": {column: (name, type_, name in binding.types) for column, (name, type_, _) in bound.items()},
            "uses": [(column, kind, times) for (column, kind), times in uses.items()],
            "bands": snapshot.bands is not None,
            "faulty": {str(id): reason for id, reason in faulty.found.items()},
            "total": total,
        }
        keep(self._owner, binding.key, snapshot.to_bytes(note))

    # -- compiling -----------------------------------------------------------------------------------------

    def _parse(self, connection: Connection, progress: Progress) -> tuple[RuleFields, StoredRules]:
        fields, conditions = read_columns(connection, progress)
        return fields, StoredRules(fields, conditions, self._zone, progress)

    def _compile_all(
        self, connection: Connection, binding: _Binding, change: _Change | None, progress: Progress
    ) -> CompiledBook:
        parsed, self._parsed = self._parsed, None
        if parsed is not None and parsed[0] == change:
            _, fields, stored = parsed
        else:
            fields, stored = self._parse(connection, progress)
        faulty = FaultyRules()
        columns = stored.compile(binding.schema, faulty, binding.infer)
        progress("indexing", 0, stored.total)
        snapshot = Snapshot.compile(columns, paused_of(fields, faulty), 0, self._zone)
        progress("indexing", stored.total, stored.total)
        self._keep(binding, change, snapshot, stored.uses, faulty)
        return CompiledBook(snapshot, faulty)

    def _compile_onto_kept(
        self, connection: Connection, binding: _Binding, change: _Change | None
    ) -> CompiledBook | None:
        """What is kept with what changed since; None where all has to be compiled."""
        for kept in self._before(connection, change, binding):
            if (before := kept.load()) is None:
                continue
            revision = kept.change.revision
            ids = np.union1d(changed_ids(connection, revision), np.array([*kept.faulty], np.int64))
            fields, conditions = read_columns(connection, since=revision, also=kept.faulty)
            stored, faulty = StoredRules(fields, conditions, self._zone), FaultyRules()
            columns = stored.compile(binding.schema, faulty, binding.infer, before.expressions_without(ids))
            if (binding.given is None or binding.infer) and not types_agree(columns, before):
                continue
            snapshot = before.changed(ids, columns, without(before.paused, ids) | paused_of(fields, faulty))
            if len(ids) * _KEPT_ANEW > len(snapshot):
                uses = kept.uses - self._uses_of(before, ids) + stored.uses
                self._keep(binding, change, snapshot, uses, faulty)
            return CompiledBook(snapshot, faulty)
        return None

    def _uses_of(self, snapshot: Snapshot, ids: Any) -> _Uses:
        """What the rules in force with these ids use."""
        rows = snapshot.rows_of(ids)
        rows = rows[rows >= 0]
        texts = snapshot.rules.conditions.take(pa.array(rows))
        texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        fields = text_fields([Rule(id, "") for id in snapshot.rules.ids[rows].tolist()])
        return StoredRules(fields, texts, self._zone).uses


def _read_note(file: Path, note: Any) -> _Kept:
    return _Kept(
        file,
        _Change(*note["change"]),
        note["given"],
        note["infer"],
        {column: (name, type_, given) for column, (name, type_, given) in note["bound"].items()},
        Counter({(column, kind): times for column, kind, times in note["uses"]}),
        note["bands"],
        {int(id): reason for id, reason in note["faulty"].items()},
        note["total"],
    )


def _faulty(found: Mapping[int, str]) -> FaultyRules:
    faulty = FaultyRules()
    faulty.found.update(found)
    return faulty


def paused_of(fields: RuleFields, faulty: FaultyRules | None) -> dict[int, int]:
    """The versions of rules that are not enabled, or faulty, by id."""
    paused = ~fields.enabled
    if faulty is not None and faulty.found:
        paused |= np.isin(fields.ids, np.array(list(faulty.found), np.int64))
    rows = np.flatnonzero(paused)
    return dict(zip(fields.ids[rows].tolist(), fields.versions[rows].tolist(), strict=True))


def without(paused: Mapping[int, int], ids: Any) -> dict[int, int]:
    """The versions of paused rules, but for some ids."""
    gone = {*ids.tolist()}
    return {id: version for id, version in paused.items() if id not in gone}


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).hexdigest()


def _last_change(connection: Connection) -> _Change | None:
    """The last change of a book; None where nothing ever changed."""
    last = connection.execute(select(func.max(RULES.c.revision))).scalar()
    if last is None:
        return None
    id = connection.execute(select(func.min(RULES.c.id)).where(RULES.c.revision == last)).scalar_one()
    return _Change(last, id, _change_digest(connection, RULES, last, id) or "")


def _has_change(connection: Connection, change: _Change) -> bool:
    """Whether a book has a change, as it was."""
    found = (_change_digest(connection, table, change.revision, change.id) for table in (RULES, PAST))
    return any(digest == change.digest for digest in found)


def _change_digest(connection: Connection, table: Table, revision: int, id: int) -> str | None:
    columns = [column for column in table.c if column.name != "previous"]
    row = connection.execute(select(*columns).where(table.c.id == id, table.c.revision == revision)).first()
    return None if row is None else _digest([str(value) for value in row])


def _count_enabled(connection: Connection) -> int:
    enabled = select(func.count()).select_from(RULES).where(UNREMOVED, RULES.c.enabled)
    return int(connection.execute(enabled).scalar_one())


def changed_ids(connection: Connection, revision: int) -> Any:
    """The ids of all rules that changed after a revision, removed ones among them."""
    ids = connection.execute(select(RULES.c.id).where(RULES.c.revision > revision)).scalars().all()
    return np.array(sorted(ids), np.int64)


@contextmanager
def _no_collections() -> Iterator[None]:
    """No search for cycles meanwhile: among millions of plain rows there are none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _partitions(connection: Connection, asked: Select[Any]) -> Iterator[Sequence[Any]]:
    """The rows of an answer, some thousands at a time."""
    if connection.dialect.name != "sqlite":
        with connection.execute(asked, execution_options={"yield_per": _READ_AT_ONCE}) as answer:
            yield from answer.partitions(_READ_AT_ONCE)
        return
    # The driver's own rows, which SQLite makes one by one anyway: a million of them take half the time.
    with connection.execute(asked) as answer:
        while rows := answer.cursor.fetchmany(_READ_AT_ONCE):
            yield rows


def read_columns(
    connection: Connection, progress: Progress = lambda *_: None, since: int | None = None, also: Iterable[int] = ()
) -> tuple[RuleFields, Any]:
    """All rules of a book in the order of their ids, as columns: fields, and conditions.

    With `since`, only those that changed after a revision, and `also` those with these ids.
    """
    wanted: list[ColumnElement[bool]] = [UNREMOVED]
    if since is not None:
        named = [RULES.c.id.in_(some) for some in chunks(sorted(also))]
        wanted.append(or_(RULES.c.revision > since, *named))
    stored = (RULES.c.id, RULES.c.version, RULES.c.detect, RULES.c.initial, RULES.c.enabled, RULES.c.expires)
    texts = (RULES.c.labels, RULES.c.name, RULES.c.damping, RULES.c.condition)
    asked = select(*stored, *texts).where(*wanted).order_by(RULES.c.id)
    total = connection.execute(select(func.count()).select_from(RULES).where(*wanted)).scalar_one()
    parts: list[tuple[Any, ...]] = []
    done, text = 0, pa.large_string()
    flags: dict[str, int] = {}
    with _no_collections():
        for rows in _partitions(connection, asked):
            ids, versions, detects, initial, enabled, expires, *texts_of = zip(*rows, strict=True)
            labels, names, damping, conditions = texts_of
            flags |= {detect: detect_flags(detect) for detect in set(detects) - flags.keys()}
            ends = [NEVER if each is None else each for each in expires]
            fields = RuleFields(
                np.array(ids, np.int64),
                np.array(versions, np.int64),
                np.array([flags[detect] for detect in detects], np.uint8),
                np.array(initial, np.bool_),
                np.array(enabled, np.bool_),
                np.array(ends, np.int64),
                pa.array(labels, text),
                pa.array(names, text),
                pa.array(damping, text),
            )
            parts.append((*fields, pa.array(conditions, text)))
            done += len(rows)
            progress("reading", done, total)
    if not parts:
        return text_fields([]), pa.array([], text)
    joined = [
        pa.concat_arrays(each) if isinstance(each[0], pa.Array) else np.concatenate(each)
        for each in zip(*parts, strict=True)
    ]
    return RuleFields(*joined[:-1]), joined[-1]
