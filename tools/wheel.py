"""Builds a wheel with machine code in it: for this Python and Numba, and all baselines that this machine can run.

    python -m tools.wheel                     # dist/fencepost-*.whl
    python -m tools.wheel --into FILE.whl     # the same code for another Python, into a wheel that is there

Where none of the code fits, what needs it is compiled as without it; so the wheel is one for all systems.
"""

import argparse
import base64
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from fencepost.compiled import CODE, fitting_baselines_here
from fencepost.warming import warm

ROOT = Path(__file__).parents[1]


def build_wheel(out: Path, source: Path = ROOT) -> Path:
    """The wheel of a clone, without machine code."""
    for left in (source / "build").glob("*"):
        if left.name == "lib" or left.name.startswith("bdist."):
            shutil.rmtree(left)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "--wheel-dir", folder, str(source)], check=True)  # noqa: S603
        [made] = Path(folder).glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, out / made.name))


def add_code(wheel: Path, processors: Sequence[str] | None = None, jobs: Sequence[str] | None = None) -> None:
    """Put machine code into a wheel, beside what it has."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "fencepost"
        for processor in fitting_baselines_here() if processors is None else processors:
            done = warm(jobs, processor, package)
            print(f"{processor}: {done.compiled} kernels in {done.seconds:.0f} s")
        _add_files(wheel, Path(folder), sorted(each for each in (package / CODE).rglob("*") if each.is_file()))


def _add_files(wheel: Path, home: Path, files: Sequence[Path]) -> None:
    """Write the archive anew, with these files and their lines in its record."""
    own = {file.relative_to(home).as_posix(): file.read_bytes() for file in files}
    made = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            content = before.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                kept = [line for line in content.decode().splitlines() if line.split(",")[0] not in own]
                content = "\n".join([*(_record(name, data) for name, data in own.items()), *kept, ""]).encode()
            if entry.filename not in own:
                after.writestr(entry, content, zipfile.ZIP_DEFLATED)
        for name, data in own.items():
            after.writestr(name, data)
    made.replace(wheel)


def _record(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def main() -> None:
    """Build, or add to a wheel."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheel", description=__doc__)
    parser.add_argument("--into", type=Path, help="a wheel that is there")
    given = parser.parse_args().into
    wheel = build_wheel(ROOT / "dist") if given is None else given
    add_code(wheel)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
