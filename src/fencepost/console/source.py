"""What the pages need to know and do, in parts. A source that lacks a part says why, and the pages say it, too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from fencepost.book.changes import Change
    from fencepost.book.storing import Existing, Imported
    from fencepost.published.difference import Difference
    from fencepost.rules import Rule
    from fencepost.snapshot.explanation import Explanation

State = Literal["enabled", "paused", "expired"]
KINDS = ("enter", "exit", "cross", "inside", "silent")


@dataclass(frozen=True)
class Missing:
    """A part that a source does not have.

    Args:
        reason: why, as a sentence.
    """

    reason: str

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True)
class RuleSearch:
    """What somebody looks for among the rules; empty texts ask for nothing."""

    text: str = ""
    """An id, the beginning of a name, or a piece of the condition."""
    label: str = ""
    """Such as `desk=4`."""
    holds: str = ""
    """Such as `price = 47, symbol = IBM`."""
    state: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.label or self.holds or self.state)


@dataclass(frozen=True)
class FoundRules:
    """A page of rules."""

    rules: Sequence["Rule"]
    after: int | None = None
    """The id to go on after; None at the end."""
    looked_at: int | None = None
    """How many rules were looked at, where the page ended before it was full."""
    named: Sequence["Rule"] = ()
    """Those whose id or name is what was searched; on the first page only."""


class RulesPart(Protocol):
    """The rules."""

    @property
    def can_edit(self) -> bool | Missing:
        """Whether rules may be changed here, or why not."""

    @property
    def has_versions(self) -> bool:
        """Whether older versions of a rule are known."""

    def count(self) -> int:
        """How many there are, found in no time."""

    def page(self, after: int | None, limit: int, search: RuleSearch) -> FoundRules:
        """The next rules after an id."""

    def get(self, id: int) -> "Rule | None":
        """One rule."""

    def some(self, ids: Sequence[int]) -> "Mapping[int, Rule]":
        """Those of some rules that are there."""

    def types(self) -> Mapping[str, str]:
        """Columns that rules may use, with their types, as far as they are known."""

    def paused_until(self, id: int) -> datetime | None:
        """When a paused rule goes on by itself."""

    def history(self, id: int) -> "Sequence[Change]":
        """What happened to a rule, the last first."""

    def add(self, id: int | str | None, condition: str, options: Mapping[str, Any], author: str) -> "Rule":
        """Add a rule; without an id or a name it gets an id."""

    def replace(self, id: int, condition: str, options: Mapping[str, Any], expect: int | None, author: str) -> "Rule":
        """Edit a rule that is at an expected version."""

    def remove(self, id: int, expect: int | None, author: str) -> None:
        """Take a rule out."""

    def pause(self, id: int, until: datetime | None, expect: int | None, author: str) -> None:
        """Let a rule take no part, perhaps for a while."""

    def resume(self, id: int, expect: int | None, author: str) -> None:
        """Let it take part again."""

    def restore(self, id: int, version: int, expect: int | None, author: str) -> None:
        """Give it the content of an earlier version."""

    def import_file(self, name: str, content: bytes, existing: "Existing", author: str) -> "Imported":
        """Take in a file of rules, all or none."""


@dataclass(frozen=True)
class EventFilter:
    """Which events are meant."""

    rule: int | None = None
    object: str = ""
    detect: str = ""

    def __bool__(self) -> bool:
        return self.rule is not None or bool(self.object or self.detect)


@dataclass(frozen=True)
class SeenEvent:
    """An event, and its place among all that came."""

    position: int
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Tail:
    """What came since a position: all of it, or a sample."""

    events: Sequence[SeenEvent]
    total: int
    """How many came that are meant."""
    position: int


class EventsPart(Protocol):
    """Events."""

    @property
    def kept(self) -> str:
        """How many events can be looked at, as a sentence."""

    def last(self, limit: int, chosen: EventFilter, before: int | None = None) -> Sequence[SeenEvent]:
        """The newest ones before a position, the last first."""

    def search(
        self, limit: int, chosen: EventFilter, before: int | None = None
    ) -> tuple[Sequence[SeenEvent], int | None]:
        """The same, and the position before which to look on; None where all were looked at, or enough found."""

    def since(self, position: int | None, limit: int, chosen: EventFilter) -> Tail:
        """What came since a position; None begins now. Where it is more than the limit, a sample."""

    def find(self, event_id: str) -> Mapping[str, Any] | None:
        """One event."""

    def per_minute(self, ids: Sequence[int]) -> Mapping[int, Sequence[int]]:
        """How many events rules had in each minute of the last hour, by id."""

    def histogram(self, chosen: EventFilter, bins: int) -> "Histogram | None":
        """How many events there were over time, by kind; None without events."""

    def export(self, chosen: EventFilter) -> bytes:
        """The events as a Parquet file."""


@dataclass(frozen=True)
class Histogram:
    """Counts of events in equal parts of a time."""

    begin: Any
    end: Any
    counts: Mapping[str, Sequence[int]]
    """By kind."""

    @property
    def total(self) -> int:
        """Of all kinds."""
        return sum(map(sum, self.counts.values()))


@dataclass(frozen=True)
class SeenObject:
    """An object and its last values."""

    name: Any
    time: Any
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Trail:
    """The last rows of an object."""

    times: Sequence[Any]
    values: Mapping[str, Sequence[Any]]
    """By column; None where nothing was observed."""


class ObjectsPart(Protocol):
    """Objects."""

    @property
    def about(self) -> str:
        """What people should know of these objects; mostly nothing."""

    def count(self) -> int:
        """How many there are."""

    def page(self, after: str, limit: int, beginning: str) -> tuple[Sequence[SeenObject], str | None]:
        """The next objects after a name, and the name to go on after."""

    def get(self, name: str) -> SeenObject | None:
        """One object; names that are numbers are found by their text."""

    def rules_inside(self, name: str, limit: int) -> Sequence[int] | Missing:
        """The ids of rules that it is inside."""

    def waiting(self, name: str) -> Sequence[Any]:
        """Rules whose enter or exit of it is held back, with `rule_id`, `kind` and `since`."""

    def trail(self, name: str, rows: int) -> Trail | None:
        """Its last rows."""

    def inside(self, rule: int, limit: int) -> "tuple[Sequence[Any], int] | Missing":
        """Some objects that are inside a rule, and how many are."""

    def held_back(self, rule: int, limit: int) -> "tuple[Sequence[Any], int]":
        """Some objects whose enter or exit of a rule waits, with `object`, `kind` and `since`, and how many do."""

    @property
    def told_from(self) -> str:
        """What an answer to `why_not` rests on, as a sentence; empty where it is all that there was."""

    def why_not(self, rule: int, name: str) -> Any | Missing:
        """Where an object stands with a rule, a `Standing`."""


@dataclass(frozen=True)
class PublishedVersion:
    """A version in a directory."""

    number: int
    at: datetime | None
    nbytes: int
    leased: bool


@dataclass(frozen=True)
class VersionSummary:
    """What a version consists of."""

    explanation: "Explanation"
    in_force: int
    paused: int


class VersionsPart(Protocol):
    """Published versions."""

    @property
    def place(self) -> str:
        """Where they are."""

    @property
    def can_publish(self) -> bool | Missing:
        """Whether people may publish here, or why not."""

    def list(self, limit: int) -> Sequence[PublishedVersion]:
        """The newest ones first."""

    def difference(self, before: int, after: int) -> "Difference":
        """What changed from one to another."""

    def summarize(self, number: int) -> VersionSummary:
        """What a version consists of."""

    def preview(self) -> "Difference":
        """What publishing would change."""

    def publish(self, author: str) -> int:
        """Publish; the number of the version."""

    def roll_back(self, number: int, author: str) -> int:
        """Let the rules of an older version be in force again; the number of the new version."""


@dataclass(frozen=True)
class Fired:
    """What a condition would have reported."""

    events: Mapping[str, int]
    objects: int
    most: Sequence[tuple[Any, int | None]]
    """The objects with most events, and how many they have, where that is known."""
    counts: Sequence[int]
    """Events in equal parts of the time."""

    @property
    def total(self) -> int:
        """Events of all kinds."""
        return sum(self.events.values())


@dataclass(frozen=True)
class Trial:
    """Two conditions on the same rows."""

    rows: int
    begin: Any
    end: Any
    old: Fired | None
    new: Fired
    unread: int = 0
    """Rows that the rules could not read."""


class RowsPart(Protocol):
    """Rows that are kept."""

    def try_condition(self, old: "Rule | None", condition: str, options: Mapping[str, Any]) -> Trial:
        """What a rule and its next condition would have reported on the rows that are kept."""


@dataclass(frozen=True)
class Series:
    """Figures over time; the newest last."""

    begin: datetime
    end: datetime
    values: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class Figure:
    """A number with its name."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Overview:
    """How things are."""

    state: str
    """A word: running, stopped, failed ..."""
    figures: Sequence[Figure]
    rows: Series | None = None
    events: Series | None = None
    latency: Series | None = None
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """Names and texts of what changes seldom."""
    problem: str = ""
    left_out: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """What cannot be told here, and why."""


class Source(Protocol):
    """Everything that pages are made of."""

    @property
    def title(self) -> str:
        """What pages are headed with."""

    @property
    def about(self) -> str:
        """What this is, in a few words: a service, a pipeline and its file."""

    @property
    def rules(self) -> RulesPart | Missing:
        """The rules."""

    @property
    def events(self) -> EventsPart | Missing:
        """The events that are kept."""

    @property
    def objects(self) -> ObjectsPart | Missing:
        """The objects."""

    @property
    def versions(self) -> VersionsPart | Missing:
        """What is published."""

    @property
    def rows(self) -> RowsPart | Missing:
        """The rows that are kept."""

    def overview(self) -> Overview:
        """How things are now."""

    def why(self, event: Mapping[str, Any]) -> Any | Missing:
        """The rule behind an event, a `Reason`."""

    def refresh(self) -> None:
        """Let changes of rules take effect at once, where that is not done anyway."""
