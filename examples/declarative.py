"""A Spark Declarative Pipeline: runs ``transformations/alerts.py`` with spark-pipelines, shows the table it makes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import fencepost

SPEC = """
name: fencepost_example
storage: file://{home}/storage
libraries:
  - glob:
      include: transformations/**
"""

with tempfile.TemporaryDirectory() as directory:
    home = Path(directory)
    (home / "transformations").symlink_to(Path(__file__).parent / "transformations")
    (home / "spark-pipeline.yml").write_text(SPEC.format(home=home))
    package = str(Path(fencepost.__file__).parents[1])
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": paths}
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run"]
    subprocess.run(command, cwd=home, env=os.environ | environment, check=True)  # noqa: S603
    for row in pq.read_table(home / "spark-warehouse" / "alerts").sort_by("rule_id").to_pylist():
        print(row)
