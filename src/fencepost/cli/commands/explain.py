"""`fencepost explain`: which structure serves which rules, and why."""

from dataclasses import asdict

from fencepost.cli.options import DEFAULT_BOOK, Book, Directory, Json
from fencepost.cli.output import print_json, progress


def explain(rules: Directory = None, book: Book = DEFAULT_BOOK, as_json: Json = False) -> None:
    """Show how the rules are indexed, and branches of conditions that can never hold."""
    from fencepost.cli.asking import published, rules_of_book

    with progress() as report:
        if rules is not None:
            explanation = published(rules).explain()
        else:
            explanation = rules_of_book(book, report).compile().explain()
    if as_json:
        print_json(asdict(explanation))
    else:
        print(explanation)
