"""A book in PostgreSQL whose password is rotated: the pipeline goes on, and no file knows either password."""

import json
import os
import stat
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.pipeline import PipelineFaultsError, check, run
from tests import postgres
from tests.pipeline.test_book import WATCH, put

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(postgres.missing()), reason=str(postgres.missing()))]
OLD, NEW = "old-hush/1", "new-hush@2"


@pytest.fixture(name="server")
def a_server_that_asks_for_passwords() -> Iterator[str]:
    if os.environ.get("FENCEPOST_TEST_POSTGRES"):
        pytest.skip("the rules of access of a server that is not ours are not changed")
    with postgres.server() as url:
        home = Path(parse_qs(urlsplit(url).query)["host"][0])
        (home / "data" / "pg_hba.conf").write_text("local all fencepost trust\nlocal all all scram-sha-256\n")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE ROLE ann LOGIN PASSWORD '{OLD}'".encode())
            connection.execute("GRANT ALL ON SCHEMA public TO ann")
        yield url


def test_a_rotated_password_is_only_a_rotated_password(
    spark: Any, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = parse_qs(urlsplit(server).query)["host"][0]

    def address(password: str) -> str:
        quoted = password.replace("/", "%2F").replace("@", "%40")
        return f"postgresql://ann:{quoted}@/postgres?host={place}"

    with fp.RuleBook(address(OLD)) as book:
        book.add(1, "price BETWEEN 40 AND 50", detect="enter,exit")
    put(tmp_path / "in" / "1.json", {"symbol": "IBM", "price": 45.0, "at": 1})
    text = WATCH.replace('every = "200 milliseconds"', "once = true\n[session]\nretries = 0")
    pipeline, out = tmp_path / "pipeline.toml", StringIO()
    pipeline.write_text(text.replace("sqlite:///rules.db", address(OLD)))
    assert run(pipeline, spark, out=out).events == 1
    # As a checkpoint of before: with the whole URL, for everybody to read.
    own = tmp_path / "checkpoint" / "fencepost" / "pipeline.json"
    before = json.loads(own.read_text())
    before["rules"] = {"book": address(OLD)}
    own.write_text(json.dumps(before))
    own.chmod(0o644)

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE ann PASSWORD '{NEW}'".encode())
    faults = check(pipeline)
    assert "refuses the login" in str(faults[0]), faults
    with pytest.raises(PipelineFaultsError) as refused:
        run(pipeline, spark, out=out)
    said = [*map(str, faults), str(refused.value)]

    monkeypatch.setenv("BOOK_PASSWORD", NEW.replace("@", "%40"))
    pipeline.write_text(
        text.replace("sqlite:///rules.db", f"postgresql+psycopg://ann:${{BOOK_PASSWORD}}@/postgres?host={place}")
    )
    put(tmp_path / "in" / "2.json", {"symbol": "IBM", "price": 60.0, "at": 2})
    assert check(pipeline) == []
    assert run(pipeline, spark, out=out).events == 1, "the object was inside, and has left"
    assert pq.read_table(tmp_path / "out")["detect"].to_pylist().count("exit") == 1
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    written = {str(path): path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()}
    shown = "\n".join([out.getvalue(), *said])
    for secret in (OLD, NEW, OLD.replace("/", "%2F"), NEW.replace("@", "%40"), "hush"):
        assert secret not in shown
        assert not [path for path, content in written.items() if secret.encode() in content]
