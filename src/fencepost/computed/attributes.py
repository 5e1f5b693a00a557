"""Computed attributes, as snapshots keep them: indexed under a name like a column, evaluated once per batch."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fencepost.computed.bounds import Bounds
from fencepost.computed.evaluate import Given
from fencepost.computed.terms import Term
from fencepost.errors import FencepostError, shorten
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import BIGINT, KEY, AttributeType, ColumnType

MOST_EXPRESSIONS = 256
"""Distinct expressions of one snapshot."""


class Computed(NamedTuple):
    """An expression over columns, bound to their types; a string has the bounds that it is compared with."""

    term: Term
    bounds: Bounds | None = None

    @property
    def text(self) -> str:
        """The expression."""
        return self.term.text

    @property
    def type(self) -> AttributeType:
        """Of its ordinals."""
        return BIGINT if self.term.type == KEY else self.term.attribute

    @property
    def columns(self) -> dict[str, ColumnType]:
        """The columns that it needs, with their types."""
        return self.term.columns()

    def ordinals(self, given: Given) -> tuple[Int64s, Bools | None]:
        """Its ordinals for rows, and which of them have one (None where all do)."""
        if self.bounds is None:
            return given.ordinals(self.term)
        return self.bounds.ordinals(given.strings(self.term))


def computed_id(computed: Computed) -> str:
    """The name under which it is indexed: its text in parentheses, and for strings which bounds they are compared with.

    No column should be called so.
    """
    return f"({computed.text})" + ("" if computed.bounds is None else f" in order {computed.bounds.digest}")


def expressions_of(computed: Iterable[Computed]) -> dict[str, Term]:
    """The distinct expressions among computed attributes, by their texts; a column in order is none."""
    return {each.text: each.term for each in computed if each.term.name != "column"}


def check_number(expressions: Mapping[str, Term | None]) -> None:
    """Refuse more distinct expressions, and conditions of sides of bands, than a batch is evaluated for."""
    if len(expressions) > MOST_EXPRESSIONS:
        raise too_many(list(expressions.values())[-1])


def too_many(term: Term | None, band: str | None = None) -> FencepostError:
    """The refusal of one expression too many; None is a condition of one side of a band, whose text is given."""
    if term is None:
        return FencepostError(
            f"{'a band' if band is None else f'`{shorten(band)}`'} with one more distinct condition of one side",
            f"at most {MOST_EXPRESSIONS} conditions of sides and expressions in all rules together",
            "Constants inside make conditions of sides distinct: let bands share one, compare a key with a string, "
            "or move the range into the difference.",
        )
    constants = [each.text for each in term.walk() if each.name == "constant"]
    remedy = "Compute it into a column of the data and compare that column."
    if constants:
        remedy = (
            "Constants inside make expressions distinct: compare one without them with a constant, for example "
            "price / vwap > 1.05 for price > vwap * 1.05."
        )
    return FencepostError(
        f"`{term.text}` is one more distinct expression", f"at most {MOST_EXPRESSIONS} in all rules together", remedy
    )


def to_json(computed: Mapping[str, Computed]) -> dict[str, Any]:
    """As a header keeps them; bounds are kept beside it."""
    return {name: each.term.to_json() for name, each in computed.items()}


def from_json(data: Mapping[str, Any], bounds: Mapping[str, Any]) -> dict[str, Computed]:
    """What `to_json` gave; `bounds` are the strings by name."""
    return {
        name: Computed(Term.from_json(term), Bounds(bounds[name]) if name in bounds else None)
        for name, term in data.items()
    }
