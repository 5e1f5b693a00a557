"""Leases: files whose dates say that somebody still needs a version."""

import hashlib
from typing import Self

from fencepost._files.storage import Place, delete, touch


class Lease:
    """Says that a version is needed; whoever holds one renews it every few minutes."""

    def __init__(self, file: Place) -> None:
        self._file = file

    def renew(self) -> None:
        """Keep the version for another while."""
        touch(self._file)

    def release(self) -> None:
        """The version is no longer needed."""
        delete(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def plain_holder(holder: str) -> str:
    """A holder as a part of a file name."""
    return hashlib.blake2b(holder.encode(), digest_size=8).hexdigest()
