"""The wheel in an empty environment: what is in it, its machine code, the core alone, then README with Spark."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from tools.wheel import add_code, build_wheel

import fencepost as fp
from fencepost.compiled import code_folder, fitting_baselines_here
from tests.docs.blocks import ROOT, blocks_of

pytestmark = pytest.mark.slow
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")
FIRST_MATCH = """
import json, sys
import fencepost as fp
from fencepost.compiled import counts
rules = fp.Rules()
rules.add(1, "price BETWEEN 40 AND 50 AND symbol = 'IBM'")
rules.add(2, "price > 45.5 OR volume < 3")
ticks = {"symbol": ["IBM", "AAPL", "IBM"], "price": [41.0, 46.0, 50.5], "volume": [9, 9, 2]}
found = [sorted(ids) for ids in rules.compile().match(ticks).sets()]
print(json.dumps([found, counts]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because building leaves things behind."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, copy)
    made = build_wheel(out, copy)
    add_code(made, jobs=["first"])  # all jobs would take minutes
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of an environment that has the wheel and what it depends on."""
    home = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)  # noqa: S603
    python = home / "bin" / "python"
    pip(python, "install", str(wheel))
    # What was compiled from the same sources need not be again.
    source, [package] = Path(fp.__file__).parent, home.glob("lib/python*/site-packages/fencepost")
    for compiled in source.rglob("__pycache__/*.nb[ic]"):
        place = package / compiled.relative_to(source)
        if place.parent.parent.exists():
            place.parent.mkdir(exist_ok=True)
            shutil.copy(compiled, place)
    yield python
    shutil.rmtree(home)


def pip(python: Path | str, *arguments: str) -> None:
    run([python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"])


def run(command: list[Any], code: int = 0, **options: Any) -> str:
    """What a command prints, in an environment that knows nothing of this clone's sources."""
    own = ("PYTHONPATH", "VIRTUAL_ENV", "FENCEPOST_BOOK")
    kept = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run(  # noqa: S603
        [str(word) for word in command], env=kept, capture_output=True, text=True, check=False, timeout=500, **options
    )
    assert done.returncode == code, (done.stdout + done.stderr)[-3000:]
    return str(done.stdout + done.stderr)


def test_what_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith("METADATA")]
        told = Parser().parsestr(archive.read(metadata).decode())
    own = {file.relative_to(ROOT / "src").as_posix() for file in (ROOT / "src" / "fencepost").rglob("*.py")}
    lab = {name for name in own if name.startswith("fencepost/lab/")}
    code = {name.split("/")[3] for name in names if name.startswith("fencepost/_code/")}
    assert code == set(fitting_baselines_here())
    assert lab
    assert {name for name in names if name.endswith(".py")} == own - lab
    assert {"fencepost/py.typed", "fencepost/sizing/constants.json"} <= set(names)
    console = ROOT / "src" / "fencepost" / "console"
    pages = [file for part in ("static", "templates") for file in (console / part).rglob("*") if file.is_file()]
    assert {f"fencepost/{file.relative_to(console.parent)}" for file in pages} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert told["Name"] == "fencepost"
    assert told["Summary"]
    assert "Typing :: Typed" in told.get_all("Classifier", [])
    assert {"connect", "java", "postgres", "remote", "spark"} <= set(told.get_all("Provides-Extra", []))


@pytest.mark.parametrize("processor", fitting_baselines_here())
def test_its_code_answers_first_and_as_other_code_does(installed: Path, tmp_path: Path, processor: str) -> None:
    """Every form that this machine has; better ones are put aside."""
    [package] = installed.parents[1].glob("lib/python*/site-packages/fencepost")
    here = fitting_baselines_here()
    folders = [Path(str(code_folder(name, package))) for name in here]
    aside = folders[: here.index(processor)]
    found = {}
    try:
        for folder in aside:
            folder.rename(folder.with_suffix(".aside"))
        for kind, own in (("brought", {}), ("compiled", {"NUMBA_CPU_NAME": "generic"})):
            environment = {**os.environ, **own, "NUMBA_CACHE_DIR": str(tmp_path / kind), "PYTHONPATH": ""}
            command = [str(installed), "-c", FIRST_MATCH]
            done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603
            sets, counts = json.loads(done.stdout)
            found[kind] = sets
            assert [name for name, number in counts.items() if number] == [kind], counts
    finally:
        for folder in aside:
            folder.with_suffix(".aside").rename(folder)
    assert found["brought"] == found["compiled"] == [[1], [2], [2]]
    assert not [*(tmp_path / "brought").rglob("*.nbc")]


def test_the_core_alone(installed: Path, tmp_path: Path) -> None:
    blocks = [block.text for block in blocks_of("README.md") if block.text.startswith(">>>")]
    assert len(blocks) > 3
    (tmp_path / "readme.txt").write_text("\n".join(blocks))
    run([installed, "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", "readme.txt"], cwd=tmp_path)
    where = run([installed, "-c", "import fencepost; print(fencepost.__file__)"], cwd=tmp_path)
    assert where.startswith(str(installed.parents[1]))
    command = installed.parent / "fencepost"
    run([command, "rules", "add", "1", "price BETWEEN 40 AND 50"], cwd=tmp_path)
    (tmp_path / "ticks.csv").write_text("price\n41.5\n60.0\n")
    assert run([command, "match", "ticks.csv"], cwd=tmp_path).count("[1]") == 1
    assert fp_version(wheel_of=installed) in run([command, "version"], cwd=tmp_path)
    assert "cores" in run(
        [command, "size", "--rules", "1M", "--rows-per-second", "1e5", "--objects", "1e6"], cwd=tmp_path
    )
    for lab, remedy in (("demo", "make demo"), ("reproduce", "make figures")):
        told = run([command, lab, "--once", "cei-15"], code=1, cwd=tmp_path)
        assert told.startswith(f"fencepost: fencepost {lab} of an installed package; expected a clone"), told
        assert remedy in told
    assert "demo" not in run([command, "--help"], cwd=tmp_path)


def fp_version(wheel_of: Path) -> str:
    program = "from importlib.metadata import version; print(version('fencepost'))"
    return run([wheel_of, "-c", program]).strip()


def test_readme_with_spark(installed: Path, wheel: Path) -> None:
    """Its Python, its commands and its stream: the page's own test, in the environment of the wheel."""
    pip(
        installed,
        "install",
        f"{wheel}[spark]",
        "hypothesis",
        "markdown-it-py",
        "pytest",
        "pytest-timeout",
    )
    told = run(
        [
            installed,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "tests/docs/test_docs.py",
            "-k",
            "in_their_order and README",
        ],
        cwd=ROOT,
    )
    assert "1 passed" in told
