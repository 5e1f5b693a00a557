"""Why an object is not reported: where it stands with a rule, and what the rule waits for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from fencepost._html import html_text
from fencepost._text import count
from fencepost.computed import Computed
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
from fencepost.monitor.expressions import columns_used, compute, plain_end, show_part, show_range, shown_values
from fencepost.monitor.reasons import show_box
from fencepost.ordinals import BOOLEAN, AttributeType
from fencepost.pairing.rules import BandRule
from fencepost.rules.damping import Damping
from fencepost.snapshot import DETECTS, NEVER, detect_names
from fencepost.watching.clock import Clock
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
class StandingBand:
    """The band of the rule, and what keeps the pair out of it."""

    band: str
    missed: tuple[str, ...]
    """In words, each key and bound that is not met; empty where the band holds."""

    @property
    def holds(self) -> bool:
        """Whether the pair is inside."""
        return not self.missed

    def __str__(self) -> str:
        return f"{self.band}: {', '.join(self.missed) or 'holds'}"


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
    """Last known values of the columns that the rule uses, and what its expressions make of them."""
    boxes: tuple["StandingBox | StandingBand", ...]
    """Of a band, the band."""
    stay: tuple[StandingBox, ...]
    text: str
    """The answer, as a sentence."""
    other: Any = None
    """Of a band: the right row; `object` is the left one."""

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

    def _repr_html_(self) -> str:
        return html_text(self)


@dataclass(frozen=True)
class Question:
    """What is known of an object, or of the two rows of a band, and a rule."""

    rule: LiveRule | BandRule
    damping: Damping
    object: Any
    name: str
    """In words, likewise what `lacks`: why it may be unknown."""
    lacks: str
    clock: Clock
    is_known: bool
    now: int
    expires: int
    values: dict[str, Any]
    boxes: tuple[StandingBox | StandingBand, ...]
    stay: tuple[StandingBox, ...]
    policies: Policies | None
    remembered: Int64s | None
    """What damping remembers; where that is nothing, it is reported as it is."""
    other: Any = None

    @property
    def has_expired(self) -> bool:
        """Whether the rule has."""
        return self.expires <= self.now

    @property
    def state(self) -> Int64s:
        """As the kernels of damping have it."""
        if self.remembered is not None:
            return self.remembered
        state: Int64s = new_states(1)[0]
        inside = self.is_known and not self.has_expired and any(box.holds for box in self.boxes)
        state[RAW] = state[REPORTED] = state[INNER] = inside
        return state

    def shown(self, ordinal: int) -> Any:
        """A time as a value; None where there is none."""
        if ordinal in (NEVER, LONG_AGO) or self.clock.type is None or self.clock.column is None:
            return None
        return self.clock.type.decode(np.array([ordinal]))[0].as_py()


def find_standing(watch: Watch, rule: LiveRule, object: Any) -> Standing:
    """Where an object stands with a rule in force."""
    state, clock, types = watch.state, watch.clock, watch.rules.types
    slot = state.objects.slot(object)
    is_known = slot != UNKNOWN and bool(state.present[slot])
    now = LONG_AGO if clock.marker is None else clock.marker
    # What is known of the object, of the columns that the boxes of the rule use.
    values: dict[str, int | str | None] = {}
    computed: dict[str, Computed] = {}
    terms: dict[str, Computed] = {}
    if is_known:
        now = int(clock.at_least(state.times[slot : slot + 1])[0])
        boxes = [*watch.rules.boxes(rule), *watch.rules.stay_boxes(rule)]
        codes, known = state.positions(np.array([slot])).keys, watch.rules.computed_of(rule)
        named = {name for keys, ranges in boxes for name in (*keys, *ranges)}
        computed = {name: known[name] for name in sorted(named) if name in known}
        terms = watch.rules.terms_of(rule, named)
        values = {
            name: state.value(name, slot) if name in types else state.strings[name].text(int(codes[name][0]))
            for name in sorted(columns_used(list(named), computed))
        }
    # Where the rule is damped: its lengths, and what waits of this object.
    policies, damped = None, watch.damped()
    if damped is not None and rule.row is not None and damped.is_damped[rule.row]:
        no_expiry = np.full(len(watch.rules.ids), NEVER)
        policies = damped.options.of(np.array([rule.row]), no_expiry, watch.rules.detects)
    pending = state.damped.of(np.array([] if slot == UNKNOWN else [slot], np.int64))[0]
    own = np.flatnonzero(pending.rules == rule.id)

    # The values that expressions have, and all of them as people read them.
    ordinals = {**values, **compute(computed, values)}
    shown = {name: _value(types.get(name), value) for name, value in values.items()}

    def compare(boxes: list[Box]) -> tuple[StandingBox, ...]:
        return tuple(_compare(box, ordinals, types, computed) for box in boxes) if is_known else ()

    return answer(
        Question(
            rule,
            rule.damping or Damping(),
            object,
            str(object),
            "no row of it has come",
            clock,
            is_known,
            now,
            NEVER if rule.expires == NEVER else clock.instant(rule.expires),
            {**shown, **shown_values({**computed, **terms}, values)},
            compare(watch.rules.boxes(rule)),
            compare(watch.rules.stay_boxes(rule)),
            policies,
            pending.states[own[0]] if len(own) else None,
        )
    )


def answer(asked: Question) -> Standing:
    """Where the asked stands with the rule, and what is missing for an event."""
    state = asked.state
    raw, reported = bool(state[RAW]), bool(state[REPORTED])
    waits_for, text = _explain(asked)
    due = NEVER
    if asked.policies is not None:
        due = int(find_policy_dues(state[np.newaxis], asked.policies)[0])
    return Standing(
        asked.rule.id,
        asked.rule.version,
        asked.object,
        asked.is_known,
        raw,
        reported,
        asked.shown(int(state[SINCE])) if raw != reported else None,
        asked.shown(due),
        asked.shown(int(state[QUIET])) if state[QUIET] > asked.now else None,
        waits_for,
        asked.shown(asked.now) if asked.is_known else None,
        asked.values,
        asked.boxes,
        asked.stay,
        text,
        asked.other,
    )


def _explain(asked: Question) -> tuple[str | None, str]:
    """What is missing for an event, and the answer as a sentence."""
    rule, state, name, named = asked.rule, asked.state, asked.name, f"rule {asked.rule.id}"
    if asked.has_expired:
        return "expires", f"Rule {rule.id} expired at {_time(asked, asked.expires)}."
    if not asked.is_known:
        timeout = asked.clock.given_timeout
        gone = "" if timeout is None else f", or it was silent for longer than `timeout` {timeout}"
        return "object", f"{name} is not known: {asked.lacks}{gone}.{_later(asked)}"
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


def _find_wait(asked: Question) -> tuple[str, str]:
    """The option that an enter waits for, and until when."""
    state, policies, damping = asked.state, asked.policies, asked.damping
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


def _find_keep(asked: Question) -> str:
    state, policies, damping = asked.state, asked.policies, asked.damping
    if policies is None:
        return "its next row tells."
    short = int(policies.keep_rows[0] - state[ROWS])
    if short > 0:
        return f"`keep_firing_for` {damping.keep_firing_for} needs {count(short, 'more row')}."
    until = _time(asked, later(int(state[SINCE]), int(policies.keeps[0])))
    return f"`keep_firing_for` {damping.keep_firing_for} is not over before {until}."


def _later(asked: Question) -> str:
    """What would hold an enter back if the object came inside now."""
    state, policies, damping = asked.state, asked.policies, asked.damping
    if policies is None:
        return ""
    if state[ENTERS] >= policies.limits[0]:
        return f" {_limit(asked)}"
    if state[QUIET] > asked.now:
        until = _time(asked, int(state[QUIET]))
        return f" `cooldown` {damping.cooldown} lets no enter be reported before {until}."
    return ""


def _limit(asked: Question) -> str:
    damping = asked.damping
    ends = "" if asked.clock.given_timeout is None else " before it times out"
    return f"`limit` {damping.limit} is reached: no further enter is reported{ends}."


def _missed(boxes: tuple[StandingBox | StandingBand, ...]) -> str:
    if len(boxes) == 1:
        return ", ".join(boxes[0].missed)
    return f"none of its {count(len(boxes), 'part')} holds"


def _time(asked: Question, ordinal: int) -> str:
    """A time; of the day that the object's clock shows, only the time of day."""
    value, now = asked.shown(ordinal), asked.shown(asked.now)
    if value is None:
        return f"row {ordinal}" if asked.clock.column is None else "ever"
    if not isinstance(value, datetime):
        return str(value)
    text = value.isoformat(" ", "minutes" if value.second == value.microsecond == 0 else "auto").removesuffix("+00:00")
    return text[11:] if isinstance(now, datetime) and value.date() == now.date() else text


def _value(type_: AttributeType | None, value: int | str | None) -> Any:
    return value if type_ is None or value is None else type_.decode(np.array([value]))[0].as_py()


def _compare(
    box: Box,
    values: Mapping[str, int | str | None],
    types: Mapping[str, AttributeType],
    computed: Mapping[str, Computed],
) -> StandingBox:
    keys, ranges = box
    shown, missed = {}, []
    for name, text in keys.items():
        if values[name] != text:
            missed.append(f"{name} is {'not known' if values[name] is None else repr(values[name])}, not {text!r}")
    for name, (first, last) in ranges.items():
        each = computed.get(name)
        named, type_ = (name, types[name]) if each is None else (each.text, each.type)
        bounds = None if each is None else each.bounds
        low, high = shown[named] = show_range(type_, first, last, bounds)
        value: Any = values[name]
        if type_ == BOOLEAN and value is not None and not first <= value <= last:
            missed.append(f"{show_part(named, low, high)} does not hold")
        elif value is None:
            missed.append(f"{named} is not known")
        elif value < first or value > last:
            if each is not None and bounds is not None:
                own = repr(next(iter(shown_values({name: each}, values).values()), values.get(each.term.value or "")))
            else:
                own = _value(type_, value)
            end, is_open = plain_end(low, -math.inf) if value < first else plain_end(high, math.inf)
            words = ("not above" if is_open else "below") if value < first else ("not below" if is_open else "above")
            missed.append(f"{named} is {own}, {words} {end}")
    return StandingBox(dict(keys), shown, tuple(missed))
