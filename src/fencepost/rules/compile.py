"""From rules to the columns of a snapshot: types bound, every bound an ordinal, boxes grouped by their columns."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._arrow import text_array
from fencepost.computed import Term
from fencepost.computed.attributes import MOST_EXPRESSIONS, expressions_of, too_many
from fencepost.computed.bounds import after_prefix
from fencepost.computed.many_preimages import many_preimages
from fencepost.errors import FencepostError, join_message
from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.language import (
    KEY,
    Band,
    Binder,
    BoundBand,
    BoundCondition,
    ColumnKind,
    ColumnType,
    Condition,
    bind_band,
    infer_kinds,
    infer_types,
    parse,
)
from fencepost.language.forms import Constants, Form, FormPart, find_forms
from fencepost.ordinals import DOUBLE, AttributeType
from fencepost.ordinals.schema import described_columns, read_schema
from fencepost.rules.bounds import edges_of
from fencepost.rules.box_groups import BoxGroups, StringEnds, types_of
from fencepost.rules.checked import TextRule
from fencepost.rules.faults import Faults, FaultyRules
from fencepost.rules.rule import Rule, labels_text, microseconds_of
from fencepost.rules.stays import Dampings, add_damping, parse_stay
from fencepost.rules.table_blocks import RuleFields, TableBlock, TableRange
from fencepost.snapshot import Snapshot
from fencepost.snapshot.columns import (
    DETECTS,
    BandColumns,
    BoxSet,
    CompiledColumns,
    RuleColumns,
    detect_flags,
    detect_names,
)
from fencepost.snapshot.damping import take_damping
from fencepost.snapshot.layer import take_bands

_REPORTED = 10_000
_NO_LINE = (
    "detect='cross' with a range of strings and another range; expected one range, or numbers and times: a straight "
    "line between two positions has no strings on it. Write = for the string, or detect enter and exit."
)
_Progress = Callable[[str, int, int | None], None]
REMEDY = "Correct the rules, or bind their columns to other types."


def compile_columns(
    blocks: Sequence[TableBlock],
    texts: Sequence[TextRule],
    schema: Any,
    faults: Faults | None = None,
    infer: bool = False,
    zone: str = "UTC",
    beside: Iterable[str] = (),
) -> CompiledColumns:
    """See Rules.columns.

    Where `faults` are `FaultyRules`, those are left out. `infer` gives columns that the schema lacks the types that the
    rules suggest. `zone` is that of conditions of `stay`; those of rules are parsed. `beside` are the expressions of
    rules that these are put beside: all together are limited.
    """
    texts = [text for text in texts if text.rule.enabled]
    rows_of = [np.flatnonzero(block.alive & block.fields.enabled) for block in blocks]
    count = sum(map(len, rows_of)) + len(texts)
    faults = Faults("rule") if faults is None else faults
    rules, dampings = _rule_columns(blocks, rows_of, texts)
    stays = _read_stays(dampings, rules.ids, zone, faults)
    if infer and schema is not None:
        schema = {**_lacking(blocks, [*texts, *stays], schema, faults), **described_columns(schema)}
    types, binder = _binder(blocks, [*texts, *stays], schema, faults, count)
    builder = _Builder(types, binder, faults, beside)
    for block, rows in zip(blocks, rows_of, strict=True):
        if len(rows):
            builder.add_block(block, rows)
    builder.add_texts(texts, None if schema is None else types.types)
    faults.raise_if_any(count, REMEDY)
    return _damped(builder.finished(rules), dampings, binder, zone, faults, builder.expressions)


class StoredRules:
    """The enabled ones of rules that are columns of fields and conditions, each a text; parsed.

    Conditions of one form are read and bound together; the few others one by one.

    Args:
        fields: of the rules.
        conditions: an Arrow array of texts.
        zone: that timestamps without one are read in.
        progress: called with the step, how many rules are done, and how many there are.
    """

    def __init__(self, fields: RuleFields, conditions: Any, zone: str, progress: _Progress = lambda *_: None) -> None:
        chosen = np.flatnonzero(fields.enabled)
        self.fields, self._conditions = fields.take(chosen), conditions.take(pa.array(chosen))
        self._zone, self._progress, self.total = zone, progress, len(chosen)
        self._unread = FaultyRules()
        progress("parsing", 0, self.total)
        self._forms, rest = find_forms(self._conditions, zone)
        self._texts = self._read(rest, self._unread, lambda done: progress("parsing", done, self.total))
        self._dampings = Dampings(self.fields.damping)
        self._stays = _read_stays(self._dampings, self.fields.ids, zone, self._unread)

    @property
    def uses(self) -> Counter[tuple[str, ColumnKind]]:
        """Every column with the kind of value that it is compared with, and how many rules do so; bands aside."""
        counts: Counter[tuple[str, ColumnKind]] = Counter()
        for parsed, times in (
            *((form.example, len(form.rows)) for form in self._forms),
            *((text.parsed, 1) for text in (*self._texts.values(), *self._stays)),
        ):
            for use in parsed.columns.items() if isinstance(parsed, Condition) else ():
                counts[use] += times
        return counts

    def compile(
        self, schema: Any, faults: Faults | None = None, infer: bool = False, beside: Iterable[str] = ()
    ) -> CompiledColumns:
        """Like `compile_columns`."""
        fields, faults = self.fields, Faults("rule") if faults is None else faults
        for id, fault in self._unread.found.items():
            faults.add(id, fault)
        examples = [
            TextRule(Rule(int(fields.ids[form.rows[0]]), form.example.text), form.example) for form in self._forms
        ]
        known = [*examples, *self._texts.values(), *self._stays]
        if infer and schema is not None:
            schema = {**_lacking([], known, schema, faults), **described_columns(schema)}
        types, binder = _binder([], known, schema, faults, self.total)
        builder = _Builder(types, binder, faults, beside)
        left = [builder.add_form(form, (fields.detects[form.rows] & DETECTS["cross"]) != 0) for form in self._forms]
        again = np.sort(np.concatenate([np.zeros(0, np.int64), *left]))
        texts = self._texts | self._read(again, faults)
        ordered = sorted(texts)
        builder.add_texts([texts[row] for row in ordered], None if schema is None else types.types, ordered)
        faults.raise_if_any(self.total, REMEDY)
        self._progress("parsing", self.total, self.total)
        made = builder.finished(
            RuleColumns(
                *(fields.ids, fields.versions, fields.detects, fields.initial, fields.expires),
                *(self._conditions, fields.labels, fields.names),
            )
        )
        return _damped(made, self._dampings, binder, self._zone, faults, builder.expressions)

    def _read(
        self, rows: Int64s, faults: Faults, report: Callable[[int], None] = lambda _: None
    ) -> dict[int, TextRule]:
        """The rules in some rows, parsed one by one."""
        found: dict[int, TextRule] = {}
        texts = self._conditions.take(pa.array(rows)).to_pylist()
        for done, (row, text) in enumerate(zip(rows.tolist(), texts, strict=True)):
            rule = Rule(int(self.fields.ids[row]), text, detect=detect_names(int(self.fields.detects[row])))
            try:
                found[row] = TextRule(rule, parse(text, self._zone))
            except FencepostError as error:
                faults.add(rule.id, error.one_line)
            if done % _REPORTED == 0:
                report(done)
        return found


def _numbers(constants: Constants, type_: AttributeType) -> Any:
    """The numbers of a form, exact where the type is."""
    if not constants.is_number:
        raise FencepostError("a string", "a number", "Bind it alone.")
    texts = constants.texts
    points = pc.find_substring(texts, ".")
    if type_ == DOUBLE or constants.is_double:
        numbers = texts.cast(pa.float64())
    elif pc.max(points).as_py() < 0:
        numbers = texts.cast(pa.int64())
    else:  # with as many digits as some number has, since small counts are compared faster
        digits = np.asarray(pc.binary_length(texts)) - np.asarray(points) - 1
        numbers = texts.cast(pa.decimal128(38, int(digits[np.asarray(points) >= 0].max())))
    return pc.negate(numbers) if constants.is_negative else numbers


def _doubles_of(constants: Constants) -> Float64s:
    """The numbers at one place of an expression over doubles."""
    return np.asarray(_numbers(constants, DOUBLE))


def _string_ends(part: FormPart) -> StringEnds | None:
    """The ranges of strings that one comparison of a form asks for; None where it is not plain."""
    count = len((part.lower or part.upper).texts)  # type: ignore[union-attr]
    if any(each is not None and each.is_number for each in (part.lower, part.upper)):
        return None
    text = pa.large_string()
    lower, upper = (
        pa.nulls(count, text) if each is None else each.texts.cast(text) for each in (part.lower, part.upper)
    )
    if part.is_prefix:
        prefixes = pc.utf8_rtrim(lower, characters="%")
        plain = pc.and_(pc.ends_with(lower, "%"), pc.invert(pc.match_substring_regex(prefixes, r"[%_\\]")))
        if not pc.all(plain).as_py():
            return None
        lower, upper = prefixes, pa.array([after_prefix(each) for each in prefixes.to_pylist()], text)
    else:
        both = pc.and_(lower.is_valid(), upper.is_valid())
        if pc.any(pc.and_(both, pc.fill_null(pc.greater_equal(lower, upper), False))).as_py():
            return None
    return StringEnds(lower, upper, np.full(count, part.lower_closed), np.full(count, part.upper_closed))


def _read_stays(dampings: Dampings, ids: Int64s, zone: str, faults: Faults) -> list[TextRule]:
    """The conditions of `stay`, parsed, each with a rule that has it: their columns are used, too."""
    found = []
    for stay, row in dampings.stays().items():
        rule = Rule(int(ids[row]), stay)
        try:
            found.append(TextRule(rule, parse_stay(stay, zone)))
        except FencepostError as error:
            faults.add(rule.id, error.one_line)
    return found


def _damped(
    made: CompiledColumns, dampings: Dampings, binder: Binder, zone: str, faults: Faults, expressions: set[str]
) -> CompiledColumns:
    """Compiled rules with their damping, and without those that are faulty; `expressions` are known so far."""
    ids = made.rules.ids

    def refuse(rows: Int64s, error: FencepostError) -> None:
        for row in rows.tolist():
            faults.add(int(ids[row]), error.one_line)

    made = add_damping(made, dampings, binder, zone, refuse)
    if made.stay is not None:
        _limit_stay(made.stay, faults, expressions)
    if made.damping is not None:
        faults.raise_if_any(len(ids), REMEDY)
    return _leave_out(made, faults.found) if isinstance(faults, FaultyRules) and faults.found else made


def _limit_stay(stay: CompiledColumns, faults: Faults, expressions: set[str]) -> None:
    """Note a fault of each rule for whose outer boxes there are too many expressions."""
    terms = expressions_of(stay.computed.values())
    if len(expressions | terms.keys()) <= MOST_EXPRESSIONS:
        return
    of_rules: dict[int, set[str]] = {}
    for boxes in stay.boxes:
        used = {stay.computed[name].text for name in boxes.attributes if name in stay.computed} & terms.keys()
        for row in boxes.rules.tolist() if used else ():
            of_rules.setdefault(row, set()).update(used)
    for row, used in sorted(of_rules.items()):
        if len(expressions | used) > MOST_EXPRESSIONS:
            beyond = terms[min(used - expressions)]
            faults.add(int(stay.rules.ids[row]), f"stay: {too_many(beyond).one_line}")
        else:
            expressions |= used


def _leave_out(columns: CompiledColumns, faulty: Iterable[int]) -> CompiledColumns:
    """The columns without the rules of these ids."""
    stays = ~np.isin(columns.rules.ids, np.array(list(faulty), np.int64))
    kept = np.flatnonzero(stays)
    chosen, numbers = pa.array(kept), np.cumsum(stays) - 1
    rules = RuleColumns(*(each[kept] if isinstance(each, np.ndarray) else each.take(chosen) for each in columns.rules))
    boxes = []
    for each in columns.boxes:
        mine = np.flatnonzero(stays[each.rules])
        if len(mine):
            keys = tuple(values.take(pa.array(mine)) for values in each.key_values)
            ends = each.firsts[mine], each.lasts[mine]
            boxes.append(BoxSet(each.keys, each.attributes, numbers[each.rules[mine]], keys, *ends))
    bands = columns.bands
    used = {name for each in boxes for name in each.attributes}
    computed = {name: each for name, each in columns.computed.items() if name in used}
    used |= {name for each in computed.values() for name in each.columns}
    if bands is not None:
        bands = take_bands(bands, np.flatnonzero(stays[bands.rules]))
        bands = None if bands is None else bands._replace(rules=numbers[bands.rules])
    if bands is not None:
        used |= {*bands.left.to_pylist(), *bands.right.to_pylist()}
    damping = None if columns.damping is None else take_damping(columns.damping, np.where(stays, numbers, -1))
    stay = None if columns.stay is None else _leave_out(columns.stay, faulty)
    if stay is not None:
        stay = stay if len(stay.rules.ids) else None
        used |= set() if stay is None else stay.types.keys()
    types = {name: type_ for name, type_ in columns.types.items() if name in used}
    # A faulty rule has no dropped branches.
    return CompiledColumns(rules, boxes, types, bands, columns.dropped, damping, stay, computed)


def types_agree(changed: CompiledColumns, last: Snapshot) -> bool:
    """Whether types inferred from some rules alone are those that all rules together would give."""
    before: dict[str, Any] = {**last.types, **dict.fromkeys(last.keys, KEY)}
    now: dict[str, Any] = {**changed.types, **dict.fromkeys(changed.keys, KEY)}
    spellings: dict[str, set[str]] = {}
    for name in (*before, *now):
        spellings.setdefault(name.lower(), set()).add(name)
    # Beside "X" and "x" an unquoted x may be either: only all rules together can tell.
    return all(len(spellings[name.lower()]) == 1 and before.get(name, type_) == type_ for name, type_ in now.items())


class _Types(NamedTuple):
    types: Mapping[str, ColumnType]
    unusable: Mapping[str, FencepostError]

    def blame(self, columns: Iterable[str]) -> FencepostError | None:
        """Why one of the columns cannot be used, where the schema has it with a type that no rule can use."""
        by_lower_case = {name.lower(): error for name, error in self.unusable.items()}
        found = (by_lower_case.get(column.strip('"').lower()) for column in columns)
        return next((error for error in found if error), None)


def _binder(
    blocks: Sequence[TableBlock], texts: Sequence[TextRule], schema: Any, faults: Faults, count: int
) -> tuple[_Types, Binder]:
    if schema is not None:
        read = read_schema(schema)
        return _Types(read.types, read.unusable), Binder(read.types)
    types = _infer(_first_users(blocks, texts), texts, faults)
    faults.raise_if_any(count, REMEDY)
    return _Types(types, {}), Binder(types)


def _lacking(
    blocks: Sequence[TableBlock], texts: Sequence[TextRule], schema: Any, faults: Faults
) -> dict[str, ColumnType]:
    """The columns that rules use and a schema lacks, with the types that the rules suggest."""
    known = {name.lower() for name in described_columns(schema)}
    uses = {use: id for use, id in _first_users(blocks, texts).items() if use[0].strip('"').lower() not in known}
    return _infer(uses, texts, faults, read_schema(schema).types)


def _first_users(blocks: Sequence[TableBlock], texts: Sequence[TextRule]) -> dict[tuple[str, ColumnKind], int]:
    """Every use of a column, with the first rule that has it."""
    first_users: dict[tuple[str, ColumnKind], int] = {}
    for block in blocks:
        rows = np.flatnonzero(block.alive & block.fields.enabled)
        for use in block.columns.items() if len(rows) else ():
            first_users.setdefault(use, int(block.fields.ids[rows[0]]))
    for rule, parsed in texts:
        if isinstance(parsed, Condition):
            for use in parsed.columns.items():
                first_users.setdefault(use, rule.id)
    return first_users


def _infer(
    first_users: Mapping[tuple[str, ColumnKind], int],
    texts: Sequence[TextRule],
    faults: Faults,
    known: Mapping[str, ColumnType] = MappingProxyType({}),
) -> dict[str, ColumnType]:
    """The types that the uses suggest; uses that disagree are faults of both rules."""
    alike = {each for _, parsed in texts if isinstance(parsed, Condition) for each in parsed.alike}
    try:
        uses = [{column: kind} for column, kind in first_users]
        kinds = infer_kinds(uses, alike, known)
        names = (column[1:-1].replace('""', '"') if column.startswith('"') else column for column in kinds)
        faults.undecided = tuple(name for name, kind in zip(names, kinds.values(), strict=True) if kind == "any")
        return infer_types(uses, alike, known)
    except FencepostError:
        pass  # found again below, use by use, to tell which rules disagree
    agreed: dict[tuple[str, ColumnKind], int] = {}
    for (column, kind), id in first_users.items():
        try:
            infer_types([{column: kind} for column, kind in (*agreed, (column, kind))])
            agreed[column, kind] = id
        except FencepostError as error:
            bare = column.strip('"').lower()
            other = next(each for (name, _), each in agreed.items() if name.strip('"').lower() == bare)
            fault = f"{error.got} (rules {id} and {other})" if id != other else error.got
            faults.add(id, join_message(fault, error.expected, error.remedy))
    return infer_types([{column: kind} for column, kind in agreed], alike, known)


class _Builder:
    """Binds rules one after the other and keeps their boxes in groups."""

    def __init__(self, types: _Types, binder: Binder, faults: Faults, beside: Iterable[str]) -> None:
        self._types = types
        self._binder = binder
        self._faults = faults
        self._groups = BoxGroups()
        self.expressions = set(beside)
        """The distinct expressions of rules so far, and of those beside them."""
        self._bands: list[tuple[int, BoundBand]] = []
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
        rows = form.rows
        keys: dict[str, Any] = {}
        edges: dict[str, tuple[Int64s, Int64s]] = {}
        usable = np.ones(len(rows), np.bool_)
        strings: dict[str, StringEnds] = {}
        try:
            for part in form.parts:
                name, type_ = self._binder.find(part.column)
                if type_ == KEY:
                    if name in keys or name in strings or part.term is not None:
                        return rows
                    if part.is_equality and part.lower is not None and not part.lower.is_number:
                        keys[name] = part.lower.texts
                    elif (found_strings := _string_ends(part)) is not None:
                        strings[name] = found_strings
                    else:
                        return rows
                    continue
                if part.is_prefix or (part.term is not None and type_ != DOUBLE):
                    return rows
                ends = []
                for constants, is_lower in ((part.lower, True), (part.upper, False)):
                    bounds = None if constants is None else _numbers(constants, type_)
                    closed = part.lower_closed if is_lower else part.upper_closed
                    found = edges_of(type_, bounds, len(rows), is_lower=is_lower, is_closed=closed, column=name)
                    usable &= found.is_empty == 0
                    ends.append(found.ordinals)
                if part.term is not None:
                    found_ranges = many_preimages(part.term, _doubles_of, ends[0], ends[1])
                    usable &= found_ranges.usable
                    ends = [found_ranges.firsts, found_ranges.lasts]
                first, last = edges.get(name, ends)
                edges[name] = np.maximum(first, ends[0]), np.minimum(last, ends[1])
        except (FencepostError, pa.ArrowException):
            return rows
        for first, last in edges.values():
            usable &= first <= last
        if strings:
            usable &= ~crosses
        names, mine = sorted(edges), np.flatnonzero(usable)
        terms = tuple(Term("column", (), name, KEY) for name in sorted(strings))
        group = self._groups.at(tuple(sorted(keys)), tuple(names), terms)
        if len(mine):
            if terms:
                group.string_arrays.append(tuple(strings[name].take(mine) for name in sorted(strings)))
            firsts, lasts = (
                np.stack([edges[name][end][mine] for name in names], axis=1)
                if names
                else np.empty((len(mine), 0), np.int64)
                for end in (0, 1)
            )
            chosen = pa.array(mine)
            group.arrays.append((rows[mine], tuple(keys[name].take(chosen) for name in sorted(keys)), firsts, lasts))
        return rows[~usable]

    def add_texts(
        self,
        texts: Iterable[TextRule],
        schema: Mapping[str, ColumnType] | None,
        rows: Iterable[int] | None = None,
    ) -> None:
        """Adds rules written as text, in these rows or behind those that were added."""
        bind, groups = self._binder.bind, self._groups
        for row, (rule, parsed) in zip(count(self._row_count) if rows is None else rows, texts, strict=False):
            try:
                if isinstance(parsed, Band):
                    self._bands.append((row, _check_band(bind_band(parsed, schema, schema))))
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

    def _take_computed(self, id: int, bound: BoundCondition) -> bool:
        """Whether there is room for the expressions of a rule."""
        new = expressions_of(bound.computed.values())
        if not new.keys() <= self.expressions:
            if len(self.expressions | new.keys()) > MOST_EXPRESSIONS:
                beyond = next(term for text, term in new.items() if text not in self.expressions)
                self._faults.add(id, too_many(beyond).one_line)
                return False
            self.expressions |= new.keys()
        self._groups.computed |= bound.computed
        return True

    def finished(self, rules: RuleColumns) -> CompiledColumns:
        """All that was added."""
        boxes, computed = self._groups.finished(), self._groups.computed
        types = types_of(boxes, computed, self._types.types)
        for _, band in self._bands:
            types |= {band.left: band.left_type, band.right: band.right_type}
        bands = _band_columns(self._bands)
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


def _check_band(band: BoundBand) -> BoundBand:
    for bound in (band.lower, band.upper):
        if bound is not None and float(bound) != bound:
            raise FencepostError(
                f"the band has a bound of {bound} units",
                "a number that a double holds exactly",
                "Round it, or use a coarser unit.",
            )
    return band


def _band_columns(bands: Sequence[tuple[int, BoundBand]]) -> BandColumns | None:
    if not bands:
        return None
    rows, bound = zip(*bands, strict=True)
    text = pa.large_string()
    return BandColumns(
        np.array(rows, np.int64),
        pa.array([band.left for band in bound], text),
        pa.array([band.right for band in bound], text),
        pa.array([json.dumps(band.same) for band in bound], text),
        pa.array([json.dumps(band.left_keys) for band in bound], text),
        pa.array([json.dumps(band.right_keys) for band in bound], text),
        np.array([-math.inf if band.lower is None else band.lower for band in bound], np.float64),
        np.array([math.inf if band.upper is None else band.upper for band in bound], np.float64),
        np.array([band.lower_closed for band in bound], np.bool_),
        np.array([band.upper_closed for band in bound], np.bool_),
    )


def _rule_columns(
    blocks: Sequence[TableBlock], rows_of: Sequence[Int64s], texts: Sequence[TextRule]
) -> tuple[RuleColumns, Dampings]:
    parts = [block.fields.take(rows) for block, rows in zip(blocks, rows_of, strict=True)]
    parts.append(text_fields([text.rule for text in texts]))
    conditions = text_array([text.rule.condition for text in texts])
    nulls = pa.nulls(sum(map(len, rows_of)), pa.large_string())

    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("ids", "versions", "detects", "initial", "expires")
    }
    labels, names, damping = (
        pa.concat_arrays([getattr(part, name) for part in parts]) for name in ("labels", "names", "damping")
    )
    conditions = pa.concat_arrays([nulls, conditions])
    return RuleColumns(**columns, conditions=conditions, labels=labels, names=names), Dampings(damping)


def text_fields(rules: Sequence[Rule]) -> RuleFields:
    """The fields of rules as columns."""
    flags = {detect: detect_flags(detect) for detect in {rule.detect for rule in rules}}
    return RuleFields(
        np.array([rule.id for rule in rules], np.int64),
        np.array([rule.version for rule in rules], np.int64),
        np.array([flags[rule.detect] for rule in rules], np.uint8),
        np.array([rule.initial for rule in rules], np.bool_),
        np.array([rule.enabled for rule in rules], np.bool_),
        np.array([microseconds_of(rule.expires) for rule in rules], np.int64),
        text_array([labels_text(rule.labels) for rule in rules]),
        text_array([rule.name for rule in rules]),
        text_array([None if (damping := rule.damping) is None else damping.text for rule in rules]),
    )
