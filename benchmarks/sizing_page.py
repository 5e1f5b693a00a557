"""Writes the tables of docs/sizing.md: what the model says up to a billion rules, and how it was checked."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Report
from fencepost._files.whole import write_whole
from fencepost._memory import show_size
from fencepost.sizing import Hosts, Measured, Workload, read_measured, size_of
from fencepost.sizing.constants import CONSTANTS

PAGE = Path(__file__).parents[1] / "docs" / "sizing.md"
MARKS = ("<!-- make bench-spark writes {} from here -->\n", "<!-- {} to here -->\n")
RULES = (1e6, 1e7, 1e8, 1e9)
ROWS = (1e4, 1e5, 1e6, 1e7)


def write_tables(report: Report, whole: bool = True) -> None:
    """Put the tables between their marks; where not all was checked again, the other lines of that table stay."""
    read_measured.cache_clear()
    measured = read_measured()
    text = PAGE.read_text(encoding="utf-8")
    kept = [] if whole else kept_lines(_cut(text, "checks")[1], report)
    tables = {"sizes": size_table(measured), "checks": check_table(report, kept), "constants": constant_table(measured)}
    for name, table in tables.items():
        before, _, after = _cut(text, name)
        text = f"{before}\n{table}\n{after}"
    write_whole(PAGE, text)


def _cut(text: str, name: str) -> tuple[str, str, str]:
    """What stands before, between and after the marks of a table, which stay with the outer parts."""
    begin, end = (mark.format(name) for mark in MARKS)
    before, rest = text.split(begin)
    between, after = rest.split(end)
    return before + begin, between, end + after


def kept_lines(table: str, report: Report) -> list[str]:
    """The lines of a table of checks that are about other runs than those of the report."""
    again = {row.what.split(": ")[0] for row in report.rows}
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return [line for line in lines if line[2:].split(": ")[0] not in again]


def size_table(measured: Measured) -> str:
    """Watch at every size, on hosts as the command takes them for granted."""
    return _table(
        ("rules", "rows/s", "cores", "hosts", "memory per host", "shards", "rules on disk", "checkpoint", "shuffle/s"),
        (
            (
                f"{rules:.0e}".replace("e+0", "e"),
                f"{rows:.0e}".replace("e+0", "e"),
                size.cores,
                size.hosts,
                show_size(size.memory_per_host),
                size.shards,
                show_size(size.snapshot_bytes),
                show_size(size.checkpoint_bytes),
                show_size(size.shuffle_bytes_per_second),
            )
            for rules in RULES
            for rows in ROWS
            for size in (size_of(Workload(rules, rows, 10 * rows, 0.3, keys=rules / 100), Hosts(), measured.constants),)
        ),
    )


def check_table(report: Report, kept: Sequence[str] = ()) -> str:
    """Predicted over measured, below the lines that are kept."""
    marks = {True: "", False: "**missed**", None: ""}
    rows = ((row.what, row.measured, row.goal, marks[row.reached]) for row in report.rows)
    return _table(("run: predicted / measured", "ratio", "goal", ""), rows, kept)


def constant_table(measured: Measured) -> str:
    """Every constant, and the machine."""
    values = measured.constants._asdict()
    machine = ", ".join(f"{name} {value}" for name, value in measured.machine.items())
    rows = ((f"`{name}`", f"{values[name]:.3g}", each.unit, each.meaning) for name, each in CONSTANTS.items())
    return f"Measured on {machine}.\n\n" + _table(("constant", "value", "unit", "what it is"), rows)


def _table(header: Sequence[str], rows: Iterator[Sequence[object]], kept: Sequence[str] = ()) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *kept]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"
