"""The examples in the docstrings of operators, which need a session: each prints what its comments say."""

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.spark import bands, match, watch


@pytest.mark.parametrize("operator", [match, watch, bands])
def test_the_example_of_an_operator(
    spark: Any, operator: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"^Example::\n\n((?:    .*\n|\n)+)", inspect.getdoc(operator) or "", re.MULTILINE)
    assert found is not None
    example = textwrap.dedent(found[1])
    exec(compile(example, operator.__name__, "exec"), {"spark": spark})  # noqa: S102
    said = [line.removeprefix("# ") for line in example.splitlines() if line.startswith("# ")]
    assert capsys.readouterr().out.split("\n")[: len(said)] == said
