"""The webhook: every event posted as JSON, tried again with growing pauses, kept as a dead letter in the end.

A micro-batch that is repeated after a restart posts its events again, with the same ``Idempotency-Key``.
"""

import hashlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.pipeline.runtime.dead_letters import write_letters
from fencepost.spark.plan.columns import quoted

_TRY_AGAIN = {408, 425, 429}
"""Refusals that may pass, beside those of 500 and above."""
_COUNTS = "posted bigint, retries bigint, dead bigint"


class Hook(NamedTuple):
    """Where and how to post."""

    url: str
    headers: Mapping[str, str]
    retries: int
    backoff: float
    """Seconds before the first retry."""
    wait: float
    """Seconds for an answer."""
    dead_letters: str
    """A directory that every executor can write to."""


class Posted(NamedTuple):
    """What became of the events of a micro-batch."""

    posted: int
    retries: int
    dead: int


class Answer(NamedTuple):
    """How an attempt ended."""

    taken: bool
    may_pass: bool
    """Whether another attempt may succeed."""
    said: str


def post_frame(frame: Any, hook: Hook, batch: int) -> Posted:
    """Post every row of a batch frame; the dead letters of a micro-batch replace those of an earlier attempt."""
    body = F.to_json(F.struct(*map(quoted, frame.columns)))
    key = quoted("event_id") if "event_id" in frame.columns else F.lit(None).cast("string")
    bodies = frame.select(body.alias("body"), key.alias("key"))
    counted = bodies.mapInArrow(partial(_post_partition, hook=hook, batch=batch), _COUNTS)
    found = counted.agg(*(F.coalesce(F.sum(name), F.lit(0)) for name in Posted._fields)).first()
    return Posted(*map(int, found))


def _post_partition(batches: Iterator[Any], hook: Hook, batch: int) -> Iterator[Any]:
    """What a task does: posts its rows one after the other, and writes those that were not taken."""
    posted = retries = 0
    dead: list[dict[str, Any]] = []
    down = False
    for rows in batches:
        for body, key in zip(rows["body"].to_pylist(), rows["key"].to_pylist(), strict=True):
            key = key or hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
            # While the other end is down each event has one attempt, or a batch would take hours to fail.
            answer, tried = _deliver(partial(_attempt, hook, body, key), 0 if down else hook.retries, hook.backoff)
            retries += tried - 1
            posted += answer.taken
            down = not answer.taken and answer.may_pass
            if not answer.taken:
                dead.append({"key": key, "attempts": tried, "said": answer.said, "event": json.loads(body)})
    if dead:
        context = TaskContext.get()
        part = context.partitionId() if context else 0
        write_letters(Path(hook.dead_letters), f"{batch:08}-{part:05}.json", dead)
    yield pa.RecordBatch.from_pydict({"posted": [posted], "retries": [retries], "dead": [len(dead)]})


def _deliver(attempt: Callable[[], Answer], retries: int, pause: float) -> tuple[Answer, int]:
    """The last answer, and how many attempts it took."""
    for tried in range(1, retries + 2):
        answer = attempt()
        if answer.taken or not answer.may_pass or tried > retries:
            return answer, tried
        time.sleep(pause * 2 ** (tried - 1))
    raise AssertionError("the last attempt returns")


def _attempt(hook: Hook, body: str, key: str) -> Answer:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, **hook.headers}
    request = urllib.request.Request(hook.url, body.encode(), headers, method="POST")  # noqa: S310 (http, checked)
    try:
        with urllib.request.urlopen(request, timeout=hook.wait) as response:  # noqa: S310
            return Answer(True, False, str(response.status))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(False, error.code >= 500 or error.code in _TRY_AGAIN, f"{error.code} {error.reason}")
    except OSError as error:
        return Answer(False, True, str(error))
