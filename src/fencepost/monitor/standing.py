"""Why an object is not reported: where it stands with a rule, and what the rule waits for."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from fencepost._text import count
from fencepost.emitting.damping import find_policy_dues, new_states
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.damping import (
    ENTERS,
    INNER,
    LONG_AGO,
    QUIET,
    RAW,
    REPORTED,
    ROWS,
    SINCE,
    Policies,
    later,
)
from fencepost.monitor.reasons import show_box, show_range
from fencepost.ordinals import AttributeType
from fencepost.rules.damping import Damping
from fencepost.snapshot import DETECTS, NEVER, detect_names
from fencepost.watching.engine import Watch
from fencepost.watching.objects import UNKNOWN
from fencepost.watching.rules_in_force import Box, LiveRule

_ENTER = DETECTS["enter"]


@dataclass(frozen=True)
class StandingBox:
    """One box of the rule, and what keeps the values of the object out of it."""

    keys: dict[str, str]
    ranges: dict[str, tuple[Any, Any]]
    """The smallest and the largest value inside; None where unbounded."""
    missed: tuple[str, ...]
    """In words, each key and bound that is not met; empty where the box holds."""

    @property
    def holds(self) -> bool:
        """Whether the values are inside."""
        return not self.missed

    def __str__(self) -> str:
        return f"{show_box(self.keys, self.ranges)}: {', '.join(self.missed) or 'holds'}"


@dataclass(frozen=True)
class Standing:
    """Where an object stands with a rule in force; prints as a sentence and a short report."""

    rule_id: int
    rule_version: int
    object: Any
    is_known: bool
    """Whether the object has a row, and has not timed out."""
    raw: bool
    """Whether it is inside: the condition holds, or, for one that was inside, `stay`."""
    reported: bool
    """Whether consumers believe that it is inside."""
    since: Any
    """Since when raw differs from reported; None where it does not."""
    due: Any
    """When that becomes an event, if nothing changes; None where only rows or a timeout can tell."""
    quiet: Any
    """Until when `cooldown` lets no enter be reported; None where it is over."""
    waits_for: str | None
    """What is missing for an event: condition, for, keep_firing_for, cooldown, limit, detect, expires, object."""
    clock: Any
    """The time that the object's clock shows."""
    values: dict[str, Any]
    """Last known values of the columns that the rule uses."""
    boxes: tuple[StandingBox, ...]
    stay: tuple[StandingBox, ...]
    text: str
    """The answer, as a sentence."""

    def __str__(self) -> str:
        lines = [self.text]
        if self.is_known:
            raw, reported = ("inside" if state else "outside" for state in (self.raw, self.reported))
            at = "" if self.clock is None else f" at {self.clock}"
            lines.append(f"  {raw}, reported as {reported}{at}")
        lines += [f"  {name}: {value}" for name, value in self.values.items()]
        lines += [f"  {box}" for box in self.boxes]
        lines += [f"  stay: {box}" for box in self.stay]
        return "\n".join(lines)


class _Question:
    """What is known of one object and one rule."""

    def __init__(self, watch: Watch, rule: LiveRule, object: Any) -> None:
        self.watch, self.rule, self.object = watch, rule, object
        state, clock = watch.state, watch.clock
        self.slot = state.objects.slot(object)
        self.is_known = self.slot != UNKNOWN and bool(state.present[self.slot])
        self.now = LONG_AGO
        if self.is_known:
            self.now = int(clock.at_least(state.times[self.slot : self.slot + 1])[0])
        elif clock.marker is not None:
            self.now = clock.marker
        self.expires = NEVER if rule.expires == NEVER else clock.instant(rule.expires)
        self.values = self._find_values()
        self.boxes = self._compare(watch.rules.boxes(rule))
        self.stay = self._compare(watch.rules.stay_boxes(rule))
        self.policies = self._find_policies()
        self.state = self._find_state()

    @property
    def has_expired(self) -> bool:
        return self.expires <= self.now

    def shown(self, ordinal: int) -> Any:
        """A time as a value; None where there is none."""
        type_ = self.watch.clock.type
        if ordinal in (NEVER, LONG_AGO) or type_ is None or self.watch.clock.column is None:
            return None
        return type_.decode(np.array([ordinal]))[0].as_py()

    def _find_values(self) -> dict[str, int | str | None]:
        """Ordinals of attributes and texts of keys, of the columns that the rule uses."""
        rules, state = self.watch.rules, self.watch.state
        boxes = [*rules.boxes(self.rule), *rules.stay_boxes(self.rule)]
        used = sorted({name for keys, ranges in boxes for name in (*keys, *ranges)})
        if not self.is_known:
            return {}
        codes = state.positions(np.array([self.slot])).keys
        return {
            name: state.value(name, self.slot) if name in rules.types else state.strings[name].text(int(codes[name][0]))
            for name in used
        }

    def _compare(self, boxes: list[Box]) -> tuple[StandingBox, ...]:
        types = self.watch.rules.types
        return tuple(_compare(box, self.values, types) for box in boxes) if self.is_known else ()

    def _find_policies(self) -> Policies | None:
        damped, row = self.watch.damped(), self.rule.row
        if damped is None or row is None or not damped.is_damped[row]:
            return None
        rules = self.watch.rules
        return damped.options.of(np.array([row]), np.full(len(rules.ids), NEVER), rules.detects)

    def _find_state(self) -> Int64s:
        """What damping remembers of the pair; where that is nothing, it is reported as it is."""
        if self.slot != UNKNOWN:
            pending, _ = self.watch.state.damped.of(np.array([self.slot]))
            for place in np.flatnonzero(pending.rules == self.rule.id)[:1].tolist():
                found: Int64s = pending.states[place]
                return found
        state: Int64s = new_states(1)[0]
        inside = self.is_known and not self.has_expired and any(box.holds for box in self.boxes)
        state[RAW] = state[REPORTED] = state[INNER] = inside
        return state


def find_standing(watch: Watch, rule: LiveRule, object: Any) -> Standing:
    """Where an object stands with a rule in force."""
    asked = _Question(watch, rule, object)
    state, types = asked.state, watch.rules.types
    raw, reported = bool(state[RAW]), bool(state[REPORTED])
    waits_for, text = _explain(asked)
    due = NEVER
    if asked.policies is not None:
        due = int(find_policy_dues(state[np.newaxis], asked.policies)[0])
    return Standing(
        rule.id,
        rule.version,
        object,
        asked.is_known,
        raw,
        reported,
        asked.shown(int(state[SINCE])) if raw != reported else None,
        asked.shown(due),
        asked.shown(int(state[QUIET])) if state[QUIET] > asked.now else None,
        waits_for,
        asked.shown(asked.now) if asked.is_known else None,
        {name: _value(types.get(name), value) for name, value in asked.values.items()},
        asked.boxes,
        asked.stay,
        text,
    )


def _explain(asked: _Question) -> tuple[str | None, str]:
    """What is missing for an event, and the answer as a sentence."""
    rule, state, name, named = asked.rule, asked.state, asked.object, f"rule {asked.rule.id}"
    if asked.has_expired:
        return "expires", f"Rule {rule.id} expired at {_time(asked, asked.expires)}."
    if not asked.is_known:
        timeout = asked.watch.clock.given_timeout
        gone = "" if timeout is None else f", or it was silent for longer than `timeout` {timeout}"
        return "object", f"{name} is not known: no row of it has come{gone}.{_later(asked)}"
    raw, reported = bool(state[RAW]), bool(state[REPORTED])
    since = _time(asked, int(state[SINCE]))
    if raw and not reported:
        option, wait = _find_wait(asked)
        return option, f"{name} has been inside {named} since {since}; {wait}"
    if reported and not raw:
        wait = _find_keep(asked)
        return "keep_firing_for", f"{name} has been outside {named} since {since}, and still counts as inside; {wait}"
    if raw:
        by_stay = "" if state[INNER] else " by `stay` alone"
        if not rule.detects & _ENTER:
            return "detect", f"{name} is inside {named}{by_stay}, which detects only {detect_names(rule.detects)}."
        return None, f"{name} is inside {named}{by_stay}, and counts as such."
    return "condition", f"{name} is outside {named}: {_missed(asked.boxes)}.{_later(asked)}"


def _find_wait(asked: _Question) -> tuple[str, str]:
    """The option that an enter waits for, and until when."""
    state, policies, damping = asked.state, asked.policies, asked.rule.damping or Damping()
    if policies is None:
        return "for", "its next row tells."  # what it waited for was taken away
    if state[ENTERS] >= policies.limits[0]:
        return "limit", _limit(asked)
    short = int(policies.hold_rows[0] - state[ROWS])
    if short > 0:
        return "for", f"`for` {damping.for_} needs {count(short, 'more row')}."
    held = later(int(state[SINCE]), int(policies.holds[0]))
    if state[QUIET] > held:
        return "cooldown", f"`cooldown` {damping.cooldown} is not over before {_time(asked, int(state[QUIET]))}."
    return "for", f"`for` {damping.for_} is not over before {_time(asked, held)}."


def _find_keep(asked: _Question) -> str:
    state, policies, damping = asked.state, asked.policies, asked.rule.damping or Damping()
    if policies is None:
        return "its next row tells."
    short = int(policies.keep_rows[0] - state[ROWS])
    if short > 0:
        return f"`keep_firing_for` {damping.keep_firing_for} needs {count(short, 'more row')}."
    until = _time(asked, later(int(state[SINCE]), int(policies.keeps[0])))
    return f"`keep_firing_for` {damping.keep_firing_for} is not over before {until}."


def _later(asked: _Question) -> str:
    """What would hold an enter back if the object came inside now."""
    state, policies, damping = asked.state, asked.policies, asked.rule.damping or Damping()
    if policies is None:
        return ""
    if state[ENTERS] >= policies.limits[0]:
        return f" {_limit(asked)}"
    if state[QUIET] > asked.now:
        until = _time(asked, int(state[QUIET]))
        return f" `cooldown` {damping.cooldown} lets no enter be reported before {until}."
    return ""


def _limit(asked: _Question) -> str:
    damping = asked.rule.damping or Damping()
    ends = "" if asked.watch.clock.given_timeout is None else " before it times out"
    return f"`limit` {damping.limit} is reached: no further enter is reported{ends}."


def _missed(boxes: tuple[StandingBox, ...]) -> str:
    if len(boxes) == 1:
        return ", ".join(boxes[0].missed)
    return f"none of its {count(len(boxes), 'part')} holds"


def _time(asked: _Question, ordinal: int) -> str:
    """A time; of the day that the object's clock shows, only the time of day."""
    value, now = asked.shown(ordinal), asked.shown(asked.now)
    if value is None:
        return f"row {ordinal}" if asked.watch.clock.column is None else "ever"
    if not isinstance(value, datetime):
        return str(value)
    text = value.isoformat(" ", "minutes" if value.second == value.microsecond == 0 else "auto").removesuffix("+00:00")
    return text[11:] if isinstance(now, datetime) and value.date() == now.date() else text


def _value(type_: AttributeType | None, value: int | str | None) -> Any:
    return value if type_ is None or value is None else type_.decode(np.array([value]))[0].as_py()


def _compare(box: Box, values: Mapping[str, int | str | None], types: Mapping[str, AttributeType]) -> StandingBox:
    keys, ranges = box
    shown, missed = {}, []
    for name, text in keys.items():
        if values[name] != text:
            missed.append(f"{name} is {'not known' if values[name] is None else repr(values[name])}, not {text!r}")
    for name, (first, last) in ranges.items():
        low, high = shown[name] = show_range(types[name], first, last)
        value: Any = values[name]
        if value is None:
            missed.append(f"{name} is not known")
        elif value < first:
            missed.append(f"{name} is {_value(types[name], value)}, below {low}")
        elif value > last:
            missed.append(f"{name} is {_value(types[name], value)}, above {high}")
    return StandingBox(dict(keys), shown, tuple(missed))
