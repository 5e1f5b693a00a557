"""The same condition selects the same rows in fencepost and in Spark SQL, in any time zone of the session."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from fencepost.spark import match
from fencepost.spark.session import SETTINGS

pytestmark = pytest.mark.oldest

ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
# Around changes of the clocks in New York (2:00) and on Lord Howe (by half an hour, at 2:00), in UTC.
CHANGES = [datetime(2013, 3, 10, 7), datetime(2013, 11, 3, 6), datetime(2013, 10, 5, 15, 30), datetime(2013, 4, 6, 15)]
CONSTANTS = [
    "TIMESTAMP '2013-03-10 02:30:00'",
    "TIMESTAMP '2013-03-10 03:00:00'",
    "TIMESTAMP '2013-11-03 01:30:00'",
    "TIMESTAMP '2013-11-03 01:30:00-05:00'",
    "TIMESTAMP '2013-10-06 02:15:00'",
    "TIMESTAMP '2013-04-07 01:45:00'",
    "TIMESTAMP '2013-07-04 00:00:00'",
    "TIMESTAMP '2013-03-09 02:30:00' + INTERVAL '1' DAY",
    "TIMESTAMP '2013-03-10 01:30:00' + INTERVAL '90' MINUTE",
    "TIMESTAMP '2013-11-02 12:00:00' + INTERVAL '1' DAY",
    "TIMESTAMP '2013-09-06 02:15:00' + INTERVAL '1' MONTH",
    "DATE '2013-03-10'",
    "DATE '2013-11-03'",
    "DATE '2013-10-06'",
]


def conditions(rng: random.Random) -> list[str]:
    made = []
    for constant in CONSTANTS:
        made.append(f"at {rng.choice(['<', '<=', '>', '>='])} {constant}")
        other = rng.choice(CONSTANTS)
        made.append(f"NOT (at >= {constant}) OR at > {other}")
    made += ["at NOT IN (TIMESTAMP '2013-03-10 02:30:00', TIMESTAMP '2013-03-10 03:30:00')"]
    made += [f"day >= {constant}" for constant in CONSTANTS if "02:" not in constant]
    return made


def test_spark_selects_the_same_rows(spark: Any, tmp_path: Path) -> None:
    texts = conditions(random.Random(7))  # noqa: S311
    steps = [timedelta(minutes=15 * step) for step in range(-120, 120)]
    instants = sorted({change + step for change in CHANGES for step in steps} | {datetime(2013, 7, 4, 4)})
    counts: dict[str, list[int]] = {}
    for zone in ZONES:
        session = spark.newSession()
        for key, value in {**SETTINGS, "spark.sql.session.timeZone": zone}.items():
            session.conf.set(key, value)
        frame = session.createDataFrame(
            [(number, at.replace(tzinfo=UTC)) for number, at in enumerate(instants)], "id int, at timestamp"
        ).selectExpr("id", "at", "date_add(DATE '2013-03-01', id % 250) AS day")
        rules = fp.Rules()
        for id, text in enumerate(texts):
            rules.add(id, text)
        found: dict[int, set[int]] = {id: set() for id in range(len(texts))}
        for row in match(frame, rules, explode=True).select("id", "rule_id").collect():
            found[row["rule_id"]].add(row["id"])
        asked = [f"collect_set(CASE WHEN {text} THEN id END) AS c{id}" for id, text in enumerate(texts)]
        expected = frame.selectExpr(*asked).first()
        for id, text in enumerate(texts):
            assert found[id] == set(expected[f"c{id}"]), (zone, text)
        counts[zone] = [len(found[id]) for id in range(len(texts))]
    assert len({tuple(each) for each in counts.values()}) == len(ZONES), "zones matter"

    # A directory has the zone that it was published with; another session is warned, with both.
    rules = fp.Rules("America/New_York")
    rules.add(1, "at >= DATE '2013-07-04'")
    rules.publish(tmp_path, {"at": "timestamp"})
    with pytest.warns(
        UserWarning, match=r"read in America/New_York by .*, and in UTC by the session; rules compare at"
    ):
        assert match(spark.createDataFrame([(datetime(2013, 7, 4, 4, tzinfo=UTC),)], "at timestamp"), tmp_path).count()
