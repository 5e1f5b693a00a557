"""Tables of rules, checked whole: every fault is found before any rule is taken."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._text import name_kind
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.language import Condition, parse
from fencepost.ordinals import TIMESTAMP
from fencepost.ordinals.spellings import is_string
from fencepost.rules.bounds import kind_of, plain_bounds, same_type
from fencepost.rules.damping import CHECKS, Damping, check_together, spelled
from fencepost.rules.faults import Faults
from fencepost.rules.options import OptionColumns, Options
from fencepost.rules.rule import LONGEST_NAME, checked_labels, labels_of, labels_text, microseconds_of
from fencepost.rules.table_blocks import RuleFields, TableBlock, TableKey, TableRange
from fencepost.snapshot.columns import NEVER, detect_flags

_FIRST_INSTANT, _LAST_INSTANT = microseconds_of(datetime.min), microseconds_of(datetime.max)
BOUNDS = ("[)", "[]", "()", "(]")


class TableShape(NamedTuple):
    """Which columns of a table hold what."""

    id: str
    equal: dict[str, str]
    """Key column to the table's column."""
    ranges: dict[str, tuple[str | None, str | None]]
    """Attribute to the table's columns of lower and upper bounds."""
    bounds: dict[str, str]


def table_shape(
    id: str,
    equal: str | Sequence[str] | Mapping[str, str],
    ranges: Mapping[str, tuple[str | None, str | None]],
    bounds: str | Mapping[str, str],
) -> TableShape:
    """The arguments of from_table, checked against each other."""
    if isinstance(equal, str):
        equal = [equal]
    keys = dict(equal) if isinstance(equal, Mapping) else {column: column for column in equal}
    if not keys and not ranges:
        raise FencepostError(
            "neither equal= nor ranges= is given",
            "columns that make a condition",
            "Name the key and the bound columns.",
        )
    for attribute, pair in ranges.items():
        if isinstance(pair, str) or len(pair) != 2:
            raise FencepostError(
                f"{pair!r} cannot be the bounds of {attribute}",
                "two columns, None for a side without bounds",
                f'Write ranges={{"{attribute}": ("lower", "upper")}}.',
            )
    ends = {attribute: bounds if isinstance(bounds, str) else bounds.get(attribute, "[)") for attribute in ranges}
    wrong = [end for end in ends.values() if end not in BOUNDS]
    if wrong:
        raise FencepostError(f"bounds={wrong[0]!r}", f"one of {' '.join(BOUNDS)}", "Write [ where the bound is inside.")
    names = [canonical_name(column) for column in (*keys, *ranges)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FencepostError(
            f"column {twice} is twice in equal= and ranges=",
            "every column once",
            "Leave one out, or quote names with case.",
        )
    return TableShape(
        id,
        {canonical_name(column): name for column, name in keys.items()},
        {canonical_name(attribute): (low, high) for attribute, (low, high) in ranges.items()},
        {canonical_name(attribute): end for attribute, end in ends.items()},
    )


def canonical_name(name: str) -> str:
    """A name as conditions know it; one that SQL needs quotes for is quoted, and so matched exactly."""
    try:
        condition = parse(f"{name} > 0")
        if isinstance(condition, Condition) and len(condition.boxes) == len(condition.boxes[0]) == 1:
            part = condition.boxes[0][0]
            if (part.lower, part.place[0]) == (0, 0) and part.column in (name, name.lower()):
                return part.column
    except FencepostError:
        pass
    return '"' + name.replace('"', '""') + '"'


class Known(NamedTuple):
    """What is known of the rules that are there already."""

    have_rules: Callable[[Int64s], Bools]
    """Which ids they have."""
    have_names: Callable[[Any], Bools]
    """Which names, an Arrow array, they have."""
    next_versions: Callable[[Int64s], Int64s]
    """The versions that these ids get."""


def read_table(
    table: Any,
    shape: TableShape,
    options: Options,
    option_columns: OptionColumns,
    known: Known,
    *,
    by_name: bool = False,
) -> TableBlock:
    """The rules of a table, or one error with all its faults.

    A null in the column of an option stands for what `options` has, which holds for all rows without such a column.
    Where `by_name` is set, the column of ids has names, and the ids are the numbers of rows.
    """
    reader, columns = _Reader(table), option_columns.by_option
    faults = reader.faults
    ids = reader.rows_of_names(shape.id) if by_name else reader.ids(shape.id, known.have_rules)
    keys = tuple(TableKey(column, reader.strings(name)) for column, name in shape.equal.items())
    ranges = tuple(reader.range(column, pair, shape.bounds[column]) for column, pair in shape.ranges.items())
    detects = reader.detects(columns.get("detect"), detect_flags(options.detect))
    fields = RuleFields(
        ids,
        reader.versions(columns["version"]) if "version" in columns else known.next_versions(ids),
        detects,
        reader.flags(columns.get("initial"), options.initial),
        reader.flags(columns.get("enabled"), options.enabled),
        reader.instants(columns.get("expires"), microseconds_of(options.expires)),
        reader.label_columns(option_columns.labels)
        if option_columns.labels
        else reader.labels(columns.get("labels"), labels_text(options.labels)),
        reader.names(columns.get("name"), options.name, known.have_names),
        reader.damping(columns, Damping.of(options), detects),
    )
    faults.raise_if_any(reader.count, "Correct the rows and pass the table again; no rule was added.")
    return TableBlock(fields, keys, ranges)


def has_texts(table: Any, name: str) -> bool:
    """Whether a column of a table has texts."""
    return _Reader(table).has_texts(name)


def read_conditions(table: Any, name: str) -> Any:
    """A column of conditions, not yet parsed."""
    reader = _Reader(table)
    conditions = reader.strings(name)
    return conditions.dictionary_decode() if pa.types.is_dictionary(conditions.type) else conditions


class _Reader:
    """Takes columns out of a table of any kind, each as one Arrow array, and collects the faults of rows."""

    def __init__(self, table: Any) -> None:
        if hasattr(table, "toArrow"):  # Spark
            table = table.toArrow()
        if isinstance(table, (pa.Table, pa.RecordBatch)):
            names = table.schema.names
        elif isinstance(table, Mapping):
            names = list(table)
        elif hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars
            names = list(table.columns)
        else:
            raise FencepostError(
                f"{name_kind(table)} is no table of rules",
                "an Arrow, pandas or polars table, or a dict of columns",
                "Convert it to Arrow.",
            )
        self._table = table
        self._names = names
        self._lengths: dict[str, int] = {}
        self.faults = Faults("row")
        self.count = 0

    def ids(self, name: str, have_rules: Callable[[Int64s], Bools]) -> Int64s:
        array = self._column(name)
        self.count = len(array)
        if pa.types.is_floating(array.type):  # pandas makes them of integers beside a null
            doubles = np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0))
            is_whole = (np.floor(doubles) == doubles) & (np.abs(doubles) < 2.0**53)
            self.faults.add_rows(~is_whole, lambda row: f"id {doubles[row]}; expected a whole number below 2**53")
            ids = np.where(is_whole, doubles, 0.0).astype(np.int64)
        elif pa.types.is_integer(array.type):
            is_whole = np.ones(len(array), np.bool_)
            if pa.types.is_uint64(array.type):
                is_whole = np.asarray(pc.fill_null(array, 0)) < np.uint64(2**63)
                self.faults.add_rows(~is_whole, lambda row: f"id {array[row]}; expected an integer of 64 bits")
            ids = np.asarray(pc.fill_null(array, 0)).astype(np.int64)
        elif pa.types.is_null(array.type):
            ids, is_whole = np.zeros(len(array), np.int64), np.ones(len(array), np.bool_)
        else:
            raise self._wrong_type(name, array, "integers", "Number the rules.")
        is_null = np.asarray(pc.is_null(array))
        self.faults.add_rows(is_null, lambda _: "the id is null; expected an integer")
        self._add_duplicates(ids, is_whole & ~is_null)
        self.faults.add_rows(
            have_rules(ids) & is_whole & ~is_null,
            lambda row: f"rule {ids[row]} already exists; ids must be unique",
        )
        return ids

    def has_texts(self, name: str) -> bool:
        type_ = self._column(name).type
        return is_string(type_.value_type if pa.types.is_dictionary(type_) else type_)

    def rows_of_names(self, name: str) -> Int64s:
        array = self._column(name)
        self.count = len(array)
        self.faults.add_rows(np.asarray(pc.is_null(array)), lambda _: f"{name} is null; expected a name")
        return np.arange(self.count)

    def _add_duplicates(self, ids: Int64s, is_good: Bools) -> None:
        if not is_good.all() or not (ids[1:] > ids[:-1]).all():  # mostly they rise, which is quickly seen
            rows = np.flatnonzero(is_good)
            order = rows[np.argsort(ids[rows], kind="stable")]
            same = ids[order[1:]] == ids[order[:-1]]
            is_repeated = np.zeros(len(ids), np.bool_)
            is_repeated[order[1:][same]] = True
            self.faults.add_rows(
                is_repeated, lambda row: f"id {ids[row]} is in an earlier row, too; ids must be unique"
            )

    def strings(self, name: str) -> Any:
        """A column of keys."""
        array = self._column(name, is_key=True)
        type_ = array.type
        if pa.types.is_null(type_):
            return array.cast(pa.string())
        if pa.types.is_dictionary(type_) and is_string(type_.value_type):
            if array.null_count == 0 and array.dictionary.null_count == 0:
                return array
            return array.dictionary_decode().cast(pa.string())
        if not is_string(type_):
            raise self._wrong_type(
                name, array, "strings in a column of keys", "Cast it to strings, or put it into ranges=."
            )
        return array if array.nbytes > 2**30 else array.cast(pa.string())

    def range(self, column: str, pair: tuple[str | None, str | None], bounds: str) -> TableRange:
        lower_name, upper_name = pair
        lower_closed, upper_closed = bounds[0] == "[", bounds[1] == "]"
        lower = upper = None
        if lower_name is not None:
            lower = plain_bounds(self._column(lower_name), lower_name, self.faults, round_up=lower_closed)
        if upper_name is not None:
            upper = plain_bounds(self._column(upper_name), upper_name, self.faults, round_up=not upper_closed)
        names = f"{lower_name} and {upper_name}"
        lower, upper = same_type(lower, upper, names)
        if lower is not None and upper is not None:
            self._add_empty(lower, upper, names, bounds)
        some = upper if lower is None else lower
        return TableRange(column, "number" if some is None else kind_of(some.type), lower, upper, bounds)

    def _add_empty(self, lower: Any, upper: Any, names: str, bounds: str) -> None:
        if pa.types.is_boolean(lower.type):
            lower, upper = lower.cast(pa.int8()), upper.cast(pa.int8())
        compare, expected = (pc.greater, "at most") if bounds == "[]" else (pc.greater_equal, "below")
        is_empty = np.asarray(pc.fill_null(compare(lower, upper), False))
        self.faults.add_rows(
            is_empty,
            lambda row: (
                f"{names} are {lower[row]} and {upper[row]}, an empty range; "
                f"expected lower {expected} upper with bounds {bounds}"
            ),
        )

    def versions(self, name: str) -> Int64s:
        return np.asarray(pc.fill_null(self._column(name).cast(pa.int64()), 1))

    def detects(self, name: str | None, default: int) -> UInt8s:
        if name is None:
            return np.broadcast_to(np.uint8(default), self.count)
        array = self._column(name)
        if not (is_string(array.type) or pa.types.is_null(array.type)):
            raise self._wrong_type(name, array, "strings such as 'enter,exit'", "Cast it to strings.")
        flags, faulty = self._by_distinct(array.cast(pa.string()), detect_flags, 0)
        flags[np.asarray(pc.is_null(array))] = default
        self.faults.add_rows(flags == 0, lambda row: faulty[array[row].as_py()].one_line)
        return flags.astype(np.uint8)

    def _by_distinct(
        self, array: Any, read: Callable[[str], int], failed: int
    ) -> tuple[Int64s, dict[str, FencepostError]]:
        """What a function makes of each row, called once per distinct text."""
        encoded = pc.fill_null(array, "").dictionary_encode()
        found: list[int] = []
        faulty: dict[str, FencepostError] = {}
        for text in encoded.dictionary.to_pylist():
            try:
                found.append(read(text))
            except FencepostError as error:
                found.append(failed)
                faulty[text] = error
        return np.array(found, np.int64)[np.asarray(encoded.indices)], faulty

    def flags(self, name: str | None, default: bool) -> Bools:
        if name is None:
            return np.broadcast_to(np.bool_(default), self.count)
        array = self._column(name)
        if not (pa.types.is_boolean(array.type) or pa.types.is_null(array.type)):
            raise self._wrong_type(name, array, "booleans", "Cast it to booleans.")
        return np.asarray(pc.fill_null(array.cast(pa.bool_()), default))

    def instants(self, name: str | None, default: int) -> Int64s:
        if name is None:
            return np.broadcast_to(np.int64(default), self.count)
        instants, is_valid = TIMESTAMP.encode(self._column(name), name)
        if is_valid is not None:
            instants[~is_valid] = default
        outside = (instants < _FIRST_INSTANT) | ((instants > _LAST_INSTANT) & (instants != NEVER))
        self.faults.add_rows(
            outside, lambda _: f"{name} has a time outside the years 1 to 9999; expected null for a rule that stays"
        )
        return instants

    def labels(self, name: str | None, default: str | None) -> Any:
        if name is None:
            return pa.repeat(pa.scalar(default, pa.large_string()), self.count)
        array = self._column(name)
        if pa.types.is_map(array.type) or pa.types.is_struct(array.type):
            texts: Any = pa.array([self._packed(row, value) for row, value in enumerate(array.to_pylist())])
        elif is_string(array.type) or pa.types.is_null(array.type):
            texts = array.cast(pa.large_string())
            canonical: dict[str, str | None] = {}

            def read(text: str) -> int:
                canonical[text] = labels_text(labels_of(text)) if text else None
                return 1

            is_good, faulty = self._by_distinct(texts, read, 0)
            self.faults.add_rows(is_good == 0, lambda row: faulty[texts[row].as_py()].one_line)
            if not faulty:
                encoded = texts.dictionary_encode()
                written = [canonical[text] for text in encoded.dictionary.to_pylist()]
                texts = pa.array(written, pa.large_string()).take(encoded.indices)
        else:
            raise self._wrong_type(
                name, array, "JSON objects as strings, or a map or struct of strings", "Write the labels as JSON."
            )
        texts = texts.cast(pa.large_string())
        return texts if default is None else pc.fill_null(texts, default)

    def label_columns(self, columns: Sequence[str]) -> Any:
        """Labels that have a column each, as JSON objects; a null is no label."""
        parts = []
        for column in sorted(set(columns)):
            array = self._column(column)
            try:
                encoded = array.cast(pa.string()).dictionary_encode()
            except (pa.ArrowException, NotImplementedError):
                raise self._wrong_type(column, array, "values that can be written as text", "Cast it.") from None
            name = json.dumps(column, ensure_ascii=False)
            texts = [f"{name}: {json.dumps(text, ensure_ascii=False)}" for text in encoded.dictionary.to_pylist()]
            parts.append(pa.array(texts, pa.large_string()).take(encoded.indices))
        joined = parts[0]
        for part in parts[1:]:  # Arrow's own way of skipping nulls loses rows where all are null
            joined = pc.coalesce(pc.binary_join_element_wise(joined, part, _text(", ")), joined, part)
        return pc.binary_join_element_wise(_text("{"), joined, _text("}"), _text(""))

    def names(self, column: str | None, default: str | None, have_names: Callable[[Any], Bools]) -> Any:
        if column is None:
            names: Any = pa.repeat(pa.scalar(default, pa.large_string()), self.count)
        else:
            array = self._column(column)
            if not (is_string(array.type) or pa.types.is_null(array.type)):
                raise self._wrong_type(column, array, "strings", "Cast it to strings.")
            names = array.cast(pa.large_string())
            names = names if default is None else pc.fill_null(names, default)
        if names.null_count == len(names):
            return names
        lengths = pc.fill_null(pc.utf8_length(names), 1)
        is_wrong = (np.asarray(lengths) < 1) | (np.asarray(lengths) > LONGEST_NAME)
        self.faults.add_rows(is_wrong, lambda row: f"a name of {lengths[row]} characters; expected 1 to {LONGEST_NAME}")
        codes = np.asarray(pc.fill_null(names.dictionary_encode().indices, -1))
        rows = np.flatnonzero(codes >= 0)
        order = rows[np.argsort(codes[rows], kind="stable")]
        is_repeated = np.zeros(len(names), np.bool_)
        is_repeated[order[1:][codes[order[1:]] == codes[order[:-1]]]] = True
        self.faults.add_rows(
            is_repeated, lambda row: f"the name {str(names[row])!r} is in an earlier row, too; names must be unique"
        )
        self.faults.add_rows(
            have_names(names), lambda row: f"the name {str(names[row])!r} belongs to another rule; names must be unique"
        )
        return names

    def damping(self, columns: Mapping[str, str], for_all: Damping | None, detects: UInt8s) -> Any:
        """What `Damping.text` writes, per row; null where there is none."""
        named = {name: self._column(columns[name]) for name in Damping._fields if name in columns}
        given = {name: array for name, array in named.items() if array.null_count < len(array)}
        if not given and for_all is None:
            return pa.nulls(self.count, pa.large_string())
        read = {name: self._option(name, columns[name], array) for name, array in given.items()}
        # Rows of one combination of what they detect and have in each column are looked at once.
        codes, rows = np.unique(detects, return_inverse=True)[1], np.zeros(0, np.int64)
        for _, numbers in read.values():
            codes = np.unique(codes * (int(numbers.max(initial=0)) + 2) + numbers + 1, return_inverse=True)[1]
        _, rows = np.unique(codes, return_index=True)
        texts: list[str | None] = []
        wrong: dict[int, str] = {}
        for code, row in enumerate(rows.tolist()):
            own = {name: values[numbers[row]] for name, (values, numbers) in read.items() if numbers[row] >= 0}
            made = (for_all or Damping())._replace(**own)
            made_text = None if made == Damping() else made.text
            try:
                check_together(made, int(detects[row]))
            except FencepostError as error:
                wrong[code] = error.one_line
            texts.append(made_text)
        if wrong:
            self.faults.add_rows(np.isin(codes, list(wrong)), lambda row: wrong[int(codes[row])])
        return pa.array(texts, pa.large_string()).take(pa.array(codes))

    def _option(self, name: str, column: str, array: Any) -> tuple[list[Any], Int64s]:
        """The distinct values of an option, checked, and which a row has: -1 where there is none."""
        if pa.types.is_map(array.type) or pa.types.is_struct(array.type):
            packed = [each if each is None else dict(each) for each in array.to_pylist()]
            present = [each and {key: one for key, one in each.items() if one is not None} for each in packed]
            array = pa.array([json.dumps(each, default=float) if each else None for each in present], pa.string())
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_floating(array.type):  # pandas makes them of integers beside a null
            array = array.cast(pa.int64(), safe=False) if _all_whole(array) else array
        try:
            encoded = array.dictionary_encode()
        except (pa.ArrowException, NotImplementedError):
            raise self._wrong_type(column, array, f"values of {spelled(name)}", "Write them as text.") from None
        values: list[Any] = []
        wrong: dict[int, str] = {}
        for number, value in enumerate(encoded.dictionary.to_pylist()):
            try:
                checked = CHECKS[name](value)
                values.append(tuple(checked.items()) if isinstance(checked, dict) else checked)
            except FencepostError as error:
                wrong[number] = error.one_line
                values.append(None)
        numbers = np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), -1))
        if wrong:
            self.faults.add_rows(np.isin(numbers, list(wrong)), lambda row: wrong[int(numbers[row])])
        return values, numbers

    def _packed(self, row: int, value: Any) -> str | None:
        if value is None:
            return None
        pairs = value.items() if isinstance(value, dict) else value
        try:
            return labels_text(checked_labels({name: text for name, text in pairs if text is not None}))
        except FencepostError as error:
            self.faults.add(row, error.one_line)
            return None

    def _column(self, name: str, *, is_key: bool = False) -> Any:
        if name not in self._names:
            raise FencepostError(
                f"the table has no column {name}", f"one of {', '.join(map(str, self._names))}", "Correct the name."
            )
        if list(self._names).count(name) > 1:
            raise FencepostError(
                f"the table has two columns named {name}", "one column of each name", "Rename one of the two."
            )
        values = self._table[name]
        try:
            array = _as_arrow(values)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            if is_key:
                return self._keys_of_objects(values, name)
            raise FencepostError(
                f"column {name} cannot be converted to Arrow ({str(error).splitlines()[0]})",
                "values of one type",
                "Convert the column to numbers, dates or strings.",
            ) from None
        self._check_length(name, len(array))
        return array

    def _check_length(self, name: str, length: int) -> None:
        self._lengths[name] = length
        first, expected = next(iter(self._lengths.items()))
        if length != expected:
            raise FencepostError(
                f"column {name} has {length:,} rows and {first} has {expected:,}",
                "columns of one length",
                "Pass whole columns.",
            )

    def _keys_of_objects(self, values: Any, name: str) -> Any:
        """Mixed objects, which Arrow refuses: the strings among them; all others are faults."""
        objects = list(values)
        self._check_length(name, len(objects))
        # Unequal to itself is the null of pandas.
        wrong = [
            not (each is None or isinstance(each, str) or (isinstance(each, float) and each != each))
            for each in objects
        ]
        self.faults.add_rows(
            np.array(wrong), lambda row: f"{objects[row]!r} in {name}; expected a string, or null for every key"
        )
        return pa.array([each if isinstance(each, str) else None for each in objects], pa.string())

    def _wrong_type(self, name: str, array: Any, expected: str, remedy: str) -> FencepostError:
        return FencepostError(f"column {name} is of type {array.type}", expected, remedy)


def _all_whole(array: Any) -> bool:
    doubles = np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0))
    return bool(((np.floor(doubles) == doubles) & (np.abs(doubles) < 2.0**53)).all())


def _text(text: str) -> Any:
    return pa.scalar(text, pa.large_string())


def _as_arrow(values: Any) -> Any:
    """One plain Arrow array."""
    if hasattr(values, "to_arrow"):  # polars
        values = values.to_arrow()
    elif not isinstance(values, (pa.Array, pa.ChunkedArray)):
        # Only pandas writes NaN for null; in numpy and in lists it is a number that someone failed to compute.
        values = pa.array(values, from_pandas=hasattr(values, "iloc"))
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return values
