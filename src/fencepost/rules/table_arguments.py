"""The columns of a table of rules, as people write them on a command line and in a pipeline's file."""

from collections.abc import Sequence
from typing import Any

from fencepost.errors import FencepostError


def read_pairs(given: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    """The values of a repeatable option such as `--label team=desk`, as a mapping."""
    values = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise FencepostError(f"{option} {each}", "a name, an equals sign and a value", f"Write {option} {example}.")
        values[name] = value
    return values


def read_table_arguments(
    *,
    id: str | None = None,
    equal: Sequence[str] = (),
    range: Sequence[str] = (),
    bounds: Sequence[str] = (),
    condition: str | None = None,
    label: Sequence[str] = (),
    option: Sequence[str] = (),
    detect: str | None = None,
    initial: bool = False,
    mark: str = "--",
) -> dict[str, Any]:
    """The arguments of RuleBook.add_table; `mark` stands before the names of settings in messages.

    >>> read_table_arguments(equal=["symbol=ticker"], range=["price=low,high"])
    {'equal': {'symbol': 'ticker'}, 'ranges': {'price': ('low', 'high')}}
    """
    arguments: dict[str, Any] = {}
    if id is not None:
        arguments["id"] = id
    if equal:
        arguments["equal"] = dict(_read_equal(each) for each in _split(equal))
    if range:
        pairs = read_pairs(range, f"{mark}range", "price=low,high")
        arguments["ranges"] = {name: _read_pair(name, text, mark) for name, text in pairs.items()}
    if bounds:
        if len(bounds) == 1 and "=" not in bounds[0]:
            arguments["bounds"] = bounds[0]
        else:
            arguments["bounds"] = read_pairs(bounds, f"{mark}bounds", "price=[]")
    if condition is not None:
        arguments["condition"] = condition
    if label:
        arguments["labels"] = _split(label)
    if option:
        arguments["options"] = read_pairs(option, f"{mark}option", "detect=kind")
    if detect is not None:
        arguments["detect"] = detect
    if initial:
        arguments["initial"] = True
    return arguments


def named_columns(table: dict[str, Any]) -> list[str]:
    """The columns of the table that arguments name, that of ids first."""
    bounds = [name for pair in table.get("ranges", {}).values() for name in pair if name is not None]
    options = table.get("options", {}).values()
    condition = [table["condition"]] if "condition" in table else []
    equal, labels = table.get("equal", {}).values(), table.get("labels", ())
    return [table.get("id", "rule_id"), *equal, *bounds, *labels, *options, *condition]


def refuse_without_columns(table: dict[str, Any], what: str, mark: str = "--") -> None:
    """Refuse arguments that make no condition."""
    if not (table.keys() & {"equal", "ranges", "condition"}):
        example = "--equal symbol --range price=low,high" if mark else 'range = "price=low,high"'
        raise FencepostError(
            f"{what} without {mark}equal, {mark}range and {mark}condition",
            "columns that make a condition",
            f"Name the columns of keys and bounds, e.g. {example}.",
        )


def _split(given: Sequence[str]) -> list[str]:
    return [name.strip() for each in given for name in each.split(",") if name.strip()]


def _read_equal(text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    return name, column if equals else name


def _read_pair(name: str, text: str, mark: str) -> tuple[str | None, str | None]:
    low, comma, high = (part.strip() for part in text.partition(","))
    if not comma or not (low or high) or "," in high:
        raise FencepostError(
            f"{mark}range {name}={text}",
            "two columns with a comma between them, one of which may be left out",
            f"Write {mark}range {name}=low,high or {mark}range {name}=low,",
        )
    return low or None, high or None
