"""What a version would change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fencepost._html import html_text
from fencepost._text import count
from fencepost.errors import call_rule
from fencepost.indexes.arrays import Int64s
from fencepost.snapshot import Snapshot

_SHOWN = 20


@dataclass(frozen=True)
class Difference:
    """What changes with the next version of a directory; prints as a short report.

    Args:
        added: ids of rules that come into force: new ones, and ones that were paused.
        edited: ids of rules in force that have another version.
        removed: ids of rules that are gone.
        paused: ids of rules that are no longer in force, but known.
        faulty: by id, why enabled rules cannot be published; they count as paused.
        columns: columns that the directory gets, with their types.
        unchanged: how many rules stay as they are.
        names: of the first rules of each kind, by id.
    """

    added: tuple[int, ...]
    edited: tuple[int, ...]
    removed: tuple[int, ...]
    paused: tuple[int, ...]
    faulty: dict[int, str]
    columns: dict[str, str]
    unchanged: int
    names: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = []
        for what in ("added", "edited", "removed", "paused"):
            ids = getattr(self, what)
            if ids:
                more = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
                lines.append(f"{what}: {count(len(ids), 'rule')}: {', '.join(map(self._call, ids[:_SHOWN]))}{more}")
        if self.faulty:
            lines.append(f"faulty: {count(len(self.faulty), 'rule')}, not published:")
            lines += [f"  rule {self._call(id)}: {reason}" for id, reason in list(self.faulty.items())[:_SHOWN]]
            if len(self.faulty) > _SHOWN:
                lines.append(f"  and {len(self.faulty) - _SHOWN:,} more")
        if self.columns:
            lines.append("columns added: " + ", ".join(f"{name} {kind}" for name, kind in self.columns.items()))
        lines.append(f"unchanged: {count(self.unchanged, 'rule')}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_text(self)

    @property
    def shown(self) -> list[int]:
        """The ids of the rules that are printed."""
        kinds = (self.added, self.edited, self.removed, self.paused, list(self.faulty))
        return [id for ids in kinds for id in ids[:_SHOWN]]

    def _call(self, id: int) -> str:
        return call_rule(id, self.names.get(id))


def compare_versions(
    before: Snapshot | None,
    after: Snapshot,
    faulty: Mapping[int, str],
    columns: Mapping[str, str],
    among: Iterable[int] | None = None,
) -> Difference:
    """What changes from one version, None for no version, to another.

    Args:
        before: the one.
        after: the other.
        faulty: as in Difference.
        columns: as in Difference.
        among: the ids of all rules that may differ, where these are known; the others are not looked at.
    """
    only = None if among is None else np.array(sorted(among), np.int64)
    ids, versions = _in_force(after, only)
    old_ids, old_versions = _in_force(before, only)
    old_known = {} if before is None else before.paused
    if only is not None:
        old_known = {id: old_known[id] for id in only.tolist() if id in old_known}
    same, now, then = np.intersect1d(ids, old_ids, assume_unique=True, return_indices=True)
    is_edited = versions[now] != old_versions[then]
    is_new, is_gone = np.ones(len(ids), np.bool_), np.ones(len(old_ids), np.bool_)
    is_new[now] = is_gone[then] = False
    gone = old_ids[is_gone]
    is_paused = np.isin(gone, np.array(list(after.paused), np.int64))
    known = np.array([id for id in old_known if id not in after.paused], np.int64)
    removed = np.union1d(gone[~is_paused], known[~np.isin(known, ids)] if len(known) else known)
    return Difference(
        tuple(sorted(ids[is_new].tolist())),
        tuple(same[is_edited].tolist()),
        tuple(removed.tolist()),
        tuple(sorted(gone[is_paused].tolist())),
        dict(sorted(faulty.items())),
        dict(columns),
        len(after) - int(np.count_nonzero(is_edited)) - int(np.count_nonzero(is_new)),
    )


def _in_force(snapshot: Snapshot | None, only: Int64s | None) -> tuple[Int64s, Int64s]:
    """Ids and versions of all rules, or of some."""
    if snapshot is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if only is None:
        rows = snapshot.in_force
        return snapshot.rules.ids[rows], snapshot.rules.versions[rows]
    versions = snapshot.versions_of(only)
    return only[versions >= 0], versions[versions >= 0]
