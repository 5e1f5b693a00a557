"""A directory of published snapshots: versions 1, 2, ..., each written whole, then announced.

    schema.json          the columns and types of all versions, fixed by the first publisher
    00000001.claim       someone is writing, or was killed while writing, version 1
    00000001/            the snapshot itself
    00000001.published   version 1 is complete; its content repeats the snapshot's digest
    parts/               the same in parts, where the first publisher asked for shards
    00000001.HOLDER.lease   someone needs version 1; kept fresh by its holder
    collected            when old versions were last collected by a rule book
    markers/00000001.version   says to streams that version 1 is there
    markers/1700000000000000.clock   says to streams that this time has come, in microseconds or numbers

Numbers are claimed and versions announced by creating a file that must not exist yet, so that any number of
publishers can work at once on anything that has exclusive creation. A version that was claimed and never announced
is skipped by readers.
"""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.snapshot.columns import key_columns
from fencepost.snapshot.parts import Head, PartDirectory
from fencepost.snapshot.shards import ShardPlan, checked_shards, plan_shards
from fencepost.snapshot.snapshot import Snapshot, in_force_among
from fencepost.snapshot.store import read_header

__all__ = ["Lease", "VersionDirectory"]

_DIGITS = 8
_FRESH = timedelta(hours=1)


class VersionDirectory:
    """The versions that were published to one path.

    Args:
        path: a directory that every reader and writer can reach; made if it does not exist.

    >>> import tempfile
    >>> versions = VersionDirectory(tempfile.mkdtemp())
    >>> versions.latest() is None
    True
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def versions(self) -> list[int]:
        """The numbers of all complete versions, ascending."""
        return [number for number in self._announced() if self._complete(number)]

    def latest(self) -> int | None:
        """The newest complete version, or None."""
        return next(self.newest_first(), None)

    def newest_first(self) -> Iterator[int]:
        """The numbers of all complete versions, descending; looked at as they are asked for."""
        return (number for number in reversed(self._announced()) if self._complete(number))

    def _announced(self) -> list[int]:
        return sorted(int(file.stem) for file in self.path.glob(f"{'[0-9]' * _DIGITS}.published"))

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
        return f"{number:0{_DIGITS}}"

    # -- parts ------------------------------------------------------------------------------------------

    def shards(self) -> ShardPlan | None:
        """How the rules are parted; None where they are not."""
        return self._parts.plan()

    def shards_for(self, shards: int) -> ShardPlan:
        """How the rules are parted, for a reader who wants so many parts; refuses any other number."""
        plan = self.shards()
        if plan is None:
            raise FencepostError(
                f"shards={shards} and {self.path}, which was published without",
                "a directory whose versions are written in parts",
                f"Publish the rules to a new directory with shards={shards}, or leave out shards.",
            )
        if plan.parts != shards:
            raise FencepostError(
                f"shards={shards} and {self.path}",
                f"shards={plan.parts}, with which it was published",
                f"Take shards={plan.parts}, or publish the rules to a new directory with shards={shards}.",
            )
        return plan

    @property
    def _parts(self) -> PartDirectory:
        return PartDirectory(self.path / "parts")

    def load_part(self, version: int, part: int) -> Snapshot:
        """One part of a version."""
        return self._parts.load(self._name(version), part)

    def head(self, version: int) -> Head:
        """What is to be known of a version with parts by those who do not load its rules."""
        return self._parts.head(self._name(version))

    def check_parts(self, version: int, plan: ShardPlan) -> None:
        """Refuse a version of which some part cannot be loaded; none is kept."""
        self._parts.check(self._name(version), plan)

    def in_force_among(self, version: int, ids: Int64s) -> Bools:
        """Which of these rules are in force in a version; reads nothing but its ids."""
        return in_force_among(self.path / self._name(version), ids)

    def _check_shards(self, shards: int | None) -> None:
        """Refuse a number of parts that the directory cannot have."""
        if shards is None:
            return
        fixed = self.shards()
        if fixed is None and checked_shards(shards) and self._announced():
            raise FencepostError(
                f"shards={shards} for {self.path}, which was first published without",
                "a new directory, since its versions are read in parts from the first one on",
                "Publish to a new directory, or leave out shards.",
            )
        if fixed is not None and fixed.parts != shards:
            raise FencepostError(
                f"shards={shards} for {self.path}",
                f"shards={fixed.parts}, with which it was first published",
                f"Leave out shards, pass shards={fixed.parts}, or publish to a new directory.",
            )

    def _fixed_shards(self, snapshot: Snapshot, shards: int | None) -> ShardPlan | None:
        """How the version is to be parted: as the first one was, or else as it asks for itself."""
        fixed = self.shards()
        if shards is None or fixed is not None:
            return fixed
        keys = [name for name, kind in (self.schema() or {}).items() if kind == "key"]
        return self._parts.fix(plan_shards(snapshot, shards, keys))

    # -- publishing -------------------------------------------------------------------------------------

    def digest(self, version: int) -> str:
        """What tells this version's snapshot from every other one, wherever the directory is."""
        return read_header(self.path / f"{version:0{_DIGITS}}")[1]

    def schema(self) -> dict[str, str] | None:
        """Columns and types that every version has, "key" for a column of strings; None before the first."""
        try:
            found: dict[str, str] = json.loads((self.path / "schema.json").read_text())
        except FileNotFoundError:
            return None
        return found

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
            shards: how many parts this and all later versions are written in, too; fixed by the first one.
        """
        self._check_shards(shards)
        self.path.mkdir(parents=True, exist_ok=True)
        number = self._claim()
        snapshot = compile_version(number)
        used = {name: str(kind) for name, kind in snapshot.types.items()} | dict.fromkeys(snapshot.keys, "key")
        # What bands compare has no type in a snapshot: strings, unless somebody said otherwise.
        compared = key_columns(snapshot.bands) - set(self.schema() or {})
        self._fix_schema({**dict.fromkeys(sorted(compared), "key"), **(schema or {}), **used})
        plan = self._fixed_shards(snapshot, shards)
        target = self.path / f"{number:0{_DIGITS}}"
        with contextlib.ExitStack() as leases:
            shared = self._lease_layers(snapshot, number, leases)
            if plan is not None:
                self._parts.save(target.name, snapshot, plan, shared=shared)
            snapshot.save(target, shared=shared)
            _create(self.path / f"{number:0{_DIGITS}}.published", _digest_of(target) + "\n")
        self.mark()
        return number

    def mark(self) -> None:
        """Tell streams of every version that they have not been told of: a publisher may have died before it could."""
        told = {int(file.stem) for file in self.markers.glob("*.version")}
        self.markers.mkdir(exist_ok=True)
        for number in self._announced():
            if number not in told:
                self._put_marker(f"{number:0{_DIGITS}}.version")

    def tick(self, time: datetime | int) -> None:
        """Tell streams that a time has come: rules expire and silent objects time out, also without any row.

        Args:
            time: an instant, without a zone in UTC; or a number, where the time column is one.
        """
        if isinstance(time, datetime):
            aware = time if time.tzinfo else time.replace(tzinfo=UTC)
            time = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        self.markers.mkdir(parents=True, exist_ok=True)
        self._put_marker(f"{time:020}.clock")

    def _put_marker(self, name: str) -> None:
        """The name is all that a marker tells, but engines skip files without a byte, so it appears with one."""
        draft = self.markers / f".{name}.{os.getpid()}"
        draft.write_text("\n")
        draft.replace(self.markers / name)

    @property
    def markers(self) -> Path:
        """Where streams look for what has come."""
        return self.path / "markers"

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
        found = set()
        for file in self.path.glob(f"{'[0-9]' * _DIGITS}.*.lease"):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_mtime >= oldest:
                    found.add(int(file.name[:_DIGITS]))
        return found

    def collect(self, retention: timedelta, fresh_for: timedelta = _FRESH) -> list[int]:
        """Delete versions that are older than the retention, not leased and not the newest; their numbers.

        A version whose layers are part of one that stays, stays too. The announcement goes first, so that nobody
        starts on a version that is being deleted.
        """
        versions, oldest = self.versions(), time.time() - retention.total_seconds()
        needed = self.leased(fresh_for).union(versions[-1:])
        needed |= {number for number in versions if self._announcement(number).stat().st_mtime > oldest}
        for number in needed.intersection(versions):
            needed |= self._built_on(number)
        collected = []
        for number in versions:
            if number in needed:
                continue
            announcement = self._announcement(number)
            announcement.unlink()
            if number in self.leased(fresh_for):
                _create(announcement, _digest_of(self.path / f"{number:0{_DIGITS}}") + "\n")
                continue
            shutil.rmtree(self.path / f"{number:0{_DIGITS}}")
            self._parts.delete(f"{number:0{_DIGITS}}")
            collected.append(number)
        return collected

    def _announcement(self, number: int) -> Path:
        return self.path / f"{number:0{_DIGITS}}.published"

    def _built_on(self, number: int) -> set[int]:
        """The versions whose layers one version shares."""
        header, _ = read_header(self.path / f"{number:0{_DIGITS}}")
        return {int(layer["in"]) for layer in header["layers"] if "in" in layer}

    def _claim(self) -> int:
        taken = (int(file.stem) for file in self.path.glob(f"{'[0-9]' * _DIGITS}.claim"))
        number = max(taken, default=0) + 1
        while True:
            try:
                _create(self.path / f"{number:0{_DIGITS}}.claim", f"{os.getpid()}\n")
            except FileExistsError:
                number += 1
                continue
            return number

    def _fix_schema(self, needed: Mapping[str, str]) -> None:
        """The first publisher's columns hold for all; a later version may use fewer of them."""
        try:
            _create(self.path / "schema.json", json.dumps(dict(sorted(needed.items()))))
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
            announced = (self.path / f"{number:0{_DIGITS}}.published").read_text()
            return announced == _digest_of(self.path / f"{number:0{_DIGITS}}") + "\n"
        except (FileNotFoundError, ValueError, KeyError):
            return False


class Lease:
    """Says that a version is needed; whoever holds one renews it every few minutes."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def renew(self) -> None:
        """Keep the version for another while."""
        self._file.touch()

    def release(self) -> None:
        """The version is no longer needed."""
        self._file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _plain(holder: str) -> str:
    """A holder as a part of a file name."""
    return hashlib.blake2b(holder.encode(), digest_size=8).hexdigest()


def _create(file: Path, text: str) -> None:
    """Create a file that must not exist, durably."""
    with file.open("x") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _digest_of(snapshot: Path) -> str:
    digest: str = json.loads((snapshot / "header.json").read_text())["digest"]
    return digest
