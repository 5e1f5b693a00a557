"""All that commands print: tables for people, tab-separated lines and JSON for programs, progress on a terminal.

Rules, labels and object names come from anywhere. Whatever they contain, no control character of theirs reaches a
terminal: texts spell it out, JSON escapes it.
"""

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from fencepost._text import printable, printable_lines

if TYPE_CHECKING:
    from fencepost.book import Progress


_BROKEN_AT = 20
"""How narrow the last column of a table may be."""
_BESIDE = 3
"""What a table has beside the text of a column: a line and two blanks."""


def as_json(value: Any) -> str:
    """One line of JSON; NaN and the infinities, which JSON lacks, are null."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:
        value = _finite(value)
        text = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    return text if text.isprintable() else json.dumps(value, default=_plain)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _finite(asdict(value))
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def print_json(value: Any) -> None:
    """One JSON document."""
    print(as_json(value))


def print_json_array(values: Iterable[Any]) -> None:
    """One JSON array, an element per line, however many there are."""
    separator = "["
    for value in values:
        print(separator, as_json(value), sep="\n" if separator == "[" else "", end="")
        separator = ",\n"
    print("[]" if separator == "[" else "\n]")


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "", *, spare: Sequence[str] = ()
) -> None:
    """A table for a person; tab-separated lines where standard output is no terminal.

    Of a table with `spare` columns only the last column is broken into lines. So that the others fit, spare ones are
    left out, those that are named first before the others, and those that are empty in any case.
    """
    texts = [["" if each is None else printable(str(each)) for each in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(headers), *texts]:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    shown, hidden = _fitting([headers, *texts], spare, console.width) if spare else (list(range(len(headers))), [])
    table = Table(title=title or None, title_justify="left")
    for place in shown:
        table.add_column(headers[place], overflow="fold", no_wrap=bool(spare) and place != shown[-1])
    for row in texts:
        table.add_row(*(Text(row[place]) for place in shown))  # not markup: a condition may hold brackets
    console.print(table)
    if hidden:
        note(f"a wider terminal also shows: {', '.join(hidden)}")


def _fitting(rows: Sequence[Sequence[str]], spare: Sequence[str], width: int) -> tuple[list[int], list[str]]:
    """The places of columns that fit beside each other, and the names of those that are left out and not empty."""
    from rich.cells import cell_len

    headers, *texts = rows
    empty = {name for name in spare if not any(row[headers.index(name)] for row in texts)}
    widths = {name: max(cell_len(row[place]) for row in rows) for place, name in enumerate(headers)}
    widths[headers[-1]] = min(widths[headers[-1]], _BROKEN_AT)
    hidden: list[str] = []
    for name in [*(each for each in spare if each not in empty), None]:
        left = [each for each in headers if each not in empty and each not in hidden]
        if name is None or sum(widths[each] + _BESIDE for each in left) < width:
            break
        hidden.append(name)
    return [headers.index(name) for name in left], hidden


def print_text(value: object) -> None:
    """An answer in words, of one line or several."""
    print(printable_lines(str(value)))


def note(text: str) -> None:
    """A remark beside the answer."""
    print(printable_lines(text), file=sys.stderr)


def print_done(as_json: bool, value: Any, text: str) -> None:
    """The outcome of a command: as JSON, or as a remark."""
    if as_json:
        print_json(value)
    else:
        note(text)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Prints what is warned of as remarks, without the places in the code."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    for each in found:
        note(f"warning: {each.message}")


@contextmanager
def progress() -> "Iterator[Progress]":
    """Something to call with a step, how much is done and how much there is; it draws bars on a terminal."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def report(step: str, done: int, total: int | None) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield report
