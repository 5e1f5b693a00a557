"""Texts for people: a count with its noun, no password, and nothing that could steer a terminal."""

import re

_USER = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://)(?:([^\s/:@?#"'<>]*)(:[^\s"'<>]*)?@)""")
_QUERY = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://[^\s?"'<>]*\?)([^\s"'<>]*)""")
_HARMLESS = {"host", "port", "sslmode", "connect_timeout", "application_name", "mode", "timeout", "uri"}
"""Parameters of a URL that are no secret."""


def count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "rule"), count(2000, "rule"), count(2, "match"), count(2, "box")
    ('1 rule', '2,000 rules', '2 matches', '2 boxes')
    """
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "x")) else "s"
    return f"{number:,} {noun}{ending}"


def name_kind(value: object) -> str:
    """What a value is, with its article.

    >>> name_kind(3), name_kind({}), name_kind(None)
    ('an int', 'a dict', 'None')
    """
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiAEIO' else 'a'} {name}"


def printable(text: str) -> str:
    r"""One line, in which a tab, a line feed or an escape sequence for the terminal is spelled out.

    >>> printable("\x1b[31mred\x9b\n")
    '\\x1b[31mred\\x9b\\n'
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def mask_urls(text: str) -> str:
    """A text whose URLs show no password: neither that of a user nor the values of a query.

    >>> mask_urls("postgresql://ann:s3cret@db/rules?sslmode=require&password=x does not answer")
    'postgresql://ann:***@db/rules?sslmode=require&password=*** does not answer'
    >>> mask_urls("https://token@hooks/alerts?key=x")
    'https://***@hooks/alerts?key=***'
    """
    if "://" not in text:
        return text
    return _QUERY.sub(_mask_query, _USER.sub(_mask_user, text))


def mask_url(url: str) -> str:
    """The same for a text that is meant as one URL, whatever is wrong with it.

    >>> mask_url("ann:s3 cret@db/rules"), mask_url("postgresql://ann:p w@db/rules")
    ('***@db/rules', 'postgresql://***@db/rules')
    """
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    _, at, place = rest.rpartition("@")
    return mask_urls(f"{scheme}{separator}{'***' if at else ''}{at}{place}")


def _mask_user(found: "re.Match[str]") -> str:
    scheme, user, password = found.groups()
    if scheme.lower().startswith("http"):  # there a user alone may be a token
        return f"{scheme}***@"
    return f"{scheme}{user}:***@" if password else f"{scheme}{user}@"


def _mask_query(found: "re.Match[str]") -> str:
    pairs = [pair.partition("=") for pair in found[2].split("&")]
    shown = (
        name + equals + (value if name.lower() in _HARMLESS or not value else "***") for name, equals, value in pairs
    )
    return found[1] + "&".join(shown)
