"""How fencepost compiles: one decorator, and a cache that can never serve stale machine code.

Numba stamps a cached function with its own source file only, so an edit in a helper that was compiled into
it would go unnoticed. Here the stamp is a digest of every source that a kernel can reach: this file and all
of ``fencepost.indexes``. Kernels elsewhere are refused, so the digest is complete by construction.

Of several processes that need the same machine code at once, as the workers of an engine do, one compiles it and the
others wait for that.

A package may bring machine code along, made for a baseline of processors (`fencepost._baselines`) and stamped with the
same digest. It is used where nothing was compiled for this very processor and the baseline fits it.

Compiled code runs as whoever loads it. So a cache that somebody else may write to is left alone.
"""

import hashlib
import io
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Any, TypeVar

import numba
from numba.core import environment
from numba.core.caching import (
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
    ZipCacheLocator,
)
from numba.core.runtime import rtsys

from fencepost._baselines import fitting_baselines

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = files("fencepost")
_KERNEL_PACKAGE = "fencepost.indexes"
_PATIENCE = 120.0
"""Seconds to wait for another process: should it never be done, the code is compiled twice."""


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
_VERSION = f"{numba.__version__} {_STAMP}"
"""Numba reads an index of its own version before it looks at the stamp, and fails there if a class that the index names
has moved since; another version it leaves alone."""

CODE = "_code"
"""The folder of this package that has the machine code it brings along."""

counts = {"kept": 0, "brought": 0, "compiled": 0}
"""Where this process has its machine code from: a cache, the package, or itself."""


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


_judged: dict[str, bool] = {}
"""By directory of a cache that is there: whether it can be trusted."""


def is_trusted(folder: str) -> bool:
    """Whether nobody else can have written to a cache: looked at once for each directory, with one warning if not.

    Trusted are this user, root, and the owner of this package, whose sources run anyway.
    """
    if folder not in _judged:
        try:
            stats = [(folder, os.stat(folder))]
        except FileNotFoundError:
            return True  # this process makes it
        names = (os.path.join(folder, name) for name in os.listdir(folder) if name.endswith((".nbi", ".nbc")))
        try:
            stats += [(name, os.stat(name)) for name in names]
        except FileNotFoundError:
            return True  # another process replaces a file: the next look will tell
        wrong = next((name for name, found in stats if not _is_ours(found)), None)
        _judged[folder] = wrong is None
        if wrong is not None:
            warnings.warn(
                f"Compiled code in {folder} is not used, and kernels are compiled anew: others may write to {wrong} or "
                "own it. Take their right to write away, or set NUMBA_CACHE_DIR to a directory of your own.",
                stacklevel=2,
            )
    return _judged[folder]


def _is_ours(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True  # a system without such owners
    if found.st_uid not in {0, os.geteuid(), _owner()} or found.st_mode & 0o002:
        return False
    return not found.st_mode & 0o020 or found.st_gid == 0 or _is_private(found.st_gid)


@cache
def _owner() -> int:
    """Who owns this package; 0 in a zip."""
    try:
        return os.stat(__file__).st_uid
    except OSError:
        return 0


@cache
def _is_private(group: int) -> bool:
    """Whether a group has no other member than this user, whose name it has."""
    import grp
    import pwd

    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return found.gr_name == user and set(found.gr_mem) <= {user}


class _DigestCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _DigestCacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._version = _VERSION
        self._lock: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before, or None: then it is for this process to compile, and to save."""
        is_usable = is_trusted(self._cache_path)
        found = self._load_kept(sig, target_context) if is_usable else None
        if found is not None:
            counts["kept"] += 1
            return found
        found = self._load_brought(sig, target_context)
        if found is not None:
            counts["brought"] += 1
            return found
        if is_usable and self._lock is None:
            self._lock = self._locked()
            found = self._load_kept(sig, target_context)
            if found is not None:
                counts["kept"] += 1
                self._unlock()
        return found

    def _load_kept(self, sig: Any, target_context: Any) -> Any:
        """What the cache has, or None; without all that Numba imports to compile, which takes longer than an answer."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors(), _light_environments():
            return self._load_overload(sig, target_context)

    def _load_brought(self, sig: Any, target_context: Any) -> Any:
        """What the package brings along for this processor, or None."""
        codegen = target_context.codegen()
        triple, _, features = codegen.magic_tuple()
        for baseline in code_for(features):
            folder = code_folder(baseline).joinpath(*self._py_func.__module__.split(".")[1:-1])
            if isinstance(folder, Path) and not is_trusted(str(folder)):
                continue
            own, _, digests = self._index_key(sig, codegen)
            with _light_environments():
                data = _BroughtFile(folder, self._impl.filename_base).load((own, (triple, baseline, ""), digests))
                if data is not None:
                    return self._impl.rebuild(target_context, data)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, and let the others have it."""
        counts["compiled"] += 1
        if not is_trusted(self._cache_path):
            self._unlock()
            return
        try:
            super().save_overload(sig, data)
        finally:
            self._unlock()

    def _locked(self) -> IO[bytes] | None:
        """A file that this process alone has locked; None where that cannot be had."""
        try:
            import fcntl  # not on every system

            self._impl.locator.ensure_cache_path()
            file = open(os.path.join(self._cache_path, f"{self._impl.filename_base}.lock"), "ab")  # noqa: SIM115
        except (ImportError, OSError):
            return None
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.05)
            else:
                return file
        file.close()
        return None

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


@contextmanager
def _light_environments() -> Iterator[None]:
    """Load code without the modules of Numba that its pieces are from, which take longer to import than an answer.

    Code that needs no interpreter never looks at what is global there. A module that is here already is used.
    """
    rebuild = environment._rebuild_env

    def light(name: str, constants: Any, env_name: str) -> Any:
        found = environment.lookup_environment(env_name)
        if found is not None or name in sys.modules or not name.startswith("numba."):
            return rebuild(name, constants, env_name)
        made = environment.Environment({"__name__": name})
        made.consts[:] = constants
        made.env_name = env_name
        environment.Environment._memo[env_name] = made
        return made

    environment._rebuild_env = light
    try:
        yield
    finally:
        environment._rebuild_env = rebuild


class _BroughtFile(IndexDataCacheFile):  # type: ignore[misc]
    """Index and code of one function as a package brings them, in a directory or in a zip."""

    def __init__(self, folder: Traversable, base: str) -> None:
        super().__init__("", base, _STAMP)
        self._folder = folder

    def _load_index(self) -> dict[Any, str]:
        try:
            index = io.BytesIO((self._folder / self._index_name).read_bytes())
        except (OSError, KeyError):
            return {}
        if pickle.load(index) != _VERSION:  # noqa: S301 - as trusted as the sources beside it
            return {}
        stamp, names = pickle.load(index)  # noqa: S301
        return names if stamp == _STAMP else {}

    def _load_data(self, name: str) -> Any:
        return pickle.loads((self._folder / name).read_bytes())  # noqa: S301


def code_folder(baseline: str, package: Traversable = _PACKAGE) -> Traversable:
    """Where a package has the code it brings along for a baseline and this Numba."""
    return package.joinpath(CODE, f"numba-{numba.__version__}", baseline)


def fitting_baselines_here() -> list[str]:
    """The baselines whose code this machine can run, best first."""
    from numba.core.codegen import get_host_cpu_features

    return fitting_baselines(get_host_cpu_features())


@cache
def code_for(features: str) -> list[str]:
    """The baselines that this package brings code for and that fit, best first; none if a target was asked for."""
    if numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None:
        return []
    return [name for name in fitting_baselines(features) if code_folder(name).is_dir()]


class _LazyCache:
    """The cache of one function, which is looked for on disk when the function is first called: most never are."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _found(self) -> _DigestCache:
        return _DigestCache(self._function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


def kernel(function: F) -> F:
    """Compile `function` without the interpreter: cached on disk, the interpreter lock released.

    It makes no arrays, and so counts no references to those it has: a helper with a dozen of them, called for every
    row, would do nothing else.
    """
    return _compiled(function, allocates=False)


def kernel_piece(function: F) -> F:
    """The same for a piece of kernels that is compiled into them: a call would pass every array of its arguments."""
    return _compiled(function, allocates=False, inlined=True)


def allocating_kernel(function: F) -> F:
    """Like `kernel`, for a function that makes arrays of its own."""
    return _compiled(function, allocates=True)


def _compiled(function: F, *, allocates: bool, inlined: bool = False) -> F:
    if not function.__module__.startswith(_KERNEL_PACKAGE):
        raise ImportError(
            f"kernel {function.__module__}.{function.__qualname__} lives outside {_KERNEL_PACKAGE}; "
            "its edits would not reach the cache stamp. Move it there."
        )
    options = {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": allocates, "forceinline": inlined}
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = _LazyCache(function)
    return dispatcher  # type: ignore[no-any-return]
