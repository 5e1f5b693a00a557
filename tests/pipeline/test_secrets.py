"""References in a pipeline file are resolved, and what they stand for is never shown."""

import json
import stat
from pathlib import Path

import pytest

import fencepost as fp
from fencepost._text import mask_url, mask_urls
from fencepost.errors import FencepostError
from fencepost.pipeline import check
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.file.secrets import Secrets
from fencepost.pipeline.runtime.identity import check_checkpoint, claim_checkpoint
from tests.pipeline.test_check import GOOD, changed, faults

WEBHOOK = ('format = "parquet"\npath = "alerts/"', 'format = "webhook"\nurl = "http://host/"')


@pytest.fixture(name="home")
def a_directory_with_rules(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    rules = fp.Rules()
    rules.add(7, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    rules.publish(tmp_path / "published")
    return tmp_path


def test_variables_files_and_what_only_looks_like_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTS", "events")
    monkeypatch.setenv("BUCKETS", "4")
    (home / "token").write_text("tok'en ${EVENTS}\n")
    text = changed(
        ('"events/"', '"${EVENTS}/"'),
        ('time = "ts"', 'time = "ts"\nbuckets = "${BUCKETS}"'),
        WEBHOOK,
        ('url = "http://host/"', 'url = "http://host/$${x}"\nheaders = { X-Token = "file:token" }'),
    )
    assert faults(home, text) == []
    file, _ = read_pipeline(home / "pipeline.toml")
    assert file.section("source")["path"] == "events/"
    assert file.section("operator")["buckets"] == 4
    assert file.section("sink")["url"] == "http://host/${x}"
    assert file.section("sink")["headers"] == {"X-Token": "tok'en ${EVENTS}"}, "what is read is not read again"
    assert faults(home, changed(('"published/"', f'"file://{home}/published"'))) == [], "a URL is no reference"


CASES = {
    "not set": ("${NOWHERE}/x", "source.path (line 4): ${NOWHERE} is not set; expected a variable of the"),
    "empty": ("${EMPTY}", "${EMPTY} is empty; expected a variable of the environment. Set EMPTY."),
    "no name": ("a ${1b}", "the reference ${1b} in 'a ${1b}'; expected the name of an environment variable in braces"),
    "not closed": ("a ${b", "the reference ${ in 'a ${b'; expected the name"),
    "no file": ("file:none", "file:none (No such file or directory); expected a file with the value"),
    "an empty file": ("file:empty", "file:empty is empty; expected a file with the value"),
    "no text": ("file:binary", "file:binary is no text; expected a file with the value"),
    "a large file": ("file:large", "file:large is larger than 64 KB"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reference_that_does_not_resolve_is_the_only_fault(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("EMPTY", "")
    (home / "empty").write_text("\n")
    (home / "binary").write_bytes(b"\xff\x00")
    (home / "large").write_text("x" * 70_000)
    written, said = CASES[name]
    (fault,) = faults(home, changed(('"events/"', f'"{written}"')))
    assert said in fault
    assert "line 4" in fault


def test_no_fault_shows_a_value(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t\nval'x")
    monkeypatch.setenv("KIND", "s3cr3t-kind")
    monkeypatch.setenv("COUNT", "s3cr3t")
    text = changed(
        ('kind = "watch"', 'kind = "${KIND}"'),
        WEBHOOK,
        (
            'url = "http://host/"',
            'url = "ftp://u:s3cr3t-pw@host/${COUNT}"\nbatch = "${COUNT}"\nsecret = "plain-s3cr3t"',
        ),
        ("[sink]", '[sink]\nheaders = { Authorization = "Bearer ${TOKEN}" }'),
        ('"1 second"', '"${COUNT}"'),
    )
    found = faults(home, text)
    assert len(found) >= 4
    assert not [fault for fault in found if "s3cr3t" in fault or "val'x" in fault], found
    assert any("'${KIND}'; expected one of match, watch, bands" in fault for fault in found)
    assert any("the header 'Authorization' with a line break" in fault for fault in found)
    assert "s3cr3t" not in json.dumps([fault._asdict() for fault in check(home / "pipeline.toml")])


def test_a_secret_is_hidden_however_it_is_quoted() -> None:
    secrets = Secrets()
    secrets.add("p@ss w/rd'1", "${PASSWORD}")
    secrets.add("prod", "${STAGE}")
    secrets.add("ab", "${SHORT}")
    for spelled in ("p@ss w/rd'1", repr("p@ss w/rd'1"), "p%40ss%20w/rd%271", "p%40ss%20w%2Frd%271"):
        assert "w/rd" not in secrets.hide(f"x{spelled}y")
    assert secrets.hide("at prod, reproduced about") == "at ${STAGE}, reproduced about"
    error = secrets.hide_in(FencepostError("the host prod", "no p@ss w/rd'1", "Try."))
    assert str(error) == "The host ${STAGE}; expected no ${PASSWORD}. Try."


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hush@db/rules",
        "postgresql+psycopg://ann:h/ush?hush@db:5432/rules?sslmode=require",
        "postgresql://db/rules?user=ann&password=hush",
        "https://hush@hooks/x",
        "https://ann:hush@hooks/x?token=hush&y=hush#z",
        "s3://key:hush@bucket/rules",
        "http://ann:hu@hush@db/x",
    ],
)
def test_no_url_shows_its_password(url: str) -> None:
    for text in (mask_urls(f"cannot open '{url}', and {url}."), mask_url(url), str(FencepostError(url, url, url))):
        assert "hush" not in text
    assert (
        mask_urls("see https://docs/x?page and sqlite:///rules.db") == "see https://docs/x?page and sqlite:///rules.db"
    )


BOOK = ('directory = "published/"', 'book = "BOOK"')


def test_a_checkpoint_belongs_to_a_pipeline_whatever_its_credentials(home: Path) -> None:
    def pipeline(book: str) -> str:
        text = changed(BOOK, WEBHOOK).replace("BOOK", book)
        (home / "pipeline.toml").write_text(text)
        return text

    pipeline("postgresql://ann:old-hush@DB.example/rules?sslmode=require")
    file, _ = read_pipeline(home / "pipeline.toml")
    claim_checkpoint(file)
    place = home / "checkpoint" / "fencepost" / "pipeline.json"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert json.loads(place.read_text())["rules"] == {"book": "postgresql:///rules"}
    for same in ("postgresql+psycopg://bob:new-hush@db.example:5432/rules", "postgres://10.0.0.7/rules?password=x"):
        pipeline(same)
        check_checkpoint(read_pipeline(home / "pipeline.toml")[0])
    pipeline("postgresql://ann:new-hush@db.example/others")
    with pytest.raises(FencepostError, match=r"rules\.book is 'postgresql:///rules'") as refused:
        check_checkpoint(read_pipeline(home / "pipeline.toml")[0])
    assert "hush" not in str(refused.value)


def test_a_checkpoint_from_before_goes_on_and_forgets_the_password(home: Path) -> None:
    text = changed(BOOK, WEBHOOK).replace("BOOK", "postgresql://ann:new-hush@db/rules")
    (home / "pipeline.toml").write_text(text)
    file, _ = read_pipeline(home / "pipeline.toml")
    claim_checkpoint(file)
    place = home / "checkpoint" / "fencepost" / "pipeline.json"
    before = json.loads(place.read_text())
    before["rules"] = {"book": "postgresql://ann:old-hush@db/rules"}
    before["sink"] |= {"url": "https://hooks/old-hush"}
    place.unlink()
    place.write_text(json.dumps(before))
    place.chmod(0o644)
    check_checkpoint(file)
    claim_checkpoint(file)
    assert "hush" not in place.read_text()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    check_checkpoint(file)


SINKS = """
[[sink]]
format = "json"
path = "all/"
checkpoint = "checkpoint/"
[[sink]]
format = "webhook"
name = "pager"
url = "http://127.0.0.1:1/"
[sink.headers]
X-Team = "desk"
[trigger]
"""


def several(*pairs: tuple[str, str]) -> str:
    before, _, _ = GOOD.partition("[sink]")
    return changed(*pairs, text=before + SINKS + 'every = "1 second"\n')


def test_several_sinks_and_their_faults(home: Path) -> None:
    assert faults(home, several()) == []
    assert list(read_pipeline(home / "pipeline.toml")[0].sinks) == ["sink.1", "sink.2"]
    cases = {
        ('checkpoint = "checkpoint/"\n', ""): "sink.1.checkpoint (line 13): sinks without a checkpoint; expected one",
        ('name = "pager"', 'name = "pager"\ncheckpoint = "two"'): "sink.2.checkpoint (line 20): 'two', a second che",
        ('name = "pager"', 'name = "json"'): "sink.2.name (line 19): two sinks whose name is 'json'; expected a name",
        ('name = "pager"', 'name = "../x"'): "sink.2.name (line 19): '../x'; expected letters, digits",
        ("X-Team =", '"X Team" ='): "sink.2.headers (line 21): the header 'X Team'; expected letters, digits and h",
        ('path = "all/"', 'pth = "all/"'): "sink.1.path (line 13): no path; expected path, directory to write to. "
        "Add path to [[sink]] 1.",
        ('path = "all/"', 'path = "checkpoint/all"'): "checkpoint/all, which lies in the checkpoint; expected",
        ('path = "all/"', 'path = "all/"\nwhere = "detect ="'): "sink.1.where (line 16): 'detect =' does not",
    }
    for pair, said in cases.items():
        found = faults(home, several(pair))
        assert any(said in fault for fault in found), (said, found)
    (home / "all" / "_spark_metadata").mkdir(parents=True)
    assert "which the only sink of a pipeline has written to; expected a directory of" in faults(home, several())[0]


def test_one_sink_in_double_brackets_is_the_only_one(home: Path) -> None:
    assert faults(home, changed(("[sink]", "[[sink]]"))) == []
    assert list(read_pipeline(home / "pipeline.toml")[0].sinks) == ["sink"]
    (fault,) = faults(home, changed(("[sink]", "[[sink]]"), ('path = "alerts/"', "")))
    assert fault.startswith("sink.path (line 12): no path")


def test_events_that_wait_for_a_sink_that_is_gone_are_a_fault(home: Path) -> None:
    batches = home / "checkpoint" / "fencepost" / "sinks" / "desk" / "deliveries" / "batches"
    batches.mkdir(parents=True)
    assert faults(home, several()) == []
    (batches / "stream-0000000003.json").write_text('{"parts": {"0": 12}}')
    (fault,) = faults(home, several())
    assert "12 events that wait for the sink desk, which the file does not have any more" in fault
    assert faults(home, several(('name = "pager"', 'name = "desk"'))) == []


@pytest.mark.parametrize("listen", ["9464", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000"])
def test_an_address_to_listen_at(home: Path, listen: str) -> None:
    assert faults(home, f'{GOOD}[metrics]\nlisten = "127.0.0.1:0"\n') == []
    (fault,) = faults(home, f'{GOOD}[metrics]\nlisten = "{listen}"\n')
    assert f"metrics.listen (line 19): '{listen}'; expected an address and a port" in fault
