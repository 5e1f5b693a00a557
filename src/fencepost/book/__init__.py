"""The rule book: rules in a database, with their history, published as snapshots.

rulebook        RuleBook, whom callers know
editing         changes of single rules; reading is what a book says of its rules
database        opened or made, read in one view, written by one at a time; tables and settings are what it has
storing         statements that write; changes are rows of the history
importing       files and tables of rules go in whole; incoming checks them, syncing mirrors a table
finding         rules by label, state, text or values; paging reads them a page at a time;
                texts says which of them can have a text
pauses          pauses that end by themselves
tokens          who may call a service that has the book
compiling       all rules as a snapshot, kept for the next command of this user
publishing      what changed goes on top of the version before
"""

from fencepost.book.changes import Change
from fencepost.book.rulebook import DEFAULT_URL, RuleBook
from fencepost.book.storing import Imported, Progress, Synced

__all__ = ["DEFAULT_URL", "Change", "Imported", "Progress", "RuleBook", "Synced"]
