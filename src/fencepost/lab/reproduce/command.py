"""The command `reproduce`: measures figures, checks closed forms, writes NAME.json, NAME.svg and the table."""

import json as json_format
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fencepost.errors import FencepostError
from fencepost.lab.reproduce.figure import Figure, Outcome, Panel
from fencepost.lab.reproduce.timing import machine, telling


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Figures such as cei-15; all of them if none.")] = None,
    out: Annotated[Path, typer.Option(help="Where NAME.json and NAME.svg go.")] = Path("figures"),
    full: Annotated[bool, typer.Option("--full", help="The papers' own sizes instead of the quick ones.")] = False,
    table: Annotated[Path | None, typer.Option(help="Also write a Markdown table of all figures to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Reproduce the figures of the papers, with our index beside theirs."""
    from fencepost.lab.reproduce.table import require_others, written  # late: the figures bring all indexes with them

    if table:
        require_others(out, names or [])
    records = run(names or [], out, full)
    if table:
        written(out, table)
    if json:
        print(json_format.dumps([_summary(record) for record in records], indent=1))
    else:
        _show(records)
    wrong = [f"{record['name']}: {check}" for record in records for check in record["failed"]]
    for line in wrong:
        typer.echo(f"not its closed form: {line}", err=True)
    if wrong:
        raise typer.Exit(1)


def run(names: list[str], out: Path, full: bool) -> list[dict[str, Any]]:
    """Measure, write and return the records of these figures; nothing is measured if anything is refused."""
    from fencepost.lab.reproduce.catalogue import named
    from fencepost.lab.reproduce.drawing import draw, require_matplotlib

    chosen = _measurable(named(names), skip=not names)
    require_matplotlib()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FencepostError(
            f"{out}: {problem.strerror}", "a directory to write to", "Name another one with --out."
        ) from None
    records = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[measured]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(chosen), measured="")
        for figure in chosen:
            progress.update(task, description=figure.name, measured="")
            parameters = dict(figure.full if full else figure.quick)
            begin, busy = time.perf_counter(), time.process_time()
            with telling(lambda name: progress.update(task, measured=name)):
                outcome = figure.measure(**parameters)
            record = recorded(figure, outcome, parameters, "full" if full else "quick")
            record["seconds"] = round(time.perf_counter() - begin, 1)
            record["cpu_seconds"] = round(time.process_time() - busy, 1)
            (out / f"{figure.name}.json").write_text(json_format.dumps(record, indent=1) + "\n", encoding="utf-8")
            draw(figure, outcome, out / f"{figure.name}.svg")
            records.append(record)
            progress.advance(task)
    return records


def _measurable(chosen: list[Figure], skip: bool) -> list[Figure]:
    """The figures that this machine can measure; one that it cannot is skipped with the reason, or refused."""
    able = []
    for figure in chosen:
        lacks = next(iter(figure.missing()), None)
        if lacks is None:
            able.append(figure)
        elif skip:
            typer.echo(f"{figure.name} is skipped: {lacks.one_line}", err=True)
        else:
            raise FencepostError(f"{figure.name}: {lacks.got}", lacks.expected, lacks.remedy)
    return able


def recorded(figure: Figure, outcome: Outcome, parameters: dict[str, Any], size: str) -> dict[str, Any]:
    """Everything about one run of a figure, as JSON has it."""
    return {
        "name": figure.name,
        "paper": figure.paper,
        "figure": figure.number,
        "title": figure.title,
        "claim": figure.claim,
        "verdict": outcome.verdict,
        "findings": [finding._asdict() for finding in outcome.findings],
        "stand_ins": outcome.stand_ins,
        "notes": list(outcome.notes),
        "checks": len(outcome.checks),
        "failed": [str(check) for check in outcome.failed],
        "checked": [{**check._asdict(), "holds": check.holds} for check in outcome.checks],
        "panels": [
            {
                "title": panel.title,
                "x": panel.x_label,
                "y": panel.y_label,
                "curves": [{**curve._asdict(), "x": list(curve.x), "y": list(curve.y)} for curve in panel.curves],
                "ratios": _ratios(panel),
            }
            for panel in outcome.panels
        ],
        "size": size,
        "parameters": parameters,
        "machine": machine(),
    }


def _ratios(panel: Panel) -> dict[str, list[float]]:
    """How many times the reference curve each other one is, where both were measured."""
    if panel.ratio_to is None:
        return {}
    reference = panel.curve(panel.ratio_to)
    values = dict(zip(reference.x, reference.y, strict=True))
    return {
        curve.name: [y / values[x] for x, y in zip(curve.x, curve.y, strict=True) if x in values]
        for curve in panel.curves
        if curve is not reference
    }


def _summary(record: dict[str, Any]) -> dict[str, Any]:
    return {key: record[key] for key in ("name", "verdict", "findings", "checks", "failed", "seconds")}


def _show(records: list[dict[str, Any]]) -> None:
    """A line per figure on the terminal."""
    table = Table(box=None)
    for header in ("figure", "verdict", "what was measured", "closed forms", "s"):
        table.add_column(header, justify="right" if header == "s" else "left")
    for record in records:
        said = "\n".join(
            f"{'+' if each['holds'] else '-'} {each['claim']}: {each['measured']}" for each in record["findings"]
        )
        checked = f"{record['checks'] - len(record['failed'])} of {record['checks']}"
        table.add_row(record["name"], record["verdict"], said, checked, f"{record['seconds']:.0f}")
    Console().print(table)
