"""Versions that a book publishes into a directory."""

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost._files.storage import modified
from fencepost._text import count
from fencepost.book import RuleBook
from fencepost.console.source import Missing, PublishedVersion, VersionSummary
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.published.difference import Difference, compare_versions
from fencepost.rules.faults import RuleFault
from fencepost.snapshot import Snapshot

_SUMMARIES = 100
_DIFFERENCES = 16
"""Differences that are kept; each may name as many rules as there are."""
_ROLLED_BACK = 100_000
"""Rules that are set back at once."""


class BookVersions:
    """A directory that a book is published to.

    Args:
        book: the rule book; None where versions can only be looked at.
        directory: the versions.
        schema: as for RuleBook.publish.
        publishing: whether people may publish here, or why not.
    """

    def __init__(
        self,
        book: RuleBook | None,
        directory: Any,
        schema: Any = None,
        publishing: bool | Missing = True,
    ) -> None:
        self._book, self._directory, self._schema = book, VersionDirectory(directory), schema
        self.place = str(directory)
        self.can_publish = publishing
        self._loaded: tuple[int, Snapshot] | None = None
        self._summaries: dict[int, VersionSummary] = {}
        self._differences: dict[tuple[int, int], Difference] = {}

    def list(self, limit: int) -> "list[PublishedVersion]":
        """The newest ones first."""
        leased = self._directory.leased()
        return [self._describe(number, leased) for number in islice(self._directory.newest_first(), limit)]

    def _describe(self, number: int, leased: set[int]) -> PublishedVersion:
        at = modified(self._directory.path / f"{number:08}.published")
        nbytes = 0
        folder = self._directory.path / f"{number:08}"
        if isinstance(folder, Path):
            with contextlib.suppress(FileNotFoundError):  # it may be collected meanwhile
                nbytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        return PublishedVersion(
            number, None if at is None else datetime.fromtimestamp(at, UTC), nbytes, number in leased
        )

    def summarize(self, number: int) -> VersionSummary:
        """What a version consists of; it never changes, so it is found out once."""
        if number not in self._summaries:
            snapshot = self._load(number)
            summary = VersionSummary(snapshot.explain(), len(snapshot.in_force), len(snapshot.paused))
            if len(self._summaries) >= _SUMMARIES:
                self._summaries.clear()
            self._summaries[number] = summary
        return self._summaries[number]

    def _load(self, number: int) -> Snapshot:
        """One of them; the last that was asked for is kept."""
        if self._loaded is None or self._loaded[0] != number:
            self._loaded = number, self._directory.load(number, verify=False)
        return self._loaded[1]

    def difference(self, before: int, after: int) -> Difference:
        """What changed from one to another; it never changes, so it is found out once."""
        if (before, after) not in self._differences:
            old = self._directory.load(before, verify=False)
            found = compare_versions(old, self._load(after), {}, {})
            if len(self._differences) >= _DIFFERENCES:
                self._differences.clear()
            self._differences[before, after] = found
        return self._differences[before, after]

    def preview(self) -> Difference:
        """What publishing would change."""
        return self._of_book().preview(self.place, self._schema, infer=True)

    def publish(self, author: str) -> int:  # noqa: ARG002 (a version has no author; its changes have)
        """Publish; faulty rules are left out."""
        faults: list[RuleFault] = []
        return self._of_book().publish(self.place, self._schema, infer=True, faults=faults)

    def roll_back(self, number: int, author: str) -> int:
        """Set the rules of the book back to what they were in a version, and publish that."""
        book, old = self._of_book(), self._directory.load(number, verify=False)
        rows = old.in_force
        then = dict(zip(old.rules.ids[rows].tolist(), old.rules.versions[rows].tolist(), strict=True))
        latest = self._directory.latest()
        assert latest is not None, "it has the version to go back to"
        difference = compare_versions(old, self._load(latest), {}, {})
        set_back = {id: then[id] for id in (*difference.edited, *difference.removed, *difference.paused) if id in then}
        added = [id for id in difference.added if id not in old.paused]
        if len(set_back) + len(added) > _ROLLED_BACK:
            raise FencepostError(
                f"{count(len(set_back) + len(added), 'rule')} differ from version {number}",
                f"at most {_ROLLED_BACK:,}",
                "Restore them from a file: fencepost rules import.",
            )
        book.restore_all(set_back, remove=added, author=author)
        return self.publish(author)

    def _of_book(self) -> RuleBook:
        if self._book is None or not self.can_publish:
            reason = self.can_publish.reason if isinstance(self.can_publish, Missing) else "there is no rule book"
            raise FencepostError(f"nothing can be published here: {reason}", "a rule book of its own", "Publish there.")
        return self._book


def rules_at(directory: VersionDirectory, values: Mapping[str, Any]) -> list[int]:
    """The rules of the newest version whose condition holds at values by column; what is left out is in no range."""
    if directory.latest() is None:
        return []
    snapshot = directory.load(verify=False)
    known = {name.lower(): value for name, value in values.items()}
    row = {name: pa.array([known.get(name.lower())], type_.arrow) for name, type_ in snapshot.types.items()}
    row |= {name: pa.array([known.get(name.lower())], pa.string()) for name in snapshot.keys}
    return sorted(snapshot.match(row)[0].tolist())
