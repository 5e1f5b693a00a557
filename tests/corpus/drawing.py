"""What scenarios are drawn with. Only `random()` is used of Python's generator: its numbers are the same everywhere."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

START = datetime(2024, 1, 1, tzinfo=UTC)
PLACES = 20
"""Every number is one of so many places, in the values of its type."""


class Dice:
    """Seeded choices."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random  # noqa: S311

    def below(self, end: int) -> int:
        return int(self._random() * end)

    def between(self, first: int, last: int) -> int:
        return first + self.below(last - first + 1)

    def chance(self, share: float) -> bool:
        return self._random() < share

    def pick(self, among: Sequence[Any]) -> Any:
        return among[self.below(len(among))]

    def some(self, among: Sequence[Any], count: int) -> list[Any]:
        """Distinct ones, in the order they were drawn."""
        left = list(among)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]


# -- values ----------------------------------------------------------------------------------------------------

ARROW: dict[str, Any] = {
    "double": pa.float64(),
    "float": pa.float32(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "decimal": pa.decimal128(9, 2),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "boolean": pa.bool_(),
    "key": pa.string(),
}
SCHEMA = {kind: kind for kind in ARROW} | {
    "float": "double",
    "int": "bigint",
    "decimal": "decimal(9,2)",
    "key": "string",
}


def value(kind: str, place: int) -> Any:
    """The value at a place."""
    if kind in ("double", "float"):
        return place / 2
    if kind in ("bigint", "int"):
        return place
    if kind == "decimal":
        return Decimal(place) / 4
    if kind == "timestamp":
        return START + timedelta(hours=place)
    if kind == "timestamp_ntz":
        return START.replace(tzinfo=None) + timedelta(hours=place)
    return START.date() + timedelta(days=place) if kind == "date" else place % 2 == 1


TIMES = ("timestamp", "timestamp_ntz", "date")


def literal(kind: str, place: int) -> str:
    """The same as SQL."""
    if kind in ("timestamp", "timestamp_ntz"):
        return f"TIMESTAMP '{value('timestamp_ntz', place)}'"
    if kind == "date":
        return f"DATE '{value(kind, place)}'"
    return str(value(kind, place)).upper()


def difference(kind: str, places: int) -> str:
    """So many places between two values, as SQL."""
    if kind in ("timestamp", "timestamp_ntz"):
        return f"{'-' if places < 0 else ''}INTERVAL '{abs(places)}' HOUR"
    return f"{places}" if kind == "date" else literal(kind, places)


def named(kind: str, number: int | None) -> Any:
    """An object, by its number."""
    if number is None:
        return None
    if kind in ("string", "large_string", "string_view", "dictionary"):
        return f"vehicle {number}"
    if kind in ("int32", "int64"):
        return number
    if kind == "negative":
        return -number - 1
    if kind == "far":
        return number * 2**50 - 2**60
    if kind in ("binary", "fixed_binary"):
        return bytes([255 - number % 256, 0, number // 256])
    if kind == "date":
        return date(2020, 2, 28) + timedelta(days=number)
    if kind == "timestamp":
        return START - timedelta(minutes=number)
    return Decimal(number) / 8 if kind == "decimal" else number / 4


OBJECTS: dict[str, Any] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "negative": pa.int64(),
    "far": pa.int64(),
    "binary": pa.binary(),
    "fixed_binary": pa.binary(3),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "decimal": pa.decimal128(12, 3),
    "double": pa.float64(),
}


@dataclass(frozen=True)
class Times:
    """Event times of one type, by ticks."""

    kind: str
    """none, bigint, timestamp, timestamp_ms, timestamp_ntz or date."""

    @property
    def is_known(self) -> bool:
        return self.kind != "none"

    @property
    def can_expire(self) -> bool:
        return self.kind not in ("none", "bigint")

    @property
    def arrow(self) -> Any:
        return pa.timestamp("ms", tz="Europe/Berlin") if self.kind == "timestamp_ms" else ARROW[self.kind]

    @property
    def tick(self) -> timedelta:
        return timedelta(days=1) if self.kind == "date" else timedelta(seconds=1)

    def at(self, tick: int | None) -> Any:
        if tick is None or self.kind == "none":
            return None
        if self.kind == "bigint":
            return tick
        instant = START + tick * self.tick
        if self.kind == "date":
            return instant.date()
        return instant.replace(tzinfo=None) if self.kind == "timestamp_ntz" else instant

    def span(self, ticks: int) -> Any:
        """How long so many ticks are, for timeout=."""
        return ticks if self.kind == "bigint" else ticks * self.tick

    def expiry(self, tick: int) -> datetime:
        """For expires=; of dates in the middle of a day, too."""
        return START + tick * self.tick + (self.tick / 2 if tick % 3 == 0 else timedelta(0))


# -- rows ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """What the rows of a stream are like."""

    objects: str
    count: int
    """Of objects."""
    times: Times
    sequence: tuple[str, ...]
    numbers: dict[str, str]
    """Attributes and their types."""
    keys: tuple[str, ...]
    deleted: str | None = None
    texts: tuple[str, ...] = ("a", "b", "c", "elsewhere")
    """Of keys; rules ask for a, b and c."""
    numbered: tuple[str, ...] = ()
    """Keys that have numbers, not texts."""
    missing: float = 0.12
    """The share of values that are null, of each column."""
    far: float = 0.1
    """The share of values that are anywhere, not beside the one before."""
    spread: tuple[int, ...] = (0, 0, 0, 1, 1, 2, 4, -2)
    """Ticks from the latest row to the next; negative ones may be late."""
    naming: str = "vehicle"


class Traffic:
    """Rows of one stream: every object walks from place to place."""

    def __init__(self, dice: Dice, stream: Stream, now: int = 0) -> None:
        self.stream, self.now = stream, now
        self._dice = dice
        self._places = {name: [dice.below(PLACES) for _ in range(stream.count)] for name in stream.numbers}
        self._rows = 0

    def rows(self, count: int) -> list[dict[str, Any]]:
        return [self.row() for _ in range(count)]

    def row(self) -> dict[str, Any]:
        dice, stream = self._dice, self.stream
        number = dice.below(stream.count)
        tick = self.now + dice.pick(stream.spread)
        self.now = max(self.now, tick)
        self._rows += 1
        absent = dice.chance(0.01), dice.chance(0.01)
        row = {stream.naming: None if absent[0] else named(stream.objects, number)}
        if stream.times.is_known:
            row["ts"] = None if absent[1] else stream.times.at(tick)
        for at, name in enumerate(stream.sequence):
            row[name] = None if dice.chance(0.1) else dice.below(3) if at + 1 < len(stream.sequence) else self._rows % 5
        for name, kind in stream.numbers.items():
            row[name] = self._moved(name, kind, number)
        for name in stream.keys:
            row[name] = None if dice.chance(2 * stream.missing) else dice.pick(stream.texts)
            if row[name] is not None and name in stream.numbered:
                row[name] = stream.texts.index(row[name])
        if stream.deleted is not None:
            row[stream.deleted] = None if dice.chance(0.1) else dice.chance(0.06)
        return row

    def _moved(self, name: str, kind: str, number: int) -> Any:
        dice, places = self._dice, self._places[name]
        if dice.chance(self.stream.far):
            places[number] = dice.below(PLACES)
        else:
            places[number] = max(0, min(PLACES, places[number] + dice.pick((-2, -1, -1, 0, 1, 1, 2))))
        if dice.chance(self.stream.missing):
            return math.nan if kind in ("double", "float") and dice.chance(0.3) else None
        if kind in ("double", "float") and dice.chance(0.02):
            return dice.pick((-0.0, math.inf, -math.inf, 1e300 if kind == "double" else 1e30))
        return value(kind, places[number])

    def table(self, rows: list[dict[str, Any]]) -> Any:
        """The rows as an Arrow table."""
        stream = self.stream
        types: dict[str, Any] = {stream.naming: OBJECTS[stream.objects]}
        if stream.times.is_known:
            types["ts"] = stream.times.arrow
        types |= dict.fromkeys(stream.sequence, pa.int64())
        types |= {name: ARROW[kind] for name, kind in stream.numbers.items()}
        types |= {name: pa.int64() if name in stream.numbered else pa.string() for name in stream.keys}
        if stream.deleted is not None:
            types[stream.deleted] = pa.bool_()
        return pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in types.items()})

    def batch(self, count: int) -> Any:
        return self.table(self.rows(count))


# -- rules -----------------------------------------------------------------------------------------------------


def between(dice: Dice, name: str, kind: str, *, open_ends: bool = True) -> str:
    """A range of one attribute, perhaps without an end."""
    if kind == "boolean":
        return str(dice.pick((name, f"NOT {name}", f"{name} = TRUE", f"{name} <> TRUE")))
    first = dice.below(PLACES - 1)
    low, high = literal(kind, first), literal(kind, min(PLACES, first + dice.between(1, 7)))
    shapes = [
        f"{name} >= {low} AND {name} < {high}",
        f"{name} > {low} AND {name} <= {high}",
        f"{name} BETWEEN {low} AND {high}",
        f"{name} BETWEEN {low} AND {high}",
        f"{name} = {low}",
    ]
    shapes += [f"{name} < {high}", f"NOT ({name} < {low})"] if open_ends else []
    return str(dice.pick(shapes))


def box(dice: Dice, numbers: dict[str, str], keys: Sequence[str], most: int, *, open_ends: bool = True) -> str:
    """A box over at most so many attributes, perhaps of a key."""
    wanted = [f"{name} = '{dice.pick('abc')}'" for name in keys if dice.chance(0.35)]
    count = dice.between(0 if wanted else 1, most)
    chosen = dice.some(list(numbers), count)
    return " AND ".join([*wanted, *(between(dice, name, numbers[name], open_ends=open_ends) for name in chosen)])


def condition(
    dice: Dice, numbers: dict[str, str], keys: Sequence[str], most: int, boxes: int, *, open_ends: bool = True
) -> str:
    """A condition of at most so many boxes."""
    if boxes > 1 and keys and dice.chance(0.12):
        return f"{keys[0]} IN ('a', 'c') AND {box(dice, numbers, (), most, open_ends=open_ends)}"
    if open_ends and boxes > 1 and dice.chance(0.08):
        name = dice.pick([name for name, kind in numbers.items() if kind != "boolean"])
        return f"{name} <> {literal(numbers[name], dice.below(PLACES))}"
    count = dice.pick((1, 1, 1, *range(1, boxes + 1)))
    return " OR ".join(f"({box(dice, numbers, keys, most, open_ends=open_ends)})" for _ in range(count))


def band(
    dice: Dice,
    kind: str,
    columns: tuple[str, str],
    same: Sequence[str],
    pinned: Sequence[str],
    sharing: float = 0.6,
) -> str:
    """A range for the difference of a left and a right column; `sharing` is the chance that keys must be equal."""
    subtracted = f"left.{columns[0]} - right.{columns[1]}"
    first = dice.between(-6, 5)
    low, high = difference(kind, first), difference(kind, first + dice.between(1, 4))
    parts = [
        dice.pick(
            (
                f"{subtracted} BETWEEN {low} AND {high}",
                f"{subtracted} BETWEEN {low} AND {high}",
                f"{subtracted} > {low} AND {subtracted} <= {high}",
                f"{subtracted} >= {low} AND {subtracted} < {high}",
                f"{subtracted} > {difference(kind, first + 6)}",
                f"{subtracted} <= {difference(kind, first - 6)}",
                f"ABS({subtracted}) < {difference(kind, 1 + abs(first))}",
            )
        )
    ]
    parts += [f"left.{name} = right.{name}" for name in same if dice.chance(sharing)]
    parts += [
        f"{side}.{name} = '{dice.pick('aab')}'" for name in pinned for side in ("left", "right") if dice.chance(0.25)
    ]
    return " AND ".join(parts)


def options(dice: Dice, detects: Sequence[str], times: Times, expiring: float, until: int) -> dict[str, Any]:
    """What a rule has beside its condition."""
    detect = ",".join(dice.some(detects, dice.pick((1, 2, 2, 3, 4))))
    made: dict[str, Any] = {"detect": detect, "initial": dice.chance(0.5), "enabled": not dice.chance(0.08)}
    if times.can_expire and dice.chance(expiring):
        made["expires"] = times.expiry(dice.below(until))
    if dice.chance(0.2):
        made["labels"] = {"owner": dice.pick(("desk 4", "night shift")), "why": "é"}
    return made
