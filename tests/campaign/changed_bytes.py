"""Every changed byte is noticed: files of ours are damaged, then read; they are refused, or answer as before."""

import dataclasses
import functools
import json
import operator
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from tests.campaign.trial import Trial, require

DAMAGES = 25
"""Of one try."""
ROWS: dict[str, list[Any]] = {
    "o": [f"o{n}" for n in range(40)],
    "t": list(range(40)),
    "price": [n * 2.5 for n in range(40)],
    "volume": [n % 7 for n in range(40)],
    "symbol": ["IBM", "SAP"] * 20,
}
SCHEMA = {"price": "double", "volume": "bigint", "symbol": "string"}


def draw_rules(rng: random.Random, count: int) -> fp.Rules:
    """Rules of several shapes."""
    rules = fp.Rules()
    for id in range(count):
        low = rng.randrange(80)
        condition = rng.choice(
            [
                f"price BETWEEN {low} AND {low + 20}",
                f"symbol = 'IBM' AND price > {low}",
                f"volume >= {low % 7} AND price < {low}.5",
                f"symbol IN ('SAP', 'X') OR volume = {low % 7}",
            ]
        )
        rules.add(id, condition, detect="enter,exit,inside", labels={"desk": f"d{id}"})
    return rules


def change_bytes(rng: random.Random, content: bytes) -> bytes:
    """Flip a bit, overwrite a few bytes, cut, or append."""
    kind = rng.randrange(6)
    at = rng.randrange(len(content)) if content else 0
    if kind < 3 and content:
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if kind == 3 and content:
        several = rng.randbytes(min(rng.choice([2, 8, 64]), len(content) - at))
        return content[:at] + several + content[at + len(several) :]
    if kind == 4 and content:
        return content[:at]
    return content + rng.randbytes(rng.choice([1, 8, 300]))


def try_damages(
    seed: int,
    make: Callable[[random.Random, Path], Iterable[Path]],
    answer: Callable[[Path], Any],
    damages: int = DAMAGES,
    same: Callable[[Any, Any], bool] = operator.eq,
) -> int:
    """Damage one file after the other, each time from the whole ones.

    Args:
        seed: of all chance.
        make: writes files into a directory, and says which of them to damage.
        answer: what a reader of the directory finds; raises FencepostError where it refuses.
        damages: how many.
        same: whether a reader of damaged files may find this, where whole ones have that.
    """
    rng = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        whole, broken = Path(name) / "whole", Path(name) / "broken"
        whole.mkdir()
        files = sorted(make(rng, whole))
        shutil.copytree(whole, broken)  # whoever asks may write, too
        expected = answer(broken)
        shutil.rmtree(broken)
        for _ in range(damages):
            file = rng.choice(files).relative_to(whole)
            content = (whole / file).read_bytes()
            changed = change_bytes(rng, content)
            if changed == content:
                continue
            shutil.copytree(whole, broken)
            (broken / file).write_bytes(changed)
            try:
                got = answer(broken)
            except FencepostError:
                pass
            except Exception as error:
                told = f"{file}, {_describe(content, changed)}: {type(error).__name__}: {error}"
                raise RuntimeError(told) from error
            else:
                require(same(got, expected), f"{file}, {_describe(content, changed)}: another answer")
            shutil.rmtree(broken)
    return damages


def _describe(content: bytes, changed: bytes) -> str:
    if len(content) != len(changed):
        return f"{len(changed)} bytes in place of {len(content)}"
    at = [place for place, (one, other) in enumerate(zip(content, changed, strict=True)) if one != other]
    return f"bytes {at[0]} to {at[-1]} changed from {content[at[0] : at[-1] + 1]!r} to {changed[at[0] : at[-1] + 1]!r}"


# -- snapshots ---------------------------------------------------------------------------------------------------------


def _make_snapshot(rng: random.Random, path: Path) -> Iterable[Path]:
    draw_rules(rng, rng.choice([3, 200])).compile(SCHEMA).save(path / "snapshot")
    return [file for file in path.rglob("*") if file.is_file()]


def _answer_of(snapshot: Any) -> Any:
    return snapshot.match(ROWS).sets(), str(snapshot.explain())


def try_snapshot(seed: int) -> int:
    """The files of one snapshot."""
    return try_damages(seed, _make_snapshot, lambda path: _answer_of(fp.Snapshot.load(path / "snapshot")))


# -- published directories ---------------------------------------------------------------------------------------------


def _make_directory(rng: random.Random, path: Path, schema: bool) -> Iterable[Path]:
    rules = draw_rules(rng, 40)
    shards = rng.choice([None, None, 2])
    for version in range(2):
        rules.replace(version, "price > 1")
        rules.publish(path, schema=SCHEMA, shards=shards)
    VersionDirectory(path).tick(100)
    files = [file for file in path.rglob("*") if file.is_file() and not file.name.endswith(".lease")]
    return [file for file in files if (file.name == "schema.json") == schema]


def _ask_directory(path: Path) -> Any:
    """All versions by their number."""
    directory = VersionDirectory(path)
    plan = directory.shards()
    found: list[Any] = [directory.markers.newest()]
    for version in (1, 2):
        found.append(_answer_of(directory.load(version)))
        if plan is not None:
            directory.verify_shards(version, plan)
            found += [_answer_of(directory.load_shard(version, part)) for part in range(plan.shards)]
    return found


def _ask_newest(path: Path) -> Any:
    """As a reader that starts now."""
    directory = VersionDirectory(path)
    return directory.latest(), _answer_of(directory.load())


def _ask_schema(path: Path) -> Any:
    """The columns, and whether the next version fits."""
    directory = VersionDirectory(path)
    found = directory.schema()
    wider = fp.Rules()
    wider.add(1, "price > 1 AND volume > 2 AND symbol = 'IBM'")
    return found, wider.publish(path)


def try_directory(seed: int) -> int:
    """A directory, asked for the versions that were published."""
    return try_damages(seed, functools.partial(_make_directory, schema=False), _ask_directory)


def try_newest(seed: int) -> int:
    """A directory, asked for the newest version."""
    return try_damages(seed, functools.partial(_make_directory, schema=False), _ask_newest)


def try_schema(seed: int) -> int:
    """The columns of a directory."""
    return try_damages(seed, functools.partial(_make_directory, schema=True), _ask_schema)


# -- states of a monitor -----------------------------------------------------------------------------------------------


def _make_monitor() -> Any:
    return fp.Monitor(draw_rules(random.Random(1), 12), object="o", time="t", schema=SCHEMA)  # noqa: S311


def _make_state(rng: random.Random, path: Path) -> Iterable[Path]:
    monitor = _make_monitor()
    count = rng.choice([1, 10, 40])
    monitor.update({name: column[:count] for name, column in ROWS.items()})
    monitor.save(path / "state")
    return [path / "state"]


def _ask_state(path: Path) -> Any:
    """What a monitor goes on with."""
    monitor = _make_monitor()
    monitor.restore(path / "state")
    inside = [sorted(monitor.inside(id)) for id in range(12)]
    later = {**ROWS, "t": [time + 20 for time in ROWS["t"]], "price": ROWS["price"][::-1]}
    return inside, monitor.counters, monitor.update(later).to_pylist(), monitor.counters


def try_state(seed: int) -> int:
    """A file that Monitor.save wrote."""
    return try_damages(seed, _make_state, _ask_state)


# -- seeds of streams --------------------------------------------------------------------------------------------------


def _seed_task(path: Path) -> Any:
    from tests.spark.test_bucket_state import task_of

    return dataclasses.replace(task_of(path / "published", pa.string()), seed=str(path))


def _make_seed(rng: random.Random, path: Path) -> Iterable[Path]:
    from fencepost.spark.work.bucket import save_buckets
    from tests.spark.test_bucket_state import rows_of, rules_of

    rules_of(rng).publish(path / "published", {"x": "double", "zone": "string"})
    rows = rows_of(rng, pa.string(), 0)
    rows = rows.append_column("bucket", pa.array([0] * len(rows), pa.int32()))
    list(save_buckets(rows.to_batches(), _seed_task(path), str(path)))
    return path.glob("*.arrow")


def _ask_seed(path: Path) -> Any:
    """What a bucket starts with."""
    from fencepost.spark.work.store import open_bucket
    from tests.spark.test_bucket_state import Kept

    opened = open_bucket(Kept(appends=True), _seed_task(path), 0)
    assert opened is not None
    head = {name: value for name, value in opened.head.items() if name != "token"}
    return head, [table.to_pylist() for table in opened.engine.tables()]


def try_seed(seed: int) -> int:
    """A file that save_state wrote for a stream to start with."""
    return try_damages(seed, _make_seed, _ask_seed)


# -- the state of a bucket ---------------------------------------------------------------------------------------------


def _bucket_task(path: Path, by_pairs: bool) -> Any:
    from tests.spark import test_band_bucket, test_bucket_state

    published = path / "published"
    return test_band_bucket.task_of(published) if by_pairs else test_bucket_state.task_of(published, pa.string())


def _make_bucket(rng: random.Random, path: Path, by_pairs: bool) -> Iterable[Path]:
    from fencepost.spark.work.bucket import step
    from fencepost.spark.work.packing import OTHER_ROWS, VERSION, packed_bytes
    from fencepost.spark.work.packing import ROWS as LEFT_ROWS
    from tests.spark import test_band_bucket, test_bucket_state

    if by_pairs:
        rules = fp.Rules()
        for id in range(5):
            rules.add(id, test_band_bucket.condition_of(rng, kinds=True), detect="enter,exit")
        rules.publish(path / "published", test_band_bucket.SCHEMA)
    else:
        test_bucket_state.rules_of(rng).publish(path / "published", {"x": "double", "zone": "string"})
    task, store = _bucket_task(path, by_pairs), test_bucket_state.Kept(appends=True)
    for at in range(5):
        kinds = (LEFT_ROWS, OTHER_ROWS) if by_pairs else (LEFT_ROWS,)
        packed = [] if at else [(VERSION, 1, b"")]
        for kind in kinds:
            rows = (
                test_band_bucket.rows_of(rng, 10 * at, 3 if at else 200)
                if by_pairs
                else test_bucket_state.rows_of(rng, pa.string(), 10 * at)
            )
            packed.append((kind, 0, packed_bytes(rows)))
        step(0, packed, store, task)
    (path / "head").write_text(store.parts["head"])
    (path / "base").write_bytes(store.parts["base"])
    for number, entry in store.parts["log"]:
        (path / f"log{number}").write_bytes(entry)
    return [file for file in path.iterdir() if file.is_file()]


def _ask_bucket(path: Path, by_pairs: bool) -> Any:
    """What a bucket goes on with."""
    from fencepost.spark.work.store import open_bucket, warm_engines
    from tests.spark.test_bucket_state import Kept

    store = Kept(appends=True)
    log = [(int(file.name[3:]), file.read_bytes()) for file in sorted(path.glob("log*"))]
    head = (path / "head").read_bytes().decode(errors="replace")
    store.parts = {"head": head, "base": (path / "base").read_bytes(), "log": log}
    warm_engines.clear()
    opened = open_bucket(store, _bucket_task(path, by_pairs), 0)
    assert opened is not None
    return opened.head, [table.to_pylist() for table in opened.engine.tables()]


def try_bucket(seed: int) -> int:
    """The head, the tables and the log of a bucket, of watch or of bands."""
    by_pairs = seed % 2 == 1
    make, ask = (functools.partial(function, by_pairs=by_pairs) for function in (_make_bucket, _ask_bucket))
    return try_damages(seed, make, ask)


# -- spools ------------------------------------------------------------------------------------------------------------


def _make_spool(rng: random.Random, path: Path) -> Iterable[Path]:
    from fencepost.deliveries.spool import Event, Letter, Spool, stream_batch

    spool = Spool(path)
    spool.open()
    for batch in range(3):
        given = [
            Event(f"{batch}-{number}", rng.choice([None, f"o{number % 3}"]), json.dumps({"n": number, "ü": "é"}))
            for number in range(rng.choice([4, 40]))
        ]
        name = stream_batch(batch)
        spool.commit(name, {part: spool.write_part(name, part, given[part::2]) for part in range(2)})
        waiting = list(spool.read(name))
        done = rng.sample(waiting, len(waiting) // 2)
        spool.give_up({name: [Letter(each.event, 3, "503 no") for each in done[:3]]})
        spool.finish(done)
    spool.close()
    return [file for file in path.rglob("*") if file.is_file()]


def _ask_spool(path: Path) -> Any:
    """What a sender goes on with."""
    from fencepost.deliveries.spool import Spool

    spool = Spool(path)
    waiting = {each for name in spool.names() for each in spool.read(name)}
    return [spool.has_batch(batch) for batch in range(5)], waiting, set(spool.letters()), spool.waiting()


def _loses_nothing(got: Any, expected: Any) -> bool:
    """Notes about what was sent may be lost, as by a crash: it is sent again. So may the last letters of a file."""
    batches, waiting, letters, count = got
    few = len(waiting) == count and len(waiting - expected[1]) <= 60
    return bool(batches == expected[0] and waiting >= expected[1] and letters <= expected[2] and few)


def try_spool(seed: int) -> int:
    """The files of a spool."""
    return try_damages(seed, _make_spool, _ask_spool, 4 * DAMAGES, _loses_nothing)


PROMISE = "every changed byte is noticed"
TRIALS = [
    Trial("bytes.snapshot", PROMISE, "flips, cuts and additions in the files of a snapshot", try_snapshot),
    Trial("bytes.published", PROMISE, "the same in a published directory, asked for its versions", try_directory),
    Trial("bytes.newest", PROMISE, "the same, asked for the newest version", try_newest),
    Trial("bytes.schema", PROMISE, "the same in schema.json", try_schema),
    Trial("bytes.state", PROMISE, "the same in a file that Monitor.save wrote", try_state),
    Trial("bytes.bucket", PROMISE, "the same in the head, tables and log of a bucket", try_bucket),
    Trial("bytes.spool", PROMISE, "the same in the files of a spool", try_spool),
    Trial("bytes.seed", PROMISE, "the same in a file that save_state wrote", try_seed),
]
