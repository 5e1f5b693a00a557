"""Claims: who writes a version has its number alone, and no number is used twice."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from fencepost._files.storage import Place, create, delete, exists, make_directory, modified, names, put
from fencepost.errors import FencepostError

DIGITS = 8
"""How long the names of versions are."""
NUMBER = "[0-9]" * DIGITS
"""The pattern of these names."""


class Claims:
    """The claimed and the used numbers of a directory.

    Args:
        path: the directory.
    """

    def __init__(self, path: Place) -> None:
        self._path = path

    def take(self) -> int:
        """Claim the next number, which is nobody else's from then on."""
        number = self._newest() + 1
        while True:
            try:
                self._create_claim(number)
            except FileExistsError:
                number += 1
                continue
            self._check_exclusive(number)
            if number > self._newest_used():
                return number
            # The claim was collected while this publisher slept: the number was used before.
            delete(self.file(number))
            number = self._newest() + 1

    def _newest(self) -> int:
        """The greatest number that was ever claimed, or 0; found without a look at all that is there.

        Numbers are claimed one after the other, and the claims above the newest used number stay.
        """
        used = self._newest_used()
        if not isinstance(self._path, Path):
            return max(used, *self._numbers(), 0)
        low, high = used, used + 1
        while self._is_claimed(high):
            low, high = high, 2 * high - used
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_claimed(middle) else (low, middle)
        return low

    def _newest_used(self) -> int:
        """The number up to which claims may have been collected, or 0; it never falls."""
        return max((int(name) for name in names(self._path / "used", NUMBER)), default=0)

    def _is_claimed(self, number: int) -> bool:
        return exists(self.file(number))

    def file(self, number: int) -> Place:
        """The file that says so of a number."""
        return self._path / f"{number:0{DIGITS}}.claim"

    def _create_claim(self, number: int) -> None:
        create(self.file(number), f"{os.getpid()}\n")

    def _check_exclusive(self, number: int) -> None:
        """Refuse a store that ignores the condition of a request: there, publishers would overwrite each other."""
        if isinstance(self._path, Path):
            return
        with contextlib.suppress(FileExistsError):
            self._create_claim(number)
            raise FencepostError(
                f"{self._path}, on a store that created a file a second time",
                "one that creates a file only if it is missing (conditional writes)",
                "Use a store that has conditional writes, or publish to a path.",
            )

    def collect(self, announced: Sequence[int], oldest: float) -> None:
        """Delete the claims up to the newest version that publishers are done with; their numbers are not used again.

        Of the files that say so the last two stay, so that whoever lists them meanwhile finds one of them.
        """
        if announced and announced[-1] > self._newest_used():
            make_directory(self._path / "used")
            put(self._path / "used" / f"{announced[-1]:0{DIGITS}}", "\n")
        for name in names(self._path / "used", NUMBER)[:-2]:
            delete(self._path / "used" / name)
        used, done = self._newest_used(), set(announced)
        for number in self._numbers():
            if number <= used and (number in done or (modified(self.file(number)) or oldest) < oldest):
                delete(self.file(number))

    def _numbers(self) -> list[int]:
        return [int(name[:DIGITS]) for name in names(self._path, f"{NUMBER}.claim")]
