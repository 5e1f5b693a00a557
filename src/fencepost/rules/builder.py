"""Binding rules one after the other, or many of one form at once, and keeping their boxes in groups."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.computed import Term
from fencepost.computed.attributes import MOST_EXPRESSIONS, expressions_of, too_many
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.language import KEY, Band, Binder, BoundBand, BoundCondition, ColumnType, Condition, bind_band
from fencepost.language.forms import Form
from fencepost.ordinals import AttributeType
from fencepost.rules.band_columns import attributes_of, band_columns, check_band, sides_of
from fencepost.rules.bounds import edges_of
from fencepost.rules.box_groups import BoxGroups, types_of
from fencepost.rules.checked import TextRule
from fencepost.rules.faults import Faults
from fencepost.rules.form_boxes import bind_form
from fencepost.rules.rule import Rule
from fencepost.rules.table_blocks import TableBlock, TableRange
from fencepost.rules.types import Types, told_kinds
from fencepost.snapshot.columns import CompiledColumns, RuleColumns
from fencepost.snapshot.sides import BandSides

_NO_LINE = (
    "detect='cross' with a range of strings and another range; expected one range, or numbers and times: a straight "
    "line between two positions has no strings on it. Write = for the string, or detect enter and exit."
)


class Builder:
    """Binds rules one after the other and keeps their boxes in groups."""

    def __init__(self, types: Types, binder: Binder, faults: Faults, beside: Iterable[str]) -> None:
        self._types = types
        self._binder = binder
        self._faults = faults
        self._groups = BoxGroups()
        self.expressions = set(beside)
        """The distinct expressions of rules so far, and of those beside them."""
        self._bands: list[tuple[int, BoundBand, BandSides | None]] = []
        self._band_types: dict[str, AttributeType] = {}
        self._dropped: dict[int, tuple[str, ...]] = {}
        self._row_count = 0

    def add_block(self, block: TableBlock, rows: Int64s) -> None:
        """Adds the rules in these rows of a table."""
        ids = block.fields.ids[rows]
        start, self._row_count = self._row_count, self._row_count + len(rows)
        try:
            keys = [(self._key_name(key.column), _take(key.values, rows)) for key in block.keys]
            keys.sort(key=lambda each: each[0])
            ranges = sorted(
                ((*self._attribute(range_.column), range_) for range_ in block.ranges), key=lambda each: each[0]
            )
            edges = [self._edges(type_, range_, name, rows, ids) for name, type_, range_ in ranges]
        except FencepostError as error:
            error = self._types.blame(block.columns) or error
            self._faults.add_all(ids, f"{error.one_line} (rules of that table: {len(rows):,})")
            return
        names = [name for name, *_ in ranges]
        if len(names) + len(keys) > len({*names, *(name for name, _ in keys)}):
            self._faults.add_all(ids, "two columns of the table name one column of the schema")
            return
        firsts = np.stack([first for first, _ in edges], axis=1) if edges else np.empty((len(rows), 0), np.int64)
        lasts = np.stack([last for _, last in edges], axis=1) if edges else firsts
        for used, mine in _by_presence([values for _, values in keys], len(rows)):
            group = self._groups.at(tuple(keys[place][0] for place in used), tuple(names))
            rules = np.arange(start, start + len(rows))
            values = tuple(keys[place][1] for place in used)
            if mine is None:
                group.arrays.append((rules, values, firsts, lasts))
            else:
                chosen = pa.array(mine)
                group.arrays.append(
                    (rules[mine], tuple(each.take(chosen) for each in values), firsts[mine], lasts[mine])
                )

    def add_form(self, form: Form, crosses: Bools) -> Int64s:
        """Adds the rules of one form; the rows of those that are to be bound one by one, perhaps to be refused.

        `crosses` says of each whether it detects cross, for which most ranges of strings are refused.
        """
        found, rest = bind_form(form, self._binder, crosses)
        for boxes in found:
            keys, names, strings = sorted(boxes.keys), sorted(boxes.ranges), sorted(boxes.strings)
            terms = tuple(Term("column", (), name, KEY) for name in strings)
            group = self._groups.at(tuple(keys), tuple(names), terms)
            if terms:
                group.string_arrays.append(tuple(boxes.strings[name] for name in strings))
            none = np.empty((len(boxes.rules), 0), np.int64)
            firsts, lasts = (
                np.stack([boxes.ranges[name][end] for name in names], axis=1) if names else none for end in (0, 1)
            )
            group.arrays.append((boxes.rules, tuple(boxes.keys[name] for name in keys), firsts, lasts))
        return rest

    def add_texts(
        self,
        texts: Iterable[TextRule],
        schema: Mapping[str, ColumnType] | None,
        rows: Iterable[int] | None = None,
    ) -> None:
        """Adds rules written as text, in these rows or behind those that were added."""
        bind, groups = self._binder.bind, self._groups
        texts = list(texts)
        kinds = told_kinds(texts) if schema is None else {}
        for row, (rule, parsed) in zip(count(self._row_count) if rows is None else rows, texts, strict=False):
            try:
                if isinstance(parsed, Band):
                    self._add_band(row, rule, check_band(bind_band(parsed.with_kinds(kinds), schema, schema)))
                    continue
                bound = bind(parsed)
            except FencepostError as error:
                self._faults.add(rule.id, (self._types.blame(_columns_of(parsed)) or error).one_line)
                continue
            if "cross" in rule.detect and any(
                box.strings and len(box.strings) + len(box.ranges) > 1 for box in bound.boxes
            ):
                self._faults.add(rule.id, _NO_LINE)
                continue
            if bound.computed and not self._take_computed(rule.id, bound):
                continue
            for box in bound.boxes:
                groups.add(row, box)
            if bound.dropped:
                self._dropped[rule.id] = bound.dropped

    def _add_band(self, row: int, rule: Rule, band: BoundBand) -> None:
        sides = sides_of(band)
        if sides is not None and not self._takes(rule.id, sides.expressions, rule.condition):
            return
        self._bands.append((row, band, sides))
        self._band_types |= attributes_of(band, sides)
        if band.dropped:
            self._dropped[rule.id] = band.dropped

    def _take_computed(self, id: int, bound: BoundCondition) -> bool:
        """Whether there is room for the expressions of a rule, which are then taken in."""
        if not self._takes(id, expressions_of(bound.computed.values())):
            return False
        self._groups.computed |= bound.computed
        return True

    def _takes(self, id: int, new: Mapping[str, Term | None], condition: str | None = None) -> bool:
        """Whether there is room for the expressions of a rule."""
        if not new.keys() <= self.expressions:
            if len(self.expressions | new.keys()) > MOST_EXPRESSIONS:
                beyond = next(term for text, term in new.items() if text not in self.expressions)
                self._faults.add(id, too_many(beyond, condition).one_line)
                return False
            self.expressions |= new.keys()
        return True

    def finished(self, rules: RuleColumns) -> CompiledColumns:
        """All that was added."""
        boxes, computed = self._groups.finished(), self._groups.computed
        types = types_of(boxes, computed, self._types.types)
        types |= self._band_types
        bands = band_columns(self._bands)
        return CompiledColumns(rules, boxes, dict(sorted(types.items())), bands, self._dropped, computed=computed)

    def _key_name(self, column: str) -> str:
        name, type_ = self._found(column)
        if type_ != KEY:
            raise FencepostError(
                f"column {name} is {type_} and cannot be a key",
                "a column of strings",
                "Put it into ranges=, or correct the schema.",
            )
        return name

    def _attribute(self, column: str) -> tuple[str, AttributeType]:
        name, type_ = self._found(column)
        if type_ == KEY:
            raise FencepostError(
                f"column {name} is a key and cannot have ranges",
                "an attribute",
                "Put it into equal=, or correct the schema.",
            )
        return name, type_

    def _found(self, column: str) -> tuple[str, ColumnType]:
        try:
            return self._binder.find(column)
        except FencepostError as error:
            raise FencepostError(f"the table {error.got}", error.expected, error.remedy) from None

    def _edges(
        self, type_: AttributeType, range_: TableRange, name: str, rows: Int64s, ids: Int64s
    ) -> tuple[Int64s, Int64s]:
        lower, upper = _take(range_.lower, rows), _take(range_.upper, rows)
        count = len(rows)
        first = edges_of(type_, lower, count, is_lower=True, is_closed=range_.lower_closed, column=name)
        last = edges_of(type_, upper, count, is_lower=False, is_closed=range_.upper_closed, column=name)
        is_empty = first.is_empty | last.is_empty | (first.ordinals > last.ordinals)

        def fault(row: int) -> str:
            low, high = ("unbounded" if each is None else each[row] for each in (lower, upper))
            low, high = ("unbounded" if str(each) == "None" else each for each in (low, high))
            return f"{name} from {low} to {high} with bounds {range_.bounds} holds no {type_}; expected some value"

        self._faults.add_rows(is_empty, fault, ids)
        return first.ordinals, last.ordinals


def _columns_of(parsed: Condition | Band) -> Iterable[str]:
    return parsed.columns if isinstance(parsed, Condition) else [*parsed.left_columns, *parsed.right_columns]


def _take(values: Any, rows: Int64s) -> Any:
    """The rows of a column, if there is one; it is not copied where they are all."""
    return values if values is None or len(values) == len(rows) else values.take(pa.array(rows))


def _by_presence(keys: Sequence[Any], count: int) -> Iterator[tuple[list[int], Int64s | None]]:
    """The rows by which of their keys are not null; None for all rows."""
    pattern = np.zeros(count, np.int64)
    for place, values in enumerate(keys):
        pattern |= np.asarray(pc.is_valid(values)).astype(np.int64) << place
    for each in np.unique(pattern).tolist():
        used = [place for place in range(len(keys)) if each >> place & 1]
        mine = np.flatnonzero(pattern == each)
        yield used, None if len(mine) == count else mine
