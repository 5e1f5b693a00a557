"""Rules in notebooks."""

from collections.abc import Iterable
from itertools import islice

from fencepost._html import SHOWN, html_table
from fencepost.rules.rule import Rule


def rules_html(caption: str, rules: Iterable[Rule], total: int) -> str:
    """The first rules as a table."""
    rows = [
        (
            rule.id,
            rule.name,
            rule.condition,
            rule.detect,
            None if rule.damping is None else str(rule.damping),
            ", ".join(f"{name}={text}" for name, text in (rule.labels or {}).items()),
            rule.expires,
            None if rule.enabled else "paused",
            rule.version,
        )
        for rule in islice(rules, SHOWN)
    ]
    headers = ("id", "name", "condition", "detect", "damping", "labels", "expires", "state", "version")
    return html_table(caption, headers, rows, total - len(rows))
