"""The console: pages over an engine that runs, made by the server, with a script and a stylesheet of our own.

source          what pages need to know, in parts
book_rules, recorder, objects, rows, versions   such parts: over a rule book, events and rows as they come, a Monitor,
                a directory of versions
engine          a source over a Monitor of this process; served over a service, pipelined over a pipeline on Spark,
                whose stream_rows are the last rows; tries are what conditions do to them
app             the application; paper has what all pages share, pages/ are the pages
forms           what people send; conditions marks the place of a fault
charts, shown   pictures; numbers, times and sizes as people read them
door            lets in who has the token; guarded are the pages of a service, behind its doors
serving         a server of its own, for processes that have none
"""

from fencepost.console.app import make_console
from fencepost.console.serving import ConsoleServer
from fencepost.console.source import Missing, Source

__all__ = ["ConsoleServer", "Missing", "Source", "make_console"]
