"""How benchmarks judge and what they write; what they measure is not for tests."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import page, sizing_page
from benchmarks.contest import agree
from benchmarks.harness import Report

from fencepost.indexes import Matches


@pytest.fixture
def report() -> Report:
    report = Report("Lookups")
    report.at_most("time", 1.5, 2)
    report.at_least("ratio", 3, 30)
    report.note("size", "9 bytes")
    report.headline("which ranges hold a value?", "a peer", "3x")
    return report


def test_goals_are_reached_or_missed_and_notes_have_none(report: Report) -> None:
    assert [row.reached for row in report.rows] == [True, False, None]
    assert (report.goals, report.missed) == (2, 1)


def test_the_page_has_every_row_and_the_readme_the_short_table(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{page.BEGIN}| old |\n{page.END}after\n")
    monkeypatch.setattr(page, "README", readme)
    monkeypatch.setattr(page, "PAGES", {size: tmp_path / f"{size}.md" for size in page.PAGES})
    for _ in range(2):
        page.write([report], {"cpu": "one", "numpy": "2"}, "quick")
        written = (tmp_path / "quick.md").read_text()
        assert "of 2, 1 were missed" in written
        assert "cpu one, numpy 2" in written
        assert "| ratio | 3.00x | >= 30x | **missed** |" in written
        assert "| size | 9 bytes |  |  |" in written
        short = "| measured | beside | fencepost |\n|---|---|---:|\n| which ranges hold a value? | a peer | 3x |\n"
        assert readme.read_text() == f"before\n{page.BEGIN}{short}{page.END}after\n"
        assert short in written
    readme.unlink()
    page.write([report], {"cpu": "one"}, "full")
    assert short in (tmp_path / "full.md").read_text()
    assert not readme.exists()


def test_the_figures_of_the_readme_are_those_of_the_page() -> None:
    shown = page.README.read_text(encoding="utf-8").split(page.BEGIN)[1].split(page.END)[0]
    assert shown.startswith("| measured |")
    assert shown in page.PAGES["quick"].read_text(encoding="utf-8")


def test_a_peer_with_other_ids_does_not_agree() -> None:
    answer = Matches(np.array([0, 2, 3]), np.array([7, 5, 6]))
    agree("same", answer, (np.array([0, 0, 1]), np.array([5, 7, 6])))
    for rows, ids in (([0, 0, 1], [5, 8, 6]), ([0, 1, 1], [5, 7, 6]), ([0, 0], [5, 7])):
        with pytest.raises(AssertionError, match="other disagrees"):
            agree("other", answer, (np.array(rows), np.array(ids)))


def test_a_figure_may_be_too_small_or_too_large() -> None:
    report = Report("Predicted")
    for value in (0.69, 0.7, 1.3, 1.31):
        report.within("ratio", value, 0.7, 1.3)
    assert [row.reached for row in report.rows] == [False, True, True, False]
    assert report.rows[0].goal == "0.7 to 1.3x"


def test_checks_of_other_subjects_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = "".join(mark.format(name) for name in ("sizes", "checks", "constants") for mark in sizing_page.MARKS)
    (tmp_path / "sizing.md").write_text(f"# Sizing\n{marks}The end.\n")
    monkeypatch.setattr(sizing_page, "PAGE", tmp_path / "sizing.md")
    for names, whole in ((("rows: 1 / 2", "bytes: 3 / 4"), True), (("rows: 5 / 6",), False)):
        report = Report("Predicted")
        for name in names:
            report.within(name, 1.0, 0.7, 1.3)
        sizing_page.write_tables(report, whole)
    text = (tmp_path / "sizing.md").read_text()
    assert "rows: 5 / 6" in text
    assert "rows: 1 / 2" not in text
    assert "bytes: 3 / 4" in text
    assert text.startswith("# Sizing\n")
    assert text.endswith("The end.\n")
    assert text.count("| `watch_row` |") == 1
