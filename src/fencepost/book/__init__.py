"""The rule book: rules in a database, with their history, published as snapshots."""

from fencepost.book.changes import Change
from fencepost.book.rulebook import DEFAULT_URL, RuleBook
from fencepost.book.storing import Imported, Progress, Synced

__all__ = ["DEFAULT_URL", "Change", "Imported", "Progress", "RuleBook", "Synced"]
