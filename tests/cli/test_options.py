"""The first book of a directory: it appears whole, and survives a loss of power."""

import os
from pathlib import Path

import pytest

from fencepost.book import RuleBook
from fencepost.cli.options import make_book
from tests._files.test_whole import recorded


@pytest.mark.parametrize("links", [True, False])
def test_the_first_book_appears_whole_and_its_name_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no links")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    record, file = recorded(monkeypatch), tmp_path / "rules.db"
    with make_book(f"sqlite:///{file}", author="ann") as book:
        book.add(1, "price > 1")
        assert not file.exists()
    assert record[-1] == ("sync", tmp_path)
    assert list(tmp_path.iterdir()) == [file]
    with RuleBook(f"sqlite:///{file}", create=False) as book:
        assert len(book) == 1


def test_what_a_kill_left_of_a_first_book_goes_with_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "rules.db"
    dead = [tmp_path / f".rules.db.0123456789abcdef{ending}" for ending in ("", "-journal")]
    for draft in dead:
        draft.write_text("half")
        os.utime(draft, (0, 0))
    with make_book(f"sqlite:///{file}", author="ann"):
        pass
    assert list(tmp_path.iterdir()) == [file]
