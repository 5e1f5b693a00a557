"""What commands print: tables for people, tab-separated lines and JSON for programs, progress on a terminal."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.book import Progress


def as_json(value: Any) -> str:
    """One line of JSON; NaN is null, as everywhere."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), ensure_ascii=False, default=_plain)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    return [_without_nan(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
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


def print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """A table for a person; tab-separated lines where standard output is no terminal."""
    texts = [["" if each is None else _printable(str(each)) for each in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(headers), *texts]:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))  # not markup: a condition may hold brackets
    Console().print(table)


def _printable(text: str) -> str:
    """One line in which a tab, a line feed or an escape sequence for the terminal is spelled out."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def note(text: str) -> None:
    """Tells a person something beside the answer."""
    print(text, file=sys.stderr)


@contextmanager
def progress() -> "Iterator[Progress]":
    """Something to call with a step, how much is done and how much there is; it draws bars on a terminal."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def report(step: str, done: int, total: int | None) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield report
