"""The process that tries: takes [trial, seed] as a line of JSON, answers with [outcome, looked at, detail]."""

import importlib
import json
import os
import signal
import sys
import traceback

from tests.campaign.trial import DifferenceError, Trial

_LONGEST = 4_000
"""Characters of a detail: a refusal may quote a giant."""


def main(module: str) -> None:
    """Answer until the line is closed."""
    trials: dict[str, Trial] = {trial.name: trial for trial in importlib.import_module(module).TRIALS}
    # The product, and what it starts, may print; answers have a channel of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        name, seed = json.loads(line)
        print(json.dumps(_try(trials[name], seed)), file=answers, flush=True)


def _try(trial: Trial, seed: int) -> tuple[str, int, str]:
    try:
        return "ok", trial.attempt(seed), ""
    except DifferenceError as difference:
        return "difference", 0, str(difference)[:_LONGEST]
    except Exception:
        return "raw error", 0, traceback.format_exc()[-_LONGEST:]


if __name__ == "__main__":
    main(sys.argv[1])
