"""Watch a directory of files as they appear, with rules that change meanwhile; all of it described by one TOML file."""

import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import fencepost as fp
from fencepost.pipeline import run

PIPELINE = """
[source]
format = "json"
path = "ticks/"
schema = { symbol = "string", at = "bigint", price = "double" }
dead_letters = "dead/"
[rules]
directory = "published/"
[operator]
kind = "watch"
object = "symbol"
time = "at"
[sink]
format = "parquet"
path = "alerts/"
checkpoint = "checkpoint/"
[trigger]
once = true
"""


def put(home: Path, name: str, *ticks: dict[str, object]) -> None:
    """A file of ticks, which appears whole."""
    draft = home / "ticks" / f".{name}"
    draft.write_text("".join(f"{json.dumps(tick)}\n" for tick in ticks))
    draft.rename(home / "ticks" / name)


with tempfile.TemporaryDirectory() as directory:
    home = Path(directory)
    (home / "ticks").mkdir()
    (home / "pipeline.toml").write_text(PIPELINE)
    rules = fp.Rules()
    rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    rules.publish(home / "published")
    put(home, "1.json", {"symbol": "IBM", "at": 1, "price": 39.0}, {"symbol": "IBM", "at": 2, "price": 41.5})
    print(run(home / "pipeline.toml"))

    rules.replace(1, "symbol = 'IBM' AND price BETWEEN 40 AND 60", detect="enter,exit")
    rules.publish(home / "published")
    put(home, "2.json", {"symbol": "IBM", "at": 3, "price": 55.0}, {"symbol": "IBM", "at": 4, "price": 61.0})
    print(run(home / "pipeline.toml"))

    for event in sorted(pq.read_table(home / "alerts").to_pylist(), key=lambda event: event["time"]):
        print(f"{event['time']}: {event['object']} {event['detect']} rule {event['rule_id']} at {event['price']}")
