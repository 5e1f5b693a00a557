"""SQL condition to a compiled shape: sqlglot parses, this module keeps what boxes can express."""

from collections.abc import Iterable
from itertools import chain
from operator import eq, ge, gt, le, lt, ne

from sqlglot import exp

from fencepost.language import refusals
from fencepost.language.computing import Expression, Expressions, Operand
from fencepost.language.condition import (
    AllOf,
    AnyOf,
    Compared,
    Fixed,
    Leaf,
    LikePattern,
    Node,
    Shape,
    WithoutPoints,
)
from fencepost.language.expression import Constant, ConstantKind
from fencepost.language.operands import COMPARISONS, FLIPPED, NEGATED, ColumnUse, always, constant_index, parse_tree
from fencepost.language.source import Place, Source

_COMPUTED = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne}


def compile_shape(source: Source) -> Shape:
    """The shape of a condition on one stream."""
    operands = Expressions(source)
    root = compile_node(parse_tree(source), operands, negate=False)
    return Shape(root, tuple(operands.uses), operands.all_names_are_filled(), tuple(operands.alike))


def compile_node(node: exp.Expression, operands: Expressions, *, negate: bool) -> Node:
    """The node for something that is true or false, whose columns and constants these operands read."""
    return _Builder(operands).predicate(node, negate=negate)


class _Builder:
    """Turns sqlglot's tree into nodes, pushing NOT down to the comparisons."""

    def __init__(self, operands: Expressions) -> None:
        self.source, self.operands = operands.source, operands

    def predicate(self, node: exp.Expression, *, negate: bool) -> Node:
        """The node for something that is true or false."""
        while isinstance(node, (exp.Paren, exp.Not)):
            negate ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, (exp.And, exp.Or)):
            return self._join(node, negate)
        if symbol := COMPARISONS.get(type(node)):
            left, right = self.operands.read(node.this), self.operands.read(node.expression)
            return self._compare(NEGATED[symbol] if negate else symbol, left, right, _around(left, right))
        if isinstance(node, exp.Between):
            return self._between(node, negate)
        if isinstance(node, exp.In):
            return self._among(node, negate)
        if isinstance(node, (exp.Like, exp.ILike, exp.StartsWith)):
            return self._like(node, negate)
        if isinstance(node, exp.Is) and node.expression.name.upper() == "NULL":
            return self._missing(node, negate)
        if isinstance(node, (exp.Column, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif)):
            return self._truth(node, negate)
        raise refusals.predicate(node, self.operands.place_of(node), negate=negate)

    def _join(self, node: exp.Expression, negate: bool) -> Node:
        kind = type(node)
        operands = [node.expression]
        while type(node.this) is kind:  # a long chain leans to the left: no recursion on its length
            node = node.this
            operands.append(node.expression)
        operands.append(node.this)
        children = tuple(self.predicate(operand, negate=negate) for operand in reversed(operands))
        place = _span(child.place for child in children)
        return AllOf(children, place) if (kind is exp.And) != negate else AnyOf(children, place)

    def _compare(self, symbol: str, left: Operand, right: Operand, place: Place) -> Node:
        if isinstance(left, Constant):
            if isinstance(right, Constant):
                if left.kind == "interval" or not _are_comparable(left.kind, right.kind):
                    raise refusals.different_kinds(place, left.kind, right.kind)
                return Compared(_COMPUTED[symbol], left.evaluate, right.evaluate, place)
            return self._compare(FLIPPED[symbol], right, left, place)
        if not isinstance(right, Constant):
            return self._compare_two(symbol, left, right, place)
        self.operands.demand(left, right.kind, place)
        column, constant = left.evaluate, right.evaluate
        if symbol == "=":
            return Leaf(column, constant, constant, True, True, place)
        if symbol == "<>":
            return WithoutPoints(column, (constant,), place)
        if symbol in (">", ">="):
            return Leaf(column, constant, None, symbol == ">=", False, place)
        return Leaf(column, None, constant, False, symbol == "<=", place)

    def _compare_two(
        self, symbol: str, left: ColumnUse | Expression, right: ColumnUse | Expression, place: Place
    ) -> Node:
        """A comparison of what both have columns: an expression that is TRUE or FALSE."""
        self.operands.refuse_double_quotes(symbol, left, right, place)
        if symbol in (">", "<="):  # a > b is b < a, and a <= b is not b < a
            return self._compare_two(FLIPPED[symbol], right, left, place)
        compared = self.operands.compared("=" if symbol in ("=", "<>") else "<", left, right, place)
        truth = always(symbol in ("=", "<"))
        return Leaf(compared.evaluate, truth, truth, True, True, place)

    def _between(self, node: exp.Between, negate: bool) -> Node:
        value, low, high = (self.operands.read(node.args[name]) for name in ("this", "low", "high"))
        place = _around(value, high)
        if self.operands.is_double_quoted(low) and self.operands.is_double_quoted(high):
            self.operands.refuse_double_quotes("=", value, low, place)
        if node.args.get("symmetric"):
            raise refusals.symmetric(place)
        if negate:
            return AnyOf((self._compare("<", value, low, place), self._compare(">", value, high, place)), place)
        above, below = self._compare(">=", value, low, place), self._compare("<=", value, high, place)
        if isinstance(above, Leaf) and isinstance(below, Leaf) and above.upper is below.lower is None:
            return above._replace(upper=below.upper, upper_closed=True)
        return AllOf((above, below), place)

    def _among(self, node: exp.In, negate: bool) -> Node:
        if node.args.get("query") or node.args.get("unnest") or not node.expressions:
            raise refusals.no_list(self.operands.place_of(node))
        value = self.operands.read(node.this)
        items = [self.operands.read(item) for item in node.expressions]
        place = _around(value, items[-1])
        children = tuple(self._compare("<>" if negate else "=", value, item, place) for item in items)
        if not negate:
            return AnyOf(children, place)
        gaps = [child for child in children if isinstance(child, WithoutPoints)]
        if not isinstance(value, Constant) and len(gaps) == len(children):
            # All at once: as many gaps as constants, not their combinations.
            return WithoutPoints(value.evaluate, tuple(chain.from_iterable(each.points for each in gaps)), place)
        return AllOf(children, place)

    def _like(self, node: exp.Expression, negate: bool) -> Node:
        value, pattern = self.operands.read(node.this), node.expression
        place = self.operands.place_of(node)
        negate ^= bool(node.args.get("negate"))
        if isinstance(value, Constant) or not isinstance(pattern, exp.Literal) or constant_index(pattern) is None:
            raise refusals.pattern(place)
        text = self.operands.read(pattern)
        if not isinstance(text, Constant) or text.kind != "key":
            raise refusals.pattern(place)
        self.operands.demand(value, "key", place)
        if isinstance(node, exp.ILike):
            value = self.operands.call("lower", value, place)
        is_prefix = isinstance(node, exp.StartsWith)
        lowers = isinstance(node, exp.ILike)
        return LikePattern(value.evaluate, text.evaluate, is_prefix, lowers, negate, place)

    def _missing(self, node: exp.Expression, negate: bool) -> Node:
        """IS NULL, and IS NOT NULL."""
        value, place = self.operands.read(node.this), self.operands.place_of(node)
        if isinstance(value, Constant):
            raise refusals.predicate(node, place)
        missing = self.operands.call("is null", value, place)
        truth = always(not negate)
        return Leaf(missing.evaluate, truth, truth, True, True, place)

    def _truth(self, node: exp.Expression, negate: bool) -> Node:
        operand = self.operands.read(node)
        if isinstance(operand, Constant):
            if operand.kind != "boolean":
                raise refusals.no_predicate(operand.place)
            return Fixed(operand.evaluate(()) != negate, operand.place)
        place = operand.place
        if negate and place[0] > 0 and self.source.tokens[place[0] - 1].text.upper() == "NOT":
            place = (place[0] - 1, place[1])
        return self._compare("=", operand, Constant("boolean", always(not negate), place), place)


def _are_comparable(one: ConstantKind, other: ConstantKind) -> bool:
    return one == other or {one, other} == {"date", "timestamp"}


def _around(first: Operand, last: Operand) -> Place:
    return first.place[0], last.place[1]


def _span(places: Iterable[Place]) -> Place:
    firsts, lasts = zip(*places, strict=True)
    return min(firsts), max(lasts)
