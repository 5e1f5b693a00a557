"""How fencepost compiles: one decorator, and a cache that can never serve stale machine code.

Numba stamps a cached function with its own source file only, so an edit in a helper that was compiled into
it would go unnoticed. Here the stamp is a digest of every source that a kernel can reach: this file and all
of ``fencepost.indexes``. Kernels elsewhere are refused, so the digest is complete by construction.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

import numba
from numba.core.caching import (
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
    ZipCacheLocator,
)

__all__ = ["kernel", "source_digest"]

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = files("fencepost")
_KERNEL_PACKAGE = "fencepost.indexes"


def source_digest(package: Traversable = _PACKAGE) -> str:
    """Digest of all sources whose text can end up in compiled code, in a directory or in a zip."""
    digest = hashlib.blake2b(digest_size=16)
    for name, source in [("compiled.py", package / "compiled.py"), *sorted(_sources(package / "indexes", "indexes"))]:
        digest.update(name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _sources(each, f"{path}/{each.name}")
        elif each.name.endswith(".py"):
            yield f"{path}/{each.name}", each


_STAMP = source_digest()


class _DigestStamp:
    """Replaces a locator's stamp (time and size of one file) by the digest of all of them."""

    def get_source_stamp(self) -> str:
        return _STAMP


class _UserProvided(_DigestStamp, UserProvidedCacheLocator):  # type: ignore[misc]
    pass


class _InTree(_DigestStamp, InTreeCacheLocator):  # type: ignore[misc]
    pass


class _UserWide(_DigestStamp, UserWideCacheLocator):  # type: ignore[misc]
    pass


class _InZip(_DigestStamp, ZipCacheLocator):  # type: ignore[misc]
    """Code from a zip is kept by its digest: engines that distribute zips put them into a new place every time."""

    def get_cache_path(self) -> str:
        user_wide = os.path.dirname(super().get_cache_path())
        return os.path.join(user_wide, f"fencepost-{_STAMP}", os.path.dirname(self._internal_path))


class _DigestCacheImpl(FunctionCache._impl_class):  # type: ignore[misc]
    _locator_classes = [_UserProvided, _InTree, _UserWide, _InZip]  # noqa: RUF012


class _DigestCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _DigestCacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # Numba reads an index of its own version before it looks at the stamp, and fails there if a class that the
        # index names has moved since; another version it leaves alone.
        self._cache_file._version = f"{numba.__version__} {_STAMP}"


def kernel(function: F) -> F:
    """Compile `function` without the interpreter: cached on disk, the interpreter lock released."""
    if not function.__module__.startswith(_KERNEL_PACKAGE):
        raise ImportError(
            f"kernel {function.__module__}.{function.__qualname__} lives outside {_KERNEL_PACKAGE}; "
            "its edits would not reach the cache stamp. Move it there."
        )
    dispatcher = numba.njit(nogil=True, boundscheck=False, error_model="numpy")(function)
    dispatcher._cache = _DigestCache(function)
    return dispatcher  # type: ignore[no-any-return]
