"""What a condition is without its constants and column names: the key under which its compiled shape is kept."""

import re
from collections.abc import Sequence
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import Parser, Tokenizer

from fencepost.language.source import COMMENT, NUMBER, QUOTED, STRING, ConditionError, RefusalError

# What a slot holds: a number, a string, or a column in its canonical form; behind them the zone, None for UTC.
Value = int | Fraction | str | tzinfo | None
Values = Sequence[Value]
ShapeKey = tuple[str, ...]

# A name that neither calls a function nor belongs to a table or side.
_NAME = r"(?<![\w.])[^\W\d]\w*(?!\w|\s*(?:\(|\.(?!\d)))"
_SLOT = re.compile(rf"({NUMBER})|({STRING})|({QUOTED}|{_NAME})|({COMMENT})", re.DOTALL)
LONGEST_CONDITION = 100_000
"""Characters."""
MOST_WORDS = 10_000
"""Names, keywords and constants of one condition."""

_LARGEST_EXPONENT = 400  # beyond every double; without a limit 1e999999999 would fill the memory
# Words that sqlglot may read as something else than a column; they stay in the key.
_UNITS = ["MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]
_RESERVED = frozenset(
    [
        *(word for keyword in Tokenizer.KEYWORDS for word in keyword.split()),
        *Parser.NO_PAREN_FUNCTION_PARSERS,
        *_UNITS,
        *(f"{unit}S" for unit in _UNITS),
    ]
)


def canonical_name(written: str) -> str:
    """A column as conditions know it: in lower case, or in double quotes and exactly so where it is quoted.

    >>> canonical_name("Price"), canonical_name("`Last Price`")
    ('price', '"Last Price"')
    """
    if written in ('""', "``"):
        raise RefusalError(
            [], f"has a column without a name, {written}", "a name", "Write the name of a column, or 'text'."
        )
    if written.startswith("`"):
        return '"' + written[1:-1].replace("``", "`").replace('"', '""') + '"'
    return written if written.startswith('"') else written.lower()


def has_exponent(number: str) -> bool:
    """Whether a number is written with one: then it is a double where it is computed with, as in SQL."""
    return "e" in number or "E" in number


def read_shape(text: str) -> tuple[ShapeKey, list[Value]]:
    """The key of a condition's shape, and what its slots hold, in the order of the text.

    Conditions of equal key have the same tokens, but for what the slots hold.

    >>> key, values = read_shape("price > 40.5 AND symbol = 'IBM'")
    >>> values, key == read_shape("Volume > 7 and name = 'SAP'")[0]
    (['price', Fraction(81, 2), 'symbol', 'IBM'], True)
    """
    if len(text) > LONGEST_CONDITION:
        raise _too_large(f"{len(text):,} characters", f"{LONGEST_CONDITION:,}")
    pieces = _SLOT.split(text)
    if len(pieces) > 5 * MOST_WORDS:
        raise _too_large(f"{len(pieces) // 5:,} names, keywords and constants", f"{MOST_WORDS:,}")
    values: list[Value] = []
    marks: list[str] = []
    for number, string, name in zip(pieces[1::5], pieces[2::5], pieces[3::5], strict=True):
        if number is not None:
            marks.append("exponent" if has_exponent(number) else "number")
            values.append(exact_number(number, text))
        elif string is not None:
            marks.append("string")
            values.append(string[1:-1].replace("''", "'"))
        elif name is None:
            marks.append("comment")
        elif (word := name.upper()) in _RESERVED:
            marks.append(word)
        else:
            # A name in double quotes may be meant as a string, which is refused in some places: a shape of its own.
            marks.append("quoted" if name.startswith('"') else "name")
            values.append(canonical_name(name))
    return tuple(pieces[::5] + marks), values


def _too_large(size: str, most: str) -> ConditionError:
    return ConditionError(
        f"the condition has {size}", f"at most {most}", "Write several rules, or a table of rules for many of one form."
    )


def slots_by_start(text: str) -> dict[int, int]:
    """The number of every slot, by where it starts in the text."""
    starts = [
        match.start()
        for match in _SLOT.finditer(text)
        if match[4] is None and (match[3] is None or match[3].upper() not in _RESERVED)
    ]
    return {start: slot for slot, start in enumerate(starts)}


def exact_number(number: str, text: str) -> int | Fraction:
    """The number that is written so in a text."""
    if number.isdecimal() and len(number) < _LARGEST_EXPONENT:
        return int(number)
    try:
        decimal = Decimal(number)
        is_near = abs(decimal.adjusted()) <= _LARGEST_EXPONENT and len(number) <= 2 * _LARGEST_EXPONENT
    except InvalidOperation:  # an exponent that Decimal does not hold
        is_near = False
    if not is_near:
        raise ConditionError(
            f"the number {number[:20]}{'...' if len(number) > 20 else ''} is out of range",
            f"a number between 1e-{_LARGEST_EXPONENT} and 1e{_LARGEST_EXPONENT}",
            "Leave the bound out where the range is meant to be unbounded.",
            text,
            [(text.index(number), text.index(number) + len(number))],
        )
    numerator, denominator = decimal.as_integer_ratio()
    return numerator if denominator == 1 else Fraction(numerator, denominator)
