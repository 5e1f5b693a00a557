"""The lines that a running pipeline writes for people."""

from io import StringIO
from types import SimpleNamespace
from typing import Any

from fencepost.deliveries.sender import Delivered
from fencepost.pipeline.runtime.changes import Applied
from fencepost.pipeline.runtime.progress import Progress, log


def report(batch: int, rows: int, **figures: int) -> dict[str, Any]:
    sources = [{"description": "FileStreamSource[in]", "numInputRows": rows}]
    sources.append({"description": "FileStreamSource[x/markers]", "numInputRows": 7})
    observed = {"fencepost": figures, "faults source": {"faults": 1}}
    return {"batchId": batch, "numInputRows": rows, "sources": sources, "observedMetrics": observed}


def test_reports_are_added_up_once_and_read_as_english() -> None:
    out = StringIO()
    progress = Progress(out)
    query = SimpleNamespace(recentProgress=[report(0, 1, enter=1, version=3)])
    assert len(progress.read(query)) == 1
    assert progress.read(query) == []
    assert str(progress.summary(0.5)) == "1 row (2/s), 1 event, rule version 3, 1 dead letter"
    query.recentProgress.append(report(1, 2000, exit=1, inside=1, late=4))
    progress.read(query)
    progress.show_delivered(Delivered(5, 1, 2), 6)
    progress.count_applied(Applied(2, 0, 1))
    summary = progress.summary(2.0)
    assert (summary.batches, summary.rows, summary.events, summary.rule_version) == (2, 2001, 3, 3)
    assert str(summary).startswith("2,001 rows (1,000/s), 3 events, rule version 3, 2 dead letters, ")
    for part in ("4 late", "5 posted", "2 undelivered", "6 waiting", "2 rule changes", "1 bad change"):
        assert f", {part}" in str(summary)
    progress.show(2.0)
    progress.show(3.0)
    assert out.getvalue() == f"{summary}\n", "nothing is new"


def test_a_message_cannot_steer_the_terminal() -> None:
    out = StringIO()
    log(out, "publishing failed: got rule 1: `\x1b[31m\x9b`\n  ^^^")
    assert out.getvalue() == "\npublishing failed: got rule 1: `\\x1b[31m\\x9b`\n  ^^^\n"
