"""Record the corpus anew: `python -m tests.corpus.record [GROUP ...]`.

The recorded events are the proof that a change of the code changes no event. Record them anew only where events are
meant to change, and say so in the commit; what differs from the last recording is printed.
"""

import sys
import tempfile
from pathlib import Path

from tests.corpus import spark_frames
from tests.corpus.files import first_difference, path_of, read_records, write_records
from tests.corpus.playing import Record, play
from tests.corpus.scenarios import GROUPS

SPARK = "spark"


def record(group: str, played: dict[str, list[Record]]) -> None:
    """Write the answers of one group, and say what they change."""
    path = path_of(group)
    known = read_records(path) if path.exists() else {}
    write_records(path, played.items())
    events = sum(each.table.num_rows for records in played.values() for each in records if each.step.endswith("events"))
    print(f"{group}: {len(played)} scenarios, {events} events, {path.stat().st_size} bytes")
    print(f"  {len(played.keys() - known.keys())} scenarios are new, {len(known.keys() - played.keys())} are gone")
    for name, records in played.items():
        if name in known and (changed := first_difference(known[name], records)) is not None:
            only_new = first_difference(known[name], records, new_columns=True) is None
            print(f"  {name}: {'new columns, nothing else' if only_new else f'CHANGED at {changed}'}")


def main(groups: list[str]) -> None:
    """Record the given groups, or all."""
    print(__doc__)
    unknown = set(groups) - {*GROUPS, SPARK}
    if unknown:
        sys.exit(f"There is no group {', '.join(sorted(unknown))}. Pass any of {', '.join([*GROUPS, SPARK])}.")
    for group, scenarios in GROUPS.items():
        if not groups or group in groups:
            record(group, {scenario.name: list(play(scenario)) for scenario in scenarios()})
    if not groups or SPARK in groups:
        with tempfile.TemporaryDirectory() as scratch, spark_frames.session(Path(scratch)) as session:
            record(SPARK, {name: [run(session)] for name, run in spark_frames.RUNS.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
