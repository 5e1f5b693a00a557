"""Every changed byte is noticed, in small files, too: notes, claims, and what a service keeps."""

import random
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fencepost as fp
from fencepost.published import VersionDirectory
from tests.campaign.changed_bytes import DAMAGES, PROMISE, try_damages
from tests.campaign.failing_files import pipeline_in, sink_in, write_batch
from tests.campaign.trial import Trial

# -- notes of pipelines ------------------------------------------------------------------------------------------------

_SCHEMA = '{"type": "record", "name": "Tick", "fields": [{"name": "size", "doc": "größe", "type": "double"}]}'


def _change(batch: int) -> Any:
    from fencepost.pipeline.runtime.changes import Message

    return Message(f"rules/0/{batch}", f'{{"op": "insert", "id": {batch}, "condition": "price > {batch}"}}')


def _follower(path: Path, rules: fp.Rules) -> Any:
    from fencepost.pipeline.runtime.changes import ChangeFollower

    return ChangeFollower(rules, lambda: None, path / "changes")


def _schemas(path: Path) -> Any:
    from fencepost.pipeline.runtime.decoding import WriterSchemas

    return WriterSchemas(pipeline_in(path), "source")


def _make_notes(rng: random.Random, path: Path) -> Iterable[Path]:
    last = rng.randrange(1, 12)
    for batch in (0, last):
        write_batch(path, batch)
    _follower(path, fp.Rules()).apply([_change(last)], last)
    for id in (1, 23):
        _schemas(path)._keep(id, _SCHEMA)
    places = [path / "checkpoint" / "fencepost" / "sinks", path / "checkpoint" / "fencepost" / "schemas"]
    return [path / "changes" / "applied.json", *(file for place in places for file in place.rglob("*.json"))]


def _ask_notes(path: Path) -> Any:
    """What a pipeline goes on with: the batches that a sink has, the changes that are applied, the schemas."""
    rules, sink = fp.Rules(), sink_in(path)
    for batch in range(15):
        _follower(path, rules).apply([_change(batch)], batch)
    has = [sink.has_batch(batch) for batch in range(15)], sink._stem
    return has, [rule.id for rule in rules], _schemas(path).known()


def try_notes(seed: int) -> int:
    """The notes of a sink, of changes and of schemas."""
    return try_damages(seed, _make_notes, _ask_notes, 4 * DAMAGES)


# -- claims ------------------------------------------------------------------------------------------------------------


def _claim_all(path: Path, version: int) -> list[Any]:
    from fencepost.spark.work import claims

    all_ = claims.Claims(VersionDirectory(path))
    with patch.object(claims, "_PATIENCE", timedelta(seconds=0.01)):
        return [
            all_.claim(claims.MicroBatch("query", batch), lambda: claims.Claim(version, batch))  # noqa: B023
            for batch in range(4)
        ]


def _make_claims(rng: random.Random, path: Path) -> Iterable[Path]:
    rules = fp.Rules()
    rules.add(1, "price > 1")
    rules.publish(path)
    _claim_all(path, rng.choice([1, 3, 17]))
    return (path / "claims").rglob("[0-9]*")


def try_claims(seed: int) -> int:
    """The claims of a stream; one that is not read again is another version for the same rows."""
    return try_damages(seed, _make_claims, lambda path: _claim_all(path, 99))


# -- the data of a service ---------------------------------------------------------------------------------------------


def _service(path: Path) -> Any:
    from fencepost.service.service import Service
    from fencepost.service.settings import Settings

    return Service(Settings(data=path / "data", tick=None))


def _make_service(rng: random.Random, path: Path) -> Iterable[Path]:
    """Files of rows and events, two saves, and in every other try rows that no save has."""
    from fencepost.service.upkeep import Upkeep

    replayed = rng.random() < 0.5
    with _service(path) as service:
        service._rows._roll = service._events.segments._roll = rng.choice([200, 10_000])
        for id in range(3):
            service.rules.add({"condition": f"price > {id * 20}", "detect": "enter,exit"}, "ann")
        service.settle()
        for call in range(6):
            service.observe([{"object": f"o{n}", "price": rng.randrange(60)} for n in range(5)])
            if call in (1, 3):
                service._upkeep.save()
        if replayed:
            patched = patch.object(Upkeep, "save", lambda _: None)
            patched.start()
    if replayed:
        patched.stop()
    places = [path / "data" / name for name in ("rows", "events", "saves")]
    return [path / "data" / "service.json", *(file for place in places for file in place.iterdir())]


def _ask_service(path: Path) -> Any:
    """What a service goes on with."""
    with _service(path) as service:
        rows = [table.to_pylist() for table in service.recent_rows(1_000, 1_000)]
        return rows, service.events().events.to_pylist(), [service.inside(id) for id in (1, 2, 3)]


def _lost_end(got: Any, expected: Any) -> bool:
    """A log that is cut short looks as after a crash that came before anybody was told of its last rows.

    That is noticed where a save has them, or where they have caused events.
    """
    return bool(got[0] == expected[0][: len(got[0])] and got[1:] == expected[1:])


def try_service(seed: int) -> int:
    """The settings, logs and saves of a service."""
    return try_damages(seed, _make_service, _ask_service, same=_lost_end)


TRIALS = [
    Trial("bytes.notes", PROMISE, "the same in the notes of sinks, changes and schemas", try_notes),
    Trial("bytes.claims", PROMISE, "the same in the claims of a stream", try_claims),
    Trial("bytes.service", PROMISE, "the same in the settings, logs and saves of a service", try_service),
]
