"""Every example runs and says what it should."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAYS = {
    "match_arrays": ["[[1], [2]]"],
    "spark_batch": ["|   IBM|  2| 41.5|     [1]|", "|   3|   IBM|  exit|      1|        41.5| 52.0|"],
    "stream_files": ["2: IBM enter rule 1 at 41.5", "4: IBM exit rule 1 at 61.0"],
    "declarative": [
        "{'symbol': 'IBM', 'price': 41.5, 'rule_id': 1}",
        "{'symbol': 'AAPL', 'price': 130.0, 'rule_id': 2}",
    ],
}


def says(name: str, *arguments: str) -> str:
    """What an example prints; it must end in order."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    # What an activated virtual environment gives.
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": paths}
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_says_what_it_should(name: str) -> None:
    if name == "declarative":
        for module in ("pyspark.pipelines", "yaml"):
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"no {module}: Spark Declarative Pipelines need pyspark[pipelines] 4.1 or newer")
    said = says(name)
    for line in SAYS[name]:
        assert line in said, said


def test_every_example_is_tested() -> None:
    assert {file.stem for file in (ROOT / "examples").glob("*.py")} == {*SAYS, "kafka_to_kafka"}
