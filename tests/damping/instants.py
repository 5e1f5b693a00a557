"""Damping of many objects and rules once more: a walk over all instants, one by one.

It shares nothing with `tests/damping/oracle.py`, which jumps from row to row: here every whole second comes and goes,
and at each the text of docs/damping.md is asked what is so. Times are whole numbers; there are no changes of rules.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tests.damping.oracle import INF, Policy

Row = tuple[str, int, float | None]


def walk(policies: Mapping[int, Policy], rows: Sequence[Row], until: int) -> list[tuple[Any, ...]]:
    """The events of rows, each with its rule, object, detect, time, reason and since, up to an instant."""
    by_instant = defaultdict(list)
    for object, time, x in rows:
        if x is not None:  # it observes nothing
            by_instant[time].append((object, x))
    objects = sorted({row[0] for row in rows})
    seen: dict[str, int] = {}  # when each object said something last
    pairs = {(id, object): dict[str, Any]() for id in policies for object in objects}
    events: list[tuple[Any, ...]] = []
    for pair in pairs.values():
        pair.update(inside=False, counts=False, since=0, rows=0, last=None, enters=0, x=None)

    def report(key: tuple[int, str], detect: str, now: int, reason: str | None) -> None:
        pair = pairs[key]
        waited = reason in ("held", "kept", "cooldown")
        events.append((*key, detect, now, reason, pair["since"] if waited else now))
        pair["last"] = now
        pair["counts"] = detect == "enter" or (pair["counts"] and detect != "exit")
        pair["enters"] += detect == "enter"

    def look(key: tuple[int, str], now: int) -> None:
        """Report what has differed for long enough."""
        pair, policy = pairs[key], policies[key[0]]
        if pair["inside"] == pair["counts"]:
            return
        if pair["counts"]:
            if now - pair["since"] >= policy.keep and pair["rows"] >= policy.keep_rows:
                report(key, "exit", now, "kept" if policy.keep or policy.keep_rows > 1 else None)
            return
        held = now - pair["since"] >= policy.for_ and pair["rows"] >= policy.for_rows
        rested = pair["last"] is None or now - pair["last"] >= policy.cooldown
        if held and rested and pair["enters"] < policy.limit:
            waited_more = pair["last"] is not None and pair["last"] + policy.cooldown > pair["since"] + policy.for_
            needed = "held" if policy.for_ or policy.for_rows > 1 else None
            report(key, "enter", now, "cooldown" if waited_more else needed)

    for now in range(until + 1):
        for object, last in list(seen.items()):
            silent = any(now == last + policy.timeout for policy in policies.values())
            for id, policy in policies.items():
                if now == policy.expires or (silent and now < policy.expires):
                    if pairs[id, object]["counts"]:
                        report((id, object), "exit", now, "expired" if now == policy.expires else "timeout")
                    pairs[id, object]["inside"] = False
                if silent and now < policy.expires:
                    pairs[id, object].update(x=None, enters=0)
            if silent:
                del seen[object]
        for object, x in by_instant[now]:
            is_new, seen[object] = object not in seen, now
            for id, policy in policies.items():
                pair = pairs[id, object]
                inner = policy.lo <= x <= policy.hi
                outer = policy.stay is not None and policy.stay[0] <= x <= policy.stay[1]
                inside = now < policy.expires and (inner or (outer and pair["inside"]))
                if inside != pair["inside"]:
                    pair.update(inside=inside, since=now, rows=0)
                if is_new and policy.first == "silent":
                    pair["counts"] = inside
                pair["rows"] += pair["inside"] != pair["counts"]
                counted, before = pair["counts"], pair["x"]
                pair["x"] = x
                look((id, object), now)
                if policy.crosses and before is not None and now < policy.expires:
                    over = min(before, x) < policy.lo and max(before, x) > policy.hi
                    if over and not counted and not pair["counts"]:
                        report((id, object), "cross", now, None)
        for id, object in pairs:
            if object in seen and pairs[id, object]["inside"] != pairs[id, object]["counts"]:
                look((id, object), now)
    return events


def shape(policies: Mapping[int, Policy], rows: Sequence[Row]) -> int:
    """An instant behind which nothing happens any more."""
    lengths = [
        each
        for policy in policies.values()
        for each in (policy.for_, policy.keep, policy.cooldown, policy.timeout, policy.expires)
        if each != INF
    ]
    return max((row[1] for row in rows), default=0) + int(sum(lengths)) + 2
