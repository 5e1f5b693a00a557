"""Tables of rules on their way into a book: checked whole, and written as conditions only where that is needed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.book.changes import check_storable
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.language import parse
from fencepost.rules import Rule, Rules
from fencepost.rules.checked import rule_of_mapping
from fencepost.rules.faults import Faults
from fencepost.rules.options import fields_of, read_table_options
from fencepost.rules.row_digests import digest_rows
from fencepost.rules.table_blocks import TableBlock
from fencepost.rules.table_rules import Known, TableShape, has_texts, read_conditions, read_table, table_shape

_ROWS_AT_ONCE = 10_000
_MOST_BITS = 62


class IncomingTable:
    """The rules of a table with keys and bounds, or with a column of conditions."""

    def __init__(self, table: Any, arguments: Mapping[str, Any]) -> None:
        given = dict(arguments)
        id = given.pop("id", "rule_id")
        equal, ranges = given.pop("equal", ()), given.pop("ranges", None) or {}
        bounds, condition = given.pop("bounds", "[)"), given.pop("condition", None)
        if condition is None:
            shape = table_shape(id, equal, ranges, bounds)
        elif equal or ranges:
            raise FencepostError(
                f"condition={condition!r} beside equal= or ranges=",
                "either a column of conditions, or columns of keys and bounds",
                "Leave one of them out.",
            )
        else:
            shape = TableShape(id, {}, {}, {})
        options, columns = read_table_options(given)
        self.says_enabled = "enabled" in columns.by_option
        """Whether the table says which rules are paused."""
        self.is_by_name = has_texts(table, shape.id)
        """Whether rules have names in place of ids, which are to be given with `number`."""
        if self.is_by_name:
            if columns.by_option.get("name", id) != id:
                raise FencepostError(
                    f"names in the column {columns.by_option['name']} beside texts in {id}",
                    "one column of names",
                    "Leave one of them out.",
                )
            columns = columns._replace(by_option={**columns.by_option, "name": id})
        self._block = read_table(table, shape, options, columns, _NOTHING_KNOWN, by_name=self.is_by_name)
        self._conditions = None if condition is None else read_conditions(table, condition)
        if self._conditions is not None:
            faults = Faults("row")
            is_null = np.asarray(pc.is_null(self._conditions))
            faults.add_rows(is_null, lambda _: "the condition is null; expected a text")
            faults.raise_if_any(self.count, _CORRECT)

    @property
    def ids(self) -> Int64s:
        """Of the rules, in the order of their rows."""
        return self._block.fields.ids

    @property
    def names(self) -> Any:
        """Of the rules, an Arrow array; null where one has none."""
        return self._block.fields.names

    def number(self, ids: Int64s) -> None:
        """Give ids to rules that have only names."""
        self._block = TableBlock(self._block.fields._replace(ids=ids), self._block.keys, self._block.ranges)

    @property
    def count(self) -> int:
        """How many rules there are."""
        return len(self._block.fields.ids)

    def digests(self) -> UInt8s:
        """A digest per row, of what it says."""
        return digest_rows(self._block, with_enabled=self.says_enabled, conditions=self._conditions)

    def rules(self, rows: Int64s | None = None) -> Iterator[Rule]:
        """The rules of all rows, or of some, each with its condition; all faults are raised at the first of them."""
        rows = np.arange(self.count) if rows is None else rows
        faults = Faults("row")
        infinite = _has_infinite_bounds(self._block, rows)
        for row, rule, is_infinite in zip(rows.tolist(), self._suspects(rows), infinite.tolist(), strict=True):
            if rule is not None:
                try:
                    parse(str(check_storable(rule).condition))
                    if rule.stay is not None or rule.margin is not None:
                        rule_of_mapping(fields_of(rule))
                    if is_infinite:  # nothing is above infinity; what else can never hold depends on the type
                        Rules.from_dicts([fields_of(rule)]).columns()
                except FencepostError as error:
                    faults.add(row, error.one_line)
        faults.raise_if_any(self.count, _CORRECT)
        return self._written(rows)

    def _written(self, rows: Int64s) -> Iterator[Rule]:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            texts = None if self._conditions is None else self._conditions.take(pa.array(some)).to_pylist()
            for number, rule in enumerate(self._block.rules(some)):
                yield rule if texts is None else replace(rule, condition=texts[number])

    def _suspects(self, rows: Int64s) -> Iterator[Rule | None]:
        """The rules that may not be storable, None in place of the others.

        Conditions that somebody wrote are all parsed. Those that are written here can only be refused where a bound is
        infinite, for the columns that have no bounds, for a text that cannot be stored, or where they lie in no `stay`.
        """
        if self._conditions is not None:
            yield from self._written(rows)
            return
        is_suspect = _first_of_each(self._block, rows) | _has_infinite_bounds(self._block, rows)
        is_suspect |= _has_wild_texts(self._block, rows) | _has_outer_boxes(self._block, rows)
        found = self._written(rows[is_suspect])
        for suspect in is_suspect.tolist():
            yield next(found) if suspect else None


_CORRECT = "Correct the rows and pass the table again; no rule was changed."


_NOTHING_KNOWN = Known(
    lambda ids: np.zeros(len(ids), np.bool_),
    lambda names: np.zeros(len(names), np.bool_),
    lambda ids: np.broadcast_to(np.int64(1), len(ids)),
)


def _first_of_each(block: TableBlock, rows: Int64s) -> Bools:
    """The first row of those that have nulls in the same columns."""
    codes = np.zeros(len(rows), np.int64)
    bits = 0
    taken = pa.array(rows)
    for values in (*(key.values for key in block.keys), *(side for each in block.ranges for side in each[2:4])):
        if values is not None and values.null_count:
            codes = codes * 2 + np.asarray(pc.is_null(values.take(taken)))
            bits += 1
    is_first = np.zeros(len(rows), np.bool_)
    if bits > _MOST_BITS:
        is_first[:] = True
    elif len(rows):
        is_first[np.unique(codes, return_index=True)[1]] = True
    return is_first


def _has_infinite_bounds(block: TableBlock, rows: Int64s) -> Bools:
    is_infinite = np.zeros(len(rows), np.bool_)
    taken = pa.array(rows)
    for range_ in block.ranges:
        for bounds in (range_.lower, range_.upper):
            if bounds is not None and pa.types.is_floating(bounds.type):
                is_infinite |= np.isinf(np.asarray(pc.fill_null(bounds.take(taken), 0.0)))
    return is_infinite


def _has_outer_boxes(block: TableBlock, rows: Int64s) -> Bools:
    """The rows whose condition must lie within another one."""
    return np.asarray(pc.fill_null(pc.match_substring_regex(block.fields.damping.take(pa.array(rows)), _OUTER), False))


_OUTER = '"(stay|margin)": '


def _has_wild_texts(block: TableBlock, rows: Int64s) -> Bools:
    """The rows with the character zero in a text."""
    is_wild = np.zeros(len(rows), np.bool_)
    taken = pa.array(rows)
    for texts in (*(key.values for key in block.keys), block.fields.labels, block.fields.names, block.fields.damping):
        plain = texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts
        # In JSON the character zero is written with a backslash.
        for wild in ("\0", "\\u0000"):
            is_wild |= np.asarray(pc.fill_null(pc.match_substring(plain.take(taken), wild), False))
    return is_wild
