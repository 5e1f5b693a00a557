"""What of bands is computed, or concerns the rows of one side: as snapshots keep it, and which columns it needs."""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from fencepost.computed import Computed
from fencepost.computed.attributes import computed_id, expressions_of, from_json, to_json
from fencepost.computed.terms import Term
from fencepost.ordinals import KEY, AttributeType, ColumnType
from fencepost.snapshot.columns import BandColumns, key_pairs


class BandSides(NamedTuple):
    """Expressions of a band, and what rows of either side must meet to be in it."""

    computed: dict[str, Computed]
    """The expressions that are subtracted or must be equal, and those of ranges, by name."""
    where: tuple[str, str]
    """The conditions on left and on right rows, as JSON that is the same for equal ones; empty where all rows count."""
    uses: tuple[dict[str, ColumnType], dict[str, ColumnType]]
    """The columns of either side that expressions and conditions use, with their types."""

    def __deepcopy__(self, memo: Any) -> "BandSides":
        return self  # nothing changes it

    @property
    def columns(self) -> dict[str, ColumnType]:
        """Those of both sides."""
        return {**self.uses[0], **self.uses[1]}

    @property
    def expressions(self) -> dict[str, Term | None]:
        """What counts against the limit of expressions: those that are computed, and the conditions of sides."""
        conditions = (f"{side}: {text}" for side, text in zip(("left", "right"), self.where, strict=True) if text)
        return {**expressions_of(self.computed.values()), **dict.fromkeys(conditions)}

    def to_json(self) -> str:
        """As it is kept."""
        uses = [{name: str(type_) for name, type_ in sorted(each.items())} for each in self.uses]
        computed = dict(sorted(to_json(self.computed).items()))
        return json.dumps({"computed": computed, "where": self.where, "uses": uses})


NO_SIDES = BandSides({}, ("", ""), ({}, {}))


@lru_cache(maxsize=4096)
def read_sides(text: str | None) -> BandSides:
    """What `to_json` gave, or null."""
    if text is None:
        return NO_SIDES
    read = json.loads(text)
    left, right = (
        {name: KEY if type_ == KEY else AttributeType.parse(type_) for name, type_ in each.items()}
        for each in read["uses"]
    )
    return BandSides(from_json(read["computed"], {}), (read["where"][0], read["where"][1]), (left, right))


def all_sides(bands: BandColumns) -> list[BandSides]:
    """What bands have that is computed or concerns one side, without repetitions."""
    if bands.sides.null_count == len(bands.sides):
        return []
    return [read_sides(text) for text in bands.sides.unique().to_pylist() if text is not None]


def key_columns(bands: BandColumns | None) -> set[str]:
    """The columns of both sides that bands compare for equality, and strings that expressions and conditions use."""
    if bands is None:
        return set()
    same = {name for text in bands.same.unique().to_pylist() for pair in key_pairs(text) for name in pair}
    return same - {name for each in all_sides(bands) for name in each.computed} | string_columns(bands)


def string_columns(bands: BandColumns | None) -> set[str]:
    """The columns that bands compare with strings, and strings that expressions and conditions use."""
    if bands is None:
        return set()
    texts = [*bands.left_keys.unique().to_pylist(), *bands.right_keys.unique().to_pylist()]
    used = {name for each in all_sides(bands) for name, type_ in each.columns.items() if type_ == KEY}
    return used | {name for text in texts for name, _ in key_pairs(text)}


def band_attributes(bands: BandColumns) -> set[str]:
    """The columns of numbers and times that bands subtract, and that their expressions and conditions use."""
    subtracted, sides = {*bands.left.unique().to_pylist(), *bands.right.unique().to_pylist()}, all_sides(bands)
    used = {name for each in sides for name, type_ in each.columns.items() if type_ != KEY}
    return subtracted - {name for each in sides for name in each.computed} | used


def band_with(bands: BandColumns, column: str) -> int | None:
    """The row of the first rule whose band needs a column."""
    for place, row in enumerate(bands.rules.tolist()):
        sides = read_sides(bands.sides[place].as_py())
        keys = [pair[0] for texts in (bands.left_keys, bands.right_keys) for pair in key_pairs(texts[place].as_py())]
        same = [name for pair in key_pairs(bands.same[place].as_py()) for name in pair]
        if column in {bands.left[place].as_py(), bands.right[place].as_py(), *keys, *same, *sides.columns}:
            return int(row)
    return None


def computed_of(sides: BandSides, side: int, names: Iterable[str]) -> list[Computed]:
    """The expressions that a band computes of one side; `names` are what it subtracts and compares of it."""
    found = {name: sides.computed[name] for name in names if name in sides.computed}
    for ranges, _, strings in json.loads(sides.where[side] or "[]"):
        found |= {name: sides.computed[name] for name, _, _ in ranges if name in sides.computed}
        for each in (Computed(Term.from_json(term)) for term, *_ in strings):
            if each.term.name != "column":
                found[computed_id(each)] = each
    return list(found.values())
