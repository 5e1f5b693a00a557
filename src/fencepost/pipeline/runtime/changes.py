"""Changes of rules that arrive on a topic, applied to a book or to Rules, and published.

A message is a JSON object: ``{"op": "insert", "id": 7, "condition": "price > 40", "detect": "enter,exit"}``. ``insert``
and ``update`` both say what the rule is from now on, with the fields of `Rules.add`; ``delete`` needs only the id. A
text as id is the name of the rule; the book gives an id to a name that is new. The changes of one rule should have one
key, so that they are in one partition, which is the only order that Kafka keeps.

Feeds of a table of rules say the same in their own way (`feeds`): envelopes of Debezium on a topic, or the rows of
Delta's change data feed.

Of the changes of one rule in a micro-batch the last one counts, and what is so already is left alone. So a
micro-batch that is repeated after a restart changes nothing.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost._files.whole import make_folder, read_note, write_note
from fencepost._text import name_kind
from fencepost.book.changes import check_storable
from fencepost.errors import FencepostError
from fencepost.pipeline.runtime.dead_letters import write_letters
from fencepost.pipeline.runtime.feeds import FeedRules, read_debezium, read_delta
from fencepost.rules import Rule, Rules
from fencepost.rules.checked import NameTakenError
from fencepost.rules.options import fields_of, options_of
from fencepost.rules.rule import RuleKey

ChangeFormat = Literal["json", "debezium", "delta"]
_RESTORE = "Restore it from a backup, or delete it: then the last changes are applied again, which changes nothing."
_OPERATIONS = ("insert", "update", "delete")


class Message(NamedTuple):
    """One message of the topic."""

    origin: str
    """Topic, partition and offset; or the table and its version."""
    value: str | None
    row: Mapping[str, Any] | None = None
    """Of Delta's feed."""


class Applied(NamedTuple):
    """The outcome of the messages of a micro-batch."""

    changed: int
    unchanged: int
    """Overtaken by a later message, or so already."""
    dead: int


class ChangeFollower:
    """Applies changes of rules in the order of their offsets.

    `state` remembers which micro-batches were applied. A rule that needs a column beyond `schema` is a dead letter;
    those are counted, also without a directory for them. `report` is called with the outcome of each micro-batch.

    `format` says what messages are: changes as above, or those of a feed, whose columns `table` maps to rules, with
    the arguments of `RuleBook.sync`. Names in place of ids need a book as the target.
    """

    def __init__(
        self,
        target: Any,
        publish: Callable[[], object],
        state: Path,
        schema: Mapping[str, Any] | None = None,
        dead_letters: Path | None = None,
        report: Callable[[Applied], None] = lambda _: None,
        format: ChangeFormat = "json",
        table: Mapping[str, Any] | None = None,
    ) -> None:
        self._target, self._publish, self._schema = target, publish, schema
        self._state, self._dead_letters, self._report = state, dead_letters, report
        self._format, self._feed = format, None if format == "json" else FeedRules(table or {})

    def take_rows(self, frame: Any, batch: int) -> None:
        """Apply a micro-batch of Delta's change data feed; a function for foreachBatch."""
        is_after = F.col("_change_type").isin("insert", "update_postimage")
        rows = [row.asDict(recursive=True) for row in frame.orderBy("_commit_version", is_after).collect()]
        self.apply(
            [Message(f"version {row['_commit_version']}", json.dumps(row, default=str), row) for row in rows], batch
        )

    def take(self, frame: Any, batch: int) -> None:
        """Apply a micro-batch of raw messages; a function for foreachBatch."""
        origin = F.concat_ws("/", "topic", "partition", "offset").alias("origin")
        ordered = frame.orderBy("topic", "partition", "offset")
        text = F.make_valid_utf8(F.col("value").cast("string")).alias("value")
        self.apply([Message(*row) for row in ordered.select(origin, text).collect()], batch)

    def apply(self, messages: Iterable[Message], batch: int) -> None:
        """Apply a micro-batch of messages in their order, unless it was applied before."""
        place = self._state / "applied.json"
        noted = read_note(place, {"batch": int}, _RESTORE)
        if noted is not None and noted["batch"] >= batch:
            return
        received = list(messages)
        dead: list[dict[str, Any]] = []
        last = self._read_all(received, dead) if self._feed is None else self._read_feed(self._feed, received, dead)
        changed, refused = self._put_all({id: wanted for id, (wanted, _) in last.items()})
        dead += [_letter(last[id][1], error) for id, error in refused.items()]
        if dead and self._dead_letters is not None:
            write_letters(self._dead_letters, f"{batch:08}.json", dead)
        if last:
            # Also where nothing changed: an earlier attempt may have ended between the changes and this.
            self._publish()
        make_folder(self._state)
        write_note(place, {"batch": batch})
        self._report(Applied(changed, len(received) - changed - len(dead), len(dead)))

    def _read_all(self, received: Iterable[Message], dead: list[dict[str, Any]]) -> "_Last":
        """The last change of each rule."""
        last: _Last = {}
        for message in received:
            try:
                id, wanted = self._read(message.value)
            except FencepostError as error:
                dead.append(_letter(message, error))
            else:
                last[id] = wanted, message
        return last

    def _read_feed(self, feed: FeedRules, received: Iterable[Message], dead: list[dict[str, Any]]) -> "_Last":
        """The same of a table's rows, which become rules all at once."""
        rows: dict[RuleKey, tuple[Mapping[str, Any] | None, Message]] = {}
        for message in received:
            try:
                change = read_debezium(message.value) if message.row is None else read_delta(message.row)
                if change is not None:
                    rows[feed.key_of(change.row)] = None if change.is_gone else change.row, message
            except FencepostError as error:
                dead.append(_letter(message, error))
        there = {key: row for key, (row, _) in rows.items() if row is not None}
        rules = dict(zip(there, feed.read([*there.values()]), strict=True))
        last: _Last = {}
        for key, (row, message) in rows.items():
            try:
                last[key] = None if row is None else self._wanted_of(key, rules[key], feed), message
            except FencepostError as error:
                dead.append(_letter(message, error))
        return last

    def _wanted_of(self, key: RuleKey, rule: Rule | FencepostError, feed: FeedRules) -> dict[str, Any]:
        """What the rule of a row is to be; whether it is paused stays as it was, unless the table says that."""
        if isinstance(rule, FencepostError):
            raise rule
        wanted = self._checked({**fields_of(rule), "condition": str(rule.condition)})
        if not feed.says_enabled and key in self._target:
            wanted["enabled"] = self._target[key].enabled
        return wanted

    def _checked(self, found: dict[str, Any]) -> dict[str, Any]:
        """What a rule is to be; refuses one that needs columns that rules may not use."""
        found.pop("version", None)  # the book counts
        made = Rules.from_dicts([found])
        if self._schema is not None:
            made.columns(self._schema)
        return _fields(check_storable(made[found["id"]]))

    def _read(self, value: str | None) -> tuple[RuleKey, dict[str, Any] | None]:
        """The id of a rule and what it is to be, None for nothing; refuses what is no change."""
        try:
            found = json.loads(value or "")
        except ValueError as error:
            raise FencepostError(f"no JSON ({error})", "an object", "Send a JSON object per message.") from None
        if not isinstance(found, dict) or found.get("op") not in _OPERATIONS:
            got = f"op {found.get('op')!r}" if isinstance(found, dict) else name_kind(found)
            raise FencepostError(got, f"an object with op: {', '.join(_OPERATIONS)}", "Name what is to be done.")
        operation = found.pop("op")
        id = found.get("id")
        if isinstance(id, str) and id:
            key: RuleKey = self._target.id_of(id) if id in self._target else id
            found = {**found, "id": 0, "name": found.get("name") or id}
        elif isinstance(id, bool) or not isinstance(id, int) or not -(2**63) <= id < 2**63:
            raise FencepostError(f"the id {id!r}", "an integer of 64 bits, or a name", "Name the rule.")
        else:
            key = id
        if operation == "delete":
            return key, None
        if isinstance(key, str) and isinstance(self._target, Rules):
            raise FencepostError(f"the name {key!r} of no rule", "an id for a new rule", "Number it, or use a book.")
        return key, self._checked(found)

    def _put_all(self, wanted: Mapping[RuleKey, dict[str, Any] | None]) -> tuple[int, dict[RuleKey, FencepostError]]:
        """Make rules as wanted: how many changed, and those that were refused since another rule has their name.

        Rules go first. A name may become free only by a later change, so what was refused is tried again.
        """
        changed, waiting = 0, dict(sorted(wanted.items(), key=lambda each: each[1] is not None))
        while True:
            refused: dict[RuleKey, FencepostError] = {}
            for id, each in waiting.items():
                try:
                    changed += self._put(id, each)
                except NameTakenError as error:
                    refused[id] = error
            if len(refused) in (0, len(waiting)):
                return changed, refused
            waiting = {id: waiting[id] for id in refused}

    def _put(self, id: RuleKey, wanted: dict[str, Any] | None) -> bool:
        """Make a rule as wanted, None for no rule; returns whether that changed anything."""
        there = id in self._target
        if wanted is None:
            if there:
                self._target.remove(id)
            return there
        if not there:
            self._target.add(id, **wanted)
        elif _fields(self._target[id]) != wanted:
            self._target.replace(id, **wanted)
        else:
            return False
        return True


_Last = dict[RuleKey, tuple[dict[str, Any] | None, Message]]
"""What each rule is to be, None for nothing, and the message that says so."""


def _letter(message: Message, error: FencepostError) -> dict[str, Any]:
    return {"origin": message.origin, "fault": " ".join(str(error).split()), "value": message.value}


def _fields(rule: Rule) -> dict[str, Any]:
    return {"condition": rule.condition, **options_of(rule)._asdict()}
