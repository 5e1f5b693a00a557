"""Columns of events behind the attributes: keys, what the rule is called, and what the row carried. No id has them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost._coded import coded, is_worth_it
from fencepost.emitting.detections import ENDED, Detections, Subjects
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.snapshot.labels import LABELS

SINCE = "since"
"""The column that says since when what is reported has been so."""


class EventColumns(NamedTuple):
    """What events have beside their fixed columns, attributes and keys."""

    labels: bool = False
    """Name and labels of the rule."""
    condition: bool = False
    """Its text, where it has one."""
    carry: tuple[str, ...] = ()
    """Columns of the row that caused the event."""

    @property
    def of_rules(self) -> tuple[tuple[str, Any], ...]:
        """The columns that say what a rule is, with their types."""
        own = (("name", pa.string()), ("labels", LABELS)) if self.labels else ()
        return (*own, ("condition", pa.string())) if self.condition else own


def event_columns(labels: Any, condition: Any, carry: str | Iterable[str]) -> EventColumns:
    """The columns that a caller asks for, checked."""
    for name, value in (("labels", labels), ("condition", condition)):
        if not isinstance(value, bool):
            raise FencepostError(f"{name}={value!r}", "True or False", f"Pass {name} as a boolean.")
    carried = (carry,) if isinstance(carry, str) else tuple(carry)
    if not all(isinstance(name, str) for name in carried):
        raise FencepostError(f"carry={carry!r}", "names of columns", "Write for example carry=['venue'].")
    return EventColumns(labels, condition, carried)


def shown_keys(
    keys: Iterable[str], names: Iterable[str], band_key: Iterable[str], columns: EventColumns
) -> tuple[str, ...]:
    """The keys that events show, ascending: all but those whose columns would have the name of another.

    `names` are those of the fixed columns and of attributes.
    """
    others = (*names, *band_key, *(name for name, _ in columns.of_rules), *columns.carry)
    taken = {name.lower() for name in others}
    shown = []
    for name in sorted(keys):
        own = {name.lower(), f"{name}_before".lower()}
        if not own & taken:
            taken |= own
            shown.append(name)
    return tuple(shown)


def check_carried(columns: EventColumns, others: Iterable[str]) -> None:
    """Refuse to carry a column under a name that another column of events has."""
    taken = {name.lower() for name in others}
    for name in columns.carry:
        if name.lower() in taken:
            raise FencepostError(
                f"carry={name!r}, which events have as a column already",
                "a column name that no other event column has",
                "Leave it out, or carry it under another name.",
            )
        taken.add(name.lower())


def check_told(columns: EventColumns, names: Sequence[str]) -> None:
    """Refuse to tell what rules are called where an attribute, or a key of bands, is called like that."""
    taken = {name.lower() for name in names}
    for name, _ in columns.of_rules:
        if name in taken:
            option = "condition" if name == "condition" else "labels"
            raise FencepostError(
                f"{option}=True beside a column {name} of the rules",
                f"that name to be free for the {name} of a rule",
                f"Rename {name} in the stream and in the rules, or leave {option} out.",
            )


def has_since(about: Subjects, columns: EventColumns) -> bool:
    """Whether events have a column that says since when; not where another column has its name."""
    others = (*about.types, *about.keys, *about.key, *columns.carry)
    return about.shows_since and SINCE not in {name.lower() for name in others}


def further_fields(
    about: Subjects, columns: EventColumns, names: Sequence[str], keys: Sequence[str]
) -> list[tuple[str, Any]]:
    """The further columns with their types; `names` are the columns before them, `keys` those that are shown."""
    check_told(columns, [*names, *about.key])
    fields = [] if not has_since(about, columns) else [(SINCE, pa.null() if about.time is None else about.time.arrow)]
    fields += [(column, pa.string()) for name in keys for column in (name, f"{name}_before")]
    for place, name in enumerate(about.key):
        keyed = about.objects.type
        fields.append((name, pa.null() if keyed is None else keyed.field(place).type))
    fields += columns.of_rules
    fields += [(name, about.carried_types.get(name, pa.null())) for name in columns.carry]
    check_carried(columns, [*names, *(name for name, _ in fields[: len(fields) - len(columns.carry)])])
    return fields


def further_arrays(
    found: Detections, about: Subjects, columns: EventColumns, keys: Sequence[str], band_keys: Any, short: bool
) -> list[Any]:
    """The further columns of ordered detections, in their `short` form or not.

    `band_keys` has the objects with their keys, where there are any.
    """
    arrays: list[Any] = []
    if has_since(about, columns):
        assert about.time is not None, "there are objects, so there was a time"
        since = found.times if found.since is None else found.since
        arrays.append(about.time.decode(since, since != found.times))
    for name in keys:
        codes = about.values.keys[name]
        arrays += [_texts_of(about, name, _codes_at(codes, places), short) for places in (found.after, found.before)]
    arrays += [band_keys.field(place) for place in range(len(about.key))]
    if columns.of_rules:
        assert about.texts is not None, "whoever has rules knows their texts"
        if columns.labels:
            arrays += [about.texts.names(found.rules), about.texts.labels(found.rules, short)]
        if columns.condition:
            arrays.append(about.texts.conditions(found.rules))
    if columns.carry:
        rows = None
        if about.carried_rows is not None:
            rows = pa.array(about.carried_rows[found.rows], mask=found.phases == ENDED)
        for name in columns.carry:
            if rows is None or name not in about.carried:
                arrays.append(pa.nulls(len(found.rules), about.carried_types.get(name, pa.null())))
            else:
                arrays.append(about.carried[name].take(rows))
    return arrays


def _codes_at(codes: Int64s, places: Int64s) -> Int64s:
    """The codes of keys at some places, negative where there is no place or no key."""
    return np.where(places < 0, -1, codes[places]) if len(codes) else np.full(len(places), -1, np.int64)


def _texts_of(about: Subjects, name: str, codes: Int64s, short: bool) -> Any:
    """The strings of a key that have some codes, null for negative ones."""
    if short and about.all_strings is not None:
        strings = about.all_strings(name)
        if is_worth_it(len(strings), len(codes)):
            return coded(codes, strings)
    assert about.strings is not None, "whoever has keys knows their strings"
    return about.strings(name, codes)


def join_types(*given: Mapping[str, Any]) -> dict[str, Any]:
    """The types of columns that several tables have; one that is null gives way."""
    joined: dict[str, Any] = {}
    for types in given:
        for name, type_ in types.items():
            if name not in joined or pa.types.is_null(joined[name]):
                joined[name] = type_
    return joined
