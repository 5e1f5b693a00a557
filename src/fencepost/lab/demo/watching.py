"""The demo's console: the market and the city on pages, and rules that people add by hand."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from fencepost.console.book_rules import read_label
from fencepost.console.recorder import Recorder
from fencepost.console.rows import RecentRows, RowObjects
from fencepost.console.source import Figure, FoundRules, Missing, Overview, RuleSearch
from fencepost.console.versions import BookVersions, rules_at
from fencepost.errors import FencepostError
from fencepost.lab.demo.world import BY_HAND, SCHEMA, World
from fencepost.monitor import Monitor
from fencepost.published import VersionDirectory
from fencepost.rules import Rule, Rules
from fencepost.rules.options import fields_of
from fencepost.service.values import read_values

if TYPE_CHECKING:
    from fencepost.lab.demo.live import Live

_LOOKED_AT = 2_000
_ROWS = 1_000_000


class DemoRules:
    """A million simulated rules to look at, and those that people add, which they may change."""

    can_edit = True
    has_versions = False

    def __init__(
        self, world: World, rules: Callable[[], Rules], lock: Any, publish: Callable[[], Mapping[int, str]]
    ) -> None:
        self._world, self._rules, self._lock, self._publish = world, rules, lock, publish
        self._own: dict[int, None] = {}
        self._next = BY_HAND

    def count(self) -> int:
        """How many there are."""
        return len(self._rules())

    def page(self, after: int | None, limit: int, search: RuleSearch) -> FoundRules:
        """The next rules after an id that fit a search; those that people added come last."""
        text, labels = search.text.strip().lower(), read_label(search.label)
        if search.holds:
            ids = np.array(self._holding(search.holds), np.int64)
        else:
            ids = np.concatenate([self._world.ids, np.array(list(self._own), np.int64)])
        named: list[Rule] = []
        if text and after is None:
            named = [rule for rule in map(self.get, self._own) if rule and rule.name and text in rule.name.lower()]
            named += [rule for rule in [self.get(int(text))] if rule] if text.isdecimal() else []
        begin = 0 if after is None else int(np.searchsorted(ids, after, side="right"))
        found: list[Rule] = []
        for place in range(begin, min(len(ids), begin + _LOOKED_AT)):
            rule = self.get(int(ids[place]))
            if rule is not None and _fits(rule, text, labels, search.state) and rule not in named:
                found.append(rule)
            if len(found) == limit:
                return FoundRules(found, rule.id if rule and place + 1 < len(ids) else None, None, named)
        is_end = begin + _LOOKED_AT >= len(ids)
        return FoundRules(
            found, None if is_end else int(ids[begin + _LOOKED_AT - 1]), None if is_end else _LOOKED_AT, named
        )

    def _holding(self, text: str) -> Sequence[int]:
        return self.find_at(read_values(text, SCHEMA | {"symbol": "key"}))

    find_at: Callable[[Mapping[str, Any]], Sequence[int]]

    def get(self, id: int) -> Rule | None:
        """One rule."""
        try:
            return self._rules()[id]
        except FencepostError:
            return None

    def some(self, ids: Sequence[int]) -> dict[int, Rule]:
        """Those of some rules that are there."""
        return {id: rule for id in ids if (rule := self.get(id)) is not None}

    def types(self) -> Mapping[str, str]:
        """The columns of the demo."""
        return SCHEMA | {"symbol": "key"}

    def paused_until(self, id: int) -> datetime | None:  # noqa: ARG002 (as in RulesPart)
        """There is no clock for it."""
        return None

    def history(self, id: int) -> Sequence[Any]:  # noqa: ARG002 (as in RulesPart)
        """The demo keeps none."""
        return ()

    # -- changing ------------------------------------------------------------------------------------------

    def add(self, id: int | str | None, condition: str, options: Mapping[str, Any], author: str) -> Rule:  # noqa: ARG002
        """Add a rule; it gets an id of its own."""
        with self._lock:
            number = self._next
            self._rules().add(number, condition, **options)
            self._next += 1
            reason = self._publish().get(number)
            if reason is not None:
                self._rules().remove(number)
                raise FencepostError(reason, "a rule about the columns of the demo", "Correct the condition.")
            self._own[number] = None
        return self._rules()[number]

    def replace(self, id: int, condition: str, options: Mapping[str, Any], expect: int | None, author: str) -> Rule:  # noqa: ARG002
        """Edit a rule that somebody added."""
        with self._lock:
            self._check(id, expect)
            self._rules().replace(id, condition, **options)
            self._publish()
        return self._rules()[id]

    def remove(self, id: int, expect: int | None, author: str) -> None:  # noqa: ARG002 (as in RulesPart)
        """Take a rule out that somebody added."""
        with self._lock:
            self._check(id, expect)
            self._rules().remove(id)
            del self._own[id]
            self._publish()

    def pause(self, id: int, until: datetime | None, expect: int | None, author: str) -> None:
        """Let a rule take no part."""
        if until is not None:
            raise FencepostError("a pause with an end", "one without, in this demo", "Pause it until it is resumed.")
        self._enable(id, False, expect, author)

    def resume(self, id: int, expect: int | None, author: str) -> None:
        """Let it take part again."""
        self._enable(id, True, expect, author)

    def _enable(self, id: int, enabled: bool, expect: int | None, author: str) -> None:
        rule = self.get(id)
        if rule is not None:
            named = {("for_" if name == "for" else name): value for name, value in fields_of(rule).items()}
            options = {name: named[name] for name in named if name not in ("id", "condition", "version")}
            self.replace(id, str(rule.condition), {**options, "enabled": enabled}, expect, author)

    def restore(self, id: int, version: int, expect: int | None, author: str) -> None:  # noqa: ARG002
        """The demo keeps no versions of a rule."""
        raise FencepostError("an older version", "a rule book, which keeps them", "Edit the rule.")

    def import_file(self, name: str, content: bytes, existing: Any, author: str) -> Any:  # noqa: ARG002
        """The demo takes rules one by one."""
        raise FencepostError(f"the file {name}", "rules one by one, in this demo", "Add them by hand.")

    def _check(self, id: int, expect: int | None) -> None:
        if id not in self._own:
            raise FencepostError(
                f"rule {id} belongs to the simulation", "a rule that was added by hand", "Add a rule of your own."
            )
        version = self._rules()[id].version
        if expect is not None and version != expect:
            raise FencepostError(f"rule {id} is at version {version}", f"version {expect}", "Look at what changed.")


def _fits(rule: Rule, text: str, labels: Mapping[str, str] | None, state: str) -> bool:
    if text and text not in str(rule.condition).lower() and text != str(rule.id):
        return False
    if labels and not labels.items() <= (rule.labels or {}).items():
        return False
    return state in ("", "enabled" if rule.enabled else "paused")


class DemoSource:
    """The pages of the demo."""

    title = "fencepost demo"
    about = "A simulated market and city on local Spark"

    def __init__(self, live: "Live", world: World, lock: Lock) -> None:
        self._live = live
        self._directory = VersionDirectory(live.published)
        self._loaded: tuple[int | None, Any] = (None, None)
        self.events = Recorder()
        self._recent = RecentRows("object", "ts", _ROWS)
        self.rules = DemoRules(world, lambda: live.rules, lock, live.publish_by_hand)
        self.rules.find_at = self._rules_at
        self._objects = RowObjects(self._recent, self._rules_at)
        self.objects = self._objects
        self.rows = self._recent
        self.versions = BookVersions(
            None, live.published, publishing=Missing("The demo publishes by itself, every few seconds.")
        )

    def record_rows(self, rows: Any) -> None:
        """Take in what has moved."""
        self._recent.record(rows)
        self._objects.record(rows)
        self.events.record(None, rows.num_rows)

    def _rules_at(self, values: Mapping[str, Any]) -> Sequence[int]:
        return rules_at(self._directory, values)

    def refresh(self) -> None:
        """Changes are published as they are made."""

    def why(self, event: Mapping[str, Any]) -> Any:
        """The rule behind an event, as it is now."""
        rule = self.rules.get(int(event["rule_id"]))
        if rule is None or rule.version != event["rule_version"]:
            return Missing("The rule was changed or removed since.")
        alone = Rules.from_dicts([{**fields_of(rule), "enabled": True}])
        return Monitor(alone, object="object", time="ts", schema=SCHEMA).why(event)

    def overview(self) -> Overview:
        """How things are now."""
        figures = self._live.figures()
        rows, events, latency = self.events.series()
        shown = [
            Figure("Rows per second", f"{self.events.rates()[0]:,.0f}", f"{self.events.rows:,} in all"),
            Figure("Events per second", f"{figures.events_per_second:,.0f}", f"{figures.events:,} in all"),
            Figure("Latency, median", f"{figures.median_latency:.1f} s", f"{figures.highest_latency:.1f} s at most"),
            Figure("Rules", f"{figures.rules:,}", "half of them prices, half fences"),
            Figure("Version", f"{figures.version:,}", "in force"),
        ]
        facts = [("Last change", figures.last_change), ("Objects", f"{self.objects.count():,}")]
        return Overview("running", shown, rows, events, latency, facts)
