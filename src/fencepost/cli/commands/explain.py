"""`fencepost explain`: which structure serves which rules, and why."""

from dataclasses import asdict

from fencepost.cli.options import DEFAULT_BOOK, Book, Directory, Json
from fencepost.cli.output import print_json, print_text, progress


def explain(rules: Directory = None, book: Book = DEFAULT_BOOK, as_json: Json = False) -> None:
    """Show which index serves which rules.

    Branches of conditions that can never hold are listed, too.
    """
    from fencepost.cli.binding import load_newest, read_book

    with progress() as report:
        if rules is not None:
            snapshot = load_newest(rules)
        else:
            with read_book(book) as opened:
                snapshot = opened.compile(progress=report)
        explanation = snapshot.explain()
    if as_json:
        print_json(asdict(explanation))
    else:
        print_text(explanation)
