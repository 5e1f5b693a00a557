"""Tries every promise with fresh seeds: python -m tests.campaign --minutes 3.

Runs of less than ten minutes are the short form: they leave out trials that take minutes, and those that are known to
fail. A run that was broken off goes on with --resume and its journal. With --only and --seed, and without --minutes,
one try is repeated.
"""

import argparse
import secrets
import sys
import time
from pathlib import Path

from rich.console import Console

from tests.campaign.catalogue import TRIALS
from tests.campaign.runner import Journal, report, run_trials
from tests.campaign.trial import Trial

MODULE = "tests.campaign.catalogue"
FOLDER = Path("campaign")
"""Where journals are kept."""
WIDE = 140
"""Characters of a line of the report, where it goes to no terminal."""
SHORT = 10
"""Minutes below which a run is the short form."""


def choose(trials: list[Trial], only: str | None, minutes: float) -> list[Trial]:
    """The trials of a run: those of a name, or all, in the short form without the long and the known ones."""
    if only is not None:
        return [trial for trial in trials if trial.name == only or trial.name.startswith(f"{only}.")]
    return [trial for trial in trials if minutes >= SHORT or not (trial.long or trial.known)]


def main() -> int:
    """Run it; 0 if nothing failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="how long; 120 unless told")
    parser.add_argument("--only", metavar="NAME", help="one trial, or all of a promise: " + ", ".join(_names()))
    parser.add_argument("--seed", type=int, help="the first seed of each trial; drawn unless told")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="the journal of a run to go on with")
    given = parser.parse_args()
    if given.resume is not None and not given.resume.exists():
        parser.error(f"{given.resume} does not exist")
    repeated = given.only is not None and given.seed is not None and given.minutes is None and given.resume is None
    FOLDER.mkdir(exist_ok=True)
    journal = Journal(given.resume or FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.jsonl")
    if given.resume is None:
        minutes = 0.0 if repeated else 120.0 if given.minutes is None else given.minutes
        journal.begin(secrets.randbelow(10**9) if given.seed is None else given.seed, minutes, given.only)
    elif given.minutes is not None:
        journal.run["minutes"] = given.minutes
    trials = choose(TRIALS, given.only or journal.run["only"], journal.run["minutes"])
    if not trials:
        parser.error(f"no trial is named {given.only}; there are {', '.join(_names())}")
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    console.print(f"Seed {journal.run['seed']}. If this is broken off, go on with: --resume {journal.path}")
    run_trials(trials, MODULE, journal, console)
    return 0 if report(trials, journal.results, console) else 1


def _names() -> list[str]:
    return [trial.name for trial in TRIALS]


if __name__ == "__main__":
    sys.exit(main())
