"""Changes of rules that arrive on a topic, applied to a book or to Rules, and published.

A message is a JSON object: ``{"op": "insert", "id": 7, "condition": "price > 40", "detect": "enter,exit"}``. ``insert``
and ``update`` both say what the rule is from now on, with the fields of `Rules.add`; ``delete`` needs only the id. A
text as id is the name of the rule; the book gives an id to a name that is new. The changes of one rule should have one
key, so that they are in one partition, which is the only order that Kafka keeps.

Of the changes of one rule in a micro-batch the last one counts, and what is so already is left alone. So a
micro-batch that is repeated after a restart changes nothing.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost._files.whole import write_whole
from fencepost.book.changes import check_storable
from fencepost.errors import FencepostError
from fencepost.pipeline.runtime.dead_letters import write_letters
from fencepost.rules import Rule, Rules
from fencepost.rules.checked import NameTakenError
from fencepost.rules.options import options_of
from fencepost.rules.rule import RuleKey

_OPERATIONS = ("insert", "update", "delete")


class Message(NamedTuple):
    """One message of the topic."""

    origin: str
    """Topic, partition and offset."""
    value: str | None


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
    """

    def __init__(
        self,
        target: Any,
        publish: Callable[[], object],
        state: Path,
        schema: Mapping[str, Any] | None = None,
        dead_letters: Path | None = None,
        report: Callable[[Applied], None] = lambda _: None,
    ) -> None:
        self._target, self._publish, self._schema = target, publish, schema
        self._state, self._dead_letters, self._report = state, dead_letters, report

    def take(self, frame: Any, batch: int) -> None:
        """Apply a micro-batch of raw messages; a function for foreachBatch."""
        origin = F.concat_ws("/", "topic", "partition", "offset").alias("origin")
        ordered = frame.orderBy("topic", "partition", "offset")
        text = F.make_valid_utf8(F.col("value").cast("string")).alias("value")
        self.apply([Message(*row) for row in ordered.select(origin, text).collect()], batch)

    def apply(self, messages: Iterable[Message], batch: int) -> None:
        """Apply a micro-batch of messages in their order, unless it was applied before."""
        noted = self._state / "applied.json"
        if noted.exists() and json.loads(noted.read_text())["batch"] >= batch:
            return
        last: dict[RuleKey, tuple[dict[str, Any] | None, Message]] = {}
        dead = []
        received = list(messages)
        for message in received:
            try:
                id, wanted = self._read(message.value)
            except FencepostError as error:
                dead.append(_letter(message, error))
            else:
                last[id] = wanted, message
        changed, refused = self._put_all({id: wanted for id, (wanted, _) in last.items()})
        dead += [_letter(last[id][1], error) for id, error in refused.items()]
        if dead and self._dead_letters is not None:
            write_letters(self._dead_letters, f"{batch:08}.json", dead)
        if last:
            # Also where nothing changed: an earlier attempt may have ended between the changes and this.
            self._publish()
        self._state.mkdir(parents=True, exist_ok=True)
        write_whole(noted, json.dumps({"batch": batch}))
        self._report(Applied(changed, len(received) - changed - len(dead), len(dead)))

    def _read(self, value: str | None) -> tuple[RuleKey, dict[str, Any] | None]:
        """The id of a rule and what it is to be, None for nothing; refuses what is no change."""
        try:
            found = json.loads(value or "")
        except ValueError as error:
            raise FencepostError(f"no JSON ({error})", "an object", "Send a JSON object per message.") from None
        if not isinstance(found, dict) or found.get("op") not in _OPERATIONS:
            got = f"op {found.get('op')!r}" if isinstance(found, dict) else f"a {type(found).__name__}"
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
        found.pop("version", None)  # the book counts
        made = Rules.from_dicts([found])
        if self._schema is not None:
            made.columns(self._schema)
        return key, _fields(check_storable(made[found["id"]]))

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


def _letter(message: Message, error: FencepostError) -> dict[str, Any]:
    return {"origin": message.origin, "fault": " ".join(str(error).split()), "value": message.value}


def _fields(rule: Rule) -> dict[str, Any]:
    return {"condition": rule.condition, **options_of(rule)._asdict()}
