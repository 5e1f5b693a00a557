"""Several sinks of one pipeline, its figures and its status, on a real Spark."""

import json
import re
import shutil
import threading
import time
import urllib.request
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from typer.testing import CliRunner

from fencepost.cli.app import app
from fencepost.deliveries.sender import Delivered
from fencepost.deliveries.spool import Spool, stream_batch
from fencepost.errors import FencepostError, UnreachableError
from fencepost.pipeline import PipelineFaultsError, run
from fencepost.pipeline.runtime import running
from fencepost.pipeline.runtime.log import Log
from fencepost.pipeline.runtime.metrics import PipelineMetrics
from fencepost.pipeline.runtime.operators import operate
from fencepost.pipeline.runtime.progress import Progress
from fencepost.pipeline.runtime.webhook import spool_function
from fencepost.spark.plan.abilities import abilities_of
from tests._files.test_whole import recorded
from tests.deliveries.receivers import receiver
from tests.pipeline.test_run import BAD, JSON, WATCH, expected, json_lines, line, rules, ticks

SINKS = """
[[sink]]
format = "parquet"
path = "all"
checkpoint = "checkpoint"
[[sink]]
format = "json"
path = "enters"
where = "detect = 'enter'"
[[sink]]
format = "csv"
path = "table"
[[sink]]
format = "webhook"
name = "pager"
url = "URL"
[[sink]]
format = "console"
"""


@pytest.fixture(name="home")
def a_directory_with_ticks(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    lines = [line(row) for row in ticks()]
    (tmp_path / "in" / "a.json").write_text("\n".join([*lines[:3], *BAD]) + "\n")
    rules().publish(tmp_path / "published")
    return tmp_path


def write_pipeline(home: Path, url: str, trigger: str = "once = true", more: str = "") -> Path:
    text = f"[source]\n{JSON}\n[rules]\ndirectory = 'published'\n[operator]\n{WATCH}\n{SINKS.replace('URL', url)}"
    (home / "pipeline.toml").write_text(f"{text}\n[trigger]\n{trigger}\n{more}")
    return home / "pipeline.toml"


def status(path: Path) -> Any:
    done = CliRunner().invoke(app, ["status", str(path), "--json"])
    assert done.exit_code == 0, done
    return json.loads(done.stdout)


def forget_commit(checkpoint: Path) -> None:
    """As after a kill before Spark noted the end of its last micro-batch."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def test_every_sink_has_every_answer_once_also_when_a_batch_is_repeated(spark: Any, home: Path) -> None:
    told = expected().to_pylist()
    enters = sorted(event["event_id"] for event in told if event["detect"] == "enter")
    ids = sorted(event["event_id"] for event in told)

    def found() -> tuple[list[str], list[str], int]:
        all_ = sorted(pq.read_table(home / "all")["event_id"].to_pylist())
        table = sum(len(file.read_text().splitlines()) - 1 for file in (home / "table").glob("*.csv"))
        return all_, sorted(event["event_id"] for event in json_lines(home / "enters")), table

    with receiver() as heard:
        file = write_pipeline(home, heard.url)
        first = run(file, spark, out=StringIO())
        (home / "in" / "b.json").write_text("\n".join(line(row) for row in ticks()[3:]) + "\n")
        second = run(file, spark, out=StringIO())
        assert found() == (ids, enters, len(ids))
        assert first.events + second.events == len(ids)
        assert sorted(body["event_id"] for body in heard.bodies) == ids
        # All sinks have noted the last micro-batch: it is computed again, and none of them gets it.
        files = sorted(path.name for path in (home / "all").iterdir())
        forget_commit(home / "checkpoint")
        run(file, spark, out=StringIO())
        assert sorted(path.name for path in (home / "all").iterdir()) == files
        # A kill came between two sinks: one has noted it, the files of the other were half renamed.
        forget_commit(home / "checkpoint")
        note = home / "checkpoint" / "fencepost" / "sinks" / "parquet" / "last.json"
        noted = json.loads(note.read_text())
        note.write_text(json.dumps({"batch": noted["batch"] - 1, "stem": noted["stem"]}))
        newest = max((home / "all").glob("part-*"), key=lambda path: path.name.split("-")[2])
        shutil.copy(newest, newest.with_name(re.sub(r"-\d{5}\.", "-00099.", newest.name)))
        run(file, spark, out=StringIO())
        assert found() == (ids, enters, len(ids))
        # The stream goes on with the state that the repeated micro-batch left.
        (home / "in" / "c.json").write_text(
            line({**ticks()[5], "price": 99.0, "ts": ticks()[5]["ts"].replace(minute=5)})
        )
        last = run(file, spark, out=StringIO())
        assert (last.rows, last.events, last.posted) == (1, 1, 1)
        assert json.loads(note.read_text())["stem"] == noted["stem"]
        assert len(heard.bodies) == len(ids) + 1
    shown = status(home / "checkpoint")
    assert (shown["state"], shown["counts"]["events"], shown["counts"]["exit"]) == ("stopped", 1, 1)
    assert shown["sinks"]["pager"]["undelivered"] == 0
    assert not list((home / "all").glob("_*")), "no draft is left"


def test_no_note_of_a_sink_outlives_the_files_it_is_about(
    spark: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as heard:
        file = write_pipeline(home, heard.url)
        record = recorded(monkeypatch)
        run(file, spark, out=StringIO())
    parts = sorted((home / "all").glob("part-*"))
    note = home / "checkpoint" / "fencepost" / "sinks" / "parquet" / "last.json"
    noted = max(number for number, (what, path) in enumerate(record) if (what, path) == ("replace", note))
    assert parts
    assert record.index(("sync", home)) < noted, "the folder's own name"
    drafts = [n for n, (what, path) in enumerate(record) if what == "sync" and path.parent.parent == home / "all"]
    renamed = [record.index(("replace", part)) for part in parts]
    folder = max(number for number, each in enumerate(record) if each == ("sync", home / "all"))
    assert len(drafts) == len(parts)
    assert max(drafts) < min(renamed) < max(renamed) < folder < noted


@pytest.mark.parametrize("arrow", [True, False])
def test_tasks_write_what_is_meant_for_a_webhook_and_pass_every_row_on(spark: Any, tmp_path: Path, arrow: bool) -> None:
    if arrow and not abilities_of(spark).arrow_functions:
        pytest.skip("this Spark has no functions of Arrow arrays")
    context, name, spool = spark.sparkContext, stream_batch(3), Spool(tmp_path)
    properties = {"streaming.sql.batchId": "3", "sql.streaming.queryId": "a query"}
    before = {key: context.getLocalProperty(key) for key in properties}
    spool.start_parts()
    write = spool_function(tmp_path, "run", arrow)
    rows = spark.range(0, 1000, 1, 3).selectExpr("id", "IF(id % 4 = 0, concat('{', id, '}'), NULL) AS body")
    keyed = write(F.col("body"), F.when(F.col("id") < 500, F.col("id").cast("string")), F.lit(None).cast("string"))
    try:
        for key, value in properties.items():
            context.setLocalProperty(key, value)
        assert sorted(row.id for row in rows.where(keyed).where("id > 9").select("id").collect()) == [*range(10, 1000)]
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)
    spool.commit(name, spool.take_parts(f"run-{name}", name))
    told = [delivery.event for delivery in spool.read(name)]
    assert sorted(int(event.body.strip("{}")) for event in told) == [*range(0, 1000, 4)]
    assert {event.key for event in told} >= {str(id) for id in range(0, 500, 4)}
    assert {len(event.key) for event in told if int(event.body.strip("{}")) >= 500} == {32}


def test_a_running_pipeline_serves_its_figures_and_its_status(spark: Any, home: Path) -> None:
    out, stop, done = StringIO(), threading.Event(), list[Any]()
    with receiver(lambda body: 422 if body["rule_id"] == 2 else 200) as heard:
        file = write_pipeline(home, heard.url, 'every = "100 milliseconds"', '[metrics]\nlisten = "127.0.0.1:0"\n')
        thread = threading.Thread(target=lambda: done.append(run(file, spark, out=out, stop=stop, log_format="json")))
        thread.start()
        try:
            deadline = time.monotonic() + 120
            while '"undelivered": 1' not in out.getvalue() and time.monotonic() < deadline:
                time.sleep(0.1)
            (address,) = re.findall(r"serving figures at (http://127\.0\.0\.1:\d+/metrics)", out.getvalue())
            text = urllib.request.urlopen(address).read().decode()  # noqa: S310
            shown = status(home / "checkpoint")
            words = CliRunner().invoke(app, ["status", str(home / "checkpoint")]).stdout
        finally:
            stop.set()
            thread.join()
    figures = dict(re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE))
    wanted = {
        "fencepost_rows_total": 9,
        'fencepost_events_total{detect="enter"}': 1,
        'fencepost_events_total{detect="inside"}': 1,
        "fencepost_dead_letters_total": len(BAD),
        'fencepost_undelivered_total{sink="pager"}': 1,
        'fencepost_posted_total{sink="pager"}': 1,
        'fencepost_spooled{sink="pager"}': 0,
        "fencepost_rule_version": 1,
        "fencepost_rules": 2,
        "fencepost_restarts_total": 0,
        "fencepost_trigger_seconds_count": 1,
        "fencepost_skipped_rules": 0,
        "fencepost_latency_seconds_count": 2,
        'fencepost_latency_seconds_bucket{le="86400.0"}': 0,
    }
    assert {name: float(figures[name]) for name in wanted} == wanted
    assert float(figures["fencepost_event_lag_seconds"]) > 10**7
    assert (shown["state"], shown["rule_version"], shown["last_batch"]["rows"]) == ("running", 1, 9)
    assert (shown["counts"]["dead_letters"], shown["sinks"]["pager"]["undelivered"]) == (len(BAD), 1)
    assert shown["newest"] == "2024-01-01T00:00:02+00:00"
    assert "state:        running" in words
    assert "pager:        0 wait, 1 not delivered (" in words
    said = [json.loads(each) for each in out.getvalue().splitlines()]
    assert [each["message"].split()[0] for each in said[:2]] == ["checking", "serving"]
    assert {"time", "level", "message"} <= set(said[-1])
    assert said[-1]["level"] == "warning", "what was not delivered is told in the end"
    assert done[0].undelivered == 1


def test_a_server_that_goes_away_is_waited_for(spark: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # tests/kafka takes a real broker away; here a query fails as Spark reports it, twice.
    file, out, left = write_pipeline(home, "http://127.0.0.1:1/"), StringIO(), [2]
    kept = file.read_text().partition('[[sink]]\nformat = "webhook"')[0]
    file.write_text(f'{kept}[trigger]\nonce = true\n[session]\npause = "10 milliseconds"\n')
    real = operate

    def failing(*given: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise UnreachableError("no answer from kafka:9092", "a server that listens", "Start it.")
        return real(*given)

    monkeypatch.setattr(running, "operate", failing)
    summary = run(file, spark, out=out)
    assert (summary.restarts, summary.rows) == (2, 9)
    assert (
        "the pipeline stopped: no answer from kafka:9092; expected a server that listens. Start it. Retry 1 of 3 in "
        in out.getvalue()
    )
    left[0] = 9
    with pytest.raises(FencepostError, match="No answer"):
        run(file, spark, out=out)
    shown = status(home / "checkpoint")
    assert (shown["state"], shown["counts"]["restarts"]) == ("failed", 3)
    assert "No answer from kafka:9092" in shown["reason"]


def test_a_start_waits_for_servers_and_for_nothing_else(home: Path) -> None:
    file, out = write_pipeline(home, "http://127.0.0.1:1/"), StringIO()
    kafka = file.read_text().replace(
        'format = "json"\npath = "in"', 'format = "kafka"\nservers = "127.0.0.1:1"\ntopic = "x"'
    )
    file.write_text(
        kafka
        + '[session]\nretries = 2\npause = "10 milliseconds"\nsettings = { "spark.jars" = "spark-sql-kafka.jar" }\n'
    )
    with pytest.raises(PipelineFaultsError):
        run(file, out=out)
    assert (
        out.getvalue().count("not started: source.servers (line 3): no answer from 127.0.0.1:1 (Connection refused)")
        == 2
    )
    file.write_text(file.read_text().replace('"published', '"nowhere').replace("'published'", "'nowhere'"))
    out = StringIO()
    with pytest.raises(PipelineFaultsError):
        run(file, out=out)
    assert "Retry" not in out.getvalue()


def test_the_status_of_a_directory_of_rules_and_of_nothing(home: Path) -> None:
    shown = status(home / "published")
    assert (shown["kind"], shown["version"], shown["rules"], shown["versions"]) == ("rules", 1, 2, 1)
    words = CliRunner().invoke(app, ["status", str(home / "published")]).stdout
    assert "columns:      price double, symbol key" in words
    done = CliRunner().invoke(app, ["status", str(home / "in")])
    assert isinstance(done.exception, FencepostError)
    assert "where no pipeline ran and no rules were published" in str(done.exception)


def all_metrics() -> set[str]:
    """The names of every figure that a pipeline can have."""
    progress = Progress(Log(StringIO()))
    progress.show_delivered("pager", Delivered(1, 1, 1), 1)
    progress.newest, progress.offsets_behind, progress.version = 0, 0, 1
    progress.gauges = {"rules": 1, "pending": 0, "ending": 0}
    registry = CollectorRegistry()
    registry.register(PipelineMetrics(progress))
    return set(re.findall(r"^([a-z_]+)", generate_latest(registry).decode(), re.MULTILINE))


def test_the_dashboard_and_the_page_name_only_figures_that_exist() -> None:
    root = Path(__file__).parents[2]
    known = all_metrics()
    board = json.loads((root / "examples" / "grafana.json").read_text())
    shown = {each["expr"] for panel in board["panels"] for each in panel["targets"]}
    named = {name for expression in shown for name in re.findall(r"fencepost_\w+", expression)}
    assert named
    assert named <= known
    page = set(re.findall(r"`(fencepost_\w+)", (root / "docs" / "production.md").read_text()))
    assert page <= {*known, *(name.removesuffix("_bucket") for name in known)}
    assert {name for name in known if not name.endswith(("_created", "_bucket", "_sum", "_count"))} <= page


@pytest.mark.parametrize(
    "beside", ['format = "console"', 'format = "parquet"\npath = "none"\nwhere = "false"'], ids=["shown", "never"]
)
def test_a_webhook_has_all_events_beside_a_sink_that_does_not_ask_for_all(spark: Any, home: Path, beside: str) -> None:
    first = ticks()[0]["ts"]
    (home / "in" / "a.json").write_text(
        "".join(f"{line({'symbol': f's{number}', 'price': 199.0, 'ts': first})}\n" for number in range(300))
    )
    with receiver() as heard:
        sinks = f"[[sink]]\n{beside}\ncheckpoint = 'checkpoint'\n[[sink]]\nformat = 'webhook'\nurl = '{heard.url}'\n"
        watch = WATCH.replace("buckets = 2", "buckets = 16")
        operator = f"[source]\n{JSON}\n[rules]\ndirectory = 'published'\n[operator]\n{watch}\n"
        (home / "pipeline.toml").write_text(f"{operator}{sinks}[trigger]\nonce = true\n")
        done = run(home / "pipeline.toml", spark, out=StringIO())
    assert sorted(body["object"] for body in heard.bodies) == sorted(f"s{number}" for number in range(300))
    assert done.posted == 300
