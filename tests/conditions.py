"""Random SQL conditions over small columns of every type, for the tests of the language."""

from hypothesis import strategies as st

TYPES = {
    "i": "bigint",
    "d": "double",
    "n": "decimal(9,2)",
    "day": "date",
    "ts": "timestamp_ntz",
    "b": "boolean",
    "s": "string",
}
COMPARISONS = ["<", "<=", ">", ">=", "=", "<>", "!="]

WHOLE = st.integers(-3, 4).map(str)
NUMBERS = st.one_of(
    WHOLE,
    WHOLE,
    st.sampled_from(["0.5", "-1.5", "2.50", ".25", "0.1", "1e0", "25e-1", "-2.5E0", "9007199254740993"]),
    st.tuples(WHOLE, st.sampled_from(["+", "-", "*"]), WHOLE).map(" ".join),
    WHOLE.map(lambda n: f"({n} + 1) / 4"),
    WHOLE.map(lambda n: f"CAST({n} AS DOUBLE)"),
    st.integers(0, 4).map(lambda n: f"CAST('{n}' AS BIGINT)"),
)
DATES = st.one_of(
    st.integers(1, 5).map(lambda n: f"DATE '2024-01-0{n}'"),
    st.integers(1, 3).map(lambda n: f"DATE '2024-01-01' + {n}"),
    st.integers(1, 3).map(lambda n: f"CAST('2024-01-0{n}' AS DATE)"),
    st.just("DATE '2023-12-31' + INTERVAL '1' MONTH - INTERVAL '29' DAY"),
)
TIMESTAMPS = st.one_of(
    st.integers(1, 5).map(lambda n: f"TIMESTAMP '2024-01-0{n} 12:00:00'"),
    st.integers(0, 30).map(lambda n: f"TIMESTAMP '2024-01-03' - INTERVAL '{n}' HOUR"),
    st.just("TIMESTAMP '2024-01-01 00:00:00' + INTERVAL '1 day 12 hours'"),
    st.just("TIMESTAMP '2024-01-02 11:59:59.999999'"),
)
MOMENTS = st.one_of(DATES, TIMESTAMPS)
TRUTHS = st.sampled_from(["TRUE", "FALSE"])
STRINGS = st.sampled_from(["'A'", "'B'", "'b'", "'O''Neil'", "''"])
CONSTANTS = {"i": NUMBERS, "d": NUMBERS, "n": NUMBERS, "day": MOMENTS, "ts": MOMENTS, "b": TRUTHS}


@st.composite
def comparisons(draw: st.DrawFn, keys: bool) -> str:
    """One comparison; of strings only where they are not negated."""
    if keys and draw(st.integers(0, 4)) == 0:
        if draw(st.booleans()):
            return f"s IN ({', '.join(draw(st.lists(STRINGS, min_size=1, max_size=3)))})"
        return draw(st.sampled_from(["s = {}", "{} = s"])).format(draw(STRINGS))
    if draw(st.integers(0, 15)) == 0:
        return draw(st.sampled_from(["TRUE", "FALSE", "1 < 2", "2 <= 1", "b", "b"]))
    column = draw(st.sampled_from(list(CONSTANTS)))
    constants = CONSTANTS[column]
    negation = draw(st.sampled_from(["", "", "NOT "]))
    shape = draw(st.integers(0, 5))
    if shape == 0:
        return f"{column} {negation}BETWEEN {draw(constants)} AND {draw(constants)}"
    if shape == 1:
        return f"{column} {negation}IN ({', '.join(draw(st.lists(constants, min_size=1, max_size=4)))})"
    comparison, constant = draw(st.sampled_from(COMPARISONS)), draw(constants)
    return f"{column} {comparison} {constant}" if shape > 2 else f"{constant} {comparison} {column}"


@st.composite
def conditions(draw: st.DrawFn, keys: bool = True, depth: int = 2) -> str:
    """A condition, joined with and without parentheses, so that the precedence of AND, OR and NOT matters."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.integers(0, 2)) == 0:
            negated = draw(st.booleans())
            inner = draw(conditions(keys=keys and not negated, depth=depth - 1))
            parts.append(f"NOT ({inner})" if negated else f"({inner})")
        else:
            negated = draw(st.integers(0, 5)) == 0
            parts.append(("NOT " if negated else "") + draw(comparisons(keys=keys and not negated)))
    text = parts[0]
    for part in parts[1:]:
        text += draw(st.sampled_from([" AND ", " OR ", "\nand ", " or "])) + part
    return text


@st.composite
def band_conditions(draw: st.DrawFn) -> str:
    """A band on one column of both sides, with keys; DuckDB knows the sides as l and r."""
    column = draw(st.sampled_from(["x", "n", "day", "ts"]))
    distance = WHOLE if column == "day" else NUMBERS
    if column == "ts":
        distance = st.integers(-30, 30).map(lambda n: f"INTERVAL '{n}' HOUR")
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        one, other = draw(st.permutations([f"left.{column}", f"right.{column}"]))
        comparison, bound = draw(st.sampled_from(["<", "<=", ">", ">=", "="])), draw(distance)
        negation = draw(st.sampled_from(["", "", "NOT "])) if comparison != "=" else ""
        shape = draw(st.integers(0, 4))
        if shape == 0:
            parts.append(f"{one} - {other} BETWEEN {bound} AND {draw(distance)}")
        elif shape == 1 and column in ("x", "n"):
            parts.append(f"ABS({one} - {other} + 1) {draw(st.sampled_from(['<', '<=']))} {bound}")
        elif shape == 2:
            parts.append(f"{negation}{bound} {comparison} {one} - {other}")
        elif shape == 3 and column in ("x", "n"):
            parts.append(f"{negation}{one} - 1 {comparison} {other} + {bound}")
        else:
            parts.append(f"{negation}{one} - {other} {comparison} {bound}")
    if draw(st.booleans()):
        parts.append(draw(st.sampled_from(["left.s = right.s", "left.s = 'A'", "'B' = right.s"])))
    return " AND ".join(parts)


_OF_ONE_SIDE = [
    "{}.x > 1",
    "{}.x BETWEEN 0.5 AND 3",
    "{}.x NOT IN (1, 2.5)",
    "{}.x IS NULL",
    "NOT ({}.x > 2 AND {}.s = 'A')",
    "({}.x > 2 OR {}.s = 'B' OR {}.n < 0)",
    "{}.n * 2 - 1 > 3",
    "{}.n % 3 = 1",
    "{}.x < {}.n",
    "{}.s <> 'A'",
    "{}.s NOT LIKE 'A%'",
    "{}.s IS NOT NULL AND {}.n <> 2",
    "LOWER({}.s) >= 'b'",
    "EXTRACT(DAY FROM {}.day) IN (2, 3, 5)",
    "EXTRACT(HOUR FROM {}.ts) = 12",
    "{}.ts > TIMESTAMP '2024-01-03 00:00:00'",
    "COALESCE({}.x, 3) > 2",
]
_EXPRESSIONS = [
    "{}.x",
    "{}.x * 1.5",
    "({}.x + {}.n) / 2",
    "ABS({}.n - 2) * 0.5",
    "COALESCE({}.x, 1.5)",
    "GREATEST({}.x, 2)",
]
_EQUAL = [
    "left.s = right.s",
    "LOWER(left.s) = LOWER(right.s)",
    "EXTRACT(DAY FROM left.day) = EXTRACT(DAY FROM right.day)",
    "left.n * 2 = right.n",
    "left.s = SUBSTR(right.s, 1, 1)",
]


@st.composite
def sided_bands(draw: st.DrawFn) -> str:
    """A band whose sides are expressions, with conditions on either of them; what it computes, doubles hold exactly."""
    left, right = (draw(st.sampled_from(_EXPRESSIONS)).replace("{}", side) for side in ("left", "right"))
    low, high = draw(st.sampled_from([-2, -1, 0])), draw(st.sampled_from([0, 0.5, 3]))
    compared = draw(st.sampled_from(["<", "<=", ">", ">="]))
    difference = [f"{left} - {right} BETWEEN {low} AND {high}", f"{left} {compared} {right} + {low}"]
    parts = [draw(st.sampled_from(difference))]
    for side in ("left", "right"):
        chosen = draw(st.lists(st.sampled_from(_OF_ONE_SIDE), max_size=2, unique=True))
        negate = [draw(st.integers(0, 3)) == 0 for _ in chosen]
        own = [f"NOT ({each})" if no else each for each, no in zip(chosen, negate, strict=True)]
        if len(own) == 2 and draw(st.booleans()):
            own = [f"(({own[0]}) OR ({own[1]}))"]
        parts += [each.replace("{}", side) for each in own]
    parts += draw(st.lists(st.sampled_from(_EQUAL), max_size=1))
    return " AND ".join(draw(st.permutations(parts)))
