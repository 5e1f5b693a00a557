"""Nobody gets in: receivers, caches, tokens, origins and names that mean harm. The list grows; each is a test, too."""

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import fencepost as fp
from fencepost.published import VersionDirectory
from tests.campaign.changed_bytes import ROWS, SCHEMA
from tests.campaign.inputs import NASTY
from tests.campaign.trial import Trial, require

CALLS = 20
"""Of one try, of strangers."""


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def try_receivers(seed: int) -> int:
    """A receiver redirects, or answers something else than HTTP."""
    from tests.deliveries import test_deliveries as tests

    rng = random.Random(seed)  # noqa: S311
    said = [rng.choice(tests.NOT_HTTP), b"x" + rng.randbytes(rng.choice([1, 30, 70_000]))]
    with _folder() as path:
        tests.test_a_redirect_is_not_followed(path / "redirect", rng.choice([301, 302, 303, 307, 308]))
        for number, each in enumerate(said):
            tests.test_an_answer_that_is_not_http_is_counted_retried_and_kept(path / str(number), each)
        for address in ("file:///etc/hostname", "ftp://127.0.0.1:1/x", "data:text/plain,x", "/here"):
            tests.test_only_http_is_spoken(path / "none", address)
    return 7


def try_cache(_: int) -> int:
    """Somebody else has planted the cache, or keeps files in it."""
    from tests._files import test_local_copies as tests

    attacks: list[Any] = [tests.test_files_of_others_stay, tests.test_a_directory_of_another_user_is_refused]
    for attack in attacks:
        with _folder() as path, pytest.MonkeyPatch.context() as patch:
            patch.setenv("FENCEPOST_CACHE", str(path))
            attack(path, patch)
    for problem in ("link", "file", "mode"):
        with _folder() as path, pytest.MonkeyPatch.context() as patch:
            patch.setenv("FENCEPOST_CACHE", str(path))
            tests.test_a_directory_that_others_could_have_planted_is_refused(path, problem)
    return len(attacks) + 3


def try_code(seed: int) -> int:
    """Compiled code, or its directory, may be written by others."""
    from tests import test_compiled as tests

    with _folder() as path:
        tests.test_a_cache_that_others_may_write_to_is_left_alone(path, ("directory", "file")[seed % 2])
    with _folder() as path, pytest.MonkeyPatch.context() as patch:
        tests.test_a_cache_is_judged_by_owner_and_mode_once(path, patch)
    return 2


@contextmanager
def _closed(path: Path) -> Iterator[tuple[Any, Any]]:
    """A service behind tokens, and its tokens."""
    from fencepost.book.tokens import Tokens
    from fencepost.service.web.doors import Doors
    from tests.service.services import Client, serving

    with Tokens(f"sqlite:///{path / 'rules.db'}") as tokens, serving(path / "data") as service:
        yield Client(service, doors=Doors(tokens)), tokens


def try_tokens(seed: int) -> int:
    """Routes with no token, one of another scope, one that has ended, a session from another origin."""
    from tests.service import test_doors as tests

    route = random.Random(seed).choice(tests.ROUTES)  # noqa: S311
    with _folder() as path, _closed(path) as (call, tokens):
        tests.test_a_route_needs_a_token_with_its_scope(call, tokens, *route)
    with _folder() as path, _closed(path) as (call, tokens):
        tests.test_a_session_is_for_pages_of_this_origin(call, tokens)
    with _folder() as path, _closed(path) as (_, tokens):
        tests.test_tokens_end(tokens)
    return 3


def try_strangers(seed: int) -> int:
    """Tokens that somebody guesses or changes, and paths that lead out of what is served."""
    from fencepost.service.web.doors import COOKIE

    rng = random.Random(seed)  # noqa: S311
    with _folder() as path, _closed(path) as (call, tokens):
        text, _ = tokens.create("ann", ["admin"])
        (path / "data" / "secret").write_text("precious")
        for _ in range(CALLS):
            at = rng.randrange(len(text))
            guess = rng.choice(
                [
                    text[:at],
                    text + "A",
                    text[:at] + "_" + text[at + 1 :] + "x",
                    text.swapcase(),
                    "",
                    "fp_",
                    "%00" + text,
                ]
            )
            name, value = rng.choice(
                [
                    ("Authorization", f"Bearer {guess}"),
                    ("Authorization", f"{rng.choice(['Basic', 'bearer', '', 'Bearer  Bearer'])} {guess}"),
                    ("Cookie", f"{COOKIE}={text}"),
                    ("X-Forwarded-For", "127.0.0.1"),
                    ("X-Forwarded-User", "admin"),
                ]
            )
            answer = call("GET", f"/v1/rules?token={quote(text)}", headers={name: value})
            require(answer.status_code in (400, 401), f"{name}: {value} was answered with {answer.status_code}")
            up = rng.choice(["../", "..%2f", "%2e%2e/", "..\\", "....//", "/", "%00/"]) * rng.randint(1, 5)
            for place in ("/", "/static/", "/assets/", "/login/"):
                target = place + up + rng.choice(["secret", "data/secret", "etc/passwd"])
                answer = call("GET", target.replace("//", "/%2f"))
                told = "precious" in answer.text or "root:" in answer.text
                require(not told and answer.status_code != 500, f"{place}{up} was answered with {answer.text[:200]}")
    return 5 * CALLS


def try_names(seed: int) -> int:
    """Files and directories whose names mean harm: what is written lies there and nowhere else."""
    rng = random.Random(seed)  # noqa: S311
    drawn = "".join(rng.choice([*NASTY, "..", "~", "$HOME", "*", "?", "-rf", "%2f"]) for _ in range(4))
    name = drawn.replace("\x00", "").replace("/", "") or "x"
    rules = fp.Rules()
    rules.add(1, "price > 40")
    with _folder() as path:
        (path / "file.jsonl").write_text('{"id": 1, "condition": "price > 40"}\n')
        os.rename(path / "file.jsonl", path / f"{name}.jsonl")
        with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
            book.import_file(path / f"{name}.jsonl")
            require(len(book) == 1, "the rule is missing")
            book.publish(path / f"{name}.rules", schema=SCHEMA)
        found = VersionDirectory(path / f"{name}.rules").load().match(ROWS).sets()
        require(found == rules.compile(SCHEMA).match(ROWS).sets(), "another answer")
        monitor = fp.Monitor(rules, object="o", time="t")
        monitor.save(path / f"{name}.state")
        monitor.restore(path / f"{name}.state")
        there = {file.name for file in path.iterdir()}
        expected = {"book.db", *(f"{name}.{ending}" for ending in ("jsonl", "rules", "state"))}
        require(there == expected, f"there are {sorted(there)}")
    return 3


PROMISE = "nobody gets in"
TRIALS = [
    Trial("door.receivers", PROMISE, "receivers that redirect, or speak something else than HTTP", try_receivers),
    Trial("door.cache", PROMISE, "a cache that somebody else has planted", try_cache),
    Trial("door.code", PROMISE, "compiled code that others may write to", try_code, long=True),
    Trial("door.tokens", PROMISE, "tokens without the scope, ended ones, sessions from other origins", try_tokens),
    Trial("door.strangers", PROMISE, "guessed tokens, forged headers, paths that lead out", try_strangers),
    Trial("door.names", PROMISE, "names of files that mean harm", try_names),
]
