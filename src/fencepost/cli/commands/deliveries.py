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
    spool = _spool(directory)
    letters = spool.letters()
    if as_json:
        undelivered = [
            {"key": each.event.key, "object": each.event.object, "attempts": each.attempts, "said": each.said,
             "event": json.loads(each.event.body)}
            for each in letters
        ]  # fmt: skip
        print_json({"waiting": spool.waiting(), "undelivered": undelivered})
        return
    note(f"to be sent: {count(spool.waiting(), 'event')}; not taken: {count(len(letters), 'event')}")
    if letters:
        rows = [(each.event.key, each.event.object, each.attempts, each.said) for each in letters]
        print_table(("event_id", "object", "attempts", "answer"), rows)
        for said, times in Counter(each.said for each in letters).most_common(5):
            note(f"{times:,} times: {said}")


@app.command("retry")
def retry(directory: Directory, as_json: Json = False) -> None:
    """Send the events again that were not taken: a pipeline that runs does it now, any other when it starts."""
    again = _spool(directory).retry(time.time_ns() // 1_000_000_000)
    print_done(as_json, {"again": again}, f"{count(again, 'event')} will be sent again")


@app.command("drop")
def drop(directory: Directory, as_json: Json = False) -> None:
    """Delete the events that were not taken."""
    dropped = _spool(directory).drop()
    print_done(as_json, {"dropped": dropped}, f"{count(dropped, 'event')} deleted")


def _spool(directory: Path) -> "Spool":
    """The spool of a checkpoint, or the one that a directory is itself."""
    from fencepost.deliveries.spool import Spool

    for place in (directory / "fencepost" / "deliveries", directory):
        if (place / "batches").is_dir() or (place / "undelivered").is_dir() or (place / "last.json").is_file():
            return Spool(place)
    raise FencepostError(
        f"{directory}, where nothing was delivered from",
        "the checkpoint of a pipeline with a webhook",
        "Name the directory that the pipeline file has as checkpoint.",
    )
