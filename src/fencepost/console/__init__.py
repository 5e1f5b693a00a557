"""The console: pages over an engine that runs, made here, with a script and a stylesheet of our own.

`source` says what pages need to know, in parts; `book_rules`, `recorder`, `objects`, `rows` and `versions` are such
parts over a rule book, over events and rows as they come, over a Monitor, and over a directory of versions. `app`
makes the pages of a source, `forms` reads what people send, `charts` draws. `door` lets in who has the token;
`serving` is a server of its own for processes that have none.
"""

from fencepost.console.app import make_console
from fencepost.console.serving import ConsoleServer
from fencepost.console.source import Missing, Source

__all__ = ["ConsoleServer", "Missing", "Source", "make_console"]
