"""The text of a condition: its tokens, and errors that mark a place in it."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from fencepost.errors import FencepostError

# First and last token. A place counts tokens, not characters, so that conditions of one shape share it.
Place = tuple[int, int]

NUMBER = r"(?<![\w.])(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"
STRING = r"'(?:[^']|'')*'"
QUOTED = r'"(?:[^"]|"")*"|`(?:[^`]|``)*`'
COMMENT = r"--[^\n]*|/\*.*?\*/"
_TOKEN = re.compile(
    rf"{COMMENT}|(?P<number>{NUMBER})|(?P<string>{STRING})|(?P<quoted>{QUOTED})"
    r"|(?P<word>[^\W\d]\w*)|(?P<operator><=>|<>|!=|<=|>=|==|::|[-+*/%(),.<>=])|(?P<unknown>\S)",
    re.DOTALL,
)
_TYPE_WORDS = frozenset(["DATE", "DATETIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"])
_TYPE_WORDS |= {"TIME", "WITH", "WITHOUT", "ZONE", "INTERVAL"}
_JOINING_WORDS = frozenset(["AND", "OR", "NOT", "IN", "BETWEEN", "IS", "LIKE"])
_BEFORE_SIGN = _JOINING_WORDS | {"+", "-", "*", "/", "%", "(", ",", "<", ">", "=", "<=", ">=", "<>", "!=", "=="}
_SHOWN_AROUND = 60
_LONGEST_QUOTE = 80
_LONGEST_LINE = 200
_MOST_LINES = 4


class Token(NamedTuple):
    """One token and where it stands in the text."""

    kind: Literal["number", "string", "quoted", "word", "operator"]
    text: str
    start: int
    end: int


class ConditionError(FencepostError):
    """A refused condition, shown with the place that is to blame.

    Args:
        got: the offending part and what is wrong with it.
        expected: what would have been accepted.
        remedy: the next step, a full sentence.
        text: the condition.
        spans: start and end of every place to mark.
    """

    def __init__(
        self, got: str, expected: str, remedy: str, text: str = "", spans: Sequence[tuple[int, int]] = ()
    ) -> None:
        super().__init__(got, expected, remedy)
        self.text = text
        self.spans = tuple(spans)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *_marked_lines(self.text, self.spans)])


class RefusalError(FencepostError):
    """A condition is refused; becomes a ConditionError where the text is at hand.

    `problem` goes on after the places, which are quoted and marked: "`x > y`" and "compares two columns".
    """

    def __init__(self, places: Sequence[Place], problem: str, expected: str, remedy: str) -> None:
        super().__init__(problem, expected, remedy)
        self.places = places

    def against(self, text: str) -> ConditionError:
        """The same refusal with the place marked in the text."""
        source = Source(text)
        spans = [source.span(place) for place in self.places]
        quoted = " and ".join(f"`{source.quote(place)}`" for place in self.places)
        got = f"{quoted or 'the condition'} {self.got}"
        return ConditionError(got, self.expected, self.remedy, text, spans)


class Source:
    """A condition's text as tokens.

    >>> [token.text for token in Source("price >= 40.5").tokens]
    ['price', '>=', '40.5']
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup
            if kind is None:  # a comment
                continue
            start, end = match.span(kind)
            if kind == "unknown":
                raise _unknown_character(text, start)
            self.tokens.append(Token(kind, text[start:end], start, end))  # type: ignore[arg-type]

    @cached_property
    def words(self) -> list[str]:
        """The tokens in upper case."""
        return [token.text.upper() for token in self.tokens]

    @cached_property
    def opening(self) -> list[int]:
        """Of each token the parenthesis that it stands in; -1 where it stands in none."""
        found, open_at = [], [-1]
        for index, token in enumerate(self.tokens):
            if token.text == ")" and len(open_at) > 1:
                open_at.pop()
            found.append(open_at[-1])
            if token.text == "(":
                open_at.append(index)
        return found

    @property
    def everything(self) -> Place:
        """The place that covers the whole text."""
        return 0, max(0, len(self.tokens) - 1)

    def quote(self, place: Place) -> str:
        """The text at a place, on one line, its middle left out where it is long."""
        start, end = self.span(place)
        words = " ".join(self.text[start:end].split())
        return words if len(words) <= _LONGEST_QUOTE else f"{words[:50]} ... {words[-20:]}"

    def span(self, place: Place) -> tuple[int, int]:
        """Start and end of a place, widened to what a reader would mark: `(`, `-`, `DATE`, a function's name."""
        if not self.tokens:
            return 0, len(self.text)
        first, last = place
        if first < last or self.tokens[first].text not in "()":
            first, last = self._balanced(first, self._widened_right(last))
        while (before := self._widened_left(first, last)) < first:
            first, last = self._balanced(before, last)
        return self.tokens[first].start, self.tokens[last].end

    def _balanced(self, first: int, last: int) -> Place:
        depth = lowest = 0
        for token in self.tokens[first : last + 1]:
            depth += (token.text == "(") - (token.text == ")")
            lowest = min(lowest, depth)
        missing_open, missing_close = -lowest, depth - lowest
        while missing_open and first > 0:
            first -= 1
            missing_open += (self.tokens[first].text == ")") - (self.tokens[first].text == "(")
        while missing_close and last + 1 < len(self.tokens):
            last += 1
            missing_close += (self.tokens[last].text == "(") - (self.tokens[last].text == ")")
        return first, last

    def _widened_right(self, last: int) -> int:
        """Past the unit of an interval, or to the parenthesis that follows the name of a function."""
        if last + 1 == len(self.tokens):
            return last
        after, kind = self._word(last + 1), self.tokens[last].kind
        is_call = kind == "word" and after == "(" and self._word(last) not in _JOINING_WORDS
        is_amount = kind in ("string", "number") and last > 0 and self._word(last - 1) == "INTERVAL"
        return last + (is_call or (is_amount and after.isalpha() and after not in _JOINING_WORDS))

    def _widened_left(self, first: int, last: int) -> int:
        """From a parenthesis to the function's name, from a constant to its type, from an operand to its sign."""
        if first == 0:
            return 0
        before, token = self._word(first - 1), self.tokens[first]
        if token.text == "(" and first < last and before.isidentifier() and before not in _JOINING_WORDS:
            return first - 1
        if before in _TYPE_WORDS and (token.kind in ("string", "number") or self._word(first) in _TYPE_WORDS):
            return first - 1
        # A sign belongs to what follows it where no operand stands before it.
        if before == "-" and (first == 1 or self._word(first - 2) in _BEFORE_SIGN):
            return first - 1
        return first

    def _word(self, index: int) -> str:
        token = self.tokens[index]
        return token.text.upper() if token.kind in ("word", "operator") else ""


def _unknown_character(text: str, start: int) -> ConditionError:
    character = text[start]
    if character in "'\"`":
        return ConditionError(
            f"{character} is never closed",
            "strings in single quotes and column names in double quotes or backticks",
            "Close it, or double it where it belongs to the text: 'O''Neil'.",
            text,
            [(start, len(text))],
        )
    if character.isdecimal():
        end = start + len(character) + len(_WORD_REST.match(text, start + 1)[0])  # type: ignore[index]
        remedy = "Write numbers in digits, 1000, 2.5 or 1e6, and times as TIMESTAMP '2024-12-31 23:59:59'."
    else:
        end = start + (2 if text[start : start + 2] in ("||", "&&") else 1)
        remedy = _REMEDIES.get(
            text[start:end], "Remove it, or put it in quotes where it belongs to a name or a string."
        )
    return ConditionError(
        f"`{text[start:end]}` has no meaning here",
        "columns, constants, comparisons, AND, OR, NOT and parentheses",
        remedy,
        text,
        [(start, end)],
    )


_WORD_REST = re.compile(r"\w*")
_VALUE = "Write the value itself: price > 40."
_REMEDIES = {
    "||": "Write OR between conditions; join strings in a column of the data and compare that column.",
    "&&": "Write AND.",
    "!": "Write NOT.",
    "~": "Write name LIKE 'A%' for a beginning, or compute whether it matches into a boolean column.",
    "^": "Write x * x for the square of x.",
    "[": 'Quote a name like this: "last price"; compute a part of a list or a map into a column of the data.',
    **dict.fromkeys(("$", "?", ":", "@", "{"), _VALUE),
}
"""What to write in place of symbols that SQL has elsewhere, and of marks that a program would have filled in."""


def _marked_lines(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The lines that hold a span, cut around it, each above a line of carets."""
    lines: list[str] = []
    line_start = 0
    for line in text.split("\n"):
        line_end = line_start + len(line)
        marks = [
            (max(start, line_start) - line_start, min(end, line_end) - line_start)
            for start, end in spans
            if start <= line_end and end > line_start
        ]
        if marks:
            left = max(0, min(start for start, _ in marks) - _SHOWN_AROUND)
            right = min(len(line), max(end for _, end in marks) + _SHOWN_AROUND, left + _LONGEST_LINE)
            carets = "".join(
                "^" if any(start <= at < end for start, end in marks) else " " for at in range(left, right)
            )
            before, after = "..." if left else "", "..." if right < len(line) else ""
            shown = line[left:right].replace("\t", " ")
            lines += [f"  {before}{shown}{after}", f"  {' ' * len(before)}{carets.rstrip()}"]
            if len(lines) >= 2 * _MOST_LINES:
                return lines
        line_start = line_end + 1
    return lines
