"""Ordered strings against Python's own order of code points."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost as fp
from fencepost.book import RuleBook
from fencepost.computed import Bounds
from fencepost.computed.bounds import after_prefix
from tests.effort import examples

PIECES = ["", "A", "a", "AA", "B", "Acme", "\0", "\x7f", "é", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
STRINGS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(
    st.characters(codec="utf-8"), max_size=20
)


@examples(300)
@given(bounds=st.lists(STRINGS, max_size=12), values=st.lists(st.none() | STRINGS, max_size=12), cut=st.integers(0, 3))
def test_ordinals_order_strings_among_bounds(bounds: list[str], values: list[str | None], cut: int) -> None:
    made, ordered = Bounds.of(pa.array(bounds, pa.string())), sorted(set(bounds))
    assert made.strings.to_pylist() == ordered
    array = pa.array([*values, *bounds], pa.large_string())
    for given_values in (array, array.slice(cut), array.dictionary_encode(), array.cast(pa.string())):
        ordinals, valid = made.ordinals(given_values)
        for place, text in enumerate(given_values.to_pylist()):
            assert (valid is None or valid[place]) == (text is not None)
            if text is not None:
                below = sum(each < text for each in ordered)
                assert ordinals[place] == (2 * below if text in ordered else 2 * below - 1)


@examples(300)
@given(prefix=STRINGS, text=STRINGS)
def test_a_prefix_is_a_range(prefix: str, text: str) -> None:
    end = after_prefix(prefix)
    for each in (text, prefix + text, prefix):
        assert each.startswith(prefix) == (each >= prefix and (end is None or each < end))


def test_the_order_is_that_of_arrow() -> None:
    texts = pa.array([left + right for left in PIECES for right in PIECES])
    assert sorted(texts.to_pylist()) == texts.take(pc.array_sort_indices(texts)).to_pylist()


CONDITIONS = ["{c} >= {a}", "{c} < {a}", "{c} BETWEEN {a} AND {b}", "{c} <> {a}", "{c} NOT IN ({a}, {b})", "{c} = {a}"]
CONDITIONS += ["NOT ({c} > {a} AND {c} <= {b})", "STARTS_WITH({c}, {a})", "NOT STARTS_WITH({c}, {a})"]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def truth(condition: str, text: str | None, a: str, b: str) -> bool:
    """What Python says of a condition."""
    if text is None:
        return False
    answers = [text >= a, text < a, a <= text <= b, text != a, text not in (a, b), text == a]
    answers += [not a < text <= b, text.startswith(a), not text.startswith(a)]
    return answers[CONDITIONS.index(condition)]


@examples(80)
@given(data=st.data(), values=st.lists(st.none() | STRINGS, min_size=1, max_size=8))
def test_rules_about_strings(data: st.DataObject, values: list[str | None]) -> None:
    """Single rules, then changes that bring other bounds, then the same from a file."""
    rules, drawn = fp.Rules(), {}
    texts = [each for each in values if each is not None] + [""]
    ends = st.sampled_from(texts) | STRINGS
    for id in range(6):
        condition, a, b = data.draw(st.sampled_from(CONDITIONS)), data.draw(ends), data.draw(ends)
        try:
            rules.add(id, condition.format(c="name", a=quoted(a), b=quoted(b)))
        except fp.FencepostError:  # it can never hold
            assert not any(truth(condition, text, a, b) for text in texts)
            continue
        drawn[id] = (condition, a, b)
    table = {"name": pa.array(values, pa.string())}
    if not drawn:
        return
    expected = [{id for id, (each, a, b) in drawn.items() if truth(each, text, a, b)} for text in values]
    snapshot = rules.compile()
    assert snapshot.match(table).sets() == expected
    assert fp.Snapshot.from_bytes(snapshot.to_bytes()).match(table).sets() == expected
    some = list(drawn)
    changed = rules.compile()
    for id in some[::2]:
        other = fp.Rules()
        condition, a, b = drawn[id] = drawn[some[-1]]
        other.add(id, condition.format(c="name", a=quoted(a), b=quoted(b)))
        changed = changed.changed(pa.array([], pa.int64()).to_numpy(), other.columns())
    expected = [{id for id, (each, a, b) in drawn.items() if truth(each, text, a, b)} for text in values]
    assert changed.match(table).sets() == expected


def test_a_column_is_a_key_and_ordered() -> None:
    rules = fp.Rules()
    rules.add(1, "symbol = 'IBM' AND price > 3")
    rules.add(2, "symbol >= 'I' AND symbol < 'J' AND price > 3")
    rules.add(3, "symbol = 'IBM' AND symbol LIKE 'I%' AND price > 3")
    snapshot = rules.compile()
    table = {"symbol": ["IBM", "INTC", "SAP", None], "price": [4.0, 4.0, 4.0, 4.0]}
    assert snapshot.match(table).sets() == [{1, 2, 3}, {2}, set(), set()]
    assert (snapshot.keys, snapshot.attributes) == (("symbol",), ("price",))


def test_no_line_goes_through_strings() -> None:
    rules = fp.Rules()
    rules.add(1, "name > 'A' AND price > 3", detect="cross")
    with pytest.raises(fp.FencepostError, match="a straight line between two positions has no strings on it"):
        rules.compile()
    rules.replace(1, "name BETWEEN 'B' AND 'C'", detect="cross")
    monitor = fp.Monitor(rules, object="o", time="ts")
    monitor.update([{"o": 1, "ts": 1, "name": "A"}])
    assert monitor.update([{"o": 1, "ts": 2, "name": "D"}])["detect"].to_pylist() == ["cross"]
    with pytest.raises(fp.FencepostError, match="no strings on it"):
        monitor.add(2, "name > 'A' AND name = 'B' OR name > 'C' AND LOWER(name) > 'c'", detect="cross")


@pytest.mark.parametrize("count", [1, 40])
def test_cross_of_strings_and_another_range_is_refused_from_a_book(count: int, tmp_path: Path) -> None:
    """One by one, and where many rules of one form are bound at once."""
    book = RuleBook(f"sqlite:///{tmp_path}/b.db")
    for number in range(count):
        book.add(number, f"s > 'A{number}' AND x BETWEEN 1 AND 2", detect="cross" if number % 2 == 0 else "enter")
    book.add(100, "x BETWEEN 1 AND 2", detect="cross")
    book.add(101, "s > 'A'", detect="cross")
    schema = {"s": "string", "x": "double", "o": "string", "ts": "bigint"}
    with pytest.raises(fp.FencepostError, match=r"rule 0: detect='cross' with a range of strings"):
        fp.Monitor(book, object="o", time="ts", schema=schema)
    faults: list[fp.RuleFault] = []
    book.publish(tmp_path / "pub", schema=schema, faults=faults)
    assert [fault.id for fault in faults] == list(range(0, count, 2))
