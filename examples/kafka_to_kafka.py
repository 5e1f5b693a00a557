"""Watch one topic, write events to another: ``python examples/kafka_to_kafka.py [HOST:PORT]`` after ``make kafka``."""

import json
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import fencepost as fp
from fencepost.pipeline import run
from fencepost.pipeline.connector import fetch_connector

SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
PIPELINE = f"""
[source]
format = "kafka"
servers = "{SERVERS}"
topic = "ticks"
schema = {{ symbol = "string", at = "bigint", price = "double" }}
dead_letters = "dead/"
[rules]
directory = "published/"
[operator]
kind = "watch"
object = "symbol"
time = "at"
[sink]
format = "kafka"
servers = "{SERVERS}"
topic = "alerts"
checkpoint = "checkpoint/"
[trigger]
once = true
"""
TICKS = [("IBM", 1, 39.0), ("IBM", 2, 41.5), ("IBM", 3, 52.0)]

jars = ",".join(map(str, fetch_connector()))
settings = {"spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
broker = {"kafka.bootstrap.servers": SERVERS}
texts = [json.dumps({"symbol": symbol, "at": at, "price": price}) for symbol, at, price in TICKS]
messages = spark.createDataFrame([(text,) for text in [*texts, "poison"]], "value string")
messages.write.format("kafka").options(**broker, topic="ticks").save()

with tempfile.TemporaryDirectory() as directory:
    home = Path(directory)
    (home / "pipeline.toml").write_text(PIPELINE)
    rules = fp.Rules()
    rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    rules.publish(home / "published")
    print(run(home / "pipeline.toml", spark))

written = spark.read.format("kafka").options(**broker, subscribe="alerts").load()
events = {event["event_id"]: event for row in written.collect() if (event := json.loads(row["value"]))}
for event in sorted(events.values(), key=lambda event: event["time"]):  # each event_id once
    print(f"{event['time']}: {event['object']} {event['detect']} rule {event['rule_id']} at {event['price']}")
spark.stop()
