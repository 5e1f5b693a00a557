"""What sqlglot makes of a condition, and what stands left and right of its comparisons: columns and constants.

The tokens that sqlglot gets carry their own index as position, and constants carry it as their text: what it
parses is the shape, and every node can be traced back to the text.
"""

from operator import itemgetter
from typing import NamedTuple

from sqlglot import Token as SqlToken
from sqlglot import Tokenizer, TokenType, exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import Parser

from fencepost.language import refusals
from fencepost.language.expression import CASTS, Constant, Evaluate, cast, combine, interval, negated
from fencepost.language.shape import canonical_name, has_exponent, slots_by_start
from fencepost.language.source import Place, RefusalError, Source, Token

_WORDS = {**Tokenizer.KEYWORDS, **Tokenizer.SINGLE_TOKENS}
# sqlglot keeps no position for these three; read as names they keep theirs.
_NAMED_CONSTANTS = frozenset(["TRUE", "FALSE", "NULL"])
_MARK = 10**12  # constants are numbered from here, beyond any that sqlglot makes up

COMPARISONS: dict[type[exp.Expression], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
ARITHMETIC: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_NAMING = ("word", "quoted")


class ColumnUse(NamedTuple):
    """A column where it is mentioned: its name here, how to find it in other texts, its table, its place."""

    name: str
    evaluate: Evaluate
    table: str
    place: Place


def parse_tree(source: Source) -> exp.Expression:
    """The tree that sqlglot makes of the condition."""
    if not source.tokens:
        raise RefusalError([], "is empty", "a condition such as price > 40", "Write TRUE for a rule that always holds.")
    tokens = [_sql_token(index, token, source) for index, token in enumerate(source.tokens)]
    try:
        trees = Parser(error_level=ErrorLevel.IMMEDIATE).parse_into(exp.Condition, tokens, source.text)
    except ParseError as error:
        raise refusals.syntax(source, error) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Expression):  # a leading ELSE ends the statement before it
        raise refusals.reserved(source.tokens[0].text, (0, 0))
    return trees[0]


def _sql_token(index: int, token: Token, source: Source) -> SqlToken:
    text = token.text
    if token.kind == "number":
        type_, text = TokenType.NUMBER, str(_MARK + index)
    elif token.kind == "string":
        type_, text = TokenType.STRING, str(_MARK + index)
    elif token.kind == "quoted":
        type_, text = TokenType.IDENTIFIER, text[1:-1].replace(text[0] * 2, text[0])
    else:
        word = text.upper()
        if word == "IF":  # sqlglot would take it for a statement, and warn in the log
            raise refusals.reserved(text, (index, index), is_call=source.words[index + 1 : index + 2] == ["("])
        type_ = TokenType.VAR if word in _NAMED_CONSTANTS else _WORDS.get(word, TokenType.VAR)
    return SqlToken(type_, text, 1, index, index, index)


def constant_index(literal: exp.Literal) -> int | None:
    """The token of a constant; None for one that sqlglot made up, as it does for `. 5`."""
    return int(literal.this) - _MARK if literal.this.isdecimal() and int(literal.this) >= _MARK else None


_NOW = frozenset(["CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_DATETIME", "LOCALTIMESTAMP"])
"""Words that are functions without parentheses."""


class Operands:
    """Reads what stands left and right of a comparison: constants and columns."""

    takes_tests = False
    """Whether IS NULL may stand beside comparisons."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._slots = slots_by_start(source.text)
        self._names_filled: set[int] = set()

    def all_names_are_filled(self, *others: "Operands") -> bool:
        """Whether every name that is a slot was read as a column, here or by others of the same text."""
        filled = self._names_filled.union(*(each._names_filled for each in others))
        tokens = self.source.tokens
        return filled.issuperset(
            self._slots[token.start] for token in tokens if token.kind in _NAMING and token.start in self._slots
        )

    def read(self, node: exp.Expression) -> Constant | ColumnUse:
        """The constant or column that an expression is; refuses everything else."""
        if isinstance(node, exp.Literal):
            index = constant_index(node)
            if index is None:
                raise refusals.operand(node, self.place_of(node))
            token = self.source.tokens[index]
            slot, place = self._slots[token.start], (index, index)
            if token.kind == "number":
                return Constant("number", itemgetter(slot), place, has_exponent(token.text))
            return Constant("key", itemgetter(slot), place)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if isinstance(node, exp.Neg):
            return negated(self._constant(node.this, node))
        if symbol := ARITHMETIC.get(type(node)):
            return combine(symbol, self._constant(node.this, node), self._constant(node.expression, node))
        if isinstance(node, exp.Interval):
            return self._interval(node)
        if type(node) is exp.Cast:
            return self._cast(node)
        raise refusals.operand(node, self.place_of(node))

    def place_of(self, node: exp.Expression) -> Place:
        """First and last token of any expression, as far as sqlglot knows them."""
        found = []
        for each in node.walk():
            if isinstance(each, exp.Literal) and (index := constant_index(each)) is not None:
                found.append(index)
            elif "start" in each.meta:
                found.append(each.meta["start"])
        if not found:  # such as CURRENT_DATE, which has no position
            now = [index for index, word in enumerate(self.source.words) if word in _NOW]
            return (now[0], now[0]) if now and isinstance(node, exp.Func) else self.source.everything
        return self._with_keywords(node, min(found), max(found))

    def _with_keywords(self, node: exp.Expression, first: int, last: int) -> Place:
        """The place with the words that sqlglot has no position for: CAST(, (SELECT, CASE and END."""
        words = self.source.words
        if isinstance(node, exp.Cast) and first and words[first - 1] == "(":
            return first - 1, last
        if isinstance(node, (exp.Cast, exp.Collate)) and words[last + 1 : last + 2] in (["::"], ["COLLATE"]):
            return first, min(last + 2, len(words) - 1)
        if isinstance(node, exp.In) and ")" in words[last:]:
            return first, words.index(")", last)
        if isinstance(node, (exp.Query, exp.Exists)) and "SELECT" in words[:first]:  # refused, so looked for once
            return max(0, _last_index(words[:first], "SELECT") - 1), last
        if isinstance(node, exp.Case) and "CASE" in words[:first] and "END" in words[last:]:
            return _last_index(words[:first], "CASE"), words.index("END", last)
        if isinstance(node, exp.Func) and not isinstance(node, (exp.Connector, exp.Cast, exp.Case)):
            return self._name_before(first), last
        return first, last

    def _name_before(self, first: int) -> int:
        """The name of the function among whose arguments a token is; the token itself where there is none."""
        opening = self.source.opening[first]
        return opening - 1 if opening > 0 and self.source.tokens[opening - 1].kind == "word" else first

    def _constant(self, node: exp.Expression, around: exp.Expression) -> Constant:
        operand = self.read(node)
        if isinstance(operand, ColumnUse):
            raise refusals.column_arithmetic(self.place_of(around))
        if not isinstance(operand, Constant):
            raise refusals.operand(around, self.place_of(around))
        return operand

    def _column(self, node: exp.Column) -> Constant | ColumnUse:
        identifier = node.this
        if not isinstance(identifier, exp.Identifier) or node.args.get("db"):
            raise refusals.operand(node, self.place_of(node))
        index = identifier.meta["start"]
        name, place = identifier.this, (index, index)
        table = node.args.get("table")
        if table is not None:
            place = (table.meta["start"], index)
        elif not identifier.quoted and name.upper() in _NAMED_CONSTANTS:
            if name.upper() == "NULL":
                raise refusals.null_constant(place, takes_tests=self.takes_tests)
            return Constant("boolean", always(name.upper() == "TRUE"), place)
        token = self.source.tokens[index]
        column = canonical_name(token.text)
        if table is not None:
            return ColumnUse(column, always(column), table.this.lower(), place)
        slot = self._slots.get(token.start)
        if slot is None:  # a word like DATE, which stays in the key
            return ColumnUse(column, always(column), "", place)
        self._names_filled.add(slot)
        return ColumnUse(column, itemgetter(slot), "", place)

    def _interval(self, node: exp.Interval) -> Constant:
        unit = node.args.get("unit")
        if not isinstance(node.this, exp.Expression) or not (unit is None or isinstance(unit, exp.Var)):
            raise refusals.interval_form(self.place_of(node))
        return interval(self._constant(node.this, node), unit.name if unit else None)

    def _cast(self, node: exp.Cast) -> Constant:
        constant = self.read(node.this)
        if isinstance(constant, ColumnUse):
            raise refusals.operand(node, self.place_of(node))
        type_name = getattr(node.to.this, "name", "")
        if type_name not in CASTS:
            raise refusals.cast_type(self.place_of(node), sorted(CASTS))
        parameters = [self._constant(parameter.this, node) for parameter in node.to.expressions]
        return cast(constant, type_name, parameters)


def always(value: str | bool) -> Evaluate:
    """What is the same whatever the constants are."""
    return lambda _: value


def _last_index(words: list[str], word: str) -> int:
    return len(words) - 1 - words[::-1].index(word)
