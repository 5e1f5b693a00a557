"""One attempt to post events to a receiver, and what its answer means."""

import hashlib
import hmac
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import urllib3

from fencepost._text import mask_url, mask_urls, printable
from fencepost.deliveries.spool import Event
from fencepost.errors import FencepostError

_TRY_AGAIN = {408, 425, 429}
"""Refusals that may pass, beside those of 500 and above."""
_MOST_READ = 1 << 16
"""Bytes of an answer that are read. Nobody needs them, but then the connection can be used again."""
_LONGEST_PAUSE = 60.0


class Hook(NamedTuple):
    """Where and how to post."""

    url: str
    """A user and password in it are sent as basic authentication."""
    headers: Mapping[str, str] = {}
    retries: int = 10
    backoff: float = 1.0
    """Seconds before the first retry; doubled for each further one, up to a minute."""
    wait: float = 10.0
    """Seconds for an answer."""
    concurrency: int = 64
    """Posts under way at once."""
    batch: int = 1
    """Events in one post: above 1, an array of them."""
    secret: str | None = None
    """Signs every body."""
    certificates: str | None = None
    """A file of certificates to trust in place of the system's."""


class Answer(NamedTuple):
    """How an attempt ended."""

    taken: bool
    may_pass: bool
    """Whether another attempt may succeed."""
    said: str
    pause: float = 0.0
    """Seconds that the receiver asks to wait."""


class Receiver:
    """Posts to one origin, over connections that stay open. It follows nothing and asks no proxy."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        parsed = urllib3.util.parse_url(hook.url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            got = f"{mask_url(hook.url)!r} as a webhook"
            raise FencepostError(got, "http:// or https:// and a host", "Correct the address.")
        trusted = {} if parsed.scheme != "https" else {"cert_reqs": "CERT_REQUIRED", "ca_certs": hook.certificates}
        self._target = parsed.request_uri
        user = {} if parsed.auth is None else urllib3.util.make_headers(basic_auth=unquote(parsed.auth))
        self._pool = urllib3.connection_from_url(
            parsed._replace(auth=None).url,
            maxsize=hook.concurrency,
            timeout=urllib3.Timeout(hook.wait),
            retries=False,
            **trusted,
        )
        self._headers = {"User-Agent": _name_agent(), "Content-Type": "application/json", **user, **hook.headers}

    def post(self, events: Sequence[Event]) -> Answer:
        """Try once."""
        body = (events[0].body if self._hook.batch == 1 else f"[{','.join(event.body for event in events)}]").encode()
        key = events[0].key if len(events) == 1 else _key_of(events)
        headers = {**self._headers, "Idempotency-Key": key}
        if self._hook.secret is not None:
            signature = hmac.new(self._hook.secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Fencepost-Signature"] = f"sha256={signature}"
        try:
            response = self._pool.urlopen(
                "POST", self._target, body, headers, redirect=False, assert_same_host=False, preload_content=False
            )
            try:
                response.read(_MOST_READ)
            finally:
                response.release_conn() if response.length_remaining == 0 else response.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return Answer(False, True, _first_line(error))
        return _judge(response)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def _name_agent() -> str:
    try:
        return f"fencepost/{importlib.metadata.version('fencepost')}"
    except importlib.metadata.PackageNotFoundError:  # it runs from a zip, or from its sources
        return "fencepost"


def pause_before(attempt: int, hook: Hook, asked: float) -> float:
    """Seconds before the attempt of this number, which counts from 1 for the first retry."""
    return max(min(hook.backoff * 2.0 ** (attempt - 1), _LONGEST_PAUSE), min(asked, _LONGEST_PAUSE))


def _judge(response: urllib3.BaseHTTPResponse) -> Answer:
    status, said = response.status, _first_line(f"{response.status} {response.reason or ''}")
    if 200 <= status < 300:
        return Answer(True, False, said)
    if 300 <= status < 400:
        return Answer(False, False, f"{said}: redirects are not followed")
    asked = response.headers.get("Retry-After", "")
    return Answer(False, status >= 500 or status in _TRY_AGAIN, said, float(asked) if asked.isdecimal() else 0.0)


def _key_of(events: Sequence[Event]) -> str:
    return hashlib.blake2b("\n".join(event.key for event in events).encode(), digest_size=16).hexdigest()


def _first_line(error: object) -> str:
    """What a person needs to see of it: a short line without control characters and passwords."""
    return printable(mask_urls(str(error) or type(error).__name__).splitlines()[0])[:300]
