"""A directory of published snapshots: versions 1, 2, ..., each written whole, then announced.

    schema.json          the columns and types of the first version; checksummed
    schema.0001.json     columns that were added later, and so on; no column ever gets another type
    00000001.claim       someone is writing, or was killed while writing, version 1
    used/00000001        numbers up to 1 are never claimed again, though their claims were collected
    00000001/            the snapshot itself
    00000001.published   version 1 is complete; its content repeats the snapshot's digest
    parts/               the same in shards, where the first publisher asked for them
    00000001.HOLDER.lease   someone needs version 1; kept fresh by its holder
    collected            when old versions were last collected by a rule book
    markers/             say to streams which versions are there, and which time has come

Numbers are claimed and versions announced by creating a file that must not exist yet, so that any number of
publishers can work at once on anything that has exclusive creation. A version that was claimed and never announced
is skipped by readers.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Self

from fencepost._files.storage import (
    Place,
    create,
    delete,
    delete_tree,
    exists,
    make_directory,
    modified,
    names,
    place_of,
    put,
    read_text,
    refusing,
    touch,
)
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals.schema import described_columns, read_schema
from fencepost.published.markers import Markers
from fencepost.published.shards.plan import ShardPlan, check_shards, plan_shards, refuse_damped
from fencepost.published.shards.saved import Head, ShardDirectory
from fencepost.snapshot.columns import key_columns
from fencepost.snapshot.saving import in_force_among
from fencepost.snapshot.snapshot import Snapshot
from fencepost.snapshot.store import read_header, write_header

_DIGITS = 8
_SCHEMA = "schema.json"
_NUMBER = "[0-9]" * _DIGITS
_FRESH = timedelta(hours=1)


class VersionDirectory:
    """The versions that were published to one path.

    Args:
        path: a directory that every reader and writer can reach, or its URL; made if it does not exist.

    >>> import tempfile
    >>> versions = VersionDirectory(tempfile.mkdtemp())
    >>> versions.latest() is None
    True
    """

    def __init__(self, path: str | PathLike[str] | Place) -> None:
        self.path = place_of(path)

    def versions(self) -> list[int]:
        """The numbers of all complete versions, ascending."""
        return [number for number in self._announced() if self._complete(number)]

    def latest(self) -> int | None:
        """The newest version, or None; refused where it is damaged, since an older one would pass for it."""
        newest = next(self.newest_first(damaged=True), None)
        if newest is not None and not self._complete(newest):
            raise self._refused(newest)
        return newest

    def is_published(self) -> bool:
        """Whether there is any version, be it damaged: whoever publishes over it must not be refused."""
        return next(self.newest_first(damaged=True), None) is not None

    def newest_first(self, *, damaged: bool = False) -> Iterator[int]:
        """The numbers of all complete versions, descending; looked at as they are asked for.

        With those that are `damaged`: announced, but not as they were written.
        """
        for number in reversed(self._announced()):
            if self._complete(number) or (damaged and exists(self._announcement(number))):
                yield number

    def _refused(self, number: int) -> FencepostError:
        file = self._announcement(number)
        return FencepostError(
            f"version {number} of {self.path}, whose announcement or header is damaged",
            f"{file.name} and {self._named(number)}/header.json as they were written",
            f"Publish the rules again, restore the two files, or delete {file.name} to go back to the version before.",
        )

    @staticmethod
    def _named(number: int) -> str:
        return f"{number:0{_DIGITS}}"

    def _announced(self) -> list[int]:
        return self._numbers("published")

    def _numbers(self, ending: str) -> list[int]:
        """The versions that have a file with this ending, ascending."""
        return [int(name[:_DIGITS]) for name in names(self.path, f"{_NUMBER}.{ending}")]

    def load(self, version: int | None = None, verify: bool = True) -> Snapshot:
        """One version, the newest if none is named."""
        return Snapshot.load(self.path / self._name(self.latest() if version is None else version), verify)

    def _name(self, number: int | None) -> str:
        """The name of a version, which must be there."""
        if number is not None and not self._complete(number) and exists(self._announcement(number)):
            raise self._refused(number)
        if number is None or not self._complete(number):
            there = ", ".join(str(v) for v in self.versions()[-5:]) or "none"
            raise FencepostError(
                f"version {number} of {self.path}" if number is not None else f"{self.path} without any version",
                f"a published version (the last are: {there})",
                "Publish rules to the directory, or name a version that is there.",
            )
        return self._named(number)

    # -- shards -----------------------------------------------------------------------------------------

    def shards(self) -> ShardPlan | None:
        """How the rules are cut into shards; None where they are not."""
        return self._shards.plan()

    def shards_for(self, shards: int) -> ShardPlan:
        """The same, for a reader who wants so many shards; refuses any other number."""
        plan = self.shards()
        if plan is None:
            raise FencepostError(
                f"shards={shards} for {self.path}, which was published without",
                "a directory whose versions are written in shards",
                f"Publish the rules to a new directory with shards={shards}, or leave out shards.",
            )
        if plan.shards != shards:
            raise FencepostError(
                f"shards={shards} for {self.path}",
                f"shards={plan.shards}, with which it was published",
                f"Take shards={plan.shards}, or publish the rules to a new directory with shards={shards}.",
            )
        return plan

    @property
    def _shards(self) -> ShardDirectory:
        return ShardDirectory(self.path / "parts")

    def load_shard(self, version: int, shard: int) -> Snapshot:
        """One shard of a version."""
        return self._shards.load(self._name(version), shard)

    def head(self, version: int) -> Head:
        """What is to be known of a version with shards by those who do not load its rules."""
        return self._shards.head(self._name(version))

    def verify_shards(self, version: int, plan: ShardPlan) -> None:
        """Refuse a version of which some shard cannot be loaded; none is kept."""
        self._shards.check(self._name(version), plan)

    def in_force_among(self, version: int, ids: Int64s) -> Bools:
        """Which of these rules are in force in a version; reads nothing but its ids."""
        return in_force_among(self.path / self._name(version), ids)

    def _check_shards(self, shards: int | None) -> None:
        """Refuse a number of shards that the directory cannot have."""
        if shards is None:
            return
        fixed = self.shards()
        if fixed is None and check_shards(shards) and self._announced():
            raise FencepostError(
                f"shards={shards} for {self.path}, which was first published without",
                "a new directory, since its versions are read in shards from the first one on",
                "Publish to a new directory, or leave out shards.",
            )
        if fixed is not None and fixed.shards != shards:
            raise FencepostError(
                f"shards={shards} for {self.path}",
                f"shards={fixed.shards}, with which it was first published",
                f"Leave out shards, pass shards={fixed.shards}, or publish to a new directory.",
            )

    def _fixed_shards(self, snapshot: Snapshot, shards: int | None) -> ShardPlan | None:
        """How the version is to be cut: as the first one was, or else as it asks for itself."""
        fixed = self.shards()
        if shards is None or fixed is not None:
            return fixed
        keys = [name for name, kind in (self.schema() or {}).items() if kind == "key"]
        return self._shards.fix(plan_shards(snapshot, shards, keys))

    # -- publishing -------------------------------------------------------------------------------------

    def digest(self, version: int) -> str:
        """What tells this version's snapshot from every other one, wherever the directory is."""
        return read_header(self.path / self._named(version))[1]

    def schema(self) -> dict[str, str] | None:
        """Columns and types that versions may use, "key" for a column of strings; None before the first version."""
        parts = self._schema_parts()
        return {name: kind for part in parts for name, kind in part.items()} if parts else None

    def added_columns(self) -> frozenset[str]:
        """The columns that came after the first version: a stream that lacks one leaves the rules out that use it."""
        return frozenset(name for part in self._schema_parts()[1:] for name in part)

    def zone(self) -> str | None:
        """The time zone that timestamps without one are read in; None before the first version."""
        header = self._schema_header(0)
        return None if header is None else str(header.get("zone", "UTC"))

    def bound_schema(self, schema: Any = None) -> Any:
        """What the next version is bound to: the columns that are known, and those of a schema; None if there are none.

        Refuses a schema that gives a known column another type.
        """
        known = self.schema()
        if known is None or schema is None:
            return known if schema is None else schema
        extend_columns(known, read_schema(schema).as_texts(), str(self.path))
        return {**described_columns(schema), **known}

    def _schema_parts(self) -> list[dict[str, str]]:
        """The columns of the first version, then those that were added, in their order."""
        parts: list[dict[str, str]] = []
        while (part := self._schema_part(len(parts))) is not None:
            parts.append(part)
        return parts

    def _schema_part(self, number: int) -> dict[str, str] | None:
        """The columns that came first, or the so-manieth time; None where there are none yet."""
        header = self._schema_header(number)
        return None if header is None else dict(header["columns"])

    def _schema_header(self, number: int) -> dict[str, Any] | None:
        """What the file of these columns says; None where there is none yet."""
        name = _SCHEMA if number == 0 else f"schema.{number:04}.json"
        try:
            found = json.loads(read_text(self.path / name))
            # Directories that were first published before the checksum have nothing but the columns.
            if number or ("header" in found and not isinstance(found["header"], str)):
                header = dict(read_header(self.path, name)[0])
            else:
                header = {"columns": found}
            if not all(isinstance(kind, str) for kind in header["columns"].values()):
                raise ValueError("a type that is no text")
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, FencepostError):
            raise FencepostError(
                f"{self.path / name} is damaged",
                "the columns and types that rules were published with",
                "Restore the file from a backup, or publish the rules to a new directory.",
            ) from None
        return header

    def publish(
        self,
        compile_version: Callable[[int], Snapshot],
        schema: Mapping[str, str] | None = None,
        shards: int | None = None,
    ) -> int:
        """Write the next version and announce it; its number.

        Args:
            compile_version: makes the snapshot, given its number.
            schema: columns and types that the directory has from now on, if they are not only those of the first rules.
            shards: how many shards this and all later versions are written in, too; fixed by the first one.
        """
        with contextlib.nullcontext() if not isinstance(self.path, Path) else refusing(self.path):
            return self._publish(compile_version, schema, shards)

    def _publish(
        self, compile_version: Callable[[int], Snapshot], schema: Mapping[str, str] | None, shards: int | None
    ) -> int:
        self._check_shards(shards)
        make_directory(self.path)
        number = self._claim()
        snapshot = compile_version(number)
        if shards is not None or self.shards() is not None:
            refuse_damped(snapshot)
        used = {name: str(kind) for name, kind in snapshot.types.items()} | dict.fromkeys(snapshot.keys, "key")
        # What bands compare has no type in a snapshot: strings, unless somebody said otherwise.
        compared = key_columns(snapshot.bands) - set(self.schema() or {})
        self._put_columns({**dict.fromkeys(sorted(compared), "key"), **used}, schema or {}, snapshot.zone)
        plan = self._fixed_shards(snapshot, shards)
        with contextlib.ExitStack() as leases:
            shared = self._lease_layers(snapshot, number, leases)
            try:
                if plan is not None:
                    self._shards.save(self._named(number), snapshot, plan, shared=shared)
                snapshot.save(self.path / self._named(number), shared=shared)
                self._announce(number)
            except BaseException:
                self._delete(number)
                raise
        self.markers.mark_next(number, self._announced)
        return number

    def mark(self) -> None:
        """Mark every version that has no marker yet: a publisher may have died before it could."""
        self.markers.mark_versions(self._announced())

    def tick(self, time: datetime | int) -> None:
        """Mark for streams that a time has come: rules expire and silent objects time out, also without any row.

        Args:
            time: an instant, without a zone in UTC; or a number, where the time column is one.
        """
        self.markers.mark_time(time)

    @property
    def markers(self) -> Markers:
        """The markers, which streams follow."""
        return Markers(self.path / "markers")

    def _lease_layers(self, snapshot: Snapshot, number: int, leases: contextlib.ExitStack) -> bool:
        """Keep the versions whose layers the snapshot shares until it is announced; False if one is gone."""
        for layer in snapshot.layers:
            if layer.home is None or layer.home.path.parent != self.path.absolute():
                continue
            version = int(layer.home.path.name)
            try:
                leases.enter_context(self.lease(version, f"publisher of {number}"))
            except FencepostError:
                return False
            if not self._complete(version):  # it went between being found and being leased
                return False
        return True

    def lease(self, version: int, holder: str) -> "Lease":
        """Keep one version from being collected, until the lease is released or no longer renewed.

        Args:
            version: a published version.
            holder: who needs it, such as a query's id; a holder has one lease per version.
        """
        if not self._complete(version):
            raise FencepostError(
                f"a lease of version {version} of {self.path}", "a published version", "Take the latest() instead."
            )
        kept = Lease(self.path / f"{version:0{_DIGITS}}.{_plain(holder)}.lease")
        kept.renew()
        return kept

    def leased(self, fresh_for: timedelta = _FRESH) -> set[int]:
        """The versions that someone needs: those with a lease that was renewed lately."""
        oldest = time.time() - fresh_for.total_seconds()
        leases = names(self.path, f"{_NUMBER}.*.lease")
        return {int(name[:_DIGITS]) for name in leases if (modified(self.path / name) or 0) >= oldest}

    def collect(self, retention: timedelta, fresh_for: timedelta = _FRESH) -> list[int]:
        """Delete versions that are older than the retention, not leased and not the newest; their numbers.

        What publishers and readers left that died, or are done, goes too, once it is older than the retention and than
        a lease stays fresh.

        A version with layers that one that stays shares, stays too. The announcement goes first, so that nobody
        starts on a version that is being deleted.
        """
        versions, oldest = self.versions(), time.time() - retention.total_seconds()
        needed = self.leased(fresh_for).union(versions[-1:])
        needed |= {number for number in versions if (modified(self._announcement(number)) or 0) > oldest}
        for number in needed.intersection(versions):
            needed |= self._built_on(number)
        collected = []
        for number in versions:
            if number in needed:
                continue
            delete(self._announcement(number))
            if number in self.leased(fresh_for):
                self._announce(number)
                continue
            self._delete(number)
            collected.append(number)
        oldest = time.time() - max(retention, fresh_for).total_seconds()
        self._collect_leftovers(oldest, fresh_for)
        self._collect_claims(versions, oldest)
        return collected

    def _collect_leftovers(self, oldest: float, fresh_for: timedelta) -> None:
        """Delete what the dead have left behind since longer than anybody works on it, and what nobody looks at.

        That is: leases that are no longer renewed, drafts, versions that were never announced, and markers of what
        has gone.
        """
        for directory in (self.path, *(self.path / name for name in ("parts", "markers", "used"))):
            self._delete_old(directory, ".*", oldest)
        self._delete_old(self.path, f"{_NUMBER}.*.lease", oldest)
        announced = set(self._announced())
        kept = announced | self.leased(fresh_for)
        # The head of its shards is the first that is written of a version.
        for name in {*names(self.path, _NUMBER), *names(self.path / "parts" / "head", _NUMBER)}:
            written = max(modified(self._claim_file(int(name))) or 0, modified(self.path / name) or 0)
            if int(name) not in kept and written < oldest:
                self._delete(int(name))
        self.markers.collect(announced, oldest)

    def _collect_claims(self, announced: Sequence[int], oldest: float) -> None:
        """Delete the claims up to the newest version that publishers are done with; their numbers are not used again.

        Of the files that say so the last two stay, so that whoever lists them meanwhile finds one of them.
        """
        if announced and announced[-1] > self._newest_used():
            make_directory(self.path / "used")
            put(self.path / "used" / self._named(announced[-1]), "\n")
        for name in names(self.path / "used", _NUMBER)[:-2]:
            delete(self.path / "used" / name)
        used, done = self._newest_used(), set(announced)
        for number in self._numbers("claim"):
            if number <= used and (number in done or (modified(self._claim_file(number)) or oldest) < oldest):
                delete(self._claim_file(number))

    def _delete_old(self, directory: Place, pattern: str, oldest: float) -> None:
        """Delete the files of a directory that fit a pattern and were written before."""
        for name in names(directory, pattern):
            if (modified(directory / name) or oldest) < oldest:
                delete(directory / name)

    def _delete(self, number: int) -> None:
        """Delete a version that is not announced."""
        delete_tree(self.path / self._named(number))
        self._shards.delete(self._named(number))

    def _announce(self, number: int) -> None:
        try:
            create(self._announcement(number), _digest_of(self.path / self._named(number)) + "\n")
        except FileExistsError:
            if not self._complete(number):  # else a request was repeated on its way, or another collector was faster
                raise

    def _announcement(self, number: int) -> Place:
        return self.path / f"{number:0{_DIGITS}}.published"

    def _built_on(self, number: int) -> set[int]:
        """The versions whose layers one version shares."""
        header, _ = read_header(self.path / self._named(number))
        return {int(layer["in"]) for layer in header["layers"] if "in" in layer}

    def _claim(self) -> int:
        number = self._newest_claim() + 1
        while True:
            try:
                self._create_claim(number)
            except FileExistsError:
                number += 1
                continue
            self._check_exclusive(number)
            if number > self._newest_used():
                return number
            # The claim was collected while this publisher slept: the number was used before.
            delete(self._claim_file(number))
            number = self._newest_claim() + 1

    def _newest_claim(self) -> int:
        """The greatest number that was ever claimed, or 0; found without a look at all that is there.

        Numbers are claimed one after the other, and the claims above the newest used number stay.
        """
        used = self._newest_used()
        if not isinstance(self.path, Path):
            return max(used, *self._numbers("claim"), 0)
        low, high = used, used + 1
        while self._is_claimed(high):
            low, high = high, 2 * high - used
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_claimed(middle) else (low, middle)
        return low

    def _newest_used(self) -> int:
        """The number up to which claims may have been collected, or 0; it never falls."""
        return max((int(name) for name in names(self.path / "used", _NUMBER)), default=0)

    def _is_claimed(self, number: int) -> bool:
        return exists(self._claim_file(number))

    def _claim_file(self, number: int) -> Place:
        return self.path / f"{number:0{_DIGITS}}.claim"

    def _create_claim(self, number: int) -> None:
        create(self._claim_file(number), f"{os.getpid()}\n")

    def _check_exclusive(self, number: int) -> None:
        """Refuse a store that ignores the condition of a request: there, publishers would overwrite each other."""
        if isinstance(self.path, Path):
            return
        with contextlib.suppress(FileExistsError):
            self._create_claim(number)
            raise FencepostError(
                f"{self.path}, on a store that created a file a second time",
                "one that creates a file only if it is missing (conditional writes)",
                "Use a store that has conditional writes, or publish to a path.",
            )

    def _put_columns(self, used: Mapping[str, str], named: Mapping[str, str], zone: str) -> None:
        """Let the directory have the columns that a version uses and those that were named, and refuse another zone.

        The first version may bring any. Later ones may use only columns that are known or named, in their types.
        """
        try:
            columns = dict(sorted({**named, **used}.items()))
            write_header(self.path / _SCHEMA, {"columns": columns, **({} if zone == "UTC" else {"zone": zone})})
            return
        except FileExistsError:
            pass
        if self.zone() != zone:
            raise FencepostError(
                f"rules whose zone is {zone}",
                f"{self.zone()}, the zone of {self.path}",
                f"Give them the zone {self.zone()}, or publish to a new directory.",
            )
        while True:
            known = self.schema() or {}
            new = extend_columns(known, named, str(self.path))
            unknown = {name: kind for name, kind in used.items() if {**known, **new}.get(name) != kind}
            if unknown:
                name, kind = next(iter(unknown.items()))
                has = f"{name} is {known[name]} there" if name in known else f"it has {', '.join(known)}"
                raise FencepostError(
                    f"rules that need {name} as {kind}",
                    f"the columns that {self.path} was published with ({has})",
                    "Publish with schema= naming the new column; to give one another type, publish to a new directory.",
                )
            if not new:
                return
            try:
                place = self.path / f"schema.{len(self._schema_parts()):04}.json"
                write_header(place, {"columns": dict(sorted(new.items()))})
            except FileExistsError:  # another publisher has added columns meanwhile
                continue

    def _complete(self, number: int) -> bool:
        """Whether the announcement was written whole."""
        try:
            announced = read_text(self._announcement(number))
            return announced == _digest_of(self.path / self._named(number)) + "\n"
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return False


def extend_columns(known: Mapping[str, str], named: Mapping[str, str], place: str) -> dict[str, str]:
    """Those of the named columns that are new; refuses another type, or another spelling, of a known one.

    >>> extend_columns({"price": "double"}, {"price": "double", "gate": "key"}, "published")
    {'gate': 'key'}
    """
    spelled = {name.lower(): name for name in known}
    for name, kind in named.items():
        own = spelled.get(name.lower(), name)
        if name not in known and own != name:
            raise FencepostError(
                f"the column {name} beside {own}, which {place} has",
                "columns whose names differ by more than case",
                f"Name it {own}, or publish to a new directory.",
            )
        if known.get(name, kind) != kind:
            raise FencepostError(
                f"the column {name} as {kind}",
                f"{known[name]}, as {place} has it",
                "Leave its type as it is, or publish to a new directory.",
            )
    return {name: kind for name, kind in named.items() if name not in known}


class Lease:
    """Says that a version is needed; whoever holds one renews it every few minutes."""

    def __init__(self, file: Place) -> None:
        self._file = file

    def renew(self) -> None:
        """Keep the version for another while."""
        touch(self._file)

    def release(self) -> None:
        """The version is no longer needed."""
        delete(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _plain(holder: str) -> str:
    """A holder as a part of a file name."""
    return hashlib.blake2b(holder.encode(), digest_size=8).hexdigest()


def _digest_of(snapshot: Place) -> str:
    digest: str = json.loads(read_text(snapshot / "header.json"))["digest"]
    return digest
