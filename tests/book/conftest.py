"""One PostgreSQL for all tests of a session."""

from collections.abc import Iterator

import pytest

from tests import postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A database of a real server; its tests empty it."""
    reason = postgres.missing()
    if reason:
        print(reason)
        pytest.skip(reason)
    with postgres.server() as url:
        yield url
