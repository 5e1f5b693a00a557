"""match as a function of Spark SQL."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.errors import FencepostError
from fencepost.spark.match import column_function
from fencepost.spark.plan.columns import Column
from fencepost.spark.plan.rules import plan_rules
from fencepost.spark.session import warn_untuned


class MatchFunction(NamedTuple):
    """The rules as a function of columns."""

    function: Any
    """Gives ``array<bigint>``."""
    columns: tuple[str, ...]
    """What it takes, in order."""


def match_function(
    spark: Any, rules: Any, columns: Sequence[str] | None = None, *, schema: Any = None
) -> MatchFunction:
    """The rules as a function of columns, for plans that may not be analysed while they are built.

    Such are the query functions of Spark Declarative Pipelines: make the function outside of them.

    Args:
        spark: the session that will use the function.
        rules: as in `register`, and likewise the rest.
        columns: as in `register`.
        schema: as in `register`.
    """
    warn_untuned(spark)
    plan = plan_rules(spark, rules, schema)
    takes = tuple(sorted(plan.needed)) if columns is None else tuple(columns)
    if sorted(takes) != sorted(plan.needed):
        raise FencepostError(
            f"columns={list(takes)}", f"each of {', '.join(sorted(plan.needed))} once", "Name the columns of the rules."
        )
    return MatchFunction(column_function(spark, plan, [Column(column, column) for column in takes]), takes)


def register(
    spark: Any, rules: Any, name: str = "fencepost_match", columns: Sequence[str] | None = None, *, schema: Any = None
) -> tuple[str, ...]:
    """Make the rules a SQL function from columns to ``array<bigint>``; returns the columns it takes, in order.

    ``SELECT *, fencepost_match(price, symbol) AS rule_ids FROM ticks`` gives lists, and
    ``SELECT ticks.*, rule_id FROM ticks LATERAL VIEW explode(fencepost_match(price, symbol)) AS rule_id`` one row per
    pair. In a streaming query the function follows a directory like `match`; elsewhere it keeps the version that was
    the newest when it was registered.

    Args:
        spark: the session that will know the function.
        rules: as in `match`; `Rules` are bound to `schema`.
        name: of the function.
        columns: the order of the arguments, any names of the rules' columns; without it, they are in alphabetic order.
        schema: the types that `Rules` are bound to, as in `Rules.compile`; an argument of another type is refused
            when the query runs, unless it converts exactly.
    """
    made = match_function(spark, rules, columns, schema=schema)
    spark.udf.register(name, made.function)
    return made.columns
