"""Where directories of versions are: paths, and URLs that fsspec reaches, such as s3://bucket/rules.

Paths and URLs are joined and named alike. What is done with files that several processes share is done here, since it
differs: a file system has directories, links and renames. A store has none of them; there a file appears whole at
once, and is created only if it is missing by a condition of the request.
"""

import contextlib
import errno
import fnmatch
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from fencepost._files.whole import draft_beside, make_folder, sync, write_whole
from fencepost.errors import FencepostError

_EXCLUSIVE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
"""Protocols that create a file only if it is missing, in one request; elsewhere fsspec looks first, then writes."""
_ATTEMPTS = 3


class Place(Protocol):
    """A path or a URL: a `Path`, or a `UPath`, which is like one."""

    @property
    def name(self) -> str:
        """Its last part."""

    @property
    def parent(self) -> "Place":
        """What it is in."""

    def __truediv__(self, name: str, /) -> "Place": ...

    def absolute(self) -> "Place":
        """The same, wherever the current directory is."""


def is_url(directory: "str | os.PathLike[str]") -> bool:
    """Whether it is not a path; file:// stands before one."""
    return "://" in os.fspath(directory).removeprefix("file://")


def place_of(directory: "str | os.PathLike[str] | Place") -> Place:
    """A directory as callers name it."""
    if not isinstance(directory, (str, os.PathLike)):
        return directory
    if is_url(directory):
        return _remote(os.fspath(directory))
    return Path(os.fspath(directory).removeprefix("file://"))


def _remote(url: str) -> Place:
    try:
        from upath import UPath  # only those who use URLs have it, and wait for it
    except ImportError:
        raise FencepostError(
            f"{url} without the package universal_pathlib", "it to be installed", "pip install 'fencepost[remote]'"
        ) from None
    try:
        # Others publish at any time: what was listed before is never asked.
        place: Any = UPath(url.rstrip("/"), use_listings_cache=False)
        assert place.fs, "the package of the store is loaded"
    except ImportError as error:
        raise FencepostError(
            f"{url} without the package of that store ({error})",
            "it to be installed",
            "Install what fsspec needs for it, such as s3fs, gcsfs or adlfs.",
        ) from None
    except ValueError as error:
        raise FencepostError(
            f"{url} ({error})", "a URL that fsspec knows, such as s3://bucket/rules", "Correct the URL."
        ) from None
    found: Place = place
    return found


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Whatever keeps a path from being read or written, in plain words; whether it exists is for the caller."""
    try:
        yield
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FencepostError(
                f"the disk of {path} is full",
                "room for what is written",
                "Make room, and try again.",
            ) from None
        raise FencepostError(
            f"{path} cannot be used ({error.strerror or error})",
            "a file that this user may read and write",
            "Correct the path or its permissions; remove what stands in its place.",
        ) from None


@contextlib.contextmanager
def _reaching(place: Any) -> Iterator[tuple[Any, str]]:
    """The file system of a URL, and its path there; whatever keeps it from answering is refused in its own words."""
    try:
        yield place.fs, place.path
    except (FencepostError, FileExistsError, FileNotFoundError):
        raise
    except Exception as error:
        raise FencepostError(
            f"{place} cannot be used ({type(error).__name__}: {error})",
            "a store that answers, and credentials that may read and write there",
            "Check the URL, the network, and the settings of the store in the environment.",
        ) from None


@contextlib.contextmanager
def _writing(place: Any) -> Iterator[tuple[Any, str]]:
    """Likewise; writing makes whatever directories there are, but no bucket."""
    try:
        with _reaching(place) as found:
            yield found
    except FileNotFoundError as error:
        raise FencepostError(f"{place} ({error})", "a bucket that exists", "Make the bucket, or correct it.") from None


# -- looking ------------------------------------------------------------------------------------------------


def read_text(file: Place) -> str:
    """The whole content."""
    return read_bytes(file).decode()


def read_bytes(file: Place) -> bytes:
    """The same as it is, be it text or not."""
    if isinstance(file, Path):
        with refusing(file):
            return file.read_bytes()
    with _reaching(file) as (system, path):
        content: bytes = system.cat_file(path)
    return content


def exists(place: Place) -> bool:
    """Whether a file or directory is there."""
    if isinstance(place, Path):
        return place.exists()
    with _reaching(place) as (system, path):
        return bool(system.exists(path))


def modified(file: Place) -> float | None:
    """When a file was written last, in seconds since 1970; None where it is missing."""
    try:
        if isinstance(file, Path):
            return file.stat().st_mtime
        with _reaching(file):
            return float(file.stat().st_mtime)  # type: ignore[attr-defined]
    except FileNotFoundError:
        return None


def names(directory: Place, pattern: str) -> list[str]:
    """The sorted names of what is in a directory and fits a pattern; none where it is missing."""
    try:
        if isinstance(directory, Path):
            found = os.listdir(directory)
        else:
            with _reaching(directory) as (system, path):
                found = [str(each).rstrip("/").rpartition("/")[2] for each in system.ls(path, detail=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(fnmatch.filter(found, pattern))


# -- changing -----------------------------------------------------------------------------------------------


def make_directory(directory: Place) -> None:
    """Make a directory and those that it is in, unless they are there; a store has none."""
    if isinstance(directory, Path):
        make_folder(directory)


def create(file: Place, text: str) -> None:
    """Create a file that must not exist, durably, and whole at once where that can be done."""
    if isinstance(file, Path):
        _create_path(file, text)
    else:
        _create_remote(file, text)


def _create_path(file: Path, text: str) -> None:
    with draft_beside(file, ours=True) as draft:
        _write_durably(draft, text, "w")
        try:
            os.link(draft, file)
        except FileExistsError:
            raise
        except OSError:  # a file system without links, or a full disk
            try:
                _write_durably(file, text, "x")
            except FileExistsError:
                raise
            except OSError:
                file.unlink(missing_ok=True)
                raise
    try:
        sync(file.parent)
    except OSError:
        file.unlink(missing_ok=True)
        raise


def _write_durably(file: Path, text: str, mode: str) -> None:
    with file.open(mode) as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _create_remote(file: Any, text: str) -> None:
    if file.protocol not in _EXCLUSIVE:
        raise FencepostError(
            f"{file}, on a file system that cannot create a file only if it is missing",
            f"one that can: {', '.join(sorted(_EXCLUSIVE))}",
            "Publish to one of them, or to a path.",
        )
    with _writing(file) as (system, path):
        for attempt in range(_ATTEMPTS):
            try:
                system.pipe_file(path, text.encode(), mode="create")
            except (FileExistsError, FileNotFoundError, PermissionError):
                raise
            except OSError:
                # Stores name a lost race in several ways, and while the winner writes they ask to try again.
                if system.exists(path):
                    raise FileExistsError(str(file)) from None
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.1)
            else:
                return


def put(file: Place, text: str) -> None:
    """Write a file, in place of any other, so that it appears whole."""
    if isinstance(file, Path):
        write_whole(file, text, ours=True)
        return
    with _writing(file) as (system, path):
        system.pipe_file(path, text.encode())


def touch(file: Place) -> None:
    """Make it the time at which a file was written last, which is made if it is missing."""
    if isinstance(file, Path):
        file.touch()
    else:
        put(file, "\n")


def delete(file: Place) -> None:
    """Delete a file, unless it is gone."""
    if isinstance(file, Path):
        file.unlink(missing_ok=True)
        return
    with contextlib.suppress(FileNotFoundError), _reaching(file) as (system, path):
        system.rm_file(path)


def delete_tree(directory: Place) -> None:
    """Delete a directory with all that is in it, unless it is gone."""
    with contextlib.suppress(FileNotFoundError):
        if isinstance(directory, Path):
            shutil.rmtree(directory)
            return
        with _reaching(directory) as (system, path):
            system.rm(path, recursive=True)


def upload(local: Path, file: Place) -> None:
    """Write a local file to a URL."""
    with _writing(file) as (system, path):
        system.put_file(str(local), path)


def download(file: Place, local: Path) -> None:
    """Write what is at a URL to a local file."""
    with _reaching(file) as (system, path):
        system.get_file(path, str(local))
