"""The host of both engines of a monitor, with one clock, one emitter and one lock."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from threading import RLock
from types import MappingProxyType
from typing import Any, TypeVar, cast

from fencepost.emitting.emitter import Emitter, check_names
from fencepost.emitting.engine import Step
from fencepost.emitting.further import EventColumns, check_carried
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import id_column
from fencepost.language import Band, parse
from fencepost.ordinals import ColumnType
from fencepost.pairing.engine import Pairwise
from fencepost.pairing.sides import Pairing
from fencepost.rules import Rules
from fencepost.rules.damping import Damping
from fencepost.rules.rule import RuleKey, checked_id
from fencepost.snapshot import Snapshot
from fencepost.watching.clock import Clock
from fencepost.watching.engine import Watch, WatchColumns
from fencepost.watching.rules_in_force import LiveRule, RulesInForce

_Method = TypeVar("_Method", bound=Callable[..., Any])


def asks(method: _Method) -> _Method:
    """Let a method of a host run while no other thread runs one."""

    @wraps(method)
    def run(self: "Host", /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(_Method, run)


def changes(method: _Method) -> _Method:
    """The same for a method that changes its host: where it fails, nothing has changed."""

    @wraps(method)
    def run(self: "Host", /, *args: Any, **kwargs: Any) -> Any:
        with self._all_or_nothing():
            return method(self, *args, **kwargs)

    return cast(_Method, run)


class Host:
    """Both engines with their clock and the one emitter. A call that raises has changed nothing."""

    def __init__(
        self,
        rules: RulesInForce,
        columns: WatchColumns,
        clock: Clock,
        pairing: Pairing,
        *,
        silent: bool,
        late: Callable[[Any], None] | None,
        declared: dict[str, ColumnType] | None,
        event_columns: EventColumns,
    ) -> None:
        self._clock, self._late, self._reports_late = clock, late, False
        report_late = None if late is None else self._report_late
        self._watch = Watch(rules, columns, clock, silent=silent, late=report_late)
        self._pairs = Pairwise(
            (columns.object, columns.sequence),
            clock,
            pairing,
            silent=silent,
            late=None if report_late is None else lambda _side, table: report_late(table),
            declared=declared,
            carry=event_columns.carry,
        )
        self._pairs.start(rules)
        self._emitter, self._lock = Emitter(columns=event_columns), RLock()
        check_carried(event_columns, {*rules.keys, *self._pairs.keys})
        self._emitter.no_events(self._watch.subjects())  # refuses names that events cannot have
        self._emitter.no_events(self._pairs.subjects())

    def _emit(self, step: Step, of_pairs: Step | None = None) -> Any:
        """Write the events of one engine, or of both in one table; then let the engines remember what happened."""
        events = self._emitter.emit(step)
        if of_pairs is not None:
            if of_pairs.about.types:
                more = self._emitter.emit(of_pairs)
                has_objects = step.about.types or self._rules.keys or events.num_rows
                events = self._emitter.join(events, step.about, more, of_pairs.about) if has_objects else more
            of_pairs.settle()
        step.settle()
        return events

    def _all_or_nothing(self) -> "_AllOrNothing":
        """Let one thread in; a call that fails counts no events and decides no types of times, objects and keys."""
        return _AllOrNothing(self)

    def _report_late(self, rows: Any) -> None:
        assert self._late is not None, "it is called only where there is a callback"
        self._reports_late = True
        try:
            self._late(rows)
        finally:
            self._reports_late = False

    def _check_changeable(self) -> None:
        if self._reports_late:
            raise FencepostError(
                "a change of the Monitor inside its late= callback", "only questions there", "Make it afterwards."
            )

    # -- rules ---------------------------------------------------------------------------------------------

    def _put(self, id: int, condition: str, options: dict[str, Any]) -> Any:
        """Put a rule in force, or pause it, in place of any other with its id."""
        if self._is_band(id, condition) or self._is_damped(id, options):
            alone = Rules(self._rules.compiled.zone)
            alone.add(id, condition, **options)
            return self._follow(self._rules.change(alone, id_column(())), further=1)
        rule, columns = self._rules.prepare(id, condition, options)
        unknown = self._unknown(columns) if columns else []
        step = self._watch.put(id, rule, columns)
        _warn_of(unknown)
        return self._emit(step)

    def _follow(self, snapshot: Snapshot, further: int = 0) -> Any:
        """Let the rules of another snapshot be in force; a method of the caller called it, `further` calls away."""
        types = {name: snapshot.types[name] for name in snapshot.attributes}
        check_names({**self._rules.types, **types})
        rules = self._rules.follow(snapshot)
        unknown = self._unknown({*rules.kept.types, *rules.kept.keys})
        of_pairs = self._pairs.follow(rules, known=self._rules.types)
        step = self._watch.follow(rules)
        _warn_of(unknown, further)
        return self._emit(step, of_pairs)

    def _unknown(self, columns: Iterable[str]) -> list[str]:
        """Columns that rules use from now on and that nothing is known of yet, where there are objects."""
        kept = self._rules.kept
        new = {*columns} - {*kept.types} - {*kept.keys}
        return sorted(new) if new and len(self._watch.everyone().slots) else []

    def _is_band(self, id: int, condition: str) -> bool:
        if self._pairs.find(id) is not None:
            return True
        if not isinstance(condition, str) or "left" not in condition.lower() or "right" not in condition.lower():
            return False
        try:
            return isinstance(parse(condition), Band)
        except FencepostError:
            return False  # it is refused where rules are bound

    def _is_damped(self, id: int, options: Mapping[str, Any] = MappingProxyType({})) -> bool:
        """Whether a rule in force is damped, or would be: damping is for compiled rules."""
        if any(options.get(name) is not None for name in Damping._fields):
            return True
        damping = self._rules.damping
        if damping is None:
            return False
        rule = self._rules.find(id)
        return rule is not None and rule.row is not None and damping.text_of(rule.row) is not None

    @property
    def _rules(self) -> RulesInForce:
        return self._watch.rules

    def _id(self, key: RuleKey) -> int:
        """The id of a rule that is called by its id, or of one in force that is called by its name."""
        if not isinstance(key, str):
            return checked_id(key)
        if (id := self._rules.id_of(key)) is None:
            raise FencepostError(f"no rule in force has the name {key!r}", "the name of one", "Correct the name.")
        return id

    def _in_force(self, key: RuleKey) -> LiveRule:
        id = self._id(key)
        rule = self._rules.find(id)
        if rule is None:
            raise FencepostError(f"rule {id} is not in force", "a rule that is", "Add it, or enable it with replace().")
        return rule

    def _known(self, key: RuleKey) -> int:
        id = self._id(key)
        if id not in self._rules and id not in self._rules.paused:
            raise FencepostError(f"rule {id} does not exist", "the id of a rule that does", "Use add() for a new rule.")
        return id


class _AllOrNothing:
    """See `Host._all_or_nothing`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __enter__(self) -> None:
        host = self._host
        host._lock.acquire()
        try:
            host._check_changeable()
            self._counts, self._time_type = dict(host._emitter.counts), host._clock.type
            self._kinds = host._pairs.sides.key_kinds
            states = (host._watch.state, *host._pairs.states)
            self._untyped = [state for state in states if state.objects.type is None]
        except BaseException:
            host._lock.release()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        host = self._host
        try:
            if kind is not None:
                host._emitter.counts, host._clock.type = self._counts, self._time_type
                host._pairs.sides.key_kinds = self._kinds
                for state in self._untyped:
                    state.objects = state.objects.emptied(typed=False)
        finally:
            host._lock.release()


def _warn_of(unknown: Sequence[str], further: int = 0) -> None:
    if unknown:
        warnings.warn(
            f"Nothing is known yet about the column {unknown[0]} of the objects that are here: no rule used it "
            "before. Each object counts as outside until its next row. To remember a column from the start, "
            f"declare it: Monitor(..., schema={{{unknown[0]!r}: ...}}).",
            stacklevel=5 + further,  # who called the method of the Monitor
        )
