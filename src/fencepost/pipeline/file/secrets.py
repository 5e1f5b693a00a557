"""References in the values of a pipeline file, and texts that hide what they stand for.

``${NAME}`` is a variable of the environment, ``file:PATH`` the content of a file, ``$${`` a plain ``${``. What is read
so, and what else is a secret by its place, never reaches a message: `Secrets.hide` puts the reference in its place.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

from fencepost._text import mask_urls
from fencepost.errors import FencepostError

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE = re.compile(r"file:(?!//)(.+)", re.DOTALL)
_LARGEST = 1 << 16
_SECRET_KEY = re.compile(r"secret|passw|token|credential|jaas|access.?key|authorization", re.IGNORECASE)
"""Keys of options, settings and headers whose values are hidden, also where they are written out."""
_SHORTEST = 4
"""Shorter values are no secrets: hiding them would garble every message."""
_ALONE = 8
"""From this length on a value is hidden inside of words, too."""


class Resolved(str):
    """A text that came from a reference; shows itself as it was written."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, value: str, written: str) -> Self:
        """A value with its reference."""
        made = super().__new__(cls, value)
        made.written = written
        return made

    def __repr__(self) -> str:
        return repr(self.written)


class Secrets:
    """What a pipeline's messages must not show."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        """What stands in place of each secret."""

    def add(self, value: str, shown: str = "***") -> None:
        """Hide a value from now on, however it is quoted."""
        if len(value) >= _SHORTEST and value != shown:
            spellings = (value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value), quote(value, safe=""))
            self._shown |= dict.fromkeys(spellings, shown)

    def hide(self, text: str) -> str:
        """A text without any secret."""
        for value, shown in sorted(self._shown.items(), key=lambda pair: -len(pair[0])):
            if len(value) >= _ALONE:
                text = text.replace(value, shown)
            elif value in text:
                text = shown.join(re.split(rf"(?<!\w){re.escape(value)}(?!\w)", text))
        return mask_urls(text)

    def hide_in(self, error: FencepostError) -> FencepostError:
        """The same refusal without any secret."""
        error.got, error.expected, error.remedy = map(self.hide, (error.got, error.expected, error.remedy))
        error.args = (error.got, error.expected, error.remedy)
        return error


def resolve(content: Any, home: Path, secrets: Secrets, faults: dict[str, FencepostError], place: str = "") -> Any:
    """A value of the file with its references resolved; those that cannot be are faults by place, and left out."""
    if isinstance(content, Mapping):
        pairs = ((key, resolve(value, home, secrets, faults, f"{place}.{key}")) for key, value in content.items())
        kept = {key: value for key, value in pairs if value is not None}
        for key, value in kept.items():
            if isinstance(value, str) and _SECRET_KEY.search(key):
                secrets.add(value, value.written if isinstance(value, Resolved) else "***")
        return kept
    if isinstance(content, list):
        numbered = enumerate(content, start=1)
        found_items = [resolve(value, home, secrets, faults, f"{place}.{number}") for number, value in numbered]
        return [value for value in found_items if value is not None]
    if not isinstance(content, str):
        return content
    try:
        value = _resolve_text(content, home)
    except FencepostError as error:
        faults[place.lstrip(".")] = error
        return None
    for secret in _passwords(value):
        secrets.add(secret)
    if value == content:
        return content
    if any(found[1] for found in _REFERENCE.finditer(content)) or _FILE.fullmatch(content):
        secrets.add(value, content)
        for found in _REFERENCE.finditer(content):
            if found[1]:
                secrets.add(os.environ[found[1]], found[0])
        return Resolved(value, content)
    return value


def _resolve_text(text: str, home: Path) -> str:
    if named := _FILE.fullmatch(text):
        return _read_secret(home / named[1], text)

    def value_of(found: "re.Match[str]") -> str:
        if found[0] == "$${":
            return "${"
        name = found[1] or ""
        if not _NAME.fullmatch(name):
            raise FencepostError(
                f"the reference {found[0]} in {text!r}",
                "the name of an environment variable in braces",
                "Write ${NAME}, or $${ for a plain ${.",
            )
        if not os.environ.get(name):
            state = "empty" if name in os.environ else "not set"
            raise FencepostError(f"{found[0]} is {state}", "a variable of the environment", f"Set {name}.")
        return os.environ[name]

    return _REFERENCE.sub(value_of, text)


def _read_secret(path: Path, written: str) -> str:
    """The content of a file, without the line feed at its end."""
    expected, remedy = "a file with the value, as text in UTF-8", "Correct the path, or its permissions."
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        value = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise FencepostError(f"{written} ({error.strerror})", expected, remedy) from None
    except ValueError:
        raise FencepostError(f"{written} is no text", expected, remedy) from None
    if not value or len(content) > _LARGEST:
        state = "is larger than 64 KB" if value else "is empty"
        raise FencepostError(f"{written} {state}", expected, "Write the value into the file.")
    return value


def _passwords(value: str) -> Iterator[str]:
    """The passwords of a URL."""
    if "://" not in value or "@" not in value:
        return
    user, _, _ = value.partition("://")[2].rpartition("@")
    password = user.partition(":")[2]
    yield password
    yield unquote(password)
    if urlsplit(value).scheme.startswith("http") and not password:
        yield user
