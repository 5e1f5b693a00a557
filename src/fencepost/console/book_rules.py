"""Rules of a book, a page at a time."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.book import RuleBook
from fencepost.console.source import FoundRules, Missing, RuleSearch
from fencepost.errors import FencepostError
from fencepost.service.values import read_values

if TYPE_CHECKING:
    from fencepost.book.changes import Change
    from fencepost.book.storing import Existing, Imported
    from fencepost.rules import Rule

_BEGIN = -(2**63)
"""Before every id but this one."""
_CHANGES = 50
_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")
_STATES = {"enabled": "enabled", "paused": "paused", "expired": "expired"}


class BookRules:
    """The rules of a book.

    Args:
        book: the rule book.
        rules_at: the ids of rules that hold at values by column, found by an index.
        changed: called after every change.
        check: called with the fields of a rule before it is added or replaced; it refuses what cannot be used.
        editable: whether rules may be changed here, or why not.
    """

    has_versions = True

    def __init__(
        self,
        book: RuleBook,
        rules_at: Callable[[Mapping[str, Any]], Sequence[int]] | None = None,
        changed: Callable[[], Any] = lambda: None,
        check: Callable[[Mapping[str, Any]], Any] = lambda _: None,
        editable: bool | Missing = True,
    ) -> None:
        self._check = check
        self._book, self._rules_at, self._changed, self.can_edit = book, rules_at, changed, editable

    # -- reading -------------------------------------------------------------------------------------------

    def count(self) -> int:
        """How many there are."""
        return self._book.count()

    def page(self, after: int | None, limit: int, search: RuleSearch) -> FoundRules:
        """The next rules after an id that fit a search."""
        if search.state not in ("", *_STATES):
            raise FencepostError(f"state={search.state!r}", f"one of {', '.join(_STATES)}", "Choose one of the list.")
        labels = read_label(search.label)
        if search.holds:
            return self._holding(after, limit, search)
        text = search.text.strip()
        named = self._book.find(text) if text and after is None else []
        if named and not labels and not search.state:
            # An index found these; conditions that have the text come on the next page, which looks at many rules.
            return FoundRules((), _BEGIN, None, named)
        found = self._book.search(after, limit, labels=labels, state=search.state or None, text=text or None)  # type: ignore[arg-type]
        shown = {rule.id for rule in named}
        rules = [rule for rule in found.rules if rule.id not in shown]
        return FoundRules(rules, found.after, found.looked_at, named)

    def _holding(self, after: int | None, limit: int, search: RuleSearch) -> FoundRules:
        """The rules that hold at values."""
        if self._rules_at is None:
            raise FencepostError(
                "a search for rules that hold at values", "rules that are in force in this process", "Search for text."
            )
        if self._book.is_empty:  # or it would be refused: no rule uses these columns
            return FoundRules(())
        ids = sorted(self._rules_at(read_values(search.holds, self.types())))
        rest = [id for id in ids if after is None or id > after]
        rules = self._book.some(rest[:limit])
        return FoundRules(rules, rest[limit - 1] if len(rest) > limit else None)

    def get(self, id: int) -> "Rule | None":
        """One rule."""
        found = self._book.some([id])
        return found[0] if found else None

    def some(self, ids: Sequence[int]) -> "dict[int, Rule]":
        """Those of some rules that are there."""
        return {rule.id: rule for rule in self._book.some(list(ids))}

    def types(self) -> Mapping[str, str]:
        """The columns that the book was published with."""
        return self._book.columns

    def paused_until(self, id: int) -> datetime | None:
        """When a paused rule goes on by itself."""
        return self._book.pauses().get(id)

    def history(self, id: int) -> "Sequence[Change]":
        """The last changes, the newest first."""
        return list(self._book.history(id, last=_CHANGES))[::-1]

    # -- changing ------------------------------------------------------------------------------------------

    def add(self, id: int | str | None, condition: str, options: Mapping[str, Any], author: str) -> "Rule":
        """Add a rule under an id or a name; without either it gets an id."""
        given = {name: value for name, value in options.items() if name != "name"}
        name = options.get("name")
        if id is not None and id in self._book:
            raise FencepostError(
                f"rule {id} already exists", "ids must be unique", "Edit that rule, or leave the id empty."
            )
        self._check(fields_given(0 if id is None else id, condition, options))
        with _without_warnings():
            if id is None and name:
                rule = self._book.add(str(name), condition, author=author, **given)
            else:
                number = self._book.next_id() if id is None else id
                rule = self._book.add(number, condition, author=author, **options)
        self._changed()
        return rule

    def replace(self, id: int, condition: str, options: Mapping[str, Any], expect: int | None, author: str) -> "Rule":
        """Edit a rule that is at an expected version."""
        self._check(fields_given(id, condition, options))
        with _without_warnings():
            rule = self._book.replace(id, condition, expect=expect, author=author, **options)
        self._changed()
        return rule

    def remove(self, id: int, expect: int | None, author: str) -> None:
        """Take a rule out."""
        self._book.remove(id, expect=expect, author=author)
        self._changed()

    def pause(self, id: int, until: datetime | None, expect: int | None, author: str) -> None:
        """Let a rule take no part, perhaps for a while."""
        self._book.pause(id, until=until, expect=expect, author=author)
        self._changed()

    def resume(self, id: int, expect: int | None, author: str) -> None:
        """Let it take part again."""
        self._book.resume(id, expect=expect, author=author)
        self._changed()

    def restore(self, id: int, version: int, expect: int | None, author: str) -> None:
        """Give it the content of an earlier version."""
        self._book.restore(id, version, expect=expect, author=author)
        self._changed()

    def import_file(self, name: str, content: bytes, existing: "Existing", author: str) -> "Imported":
        """Take in a file, all rules or none."""
        from fencepost.book.importing import import_content

        found = import_content(self._book, content, _ending_of(name), name, existing=existing, author=author)
        self._changed()
        return found


def _ending_of(name: str) -> str:
    """What the name of a file says of its format; the rest of a name may be too long for a file here."""
    ending = Path(name).suffix.lower()
    if ending not in _ENDINGS:
        raise FencepostError(
            f"{name[:80]} with the extension {ending[:20]!r}", f"one of {', '.join(_ENDINGS)}", "Rename the file."
        )
    return ending


def fields_given(id: int | str, condition: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A rule as files have it; what is not given is left out."""
    named = {"for" if name == "for_" else name: value for name, value in options.items() if value is not None}
    return {"id": id, "condition": condition, **named}


@contextmanager
def _without_warnings() -> Iterator[None]:
    """What a book warns of is on the page already: the condition was read as it was typed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_label(text: str) -> dict[str, str] | None:
    """A label as it is written, `desk=4`."""
    if not text.strip():
        return None
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise FencepostError(f"the label {text!r}", "a name and a value", "Write for example desk=4.")
    return {name.strip(): value.strip()}
