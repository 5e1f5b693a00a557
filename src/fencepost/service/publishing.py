"""Publishing: the rules of the book as versions in DATA/published, each of which the engine then follows."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost._files.storage import modified
from fencepost.book import RuleBook
from fencepost.errors import FencepostError
from fencepost.language import Condition, infer_kinds, infer_types, parse
from fencepost.ordinals.schema import read_schema
from fencepost.published import VersionDirectory
from fencepost.published.difference import Difference, compare_versions
from fencepost.rules import Rule, RuleFault
from fencepost.rules.faults import FindFaults
from fencepost.service.monitoring import without_warnings
from fencepost.service.refusals import MissingError

if TYPE_CHECKING:
    from fencepost.published.leases import Lease
    from fencepost.service.engine import Engine

_HOLDER = "service"


class Published(NamedTuple):
    """What publishing led to."""

    version: int
    """The version in force."""
    is_new: bool
    faults: tuple[RuleFault, ...]
    """The rules that were left out, and why."""


@dataclass(frozen=True)
class VersionInfo:
    """One version in the directory."""

    version: int
    at: datetime | None
    """When it was published."""
    rules: int
    in_force: bool
    needed: bool
    """Whether a restart would need it."""
    bytes: int
    """Of its own files; what it shares with a version before it counts there."""


class Publishing:
    """The versions of a service."""

    def __init__(self, book: RuleBook, directory: Path, types: dict[str, str], unusable: FindFaults) -> None:
        self.book, self.directory, self._types = book, VersionDirectory(directory), types
        self._unusable = unusable
        self._path = directory
        self._lock = threading.Lock()
        self._leases: dict[int, Lease] = {}
        self.faults: tuple[RuleFault, ...] = ()
        """The rules that were left out of the last version."""

    def publish(self, engine: "Engine") -> Published:
        """Let the book as it is now be in force; a book that has not changed stays at its version."""
        with self._lock:
            about, latest = engine.watcher.about, self.directory.latest()
            revision = self.book.revision
            is_whole = not self.faults and not engine.watcher.left_out
            if about.get("revision") == revision and about.get("version") == latest and is_whole:
                return Published(int(about["version"]), False, ())
            if not revision and latest is None:
                return Published(0, False, ())
            faults: list[RuleFault] = []
            with without_warnings():
                number = self.book.publish(
                    self._path,
                    schema=self._new_columns(about),
                    infer=latest is None,
                    faults=faults,
                    unusable=self._unusable,
                )
            self.faults = tuple(faults)
            self.follow(engine, number, revision).result()
            self.faults += tuple(RuleFault(*each) for each in engine.watcher.left_out.items())
            return Published(number, True, self.faults)

    def follow(self, engine: "Engine", number: int, revision: int) -> "Future[Any]":
        """Let a version be in force."""
        self.need(number)
        return engine.put_version(self.directory.load(number), {"version": number, "revision": revision})

    def preview(self, about: dict[str, Any]) -> Difference:
        """What publishing would change."""
        with self._lock, without_warnings():
            return self.book.preview(
                self._path,
                schema=self._new_columns(about),
                infer=self.directory.latest() is None,
                unusable=self._unusable,
            )

    def _new_columns(self, about: dict[str, Any]) -> dict[str, str] | None:
        """The columns that the directory gets: those of the settings, and those of rules that were changed since."""
        known = self.directory.schema()
        named = dict(self._types)
        if known is not None:
            _, changed, _ = self.book.rules_since(int(about.get("revision", 0)))
            lower = {name.lower() for name in (*known, *named)}
            types = read_schema({**known, **named}).types
            kinds: dict[str, Any] = {}
            alike: set[tuple[str, ...]] = set()
            for rule in changed:
                try:
                    own = conditions_of(rule, self.book.zone)
                    kinds = infer_kinds([kinds, *(each.columns for each in own)])
                except FencepostError:
                    continue  # it is left out of the version, with the reason
                alike.update(group for each in own for group in each.alike)
            found = infer_types([kinds], alike, types)
            named |= {name: str(type_) for name, type_ in found.items() if name.lower() not in lower}
        return named or None

    # -- versions ------------------------------------------------------------------------------------------

    def need(self, number: int) -> None:
        """Keep a version for a restart."""
        if number and number not in self._leases:
            self._leases[number] = self.directory.lease(number, _HOLDER)

    def forget_before(self, number: int) -> None:
        """Versions before one are needed no more."""
        for each in [each for each in list(self._leases) if each < number]:  # others may add one
            self._leases.pop(each).release()

    def renew(self) -> None:
        """Keep what is needed for another while."""
        for lease in list(self._leases.values()):
            lease.renew()

    def versions(self, in_force: int, before: int | None = None, limit: int = 20) -> list[VersionInfo]:
        """The newest versions first."""
        numbers = (each for each in self.directory.newest_first() if before is None or each < before)
        return [self._describe(number, in_force) for number in islice(numbers, limit)]

    def _describe(self, number: int, in_force: int) -> VersionInfo:
        folder = self._path / f"{number:08}"
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        seconds = modified(self.directory.path / f"{number:08}.published")
        at = None if seconds is None else datetime.fromtimestamp(seconds, UTC)
        rules = len(self.directory.load(number, verify=False))
        return VersionInfo(number, at, rules, number == in_force, number in self._leases, size)

    def difference(self, number: int) -> Difference:
        """What a version changed of the one before it."""
        there = self.directory.versions()
        if number not in there:
            raise MissingError(
                f"version {number}",
                f"one that is kept (the last are: {', '.join(map(str, there[-5:])) or 'none'})",
                "Ask for one of these.",
            )
        place = there.index(number)
        before = self.directory.load(there[place - 1]) if place else None
        return compare_versions(before, self.directory.load(number), {}, {})


def conditions_of(rule: Rule, zone: str) -> list[Condition]:
    """The conditions of a rule: its own, and that of `stay`."""
    parsed = [parse(text, zone) for text in (rule.condition, rule.stay) if text is not None]
    return [each for each in parsed if isinstance(each, Condition)]
