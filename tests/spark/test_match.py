"""match against Spark's own range join, batch against stream, and rules that change under a running stream."""

import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql.functions import expr

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.spark import match, prometheus_text, register
from fencepost.spark.plan.abilities import abilities_of
from tests.spark.needs import needs_4_1

pytestmark = pytest.mark.oldest
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "id bigint, symbol string, price double, amount decimal(12,2), at timestamp, day date, volume int"


def rows_of(n: int, seed: int) -> list[tuple[Any, ...]]:
    """Rows on a coarse grid, so that many lie on the ends of ranges; a tenth of all values are null."""
    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 40, (n, 6))
    missing = rng.random((n, 6)) < 0.1

    def row(i: int) -> tuple[Any, ...]:
        symbol, price, amount, at, day, volume = grid[i].tolist()
        values = (
            f"S{symbol % 5}",
            float("nan") if price == 39 else price / 4,
            Decimal(amount) / 4,
            EPOCH + timedelta(seconds=at),
            date(2024, 1, 1) + timedelta(days=day),
            volume,
        )
        return (i, *(None if gone else value for value, gone in zip(values, missing[i].tolist(), strict=True)))

    return [row(i) for i in range(n)]


def conditions_of(n: int, seed: int) -> list[str]:
    """Conditions over one or two columns, keyed or not, in the SQL that Spark understands as well."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(n):
        low, width, kind, key = rng.integers(0, 40), rng.integers(1, 9), rng.integers(0, 6), rng.integers(0, 8)
        high = low + width
        ranges = [
            f"price >= {low / 4} AND price < {high / 4}",
            f"price BETWEEN {low / 4} AND {high / 4} AND volume > {width * 3}",
            f"amount > {low / 4} AND amount <= {high / 4}",
            f"at >= TIMESTAMP '{EPOCH + timedelta(seconds=int(low)):%Y-%m-%d %H:%M:%S}' AND volume < {high}",
            f"day BETWEEN DATE '2024-01-{1 + low % 20:02}' AND DATE '2024-01-{2 + low % 20:02}' OR price > 9.5",
            f"volume IN ({low}, {high})",
        ][kind]
        texts.append(f"symbol = 'S{key}' AND ({ranges})" if key < 5 else ranges)
    return texts


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    return spark.createDataFrame(rows_of(400, 1), SCHEMA).repartition(3).cache()


@pytest.fixture(scope="module")
def rules() -> fp.Rules:
    return fp.Rules.from_dicts({"id": id * 7, "condition": text} for id, text in enumerate(conditions_of(60, 2)))


@pytest.fixture(scope="module")
def joined(spark: Any, events: Any, rules: fp.Rules) -> set[tuple[int, int]]:
    """What Spark itself finds. It orders NaN above all numbers and joins it; here NaN is null."""
    events.selectExpr("*", "nanvl(price, null) AS real").drop("price").withColumnRenamed(
        "real", "price"
    ).createOrReplaceTempView("facts")
    holds = ", ".join(f"IF({rule.condition}, {rule.id}, NULL)" for rule in rules)
    found = spark.sql(f"SELECT id, explode(array_compact(array({holds}))) FROM facts")  # noqa: S608
    return {(row[0], row[1]) for row in found.collect()}


def pairs(matched: Any) -> set[tuple[int, int]]:
    found = [(row["id"], rule) for row in matched.select("id", "rule_ids").collect() for rule in row["rule_ids"]]
    assert len(found) == len(set(found)), "each rule once per row"
    return set(found)


def test_match_finds_what_a_range_join_finds(events: Any, rules: fp.Rules, joined: set[tuple[int, int]]) -> None:
    matched = match(events, rules)
    assert len(joined) > 500
    assert pairs(matched) == joined
    assert matched.schema.fields[:-1] == events.schema.fields
    assert matched.schema["rule_ids"].dataType.simpleString() == "array<bigint>"
    untouched = matched.drop("rule_ids").exceptAll(events)
    assert untouched.isEmpty()
    assert matched.count() == 400


@pytest.mark.parametrize("bounds", ["[)", "(]"])
def test_a_table_of_keyed_ranges_matches_a_plain_range_join(spark: Any, events: Any, bounds: str) -> None:
    rng = np.random.default_rng(3)
    low = rng.integers(0, 40, 300) / 4
    table = {
        "rule_id": rng.permutation(300) - 150,
        "symbol": [None if key == 5 else f"S{key}" for key in rng.integers(0, 6, 300)],
        "lower": [None if bound == 0 else bound for bound in low.tolist()],
        "upper": (low + rng.integers(1, 8, 300) / 4).tolist(),
    }
    rules = fp.Rules.from_table(table, equal=["symbol"], ranges={"price": ("lower", "upper")}, bounds=bounds)
    rows = list(zip(*(np.array(column, object).tolist() for column in table.values()), strict=True))
    ranges = spark.createDataFrame(rows, "rule_id bigint, key string, lower double, upper double")
    above, below = {"[)": (">=", "<"), "(]": (">", "<=")}[bounds]
    within = f"(lower IS NULL OR price {above} lower) AND price {below} upper AND (key IS NULL OR key = symbol)"
    real = events.where("price IS NOT NULL AND NOT isnan(price)")
    plain = {tuple(row) for row in real.join(ranges, on=expr(within)).select("id", "rule_id").collect()}
    assert pairs(match(events, rules)) == plain
    assert pairs(match(events.select("price", "symbol", "id"), rules)) == plain


def test_a_snapshot_and_a_directory_answer_as_rules_do(
    events: Any, rules: fp.Rules, joined: set[tuple[int, int]], tmp_path: Path
) -> None:
    rules.publish(tmp_path / "published", events.schema)
    assert pairs(match(events, rules.compile(events.schema))) == joined
    assert pairs(match(events, tmp_path / "published")) == joined
    assert pairs(match(events, f"file://{tmp_path}/published")) == joined


def test_exploded_rows_are_the_arrays(events: Any, rules: fp.Rules, joined: set[tuple[int, int]]) -> None:
    exploded = match(events, rules, explode=True)
    assert exploded.columns == [*events.columns, "rule_id"]
    assert {(row["id"], row["rule_id"]) for row in exploded.collect()} == joined
    assert exploded.count() == len(joined)


def narrow_rules() -> fp.Rules:
    rules = fp.Rules()
    rules.add(1, "symbol = 'S1' AND price < 5")
    rules.add(2, "price >= 2.5")
    rules.add(3, "symbol IN ('S2', 'S3')")
    return rules


@pytest.mark.parametrize("explode", [False, True])
@pytest.mark.parametrize("observe", [None, "narrow"])
def test_narrow_and_wide_rows_get_the_same_answer(events: Any, explode: bool, observe: str | None) -> None:
    narrow = events.select("id", "symbol", "price")
    wide = narrow.selectExpr("*", "1 AS a", "array(id) AS b", "struct(symbol) AS `c.d`", "2 AS e")
    both = [match(frame, narrow_rules(), explode, observe=observe) for frame in (narrow, wide)]
    plans = [frame._jdf.queryExecution().toString() for frame in both]
    beside = abilities_of(events.sparkSession).arrow_functions
    assert ["MapInArrow" in plan for plan in plans] == [True, not beside]
    assert ["ArrowEvalPython" in plan for plan in plans] == [False, beside]
    assert both[1].columns == [*wide.columns, "rule_id" if explode else "rule_ids"]
    answer = both[0].columns[-1]
    found = [sorted((row["id"], str(row[answer])) for row in frame.collect()) for frame in both]
    assert found[0] == found[1]
    assert found[0]


@needs_4_1
def test_only_the_needed_columns_leave_the_jvm_once(events: Any) -> None:
    matched = match(events, narrow_rules()).where("size(rule_ids) > 0 AND rule_ids[0] > 1")
    plan = matched._jdf.queryExecution().executedPlan().toString()
    assert plan.count("fencepost_match(price#") == 1, "a filter on the answer does not ask again"
    assert matched.where("array_contains(rule_ids, 3)").count() == events.where("symbol IN ('S2', 'S3')").count()


def test_rules_without_columns_and_no_rows(spark: Any, events: Any) -> None:
    rules = fp.Rules()
    rules.add(5, "1 = 1")
    for frame in (events, events.select("id")):
        assert pairs(match(frame, rules)) == {(id, 5) for id in range(400)}
    assert match(spark.createDataFrame([], "price double"), rules).collect() == []


def test_names_match_without_case_and_may_need_quotes(spark: Any) -> None:
    frame = spark.createDataFrame([(1.0, "x", 1)], "`Price` double, `the.symbol` string, `a``b` int")
    rules = fp.Rules()
    rules.add(1, "PRICE = 1 AND \"the.symbol\" = 'x'")
    assert match(frame, rules).first()["rule_ids"] == [1]
    assert match(frame.selectExpr("*", "array(1) AS wide"), rules, explode=True).first()["rule_id"] == 1


def test_metadata_such_as_a_watermark_is_kept(spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.schema("id bigint, price double, at timestamp").parquet(str(tmp_path))
    marked = stream.withWatermark("at", "10 seconds")
    matched = match(marked, narrow_price_rules())
    assert matched.schema["at"].metadata == marked.schema["at"].metadata
    assert matched.schema["at"].metadata


# -- refusals at plan time -----------------------------------------------------------------------------------


def narrow_price_rules(high: float = 5) -> fp.Rules:
    rules = fp.Rules()
    rules.add(12, f"price < {high}")
    return rules


def frame_of(spark: Any, schema: str) -> Any:
    return spark.createDataFrame([], schema)


@pytest.mark.parametrize("kind", ["rules", "snapshot", "directory"])
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("cost double", r"price"),
        ("price string", r"price"),
        ("price array<double>", r"price"),
        ("Price double, PRICE double", r"Price (and|or) PRICE"),
    ],
)
def test_a_missing_or_mistyped_column_is_refused_with_the_rule(
    spark: Any, tmp_path: Path, kind: str, schema: str, message: str
) -> None:
    rules: Any = narrow_price_rules()
    if kind == "directory":
        rules.publish(tmp_path)
    given = {"rules": rules, "snapshot": rules.compile(), "directory": tmp_path}[kind]
    spark.conf.set("spark.sql.caseSensitive", "true")
    frame = frame_of(spark, schema)
    spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(FencepostError, match=message) as refused:
        match(frame, given)
    assert "PRICE" in message or "rule 12" in str(refused.value)


@pytest.mark.parametrize(
    ("bound", "accepted", "refused"),
    [
        ("double", ["double", "float", "int", "smallint"], ["bigint", "decimal(9,2)", "date", "string"]),
        ("bigint", ["bigint", "int", "decimal(10,0)"], ["double", "decimal(10,1)", "boolean"]),
        ("decimal(9,2)", ["decimal(9,2)", "decimal(8,1)", "smallint"], ["decimal(9,3)", "decimal(9,1)", "int"]),
    ],
)
def test_only_exact_conversions_are_planned(spark: Any, bound: str, accepted: list[str], refused: list[str]) -> None:
    snapshot = narrow_price_rules().compile({"price": bound})
    for type_ in accepted:
        match(frame_of(spark, f"price {type_}"), snapshot)
    for type_ in refused:
        with pytest.raises(FencepostError, match=r"price is .*converts to it exactly, since rule 12 .*Cast the column"):
            match(frame_of(spark, f"price {type_}"), snapshot)


def test_other_refusals(spark: Any, tmp_path: Path) -> None:
    frame = frame_of(spark, "price double")
    with pytest.raises(FencepostError, match=r"A frame with a column Rule_IDs; .*Rename"):
        match(frame_of(spark, "price double, Rule_IDs int"), narrow_price_rules())
    with pytest.raises(FencepostError, match=r"dict as rules; expected Rules, a Snapshot"):
        match(frame, {})
    with pytest.raises(FencepostError, match=r"without any version; expected a published version"):
        match(frame, tmp_path / "nowhere")
    with pytest.raises(FencepostError, match=r"nosuch://rules \(.*\); expected a URL that fsspec knows"):
        match(frame, "nosuch://rules")
    narrow_price_rules().publish(tmp_path / "wider", {"price": "double", "later": "double"})
    with pytest.raises(FencepostError, match=r"without the column later; .*since the schema of the published"):
        match(frame, tmp_path / "wider")


def test_a_corrupt_directory_is_refused_at_the_start(spark: Any, tmp_path: Path) -> None:
    narrow_price_rules().publish(tmp_path)
    arrays = tmp_path / "00000001" / "arrays.bin"
    arrays.write_bytes(arrays.read_bytes()[:-64])
    with pytest.raises(FencepostError, match=r"arrays.bin with .*Save or publish the snapshot again"):
        match(frame_of(spark, "price double"), tmp_path)


# -- streams -------------------------------------------------------------------------------------------------


class Stream:
    """A stream of files, one per micro-batch, matched into a table of files."""

    def __init__(self, spark: Any, scratch: Path, schema: str) -> None:
        self.spark, self.scratch, self.schema = spark, scratch, schema
        self.written = 0
        (scratch / "in").mkdir(parents=True)

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        frame = self.spark.createDataFrame(rows, self.schema).repartition(2)
        self.written += 1
        frame.coalesce(1).write.mode("append").json(f"{self.scratch}/in")

    def frame(self) -> Any:
        return self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).json(f"{self.scratch}/in")

    def run(self, matched: Any, each: Callable[[Any, int], None] | None = None) -> Any:
        """Process what is there, and stop; the checkpoint remembers."""
        writer = matched.writeStream.option("checkpointLocation", f"{self.scratch}/checkpoint")
        writer = writer.trigger(availableNow=True)
        if each is None:
            query = writer.format("parquet").option("path", f"{self.scratch}/out").start()
        else:
            query = writer.foreachBatch(each).start()
        query.awaitTermination()
        return query

    def out(self) -> Any:
        return self.spark.read.parquet(f"{self.scratch}/out")


@pytest.mark.parametrize("wide", [False, True])
def test_a_stream_finds_what_a_batch_finds(spark: Any, tmp_path: Path, wide: bool) -> None:
    rows = rows_of(200, 5)
    schema = SCHEMA if wide else "id bigint, symbol string, price double"
    if not wide:
        rows = [row[:3] for row in rows]
    rows = [row if row[2] is None or row[2] == row[2] else (*row[:2], None, *row[3:]) for row in rows]
    stream = Stream(spark, tmp_path, schema)
    for start in (0, 100):
        stream.write(rows[start : start + 100])
    query = stream.run(match(stream.frame(), narrow_rules(), observe="match"))
    batch = match(spark.createDataFrame(rows, schema), narrow_rules())
    assert pairs(stream.out()) == pairs(batch)
    reports = [report for report in query.recentProgress if report.numInputRows]
    assert len(reports) == 2
    text = prometheus_text(reports)
    own = f'query="{query.id}",operator="match"'
    assert f"fencepost_rows_total{{{own}}} 200\n" in text
    assert (
        f'fencepost_events_total{{query="{query.id}",operator="match",detect="inside"}} {len(pairs(batch))}\n' in text
    )
    unobserved = sum(row[1] is None and row[2] is None for row in rows)
    assert f"fencepost_null_total{{{own}}} {unobserved}\n" in text
    assert f"fencepost_rules{{{own}}} 3\n" in text
    assert "fencepost_match_seconds" in text


def versions_used(stream: Stream) -> dict[int, list[int]]:
    """By id, the rules that were found; rule v belongs to version v alone."""
    return {row["id"]: row["rule_ids"] for row in stream.out().collect()}


def publish_always(directory: Path, id: int) -> None:
    """A version in which only that rule holds, for every price."""
    rules = fp.Rules()
    rules.add(id, "price >= 0")
    rules.publish(directory)


def test_a_change_reaches_the_next_micro_batch(spark: Any, tmp_path: Path) -> None:
    published = tmp_path / "published"
    stream = Stream(spark, tmp_path, "id bigint, price double")
    publish_always(published, 1)
    matched = match(stream.frame(), published)
    stream.write([(number, 1.0) for number in range(10)])
    stream.run(matched)
    publish_always(published, 2)
    stream.write([(number, 1.0) for number in range(10, 20)])
    stream.run(matched)
    assert versions_used(stream) == {number: [1 if number < 10 else 2] for number in range(20)}
    assert VersionDirectory(published).leased() == {1, 2}
    assert len(list((published / "claims").glob("*/*"))) == 2


def test_a_replayed_micro_batch_sees_the_version_it_saw(spark: Any, tmp_path: Path) -> None:
    published = tmp_path / "published"
    stream = Stream(spark, tmp_path, "id bigint, price double")
    publish_always(published, 1)
    seen: list[tuple[int, list[int]]] = []

    def fail_after_matching(batch: Any, number: int) -> None:
        seen.append((number, sorted({rule for row in batch.collect() for rule in row["rule_ids"]})))
        if len(seen) == 1:
            raise RuntimeError("the driver dies here")

    stream.write([(number, 1.0) for number in range(10)])
    with pytest.raises(Exception, match="the driver dies here"):
        stream.run(match(stream.frame(), published), fail_after_matching)
    publish_always(published, 2)
    stream.write([(number, 1.0) for number in range(10, 20)])
    stream.run(match(stream.frame(), published), fail_after_matching)
    assert seen == [(0, [1]), (0, [1]), (1, [2])]


def test_the_last_good_version_stays_in_force(spark: Any, tmp_path: Path) -> None:
    published = tmp_path / "published"
    stream = Stream(spark, tmp_path, "id bigint, price double")
    publish_always(published, 1)
    matched = match(stream.frame(), published, observe="match")
    publish_always(published, 2)
    arrays = published / "00000002" / "arrays.bin"
    arrays.write_bytes(arrays.read_bytes()[:-64] + b"\1" * 64)
    stream.write([(1, 1.0)])
    query = stream.run(matched)
    assert versions_used(stream) == {1: [1]}
    assert 'fencepost_rejected_versions{query="' in prometheus_text(query.lastProgress)
    observed = query.recentProgress[0].observedMetrics["match"]
    assert (observed["version"], observed["rejected"]) == (1, 1)


def test_a_lost_version_stops_the_query_and_says_why(spark: Any, tmp_path: Path) -> None:
    published = tmp_path / "published"
    stream = Stream(spark, tmp_path, "id bigint, price double")
    publish_always(published, 1)
    stream.write([(1, 1.0)])
    matched = match(stream.frame(), published)
    for file in published.glob("*.published"):
        file.unlink()
    with pytest.raises(Exception, match=r"no usable version"):
        stream.run(matched)


# -- SQL -----------------------------------------------------------------------------------------------------


def test_the_sql_function_answers_like_match(spark: Any, events: Any, tmp_path: Path) -> None:
    events.createOrReplaceTempView("events")
    assert register(spark, narrow_rules()) == ("price", "symbol")
    expected = pairs(match(events, narrow_rules()))
    assert pairs(spark.sql("SELECT *, fencepost_match(price, symbol) AS rule_ids FROM events")) == expected
    assert register(spark, narrow_rules(), "which", ["symbol", "price"]) == ("symbol", "price")
    exploded = spark.sql("SELECT id, rule_id FROM events LATERAL VIEW explode(which(symbol, price)) AS rule_id")
    assert {tuple(row) for row in exploded.collect()} == expected
    narrow_rules().publish(tmp_path)
    register(spark, tmp_path, "published")
    assert pairs(spark.sql("SELECT *, published(price, symbol) AS rule_ids FROM events")) == expected
    with pytest.raises(FencepostError, match=r"columns=\['price'\]; expected each of price, symbol once"):
        register(spark, narrow_rules(), columns=["price"])


def test_nothing_warns_on_a_tuned_session(spark: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        match(frame_of(spark, "price double"), narrow_price_rules())
