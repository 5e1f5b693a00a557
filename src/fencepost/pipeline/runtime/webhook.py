"""The webhook: every event posted as JSON, tried again with growing pauses, kept as a dead letter in the end.

A micro-batch that is repeated after a restart posts its events again, with the same ``Idempotency-Key``.
"""

import hashlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost._text import printable
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
    """The outcome of the events of a micro-batch."""

    posted: int
    retries: int
    dead: int


class Answer(NamedTuple):
    """How an attempt ended."""

    accepted: bool
    may_pass: bool
    """Whether another attempt may succeed."""
    text: str


def post_frame(frame: Any, hook: Hook, batch: int) -> Posted:
    """Post every row of a batch frame; the dead letters of a micro-batch replace those of an earlier attempt."""
    body = F.to_json(F.struct(*map(quoted, frame.columns)))
    key = quoted("event_id") if "event_id" in frame.columns else F.lit(None).cast("string")
    bodies = frame.select(body.alias("body"), key.alias("key"))
    counted = bodies.mapInArrow(partial(_post_partition, hook=hook, batch=batch), _COUNTS)
    found = counted.agg(*(F.coalesce(F.sum(name), F.lit(0)) for name in Posted._fields)).first()
    return Posted(*map(int, found))


def _post_partition(batches: Iterator[Any], hook: Hook, batch: int) -> Iterator[Any]:
    """The work of a task: posts its rows one after the other, and writes those that were refused."""
    context = TaskContext.get()
    file = f"{batch:08}-{context.partitionId() if context else 0:05}.json"
    rows = (row for each in batches for row in zip(each["body"].to_pylist(), each["key"].to_pylist(), strict=True))
    counts = post_rows(rows, hook, file)
    yield pa.RecordBatch.from_pydict({name: [count] for name, count in counts._asdict().items()})


def post_rows(rows: Iterable[tuple[str, str | None]], hook: Hook, file: str) -> Posted:
    """Post events, each a JSON object and its key; those that are not accepted go to a file of dead letters."""
    posted = retries = 0
    dead: list[dict[str, Any]] = []
    down = False
    for body, given in rows:
        key = given or hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
        # While the other end is down each event has one attempt, or a batch would take hours to fail.
        answer, attempts = _deliver(partial(_attempt, hook, body, key), 0 if down else hook.retries, hook.backoff)
        retries += attempts - 1
        posted += answer.accepted
        down = not answer.accepted and answer.may_pass
        if not answer.accepted:
            dead.append({"key": key, "attempts": attempts, "said": answer.text, "event": json.loads(body)})
    if dead:
        write_letters(Path(hook.dead_letters), file, dead)
    return Posted(posted, retries, len(dead))


def _deliver(attempt: Callable[[], Answer], retries: int, pause: float) -> tuple[Answer, int]:
    """The last answer, and how many attempts there were."""
    for attempts in range(1, retries + 2):
        answer = attempt()
        if answer.accepted or not answer.may_pass or attempts > retries:
            return answer, attempts
        time.sleep(pause * 2 ** (attempts - 1))
    raise AssertionError("the last attempt returns")


def _make_opener() -> urllib.request.OpenerDirector:
    """Speaks HTTP and HTTPS and nothing else.

    It follows no redirect: that would send the event as a GET without its body, and its headers to another host.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _attempt(hook: Hook, body: str, key: str) -> Answer:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, **hook.headers}
    request = urllib.request.Request(hook.url, body.encode(), headers, method="POST")  # noqa: S310 (see _make_opener)
    try:
        with _make_opener().open(request, timeout=hook.wait) as response:
            return Answer(True, False, str(response.status))
    except urllib.error.HTTPError as error:
        with error:
            may_pass = error.code >= 500 or error.code in _TRY_AGAIN
            redirected = " (redirects are not followed)" if 300 <= error.code < 400 else ""
            return Answer(False, may_pass, printable(f"{error.code} {error.reason}{redirected}"))
    except HTTPException as error:
        return Answer(False, True, printable(f"no HTTP answer: {error!r}"))
    except OSError as error:
        return Answer(False, True, printable(str(error)))
