"""The options of a rule, as options of several commands."""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from typing import Annotated, Any

import typer

from fencepost.rules.table_arguments import read_pairs

Detect = Annotated[
    str, typer.Option("--detect", help="The events to report: inside, enter, exit, cross, silent, separated by commas.")
]
Initial = Annotated[
    bool, typer.Option("--initial", help="Report objects that are inside already when the rule starts.")
]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=TEXT", help="Attach a label, e.g. team=desk. Repeatable.")
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="End the rule at this time, e.g. 2030-01-01T12:00 (UTC)."),
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="TEXT", help="Name the rule; no other rule may have the name.")
]
Paused = Annotated[bool, typer.Option("--paused", help="Store the rule but do not evaluate it.")]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Report enter once it held so long, e.g. '5 minutes' or '3 rows'."),
]
KeepFiringFor = Annotated[
    str | None,
    typer.Option("--keep-firing-for", metavar="TIME", help="Report exit once it ceased so long ago, likewise."),
]
Stay = Annotated[
    str | None,
    typer.Option("--stay", metavar="CONDITION", help="Who is inside stays inside while this wider condition holds."),
]
Margin = Annotated[
    list[str] | None,
    typer.Option("--margin", metavar="COLUMN=NUMBER", help="In place of --stay: move bounds outward. Repeatable."),
]
Cooldown = Annotated[
    str | None, typer.Option("--cooldown", metavar="TIME", help="Report no enter so long after any event of an object.")
]
Limit = Annotated[str | None, typer.Option("--limit", metavar="N", help="Report at most N enters of an object.")]
Every = Annotated[str | None, typer.Option("--every", metavar="TIME", help="Report inside only every so often.")]


def plain_options(
    detect: Detect = "inside",
    initial: Initial = False,
    label: Labels = None,
    expires: Expires = None,
    paused: Paused = False,
    name: Name = None,
) -> dict[str, Any]:
    """The options of a rule but for damping, from those of a command."""
    labels = read_pairs(label, "--label", "team=desk")
    given = {"detect": detect, "initial": initial, "labels": labels, "expires": expires, "enabled": not paused}
    return {**given, "name": name}


def damping_options(
    for_: For = None,
    keep_firing_for: KeepFiringFor = None,
    stay: Stay = None,
    margin: Margin = None,
    cooldown: Cooldown = None,
    limit: Limit = None,
    every: Every = None,
) -> dict[str, Any]:
    """The options of damping, likewise."""
    margins = {column: _number(text) for column, text in read_pairs(margin, "--margin", "price=2").items()}
    lengths = {"for_": for_, "keep_firing_for": keep_firing_for, "cooldown": cooldown, "every": every}
    return {**lengths, "stay": stay, "margin": margins or None, "limit": limit}


def _number(text: str) -> Any:
    """A number; what is none is refused with the rule."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def with_options(*readers: Callable[..., dict[str, Any]], after: str) -> Callable[..., Callable[..., None]]:
    """Give a command the options that some functions read, behind one of its own; it takes them as a mapping."""

    def give(command: Callable[..., None]) -> Callable[..., None]:
        of_readers = [signature(read, eval_str=True).parameters for read in readers]
        own = [each for each in signature(command, eval_str=True).parameters.values() if each.name != "options"]
        place = 1 + [each.name for each in own].index(after)
        further = [each for options in of_readers for each in options.values()]
        whole = Signature([*own[:place], *further, *own[place:]])

        @wraps(command)
        def run(*args: Any, **kwargs: Any) -> None:
            bound = whole.bind(*args, **kwargs)
            bound.apply_defaults()
            given, options = dict(bound.arguments), dict[str, Any]()
            for read, names in zip(readers, of_readers, strict=True):
                options |= read(**{name: given.pop(name) for name in names})
            command(options=options, **given)

        run.__signature__ = whole  # type: ignore[attr-defined]
        return run

    return give
