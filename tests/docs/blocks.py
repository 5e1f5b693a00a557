"""Finds every fenced block and every inline code of the documentation."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["PAGES", "ROOT", "Block", "blocks_of", "inline_codes"]

ROOT = Path(__file__).parents[2]
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md")))
]
_READER = MarkdownIt("commonmark").enable("table")


class Block(NamedTuple):
    """A fenced block."""

    page: str
    line: int
    language: str
    """The word behind the fence; empty where there is none."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}, a block {self.language or 'without a language'}"


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page in their order; directives such as {toctree} are left to `make docs`."""
    found = [
        Block(page, token.map[0] + 1, re.match(r"\S*", token.info.strip())[0], token.content)  # type: ignore[index]
        for token in _tokens(page)
        if token.type == "fence" and token.map
    ]
    return [block for block in found if not block.language.startswith("{")]


def inline_codes(page: str) -> Iterator[str]:
    """Everything that a page has between backticks in its text."""
    for token in _tokens(page):
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content


def _tokens(page: str) -> list[Token]:
    return _READER.parse((ROOT / page).read_text(encoding="utf-8"))
