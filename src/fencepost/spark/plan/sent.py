"""Which columns of a frame go to Python, under which names; and the frame of events that comes back."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import MapType, StringType, StructField

from fencepost.emitting.further import SINCE, EventColumns, check_carried, check_told, shown_keys
from fencepost.events import event_schema
from fencepost.ordinals import AttributeType
from fencepost.snapshot import Snapshot, Table
from fencepost.spark.plan.abilities import parse_type
from fencepost.spark.plan.columns import KEY, arrow_type, bind_columns, own_name, quoted
from fencepost.spark.work.task import DELETED, OBJECT, TIME, Side

_SEQUENCE = "fencepost sequence"


class Sent(NamedTuple):
    """The columns that go to Python."""

    columns: list[tuple[str, str]]
    """Each as it is called there, and in the frame."""
    twice: tuple[tuple[str, str], ...]
    """Those that are sent already under another name."""

    def rows(self, frame: Any) -> Any:
        """These columns of a frame, under their names in Python."""
        return frame.select(*(quoted(own).alias(name) for name, own in self.columns))

    def field(self, frame: Any, name: str) -> Any:
        """The frame's own field of a column."""
        columns = dict(self.columns)
        own = columns[dict(self.twice).get(name, name)]
        return next(field for field in frame.schema.fields if field.name == own)

    def side(self, frame: Any, needed: Mapping[str, str], own: Iterable[str] = ()) -> Side:
        """What a task must know of these columns, which rules `needed`, or compare with columns of the other side."""
        keys = tuple(sorted(name for name, kind in needed.items() if kind == KEY))
        sent = frozenset((*needed, *own))
        object_type = self.field(frame, OBJECT).dataType.simpleString()
        return Side(self.twice, tuple(sorted(attributes_of(needed))), keys, sent, object_type)


def name_roles(
    object: str, time: str, sequence: str | Sequence[str] | None, deleted: str | None = None
) -> list[tuple[str, str]]:
    """What columns are for, with the names that a caller gave them."""
    order = (sequence,) if isinstance(sequence, str) else tuple(sequence or ())
    roles = [(OBJECT, object), (TIME, time), *((f"{_SEQUENCE} {n}", column) for n, column in enumerate(order))]
    return roles if deleted is None else [*roles, (DELETED, deleted)]


def sequence_roles(roles: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Those of the roles that order rows of equal time."""
    return tuple(role for role, _ in roles if role.startswith(_SEQUENCE))


def sent_columns(
    frame: Any,
    roles: Iterable[tuple[str, str]],
    needed: Mapping[str, str],
    snapshot: Snapshot,
    own: Iterable[str] = (),
    carry: Iterable[str] = (),
) -> Sent:
    """The columns that an operator needs, none of them twice; refuses missing ones and inexact conversions.

    `roles` are those of `name_roles`; `own` columns of rules, and those that events `carry`, may have any type.
    """
    names = Table(dict.fromkeys(frame.columns, ()))
    columns: dict[str, str] = {}
    """By the frame's own name, so that none is sent twice."""
    twice: list[tuple[str, str]] = []

    def send(name: str, own: str) -> None:
        if own in columns:
            twice.append((name, columns[own]))
        else:
            columns[own] = name

    for role, wanted in roles:
        reason = partial("which was named as {}".format, role.removeprefix("fencepost "))
        send(role, own_name(names, wanted, reason))
    for column in bind_columns(frame.dtypes, needed, snapshot):
        send(column.name, column.own)
    for name in own:
        send(name, own_name(names, name, lambda: "which rules compare"))
    for name in carry:
        send(name, own_name(names, name, lambda: "which carry= names"))
    return Sent([(name, own) for own, name in columns.items()], tuple(twice))


def attributes_of(needed: Mapping[str, str]) -> dict[str, str]:
    """The columns that have ranges, or are subtracted, with their types."""
    return {name: kind for name, kind in needed.items() if kind != KEY}


def event_fields(
    given: Mapping[str, Any],
    attributes: Mapping[str, str],
    keys: Iterable[str],
    columns: EventColumns,
    carried: Sequence[Any],
    band_key: Sequence[Any] = (),
    *,
    since: bool = False,
) -> list[Any]:
    """The columns of events, in Spark's types; `since` says whether rules are damped.

    `carried` are the frame's fields of columns that events carry, `band_key` those of the key of bands.
    """
    parsed = {name: AttributeType.parse(kind) for name, kind in attributes.items()}
    types = dict(given) | dict.fromkeys(("rule_id", "rule_version", "snapshot_version"), "bigint")
    for name, kind in attributes.items():
        types |= {name: kind, f"{name}_before": kind}
    fields = []
    for name in event_schema(pa.null(), pa.null(), parsed).names:
        type_ = types.get(name, StringType())
        fields.append(StructField(name, spark_type(type_) if isinstance(type_, str) else type_))
    before, key_names = [field.name for field in fields], [field.name for field in band_key]
    check_told(columns, [*before, *key_names])
    rule_columns = [name for name, _ in columns.of_rules]
    if since and SINCE not in {name.lower() for name in (*before, *key_names, *keys, *columns.carry)}:
        fields.append(StructField(SINCE, given["time"]))
    check_carried(columns, [*before, *key_names, *rule_columns, *keys])
    for name in shown_keys(keys, before, key_names, columns):
        fields += [StructField(name, StringType()), StructField(f"{name}_before", StringType())]
    fields += band_key
    fields += [
        StructField(name, MapType(StringType(), StringType()) if name == "labels" else StringType())
        for name in rule_columns
    ]
    for name, field in zip(columns.carry, carried, strict=True):
        arrow_type(field)  # refuses what Python would not get as it is
        fields.append(StructField(name, field.dataType))
    return fields


def spark_type(text: str) -> Any:
    """The Spark type that a text names."""
    return parse_type(f"c {text}")[0].dataType
