"""Files that are written whole: a reader sees what was there before or all that is new, also after a crash."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

PRIVATE = 0o600
"""The mode of files that nobody else may read."""


def write_whole(path: Path, content: bytes | str, durable: bool = True, mode: int | None = None) -> None:
    """Write a file, in place of any other of that name; text in UTF-8. A `mode` holds from the first byte on."""
    with replace_file(path, durable, mode) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replace_file(path: Path, durable: bool = True, mode: int | None = None) -> Iterator[Path]:
    """Where to write a file that replaces another once the block ends well; with its permissions, or those of `mode`.

    A durable file survives a loss of power from then on. The others save two waits: they can be made again.
    """
    with draft_beside(path) as draft:
        if mode is not None:
            draft.touch(mode)
        yield draft
        if mode is None:
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(path, draft)
        if durable:
            sync(draft)
        draft.replace(path)
    if durable:
        sync(path.parent)


def move_durably(moves: Mapping[Path, Path]) -> None:
    """Give files that somebody else wrote other names; then they survive a loss of power, and so do the folders."""
    for written in moves:
        sync(written)
    for written, name in moves.items():
        written.replace(name)
    for folder in dict.fromkeys(name.parent for name in moves.values()):
        sync(folder)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing; each survives a loss of power."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync(folder.parent)


@contextlib.contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """A hidden name beside a file, which nobody else writes; what has it in the end is deleted.

    What was done counts, also where the draft cannot be deleted: after a crash there are drafts, too.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield draft
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
