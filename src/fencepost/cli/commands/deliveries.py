"""`fencepost deliveries`: events that wait for a webhook, and those that it did not take."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost._text import count
from fencepost.cli.options import Json
from fencepost.cli.output import note, print_done, print_json, print_table
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.deliveries.spool import Spool

app = typer.Typer(help="Events for a webhook: which ones wait, which ones it did not take.", no_args_is_help=True)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The checkpoint of the pipeline.", show_default=False)]


@app.command("list")
def list_deliveries(directory: Directory, as_json: Json = False) -> None:
    """Show how many events wait, and every event that the webhook did not take, with the reason."""
    spools = _spools(directory)
    letters = [(name, letter) for name, spool in spools.items() for letter in spool.letters()]
    waiting = sum(spool.waiting() for spool in spools.values())
    if as_json:
        undelivered = [
            {"key": each.event.key, "object": each.event.object, "attempts": each.attempts, "said": each.said,
             "event": json.loads(each.event.body), **({"sink": name} if name else {})}
            for name, each in letters
        ]  # fmt: skip
        print_json({"waiting": waiting, "undelivered": undelivered})
        return
    note(f"to be sent: {count(waiting, 'event')}; not taken: {count(len(letters), 'event')}")
    if letters:
        rows = [(each.event.key, each.event.object, each.attempts, each.said, *([name] if name else []))
                for name, each in letters]  # fmt: skip
        print_table(("event_id", "object", "attempts", "answer", *(["sink"] if any(spools) else [])), rows)
        for said, times in Counter(each.said for _, each in letters).most_common(5):
            note(f"{times:,} times: {said}")


@app.command("retry")
def retry(directory: Directory, as_json: Json = False) -> None:
    """Send the events again that were not taken: a pipeline that runs does it now, any other when it starts."""
    number = time.time_ns() // 1_000_000_000
    again = sum(spool.retry(number) for spool in _spools(directory).values())
    print_done(as_json, {"again": again}, f"{count(again, 'event')} will be sent again")


@app.command("drop")
def drop(directory: Directory, as_json: Json = False) -> None:
    """Delete the events that were not taken."""
    dropped = sum(spool.drop() for spool in _spools(directory).values())
    print_done(as_json, {"dropped": dropped}, f"{count(dropped, 'event')} deleted")


def _spools(directory: Path) -> "dict[str, Spool]":
    """The spools of a checkpoint by the name of their sink, or the one that a directory is itself."""
    from fencepost.deliveries.spool import find_spools

    if found := find_spools(directory):
        return found
    raise FencepostError(
        f"{directory}, where nothing was delivered from",
        "the checkpoint of a pipeline with a webhook",
        "Name the directory that the pipeline file has as checkpoint.",
    )
