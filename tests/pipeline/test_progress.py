"""The lines that a running pipeline writes for people."""

import json
import re
from io import StringIO
from typing import Any

import pytest

from fencepost.deliveries.sender import Delivered
from fencepost.pipeline.runtime.changes import Applied
from fencepost.pipeline.runtime.log import Log
from fencepost.pipeline.runtime.metrics import PipelineMetrics
from fencepost.pipeline.runtime.progress import Progress

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def report(batch: int, rows: int, **figures: int) -> dict[str, Any]:
    sources = [{"description": "FileStreamSource[in]", "numInputRows": rows}]
    sources.append({"description": "FileStreamSource[x/markers]", "numInputRows": 7})
    observed = {"fencepost": figures, "faults source": {"faults": 1}}
    told = {"batchId": batch, "numInputRows": rows, "sources": sources, "observedMetrics": observed}
    return told | {"runId": "a", "timestamp": f"2001-09-09T01:46:{batch:02}.000Z"}


class Query:
    """What Spark tells of a query."""

    def __init__(self, reports: list[dict[str, Any]]) -> None:
        self.recentProgress = reports

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's name)
        return self.recentProgress[-1] if self.recentProgress else None


def test_reports_are_added_up_once_and_read_as_english() -> None:
    out = StringIO()
    progress = Progress(Log(out))
    query = Query([report(0, 1, enter=1, version=3)])
    assert len(progress.read(query)) == 1
    assert progress.read(query) == []
    assert str(progress.summary(0.5)) == "1 row (2/s), 1 event, rule version 3, 1 dead letter"
    query.recentProgress.append(report(1, 2000, exit=1, inside=1, late=4))
    progress.read(query)
    progress.show_delivered("pager", Delivered(5, 1, 2), 6)
    progress.count_applied(Applied(2, 0, 1))
    summary = progress.summary(2.0)
    assert (summary.batches, summary.rows, summary.events, summary.rule_version) == (2, 2001, 3, 3)
    assert str(summary).startswith("2,001 rows (1,000/s), 3 events, rule version 3, 2 dead letters, ")
    for part in ("4 late", "5 posted", "2 undelivered", "6 waiting", "2 rule changes", "1 bad change"):
        assert f", {part}" in str(summary)
    progress.show(2.0)
    progress.show(3.0)
    assert re.fullmatch(rf"{TIME} INFO {re.escape(str(summary))}\n", out.getvalue()), "nothing is new"
    progress.count_restart()
    progress.show_delivered("pager", Delivered(1, 0, 1), 0)
    again = progress.summary(3.0)
    assert (again.posted, again.undelivered, again.waiting, again.restarts) == (6, 3, 0, 1)
    assert ", 1 restart" in str(again)


def test_what_damping_holds_back_is_known_from_the_last_marker_on() -> None:
    progress = Progress(Log(StringIO()))
    query = Query([report(0, 1, damped=2)])
    progress.read(query)
    assert (progress.figures(1.0)["pending"], progress.figures(1.0)["counts"]["damped"]) == (None, 2)
    query.recentProgress += [report(1, 1, damped=1, pending=7, ending=0), report(2, 1)]
    progress.read(query)
    figures = progress.figures(1.0)
    assert (figures["pending"], figures["ending"], figures["counts"]["damped"]) == (7, 0, 3)
    told = {metric.name: metric.samples for metric in PipelineMetrics(progress).collect()}
    assert [told[f"fencepost_{name}"][0].value for name in ("damped", "pending", "ending")] == [3, 7, 0]


def test_a_message_cannot_steer_the_terminal() -> None:
    out = StringIO()
    Log(out).warning("publishing failed: got rule 1: `\x1b[31m\x9b`\n  ^^^")
    assert re.fullmatch(TIME + r" WARNING publishing failed: got rule 1: `\\x1b\[31m\\x9b`\n  \^\^\^\n", out.getvalue())


def test_lines_as_json_are_objects_with_time_and_level() -> None:
    out = StringIO()
    progress = Progress(Log(out, "json"))
    progress.read(Query([report(0, 3, enter=1, version=3)]))
    progress.show(1.0)
    Log(out, "json").error("postgresql://ann:s3cret@db/x?password=y does not\nanswer")
    shown, said = map(json.loads, out.getvalue().splitlines())
    assert (shown["level"], shown["progress"]["rows"], shown["progress"]["rule_version"]) == ("info", 3, 3)
    assert said["message"] == "postgresql://ann:***@db/x?password=*** does not\nanswer"
    assert (said["level"], said["time"][-6:]) == ("error", "+00:00")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_of_progress_that_messages_leave_whole() -> None:
    out = Terminal()
    log = Log(out)
    progress = Progress(log)
    query = Query([report(0, 3)])
    for batch in (1, 2):
        progress.read(query)
        progress.show(1.0)
        query.recentProgress.append(report(batch, 3))
    log.info("stopping")
    lines = out.getvalue().split("\n")
    assert lines[0].count("\r\x1b[K") == 2
    assert lines[1].endswith("INFO stopping")


def test_what_a_source_of_kafka_has_left_unread_and_how_long_triggers_took() -> None:
    progress = Progress(Log(StringIO()))
    kafka: dict[str, Any] = {"description": "KafkaV2[Subscribe[ticks]]", "numInputRows": 2}
    kafka |= {"endOffset": {"ticks": {"0": 4, "1": 7}}, "latestOffset": {"ticks": {"0": 9, "1": 7}}}
    told = report(0, 2) | {"durationMs": {"triggerExecution": 700}, "sources": [kafka]}
    told["observedMetrics"]["faults source"]["newest"] = 10**15
    progress.read(Query([told]))
    assert (progress.offsets_behind, progress.triggers.sum, progress.triggers.counts()[3]) == (5, 0.7, 1)
    assert progress.latencies.counts() == [0] * 16, "nobody asked for it"
    assert (progress.lag() or 0) > 10**7
    assert progress.figures(1.0)["newest"] == "2001-09-09T01:46:40+00:00"


def test_how_old_events_were_when_their_micro_batch_ended() -> None:
    progress = Progress(Log(StringIO()))
    told = report(0, 2, skipped=4) | {"durationMs": {"triggerExecution": 700}, "timestamp": "2001-09-09T01:46:40.000Z"}
    told["observedMetrics"]["times of events"] = {
        "times": json.dumps([{"x": 1e15, "y": 2.0}, {"x": 1e15 - 4e6, "y": 1.0}, {"x": 1e15 + 9e9, "y": 1.0}])
    }
    empty = told | {"batchId": 1, "observedMetrics": {"times of events": {"times": None}}}
    progress.read(Query([told, empty]))
    counted = dict(zip([*progress.latencies.bounds, None], progress.latencies.counts(), strict=True))
    assert {bound: count for bound, count in counted.items() if count} == {0.1: 1, 1.0: 2, 5.0: 1}, "none is negative"
    assert progress.latencies.sum == pytest.approx(2 * 0.7 + 4.7)
    assert progress.figures(1.0)["skipped_rules"] == 4
