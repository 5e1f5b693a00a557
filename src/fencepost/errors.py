"""What fencepost raises when it refuses something."""

import re

from fencepost._text import mask_urls, printable

_FIRST_WORDS = re.compile(
    "(an?|the|no|two|both|neither|more|other|rule ([0-9]+|'[^']*')|rows?|columns?|ids?|bounds|labels|keys|ranges|"
    "arrays|groups|query|(left|right) row|side|domain|on the|objects?|version|line|interval|box|values?)(?=[ :,;])"
)
"""Words of ours that messages begin with. Names, paths and values of users stay as they are written."""

_CLAUSE = re.compile("[^,;:]* must ")
"""An expectation that is a sentence of its own, "ids must be unique"; not "one type, since they must be equal"."""


def join_message(got: str, expected: str, remedy: str) -> str:
    r"""What happened, what was expected and what to do next, in one line that can go on after a colon.

    >>> join_message("rule 7 already exists", "ids must be unique", "Use replace() to edit it.")
    'rule 7 already exists; ids must be unique. Use replace() to edit it.'
    >>> join_message("interval 7 has lo=5 and hi=5", "lo < hi", "Remove it or widen it.")
    'interval 7 has lo=5 and hi=5; expected lo < hi. Remove it or widen it.'
    >>> join_message("a\nb.csv does not exist", "a file", "Correct the path.")
    'a\\nb.csv does not exist; expected a file. Correct the path.'
    """
    is_clause = _CLAUSE.match(expected) is not None
    return f"{printable(shorten(got))}; {'' if is_clause else 'expected '}{printable(shorten(expected))}. {remedy}"


def shorten(text: str, most: int = 400) -> str:
    """A text without its middle where it is longer than anyone reads: what users write may be megabytes."""
    return text if len(text) <= most else f"{text[: most - 100]} ... {text[-95:]}"


def call_rule(id: int, name: str | None) -> str:
    """A rule in a message: its id, and its name where it has one.

    >>> call_rule(7, "ibm floor"), call_rule(8, None)
    ('7 (ibm floor)', '8')
    """
    return str(id) if name is None else f"{id} ({shorten(name)})"


class FencepostError(Exception):
    """A refusal that a person can act on: what was got, what was expected, what to do next.

    URLs in it show no password.

    Args:
        got: what is wrong, led by its noun: "rule 7 already exists", "column price is of type string", "shards=70".
        expected: what would have been accepted, "a number", or a clause with must, "ids must be unique".
        remedy: the next step, a full sentence.

    >>> raise FencepostError("rule 7 already exists", "ids must be unique", "Use replace() to edit it.")
    Traceback (most recent call last):
    ...
    fencepost.errors.FencepostError: Rule 7 already exists; ids must be unique. Use replace() to edit it.
    """

    def __init__(self, got: str, expected: str, remedy: str) -> None:
        got, expected, remedy = map(mask_urls, (got, expected, remedy))
        super().__init__(got, expected, remedy)
        self.got = got
        self.expected = expected
        self.remedy = remedy

    @property
    def one_line(self) -> str:
        """The message without any lines that mark a place, to go on after a colon."""
        return join_message(self.got, self.expected, self.remedy)

    def __str__(self) -> str:
        message = self.one_line
        return message[0].upper() + message[1:] if _FIRST_WORDS.match(message) else message


class UnreachableError(FencepostError):
    """A server that does not answer now. It may later: another attempt makes sense."""


def check_whole(text: str, what: str = "the text") -> None:
    """Refuse halves of surrogate pairs, which can be neither stored nor shown."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FencepostError(
                f"{what} {text[:40]!a} has half a surrogate pair",
                "characters that can be stored",
                "Decode the text as UTF-8.",
            ) from None
