"""What the language refuses: one function per reason, each with the nearest thing that works."""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import ParseError

from fencepost.errors import FencepostError
from fencepost.language.source import Place, RefusalError, Source

_KIND_NAMES = {
    "number": "a number",
    "key": "a string",
    "date": "a date",
    "timestamp": "a timestamp",
    "boolean": "TRUE or FALSE",
    "interval": "an interval",
    "column": "a column",
    "any": "a column",
}
_COMPARISON = "a comparison of columns and constants, or of expressions over them"
_CASES = "Join the cases by OR and AND: (x > 1 AND y > 2) OR (x <= 1 AND y > 3); COALESCE(x, 0) for a missing value."
_COMPUTE = "Compute it into a column of the data and compare that column."


def syntax(source: Source, error: ParseError) -> RefusalError:
    """The text is no SQL condition."""
    index = min(error.errors[0].get("col") or 0, len(source.tokens) - 1)
    return RefusalError(
        [(index, index)],
        "cannot be understood here",
        "columns, constants, comparisons, BETWEEN, IN, AND, OR, NOT and parentheses",
        'Look around the mark for a missing operand, operator or parenthesis; quote a column named like SQL: "from".',
    )


def reserved(word: str, place: Place, *, is_call: bool = False) -> RefusalError:
    """A word that SQL keeps for itself; IF may be called like a function."""
    if is_call:
        return RefusalError([place], "is nothing that rules compute", _COMPARISON, _CASES)
    return RefusalError(
        [place], "is a word that SQL keeps for itself", _COMPARISON, f'Quote it where it names a column: "{word}".'
    )


def no_predicate(place: Place) -> RefusalError:
    """The expression is neither true nor false."""
    return RefusalError([place], "is neither true nor false", _COMPARISON, "Compare it, for example price > 40.")


def predicate(node: exp.Expression, place: Place, *, negate: bool = False) -> RefusalError:
    """The expression cannot stand where true or false is needed; `negate` says whether NOT stands before it."""
    if isinstance(node, exp.Is):
        return _is_test(node, place, negate=negate)
    if isinstance(node, (exp.RegexpLike, exp.SimilarTo, exp.Glob, exp.Escape)):
        return pattern(place)
    if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
        return _null_safe(isinstance(node, exp.NullSafeEQ) != negate, node, place)
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("isnull", "isnotnull"):
        word = "IS NULL" if (node.name.lower() == "isnull") != negate else "IS NOT NULL"
        return RefusalError([place], "is a function that tests for null", word, f"Write x {word}.")
    if isinstance(node, (exp.EndsWith, exp.Contains)):
        return pattern(place)
    if isinstance(node, (exp.Literal, exp.Neg, exp.Interval, exp.Cast, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)):
        return no_predicate(place)
    return operand(node, place)


def _null_safe(holds_for_equal: bool, node: exp.Expression, place: Place) -> RefusalError:
    """`<=>`, IS DISTINCT FROM and their negations."""
    if "NULL" in (node.this.name.upper(), node.expression.name.upper()):
        word = "IS NULL" if holds_for_equal else "IS NOT NULL"
        return RefusalError([place], "is another word for a test for null", word, f"Write x {word}.")
    if holds_for_equal:
        return RefusalError([place], "is another way to write =", "a comparison with =", "Write = instead.")
    return RefusalError(
        [place], "also holds for null", "a comparison with <>", "Write x <> 3 OR x IS NULL for x IS DISTINCT FROM 3."
    )


def _is_test(node: exp.Is, place: Place, *, negate: bool) -> RefusalError:
    name = node.expression.name.upper()
    if name in ("TRUE", "FALSE"):
        remedy = f"Write = {name} instead of IS {name}."
        if negate:
            other = "TRUE" if name == "FALSE" else "FALSE"
            remedy = f"Write f = {other} OR f IS NULL for f IS NOT {name}."
        return RefusalError([place], "also decides null", "a comparison", remedy)
    if name != "NULL":
        return RefusalError([place], "is no test that SQL has", "a comparison, or IS NULL", "Write = instead of IS.")
    return RefusalError(
        [place],
        "is a test for null",
        _COMPARISON,
        "Leave it out: a null is in no range, so every comparison already asks for a value.",
    )


def operand(node: exp.Expression, place: Place) -> RefusalError:
    """The expression cannot be compared."""
    if isinstance(node, (exp.Query, exp.Subquery, exp.Exists, exp.All, exp.Any)):
        return RefusalError([place], "is a subquery", _COMPARISON, "Write the constants themselves: x IN (1, 2, 3).")
    if isinstance(node, (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime)) or (
        isinstance(node, exp.Anonymous) and node.name.lower() == "now"
    ):
        return RefusalError(
            [place], "changes while the rule stands", "a fixed constant", "Write TIMESTAMP '2024-12-31 23:59:59'."
        )
    if isinstance(node, _OF_DAYS) or (isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE):
        return RefusalError(
            [place],
            "cuts times off",
            "times compared as they are",
            "Write a range: ts >= TIMESTAMP '2024-12-31' AND ts < TIMESTAMP '2025-01-01'; for an hour of every day, "
            "EXTRACT(HOUR FROM ts) = 9.",
        )
    if isinstance(node, exp.Cast):
        remedy = "Cast the constant instead."
        if node.to.this in exp.DataType.INTEGER_TYPES:
            remedy = "Write FLOOR(x) for a number above zero, CEIL(x) for one below."
        return RefusalError([place], "is a cast of a column", "columns as they are, or CAST(x AS DOUBLE)", remedy)
    if isinstance(node, exp.Anonymous) and node.name.lower().startswith("regexp"):
        return pattern(place)
    if isinstance(node, exp.AggFunc):
        return RefusalError(
            [place],
            "is about several rows",
            _COMPARISON,
            _COMPUTE,
        )
    if (isinstance(node, exp.Predicate) and not isinstance(node, exp.Func)) or isinstance(node, exp.Connector):
        return RefusalError(
            [place], "is a comparison inside another", _COMPARISON, "Join comparisons with AND: 1 < x AND x < 5."
        )
    return RefusalError(
        [place],
        "is nothing that rules compute",
        _COMPARISON,
        next((remedy for kinds, remedy in _REWRITES if isinstance(node, kinds)), _COMPUTE),
    )


_OF_DAYS = (exp.DateTrunc, exp.TimestampTrunc, exp.DatetimeTrunc, exp.Date, exp.TsOrDsToDate)
_REWRITES: list[tuple[tuple[type[exp.Expression], ...], str]] = [
    ((exp.Pow,), "Write x * x for POWER(x, 2); else compute it into a column of the data and compare that column."),
    ((exp.Case, exp.If), _CASES),
    (
        (exp.Concat, exp.DPipe),
        "Compare the parts, joined by AND; else compute it into a column of the data and compare that column.",
    ),
    ((exp.IntDiv,), "Write FLOOR(x / y) for a quotient above zero, CEIL(x / y) for one below."),
    ((exp.Trunc,), "Write FLOOR(x) for a number above zero, CEIL(x) for one below."),
    ((exp.Trim,), "Write TRIM(name), which takes the spaces from both ends."),
    ((exp.Right,), "Write LEFT(sku, 2) for the beginning; else compute it into a column of the data."),
    ((exp.StrPosition,), "Write STARTS_WITH(name, 'A') for the beginning; else compute it into a column of the data."),
    ((exp.Collate,), "Write LOWER(name) = 'acme' where case does not matter; strings are ordered by code point."),
]
"""What to write in place of some functions."""


def constants(place: Place) -> RefusalError:
    """A function of constants alone."""
    return RefusalError([place], "has constants alone", "a column in it", "Write the constant that it is.")


def column_arithmetic(place: Place) -> RefusalError:
    """A column where only a constant can be."""
    return RefusalError(
        [place],
        "computes with a column",
        "a constant there",
        "Write the constant, or compute it into a column of the data and compare that column.",
    )


def two_columns(other: str, symbol: str, quoted: str, place: Place) -> RefusalError:
    """A comparison with what is most likely a string in double quotes."""
    name = quoted[1:-1].replace('""', '"')
    return RefusalError(
        [place],
        "compares two columns",
        "strings in single quotes",
        f"Write {other} {symbol} '{name}' for the string, {other} {symbol} `{name}` for the column.",
    )


def pattern(place: Place) -> RefusalError:
    """LIKE with anything but a pattern that is written out, or another way to match."""
    return RefusalError(
        [place],
        "is a pattern that is no range",
        "a column LIKE a text that ends in %: name LIKE 'Acme%'",
        "Write the beginning of the text, STARTS_WITH(name, 'A_') where it has a wildcard's letter, or compute whether "
        "it matches into a boolean column.",
    )


def wildcards(place: Place, text: str) -> RefusalError:
    """A pattern with a wildcard anywhere but at its end."""
    begin = text.lstrip("%")
    remedy = "List the strings that are meant, or compute whether they match into a boolean column."
    if "\\" in text:
        remedy = "Write STARTS_WITH(name, 'A_') for the beginning; = and IN take any character."
    elif not text.startswith(("%", "_")):
        remedy = f"Write LIKE '{begin[: _first_wildcard(begin)]}%' where all that begin so are meant."
    return RefusalError([place], "has a wildcard before its end", "a text that ends in %: name LIKE 'Acme%'", remedy)


def _first_wildcard(text: str) -> int:
    return min(text.index(each) for each in "%_" if each in text)


def time_arithmetic(place: Place) -> RefusalError:
    """A column and an interval."""
    return RefusalError(
        [place],
        "computes with a time",
        "times compared with constants",
        "Move the interval to the constant: ts > TIMESTAMP '2024-12-31' + INTERVAL '1' DAY.",
    )


def digits(name: str, place: Place) -> RefusalError:
    """A function of a number with further arguments."""
    return RefusalError(
        [place],
        "rounds to digits",
        f"{name} of one number",
        f"Write {name}(x * 100) = 1234 for {name}(x, 2) = 12.34.",
    )


def substring(place: Place) -> RefusalError:
    """A part of a string that is counted from its end."""
    return RefusalError(
        [place],
        "is a part of a string that depends on its length",
        "a start from 1 on and a length, both constants",
        "Write for example SUBSTR(sku, 1, 2) = 'AB', or compute it into a column of the data.",
    )


def field(place: Place, fields: Sequence[str]) -> RefusalError:
    """EXTRACT of what is not known."""
    return RefusalError(
        [place], "asks for an unknown field", f"one of {', '.join(fields)}", "Write EXTRACT(HOUR FROM ts) >= 9."
    )


def zone(place: Place, error: FencepostError) -> RefusalError:
    """AT TIME ZONE with no zone."""
    return RefusalError([place], "is no time zone", error.expected, error.remedy)


def null_constant(place: Place, *, takes_tests: bool) -> RefusalError:
    """A comparison with NULL; `takes_tests` says whether a test for null can be written."""
    remedy = "Leave it out: a null is in no range, so every comparison already asks for a value."
    if takes_tests:
        remedy = "Write x IS NULL for x = NULL, and x = 1 OR x IS NULL for x IN (1, NULL)."
    return RefusalError([place], "is in no comparison that holds", _COMPARISON, remedy)


def different_kinds(place: Place, left: str, right: str) -> RefusalError:
    """Constants or columns that cannot be compared with each other."""
    remedy = "Write both as numbers, strings, dates or timestamps."
    if {left, right} == {"interval", "number"}:
        remedy = "Compute the time between two columns into a column of the data, as a number, and compare that column."
    elif "interval" in (left, right):
        remedy = "Add the interval to a date or timestamp: TIMESTAMP '2024-12-31' + INTERVAL '1' DAY."
    return RefusalError(
        [place], f"compares {_KIND_NAMES[left]} with {_KIND_NAMES[right]}", "both sides of one kind", remedy
    )


def mixed_kinds(column: str, place: Place, known: str, found: str) -> RefusalError:
    """One column compared with constants of two kinds."""
    return RefusalError(
        [place],
        f"compares {column} with {_KIND_NAMES[found]}, elsewhere with {_KIND_NAMES[known]}",
        "one kind of constant for one column",
        "Write both as numbers, strings, dates or timestamps.",
    )


def qualified(column: str, place: Place) -> RefusalError:
    """A column with a table in front."""
    return RefusalError(
        [place],
        "names a table",
        "columns of the one stream; left. and right. where a band compares two",
        f"Write {column} alone.",
    )


def no_list(place: Place) -> RefusalError:
    """IN without constants."""
    return RefusalError(
        [place], "is an IN without constants", "a list of constants", "Write the constants themselves: x IN (1, 2, 3)."
    )


def symmetric(place: Place) -> RefusalError:
    """BETWEEN SYMMETRIC."""
    return RefusalError(
        [place], "is symmetric", "BETWEEN without SYMMETRIC", "Write the smaller bound first and leave SYMMETRIC out."
    )


def interval_form(place: Place) -> RefusalError:
    """An interval in a form that is not read."""
    return RefusalError(
        [place],
        "is an interval of two units",
        "an interval in one unit, or in units that are named",
        "Write INTERVAL '1 day 2 hours' for INTERVAL '1 2' DAY TO HOUR.",
    )


def cast_type(place: Place, types: Sequence[str]) -> RefusalError:
    """A cast to a type that no constant has."""
    return RefusalError(
        [place],
        "casts to a type that no attribute has",
        f"a cast to one of {', '.join(types)}",
        "Write the constant without the cast.",
    )
