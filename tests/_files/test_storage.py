"""Files that are created only if they are missing: whole, on the disk with their names, and gone if that fails."""

import errno
import os
from pathlib import Path

import pytest

from fencepost._files.storage import create, make_directory


def test_a_file_and_its_name_are_on_the_disk_when_it_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync = list[str](), os.fsync

    def note(opened: int) -> None:
        fsync(opened)
        name = os.readlink(f"/proc/self/fd/{opened}")
        there = (tmp_path / "marker").exists()
        synced.append(f"{'the folder' if name == str(tmp_path) else 'the file'}{', named' if there else ''}")

    monkeypatch.setattr(os, "fsync", note)
    create(tmp_path / "marker", "1")
    assert synced == ["the file", "the folder, named"]
    with pytest.raises(FileExistsError):
        create(tmp_path / "marker", "2")
    assert (tmp_path / "marker").read_text() == "1"


def test_a_file_whose_name_is_not_on_the_disk_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def fail(opened: int) -> None:
        if os.readlink(f"/proc/self/fd/{opened}") == str(tmp_path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(opened)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        create(tmp_path / "marker", "1")
    assert os.listdir(tmp_path) == []


def test_a_draft_that_cannot_be_deleted_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path), missing_ok)

    with monkeypatch.context() as full:
        full.setattr(Path, "unlink", fail)
        create(tmp_path / "marker", "1")
    assert (tmp_path / "marker").read_text() == "1"


def test_folders_that_are_made_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = list[str](), os.fsync

    def note(opened: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{opened}"))
        fsync(opened)

    monkeypatch.setattr(os, "fsync", note)
    make_directory(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
