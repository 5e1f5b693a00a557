"""Events reach a receiver at least once and in order, whatever it does; what it does not take is kept."""

import hashlib
import hmac
import importlib.metadata
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fencepost.deliveries.hook import Hook
from fencepost.deliveries.sender import Delivered, Sender
from fencepost.deliveries.spool import Event, Letter, Spool, stream_batch
from fencepost.errors import FencepostError
from tests.deliveries.receivers import raw_receiver, receiver


def events(count: int, objects: int = 5, first: int = 0) -> list[Event]:
    return [
        Event(f"id{number}", f"object {number % objects}", json.dumps({"event_id": f"id{number}", "number": number}))
        for number in range(first, first + count)
    ]


def put(spool: Spool, batch: int, given: list[Event], parts: int = 2) -> None:
    name = stream_batch(batch)
    spool.commit(name, {part: spool.write_part(name, part, given[part::parts]) for part in range(parts)})


def hook(url: str, **others: Any) -> Hook:
    return Hook(url, **{"retries": 3, "backoff": 0.01, "wait": 2.0, **others})


def send(spool: Spool, to: Hook) -> Sender:
    sender = Sender(spool, to).start()
    try:
        sender.drain()
    finally:
        sender.stop()
    return sender


def in_order(bodies: list[Any], given: list[Event], parts: int = 2) -> bool:
    """Whether the events of each object came in the order in which the spool has them."""
    objects = {event.key: event.object for event in given}
    order = [event.key for part in range(parts) for event in given[part::parts]]
    return all(
        [body["event_id"] for body in bodies if objects[body["event_id"]] == object]
        == [key for key in order if objects[key] == object]
        for object in set(objects.values())
    )


def test_every_event_arrives_once_and_in_the_order_of_its_object(tmp_path: Path) -> None:
    spool, given = Spool(tmp_path), events(300)
    put(spool, 0, given)
    with receiver(wait=0.002) as heard:
        sender = send(spool, hook(heard.url, headers={"X-Team": "desk"}))
    assert sender.counts == Delivered(300, 0, 0)
    assert in_order(heard.bodies, given)
    headers = heard.posts[0][0]
    assert headers["Idempotency-Key"] == heard.bodies[0]["event_id"]
    assert (headers["X-Team"], headers["User-Agent"].split("/")[0]) == ("desk", "fencepost")
    assert (spool.waiting(), spool.names(), spool.letters()) == (0, [], [])
    assert list((tmp_path / "batches").iterdir()) == []


@pytest.mark.parametrize("seed", range(5))
def test_order_is_kept_through_failures_at_random(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    spool, given = Spool(tmp_path), events(120, objects=4)
    put(spool, 0, given[:50])
    put(spool, 1, given[50:])
    with receiver(lambda _: 503 if rng.random() < 0.3 else 200) as heard:
        sender = send(spool, hook(heard.url, retries=50, backoff=0.001))
    assert sender.counts.posted == 120
    assert sender.counts.retries > 10
    assert in_order([b for b in heard.bodies if int(b["number"]) < 50], given[:50])
    assert in_order([b for b in heard.bodies if int(b["number"]) >= 50], given[50:])


def test_events_go_in_arrays_that_are_signed(tmp_path: Path) -> None:
    spool, given = Spool(tmp_path), events(95, objects=3)
    put(spool, 0, given)
    with receiver() as heard:
        sender = send(spool, hook(heard.url, batch=10, secret="s3cret"))  # noqa: S106
    assert sender.counts == Delivered(95, 0, 0)
    assert max(len(body) for body in heard.bodies) == 10
    assert in_order([event for body in heard.bodies for event in body], given)
    for headers, _ in heard.posts:
        signature = hmac.new(b"s3cret", headers["raw"].encode(), hashlib.sha256).hexdigest()
        assert headers["X-Fencepost-Signature"] == f"sha256={signature}"


def test_an_event_that_is_refused_is_kept_with_the_reason_and_can_be_sent_again(tmp_path: Path) -> None:
    spool, given = Spool(tmp_path), events(20)
    put(spool, 0, given)
    with receiver(lambda body: 422 if body["number"] == 7 else 200) as heard:
        sender = send(spool, hook(heard.url))
        assert sender.counts == Delivered(19, 0, 1)
        assert sender.reason == "422 Unprocessable Entity"
        [letter] = Spool(tmp_path).letters()
        assert (letter.event.key, letter.attempts, letter.said) == ("id7", 1, "422 Unprocessable Entity")
    assert len(heard.posts) == 19
    assert Spool(tmp_path).retry(1) == 1
    with receiver() as heard:
        assert send(Spool(tmp_path), hook(heard.url)).counts == Delivered(1, 0, 0)
    assert heard.bodies == [{"event_id": "id7", "number": 7}]
    assert Spool(tmp_path).letters() == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(tmp_path: Path, status: int) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(1))
    with receiver() as elsewhere, receiver(lambda _: status, location=elsewhere.url) as heard:
        sender = send(spool, hook(heard.url, headers={"Authorization": "Bearer x"}))
    assert elsewhere.posts == heard.posts == []
    assert sender.counts == Delivered(0, 0, 1)
    assert (sender.reason or "").endswith("redirects are not followed")


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1:1/x", "data:text/plain,x", "/here"])
def test_only_http_is_spoken(tmp_path: Path, address: str) -> None:
    with pytest.raises(FencepostError, match="as a webhook; expected http:// or https:// and a host"):
        Sender(Spool(tmp_path), hook(address))


def test_code_that_is_not_installed_can_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    spool = Spool(tmp_path)
    put(spool, 0, events(1))
    with receiver() as heard:
        assert send(spool, hook(heard.url)).counts == Delivered(1, 0, 0)
    assert heard.posts[0][0]["User-Agent"] == "fencepost"


def test_undelivered_events_may_lie_elsewhere(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", tmp_path / "letters")
    put(spool, 0, events(3))
    with receiver(lambda _: 400) as heard:
        send(spool, hook(heard.url))
    assert [path.name for path in (tmp_path / "letters").iterdir()] == [f"{stream_batch(0)}.jsonl"]
    assert len(Spool(tmp_path / "spool").letters()) == 3


NOT_HTTP = [
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(300)) + b"\r\n",
    b"",
    b"HTTP/1.1 999999 \x1b[31mred\r\n\r\n",
    b"HTTP/1.1 500 \x1b[31mred\r\nContent-Length: 0\r\n\r\n",
]


@pytest.mark.parametrize("said", NOT_HTTP)
def test_an_answer_that_is_not_http_is_counted_retried_and_kept(tmp_path: Path, said: bytes) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(2, objects=1))
    with raw_receiver(said) as url:
        sender = send(spool, hook(url, retries=2))
    assert sender.counts.undelivered == 2
    assert sender.counts.retries == 2
    letters = spool.letters()
    assert [letter.attempts for letter in letters] == [3, 1]  # while it is down, an event has one attempt
    assert all(letter.said.isprintable() and len(letter.said) <= 300 for letter in letters)


def test_an_answer_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(3))
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n" + b"z" * 300_000
    with raw_receiver(endless) as url:
        begun = time.monotonic()
        sender = send(spool, hook(url))
    assert sender.counts.posted == 3
    assert time.monotonic() - begun < 60


def test_a_receiver_that_hangs_holds_up_nothing_but_itself(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(4))
    with raw_receiver(b"", pause=30) as url:
        sender = Sender(spool, hook(url, wait=0.2, retries=0)).start()
        put(spool, 1, events(4, first=4))
        sender.drain()
        sender.stop()
    assert sender.counts == Delivered(0, 0, 8)
    assert {"timed out" in letter.said for letter in spool.letters()} == {True}


def test_a_batch_that_the_stream_repeats_is_not_sent_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(5))
    assert spool.has_batch(0)
    assert not spool.has_batch(1)
    with receiver() as heard:
        send(spool, hook(heard.url))
    again = Spool(tmp_path)
    assert again.has_batch(0)
    put(again, 1, [])  # a micro-batch without events
    assert again.has_batch(1)
    assert again.names() == []


def test_a_batch_is_noted_when_it_goes_and_until_then_is_its_own_note(tmp_path: Path) -> None:
    spool, last = Spool(tmp_path), tmp_path / "last.json"
    put(spool, 0, events(5))
    put(spool, 1, [])
    assert not last.exists(), "nothing but its head is synced for a batch"
    assert [Spool(tmp_path).has_batch(batch) for batch in (0, 1)] == [True, False]
    put(spool, 2, events(3))
    with receiver() as heard:
        send(spool, hook(heard.url))
    assert json.loads(last.read_text())["batch"] == 2
    assert [Spool(tmp_path).has_batch(batch) for batch in (0, 1, 2, 3)] == [True, True, True, False]


def test_parts_of_another_run_are_not_taken(tmp_path: Path) -> None:
    spool, name, told = Spool(tmp_path), stream_batch(4), events(6)
    spool.start_parts()
    spool.write_ahead("a-4", 1, events(3))  # this attempt was not committed
    spool.start_parts()
    spool.write_ahead("b-4", 0, told[:4])
    spool.write_ahead("b-4", 11, told[4:])
    spool.write_ahead("b-4", 12, [])
    spool.write_ahead("a-4", 0, events(5))  # a task of it goes on
    spool.commit(name, parts := spool.take_parts("b-4", name))
    assert parts == {0: 4, 11: 2}
    assert [each.event for each in Spool(tmp_path).read(name)] == told
    spool.start_parts()
    assert list((tmp_path / "writing").iterdir()) == []


def test_how_many_wait_is_known_while_they_are_sent(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(12))
    waiting = list(spool.read(stream_batch(0)))
    spool.finish(waiting[:2])
    assert spool.waiting() == 10
    spool.finish(waiting[2:5])
    put(spool, 1, events(4))
    assert spool.waiting() == Spool(tmp_path).waiting() == 11
    spool.remove(stream_batch(0))
    assert spool.waiting() == 4


def test_a_part_without_its_head_is_never_sent(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write_part(stream_batch(3), 0, events(5))
    assert spool.names() == []
    put(spool, 3, events(2))  # the stream repeats it
    (tmp_path / "batches" / f"{stream_batch(2)}-00000.jsonl").write_bytes(b"left by a crash after it was sent")
    with receiver() as heard:
        assert send(spool, hook(heard.url)).counts.posted == 2
    assert list((tmp_path / "batches").iterdir()) == []


def test_a_draft_that_a_kill_left_goes_when_the_next_process_starts(tmp_path: Path) -> None:
    put(Spool(tmp_path), 0, events(3))
    dead = tmp_path / "batches" / ".stream-0000000007-00001.jsonl.0000000000000000"
    dead.write_text("half")
    os.utime(dead, (0, 0))
    Spool(tmp_path).open()
    assert not dead.exists()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    put(Spool(tmp_path), 0, events(30))
    path = tmp_path / "batches" / f"{stream_batch(0)}-00001.jsonl"
    whole = path.read_bytes()
    rng = random.Random(2)  # noqa: S311
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(rng.choice([bytes(damaged), whole[: rng.randrange(len(whole))], whole + b"x"]))
        with pytest.raises(FencepostError, match="is damaged"):
            list(Spool(tmp_path).read(stream_batch(0)))
    with receiver() as heard, pytest.raises(FencepostError, match="is damaged"):
        send(Spool(tmp_path), hook(heard.url))
    path.write_bytes(whole)
    with receiver() as heard:
        assert send(Spool(tmp_path), hook(heard.url)).counts.posted == 30


def test_a_line_of_the_log_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(12), parts=1)
    (tmp_path / "batches" / f"{stream_batch(0)}.sent").write_bytes(b"0 0\n0 3\n0 1")
    assert [delivery.line for delivery in spool.read(stream_batch(0))] == [1, 2, *range(4, 12)]
    assert spool.waiting() == 10


def test_what_is_noted_as_sent_is_known_again_and_a_changed_note_sends_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    put(spool, 0, events(12), parts=1)
    given = list(spool.read(stream_batch(0)))
    spool.finish(given[:10])
    spool.close()
    assert [delivery.line for delivery in Spool(tmp_path).read(stream_batch(0))] == [10, 11]
    path = tmp_path / "batches" / f"{stream_batch(0)}.sent"
    whole = path.read_bytes()
    rng = random.Random(3)  # noqa: S311
    for _ in range(300):
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        waiting = [delivery.line for delivery in Spool(tmp_path).read(stream_batch(0))]
        assert {10, 11} <= set(waiting), "nothing that is left is taken for sent"
        assert len(waiting) <= 4


def test_a_letter_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    spool, given = Spool(tmp_path), events(3)
    spool.give_up({stream_batch(0): [Letter(event, 1, "no") for event in given[:2]]})
    path = tmp_path / "undelivered" / f"{stream_batch(0)}.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert [letter.event for letter in Spool(tmp_path).letters()] == given[:1]
    Spool(tmp_path).give_up({stream_batch(0): [Letter(event, 2, "again") for event in given[1:]]})
    assert [letter.event for letter in Spool(tmp_path).letters()] == given
    content = path.read_bytes()
    at = content.index(given[2].key.encode())
    path.write_bytes(content[:at] + b"?" + content[at + 1 :])
    with pytest.raises(FencepostError, match="is damaged"):
        Spool(tmp_path).letters()


SENDING = """
import sys
from pathlib import Path
from fencepost.deliveries.hook import Hook
from fencepost.deliveries.sender import Sender
from fencepost.deliveries.spool import Spool
sender = Sender(Spool(Path(sys.argv[1])), Hook(sys.argv[2], backoff=0.01, concurrency=8)).start()
sender.drain()
sender.stop()
"""


@pytest.mark.slow
def test_a_sender_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)  # noqa: S311
    given = events(400, objects=20)
    put(Spool(tmp_path), 0, given)
    with receiver(wait=0.005) as heard:
        for _ in range(8):
            process = subprocess.Popen([sys.executable, "-c", SENDING, str(tmp_path), heard.url])  # noqa: S603
            before = len(heard.posts)
            while len(heard.posts) < before + 20 and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run([sys.executable, "-c", SENDING, str(tmp_path), heard.url], check=True)  # noqa: S603
    counted = Counter(body["event_id"] for body in heard.bodies)
    assert set(counted) == {event.key for event in given}
    assert sum(counted.values()) - 400 <= 9 * 8  # again only what was under way
    firsts = list({body["event_id"]: body for body in heard.bodies}.values())
    assert in_order(firsts, given)
    assert Spool(tmp_path).names() == []
