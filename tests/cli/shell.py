"""The `fencepost` command in a real shell."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import fencepost as fp


@dataclass
class Shell:
    """Runs commands in a directory of its own, with a rule book there."""

    home: Path

    def run(self, command: str, code: int = 0, **environment: str) -> "Done":
        """What a command line printed; `fencepost` in it is the code under test."""
        done = subprocess.run(  # noqa: S603
            ["/bin/bash", "-c", f'set -o pipefail; fencepost() {{ {sys.executable} -m fencepost "$@"; }}; {command}'],
            cwd=self.home,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(fp.__file__).parents[1]),
                "FENCEPOST_BOOK": "sqlite:///rules.db",
                "USER": "ann",
                "LOGNAME": "ann",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        return Done(done.stdout, done.stderr)

    def refused(self, command: str, **environment: str) -> str:
        """The message of a refusal; nothing but it is printed."""
        done = self.run(command, 1, **environment)
        assert done.out == ""
        assert done.err.startswith("fencepost: got ")
        return done.err


@dataclass
class Done:
    out: str
    err: str
