"""Change feeds of tables of rules: envelopes of Debezium, and rows of Delta's change data feed.

Both say what a row of a table is from now on, or that it is gone. The columns are mapped to rules by the settings of
``fencepost rules sync``.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost._text import name_kind
from fencepost.book.incoming import IncomingTable
from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import PipelineFile, listed
from fencepost.pipeline.file.keys import MAPPED
from fencepost.rules import Rule
from fencepost.rules.table_arguments import named_columns, read_table_arguments, refuse_without_columns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1)


class RowChange(NamedTuple):
    """What a feed says of a row of the table."""

    row: Mapping[str, Any]
    is_gone: bool


def read_debezium(value: str | None) -> RowChange | None:
    """The row of an envelope, with or without its schema; None for a tombstone."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise FencepostError(f"no JSON ({error})", "an envelope of Debezium", "Use its JSON converter.") from None
    fields: Mapping[str, Any] = {}
    if isinstance(found, dict) and "payload" in found and "op" not in found:
        fields, found = _fields_of(found.get("schema")), found["payload"]
        if found is None:
            return None
    operation = found.get("op") if isinstance(found, dict) else None
    sides = {"c": "after", "r": "after", "u": "after", "d": "before"}
    if operation not in sides:
        got = f"op {operation!r}" if isinstance(found, dict) else name_kind(found)
        raise FencepostError(got, f"an envelope with op: {', '.join(sides)}", "Send Debezium's own envelopes.")
    side = sides[operation]
    row = found.get(side)
    if not isinstance(row, dict):
        got = f"op {operation!r} without {side}"
        raise FencepostError(got, "the row", "Let the database log keys of removed rows (REPLICA IDENTITY).")
    types = fields.get(side, {})
    return RowChange({name: _plain_value(name, each, types.get(name)) for name, each in row.items()}, operation == "d")


def _fields_of(schema: Any) -> dict[str, dict[str, Any]]:
    """The fields of both sides by name, where an envelope says them."""
    sides = schema.get("fields") if isinstance(schema, dict) else None
    return {
        str(side.get("field")): {str(each.get("field")): each for each in side.get("fields") or ()}
        for side in sides or ()
        if isinstance(side, dict)
    }


def _plain_value(name: str, value: Any, field: Mapping[str, Any] | None) -> Any:
    """A value in its own type: JSON has no times and no decimals, but the schema of an envelope says which it means."""
    if value is None or field is None:
        return value
    try:
        match str(field.get("name", "")).rpartition(".")[2]:
            case "Decimal":
                return _decimal(value, int(field["parameters"]["scale"]))
            case "VariableScaleDecimal":
                return _decimal(value["value"], int(value["scale"]))
            case "Date":
                return _FIRST_DAY + timedelta(days=value)
            case "Timestamp":
                return _EPOCH + timedelta(milliseconds=value)
            case "MicroTimestamp":
                return _EPOCH + timedelta(microseconds=value)
            case "NanoTimestamp":
                return _EPOCH + timedelta(microseconds=value // 1000)
            case "ZonedTimestamp":
                return datetime.fromisoformat(value)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        got = f"the value {value!r} of {name} ({error})"
        raise FencepostError(got, f"a value of {field.get('name')}", "Correct the connector.") from None
    return value


def _decimal(text: str, scale: int) -> Decimal:
    return Decimal(int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)).scaleb(-scale)


def read_delta(row: Mapping[str, Any]) -> RowChange:
    """A row of Delta's change data feed. What it was before an update is gone, unless it is there afterwards."""
    kept = {name: value for name, value in row.items() if name not in _OF_DELTA}
    match row.get("_change_type"):
        case "insert" | "update_postimage":
            return RowChange(kept, False)
        case "delete" | "update_preimage":
            return RowChange(kept, True)
        case other:
            raise FencepostError(f"_change_type {other!r}", "a change data feed", "Name a Delta table that has one.")


_OF_DELTA = ("_change_type", "_commit_version", "_commit_timestamp")


def feed_arguments(file: PipelineFile) -> dict[str, Any]:
    """How the columns of a pipeline's feed are mapped to rules: the arguments of RuleBook.sync."""
    changes = file.section("rules.changes")
    given = {name: changes[name] for name in MAPPED if changes.get(name)}
    several = ("equal", "range", "bounds", "label", "option")
    given |= {name: listed(given[name]) for name in several if name in given}
    return read_table_arguments(**given, mark="")


def check_feed(file: PipelineFile) -> None:
    """Refuse a feed whose columns make no rules, or which is nowhere."""
    changes = file.section("rules.changes")
    if changes.get("format") not in ("debezium", "delta"):
        return
    if changes["format"] == "delta" and not (changes["path"] or changes["table"]):
        raise FencepostError("no path and no table", "a Delta table with a change data feed", "Name one of them.")
    arguments = feed_arguments(file)
    refuse_without_columns(arguments, "a feed", mark="")
    FeedRules(arguments)


class FeedRules:
    """Makes rules of rows, with the settings of ``fencepost rules sync``.

    >>> made = FeedRules({"id": "alert", "ranges": {"price": ("low", "high")}})
    >>> [(rule.id, str(rule.condition)) for rule in made.read([{"alert": 7, "low": 40, "high": 50}])]
    [(7, 'price >= 40 AND price < 50')]
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = dict(arguments)
        self._columns = list(dict.fromkeys(named_columns(self._arguments)))
        empty = IncomingTable(pa.table({name: pa.nulls(0) for name in self._columns}), self._arguments)
        self.says_enabled = empty.says_enabled
        """Whether the table says which rules are paused."""

    def key_of(self, row: Mapping[str, Any]) -> int | str:
        """What the rule of a row is called by: its id, or its name."""
        key = row.get(self._columns[0])
        if isinstance(key, bool) or not isinstance(key, (int, str)) or key == "":
            raise FencepostError(f"{self._columns[0]} {key!r}", "an integer, or a name", "Name the column of ids: id.")
        return key

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Rule | FencepostError]:
        """The rule of each row, or why it has none.

        Only rows with values of the same types are read together: a whole number stays one, whoever is beside it.
        """
        alike: dict[tuple[type, ...], list[int]] = {}
        for number, row in enumerate(rows):
            alike.setdefault(tuple(type(row.get(name)) for name in self._columns), []).append(number)
        found: dict[int, Rule | FencepostError] = {}
        for numbers in alike.values():
            found |= zip(numbers, self._read_alike([rows[number] for number in numbers]), strict=True)
        return [found[number] for number in range(len(rows))]

    def _read_alike(self, rows: Sequence[Mapping[str, Any]]) -> list[Rule | FencepostError]:
        try:
            return [*self._read_all(rows)]
        except FencepostError as error:
            if len(rows) == 1:
                return [error]
        # Some are wrong: each half is tried by itself, so that a good row costs little beside a bad one.
        middle = len(rows) // 2
        return [*self._read_alike(rows[:middle]), *self._read_alike(rows[middle:])]

    def _read_all(self, rows: Sequence[Mapping[str, Any]]) -> list[Rule]:
        for row in rows:
            if missing := [name for name in self._columns if name not in row]:
                raise FencepostError(
                    f"a row without {missing[0]}", f"the columns {', '.join(self._columns)}", "Correct the settings."
                )
        columns = {name: [row[name] for row in rows] for name in self._columns}
        return list(IncomingTable(columns, self._arguments).rules())
