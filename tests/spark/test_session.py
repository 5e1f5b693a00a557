"""Settings, and the kinds of session and cluster that match runs on."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from fencepost.compiled import source_digest
from fencepost.spark import match, tune
from fencepost.spark.session import SETTINGS, STATE_SETTINGS
from tests.spark import programs

EXPECTED = {
    "narrow": [[1, [1]], [2, [2]], [3, []], [4, [2]]],
    "wide": [[1, [1]], [2, [2]], [3, []], [4, [2]]],
    "parts": [[1, [1]], [2, [2]], [3, []], [4, [2]]],
    "exploded": [[1, 1], [2, 2], [4, 2]],
    "sql": [[1, [1]], [2, [2]], [3, []], [4, [2]]],
}


@pytest.mark.oldest
def test_tune_sets_and_prints_and_operators_warn_once_without_it(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh = spark.newSession()
    frame = fresh.createDataFrame([], "price double")
    rules = fp.Rules()
    rules.add(1, "price > 4")
    with pytest.warns(UserWarning, match=r"maxBytesPerBatch and .*maxRecordsPerBatch are unset.*tune\(spark\)"):
        match(frame, rules)
    assert fresh.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", None) is None, "nothing is changed"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        match(frame, rules)
    rows = fresh.createDataFrame([(5.0,)], "price double")
    assert match(rows, rules).first()["rule_ids"] == [1], "a second session of the process gets the rules too"
    tune(fresh)
    wanted = {**SETTINGS, **STATE_SETTINGS}
    assert {key: fresh.conf.get(key) for key in wanted} == wanted
    assert capsys.readouterr().out.splitlines() == [f"{key} = {value} (was unset)" for key, value in wanted.items()]


@pytest.mark.oldest
def test_a_value_that_the_user_chose_is_respected(spark: Any) -> None:
    own = spark.newSession()
    for key in SETTINGS:
        own.conf.set(key, "5000")
    rules = fp.Rules()
    rules.add(1, "price > 4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        match(own.createDataFrame([], "price double"), rules)
    assert {own.conf.get(key).rstrip("b") for key in SETTINGS} == {"5000"}


def run(kind: str, given: str, **environment: str) -> dict[str, Any]:
    root = Path(programs.__file__).parents[2]
    driver = {"PYTHONPATH": os.pathsep.join([str(root), str(Path(fp.__file__).parents[1])])}
    done = subprocess.run(  # noqa: S603
        [sys.executable, programs.__file__, kind, given],
        env=os.environ | driver | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check_watched(found: dict[str, Any]) -> None:
    told, *others = found.pop("watched")
    assert all(other == told for other in others)
    assert [event[:3] for event in told] == [["AAPL", 2, "enter"], ["IBM", 2, "enter"], ["IBM", 3, "exit"]]
    assert found.pop("batch") == told
    assert found.pop("parts of batch") == told
    assert found.pop("inside") == [["AAPL", 1]]


@pytest.mark.slow
def test_spark_connect(bucket: str) -> None:
    found = run("connect", f"{bucket}/connect")
    check_watched(found)
    assert found.pop("stream") == [[n + 10 * v, [10 * v] if n != 3 else []] for v in (1, 2) for n in (1, 2, 3, 4)]
    assert found == EXPECTED


@pytest.mark.slow
def test_executors_that_get_the_package_as_a_zip(tmp_path: Path) -> None:
    source = Path(fp.__file__).parent
    package = tmp_path / "source" / "fencepost"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    archive = shutil.make_archive(str(tmp_path / "shipped"), "zip", package.parent)
    # Code from a zip is kept by the digest of the sources; what was compiled from the same ones need not be again.
    kept = tmp_path / "cache" / "numba" / f"fencepost-{source_digest()}" / "fencepost"
    for compiled in source.rglob("__pycache__/*.nb[ic]"):
        place = kept / compiled.parents[1].relative_to(source) / compiled.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(compiled, place)
    found = run("zip", archive, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert found.pop("in_zip")
    check_watched(found)
    assert found == EXPECTED


@pytest.mark.slow
def test_a_session_of_ours_starts_without_arrows_own_checks_and_keeps_the_users_options() -> None:
    program = (
        "from fencepost.pipeline.runtime.session import start_session\n"
        "given = {'spark.driver.extraJavaOptions': '-Dtheir.own=kept', 'spark.driver.memory': '512m'}\n"
        "spark = start_session('checks', 'local[1]', given)\n"
        "read = spark.sparkContext._jvm.java.lang.System.getProperty\n"
        "names = ('arrow.enable_unsafe_memory_access', 'arrow.enable_null_check_for_get', 'their.own')\n"
        "print([read(name) for name in names])\n"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)  # noqa: S603
    assert ran.stdout.splitlines()[-1:] == ["['true', 'false', 'kept']"], ran.stderr[-2000:]
