"""Questions about events and objects: why, and what is known."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from fencepost.book import RuleBook
from fencepost.errors import FencepostError
from fencepost.monitor.explaining import explain_event as why
from fencepost.rules import Rules
from fencepost.rules.options import fields_of
from fencepost.service.monitoring import Watcher
from fencepost.service.refusals import MissingError


def named_object(watcher: Watcher, text: str) -> Any:
    """An object in the type that objects have, from its text."""
    type_ = watcher.object_type
    if type_ is None:
        raise MissingError(f"object {text[:80]!r}", "an object of which a row has come", "Send rows first.")
    try:
        return pa.array([text]).cast(type_)[0].as_py()
    except (pa.ArrowException, ValueError):
        raise MissingError(f"object {text[:80]!r}", f"a value of type {type_}", "Correct it.") from None


def find_object(watcher: Watcher, text: str) -> Any:
    """What is known of an object."""
    found = watcher.monitor.object_state(named_object(watcher, text))
    if found is None:
        raise MissingError(f"object {text[:80]!r}", "an object of which a row has come", "Correct its name.")
    return found


def explain_event(event: Mapping[str, Any], book: RuleBook, columns: Mapping[str, str]) -> Any:
    """The rule behind an event, in the version that it had then."""
    id, version = int(event["rule_id"]), int(event["rule_version"])
    for change in book.history(id):
        if change.after is not None and change.after.version == version:
            alone = Rules.from_dicts([{**fields_of(change.after), "enabled": True}], zone=book.zone)
            schema = {name: "string" if kind == "key" else kind for name, kind in columns.items()}
            return why(alone, event, schema or None)
    raise FencepostError(
        f"an event of version {version} of rule {id}",
        "a version that the book knows",
        "Restore the book from a backup.",
    )
