"""Copies of remote files: in a directory of this user's own, beside files of others that stay as they are."""

import os
from pathlib import Path

import pytest

from fencepost._files import local_copies as copies
from fencepost.errors import FencepostError


@pytest.fixture(name="around")
def directory_around_the_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    return tmp_path


def own_directory(around: Path) -> Path:
    return around / f"fencepost-{os.getuid()}"


def keep(digest: str) -> None:
    with copies.make_draft() as draft:
        draft.write_bytes(digest.encode())
        copies.keep_copy(draft, digest)


def test_files_of_others_stay(around: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_KEPT", 1)
    keep(f"{0:032x}")
    others = ["accounts.db", "0", "f" * 32, "7.draft", "1" * 33]
    for name in others:
        (around / name).write_text("precious")
        if len(name) != 32:
            (own_directory(around) / name).write_text("precious")
    os.symlink(around / "accounts.db", own_directory(around) / ("e" * 32))
    for number in range(1, 4):
        keep(f"{number:032x}")
    assert all((around / name).read_text() == "precious" for name in others)
    assert {path.name for path in own_directory(around).iterdir() if len(path.name) == 32} == {f"{3:032x}", "e" * 32}
    assert (own_directory(around) / "accounts.db").exists()


@pytest.mark.parametrize("problem", ["link", "file", "mode"])
def test_a_directory_that_others_could_have_planted_is_refused(around: Path, problem: str) -> None:
    planted = own_directory(around)
    if problem == "link":
        (around / "elsewhere").mkdir()
        planted.symlink_to(around / "elsewhere")
    elif problem == "file":
        planted.write_text("")
    else:
        planted.mkdir()
        planted.chmod(0o777)
    with pytest.raises(FencepostError, match=r"expected a directory of this user's for copies .* FENCEPOST_CACHE"):
        keep("0" * 32)
    if problem == "link":
        assert not list((around / "elsewhere").iterdir())


def test_a_directory_of_another_user_is_refused(around: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep("0" * 32)
    user = os.getuid()
    own_directory(around).rename(around / f"fencepost-{user + 1}")
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with pytest.raises(FencepostError, match="belongs to somebody else"):
        keep("1" * 32)


def test_the_directory_is_private(around: Path) -> None:
    keep("0" * 32)
    assert own_directory(around).stat().st_mode & 0o777 == 0o700
