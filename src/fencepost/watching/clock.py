"""Event time: its type, how long objects may be silent, when rules expire."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.ordinals import BIGINT, AttributeType
from fencepost.snapshot import DETECTS, NEVER, Snapshot
from fencepost.snapshot.columns import MICROSECONDS, UNITS

_DAY = 86_400_000_000
_REMEDY = 'Pass timeout=, for example timedelta(minutes=10), or --timeout "10 minutes".'


def latest_marker(marker: int | None, now: int) -> int:
    """The time that every clock is at after a marker."""
    return now if marker is None else max(marker, now)


def gone_after(times: Int64s, timeout: int) -> Int64s:
    """When objects whose last rows had these times have been silent for too long; `NEVER` if no time is that late."""
    timeout = min(timeout, NEVER)
    gone: Int64s = np.minimum(times, NEVER - timeout) + timeout
    return gone


def read_marker(marker: int, type: AttributeType) -> int:
    """The ordinal of the time of a marker, which has microseconds or, on a clock of integers, the number itself."""
    return marker // _DAY if type.kind == "date" else marker


def _length_text(value: int, unit: int) -> str:
    return str(timedelta(microseconds=value)) if unit == MICROSECONDS else f"{value:,}"


class BeyondClock(NamedTuple):
    """Rules in force that a clock cannot do with."""

    rows: Int64s
    """Of the snapshot, ascending."""
    ids: Int64s
    refusal: Callable[[int], FencepostError]
    """Why, by the place among these."""

    def refuse(self) -> None:
        """Raise the first refusal, if there is any."""
        if len(self.rows):
            raise self.refusal(0)

    def faults(self) -> dict[int, str]:
        """Why, by id, each in one line."""
        return {id: self.refusal(place).one_line for place, id in enumerate(self.ids.tolist())}


def rules_beyond_clock(snapshot: Snapshot, clock: "Clock", type: AttributeType | None = None) -> BeyondClock:
    """The rules in force that a clock cannot do with, on times of a type, or else of its own.

    They are rules that expire, or that have a length of time, in a unit that times do not have; and those that detect
    silence where there is no timeout. While no type is known, only these are found.
    """
    found = list(_beyond(snapshot, clock, type or clock.type))
    rows = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in found)])
    sources = np.repeat(np.arange(len(found)), [len(rows) for rows, _ in found])
    rows, first = np.unique(rows, return_index=True)  # the first reason of a rule counts
    ids = snapshot.rules.ids[rows]

    def refusal(place: int) -> FencepostError:
        _, make = found[int(sources[first[place]])]
        return make(int(rows[place]))

    return BeyondClock(rows, ids, refusal)


def _beyond(
    snapshot: Snapshot, clock: "Clock", type: AttributeType | None
) -> Iterator[tuple[Int64s, Callable[[int], FencepostError]]]:
    """Rows of rules, with what makes the refusal of a row."""
    rules, damping = snapshot.rules, snapshot.damping

    def in_force(rows: Int64s) -> Int64s:
        return rows[np.isin(rows, snapshot.in_force)] if len(rows) else rows

    if type is not None and not clock.takes_expiry(type):
        expiring = in_force(np.flatnonzero(rules.expires != NEVER))
        yield expiring, lambda row: clock.expiry_refusal(int(rules.ids[row]), type)
    if clock.given_timeout is None:
        silent = in_force(np.flatnonzero(rules.detects & DETECTS["silent"]))
        yield silent, lambda row: clock.silence_refusal(int(rules.ids[row]))
    if type is None or damping is None:
        return
    for values, units in (
        (damping.holds, damping.hold_units),
        (damping.keeps, damping.keep_units),
        (damping.cooldowns, damping.cooldown_units),
        (damping.everys, damping.every_units),
    ):
        wrong = in_force(damping.rules[wrong_units(units, type)])
        yield wrong, partial(_length_refusal, clock, type, damping.rules, values, units, rules.ids)


def _length_refusal(
    clock: "Clock", type: AttributeType, rows: Int64s, values: Int64s, units: UInt8s, ids: Int64s, row: int
) -> FencepostError:
    place = int(rows.searchsorted(row))
    return clock.length_refusal(int(ids[row]), int(values[place]), int(units[place]), type)


def wrong_units(units: UInt8s, type: AttributeType) -> Bools:
    """Which lengths are in a unit that times of a type do not have; numbers of rows go with all."""
    wrong: Bools = units == (UNITS if type.dimension == "time" else MICROSECONDS)
    if type.dimension != "time" and type.kind != "bigint":
        wrong |= units == UNITS
    return wrong


class Clock:
    """The clock that objects live by: ordinals of the time column, or a count of rows where there is none.

    `remedy` is what to do where a rule detects silence and there is no timeout.
    """

    def __init__(self, column: str | None, timeout: timedelta | int | None, remedy: str = _REMEDY) -> None:
        if timeout is not None and column is None:
            raise FencepostError(
                f"timeout={timeout!r} without time", "a time column", "Pass time=, the column to measure silence on."
            )
        if isinstance(timeout, bool) or not isinstance(timeout, (timedelta, int, type(None))):
            raise FencepostError(f"timeout={timeout!r}", "a timedelta or a whole number", "Pass timedelta(minutes=5).")
        if timeout is not None and (timeout <= timedelta(0) if isinstance(timeout, timedelta) else timeout <= 0):
            raise FencepostError(f"timeout={timeout!r}", "more than zero", "Pass None for no timeout.")
        self.column = column
        self.given_timeout = timeout
        self._remedy = remedy
        self.type: AttributeType | None = BIGINT if column is None else None
        """The type of times; None until the first is seen."""
        self._marker: int | None = None
        """Every object's clock is at least this."""

    def type_for(self, arrow_type: Any) -> AttributeType:
        """The type of times in a column of this Arrow type."""
        if pa.types.is_null(arrow_type):
            return BIGINT  # no time at all: nothing will be taken
        try:
            return AttributeType.parse(arrow_type)
        except FencepostError as error:
            raise FencepostError(
                f"{self.column} of type {arrow_type} as time",
                error.expected,
                "Cast the column, for example to timestamp.",
            ) from None

    def start(self, type: AttributeType, expiring: Int64s) -> None:
        """Take times of this type from now on; rules with these ids expire."""
        self.check(type, expiring)
        self.type = type

    def check(self, type: AttributeType, expiring: Int64s) -> None:
        """Refuse a type of times that the timeout, or rules that expire, cannot do with."""
        self._timeout_in(type)
        self.check_expiry(expiring, type)

    @property
    def timeout(self) -> int | None:
        """How long an object may be silent, in ordinals of the type."""
        return None if self.type is None else self._timeout_in(self.type)

    def _timeout_in(self, type: AttributeType) -> int | None:
        given = self.given_timeout
        if given is None:
            return None
        if type.dimension == "time" and isinstance(given, timedelta):
            microseconds = given // timedelta(microseconds=1)
            return -(-microseconds // _DAY) if type.kind == "date" else microseconds
        if type.kind == "bigint" and isinstance(given, int):
            return given
        raise FencepostError(
            f"timeout={given!r} and {self.column} as {type}",
            "a timedelta for timestamps and dates, a whole number for integers",
            "Pass the timeout in the unit of the time column.",
        )

    @property
    def marker(self) -> int | None:
        """Every object's clock is at least this."""
        return self._marker

    def lengths(self, values: Int64s, units: UInt8s, ids: Int64s, asked: Bools | None = None) -> Int64s:
        """Lengths of time of the rules with these ids, in ordinals; refuses those that times cannot do with.

        Numbers of rows are left as they are. Only lengths that are `asked` for are refused, if that is said.
        """
        type = self.type or BIGINT
        wrong = wrong_units(units, type)
        if asked is not None:
            wrong &= asked
        for place in np.flatnonzero(wrong)[:1].tolist():
            raise self.length_refusal(int(ids[place]), int(values[place]), int(units[place]), type)
        if type.kind == "date":
            return np.where(units == MICROSECONDS, -(-values // _DAY), values)
        return values

    def length_refusal(self, id: int, value: int, unit: int, type: AttributeType) -> FencepostError:
        """Of a rule with a length that times of a type cannot do with."""
        on = "rows that are counted" if self.column is None else f"{self.column} as {type}"
        return FencepostError(
            f"rule {id} has a length of {_length_text(value, unit)}, and {on}",
            "lengths such as '5 minutes' for timestamps and dates, whole numbers for integers",
            "Write the length in the unit of the time column"
            + (", or name the time column: time=, or --time." if self.column is None else "."),
        )

    def check_silence(self, ids: Int64s) -> None:
        """Refuse rules that detect silence, given their ids, where no object ever goes silent."""
        if self.given_timeout is None and len(ids):
            raise self.silence_refusal(int(ids[0]))

    def silence_refusal(self, id: int) -> FencepostError:
        """Of a rule that detects silence where no object ever goes silent."""
        return FencepostError(
            f"rule {id} detects silent, but there is no timeout",
            "a timeout, which says how long an object may be silent",
            self._remedy,
        )

    def takes_expiry(self, type: AttributeType) -> bool:
        """Whether times of a type are instants, by which rules can expire."""
        return type.dimension == "time"

    def check_expiry(self, expiring: Int64s, type: AttributeType | None = None) -> None:
        """Refuse rules that expire, given their ids, where times of the type, or of the clock's, are no instants."""
        type = type or self.type
        if type is not None and not self.takes_expiry(type) and len(expiring):
            raise self.expiry_refusal(int(expiring[0]), type)

    def expiry_refusal(self, id: int, type: AttributeType) -> FencepostError:
        """Of a rule that expires where times of a type are no instants."""
        if self.column is None:
            return FencepostError(
                f"rule {id}, which expires, without time",
                "a time column",
                "Pass time= to the Monitor: rules expire by event time.",
            )
        return FencepostError(
            f"rule {id}, which expires, and {self.column} as {type}",
            "a time column of timestamps or dates",
            "Convert the column to timestamps, or leave out the expiry.",
        )

    def instant(self, microseconds: int) -> int:
        """The ordinal of the first time at or after an instant."""
        return -(-microseconds // _DAY) if self.type is not None and self.type.kind == "date" else microseconds

    def instants(self, microseconds: Int64s) -> Int64s:
        """The same for many; `NEVER` stays."""
        if self.type is None or self.type.kind != "date":
            return microseconds
        return np.where(microseconds == NEVER, NEVER, -(-microseconds // _DAY))

    def at_least(self, times: Int64s) -> Int64s:
        """The clocks of objects whose last rows had these times."""
        return times if self._marker is None else np.maximum(times, self._marker)

    def read(self, time: Any) -> int:
        """The ordinal of a time to advance to."""
        if self.column is None:
            raise FencepostError(
                "a time to advance to, but no time column", "a time column", "Pass time= to the Monitor."
            )
        if self.type is None:
            raise FencepostError(
                f"{time!r} as the time to advance to before any row",
                "rows first, which decide the type of time",
                "Call update first.",
            )
        now = self.type.encode_one(time, self.column)
        if now is None:
            raise FencepostError(f"{time!r} as the time to advance to", f"a {self.type}", "Pass an instant.")
        return now

    def read_marker(self, marker: int) -> int:
        """The ordinal of the time of a marker."""
        assert self.type is not None, "the clock was started"
        return read_marker(marker, self.type)

    def advance(self, now: int) -> None:
        """Let every object's clock be at least this."""
        self._marker = latest_marker(self._marker, now)

    def saved(self) -> dict[str, Any]:
        """The type and the marker, for a state file."""
        return {"type": None if self.type is None else str(self.type), "marker": self._marker}

    def restore(self, kept: dict[str, Any]) -> None:
        """Take over what `saved` gave."""
        self._marker = kept["marker"]
        self.type = None if kept["type"] is None else AttributeType.parse(kept["type"])
