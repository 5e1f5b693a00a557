"""Rules bound to the columns of a file: from a book, or from a published directory."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.book.publishing import rules_from
from fencepost.cli.data import DataFile
from fencepost.cli.options import open_book
from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.ordinals.spellings import TYPES
from fencepost.ordinals.zones import instants_of
from fencepost.published import VersionDirectory
from fencepost.rules import Rules
from fencepost.rules.table_arguments import read_pairs
from fencepost.snapshot import CompiledColumns, Snapshot

if TYPE_CHECKING:
    from fencepost.book import Progress, RuleBook
    from fencepost.rules.rule import RuleKey

_TYPE_NAMES = {"key": "string", "number": "double", "timestamp": "timestamp_ntz"}
"""The types in which columns of a text file are read, by the kind of value that rules compare them with."""


class BoundRules(NamedTuple):
    """A snapshot, the file whose rows it is asked about, and the types to read the file with."""

    snapshot: Snapshot
    data: DataFile
    types: dict[str, Any]
    """By the file's own names."""

    def columns(self) -> CompiledColumns:
        """The rules in force as they were before they were indexed."""
        return self.snapshot.take(self.snapshot.in_force)

    def batches(self, report: "Progress", step: str) -> Iterator[Any]:
        """The rows of the file, some at a time."""
        without_zone = {name: type_ for name, type_ in self.types.items() if self._lacks_zone(name, type_)}
        read_as = {**self.types, **{name: pa.timestamp("us") for name in without_zone}}
        for table, done in self.data.batches(read_as):
            for name in without_zone:  # as in a condition
                instants = instants_of(table[name], self.snapshot.zone)
                table = table.set_column(table.schema.get_field_index(name), name, instants)
            yield table
            report(step, done, self.data.bytes)

    def _lacks_zone(self, name: str, wanted: Any) -> bool:
        looks = self.data.schema.field(name).type
        has_zone = pa.types.is_timestamp(looks) and looks.tz is not None
        return self.data.is_text and pa.types.is_timestamp(wanted) and wanted.tz is not None and not has_zone


def load_newest(directory: str) -> Snapshot:
    """The newest version of a directory."""
    return VersionDirectory(directory).load()


@contextmanager
def read_book(url: str) -> Iterator["RuleBook"]:
    """A book with at least one rule."""
    with open_book(url) as book:
        if not len(book):
            raise FencepostError(f"{book.url} without any rule", "at least one rule", "Add some: fencepost rules add.")
        yield book


def bind_rules(
    url: str,
    directory: str | None,
    data: DataFile,
    given: list[str] | None,
    report: "Progress",
    only: "Sequence[RuleKey]" = (),
    tried: Rules | None = None,
    time: str | None = None,
) -> BoundRules:
    """The rules of a book or a directory, bound to the columns of a file.

    `only` names the rules to take; `tried` rules take the place of the book. `given` has the values of --type.
    """
    named = {}
    for name, text in read_pairs(given, "--type", "price=double").items():
        own = data.find(name)
        if own is None:
            raise FencepostError(
                f"--type {name}={text}", f"one of the columns {', '.join(data.schema.names)}", "Correct the name."
            )
        named[own] = arrow_type(text)
    if directory is not None:
        snapshot = _choose(load_newest(directory), only)
        wanted = {name: type_.arrow for name, type_ in snapshot.types.items()} | dict.fromkeys(
            snapshot.keys, pa.string()
        )
        return BoundRules(snapshot, data, {**_time_types(data, time), **_rename(data, wanted), **named})
    if tried is not None:
        return _bind(tried.column_kinds, tried.compile, data, named, time)
    with read_book(url) as book:
        if only:
            chosen = rules_from((book[key] for key in dict.fromkeys(only)), book.zone)
            return _bind(chosen.column_kinds, chosen.compile, data, named, time)
        return _bind(
            partial(book.column_kinds, progress=report), partial(book.compile, progress=report), data, named, time
        )


def _bind(
    kinds: Callable[[], Mapping[str, str]],
    compile: Callable[[Any], Snapshot],
    data: DataFile,
    named: dict[str, Any],
    time: str | None,
) -> BoundRules:
    """Rules that were not published, bound to the columns of a file."""
    types = {**_time_types(data, time), **_types_by_rules(data, kinds()), **named} if data.is_text else named
    schema = pa.schema([(field.name, types.get(field.name, field.type)) for field in data.schema])
    return BoundRules(compile(schema), data, types)


def _choose(snapshot: Snapshot, only: "Sequence[RuleKey]") -> Snapshot:
    if not only:
        return snapshot
    ids = sorted({snapshot.id_of(key) if isinstance(key, str) else operator.index(key) for key in only})
    rows = snapshot.rows_of(np.array(ids, np.int64))
    if (rows < 0).any():
        missing = ids[int(np.flatnonzero(rows < 0)[0])]
        raise FencepostError(f"rule {missing}", "the id of a published rule in force", "Correct the id.")
    return snapshot.only(np.sort(rows))


def _rename(data: DataFile, wanted: dict[str, Any]) -> dict[str, Any]:
    """Types by the file's own names of their columns."""
    found = {name: data.find(name.strip('"')) for name in wanted}
    return {own: wanted[name] for name, own in found.items() if own is not None}


def _time_types(data: DataFile, time: str | None) -> dict[str, Any]:
    """The types of the time columns of a text: microseconds, whatever the first rows show."""
    if not data.is_text:
        return {}
    found = {
        field.name: pa.timestamp("us", field.type.tz) for field in data.schema if pa.types.is_timestamp(field.type)
    }
    own = None if time is None else data.find(time)
    if own is not None and pa.types.is_string(data.schema.field(own).type):
        found[own] = pa.timestamp("us")
    return found


def _types_by_rules(data: DataFile, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The types of columns of a text whose values rules compare with strings, dates or times, or that look empty."""
    found: dict[str, Any] = {}
    for name, kind in kinds.items():
        own = data.find(name.strip('"'))
        looks = None if own is None else data.schema.field(own).type
        if own is None or (kind in ("date", "timestamp") and pa.types.is_temporal(looks)):
            continue
        if kind == "any":  # compared with no constant: it is what it looks like
            kind = "number" if pa.types.is_null(looks) else kind
        if kind not in ("number", "any") or pa.types.is_null(looks):
            found[own] = TYPES[_TYPE_NAMES.get(kind, kind)].arrow
    return found


def arrow_type(text: str) -> Any:
    """The Arrow type of a name such as double, decimal(9,2) or string."""
    from fencepost.ordinals.schema import read_schema

    schema = read_schema({"column": text})
    if schema.unusable:
        raise schema.unusable["column"]
    found = schema.types["column"]
    return found.arrow if isinstance(found, AttributeType) else pa.string()
