"""A file that is written whole: the old one or the new one, whatever happens in between."""

import json
import os
import re
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fencepost._files import whole
from fencepost._files.whole import (
    delete_dead_drafts,
    draft_beside,
    make_folder,
    move_durably,
    read_note,
    replace_file,
    write_note,
    write_whole,
)
from fencepost.errors import FencepostError


def test_text_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_whole(file, "größer")
    assert file.read_bytes() == "größer".encode()
    write_whole(file, b"\x00\xff", durable=False)
    assert file.read_bytes() == b"\x00\xff"
    assert list(tmp_path.iterdir()) == [file]


def test_a_writer_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_whole(file, "old")

    def write_half() -> None:
        with replace_file(file) as draft:
            draft.write_text("half of the n")
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_half()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_replacement_that_fails_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file = tmp_path / "state"
    write_whole(file, "old")

    def refuse(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(step, refuse)
    with pytest.raises(OSError, match="no space"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """What is synced and renamed from now on, in this order; a rename has the new name."""
    record: list[tuple[str, Path]] = []
    fsync, replace = os.fsync, os.replace

    def note_sync(opened: int) -> None:
        record.append(("sync", Path(f"/proc/self/fd/{opened}").readlink()))
        fsync(opened)

    def note_replace(source: Any, target: Any, **named: Any) -> None:
        record.append(("replace", Path(target)))
        replace(source, target, **named)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    return record


def test_files_of_others_are_synced_before_they_get_their_names_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = recorded(monkeypatch)
    target = tmp_path / "far" / "away"
    make_folder(target)
    make_folder(target)
    assert record == [("sync", tmp_path), ("sync", tmp_path / "far")]
    record.clear()
    drafts = [target / "a", target / "b"]
    for draft in drafts:
        draft.write_text(draft.name)
    move_durably({draft: draft.with_suffix(".json") for draft in drafts})
    names = [draft.with_suffix(".json") for draft in drafts]
    assert record == [*(("sync", draft) for draft in drafts), *(("replace", name) for name in names), ("sync", target)]
    assert [name.read_text() for name in names] == ["a", "b"]
    assert sorted(target.iterdir()) == names


@pytest.mark.slow
def test_a_crash_between_draft_and_replace_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_whole(file, "old")
    program = f"""
import os, pathlib
from fencepost._files.whole import write_whole
pathlib.Path.replace = lambda draft, path: os._exit(7 if draft.read_text() == "new" else 8)
write_whole(pathlib.Path({str(file)!r}), "new")
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7  # noqa: S603
    assert file.read_text() == "old"
    drafts = [each for each in tmp_path.iterdir() if each != file]
    assert [each.name.startswith(".state.") for each in drafts] == [True], "hidden from whoever lists the folder"
    write_whole(file, "newer")
    assert file.read_text() == "newer"
    assert list(tmp_path.iterdir()) == [file], "the next writer deletes what the dead one left"


def test_concurrent_writers_each_write_whole(tmp_path: Path) -> None:
    file = tmp_path / "state"
    contents = {str(writer) * 100_000 for writer in range(8)}
    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write_whole, file, content) for content in [*contents] * 5]
        while not all(write.done() for write in writes):
            if file.exists():
                assert file.read_text() in contents
        for write in writes:
            write.result()
    assert file.read_text() in contents
    assert list(tmp_path.iterdir()) == [file]


def test_permissions_are_those_of_the_file_before_or_of_any_new_file(tmp_path: Path) -> None:
    file, plain = tmp_path / "state", tmp_path / "plain"
    plain.touch()
    write_whole(file, "new")
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    file.chmod(0o640)
    write_whole(file, "newer")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_missing_folder_is_no_file_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "state", "new")


def test_a_draft_that_became_something_else_is_deleted_under_its_own_name(tmp_path: Path) -> None:
    with draft_beside(tmp_path / "state") as draft:
        draft.write_text("new")
        (tmp_path / "state").hardlink_to(draft)
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def leave_draft(path: Path, host: str | None = None, age: float = 0.0) -> Path:
    """A draft whose writer is gone, of this host or another."""
    draft = path.with_name(f".{path.name}.{whole._this_host() if host is None else host}00000001")
    draft.write_text("half of the n")
    os.utime(draft, (time.time() - age, time.time() - age))
    return draft


def test_the_next_writer_deletes_the_drafts_of_the_dead_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "state"
    dead, other = leave_draft(file), leave_draft(tmp_path / "other")
    old, young = leave_draft(file, "00000000", 4_000), leave_draft(file, "00000001", 3_000)
    foreign = tmp_path / ".state.of-somebody-else"
    foreign.touch()
    with replace_file(file) as draft:
        assert draft.exists()
        whole._listed.clear()
        write_whole(file, "of somebody faster")
        assert draft.exists(), "its writer lives"
        draft.write_text("new")
    assert not dead.exists()
    assert not old.exists()
    assert sorted(tmp_path.iterdir()) == sorted([file, other, young, foreign])
    whole._listed.clear()
    delete_dead_drafts(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([file, young, foreign])


def test_where_there_are_no_locks_drafts_must_be_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    file = tmp_path / "state"
    dead, old = leave_draft(file), leave_draft(file, "00000000", 4_000)
    write_whole(file, "new")
    assert sorted(tmp_path.iterdir()) == sorted([file, dead])
    assert not old.exists()


def test_a_slow_folder_is_listed_once_in_a_while_and_after_a_draft_stayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, listed, listdir = tmp_path / "state", [], os.listdir

    def list_slowly(folder: Path) -> list[str]:
        listed.append(folder)
        time.sleep(0.05)
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", list_slowly)
    for _ in range(5):
        write_whole(file, "new")
    assert len(listed) == 1
    with monkeypatch.context() as patch, draft_beside(file) as draft:

        def refuse(*_: object, **__: object) -> None:
            raise OSError("not now")

        patch.setattr(Path, "unlink", refuse)
    assert draft.exists()
    write_whole(file, "newer")
    assert (listdir(tmp_path), len(listed)) == ([file.name], 2)


def test_a_folder_may_be_private_from_the_start(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b", 0o700)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


NOTE = {"batch": 3, "stem": "größer", "parts": {1: 2}}


def test_every_changed_bit_of_a_note_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "last.json"
    assert read_note(file, {"batch": int}, "Restore it.") is None
    write_note(file, NOTE)
    expected = {**NOTE, "parts": {"1": 2}}
    assert read_note(file, {"batch": int}, "Restore it.") == expected
    content = file.read_bytes()
    for place in range(len(content) * 8):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        file.write_bytes(changed)
        try:
            found = read_note(file, {"batch": int}, "Restore it.")
        except FencepostError as error:
            refused = str(error)
            assert re.search(r"last\.json is damaged.*Restore it\.", refused)
        else:
            assert found is not None
            assert found.items() >= expected.items(), "only the name of the checksum has changed"


@pytest.mark.parametrize("text", ["", "[]", "7", '{"batch": "3"}', '{"batch": true}', '{"stem": "x"}', "[" * 100_000])
def test_a_note_without_what_is_needed_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "last.json"
    file.write_text(text)
    with pytest.raises(FencepostError, match=r"damaged.*Restore it\."):
        read_note(file, {"batch": int}, "Restore it.")


def test_a_note_from_before_there_were_checksums_is_read(tmp_path: Path) -> None:
    file = tmp_path / "last.json"
    file.write_text(json.dumps({"batch": 3}))
    assert read_note(file, {"batch": int}, "Restore it.") == {"batch": 3}
