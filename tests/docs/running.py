"""Runs the blocks of a page as a reader would: in their order, in one directory."""

import ast
import doctest
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fencepost as fp
from fencepost.pipeline import check
from fencepost.pipeline.runtime.changes import Applied, ChangeFollower, Message
from tests.cli.shell import Shell
from tests.docs.blocks import Block

__all__ = ["RUNNERS", "Reader", "run_shell"]


@dataclass
class Reader:
    """Someone who tries out a page.

    Args:
        home: an empty directory, the current one.
        spark: gives the session that is shared; only pages that use Spark ask for it.
    """

    home: Path
    spark: Callable[[], Any]
    given: dict[str, Any] = field(default_factory=dict)
    """What the text takes for granted in Python without prompts, such as a frame `ticks`."""
    instead: dict[str, str] = field(default_factory=dict)
    """What stands in place of paths and names that are the reader's own."""
    typed: dict[str, Any] = field(default_factory=dict)
    """The names of Python with prompts."""

    def text(self, block: Block) -> str:
        """A block with the reader's own names in it."""
        text = block.text
        for shown, own in self.instead.items():
            text = text.replace(shown, own)
        return text


def run_python(reader: Reader, block: Block) -> None:
    """With prompts, its output is compared; without, every frame that a line makes is computed."""
    text = reader.text(block)
    if text.lstrip().startswith(">>>"):
        told: list[str] = []
        test = doctest.DocTestParser().get_doctest(text, reader.typed, str(block), block.page, block.line)
        assert test.examples
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=told.append, clear_globs=False)
        reader.typed = test.globs
        assert not runner.failures, "".join(told)
        return
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), str(block), "eval"), reader.given)  # noqa: S307
            if hasattr(value, "collect"):
                value.collect()
        else:
            exec(compile(ast.Module([statement], []), str(block), "exec"), reader.given)  # noqa: S102


def run_shell(reader: Reader, block: Block) -> None:
    """Every command ends with 0."""
    Shell(reader.home).run(f"set -e\n{reader.text(block)}", FENCEPOST_BOOK="sqlite:///fencepost.db")


def run_toml(reader: Reader, block: Block) -> None:
    """A pipeline without faults."""
    path = reader.home / "pipeline.toml"
    path.write_text(reader.text(block))
    faults = check(path)
    assert not faults, faults


def run_json(reader: Reader, block: Block) -> None:
    """Messages that change rules, one per line: each of them changes one."""
    rules = fp.Rules()
    told: list[Applied] = []
    follower = ChangeFollower(rules, lambda: None, reader.home / "changes", report=told.append)
    for number, line in enumerate(reader.text(block).splitlines()):
        json.loads(line)
        follower.apply([Message(f"line {number}", line)], number)
    assert told
    assert all(applied == Applied(1, 0, 0) for applied in told), told


def run_sql(reader: Reader, block: Block) -> None:
    """Statements of Spark SQL, each with an answer."""
    for statement in filter(str.strip, reader.text(block).split(";")):
        assert reader.spark().sql(statement).collect(), statement


RUNNERS: dict[str, Callable[[Reader, Block], None]] = {
    "python": run_python,
    "sh": run_shell,
    "": run_shell,
    "toml": run_toml,
    "json": run_json,
    "sql": run_sql,
}
"""By the word behind the fence."""
