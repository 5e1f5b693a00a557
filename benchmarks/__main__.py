"""Runs every benchmark and prints a table per subject, goals and misses marked."""

import argparse
import importlib.metadata

from benchmarks import bands, book, borders, boxes, buffers, catalogue, cold, conditions, damping, rules, slices
from benchmarks import console as pages
from benchmarks import service as serving
from benchmarks.harness import Report, console, show_missed
from benchmarks.page import write
from fencepost.lab.reproduce.timing import machine

PEERS = (
    "superintervals",
    "ncls",
    "polars",
    "duckdb",
    "intervaltree",
    "shapely",
    "rtree",
)
SUBJECTS = {
    "catalogue": catalogue.run,
    "slices": slices.run,
    "boxes": boxes.run,
    "borders": borders.run,
    "buffers": buffers.run,
    "bands": bands.run,
    "rules": rules.run,
    "conditions": conditions.run,
    "damping": damping.run,
    "book": book.run,
    "cold": cold.run,
    "console": pages.run,
    "service": serving.run,
}


def main() -> None:
    """Run the subjects named on the command line, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("subjects", nargs="*", help="default: all")
    parser.add_argument("--full", action="store_true", help="the large sizes")
    parser.add_argument("--write", action="store_true", help="put the figures of all subjects into docs and README")
    arguments = parser.parse_args()
    found = machine() | {name: importlib.metadata.version(name) for name in PEERS}
    console.print(f"[dim]{', '.join(f'{name} {value}' for name, value in found.items())}[/]")
    wrong = set(arguments.subjects) - set(SUBJECTS)
    if wrong:
        parser.error(f"got {', '.join(sorted(wrong))}; expected any of {', '.join(SUBJECTS)}")
    if arguments.write and arguments.subjects:
        parser.error(f"got --write with {', '.join(arguments.subjects)}; expected no subjects: it writes all of them")
    reports: list[Report] = []
    for subject in arguments.subjects or SUBJECTS:
        for report in SUBJECTS[subject](arguments.full):
            report.show()
            reports.append(report)
    show_missed(reports)
    if arguments.write:
        write(reports, found, "full" if arguments.full else "quick")


if __name__ == "__main__":
    main()
