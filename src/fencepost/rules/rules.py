"""A set of rules that can be edited, bound to types and compiled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple, Self, SupportsIndex, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._text import count
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.language import ColumnKind, Condition, infer_kinds
from fencepost.ordinals.schema import read_schema
from fencepost.ordinals.zones import check_zone
from fencepost.published import VersionDirectory
from fencepost.rules import files
from fencepost.rules.checked import (
    TextRule,
    check_rule,
    name_taken,
    no_such_name,
    read_in_zone,
    rule_of_mapping,
)
from fencepost.rules.compile import compile_columns, types_agree
from fencepost.rules.faults import Faults, FaultyRules, RuleFault, report_faults
from fencepost.rules.options import Options, RuleOptions, TableOptions, read_table_options, takes_options, with_name
from fencepost.rules.rule import Rule, RuleKey, checked_id, labels_of
from fencepost.rules.stays import Dampings, parse_stay
from fencepost.rules.table_blocks import TableBlock
from fencepost.rules.table_rules import Known, read_table, table_shape
from fencepost.snapshot import CompiledColumns, Snapshot

_COMPILED_ALONE = 8
"""A change of at most one rule in so many is compiled alone: one layer more to ask costs less than compiling all."""


_LOOKED_AT = 100
"""Rules whose columns `repr` names: a million would take a second."""


class _Compiled(NamedTuple):
    """What was compiled last."""

    snapshot: Snapshot
    types: Mapping[str, Any] | None
    """Of the schema, if there was one."""
    blocks: int
    """How many blocks there were."""
    left_out: frozenset[int] = frozenset()
    """Rules that were faulty."""
    zone: str = "UTC"


class TableArguments(TableOptions, total=False):
    """The arguments of Rules.add_table."""

    id: str
    equal: str | Sequence[str] | Mapping[str, str]
    ranges: Mapping[str, tuple[str | None, str | None]] | None
    bounds: str | Mapping[str, str]


class Rules:
    """Rules by id, each a SQL condition with what to detect, or a row of a table.

    Rules of tables stay columns and become `Rule` objects only when they are asked for. Iteration yields them
    first, then those written as text, in the order in which they were added. Not for use by several threads.

    Args:
        zone: the time zone that timestamps without one are read in, such as "America/New_York"; UTC by default. On
            Spark, rules without a zone of their own take the session's.

    >>> rules = Rules()
    >>> rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    >>> rules.add(2, "price >= 120 OR volume > 1e6")
    >>> len(rules), 2 in rules, rules[1].detect
    (2, True, 'enter,exit')
    """

    def __init__(self, zone: str | None = None) -> None:
        self._zone = None if zone is None else check_zone(zone)
        self._texts: dict[int, TextRule] = {}
        self._names: dict[str, int] = {}
        """Ids of rules written as text, by their names."""
        self._blocks: list[TableBlock] = []
        # The versions of removed rules: an id that comes back goes on from there, or two conditions of one id
        # would have the same version.
        self._last_versions: dict[int, int] = {}
        self._compiled: _Compiled | None = None
        self._touched: set[int] = set()
        """Ids of rules that were changed or removed since, or added as text."""

    @property
    def zone(self) -> str:
        """The time zone that timestamps without one are read in."""
        return self._zone or "UTC"

    @classmethod
    def from_dicts(cls, rows: Iterable[Mapping[str, Any]], *, zone: str | None = None) -> Self:
        """Rules from mappings with the names that add takes, and perhaps a version; faults are raised all at once.

        Args:
            rows: one mapping per rule; id and condition are needed.
            zone: as for Rules.

        >>> len(Rules.from_dicts([{"id": 1, "condition": "price > 40"}, {"id": 2, "condition": "price < 4"}]))
        2
        """
        rules, faults, count = cls(zone), Faults("row"), 0
        for count, row in enumerate(rows, start=1):
            try:
                rules._add_mapping(row)
            except FencepostError as error:
                faults.add(count - 1, error.one_line)
        faults.raise_if_any(count, "Correct the rows and pass all of them again.")
        return rules

    @classmethod
    @partial(takes_options, id="rule_id", equal=(), bounds="[)")
    def from_table(cls, table: Any, **arguments: Unpack[TableArguments]) -> Self:
        """Rules from the rows of a table.

        Args:
            table: Arrow, pandas or polars table, or a mapping of column names to columns.
            **arguments: those of add_table.

        >>> table = {"rule_id": [1, 2], "symbol": ["IBM", None], "lower": [40.0, 9.5], "upper": [50.0, None]}
        >>> rules = Rules.from_table(table, equal=["symbol"], ranges={"price": ("lower", "upper")})
        >>> [(boxes.keys, boxes.attributes, len(boxes.rules)) for boxes in rules.columns().boxes]
        [((), ('price',), 1), (('symbol',), ('price',), 1)]
        """
        rules = cls()
        rules.add_table(table, **arguments)
        return rules

    @classmethod
    def from_jsonl(cls, path: str | PathLike[str], *, zone: str | None = None) -> Self:
        """Rules from JSON lines, one object per rule; faults are raised all at once, with their lines.

        Args:
            path: a file of objects as from_dicts takes them; empty lines are skipped.
            zone: as for Rules.
        """
        rules, faults, count = cls(zone), Faults("line"), 0
        for count, read in files.json_lines(path):
            try:
                rules._add_mapping(read())
            except FencepostError as error:
                faults.add(count, error.one_line)
        faults.raise_if_any(count, f"Correct these lines of {path}.")
        return rules

    @classmethod
    def from_parquet(cls, path: str | PathLike[str], *, zone: str | None = None) -> Self:
        """Rules from a file that to_parquet wrote.

        Args:
            path: the file. For a table of your own, read it and use from_table.
            zone: as for Rules.
        """
        return cls._from_stored(files.read_parquet(path), path, zone)

    @classmethod
    def _from_stored(cls, stored: files.StoredRules, path: str | PathLike[str], zone: str | None) -> Self:
        rules, faults = cls(zone), Faults("row")
        for row, mapping in stored.texts:
            try:
                rules._add_mapping({**mapping, "labels": labels_of(mapping["labels"])})
            except FencepostError as error:
                faults.add(row, error.one_line)
        faults.raise_if_any(stored.row_count, f"Correct these rows of {path}.")
        for part in stored.tables:
            block = read_table(part.table, part.shape, Options(), files.OPTION_COLUMNS, rules._known())
            rules._blocks.append(block)
        return rules

    @takes_options
    def add(self, id: SupportsIndex, condition: str, **options: Unpack[RuleOptions]) -> None:
        """Adds a rule.

        Args:
            id: an integer that no other rule has.
            condition: what would stand after WHERE, or a band over `left.` and `right.`.
            detect: any of inside, enter, exit, cross and silent, separated by commas.
            initial: whether objects already inside when the rule is added are reported.
            labels: free text by name, carried along.
            expires: when the rule ends; without a zone it is read as UTC.
            enabled: whether it takes part at all.
            name: any text that no other rule has as its name, such as a UUID.
            for_: how long the condition must hold before enter is reported: a timedelta, a whole number in the unit of
                the time column, "5 minutes", or "3 rows". In files it is spelled `for`.
            keep_firing_for: how long it must have ceased before exit is reported; likewise.
            stay: a wider condition: who is inside stays inside while it holds.
            margin: short for stay: how far the bounds of columns are moved outward, as {"price": 2}.
            cooldown: how long after any event of an object no enter is reported.
            limit: how many enters are reported of an object at most.
            every: how often inside is reported, if not for every row.

        >>> rules = Rules()
        >>> rules.add(7, "left.price - right.price BETWEEN -1 AND 1")
        >>> rules.add(7, "price > 40")
        Traceback (most recent call last):
        ...
        fencepost.errors.FencepostError: Rule 7 already exists; ids must be unique. Use replace() to edit it.
        """
        number = checked_id(id)
        self._refuse_known(number)
        self._put(check_rule(number, condition, options, self._last_versions.get(number, 0) + 1, self.zone))
        self._last_versions.pop(number, None)

    @takes_options
    def replace(self, id: RuleKey, condition: str, **options: Unpack[RuleOptions]) -> None:
        """Puts another rule under a known id, with the next version; takes the arguments of add.

        Args:
            id: of the rule to replace, which may have come from a table, or its name.
            condition: as in add.
            **options: as in add; nothing is taken over from the old rule, but for the name where that is named.

        >>> rules = Rules()
        >>> rules.add(7, "price > 40")
        >>> rules.replace(7, "price > 41")
        >>> rules[7].version
        2
        """
        old = self[id]
        self._put(check_rule(old.id, condition, with_name(options, id), old.version + 1, self.zone))
        self._end_row(old.id)

    def remove(self, id: RuleKey) -> None:
        """Takes a rule out.

        Args:
            id: of a known rule, or its name.
        """
        old = self[id]
        if self._texts.pop(old.id, None) is None:
            self._end_row(old.id)
        elif old.name is not None:
            del self._names[old.name]
        self._last_versions[old.id] = old.version
        self._touched.add(old.id)

    @takes_options
    def add_table(
        self,
        table: Any,
        *,
        id: str = "rule_id",
        equal: str | Sequence[str] | Mapping[str, str] = (),
        ranges: Mapping[str, tuple[str | None, str | None]] | None = None,
        bounds: str | Mapping[str, str] = "[)",
        **options: Unpack[TableOptions],
    ) -> None:
        """Adds a rule per row of a table, all or none; every faulty row is reported.

        A null key means every key; a null bound means unbounded, though the attribute must still have a value. In
        pandas NaN is null, elsewhere it is a fault. Bounds are exact in the type that the table has them in.

        Args:
            table: Arrow, pandas or polars table, or a mapping of column names to columns.
            id: the column of rule ids.
            equal: columns whose string the data must equal; a mapping where the data names them differently.
            ranges: for every attribute of the data the table's columns of lower and upper bounds; None for a side
                without bounds. Names match without case, unless in double quotes or such that SQL needs quotes.
            bounds: [) [] () or (], for all attributes or as a mapping.
            **options: those of add but for the name, for all rows. Or name the column that has one per row, as
                `options={"detect": "kind", "name": "title"}` or `detect_column="kind"`; there a null stands for what
                holds for all rows. Detect and name are strings, initial and enabled booleans, labels JSON objects, maps
                or structs, expires timestamps or dates. `labels=["owner", "desk"]`: columns that are a label each.

        >>> rules = Rules()
        >>> rules.add_table({"rule_id": [1, 2], "lower": [4, 9], "upper": [5, 8]}, ranges={"price": ("lower", "upper")})
        Traceback (most recent call last):
        ...
        fencepost.rules.faults.RuleFaultsError: 1 fault in 2 rows; expected none. Correct the rows and pass the
        table again; no rule was added.
          row 1: lower and upper are 9 and 8, an empty range; expected lower below upper with bounds [)
        """
        shape = table_shape(id, equal, ranges or {}, bounds)
        block = read_table(table, shape, *read_table_options(options), self._known())
        self._blocks.append(block)
        for number in [each for each in self._last_versions if block.find(each) is not None]:
            del self._last_versions[number]

    def column_kinds(self) -> dict[str, ColumnKind]:
        """Every column that the rules use, with the kind of value it is compared with; bands aside.

        >>> rules = Rules()
        >>> rules.add(1, "symbol = 'IBM' AND price > 40")
        >>> rules.column_kinds()
        {'symbol': 'key', 'price': 'number'}
        """
        stays = {text.rule.stay for text in self._texts.values() if text.rule.stay is not None}
        stays.update(stay for block in self._blocks for stay in Dampings(block.fields.damping).stays())
        conditions = [parsed for _, parsed in self._texts.values() if isinstance(parsed, Condition)]
        conditions += [parse_stay(stay, self.zone) for stay in sorted(stays)]
        kinds: dict[str, ColumnKind] = {}
        for use in (*(block.columns for block in self._blocks), *(each.columns for each in conditions)):
            kinds |= {column: kind for column, kind in use.items() if kind != "any" or column not in kinds}
        return infer_kinds([kinds], {group for each in conditions for group in each.alike})

    def columns(self, schema: Any = None) -> CompiledColumns:
        """The enabled rules bound to types, as the arrays that a snapshot is compiled from.

        Args:
            schema: an Arrow schema, a dict of column to type, or a Spark StructType; columns of strings are keys.
                Without one, numbers are doubles, strings are keys, dates and timestamps what they are.

        >>> rules = Rules()
        >>> rules.add(1, "volume > 10")
        >>> rules.columns({"Volume": "bigint"}).boxes[0].firsts.tolist()
        [[11]]
        """
        return compile_columns(self._blocks, list(self._texts.values()), schema, zone=self.zone)

    def compile(self, schema: Any = None, version: int = 0) -> Snapshot:
        """The enabled rules as a snapshot, which answers which of them hold.

        After a small change, only what changed since the last time is compiled, and the new snapshot shares the rest
        with the last one.

        Args:
            schema: as in columns.
            version: the number of the snapshot, where it is published.

        >>> rules = Rules()
        >>> rules.add(1, "price > 40")
        >>> rules.compile().match({"price": [39.0, 41.0]})[1].tolist()
        [1]
        """
        return self.compile_usable(schema, version, None)

    def compile_in(self, zone: str, schema: Any = None) -> Snapshot:
        """Like compile, where the rules are used in a time zone: they are read in it, if they have none of their own.

        Args:
            zone: for example that of a Spark session.
            schema: as in columns.
        """
        return self.compile_usable(schema, 0, None, zone=zone)

    def compile_usable(
        self, schema: Any, version: int, faulty: FaultyRules | None, infer: bool = False, zone: str | None = None
    ) -> Snapshot:
        """Like compile; but rules that are faulty are noted and count as paused, where there is something to note them.

        Args:
            schema: as in columns.
            version: as in compile.
            faulty: takes what is wrong with rules; None refuses all of them.
            infer: give columns that the schema lacks the types that the rules suggest.
            zone: as in compile_in.
        """
        zone = check_zone(self._zone or zone or "UTC")
        types = None if schema is None else dict(read_schema(schema).types)
        made = None if infer else self._compile_onto_last(schema, types, version, faulty, zone)
        if made is None:
            texts = self._read_in(zone, self._texts.values(), faulty)
            columns = compile_columns(self._blocks, texts, schema, faulty, infer, zone)
            made = Snapshot.compile(columns, self.paused(faulty), version, zone)
        left_out = frozenset() if faulty is None else frozenset(faulty.found)
        self._compiled = _Compiled(made, types, len(self._blocks), left_out, zone)
        self._touched.clear()
        return made

    def _read_in(self, zone: str, texts: Iterable[TextRule], faulty: FaultyRules | None) -> list[TextRule]:
        """The rules with their conditions read in a zone; in another one than before, some may be faulty."""
        if zone == self.zone:
            return list(texts)
        found = []
        for text in texts:
            try:
                found.append(read_in_zone(text, zone))
            except FencepostError as error:
                if faulty is None:
                    raise
                faulty.add(text.rule.id, error.one_line)
        return found

    def _compile_onto_last(
        self, schema: Any, types: Mapping[str, Any] | None, version: int, faulty: FaultyRules | None, zone: str
    ) -> Snapshot | None:
        """The last snapshot with what changed since; None where it is better, or needed, to compile everything."""
        last = self._compiled
        if last is None or not _extends(types, last.types) or not last.left_out <= self._texts.keys() | self._touched:
            return None
        new_blocks, again = self._blocks[last.blocks :], self._touched | last.left_out
        changes = len(again) + sum(block.count for block in new_blocks)
        if last.zone != zone or changes * _COMPILED_ALONE > len(last.snapshot):
            return None
        if not changes:
            return last.snapshot.with_version(version)
        try:
            texts = self._read_in(zone, [self._texts[id] for id in sorted(again) if id in self._texts], faulty)
            gone = np.array(sorted(again), np.int64)
            beside = last.snapshot.expressions_without(gone)
            changed = compile_columns(new_blocks, texts, schema, faulty, zone=zone, beside=beside)
        except FencepostError:
            return None  # compiling everything tells all that is wrong
        if schema is None and not types_agree(changed, last.snapshot):
            if faulty is not None:
                faulty.found.clear()
            return None
        return last.snapshot.changed(gone, changed, self.paused(faulty), version)

    def usable_columns(self, schema: Any, faulty: FaultyRules | None, beside: Iterable[str] = ()) -> CompiledColumns:
        """Like columns; without the rules that are faulty, as in `compile_usable`.

        `beside` are the expressions of rules that these are put beside.
        """
        texts = list(self._texts.values())
        return compile_columns(self._blocks, texts, schema, faulty, zone=self.zone, beside=beside)

    def paused(self, faulty: FaultyRules | None = None) -> dict[int, int]:
        """The versions of rules that are not enabled, or faulty, by id."""
        paused = {id: text.rule.version for id, text in self._texts.items() if not text.rule.enabled}
        for block in self._blocks:
            rows = np.flatnonzero(block.alive & ~block.fields.enabled)
            paused |= zip(block.fields.ids[rows].tolist(), block.fields.versions[rows].tolist(), strict=True)
        return paused if faulty is None else paused | {id: self[id].version for id in faulty.found if id in self}

    def publish(
        self,
        directory: str | PathLike[str],
        schema: Any = None,
        *,
        shards: int | None = None,
        strict: bool = False,
        faults: list[RuleFault] | None = None,
    ) -> int:
        """Writes the next snapshot version into a directory that others follow, and returns its number.

        Rules that are faulty, because they use a column that nobody knows or do not fit its type, are left out: they
        count as paused until they are corrected. A `FaultyRulesWarning` names them.

        Args:
            directory: a path, which is made where it does not exist, or a URL such as s3://bucket/rules.
            schema: as in columns, for the first version; without one, the columns that its rules use. Later it adds
                columns to those that the directory has, whose types never change.
            shards: write every version in so many shards as well, for rule sets larger than a Spark worker should
                hold; fixed by the first version, later ones need not say it.
            strict: refuse to publish where any rule is faulty.
            faults: a list that takes every faulty rule with the reason, in place of the warning.
        """
        versions, faulty = VersionDirectory(directory), FaultyRules()

        def compile_version(number: int) -> Snapshot:
            faulty.found.clear()
            bound, taken = versions.bound_schema(schema), None if strict else faulty
            made = self.compile_usable(bound, number, taken, zone=versions.zone())
            if not len(made) and not versions.is_published():
                faulty.refuse_nothing_left(len(made))
            return made

        named = None if schema is None else read_schema(schema).as_texts()
        number = versions.publish(compile_version, named, shards)
        if self._compiled is not None and self._compiled.types is None:  # the first version fixed them
            self._compiled = self._compiled._replace(types=dict(read_schema(versions.schema()).types))
        names = {id: name for id in faulty.found if (name := self[id].name) is not None}
        report_faults(faulty.found, names, faults, faulty.undecided)
        return number

    def to_jsonl(self, path: str | PathLike[str]) -> None:
        """Writes one JSON object per rule; rules of tables are written as the SQL condition that says the same.

        Args:
            path: the file to write.
        """
        files.write_jsonl(path, self.with_text())

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Writes all rules to one Parquet file; rules of tables stay columns in their own types.

        Args:
            path: the file to write.
        """
        files.write_parquet(path, self._blocks, [text.rule for text in self._texts.values()])

    @classmethod
    def _from_bytes(cls, data: bytes, last_versions: dict[int, int], zone: str | None = None) -> Self:
        place = "pickled rules"
        rules = cls._from_stored(files.read_parquet(place, data), place, zone)
        rules._last_versions = last_versions
        return rules

    def __reduce__(self) -> Any:
        # What is pickled is what to_parquet writes.
        data = files.to_bytes(self._blocks, [text.rule for text in self._texts.values()])
        return type(self)._from_bytes, (data, self._last_versions, self._zone)

    def __copy__(self) -> Self:
        copied = type(self)()
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, (dict, set)) else value)
        copied._blocks = [block.copy() for block in self._blocks]
        return copied

    def __deepcopy__(self, _: Any) -> Self:
        return self.__copy__()

    def __len__(self) -> int:
        return len(self._texts) + sum(block.count for block in self._blocks)

    def __contains__(self, id: object) -> bool:
        if isinstance(id, str):
            return self._owner_of(id) is not None
        return id in self._texts or (isinstance(id, (int, np.integer)) and self._place(int(id)) is not None)

    def __iter__(self) -> Iterator[Rule]:
        for block in self._blocks:
            yield from block.rules()
        for text in self._texts.values():
            yield text.rule

    def __getitem__(self, id: RuleKey) -> Rule:
        number = self.id_of(id) if isinstance(id, str) else checked_id(id)
        if number in self._texts:
            return self._texts[number].rule
        place = self._place(number)
        if place is None:
            raise FencepostError(
                f"rule {number} does not exist", "the id of a rule that does", "Use add() for a new rule."
            )
        block, row = place
        return block.rule(row)

    def id_of(self, name: str) -> int:
        """The id of the rule with a name.

        Args:
            name: of the rule.

        >>> rules = Rules()
        >>> rules.add(7, "price < 40", name="ibm floor")
        >>> rules.id_of("ibm floor")
        7
        """
        owner = self._owner_of(name) if isinstance(name, str) else None
        if owner is None:
            raise no_such_name(name)
        return owner

    def __repr__(self) -> str:
        of_tables = len(self) - len(self._texts)
        origin = f", {of_tables:,} of {count(len(self._blocks), 'table')}" if of_tables else ""
        columns = dict.fromkeys(column for block in self._blocks for column in block.columns)
        for _, parsed in islice(self._texts.values(), _LOOKED_AT):
            columns |= dict.fromkeys(parsed.columns if isinstance(parsed, Condition) else ())
        on = f" on {', '.join(columns)}" if columns else ""
        return f"Rules({count(len(self), 'rule')}{on}{origin})"

    def _repr_html_(self) -> str:
        from fencepost.rules.html import rules_html

        return rules_html(count(len(self), "rule"), self, len(self))

    def _place(self, id: int) -> tuple[TableBlock, int] | None:
        """The block and row of a rule of a table."""
        for block in self._blocks:
            if (row := block.find(id)) is not None:
                return block, row
        return None

    def _end_row(self, id: int) -> None:
        place = self._place(id)
        if place is not None:
            block, row = place
            block.end(row)

    def _known(self) -> Known:
        return Known(self._have_rules, self._have_names, self._next_versions)

    def _have_names(self, names: Any) -> Bools:
        have_names = np.zeros(len(names), np.bool_)
        if self._names:
            have_names |= np.asarray(pc.is_in(names, pa.array(list(self._names), pa.large_string())))
        for block in self._blocks:
            have_names |= block.find_names(names) >= 0
        return have_names

    def _have_rules(self, ids: Int64s) -> Bools:
        have_rules = np.isin(ids, np.fromiter(self._texts, np.int64)) if self._texts else np.zeros(len(ids), np.bool_)
        for block in self._blocks:
            have_rules |= block.contains(ids)
        return have_rules

    def _next_versions(self, ids: Int64s) -> Int64s:
        if not self._last_versions:
            return np.broadcast_to(np.int64(1), len(ids))
        return np.array([self._last_versions.get(id, 0) + 1 for id in ids.tolist()], np.int64)

    def _add_mapping(self, mapping: Mapping[str, Any]) -> None:
        made = rule_of_mapping(mapping, self.zone)
        self._refuse_known(made.rule.id)
        self._put(made)

    def _put(self, made: TextRule) -> None:
        """Takes in a rule written as text, in place of one with its id."""
        rule = made.rule
        if rule.name is not None:
            owner = self._owner_of(rule.name)
            if owner is not None and owner != rule.id:
                raise name_taken(rule.id, rule.name, owner)
        old = self._texts.get(rule.id)
        if old is not None and old.rule.name is not None:
            del self._names[old.rule.name]
        if rule.name is not None:
            self._names[rule.name] = rule.id
        self._texts[rule.id] = made
        self._touched.add(rule.id)

    def _owner_of(self, name: str) -> int | None:
        """The id of the rule with a name."""
        if name in self._names:
            return self._names[name]
        asked = pa.array([name], pa.large_string())
        for block in self._blocks:
            row = int(block.find_names(asked)[0])
            if row >= 0:
                return int(block.fields.ids[row])
        return None

    def _refuse_known(self, id: int) -> None:
        if id in self:
            raise FencepostError(f"rule {id} already exists", "ids must be unique", "Use replace() to edit it.")

    def with_text(self) -> Iterator[tuple[Rule, str]]:
        """Every rule with its condition; one of a table with the SQL condition that says the same."""
        for rule in self:
            yield rule, str(rule.condition)


def _extends(types: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> bool:
    """Whether rules that were bound to the types before are bound alike to these, which may be more."""
    if types is None or before is None or len(types) == len(before):
        return types == before
    spellings = {name.lower() for name in types}
    return len(spellings) == len(types) and all(types.get(name) == type_ for name, type_ in before.items())
