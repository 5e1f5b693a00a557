"""The vectors of the documentation: rule `x BETWEEN 10 AND 20`, one object; `t:x` is a row, `-` null, `T5` a tick."""

from typing import Any, NamedTuple

from tests.damping.oracle import INF, Policy


class Vector(NamedTuple):
    name: str
    policy: Policy
    rows: str
    events: str
    then: tuple[Any, ...] | None = None
    """A change of the rule behind the rows."""
    more: str = ""
    """Rows behind the change."""


VECTORS = [
    Vector("V1", Policy(for_=5), "0:15 3:15 5:15 9:30", "enter@5 held, exit@9"),
    Vector("V2", Policy(for_=5), "0:15 4:30 6:15 12:15", "enter@11 held"),
    Vector("V3", Policy(for_=5), "0:15 5:30", ""),
    Vector("V4", Policy(for_=5), "0:15 60:30", "enter@5 held, exit@60"),
    Vector("V5", Policy(for_=5, timeout=10), "0:15 60:30", "enter@5 held, exit@10 timeout"),
    Vector("V6", Policy(for_=5, timeout=4), "0:15 60:15", ""),
    Vector("V7", Policy(keep=5), "0:15 2:30 4:15 6:30 20:30", "enter@0, exit@11 kept"),
    Vector(
        "V8",
        Policy(for_=3, keep=4),
        "0:15 1:30 2:15 3:30 4:15 8:15 9:30 10:15 11:30 16:30",
        "enter@7 held, exit@15 kept",
    ),
    Vector("V9", Policy(stay=(8, 22)), "0:15 1:21 2:19 3:21 4:23 5:21 6:20", "enter@0, exit@4, enter@6"),
    Vector(
        "V10",
        Policy(stay=(8, 22), for_=2),
        "0:15 1:21 2:9 3:23 4:21 5:20 9:25",
        "enter@2 held, exit@3, enter@7 held, exit@9",
    ),
    Vector("V11", Policy(cooldown=10), "0:15 1:30 2:15 3:30 15:15", "enter@0, exit@1, enter@15"),
    Vector("V12", Policy(cooldown=10), "0:15 1:30 2:15 20:30", "enter@0, exit@1, enter@11 cooldown, exit@20"),
    Vector("V13", Policy(for_=5), "0:15 3:- 6:15", "enter@5 held"),
    Vector("V14", Policy(for_=5), "0:15 4:15 2:30 6:15", "enter@5 held"),
    Vector("V15", Policy(for_=5), "0:15 T5", ""),
    Vector("V16", Policy(for_=5), "0:15 T6 9:30", "enter@5 held, exit@9"),
    Vector("V17", Policy(for_=5), "0:15 T6 3:30", "enter@5 held, exit@5"),
    Vector("V18", Policy(for_rows=3), "0:15 1:15 2:30 3:15 4:15 5:15 6:30", "enter@5 held, exit@6"),
    Vector("V19", Policy(for_=5, expires=4), "0:15 9:15", ""),
    Vector("V20", Policy(for_=5, expires=7), "0:15 9:15", "enter@5 held, exit@7 expired"),
    Vector("V21", Policy(first="silent", for_=5), "0:15 9:30", "exit@9"),
    Vector("V22", Policy(for_=5), "0:15 2:15", "", ("remove", "removed")),
    Vector("V23", Policy(for_=1), "0:15 2:15", "enter@1 held, exit@2 removed", ("remove", "removed")),
    Vector("V24", Policy(for_=5), "0:15 3:15", "enter@3 held, exit@9", ("edit", {"for_": 2}), "9:30"),
    Vector("V25", Policy(for_=1), "0:15 3:15", "enter@1 held, exit@5", ("edit", {"for_": 9}), "5:30"),
    Vector("V26", Policy(for_=1), "0:15 3:15", "enter@1 held, exit@3 edited", ("edit", {"lo": 16}), "5:15"),
]


def read_items(text: str) -> list[tuple[Any, ...]]:
    """The rows and ticks of a text."""
    items: list[tuple[Any, ...]] = []
    for word in text.split():
        if word[0] == "T":
            items.append(("tick", int(word[1:])))
        else:
            time, _, x = word.partition(":")
            items.append(("row", int(time), None if x == "-" else float(x)))
    return items


def items_of(vector: Vector) -> list[tuple[Any, ...]]:
    """All that happens in a vector."""
    change = [] if vector.then is None else [vector.then]
    return [*read_items(vector.rows), *change, *read_items(vector.more)]


def read_events(text: str) -> list[tuple[str, int, str | None]]:
    """The events of a text."""
    events = []
    for event in filter(None, text.split(", ")):
        what, _, reason = event.partition(" ")
        detect, _, time = what.partition("@")
        events.append((detect, int(time), reason or None))
    return events


def options_text(policy: Policy) -> str:
    """The options of a vector as the documentation writes them."""
    stay = None if policy.stay is None else f"{policy.stay[0]}..{policy.stay[1]}"
    shown = {
        "for": policy.for_ or (f"{policy.for_rows} rows" if policy.for_rows > 1 else None),
        "keep_firing_for": policy.keep,
        "stay": stay,
        "cooldown": policy.cooldown,
        "expires": None if policy.expires == INF else policy.expires,
        "timeout": None if policy.timeout == INF else policy.timeout,
        "first": "silent" if policy.first == "silent" else None,
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items() if value)


def table_row(vector: Vector) -> str:
    """A vector as a line of the table in docs/damping.md."""
    rows = [vector.rows]
    if vector.then is not None:
        kind, change = vector.then
        edited = {"for_": "for {}", "lo": "{}..20"}
        texts = [kind + "d"] if kind == "remove" else [edited[name].format(value) for name, value in change.items()]
        rows.append(texts[0] if kind == "remove" else f"edited to {texts[0]}")
    rows += [vector.more] if vector.more else []
    return f"| {vector.name} | {options_text(vector.policy)} | {', '.join(rows)} | {vector.events or 'none'} |"
