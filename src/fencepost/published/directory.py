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
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any

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
    read_text,
    refusing,
)
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals.schema import described_columns, read_schema
from fencepost.published.claims import DIGITS, NUMBER, Claims
from fencepost.published.columns import Columns, extend_columns
from fencepost.published.leases import Lease, plain_holder
from fencepost.published.markers import Markers
from fencepost.published.shards.plan import ShardPlan, check_shards, plan_shards, refuse_damped
from fencepost.published.shards.saved import Head, ShardDirectory
from fencepost.snapshot.saving import in_force_among
from fencepost.snapshot.sides import key_columns
from fencepost.snapshot.snapshot import Snapshot
from fencepost.snapshot.store import read_header

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
        return f"{number:0{DIGITS}}"

    def _announced(self) -> list[int]:
        return [int(name[:DIGITS]) for name in names(self.path, f"{NUMBER}.published")]

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
        return self._columns.all()

    def added_columns(self) -> frozenset[str]:
        """The columns that came after the first version: a stream that lacks one leaves the rules out that use it."""
        return frozenset(name for part in self._columns.parts()[1:] for name in part)

    def zone(self) -> str | None:
        """The time zone that timestamps without one are read in; None before the first version."""
        return self._columns.zone()

    def bound_schema(self, schema: Any = None) -> Any:
        """What the next version is bound to: the columns that are known, and those of a schema; None if there are none.

        Refuses a schema that gives a known column another type.
        """
        known = self.schema()
        if known is None or schema is None:
            return known if schema is None else schema
        extend_columns(known, read_schema(schema).as_texts(), str(self.path))
        return {**described_columns(schema), **known}

    @property
    def _columns(self) -> Columns:
        return Columns(self.path)

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
        number = self._claims.take()
        snapshot = compile_version(number)
        if shards is not None or self.shards() is not None:
            refuse_damped(snapshot)
        used = {name: str(kind) for name, kind in snapshot.types.items()} | dict.fromkeys(snapshot.keys, "key")
        # What bands compare has no type in a snapshot: strings, unless somebody said otherwise.
        compared = key_columns(snapshot.bands) - set(self.schema() or {})
        self._columns.put({**dict.fromkeys(sorted(compared), "key"), **used}, schema or {}, snapshot.zone)
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

    @property
    def _claims(self) -> Claims:
        return Claims(self.path)

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

    def lease(self, version: int, holder: str) -> Lease:
        """Keep one version from being collected, until the lease is released or no longer renewed.

        Args:
            version: a published version.
            holder: who needs it, such as a query's id; a holder has one lease per version.
        """
        if not self._complete(version):
            raise FencepostError(
                f"a lease of version {version} of {self.path}", "a published version", "Take the latest() instead."
            )
        kept = Lease(self.path / f"{version:0{DIGITS}}.{plain_holder(holder)}.lease")
        kept.renew()
        return kept

    def leased(self, fresh_for: timedelta = _FRESH) -> set[int]:
        """The versions that someone needs: those with a lease that was renewed lately."""
        oldest = time.time() - fresh_for.total_seconds()
        leases = names(self.path, f"{NUMBER}.*.lease")
        return {int(name[:DIGITS]) for name in leases if (modified(self.path / name) or 0) >= oldest}

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
        self._claims.collect(versions, oldest)
        return collected

    def _collect_leftovers(self, oldest: float, fresh_for: timedelta) -> None:
        """Delete what the dead have left behind since longer than anybody works on it, and what nobody looks at.

        That is: leases that are no longer renewed, drafts, versions that were never announced, and markers of what
        has gone.
        """
        for directory in (self.path, *(self.path / name for name in ("parts", "markers", "used"))):
            self._delete_old(directory, ".*", oldest)
        self._delete_old(self.path, f"{NUMBER}.*.lease", oldest)
        announced = set(self._announced())
        kept = announced | self.leased(fresh_for)
        # The head of its shards is the first that is written of a version.
        for name in {*names(self.path, NUMBER), *names(self.path / "parts" / "head", NUMBER)}:
            written = max(modified(self._claims.file(int(name))) or 0, modified(self.path / name) or 0)
            if int(name) not in kept and written < oldest:
                self._delete(int(name))
        self.markers.collect(announced, oldest)

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
        return self.path / f"{number:0{DIGITS}}.published"

    def _built_on(self, number: int) -> set[int]:
        """The versions whose layers one version shares."""
        header, _ = read_header(self.path / self._named(number))
        return {int(layer["in"]) for layer in header["layers"] if "in" in layer}

    def _complete(self, number: int) -> bool:
        """Whether the announcement was written whole."""
        try:
            announced = read_text(self._announcement(number))
            return announced == _digest_of(self.path / self._named(number)) + "\n"
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return False


def _digest_of(snapshot: Place) -> str:
    digest: str = json.loads(read_text(snapshot / "header.json"))["digest"]
    return digest
