"""`fencepost tick`."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fencepost as fp
from fencepost.published import VersionDirectory
from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


def published(home: Path) -> VersionDirectory:
    rules = fp.Rules()
    rules.add(1, "price > 4")
    rules.publish(home / "published")
    return VersionDirectory(home / "published")


def test_a_time_is_told_once_and_only_a_later_one_after_it(tmp_path: Path) -> None:
    versions, shell = published(tmp_path), Shell(tmp_path)
    done = shell.run("fencepost tick published 2024-01-01T12:00")
    assert (done.out, done.err) == ("", "announced 2024-01-01T12:00:00+00:00 to published\n")
    noon = int(datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000
    assert versions.markers.newest() == (1, noon)
    for earlier in ("2024-01-01", "2024-01-01T12:00:00Z", "2024-01-01T13:59:59+02:00"):
        said = shell.call(f"fencepost tick published {earlier}").err
        assert said.endswith("is not later than 2024-01-01T12:00:00+00:00, which published already has\n")
    assert json.loads(shell.call("fencepost tick published 2024-01-01 --json").out) == {
        "directory": "published",
        "time": "2024-01-01T00:00:00+00:00",
        "announced": False,
        "newest": "2024-01-01T12:00:00+00:00",
    }
    assert versions.markers.newest() == (1, noon)
    told = json.loads(
        shell.call(f"fencepost tick file://{tmp_path}/published '2024-01-01 14:00:01.5+02:00' --json").out
    )
    assert (told["announced"], told["time"], told["newest"]) == (True, *["2024-01-01T12:00:01.500000+00:00"] * 2)
    before = datetime.now(UTC)
    now = datetime.fromisoformat(json.loads(shell.call("fencepost tick published --json").out)["time"])
    assert before <= now <= before + timedelta(minutes=5)
    assert len(list((tmp_path / "published" / "markers").glob("*.clock"))) == 3


def test_numbers_where_times_are_numbers(tmp_path: Path) -> None:
    versions, shell = published(tmp_path), Shell(tmp_path)
    assert shell.call("fencepost tick published -- -7").err == "announced -7 to published\n"
    told = json.loads(shell.call("fencepost tick published 20240101 --json").out)
    assert (told["time"], told["announced"], told["newest"]) == (20240101, True, 20240101)
    assert (
        shell.call("fencepost tick published 7").err
        == "no effect: 7 is not later than 20240101, which published already has\n"
    )
    shell.call(f"fencepost tick published {2**63 - 1}")
    assert versions.markers.newest()[1] == 2**63 - 1
    assert f"not later than {2**63 - 1}, which" in shell.call("fencepost tick published 9999-12-31").err


def test_what_is_no_time_and_no_published_directory_is_refused(tmp_path: Path) -> None:
    versions, shell = published(tmp_path), Shell(tmp_path)
    for wrong in ("soon", "2024-13-01", str(2**63), "12:00", "1.5"):
        message = shell.call_refused(f"fencepost tick published {wrong}")
        assert f"The time '{wrong}'; expected a time such as 2030-01-01T12:00, a date, or a whole number" in message
    (tmp_path / "empty").mkdir()
    assert "empty has no version; expected a directory with a published version" in shell.refused(
        "fencepost tick empty"
    )
    assert list((tmp_path / "empty").iterdir()) == []
    message = shell.call_refused("fencepost tick nowhere 2024-01-01")
    assert "nowhere does not exist; expected a directory with a published version" in message
    assert "Publish rules first: fencepost publish nowhere" in message
    assert not (tmp_path / "nowhere").exists()
    assert versions.markers.newest() == (1, None)
    for wrong in ("", "published 2024-01-01 2025-01-01", "published --at 2024-01-01"):
        shell.call(f"fencepost tick {wrong}", 2)
