"""Texts for people: a count with its noun, and nothing that could steer a terminal."""


def count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "rule"), count(2000, "rule"), count(2, "match")
    ('1 rule', '2,000 rules', '2 matches')
    """
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"


def printable(text: str) -> str:
    r"""One line, in which a tab, a line feed or an escape sequence for the terminal is spelled out.

    >>> printable("\x1b[31mred\x9b\n")
    '\\x1b[31mred\\x9b\\n'
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))
