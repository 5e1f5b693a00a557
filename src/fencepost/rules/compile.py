"""From rules to the columns of a snapshot: types bound, every bound an ordinal, boxes grouped by their columns."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost._arrow import text_array
from fencepost.computed.attributes import MOST_EXPRESSIONS, expressions_of, too_many
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.language import (
    KEY,
    Binder,
    ColumnKind,
    Condition,
    parse,
)
from fencepost.language.forms import find_forms
from fencepost.ordinals.schema import described_columns
from fencepost.rules.builder import Builder
from fencepost.rules.checked import TextRule
from fencepost.rules.faults import Faults, FaultyRules
from fencepost.rules.rule import Rule, labels_text, microseconds_of
from fencepost.rules.stays import Dampings, add_damping, parse_stay
from fencepost.rules.table_blocks import RuleFields, TableBlock
from fencepost.rules.types import REMEDY, infer_lacking, make_binder
from fencepost.snapshot import Snapshot
from fencepost.snapshot.columns import (
    DETECTS,
    BoxSet,
    CompiledColumns,
    RuleColumns,
    detect_flags,
    detect_names,
)
from fencepost.snapshot.damping import take_damping
from fencepost.snapshot.layer import take_bands
from fencepost.snapshot.sides import band_attributes

_REPORTED = 10_000
_Progress = Callable[[str, int, int | None], None]


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
        schema = {**infer_lacking(blocks, [*texts, *stays], schema, faults), **described_columns(schema)}
    types, binder = make_binder(blocks, [*texts, *stays], schema, faults, count)
    builder = Builder(types, binder, faults, beside)
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
            schema = {**infer_lacking([], known, schema, faults), **described_columns(schema)}
        types, binder = make_binder([], known, schema, faults, self.total)
        builder = Builder(types, binder, faults, beside)
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
        used |= band_attributes(bands)
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
