"""A monitor and the naive replay of its rules, given the same and compared after every step."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from fencepost.monitor import Monitor
from fencepost.rules import Rules

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


def options(rule: Any) -> dict[str, Any]:
    """How a rule of a replay is added to a monitor."""
    expires = None if rule.expires is None else EPOCH + timedelta(microseconds=rule.expires)
    detect = ",".join(sorted(rule.detect))
    told = {"name": rule.name, "labels": rule.labels}
    return {"detect": detect, "initial": rule.initial, "expires": expires, "enabled": rule.enabled, **told}


def rules_of(rules: Iterable[Any]) -> Rules:
    """Rules of a replay as a monitor takes them."""
    given = Rules()
    for rule in rules:
        given.add(rule.id, rule.condition(), **options(rule))
    return given


def scripts_of(
    batches: st.SearchStrategy[Any], rules: st.SearchStrategy[Any], at_once: int, steps: int
) -> st.SearchStrategy[Any]:
    """Lists of what `Played.play` takes: rows most of the time, changes of rules, and times that come.

    Args:
        batches: of rows.
        rules: with ids from 1 to 4.
        at_once: the most that one change puts.
        steps: the most there are.

    """
    changes = st.one_of(
        st.tuples(st.just("put"), rules),
        st.tuples(st.just("put"), rules),
        st.tuples(st.just("remove"), st.integers(1, 4)),
        st.tuples(
            st.just("many"), st.tuples(st.lists(rules, max_size=at_once), st.sets(st.integers(1, 4), max_size=2))
        ),
        st.tuples(st.just("advance"), st.integers(-2, 8)),  # after the latest so far
    )
    taken = st.tuples(st.just("rows"), batches)
    return st.lists(st.one_of(taken, taken, changes), max_size=steps)


class Played(ABC):
    """What happens to a monitor happens to the replay; how rows are taken and events compared is up to each kind.

    Args:
        replay: without rules.
        start: the rules to begin with.
        first: the setting of that name.
        timeout: in microseconds.
        sequenced: whether rows have a sequence.
        settings: of the monitor, beyond these.

    """

    def __init__(
        self,
        replay: Any,
        start: Iterable[Any],
        first: str,
        timeout: int | None,
        sequenced: bool,
        **settings: Any,
    ) -> None:
        self.replay = replay
        self._settings: dict[str, Any] = {
            "object": "object",
            "time": "time",
            "sequence": "sequence" if sequenced else None,
            "first": first,
            "timeout": None if timeout is None else timedelta(microseconds=timeout),
            **settings,
        }
        for rule in start:
            if rule.id not in replay.rules:
                self._put(rule)
        self.monitor = self.build(rules_of(replay.rules.values()))
        self.now = 0
        self.all: list[Any] = []
        """Every event that was expected."""

    def build(self, rules: Rules) -> Monitor:
        """A monitor with the same settings."""
        return Monitor(rules, **self._settings)

    def play(self, action: str, argument: Any) -> None:
        """One step of a script."""
        if action == "rows":
            expected, got = self._rows(argument)
        elif action == "advance":
            if not self.monitor._clock.type:
                return
            expected = self.replay.advance(self.now + argument)
            got = self.monitor.advance(EPOCH + timedelta(microseconds=self.now + argument))
            self.now = max(self.now, self.now + argument)
        elif action == "remove":
            if argument not in self.replay.rules:
                return
            expected, got = self.replay.remove(argument), self.monitor.remove(argument)
        elif action == "many":
            put = {rule.id: rule for rule in argument[0]}
            remove = [id for id in argument[1] if id in self.replay.rules and id not in put]
            expected = [event for id in remove for event in self.replay.remove(id)]
            for rule in put.values():
                expected += self._put(rule)
            got = self.monitor.change(rules_of(put.values()), remove)
        else:
            verb = self.monitor.replace if argument.id in self.replay.rules else self.monitor.add
            expected = self._put(argument)
            got = verb(argument.id, argument.condition(), **options(argument))
        self.check(got, expected)

    def check(self, got: Any, expected: list[Any]) -> None:
        """Compare the events of one step, and what both know after it."""
        assert self._grouped(self._events(got)) == self._grouped(expected)
        self.all += expected
        self.compare()

    def compare(self) -> None:
        """Compare what both know."""
        for id, rule in self.replay.rules.items():
            if rule.enabled:
                inside = self.monitor.inside(id)
                assert set(inside) == self.replay.inside(id)
                assert len(inside) == len(set(inside))
        counters = self.monitor.counters
        assert [counters[name] for name in ("rows", "late", "null")] == [
            self.replay.rows,
            self.replay.late,
            self.replay.null,
        ]
        assert sum(counters["events"].values()) == len(self.all)

    @abstractmethod
    def _put(self, rule: Any) -> list[Any]:
        """Add a rule to the replay, or edit it there."""

    @abstractmethod
    def _rows(self, drawn: Any) -> tuple[list[Any], Any]:
        """Give rows to both, at times from now on: the events expected, and the table of those reported."""

    @abstractmethod
    def _events(self, table: Any) -> list[Any]:
        """Events of a monitor as the replay has them."""

    @abstractmethod
    def _grouped(self, events: list[Any]) -> dict[Any, list[Any]]:
        """Events by what their order is promised for."""
