"""Runs a pipeline between two tables of a lake, in a process whose JVM has the packages that its file names.

``python -m tests.pipeline.lakes delta|iceberg DIRECTORY`` prints what the pipeline did and what the tables have then.
"""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

from fencepost.book import RuleBook
from fencepost.pipeline import check, run
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.runtime.session import make_session
from tests.pipeline.test_run import WATCH, line, rules, ticks

PACKAGES = {
    "delta": "io.delta:delta-spark_2.13:4.0.1",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1",
}
"""For Spark 4.0."""
TICKS = {
    "delta": ('path = "lake/ticks"', "delta.`{home}/lake/ticks`"),
    "iceberg": ('table = "lake.ticks"', "lake.ticks"),
}
ALERTS = {
    "delta": ('path = "lake/alerts"', "delta.`{home}/lake/alerts`"),
    "iceberg": ('table = "lake.alerts"', "lake.alerts"),
}
SETTINGS = """settings = { "spark.sql.catalog.lake" = "org.apache.iceberg.spark.SparkCatalog", \
"spark.sql.catalog.lake.type" = "hadoop", "spark.sql.catalog.lake.warehouse" = "HOME/lake" }"""
CHANGES = """book = "sqlite:///rules.db"
[rules.changes]
format = "delta"
path = "lake/rules"
id = "alert"
equal = "symbol"
range = "price=low,high"
bounds = "[]"
detect = "enter,exit,cross"
dead_letters = "bad"
"""


def write_pipeline(name: str, home: Path, rules_section: str, number: int = 1) -> Path:
    file = home / f"pipeline{number}.toml"
    file.write_text(f"""
[source]
format = "{name}"
{TICKS[name][0]}
[rules]
{rules_section}
[operator]
{WATCH}
[sink]
format = "{name}"
{ALERTS[name][0].replace("alerts", f"alerts{number}")}
checkpoint = "checkpoint{number}"
[trigger]
once = true
[session]
master = "local[2]"
packages = ["{PACKAGES[name]}"]
{SETTINGS.replace("HOME", str(home)) if name == "iceberg" else ""}
""")
    return file


def main(name: str, home: Path) -> None:
    """All rows but the last two, then these, then nothing new; with Delta also rules that a table of it changes."""
    rules().publish(home / "published")
    file = write_pipeline(name, home, 'directory = "published"')
    spark = make_session(read_pipeline(file)[0], home / "spark.log")
    place = TICKS[name][1].format(home=home)
    alerts = ALERTS[name][1].format(home=home).replace("alerts", "alerts{}")
    spark.sql(f"CREATE TABLE {place} (symbol string, price double, ts timestamp) USING {name}")

    def insert(lines: list[str]) -> None:
        read = spark.read.schema("symbol string, price double, ts timestamp")
        read.json(spark.sparkContext.parallelize(lines)).coalesce(1).writeTo(place).append()

    lines = [line(row) for row in ticks()]
    faults, summaries = [str(fault) for fault in check(file)], []
    for some in (lines[:-2], lines[-2:], []):
        if some:
            insert(some)
        summaries.append(run(file, spark, out=StringIO()).rows)
    told = {"faults": faults, "rows": summaries, "events": _ids(spark, alerts.format(1)), "book": []}
    if name == "delta":
        told |= _follow_rules(spark, home)
    print(json.dumps(told))
    spark.stop()


def _follow_rules(spark: Any, home: Path) -> dict[str, object]:
    table = f"delta.`{home}/lake/rules`"
    sql = spark.sql
    sql(
        f"CREATE TABLE {table} (alert bigint, symbol string, low double, high double) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    sql(f"INSERT INTO {table} VALUES (1, 'IBM', 0, 1), (2, 'IBM', 5, 6), (3, 'IBM', 9, 3)")  # noqa: S608
    file = write_pipeline("delta", home, CHANGES, 2)
    with RuleBook(f"sqlite:///{home}/rules.db") as book:
        first = run(file, spark, out=StringIO())
        sql(f"UPDATE {table} SET low = 40, high = 50 WHERE alert = 1")  # noqa: S608
        sql(f"DELETE FROM {table} WHERE alert = 2")  # noqa: S608
        second = run(file, spark, out=StringIO())
        rules = [[rule.id, str(rule.condition)] for rule in book]
    letters = [json.loads(each) for path in (home / "bad").iterdir() for each in path.read_text().splitlines()]
    return {
        "book": rules,
        "changes": [[each.rule_changes, each.bad_changes] for each in (first, second)],
        "bad": [letter["fault"] for letter in letters],
    }


def _ids(spark: Any, table: str) -> list[str]:
    return sorted(row["event_id"] for row in spark.table(table).collect())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
