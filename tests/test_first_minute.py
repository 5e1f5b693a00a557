"""What one sees in the first minute: names, versions, help, and values that say what they are."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from fencepost.book import RuleBook
from fencepost.cli.app import app

APPLICATION = Path(__file__).parent / "typed" / "app.py"


def example() -> fp.Rules:
    rules = fp.Rules()
    rules.add(1, "symbol = 'IBM' AND price < 50 AND note = '<b>'", detect="enter", labels={"desk": "4"})
    return rules


def test_dir_lists_the_public_names_and_each_is_there() -> None:
    assert dir(fp) == sorted([*fp.__all__, "__version__", "plot"])
    assert all(hasattr(fp, name) for name in dir(fp))
    assert dir(fp.plot) == ["events", "rule"]
    assert fp.__version__.count(".") == 2


def test_the_command_line_tells_the_version() -> None:
    from typer.testing import CliRunner

    assert CliRunner().invoke(app, ["--version"]).output == f"fencepost {fp.__version__}\n"
    assert CliRunner().invoke(app, ["version"]).output == f"fencepost {fp.__version__}\n"


@pytest.mark.parametrize(
    "method",
    [
        *(fp.Rules.add, fp.Rules.replace, fp.Rules.from_table, fp.Rules.add_table),
        *(fp.Monitor.add, fp.Monitor.replace, RuleBook.add, RuleBook.replace),
    ],
)
def test_help_shows_every_option(method: object) -> None:
    parameters = inspect.signature(method).parameters  # type: ignore[arg-type]
    assert {"detect", "initial", "labels", "expires", "enabled"} <= {*parameters}
    assert {"name", "name_column"} & {*parameters}
    assert not [each for each in parameters.values() if each.kind is inspect.Parameter.VAR_KEYWORD]


def test_values_say_what_they_are(tmp_path: Path) -> None:
    rules = example()
    table = fp.Rules.from_table({"rule_id": [1], "low": [1.0], "high": [2.0]}, ranges={"x": ("low", "high")})
    assert repr(rules) == "Rules(1 rule on symbol, price, note)"
    assert repr(table) == "Rules(1 rule on x, 1 of 1 table)"
    assert repr(rules.compile()) == "Snapshot(version 0, 1 rule on note, symbol, price)"
    monitor = fp.Monitor(rules, object="symbol")
    monitor.update_one("IBM", price=4.0, note="<b>")
    assert repr(monitor) == "Monitor(object='symbol': 1 rule, 1 object, 1 row, 1 event)"
    found = table.compile().match({"x": [1.5, 3.0, 1.0]})
    assert repr(found) == "Matches(3 rows, 2 ids: [1], [], [1])"
    with RuleBook(f"sqlite:///{tmp_path}/rules.db", author="ann") as book:
        book.add(1, "price < 50")
        assert repr(book) == f"RuleBook('sqlite:///{tmp_path}/rules.db', author='ann')"
        assert "price &lt; 50" in book._repr_html_()


def entering() -> fp.Rules:
    rules = fp.Rules()
    rules.add(1, "price > 40", detect="enter")
    return rules


def test_notebooks_show_tables_in_which_nothing_is_markup() -> None:
    rules = example()
    monitor = fp.Monitor(rules, object="symbol")
    (event,) = fp.Monitor(entering(), object="symbol").update_one("<b>", price=41.0)
    assert '<td style="text-align: left">&lt;b&gt;</td>' in event._repr_html_()
    assert dir(event) == sorted({*dir(event)}), "each name once"
    assert {"rule_id", "price_before", "asdict"} <= {*dir(event)}
    shown: list[Any] = [rules, rules.compile(), rules.compile().explain(), monitor, monitor.rules, event]
    for value in shown:
        html = value._repr_html_()
        assert html.startswith("<table><caption>")
        assert "<b>" not in html
    many = fp.Rules.from_table({"rule_id": range(30), "low": range(30)}, ranges={"x": ("low", None)})
    assert many._repr_html_().count("<tr>") == 12
    assert "and 20 more" in many._repr_html_()


@pytest.mark.slow
def test_an_application_passes_strict_checks_of_types() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", str(APPLICATION)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert checked.returncode == 0, checked.stdout
    assert "Success" in checked.stdout


def test_answers_in_words_keep_their_lines_in_notebooks(tmp_path: Path) -> None:
    rules = example()
    monitor = fp.Monitor(rules, object="symbol")
    (event,) = monitor.update({"symbol": ["IBM"], "price": [4.0], "note": ["<b>"]}).to_pylist()
    bands = fp.Rules()
    bands.add(1, "left.price - right.price < 1", detect="enter", name="<b>")
    pairs = fp.Monitor(bands, object="id")
    pairs.update(left=[{"id": 1, "price": 5.0}])
    (met,) = pairs.update(right=[{"id": 2, "price": 5.5}]).to_pylist()
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.add("<b>", "price < 50")
        shown: list[Any] = [book.preview(tmp_path / "published")]
    shown += [monitor.why(event), monitor.why_not(1, "IBM"), pairs.why(met)]
    for value in shown:
        html = value._repr_html_()
        assert html.startswith("<pre>")
        assert html.count("\n") == str(value).count("\n") > 0
        assert "<b>" not in html
    assert "<caption>rule 1</caption>" in rules[1]._repr_html_()
