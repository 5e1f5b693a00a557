"""Trying a condition: what a rule and its next condition would have reported, as pages show it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.console.book_rules import fields_given
from fencepost.console.source import Fired, Trial
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.rules import Rule
    from fencepost.service.trying import Tried

_BINS = 60


def try_rules(
    old: "Rule | None",
    condition: str,
    options: Mapping[str, Any],
    check: "Callable[[Mapping[str, Any]], Rule]",
    backtest: "Callable[[list[Rule]], Tried]",
) -> Trial:
    """What a rule and its next condition report side by side.

    Args:
        old: the rule as it is; None for a new one.
        condition: the next one.
        options: and its options.
        check: makes a rule of its fields, or refuses them.
        backtest: replays rows with some rules.
    """
    number = 0 if old is None or old.id != 0 else 1
    given = {name: value for name, value in options.items() if name not in ("name", "expires")}
    new = check(fields_given(number, condition, given))
    tried = backtest([new] if old is None else [old, new])
    if not tried.rows:
        raise FencepostError("no rows", "rows to try the condition on", "Try again when rows have come.")
    ends = [end for fired in tried.fired.values() for end in (fired.first, fired.last) if end is not None]
    span = (min(ends), max(ends)) if ends else (None, None)
    before = None if old is None else _fired(tried, old.id)
    return Trial(tried.rows, span[0], span[1], before, _fired(tried, number), tried.unread)


def _fired(tried: "Tried", id: int) -> Fired:
    found = tried.fired.get(id)
    if found is None:
        return Fired({}, 0, (), [0] * _BINS)
    events = {kind: number for kind, number in found.events.items() if number}
    return Fired(events, found.objects, [(name, None) for name in found.most], tried.over_time.get(id, [0] * _BINS))
