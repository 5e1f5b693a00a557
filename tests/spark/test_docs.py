"""The Python of docs/spark.md and of README's part on Spark runs as it stands, on paths of the test."""

import re
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from fencepost import spark as operators

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(file: str) -> list[str]:
    found = BLOCK.findall((ROOT / file).read_text())
    return [block for block in found if not block.startswith(">>>")]


@pytest.mark.parametrize("file", ["README.md", "docs/spark.md"])
def test_the_code_runs(spark: Any, tmp_path: Path, file: str) -> None:
    rules = fp.Rules()
    rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    rules.publish(tmp_path / "rules")
    ticks = spark.sql("SELECT 'IBM' AS symbol, 41.5D AS price, timestamp '2024-01-01' AS ts")
    ticks.write.parquet(str(tmp_path / "ticks"))
    stream = spark.readStream.schema(ticks.schema).parquet(str(tmp_path / "ticks"))
    told = operators.watch(stream, tmp_path / "rules", object="symbol", time="ts")
    writer = told.writeStream.option("checkpointLocation", str(tmp_path / "ticks-checkpoint")).format("noop")
    writer.trigger(availableNow=True).start().awaitTermination()
    rules.add(2, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(tmp_path / "rules")
    bids = spark.sql(
        "SELECT 'X' AS venue, 'IBM' AS symbol, 41.5D AS price, timestamp '2024-01-01' AS ts, false AS gone"
    )
    found: dict[str, Any] = {"spark": spark, "rules": rules, "ticks": ticks, "bids": bids, "asks": bids, "fp": fp}
    found |= {name: getattr(operators, name) for name in operators.__all__}
    for block in blocks(file):
        text = block.replace("/shared/", f"{tmp_path}/").replace("/checkpoints/ticks", f"{tmp_path}/ticks-checkpoint")
        exec(compile(text, file, "exec"), found)  # noqa: S102
    assert blocks(file)
