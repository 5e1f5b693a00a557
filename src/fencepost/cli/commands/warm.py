"""`fencepost warm`."""

from typing import Annotated

import typer

from fencepost._text import count
from fencepost.cli.options import Json
from fencepost.cli.output import print_json


def warm(
    processor: Annotated[
        str | None,
        typer.Option(
            "--processor",
            metavar="NAME",
            help="Make code for all processors like x86-64-v3 or x86-64-v4, and keep it in the package: "
            "for images that run on several kinds of machines.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile what rules need now, on all cores, so that nobody waits for it later.

    For images, new Spark nodes, and clones. What is there already stays.
    """
    from fencepost import warming

    done = warming.warm(processor=processor)
    if as_json:
        print_json(done._asdict())
    else:
        print(f"{count(done.compiled, 'kernel')} compiled in {done.seconds:.0f} s; {done.kept:,} times one was there")
