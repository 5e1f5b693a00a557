"""Answers of bounded size: in pieces that have room, the same as at once; one row without room is refused."""

import random
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost import _memory, _pool
from fencepost._memory import SETTING, AnswerTooLargeError, parse_size, show_size
from fencepost.emitting.emitter import Emitter
from fencepost.errors import FencepostError
from fencepost.indexes import BoxIndex, SliceList, matches
from fencepost.pairing.batch import BandBatch
from fencepost.spark.work import match as spark_match
from fencepost.spark.work.bucket import step
from fencepost.spark.work.claims import Claim
from fencepost.spark.work.packing import CLOCK, METERS, OTHER_ROWS, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.work.store import keep, open_bucket, warm_engines
from tests.effort import seeds
from tests.spark import test_band_bucket, test_bucket_state


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little memory that ordinary answers come in pieces."""
    monkeypatch.setenv(SETTING, "20 KB")
    monkeypatch.setattr(matches, "_SMALL", 0)


def wide_rules(count: int, **options: Any) -> fp.Rules:
    rules = fp.Rules()
    for id in range(count):
        rules.add(id, f"price >= {id % 7} AND price < {100 + id % 5}", **options)
    return rules


@pytest.mark.parametrize("make", [lambda: SliceList("float64"), lambda: BoxIndex(2, values="float64")])
def test_an_index_refuses_what_has_no_room(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    index, count = make(), 2_000
    flat = isinstance(index, SliceList)
    lows, highs = (np.full((count,) if flat else (count, 2), end) for end in (0.0, 9.0))
    index.insert_many(np.arange(count), lows, highs)
    asked = np.full((3_000,) if flat else (3_000, 2), 5.0)
    monkeypatch.setenv(SETTING, "3 MB")
    with pytest.raises(AnswerTooLargeError, match=r"An answer that needs .* or more; expected at most 3\.0 MB"):
        index.stab(asked)
    assert index.stab(asked[:100]).counts.tolist() == [count] * 100
    index.check()


def test_a_match_comes_in_pieces_that_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = wide_rules(3_000).compile()
    table = {"price": np.linspace(-20, 120, 2_000)}
    whole = snapshot.match(table)
    monkeypatch.setattr(_pool, "_of_process", lambda: _pool.Pool(most=0))  # memory that waits counts as taken
    monkeypatch.setenv(SETTING, "6 MB")
    with pytest.raises(AnswerTooLargeError, match=f"Ask about fewer rows at once, or set {SETTING}"):
        snapshot.match(table)
    tracemalloc.start()
    at = 0
    for first, found in snapshot.match_pieces(table):
        assert first == at
        for row in range(0, len(found), 37):
            assert np.array_equal(np.sort(found[row]), np.sort(whole[first + row]))
        at += len(found)
        del found
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert at == len(whole)
    assert peak < 20e6 < whole.ids.nbytes  # two pieces may be at hand while one replaces the other


def test_a_row_that_has_no_room_is_refused_with_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = wide_rules(200_000).compile()
    monkeypatch.setenv(SETTING, "1.2 MB")
    monkeypatch.setattr(matches, "_SMALL", 0)
    pieces = snapshot.match_pieces({"price": [-1.0, -2.0, 50.0, -3.0]})
    with pytest.raises(AnswerTooLargeError, match=r"Row 2, with an answer that needs 1\.6 MB .* at most 1\.2 MB"):
        list(pieces)


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def script(rng: random.Random) -> tuple[fp.Rules, list[dict[str, list[Any]]]]:
    rules = fp.Rules()
    for id in range(60):
        low = rng.randint(0, 80)
        condition = f"price >= {low} AND price < {low + rng.randint(5, 60)}"
        if id % 3 == 0:
            condition += f" AND zone = '{rng.choice('ab')}'"
        if id % 5 == 0:
            condition = f"({condition}) OR price > {rng.randint(90, 99)}"
        detect = rng.choice(["enter,exit", "enter,exit,cross", "inside", "exit"])
        rules.add(id, condition, detect=detect, expires=rng.choice([None, at(rng.randint(1, 60))]))
    batches: list[dict[str, list[Any]]] = []
    last = 0
    for _ in range(6):
        rows = rng.randint(1, 80)
        times = sorted(last + rng.randint(0, 8) for _ in range(rows))
        last = times[-1]
        batches.append(
            {
                "symbol": [f"s{rng.randint(0, 9)}" for _ in range(rows)],
                "ts": [at(second) for second in times],
                "price": [rng.choice([None, *(float(rng.randint(0, 100)) for _ in range(6))]) for _ in range(rows)],
                "zone": [rng.choice(["a", "b", None]) for _ in range(rows)],
            }
        )
    return rules, batches


def play(rules: fp.Rules, batches: list[dict[str, list[Any]]], **options: Any) -> list[Any]:
    monitor = fp.Monitor(rules, object="symbol", time="ts", **options)
    events = []
    for batch in batches:
        columns = {name: pa.array(values) for name, values in batch.items()}
        columns["price"] = columns["price"].cast(pa.float64())
        columns["zone"] = columns["zone"].cast(pa.string())
        events += monitor.update(pa.table(columns)).to_pylist()
        events += monitor.advance(batch["ts"][-1] + timedelta(seconds=1)).to_pylist()
    return [*events, monitor.counters]


@pytest.mark.parametrize("seed", seeds(25))
def test_the_events_of_a_monitor_are_the_same_in_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)  # noqa: S311
    rules, batches = script(rng)
    options = {"timeout": rng.choice([None, timedelta(seconds=5)]), "first": rng.choice(["enter", "silent"])}
    whole, pieces = play(rules, batches, **options), []
    only = matches.in_pieces

    def counted(rows: int, find: Any) -> Any:
        for piece in only(rows, find):
            pieces.append(rows)
            yield piece

    monkeypatch.setattr("fencepost.watching.transitions.in_pieces", counted)
    monkeypatch.setattr(matches, "_SMALL", 0)
    monkeypatch.setattr("fencepost.emitting.emitter._BYTES", 0)
    monkeypatch.setenv(SETTING, "30 KB")
    assert play(rules, batches, **options) == whole
    assert len(pieces) > len(batches)


def test_an_update_whose_events_have_no_room_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = wide_rules(500, detect="enter,exit")
    rows = {"symbol": [f"s{n}" for n in range(100)], "price": [50.0] * 100}
    expected = fp.Monitor(rules, object="symbol").update(rows)
    monitor = fp.Monitor(rules, object="symbol")
    with monkeypatch.context() as little:
        little.setenv(SETTING, "15 MB")
        with pytest.raises(AnswerTooLargeError, match=r"needs 20\.0 MB of memory or more; expected at most 15\.0 MB"):
            monitor.update(rows)
        assert monitor.counters["rows"] == 0
    assert monitor.update(rows).equals(expected)


@pytest.mark.usefixtures("small")
def test_the_command_line_matches_in_pieces(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from fencepost.cli.app import app

    wide_rules(200).to_jsonl(tmp_path / "rules.jsonl")
    book, data = f"sqlite:///{tmp_path}/rules.db", tmp_path / "rows.csv"
    data.write_text("price\n" + "\n".join(map(str, range(-5, 115))) + "\n")
    run = CliRunner().invoke
    assert run(app, ["--book", book, "rules", "import", str(tmp_path / "rules.jsonl")]).exit_code == 0
    done = run(app, ["match", str(data), "--out", str(tmp_path / "out.parquet"), "--book", book])
    assert done.exit_code == 0, done.output
    found = pq.read_table(tmp_path / "out.parquet")["rule_ids"].to_pylist()
    expected = [[id for id in range(200) if id % 7 <= price < 100 + id % 5] for price in range(-5, 115)]
    assert [sorted(ids) for ids in found] == expected


@pytest.mark.parametrize("seed", seeds(25))
def test_the_events_of_an_update_are_the_same_in_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)  # noqa: S311
    rules, batches = script(rng)
    sequence = rng.choice([None, "n"])
    if rng.random() < 0.5:
        rules.add(99, "price > 30", detect="enter,exit", for_=timedelta(seconds=2))
    tables = []
    for batch in batches:
        times = batch["ts"]
        symbols = batch["symbol"]
        if rng.random() < 0.5:  # many rows at one time, in another order
            times = [rng.choice(times[-3:]) for _ in times]
            symbols = [f"s{rng.randint(0, 39)}" for _ in times]
        numbers = pa.array([rng.choice([None, 1, 2]) for _ in times], pa.int64())
        prices, zones = pa.array(batch["price"], pa.float64()), pa.array(batch["zone"], pa.string())
        tables.append(pa.table({"symbol": symbols, "ts": times, "n": numbers, "price": prices, "zone": zones}))

    def monitor() -> fp.Monitor:
        return fp.Monitor(rules, object="symbol", time="ts", sequence=sequence, timeout=timedelta(seconds=5))

    asked, found, pieces = monitor(), monitor(), 0
    for table in tables:
        whole = asked.update(table)
        with monkeypatch.context() as little:
            little.setattr(matches, "_SMALL", 0)
            little.setenv(SETTING, "160 KB")
            parts = list(found.update_pieces(table))
        pieces += len(parts)
        events, expected = pa.concat_tables(parts).to_pylist(), whole.to_pylist()
        assert sorted(map(str, events)) == sorted(map(str, expected))
        alike = ["symbol", "ts", *([sequence] if sequence else [])]
        if table.group_by(alike).aggregate([]).num_rows == table.num_rows:
            assert events == expected
    assert found.counters == asked.counters
    assert pieces > len(tables)


@pytest.mark.usefixtures("small")
def test_rows_of_every_form_are_watched_in_pieces() -> None:
    rows = {"symbol": [f"s{n}" for n in range(50)], "ts": [at(1)] * 50, "price": [50.0] * 50}
    records = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    for given in (rows, records, pa.table(rows), pa.table(rows).to_pandas()):
        monitor = fp.Monitor(wide_rules(40, detect="enter,exit"), object="symbol", time="ts")
        with pytest.raises(AnswerTooLargeError):
            monitor.update(given)
        pieces = list(monitor.update_pieces(given))
        assert len(pieces) > 1
        assert sum(piece.num_rows for piece in pieces) == 50 * 40


@pytest.mark.usefixtures("small")
def test_rows_that_cannot_be_cut_are_refused_with_a_remedy_that_helps() -> None:
    monitor = fp.Monitor(wide_rules(500, detect="enter,exit"), object="symbol", time="ts")
    one = pa.table({"symbol": ["a"] * 3, "ts": [at(1)] * 3, "price": [50.0, 51.0, 52.0]})
    with pytest.raises(FencepostError, match=r"3 rows of one object at one time, .* Set FENCEPOST_ANSWER_MEMORY"):
        list(monitor.update_pieces(one))
    with pytest.raises(FencepostError, match=r"one row, with .* Set FENCEPOST"):
        list(monitor.update_pieces(one.slice(0, 1)))
    assert monitor.counters["rows"] == 0


def test_advancing_without_room_has_a_remedy_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = wide_rules(500, detect="enter,exit", expires=at(10))
    monitor = fp.Monitor(rules, object="symbol", time="ts")
    monitor.update({"symbol": [f"s{n}" for n in range(100)], "ts": [at(1)] * 100, "price": [50.0] * 100})
    with monkeypatch.context() as little:
        little.setenv(SETTING, "2 MB")
        with pytest.raises(AnswerTooLargeError, match="Advance to an earlier time first, or set FENCEPOST_ANSWER_MEM"):
            monitor.advance(at(20))
    assert monitor.advance(at(20)).num_rows == 500 * 100


def test_the_command_line_replays_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from fencepost.cli.app import app

    def run(*words: str) -> Any:
        done = CliRunner().invoke(app, ["--book", f"sqlite:///{tmp_path}/rules.db", *words])
        assert done.exit_code == 0, done.output
        return done

    wide_rules(200, detect="enter,exit,inside").to_jsonl(tmp_path / "rules.jsonl")
    run("rules", "import", str(tmp_path / "rules.jsonl"))
    data, columns = tmp_path / "rows.csv", ("--object", "symbol", "--time", "ts")
    lines = [f"s{n % 7},{n // 7},{n % 120}" for n in range(300)]
    data.write_text("\n".join(["symbol,ts,price", *lines]) + "\n")
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    run("backtest", str(data), *columns, "--events", str(whole))
    monkeypatch.setenv(SETTING, "1 MB")
    monkeypatch.setattr(matches, "_SMALL", 0)
    run("backtest", str(data), *columns, "--events", str(parts))
    assert parts.read_text() == whole.read_text()
    run("verify", str(data), *columns, "--events", str(parts))


def test_workers_of_spark_match_in_pieces(small: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    snapshot = wide_rules(200).compile()
    monkeypatch.setattr(spark_match, "begin_task", lambda: None)
    monkeypatch.setattr(spark_match, "version_of_task", lambda *_: Claim(1, 0))
    monkeypatch.setattr("fencepost.spark.work.usable.snapshot_at", lambda *_: snapshot)
    task = spark_match.MatchTask(None, 1, False, ("price",), False)  # type: ignore[arg-type]
    rows = pa.record_batch({"price": pa.array(np.linspace(-5, 115, 300))})
    found = list(spark_match.match_batches([rows], task, [0]))
    assert len(found) > 3
    assert pa.Table.from_batches(found)["price"].to_pylist() == rows["price"].to_pylist()
    for price, ids in zip(rows["price"].to_pylist(), pa.Table.from_batches(found)["rule_ids"].to_pylist(), strict=True):
        assert sorted(ids) == [id for id in range(200) if id % 7 <= price < 100 + id % 5]


@pytest.mark.usefixtures("small")
def test_an_answer_that_must_be_one_array_says_how_many_rows_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = wide_rules(200).compile()
    monkeypatch.setattr(spark_match, "begin_task", lambda: None)
    monkeypatch.setattr(spark_match, "version_of_task", lambda *_: Claim(1, 0))
    monkeypatch.setattr("fencepost.spark.work.usable.snapshot_at", lambda *_: snapshot)
    task = spark_match.MatchTask(None, 1, False, ("price",), True)  # type: ignore[arg-type]
    prices = pa.array(np.linspace(-5, 115, 300))
    with pytest.raises(
        AnswerTooLargeError, match=r"about 300 rows .* Set spark\.sql\..*maxRecordsPerBatch to [0-9]+ or"
    ):
        list(spark_match.match_arrays([prices], task))
    monkeypatch.setenv(SETTING, "800 KB")
    (found,) = spark_match.match_arrays([prices], task)
    monkeypatch.delenv(SETTING)
    (whole,) = spark_match.match_arrays([prices], task)
    assert [sorted(ids) for ids in found.field(0).to_pylist()] == [sorted(ids) for ids in whole.field(0).to_pylist()]


@pytest.mark.parametrize("seed", seeds(12))
def test_a_bucket_of_watch_writes_the_same_events_in_pieces(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)  # noqa: S311
    test_bucket_state.rules_of(rng).publish(tmp_path, {"x": "double", "zone": "string"})
    task = test_bucket_state.task_of(tmp_path, pa.string())
    tables = [test_bucket_state.rows_of(rng, pa.string(), at) for at in range(0, 90, 10)]
    triggers = [
        [(ROWS, 0, packed_bytes(rows)), *([(CLOCK, 70, b"")] if at == 7 else [])] for at, rows in enumerate(tables)
    ]
    compare_steps(task, triggers, monkeypatch)


@pytest.mark.parametrize("seed", seeds(12))
def test_a_bucket_of_bands_writes_the_same_events_in_pieces(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)  # noqa: S311
    rules = fp.Rules()
    for id in range(12):
        detect = rng.choice(["enter,exit", "enter,exit,cross", "inside"])
        rules.add(id, test_band_bucket.condition_of(rng, kinds=True), detect=detect)
    rules.publish(tmp_path, test_band_bucket.SCHEMA)
    task = test_band_bucket.task_of(tmp_path)
    triggers = []
    for at in range(0, 60, 10):
        left, right = (test_band_bucket.rows_of(rng, at, rng.choice([2, 150])) for _ in range(2))
        triggers.append([(ROWS, 0, packed_bytes(left)), (OTHER_ROWS, 0, packed_bytes(right))])
    compare_steps(task, triggers, monkeypatch, kilobytes=150)


def compare_steps(task: Any, triggers: list[Any], monkeypatch: pytest.MonkeyPatch, kilobytes: int = 20) -> None:
    """Events in their order, meters and state after each trigger: in pieces as at once."""
    whole = step_through(task, triggers)
    tables = []

    def counted(self: Emitter, *given: Any) -> Any:
        tables.append(written(self, *given))
        return tables[-1]

    written = Emitter._write
    monkeypatch.setattr(Emitter, "_write", counted)
    monkeypatch.setattr(matches, "_SMALL", 0)
    monkeypatch.setenv(SETTING, f"{kilobytes} KB")
    assert step_through(task, triggers) == whole
    assert len(tables) > len(triggers)
    assert max(table.num_rows for table in tables) <= kilobytes * 1000 / 400


def step_through(task: Any, triggers: list[Any]) -> list[Any]:
    warm_engines.clear()
    store, found = test_bucket_state.Kept(appends=True), []
    for number, trigger in enumerate(triggers):
        given_back = step(0, [*trigger, *([] if number else [(VERSION, 1, b"")])], store, task)
        payloads = [row["payload"] for row in given_back if row["payload"] is not None]
        events = [event for payload in payloads for event in packed_table(payload).to_pylist()]
        meter = {name: sum(row[name] for row in given_back) for name in METERS if name != "nanoseconds"}
        opened = open_bucket(store, task, 0)
        assert opened is not None
        found.append((events, meter, [table.to_pylist() for table in opened.engine.tables()]))
        keep(opened.engine, opened, store, task, 0)
    return found


@pytest.mark.parametrize("seed", seeds(12))
def test_pairs_of_a_monitor_are_the_same_in_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces = play_pairs(seed), []
    only = BandBatch.apply

    def counted(self: BandBatch, joins: Any, round: Any) -> Any:
        for piece in only(self, joins, round):
            pieces.append(piece)
            yield piece

    monkeypatch.setattr(BandBatch, "apply", counted)
    monkeypatch.setattr(matches, "_SMALL", 0)
    monkeypatch.setattr("fencepost.emitting.emitter._BYTES", 0)
    monkeypatch.setenv(SETTING, "200 KB")
    assert play_pairs(seed) == whole
    assert len(pieces) > 12


def play_pairs(seed: int) -> list[Any]:
    rng = random.Random(seed)  # noqa: S311
    rules, found = fp.Rules(), []
    for id in range(40):
        low = rng.randrange(-9, 6)
        same = rng.choice(["", " AND left.zone = right.zone"])
        detect = rng.choice(["enter,exit", "enter,exit,cross", "inside"])
        rules.add(id, f"left.x - right.x BETWEEN {low} AND {low + rng.randrange(9)}{same}", detect=detect)
    monitor = fp.Monitor(rules, object="o", time="t", timeout=7, report=rng.choice(["pairs", "rules"]))
    for at in range(6):
        sides = []
        for _ in range(2):
            count = rng.choice([1, 90])
            columns = {
                "o": pa.array([rng.randrange(25) for _ in range(count)]),
                "t": pa.array([at * 3 + rng.randrange(3) for _ in range(count)]),
                "x": pa.array([rng.choice([None, rng.randrange(12) / 1.0]) for _ in range(count)], pa.float64()),
                "zone": pa.array([rng.choice("ab") for _ in range(count)]),
            }
            sides.append(pa.table(columns))
        found += monitor.update(left=sides[0], right=sides[1]).to_pylist()
    return [*found, monitor.counters]


def test_sizes_are_read_and_shown() -> None:
    assert [parse_size(text) for text in ("2 GiB", "500MB", "1.5 kb", "7")] == [2**31, 500_000_000, 1500, 7]
    for text in ("", "much", "2 parsecs", "-3 MB", "0 MB"):
        with pytest.raises(FencepostError, match=f"{SETTING}={text!r}; expected a size such as 2 GiB"):
            parse_size(text)
    assert [show_size(count) for count in (7, 1500, 123_456_789, 2e13)] == ["7 bytes", "1.5 KB", "123 MB", "20.0 TB"]


def test_the_limit_is_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.setattr(_memory, "_free_of_machine", lambda: 4_000)
    monkeypatch.setattr(_memory, "_free_of_group", lambda: None)
    assert _memory.answer_limit() == 1_000
    monkeypatch.setattr(_memory, "_free_of_group", lambda: 400)
    assert _memory.answer_limit() == 100


def write_group(place: Path, **files: object) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (place / name.replace("_", ".", 1)).write_text(f"{value}\n")


def test_a_control_group_limits_what_is_free(tmp_path: Path) -> None:
    nowhere = tmp_path / "no such file"
    assert _memory._free_of_group(tmp_path, nowhere) is None
    write_group(tmp_path, memory_current=300, memory_max="max")
    assert _memory._free_of_group(tmp_path, nowhere) is None
    write_group(tmp_path, memory_max=1000)
    assert _memory._free_of_group(tmp_path, nowhere) == 700


def test_the_tightest_of_the_groups_around_a_unit_counts(tmp_path: Path) -> None:
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text("0::/system.slice/fencepost.service\n")
    write_group(root / "system.slice/fencepost.service", memory_current=500, memory_max=2000)
    assert _memory._free_of_group(root, own) == 1500
    write_group(root / "system.slice", memory_current=900, memory_max=1000)
    assert _memory._free_of_group(root, own) == 100
    write_group(root / "system.slice", memory_max="max")
    write_group(root / "system.slice/fencepost.service", memory_high=800)
    assert _memory._free_of_group(root, own) == 300
    write_group(root / "system.slice/fencepost.service", memory_stat="anon 80\ninactive_file 50\nactive_file 7")
    assert _memory._free_of_group(root, own) == 350
    write_group(root / "system.slice/fencepost.service", memory_current="damaged")
    assert _memory._free_of_group(root, own) is None


@pytest.mark.parametrize("mount", ["memory", "cpu,memory"])
def test_control_groups_of_version_1_count(mount: str, tmp_path: Path) -> None:
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text(f"9:name=systemd:/a\n4:{mount}:/a/b:c\n0::/\n")
    limited = root / mount / "a"
    limited.mkdir(parents=True)
    (limited / "memory.limit_in_bytes").write_text("1000\n")
    (limited / "memory.usage_in_bytes").write_text("400\n")
    assert _memory._free_of_group(root, own) == 600
    inner = limited / "b:c"
    inner.mkdir()
    (inner / "memory.limit_in_bytes").write_text(f"{2**63 - 4096}\n")  # none, in version 1
    (inner / "memory.usage_in_bytes").write_text("400\n")
    assert _memory._free_of_group(root, own) == 600
    (inner / "memory.limit_in_bytes").write_text("500\n")
    (inner / "memory.stat").write_text("total_inactive_file 30\n")
    assert _memory._free_of_group(root, own) == 130


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text("0::/kubepods/pod7/c9\n")
    write_group(root, memory_current=100, memory_max=1000)
    assert _memory._free_of_group(root, own) == 900
