"""What a snapshot says of itself: its groups and the structures that answer for them, as a short report."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fencepost._html import html_table
from fencepost._text import count
from fencepost.computed import Computed
from fencepost.computed.terms import with_side
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import KEY
from fencepost.snapshot.columns import BandColumns, key_pairs
from fencepost.snapshot.group import Group
from fencepost.snapshot.sides import computed_of, read_sides

_DIGEST = re.compile(r" in order [0-9a-f]{16}\b")
_SHOWN = 5
"""Rules that an explanation names."""


@dataclass(frozen=True)
class GroupExplanation:
    """How one group of rules is answered."""

    keys: tuple[str, ...]
    attributes: tuple[str, ...]
    boxes: int
    rules: int
    structure: str
    nbytes: int
    layer: int
    """0 is the lowest; rules that changed since are in those above it."""


@dataclass(frozen=True)
class ComputedExplanation:
    """An expression that is computed once per batch, and who uses it."""

    text: str
    type: str
    """That of its values, or "ordered string"."""
    rules: tuple[int, ...]
    """Ids, ascending."""

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.rules[:_SHOWN])) + (", ..." if len(self.rules) > _SHOWN else "")
        return f"{self.text}, {self.type}: computed for {count(len(self.rules), 'rule')} ({shown})"


@dataclass(frozen=True)
class Explanation:
    """What a snapshot consists of; prints as a short report."""

    version: int
    rules: int
    types: dict[str, str]
    groups: tuple[GroupExplanation, ...]
    dropped: dict[int, tuple[str, ...]]
    """By rule id, branches that can never hold."""
    bands: int
    zone: str = "UTC"
    """The time zone that timestamps without one were read in."""
    damped: int = 0
    """How many rules have an option that keeps them from flapping."""
    damped_by: dict[str, int] = field(default_factory=dict)
    """By such an option, how many rules have it."""
    computed: tuple[ComputedExplanation, ...] = ()
    """The expressions that are computed once per batch."""

    def __str__(self) -> str:
        indexed = sum(group.nbytes for group in self.groups)
        lines = [f"snapshot {self.version}: {count(self.rules, 'rule')}, {indexed:,} bytes indexed"]
        for group in self.groups:
            on = _columns_on(group)
            changed = f", changed since (layer {group.layer})" if group.layer else ""
            boxes = count(group.boxes, "box")
            lines.append(f"  {boxes} of {count(group.rules, 'rule')} on {on}{changed}")
            lines.append(
                f"    {group.structure}; {group.nbytes:,} bytes, {group.nbytes / max(1, group.boxes):.0f} per box"
            )
        lines += [f"  {each}" for each in self.computed]
        if self.bands:
            lines.append(f"  {count(self.bands, 'band')}, kept for a band join")
        if self.damped:
            lines.append(f"  {self._damping()}")
        if self.zone != "UTC" or "timestamp" in self.types.values():
            lines.append(f"  timestamps without a zone are read in {self.zone}")
        for id, reasons in self.dropped.items():
            lines += [f"  rule {id}, a branch that never holds: {reason}" for reason in reasons]
        return "\n".join(lines)

    def _damping(self) -> str:
        by = ", ".join(f"{name} {number:,}" for name, number in self.damped_by.items())
        return f"{count(self.damped, 'rule')} {'is' if self.damped == 1 else 'are'} damped: {by}"

    def _repr_html_(self) -> str:
        rows = [
            (
                _columns_on(group),
                f"{group.rules:,}",
                f"{group.boxes:,}",
                group.structure,
                f"{group.nbytes:,}",
                group.layer or None,
            )
            for group in self.groups
        ]
        if self.bands:
            rows.append(("bands", f"{self.bands:,}", "", "kept for a band join", "", None))
        if self.damped:
            rows.append(("damping", f"{self.damped:,}", "", self._damping(), "", None))
        for each in self.computed:
            rows.append((each.text, f"{len(each.rules):,}", "", f"computed once per batch, {each.type}", "", None))
        for id, reasons in self.dropped.items():
            rows += [(f"rule {id}, a branch that never holds", "", "", reason, "", None) for reason in reasons]
        headers = ("columns", "rules", "boxes", "answered by", "bytes", "layer")
        return html_table(f"snapshot {self.version}: {count(self.rules, 'rule')}", headers, rows)


def _columns_on(group: GroupExplanation) -> str:
    attributes = [_DIGEST.sub("", name) for name in group.attributes]
    return ", ".join([*(f"{key} =" for key in group.keys), *attributes]) or "no column"


def explain_group(group: Group, layer: int) -> GroupExplanation:
    """One group of a layer."""
    return GroupExplanation(
        group.keys,
        group.attributes,
        len(group.rules),
        len(np.unique(group.rules)),
        _DIGEST.sub("", group.explained()),
        group.nbytes,
        layer,
    )


def explain_computed(
    computed: Mapping[str, Computed], groups: Iterable[tuple[Group, Int64s]], ids: Int64s, hidden: Bools | None
) -> tuple[ComputedExplanation, ...]:
    """The expressions that groups use.

    Args:
        computed: the expressions, by the attribute that each gives.
        groups: with the row of each box's rule.
        ids: of rules, by row.
        hidden: the rows that do not count; None if all do.
    """
    found: dict[str, tuple[str, set[int]]] = {}
    for group, rows in groups:
        for name in group.attributes:
            if name in computed:
                each = computed[name]
                kind = "ordered string" if each.bounds is not None else str(each.type)
                shown = rows if hidden is None else rows[~hidden[rows]]
                found.setdefault(each.text, (kind, set()))[1].update(ids[shown].tolist())
    return tuple(ComputedExplanation(text, kind, tuple(sorted(ids))) for text, (kind, ids) in sorted(found.items()))


def explain_sides(bands: BandColumns, ids: Int64s) -> tuple[ComputedExplanation, ...]:
    """The expressions that bands compute of either side; `ids` are those of rules, by row."""
    found: dict[str, tuple[str, set[int]]] = {}
    columns = [bands.left, bands.right, bands.same, bands.sides]
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, *texts in zip(bands.rules.tolist(), *(column.to_pylist() for column in columns), strict=True):
        if texts[-1] is not None:
            rows.setdefault(tuple(texts), []).append(row)
    for (left, right, same, text), own in rows.items():
        pairs = [(left, right), *key_pairs(same)]
        for place, side in enumerate(("left", "right")):
            for each in computed_of(read_sides(text), place, [pair[place] for pair in pairs]):
                kind = "string" if each.term.type == KEY else str(each.type)
                shown = with_side(each.term, side).text
                found.setdefault(shown, (kind, set()))[1].update(ids[own].tolist())
    return tuple(ComputedExplanation(text, kind, tuple(sorted(ids))) for text, (kind, ids) in sorted(found.items()))
