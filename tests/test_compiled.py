"""The cache of compiled code never serves what was compiled from other sources."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from fencepost import compiled
from fencepost.compiled import is_trusted, kernel, source_digest

PROGRAM = """
from fencepost.indexes.helper_user import answer, {0}
print(answer(), sum({0}.stats.cache_hits.values()))
"""
BROUGHT = """
from fencepost.indexes.helper_user import answer
from fencepost.compiled import counts
print(answer(), *(f"{kind} {number}" for kind, number in counts.items() if number))
"""


def start_in(package_parent: Path, kernel: str = "answer") -> "subprocess.Popen[str]":
    """A program that calls a kernel; without bytecode, which Python takes for new within a second of an edit."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-B", "-c", PROGRAM.format(kernel)],
        cwd=package_parent,
        env={"PYTHONPATH": str(package_parent), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )


def said(program: "subprocess.Popen[str]") -> list[str]:
    words = program.communicate()[0].split()
    assert program.returncode == 0
    return words


def run_in(package_parent: Path, kernel: str = "answer") -> list[str]:
    return said(start_in(package_parent, kernel))


def package_in(package_parent: Path) -> Path:
    """A package with nothing but what compiles kernels; the directory for them."""
    indexes = package_parent / "fencepost" / "indexes"
    indexes.mkdir(parents=True)
    for package in (indexes.parent, indexes):
        (package / "__init__.py").write_text("")
    for module in ("compiled.py", "_baselines.py"):
        shutil.copy(Path(compiled.__file__).parent / module, indexes.parent)
    return indexes


@pytest.mark.slow
def test_processes_that_start_at_once_compile_once(tmp_path: Path) -> None:
    (package_in(tmp_path) / "helper_user.py").write_text(
        "from fencepost.compiled import kernel\n@kernel\ndef answer():\n    return 1\n"
    )
    programs = [start_in(tmp_path) for _ in range(3)]
    assert sorted(map(said, programs)) == [["1", "0"], ["1", "1"], ["1", "1"]]


@pytest.mark.slow
def test_an_edit_in_another_module_invalidates_the_cache(tmp_path: Path) -> None:
    indexes = package_in(tmp_path)
    helper = indexes / "helper.py"
    helper.write_text("from fencepost.compiled import kernel\n@kernel\ndef constant():\n    return 1\n")
    (indexes / "helper_user.py").write_text(
        "from fencepost.compiled import kernel\nfrom fencepost.indexes.helper import constant\n"
        "@kernel\ndef answer():\n    return constant()\n"
    )
    assert run_in(tmp_path) == ["1", "0"]
    assert run_in(tmp_path) == ["1", "1"]
    helper.write_text(helper.read_text().replace("return 1", "return 2"))
    assert run_in(tmp_path) == ["2", "0"]
    assert run_in(tmp_path) == ["2", "1"]


@pytest.mark.slow
def test_a_class_that_moved_does_not_trip_over_the_old_cache(tmp_path: Path) -> None:
    indexes = package_in(tmp_path)
    (indexes / "helper.py").write_text("from typing import NamedTuple\nclass Pair(NamedTuple):\n    x: int\n")
    user = "from fencepost.compiled import kernel\nfrom fencepost.indexes.{} import Pair\n"
    user += "@kernel\ndef first(pair):\n    return pair.x\ndef answer():\n    return first(Pair(1))\n"
    (indexes / "helper_user.py").write_text(user.format("helper"))
    assert run_in(tmp_path, "first") == ["1", "0"]
    (indexes / "other.py").write_text((indexes / "helper.py").read_text())
    (indexes / "helper.py").write_text("")
    (indexes / "helper_user.py").write_text(user.format("other"))
    assert run_in(tmp_path, "first") == ["1", "0"]
    assert run_in(tmp_path, "first") == ["1", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["directory", "file"])
def test_a_cache_that_others_may_write_to_is_left_alone(tmp_path: Path, planted: str) -> None:
    (package_in(tmp_path) / "helper_user.py").write_text(
        "from fencepost.compiled import kernel\n@kernel\ndef answer():\n    return 1\n"
    )
    assert run_in(tmp_path) == ["1", "0"]
    cache = tmp_path / "fencepost" / "indexes" / "__pycache__"
    (data,) = cache.glob("*.nbc")
    data.write_bytes(b"planted: whoever loads it fails")
    (cache if planted == "directory" else data).chmod(0o777)
    before = {file.name: file.read_bytes() for file in cache.glob("*.nb?")}
    assert run_in(tmp_path) == ["1", "0"]
    assert {file.name: file.read_bytes() for file in cache.glob("*.nb?")} == before, "nothing is saved there"
    (cache if planted == "directory" else data).chmod(0o755)
    data.unlink()
    assert [run_in(tmp_path), run_in(tmp_path)] == [["1", "0"], ["1", "1"]]


@pytest.mark.slow
@pytest.mark.parametrize("processor", compiled.fitting_baselines_here()[:1])
def test_code_that_a_package_brings_is_used_until_the_sources_change(tmp_path: Path, processor: str) -> None:
    """Nor is it used where others may write to it, where another processor is asked for, and behind one's own."""
    indexes = package_in(tmp_path)
    user = indexes / "helper_user.py"
    user.write_text("from fencepost.compiled import kernel\n@kernel\ndef answer():\n    return 1\n")

    def runs(kept: str, **environment: str) -> str:
        cache = {"NUMBA_CACHE_DIR": str(tmp_path / kept)}
        command, own = [sys.executable, "-W", "ignore", "-c", BROUGHT], os.environ | cache | environment
        own |= {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603

    target = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    assert runs("made", **target) == "1 compiled 1"
    folder = Path(str(compiled.code_folder(processor, indexes.parent))) / "indexes"
    shutil.copytree(next((tmp_path / "made").glob("indexes_*")), folder)
    assert runs("one") == "1 brought 1"
    assert not [*(tmp_path / "one").rglob("*.nbc")]
    assert runs("two", **target) == "1 compiled 1"
    assert runs("two") == "1 brought 1"
    folder.chmod(0o777)
    assert [runs("three"), runs("three")] == ["1 compiled 1", "1 kept 1"]
    folder.chmod(0o755)
    assert [runs("three"), runs("one")] == ["1 kept 1", "1 brought 1"]
    user.write_text(user.read_text().replace("return 1", "return 2"))
    assert runs("one") == "2 compiled 1"


def test_a_cache_is_judged_by_owner_and_mode_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_judged", {})
    monkeypatch.setattr(compiled, "_is_private", lambda group: group == 4711)
    assert is_trusted(str(tmp_path / "missing"))
    for mode, group, trusted in ((0o755, 1, True), (0o775, 4711, True), (0o775, 4712, False), (0o757, 1, False)):
        found = os.stat_result((0o40000 | mode, 0, 0, 1, os.geteuid(), group, 0, 0, 0, 0))
        assert compiled._is_ours(found) == trusted
    stranger = max(os.geteuid(), compiled._owner()) + 1
    assert not compiled._is_ours(os.stat_result((0o40755, 0, 0, 1, stranger, 1, 0, 0, 0, 0)))
    (tmp_path / "f.nbi").touch()
    (tmp_path / "f.nbi").chmod(0o666)
    with pytest.warns(UserWarning, match=r"f\.nbi.* NUMBA_CACHE_DIR to a directory of your own"):
        assert not is_trusted(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_trusted(str(tmp_path))


def test_the_digest_covers_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "indexes").mkdir()
    (tmp_path / "compiled.py").write_text("x")
    before = source_digest(tmp_path)
    (tmp_path / "indexes" / "new.py").write_text("")
    assert source_digest(tmp_path) != before


def test_a_kernel_outside_the_stamped_sources_is_refused() -> None:
    with pytest.raises(ImportError, match="lives outside fencepost"):

        @kernel
        def stray() -> int:
            return 1
