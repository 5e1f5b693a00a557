"""Rules of a book in a pipeline: published beside the checkpoint, and again whenever the book has changed."""

import threading
from collections.abc import Mapping
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from fencepost._text import mask_url
from fencepost.book import Progress, RuleBook
from fencepost.errors import FencepostError
from fencepost.ordinals.schema import read_schema
from fencepost.pipeline.file.columns import Columns
from fencepost.pipeline.file.document import PipelineFile, listed
from fencepost.rules.faults import FindFaults, RuleFault, describe_faults

_OF_EVENTS = {
    *("event_id", "rule_id", "rule_version", "snapshot_version", "object", "other", "detect", "time", "reason"),
    *("kafka_partition", "kafka_offset", "kafka_timestamp"),
}
"""Columns of events and of Kafka, which no rule is about."""


def open_book(url: str, file: PipelineFile) -> RuleBook:
    """The book that a pipeline names; one that does not exist is refused.

    The file of a relative SQLite URL is relative to the pipeline's.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise FencepostError(repr(mask_url(url)), "sqlite:///FILE or postgresql://...", "Correct the URL.") from None
    if parsed.get_backend_name() == "sqlite" and parsed.database not in {None, "", ":memory:"}:
        parsed = parsed.set(database=str(file.resolved(str(parsed.database))))
    written = parsed.render_as_string(hide_password=False)
    return RuleBook(written, author=f"pipeline {file.path.name}", create=False)


def check_book(url: str, file: PipelineFile) -> None:
    """Refuse a book that is not there or has no rule."""
    with open_book(url, file) as book:
        if book.is_empty and not file.section("rules").get("changes"):
            raise FencepostError(f"{book.url} without a rule", "at least one", "Add rules: fencepost rules add")


def check_rules(
    url: str, file: PipelineFile, columns: Columns, progress: Progress, unusable: FindFaults | None
) -> None:
    """Refuse rules of a book that do not fit the columns of the source, or are `unusable` for the pipeline."""
    with open_book(url, file) as book:
        book.check_rules(rule_columns(columns.types, file), progress=progress, unusable=unusable)


def rule_columns(types: Mapping[str, Any], file: PipelineFile) -> dict[str, Any]:
    """The columns of the source that rules may be about: those that are named, or all that can be."""
    if wanted := {name.lower() for name in listed(file.section("rules").get("columns"))}:
        return {name: type_ for name, type_ in types.items() if name.lower() in wanted}
    operator = file.section("operator")
    order = {operator.get("time"), *listed(operator.get("sequence"))}
    usable = read_schema(types).types
    return {name: types[name] for name in usable if name not in order and name.lower() not in _OF_EVENTS}


class FollowedBook:
    """A book that is published to a directory for a running pipeline."""

    def __init__(
        self,
        book: RuleBook,
        directory: str,
        schema: Mapping[str, Any],
        shards: int | None = None,
        progress: Progress = lambda *_: None,
        unusable: FindFaults | None = None,
    ) -> None:
        self.book, self.directory, self.schema, self._shards = book, directory, dict(schema), shards
        self._unusable = unusable
        self._tried: int | None = None
        self._reported = self._faulty = ""
        self._publishing = threading.Lock()  # changes on a topic are applied in a thread of their own
        self._publish(progress)

    def _publish(self, progress: Progress = lambda *_: None) -> None:
        revision = self.book.revision
        if revision != self._tried:
            self._tried = revision  # what cannot be published is tried again after the next change
            faults: list[RuleFault] = []
            self.book.publish(
                self.directory,
                self.schema,
                shards=self._shards,
                faults=faults,
                progress=progress,
                unusable=self._unusable,
            )
            self._faulty = describe_faults(faults) if faults else ""

    def follow(self) -> str | None:
        """Publish if the book has changed; returns a message for the user, if any.

        A book that cannot be reached leaves the last version in force. Faulty rules are left out, and named once.
        """
        with self._publishing:
            try:
                self._publish()
                message = self._faulty
            except FencepostError as error:
                message = f"the rules stay as they were; publishing failed: {error}"
        if not message:
            return None
        before, self._reported = self._reported, message
        return None if before == message else message
