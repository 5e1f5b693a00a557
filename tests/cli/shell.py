"""The `fencepost` command in a real shell."""

import io
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

import fencepost as fp
from fencepost.cli.app import main


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
        return message_of(self.run(command, 1, **environment))

    def call(self, command: str, code: int = 0, **environment: str) -> "Done":
        """The same without a shell and a process, for what is about words alone: the entry point itself is called."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.home)
            for name, value in {"FENCEPOST_BOOK": "sqlite:///rules.db", "LOGNAME": "ann", **environment}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", shlex.split(command))
            with pytest.raises(SystemExit) as ended:
                main()
        told = ended.value.code
        assert (1 if isinstance(told, str) else told) == code, (command, told, out.getvalue(), err.getvalue())
        return Done(out.getvalue(), err.getvalue() + (f"{told}\n" if isinstance(told, str) else ""))

    def call_refused(self, command: str, **environment: str) -> str:
        """The message of a refusal without a shell."""
        return message_of(self.call(command, 1, **environment))


@dataclass
class Done:
    out: str
    err: str


def message_of(done: Done) -> str:
    assert done.out == ""
    assert done.err.startswith("fencepost: ")
    assert "; expected " in done.err or " must " in done.err
    return done.err
