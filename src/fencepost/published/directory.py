"""A directory of published snapshots: versions 1, 2, ..., each written whole, then announced.

    schema.json          the columns and types of all versions, fixed by the first publisher; checksummed
    00000001.claim       someone is writing, or was killed while writing, version 1
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
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Self

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
    touch,
)
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.published.markers import Markers
from fencepost.published.shards.plan import ShardPlan, check_shards, plan_shards
from fencepost.published.shards.saved import Head, ShardDirectory
from fencepost.snapshot.columns import key_columns
from fencepost.snapshot.snapshot import Snapshot, in_force_among
from fencepost.snapshot.store import read_header, write_header

_DIGITS = 8
_SCHEMA = "schema.json"
_CLAIMS = 1_000
"""One in so many claims of old versions stays."""
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
        """The newest complete version, or None."""
        return next(self.newest_first(), None)

    def newest_first(self) -> Iterator[int]:
        """The numbers of all complete versions, descending; looked at as they are asked for."""
        return (number for number in reversed(self._announced()) if self._complete(number))

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
        """Columns and types that every version has, "key" for a column of strings; None before the first."""
        try:
            found = json.loads(read_text(self.path / _SCHEMA))
            # Directories that were first published before the checksum have nothing but the columns.
            if "header" in found and not isinstance(found["header"], str):
                found = read_header(self.path, _SCHEMA)[0]["columns"]
            if not all(isinstance(kind, str) for kind in found.values()):
                raise ValueError("a type that is no text")
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, FencepostError):
            raise FencepostError(
                f"{self.path / _SCHEMA} is damaged",
                "the columns and types that the directory was first published with",
                "Restore the file from a backup, or publish the rules to a new directory.",
            ) from None
        return dict(found)

    def publish(
        self,
        compile_version: Callable[[int], Snapshot],
        schema: Mapping[str, str] | None = None,
        shards: int | None = None,
    ) -> int:
        """Write the next version and announce it; its number.

        Args:
            compile_version: makes the snapshot, given its number.
            schema: columns and types to fix for the directory, if they are not only those that the rules use.
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
        used = {name: str(kind) for name, kind in snapshot.types.items()} | dict.fromkeys(snapshot.keys, "key")
        # What bands compare has no type in a snapshot: strings, unless somebody said otherwise.
        compared = key_columns(snapshot.bands) - set(self.schema() or {})
        self._fix_schema({**dict.fromkeys(sorted(compared), "key"), **(schema or {}), **used})
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
        self._collect_leftovers(time.time() - max(retention, fresh_for).total_seconds(), fresh_for)
        return collected

    def _collect_leftovers(self, oldest: float, fresh_for: timedelta) -> None:
        """Delete what the dead have left behind since longer than anybody works on it, and what nobody looks at.

        That is: leases that are no longer renewed, drafts, versions that were never announced, claims of old numbers
        (see `_newest_claim`), and markers of what has gone.
        """
        for directory in (self.path, self.path / "parts", self.path / "markers"):
            self._delete_old(directory, ".*", oldest)
        self._delete_old(self.path, f"{_NUMBER}.*.lease", oldest)
        announced = set(self._announced())
        kept, newest = announced | self.leased(fresh_for), self._newest_claim()
        # The head of its shards is the first that is written of a version.
        for name in {*names(self.path, _NUMBER), *names(self.path / "parts" / "head", _NUMBER)}:
            written = max(modified(self._claim_file(int(name))) or 0, modified(self.path / name) or 0)
            if int(name) not in kept and written < oldest:
                self._delete(int(name))
        for number in self._numbers("claim"):
            is_old = number // _CLAIMS < newest // _CLAIMS and number % _CLAIMS and number not in kept
            if is_old and (modified(self._claim_file(number)) or oldest) < oldest:
                delete(self._claim_file(number))
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
            if not self._is_claimed((number // _CLAIMS + 1) * _CLAIMS):
                return number
            # Others went on to the next claim that stays while this publisher slept, and the number was used before.
            delete(self._claim_file(number))
            number = self._newest_claim() + 1

    def _newest_claim(self) -> int:
        """The greatest number that was claimed, or 0; found without a look at all that is there.

        Numbers are claimed one after the other. Of old ones every thousandth stays, and all since the last of those.
        """
        if not isinstance(self.path, Path):
            return max(self._numbers("claim"), default=0)
        newest = 0
        for step in (_CLAIMS, 1):
            low, high = newest // step, newest // step + 1
            while self._is_claimed(high * step):
                low, high = high, 2 * high - newest // step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._is_claimed(middle * step) else (low, middle)
            newest = low * step
        return newest

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

    def _fix_schema(self, needed: Mapping[str, str]) -> None:
        """The first publisher's columns hold for all; a later version may use fewer of them."""
        try:
            write_header(self.path / _SCHEMA, {"columns": dict(sorted(needed.items()))})
        except FileExistsError:
            fixed = self.schema() or {}
            wrong = {name: kind for name, kind in needed.items() if fixed.get(name) != kind}
            if wrong:
                name, kind = next(iter(wrong.items()))
                has = f"{name} is {fixed[name]} there" if name in fixed else f"it has {', '.join(fixed)}"
                raise FencepostError(
                    f"rules that need {name} as {kind}",
                    f"the columns that {self.path} was first published with ({has})",
                    "Publish to a new directory, or first publish with schema= naming every column.",
                ) from None

    def _complete(self, number: int) -> bool:
        """Whether the announcement was written whole."""
        try:
            announced = read_text(self._announcement(number))
            return announced == _digest_of(self.path / self._named(number)) + "\n"
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return False


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
