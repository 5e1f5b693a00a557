"""A spool: batches of events in files, kept until the receiver has taken them or they were given up.

DIR/batches/NAME-00003.jsonl   a part of a batch: an event a line, and a last line with their number and checksum
DIR/batches/NAME.json          says that a batch is whole and how many events it has; without it, nothing is sent
DIR/batches/NAME.sent          the events that are done with, a line each, in the order in which that happened
DIR/last.json                  the last batch of the stream that is gone: one that comes again is not sent twice
DIR/writing/NAME-00003.jsonl   a part of a batch that is still computed
DIR/undelivered/NAME.jsonl     events that were given up, with the reason
DIR/undelivered.json           where these are, if not there

Every file has checksums: lists that grow have one in each line. What older versions wrote without is read as it is.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fencepost._files.whole import (
    delete_dead_drafts,
    make_folder,
    opened_note,
    read_note,
    replace_file,
    sealed_note,
    sync,
    write_note,
)
from fencepost.errors import FencepostError

_BATCH = re.compile(r"(stream|retry)-[0-9]{10}\.json")
_RESTORE = "Restore it, or delete it to go on without its events."
_SENT = re.compile(rb"(([0-9]+) ([0-9]+))(?: =([0-9a-f]{8}))?")
"""A line about an event that is done with: its part and line, and a checksum of both."""
_LONGEST_END = 200
"""Bytes that the last line of a part has at most."""


class Event(NamedTuple):
    """What is posted."""

    key: str
    """Tells the receiver whether it has the event already."""
    object: str | None
    """Events of one object are sent in their order; None where the order does not matter."""
    body: str


class Delivery(NamedTuple):
    """An event of the spool, with its place there."""

    batch: str
    part: int
    line: int
    event: Event
    tries: int = 0


class Letter(NamedTuple):
    """An event that was given up."""

    event: Event
    attempts: int
    said: str
    """By the receiver, or about the way to it."""


class Spool:
    """The batches below a directory. One process sends them; any process may write the parts of a batch."""

    def __init__(self, directory: Path, undelivered: Path | None = None) -> None:
        self.directory, self._batches, self._writing = directory, directory / "batches", directory / "writing"
        elsewhere = _read_place(directory) if undelivered is None else {"directory": str(undelivered)}
        self._elsewhere = elsewhere
        self.undelivered = directory / "undelivered" if elsewhere is None else Path(elsewhere["directory"])
        self._logs: dict[str, Any] = {}
        self._left: dict[str, int] = {}
        """Events of batches that are to be sent, as far as they were counted."""
        self._newest: int | None = None
        """The last batch of the stream; None where it was not looked for yet."""
        self._lock = threading.Lock()

    # -- batches in ----------------------------------------------------------------------------------------

    def has_batch(self, number: int) -> bool:
        """Whether a batch of the stream was committed, now or before a restart."""
        if self._newest is None:
            self._newest = self._find_newest()
        return number <= self._newest

    def start_parts(self) -> None:
        """Make room for the parts of a batch; what earlier attempts have left goes."""
        make_folder(self._batches)
        make_folder(self._writing)
        for path in self._writing.iterdir():
            path.unlink(missing_ok=True)

    def write_ahead(self, name: str, part: int, events: Iterable[Event]) -> None:
        """Write one part of a batch whose other parts nobody counts yet; `take_parts` finds it."""
        self._write_events(self._writing / f"{name}-{part:05}.jsonl", events)

    def take_parts(self, written: str, name: str) -> dict[int, int]:
        """Make parts that were `written` under one name those of a batch; how many events each has."""
        found = {}
        for path in self._writing.glob(f"{written}-*.jsonl"):
            part = int(path.stem[len(written) + 1 :])
            found[part] = _read_end(path)
            path.replace(self._batches / f"{name}-{part:05}.jsonl")
        return found

    def write_part(self, name: str, part: int, events: Iterable[Event]) -> int:
        """Write one part of a batch, in place of what an earlier attempt wrote; how many events it has."""
        make_folder(self._batches)
        return self._write_events(self._batches / f"{name}-{part:05}.jsonl", events)

    def _write_events(self, path: Path, events: Iterable[Event]) -> int:
        """Write a file of events, unless there are none. Its name survives a loss of power once `commit` has ended."""
        lines = [f"{json.dumps([*event], ensure_ascii=False)}\n".encode() for event in events]
        if lines:
            digest = hashlib.blake2b(b"".join(lines), digest_size=16).hexdigest()
            end = f"{json.dumps({'events': len(lines), 'checksum': digest})}\n".encode()
            with replace_file(path, durable=False, ours=True) as draft:
                draft.write_bytes(b"".join([*lines, end]))
                sync(draft)
        return len(lines)

    def commit(self, name: str, parts: Mapping[int, int]) -> None:
        """Let a batch be sent; `parts` has the number of events of each.

        Of a batch without events nothing is noted: it may come again.
        """
        held = {part: events for part, events in parts.items() if events}
        if held:
            write_note(self._batches / f"{name}.json", {"parts": held})  # which syncs the folder, with all names in it
        number = _number_of(name)
        if number is not None and not self.has_batch(number):
            self._newest = number

    # -- batches out ---------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The batches that are to be sent, in their order."""
        if not self._batches.is_dir():
            return []
        return sorted(
            entry.name.removesuffix(".json") for entry in self._batches.iterdir() if _BATCH.fullmatch(entry.name)
        )

    def read(self, name: str) -> Iterator[Delivery]:
        """The events of a batch that are not done with yet."""
        sent = self._sent(name)
        for part, events in sorted(self._parts(name).items()):
            path = self._batches / f"{name}-{part:05}.jsonl"
            for line, event in enumerate(_read_part(path, events)):
                if (part, line) not in sent:
                    yield Delivery(name, part, line, event)

    def waiting(self) -> int:
        """How many events are to be sent."""
        names = self.names()
        with self._lock:
            self._left = {name: self._left.get(name, -1) for name in names}
            for name in names:
                if self._left[name] < 0:
                    self._left[name] = sum(self._parts(name).values()) - len(self._sent(name))
            return sum(self._left.values())

    def finish(self, done: Sequence[Delivery]) -> None:
        """Note that events are done with; a restart does not send them again."""
        with self._lock:
            for each in done:
                if each.batch not in self._logs:
                    self._logs[each.batch] = open(self._batches / f"{each.batch}.sent", "ab", buffering=0)  # noqa: SIM115
                place = f"{each.part} {each.line}".encode()
                self._logs[each.batch].write(b"%b =%b\n" % (place, _short_digest(place)))
                if each.batch in self._left:
                    self._left[each.batch] -= 1

    def remove(self, name: str) -> None:
        """Forget a batch that is done with. Its head goes first: what a crash leaves behind is never sent.

        Before that it is noted, if it is the last one that was here.
        """
        number, last = _number_of(name), self._last()
        if number is not None and (last is None or number > last):
            write_note(self.directory / "last.json", {"batch": number})
        with self._lock:
            if (log := self._logs.pop(name, None)) is not None:
                log.close()
        (self._batches / f"{name}.json").unlink(missing_ok=True)
        for path in self._batches.glob(f"{name}[-.]*"):
            path.unlink(missing_ok=True)

    def open(self) -> None:
        """Make the directory, and delete what a crash left of batches that were sent; before anything is sent."""
        make_folder(self._batches)
        delete_dead_drafts(self._batches, anew=True)
        if self._elsewhere is not None:
            write_note(self.directory / "undelivered.json", self._elsewhere)
        names, self._newest = set(self.names()), self._find_newest()
        for path in self._batches.glob("stream-*"):
            name = path.name[: len("stream-") + 10]
            if name not in names and int(name.partition("-")[2]) <= self._newest:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files that are open."""
        with self._lock:
            for log in self._logs.values():
                log.close()
            self._logs.clear()

    def _parts(self, name: str) -> dict[int, int]:
        head = read_note(self._batches / f"{name}.json", {"parts": dict}, _RESTORE)
        return {int(part): int(events) for part, events in (head or {"parts": {}})["parts"].items()}

    def _find_newest(self) -> int:
        """The last batch of the stream that was committed; -1 before the first one.

        Batches are listed first: what goes meanwhile is noted by then.
        """
        here = [number for number in map(_number_of, self.names()) if number is not None]
        last = self._last()
        return max([-1 if last is None else last, *here])

    def _last(self) -> int | None:
        """The last batch of the stream that is gone."""
        last = read_note(self.directory / "last.json", {"batch": int}, _RESTORE)
        return None if last is None else int(last["batch"])

    def _sent(self, name: str) -> set[tuple[int, int]]:
        """A line that a crash cut off, or that has changed, does not count: its event is sent again."""
        try:
            *lines, _ = (self._batches / f"{name}.sent").read_bytes().split(b"\n")
        except FileNotFoundError:
            return set()
        found = [match for match in map(_SENT.fullmatch, lines) if match is not None]
        if any(match[4] for match in found):  # older versions wrote no checksums
            found = [match for match in found if match[4] == _short_digest(match[1])]
        return {(int(match[2]), int(match[3])) for match in found}

    # -- events that were given up -------------------------------------------------------------------------

    def give_up(self, letters: Mapping[str, Sequence[Letter]]) -> None:
        """Keep events that are not sent any more, by batch; call `finish` afterwards."""
        make_folder(self.undelivered)
        with self._lock:
            for name, given in letters.items():
                path = self.undelivered / f"{name}.jsonl"
                _drop_torn_end(path)
                with open(path, "ab") as file:
                    for letter in given:
                        event = json.loads(letter.event.body)
                        kept = {"key": letter.event.key, "attempts": letter.attempts, "said": letter.said}
                        kept |= {"object": letter.event.object, "event": event, "body": letter.event.body}
                        file.write(f"{sealed_note(kept)}\n".encode())
                    file.flush()
                    os.fsync(file.fileno())
            sync(self.undelivered)

    def letters(self) -> list[Letter]:
        """The events that were given up, each once."""
        found: dict[str, Letter] = {}
        for path in sorted(self.undelivered.glob("*.jsonl")) if self.undelivered.is_dir() else ():
            found |= {letter.event.key: letter for letter in _read_letters(path)}
        return list(found.values())

    def retry(self, number: int) -> int:
        """Make a batch of all events that were given up; how many they are. A sender that runs finds it by itself."""
        name, letters = f"retry-{number:010}", self.letters()
        if letters:
            taken = list(self.undelivered.glob("*.jsonl"))
            self.commit(name, {0: self.write_part(name, 0, [letter.event for letter in letters])})
            for path in taken:
                path.unlink(missing_ok=True)
        return len(letters)

    def drop(self) -> int:
        """Delete the events that were given up; how many they were."""
        count = len(self.letters())
        for path in self.undelivered.glob("*.jsonl") if self.undelivered.is_dir() else ():
            path.unlink(missing_ok=True)
        return count


def find_spools(directory: Path) -> dict[str, Spool]:
    """The spools of a checkpoint, or of what fencepost keeps in it, by the name of their sink; "" for an only sink.

    A spool that is named itself is found, too.
    """
    own = directory / "fencepost" if (directory / "fencepost").is_dir() else directory
    places = {"": own / "deliveries"}
    places |= {place.parent.name: place for place in sorted(own.glob("sinks/*/deliveries"))}
    found = {name: Spool(place) for name, place in places.items() if _is_spool(place)}
    return found or ({"": Spool(directory)} if _is_spool(directory) else {})


def _is_spool(place: Path) -> bool:
    return (place / "batches").is_dir() or (place / "undelivered").is_dir() or (place / "last.json").is_file()


def stream_batch(number: int) -> str:
    """The name of a batch of the stream."""
    return f"stream-{number:010}"


def _number_of(name: str) -> int | None:
    """The number of a batch of the stream; None for others."""
    kind, _, number = name.partition("-")
    return int(number) if kind == "stream" else None


def _read_end(path: Path) -> int:
    """How many events a part says that it has."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LONGEST_END))
        end = file.read().splitlines()[-1]
    return int(json.loads(end)["events"])


def _digest_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _short_digest(content: bytes) -> bytes:
    return _digest_of(content)[:8].encode()


def _read_place(directory: Path) -> dict[str, Any] | None:
    """Where undelivered events are, if not in the spool."""
    return read_note(directory / "undelivered.json", {"directory": str}, _RESTORE)


def _read_part(path: Path, expected: int) -> list[Event]:
    try:
        *lines, end = path.read_bytes().splitlines(keepends=True)
        whole = json.loads(end) == {"events": expected, "checksum": _digest_of(b"".join(lines))}
    except (FileNotFoundError, ValueError):
        whole, lines = False, []
    if not whole or len(lines) != expected:
        raise _damaged(path)
    return [Event(*json.loads(line)) for line in lines]


def _drop_torn_end(path: Path) -> None:
    """Take away a last line that a crash or a full disk has cut off, so that the next one stands alone."""
    content = path.read_bytes() if path.exists() else b""
    if not content.endswith(b"\n") and content:
        os.truncate(path, content.rfind(b"\n") + 1)


def _read_letters(path: Path) -> Iterator[Letter]:
    *lines, _ = path.read_bytes().split(b"\n")  # what is behind the last end of a line was cut off
    for line in lines:
        kept = opened_note(line, path, {"key": str, "body": str, "attempts": int, "said": str}, _RESTORE)
        yield Letter(Event(kept["key"], kept.get("object"), kept["body"]), kept["attempts"], kept["said"])


def _damaged(path: Path) -> FencepostError:
    return FencepostError(f"{path} is damaged", "the file as it was written", _RESTORE)
