"""What a book knows beside its rules: a few values by name, each as JSON.

Books that were made before have no table for them; it is made when the first value is written.
"""

import json
from typing import Any

from sqlalchemy import Connection, delete, insert, inspect, select

from fencepost.book.tables import SETTINGS
from fencepost.errors import FencepostError


def read_setting(connection: Connection, name: str) -> Any:
    """A value, or None where the book has none of that name."""
    if not inspect(connection).has_table(SETTINGS.name):
        return None
    text: Any = connection.execute(select(SETTINGS.c.value).where(SETTINGS.c.name == name)).scalar()
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        raise FencepostError(
            f"the book has {text[:40]!a} as its {name}",
            "JSON as a rule book writes it",
            "Restore the book from its last export or backup.",
        ) from None


def write_setting(connection: Connection, name: str, value: Any) -> None:
    """Keep a value under a name, in place of the one before."""
    SETTINGS.create(connection, checkfirst=True)
    connection.execute(delete(SETTINGS).where(SETTINGS.c.name == name))
    connection.execute(insert(SETTINGS).values(name=name, value=json.dumps(value, sort_keys=True)))
