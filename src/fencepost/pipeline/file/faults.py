"""What is wrong with a pipeline file: every fault with its place, and all of them raised at once."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from fencepost._text import count
from fencepost.errors import FencepostError, UnreachableError, join_message


class Fault(NamedTuple):
    """One fault of a pipeline file."""

    place: str
    """Section and key, such as ``source.path``."""
    line: int | None
    """Where that stands in the file; None where it is missing altogether."""
    got: str
    expected: str
    remedy: str
    may_pass: bool = False
    """Whether it may go away by itself, as when a server has not started yet."""

    def __str__(self) -> str:
        where = self.place if self.line is None else f"{self.place} (line {self.line})"
        return f"{where}: {join_message(self.got, self.expected, self.remedy)}"


class Findings(list[Fault]):
    """The faults of a pipeline file, in the order of their lines."""

    unchecked: tuple[str, ...] = ()
    """What only Spark can tell, and is checked when it starts."""
    left_out: tuple[str, ...] = ()
    """What takes long, and was not looked at because of the faults."""


class PipelineFaultsError(FencepostError):
    """A pipeline that was refused, with everything that is wrong with it.

    Args:
        name: of the file.
        faults: all of them.
    """

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        super().__init__(
            f"{count(len(faults), 'fault')} in {name}", "none", "Correct them and run it again; nothing was started."
        )
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {fault}" for fault in self.faults)])


def fault_of(error: FencepostError, place: str, line: int | None) -> Fault:
    """A refusal as a fault of the file."""
    details = [text.strip() for text in str(error).splitlines()[1:]]
    may_pass = isinstance(error, UnreachableError)
    return Fault(place, line, "; ".join([error.got, *details]), error.expected, error.remedy, may_pass)


def meant(wrong: str, known: Iterable[str]) -> str:
    """The next step for a name that is not known.

    >>> meant("pth", ["path", "format"])
    'Did you mean path?'
    >>> meant("colour", ["path", "format"])
    'Remove it; there are format, path.'
    """
    names = sorted(known)
    near = find_near(wrong, names)
    return f"Remove it; there are {', '.join(names)}." if near is None else f"Did you mean {near}?"


def find_near(wrong: str, known: Iterable[str]) -> str | None:
    """The name that is most likely meant; None where none is near."""
    close = get_close_matches(wrong, sorted(known), n=1)
    return close[0] if close else None
