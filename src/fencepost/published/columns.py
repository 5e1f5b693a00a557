"""The columns that a directory was published with: its schema files, which only grow."""

import json
from collections.abc import Mapping
from typing import Any

from fencepost._files.storage import Place, read_text
from fencepost.errors import FencepostError
from fencepost.snapshot.store import read_header, write_header

_SCHEMA = "schema.json"


class Columns:
    """The columns and types of a directory.

    Args:
        path: the directory.
    """

    def __init__(self, path: Place) -> None:
        self._path = path

    def all(self) -> dict[str, str] | None:
        """Columns and types that versions may use; None before the first version."""
        parts = self.parts()
        return {name: kind for part in parts for name, kind in part.items()} if parts else None

    def zone(self) -> str | None:
        """The time zone that timestamps without one are read in; None before the first version."""
        header = self._header(0)
        return None if header is None else str(header.get("zone", "UTC"))

    def parts(self) -> list[dict[str, str]]:
        """The columns of the first version, then those that were added, in their order."""
        parts: list[dict[str, str]] = []
        while (part := self._part(len(parts))) is not None:
            parts.append(part)
        return parts

    def _part(self, number: int) -> dict[str, str] | None:
        """The columns that came first, or the so-manieth time; None where there are none yet."""
        header = self._header(number)
        return None if header is None else dict(header["columns"])

    def _header(self, number: int) -> dict[str, Any] | None:
        """What the file of these columns says; None where there is none yet."""
        name = _SCHEMA if number == 0 else f"schema.{number:04}.json"
        try:
            found = json.loads(read_text(self._path / name))
            # Directories that were first published before the checksum have nothing but the columns.
            if number or ("header" in found and not isinstance(found["header"], str)):
                header = dict(read_header(self._path, name)[0])
            else:
                header = {"columns": found}
            if not all(isinstance(kind, str) for kind in header["columns"].values()):
                raise ValueError("a type that is no text")
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, FencepostError):
            raise FencepostError(
                f"{self._path / name} is damaged",
                "the columns and types that rules were published with",
                "Restore the file from a backup, or publish the rules to a new directory.",
            ) from None
        return header

    def put(self, used: Mapping[str, str], named: Mapping[str, str], zone: str) -> None:
        """Let the directory have the columns that a version uses and those that were named, and refuse another zone.

        The first version may bring any. Later ones may use only columns that are known or named, in their types.
        """
        try:
            columns = dict(sorted({**named, **used}.items()))
            write_header(self._path / _SCHEMA, {"columns": columns, **({} if zone == "UTC" else {"zone": zone})})
            return
        except FileExistsError:
            pass
        if (known_zone := self.zone()) != zone:
            raise FencepostError(
                f"rules whose zone is {zone}",
                f"{known_zone}, the zone of {self._path}",
                f"Give them the zone {known_zone}, or publish to a new directory.",
            )
        while True:
            known = self.all() or {}
            new = extend_columns(known, named, str(self._path))
            unknown = {name: kind for name, kind in used.items() if {**known, **new}.get(name) != kind}
            if unknown:
                name, kind = next(iter(unknown.items()))
                has = f"{name} is {known[name]} there" if name in known else f"it has {', '.join(known)}"
                raise FencepostError(
                    f"rules that need {name} as {kind}",
                    f"the columns that {self._path} was published with ({has})",
                    "Publish with schema= naming the new column; to give one another type, publish to a new directory.",
                )
            if not new:
                return
            try:
                place = self._path / f"schema.{len(self.parts()):04}.json"
                write_header(place, {"columns": dict(sorted(new.items()))})
            except FileExistsError:  # another publisher has added columns meanwhile
                continue


def extend_columns(known: Mapping[str, str], named: Mapping[str, str], place: str) -> dict[str, str]:
    """Those of the named columns that are new; refuses another type, or another spelling, of a known one.

    >>> extend_columns({"price": "double"}, {"price": "double", "gate": "key"}, "published")
    {'gate': 'key'}
    """
    spelled = {name.lower(): name for name in known}
    for name, kind in named.items():
        own = spelled.get(name.lower(), name)
        if name not in known and own != name:
            raise FencepostError(
                f"the column {name} beside {own}, which {place} has",
                "columns whose names differ by more than case",
                f"Name it {own}, or publish to a new directory.",
            )
        if known.get(name, kind) != kind:
            raise FencepostError(
                f"the column {name} as {kind}",
                f"{known[name]}, as {place} has it",
                "Leave its type as it is, or publish to a new directory.",
            )
    return {name: kind for name, kind in named.items() if name not in known}
