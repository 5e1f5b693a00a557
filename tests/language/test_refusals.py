"""Every refusal of the language, word by word: what was got, what was expected, the next step, and the place."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from fencepost.language import KEY, Band, ColumnType, Condition, ConditionError, bind, bind_band, parse
from fencepost.ordinals import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP
from tests.effort import examples


def refusals() -> list[tuple[str, str]]:
    """Conditions and the messages that refuse them, from the file beside this one."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    cases = []
    for block in text.split("\n\n"):
        lines = [line for line in block.strip("\n").split("\n") if not line.startswith("#")]
        if lines != [""] and lines:
            condition = "\n".join(line.removeprefix("> ") for line in lines if line.startswith(">"))
            message = "\n".join(line for line in lines if not line.startswith(">"))
            cases.append((condition.removeprefix(">"), message))
    return cases


@pytest.mark.parametrize(("text", "message"), refusals(), ids=[text for text, _ in refusals()])
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as refused:
        parse(text)
    assert str(refused.value) == message


def test_a_string_in_double_quotes_is_refused_after_two_columns_were_compared() -> None:
    parse("bid = ask")
    parse("bid = `ask`")
    with pytest.raises(ConditionError, match="Write bid = 'ask' for the string"):
        parse('bid = "ask"')


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('LOWER(symbol) = "ibm"', "Write LOWER(symbol) = 'ibm' for the string, LOWER(symbol) = `ibm` for the column"),
        ('symbol <> "IBM"', "Write symbol <> 'IBM' for the string"),
        ('"IBM" = symbol', "Write symbol = 'IBM' for the string"),
        ('symbol IN ("IBM", "SAP")', "Write symbol = 'IBM' for the string"),
        ('symbol NOT IN ("IBM", "SAP")', "Write symbol <> 'IBM' for the string"),
        ('UPPER(symbol) >= "IBM"', "Write UPPER(symbol) >= 'IBM' for the string"),
        ('"IBM" > UPPER(symbol)', "Write UPPER(symbol) < 'IBM' for the string"),
        ('symbol BETWEEN "A" AND "B"', "Write symbol = 'A' for the string"),
        ('TRIM(symbol) BETWEEN "A" AND "B"', "for the string"),
        ('COALESCE(symbol, other) = "IBM"', "Write COALESCE(symbol, other) = 'IBM' for the string"),
        ('NOT symbol = "IBM"', "Write symbol <> 'IBM' for the string"),
    ],
)
def test_strings_in_double_quotes_are_refused_wherever_they_are_compared(text: str, remedy: str) -> None:
    with pytest.raises(ConditionError, match=re.escape(remedy)):
        parse(text)
    parse(text.replace('"', "`"))


@pytest.mark.parametrize(
    "text",
    [
        '"Last Price" > 40',
        '"Last Price" < vwap',
        'bid < "Last Price"',
        'bid * 2 = "Last Price"',
        '"Last Price" - bid > 3',
        "\"Symbol\" = 'IBM'",
        'bid BETWEEN 3 AND "Last Price"',
        'GREATEST("Bid", "Ask") > 3',
    ],
)
def test_columns_in_double_quotes_stay_columns(text: str) -> None:
    parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "d > " + " + ".join(["1"] * 300),
        "d + " + " + ".join(["1"] * 300) + " > 1",
        "d > " + "-(" * 25 + "1" + ")" * 25,
        "d > " + "CAST(" * 25 + "1" + " AS DOUBLE)" * 25,
        "ABS(" * 25 + "d" + ")" * 25 + " > 1",
    ],
    ids=["constants", "column", "negations", "casts", "functions"],
)
def test_what_is_long_or_deep_is_read_once(text: str) -> None:
    """Were each part read twice, this would not end."""
    assert parse(text) is not None


def refusal_of(text: str) -> ConditionError | None:
    try:
        parse(text)
    except ConditionError as refused:
        return refused
    return None


VOCABULARY = """
x y s left . right left.x right.x left.s = <> < <= > >= != ( ) , AND OR NOT IN BETWEEN IS NULL TRUE FALSE 1 2.5 1e5
'a' '1' '2024-01-01' DATE TIMESTAMP INTERVAL DAY MONTH CAST AS INT DECIMAL ABS LIKE SELECT FROM CASE WHEN THEN END ::
+ - * / % WITH TIME ZONE "q" `b` -- /* */ EXISTS ANY IF OVER DISTINCT ARRAY current_date SET date COLLATE UNION VALUES
<=> ISNULL DIV EXTRACT SYMMETRIC ' ; $ [
"""


@examples(1500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(VOCABULARY.split()), min_size=1, max_size=9))
def test_nonsense_is_read_or_refused_but_never_fails(caplog: pytest.LogCaptureFixture, words: list[str]) -> None:
    text = " ".join(words)
    refused = refusal_of(text)
    if refused is not None:
        assert all(0 <= start < end <= len(text) for start, end in refused.spans)
        assert str(refused).startswith(("`", "'", '"', "The "))
        assert "; expected " in str(refused)
    assert not caplog.records


def test_long_conditions_are_cut_around_the_place() -> None:
    with pytest.raises(ConditionError) as refused:
        parse(
            " AND ".join(f"column_{n} > {n}" for n in range(20)) + " AND x < AVG(y) AND " + "z > 1 AND " * 20 + "z > 1"
        )
    _, line, carets = str(refused.value).split("\n")
    assert line.startswith("  ...")
    assert line.endswith("...")
    assert line[carets.index("^") :].startswith("AVG(y)")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"x IN ({', '.join(map(str, range(257)))})", 257),
        (f"x NOT IN ({', '.join(map(str, range(256)))})", 257),
        (" AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(9)), 512),
        (" OR ".join(f"x{n} = 1" for n in range(300)), 300),
    ],
)
def test_too_many_boxes(text: str, count: int) -> None:
    with pytest.raises(ConditionError) as refused:
        parse(text)
    assert refused.value.got.endswith(f"` makes {count} boxes")
    assert refused.value.expected == "at most 256 combinations of OR, IN and <> in one condition"
    assert refused.value.remedy == "Split it into several rules, or replace neighbouring constants by a range."


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        (f"x IN ({', '.join(map(str, range(256)))})", 256),
        (f"x NOT IN ({', '.join(map(str, range(255)))})", 256),
        (" AND ".join(f"x <> {n}" for n in range(50)), 51),
        (f"x IN ({', '.join(map(str, range(200)))}) AND y IN ({', '.join(map(str, range(200)))}) AND x = 3", 200),
        (" AND ".join(f"x > {n}" for n in range(3000)), 1),
    ],
)
def test_as_many_boxes_as_can_hold(text: str, boxes: int) -> None:
    condition = parse(text)
    assert isinstance(condition, Condition)
    assert len(condition.boxes) == boxes


@pytest.mark.parametrize(
    ("text", "size", "most"),
    [
        (" AND ".join(f"column_{n} > {n}" for n in range(10_000)), "227,775 characters", "100,000"),
        (f"x IN ({', '.join(map(str, range(100_000)))})", "688,895 characters", "100,000"),
        ("symbol = '" + "a" * 10_000_000 + "'", "10,000,011 characters", "100,000"),
        (" AND ".join(f"x>{n}" for n in range(5_000)), "14,999 names, keywords and constants", "10,000"),
    ],
    ids=["conjuncts", "list", "string", "words"],
)
def test_conditions_beyond_the_limits_are_refused_before_they_are_parsed(
    text: str, size: str, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.language.operands.Parser", None)  # which would fail
    with pytest.raises(ConditionError) as refused:
        parse(text)
    assert str(refused.value) == (
        f"The condition has {size}; expected at most {most}. "
        "Write several rules, or a table of rules for many of one form."
    )


@pytest.mark.parametrize(
    "text",
    [
        "symbol LIKE '%" + "a" * 90_000 + "'",
        f"x IN ({', '.join(map(str, range(9_000)))})",
        " OR\n".join(f"x{n} = 1" for n in range(2_000)),
        " AND ".join(f"{'x' * 50_000}{n} > 1" for n in range(1)) + " AND AVG(y) < z",
    ],
)
def test_refusals_quote_a_few_hundred_characters(text: str) -> None:
    with pytest.raises(ConditionError) as refused:
        parse(text)
    assert len(str(refused.value)) < 2_000
    assert max(map(len, str(refused.value).split("\n"))) < 600


def test_many_boxes_are_not_made_before_they_are_refused() -> None:
    lists = " AND ".join(f"{name} IN ({', '.join(map(str, range(200)))})" for name in "abc")
    with pytest.raises(ConditionError, match=r"makes more than 1,024 boxes; expected at most 256 combinations"):
        parse(lists)


def test_deep_nesting() -> None:
    with pytest.raises(ConditionError) as refused:
        parse("(" * 5000 + "x > 1" + ")" * 5000)
    assert str(refused.value) == (
        "The condition is nested too deeply; expected at most some hundred parentheses inside each other. "
        "Remove parentheses that change nothing."
    )


@pytest.mark.parametrize("text", [None, 5, b"x > 5"])
def test_what_is_no_text(text: object) -> None:
    with pytest.raises(ConditionError) as refused:
        parse(text)  # type: ignore[arg-type]
    assert str(refused.value) == f"{text!r} is no condition; expected a string. Write for example 'price > 40'."


BOUND: list[tuple[str, dict[str, ColumnType], str]] = [
    (
        "volume > 5",
        {"price": DOUBLE, "symbol": KEY},
        "`volume > 5` uses the column volume, which the schema does not have; expected one of price, symbol. "
        "Correct the name, or add the column to the schema.",
    ),
    (
        "prize > 5",
        {"price": DOUBLE},
        "`prize > 5` uses the column prize, which the schema does not have; expected one of price. Did you mean price?",
    ),
    (
        '"PRICE" > 5',
        {"price": DOUBLE},
        '`"PRICE" > 5` uses the column "PRICE", which the schema does not have; expected one of price. '
        "Correct the name, or add the column to the schema.",
    ),
    (
        "x > 5",
        {},
        "`x > 5` uses the column x, which the schema does not have; expected a schema with columns. "
        "Correct the name, or add the column to the schema.",
    ),
    (
        "price > 5",
        {"Price": DOUBLE, "PRICE": DOUBLE},
        "`price > 5` uses price, which may be Price or PRICE; expected a name that only one column has. "
        'Quote the name: "Price".',
    ),
    (
        "price = '40'",
        {"price": DOUBLE},
        "`price = '40'` does not fit price, which is double; expected a constant of type double. Write a number "
        "without quotes, "
        "a time as DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:59:59'.",
    ),
    (
        "symbol = 40",
        {"symbol": KEY},
        "`symbol = 40` does not fit symbol, which is a key; expected symbol compared with strings. "
        "Put the constant in single quotes, or give the column another type.",
    ),
    (
        "day > 5",
        {"day": DATE},
        "`day > 5` does not fit day, which is date; expected a date or timestamp. "
        "Compare with a constant of that type, or bind the column to the type of the constant.",
    ),
    (
        "flag = 1",
        {"flag": BOOLEAN},
        "`flag = 1` does not fit flag, which is boolean; expected TRUE or FALSE. "
        "Compare with a constant of that type, or bind the column to the type of the constant.",
    ),
    (
        "n > DATE '2024-01-01'",
        {"n": BIGINT},
        "`n > DATE '2024-01-01'` does not fit n, which is bigint; expected a number. "
        "Compare with a constant of that type, or bind the column to the type of the constant.",
    ),
    (
        "n > 2.1 AND n < 2.9",
        {"n": BIGINT},
        "`n > 2.1` and `n < 2.9` exclude each other; expected a condition that can hold. "
        "Remove one of the two parts, correct its constants, or join them with OR.",
    ),
    (
        "n = 2.5",
        {"n": BIGINT},
        "`n = 2.5` can never hold; expected a condition that can hold. Remove it, or correct its constants.",
    ),
    (
        "s = 'A' AND \"s\" = 'B'",
        {"s": KEY},
        "`s = 'A'` and `\"s\" = 'B'` exclude each other; expected a condition that can hold. "
        "Remove one of the two parts, correct its constants, or join them with OR.",
    ),
]


@pytest.mark.parametrize(("text", "types", "message"), BOUND, ids=[case[0] for case in BOUND])
def test_refusals_of_binding(text: str, types: dict[str, ColumnType], message: str) -> None:
    condition = parse(text)
    assert isinstance(condition, Condition)
    with pytest.raises(ConditionError) as refused:
        bind(condition, types)
    assert str(refused.value).split("\n")[:2] == [message, f"  {text}"]


BOUND_BANDS: list[tuple[str, dict[str, ColumnType], dict[str, ColumnType], str]] = [
    (
        "left.x < right.x",
        {"x": DOUBLE},
        {"x": BIGINT},
        "`left.x < right.x` compares left.x, which is double, with right.x, which is bigint; expected two columns of "
        "one type. "
        "Cast one of the two columns to the type of the other.",
    ),
    (
        "left.x < right.x",
        {"x": KEY},
        {"x": KEY},
        "`left.x < right.x` compares left.x with right.x, which are strings; expected numbers or times, which have a "
        "difference. Write left.name = right.name for strings that are to be equal; strings of two sides have no order "
        "here.",
    ),
    (
        "left.x < right.x AND left.s = right.s",
        {"x": DOUBLE, "s": KEY},
        {"x": DOUBLE, "s": BIGINT},
        "`left.x < right.x AND left.s = right.s` compares left.s, which is key, with right.s, which is bigint; "
        "expected two columns of one type. "
        "Cast one of the two columns to the type of the other.",
    ),
    (
        "left.t - right.t < 5",
        {"t": TIMESTAMP},
        {"t": TIMESTAMP},
        "`left.t - right.t < 5` does not fit columns of type timestamp; expected an interval between timestamps, days "
        "or "
        "an interval between dates, else a number. Write for example INTERVAL '5' SECOND between timestamps.",
    ),
    (
        "left.x < right.x AND left.s = 'A'",
        {"x": DOUBLE, "s": BIGINT},
        {"x": DOUBLE},
        "`left.x < right.x AND left.s = 'A'` compares s, which is bigint, with a string; expected a key. "
        "Write a number without quotes, a time as DATE '2024-12-31', or give the column another type.",
    ),
    (
        "left.x - right.x > 2.1 AND left.x - right.x < 2.9",
        {"x": BIGINT},
        {"x": BIGINT},
        "`left.x - right.x > 2.1` and `left.x - right.x < 2.9` exclude each other; "
        "expected a condition that can hold. Remove one of the two parts, correct its constants, or join them with OR.",
    ),
    (
        "left.x < right.y",
        {"x": BIGINT},
        {"x": BIGINT},
        "`left.x < right.y` uses the column y, which the schema does not have; expected one of x. "
        "Correct the name, or add the column to the schema.",
    ),
]


@pytest.mark.parametrize(("text", "left", "right", "message"), BOUND_BANDS, ids=[case[0] for case in BOUND_BANDS])
def test_refusals_of_binding_bands(
    text: str, left: dict[str, ColumnType], right: dict[str, ColumnType], message: str
) -> None:
    band = parse(text)
    assert isinstance(band, Band)
    with pytest.raises(ConditionError) as refused:
        bind_band(band, left, right)
    assert str(refused.value).split("\n")[0] == message
