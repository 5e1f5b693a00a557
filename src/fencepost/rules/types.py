"""The types that rules are bound to: those of a schema, or those that the rules suggest."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fencepost.errors import FencepostError, join_message
from fencepost.language import Band, Binder, ColumnKind, ColumnType, Condition, infer_kinds, infer_types
from fencepost.ordinals.schema import described_columns, read_schema
from fencepost.rules.checked import TextRule
from fencepost.rules.faults import Faults
from fencepost.rules.table_blocks import TableBlock

REMEDY = "Correct the rules, or bind their columns to other types."


class Types(NamedTuple):
    """The types that rules are bound to, and why some columns have none."""

    types: Mapping[str, ColumnType]
    unusable: Mapping[str, FencepostError]

    def blame(self, columns: Iterable[str]) -> FencepostError | None:
        """Why one of the columns cannot be used, where the schema has it with a type that no rule can use."""
        by_lower_case = {name.lower(): error for name, error in self.unusable.items()}
        found = (by_lower_case.get(column.strip('"').lower()) for column in columns)
        return next((error for error in found if error), None)


def make_binder(
    blocks: Sequence[TableBlock], texts: Sequence[TextRule], schema: Any, faults: Faults, count: int
) -> tuple[Types, Binder]:
    """The types of a schema, or those that the rules suggest, and what binds rules to them."""
    if schema is not None:
        read = read_schema(schema)
        return Types(read.types, read.unusable), Binder(read.types)
    types = _infer(_first_users(blocks, texts), texts, faults)
    faults.raise_if_any(count, REMEDY)
    return Types(types, {}), Binder(types)


def infer_lacking(
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


def told_kinds(texts: Iterable[TextRule]) -> dict[str, ColumnKind]:
    """The kinds of columns that rules tell and agree about, for bands that do not tell them."""
    found: dict[str, set[ColumnKind]] = {}
    bands = [parsed for _, parsed in texts if isinstance(parsed, Band)]
    if all("any" not in {*band.left_columns.values(), *band.right_columns.values()} for band in bands):
        return {}
    for _, parsed in texts:
        both = (parsed.left_columns, parsed.right_columns) if isinstance(parsed, Band) else (parsed.columns,)
        for columns in both:
            for name, kind in columns.items():
                found.setdefault(name, set()).add(kind)
    kinds = {name: own - {"any"} for name, own in found.items()}
    return {name: next(iter(own)) for name, own in kinds.items() if len(own) == 1}


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
