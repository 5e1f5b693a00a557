"""What is known of objects: their last values, and the rules that they are inside."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.indexes.kernels.damping import RAW, REPORTED, SINCE
from fencepost.watching.engine import Watch
from fencepost.watching.entries import Pending
from fencepost.watching.objects import UNKNOWN
from fencepost.watching.tables import table_of, waiting_texts


@dataclass(frozen=True)
class Waiting:
    """A rule whose event waits."""

    rule_id: int
    kind: str
    """"enter" or "exit"."""
    since: Any
    object: Any = None
    """Whose event, where one asks for a rule."""


@dataclass(frozen=True)
class KnownObject:
    """An object as it was last seen.

    Args:
        object: the object.
        time: of its last row.
        values: its last known values by column; None where nothing is known.
        inside: ids of the rules that it is inside, ascending: their condition holds, or `stay` since it was inside.
            What damping holds back does not matter.
        waiting: rules whose enter or exit damping holds back.
    """

    object: Any
    time: Any
    values: dict[str, Any]
    inside: tuple[int, ...]
    waiting: tuple[Waiting, ...]


@dataclass(frozen=True)
class ObjectPage:
    """Some objects, and where the next ones are."""

    objects: list[Any]
    next: int | None
    total: int


def find_object(watch: Watch, object: Any) -> KnownObject | None:
    """An object; None where no row of it has come, or it is gone."""
    state, rules, clock = watch.state, watch.rules, watch.clock
    slot = state.objects.slot(object)
    if slot == UNKNOWN or not state.present[slot]:
        return None
    place = np.array([slot])
    positions, now = state.positions(place), int(state.times[slot])
    values: dict[str, Any] = {}
    for name, type_ in rules.kept.types.items():
        ordinal = state.value(name, slot)
        values[name] = None if ordinal is None else type_.decode(np.array([ordinal]))[0].as_py()
    for name in rules.kept.keys:
        values[name] = state.strings[name].text(int(positions.keys[name][0]))
    pending, _ = state.damped.of(place)
    held = rules.ids[rules.held_at(positions, state.strings).rules]
    held = np.setdiff1d(held, pending.rules)  # of these damping remembers whether it is inside
    held = np.union1d(held, pending.rules[pending.states[:, RAW] != 0])
    until = clock.instants(rules.expires[rules.snapshot().rows_of(held)])
    inside = tuple(held[until > clock.at_least(state.times[place])].tolist())
    waiting = _read_waiting(watch, pending)
    time = now if clock.type is None else _decode(clock.type, now)
    return KnownObject(object, time, dict(sorted(values.items())), inside, tuple(waiting))


def find_waiting(watch: Watch, rule: int) -> list[Waiting]:
    """The objects whose enter or exit of a rule damping holds back."""
    pending = watch.state.damped.all()
    return _read_waiting(watch, pending.take(pending.rules == rule), with_objects=True)


def _read_waiting(watch: Watch, pending: Pending, *, with_objects: bool = False) -> list[Waiting]:
    clock = watch.clock
    waits = pending.take(pending.states[:, RAW] != pending.states[:, REPORTED])
    objects = watch.state.objects.values(waits.slots).to_pylist() if with_objects else [None] * len(waits.rules)
    found = []
    for number, own, object in zip(waits.rules.tolist(), waits.states, objects, strict=True):
        since = None if clock.column is None or clock.type is None else _decode(clock.type, int(own[SINCE]))
        found.append(Waiting(number, "enter" if own[RAW] else "exit", since, object))
    return found


def list_objects(watch: Watch, after: int, limit: int) -> ObjectPage:
    """The objects in slots from one on, as many as fit on a page."""
    present = watch.state.present[after:]
    slots = after + np.flatnonzero(present[: 64 * limit])[:limit]
    if len(slots) < limit:  # where many went
        slots = after + np.flatnonzero(present)[:limit]
    last = int(slots[-1]) + 1 if len(slots) else after
    more = bool(watch.state.present[last:].any())
    return ObjectPage(watch.state.objects.values(slots).to_pylist(), last if more else None, watch.state.count)


def _decode(type_: Any, ordinal: int) -> Any:
    return type_.decode(np.array([ordinal]))[0].as_py()


def state_table(watch: Watch) -> Any:
    """All objects with their last time and values, and what waits, as `fencepost.spark.read_state` has them."""
    state, rules, type_ = watch.state, watch.rules, watch.clock.type
    table = table_of(state, state.here())
    columns = {"object": table["object"]}
    columns["time"] = table["time"] if type_ is None else type_.decode(np.asarray(table["time"]))
    for name, own in rules.kept.types.items():
        ordinals = table[f"attribute {name}"].combine_chunks()
        columns[name] = own.decode(np.asarray(ordinals.fill_null(0)), np.asarray(ordinals.is_valid()))
    columns |= {name: table[f"key {name}"] for name in sorted(rules.kept.keys)}
    return pa.table({**columns, "damped": waiting_texts(table)})
