"""Small tables of HTML, for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from fencepost._text import printable, printable_lines

SHOWN = 10
"""How many rows a notebook shows of what may have millions."""


def html_table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[Any]], hidden: int = 0) -> str:
    """A table with a caption; columns in which nothing stands are left out, and nothing is markup.

    Notebooks put what cells have to the right, which is for numbers; columns with words say otherwise.

    >>> html_table("1 rule", ["id", "labels"], [[7, None]])
    '<table><caption>1 rule</caption><thead><tr><th>id</th></tr></thead><tbody><tr><td>7</td></tr></tbody></table>'
    >>> html_table("", ["name"], [["a"]])[33:80]
    '<tr><th style="text-align: left">name</th></tr>'
    """
    rows = [list(row) for row in rows]
    texts = [["" if each is None else _as_html(each) for each in row] for row in rows]
    used = [place for place in range(len(headers)) if not texts or any(row[place] for row in texts)]
    words = {
        place
        for row in rows
        for place, each in enumerate(row)
        if isinstance(each, str) and each and not each.replace(",", "").isdecimal()
    }
    style = {place: ' style="text-align: left"' if place in words else "" for place in used}
    head = "".join(f"<th{style[place]}>{_as_html(headers[place])}</th>" for place in used)
    body = ["".join(f"<td{style[place]}>{row[place]}</td>" for place in used) for row in texts]
    if hidden:
        body.append(f'<td colspan="{len(used)}">and {hidden:,} more</td>')
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f"<table><caption>{_as_html(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def html_text(value: Any) -> str:
    """What prints as a short report, with its lines.

    >>> html_text("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{escape(printable_lines(str(value)))}</pre>"


def _as_html(value: Any) -> str:
    return escape(printable(str(value)))
