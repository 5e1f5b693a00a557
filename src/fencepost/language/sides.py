"""What of a band concerns one side alone: its expressions, and the condition on its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlglot import exp

from fencepost.computed.terms import Term, with_side
from fencepost.language.computing import Expression, Expressions
from fencepost.language.condition import AllOf, Clash, Condition, Leaf, Node, Use, dropped_parts, kinds_of, never_holds
from fencepost.language.expression import Evaluate
from fencepost.language.operands import ColumnUse, always
from fencepost.language.shape import Values
from fencepost.language.source import Place, RefusalError, Source
from fencepost.language.sql import compile_node

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
EXPECTED = "one difference of a left and a right expression compared with constants, keys, and conditions of one side"

Value = str | Term
"""A column, or an expression over columns of one side."""

_NOT_COLUMNS = frozenset(["TRUE", "FALSE", "NULL"])


class SideKey(NamedTuple):
    """A column of one side that must equal a string."""

    side: Side
    column: str
    value: Evaluate
    place: Place


class SideExpressions(Expressions):
    """Reads expressions over columns of one side, which all have its name in front."""

    def __init__(self, source: Source, side: Side) -> None:
        super().__init__(source)
        self.side = side

    def read(self, node: exp.Expression) -> Any:
        """The constant, column or expression that it is; columns have no side any more."""
        operand = super().read(node)
        return operand._replace(table="") if isinstance(operand, ColumnUse) else operand

    def total(self, terms: Sequence[tuple[int, ColumnUse | Expression]], place: Place) -> ColumnUse | Expression:
        """The sum of operands, each plus or minus; one alone is itself."""
        if len(terms) == 1 and terms[0][0] > 0:
            return terms[0][1]
        found: ColumnUse | Expression | None = None
        for sign, operand in terms:
            self.demand(operand, "number", place)
            if found is None:
                found = operand if sign > 0 else self.computed("negate", [operand], "number", place)
            else:
                found = self.computed("+" if sign > 0 else "-", [found, operand], "number", place)
        assert found is not None, "there is a term"
        return found


@dataclass(frozen=True, slots=True)
class SideShape:
    """What a band asks of the rows of one side, without its constants."""

    root: Node | None
    """The condition on its rows; None where there is none."""
    uses: tuple[Use, ...]
    alike: tuple[tuple[Evaluate, ...], ...]

    def fill(self, text: str, values: Values, keys: Sequence[SideKey]) -> Condition:
        """The condition that these constants make, which has no boxes where all rows of the side count.

        It is refused where it can never hold beside the keys of the side.
        """
        columns = kinds_of(self.uses, values)
        alike = tuple(tuple(column(values) for column in each) for each in self.alike)
        if self.root is None:
            return Condition(text, (), columns, (), alike)
        clashes: list[Clash] = []
        boxes = self.root.expand(values, clashes)
        if boxes and keys:
            named = [Leaf(always(key.column), key.value, key.value, True, True, key.place) for key in keys]
            place = self.root.place
            if not AllOf((self.root, *named), place).expand(values, clashes):
                boxes = []
        if not boxes:
            raise never_holds(clashes[0])
        return Condition(text, tuple(boxes), columns, dropped_parts(text, boxes, clashes) if clashes else (), alike)


class SideBuilder:
    """Collects what a band asks of one side."""

    def __init__(self, source: Source, side: Side) -> None:
        self.expressions = SideExpressions(source, side)
        self._nodes: list[Node] = []

    def add(self, node: exp.Expression, *, negate: bool) -> None:
        """Take a condition that concerns this side alone."""
        self._nodes.append(compile_node(node, self.expressions, negate=negate))

    def finished(self) -> SideShape:
        """All that was added."""
        nodes = self._nodes
        place = (min((node.place[0] for node in nodes), default=0), max((node.place[1] for node in nodes), default=0))
        root = None if not nodes else nodes[0] if len(nodes) == 1 else AllOf(tuple(nodes), place)
        return SideShape(root, tuple(self.expressions.uses), tuple(self.expressions.alike))


class Columns:
    """Whose columns the nodes of a band have; each must name its side."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[int, tuple[exp.Expression, frozenset[Side]]] = {}

    def sides(self, node: exp.Expression) -> frozenset[Side]:
        """The sides that a node has columns of."""
        known = self._known.get(id(node))
        if known is None:
            found: frozenset[Side] = frozenset()
            if isinstance(node, exp.Column):
                found = self._side_of(node)
            else:
                for child in node.iter_expressions():
                    found |= self.sides(child)
            known = self._known[id(node)] = node, found
        return known[1]

    def _side_of(self, node: exp.Column) -> frozenset[Side]:
        identifier, table = node.this, node.args.get("table")
        if not isinstance(identifier, exp.Identifier):
            return frozenset()
        if table is None and not identifier.quoted and identifier.name.upper() in _NOT_COLUMNS:
            return frozenset()
        for side in SIDES:
            if table is not None and table.name.lower() == side:
                return frozenset([side])
        index = identifier.meta["start"]
        name = self._source.tokens[index].text
        place = (index if table is None else table.meta["start"], index)
        raise RefusalError([place], "names no side", EXPECTED, f"Write left.{name} or right.{name}.")


def value_of(operand: ColumnUse | Expression, values: Values) -> Value:
    """The column or the expression that an operand is with these constants."""
    found: Value = operand.evaluate(values)
    return found


def shown(side: Side, value: Value) -> str:
    """A column or an expression as one would write it in a band."""
    if isinstance(value, str):
        return f"{side}.{value}"
    return with_side(value, side).text
